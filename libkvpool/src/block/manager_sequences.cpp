// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0

// Sequences from their first step to their last.

#include "block/manager_impl.hpp"

#include <algorithm>
#include <cstring>

namespace kvpool {

void BlockManager::Impl::mark_changed(std::size_t sequence, std::size_t group, std::int64_t first,
                                      std::int64_t end) noexcept {
  if (first >= end) {
    return;
  }
  Cell& at = cell(sequence, group);
  const std::uint64_t bit = std::uint64_t{1} << group;
  const auto from = static_cast<std::int32_t>(first);
  const auto to = static_cast<std::int32_t>(end);
  if ((hot[sequence].changed & bit) == 0) {
    hot[sequence].changed |= bit;
    at.changed_first = from;
    at.changed_end = to;
    return;
  }
  at.changed_first = std::min(at.changed_first, from);
  at.changed_end = std::max(at.changed_end, to);
}

void BlockManager::Impl::take_columns(std::size_t sequence, std::size_t group, std::int64_t end,
                                      bool plenty) noexcept {
  Cell& at = cell(sequence, group);
  const Cold& of = cold[sequence];
  const std::int64_t first = at.end;
  std::int32_t* const to = row(sequence, group);
  PagePool::Impl& pool = *groups[group].pages;
  std::int64_t column = first;
  if (!pool.shared && end - first > 4 && pool.free_page_count() >= end - first &&
      pool.options.on_allocate.call == nullptr) {
    pool.owner = current;
    pool.take_many(to + first, end - first);
    const std::int64_t in_public =
        std::clamp(groups[group].by_page.floor(of.public_tokens), first, end) - first;
    tenant_of(0, groups[group].pool).used += in_public;
    tenant_of(of.tenant, groups[group].pool).used += end - first - in_public;
    for (; column < end && groups[group].independent; ++column) {
      begin_meta(group, to[column], charged_to(of, column * groups[group].page));
    }
    column = end;
  }
  for (; column < end; ++column) {
    to[column] = take(group, charged_to(of, column * groups[group].page), plenty);
  }
  at.end = static_cast<std::int32_t>(std::max(first, end));
  mark_changed(sequence, group, first, end);
}

void BlockManager::Impl::free_columns(std::size_t sequence, std::size_t group,
                                      std::int64_t first) noexcept {
  Cell& at = cell(sequence, group);
  const Group& of = groups[group];
  std::int32_t* const from = row(sequence, group);
  for (std::int64_t column = std::max<std::int64_t>(first, at.first); column < at.end; ++column) {
    if (of.independent) {
      let_go(group, from[column], false);
    } else {
      give_back(group, from[column], charged_to(cold[sequence], column * of.page), false);
    }
    from[column] = 0;
  }
  at.end = static_cast<std::int32_t>(
      std::min<std::int64_t>(at.end, std::max<std::int64_t>(first, at.first)));
}

void BlockManager::Impl::free_behind(std::size_t sequence) noexcept {
  const std::int64_t reserved = hot[sequence].reserved;
  each(hot[sequence].groups, [&](std::size_t g) {
    const Group& group = groups[g];
    if (group.paged && reserved <= (cell(sequence, g).end - 1) * group.page) {
      free_columns(sequence, g, group.by_page.ceil(reserved));
    }
  });
  set_boundary(sequence);
}

void BlockManager::Impl::set_boundary(std::size_t sequence) noexcept {
  Hot& h = hot[sequence];
  std::int64_t boundary = (h.groups & draft_groups) != 0 ? draft_limit : options.max_length.count();
  std::int64_t last_page = -1;
  each(h.groups, [&](std::size_t g) {
    const Group& group = groups[g];
    if (group.paged) {
      const std::int64_t end = cell(sequence, g).end * group.page;
      boundary = std::min(boundary, end);
      last_page = std::max(last_page, end - group.page);
    }
  });
  h.boundary = static_cast<std::int32_t>(boundary);
  h.last_page = static_cast<std::int32_t>(last_page);
}

void BlockManager::Impl::set_event(std::size_t sequence) noexcept {
  Hot& h = hot[sequence];
  const Cold& c = cold[sequence];
  if (h.committed < c.prompt) {
    h.event = 0;
    return;
  }
  std::int64_t event = floor_block(h.committed) + block_tokens;
  const std::int64_t tail_end = c.tail_base + runs[c.tail].capacity * block_tokens;
  if (h.committed == tail_end) {
    event = h.committed + 1;
  }
  if (has_windows) {
    event = std::min(event, std::max<std::int64_t>(c.window_due, h.committed + 1));
  }
  h.event = static_cast<std::int32_t>(std::min<std::int64_t>(event, INT32_MAX));
}

bool BlockManager::Impl::advance_windows(std::size_t sequence) noexcept {
  Cold& c = cold[sequence];
  const std::int64_t done = computed(hot[sequence]);
  if (!has_windows || done < c.window_due) {
    return false;
  }
  const std::int64_t drafted =
      c.draft_computed >= 0 ? std::min<std::int64_t>(done, c.draft_computed) : done;
  const std::uint64_t mask = hot[sequence].groups & window_groups;
  // What goes was last looked at a window ago: ask for all of it before the first is touched.
  each(mask, [&](std::size_t g) {
    const Group& group = groups[g];
    const Cell& at = cell(sequence, g);
    const std::int64_t first =
        std::min<std::int64_t>(first_needed(group, group.draft ? drafted : done), at.end);
    const Pool& pool = pools[static_cast<std::size_t>(group.pool)];
    for (std::int64_t column = at.first; column < first; ++column) {
      const std::uint32_t slot =
          group.pages->slot_of(group.group_in_pool, row(sequence, g)[column]);
      __builtin_prefetch(&pool.meta[slot]);
      group.pages->prefetch_slab(slot);
    }
  });
  std::int64_t due = INT32_MAX;
  each(mask, [&](std::size_t g) {
    const Group& group = groups[g];
    Cell& at = cell(sequence, g);
    const std::int64_t first =
        std::min<std::int64_t>(first_needed(group, group.draft ? drafted : done), at.end);
    std::int32_t* const from = row(sequence, g);
    for (; at.first < first; ++at.first) {
      let_go(g, from[at.first], true);
      from[at.first] = 0;
    }
    // Length from which on the first page is behind.
    const std::int64_t passed = (at.first + std::int64_t{1}) * group.page;
    due = std::min(due, group.kind == GroupKind::kSlidingWindow
                            ? passed + group.extent - 1
                            : group.by_extent.ceil(passed) * group.extent);
  });
  c.window_due = static_cast<std::int32_t>(due);
  return true;
}

void BlockManager::Impl::add_copy(std::size_t group, std::int32_t source, std::int32_t destination,
                                  CopyOrder order, CopyReason reason) noexcept {
  copies.push_back({.group = GroupId{static_cast<std::int32_t>(group)},
                    .source = PageId{source},
                    .destination = PageId{destination},
                    .order = order,
                    .reason = reason});
}

void BlockManager::Impl::take_snapshots(std::size_t sequence) noexcept {
  const std::int64_t interval = options.snapshot_interval.count();
  const Hot& h = hot[sequence];
  Cold& c = cold[sequence];
  const std::uint64_t mask = h.groups & state_groups;
  // The live state is exact here unless a step has also seen tokens behind the committed ones;
  // slots that a prompt has ahead have not been seen.
  const bool exact = h.reserved == h.committed || h.committed <= c.prompt;
  if (mask == 0 || interval == 0 || !c.caches || !exact || h.committed % interval != 0 ||
      h.committed == c.snapshot || c.done != h.committed || runs[c.open].blocks == 0 ||
      c.state_computed >= 0 ||
      copies.capacity() - copies.size() < static_cast<std::size_t>(std::popcount(mask))) {
    return;
  }
  const Run& open = runs[c.open];
  const std::uint32_t unit = open.start + open.blocks - 1;
  const std::size_t tenant = charged_to(c, h.committed - 1);
  std::array<std::int32_t, kMaxGroups> taken{};
  bool complete = true;
  current = {.index = static_cast<std::uint32_t>(sequence), .generation = h.generation};
  each(mask, [&](std::size_t g) {
    taken[g] = complete ? take_optional(g, tenant) : -1;
    complete = complete && taken[g] >= 0;
  });
  each(mask, [&](std::size_t g) {
    if (taken[g] < 0) {
      return;
    }
    if (!complete) {
      give_back(g, taken[g], tenant, true);
      return;
    }
    Meta& meta = meta_of(groups[g], taken[g]);
    meta.set(Meta::kRecorded);
    meta.place = unit;
    meta.level = static_cast<std::uint8_t>(level_of(open));
    if (open.has(Run::kPublished)) {
      meta.set(Meta::kKept);
    }
    groups[g].by_unit[unit] = taken[g];
    Cell& at = cell(sequence, g);
    if (at.snapshot >= 0) {
      let_go(g, at.snapshot, false);
    }
    at.snapshot = taken[g];
    add_copy(g, row(sequence, g)[0], taken[g], CopyOrder::kAfterStep, CopyReason::kSnapshot);
  });
  if (complete) {
    c.snapshot = h.committed;
    ++counters.snapshots;
  }
}

void BlockManager::Impl::after_commit(std::size_t sequence, std::int64_t committed) noexcept {
  Hot& h = hot[sequence];
  note_commit(h);
  h.committed = static_cast<std::int32_t>(committed);
  complete_blocks(sequence);
  take_snapshots(sequence);
  advance_windows(sequence);
  const Cold& c = cold[sequence];
  if (committed >= c.prompt && committed == c.tail_base + runs[c.tail].capacity * block_tokens) {
    grow_tail(sequence);
  }
  set_event(sequence);
}

BlockStatus BlockManager::Impl::commit(std::size_t sequence,
                                       std::span<const std::int32_t> tokens) noexcept {
  Hot& h = hot[sequence];
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (count > h.reserved - h.committed) {
    return BlockStatus::kInvalid;
  }
  if (h.committed + count >= h.event) {
    if (!are_known(tokens)) {
      return BlockStatus::kInvalid;
    }
    return count == 0 ? BlockStatus::kOk : commit_slow(sequence, tokens);
  }
  // What is written behind the committed tokens does not count yet.
  std::int32_t* const to = h.write;
  std::int32_t signs = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    to[i] = tokens[i];
    signs |= tokens[i];
  }
  if (signs < 0 && !are_known(tokens)) {
    return BlockStatus::kInvalid;
  }
  h.write = to + count;
  note_commit(h);
  h.committed += static_cast<std::int32_t>(count);
  return BlockStatus::kOk;
}

BlockStatus BlockManager::Impl::commit_slow(std::size_t sequence,
                                            std::span<const std::int32_t> tokens) noexcept {
  Hot& h = hot[sequence];
  Cold& c = cold[sequence];
  if (h.committed < c.prompt) {
    return BlockStatus::kInvalid;
  }
  const auto count = static_cast<std::int64_t>(tokens.size());
  // Room for all of them before the first is written.
  std::int64_t end = c.tail_base + runs[c.tail].capacity * block_tokens;
  std::uint32_t last = c.tail;
  for (; runs[last].list.next != kNil; end += runs[last].capacity * block_tokens) {
    last = runs[last].list.next;
  }
  if (end < h.committed + count) {
    const std::int64_t missing = ceil_div(h.committed + count - end, block_tokens);
    const std::int64_t wish = std::max<std::int64_t>(0, token_room(end) - missing);
    std::uint32_t room =
        allot(static_cast<std::uint32_t>(missing), static_cast<std::uint32_t>(wish), 0, true);
    if (room == kNil) {
      return BlockStatus::kNoSlot;
    }
    while (room != kNil) {
      const block::Extent piece{.start = runs[room].start, .units = runs[room].capacity};
      const std::uint32_t next = runs[room].list.next;
      runs.free(room);
      const Segment segment = segment_at(c, {}, std::max<std::int64_t>(end, c.prompt));
      const std::uint32_t run = add_run(sequence, segment, piece, last);
      runs[last].list.next = run;
      last = run;
      end += piece.units * block_tokens;
      room = next;
    }
  }
  std::int64_t at = h.committed;
  std::size_t written = 0;
  while (written < tokens.size()) {
    const std::int64_t room = c.tail_base + runs[c.tail].capacity * block_tokens - at;
    if (room == 0) {
      grow_tail(sequence);
      continue;
    }
    const std::size_t now_written =
        std::min(tokens.size() - written, static_cast<std::size_t>(room));
    std::memcpy(h.write, tokens.data() + written, now_written * sizeof(std::int32_t));
    h.write += now_written;
    written += now_written;
    at += static_cast<std::int64_t>(now_written);
  }
  after_commit(sequence, h.committed + count);
  return BlockStatus::kOk;
}

BlockStatus BlockManager::Impl::append_slow(std::size_t sequence, std::int64_t reserved) noexcept {
  Hot& h = hot[sequence];
  Cold& c = cold[sequence];
  if (reserved > options.max_length.count()) {
    return BlockStatus::kTooLong;
  }
  const bool moved = advance_windows(sequence);
  const bool drops_draft = (h.groups & draft_groups) != 0 && reserved > draft_limit;
  const std::uint64_t mask = h.groups & ~(drops_draft ? draft_groups : 0);
  if (!drops_draft && !limited[c.tenant] && options.gate.admits == nullptr) {
    // Mostly there is more than enough: then nobody need be asked.
    std::int64_t pages = 0;
    std::int64_t least_free = INT64_MAX;
    each(mask, [&](std::size_t g) {
      const Group& group = groups[g];
      const std::int64_t more = group.by_page.ceil(reserved) - cell(sequence, g).end;
      if (group.paged && more > 0) {
        pages += more;
        least_free = std::min(least_free, group.pages->free_slab_count());
      }
    });
    if (pages <= least_free) {
      current = {.index = static_cast<std::uint32_t>(sequence), .generation = h.generation};
      std::int64_t boundary =
          (h.groups & draft_groups) != 0 ? draft_limit : options.max_length.count();
      std::int64_t last_page = -1;
      each(mask, [&](std::size_t g) {
        const Group& group = groups[g];
        if (!group.paged) {
          return;
        }
        Cell& at = cell(sequence, g);
        const std::int64_t end = group.by_page.ceil(reserved);
        if (end - at.end > 1) {
          take_columns(sequence, g, end, true);
        } else if (end > at.end) {
          row(sequence, g)[at.end] = take(g, charged_to(c, at.end * group.page), true);
          mark_changed(sequence, g, at.end, end);
          ++at.end;
        }
        boundary = std::min(boundary, at.end * group.page);
        last_page = std::max(last_page, (at.end - 1) * group.page);
      });
      h.reserved = static_cast<std::int32_t>(reserved);
      h.boundary = static_cast<std::int32_t>(boundary);
      h.last_page = static_cast<std::int32_t>(last_page);
      if (moved) {
        set_event(sequence);
      }
      return BlockStatus::kOk;
    }
  }
  Need need{groups.size()};
  need.tenant = c.tenant;
  std::int64_t all = 0;
  each(mask, [&](std::size_t g) {
    if (!groups[g].paged) {
      return;
    }
    const std::int64_t first = cell(sequence, g).end;
    const std::int64_t end = std::max(first, groups[g].by_page.ceil(reserved));
    need.pages[g] = end - first;
    need.own[g] =
        std::max<std::int64_t>(0, end - std::max(first, groups[g].by_page.floor(c.public_tokens)));
    all += end - first;
  });
  if (all != 0) {
    if (const BlockStatus status = check(need); status != BlockStatus::kOk) {
      ++counters.refused;
      return status;
    }
    if (!gate_admits(need)) {
      ++counters.refused;
      return BlockStatus::kNoPages;
    }
  }
  if (drops_draft) {
    drop_draft(sequence, DraftNotice::kBeyondLimit);
  }
  if (all != 0) {
    current = {.index = static_cast<std::uint32_t>(sequence), .generation = h.generation};
    prepare(need);
    each(mask, [&](std::size_t g) {
      if (need.pages[g] != 0) {
        take_columns(sequence, g, cell(sequence, g).end + need.pages[g]);
      }
    });
  }
  h.reserved = static_cast<std::int32_t>(reserved);
  set_boundary(sequence);
  if (moved || drops_draft) {
    set_event(sequence);
  }
  return BlockStatus::kOk;
}

void BlockManager::Impl::leave_draft(std::size_t sequence) noexcept {
  Hot& h = hot[sequence];
  each(h.groups & draft_groups, [&](std::size_t g) {
    const Group& group = groups[g];
    Cell& at = cell(sequence, g);
    const bool by_runs = group.paged && !group.independent;
    free_columns(sequence, g, by_runs ? group.by_page.floor(cold[sequence].draft_done) : 0);
    std::fill_n(row(sequence, g), at.end, 0);
    if (at.snapshot >= 0) {
      let_go(g, at.snapshot, false);
    }
    at = {};
  });
  h.groups &= ~draft_groups;
  h.changed &= ~draft_groups;
  cold[sequence].draft_computed = -1;
  cold[sequence].window_due = 0;
}

void BlockManager::Impl::drop_draft(std::size_t sequence, DraftNotice notice) noexcept {
  Cold& c = cold[sequence];
  const std::uint64_t mask = hot[sequence].groups & draft_groups;
  if (mask == 0) {
    return;
  }
  c.notice = notice;
  leave_draft(sequence);
  // Runs that nobody else holds lose the drafter's pages, too.
  for (std::uint32_t run = c.open; run != block::kRoot && runs[run].locks == 1;
       run = runs[run].parent) {
    Run& of = runs[run];
    if (!of.has(Run::kDraft)) {
      continue;
    }
    each(mask, [&](std::size_t g) {
      Group& group = groups[g];
      if (group.independent) {
        return;
      }
      const std::size_t first = std::size_t{of.start} * static_cast<std::size_t>(group.per_block);
      for (std::size_t i = 0; i < of.blocks * static_cast<std::size_t>(group.per_block); ++i) {
        give_back(g, group.by_unit[first + i], of.tenant, false);
      }
    });
    each(mask, [&](std::size_t g) {
      Group& group = groups[g];
      if (!group.independent || group.per_block == 0) {
        return;
      }
      const std::size_t first = std::size_t{of.start} * static_cast<std::size_t>(group.per_block);
      for (std::size_t i = 0; i < of.blocks * static_cast<std::size_t>(group.per_block); ++i) {
        if (group.by_unit[first + i] >= 0 &&
            meta_of(group, group.by_unit[first + i]).holders == 0) {
          drop_page(g, group.by_unit[first + i]);
        }
      }
    });
    of.clear(Run::kDraft);
  }
  set_boundary(sequence);
  complete_blocks(sequence);
  set_event(sequence);
}

ForkOutcome BlockManager::Impl::fork(std::size_t parent) noexcept {
  ForkOutcome outcome;
  Hot& from = hot[parent];
  Cold& old = cold[parent];
  const auto refused = [&](BlockStatus status) {
    ++counters.refused;
    if (status == BlockStatus::kNoSlot || status == BlockStatus::kCopiesFull) {
      shortage_lines.clear();
      shortage = {.status = status};
    }
    outcome.status = status;
    return outcome;
  };
  if (free_sequences.empty()) {
    return refused(BlockStatus::kNoSlot);
  }
  // Pages of complete prefix blocks are shared, what is behind them is copied.
  const std::int64_t committed = from.committed;
  // What the child generates is its own, also where the parent's prompt would still be public.
  const std::int64_t prompt = std::min<std::int64_t>(old.prompt, committed);
  const std::int64_t in_public = std::min<std::int64_t>(old.public_tokens, floor_block(prompt));
  const auto shared_to = [&](const Group& group) -> std::int64_t {
    return group.by_page.floor(group.draft ? old.draft_done : old.done);
  };
  Need need{groups.size()};
  need.tenant = old.tenant;
  std::int64_t copied = 0;
  each(from.groups, [&](std::size_t g) {
    const Group& group = groups[g];
    if (group.kind == GroupKind::kCross) {
      return;
    }
    std::int64_t pages = 1;
    std::int64_t own = 1;
    if (group.paged) {
      const std::int64_t first = std::max<std::int64_t>(shared_to(group), cell(parent, g).first);
      const std::int64_t end = std::max(first, group.by_page.ceil(committed));
      pages = end - first;
      own = std::max<std::int64_t>(0, end - std::max(first, group.by_page.floor(in_public)));
    }
    need.pages[g] = pages;
    need.own[g] = own;
    copied += pages;
  });
  if (copies.capacity() - copies.size() < static_cast<std::size_t>(copied)) {
    return refused(BlockStatus::kCopiesFull);
  }
  const std::int64_t behind = committed - old.done;
  const auto least = static_cast<std::uint32_t>(by_block.floor(behind) + 1);
  const auto wish =
      static_cast<std::uint32_t>(std::max<std::int64_t>(1, kTokenRoom / block_tokens));
  if (const BlockStatus status = check(need); status != BlockStatus::kOk) {
    return refused(status);
  }
  if (const BlockStatus status = check_units(least, 0, 0); status != BlockStatus::kOk) {
    return refused(status);
  }
  if (!gate_admits(need)) {
    return refused(BlockStatus::kNoPages);
  }
  // One run more: the parent's open run is cut.
  std::uint32_t room = allot(least, wish, 1, true);
  if (room == kNil) {
    return refused(BlockStatus::kNoSlot);
  }
  if (runs[old.open].blocks != runs[old.open].capacity) {
    close_open_run(parent);
  }
  const std::uint32_t attached = runs[old.open].blocks == 0 ? runs[old.open].parent : old.open;
  lock(attached);

  const std::uint32_t index = free_sequences.back();
  free_sequences.pop_back();
  const std::size_t child = index;
  Hot& h = hot[child];
  Cold& c = cold[child];
  const std::uint32_t generation = c.generation;
  h = from;
  h.generation = generation;
  h.changed = 0;
  h.reserved = h.committed;
  c = old;
  c.generation = generation;
  c.prompt = static_cast<decltype(c.prompt)>(prompt);
  c.public_tokens = static_cast<decltype(c.public_tokens)>(in_public);
  c.released_in = 0;
  current = {.index = index, .generation = generation};
  // Tokens behind the complete blocks.
  std::uint32_t above = attached;
  std::int64_t token = old.done;
  while (room != kNil) {
    const block::Extent piece{.start = runs[room].start, .units = runs[room].capacity};
    const std::uint32_t next = runs[room].list.next;
    runs.free(room);
    const Segment segment = segment_at(old, {}, std::max<std::int64_t>(token, old.prompt));
    Segment own = segment;
    own.name_space = segment_at(c, {}, token).name_space;
    own.tenant = segment_at(c, {}, token).tenant;
    const std::uint32_t run = add_run(child, own, piece, above);
    if (above == attached) {
      c.open = run;
      c.open_base = static_cast<std::int32_t>(token);
    } else {
      runs[above].list.next = run;
    }
    const std::int64_t end = token + piece.units * block_tokens;
    if (token < committed) {
      read_tokens(
          parent, token,
          {runs.tokens(piece.start), static_cast<std::size_t>(std::min(end, committed) - token)});
    }
    if (token <= committed && committed < end) {
      c.tail = run;
      c.tail_base = static_cast<std::int32_t>(token);
      h.write = runs.tokens(piece.start) + (committed - token);
    }
    above = run;
    token = end;
    room = next;
  }
  prepare(need);
  each(all_groups, [&](std::size_t g) {
    const Group& group = groups[g];
    const Cell& source = cell(parent, g);
    Cell& at = cell(child, g);
    at = {};
    if ((h.groups >> g & 1U) == 0) {
      return;
    }
    std::int32_t* const to = row(child, g);
    const std::int32_t* const old_row = row(parent, g);
    if (group.kind == GroupKind::kState) {
      to[0] = take(g, c.tenant);
      at.end = 1;
      add_copy(g, old_row[0], to[0], CopyOrder::kBeforeStep, CopyReason::kFork);
      if (source.snapshot >= 0) {
        hold(g, source.snapshot);
        at.snapshot = source.snapshot;
      }
      mark_changed(child, g, 0, 1);
      return;
    }
    at.first = source.first;
    at.end = source.end;
    if (group.paged) {
      at.end = static_cast<std::int32_t>(
          std::max<std::int64_t>(std::min<std::int64_t>(shared_to(group), source.end), at.first));
    }
    std::memcpy(to, old_row, static_cast<std::size_t>(at.end) * sizeof(std::int32_t));
    if (group.independent) {
      for (std::int32_t column = at.first; column < at.end; ++column) {
        hold(g, to[column]);
      }
    }
    const std::int32_t first_copied = at.end;
    take_columns(child, g, at.end + need.pages[g]);
    for (std::int32_t column = first_copied; column < at.end; ++column) {
      add_copy(g, old_row[column], to[column], CopyOrder::kBeforeStep, CopyReason::kFork);
    }
    mark_changed(child, g, at.first, at.end);
  });
  set_boundary(child);
  set_event(child);
  set_event(parent);
  ++live;
  ++counters.forked;
  outcome = {.status = BlockStatus::kOk, .sequence = current};
  return outcome;
}

void BlockManager::Impl::release(std::size_t sequence) noexcept {
  Hot& h = hot[sequence];
  Cold& c = cold[sequence];
  complete_blocks(sequence);
  if ((h.groups & draft_groups) != 0 && c.done < floor_block(h.committed)) {
    // The drafter lags: the rest is cached without it.
    leave_draft(sequence);
    complete_blocks(sequence);
  }
  // Tokens behind the complete blocks are forgotten.
  free_chain(runs[c.open].list.next);
  runs[c.open].list.next = kNil;
  runs[c.open].clear(Run::kOwned);
  trim(c.open);
  if (runs[c.open].blocks == 0) {
    // What is above may be full and still another sequence's.
    const std::uint32_t above = runs[c.open].parent;
    runs.free(c.open);
    c.open = above;
  }
  if (!runs[c.open].has(Run::kPublished) && runs[c.open].locks == 1) {
    std::uint32_t top = c.open;
    for (std::uint32_t above = runs[top].parent;
         !runs[above].has(Run::kPublished) && runs[above].locks == 1; above = runs[top].parent) {
      runs[above].list.next = top;
      top = above;
    }
    fold_detached(sequence, top);
  }
  each(h.groups, [&](std::size_t g) {
    const Group& group = groups[g];
    Cell& at = cell(sequence, g);
    const std::int64_t own =
        group.independent ? 0 : group.by_page.floor(group.draft ? c.draft_done : c.done);
    free_columns(sequence, g, own);
    if (at.snapshot >= 0) {
      let_go(g, at.snapshot, false);
      at.snapshot = -1;
    }
  });
  unlock(c.open);
  h.generation = kNil;
  h.groups = 0;
  h.changed = 0;
  ++c.generation;
  c.generation += c.generation == kNil ? 1 : 0;
  c.released_in = opened;
  free_sequences.push_back(static_cast<std::uint32_t>(sequence));
  --live;
  ++counters.released;
}

void BlockManager::Impl::read_tokens(std::size_t sequence, std::int64_t first,
                                     std::span<std::int32_t> out) const noexcept {
  const Cold& c = cold[sequence];
  const std::int64_t last = first + static_cast<std::int64_t>(out.size());
  const auto copy = [&](std::uint32_t run, std::int64_t base, std::int64_t tokens) {
    const std::int64_t from = std::max(first, base);
    const std::int64_t to = std::min(last, base + tokens);
    if (from < to) {
      std::memcpy(out.data() + (from - first), runs.tokens(runs[run].start) + (from - base),
                  static_cast<std::size_t>(to - from) * sizeof(std::int32_t));
    }
  };
  std::int64_t base = c.open_base;
  copy(c.open, base, runs[c.open].capacity * block_tokens);
  for (std::uint32_t run = runs[c.open].parent; run != block::kRoot && base > first;
       run = runs[run].parent) {
    const std::int64_t tokens = runs[run].blocks * block_tokens;
    base -= tokens;
    copy(run, base, tokens);
  }
  base = c.open_base;
  for (std::uint32_t run = c.open; runs[run].list.next != kNil && base < last;) {
    base += runs[run].capacity * block_tokens;
    run = runs[run].list.next;
    copy(run, base, runs[run].capacity * block_tokens);
  }
}

PinOutcome BlockManager::Impl::pin(const PrefixQuery& query) noexcept {
  if (!is_valid(query)) {
    return {.status = BlockStatus::kInvalid};
  }
  if (free_pins.empty()) {
    return {.status = BlockStatus::kNoSlot};
  }
  const bool draft = draft_groups != 0 && query.draft != DraftMode::kOff;
  Match found = options.prefix_cache ? match(query, draft) : Match{};
  if (runs.free_runs() == 0) {
    lock(found.at.run);
    const bool made = make_room(1, 0);
    unlock(found.at.run);
    if (!made) {
      return {.status = BlockStatus::kNoSlot};
    }
    found = match(query, draft);
  }
  const std::uint32_t index = free_pins.back();
  free_pins.pop_back();
  Pin& of = pins[index];
  of.run = end_at(found.at);
  of.tokens = found.hit.whole_blocks.count();
  of.draft = draft;
  of.live = true;
  lock(of.run);
  for_each_window_page({.run = of.run, .blocks = runs[of.run].blocks}, of.tokens, draft,
                       [this](std::size_t g, std::int64_t, std::int32_t page) { hold(g, page); });
  return {.status = BlockStatus::kOk,
          .pin = {.index = index, .generation = of.generation},
          .tokens = Tokens{of.tokens}};
}

BlockStatus BlockManager::Impl::unpin(PinId pin) noexcept {
  if (pin.index >= pins.size() || !pins[pin.index].live ||
      pins[pin.index].generation != pin.generation) {
    return BlockStatus::kStaleId;
  }
  Pin& of = pins[pin.index];
  for_each_window_page(
      {.run = of.run, .blocks = runs[of.run].blocks}, of.tokens, of.draft,
      [this](std::size_t g, std::int64_t, std::int32_t page) { let_go(g, page, false); });
  unlock(of.run);
  of.live = false;
  ++of.generation;
  free_pins.push_back(pin.index);
  return BlockStatus::kOk;
}

void BlockManager::Impl::flush() noexcept {
  while (run_lists.front() != kNil || !cooling_runs.empty()) {
    const std::uint32_t run = run_lists.front() != kNil ? run_lists.front() : cooling_runs.head;
    drop_below(run);
    for (std::uint32_t blocks = runs[run].blocks; blocks != 0; --blocks) {
      drop_block(run);
    }
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    Group& group = groups[g];
    const Pool& pool = pools[static_cast<std::size_t>(group.pool)];
    for (std::uint32_t slot = group.lists.front(); slot != kNil; slot = group.lists.front()) {
      drop_page(g, group.by_unit[pool.meta[slot].place]);
    }
    while (!group.cooling_list.empty()) {
      drop_page(g, group.by_unit[pool.meta[group.cooling_list.head].place]);
    }
  }
}

}  // namespace kvpool
