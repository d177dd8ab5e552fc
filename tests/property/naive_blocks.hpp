// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// What the contract of `BlockManager` says, in maps and vectors: which tokens each page holds, what
// the cache has, and who holds what. Only which of the evictable pages went is taken from the
// manager; everything else is foretold.
#pragma once

#include <kvpool/block/block_manager.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace kvpool::test {

/// Names a run of tokens from the start of a namespace: equal runs have equal names. 0 is empty.
using Run = std::int64_t;
using Rows = std::vector<std::vector<std::int32_t>>;  ///< [group][block] table entries
inline constexpr std::int32_t kGone = 0;              ///< the guard page: nobody's

struct NaivePage {
  std::int32_t group = -1;     ///< the last that had it
  bool held = false;           ///< by a sequence or pin
  std::uint64_t fence = 0;     ///< epoch that frees it, once it is not held
  std::uint64_t earliest = 0;  ///< the same if an eviction does not raise new fences
  std::vector<Run> slots{};    ///< what is written there
};
struct NaiveBlock {
  Run parent = 0;
  std::int32_t scope = 0;
  std::vector<Run> runs{};                   ///< after each of its tokens
  Rows pages{};                              ///< [group][page of the block]
  std::vector<std::int32_t> snapshots = {};  ///< [group]
};
struct NaiveSequence {
  PrefixQuery query{};
  std::vector<std::int32_t> tokens{};  ///< prompt, and what was committed after it
  std::vector<Run> runs{0};            ///< [i] names tokens [0, i)
  std::int64_t prompt = 0, reserved = 0, committed = 0, encoder = 0;
  std::vector<std::pair<std::uint64_t, std::int64_t>> history{};  ///< epoch, committed in it
  bool cached = true;
  std::int64_t on_path = 0;  ///< its blocks that are the cache's; later ones equal others
  bool attached = true;
  Rows rows{};
  std::map<std::pair<std::int64_t, std::size_t>, std::int32_t> snapshots{};  ///< not in the cache
};

class NaiveBlocks {
 public:
  explicit NaiveBlocks(const BlockManager& manager)
      : groups{manager.groups().begin(), manager.groups().end()},
        pools{manager.pools().begin(), manager.pools().end()},
        options{manager.options()},
        block{manager.prefix_block().count()},
        pages(pools.size()) {}

  std::vector<CacheGroup> groups;
  std::vector<PoolDescriptor> pools;
  BlockManagerOptions options;
  std::int64_t block;
  std::vector<NamespaceKey> names{{}};                   ///< [namespace]
  std::vector<std::map<std::int32_t, NaivePage>> pages;  ///< [pool][entry]
  std::map<Run, NaiveBlock> cache{};
  std::map<int, NaiveSequence> sequences{};
  std::map<int, Run> pins{};
  std::uint64_t opened = 0, completed = 0;

  NaivePage& page(std::size_t group, std::int32_t entry) {
    return pages[static_cast<std::size_t>(groups[group].pool.value())][entry];
  }
  [[nodiscard]] std::int64_t slots(std::size_t group) const {
    return std::max<std::int64_t>(1, groups[group].tokens_per_block.count());
  }
  [[nodiscard]] bool is(std::size_t group, GroupKind kind) const {
    return groups[group].kind == kind;
  }
  [[nodiscard]] bool paged(std::size_t group) const {
    return !is(group, GroupKind::kState) && !is(group, GroupKind::kCross);
  }

  /// Tokens at `position` belong to the namespace, or to what all without salt share.
  [[nodiscard]] std::int32_t scope(const PrefixQuery& query, std::int64_t position) const {
    const NamespaceKey& key = names[static_cast<std::size_t>(query.name_space.value())];
    const bool is_public = position < query.public_tokens.count() / block * block ||
                           (key.salt.empty() && key.tenant == kPublicTenant);
    for (std::size_t i = 0; is_public && i < names.size(); ++i) {
      if (names[i] == NamespaceKey{.adapter = key.adapter}) {
        return static_cast<std::int32_t>(i);
      }
    }
    return is_public ? -1 - query.name_space.value() : query.name_space.value();
  }
  Run extend(const PrefixQuery& query, Run run, std::int64_t position, std::int32_t token) {
    return names_of_runs_
        .try_emplace({run, scope(query, position), token}, names_of_runs_.size() + 1)
        .first->second;
  }
  std::vector<Run> runs(const PrefixQuery& query) {
    std::vector<Run> runs{0};
    for (const std::int32_t token : query.tokens) {
      const auto position = static_cast<std::int64_t>(runs.size()) - 1;
      runs.push_back(extend(query, runs.back(), position, token));
    }
    return runs;
  }

  /// The step writes tokens [first, last) of a sequence.
  void write(const NaiveSequence& s, std::int64_t first, std::int64_t last) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (is(g, GroupKind::kState) && !s.rows[g].empty()) {
        page(g, s.rows[g][0]).slots = {s.runs[static_cast<std::size_t>(last)]};
      }
      for (std::int64_t t = first; t < last && paged(g) && !s.rows[g].empty(); ++t) {
        NaivePage& to = page(g, s.rows[g][static_cast<std::size_t>(t / slots(g))]);
        to.slots.resize(static_cast<std::size_t>(slots(g)));
        to.slots[static_cast<std::size_t>(t % slots(g))] = s.runs[static_cast<std::size_t>(t + 1)];
      }
    }
  }
  /// Block `b` of a sequence, as the cache would keep it.
  [[nodiscard]] NaiveBlock block_of(const NaiveSequence& s, std::int64_t b) const {
    const auto run = s.runs.begin() + b * block;
    NaiveBlock made{
        .parent = *run, .scope = scope(s.query, b * block), .runs{run + 1, run + block + 1}};
    made.snapshots.resize(groups.size(), kGone);
    made.pages.resize(groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (std::int64_t i = 0; paged(g) && i < block / slots(g); ++i) {
        const auto column = static_cast<std::size_t>(b * block / slots(g) + i);
        made.pages[g].push_back(column < s.rows[g].size() ? s.rows[g][column] : kGone);
      }
    }
    return made;
  }
  /// Puts the complete blocks of a live sequence into the cache, as far as no equal one is there.
  void publish(NaiveSequence& s) {
    while (s.cached && s.attached && (s.on_path + 1) * block <= s.committed) {
      s.attached = cache
                       .try_emplace(s.runs[static_cast<std::size_t>((s.on_path + 1) * block)],
                                    block_of(s, s.on_path))
                       .second;
      s.on_path += s.attached ? 1 : 0;
    }
  }
  /// Blocks of a run that are in the cache, last first.
  void for_path(Run run, const std::function<void(NaiveBlock&)>& call) {
    for (auto at = cache.find(run); at != cache.end(); at = cache.find(at->second.parent)) {
      call(at->second);
    }
  }
  /// Forgets what is not alive any more. @return what is wrong with it, or nothing
  std::string absorb(const std::function<bool(std::size_t, std::int32_t)>& is_alive) {
    std::set<Run> dead;
    std::string wrong;
    const auto check = [&](std::size_t g, std::int32_t& entry) {
      if (entry != kGone && !is_alive(g, entry)) {
        page(g, entry).fence = opened;
        wrong += page(g, entry).held ? "a page in use was evicted; " : "";
        entry = kGone;
        return is(g, GroupKind::kFull);
      }
      return false;
    };
    for (auto& [run, cached] : cache) {
      for (std::size_t g = 0; g < groups.size(); ++g) {
        check(g, cached.snapshots[g]);
        for (std::int32_t& entry : cached.pages[g]) {
          if (check(g, entry)) {
            dead.insert(run);
          }
        }
      }
    }
    for (const auto& [run, cached] : cache) {
      wrong += dead.contains(cached.parent) && !dead.contains(run)
                   ? "a block went before its leaf; "
                   : "";
    }
    for (const Run run : dead) {
      cache.erase(run);
    }
    return wrong;
  }
  /// Finds out who holds what, after a call; what is given back waits for the latest epoch.
  void settle() {
    std::vector<std::set<std::int32_t>> held(pools.size());
    const auto hold = [&](std::size_t g, std::int32_t entry) {
      page(g, entry).group = static_cast<std::int32_t>(g);
      held[static_cast<std::size_t>(groups[g].pool.value())].insert(entry);
    };
    const auto hold_path = [&](Run run) {
      for_path(run, [&](const NaiveBlock& cached) {
        for (std::size_t g = 0; g < groups.size(); ++g) {
          for (const std::int32_t entry : cached.pages[g]) {
            if (is(g, GroupKind::kFull) && entry != kGone) {
              hold(g, entry);
            }
          }
        }
      });
    };
    for (const auto& [id, s] : sequences) {
      hold_path(s.runs[static_cast<std::size_t>(s.on_path * block)]);
      for (std::size_t g = 0; g < groups.size(); ++g) {
        for (const std::int32_t entry : s.rows[g]) {
          if (entry != kGone) {
            hold(g, entry);
          }
        }
      }
    }
    for (const auto& [id, run] : pins) {
      hold_path(run);
    }
    for (std::size_t p = 0; p < pools.size(); ++p) {
      for (auto& [entry, page] : pages[p]) {
        const bool now = held[p].contains(entry);
        if (page.held && !now) {
          page.fence = page.earliest = opened;
        }
        page.held = now;
      }
    }
  }

 private:
  std::map<std::tuple<Run, std::int32_t, std::int32_t>, Run> names_of_runs_{};
};

}  // namespace kvpool::test
