// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// What users of other cache managers complained of, one test each, named after the symptom.
#include <kvpool/block/block_manager.hpp>

#include "unit/block/step_engine.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace kvpool::test {
namespace {

constexpr std::int32_t kSecond = 1;  // group, in the order of the pools

BlockManagerOptions with_snapshots(std::int64_t interval, std::int64_t lookahead = 0) {
  BlockManagerOptions options;
  options.snapshot_interval = Tokens{interval};
  options.draft_lookahead = Tokens{lookahead};
  return options;
}

// vllm#45238, vllm#51250
TEST_CASE("complaint 6: one group's miss does not silently make every hybrid hit zero") {
  StepEngine kept{{target_pool({full_group()}, 4, 64), state_pool(16)}, with_snapshots(16)};
  kept.leave(prompt(1, 64));
  // The state is kept at 16, 32, 48 and 64; the last token of the prompt is always computed.
  CHECK(kept.hit(prompt(1, 64)) == 48);
  CHECK(kept.hit(prompt(1, 65)) == 64);
  CHECK(kept.hit(prompt(1, 40)) == 32);

  // Without snapshots nothing can be reused; the hit says how much was there all the same.
  StepEngine bare{{target_pool({full_group()}, 4, 64), state_pool(16)}};
  bare.leave(prompt(1, 64));
  const auto tokens = prompt(1, 65);
  const PrefixHit hit = bare.blocks.match_prefix({.tokens = tokens});
  CHECK(hit.tokens == Tokens{0});
  CHECK(hit.matched == Tokens{64});
}

// vllm#53912, vllm#43559, vllm PR#47861, vllm PR#53945
TEST_CASE("complaint 7: a drafter's look-ahead never ends a hit between two snapshots of state") {
  StepEngine engine{
      {target_pool({full_group()}, 4, 64), draft_pool({full_group()}, 4, 64), state_pool(16)},
      with_snapshots(16, 1)};
  engine.leave(prompt(1, 48));
  const auto tokens = prompt(1, 60);
  // 48 tokens are there; less one, in whole blocks, would be 44, where no state was kept.
  CHECK(engine.hit(tokens, {.draft = DraftMode::kRequired}) == 32);
  CHECK(engine.hit(tokens, {.draft = DraftMode::kOff}) == 48);

  const SequenceId sequence =
      engine.admit(tokens, {.prompt = {.draft = DraftMode::kRequired}}).sequence;
  const GroupId state{2};
  CHECK(engine.blocks.computed(sequence, state) == Tokens{32});
  // Rejected tokens do not rewind the state below what is committed.
  engine.prefill(sequence);
  REQUIRE(engine.blocks.append(sequence, Tokens{8}) == BlockStatus::kOk);
  REQUIRE(engine.blocks.commit(sequence, std::vector{7, 7}) == BlockStatus::kOk);
  REQUIRE(engine.blocks.truncate(sequence, Tokens{6}) == BlockStatus::kOk);
  CHECK(engine.blocks.computed(sequence, state) >= Tokens{48});
  CHECK(engine.blocks.computed(sequence, state) <= Tokens{62});
}

// vllm#43090, vllm PR#47491
TEST_CASE("complaint 8: a state without a hit is not taken for one with an initial state") {
  StepEngine engine{{target_pool({full_group()}, 4, 64), state_pool(16)}, with_snapshots(16)};
  const GroupId full{0};
  const GroupId state{1};
  const SequenceId miss = engine.admit(prompt(1, 40)).sequence;
  CHECK(engine.blocks.computed(miss, state) == Tokens{0});
  CHECK(engine.blocks.copies().empty());
  engine.prefill(miss);
  REQUIRE(engine.blocks.release(miss) == BlockStatus::kOk);
  engine.blocks.clear_copies();
  engine.next();

  const AdmitOutcome hit = engine.admit(prompt(1, 50));
  CHECK(hit.hit.tokens == Tokens{32});
  CHECK(engine.blocks.computed(hit.sequence, full) == Tokens{32});
  CHECK(engine.blocks.computed(hit.sequence, state) == Tokens{32});
  REQUIRE(engine.blocks.copies().size() == 1);
  const PageCopy copy = engine.blocks.copies().front();
  CHECK(copy.reason == CopyReason::kRestoreSnapshot);
  CHECK(copy.order == CopyOrder::kBeforeStep);
  CHECK(copy.group == state);
  CHECK(copy.destination.value() == engine.pages(hit.sequence, 1).front());

  // Each group counts for itself: a drafter that lags does not hold the target back.
  StepEngine drafting{{target_pool({full_group()}, 4, 64), draft_pool({full_group()}, 4, 64)}};
  const SequenceId lags =
      drafting.admit(prompt(1, 20), {.prompt = {.draft = DraftMode::kRequired}}).sequence;
  drafting.prefill(lags);
  REQUIRE(drafting.blocks.set_computed(lags, GroupId{1}, Tokens{12}) == BlockStatus::kOk);
  drafting.next();
  CHECK(drafting.blocks.computed(lags, GroupId{0}) == Tokens{20});
  CHECK(drafting.blocks.computed(lags, GroupId{1}) == Tokens{12});
  CHECK(drafting.blocks.set_computed(lags, GroupId{1}, Tokens{21}) == BlockStatus::kInvalid);
}

// vllm#47282, vllm PR#47728, vllm-ascend#13501
TEST_CASE("complaint 9: pages of a window do not go while a step in flight reads them") {
  StepEngine engine{{target_pool({full_group(), window_group(8)}, 4, 64)}};
  const SequenceId sequence = engine.admit(prompt(1, 8), {.reserve = Tokens{64}}).sequence;
  engine.prefill(sequence);
  const auto first_held = [&] {
    return engine.blocks.view(sequence, GroupId{kSecond}).held.first.value();
  };
  // Two steps are in flight: the prompt's, and one of 16 tokens.
  engine.begin();
  REQUIRE(engine.blocks.commit(sequence, prompt(2, 16)) == BlockStatus::kOk);
  CHECK(engine.blocks.lengths(sequence).committed == Tokens{24});
  CHECK(engine.blocks.lengths(sequence).computed == Tokens{0});
  CHECK(first_held() == 0);
  // The prompt's is done: the next reader stands at position 8 and sees 1..8.
  REQUIRE(engine.blocks.complete_until(Epoch{1}) == BlockStatus::kOk);
  engine.begin();
  REQUIRE(engine.blocks.commit(sequence, prompt(3, 8)) == BlockStatus::kOk);
  CHECK(engine.blocks.lengths(sequence).computed == Tokens{8});
  CHECK(first_held() == 0);
  REQUIRE(engine.blocks.complete_until(Epoch{2}) == BlockStatus::kOk);
  engine.begin();
  // A window moves at the latest when a block is complete.
  REQUIRE(engine.blocks.commit(sequence, prompt(4, 4)) == BlockStatus::kOk);
  // 24 tokens are settled: position 24 sees 17..24, so blocks 0..3 are behind.
  CHECK(first_held() == 4);
  engine.check();
}

// vllm PR#45357, vllm-ascend#14055
TEST_CASE("complaint 10: pages of a finished sequence are not reused in the step that reads them") {
  StepEngine engine{{target_pool({full_group()}, 4, 8)}};
  const SequenceId first = engine.admit(prompt(1, 32)).sequence;
  engine.prefill(first);
  REQUIRE(engine.blocks.release(first) == BlockStatus::kOk);
  const auto tokens = prompt(2, 32);
  CHECK(engine.blocks.admit({.prompt = {.tokens = tokens}}).status == BlockStatus::kUnsettled);
  CHECK(engine.blocks.shortage().settles_at == Epoch{1});
  engine.begin();
  CHECK(engine.blocks.admit({.prompt = {.tokens = tokens}}).status == BlockStatus::kUnsettled);
  REQUIRE(engine.blocks.complete_until(Epoch{1}) == BlockStatus::kOk);
  CHECK(engine.blocks.admit({.prompt = {.tokens = tokens}}).status == BlockStatus::kOk);
}

// vllm-ascend#16315, vllm PR#49675
TEST_CASE("complaint 11: preemption says when its pages are free instead of looping") {
  StepEngine engine{{target_pool({full_group()}, 4, 8)}};
  const SequenceId victim = engine.admit(prompt(1, 32)).sequence;
  engine.prefill(victim);
  engine.begin();
  const PreemptReceipt receipt = must(engine.blocks.preempt(victim));
  REQUIRE(receipt.pages.size() == 1);
  CHECK(receipt.pages.front() == PoolPages{PoolId{0}, Pages{8}});
  CHECK(receipt.free_at == Epoch{2});
  const auto tokens = prompt(2, 20);
  CHECK(engine.blocks.admit({.prompt = {.tokens = tokens}}).status == BlockStatus::kUnsettled);
  const Shortage shortage = engine.blocks.shortage();
  CHECK(shortage.settles_at == receipt.free_at);
  REQUIRE(shortage.groups.size() == 1);
  CHECK(shortage.groups.front() == GroupShortage{GroupId{0}, Pages{5}, Pages{0}, Pages{8}});
  REQUIRE(engine.blocks.complete_until(*receipt.free_at) == BlockStatus::kOk);
  CHECK(engine.blocks.admit({.prompt = {.tokens = tokens}}).status == BlockStatus::kOk);
}

// vllm#48489
TEST_CASE("complaint 12: fences do not change the order of eviction") {
  for (const bool deferred : {false, true}) {
    StepEngine engine{{target_pool({full_group()}, 4, 12)}};
    std::vector<SequenceId> sequences;
    for (std::int32_t seed = 1; seed <= 3; ++seed) {
      sequences.push_back(engine.admit(prompt(seed, 16)).sequence);
      engine.prefill(sequences.back());
    }
    for (const std::size_t i : {1U, 0U, 2U}) {
      REQUIRE(engine.blocks.release(sequences[i]) == BlockStatus::kOk);
      deferred ? engine.begin() : engine.next();
    }
    engine.next();
    // Six pages: all of the second prompt, then the tail of the first.
    engine.admit(prompt(4, 24));
    INFO(deferred);
    CHECK(engine.hit(prompt(1, 17)) == 8);
    CHECK(engine.hit(prompt(2, 17)) == 0);
    CHECK(engine.hit(prompt(3, 17)) == 16);
  }
}

// vllm#47802, vllm PR#17520, vllm#23083, vllm PR#27097
TEST_CASE("complaint 24: priorities, lifetimes and pins decide what is evicted") {
  const std::vector<RetentionRange> high{
      {.first = Tokens{0}, .last = Tokens{16}, .retention = {.priority = 80}}};
  const std::vector<RetentionRange> brief{
      {.first = Tokens{0},
       .last = Tokens{16},
       .retention = {.priority = 100, .time_to_live = Ticks{10}}}};
  const std::vector<RetentionRange> low{
      {.first = Tokens{0}, .last = Tokens{16}, .retention = {.priority = 1}}};
  const auto room_for_four = [&](StepEngine& engine) {
    engine.leave(prompt(1, 16), {.retention = {.prompt = high}});
    engine.leave(prompt(2, 16), {.retention = {.prompt = brief}});
    engine.leave(prompt(3, 16));
    engine.leave(prompt(4, 16), {.retention = {.prompt = low}});
  };
  const auto left = [&](const StepEngine& engine) {
    std::vector<std::int64_t> tokens;
    for (std::int32_t seed = 1; seed <= 4; ++seed) {
      tokens.push_back(engine.hit(prompt(seed, 17)));
    }
    return tokens;
  };
  SECTION("the lowest priority goes first, although it was used last") {
    StepEngine engine{{target_pool({full_group()}, 4, 16)}};
    room_for_four(engine);
    engine.admit(prompt(5, 16));
    CHECK(left(engine) == std::vector<std::int64_t>{16, 16, 16, 0});
    engine.admit(prompt(6, 16));
    CHECK(left(engine) == std::vector<std::int64_t>{16, 16, 0, 0});
    engine.admit(prompt(7, 16));
    CHECK(left(engine) == std::vector<std::int64_t>{0, 16, 0, 0});
  }
  SECTION("when its time is over a block is like any other") {
    StepEngine engine{{target_pool({full_group()}, 4, 16)}};
    room_for_four(engine);
    engine.now = 11;
    engine.next();
    engine.admit(prompt(5, 32));  // the low one, and then a default one
    const std::vector<std::int64_t> tokens = left(engine);
    CHECK(tokens[0] == 16);
    CHECK(tokens[3] == 0);
    CHECK(tokens[1] + tokens[2] == 16);
    engine.admit(prompt(6, 16));
    CHECK(left(engine) == std::vector<std::int64_t>{16, 0, 0, 0});
  }
  SECTION("a pin keeps a block until it is taken away") {
    StepEngine engine{{target_pool({full_group()}, 4, 16)}};
    room_for_four(engine);
    const auto tokens = prompt(4, 17);
    const PinOutcome pin = engine.blocks.pin({.tokens = tokens});
    REQUIRE(pin.status == BlockStatus::kOk);
    CHECK(pin.tokens == Tokens{16});
    engine.admit(prompt(5, 48));
    CHECK(left(engine) == std::vector<std::int64_t>{0, 0, 0, 16});
    const auto more = prompt(6, 16);
    CHECK(engine.blocks.admit({.prompt = {.tokens = more}}).status == BlockStatus::kNoPages);
    REQUIRE(engine.blocks.unpin(pin.pin) == BlockStatus::kOk);
    engine.next();
    CHECK(engine.blocks.admit({.prompt = {.tokens = more}}).status == BlockStatus::kOk);
  }
}

// vllm#16016, vllm PR#37961, vllm PR#52655, vllm PR#53347
TEST_CASE("complaint 25: a salt per user does not disable sharing of the system prompt") {
  StepEngine engine{{target_pool({full_group()}, 4, 64)}};
  const TenantId tenant = must(engine.blocks.intern_tenant("someone"));
  const NamespaceId alice =
      must(engine.blocks.intern_namespace({.tenant = tenant, .salt = "alice"}));
  const NamespaceId bob = must(engine.blocks.intern_namespace({.tenant = tenant, .salt = "bob"}));
  const auto system_and_question = prompt(1, 16) + prompt(2, 16);
  engine.leave(system_and_question, {.prompt = {.name_space = alice, .public_tokens = Tokens{16}}});

  const auto longer = system_and_question + prompt(3, 1);
  CHECK(engine.hit(longer, {.name_space = alice, .public_tokens = Tokens{16}}) == 32);
  // Bob gets the system prompt, and not what Alice asked.
  CHECK(engine.hit(longer, {.name_space = bob, .public_tokens = Tokens{16}}) == 16);
  CHECK(engine.hit(longer, {.name_space = bob}) == 0);
  // Who says that more is public does not see more: Alice's question is not in the public region.
  CHECK(engine.hit(longer, {.name_space = bob, .public_tokens = Tokens{32}}) == 16);
  CHECK(engine.hit(longer, {.public_tokens = Tokens{32}}) == 16);
  // What is public is charged to nobody; the question to the tenant.
  CHECK(engine.blocks.usage(tenant, PoolId{0}).cached == Pages{4});
  CHECK(engine.blocks.usage(kPublicTenant, PoolId{0}).cached == Pages{4});
}

// vllm PR#29163, GHSA-rm76-4mrf-v9r8
TEST_CASE("complaint 26: only equal tokens of one namespace are a hit whatever their hash") {
  StepEngine engine{
      {target_pool({full_group()}, 2, 20'000)},
      {.max_length = Tokens{64}, .partial_page_reuse = false, .max_cached_runs = 10'000}};
  const NamespaceId mine = must(engine.blocks.intern_namespace({.salt = "mine"}));
  const NamespaceId yours = must(engine.blocks.intern_namespace({.salt = "yours"}));
  const auto pair = [](std::int32_t i) { return std::vector{i % 97, i / 97, 0}; };
  for (std::int32_t i = 0; i < 8'000; ++i) {
    engine.leave(pair(i), {.prompt = {.name_space = mine}});
  }
  std::int64_t wrong = 0;
  for (std::int32_t i = 0; i < 8'000; ++i) {
    wrong += engine.hit(pair(i), {.name_space = mine}) == 2 ? 0 : 1;
    wrong += engine.hit(pair(i), {.name_space = yours}) == 0 ? 0 : 1;
    wrong += engine.hit(pair(i)) == 0 ? 0 : 1;
    wrong += engine.hit(pair(i + 8'000), {.name_space = mine}) == 0 ? 0 : 1;
  }
  CHECK(wrong == 0);
  // Keys are compared as a whole: moving a letter from salt to adapter is another namespace.
  const NamespaceId a = must(engine.blocks.intern_namespace({.salt = "ab", .adapter = "c"}));
  const NamespaceId b = must(engine.blocks.intern_namespace({.salt = "a", .adapter = "bc"}));
  CHECK(a != b);
}

// sglang#7130, sglang#6888, sglang#11970, sglang#20010, sglang PR#31616
TEST_CASE("complaint 31: speculation over pages leaks nothing and pages have a name") {
  StepEngine engine{{target_pool({full_group()}, 16, 32), draft_pool({full_group()}, 4, 128)}};
  std::vector<SequenceId> sequences;
  for (std::int32_t seed = 1; seed <= 4; ++seed) {
    sequences.push_back(
        engine.admit(prompt(seed, 5 + seed), {.prompt = {.draft = DraftMode::kRequired}}).sequence);
    engine.prefill(sequences.back());
  }
  for (std::int32_t step = 0; step < 40; ++step) {
    engine.next();
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const std::int64_t accepted = 1 + (step + static_cast<std::int32_t>(i)) % 3;
      REQUIRE(engine.blocks.append(sequences[i], Tokens{8}) == BlockStatus::kOk);
      REQUIRE(engine.blocks.commit(sequences[i], prompt(step, accepted)) == BlockStatus::kOk);
      REQUIRE(engine.blocks.truncate(sequences[i], Tokens{8 - accepted}) == BlockStatus::kOk);
      const std::int64_t length = engine.blocks.lengths(sequences[i]).committed.count();
      CHECK(engine.blocks.lengths(sequences[i]).reserved.count() == length);
      CHECK(static_cast<std::int64_t>(engine.pages(sequences[i], 0).size()) == (length + 15) / 16);
      CHECK(static_cast<std::int64_t>(engine.pages(sequences[i], 1).size()) == (length + 3) / 4);
    }
  }
  const PageId page{engine.pages(sequences[2], 1).back()};
  const std::string owner = engine.blocks.describe(GroupId{1}, page);
  INFO(owner);
  CHECK(owner.find("draft") != std::string::npos);
  CHECK(owner.find(std::to_string(sequences[2].index)) != std::string::npos);
  for (const SequenceId sequence : sequences) {
    REQUIRE(engine.blocks.release(sequence) == BlockStatus::kOk);
  }
  engine.next();
  engine.check();
  CHECK(engine.available(0) == 32);
  CHECK(engine.available(1) == 128);
  engine.blocks.flush_cache();
  CHECK(engine.blocks.page_pool(PoolId{0}).live_pages(0) == Pages{0});
  CHECK(engine.blocks.page_pool(PoolId{1}).live_pages(0) == Pages{0});
}

// sglang#13741, sglang PR#13826, sglang-jax PR#1098
TEST_CASE("complaint 32: speculative decode fits to the last page of its length") {
  // 128 tokens in 32 pages: what is rejected must be there again for the next step.
  StepEngine engine{{target_pool({full_group()}, 4, 32)}};
  const SequenceId sequence = engine.admit(prompt(1, 8)).sequence;
  engine.prefill(sequence);
  while (engine.blocks.lengths(sequence).committed < Tokens{120}) {
    REQUIRE(engine.blocks.append(sequence, Tokens{8}) == BlockStatus::kOk);
    REQUIRE(engine.blocks.commit(sequence, std::vector{5}) == BlockStatus::kOk);
    REQUIRE(engine.blocks.truncate(sequence, Tokens{7}) == BlockStatus::kOk);
    engine.next();
  }
  REQUIRE(engine.blocks.append(sequence, Tokens{8}) == BlockStatus::kOk);
  CHECK(engine.held(0) == 32);
  CHECK(engine.blocks.append(sequence, Tokens{1}) == BlockStatus::kNoPages);
  CHECK(engine.blocks.lengths(sequence).reserved == Tokens{128});
}

// sglang#32459, sglang PR#32574, sglang PR#20872
TEST_CASE("complaint 33: look-ahead does not evict prefixes that it does not need") {
  StepEngine engine{{target_pool({full_group()}, 4, 24)}};
  engine.leave(prompt(1, 64));                                       // 16 pages
  const SequenceId sequence = engine.admit(prompt(2, 16)).sequence;  // 4 pages
  engine.prefill(sequence);
  // 16 + 16 tokens are the remaining four pages, look-ahead of eight included.
  for (int i = 0; i < 8; ++i) {
    REQUIRE(engine.blocks.append(sequence, Tokens{8}) == BlockStatus::kOk);
    REQUIRE(engine.blocks.commit(sequence, std::vector{9}) == BlockStatus::kOk);
    REQUIRE(engine.blocks.truncate(sequence, Tokens{7}) == BlockStatus::kOk);
    engine.next();
  }
  CHECK(engine.blocks.counters().evicted_blocks == 0);
  CHECK(engine.hit(prompt(1, 65)) == 64);
}

// sglang PR#16067, sglang#15840
TEST_CASE("complaint 34: an admission that fails keeps no slot of state") {
  StepEngine engine{{target_pool({full_group()}, 4, 8), state_pool(4)}, with_snapshots(4)};
  const auto too_long = prompt(1, 36);
  for (int i = 0; i < 100; ++i) {
    CHECK(engine.blocks.admit({.prompt = {.tokens = too_long}}).status == BlockStatus::kNoPages);
  }
  CHECK(engine.available(0) == 8);
  CHECK(engine.available(1) == 4);
  CHECK(engine.blocks.live_sequences() == Sequences{0});
  engine.check();
}

// sglang PR#38454, sglang-omni#1723
TEST_CASE("complaint 35: eviction from a full pool does not slow down with its leaves") {
  const auto time_per_admission = [](std::int64_t leaves) {
    StepEngine engine{
        {target_pool({full_group()}, 16, leaves)},
        {.max_length = Tokens{256}, .partial_page_reuse = false, .max_cached_runs = 2 * leaves}};
    std::int32_t next = 0;
    const auto admit_one = [&] {
      std::vector<std::int32_t> tokens(16, 1);
      tokens[0] = next / 1'000;
      tokens[1] = next++ % 1'000;
      engine.leave(tokens);
    };
    for (std::int64_t i = 0; i < leaves; ++i) {
      admit_one();
    }
    CHECK(engine.available(0) == leaves);
    auto best = std::chrono::nanoseconds::max();
    for (int round = 0; round < 5; ++round) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < 500; ++i) {
        admit_one();
      }
      best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - start);
    }
    CHECK(engine.blocks.counters().evicted_blocks == 2'500);
    return best / 500;
  };
  const auto few = time_per_admission(256);
  const auto many = time_per_admission(65'536);
  INFO(few.count() << " ns and " << many.count() << " ns");
  // 256 times as many leaves; caches of the machine may cost something, the number may not.
  CHECK(many < few * 12);
}

// LMCache#1139, LMCache#2136, LMCache#2511, LMCache#2979, vllm#42625
TEST_CASE("complaint 36: no seed of a process decides what hits or which page is used") {
  const auto run = [] {
    StepEngine engine{{target_pool({full_group()}, 4, 16), draft_pool({full_group()}, 2, 40)}};
    std::vector<std::int64_t> seen;
    for (std::int32_t i = 0; i < 40; ++i) {
      const AdmitOutcome outcome = engine.admit(prompt(i % 5, 12 + i % 7));
      engine.prefill(outcome.sequence);
      seen.push_back(outcome.hit.tokens.count());
      for (const std::int32_t entry : engine.pages(outcome.sequence, 0)) {
        seen.push_back(entry);
      }
      REQUIRE(engine.blocks.release(outcome.sequence) == BlockStatus::kOk);
      engine.blocks.clear_copies();
      engine.next();
    }
    seen.push_back(static_cast<std::int64_t>(engine.blocks.fingerprint()));
    return seen;
  };
  CHECK(run() == run());
}

// TensorRT-LLM PR#12878, TensorRT-LLM PR#12665
TEST_CASE("complaint 43: a promised hit is not evicted by the admission that uses it") {
  StepEngine engine{{target_pool({full_group()}, 4, 12)}};
  engine.leave(prompt(1, 16));
  engine.leave(prompt(2, 32));
  // The oldest block is the hit itself; making room takes the other prompt's.
  const auto tokens = prompt(1, 16) + prompt(3, 32);
  const AdmitOutcome probe = engine.blocks.probe({.prompt = {.tokens = tokens}});
  CHECK(probe.status == BlockStatus::kOk);
  CHECK(probe.hit.tokens == Tokens{16});
  const AdmitOutcome outcome = engine.admit(tokens);
  CHECK(outcome.hit == probe.hit);
  CHECK(engine.held(0) == 12);
  std::vector<std::int32_t> pages = engine.pages(outcome.sequence, 0);
  std::ranges::sort(pages);
  CHECK(std::ranges::adjacent_find(pages) == pages.end());
  CHECK(engine.hit(prompt(2, 33)) == 0);
  engine.check();
}

// TensorRT-LLM#19242
TEST_CASE("complaint 44: forks of forks give every page back in whatever order they end") {
  for (int order = 0; order < 24; ++order) {
    StepEngine engine{{target_pool({full_group()}, 4, 64), draft_pool({full_group()}, 2, 128)}};
    std::vector<SequenceId> family{
        engine.admit(prompt(1, 10), {.prompt = {.draft = DraftMode::kRequired}}).sequence};
    engine.prefill(family.front());
    for (std::int32_t i = 0; i < 3; ++i) {
      const ForkOutcome child = engine.blocks.fork(family.back());
      REQUIRE(child.status == BlockStatus::kOk);
      family.push_back(child.sequence);
      for (const SequenceId sequence : family) {
        REQUIRE(engine.blocks.append(sequence, Tokens{3}) == BlockStatus::kOk);
        REQUIRE(engine.blocks.commit(
                    sequence, std::vector{i, 1, static_cast<std::int32_t>(sequence.index) % 2}) ==
                BlockStatus::kOk);
      }
      engine.blocks.clear_copies();
      engine.next();
    }
    std::vector<std::size_t> places{0, 1, 2, 3};
    for (int i = 0; i < order; ++i) {
      std::ranges::next_permutation(places);
    }
    for (const std::size_t place : places) {
      REQUIRE(engine.blocks.release(family[place]) == BlockStatus::kOk);
      engine.check();
    }
    engine.next();
    CHECK(engine.held(0) == 0);
    CHECK(engine.available(0) == 64);
    CHECK(engine.available(1) == 128);
    engine.blocks.flush_cache();
    CHECK(engine.blocks.page_pool(PoolId{0}).live_pages(0) == Pages{0});
    CHECK(engine.blocks.page_pool(PoolId{1}).live_pages(0) == Pages{0});
  }
}

// kvcached#364, kvcached#371, kvcached PR#453
TEST_CASE("complaint 46: a pool that runs out is an answer and leaves no page behind in another") {
  StepEngine engine{{target_pool({full_group()}, 4, 16), draft_pool({full_group()}, 4, 6)}};
  const auto tokens = prompt(1, 32);
  CHECK(engine.blocks.admit({.prompt = {.tokens = tokens, .draft = DraftMode::kRequired}}).status ==
        BlockStatus::kNoPages);
  REQUIRE(engine.blocks.shortage().groups.size() == 1);
  CHECK(engine.blocks.shortage().groups.front() ==
        GroupShortage{GroupId{1}, Pages{8}, Pages{6}, Pages{0}});
  CHECK(engine.available(0) == 16);
  CHECK(engine.available(1) == 6);

  const SequenceId sequence =
      engine.admit(prompt(2, 20), {.prompt = {.draft = DraftMode::kRequired}}).sequence;
  CHECK(engine.blocks.append(sequence, Tokens{12}) == BlockStatus::kNoPages);
  CHECK(engine.blocks.lengths(sequence).reserved == Tokens{20});
  CHECK(engine.available(0) == 11);
  CHECK(engine.available(1) == 1);
  CHECK(engine.blocks.append(sequence, Tokens{4}) == BlockStatus::kOk);
  engine.check();
}

// vllm PR#11565
TEST_CASE("complaint 51: pages of the hit that nobody holds are not counted as free as well") {
  StepEngine engine{{target_pool({full_group()}, 4, 8)}};
  engine.leave(prompt(1, 16));
  CHECK(engine.available(0) == 8);
  // Eight pages look free, but four of them are the hit: five more are not there.
  const auto too_long = prompt(1, 16) + prompt(2, 20);
  const std::uint64_t before = engine.blocks.fingerprint();
  const AdmitOutcome refused = engine.blocks.admit({.prompt = {.tokens = too_long}});
  CHECK(refused.status == BlockStatus::kNoPages);
  CHECK(engine.blocks.fingerprint() == before);
  CHECK(engine.hit(too_long) == 16);
  const AdmitOutcome outcome = engine.admit(prompt(1, 16) + prompt(2, 16));
  CHECK(outcome.hit.tokens == Tokens{16});
  CHECK(engine.available(0) == 0);
}

}  // namespace
}  // namespace kvpool::test
