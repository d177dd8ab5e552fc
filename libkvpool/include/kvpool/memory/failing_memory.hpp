// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/memory/page_memory.hpp>

#include <cstdint>
#include <memory>
#include <optional>

namespace kvpool {

/// Which calls of a `FailingMemory` fail. Calls are counted from 1, each kind by itself.
struct FailurePlan {
  /// The call of `reserve` that fails, or none.
  std::optional<std::int64_t> reserve = std::nullopt;
  /// The call of `commit` that fails, or none.
  std::optional<std::int64_t> commit = std::nullopt;
  /// The call of `decommit` that fails, or none.
  std::optional<std::int64_t> decommit = std::nullopt;
  /// The code of the failure.
  ErrorCode code = ErrorCode::kExhausted;

  /// Field by field.
  friend bool operator==(const FailurePlan&, const FailurePlan&) = default;
};

/// Another memory that fails once at a chosen call, for tests of what happens then. The failing
/// call does not reach the upstream; the ones before and after it do.
class FailingMemory {
 public:
  /// Passes calls to `upstream`, except those that `plan` names.
  FailingMemory(AnyPageMemory upstream, const FailurePlan& plan);

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

 private:
  struct State;
  std::shared_ptr<State> state_;
};

static_assert(PageMemory<FailingMemory>);

}  // namespace kvpool
