// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/page_table_view.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/kernels/attention_params.hpp>
#include <kvpool/kernels/packed_attention.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

/// How a layer's block of query tokens is run. Packed attention is the default for all. The two
/// classic forms of engines, one row for each query token and one pass without a split, are there
/// so that a published comparison can be repeated; both are run by packed attention's kernel. A
/// path is chosen on the host from the batch, and so is fixed within a captured graph.
namespace kvpool::kernels {

/// One way to run a layer.
enum class AttentionPath {
  kPacked,      ///< all query tokens in one pass, keys divided among all thread blocks
  kDecodeRows,  ///< every query token a request of its own: the keys are read once for each
  kContext,     ///< one pass, every sequence in one piece
};

/// Stable lower-case name: `packed`, `decode_rows`, `context`.
[[nodiscard]] std::string_view to_string(AttentionPath path) noexcept;

/// Which of the paths an engine wants.
enum class PathPolicy {
  kPacked,   ///< packed attention for every layer
  kClassic,  ///< the forms that TensorRT-LLM #20373 compares
};

/// Up to which batch a block without causal mask and window runs as decode rows.
struct PathGate {
  std::string_view architecture{};  ///< such as `sm_90`
  std::int32_t max_kv_heads = 0;    ///< of one rank, the most for which it holds; 0: any number
  std::int32_t limit = 0;           ///< largest batch, in requests; above it context runs
  bool is_measured = false;         ///< whether these two forms were measured on this architecture
  std::string_view evidence{};      ///< what it rests on
};

/// All gates. Of an architecture those for fewer KV heads come first.
[[nodiscard]] std::span<const PathGate> path_gates() noexcept;

/// The gate of an architecture for so many KV heads of one rank; none where nothing is known.
[[nodiscard]] std::optional<PathGate> find_path_gate(std::string_view architecture,
                                                     std::int64_t kv_heads) noexcept;

/// The path of a layer under a policy. Classic: a causal layer is one packed pass at any batch, and
/// so is one with a window, which neither classic form runs; without both it is decode rows up to
/// the limit, and context above.
/// @param batch requests of the step, padded ones included
/// @param limit `PathGate::limit`, or what the engine has set instead
/// @return `kInvalidArgument` for a negative batch or limit
[[nodiscard]] Result<AttentionPath> choose_path(PathPolicy policy, const KeyMask& mask,
                                                std::int64_t batch, std::int64_t limit);

/// A path, and what a step of it needs.
struct PathStep {
  /// Which.
  AttentionPath path = AttentionPath::kPacked;
  /// Decode rows: the table with a row for each query token, as `DecodeRowParams` makes it.
  PageTableView rows{};
  /// Context: longest sequence that the batch can have.
  std::int64_t max_length = 0;
};

/// What a batch is sized for on a path.
[[nodiscard]] PackedShape on_path(const PathStep& step, PackedShape shape) noexcept;
/// The plan of a batch on a path.
[[nodiscard]] PackedPlanParams on_path(const PathStep& step, PackedPlanParams params) noexcept;
/// A layer of a batch on a path. Its plan, counters and workspace stay: they are the path's
/// already.
[[nodiscard]] AttentionParams on_path(const PathStep& step, AttentionParams params) noexcept;
/// How packed attention runs a path.
[[nodiscard]] PackedOptions options_on_path(const PathStep& step) noexcept;

/// Whether a path runs this layer: the classic forms take neither a causal mask nor a window, and
/// decode rows need their table.
/// @return `kUnsupported` with `path` as key, `kInvalidArgument` with the field
[[nodiscard]] Result<void> check_path(const PathStep& step, const AttentionParams& params);

/// Launches of each path: what an engine's test compares with what it expects, so that no path
/// changes in silence.
struct PathCalls {
  std::int64_t packed = 0;       ///< of `kPacked`
  std::int64_t decode_rows = 0;  ///< of `kDecodeRows`
  std::int64_t context = 0;      ///< of `kContext`

  /// Field by field.
  friend bool operator==(const PathCalls&, const PathCalls&) = default;
};

/// Enqueues packed attention.
using PackedLaunch = std::function<Result<void>(const AttentionParams&, const PackedOptions&)>;

/// Runs a layer on a path by `launch`, and counts it if it was enqueued. `params` are the batch's,
/// as for packed attention, but for a `split` and workspace of the path.
/// @return what `check_path` says, or `launch`
[[nodiscard]] Result<void> run_on_path(const PathStep& step, const AttentionParams& params,
                                       PathCalls& calls, const PackedLaunch& launch);

}  // namespace kvpool::kernels
