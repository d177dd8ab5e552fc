// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0

// Diagnosis: the manager checked against itself, and what it says about ids and pages.

#include "block/manager_impl.hpp"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <string>
#include <utility>

namespace kvpool {

std::string_view to_string(FindingKind kind) noexcept {
  switch (kind) {
    case FindingKind::kCounter: return "counter";
    case FindingKind::kLeak: return "leak";
    case FindingKind::kUseAfterFree: return "use_after_free";
    case FindingKind::kDoubleUse: return "double_use";
    case FindingKind::kStructure: return "structure";
  }
  return "structure";
}

namespace {

/// Findings that are worth listing: one broken thing shows in many places.
constexpr std::size_t kMostFindings = 64;

}  // namespace

/// Everything that is counted again from its parts.
struct BlockManager::Impl::Audit {
  explicit Audit(const Impl& manager) : m{manager} {
    for (const Pool& pool : m.pools) {
      users.emplace_back(pool.pages.impl().slots(), 0U);
      holders.emplace_back(pool.pages.impl().slots(), 0U);
      held.emplace_back(pool.pages.impl().slots(), false);
    }
  }

  void add(Finding finding) {
    if (findings.size() < kMostFindings) {
      findings.push_back(std::move(finding));
    }
  }
  void expect(bool holds, FindingKind kind, std::string message) {
    if (!holds) {
      add({.kind = kind, .message = std::move(message)});
    }
  }
  void expect_equal(std::int64_t counted, std::int64_t kept, std::string_view what) {
    if (counted != kept) {
      add({.kind = FindingKind::kCounter,
           .message = fmt::format("{}: counted {}, kept {}", what, counted, kept)});
    }
  }
  /// A finding about a page: who had it last, and in which step.
  void add_page(FindingKind kind, std::size_t group, std::int32_t page, std::string_view what) {
    const CacheGroup& of = m.described[group];
    const PagePool& pool = m.pools[static_cast<std::size_t>(of.pool.value())].pages;
    Finding finding{
        .kind = kind, .group = GroupId{static_cast<std::int32_t>(group)}, .page = PageId{page}};
    finding.message = fmt::format("{}: page {} {}", of.name, page, what);
    if (const auto owner = pool.owner(PageId{page})) {
      finding.sequence = owner->sequence;
      finding.step = owner->step;
      finding.message += fmt::format("; last had by sequence {}.{}, {} in step {}",
                                     owner->sequence.index, owner->sequence.generation,
                                     owner->is_live ? "taken" : "given back", owner->step.value());
    }
    add(std::move(finding));
  }
  /// Notes a user of a page. @return its slot, or nothing for a page that is not out
  std::optional<std::uint32_t> use(std::size_t group, std::int32_t page, std::string_view by) {
    const Group& of = m.groups[group];
    const Pool& pool = m.pools[static_cast<std::size_t>(of.pool)];
    if (!pool.pages.is_live(PageId{page}) ||
        (of.pages->shared &&
         of.pages->slabs[static_cast<std::size_t>(page / of.pages->units_per_slab)].owner !=
             of.group_in_pool + 1)) {
      add_page(FindingKind::kUseAfterFree, group, page, fmt::format("is free, but {} has it", by));
      return std::nullopt;
    }
    const std::uint32_t slot = of.pages->slot_of(of.group_in_pool, page);
    ++users[static_cast<std::size_t>(of.pool)][slot];
    return slot;
  }
  void use_alone(std::size_t group, std::int32_t page, bool is_held, std::string_view by) {
    const auto slot = use(group, page, by);
    if (slot.has_value() && is_held) {
      held[static_cast<std::size_t>(m.groups[group].pool)][*slot] = true;
    }
    if (slot.has_value() && users[static_cast<std::size_t>(m.groups[group].pool)][*slot] > 1) {
      add_page(FindingKind::kDoubleUse, group, page, fmt::format("has two users, one is {}", by));
    }
  }
  void hold(std::size_t group, std::int32_t page, std::string_view by) {
    if (const auto slot = use(group, page, by)) {
      ++holders[static_cast<std::size_t>(m.groups[group].pool)][*slot];
      held[static_cast<std::size_t>(m.groups[group].pool)][*slot] = true;
    }
  }

  void counters();
  void pool_tables();
  void sequences();
  void tree();
  void pages();
  void held_slabs(std::size_t p);

  const Impl& m;
  std::vector<Finding> findings;
  /// By pool and slot: runs and sequences that have the page, and holders of independent pages.
  std::vector<std::vector<std::uint32_t>> users;
  std::vector<std::vector<std::uint32_t>> holders;
  /// By pool and slot: a sequence or pin has the page.
  std::vector<std::vector<bool>> held;
};

void BlockManager::Impl::Audit::counters() {
  for (std::size_t p = 0; p < m.pools.size(); ++p) {
    const Pool& pool = m.pools[p];
    const PagePool::Impl& pages = pool.pages.impl();
    const std::string& name = m.descriptors[p].name;
    std::int64_t out = 0;
    std::int64_t idle = 0;
    std::int64_t cooling = 0;
    for (std::size_t g = pool.first_group; g < pool.last_group; ++g) {
      const Group& of = m.groups[g];
      const std::int64_t of_group = pages.groups[static_cast<std::size_t>(of.group_in_pool)].out;
      out += of_group;
      idle += of.idle;
      cooling += of.cooling;
      expect(of.idle >= 0 && of.cooling >= 0 && of.idle + of.cooling <= of_group,
             FindingKind::kCounter,
             fmt::format("{}: {} idle and {} cooling of {} pages that are out", m.described[g].name,
                         of.idle, of.cooling, of_group));
    }
    if (!pages.shared) {
      expect_equal(pages.free_page_count() + static_cast<std::int64_t>(pages.pending_count) + out,
                   pages.slabs_end - pages.first_slab,
                   fmt::format("{}: free, waiting and handed out pages", name));
    }
    std::int64_t used = 0;
    std::int64_t tenant_idle = 0;
    std::int64_t tenant_cooling = 0;
    for (std::size_t t = 0; t < m.names.tenants(); ++t) {
      const Tenant& tenant = m.tenants[t * m.pools.size() + p];
      used += tenant.used;
      tenant_idle += tenant.idle;
      tenant_cooling += tenant.cooling;
    }
    expect_equal(used, out, fmt::format("{}: pages charged to tenants", name));
    expect_equal(tenant_idle, idle, fmt::format("{}: idle pages charged to tenants", name));
    expect_equal(tenant_cooling, cooling,
                 fmt::format("{}: cooling pages charged to tenants", name));
  }
  expect_equal(m.live + static_cast<std::int64_t>(m.free_sequences.size()),
               m.options.max_sequences.count(), "live and free sequences");
}

void BlockManager::Impl::Audit::pool_tables() {
  for (std::size_t p = 0; p < m.pools.size(); ++p) {
    const PagePool::Impl& pages = m.pools[p].pages.impl();
    const std::string& name = m.descriptors[p].name;
    std::vector<std::uint8_t> seen(pages.slots());
    std::int64_t out = 0;
    for (std::uint32_t slot = 0; slot < pages.slots(); ++slot) {
      seen[slot] = pages.is_out(slot) ? 1 : 0;
      out += seen[slot];
    }
    std::int64_t counted = 0;
    for (const PagePool::Impl::Group& group : pages.groups) {
      counted += group.out;
    }
    expect_equal(out, counted, fmt::format("{}: pages that are out", name));
    std::vector<std::int32_t> waiting(pages.shared ? static_cast<std::size_t>(pages.slabs_end) : 0);
    for (std::size_t i = 0; i < pages.pending_count; ++i) {
      const auto slot = static_cast<std::size_t>(
          pages.pending_slots[(pages.pending_head + i) % pages.pending_slots.size()]);
      expect(seen[slot] == 0, FindingKind::kStructure,
             fmt::format("{}: slot {} waits and is out, or waits twice", name, slot));
      seen[slot] = 2;
      if (pages.shared) {
        ++waiting[slot / static_cast<std::size_t>(pages.slots_per_slab)];
      }
    }
    if (!pages.shared) {
      for (std::int64_t i = 0; i < pages.free_count; ++i) {
        const std::int32_t slot = pages.free_stack[static_cast<std::size_t>(i)];
        expect(seen[static_cast<std::size_t>(slot)] == 0, FindingKind::kStructure,
               fmt::format("{}: page {} is free and out, or free twice", name, slot));
        seen[static_cast<std::size_t>(slot)] = 3;
      }
      continue;
    }
    std::int64_t quiet = 0;
    std::vector<std::int64_t> spare(pages.groups.size());
    for (std::int32_t s = pages.first_slab; s < pages.slabs_end; ++s) {
      const PagePool::Impl::Slab& slab = pages.slabs[static_cast<std::size_t>(s)];
      if (s >= pages.fresh || slab.owner == 0) {
        ++quiet;
        continue;
      }
      const auto& group = pages.groups[static_cast<std::size_t>(slab.owner - 1)];
      std::int32_t slab_out = 0;
      for (std::int32_t i = 0; i < group.pages_per_slab; ++i) {
        slab_out +=
            seen[static_cast<std::size_t>(s) * static_cast<std::size_t>(pages.slots_per_slab) +
                 static_cast<std::size_t>(i)] == 1
                ? 1
                : 0;
      }
      expect_equal(slab_out, slab.out, fmt::format("{}: pages of slab {} that are out", name, s));
      expect(slab.busy >= waiting[static_cast<std::size_t>(s)] &&
                 slab.busy <= slab.out + waiting[static_cast<std::size_t>(s)],
             FindingKind::kCounter,
             fmt::format("{}: slab {} has {} busy pages, {} out and {} waiting", name, s, slab.busy,
                         slab.out, waiting[static_cast<std::size_t>(s)]));
      quiet += slab.busy == 0 ? 1 : 0;
      spare[static_cast<std::size_t>(slab.owner - 1)] +=
          slab.busy == 0 ? 0 : group.pages_per_slab - slab.busy;
    }
    expect_equal(quiet, pages.quiet_slabs, fmt::format("{}: quiet slabs", name));
    for (std::size_t g = 0; g < spare.size(); ++g) {
      expect_equal(spare[g], pages.groups[g].spare, fmt::format("{}: spare pages", name));
    }
  }
}

void BlockManager::Impl::Audit::sequences() {
  for (std::size_t s = 0; s < m.hot.size(); ++s) {
    const Hot& h = m.hot[s];
    if (h.generation == kNil) {
      continue;
    }
    const Cold& c = m.cold[s];
    const std::string by = fmt::format("sequence {}.{}", s, h.generation);
    expect(h.reserved >= h.committed && h.committed >= m.computed(h), FindingKind::kStructure,
           fmt::format("{}: {} reserved, {} committed, {} computed", by, h.reserved, h.committed,
                       m.computed(h)));
    for (std::size_t g = 0; g < m.groups.size(); ++g) {
      const Group& of = m.groups[g];
      const Cell& at = m.cell(s, g);
      if ((h.groups >> g & 1U) == 0) {
        continue;
      }
      const std::int32_t* const row = m.row(s, g);
      if (of.paged) {
        expect_equal(std::max<std::int64_t>(at.first, ceil_div(h.reserved, of.page)), at.end,
                     fmt::format("{}: blocks in {}", by, m.described[g].name));
      }
      if (of.independent) {
        for (std::int32_t column = at.first; column < at.end; ++column) {
          hold(g, row[column], by);
        }
        if (at.snapshot >= 0) {
          hold(g, at.snapshot, by);
        }
        continue;
      }
      // Blocks that are recorded in runs are the runs' pages; the others are its own.
      std::int64_t base = c.open_base;
      const std::int64_t recorded = of.draft ? c.draft_done : c.done;
      for (std::uint32_t run = c.open; run != block::kRoot; run = m.runs[run].parent) {
        if (run != c.open) {
          base -= m.runs[run].blocks * m.block_tokens;
        }
        for (std::int64_t i = 0; i < m.runs[run].blocks * of.per_block; ++i) {
          const std::int64_t column = base / of.page + i;
          const auto place =
              static_cast<std::size_t>(m.runs[run].start) * static_cast<std::size_t>(of.per_block) +
              static_cast<std::size_t>(i);
          if (column < recorded / of.page && row[column] != of.by_unit[place]) {
            add_page(FindingKind::kStructure, g, row[column],
                     fmt::format("of {} is not the one of its run, {}", by, of.by_unit[place]));
          }
        }
      }
      expect(base == 0, FindingKind::kStructure,
             fmt::format("{}: its path begins at token {}", by, base));
      for (std::int64_t column = recorded / of.page; column < at.end; ++column) {
        use_alone(g, row[column], true, by);
      }
    }
  }
  for (const Pin& pin : m.pins) {
    if (pin.live) {
      const_cast<Impl&>(m).for_each_window_page(  // NOLINT: only reads here
          {.run = pin.run, .blocks = m.runs[pin.run].blocks}, pin.tokens, pin.draft,
          [this](std::size_t g, std::int64_t, std::int32_t page) { hold(g, page, "a pin"); });
    }
  }
}

void BlockManager::Impl::Audit::tree() {
  std::vector<std::uint32_t> locks(m.runs.end());
  std::vector<std::uint32_t> children(m.runs.end());
  const auto in_use = [this](std::uint32_t run) {
    return m.runs[run].capacity != 0 || m.runs[run].has(Run::kOwned);
  };
  std::int64_t units = 0;
  std::uint32_t used = 0;
  std::int64_t listed = 0;
  std::int64_t cooling = 0;
  std::vector<std::int64_t> idle_pages(m.groups.size());
  std::vector<std::int64_t> cooling_pages(m.groups.size());
  for (std::size_t s = 0; s < m.hot.size(); ++s) {
    if (m.hot[s].generation != kNil) {
      std::uint32_t run = m.cold[s].open;
      while (m.runs[run].list.next != kNil) {
        run = m.runs[run].list.next;
      }
      ++locks[run];
    }
  }
  for (const Pin& pin : m.pins) {
    if (pin.live) {
      ++locks[pin.run];
    }
  }
  for (std::uint32_t run = 1; run < m.runs.end(); ++run) {
    const Run& of = m.runs[run];
    if (!in_use(run)) {
      continue;
    }
    ++used;
    units += of.capacity;
    locks[of.parent] += of.locks != 0 ? 1U : 0U;
    children[of.parent] += of.has(Run::kPublished) ? 1U : 0U;
    listed += of.has(Run::kListed) ? 1 : 0;
    cooling += of.has(Run::kCooling) ? 1 : 0;
    const std::string by = fmt::format("run {}", run);
    expect(of.blocks <= of.capacity, FindingKind::kStructure,
           fmt::format("{}: {} blocks in {} units", by, of.blocks, of.capacity));
    for (std::uint32_t unit = of.start; unit < of.start + of.capacity; ++unit) {
      expect(!m.runs.extents().is_free(unit), FindingKind::kStructure,
             fmt::format("{}: its unit {} is free", by, unit));
    }
    if (of.locks == 0) {
      const bool is_leaf = of.first_child == kNil;
      expect(of.has(Run::kPublished), FindingKind::kStructure,
             fmt::format("{}: nobody holds it, and nobody finds it", by));
      expect(of.has(Run::kCooling) || of.has(Run::kListed) == is_leaf, FindingKind::kStructure,
             fmt::format("{}: a leaf that is in no list, or the reverse", by));
      expect(!of.has(Run::kCooling) || !of.has(Run::kListed), FindingKind::kStructure,
             fmt::format("{}: in two lists", by));
    } else {
      expect(!of.has(Run::kCooling) && !of.has(Run::kListed), FindingKind::kStructure,
             fmt::format("{}: held, and in a list", by));
    }
    if (of.has(Run::kPublished)) {
      expect(m.runs.find(of.parent, of.name_space, m.runs.tokens(of.start)) == run,
             FindingKind::kStructure, fmt::format("{}: not found below {}", by, of.parent));
    }
    for (std::size_t g = 0; g < m.groups.size(); ++g) {
      const Group& group = m.groups[g];
      if (group.per_block == 0) {
        continue;
      }
      const bool has_pages = !group.draft || of.has(Run::kDraft);
      const std::size_t first = std::size_t{of.start} * static_cast<std::size_t>(group.per_block);
      for (std::size_t i = first;
           has_pages && i < first + of.blocks * static_cast<std::size_t>(group.per_block); ++i) {
        const std::int32_t page = group.by_unit[i];
        if (!group.independent) {
          use_alone(g, page, of.locks != 0, by);
          idle_pages[g] += of.locks == 0 && !of.has(Run::kCooling) ? 1 : 0;
          cooling_pages[g] += of.has(Run::kCooling) ? 1 : 0;
          continue;
        }
        if (page < 0) {
          continue;
        }
        if (!use(g, page, by).has_value()) {
          continue;
        }
        const Meta& meta = const_cast<Impl&>(m).meta_of(group, page);  // NOLINT: only reads here
        expect(meta.has(Meta::kRecorded) && meta.place == i &&
                   meta.has(Meta::kKept) == of.has(Run::kPublished) &&
                   (meta.holders == 0) == (meta.has(Meta::kListed) || meta.has(Meta::kCooling)),
               FindingKind::kStructure,
               fmt::format("{}: what is known of page {} in {} does not fit", by, page,
                           m.described[g].name));
        idle_pages[g] += meta.has(Meta::kListed) ? 1 : 0;
        cooling_pages[g] += meta.has(Meta::kCooling) ? 1 : 0;
      }
    }
  }
  for (std::uint32_t run = 1; run < m.runs.end(); ++run) {
    if (!in_use(run)) {
      continue;
    }
    expect_equal(locks[run], m.runs[run].locks, fmt::format("run {}: locks", run));
    std::uint32_t linked = 0;
    for (std::uint32_t child = m.runs[run].first_child; child != kNil && linked <= used;
         child = m.runs[child].siblings.next) {
      ++linked;
    }
    expect_equal(children[run], linked, fmt::format("run {}: children", run));
  }
  expect_equal(used, m.runs.used_runs(), "runs in use");
  expect_equal(units + m.runs.extents().free_units(), m.runs.extents().units(), "units");
  std::int64_t in_lists = 0;
  for (std::size_t level = 0; level < LevelLists::kLevels; ++level) {
    for (std::uint32_t run = m.run_lists.level(level).head; run != kNil && in_lists <= used;
         run = m.runs[run].list.next) {
      ++in_lists;
      expect(m.level_of(m.runs[run]) == level, FindingKind::kStructure,
             fmt::format("run {}: in the list of level {}", run, level));
    }
  }
  expect_equal(listed, in_lists, "runs in lists of levels");
  std::int64_t in_cooling = 0;
  for (std::uint32_t run = m.cooling_runs.head; run != kNil && in_cooling <= used;
       run = m.runs[run].list.next) {
    ++in_cooling;
  }
  expect_equal(cooling, in_cooling, "cooling runs");
  for (std::size_t g = 0; g < m.groups.size(); ++g) {
    expect_equal(idle_pages[g], m.groups[g].idle,
                 fmt::format("{}: idle pages", m.described[g].name));
    expect_equal(cooling_pages[g], m.groups[g].cooling,
                 fmt::format("{}: cooling pages", m.described[g].name));
  }
}

void BlockManager::Impl::Audit::pages() {
  for (std::size_t p = 0; p < m.pools.size(); ++p) {
    const PagePool::Impl& pool = m.pools[p].pages.impl();
    for (std::uint32_t slot = 0; slot < pool.slots(); ++slot) {
      if (!pool.is_out(slot)) {
        continue;
      }
      const auto slab = static_cast<std::int32_t>(slot) / pool.slots_per_slab;
      const std::int32_t in_pool =
          pool.shared ? pool.slabs[static_cast<std::size_t>(slab)].owner - 1 : 0;
      const std::size_t group = m.pools[p].first_group + static_cast<std::size_t>(in_pool);
      const std::int32_t page =
          pool.shared
              ? pool.page_at(in_pool, slab, static_cast<std::int32_t>(slot) % pool.slots_per_slab)
              : static_cast<std::int32_t>(slot);
      if (users[p][slot] == 0) {
        add_page(FindingKind::kLeak, group, page, "is handed out, and nobody has it");
      }
      if (m.groups[group].independent) {
        expect_equal(holders[p][slot], m.pools[p].meta[slot].holders,
                     fmt::format("{}: holders of page {}", m.described[group].name, page));
      }
    }
    if (pool.shared) {
      held_slabs(p);
    }
  }
}

void BlockManager::Impl::Audit::held_slabs(std::size_t p) {
  const PagePool::Impl& pool = m.pools[p].pages.impl();
  const std::string& name = m.descriptors[p].name;
  std::int64_t unheld = 0;
  std::vector<std::int64_t> spare(pool.groups.size());
  for (std::int32_t s = pool.first_slab; s < pool.slabs_end; ++s) {
    const auto first = held[p].begin() + std::int64_t{s} * pool.slots_per_slab;
    const std::int64_t counted = std::count(first, first + pool.slots_per_slab, true);
    const PagePool::Impl::Slab& slab = pool.slabs[static_cast<std::size_t>(s)];
    expect_equal(counted, slab.held, fmt::format("{}: held pages of slab {}", name, s));
    if (counted == 0) {
      ++unheld;
    } else {
      const auto group = static_cast<std::size_t>(slab.owner - 1);
      spare[group] += pool.groups[group].pages_per_slab - counted;
    }
  }
  expect_equal(unheld, pool.unheld_slabs, fmt::format("{}: slabs without held pages", name));
  for (std::size_t g = 0; g < spare.size(); ++g) {
    expect_equal(spare[g], pool.groups[g].spare_later,
                 fmt::format("{}: spare pages once all has settled", name));
  }
}

std::vector<Finding> BlockManager::Impl::check_invariants(CheckLevel level) const {
  Audit audit{*this};
  audit.counters();
  if (level >= CheckLevel::kPools) {
    audit.pool_tables();
  }
  if (level >= CheckLevel::kEverything) {
    audit.tree();
    audit.sequences();
    audit.pages();
  }
  return std::move(audit.findings);
}

std::string BlockManager::describe(SequenceId sequence) const {
  const Impl& m = *impl_;
  if (sequence.index >= m.hot.size()) {
    return fmt::format("sequence {}.{}: never handed out; there are {} slots", sequence.index,
                       sequence.generation, m.hot.size());
  }
  const SequenceLengths of = lengths(sequence);
  if (is_live(sequence)) {
    return fmt::format("sequence {}.{}: live; {} tokens reserved, {} committed, {} computed",
                       sequence.index, sequence.generation, of.reserved.count(),
                       of.committed.count(), of.computed.count());
  }
  const Impl::Cold& c = m.cold[sequence.index];
  if (sequence.generation >= c.generation) {
    return fmt::format("sequence {}.{}: never handed out", sequence.index, sequence.generation);
  }
  if (sequence.generation + 1 == c.generation) {
    return fmt::format("sequence {}.{}: stale; it was released in step {}", sequence.index,
                       sequence.generation, c.released_in);
  }
  return fmt::format("sequence {}.{}: stale; it was released before generation {} got its slot",
                     sequence.index, sequence.generation, sequence.generation + 1);
}

std::string BlockManager::describe(GroupId group, PageId page) const {
  const CacheGroup& of = impl_->described[static_cast<std::size_t>(group.value())];
  const PagePool& pool = page_pool(of.pool);
  const auto owner = pool.owner(page);
  const char* const state = pool.is_live(page) ? "handed out" : "free";
  if (!owner.has_value()) {
    return fmt::format("page {} of {}: {}", page.value(), of.name, state);
  }
  return fmt::format("page {} of {}: {}; last had by sequence {}.{}, {} in step {}", page.value(),
                     of.name, state, owner->sequence.index, owner->sequence.generation,
                     owner->is_live ? "taken" : "given back", owner->step.value());
}

std::uint64_t BlockManager::fingerprint() const noexcept {
  const Impl& m = *impl_;
  // XXH3 over what engines see, in a fixed order; addresses and spare tables stay out.
  std::uint64_t print = 0;
  const auto mix = [&print](const void* data, std::size_t size) {
    print = XXH3_64bits_withSeed(data, size, print);
  };
  const auto mix_number = [&mix](std::int64_t number) { mix(&number, sizeof(number)); };
  mix_number(static_cast<std::int64_t>(m.opened));
  mix_number(static_cast<std::int64_t>(m.completed));
  mix_number(m.now);
  std::vector<std::int32_t> tokens;
  for (std::size_t s = 0; s < m.hot.size(); ++s) {
    const Impl::Hot& h = m.hot[s];
    mix_number(m.cold[s].generation);
    if (h.generation == kNil) {
      continue;
    }
    mix_number(h.reserved);
    mix_number(h.committed);
    mix_number(m.computed(h));
    mix_number(static_cast<std::int64_t>(h.groups));
    tokens.resize(static_cast<std::size_t>(std::max(h.committed, m.cold[s].prompt)));
    m.read_tokens(s, 0, tokens);
    mix(tokens.data(), tokens.size() * sizeof(std::int32_t));
    Impl::each(h.groups, [&](std::size_t g) {
      const Impl::Cell& at = m.cell(s, g);
      mix_number(at.first);
      mix_number(at.end);
      mix_number(at.snapshot);
      mix(m.row(s, g), static_cast<std::size_t>(at.end) * sizeof(std::int32_t));
    });
  }
  for (std::uint32_t run = 1; run < m.runs.end(); ++run) {
    const block::Run& of = m.runs[run];
    if (!of.has(block::Run::kPublished)) {
      continue;
    }
    mix_number(of.parent);
    mix_number(of.blocks);
    mix_number(of.name_space);
    mix_number(of.priority);
    mix_number(of.locks);
    mix(m.runs.tokens(of.start), of.blocks * static_cast<std::size_t>(m.block_tokens) * 4);
  }
  for (const Impl::Tenant& tenant : m.tenants) {
    mix_number(tenant.used);
    mix_number(tenant.idle);
    mix_number(tenant.quota);
  }
  for (const Impl::Group& group : m.groups) {
    mix_number(group.idle);
    mix_number(group.cooling);
    mix_number(group.pages->groups[static_cast<std::size_t>(group.group_in_pool)].out);
  }
  return print;
}

}  // namespace kvpool
