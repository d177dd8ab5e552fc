// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// What admission needs beside pages, and what it leaves as it was when it refuses.
#include <kvpool/block/block_manager.hpp>

#include "property/dice.hpp"
#include "unit/block/step_engine.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace kvpool::test {
namespace {

/// `count` tokens that have nothing in common with those of another `seed`.
std::vector<std::int32_t> same(std::int32_t seed, std::int64_t count) {
  return std::vector<std::int32_t>(static_cast<std::size_t>(count), seed);
}

BlockStatus leave(BlockManager& blocks, const std::vector<std::int32_t>& tokens) {
  const AdmitOutcome outcome = blocks.admit({.prompt = {.tokens = tokens}});
  if (outcome.status != BlockStatus::kOk) {
    return outcome.status;
  }
  REQUIRE(blocks.commit_prompt(outcome.sequence, Tokens{std::ssize(tokens)}) == BlockStatus::kOk);
  return blocks.release(outcome.sequence);
}

TEST_CASE("prompts of a few tokens are never refused while all that is cached may go",
          "[block_manager]") {
  BlockManager blocks =
      make_manager({target_pool({full_group()}, 2, 20'000)}, {.max_length = Tokens{64}});
  std::int64_t refused = 0;
  for (std::int32_t i = 0; i < 25'000; ++i) {
    refused += leave(blocks, same(i, 3)) == BlockStatus::kOk ? 0 : 1;
  }
  CHECK(refused == 0);
  // A run for five blocks of the pool, and some: of one block each these hold 4064 to 4640 pages.
  CHECK(blocks.evictable_pages(GroupId{0}) >= Pages{4'064});
  CHECK(blocks.counters().evicted_blocks > 20'000);
}

TEST_CASE("a cache fills with released prompts of 64 tokens and takes more", "[block_manager]") {
  constexpr std::int64_t kPages = 200'000;
  BlockManager blocks = make_manager({target_pool({full_group()}, 16, kPages)},
                                     {.max_sequences = Sequences{4}, .max_length = Tokens{64}});
  std::int64_t refused = 0;
  for (std::int32_t i = 0; i < 60'000; ++i) {
    refused += leave(blocks, same(i, 64)) == BlockStatus::kOk ? 0 : 1;
  }
  CHECK(refused == 0);
  // Four pages a run and a run for five pages: four fifths of the pool.
  CHECK(blocks.evictable_pages(GroupId{0}) >= Pages{kPages / 5 * 4});
}

TEST_CASE("a long prompt finds room between those of a cache full of short ones",
          "[block_manager]") {
  constexpr std::int64_t kPage = 16;
  constexpr std::int64_t kPages = 20'000;
  BlockManager blocks = make_manager(
      {target_pool({full_group()}, kPage, kPages)},
      {.max_sequences = Sequences{8}, .max_length = Tokens{24'000}, .max_cached_runs = kPages});
  Dice dice{1};
  std::int64_t refused = 0;
  for (std::int32_t i = 0; i < 60'000; ++i) {
    refused += leave(blocks, same(i, kPage * (1 + dice.below(3)) + 1)) == BlockStatus::kOk ? 0 : 1;
  }
  REQUIRE(refused == 0);
  REQUIRE(blocks.evictable_pages(GroupId{0}) >= Pages{kPages - 1});
  for (const std::int64_t pages : {90, 400, 1'500}) {
    INFO(pages << " pages");
    const std::int64_t before = blocks.counters().evicted_blocks;
    const auto tokens = same(1'000'000 + static_cast<std::int32_t>(pages), pages * kPage);
    REQUIRE(leave(blocks, tokens) == BlockStatus::kOk);
    // No more goes than its pages need, but for the last of the runs that go.
    CHECK(blocks.counters().evicted_blocks - before <= pages + 3);
    CHECK(blocks.match_prefix({.tokens = tokens}).tokens == Tokens{pages * kPage - 1});
  }
  for (const Finding& finding : blocks.check_invariants(CheckLevel::kEverything)) {
    FAIL_CHECK(finding.message);
  }
}

TEST_CASE("a refused admission evicts nothing, also where runs are short", "[block_manager]") {
  BlockManager blocks = make_manager(
      {target_pool({full_group()}, 4, 400)},
      {.max_sequences = Sequences{2}, .max_length = Tokens{1'600}, .max_cached_runs = 8});
  for (std::int32_t i = 0; i < 200; ++i) {
    REQUIRE(leave(blocks, same(i, 4)) == BlockStatus::kOk);
  }
  // All runs are taken: whoever is admitted now has one of them go.
  const std::int64_t evicted = blocks.counters().evicted_blocks;
  REQUIRE(evicted > 0);
  const auto held = same(1'000, 1'200);
  const AdmitOutcome first = blocks.admit({.prompt = {.tokens = held}});
  REQUIRE(first.status == BlockStatus::kOk);
  const std::int64_t after_first = blocks.counters().evicted_blocks;
  const std::uint64_t before = blocks.fingerprint();
  const auto too_many = same(1'001, 600);
  CHECK(blocks.admit({.prompt = {.tokens = too_many}}).status == BlockStatus::kNoPages);
  CHECK(blocks.probe({.prompt = {.tokens = too_many}}).status == BlockStatus::kNoPages);
  CHECK(blocks.fingerprint() == before);
  CHECK(blocks.counters().evicted_blocks == after_first);
}

TEST_CASE("tokens without pages may fill the storage, and that is said before it is tried",
          "[block_manager]") {
  // Pages for 16 tokens, and storage for as many and one longest prompt more.
  BlockManager blocks = make_manager({target_pool({full_group()}, 4, 4)},
                                     {.max_sequences = Sequences{64}, .max_length = Tokens{4'096}});
  const auto prompt = same(1, 4'096);
  std::vector<SequenceId> sequences;
  AdmitOutcome outcome;
  do {
    outcome = blocks.admit({.prompt = {.tokens = prompt}, .reserve = Tokens{0}});
    if (outcome.status == BlockStatus::kOk) {
      sequences.push_back(outcome.sequence);
    }
  } while (outcome.status == BlockStatus::kOk);
  CHECK(outcome.status == BlockStatus::kNoSlot);
  CHECK(sequences.size() < 64);
  CHECK(blocks.probe({.prompt = {.tokens = prompt}, .reserve = Tokens{0}}).status ==
        BlockStatus::kNoSlot);
  REQUIRE(blocks.release(sequences.back()) == BlockStatus::kOk);
  CHECK(blocks.admit({.prompt = {.tokens = prompt}, .reserve = Tokens{0}}).status ==
        BlockStatus::kOk);
}

TEST_CASE("what the host holds for tokens and tables is told", "[block_manager]") {
  const BlockManager blocks =
      make_manager({target_pool({full_group()}, 16, 100)},
                   {.max_sequences = Sequences{4}, .max_length = Tokens{64}, .max_tenants = 1});
  // Tokens of 100 pages, of a quarter more, of a longest prompt, and of 18 blocks to come for each
  // sequence: 201 blocks of 16. A row is a line of 16 entries. Beside these sequences have a few
  // lines each.
  const Bytes beside = blocks.host_bytes() - blocks.metadata_bytes();
  CHECK(beside >= Bytes{201 * 16 * 4 + 4 * 16 * 4});
  CHECK(beside <= Bytes{201 * 16 * 4 + 4 * 16 * 4 + 4 * 512});
}

TEST_CASE("slabs that settle as a whole are worth waiting for", "[block_manager]") {
  // A slab has two pages of the full group, or one of the encoder's.
  StepEngine engine{{target_pool({full_group(1), cross_group(2)}, 4, 8)}, {.prefix_cache = false}};
  const AdmitOutcome first = engine.admit(same(1, 4), {.encoder_tokens = Tokens{28}});
  engine.next();
  // 15 pages are eight slabs: of seven of them the encoder's pages have to settle first.
  const auto tokens = same(2, 60);
  CHECK(engine.blocks.admit({.prompt = {.tokens = tokens}}).status == BlockStatus::kNoPages);
  REQUIRE(engine.blocks.release(first.sequence) == BlockStatus::kOk);
  CHECK(engine.blocks.admit({.prompt = {.tokens = tokens}}).status == BlockStatus::kUnsettled);
  CHECK(engine.blocks.shortage().settles_at == Epoch{engine.step});
  engine.next();
  CHECK(engine.blocks.admit({.prompt = {.tokens = tokens}}).status == BlockStatus::kOk);
  engine.check();
}

TEST_CASE("blocks that forks share keep the drafter's pages, those of one alone go",
          "[block_manager]") {
  StepEngine engine{{target_pool({full_group()}, 4, 32), draft_pool({full_group()}, 4, 32)}};
  const AdmitRequest drafting{.prompt = {.draft = DraftMode::kRequired}};
  const SequenceId alone = engine.admit(same(1, 16), drafting).sequence;
  engine.prefill(alone);
  REQUIRE(engine.held(1) == 4);
  REQUIRE(engine.blocks.stop_drafting(alone) == BlockStatus::kOk);
  CHECK(engine.held(1) == 0);

  const SequenceId first = engine.admit(same(2, 18), drafting).sequence;
  engine.prefill(first);
  const SequenceId second = engine.blocks.fork(first).sequence;
  // Four blocks that both have, and two tokens of each.
  REQUIRE(engine.held(1) == 6);
  REQUIRE(engine.blocks.stop_drafting(first) == BlockStatus::kOk);
  REQUIRE(engine.blocks.stop_drafting(second) == BlockStatus::kOk);
  CHECK(engine.held(1) == 4);
  REQUIRE(engine.blocks.release(first) == BlockStatus::kOk);
  REQUIRE(engine.blocks.release(second) == BlockStatus::kOk);
  engine.next();
  CHECK(engine.held(1) == 0);
  CHECK(engine.hit(same(2, 18), {.draft = DraftMode::kRequired}) == 16);
  engine.check();
}

TEST_CASE("what is only looked at is not used", "[block_manager]") {
  StepEngine engine{{target_pool({full_group(1), window_group(8, 2)}, 4, 12)}};
  const std::uint64_t empty = engine.blocks.fingerprint();
  engine.leave(same(1, 9));
  engine.leave(same(2, 9));
  CHECK(engine.blocks.fingerprint() != empty);
  // The first is older and goes first, however often it was asked for.
  for (int i = 0; i < 3; ++i) {
    CHECK(engine.blocks.probe({.prompt = {.tokens = same(1, 20)}}).hit.tokens == Tokens{8});
  }
  for (std::int32_t seed = 3; engine.hit(same(1, 9)) == 8 && seed < 20; ++seed) {
    CHECK(engine.hit(same(2, 9)) == 8);
    engine.leave(same(seed, 9));
  }
  CHECK(engine.hit(same(1, 9)) == 0);
  CHECK(engine.hit(same(2, 9)) == 8);
}

}  // namespace
}  // namespace kvpool::test
