// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "block_manager_scenes.hpp"

#include <kvpool/memory/host_memory.hpp>

#include "support/block_pools.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

namespace kvpool::bench {
namespace {

using test::chunk_group;
using test::draft_pool;
using test::full_group;
using test::make_manager;
using test::make_pool;
using test::mla_group;
using test::must;
using test::target_pool;
using test::window_group;

constexpr std::int64_t kPage = 16;
/// Pages of a cached prompt.
constexpr std::int64_t kPromptPages = 8;
/// Sequences of a batch begin with 512 to 1023 tokens and are ended at 4096.
constexpr std::int64_t kShortest = 512;
constexpr std::int64_t kLongest = 4096;
constexpr std::int64_t kLookahead = 8;

/// A queue to a device that is done at once: what is left is the host's work.
class NoCopies {
 public:
  static Result<void> copy_async(std::uintptr_t, std::uintptr_t, Bytes) { return {}; }
  Result<Ticket> record() { return Ticket{++recorded_}; }
  static Result<bool> query(Ticket) { return true; }
  static Result<void> wait(Ticket) { return {}; }

 private:
  std::uint64_t recorded_ = 0;
};
static_assert(DeviceQueue<NoCopies>);

void demand(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "benchmark: %s\n", what);
    std::abort();
  }
}
void demand(BlockStatus status, const char* what) { demand(status == BlockStatus::kOk, what); }

TableBatch make_tables(const BlockManager& blocks, std::int64_t rows) {
  HostMemory memory;
  return must(TableBatch::create(blocks, {.rows = rows, .apply = TableApply::kByKernel}, memory,
                                 memory, NoCopies{}));
}

/// Slabs of the whole batch at its longest, and some more.
std::int64_t slabs_of(std::int64_t running, std::int64_t tokens_per_slab) {
  return running * (kLongest + kLookahead + kPage) / tokens_per_slab + 64;
}

std::vector<PoolDescriptor> decode_pools(std::int64_t running, std::int64_t groups) {
  if (groups == 1) {
    return {target_pool({full_group()}, kPage, slabs_of(running, kPage))};
  }
  // Six groups of one page size; together they take six slabs per 16 tokens.
  std::vector<LayerGroup> six{full_group(),       window_group(512), window_group(1024),
                              window_group(2048), chunk_group(1024), mla_group()};
  return {target_pool(std::move(six), kPage, slabs_of(running, kPage) * 6)};
}

BlockManagerOptions options_for(std::int64_t running) {
  return {.max_sequences = Sequences{running}, .max_length = Tokens{kLongest + kLookahead}};
}

/// Admits the batch: sequence i has another length than its neighbours, and tokens of its own.
std::vector<SequenceId> admit_all(BlockManager& blocks, TableBatch& tables, std::int64_t running,
                                  std::vector<std::int32_t>& prompt, DraftMode draft) {
  std::vector<SequenceId> sequences;
  for (std::int64_t i = 0; i < running; ++i) {
    prompt[0] = static_cast<std::int32_t>(i);
    const std::int64_t length = kShortest + i * 37 % kShortest;
    const AdmitOutcome outcome = blocks.admit(
        {.prompt = {.tokens = std::span{prompt}.first(static_cast<std::size_t>(length)),
                    .draft = draft},
         .use_cache = true});
    demand(outcome.status, "admit");
    demand(blocks.commit_prompt(outcome.sequence,
                                Tokens{length} - blocks.lengths(outcome.sequence).committed),
           "commit_prompt");
    demand(tables.bind(blocks, i, outcome.sequence), "bind");
    sequences.push_back(outcome.sequence);
  }
  return sequences;
}

void open_next(BlockManager& blocks, std::uint64_t& epoch) {
  ++epoch;
  demand(blocks.begin_step(Epoch{epoch}, Instant{static_cast<std::int64_t>(epoch)}), "begin_step");
  // The device is one step behind, as with asynchronous scheduling.
  demand(blocks.complete_until(Epoch{epoch - 1}), "complete_until");
}

void stage_all(BlockManager& blocks, TableBatch& tables) {
  do {
    demand(tables.stage(blocks), "stage");
    demand(tables.enqueue().has_value(), "enqueue");
  } while (tables.has_more());
}

}  // namespace

std::vector<std::int32_t> random_tokens(std::uint64_t seed, std::int64_t count) {
  std::mt19937_64 random{seed};
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::ranges::generate(tokens, [&] { return static_cast<std::int32_t>(random() % 100'000); });
  return tokens;
}

std::vector<std::int32_t> random_order(std::int64_t count) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, std::mt19937_64{2});
  return order;
}

DecodeScene::DecodeScene(std::int64_t running, std::int64_t groups)
    : running_{running},
      blocks_{make_manager(decode_pools(running, groups), options_for(running))},
      tables_{make_tables(blocks_, running)},
      prompt_{random_tokens(1, 2 * kShortest)} {}

void DecodeScene::restart() {
  for (const SequenceId sequence : sequences_) {
    demand(blocks_.release(sequence), "release");
  }
  open_next(blocks_, epoch_);
  stage_all(blocks_, tables_);
  blocks_.flush_cache();
  open_next(blocks_, epoch_);
  sequences_ = admit_all(blocks_, tables_, running_, prompt_, DraftMode::kOff);
  stage_all(blocks_, tables_);
  left_ = kLongest - 2 * kShortest;
}

void DecodeScene::decode() {
  open_next(blocks_, epoch_);
  bool all = true;
  const std::array<std::int32_t, 1> token{static_cast<std::int32_t>(epoch_ % 50'000)};
  for (const SequenceId sequence : sequences_) {
    all = all && blocks_.append(sequence, Tokens{1}) == BlockStatus::kOk &&
          blocks_.commit(sequence, token) == BlockStatus::kOk;
  }
  demand(all, "decode");
  stage_all(blocks_, tables_);
  --left_;
}

SpeculativeScene::SpeculativeScene(std::int64_t running)
    : running_{running},
      blocks_{make_manager({target_pool({full_group(2)}, 32, slabs_of(running, 32) + running),
                            draft_pool({full_group()}, kPage, slabs_of(running, kPage) + running)},
                           options_for(running))},
      tables_{make_tables(blocks_, running)},
      prompt_{random_tokens(1, 2 * kShortest)},
      accepted_(4096) {
  std::mt19937_64 random{3};
  std::ranges::generate(accepted_, [&] { return static_cast<std::uint8_t>(1 + random() % 8); });
}

void SpeculativeScene::restart() {
  for (const SequenceId sequence : sequences_) {
    demand(blocks_.release(sequence), "release");
  }
  open_next(blocks_, epoch_);
  stage_all(blocks_, tables_);
  blocks_.flush_cache();
  open_next(blocks_, epoch_);
  sequences_ = admit_all(blocks_, tables_, running_, prompt_, DraftMode::kRequired);
  stage_all(blocks_, tables_);
  left_ = (kLongest - 2 * kShortest) / kLookahead;
}

void SpeculativeScene::decode() {
  open_next(blocks_, epoch_);
  bool all = true;
  const std::array<std::int32_t, kLookahead> tokens{1, 2, 3, 4, 5, 6, 7, 8};
  for (const SequenceId sequence : sequences_) {
    const std::size_t stay = accepted_[next_++ % accepted_.size()];
    all = all && blocks_.append(sequence, Tokens{kLookahead}) == BlockStatus::kOk &&
          blocks_.commit(sequence, std::span{tokens}.first(stay)) == BlockStatus::kOk &&
          blocks_.truncate(sequence, Tokens{kLookahead - static_cast<std::int64_t>(stay)}) ==
              BlockStatus::kOk;
  }
  demand(all, "decode");
  stage_all(blocks_, tables_);
  --left_;
}

PrefixScene::PrefixScene(std::int64_t leaves, std::int64_t length, bool unknown)
    : blocks_{make_manager({target_pool({full_group()}, kPage, leaves * length / kPage + 64)},
                           {.max_sequences = Sequences{4}, .max_length = Tokens{length + kPage}})} {
  std::uint64_t epoch = 0;
  for (std::int64_t i = 0; i < leaves; ++i) {
    const auto seed = static_cast<std::uint64_t>(i) + 10;
    std::vector<std::int32_t> tokens = random_tokens(seed, length);
    open_next(blocks_, epoch);
    const AdmitOutcome outcome = blocks_.admit({.prompt = {.tokens = tokens}});
    demand(outcome.status, "admit");
    demand(blocks_.commit_prompt(outcome.sequence,
                                 Tokens{length} - blocks_.lengths(outcome.sequence).committed),
           "commit_prompt");
    demand(blocks_.release(outcome.sequence), "release");
    blocks_.clear_copies();
    tokens.push_back(1);
    queries_.push_back(std::move(tokens));
    if (unknown) {
      unknown_.push_back(random_tokens(seed + 1'000'000, length + 1));
    }
  }
}

PageScene::PageScene(std::int64_t pages)
    : capacity_{static_cast<std::size_t>(pages)},
      pool_{must(PagePool::create(target_pool({full_group()}, kPage, pages)))} {
  held_.reserve(capacity_);
  next_epoch();
  refill();
}

void PageScene::next_epoch() {
  ++epoch_;
  pool_.open_epoch(Epoch{epoch_});
  pool_.complete_until(Epoch{epoch_ - 1});
}

void PageScene::give_back() {
  std::ranges::shuffle(held_, random_);
  while (!is_half_empty()) {
    free();
  }
  demand(freed_, "free");
  next_epoch();
}

void PageScene::refill() {
  next_epoch();
  while (!is_full()) {
    allocate();
  }
  std::ranges::shuffle(held_, random_);
}

double PageScene::metadata_bytes_per_page() const {
  return static_cast<double>(pool_.metadata_bytes().count()) / static_cast<double>(capacity_);
}

CachedScene::CachedScene(std::int64_t pages)
    : pages_{pages},
      blocks_{make_manager(
          {target_pool({full_group()}, kPage, pages)},
          {.max_sequences = Sequences{4}, .max_length = Tokens{kPromptPages * kPage + kPage}})} {
  refill();
}

void CachedScene::next_epoch() { open_next(blocks_, epoch_); }

/// Admits and releases prompt `i`: whole pages that no other has.
void CachedScene::use(std::int64_t prompt) {
  std::array<std::int32_t, kPromptPages * kPage + 1> tokens{};
  tokens[0] = static_cast<std::int32_t>(prompt % 50'000);
  tokens[1] = static_cast<std::int32_t>(prompt / 50'000);
  const AdmitOutcome outcome =
      blocks_.admit({.prompt = {.tokens = tokens}, .reserve = Tokens{kPromptPages * kPage}});
  demand(outcome.status, "admit");
  const Tokens missing = Tokens{kPromptPages * kPage} - outcome.hit.tokens;
  demand(missing == Tokens{0} ? BlockStatus::kOk : blocks_.commit_prompt(outcome.sequence, missing),
         "commit_prompt");
  demand(blocks_.release(outcome.sequence), "release");
}

void CachedScene::refill() {
  first_ = next_;
  for (; cached_ + kPromptPages <= pages_; cached_ += kPromptPages) {
    if (next_ % 32 == 0) {
      next_epoch();
    }
    use(next_++);
  }
  // New prompts stand in memory as they came; what was used last does not.
  std::vector<std::int64_t> order(static_cast<std::size_t>(next_ - first_));
  std::iota(order.begin(), order.end(), first_);
  std::ranges::shuffle(order, random_);
  for (const std::int64_t prompt : order) {
    use(prompt);
  }
  next_epoch();
}

double CachedScene::metadata_bytes_per_page() const {
  return static_cast<double>(blocks_.metadata_bytes().count()) / static_cast<double>(pages_);
}

CachedScene& cached_scene(std::int64_t pages) {
  static std::map<std::int64_t, std::unique_ptr<CachedScene>> scenes;
  std::unique_ptr<CachedScene>& scene = scenes[pages];
  if (scene == nullptr) {
    scene = std::make_unique<CachedScene>(pages);
  }
  return *scene;
}

ColdScene::ColdScene(std::int64_t length)
    : blocks_{make_manager({target_pool({full_group()}, kPage, length / kPage + 64)},
                           {.max_sequences = Sequences{4}, .max_length = Tokens{length}})},
      prompt_{random_tokens(1, length)} {}

void ColdScene::empty() {
  if (sequence_.has_value()) {
    demand(blocks_.release(*sequence_), "release");
    blocks_.flush_cache();
  }
  open_next(blocks_, epoch_);
}

void ColdScene::admit() {
  const AdmitOutcome outcome = blocks_.admit({.prompt = {.tokens = prompt_}});
  demand(outcome.status, "admit");
  sequence_ = outcome.sequence;
}

}  // namespace kvpool::bench
