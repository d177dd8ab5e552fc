// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// What the benchmarks of the block manager operate on: each scene prepares one operation, and does
// it. The program that counts instructions uses the same ones.
#pragma once

#include <kvpool/block/block_manager.hpp>
#include <kvpool/block/page_pool.hpp>
#include <kvpool/block/table_batch.hpp>

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace kvpool::bench {

/// Token ids of a vocabulary of 100 000, the same on every run.
[[nodiscard]] std::vector<std::int32_t> random_tokens(std::uint64_t seed, std::int64_t count);
/// 0 .. count - 1, shuffled.
[[nodiscard]] std::vector<std::int32_t> random_order(std::int64_t count);

/// A batch of running sequences with its tables; every step of an engine appends one token to each.
class DecodeScene {
 public:
  /// @param groups 1: a full group of pages of 16; 6: full, three windows, a chunk and MLA
  DecodeScene(std::int64_t running, std::int64_t groups);

  /// Ends all sequences and admits new ones, of lengths that differ.
  void restart();
  /// True when the sequences have grown to their limit.
  [[nodiscard]] bool is_over() const { return left_ == 0; }
  /// One step: time goes on, append and commit for every sequence, changes into staging.
  void decode();
  [[nodiscard]] BlockManager& manager() { return blocks_; }

 private:
  std::int64_t running_;
  BlockManager blocks_;
  TableBatch tables_;
  std::vector<SequenceId> sequences_{};
  std::vector<std::int32_t> prompt_;
  std::uint64_t epoch_ = 0;
  std::int64_t left_ = 0;
};

/// The same with eight look-ahead tokens a step, of which one to eight stay, over target and draft.
class SpeculativeScene {
 public:
  explicit SpeculativeScene(std::int64_t running);

  void restart();
  [[nodiscard]] bool is_over() const { return left_ == 0; }
  void decode();
  [[nodiscard]] BlockManager& manager() { return blocks_; }

 private:
  std::int64_t running_;
  BlockManager blocks_;
  TableBatch tables_;
  std::vector<SequenceId> sequences_{};
  std::vector<std::int32_t> prompt_;
  std::vector<std::uint8_t> accepted_;
  std::size_t next_ = 0;
  std::uint64_t epoch_ = 0;
  std::int64_t left_ = 0;
};

/// `leaves` cached prompts of `length` tokens that differ from the first token on.
class PrefixScene {
 public:
  /// `unknown`: also makes as many prompts that nobody had.
  PrefixScene(std::int64_t leaves, std::int64_t length, bool unknown);

  /// Looks up prompt `i` and one token more. @return the hit
  Tokens match(std::int32_t i) const {
    return blocks_.match_prefix({.tokens = queries_[static_cast<std::size_t>(i)]}).tokens;
  }
  /// Looks up a prompt that nobody had. @pre `unknown`
  Tokens miss(std::int32_t i) const {
    return blocks_.match_prefix({.tokens = unknown_[static_cast<std::size_t>(i)]}).tokens;
  }

 private:
  BlockManager blocks_;
  std::vector<std::vector<std::int32_t>> queries_{};
  std::vector<std::vector<std::int32_t>> unknown_{};
};

/// A pool of pages that are given back in random order and through the fence, as in service.
class PageScene {
 public:
  /// A pool of which every page is handed out.
  explicit PageScene(std::int64_t pages);

  void allocate() { held_.push_back(*pool_.allocate(0)); }
  void free() {
    freed_ = freed_ && pool_.free(0, held_.back());
    held_.pop_back();
  }
  [[nodiscard]] bool is_full() const { return held_.size() == capacity_; }
  [[nodiscard]] bool is_half_empty() const { return held_.size() <= capacity_ / 2; }
  /// Gives half of the pages back, whichever.
  void give_back();
  /// Takes all pages again, and puts them into another order.
  void refill();
  [[nodiscard]] double metadata_bytes_per_page() const;

 private:
  void next_epoch();

  std::size_t capacity_;
  PagePool pool_;
  std::vector<PageId> held_{};
  std::mt19937_64 random_{1};
  std::uint64_t epoch_ = 0;
  bool freed_ = true;
};

/// A pool whose pages are all cached, by prompts of eight pages, last used in random order.
class CachedScene {
 public:
  explicit CachedScene(std::int64_t pages);

  Pages evict() {
    --cached_;
    return blocks_.evict(GroupId{0}, Pages{1});
  }
  [[nodiscard]] bool is_half_empty() const { return cached_ <= pages_ / 2; }
  /// Caches new prompts until the pool is full, and uses them in random order.
  void refill();
  [[nodiscard]] double metadata_bytes_per_page() const;

 private:
  void next_epoch();
  void use(std::int64_t prompt);

  std::int64_t pages_;
  BlockManager blocks_;
  std::int64_t cached_ = 0;
  std::int64_t first_ = 0;  ///< prompts before it are not looked up again
  std::int64_t next_ = 0;   ///< the next new prompt
  std::uint64_t epoch_ = 0;
  std::mt19937_64 random_{1};
};
/// The scene of this size; made on first use and kept, since a large one takes a while.
[[nodiscard]] CachedScene& cached_scene(std::int64_t pages);

/// A pool that a long prompt is admitted to.
class ColdScene {
 public:
  explicit ColdScene(std::int64_t length);

  /// Releases what was admitted and flushes the cache.
  void empty();
  void admit();
  [[nodiscard]] BlockManager& manager() { return blocks_; }

 private:
  BlockManager blocks_;
  std::vector<std::int32_t> prompt_;
  std::optional<SequenceId> sequence_{};
  std::uint64_t epoch_ = 0;
};

}  // namespace kvpool::bench
