// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0

// Runs: who holds them, in what order they go, how they are found, and how sequences fill them.

#include "block/manager_impl.hpp"

#include <algorithm>
#include <cstring>

namespace kvpool {

void BlockManager::Impl::count_pages(std::uint32_t run, std::uint32_t first, std::uint32_t blocks,
                                     std::int64_t idle, std::int64_t cooling) noexcept {
  const Run& of = runs[run];
  idle_units += idle * of.capacity;
  cooling_units += cooling * of.capacity;
  for (Group& group : groups) {
    if (group.independent || (group.draft && !of.has(Run::kDraft))) {
      continue;
    }
    const std::int64_t pages = blocks * group.per_block;
    group.idle += idle * pages;
    group.cooling += cooling * pages;
    Tenant& tenant = tenant_of(of.tenant, group.pool);
    tenant.idle += idle * pages;
    tenant.cooling += cooling * pages;
    if (group.pages->shared) {
      const std::int32_t* const entries =
          group.by_unit.data() +
          (std::size_t{of.start} + first) * static_cast<std::size_t>(group.per_block);
      for (std::int64_t i = 0; i < pages; ++i) {
        if (cooling != 0) {
          group.pages->mark_cooling(group.group_in_pool, entries[i], cooling > 0);
        }
        if (idle > 0) {
          group.pages->mark_idle(group.group_in_pool,
                                 group.pages->slot_of(group.group_in_pool, entries[i]),
                                 level_of(of));
        } else if (idle < 0) {
          group.pages->mark_busy(group.group_in_pool, entries[i]);
        }
      }
    }
  }
}

void BlockManager::Impl::list_run(std::uint32_t run, bool front) noexcept {
  Run& of = runs[run];
  if (time_to_live[run] != 0) {
    if (expires[run] <= now) {
      time_to_live[run] = 0;
      of.priority = kDefaultPriority;
    } else {
      timers.arm(run, expires[run]);
    }
  }
  const auto link = [this](std::uint32_t i) -> Link& { return runs[i].list; };
  if (front) {
    run_lists.push_front(run, level_of(of), link);
  } else {
    run_lists.push_back(run, level_of(of), link);
  }
  of.set(Run::kListed);
  if (of.tenant != 0) {
    tenant_runs[of.tenant].push_back(run,
                                     [this](std::uint32_t i) -> Link& { return tenant_links[i]; });
  }
}

void BlockManager::Impl::unlist_run(std::uint32_t run) noexcept {
  Run& of = runs[run];
  run_lists.erase(run, level_of(of), [this](std::uint32_t i) -> Link& { return runs[i].list; });
  of.clear(Run::kListed);
  if (time_to_live[run] != 0) {
    timers.disarm(run);
  }
  if (of.tenant != 0) {
    tenant_runs[of.tenant].erase(run, [this](std::uint32_t i) -> Link& { return tenant_links[i]; });
  }
}

void BlockManager::Impl::expire(std::uint32_t run) noexcept {
  const auto link = [this](std::uint32_t i) -> Link& { return runs[i].list; };
  run_lists.erase(run, level_of(runs[run]), link);
  time_to_live[run] = 0;
  runs[run].priority = kDefaultPriority;
  run_lists.push_back(run, level_of(runs[run]), link);
}

void BlockManager::Impl::lock(std::uint32_t run) noexcept {
  while (run != block::kRoot && runs[run].locks++ == 0) {
    Run& of = runs[run];
    if (of.has(Run::kCooling)) {
      cooling_runs.erase(run, [this](std::uint32_t i) -> Link& { return runs[i].list; });
      of.clear(Run::kCooling);
      count_pages(run, 0, of.blocks, 0, -1);
    } else {
      if (of.has(Run::kListed)) {
        unlist_run(run);
      }
      count_pages(run, 0, of.blocks, -1, 0);
    }
    run = of.parent;
  }
}

void BlockManager::Impl::unlock(std::uint32_t run) noexcept {
  ++stamp;
  while (run != block::kRoot && --runs[run].locks == 0) {
    Run& of = runs[run];
    of.stamp = stamp;
    of.epoch = static_cast<std::uint32_t>(opened);
    if (time_to_live[run] != 0) {
      // The end of time is never reached.
      expires[run] = now > INT64_MAX - time_to_live[run] ? INT64_MAX : now + time_to_live[run];
    }
    if (opened == completed) {
      count_pages(run, 0, of.blocks, 1, 0);
      if (of.first_child == kNil) {
        list_run(run, false);
      }
    } else {
      count_pages(run, 0, of.blocks, 0, 1);
      of.set(Run::kCooling);
      cooling_runs.push_back(run, [this](std::uint32_t i) -> Link& { return runs[i].list; });
    }
    run = of.parent;
  }
}

void BlockManager::Impl::drop_block(std::uint32_t run) noexcept {
  Run& of = runs[run];
  const bool settled = !of.has(Run::kCooling);
  const std::uint32_t unit = of.start + --of.blocks;
  if (settled && of.blocks == 0 && of.list.next != kNil) {
    // What goes next has been fetched before; what it will touch, and the one after it, has not.
    const Run& next = runs[of.list.next];
    runs.prefetch_unpublish(of.list.next);
    for (const Group& group : groups) {
      if (group.per_block != 0) {
        __builtin_prefetch(group.by_unit.data() +
                           (std::size_t{next.start} + next.blocks) *
                               static_cast<std::size_t>(group.per_block) -
                           1);
      }
    }
    __builtin_prefetch(&runs[next.list.next == kNil ? block::kRoot : next.list.next]);
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    Group& group = groups[g];
    if (group.per_block == 0 || (group.draft && !of.has(Run::kDraft))) {
      continue;
    }
    const std::size_t place = std::size_t{unit} * static_cast<std::size_t>(group.per_block);
    Tenant& tenant = tenant_of(of.tenant, group.pool);
    for (std::int64_t i = 0; i < group.per_block; ++i) {
      const std::int32_t page = group.by_unit[place + static_cast<std::size_t>(i)];
      if (group.independent) {
        if (page >= 0) {
          drop_page(g, page);
        }
        continue;
      }
      --tenant.used;
      if (settled) {
        --group.idle;
        --tenant.idle;
        group.pages->give_back_idle(group.group_in_pool, page);
      } else {
        --group.cooling;
        --tenant.cooling;
        group.pages->mark_cooling(group.group_in_pool, page, false);
        group.pages->give_back(group.group_in_pool, page, false);
      }
    }
  }
  ++counters.evicted_blocks;
  if (of.blocks == 0) {
    remove_run(run);
  }
}

void BlockManager::Impl::remove_run(std::uint32_t run) noexcept {
  Run& of = runs[run];
  const std::uint32_t parent = of.parent;
  const std::uint32_t last_use = of.stamp;
  if (of.has(Run::kListed)) {
    unlist_run(run);
  } else if (of.has(Run::kCooling)) {
    cooling_runs.erase(run, [this](std::uint32_t i) -> Link& { return runs[i].list; });
  }
  (of.has(Run::kCooling) ? cooling_units : idle_units) -= of.capacity;
  runs.unpublish(run);
  runs.extents().free({.start = of.start, .units = of.capacity});
  runs.free(run);
  Run& above = runs[parent];
  if (parent != block::kRoot && above.first_child == kNil && above.locks == 0 &&
      !above.has(Run::kCooling) && !above.has(Run::kListed)) {
    // It goes right after the run that kept it, unless it was used later.
    list_run(parent, static_cast<std::int32_t>(above.stamp - last_use) <= 0);
  }
}

void BlockManager::Impl::drop_below(std::uint32_t top) noexcept {
  while (runs[top].first_child != kNil) {
    std::uint32_t run = runs[top].first_child;
    while (runs[run].first_child != kNil) {
      run = runs[run].first_child;
    }
    for (std::uint32_t blocks = runs[run].blocks; blocks != 0; --blocks) {
      drop_block(run);
    }
  }
}

std::uint32_t BlockManager::Impl::split(std::uint32_t run, std::uint32_t blocks) noexcept {
  const std::uint32_t upper = runs.split(run, blocks);
  Run& top = runs[upper];
  Run& low = runs[run];
  time_to_live[upper] = time_to_live[run];
  expires[upper] = expires[run];
  top.locks = low.locks != 0 ? 1 : 0;
  if (low.has(Run::kCooling)) {
    // Right after the lower one: a run settles before what is above it.
    top.set(Run::kCooling);
    top.list = {.previous = run, .next = low.list.next};
    (low.list.next != kNil ? runs[low.list.next].list.previous : cooling_runs.tail) = upper;
    low.list.next = upper;
  }
  if (low.has(Run::kOwned)) {
    Cold& owner = cold[low.list.previous];
    const auto tokens = static_cast<std::int32_t>(blocks * block_tokens);
    owner.open_base += owner.open == run ? tokens : 0;
    owner.tail_base += owner.tail == run ? tokens : 0;
  }
  if (any_shared) {
    for (std::uint32_t unit = top.start; unit < top.start + blocks; ++unit) {
      run_of_unit[unit] = upper;
    }
  }
  return upper;
}

std::uint32_t BlockManager::Impl::end_at(Cursor cursor) noexcept {
  const Run& run = runs[cursor.run];
  // A run that its owner may still fill ends for others where it is now.
  const bool may_grow = run.has(Run::kOwned) && run.blocks != run.capacity;
  if (cursor.run == block::kRoot || (cursor.blocks == run.blocks && !may_grow)) {
    return cursor.run;
  }
  return split(cursor.run, cursor.blocks);
}

bool BlockManager::Impl::make_room(std::uint32_t run_count, std::uint32_t units) noexcept {
  while (runs.free_runs() < run_count || runs.extents().free_units() < units) {
    const std::uint32_t run = run_lists.front();
    if (run == kNil) {
      return false;
    }
    for (std::uint32_t blocks = runs[run].blocks; blocks != 0; --blocks) {
      drop_block(run);
    }
  }
  return true;
}

BlockStatus BlockManager::Impl::check_units(std::uint32_t least, std::int64_t kept,
                                            std::int64_t kept_cooling) noexcept {
  const std::int64_t units = runs.extents().free_units() + idle_units - kept;
  if (units >= least) {
    return BlockStatus::kOk;
  }
  shortage_lines.clear();
  shortage = {.status = BlockStatus::kNoSlot};
  if (units + cooling_units - kept_cooling >= least) {
    shortage.status = BlockStatus::kUnsettled;
    shortage.settles_at = Epoch{opened};
  }
  return shortage.status;
}

std::uint32_t BlockManager::Impl::allot(std::uint32_t least, std::uint32_t wish,
                                        std::uint32_t spare, bool evicts) noexcept {
  std::uint32_t first = kNil;
  std::uint32_t last = kNil;
  std::uint32_t missing = least;
  do {
    if (evicts ? !make_room(spare + 1, missing)
               : runs.free_runs() <= spare || runs.extents().free_units() < missing) {
      free_chain(first);
      return kNil;
    }
    // The largest piece when none has all that is missing.
    const block::Extent piece = runs.extents().allocate(missing + wish);
    const std::uint32_t run = runs.allocate();
    runs[run].start = piece.start;
    runs[run].capacity = piece.units;
    (first == kNil ? first : runs[last].list.next) = run;
    last = run;
    missing -= std::min(missing, piece.units);
  } while (missing != 0);
  return first;
}

void BlockManager::Impl::free_chain(std::uint32_t first) noexcept {
  for (std::uint32_t run = first; run != kNil;) {
    const std::uint32_t next = runs[run].list.next;
    runs.extents().free({.start = runs[run].start, .units = runs[run].capacity});
    runs.free(run);
    run = next;
  }
}

// Matching
// ------------------------------------------------------------------------------------------

BlockManager::Impl::Cursor BlockManager::Impl::seek(Cursor at, std::int64_t length,
                                                    std::int64_t target) const noexcept {
  std::int64_t base = length - at.blocks * block_tokens;
  while (at.run != block::kRoot && base >= target) {
    at.run = runs[at.run].parent;
    base -= runs[at.run].blocks * block_tokens;
  }
  at.blocks =
      at.run == block::kRoot ? 0 : static_cast<std::uint32_t>(by_block.floor(target - base));
  return at;
}

/// Largest length <= `limit` (a multiple of the prefix block) at which every independent group has
/// what a sequence of that length reads. `at` is where the path has `length` tokens.
std::int64_t BlockManager::Impl::clip(Cursor at, std::int64_t length, std::int64_t limit,
                                      bool draft) const noexcept {
  std::int64_t hit = limit;
  bool again = true;
  while (again && hit > 0) {
    again = false;
    for (const Group& group : groups) {
      if (!group.independent || group.kind == GroupKind::kCross || (group.draft && !draft)) {
        continue;
      }
      if (group.kind == GroupKind::kState) {
        const std::int64_t interval = options.snapshot_interval.count();
        std::int64_t exact = interval == 0 ? 0 : hit / interval * interval;
        while (exact > 0) {
          const Cursor end = seek(at, length, exact);
          if (group.by_unit[std::size_t{runs[end.run].start} + end.blocks - 1] >= 0) {
            break;
          }
          exact -= interval;
        }
        again = again || exact != hit;
        hit = exact;
        continue;
      }
      // From the right to the left; the first hole moves the end before it.
      Cursor place = seek(at, length, hit);
      std::int64_t base = hit - place.blocks * block_tokens;
      const std::int64_t first = first_needed(group, hit);
      for (std::int64_t b = group.by_page.floor(hit) - 1; b >= first; --b) {
        const std::int64_t token = b * group.page;
        while (token < base) {
          place.run = runs[place.run].parent;
          base -= runs[place.run].blocks * block_tokens;
        }
        const std::int64_t index =
            static_cast<std::int64_t>(runs[place.run].start) * group.per_block +
            group.by_page.floor(token - base);
        if (group.by_unit[static_cast<std::size_t>(index)] < 0) {
          hit = floor_block(token);
          again = true;
          break;
        }
      }
      if (hit == 0) {
        break;
      }
    }
  }
  return hit;
}

BlockManager::Impl::Match BlockManager::Impl::match(const PrefixQuery& query,
                                                    bool draft) const noexcept {
  const auto count = static_cast<std::int64_t>(query.tokens.size());
  const block::Namespace& name =
      names.namespaces()[static_cast<std::size_t>(query.name_space.value())];
  const std::int64_t in_public = floor_block(std::min(query.public_tokens.count(), count));
  const std::int32_t* const tokens = query.tokens.data();
  block::prefetch_tokens(tokens, query.tokens.size());
  Match match;
  Cursor at;
  std::int64_t length = runs.walk(at, name.public_region.value(), tokens,
                                  static_cast<std::uint32_t>(by_block.floor(in_public))) *
                        block_tokens;
  if (length == in_public) {
    length += runs.walk(at, query.name_space.value(), tokens + in_public,
                        static_cast<std::uint32_t>(by_block.floor(count - in_public))) *
              block_tokens;
  }
  // The block that follows: in the run, or the child that was attached last.
  const std::int32_t region =
      length < in_public ? name.public_region.value() : query.name_space.value();
  const Run& last = runs[at.run];
  std::uint32_t next_run = at.run;
  std::uint32_t next_unit = last.start + at.blocks;
  if (at.blocks == last.blocks) {
    next_run = last.first_child;
    next_unit = next_run == kNil ? 0 : runs[next_run].start;
  }
  std::int64_t equal = 0;
  if (next_run != kNil && runs[next_run].name_space == region) {
    equal = static_cast<std::int64_t>(
        block::equal_tokens(runs.tokens(next_unit), tokens + length,
                            static_cast<std::size_t>(std::min(block_tokens, count - length))));
  }
  std::int64_t limit = std::min(length + equal, count - 1);
  match.hit.matched = Tokens{limit};
  if (draft) {
    std::int64_t base = length - at.blocks * block_tokens;
    if (equal > 0 && !runs[next_run].has(Run::kDraft)) {
      limit = std::min(limit, length);
    }
    for (std::uint32_t run = at.run; run != block::kRoot; run = runs[run].parent) {
      if (!runs[run].has(Run::kDraft)) {
        limit = std::min(limit, base);
      }
      base -= runs[runs[run].parent].blocks * block_tokens;
    }
    limit = std::max<std::int64_t>(0, limit - options.draft_lookahead.count());
  }
  const std::int64_t whole = clip(at, length, std::min(floor_block(limit), length), draft);
  match.hit.whole_blocks = Tokens{whole};
  if (all_full && options.partial_page_reuse && whole == floor_block(limit) && limit > whole) {
    match.hit.partial = Tokens{limit - whole};
    match.partial_run = next_run;
    match.partial_unit = next_unit;
    if (whole != length) {
      const Cursor next = seek(at, length, whole + block_tokens);
      match.partial_run = next.run;
      match.partial_unit = runs[next.run].start + next.blocks - 1;
    }
  }
  match.hit.tokens = match.hit.whole_blocks + match.hit.partial;
  match.at = seek(at, length, whole);
  return match;
}

// Filling
// -------------------------------------------------------------------------------------------

void BlockManager::Impl::record(std::size_t sequence, std::uint32_t run, std::int64_t base,
                                std::uint32_t first, std::uint32_t last) noexcept {
  const Run& of = runs[run];
  const std::int64_t token = base + first * block_tokens;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    Group& group = groups[g];
    if (group.per_block == 0) {
      continue;
    }
    const std::size_t place =
        (std::size_t{of.start} + first) * static_cast<std::size_t>(group.per_block);
    std::int32_t* const to = group.by_unit.data() + place;
    const auto count = static_cast<std::size_t>((last - first) * group.per_block);
    const bool used = (hot[sequence].groups >> g & 1U) != 0;
    if (group.kind == GroupKind::kState || !used) {
      std::fill_n(to, count, -1);
      continue;
    }
    const std::int64_t column = group.by_page.floor(token);
    const std::int32_t* const from = row(sequence, g) + column;
    if (!group.independent) {
      std::memcpy(to, from, count * sizeof(std::int32_t));
      if (group.pages->shared) {
        for (std::size_t i = 0; i < count; ++i) {
          meta_of(group, to[i]).place = static_cast<std::uint32_t>(place + i);
        }
      }
      continue;
    }
    const std::int64_t held_from = cell(sequence, g).first;
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = column + static_cast<std::int64_t>(i) < held_from ? -1 : from[i];
      if (to[i] >= 0) {
        Meta& meta = meta_of(group, to[i]);
        meta.set(Meta::kRecorded);
        meta.place = static_cast<std::uint32_t>(place + i);
      }
    }
  }
  if (any_shared) {
    std::fill_n(run_of_unit.data() + of.start + first, last - first, run);
  }
}

void BlockManager::Impl::keep_pages(std::uint32_t run, std::uint32_t first,
                                    std::uint32_t last) noexcept {
  const Run& of = runs[run];
  for (const Group& group : groups) {
    if (!group.independent || group.per_block == 0) {
      continue;
    }
    const std::size_t place =
        (std::size_t{of.start} + first) * static_cast<std::size_t>(group.per_block);
    const auto count = static_cast<std::size_t>((last - first) * group.per_block);
    for (std::size_t i = place; i < place + count; ++i) {
      if (group.by_unit[i] >= 0) {
        Meta& meta = meta_of(group, group.by_unit[i]);
        meta.set(Meta::kKept);
        meta.level = static_cast<std::uint8_t>(level_of(of));
      }
    }
  }
}

bool BlockManager::Impl::close_open_run(std::size_t sequence) noexcept {
  const std::uint32_t open = cold[sequence].open;
  if (runs[open].blocks == 0) {
    return true;
  }
  if (!make_room(1, 0)) {
    return false;
  }
  split(open, runs[open].blocks);
  return true;
}

void BlockManager::Impl::complete_blocks(std::size_t sequence) noexcept {
  Cold& of = cold[sequence];
  const bool drafts = (hot[sequence].groups & draft_groups) != 0;
  std::int64_t length = hot[sequence].committed;
  if (drafts && of.draft_computed >= 0) {
    length = std::min<std::int64_t>(length, of.draft_computed);
  }
  const std::int64_t end = floor_block(length);
  while (of.done < end) {
    const std::uint32_t open = of.open;
    Run* run = &runs[open];
    if (run->blocks == run->capacity) {
      // Full: the chain goes on behind it, and it belongs to nobody in particular.
      const std::uint32_t next = run->list.next;
      if (next == kNil) {
        return;
      }
      of.open_base += static_cast<std::int32_t>(run->capacity * block_tokens);
      of.open = next;
      run->clear(Run::kOwned);
      continue;
    }
    if (run->has(Run::kDraft) != drafts) {
      if (!close_open_run(sequence)) {
        return;
      }
      run = &runs[open];
      if (drafts) {
        run->set(Run::kDraft);
      } else {
        run->clear(Run::kDraft);
      }
    }
    const auto last = static_cast<std::uint32_t>(
        std::min<std::int64_t>(run->capacity, by_block.floor(end - of.open_base)));
    const std::uint32_t first = run->blocks;
    record(sequence, open, of.open_base, first, last);
    run->blocks = last;
    if (first == 0 && of.caches && runs[run->parent].has(Run::kPublished) &&
        runs.find(run->parent, run->name_space, runs.tokens(run->start)) == kNil) {
      runs.publish(open);
    }
    if (run->has(Run::kPublished)) {
      keep_pages(open, first, last);
    }
    of.done = static_cast<std::int32_t>(of.open_base + last * block_tokens);
    of.draft_done = drafts ? of.done : of.draft_done;
  }
}

void BlockManager::Impl::trim(std::uint32_t run) noexcept {
  Run& of = runs[run];
  runs.extents().free({.start = of.start + of.blocks, .units = of.capacity - of.blocks});
  of.capacity = of.blocks;
}

/// Gives back the pages of the first blocks of a run that is not published and held by one
/// sequence.
void BlockManager::Impl::drop_detached(std::uint32_t run, std::uint32_t blocks) noexcept {
  Run& of = runs[run];
  for (std::size_t g = 0; g < groups.size(); ++g) {
    Group& group = groups[g];
    if (group.per_block == 0 || (group.draft && !of.has(Run::kDraft))) {
      continue;
    }
    const std::size_t place = std::size_t{of.start} * static_cast<std::size_t>(group.per_block);
    for (std::size_t i = 0; i < blocks * static_cast<std::size_t>(group.per_block); ++i) {
      const std::int32_t page = group.by_unit[place + i];
      if (page < 0) {
        continue;
      }
      if (group.independent) {
        meta_of(group, page).clear(Meta::kRecorded);
      } else {
        give_back(g, page, of.tenant, false);
      }
    }
  }
  runs.extents().free({.start = of.start, .units = blocks});
  of.start += blocks;
  of.blocks -= blocks;
  of.capacity -= blocks;
}

/// Finds a place in the tree for the runs of a sequence from `top` (not published, and held by this
/// sequence alone) to its open run, whose extent is trimmed. What the tree has already goes back.
/// Afterwards the sequence's lock is on the last of its runs, or on what is above them.
void BlockManager::Impl::fold_detached(std::size_t sequence, std::uint32_t top) noexcept {
  Cold& of = cold[sequence];
  std::uint32_t locked = runs[top].parent;
  Cursor at{.run = locked, .blocks = runs[locked].blocks};
  bool keeps = of.caches && runs[locked].has(Run::kPublished);
  std::uint32_t run = top;
  while (true) {
    const std::uint32_t next = run == of.open ? kNil : runs[run].list.next;
    Run* at_run = &runs[run];
    if (keeps && at_run->blocks != 0) {
      const std::uint32_t equal =
          runs.walk(at, at_run->name_space, runs.tokens(at_run->start), at_run->blocks);
      if (equal != 0) {
        drop_detached(run, equal);
        counters.duplicate_blocks += equal;
      }
    }
    const bool may_split = at.run != block::kRoot &&
                           (at.blocks != runs[at.run].blocks || runs[at.run].has(Run::kOwned));
    if (keeps && at_run->blocks != 0 && may_split && runs.free_runs() == 0) {
      keeps = false;
    }
    if (!keeps) {
      drop_detached(run, at_run->blocks);
    }
    if (at_run->blocks == 0) {
      runs.extents().free({.start = at_run->start, .units = at_run->capacity});
      runs.free(run);
    } else {
      const std::uint32_t parent = end_at(at);
      at_run = &runs[run];
      if (parent != locked) {
        lock(parent);
        unlock(locked);
      }
      at_run->parent = parent;
      at_run->clear(Run::kOwned);
      runs.publish(run);
      keep_pages(run, 0, at_run->blocks);
      locked = run;
      at = {.run = run, .blocks = at_run->blocks};
    }
    if (next == kNil) {
      break;
    }
    run = next;
  }
  of.open = locked;
}

}  // namespace kvpool
