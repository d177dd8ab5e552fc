// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// What the numbers and names of a plan document's `request` can be.
#pragma once

#include <kvpool/plan/pool_plan.hpp>

#include "json_reader.hpp"

#include <concepts>
#include <cstdint>
#include <limits>
#include <span>

namespace kvpool::io::detail {

/// Domains of the request's numbers: those that the planner accepts, and for a model those of the
/// config reader, or wider where no product can leave 64 bits.
namespace limits {
inline constexpr Limits kAny{std::numeric_limits<std::int64_t>::min(),
                             std::numeric_limits<std::int64_t>::max()};
inline constexpr Limits kRanks{1, 65'536};
inline constexpr Limits kHeadsOrNone{0, 65'536};
inline constexpr Limits kElements{0, std::int64_t{1} << 50};
inline constexpr Limits kStateElements{0, std::int64_t{1} << 40};
inline constexpr Limits kTokensOrNone{0, std::int64_t{1} << 40};
inline constexpr Limits kPage{0, 65'536};
inline constexpr Limits kSequences{0, std::int64_t{1} << 31};
inline constexpr Limits kCount{0, 65'536};
inline constexpr Limits kStateSlots{1, 131'072};
inline constexpr Limits kBytes{0, std::int64_t{1} << 60};
inline constexpr Limits kGranule{1, std::int64_t{1} << 60};
inline constexpr Limits kMillion{0, 1'000'000};
}  // namespace limits

/// All values of an enumeration that has a text form.
template <typename E>
[[nodiscard]] std::span<const E> all_values() noexcept {
  if constexpr (std::same_as<E, KvDtype>) {
    return all_kv_dtypes();
  } else if constexpr (std::same_as<E, SpanKind>) {
    static constexpr E kAll[] = {E::kFull, E::kSlidingWindow, E::kChunked, E::kCross};
    return kAll;
  } else if constexpr (std::same_as<E, StateFamily>) {
    static constexpr E kAll[] = {E::kMamba2, E::kGatedDeltaNet, E::kKimiDelta, E::kShortConv};
    return kAll;
  } else if constexpr (std::same_as<E, DrafterKind>) {
    static constexpr E kAll[] = {E::kMtp,    E::kEagle3,         E::kDflash,      E::kDspark,
                                 E::kDomino, E::kPeagle,         E::kDraftTarget, E::kPard,
                                 E::kNgram,  E::kSuffixAutomaton};
    return kAll;
  } else if constexpr (std::same_as<E, DraftPoolKind>) {
    static constexpr E kAll[] = {E::kOwnPool, E::kTargetLayers, E::kPrivateArena, E::kNone};
    return kAll;
  } else if constexpr (std::same_as<E, WeightPlace>) {
    static constexpr E kAll[] = {E::kEmbedding, E::kLayer, E::kHead, E::kNextToken, E::kEncoder};
    return kAll;
  } else if constexpr (std::same_as<E, WeightSplit>) {
    static constexpr E kAll[] = {E::kReplicated, E::kAttention, E::kTensor, E::kExperts,
                                 E::kUnsure};
    return kAll;
  } else if constexpr (std::same_as<E, KernelSet>) {
    static constexpr E kAll[] = {E::kTrtllm, E::kExact, E::kKvpool};
    return kAll;
  } else {
    static_assert(std::same_as<E, PageLayout>);
    static constexpr E kAll[] = {{PageOrder::kPageMajor, RowOrder::kHnd},
                                 {PageOrder::kPageMajor, RowOrder::kNhd},
                                 {PageOrder::kLayerMajor, RowOrder::kHnd},
                                 {PageOrder::kLayerMajor, RowOrder::kNhd}};
    return kAll;
  }
}

}  // namespace kvpool::io::detail
