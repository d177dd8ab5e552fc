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
  std::vector<Run> slots{};    ///< what is written there, by `content`
};
struct NaiveWrite {
  NaivePage* to = nullptr;
  std::size_t slot = 0;
  Run from = 0;  ///< what a state has to hold before; 0 or less for nothing
  Run run = 0;
};
struct NaiveBlock {
  Run parent = 0;
  std::int32_t scope = 0;
  std::vector<Run> runs{};                   ///< after each of its tokens
  Rows pages{};                              ///< [group][page of the block]
  std::vector<std::int32_t> snapshots = {};  ///< [group]
};
struct NaiveLinger {
  std::int32_t scope = 0;
  Run run = 0;            ///< of the block
  std::size_t place = 0;  ///< in the block
};
struct NaiveSequence {
  PrefixQuery query{};
  std::vector<std::int32_t> tokens{};  ///< prompt, and what was committed after it
  std::vector<Run> runs{0};            ///< [i] names tokens [0, i)
  std::int64_t prompt = 0, reserved = 0, committed = 0, encoder = 0;
  std::vector<std::pair<std::uint64_t, std::int64_t>> history{};  ///< epoch, committed in it
  bool is_late = false;  ///< its computed tokens may be more than the manager knows
  bool cached = true, drafts = false;
  std::int64_t on_path = 0;  ///< its blocks that are the cache's; later ones equal others
  bool attached = true;
  Rows rows{};
  std::map<std::pair<std::int64_t, std::size_t>, std::int32_t> snapshots{};  ///< not in the cache
  std::map<std::size_t, std::pair<std::int64_t, std::int32_t>> last{};       ///< position, snapshot
};

class NaiveBlocks {
 public:
  explicit NaiveBlocks(const BlockManager& manager)
      : groups{manager.groups().begin(), manager.groups().end()},
        pools{manager.pools().begin(), manager.pools().end()},
        block{manager.prefix_block().count()},
        pages(pools.size()) {}

  std::vector<CacheGroup> groups;
  std::vector<PoolDescriptor> pools;
  std::int64_t block;
  std::vector<NamespaceKey> names{{}};                   ///< [namespace]
  std::vector<std::map<std::int32_t, NaivePage>> pages;  ///< [pool][entry]
  std::map<Run, NaiveBlock> cache{};
  std::map<int, NaiveSequence> sequences{};
  std::map<int, Run> pins{};
  /// Pages of the drafter that a run has on behalf of sequences which draft no more.
  std::map<std::pair<std::size_t, std::int32_t>, NaiveLinger> lingering{};
  std::vector<NaiveWrite> writes{};  ///< of the call in hand, as its copies
  std::vector<std::pair<const NaivePage*, NaivePage*>> copies_before{}, copies_after{};
  std::uint64_t opened = 0, completed = 0;

  [[nodiscard]] std::size_t pool_of(std::size_t group) const {
    return static_cast<std::size_t>(groups[group].pool.value());
  }
  NaivePage& page(std::size_t group, std::int32_t entry) { return pages[pool_of(group)][entry]; }
  [[nodiscard]] std::int64_t slots(std::size_t group) const {
    return std::max<std::int64_t>(1, groups[group].tokens_per_block.count());
  }
  [[nodiscard]] bool is(std::size_t group, GroupKind kind) const {
    return groups[group].kind == kind;
  }
  [[nodiscard]] bool paged(std::size_t group) const {
    return !is(group, GroupKind::kState) && !is(group, GroupKind::kCross);
  }

  /// Tokens at `position` belong to the namespace, or to what all without salt share: that part of
  /// the prompt which is said to be public, in whole blocks.
  [[nodiscard]] std::int32_t scope(const PrefixQuery& query, std::int64_t position) const {
    const NamespaceKey& key = names[static_cast<std::size_t>(query.name_space.value())];
    const NamespaceKey shared{.adapter = key.adapter};
    const auto prompt = std::ssize(query.tokens);
    if (key != shared &&
        position >= std::min(query.public_tokens.count(), prompt) / block * block) {
      return query.name_space.value();
    }
    const auto at = std::ranges::find(names, shared) - names.begin();
    return at < std::ssize(names) ? static_cast<std::int32_t>(at) : -1 - query.name_space.value();
  }
  Run extend(const PrefixQuery& query, Run run, std::int64_t position, std::int32_t token) {
    const std::tuple key{run, scope(query, position), token};
    const auto [at, is_new] = runs_.try_emplace(key, runs_.size() + 1);
    if (is_new) {
      const auto adapter = names[static_cast<std::size_t>(query.name_space.value())].adapter;
      contents_.push_back(
          texts_.try_emplace({content(run), adapter, token}, texts_.size() + 1).first->second);
    }
    return at->second;
  }
  /// What a run's last token leaves in a page: it depends on tokens and adapter, not on the scope.
  [[nodiscard]] Run content(Run run) const { return contents_[static_cast<std::size_t>(run)]; }
  std::vector<Run> runs(const PrefixQuery& query) {
    std::vector<Run> runs{0};
    for (const std::int32_t token : query.tokens) {
      runs.push_back(extend(query, runs.back(), std::ssize(runs) - 1, token));
    }
    return runs;
  }

  /// The step that has been committed wrote tokens [first, last) of a sequence.
  void write(const NaiveSequence& s, std::int64_t first, std::int64_t last) {
    const auto run = [&](std::int64_t t) { return content(s.runs[static_cast<std::size_t>(t)]); };
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (is(g, GroupKind::kState) && !s.rows[g].empty()) {
        writes.push_back({&page(g, s.rows[g][0]), 0, run(first), run(last)});
      }
      for (std::int64_t t = first; t < last && paged(g) && !s.rows[g].empty(); ++t) {
        NaivePage& to = page(g, s.rows[g][static_cast<std::size_t>(t / slots(g))]);
        writes.push_back({&to, static_cast<std::size_t>(t % slots(g)), -1, run(t + 1)});
      }
    }
  }
  /// What a call's copies and writes do on the device. Copies that are asked for after a commit run
  /// before the next step, whose kernels come later.
  void run_step() {
    for (const auto& [source, destination] : copies_before) {
      destination->slots = source->slots;
    }
    for (const NaiveWrite& write : writes) {
      write.to->slots.resize(std::max(write.to->slots.size(), write.slot + 1));
      Run& slot = write.to->slots[write.slot];
      // A state goes on only from the state before.
      slot = write.from <= 0 || slot == write.from ? write.run : -1;
    }
    for (const auto& [source, destination] : copies_after) {
      destination->slots = source->slots;
    }
    writes.clear();
    copies_before.clear();
    copies_after.clear();
  }
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
      for_pages(cached, [&, run = run](std::size_t g, std::int32_t& entry) {
        if (!is_alive(g, entry)) {
          page(g, entry).fence = opened;
          const bool may_go =
              (groups[g].is_draft && drops_draft) || (groups[g].extent > Tokens{0} && windows_pass);
          if (page(g, entry).held && !may_go) {
            wrong += "page " + std::to_string(entry) + " of " + groups[g].name + " was evicted; ";
          }
          entry = kGone;
          is(g, GroupKind::kFull) && !groups[g].is_draft ? void(dead.insert(run)) : void();
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

 private:
  std::map<std::tuple<Run, std::int32_t, std::int32_t>, Run> runs_{};
  std::map<std::tuple<Run, std::string, std::int32_t>, Run> texts_{};
  std::vector<Run> contents_{0};  ///< [run]
};

}  // namespace kvpool::test
