// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// After a warm-up the calls of a step allocate nothing from the heap, and tables take no more than
// the stated bytes.
#include <kvpool/block/block_manager.hpp>
#include <kvpool/block/table_batch.hpp>
#include <kvpool/memory/host_memory.hpp>
#include <kvpool/memory/host_queue.hpp>

#include "support/block_pools.hpp"
#include "support/catch.hpp"
#include "support/counting_new.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace kvpool::test {
namespace {

/// An engine's step over everything that a scheduler calls; no test macros, which allocate.
class Service {
 public:
  Service()
      : blocks_{make_manager(
            {target_pool({full_group(1), window_group(40, 2), chunk_group(64, 3)}, 16, 70),
             draft_pool({full_group()}, 8, 150), state_pool(24)},
            {.max_sequences = Sequences{12},
             .max_length = Tokens{512},
             .draft_lookahead = Tokens{1},
             .snapshot_interval = Tokens{32}})},
        tables_{must(
            TableBatch::create(blocks_, {.rows = 12}, HostMemory{}, HostMemory{}, HostQueue{}))} {
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      prompts_[i] = tokens_from(static_cast<std::int32_t>(i / 2) * 10'000,
                                40 + 17 * static_cast<std::int64_t>(i));
    }
  }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// @return whether every answer was one that the contract allows here
  bool step() {
    ++epoch_;
    bool fine = blocks_.begin_step(Epoch{epoch_}, Instant{static_cast<std::int64_t>(epoch_)}) ==
                    BlockStatus::kOk &&
                (epoch_ < 3 || blocks_.complete_until(Epoch{epoch_ - 2}) == BlockStatus::kOk);
    Slot& slot = slots_[epoch_ % slots_.size()];
    if (slot.is_live) {
      fine = fine && blocks_.release(slot.id) == BlockStatus::kOk;
      slot.is_live = false;
    }
    const std::vector<std::int32_t>& prompt = prompts_[epoch_ * 5 % prompts_.size()];
    (void)blocks_.match_prefix({.tokens = prompt});
    const AdmitOutcome outcome =
        blocks_.admit({.prompt = {.tokens = prompt, .draft = DraftMode::kIfRoom}});
    if (outcome.status == BlockStatus::kOk) {
      slot = {outcome.sequence, true};
      fine = fine && tables_.bind(blocks_, static_cast<std::int64_t>(epoch_ % slots_.size()),
                                  slot.id) == BlockStatus::kOk;
    }
    for (Slot& each : slots_) {
      fine = fine && (!each.is_live || advance(each.id));
    }
    if (epoch_ % 4 == 0 && slot.is_live) {
      const ForkOutcome fork = blocks_.fork(slot.id);
      fine = fine && (fork.status != BlockStatus::kOk ||
                      blocks_.release(fork.sequence) == BlockStatus::kOk);
    }
    fine = fine && tables_.stage(blocks_) == BlockStatus::kOk;
    const std::int64_t before = allocations();
    fine = fine && tables_.enqueue().has_value();
    in_enqueue_ += allocations() - before;
    blocks_.clear_copies();
    return fine;
  }
  [[nodiscard]] const BlockManager& blocks() const { return blocks_; }
  /// A queue may allocate; only `stage` promises not to.
  [[nodiscard]] std::int64_t in_enqueue() const { return in_enqueue_; }

 private:
  struct Slot {
    SequenceId id{};
    bool is_live = false;
  };
  bool advance(SequenceId id) {
    const SequenceLengths lengths = blocks_.lengths(id);
    if (lengths.committed < lengths.prompt) {
      Tokens count = std::min(lengths.prompt - lengths.committed, Tokens{64});
      count = std::min(count, blocks_.tokens_to_next_snapshot(id).value_or(count));
      return blocks_.commit_prompt(id, count) == BlockStatus::kOk;
    }
    if (blocks_.append(id, Tokens{8}) != BlockStatus::kOk) {
      return true;  // no room, or too long: refusing is free of allocations, too
    }
    const std::int64_t stay = 1 + static_cast<std::int64_t>(epoch_ % 8);
    static constexpr std::array<std::int32_t, 8> kTokens{1, 2, 3, 4, 5, 6, 7, 8};
    return blocks_.commit(id, std::span{kTokens}.first(static_cast<std::size_t>(stay))) ==
               BlockStatus::kOk &&
           blocks_.truncate(id, Tokens{8 - stay}) == BlockStatus::kOk;
  }

  BlockManager blocks_;
  TableBatch tables_;
  std::array<std::vector<std::int32_t>, 12> prompts_{};
  std::array<Slot, 10> slots_{};
  std::uint64_t epoch_ = 0;
  std::int64_t in_enqueue_ = 0;
};

TEST_CASE("the steps of an engine allocate nothing from the heap") {
  Service service;
  bool fine = true;
  for (int step = 0; step < 500; ++step) {
    fine = fine && service.step();
  }
  REQUIRE(fine);
  const std::int64_t in_enqueue = service.in_enqueue();
  const std::int64_t before = allocations();
  for (int step = 0; step < 2'000; ++step) {
    fine = fine && service.step();
  }
  const std::int64_t made = allocations() - before - (service.in_enqueue() - in_enqueue);
  REQUIRE(fine);
  CHECK(made == 0);
  // All of it took part.
  const BlockManagerCounters& counters = service.blocks().counters();
  CHECK(counters.hits > 200);
  CHECK(counters.forked > 50);
  CHECK(counters.evicted_blocks > 200);
  CHECK(counters.evicted_pages > 0);
  CHECK(counters.refused > 10);
  CHECK(counters.snapshots > 100);
}

TEST_CASE("the counter of allocations counts") {
  const std::int64_t before = allocations();
  const std::vector<std::int64_t> vector(100, before);
  CHECK(vector.back() == before);
  CHECK(allocations() - before >= 1);
}

TEST_CASE("a page takes at most 64 bytes beside its tokens") {
  for (const std::int64_t pages : {100'000, 1'000'000}) {
    for (const bool owners : {false, true}) {
      const BlockManager blocks = make_manager(
          {target_pool({full_group()}, 16, pages)},
          {.max_sequences = Sequences{256}, .max_length = Tokens{4'096}, .record_owners = owners});
      INFO(pages << " pages, " << blocks.metadata_bytes().count() << " bytes");
      CHECK(blocks.metadata_bytes().count() <= 64 * pages);
    }
  }
}

}  // namespace
}  // namespace kvpool::test
