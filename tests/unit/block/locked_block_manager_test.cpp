// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/block/locked_block_manager.hpp>

#include "support/cache_pools.hpp"
#include "support/catch.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace kvpool {
namespace {

using test::cache_manager;
using test::cache_pool;
using test::tokens_from;

template <typename Call>
concept Callable = requires(LockedBlockManager& manager, Call call) { manager.with(call); };

// A reference would leave the lock.
constexpr auto kReturnsReference = [](BlockManager& manager) -> BlockManager& { return manager; };
constexpr auto kReturnsValue = [](BlockManager& manager) { return manager.live_sequences(); };
static_assert(!Callable<decltype(kReturnsReference)>);
static_assert(Callable<decltype(kReturnsValue)>);
static_assert(!std::is_copy_constructible_v<LockedBlockManager>);

LockedBlockManager locked_manager() {
  return LockedBlockManager{cache_manager(
      {cache_pool("target", PoolRole::kTarget,
                  {{}, {.kind = SpanKind::kSlidingWindow, .extent = Tokens{8}}}, 4, 120)},
      {.max_sequences = Sequences{16}, .max_length = Tokens{128}})};
}

TEST_CASE("calls return what the manager returns", "[block][locked_block_manager]") {
  LockedBlockManager manager = locked_manager();
  const std::vector<std::int32_t> prompt = tokens_from(1, 9);
  const AdmitOutcome outcome = manager.with(
      [&](BlockManager& inner) { return inner.admit({.prompt = {.tokens = prompt}}); });
  REQUIRE(outcome.status == BlockStatus::kOk);
  const LockedBlockManager& reader = manager;
  CHECK(reader.with([](const BlockManager& inner) { return inner.live_sequences(); }) ==
        Sequences{1});
  manager.with([&](BlockManager& inner) { inner.release(outcome.sequence); });
  const BlockManager inner = std::move(manager).take();
  CHECK(inner.live_sequences() == Sequences{0});
}

TEST_CASE("threads do not get in each other's way", "[block][locked_block_manager]") {
  LockedBlockManager manager = locked_manager();
  std::atomic<std::int64_t> admitted = 0;
  std::atomic<std::int64_t> wrong = 0;
  // One thread steps, four serve requests of their own and some in common.
  constexpr std::int64_t kServers = 4;
  constexpr std::int64_t kRequests = 200;
  std::vector<std::thread> threads;
  for (std::int64_t server = 0; server < kServers; ++server) {
    threads.emplace_back([&, server] {
      for (std::int64_t i = 0; i < kRequests; ++i) {
        const auto first = static_cast<std::int32_t>(i % 2 == 0 ? 0 : 1000 * server + 10 * i);
        const std::vector<std::int32_t> prompt = tokens_from(first, 10 + i % 13);
        // Too few pages now: the others end, and the device goes on.
        AdmitOutcome outcome;
        do {
          outcome = manager.with(
              [&](BlockManager& inner) { return inner.admit({.prompt = {.tokens = prompt}}); });
          std::this_thread::yield();
        } while (outcome.status == BlockStatus::kUnsettled ||
                 outcome.status == BlockStatus::kNoPages);
        wrong += outcome.status == BlockStatus::kOk ? 0 : 1;
        ++admitted;
        manager.with([&](BlockManager& inner) {
          const Tokens rest = Tokens{static_cast<std::int64_t>(prompt.size())} - outcome.hit.tokens;
          wrong += inner.commit_prompt(outcome.sequence, rest) == BlockStatus::kOk ? 0 : 1;
        });
        const std::int32_t token = 5;
        manager.with([&](BlockManager& inner) {
          if (inner.append(outcome.sequence, Tokens{1}) == BlockStatus::kOk) {
            wrong +=
                inner.commit(outcome.sequence, std::span{&token, 1}) == BlockStatus::kOk ? 0 : 1;
          }
          wrong += inner.release(outcome.sequence) == BlockStatus::kOk ? 0 : 1;
        });
      }
    });
  }
  std::atomic<bool> is_done = false;
  std::thread stepper{[&] {
    for (std::uint64_t epoch = 1; !is_done; ++epoch) {
      manager.with([&](BlockManager& inner) {
        inner.begin_step(Epoch{epoch}, Instant{static_cast<std::int64_t>(epoch)});
        inner.complete_until(Epoch{epoch - 1});
      });
      std::this_thread::yield();
    }
  }};
  for (std::thread& thread : threads) {
    thread.join();
  }
  is_done = true;
  stepper.join();

  CHECK(wrong == 0);
  CHECK(admitted == kServers * kRequests);
  const BlockManager inner = std::move(manager).take();
  CHECK(inner.live_sequences() == Sequences{0});
  CHECK(inner.counters().admitted == admitted);
  CHECK(inner.counters().released == admitted);
  CHECK(inner.check_invariants(CheckLevel::kEverything).empty());
}

}  // namespace
}  // namespace kvpool
