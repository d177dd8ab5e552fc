// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// What the contract of `BlockManager` says, in maps and vectors: which tokens each page holds, what
// the cache has, and who holds what. Only which of the evictable pages went is taken from the
// manager; everything else is foretold.
#pragma once

#include "property/naive_device.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::test {

class NaiveBlocks : public NaiveDevice {
 public:
  using NaiveDevice::NaiveDevice;

  std::map<Run, NaiveBlock> cache{};
  std::map<int, NaiveSequence> sequences{};
  std::map<int, Run> pins{};
  /// Pages of the drafter that a run has on behalf of sequences which draft no more.
  std::map<std::pair<std::size_t, std::int32_t>, NaiveLinger> lingering{};
  std::uint64_t opened = 0, completed = 0;

  /// Block `b` of a sequence, as the cache would keep it.
  [[nodiscard]] NaiveBlock block_of(const NaiveSequence& s, std::int64_t b) const {
    const auto run = s.runs.begin() + b * block;
    NaiveBlock made{*run, scope(s.query, b * block), {run + 1, run + block + 1}};
    made.snapshots.resize(groups.size(), kGone);
    made.pages.resize(groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (std::int64_t t = b * block; paged(g) && t < (b + 1) * block; t += slots(g)) {
        const auto column = static_cast<std::size_t>(t / slots(g));
        made.pages[g].push_back(column < s.rows[g].size() ? s.rows[g][column] : kGone);
      }
    }
    return made;
  }
  /// Puts the complete blocks of a live sequence into the cache, as far as no equal one is there.
  void publish(NaiveSequence& s) {
    while (s.cached && s.attached && (s.on_path + 1) * block <= s.committed) {
      const Run run = s.runs[static_cast<std::size_t>((s.on_path + 1) * block)];
      s.attached = cache.try_emplace(run, block_of(s, s.on_path)).second;
      s.on_path += s.attached ? 1 : 0;
    }
  }
  /// Blocks of a run that are in the cache, last first.
  void for_path(Run run, const std::function<void(NaiveBlock&)>& call) {
    for (auto at = cache.find(run); at != cache.end(); at = cache.find(at->second.parent)) {
      call(at->second);
    }
  }
  /// Pages and snapshots of a block that are not gone.
  void for_pages(NaiveBlock& of, const std::function<void(std::size_t, std::int32_t&)>& call) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (std::int32_t& entry : of.pages[g]) {
        entry != kGone ? call(g, entry) : void();
      }
      of.snapshots[g] != kGone ? call(g, of.snapshots[g]) : void();
    }
  }
  /// Forgets what is not alive any more: blocks, windows, snapshots, or what the drafter had of a
  /// block. @return what is wrong with it, or nothing
  std::string absorb(const std::function<bool(std::size_t, std::int32_t)>& is_alive,
                     bool windows_pass, bool drops_draft) {
    std::set<Run> dead;
    std::string wrong;
    for (auto& [run, cached] : cache) {
      for_pages(cached, [&, name = run](std::size_t g, std::int32_t& entry) {
        if (!is_alive(g, entry)) {
          page(g, entry).fence = opened;
          const bool may_go =
              (groups[g].is_draft && drops_draft) || (groups[g].extent > Tokens{0} && windows_pass);
          if (page(g, entry).held && !may_go) {
            wrong += "page " + std::to_string(entry) + " of " + groups[g].name + " was evicted; ";
          }
          entry = kGone;
          is(g, GroupKind::kFull) && !groups[g].is_draft ? void(dead.insert(name)) : void();
        }
      });
    }
    for (const auto& [run, cached] : cache) {
      const bool is_left = dead.contains(cached.parent) && !dead.contains(run);
      wrong += is_left ? "a block went before its leaf; " : "";
    }
    std::erase_if(cache, [&](const auto& entry) { return dead.contains(entry.first); });
    return wrong;
  }
  /// Finds out who holds what, after a call; what is given back waits for the latest epoch. But
  /// what a window has passed (`windows_pass`) no step in flight reads.
  void settle(bool windows_pass) {
    std::vector<std::set<std::int32_t>> held(pools.size());
    const auto hold_path = [&](Run run) {
      for_path(run, [&](NaiveBlock& cached) {
        for_pages(cached, [&](std::size_t g, std::int32_t entry) {
          is(g, GroupKind::kFull) ? void(held[pool_of(g)].insert(entry)) : void();
        });
      });
    };
    for (const auto& [id, s] : sequences) {
      hold_path(s.runs[static_cast<std::size_t>(s.on_path * block)]);
      for (std::size_t g = 0; g < groups.size(); ++g) {
        for (const std::int32_t entry : s.rows[g]) {
          page(g, entry).group = static_cast<std::int32_t>(g);
          held[pool_of(g)].insert(entry);
        }
      }
      for (const auto& [g, snapshot] : s.last) {
        held[pool_of(g)].insert(snapshot.second);
      }
    }
    for (const auto& [id, run] : pins) {
      hold_path(run);
    }
    for (std::size_t p = 0; p < pools.size(); ++p) {
      for (auto& [entry, page] : pages[p]) {
        const bool was_held = std::exchange(page.held, entry != kGone && held[p].contains(entry));
        if (was_held && !page.held) {
          const bool has_window = groups[static_cast<std::size_t>(page.group)].extent > Tokens{0};
          page.fence = opened;
          page.earliest = windows_pass && has_window ? page.earliest : opened;
        }
      }
    }
    // A slab that another group has got had nothing to wait for.
    for (std::size_t p = 0; p < pools.size(); ++p) {
      std::map<std::int64_t, std::int32_t> owners;
      const auto slab = [&](std::int32_t entry) {
        return entry * pools[p].unit_bytes.count() / pools[p].slab_bytes.count();
      };
      for (const std::int32_t entry : held[p]) {
        owners[slab(entry)] = pages[p][entry].group;
      }
      for (auto& [entry, page] : pages[p]) {
        const auto owner = owners.find(slab(entry));
        if (owner != owners.end() && owner->second != page.group) {
          page.fence = page.earliest = 0;
        }
      }
    }
    // Leaves go first: a block waits for those behind it.
    for (auto& [run, cached] : cache) {
      std::uint64_t fence = 0;
      for_pages(cached, [&](std::size_t g, std::int32_t entry) {
        fence = std::max(fence, is(g, GroupKind::kFull) ? page(g, entry).fence : 0);
      });
      for_path(fence > completed ? cached.parent : 0, [&](NaiveBlock& before) {
        for_pages(before, [&](std::size_t g, std::int32_t entry) {
          std::uint64_t& waits = page(g, entry).fence;
          waits = std::max(waits, is(g, GroupKind::kFull) ? fence : 0);
        });
      });
    }
  }
};

}  // namespace kvpool::test
