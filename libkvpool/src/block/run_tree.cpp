// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "block/run_tree.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace kvpool::block {
namespace {

/// Tokens that are compared at once: short enough that finding the first difference is quick.
constexpr std::size_t kStride = 1024;

/// Lines that are asked for before a run is compared.
constexpr std::size_t kLines = 24;
constexpr std::size_t kTokensPerLine = 16;

}  // namespace

void prefetch_tokens(const std::int32_t* tokens, std::size_t count) noexcept {
  const std::size_t lines = std::min(kLines, count / kTokensPerLine + 1);
  for (std::size_t i = 0; i < lines; ++i) {
    __builtin_prefetch(tokens + i * kTokensPerLine);
  }
}

std::size_t equal_tokens(const std::int32_t* a, const std::int32_t* b, std::size_t count) noexcept {
  std::size_t equal = 0;
  while (equal < count) {
    const std::size_t stride = std::min(kStride, count - equal);
    if (std::memcmp(a + equal, b + equal, stride * sizeof(std::int32_t)) != 0) {
      while (a[equal] == b[equal]) {
        ++equal;
      }
      return equal;
    }
    equal += stride;
  }
  return equal;
}

RunTree::RunTree(std::uint32_t runs, std::uint32_t units, std::uint32_t block) noexcept
    : block_{block},
      capacity_{runs},
      free_runs_{runs},
      slot_count_{std::size_t{runs} + runs / 2 + 2},
      runs_{std::size_t{runs} + 1},
      slots_{slot_count_},
      tokens_{std::size_t{units} * block},
      extents_{units} {
  if (ok()) {
    runs_[kRoot] = Run{};
    runs_[kRoot].parent = kNil;
    runs_[kRoot].first_child = kNil;
    runs_[kRoot].locks = 1;
    runs_[kRoot].flags = Run::kPublished | Run::kDraft;
  }
}

bool RunTree::ok() const noexcept {
  return runs_.ok() && slots_.ok() && tokens_.ok() && extents_.ok();
}

std::uint32_t RunTree::allocate() noexcept {
  if (free_runs_ == 0) {
    return kNil;
  }
  --free_runs_;
  std::uint32_t run = first_free_;
  if (run != kNil) {
    first_free_ = runs_[run].parent;
  } else {
    run = fresh_++;
  }
  Run& of = runs_[run];
  of = Run{};
  of.parent = kNil;
  of.first_child = kNil;
  return run;
}

void RunTree::free(std::uint32_t run) noexcept {
  runs_[run].flags = 0;
  runs_[run].locks = 0;
  runs_[run].blocks = 0;
  runs_[run].capacity = 0;
  runs_[run].parent = first_free_;
  first_free_ = run;
  ++free_runs_;
}

std::uint32_t RunTree::hash_of(std::uint32_t parent, std::int32_t name_space,
                               const std::int32_t* first_block) const noexcept {
  const std::uint64_t seed = std::uint64_t{parent} << 32 | static_cast<std::uint32_t>(name_space);
  const std::uint64_t hash =
      XXH3_64bits_withSeed(first_block, std::size_t{block_} * sizeof(std::int32_t), seed);
  return static_cast<std::uint32_t>(hash ^ hash >> 32);
}

std::uint32_t RunTree::find(std::uint32_t parent, std::int32_t name_space,
                            const std::int32_t* first_block, std::uint32_t more) const noexcept {
  const std::uint32_t hash = hash_of(parent, name_space, first_block);
  for (std::size_t i = home_of(hash); slots_[i].run != 0; i = after(i)) {
    if (slots_[i].hash != hash) {
      continue;
    }
    const Slot slot = slots_[i];
    const Run& run = runs_[slot.run];
    __builtin_prefetch(&run);
    prefetch_tokens(tokens(slot.start), std::size_t{more} * block_);
    if (std::memcmp(tokens(slot.start), first_block, std::size_t{block_} * sizeof(std::int32_t)) ==
            0 &&
        run.parent == parent && run.name_space == name_space) {
      return slots_[i].run;
    }
  }
  return kNil;
}

std::size_t RunTree::slot_of(std::uint32_t run) const noexcept {
  std::size_t i = home_of(runs_[run].hash);
  while (slots_[i].run != run) {
    i = after(i);
  }
  return i;
}

void RunTree::insert_slot(Slot slot) noexcept {
  std::size_t i = home_of(slot.hash);
  while (slots_[i].run != 0) {
    i = after(i);
  }
  slots_[i] = slot;
}

void RunTree::erase_slot(std::size_t slot) noexcept {
  // What follows moves up, so that no search stops at the gap.
  std::size_t gap = slot;
  for (std::size_t i = after(gap); slots_[i].run != 0; i = after(i)) {
    if (distance(home_of(slots_[i].hash), i) >= distance(gap, i)) {
      slots_[gap] = slots_[i];
      gap = i;
    }
  }
  slots_[gap] = {};
}

void RunTree::publish(std::uint32_t run) noexcept {
  Run& of = runs_[run];
  of.hash = hash_of(of.parent, of.name_space, tokens(of.start));
  insert_slot({.hash = of.hash, .run = run, .start = of.start});
  Run& parent = runs_[of.parent];
  of.siblings = {.previous = kNil, .next = parent.first_child};
  if (parent.first_child != kNil) {
    runs_[parent.first_child].siblings.previous = run;
  }
  parent.first_child = run;
  of.set(Run::kPublished);
}

void RunTree::unpublish(std::uint32_t run) noexcept {
  Run& of = runs_[run];
  erase_slot(slot_of(run));
  if (of.siblings.previous != kNil) {
    runs_[of.siblings.previous].siblings.next = of.siblings.next;
  } else {
    runs_[of.parent].first_child = of.siblings.next;
  }
  if (of.siblings.next != kNil) {
    runs_[of.siblings.next].siblings.previous = of.siblings.previous;
  }
  of.clear(Run::kPublished);
}

std::uint32_t RunTree::split(std::uint32_t run, std::uint32_t blocks) noexcept {
  const std::uint32_t upper = allocate();
  Run& top = runs_[upper];
  Run& low = runs_[run];
  top.parent = low.parent;
  top.start = low.start;
  top.blocks = blocks;
  top.capacity = blocks;
  top.name_space = low.name_space;
  top.epoch = low.epoch;
  top.stamp = low.stamp;
  top.tenant = low.tenant;
  top.priority = low.priority;
  top.flags = low.flags & (Run::kPublished | Run::kDraft);
  low.parent = upper;
  low.start += blocks;
  low.blocks -= blocks;
  low.capacity -= blocks;
  if (low.has(Run::kPublished)) {
    top.hash = low.hash;
    slots_[slot_of(run)].run = upper;
    top.siblings = low.siblings;
    (top.siblings.previous != kNil ? runs_[top.siblings.previous].siblings.next
                                   : runs_[top.parent].first_child) = upper;
    if (top.siblings.next != kNil) {
      runs_[top.siblings.next].siblings.previous = upper;
    }
    if (low.blocks != 0) {
      publish(run);
    } else {
      low.clear(Run::kPublished);
    }
  }
  return upper;
}

std::uint32_t RunTree::walk(Cursor& cursor, std::int32_t name_space, const std::int32_t* tokens_in,
                            std::uint32_t blocks) const noexcept {
  std::uint32_t done = 0;
  while (done < blocks) {
    const Run* run = &runs_[cursor.run];
    if (cursor.blocks == run->blocks) {
      const std::uint32_t child =
          find(cursor.run, name_space, tokens_in + std::size_t{done} * block_, blocks - done - 1);
      if (child == kNil) {
        return done;
      }
      cursor = {.run = child, .blocks = 1};
      ++done;
      run = &runs_[child];
    } else if (run->name_space != name_space) {
      return done;
    }
    const std::uint32_t rest = std::min(blocks - done, run->blocks - cursor.blocks);
    const auto equal = static_cast<std::uint32_t>(
        equal_tokens(tokens(run->start + cursor.blocks), tokens_in + std::size_t{done} * block_,
                     std::size_t{rest} * block_) /
        block_);
    cursor.blocks += equal;
    done += equal;
    if (equal < rest) {
      return done;
    }
  }
  return done;
}

std::int64_t RunTree::metadata_bytes() const noexcept {
  return runs_.bytes() + slots_.bytes() + extents_.bytes();
}

}  // namespace kvpool::block
