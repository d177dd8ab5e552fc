// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "property/block_world.hpp"
#include "property/naive_hit_rule.hpp"
#include "support/block_pools.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::test {

void BlockWorld::compare_sequence(int id) {
  NaiveSequence& s = model_.sequences[id];
  const SequenceLengths lengths = manager_.lengths(ids_[id]);
  std::int64_t computed = 0;
  std::set<std::uint64_t> open;
  for (const auto& [epoch, committed] : s.history) {
    if (epoch <= model_.completed) {
      computed = committed;
    } else {
      open.insert(epoch);
    }
  }
  const std::string name = "#" + std::to_string(id) + ": ";
  expect(lengths.reserved.count() == s.reserved && lengths.committed.count() == s.committed &&
             lengths.prompt.count() == s.prompt,
         name, "lengths ", lengths.reserved.count(), ", ", lengths.committed.count());
  // With commits of more than two steps in flight it may be late.
  s.is_late = open.size() > 2 || (s.is_late && !open.empty());
  expect(lengths.computed.count() == computed || (s.is_late && lengths.computed.count() < computed),
         name, "computed ", lengths.computed.count(), " instead of ", computed);
  for (std::size_t g = 0; g < model_.groups.size(); ++g) {
    const GroupId group{static_cast<std::int32_t>(g)};
    const GroupView view = manager_.view(ids_[id], group);
    const std::string where = name + model_.groups[g].name + ": ";
    expect(manager_.computed(ids_[id], group) <= lengths.committed, where, "computed");
    if (!has_group(s, g)) {
      continue;
    }
    const std::int64_t p = model_.slots(g);
    const std::int64_t tokens = model_.is(g, GroupKind::kState)   ? 1
                                : model_.is(g, GroupKind::kCross) ? s.encoder
                                                                  : s.reserved;
    expect(view.held.last.value() == ceil_div(tokens, p), where, "holds blocks to ",
           view.held.last.value());
    const std::int64_t extent = model_.groups[g].extent.count();
    const std::int64_t needed = model_.is(g, GroupKind::kSlidingWindow)
                                    ? std::max<std::int64_t>(0, computed - extent + 1) / p
                                : model_.is(g, GroupKind::kChunked) ? computed / extent * extent / p
                                                                    : 0;
    expect(view.held.first.value() <= needed, where, "a page of the window is gone");
    for (std::int64_t b = view.held.first.value(); b < view.held.last.value(); ++b) {
      const std::int32_t entry = s.rows[g][static_cast<std::size_t>(b)];
      expect(entry != kGone && is_alive(g, entry, true), where, "holds a free page");
    }
  }
}

/// Between two steps every page that a sequence holds has what its tokens say.
void BlockWorld::compare_contents(int id) {
  const NaiveSequence& s = model_.sequences[id];
  for (std::size_t g = 0; g < model_.groups.size(); ++g) {
    const std::int64_t p = model_.slots(g);
    for (std::size_t b = 0; b < s.rows[g].size(); ++b) {
      if (s.rows[g][b] == kGone) {
        continue;
      }
      const std::vector<Run>& slots = model_.page(g, s.rows[g][b]).slots;
      if (model_.is(g, GroupKind::kState)) {
        expect(s.committed == 0 || slots == std::vector{model_.content(
                                                s.runs[static_cast<std::size_t>(s.committed)])},
               "#", id, ": ", model_.groups[g].name, ": page ", s.rows[g][b],
               " is not the state of its ", s.committed, " tokens but of ",
               slots.empty() ? 0 : std::ranges::find(s.runs, slots[0], [&](Run run) {
                                     return model_.content(run);
                                   }) - s.runs.begin());
      }
      const std::int64_t first = static_cast<std::int64_t>(b) * p;
      for (std::int64_t t = first; model_.paged(g) && t < std::min(first + p, s.committed); ++t) {
        expect(static_cast<std::size_t>(t % p) < slots.size() &&
                   slots[static_cast<std::size_t>(t % p)] ==
                       model_.content(s.runs[static_cast<std::size_t>(t + 1)]),
               "#", id, ": ", model_.groups[g].name, ": token ", t, " is not in its page");
      }
    }
  }
}

void BlockWorld::compare_pools() {
  std::vector<std::int64_t> alive(model_.groups.size()), held(model_.groups.size());
  std::vector<std::set<std::int32_t>> known(model_.pools.size());
  const auto add = [&](std::size_t g, std::int32_t entry) {
    const auto p = static_cast<std::size_t>(model_.groups[g].pool.value());
    if (entry != kGone && known[p].insert(entry).second) {
      ++alive[g];
      held[g] += model_.page(g, entry).held ? 1 : 0;
    }
  };
  for (const auto& [run, block] : model_.cache) {
    for (std::size_t g = 0; g < model_.groups.size(); ++g) {
      add(g, block.snapshots[g]);
      for (const std::int32_t entry : block.pages[g]) {
        add(g, entry);
      }
    }
  }
  for (const auto& [place, linger] : model_.lingering) {
    add(place.first, place.second);
  }
  for (const auto& [id, s] : model_.sequences) {
    for (const auto& [at, entry] : s.snapshots) {
      if (is_alive(at.second, entry, true)) {
        add(at.second, entry);
      }
    }
    for (const auto& [g, snapshot] : s.last) {
      add(g, snapshot.second);
    }
    for (std::size_t g = 0; g < model_.groups.size(); ++g) {
      for (const std::int32_t entry : s.rows[g]) {
        add(g, entry);
      }
    }
  }
  for (std::size_t g = 0; g < model_.groups.size(); ++g) {
    const CacheGroup& group = model_.groups[g];
    const GroupId id{static_cast<std::int32_t>(g)};
    const std::int64_t live =
        manager_.page_pool(group.pool).live_pages(group.group_in_pool).count();
    expect(live == alive[g], group.name, ": ", live, " pages are out, ", alive[g], " are known of");
    const std::int64_t holds = manager_.held_pages(id).count();
    const auto lingering = std::ranges::count_if(
        model_.lingering, [&](const auto& entry) { return entry.first.first == g; });
    expect(holds >= held[g] && (holds <= held[g] + lingering || !model_.pins.empty()), group.name,
           ": holds ", holds, " instead of ", held[g]);
  }
  for (std::size_t g = 0; g < model_.groups.size(); ++g) {
    const CacheGroup& group = model_.groups[g];
    const GroupId id{static_cast<std::int32_t>(g)};
    const std::size_t pool = model_.pool_of(g);
    const std::int64_t available = manager_.available_pages(id).count();
    Plan plan = empty_plan();
    plan.least[g] = plan.most[g] = available;
    expect(naive_fits(model_, pool, plan.least, {}, &NaivePage::earliest), group.name, ": ",
           available, " available are not there");
    ++plan.most[g];
    expect(!naive_fits(model_, pool, plan.most, plan.kept[pool], &NaivePage::fence), group.name,
           ": more than ", available, " are available");
  }
  std::map<std::pair<std::int32_t, std::size_t>, std::int64_t> live, all;
  for (std::size_t p = 0; p < model_.pools.size(); ++p) {
    auto tenants = held_tenants(p);
    for (const auto& [entry, tenant] : tenants) {
      ++live[{tenant, p}];
    }
    for (const auto& [run, block] : model_.cache) {
      for (std::size_t g = 0; g < model_.groups.size(); ++g) {
        if (model_.groups[g].pool == PoolId{static_cast<std::int32_t>(p)}) {
          for (const std::int32_t entry : block.pages[g]) {
            tenants.try_emplace(entry, tenant_of(block.scope));
          }
          tenants.try_emplace(block.snapshots[g], tenant_of(block.scope));
        }
      }
    }
    for (const auto& [id, s] : model_.sequences) {
      for (const auto& [at, entry] : s.snapshots) {
        if (model_.groups[at.second].pool == PoolId{static_cast<std::int32_t>(p)} &&
            is_alive(at.second, entry, true)) {
          tenants.try_emplace(entry, tenant_of(model_.scope(s.query, at.first - 1)));
        }
      }
    }
    for (const auto& [place, linger] : model_.lingering) {
      if (model_.pool_of(place.first) == p) {
        tenants.try_emplace(place.second, tenant_of(linger.scope));
      }
    }
    tenants.erase(kGone);
    for (const auto& [entry, tenant] : tenants) {
      ++all[{tenant, p}];
    }
    for (std::int32_t t = 0; t < 3; ++t) {
      const TenantUsage usage = manager_.usage(TenantId{t}, PoolId{static_cast<std::int32_t>(p)});
      const std::int64_t told = usage.live.count() + usage.cached.count();
      expect(told == all[{t, p}] && usage.live.count() >= live[{t, p}] &&
                 (usage.live.count() == live[{t, p}] || !model_.pins.empty() ||
                  !model_.lingering.empty()),
             "tenant ", t, " in pool ", p, " has ", usage.live.count(), " live and ",
             usage.cached.count(), " cached pages instead of ", live[{t, p}], " of ", all[{t, p}]);
    }
  }
}

void BlockWorld::compare(bool deep) {
  for (const auto& [id, s] : model_.sequences) {
    compare_sequence(id);
    std::vector<std::int32_t> tokens(deep ? s.tokens.size() : 0);
    expect(manager_.copy_tokens(ids_[id], Tokens{0}, tokens) == BlockStatus::kOk &&
               (!deep || tokens == s.tokens),
           "tokens of #", id);
  }
  compare_pools();
  expect(manager_.live_sequences().count() == static_cast<std::int64_t>(ids_.size()),
         "number of sequences");
  for (const Finding& finding :
       manager_.check_invariants(deep ? CheckLevel::kEverything : CheckLevel::kCheap)) {
    fail("invariant: " + finding.message);
  }
}

}  // namespace kvpool::test
