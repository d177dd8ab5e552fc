// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/pool_plan.hpp>

#include <absl/container/btree_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

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

/// A group of a pool, told apart by names: stages differ in layers, and so in what a slab holds.
using GroupKey = std::pair<std::string_view, std::string>;

GroupKey key_of(const PoolDescriptor& pool, const PooledGroup& group) {
  return {pool.name, group_name(group.group)};
}

/// Page size of a pool: one for all its groups.
Tokens page_of(const PoolDescriptor& pool) { return pool.groups.front().page.tokens_per_block; }

}  // namespace

const PoolDescriptor* PoolPlan::find(std::string_view pool) const noexcept {
  const auto found = std::ranges::find(pools, pool, &PoolDescriptor::name);
  return found == pools.end() ? nullptr : &*found;
}

const PoolPlan* Plan::smallest() const noexcept {
  return ranks.empty() ? nullptr : &ranks[smallest_rank];
}

const Decision* Plan::find_decision(std::string_view id) const noexcept {
  const auto found = std::ranges::find(decisions, id, &Decision::id);
  return found == decisions.end() ? nullptr : &*found;
}

const LedgerLine* Plan::find_line(std::string_view name) const noexcept {
  const auto found = std::ranges::find(ledger, name, &LedgerLine::name);
  return found == ledger.end() ? nullptr : &*found;
}

Result<PoolSet> create_pools(const PoolPlan& rank, AnyPageMemory memory, PoolSetOptions options) {
  return PoolSet::create(rank.pools, std::move(memory), options);
}

SequenceRules sequence_rules(const Plan& plan, PoolRole role) {
  const Resolution& resolution = plan.resolution;
  SequenceRules rules{.lookahead = resolution.draft_tokens,
                      .state_slots = resolution.state_slots_per_seq,
                      .decode_context = plan.request.parallelism.decode_context};
  if (role == PoolRole::kDraft && resolution.draft_max_len < resolution.max_model_len) {
    rules.max_len = resolution.draft_max_len;
  }
  return rules;
}

AffineCost sequence_cost(const PooledGroup& group, const SequenceRules& rules) noexcept {
  const LayerGroup& layers = group.group;
  const Bytes page = group.page.page_bytes;
  if (layers.is_state) {
    return {.fixed_bytes = rules.state_slots * page,
            .bytes_per_token = Bytes{0},
            .from_length = Tokens{0}};
  }
  const Tokens slots = group.page.tokens_per_block;
  const auto pages_at = [&](Tokens length) {
    const Tokens here{ceil_div(length.count(), rules.decode_context)};
    return pages_of_sequence(layers, here, slots, rules.lookahead);
  };
  const bool is_full = layers.span.kind == SpanKind::kFull;
  if (is_full && !rules.max_len.has_value()) {
    return {.fixed_bytes = Bytes{0},
            .bytes_per_token = Bytes{ceil_div(page.count(), slots.count() * rules.decode_context)},
            .from_length = Tokens{0}};
  }
  // A length from which on the pages do not grow: every window is full, or nothing is followed.
  const Tokens full_window = 2 * layers.span.extent + rules.lookahead + 2 * slots;
  Tokens beyond = full_window * rules.decode_context;
  if (rules.max_len.has_value()) {
    beyond = is_full ? *rules.max_len : std::min(beyond, *rules.max_len);
  }
  const Pages most = pages_at(beyond);
  const bool is_cross = layers.span.kind == SpanKind::kCross;
  return {.fixed_bytes = most.count() * page,
          .bytes_per_token = Bytes{0},
          .from_length =
              is_cross ? Tokens{1} : (most.count() - 1) * slots * rules.decode_context + Tokens{1}};
}

Result<std::vector<PoolPlan>> common_plan(std::span<const PoolPlan> ranks) {
  if (ranks.empty()) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "no ranks to find a common plan of"};
  }
  absl::btree_map<std::string_view, const PoolDescriptor*> first;
  absl::btree_map<GroupKey, Pages> fewest;
  for (const PoolPlan& rank : ranks) {
    for (const PoolDescriptor& pool : rank.pools) {
      const auto found = first.try_emplace(pool.name, &pool).first;
      if (page_of(*found->second) != page_of(pool)) {
        return Error{.code = ErrorCode::kInvalidArgument,
                     .message = fmt::format("pool {} has pages of {} tokens on one rank and {} on "
                                            "another",
                                            pool.name, page_of(*found->second).count(),
                                            page_of(pool).count()),
                     .key = pool.name};
      }
      for (const PooledGroup& group : pool.groups) {
        Pages& least = fewest.try_emplace(key_of(pool, group), group.planned_pages()).first->second;
        least = std::min(least, group.planned_pages());
      }
    }
  }
  std::vector<PoolPlan> common{ranks.begin(), ranks.end()};
  for (PoolPlan& rank : common) {
    for (std::size_t i = 0; i < rank.pools.size(); ++i) {
      PoolDescriptor& pool = rank.pools[i];
      Slabs slabs;
      for (PooledGroup& group : pool.groups) {
        const Pages pages = fewest.at(key_of(pool, group));
        group.planned_slabs = Slabs{ceil_div(pages.count(), group.pages_per_slab)};
        slabs += group.planned_slabs;
      }
      if (slabs < pool.slabs) {
        pool.slabs = slabs;
        rank.accounts[i] = account_of(pool);
      }
    }
  }
  return common;
}

}  // namespace kvpool
