// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/pool_plan.hpp>

#include <algorithm>
#include <string_view>

#include <absl/container/btree_map.h>
#include <fmt/format.h>

namespace kvpool {
namespace {

/// Account of a pool that was shrunk: its share is now what it is charged.
PoolAccount account_of(const PoolDescriptor& pool) {
  const Bytes reserved = pool.reserved_slabs.count() * pool.slab_bytes;
  const Bytes waste = pool.slab_waste();
  return {.pool = pool.name,
          .share = pool.charged_bytes(),
          .pages = pool.bytes() - reserved - waste,
          .slab_waste = waste,
          .reserved = reserved,
          .loss = pool.charged_bytes() - pool.bytes(),
          .charged = pool.charged_bytes()};
}

/// Takes slabs away, from the group that has the most planned.
void shrink(PoolDescriptor& pool, Slabs slabs) {
  Slabs excess = pool.slabs - slabs;
  pool.slabs = slabs;
  while (excess.count() > 0) {
    auto most = std::ranges::max_element(pool.groups, {}, &PooledGroup::planned_slabs);
    const Slabs taken = std::min(excess, most->planned_slabs);
    if (taken.count() == 0) {
      return;
    }
    most->planned_slabs -= taken;
    excess -= taken;
  }
}

/// Page size of a pool: one for all its groups.
Tokens page_of(const PoolDescriptor& pool) { return pool.groups.front().page.tokens_per_block; }

}  // namespace

AffineCost sequence_cost(const PooledGroup& group, Tokens lookahead) noexcept {
  const LayerGroup& layers = group.group;
  const Bytes page = group.page.page_bytes;
  if (layers.is_state) {
    return {.fixed_bytes = page, .bytes_per_token = Bytes{0}, .from_length = Tokens{0}};
  }
  const Tokens slots = group.page.tokens_per_block;
  if (layers.span.kind == SpanKind::kFull) {
    return {.fixed_bytes = Bytes{0},
            .bytes_per_token = Bytes{ceil_div(page.count(), slots.count())},
            .from_length = Tokens{0}};
  }
  // A length at which every window is full: then the pages no longer depend on it.
  const Tokens beyond = layers.span.extent + layers.span.extent + lookahead + slots + slots;
  const Pages most = pages_of_sequence(layers, beyond, slots, lookahead);
  const bool is_cross = layers.span.kind == SpanKind::kCross;
  return {.fixed_bytes = most.count() * page,
          .bytes_per_token = Bytes{0},
          .from_length = is_cross ? Tokens{1} : (most.count() - 1) * slots + Tokens{1}};
}

Result<std::vector<PoolPlan>> common_plan(std::span<const PoolPlan> ranks) {
  if (ranks.empty()) {
    return Error{.code = ErrorCode::kInvalidArgument, .message = "no ranks to find a common plan of"};
  }
  absl::btree_map<std::string_view, const PoolDescriptor*> fewest;
  for (const PoolPlan& rank : ranks) {
    for (const PoolDescriptor& pool : rank.pools) {
      const auto [found, is_new] = fewest.try_emplace(pool.name, &pool);
      if (is_new) {
        continue;
      }
      if (page_of(*found->second) != page_of(pool)) {
        return Error{.code = ErrorCode::kInvalidArgument,
                     .message = fmt::format("pool {} has pages of {} tokens on one rank and {} on "
                                            "another",
                                            pool.name, page_of(*found->second).count(),
                                            page_of(pool).count()),
                     .key = pool.name};
      }
      if (pool.slabs < found->second->slabs) {
        found->second = &pool;
      }
    }
  }
  std::vector<PoolPlan> common{ranks.begin(), ranks.end()};
  for (PoolPlan& rank : common) {
    for (std::size_t i = 0; i < rank.pools.size(); ++i) {
      const Slabs slabs = fewest.at(rank.pools[i].name)->slabs;
      if (slabs < rank.pools[i].slabs) {
        shrink(rank.pools[i], slabs);
        rank.accounts[i] = account_of(rank.pools[i]);
      }
    }
  }
  return common;
}

}  // namespace kvpool
