// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The hit rule over the naive model, and whether a call has room.
#pragma once

#include "property/naive_blocks.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace kvpool::test {

/// Tokens of the longest run of whole blocks in the cache, and of the best block that goes on.
[[nodiscard]] inline std::pair<std::int64_t, std::int64_t> naive_match(
    const NaiveBlocks& model, const std::vector<Run>& runs) {
  const auto at = [&](std::int64_t i) { return runs[static_cast<std::size_t>(i)]; };
  const auto tokens = static_cast<std::int64_t>(runs.size()) - 1;
  std::int64_t whole = 0;
  while (whole + model.block <= tokens && model.cache.contains(at(whole + model.block))) {
    whole += model.block;
  }
  std::int64_t more = 0;
  for (const auto& [run, cached] : model.cache) {
    std::int64_t equal = 0;
    while (cached.parent == at(whole) && equal < model.block && whole + equal < tokens &&
           cached.runs[static_cast<std::size_t>(equal)] == at(whole + equal + 1)) {
      ++equal;
    }
    more = std::max(more, equal);
  }
  return {whole, more};
}

/// Whether group `g` has what the token at position `end` needs of a cached prefix.
[[nodiscard]] inline bool naive_has(const NaiveBlocks& model, const std::vector<Run>& runs,
                                    std::size_t g, std::int64_t end) {
  const auto block_at = [&](std::int64_t position) -> const NaiveBlock& {
    return model.cache.at(
        runs[static_cast<std::size_t>((position / model.block + 1) * model.block)]);
  };
  const std::int64_t extent = model.groups[g].extent.count();
  const std::int64_t page = model.slots(g);
  std::int64_t first = 0;
  switch (model.groups[g].kind) {
    case GroupKind::kState: return block_at(end - 1).snapshots[g] != kGone;
    case GroupKind::kCross: return true;
    case GroupKind::kSlidingWindow: first = std::max<std::int64_t>(0, end - extent + 1); break;
    case GroupKind::kChunked: first = end / extent * extent; break;
    case GroupKind::kFull: break;
  }
  for (std::int64_t t = first / page * page; t < end && first < end; t += page) {
    if (block_at(t).pages[g][static_cast<std::size_t>(t % model.block / page)] == kGone) {
      return false;
    }
  }
  return true;
}

/// Most whole blocks of the first `limit` tokens that every group has what the next token needs of.
[[nodiscard]] inline std::int64_t naive_frontier(const NaiveBlocks& model,
                                                 const std::vector<Run>& runs, std::int64_t limit,
                                                 bool draft) {
  for (std::int64_t end = limit / model.block * model.block; end > 0; end -= model.block) {
    bool all = true;
    for (std::size_t g = 0; g < model.groups.size(); ++g) {
      all = all && ((model.groups[g].is_draft && !draft) || naive_has(model, runs, g, end));
    }
    if (all) {
      return end;
    }
  }
  return 0;
}

/// How far the drafter has what is cached: to the first block without its pages; `matched` when all
/// have them.
[[nodiscard]] inline std::int64_t naive_drafted(const NaiveBlocks& model,
                                                const std::vector<Run>& runs, std::int64_t whole,
                                                std::int64_t matched) {
  for (std::int64_t end = model.block; end <= whole; end += model.block) {
    for (std::size_t g = 0; g < model.groups.size(); ++g) {
      if (model.groups[g].is_draft && model.groups[g].kind == GroupKind::kFull &&
          model.cache.at(runs[static_cast<std::size_t>(end)]).pages[g].front() == kGone) {
        return end - model.block;
      }
    }
  }
  return matched;
}

/// Whether a call can have `demand` pages of each group of a pool beside keeping `kept`.
/// `fence`: from when on a page that nobody holds counts as free; null for always.
[[nodiscard]] inline bool naive_fits(const NaiveBlocks& model, std::size_t pool,
                                     const std::vector<std::int64_t>& demand,
                                     const std::set<std::int32_t>& kept,
                                     std::uint64_t NaivePage::* fence) {
  std::map<std::int64_t, std::pair<std::int32_t, std::int64_t>> slabs;  // group, pages in use
  const PoolDescriptor& shape = model.pools[pool];
  for (const auto& [entry, page] : model.pages[pool]) {
    if (page.held || kept.contains(entry) || (fence != nullptr && page.*fence > model.completed)) {
      auto& slab = slabs[entry * shape.unit_bytes.count() / shape.slab_bytes.count()];
      slab = {page.group, slab.second + 1};
    }
  }
  std::int64_t free_slabs = shape.slabs.count() - static_cast<std::int64_t>(slabs.size());
  for (std::size_t g = 0; g < model.groups.size(); ++g) {
    const CacheGroup& group = model.groups[g];
    if (group.pool == PoolId{static_cast<std::int32_t>(pool)}) {
      std::int64_t need = demand[g];
      for (const auto& [slab, use] : slabs) {
        const bool is_own = use.first == static_cast<std::int32_t>(g);
        need -= is_own ? group.pages_per_slab - use.second : 0;
      }
      free_slabs -= ceil_div(std::max<std::int64_t>(0, need), group.pages_per_slab);
    }
  }
  return free_slabs >= 0;
}

}  // namespace kvpool::test
