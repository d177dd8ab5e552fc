// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/block/block_manager.hpp>

#include "manager_pools.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace kvpool {
namespace {

struct Scene {
  std::string name;
  std::vector<PoolDescriptor> pools;
  BlockManagerOptions options;
};

std::vector<Scene> scenes() {
  const BlockManagerOptions small{
      .max_sequences = Sequences{8}, .max_length = Tokens{200}, .max_pins = 3, .max_tenants = 4};
  BlockManagerOptions draft = small;
  draft.draft_max_length = Tokens{150};
  draft.draft_lookahead = Tokens{1};
  BlockManagerOptions state = small;
  state.snapshot_interval = Tokens{16};
  BlockManagerOptions few_runs = small;
  few_runs.max_cached_runs = 1;
  const auto target = [](std::int64_t page, std::int64_t slabs) {
    return hand_made_pool("target", PoolRole::kTarget, page, slabs, {{}});
  };
  return {
      {"one full group", {target(4, 60)}, small},
      {"no reserved page", {hand_made_pool("target", PoolRole::kTarget, 4, 60, {{}}, 0, 0)}, small},
      {"few runs", {target(4, 200)}, few_runs},
      {"target and draft of other page sizes",
       {target(4, 70), hand_made_pool("draft", PoolRole::kDraft, 8, 30, {{}})},
       draft},
      {"full and windows in a shared pool",
       {hand_made_pool("target", PoolRole::kTarget, 4, 40,
                       {{.page_bytes = 2048},
                        {.kind = SpanKind::kSlidingWindow, .extent = 10, .page_bytes = 1024},
                        {.kind = SpanKind::kChunked, .extent = 12, .page_bytes = 512}},
                       4096)},
       small},
      {"windows of their own",
       {hand_made_pool("target/full", PoolRole::kTarget, 4, 60, {{}}),
        hand_made_pool("target/window", PoolRole::kTarget, 2, 60,
                       {{.kind = SpanKind::kSlidingWindow, .extent = 9}}),
        hand_made_pool("draft", PoolRole::kDraft, 4, 40,
                       {{.kind = SpanKind::kSlidingWindow, .extent = 8}})},
       draft},
      {"states",
       {target(4, 60), hand_made_pool("state", PoolRole::kState, 0, 20, {{.is_state = true}}),
        hand_made_pool("draft", PoolRole::kDraft, 4, 60, {{}}),
        hand_made_pool("draft_state", PoolRole::kState, 0, 20, {{.is_state = true}})},
       state},
      {"only states",
       {hand_made_pool("state", PoolRole::kState, 0, 20, {{.is_state = true}})},
       state},
      {"encoder",
       {hand_made_pool("target", PoolRole::kTarget, 4, 60,
                       {{.page_bytes = 1024}, {.kind = SpanKind::kCross, .page_bytes = 1024}},
                       2048)},
       small},
  };
}

/// Random calls against one manager; every answer is only checked for what must always hold.
class Stress {
 public:
  Stress(const Scene& scene, std::uint32_t seed)
      : random_{seed}, manager_{*BlockManager::create(scene.pools, with_gate(scene.options))} {
    for (const char* name : {"a", "b"}) {
      const TenantId tenant = *manager_.intern_tenant(name);
      spaces_.push_back(*manager_.intern_namespace({.tenant = tenant, .salt = name}));
      for (std::size_t p = 0; p < scene.pools.size(); ++p) {
        REQUIRE(manager_.set_quota(tenant, PoolId{static_cast<std::int32_t>(p)},
                                   Pages{name[0] == 'a' ? 25 : 1000}) == BlockStatus::kOk);
      }
    }
    spaces_.push_back(NamespaceId{0});
    for (const CacheGroup& group : manager_.groups()) {
      has_windows_ = has_windows_ || group.extent != Tokens{0};
    }
    static_cast<void>(manager_.intern_item("image"));
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      const int kind = pick(100);
      CAPTURE(i, kind);
      step(kind);
      if (manager_.copies().size() > 100 || pick(4) == 0) {
        manager_.clear_copies();
      }
      const auto findings = manager_.check_invariants(CheckLevel::kEverything);
      for (const Finding& finding : findings) {
        UNSCOPED_INFO(finding.message);
      }
      REQUIRE(findings.empty());
    }
    for (const SequenceId sequence : live_) {
      REQUIRE(manager_.release(sequence) == BlockStatus::kOk);
    }
    for (const PinId pin : pins_) {
      REQUIRE(manager_.unpin(pin) == BlockStatus::kOk);
    }
    REQUIRE(manager_.complete_until(manager_.opened()) == BlockStatus::kOk);
    manager_.flush_cache();
    REQUIRE(manager_.check_invariants(CheckLevel::kEverything).empty());
    for (std::size_t g = 0; g < manager_.groups().size(); ++g) {
      const CacheGroup& group = manager_.groups()[g];
      REQUIRE(manager_.page_pool(group.pool).live_pages(group.group_in_pool) == Pages{0});
    }
  }

  [[nodiscard]] const BlockManagerCounters& counters() const { return manager_.counters(); }

 private:
  /// One page in a hundred is refused.
  BlockManagerOptions with_gate(BlockManagerOptions options) {
    options.gate = {
        .admits = [](void* self, PoolId,
                     std::int32_t) { return static_cast<Stress*>(self)->gate_() % 100 != 0; },
        .context = this};
    return options;
  }

  int pick(int below) { return static_cast<int>(random_() % static_cast<std::uint32_t>(below)); }

  Pages held_pages() const {
    Pages held;
    for (std::size_t g = 0; g < manager_.groups().size(); ++g) {
      held += manager_.held_pages(GroupId{static_cast<std::int32_t>(g)});
    }
    return held;
  }

  std::vector<std::int32_t> prompt() {
    // Few different tokens, so that prefixes meet.
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(1 + pick(70)));
    const int kind = pick(4);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = kind == 0 ? pick(2) : kind - 2;
    }
    if (pick(3) == 0) {
      tokens.back() = 7;
    }
    return tokens;
  }

  void step(int kind) {
    const auto epoch = static_cast<std::uint64_t>(++step_);
    if (kind < 20) {
      admit();
    } else if (kind < 30) {
      static_cast<void>(
          manager_.begin_step(Epoch{epoch}, Instant{static_cast<std::int64_t>(epoch)}));
    } else if (kind < 40) {
      const std::uint64_t lag = static_cast<std::uint64_t>(pick(3));
      if (manager_.opened().value() > lag) {
        static_cast<void>(manager_.complete_until(Epoch{manager_.opened().value() - lag}));
      }
    } else if (kind == 40) {
      manager_.flush_cache();
    } else if (kind == 41) {
      const auto pinned = manager_.pin({.tokens = prompt(), .name_space = spaces_[2]});
      if (pinned.status == BlockStatus::kOk) {
        pins_.push_back(pinned.pin);
      }
    } else if (kind == 42 && !pins_.empty()) {
      REQUIRE(manager_.unpin(pins_.back()) == BlockStatus::kOk);
      pins_.pop_back();
    } else if (kind == 43) {
      static_cast<void>(manager_.evict(GroupId{0}, Pages{pick(5)}));
    } else if (!live_.empty()) {
      on_sequence(kind, static_cast<std::size_t>(pick(static_cast<int>(live_.size()))));
    }
  }

  void admit() {
    const std::vector<std::int32_t> tokens = prompt();
    const std::vector<RetentionRange> ranges = {
        {.first = Tokens{3},
         .last = Tokens{20},
         .retention = {.priority = pick(101), .time_to_live = Ticks{pick(30)}}}};
    AdmitRequest request{.prompt = {.tokens = tokens,
                                    .name_space = spaces_[static_cast<std::size_t>(pick(3))],
                                    .public_tokens = Tokens{pick(3) == 0 ? pick(30) : 0},
                                    .draft = static_cast<DraftMode>(pick(3))},
                         .use_cache = pick(10) != 0};
    if (pick(2) == 0) {
      request.reserve = Tokens{pick(static_cast<int>(tokens.size()) + 10)};
    }
    if (pick(3) == 0) {
      request.retention.prompt = ranges;
    }
    if (pick(4) == 0) {
      request.must_fit = Tokens{pick(150)};
    }
    if (pick(4) == 0) {
      request.encoder_tokens = Tokens{pick(20)};
    }
    const auto before = manager_.fingerprint();
    const AdmitOutcome probed = manager_.probe(request);
    REQUIRE(manager_.fingerprint() == before);
    const AdmitOutcome outcome = manager_.admit(request);
    if (outcome.status == BlockStatus::kOk) {
      REQUIRE(probed.status == BlockStatus::kOk);
      REQUIRE(manager_.is_live(outcome.sequence));
      live_.push_back(outcome.sequence);
      std::vector<std::int32_t> stored(tokens.size());
      REQUIRE(manager_.copy_tokens(outcome.sequence, Tokens{0}, stored) == BlockStatus::kOk);
      REQUIRE(stored == tokens);
    } else {
      REQUIRE(manager_.shortage().status == outcome.status);
      REQUIRE(manager_.fingerprint() == before);
    }
  }

  void on_sequence(int kind, std::size_t which) {
    const SequenceId sequence = live_[which];
    const SequenceLengths of = manager_.lengths(sequence);
    if (kind < 60) {
      const auto before = manager_.fingerprint();
      const auto held = held_pages();
      if (manager_.append(sequence, Tokens{pick(12)}) != BlockStatus::kOk) {
        // Only windows may have moved on.
        REQUIRE((manager_.fingerprint() == before || has_windows_));
        REQUIRE(held_pages() <= held);
        REQUIRE(manager_.lengths(sequence) == of);
      }
    } else if (kind < 80) {
      const std::int64_t left = (of.prompt - of.committed).count();
      const std::int64_t slots = (of.reserved - of.committed).count();
      if (left > 0) {
        REQUIRE(manager_.commit_prompt(sequence, Tokens{std::min(left, slots)}) ==
                BlockStatus::kOk);
      } else if (slots > 0) {
        std::vector<std::int32_t> tokens(
            static_cast<std::size_t>(1 + pick(static_cast<int>(slots))));
        std::ranges::generate(tokens, [this] { return pick(2); });
        REQUIRE(manager_.commit(sequence, tokens) == BlockStatus::kOk);
      }
    } else if (kind < 86) {
      const auto slots = static_cast<int>((of.reserved - of.committed).count());
      REQUIRE(manager_.truncate(sequence, Tokens{pick(slots + 1)}) == BlockStatus::kOk);
    } else if (kind < 89) {
      const auto before = manager_.fingerprint();
      const ForkOutcome forked = manager_.fork(sequence);
      REQUIRE((forked.status == BlockStatus::kOk || manager_.fingerprint() == before));
      if (forked.status == BlockStatus::kOk) {
        live_.push_back(forked.sequence);
      }
    } else if (kind == 89) {
      const auto computed = Tokens{pick(static_cast<int>(of.committed.count()) + 1)};
      for (std::size_t g = 0; g < manager_.groups().size(); ++g) {
        static_cast<void>(
            manager_.set_computed(sequence, GroupId{static_cast<std::int32_t>(g)}, computed));
      }
    } else if (kind == 90) {
      REQUIRE(manager_.stop_drafting(sequence) == BlockStatus::kOk);
    } else if (kind == 91) {
      const auto suspended = manager_.suspend(sequence);
      REQUIRE(suspended.has_value());
      live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(which));
      const AdmitOutcome outcome = manager_.resume(*suspended);
      if (outcome.status == BlockStatus::kOk) {
        live_.push_back(outcome.sequence);
      }
    } else if (kind == 92) {
      const auto receipt = manager_.preempt(sequence);
      REQUIRE(receipt.has_value());
      live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(which));
    } else if (kind == 93) {
      static_cast<void>(manager_.restore_snapshot(sequence));
    } else {
      REQUIRE(manager_.release(sequence) == BlockStatus::kOk);
      live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(which));
      REQUIRE(manager_.release(sequence) == BlockStatus::kStaleId);
    }
  }

  std::mt19937 random_;
  std::minstd_rand gate_;
  BlockManager manager_;
  std::vector<NamespaceId> spaces_;
  std::vector<SequenceId> live_;
  std::vector<PinId> pins_;
  std::int64_t step_ = 0;
  bool has_windows_ = false;
};

void stress_all_scenes(std::uint32_t seeds, int steps) {
  for (const Scene& scene : scenes()) {
    CAPTURE(scene.name);
    BlockManagerCounters sum;
    for (std::uint32_t seed = 1; seed <= seeds; ++seed) {
      CAPTURE(seed);
      Stress stress{scene, seed};
      stress.run(steps);
      sum.admitted += stress.counters().admitted;
      sum.hits += stress.counters().hits;
      sum.forked += stress.counters().forked;
      sum.refused += stress.counters().refused;
      sum.evicted_blocks += stress.counters().evicted_blocks;
      sum.evicted_pages += stress.counters().evicted_pages;
      sum.duplicate_blocks += stress.counters().duplicate_blocks;
      sum.snapshots += stress.counters().snapshots;
    }
    CAPTURE(sum.admitted, sum.hits, sum.forked, sum.refused, sum.evicted_blocks, sum.evicted_pages,
            sum.duplicate_blocks, sum.snapshots);
    CHECK(sum.admitted > 100);
    CHECK(sum.refused > 10);
    CHECK(sum.forked > 10);
  }
}

TEST_CASE("the manager stays consistent under random calls", "[block][block_manager]") {
  stress_all_scenes(8, 500);
}

TEST_CASE("the manager stays consistent under very many random calls", "[.long]") {
  stress_all_scenes(150, 1000);
}

}  // namespace
}  // namespace kvpool
