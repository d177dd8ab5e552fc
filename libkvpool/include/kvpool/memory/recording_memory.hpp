// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/memory/page_memory.hpp>

#include <memory>
#include <string_view>
#include <vector>

namespace kvpool {

/// What a `MemoryCall` asked for.
enum class MemoryOperation {
  kReserve,   ///< addresses
  kCommit,    ///< memory behind addresses
  kDecommit,  ///< memory given back, addresses kept
  kRelease,   ///< everything given back
};

/// Lower-case name, such as `commit`.
[[nodiscard]] std::string_view to_string(MemoryOperation operation) noexcept;

/// One call, as it was made.
struct MemoryCall {
  /// What it asked for.
  MemoryOperation operation = MemoryOperation::kReserve;
  /// The region; of a `reserve` the one returned, or a default one if it failed.
  Region region{};
  /// Offset of a commit or decommit; 0 for others.
  Bytes offset{};
  /// Size of a reserve, commit or decommit; of a release that of the region.
  Bytes size{};
  /// Whether it succeeded.
  bool succeeded = true;

  /// Field by field.
  friend bool operator==(const MemoryCall&, const MemoryCall&) = default;
};

/// Another memory that writes down each call, for tests and for replay.
class RecordingMemory {
 public:
  /// Passes all calls to `upstream`.
  explicit RecordingMemory(AnyPageMemory upstream);

  /// See `PageMemory`.
  Result<Region> reserve(Bytes size);
  /// See `PageMemory`.
  Result<void> commit(const Region& region, Bytes offset, Bytes size);
  /// See `PageMemory`.
  Result<void> decommit(const Region& region, Bytes offset, Bytes size);
  /// See `PageMemory`.
  Result<void> release(const Region& region);
  /// That of the upstream.
  [[nodiscard]] Bytes granularity() const;
  /// That of the upstream.
  [[nodiscard]] Bytes held() const;

  /// All calls made through this handle and its copies, in order.
  [[nodiscard]] std::vector<MemoryCall> calls() const;
  /// Forgets the calls made so far.
  void clear();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

static_assert(PageMemory<RecordingMemory>);

}  // namespace kvpool
