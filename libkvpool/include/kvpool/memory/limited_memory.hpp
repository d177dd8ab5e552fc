// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/memory/page_memory.hpp>

#include <memory>

namespace kvpool {

/// Another memory with a cap on what is committed through this handle and its copies. What others
/// commit from the same upstream is not counted, and neither are reserved addresses.
class LimitedMemory {
 public:
  /// Passes calls to `upstream` while at most `limit` is committed. A limit below 0 counts as 0.
  LimitedMemory(AnyPageMemory upstream, Bytes limit);

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
  /// Committed through this handle and its copies.
  [[nodiscard]] Bytes held() const;
  /// The cap.
  [[nodiscard]] Bytes limit() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

static_assert(PageMemory<LimitedMemory>);

}  // namespace kvpool
