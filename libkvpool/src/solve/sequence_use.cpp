// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/solve/sequence_use.hpp>

#include <kvpool/core/checked.hpp>

#include <algorithm>

namespace kvpool {
namespace {

/// Positions of a sequence that a span still needs.
std::int64_t needed_tokens(const Span& span, std::int64_t length) {
  switch (span.kind) {
    case SpanKind::kFull: return length;
    case SpanKind::kSlidingWindow:
    case SpanKind::kChunked: return std::min(length, span.extent.count());
    case SpanKind::kCross: return length > 0 ? span.extent.count() : 0;
  }
  return length;
}

/// Bytes of one token's rows in a page.
CheckedInt row_bytes(const PageGeometry& page) {
  CheckedInt sum{0};
  for (const PlaneGeometry& plane : page.planes) {
    sum += CheckedInt{plane.row_bytes.count()} * plane.heads.count();
  }
  return sum;
}

SequenceUse use_of(const PooledGroup& group, const SequenceRules& rules, Tokens length) {
  const CheckedInt page{group.page.page_bytes.count()};
  if (group.group.is_state) {
    // All of a slot is state; its planes are padded to rows of 16 bytes at the most.
    const Bytes bytes{(page * rules.state_slots).saturated()};
    return {.held = bytes, .used = bytes};
  }
  const std::int64_t followed =
      rules.max_len.has_value() ? std::min(length, *rules.max_len).count() : length.count();
  const Tokens here{ceil_div(followed, rules.decode_context)};
  const Pages pages =
      pages_of_sequence(group.group, here, group.page.tokens_per_block, rules.lookahead);
  const CheckedInt held = page * pages.count();
  const CheckedInt used = row_bytes(group.page) * needed_tokens(group.group.span, here.count());
  return {.held = Bytes{held.saturated()}, .used = Bytes{min(held, used).saturated()}};
}

}  // namespace

SequenceUse sequence_use(const Plan& plan, const PoolDescriptor& pool, Tokens length) {
  SequenceUse sum;
  const SequenceRules rules = sequence_rules(plan, pool.role);
  for (const PooledGroup& group : pool.groups) {
    const SequenceUse use = use_of(group, rules, length);
    sum.held += use.held;
    sum.used += use.used;
  }
  return sum;
}

SequenceUse sequence_use(const Plan& plan, Tokens length) {
  SequenceUse sum;
  if (const PoolPlan* rank = plan.smallest(); rank != nullptr) {
    for (const PoolDescriptor& pool : rank->pools) {
      const SequenceUse use = sequence_use(plan, pool, length);
      sum.held += use.held;
      sum.used += use.used;
    }
  }
  return sum;
}

SequenceUse average_use(const Plan& plan, const LengthMix& mix) {
  CheckedInt held{0};
  CheckedInt used{0};
  for (const LengthShare& share : mix.shares) {
    const SequenceUse use = sequence_use(plan, share.length);
    held += CheckedInt{use.held.count()} * share.weight;
    used += CheckedInt{use.used.count()} * share.weight;
  }
  const CheckedInt total{mix.total_weight()};
  return {.held = Bytes{ceil_div(held, total).saturated()},
          .used = Bytes{ceil_div(used, total).saturated()}};
}

std::int64_t shareable_ppm(const LengthMix& mix, Tokens page) noexcept {
  constexpr std::int64_t kWhole = 1'000'000;
  CheckedInt all{0};
  CheckedInt full{0};
  for (const LengthShare& share : mix.shares) {
    all += CheckedInt{share.length.count()} * share.weight;
    full += CheckedInt{share.length.count() / page.count() * page.count()} * share.weight;
  }
  return floor_div(full * kWhole, all).saturated();
}

}  // namespace kvpool
