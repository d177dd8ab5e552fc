// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// What the naive model is made of: names for runs of tokens, and the pages of a device with what
// its steps write and copy there.
#pragma once

#include <kvpool/block/block_manager.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
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

/// Pages, and what is written there.
class NaiveDevice {
 public:
  explicit NaiveDevice(const BlockManager& manager)
      : groups{manager.groups().begin(), manager.groups().end()},
        pools{manager.pools().begin(), manager.pools().end()},
        block{manager.prefix_block().count()},
        pages(pools.size()) {}

  std::vector<CacheGroup> groups;
  std::vector<PoolDescriptor> pools;
  std::int64_t block;
  std::vector<NamespaceKey> names{{}};                   ///< [namespace]
  std::vector<std::map<std::int32_t, NaivePage>> pages;  ///< [pool][entry]
  std::vector<NaiveWrite> writes{};                      ///< of the call in hand, as its copies
  std::vector<std::pair<const NaivePage*, NaivePage*>> copies_before{}, copies_after{};

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

 private:
  std::map<std::tuple<Run, std::int32_t, std::int32_t>, Run> runs_{};
  std::map<std::tuple<Run, std::string, std::int32_t>, Run> texts_{};
  std::vector<Run> contents_{0};  ///< [run]
};

}  // namespace kvpool::test
