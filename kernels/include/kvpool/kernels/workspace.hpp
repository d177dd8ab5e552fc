// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/kernel_capability.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/memory/page_memory.hpp>

#include <cstdint>
#include <functional>

namespace kvpool::kernels {

/// Bytes of workspace with which every bundled kernel runs this shape. Kernels of one stream share
/// it: they run one after the other.
[[nodiscard]] Bytes required_workspace(const WorkspaceShape& shape);

/// Requests for which TensorRT-LLM sizes its generation buffers when a block drafter's tokens run
/// as decode rows, one request a token: batches up to `limit` do, larger ones do not (#20373).
/// @param max_batch largest batch, in requests
/// @param block tokens of the drafter's block
/// @param limit largest batch that runs as decode rows
/// @return max(max_batch, min(max_batch, limit) * block); `kInvalidArgument` for a negative
/// argument,
///   `kOutOfRange` when the product does not fit into 64 bits
[[nodiscard]] Result<std::int64_t> decode_rows_requests(std::int64_t max_batch, std::int64_t block,
                                                        std::int64_t limit);

/// Tells whether the work of a workspace's kernels is being captured into a graph.
using CaptureQuery = std::function<Result<bool>()>;

/// The query of work that no graph captures: the host's.
[[nodiscard]] inline Result<bool> never_capturing() { return false; }

/// Scratch memory that kernels of one stream share. It is sized for the largest shape before
/// streams are captured: a captured launch keeps the address, so from the first use inside a
/// capture on the workspace neither grows nor moves, unless it was empty then. Move-only; not
/// synchronised.
///
/// On a GPU, `stream_workspace` of `<kvpool/kernels/workspace_cuda.hpp>` makes one that asks its
/// stream.
class Workspace {
 public:
  /// An empty workspace.
  /// @param memory where it lives
  /// @param is_capturing asked on every use; on the host `never_capturing`
  Workspace(AnyPageMemory memory, CaptureQuery is_capturing);
  /// The moved-from workspace is empty.
  Workspace(Workspace&& other) noexcept;
  /// Releases what this one holds.
  Workspace& operator=(Workspace&& other) noexcept;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace();

  /// At least `size` bytes, for the next launch; what stood in them is lost when they grow. Takes
  /// memory only if there is too little, and gives the old back afterwards: no launch that is still
  /// running may use it.
  /// @return the whole workspace, whose address is 0 while it is empty; `kExhausted` when it would
  ///   have to grow while or after a stream was captured with it, or the memory has no more;
  ///   `kInvalidArgument` for a negative size and for a workspace without a query; what the query
  ///   returns when it fails. A failed call changes nothing.
  [[nodiscard]] Result<Region> require(Bytes size);

  /// Bytes that it holds, in whole granules of its memory.
  [[nodiscard]] Bytes held() const noexcept { return region_.size; }

  /// Gives the memory back, and forgets captures: their graphs may not run any more.
  void reset() noexcept;

 private:
  AnyPageMemory memory_;
  CaptureQuery is_capturing_;
  Region region_{};
  bool is_captured_ = false;
};

}  // namespace kvpool::kernels
