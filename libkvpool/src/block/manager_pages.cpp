// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0

// Pages in and out: what can be had, evicting for it, and who holds what.

#include "block/manager_impl.hpp"

#include <algorithm>

namespace kvpool {

void BlockManager::Impl::refuse(BlockStatus status) noexcept {
  ++counters.refused;
  shortage_lines.clear();
  shortage = {.status = status};
}

std::int64_t BlockManager::Impl::available(std::size_t group) const noexcept {
  const Group& of = groups[group];
  const PagePool::Impl& pool = *of.pages;
  if (!pool.shared) {
    return pool.free_page_count() + of.idle;
  }
  const PagePool::Impl::Group& pooled = pool.groups[static_cast<std::size_t>(of.group_in_pool)];
  return pooled.spare + pool.quiet_slabs * pooled.pages_per_slab;
}

BlockStatus BlockManager::Impl::check(const Need& need) noexcept {
  BlockStatus status = BlockStatus::kOk;
  for (const Pool& pool : pools) {
    const PagePool::Impl& pages = pool.pages.impl();
    bool fits = true;
    bool fits_later = true;
    if (!pages.shared) {
      const std::size_t g = pool.first_group;
      const std::int64_t now_there = available(g) - need.pinned[g];
      fits = need.pages[g] <= now_there;
      fits_later = need.pages[g] <= now_there + groups[g].cooling - need.pinned_cooling[g] +
                                        static_cast<std::int64_t>(pages.pending_count);
    } else {
      std::int64_t slabs = 0;
      std::int64_t slabs_later = 0;
      for (std::size_t g = pool.first_group; g < pool.last_group; ++g) {
        const PagePool::Impl::Group& of =
            pages.groups[static_cast<std::size_t>(groups[g].group_in_pool)];
        const std::int64_t missing = need.pages[g] - of.spare;
        const std::int64_t later = need.pages[g] - of.spare_later;
        slabs += missing > 0 ? of.by_pages_per_slab.ceil(missing) : 0;
        slabs_later += later > 0 ? of.by_pages_per_slab.ceil(later) : 0;
      }
      fits = slabs <= pages.quiet_slabs;
      fits_later = slabs_later <= pages.unheld_slabs;
    }
    if (fits) {
      continue;
    }
    if (status == BlockStatus::kOk) {
      shortage_lines.clear();
    }
    status = fits_later && status != BlockStatus::kNoPages ? BlockStatus::kUnsettled
                                                           : BlockStatus::kNoPages;
    for (std::size_t g = pool.first_group; g < pool.last_group; ++g) {
      const std::int64_t pending =
          pages.shared ? pages.groups[static_cast<std::size_t>(groups[g].group_in_pool)].pending
                       : static_cast<std::int64_t>(pages.pending_count);
      shortage_lines.push_back(
          {.group = GroupId{static_cast<std::int32_t>(g)},
           .needed = Pages{need.pages[g]},
           .available = Pages{available(g) - (pages.shared ? 0 : need.pinned[g])},
           .unsettled = Pages{groups[g].cooling - need.pinned_cooling[g] + pending}});
    }
  }
  if (status != BlockStatus::kOk) {
    shortage = {.status = status, .groups = shortage_lines};
    if (status == BlockStatus::kUnsettled) {
      shortage.settles_at = Epoch{opened};
    }
    return status;
  }
  if (need.tenant == 0) {
    return BlockStatus::kOk;
  }
  for (std::size_t p = 0; p < pools.size(); ++p) {
    const Tenant& tenant = tenant_of(need.tenant, static_cast<std::int32_t>(p));
    if (tenant.quota < 0) {
      continue;
    }
    std::int64_t own = 0;
    for (std::size_t g = pools[p].first_group; g < pools[p].last_group; ++g) {
      own += need.own[g];
    }
    const std::int64_t over = tenant.used + own - tenant.quota;
    const std::int64_t evictable = tenant.idle - need.pinned_own[p];
    if (own == 0 || over <= std::max<std::int64_t>(0, evictable)) {
      continue;
    }
    const bool later = over <= evictable + tenant.cooling - need.pinned_own_cooling[p];
    shortage_lines.clear();
    shortage = {.status = later ? BlockStatus::kUnsettled : BlockStatus::kOverQuota,
                .tenant = TenantId{static_cast<std::int32_t>(need.tenant)},
                .pool = PoolId{static_cast<std::int32_t>(p)},
                .over_quota = Pages{over - evictable}};
    if (later) {
      shortage.settles_at = Epoch{opened};
    }
    return shortage.status;
  }
  return BlockStatus::kOk;
}

bool BlockManager::Impl::gate_admits(const Need& need) noexcept {
  if (options.gate.admits == nullptr) {
    return true;
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::int64_t i = 0; i < need.pages[g]; ++i) {
      if (!options.gate.admits(options.gate.context, PoolId{groups[g].pool},
                               groups[g].group_in_pool)) {
        shortage_lines.clear();
        shortage_lines.push_back({.group = GroupId{static_cast<std::int32_t>(g)},
                                  .needed = Pages{need.pages[g]},
                                  .available = Pages{i}});
        shortage = {.status = BlockStatus::kNoPages, .groups = shortage_lines};
        return false;
      }
    }
  }
  return true;
}

void BlockManager::Impl::prepare(const Need& need) noexcept {
  if (any_shared) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      remaining[g] = need.pages[g];
    }
  }
  if (need.tenant == 0) {
    return;
  }
  for (std::size_t p = 0; p < pools.size(); ++p) {
    const Tenant& tenant = tenant_of(need.tenant, static_cast<std::int32_t>(p));
    if (tenant.quota < 0) {
      continue;
    }
    std::int64_t own = 0;
    for (std::size_t g = pools[p].first_group; g < pools[p].last_group; ++g) {
      own += need.own[g];
    }
    while (own > 0 && tenant.used + own > tenant.quota && evict_own(need.tenant, p)) {
    }
  }
}

std::int32_t BlockManager::Impl::take(std::size_t group, std::size_t tenant, bool plenty) noexcept {
  Group& of = groups[group];
  PagePool::Impl& pool = *of.pages;
  pool.owner = current;
  std::int32_t page = -1;
  if (!pool.shared) {
    if (pool.free_page_count() == 0) {
      evict_one(group);
    }
    page = pool.silent ? pool.take_simple() : pool.take(0, true);
  } else {
    const Pool& at = pools[static_cast<std::size_t>(of.pool)];
    page = pool.take(of.group_in_pool, plenty);
    while (page < 0) {
      // A slab may be taken unless the other groups of this call need all that are left.
      std::int64_t others = 0;
      std::int64_t mine = 0;
      for (std::size_t g = at.first_group; g < at.last_group; ++g) {
        const PagePool::Impl::Group& pooled =
            pool.groups[static_cast<std::size_t>(groups[g].group_in_pool)];
        const std::int64_t missing = remaining[g] - pooled.spare;
        const std::int64_t slabs = missing > 0 ? pooled.by_pages_per_slab.ceil(missing) : 0;
        (g == group ? mine : others) += slabs;
      }
      const bool may_take_slab = mine > 0 || pool.quiet_slabs > others;
      page = pool.take(of.group_in_pool, may_take_slab);
      if (page >= 0) {
        break;
      }
      if (mine > 0 || of.idle == 0) {
        reclaim_slab(static_cast<std::size_t>(of.pool));
      } else {
        evict_one(group);
      }
    }
    --remaining[group];
  }
  ++tenant_of(tenant, of.pool).used;
  if (of.independent) {
    begin_meta(group, page, tenant);
  }
  return page;
}

std::int32_t BlockManager::Impl::take_optional(std::size_t group, std::size_t tenant) noexcept {
  Need need{groups.size()};
  need.pages[group] = 1;
  need.own[group] = tenant == 0 ? 0 : 1;
  need.tenant = tenant;
  const Shortage before = shortage;
  if (check(need) != BlockStatus::kOk || !gate_admits(need)) {
    shortage = before;
    shortage.groups = {};
    return -1;
  }
  prepare(need);
  return take(group, tenant);
}

void BlockManager::Impl::give_back(std::size_t group, std::int32_t page, std::size_t tenant,
                                   bool settled) noexcept {
  Group& of = groups[group];
  --tenant_of(tenant, of.pool).used;
  of.pages->give_back(of.group_in_pool, page, settled);
}

bool BlockManager::Impl::evict_one(std::size_t group) noexcept {
  Group& of = groups[group];
  if (of.independent) {
    const std::uint32_t slot = of.lists.front();
    if (slot == kNil) {
      return false;
    }
    const Pool& pool = pools[static_cast<std::size_t>(of.pool)];
    drop_page(group, of.by_unit[pool.meta[slot].place]);
    ++counters.evicted_pages;
    return true;
  }
  // Runs without pages of the group go on the way (draft groups).
  while (of.idle > 0) {
    const std::uint32_t run = run_lists.front();
    if (run == kNil) {
      return false;
    }
    const std::int64_t before = of.idle;
    drop_block(run);
    if (of.idle != before) {
      return true;
    }
  }
  return false;
}

bool BlockManager::Impl::evict_own(std::size_t tenant, std::size_t pool) noexcept {
  for (std::size_t g = pools[pool].first_group; g < pools[pool].last_group; ++g) {
    const LinkedList& list = tenant_pages[tenant * groups.size() + g];
    if (!list.empty()) {
      drop_page(g, groups[g].by_unit[pools[pool].meta[list.head].place]);
      ++counters.evicted_pages;
      return true;
    }
  }
  const std::uint32_t run = tenant_runs[tenant].head;
  if (run == kNil) {
    return false;
  }
  drop_block(run);
  return true;
}

void BlockManager::Impl::reclaim_slab(std::size_t pool) noexcept {
  PagePool::Impl& pages = pools[pool].pages.impl();
  const std::uint32_t slab = pages.reclaimable.front();
  if (slab == kNil) {
    return;
  }
  const std::int32_t in_pool = pages.slabs[slab].owner - 1;
  const std::size_t group = pools[pool].first_group + static_cast<std::size_t>(in_pool);
  Group& of = groups[group];
  const std::uint32_t first = slab * static_cast<std::uint32_t>(pages.slots_per_slab);
  const std::int32_t count = pages.groups[static_cast<std::size_t>(in_pool)].pages_per_slab;
  for (std::int32_t i = 0; i < count && pages.slabs[slab].owner == in_pool + 1; ++i) {
    const std::uint32_t slot = first + static_cast<std::uint32_t>(i);
    // Dropping one block may have freed later pages of the slab.
    while (pages.slabs[slab].owner == in_pool + 1 && pages.is_out(slot)) {
      const std::uint32_t place = pools[pool].meta[slot].place;
      if (of.independent) {
        drop_page(group, of.by_unit[place]);
        ++counters.evicted_pages;
        continue;
      }
      const auto unit = static_cast<std::uint32_t>(place / of.per_block);
      const std::uint32_t run = run_of_unit[unit];
      drop_below(run);
      // The run itself goes with its last block: look at the page again after each.
      drop_block(run);
    }
  }
}

void BlockManager::Impl::list_page(std::size_t group, std::uint32_t slot,
                                   std::size_t level) noexcept {
  Group& of = groups[group];
  Pool& pool = pools[static_cast<std::size_t>(of.pool)];
  Meta& meta = pool.meta[slot];
  meta.level = static_cast<std::uint8_t>(level);
  meta.set(Meta::kListed);
  of.lists.push_back(slot, level, [&pool](std::uint32_t i) -> Link& { return pool.meta[i].list; });
  ++of.idle;
  ++tenant_of(meta.tenant, of.pool).idle;
  if (meta.tenant != 0) {
    tenant_pages[meta.tenant * groups.size() + group].push_back(
        slot, [&pool](std::uint32_t i) -> Link& { return pool.meta[i].tenant_list; });
  }
  of.pages->mark_idle(of.group_in_pool, slot, level);
}

void BlockManager::Impl::unlist_page(std::size_t group, std::int32_t page) noexcept {
  Group& of = groups[group];
  Pool& pool = pools[static_cast<std::size_t>(of.pool)];
  const std::uint32_t slot = of.pages->slot_of(of.group_in_pool, page);
  Meta& meta = pool.meta[slot];
  const auto link = [&pool](std::uint32_t i) -> Link& { return pool.meta[i].list; };
  if (meta.has(Meta::kListed)) {
    of.lists.erase(slot, meta.level, link);
    --of.idle;
    --tenant_of(meta.tenant, of.pool).idle;
    if (meta.tenant != 0) {
      tenant_pages[meta.tenant * groups.size() + group].erase(
          slot, [&pool](std::uint32_t i) -> Link& { return pool.meta[i].tenant_list; });
    }
  } else {
    of.cooling_list.erase(slot, link);
    of.pages->mark_cooling(of.group_in_pool, page, false);
    --of.cooling;
    --tenant_of(meta.tenant, of.pool).cooling;
  }
}

void BlockManager::Impl::drop_page(std::size_t group, std::int32_t page) noexcept {
  Group& of = groups[group];
  Meta& meta = meta_of(of, page);
  const bool settled = meta.has(Meta::kListed);
  unlist_page(group, page);
  of.by_unit[meta.place] = -1;
  meta.flags = 0;
  --tenant_of(meta.tenant, of.pool).used;
  if (settled) {
    of.pages->give_back_idle(of.group_in_pool, page);
  } else {
    of.pages->give_back(of.group_in_pool, page, false);
  }
}

void BlockManager::Impl::hold(std::size_t group, std::int32_t page) noexcept {
  Group& of = groups[group];
  Meta& meta = meta_of(of, page);
  if (meta.holders++ != 0) {
    return;
  }
  const bool was_idle = meta.has(Meta::kListed);
  unlist_page(group, page);
  meta.clear(Meta::kListed);
  meta.clear(Meta::kCooling);
  if (was_idle) {
    of.pages->mark_busy(of.group_in_pool, page);
  }
}

void BlockManager::Impl::let_go(std::size_t group, std::int32_t page, bool passed) noexcept {
  Group& of = groups[group];
  Pool& pool = pools[static_cast<std::size_t>(of.pool)];
  const std::uint32_t slot = of.pages->slot_of(of.group_in_pool, page);
  Meta& meta = pool.meta[slot];
  if (!passed) {
    meta.epoch = static_cast<std::uint32_t>(opened);
  }
  if (--meta.holders != 0) {
    return;
  }
  // Epoch 0 was never opened: a page that was only passed is as good as settled.
  const bool settled = opened == completed || meta.epoch == 0 || is_done(meta.epoch);
  if (!meta.has(Meta::kKept)) {
    if (meta.has(Meta::kRecorded)) {
      of.by_unit[meta.place] = -1;
    }
    meta.flags = 0;
    give_back(group, page, meta.tenant, settled);
    return;
  }
  if (passed) {
    meta.level = 0;
  }
  if (settled) {
    list_page(group, slot, meta.level);
    return;
  }
  meta.set(Meta::kCooling);
  of.cooling_list.push_back(slot, [&pool](std::uint32_t i) -> Link& { return pool.meta[i].list; });
  of.pages->mark_cooling(of.group_in_pool, page, true);
  ++of.cooling;
  ++tenant_of(meta.tenant, of.pool).cooling;
}

void BlockManager::Impl::settle() noexcept {
  for (Pool& pool : pools) {
    pool.pages.impl().opened = opened;
    pool.pages.impl().completed = completed;
    pool.pages.impl().settle();
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    Group& of = groups[g];
    Pool& pool = pools[static_cast<std::size_t>(of.pool)];
    while (!of.cooling_list.empty() && is_done(pool.meta[of.cooling_list.head].epoch)) {
      const std::uint32_t slot = of.cooling_list.head;
      Meta& meta = pool.meta[slot];
      unlist_page(g, of.by_unit[meta.place]);
      meta.clear(Meta::kCooling);
      list_page(g, slot, meta.level);
    }
  }
  while (!cooling_runs.empty() && is_done(runs[cooling_runs.head].epoch)) {
    const std::uint32_t run = cooling_runs.head;
    cooling_runs.erase(run, [this](std::uint32_t i) -> Link& { return runs[i].list; });
    runs[run].clear(Run::kCooling);
    count_pages(run, 0, runs[run].blocks, 1, -1);
    if (runs[run].first_child == kNil) {
      list_run(run, false);
    }
  }
}

}  // namespace kvpool
