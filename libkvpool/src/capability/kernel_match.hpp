// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/kernel_capability.hpp>

#include <string>

namespace kvpool {

/// The first reason for which a row would not run a computation.
enum class Mismatch {
  kNone,
  kUser,
  kModelFamily,
  kArchitecture,
  kCacheFamily,
  kHeadDim,
  kExcludedHeadDim,
  kExactHeadRatio,
  kMaxHeadRatio,
  kKvDtype,
  kMask,
  kBatch,
  kQueryTokens,
};

/// `why_not` without its text: allocates nothing.
[[nodiscard]] Mismatch find_mismatch(const KernelCapability& row,
                                     const KernelQuery& query) noexcept;

/// The text of a mismatch; empty for `kNone`.
[[nodiscard]] std::string describe_mismatch(Mismatch mismatch, const KernelCapability& row,
                                            const KernelQuery& query);

/// True when `row` matches only because the query's architecture is not known.
[[nodiscard]] inline bool hangs_on_architecture(const KernelCapability& row,
                                                const KernelQuery& query) noexcept {
  return query.architecture.empty() && !row.limits.architectures.empty();
}

/// `, if the GPU is sm_100 or sm_103` for a row that `hangs_on_architecture`, else nothing.
[[nodiscard]] std::string if_the_gpu_is(const KernelCapability& row, const KernelQuery& query);

/// True if `user` is among those whom `row` serves.
[[nodiscard]] bool serves(const KernelCapability& row, PoolUser user) noexcept;

/// Items joined for people: `a`, `a or b`, `a, b or c`.
[[nodiscard]] std::string join_alternatives(const std::vector<std::string>& items,
                                            std::string_view last_word = "or");

}  // namespace kvpool
