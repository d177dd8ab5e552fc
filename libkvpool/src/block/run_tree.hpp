// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block/extent_allocator.hpp"
#include "block/level_lists.hpp"
#include "block/reserved_array.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace kvpool::block {

/// The run that has everything below it and no tokens.
inline constexpr std::uint32_t kRoot = 0;

/// A node of the prefix tree: a run of whole prefix blocks, whose tokens and pages are contiguous.
struct alignas(64) Run {
  enum Flag : std::uint8_t {
    kPublished = 1,  ///< found by its first block below its parent
    kListed = 2,     ///< a leaf that may be evicted, in a list of its level
    kCooling = 4,    ///< held by nobody, but an epoch that may read it is open
    kDraft = 8,      ///< its blocks have pages in the draft groups
    kOwned = 16,     ///< a sequence writes its tokens; `list` holds owner and next of its chain
  };

  /// Neighbours in the list of its level or of the cooling; see `kOwned`.
  Link list;
  std::uint32_t parent;
  std::uint32_t first_child;
  Link siblings;
  /// First unit of its extent.
  std::uint32_t start;
  /// Complete blocks.
  std::uint32_t blocks;
  /// Units of its extent.
  std::uint32_t capacity;
  /// Sequences and pins at its end, and children with locks.
  std::uint32_t locks;
  std::uint32_t hash;
  std::int32_t name_space;
  /// Low bits of the epoch in which it lost its last lock.
  std::uint32_t epoch;
  /// When it lost its last lock, in order of all such events.
  std::uint32_t stamp;
  std::uint16_t tenant;
  std::uint8_t priority;
  std::uint8_t flags;

  [[nodiscard]] bool has(Flag flag) const noexcept { return (flags & flag) != 0; }
  void set(Flag flag) noexcept { flags = static_cast<std::uint8_t>(flags | flag); }
  void clear(Flag flag) noexcept { flags = static_cast<std::uint8_t>(flags & ~flag); }
};
static_assert(sizeof(Run) == 64);

/// Where a walk down the tree ended: `blocks` blocks into `run`.
struct Cursor {
  std::uint32_t run = kRoot;
  std::uint32_t blocks = 0;
};

/// Prefix tree over runs of tokens: structure only; who may be evicted is the manager's matter.
///
/// Units are the places of prefix blocks: unit u has the tokens `tokens()[u * block ..]`, and the
/// manager's tables of pages are indexed by units, too. A child is found by the tokens of its first
/// block: a hash finds, comparing the tokens decides.
class RunTree {
 public:
  RunTree() noexcept = default;
  /// An empty tree for `runs` runs (the root not counted) over `units` blocks of `block` tokens.
  RunTree(std::uint32_t runs, std::uint32_t units, std::uint32_t block) noexcept;

  /// False when the system did not give the address space.
  [[nodiscard]] bool ok() const noexcept;

  [[nodiscard]] Run& operator[](std::uint32_t run) noexcept { return runs_[run]; }
  [[nodiscard]] const Run& operator[](std::uint32_t run) const noexcept { return runs_[run]; }
  /// Tokens of a prefix block.
  [[nodiscard]] std::uint32_t block() const noexcept { return block_; }
  /// First token of a unit.
  [[nodiscard]] std::int32_t* tokens(std::uint32_t unit) noexcept {
    return tokens_.data() + std::size_t{unit} * block_;
  }
  /// First token of a unit.
  [[nodiscard]] const std::int32_t* tokens(std::uint32_t unit) const noexcept {
    return tokens_.data() + std::size_t{unit} * block_;
  }
  /// The units.
  [[nodiscard]] ExtentAllocator& extents() noexcept { return extents_; }
  /// The units.
  [[nodiscard]] const ExtentAllocator& extents() const noexcept { return extents_; }

  /// A run with default fields, not in the tree; `kNil` when all are taken.
  [[nodiscard]] std::uint32_t allocate() noexcept;
  /// Gives a run back; its units are the caller's matter. @pre it is not published
  void free(std::uint32_t run) noexcept;
  /// Runs that `allocate` could still give.
  [[nodiscard]] std::uint32_t free_runs() const noexcept { return free_runs_; }
  /// Runs in use, the root not counted.
  [[nodiscard]] std::uint32_t used_runs() const noexcept { return capacity_ - free_runs_; }
  /// One past the largest run in use ever.
  [[nodiscard]] std::uint32_t end() const noexcept { return fresh_; }

  /// The published child of `parent` in a namespace that starts with this block, or `kNil`.
  /// @param more blocks that the caller will compare next, to be fetched on the way
  [[nodiscard]] std::uint32_t find(std::uint32_t parent, std::int32_t name_space,
                                   const std::int32_t* first_block,
                                   std::uint32_t more = 0) const noexcept;
  /// Links a run below its parent. @pre it has a block and no equal sibling
  void publish(std::uint32_t run) noexcept;
  /// Unlinks a run. @pre it is published and has no published child
  void unpublish(std::uint32_t run) noexcept;
  /// Cuts the first `blocks` blocks off a run into a new one above it, which gets its place below
  /// the parent, and returns the new one. When nothing complete remains, the lower one is not
  /// published. Lists and locks are the caller's matter.
  /// @pre 0 < blocks <= complete blocks; free_runs() > 0
  std::uint32_t split(std::uint32_t run, std::uint32_t blocks) noexcept;
  /// Walks down from `cursor` along `blocks` blocks of one namespace. @return blocks that are equal
  std::uint32_t walk(Cursor& cursor, std::int32_t name_space, const std::int32_t* tokens,
                     std::uint32_t blocks) const noexcept;

  /// Asks for what `unpublish` will look at.
  void prefetch_unpublish(std::uint32_t run) const noexcept {
    __builtin_prefetch(&slots_[home_of(runs_[run].hash)]);
  }

  /// Bytes of runs and their index, when all of them have been used.
  [[nodiscard]] std::int64_t metadata_bytes() const noexcept;
  /// Bytes of the tokens.
  [[nodiscard]] std::int64_t token_bytes() const noexcept { return tokens_.bytes(); }

 private:
  struct Slot {
    std::uint32_t hash;
    /// 0 for an empty slot: the root is nobody's child.
    std::uint32_t run;
    /// Its first unit: so its tokens and the run itself are fetched at the same time.
    std::uint32_t start;
  };

  [[nodiscard]] std::uint32_t hash_of(std::uint32_t parent, std::int32_t name_space,
                                      const std::int32_t* first_block) const noexcept;
  /// Where the search for a hash starts.
  [[nodiscard]] std::size_t home_of(std::uint32_t hash) const noexcept {
    return static_cast<std::size_t>(std::uint64_t{hash} * slot_count_ >> 32);
  }
  [[nodiscard]] std::size_t after(std::size_t slot) const noexcept {
    return slot + 1 == slot_count_ ? 0 : slot + 1;
  }
  [[nodiscard]] std::size_t distance(std::size_t from, std::size_t to) const noexcept {
    return to >= from ? to - from : to + slot_count_ - from;
  }
  [[nodiscard]] std::size_t slot_of(std::uint32_t run) const noexcept;
  void insert_slot(Slot slot) noexcept;
  void erase_slot(std::size_t slot) noexcept;

  std::uint32_t block_ = 1;
  std::uint32_t capacity_ = 0;
  std::uint32_t free_runs_ = 0;
  std::uint32_t first_free_ = kNil;
  std::uint32_t fresh_ = 1;
  /// Half as many again as runs.
  std::size_t slot_count_ = 1;
  ReservedArray<Run> runs_;
  ReservedArray<Slot> slots_;
  ReservedArray<std::int32_t> tokens_;
  ExtentAllocator extents_;
};

/// Asks for the first lines of a run that is going to be compared, so that they come together.
void prefetch_tokens(const std::int32_t* tokens, std::size_t count) noexcept;

/// Tokens at the start of `a` and `b` that are equal, of at most `count`.
[[nodiscard]] std::size_t equal_tokens(const std::int32_t* a, const std::int32_t* b,
                                       std::size_t count) noexcept;

}  // namespace kvpool::block
