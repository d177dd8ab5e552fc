// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0

// Admission: what a prompt needs beside what is cached, and how its sequence begins.

#include "block/manager_impl.hpp"

#include <algorithm>
#include <cstring>

namespace kvpool {

bool BlockManager::Impl::is_valid(const PrefixQuery& query) const noexcept {
  return !query.tokens.empty() && query.tokens.size() <= static_cast<std::size_t>(INT32_MAX) &&
         query.name_space.value() >= 0 &&
         static_cast<std::size_t>(query.name_space.value()) < names.namespaces().size() &&
         query.public_tokens.count() >= 0;
}

bool BlockManager::Impl::are_known(std::span<const std::int32_t> tokens) const noexcept {
  std::int32_t least = 0;
  for (const std::int32_t token : tokens) {
    least = std::min(least, token);
  }
  return least >= -items;
}

bool BlockManager::Impl::is_valid(const AdmitRequest& request) const noexcept {
  if (!is_valid(request.prompt) || !are_known(request.prompt.tokens) ||
      request.reserve.value_or(Tokens{0}).count() < 0 || request.must_fit.count() < 0 ||
      request.encoder_tokens.count() < 0 || request.prompt.draft > DraftMode::kRequired) {
    return false;
  }
  const auto in_range = [](const Retention& retention) {
    return retention.priority >= kLowestPriority && retention.priority <= kHighestPriority &&
           retention.time_to_live.count() >= 0;
  };
  Tokens last{0};
  for (const RetentionRange& range : request.retention.prompt) {
    if (range.first < last || range.last < range.first || !in_range(range.retention)) {
      return false;
    }
    last = range.last;
  }
  return in_range(request.retention.generated);
}

BlockManager::Impl::Segment BlockManager::Impl::segment_at(const Cold& of,
                                                           const RetentionPolicy& retention,
                                                           std::int64_t token) const noexcept {
  const std::int64_t prompt_end = floor_block(of.prompt);
  Segment segment{.end = INT64_MAX};
  const auto ends_at = [&segment, token](std::int64_t boundary) {
    if (boundary > token) {
      segment.end = std::min(segment.end, boundary);
    }
  };
  ends_at(of.public_tokens);
  const auto space = static_cast<std::size_t>(of.name_space);
  const bool is_public = token < of.public_tokens;
  segment.name_space = is_public ? names.namespaces()[space].public_region.value() : of.name_space;
  segment.tenant = is_public ? std::uint16_t{0} : of.tenant;
  if (token >= prompt_end) {
    segment.priority = of.generated_priority;
    segment.ttl = of.generated_ttl;
    return segment;
  }
  ends_at(prompt_end);
  for (const RetentionRange& range : retention.prompt) {
    const std::int64_t first = floor_block(range.first.count());
    const std::int64_t last = floor_block(range.last.count());
    ends_at(first);
    ends_at(last);
    if (first <= token && token < last) {
      segment.priority = static_cast<std::uint8_t>(range.retention.priority);
      segment.ttl = range.retention.time_to_live.count();
    }
  }
  return segment;
}

std::uint32_t BlockManager::Impl::add_run(std::size_t sequence, const Segment& segment,
                                          block::Extent extent, std::uint32_t parent) noexcept {
  const std::uint32_t run = runs.allocate();
  Run& of = runs[run];
  of.parent = parent;
  of.start = extent.start;
  of.capacity = extent.units;
  of.locks = 1;
  of.name_space = segment.name_space;
  of.tenant = segment.tenant;
  of.priority = segment.priority;
  of.flags = Run::kOwned;
  if ((hot[sequence].groups & draft_groups) != 0) {
    of.set(Run::kDraft);
  }
  of.list = {.previous = static_cast<std::uint32_t>(sequence), .next = kNil};
  time_to_live[run] = segment.ttl;
  return run;
}

bool BlockManager::Impl::grow_tail(std::size_t sequence) noexcept {
  Cold& of = cold[sequence];
  Run& tail = runs[of.tail];
  const auto end = static_cast<std::int32_t>(of.tail_base + tail.capacity * block_tokens);
  if (tail.list.next == kNil) {
    const auto room = static_cast<std::uint32_t>(token_room(end));
    if (!make_room(1, 1)) {
      return false;
    }
    const Segment segment = segment_at(of, {}, std::max<std::int64_t>(end, of.prompt));
    const std::uint32_t run = add_run(sequence, segment, runs.extents().allocate(room), of.tail);
    runs[of.tail].list.next = run;
  }
  of.tail = runs[of.tail].list.next;
  of.tail_base = end;
  hot[sequence].write = runs.tokens(runs[of.tail].start);
  return true;
}

BlockStatus BlockManager::Impl::try_admit(const AdmitRequest& request, const Match& match,
                                          bool draft, std::int64_t reserve, Need& need) noexcept {
  const std::int64_t hit = match.hit.whole_blocks.count();
  const std::int64_t public_end =
      floor_block(std::min<std::int64_t>(request.prompt.public_tokens.count(),
                                         static_cast<std::int64_t>(request.prompt.tokens.size())));
  need = Need{groups.size()};
  need.tenant = static_cast<std::size_t>(
      names.namespaces()[static_cast<std::size_t>(request.prompt.name_space.value())]
          .tenant.value());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Group& group = groups[g];
    if (group.draft && !draft) {
      continue;
    }
    if (group.kind == GroupKind::kState) {
      need.pages[g] = 1;
      need.own[g] = 1;
    } else if (group.kind == GroupKind::kCross) {
      need.pages[g] = group.by_page.ceil(request.encoder_tokens.count());
      need.own[g] = need.pages[g];
    } else {
      need.pages[g] = group.by_page.ceil(reserve) - group.by_page.floor(hit);
      need.own[g] = std::max<std::int64_t>(
          0, group.by_page.ceil(reserve) - group.by_page.floor(std::max(hit, public_end)));
    }
  }
  // What the hit holds may not be evicted for the rest, nor counted on when it settles.
  const auto mark = [&](std::uint32_t run, std::uint32_t first, std::uint32_t blocks, bool keeps) {
    const Run& of = runs[run];
    if (of.locks != 0) {
      return;
    }
    const bool cools = of.has(Run::kCooling);
    (cools ? need.pinned_cooling_units : need.pinned_units) += keeps ? of.capacity : 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      Group& group = groups[g];
      if (group.independent || (group.draft && !of.has(Run::kDraft))) {
        continue;
      }
      const std::int64_t pages = keeps ? blocks * group.per_block : 0;
      (cools ? need.pinned_cooling : need.pinned)[g] += pages;
      if (of.tenant == need.tenant) {
        (cools ? need.pinned_own_cooling : need.pinned_own)[static_cast<std::size_t>(group.pool)] +=
            pages;
      }
      if (!group.pages->shared) {
        continue;
      }
      const std::size_t place =
          (std::size_t{of.start} + first) * static_cast<std::size_t>(group.per_block);
      for (std::size_t i = 0; i < blocks * static_cast<std::size_t>(group.per_block); ++i) {
        const std::int32_t page = group.by_unit[place + i];
        group.pages->count_as_held(group.group_in_pool, page, !cools, keeps ? 1 : -1);
      }
    }
  };
  const auto mark_page = [&](std::size_t g, std::int32_t page, const Meta& meta, bool keeps) {
    const bool cools = meta.has(Meta::kCooling);
    const std::int64_t pages = keeps ? 1 : 0;
    (cools ? need.pinned_cooling : need.pinned)[g] += pages;
    if (meta.tenant == need.tenant) {
      (cools ? need.pinned_own_cooling
             : need.pinned_own)[static_cast<std::size_t>(groups[g].pool)] += pages;
    }
    groups[g].pages->count_as_held(groups[g].group_in_pool, page, !cools, keeps ? 1 : -1);
  };
  const auto each_pinned = [&](const auto& call) {
    std::uint32_t blocks = match.at.blocks;
    for (std::uint32_t run = match.at.run; run != block::kRoot && runs[run].locks == 0;
         run = runs[run].parent, blocks = runs[run].blocks) {
      call(run, 0U, blocks);
    }
    if (match.hit.partial.count() != 0) {
      const bool same = match.partial_run == match.at.run;
      const std::uint32_t first = same ? match.at.blocks : 0;
      call(match.partial_run, first, runs[match.partial_run].blocks - first);
    }
  };
  const auto each_page = [&](const auto& call) {
    for_each_window_page(match.at, hit, draft, [&](std::size_t g, std::int64_t, std::int32_t page) {
      const Meta& meta = meta_of(groups[g], page);
      if (meta.holders == 0) {
        call(g, page, meta);
      }
    });
  };
  const auto mark_all = [&](bool keeps) {
    each_pinned([&](std::uint32_t run, std::uint32_t first, std::uint32_t blocks) {
      mark(run, first, blocks, keeps);
    });
    each_page([&](std::size_t g, std::int32_t page, const Meta& meta) {
      mark_page(g, page, meta, keeps);
    });
  };
  mark_all(true);
  BlockStatus status = check(need);
  if (status == BlockStatus::kOk && request.must_fit.count() > reserve) {
    Need later = need;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const Group& group = groups[g];
      if (!group.paged || (group.draft && !draft)) {
        continue;
      }
      std::int64_t pages = group.by_page.ceil(request.must_fit.count()) - group.by_page.floor(hit);
      if (group.independent) {
        // The window, and one step of the size of this one.
        pages = std::min(
            pages, std::max(need.pages[g], group.by_page.ceil(group.extent + reserve - hit) + 1));
      }
      later.own[g] += pages - later.pages[g];
      later.pages[g] = pages;
    }
    status = check(later);
  }
  mark_all(false);
  return status;
}

AdmitOutcome BlockManager::Impl::admit(const AdmitRequest& request, bool only_probe) noexcept {
  AdmitOutcome outcome;
  const auto refused = [&](BlockStatus status) {
    refuse(status);
    outcome.status = status;
    return outcome;
  };
  if (!is_valid(request)) {
    return refused(BlockStatus::kInvalid);
  }
  const auto count = static_cast<std::int64_t>(request.prompt.tokens.size());
  const std::int64_t asked = request.reserve.value_or(Tokens{count}).count();
  if (std::max(count, asked) > options.max_length.count()) {
    return refused(BlockStatus::kTooLong);
  }
  if (free_sequences.empty()) {
    return refused(BlockStatus::kNoSlot);
  }
  const bool caches =
      request.use_cache && options.prefix_cache && request.encoder_tokens.count() == 0;
  const DraftMode mode = draft_groups == 0 ? DraftMode::kOff : request.prompt.draft;
  bool draft = mode != DraftMode::kOff;
  if (draft && std::max(count, asked) > draft_limit) {
    draft = false;
    outcome.draft_notice = DraftNotice::kBeyondLimit;
  }
  Need need{groups.size()};
  Match match;
  std::int64_t reserve = 0;
  std::uint32_t units = 0;
  BlockStatus status = BlockStatus::kOk;
  while (true) {
    match = caches ? this->match(request.prompt, draft) : Match{};
    // Room for the next token beside those of the prompt; for more it is a wish.
    units = static_cast<std::uint32_t>(by_block.floor(count - match.hit.whole_blocks.count()) + 1);
    reserve = std::max(asked, match.hit.tokens.count());
    status = try_admit(request, match, draft, reserve, need);
    if (status != BlockStatus::kOk && match.hit.partial.count() != 0) {
      // Without the copy, whose source it would have to spare.
      match.hit.partial = Tokens{0};
      match.hit.tokens = match.hit.whole_blocks;
      reserve = std::max(asked, match.hit.tokens.count());
      status = try_admit(request, match, draft, reserve, need);
    }
    if (status == BlockStatus::kOk) {
      status = check_units(units, need.pinned_units, need.pinned_cooling_units);
    }
    if (status == BlockStatus::kOk && !only_probe && !gate_admits(need)) {
      status = BlockStatus::kNoPages;
      if (!groups[static_cast<std::size_t>(shortage_lines.front().group.value())].draft) {
        break;
      }
    }
    if (status == BlockStatus::kOk || !draft || mode != DraftMode::kIfRoom) {
      break;
    }
    draft = false;
    outcome.draft_notice = DraftNotice::kNoRoom;
  }
  outcome.hit = match.hit;
  if (only_probe) {
    counters.refused += status != BlockStatus::kOk ? 1 : 0;
    outcome.status = status;
    return outcome;
  }
  if (status == BlockStatus::kOk &&
      copies.capacity() - copies.size() < static_cast<std::size_t>(pages_per_block)) {
    status = BlockStatus::kCopiesFull;
  }
  std::uint32_t room = kNil;
  if (status == BlockStatus::kOk) {
    const auto spare = static_cast<std::uint32_t>(4 + 2 * request.retention.prompt.size());
    const auto wish =
        static_cast<std::uint32_t>(std::max<std::int64_t>(1, kTokenRoom / block_tokens));
    room = allot_beside(match, units, wish, spare);
    status = room != kNil ? BlockStatus::kOk : BlockStatus::kNoSlot;
  }
  if (status != BlockStatus::kOk) {
    ++counters.refused;
    if (status == BlockStatus::kNoSlot || status == BlockStatus::kCopiesFull) {
      shortage_lines.clear();
      shortage = {.status = status};
    }
    outcome.status = status;
    return outcome;
  }
  outcome.status = BlockStatus::kOk;
  outcome.sequence = start(request, match, draft, reserve, need, room, outcome.draft_notice);
  return outcome;
}

/// As `allot`, and nothing of a hit is evicted for it.
std::uint32_t BlockManager::Impl::allot_beside(const Match& match, std::uint32_t least,
                                               std::uint32_t wish, std::uint32_t spare) noexcept {
  if (const std::uint32_t room = allot(least, wish, spare, false); room != kNil) {
    return room;
  }
  const bool copies_pages = match.hit.partial.count() != 0;
  lock(match.at.run);
  if (copies_pages) {
    lock(match.partial_run);
  }
  const std::uint32_t room = allot(least, wish, spare, true);
  if (copies_pages) {
    unlock(match.partial_run);
  }
  unlock(match.at.run);
  return room;
}

SequenceId BlockManager::Impl::start(const AdmitRequest& request, const Match& match, bool draft,
                                     std::int64_t reserve, const Need& need, std::uint32_t room,
                                     DraftNotice notice) noexcept {
  const std::uint32_t index = free_sequences.back();
  free_sequences.pop_back();
  const std::size_t sequence = index;
  const std::int64_t hit = match.hit.whole_blocks.count();
  const auto count = static_cast<std::int64_t>(request.prompt.tokens.size());
  Hot& h = hot[sequence];
  Cold& c = cold[sequence];
  const SequenceId id{.index = index, .generation = c.generation};
  current = id;

  // The path first: what it holds is safe from now on.
  const std::uint32_t attached = end_at(match.at);
  lock(attached);
  if (match.hit.partial.count() != 0) {
    lock(match.partial_run);
  }
  h = {};
  h.generation = c.generation;
  h.groups = all_groups & ~(draft ? 0 : draft_groups);
  const std::uint32_t generation = c.generation;
  c = {};
  c.generation = generation;
  c.prompt = static_cast<std::int32_t>(count);
  c.public_tokens =
      static_cast<std::int32_t>(floor_block(std::min(request.prompt.public_tokens.count(), count)));
  c.encoder_tokens = static_cast<std::int32_t>(request.encoder_tokens.count());
  c.name_space = request.prompt.name_space.value();
  c.draft_computed = -1;
  c.state_computed = -1;
  c.done = static_cast<std::int32_t>(hit);
  c.draft_done = c.done;
  c.tenant = static_cast<std::uint16_t>(need.tenant);
  c.generated_priority = static_cast<std::uint8_t>(request.retention.generated.priority);
  c.generated_ttl = request.retention.generated.time_to_live.count();
  c.caches = request.use_cache && options.prefix_cache && request.encoder_tokens.count() == 0;
  c.uses_cache = request.use_cache;
  c.draft_mode = request.prompt.draft;
  c.notice = notice;
  if (c.encoder_tokens == 0) {
    each(h.groups, [&](std::size_t g) {
      h.groups &= ~(groups[g].kind == GroupKind::kCross ? std::uint64_t{1} << g : 0);
    });
  }
  each(all_groups, [&](std::size_t g) {
    Cell& at = cell(sequence, g);
    at = {};
    if ((h.groups >> g & 1U) == 0 || !groups[g].paged) {
      return;
    }
    at.end = static_cast<std::int32_t>(groups[g].by_page.floor(hit));
    at.first =
        static_cast<std::int32_t>(std::min<std::int64_t>(first_needed(groups[g], hit), at.end));
    std::fill_n(row(sequence, g), at.first, 0);
  });
  // Full groups: the whole path, run by run; the others: what their windows still need.
  std::int64_t base = hit;
  for (std::uint32_t run = attached; run != block::kRoot; run = runs[run].parent) {
    const Run& of = runs[run];
    base -= of.blocks * block_tokens;
    each(h.groups, [&](std::size_t g) {
      Group& group = groups[g];
      if (!group.independent) {
        std::memcpy(row(sequence, g) + group.by_page.floor(base),
                    group.by_unit.data() +
                        std::size_t{of.start} * static_cast<std::size_t>(group.per_block),
                    of.blocks * static_cast<std::size_t>(group.per_block) * sizeof(std::int32_t));
      }
    });
  }
  for_each_window_page({.run = attached, .blocks = runs[attached].blocks}, hit, draft,
                       [&](std::size_t g, std::int64_t column, std::int32_t page) {
                         hold(g, page);
                         if (groups[g].kind == GroupKind::kState) {
                           cell(sequence, g).snapshot = page;
                           c.snapshot = static_cast<std::int32_t>(hit);
                         } else {
                           row(sequence, g)[column] = page;
                         }
                       });

  // Places for its tokens.
  std::uint32_t parent = attached;
  std::int64_t token = hit;
  h.write = nullptr;
  while (room != kNil) {
    block::Extent piece{.start = runs[room].start, .units = runs[room].capacity};
    const std::uint32_t next_room = runs[room].list.next;
    runs.free(room);
    room = next_room;
    while (piece.units != 0) {
      Segment segment = segment_at(c, request.retention, token);
      while (segment.end != INT64_MAX) {
        const Segment next = segment_at(c, request.retention, segment.end);
        if (next.name_space != segment.name_space || next.priority != segment.priority ||
            next.ttl != segment.ttl) {
          break;
        }
        segment.end = next.end;
      }
      const auto units = static_cast<std::uint32_t>(
          std::min<std::int64_t>(piece.units, (segment.end - token) / block_tokens));
      const std::uint32_t run =
          add_run(sequence, segment, {.start = piece.start, .units = units}, parent);
      if (parent == attached) {
        c.open = run;
        c.open_base = static_cast<std::int32_t>(token);
      } else {
        runs[parent].list.next = run;
      }
      const std::int64_t end = token + units * block_tokens;
      if (token < count) {
        std::memcpy(runs.tokens(piece.start), request.prompt.tokens.data() + token,
                    static_cast<std::size_t>(std::min(end, count) - token) * sizeof(std::int32_t));
      }
      if (h.write == nullptr && count < end) {
        c.tail = run;
        c.tail_base = static_cast<std::int32_t>(token);
        h.write = runs.tokens(piece.start) + (count - token);
      }
      parent = run;
      token = end;
      piece = {.start = piece.start + units, .units = piece.units - units};
    }
  }

  // Pages.
  prepare(need);
  std::int64_t all_pages = 0;
  std::int64_t least_free = INT64_MAX;
  each(h.groups, [&](std::size_t g) {
    all_pages += need.pages[g];
    least_free = std::min(least_free, groups[g].pages->free_slab_count());
  });
  const bool plenty = all_pages <= least_free;
  each(h.groups, [&](std::size_t g) {
    Cell& at = cell(sequence, g);
    if (groups[g].paged) {
      take_columns(sequence, g, groups[g].by_page.ceil(reserve), plenty);
      mark_changed(sequence, g, at.first, at.end);
      return;
    }
    at.end = static_cast<std::int32_t>(need.pages[g]);
    for (std::int32_t i = 0; i < at.end; ++i) {
      row(sequence, g)[i] = take(g, c.tenant);
    }
    mark_changed(sequence, g, 0, at.end);
    if (groups[g].kind == GroupKind::kState && at.snapshot >= 0) {
      add_copy(g, at.snapshot, row(sequence, g)[0], CopyOrder::kBeforeStep,
               CopyReason::kRestoreSnapshot);
    }
  });
  if (match.hit.partial.count() != 0) {
    each(h.groups, [&](std::size_t g) {
      Group& group = groups[g];
      const std::int64_t pages = group.by_page.ceil(match.hit.partial.count());
      for (std::int64_t i = 0; i < pages; ++i) {
        const auto place = static_cast<std::int64_t>(match.partial_unit) * group.per_block + i;
        add_copy(g, group.by_unit[static_cast<std::size_t>(place)],
                 row(sequence, g)[group.by_page.floor(hit) + i], CopyOrder::kBeforeStep,
                 CopyReason::kPartialReuse);
      }
    });
    unlock(match.partial_run);
  }
  h.reserved = static_cast<std::int32_t>(reserve);
  h.committed = static_cast<std::int32_t>(match.hit.tokens.count());
  h.settled = h.committed;
  h.previous = h.committed;
  h.previous_epoch = static_cast<std::uint32_t>(completed);
  h.last_epoch = h.previous_epoch;
  set_boundary(sequence);
  set_event(sequence);
  ++live;
  ++counters.admitted;
  counters.prompt_tokens += count;
  counters.hit_tokens += match.hit.tokens.count();
  counters.hits += match.hit.tokens.count() != 0 ? 1 : 0;
  return id;
}

}  // namespace kvpool
