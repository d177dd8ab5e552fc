// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/block/trace.hpp>

#include "support/cache_pools.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace kvpool {
namespace {

using test::cache_manager;
using test::cache_pool;
using test::tokens_from;

BlockManager manager_of(std::int64_t slabs = 60) {
  return cache_manager(
      {cache_pool("target", PoolRole::kTarget,
                  {{}, {.kind = SpanKind::kSlidingWindow, .extent = Tokens{8}}}, 4, slabs),
       cache_pool("draft", PoolRole::kDraft, {{}}, 8, 30)},
      {.max_sequences = Sequences{8}, .max_length = Tokens{128}});
}

/// Makes every call at least once, some of them in vain.
void use(TracingBlockManager& calls) {
  const TenantId tenant = calls.intern_tenant("a tenant = with \"signs\"\n").value();
  const NamespaceId salted =
      calls.intern_namespace({.tenant = tenant, .salt = std::string{"s\0x", 3}, .adapter = ""})
          .value();
  CHECK_FALSE(calls.intern_namespace({.tenant = TenantId{99}}).has_value());
  const ItemId picture = calls.intern_item("a picture").value();
  CHECK(calls.set_quota(tenant, PoolId{0}, Pages{50}) == BlockStatus::kOk);
  CHECK(calls.begin_step(Epoch{1}, Instant{10}) == BlockStatus::kOk);

  std::vector<std::int32_t> prompt = tokens_from(1, 21);
  prompt[5] = picture.token();
  const std::array ranges = {
      RetentionRange{Tokens{0}, Tokens{8}, {.priority = 80, .time_to_live = Ticks{100}}},
      RetentionRange{Tokens{8}, Tokens{16}, {.priority = 10}}};
  const AdmitRequest request{.prompt = {.tokens = prompt,
                                        .name_space = salted,
                                        .public_tokens = Tokens{8},
                                        .draft = DraftMode::kRequired},
                             .reserve = Tokens{12},
                             .must_fit = Tokens{30},
                             .retention = {.prompt = ranges, .generated = {.priority = 50}}};
  CHECK(calls.probe(request).status == BlockStatus::kOk);
  const SequenceId first = calls.admit(request).sequence;
  CHECK(calls.commit_prompt(first, Tokens{12}) == BlockStatus::kOk);
  CHECK(calls.append(first, Tokens{12}) == BlockStatus::kOk);
  CHECK(calls.commit_prompt(first, Tokens{9}) == BlockStatus::kOk);
  CHECK(calls.commit(first, std::array{7, 8}) == BlockStatus::kOk);
  CHECK(calls.commit(first, {}) == BlockStatus::kOk);
  CHECK(calls.truncate(first, Tokens{1}) == BlockStatus::kOk);
  CHECK(calls.append(first, Tokens{-1}) == BlockStatus::kInvalid);
  const ForkOutcome fork = calls.fork(first);
  CHECK(fork.status == BlockStatus::kOk);
  calls.clear_copies();
  CHECK(calls.set_computed(first, GroupId{2}, Tokens{20}) == BlockStatus::kOk);
  CHECK(calls.restore_snapshot(first) == BlockStatus::kInvalid);
  CHECK(calls.begin_step(Epoch{2}, Instant{20}) == BlockStatus::kOk);
  CHECK(calls.complete_until(Epoch{1}) == BlockStatus::kOk);
  CHECK(calls.stop_drafting(fork.sequence) == BlockStatus::kOk);
  calls.mark();
  CHECK(calls.release(fork.sequence) == BlockStatus::kOk);
  CHECK(calls.release(fork.sequence) == BlockStatus::kStaleId);
  const auto suspended = calls.suspend(first);
  REQUIRE(suspended.has_value());
  const AdmitOutcome resumed = calls.resume(*suspended, Tokens{23});
  CHECK(resumed.status == BlockStatus::kOk);
  const auto receipt = calls.preempt(resumed.sequence);
  REQUIRE(receipt.has_value());
  CHECK_FALSE(calls.preempt(resumed.sequence).has_value());
  const PinOutcome pin = calls.pin(request.prompt);
  CHECK(pin.status == BlockStatus::kOk);
  CHECK(calls.complete_until(Epoch{2}) == BlockStatus::kOk);
  const std::vector<std::int32_t> other = tokens_from(500, 90);
  const AdmitOutcome second = calls.admit({.prompt = {.tokens = other, .draft = DraftMode::kOff}});
  CHECK(second.status == BlockStatus::kOk);
  static_cast<void>(calls.evict(GroupId{0}, Pages{2}));
  CHECK(calls.unpin(pin.pin) == BlockStatus::kOk);
  calls.flush_cache();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream{text};
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

TEST_CASE("a trace leads a fresh manager into the same state", "[block][trace]") {
  BlockManager manager = manager_of();
  TracingBlockManager calls{manager};
  use(calls);
  CHECK(calls.manager().fingerprint() == manager.fingerprint());

  BlockManager again = manager_of();
  CHECK(again.fingerprint() != manager.fingerprint());
  const auto replayed = replay(calls.trace(), again);
  if (!replayed) {
    FAIL(replayed.error().message << " in " << replayed.error().key);
  }
  const std::vector<std::string> lines = lines_of(calls.trace());
  CHECK(*replayed == static_cast<std::int64_t>(lines.size()) - 1);
  CHECK(again.fingerprint() == manager.fingerprint());
  CHECK(again.counters() == manager.counters());
  CHECK(again.check_invariants(CheckLevel::kEverything).empty());

  // The same calls give the same text.
  BlockManager third = manager_of();
  TracingBlockManager repeated{third};
  use(repeated);
  CHECK(repeated.trace() == calls.trace());
}

TEST_CASE("every call has a line with its arguments and its answer", "[block][trace]") {
  BlockManager manager = manager_of();
  TracingBlockManager calls{manager};
  use(calls);
  calls.reset();
  const std::vector<std::string> lines = lines_of(calls.trace());
  std::set<std::string> names;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    CHECK(lines[i].find(" = ") != std::string::npos);
    names.insert(lines[i].substr(0, lines[i].find(' ')));
  }
  CHECK(names ==
        std::set<std::string>{"admit",       "append",        "begin_step",     "clear_copies",
                              "commit",      "commit_prompt", "complete_until", "evict",
                              "fingerprint", "flush_cache",   "fork",           "item",
                              "namespace",   "pin",           "preempt",        "probe",
                              "quota",       "release",       "reset",          "restore_snapshot",
                              "resume",      "set_computed",  "stop_drafting",  "suspend",
                              "tenant",      "truncate",      "unpin"});
  CHECK(lines[0] == "kvpool.trace/1");
  const auto has = [&](const std::string& line) {
    return std::ranges::find(lines, line) != lines.end();
  };
  CHECK(has("namespace 1 x730078 x = 1"));
  CHECK(has("quota 1 0 50 = ok"));
  CHECK(has("begin_step 1 10 = ok"));
  CHECK(has("append 0.0 12 = ok"));
  CHECK(has("append 0.0 -1 = invalid"));
  CHECK(has("commit 0.0 7,8 = ok"));
  CHECK(has("commit 0.0 - = ok"));
  CHECK(has("clear_copies = done"));
}

TEST_CASE("a trace can be drained in parts", "[block][trace]") {
  BlockManager manager = manager_of();
  TracingBlockManager calls{manager};
  std::string whole = calls.drain();
  CHECK(whole == "kvpool.trace/1\n");
  CHECK(calls.trace().empty());
  CHECK(calls.begin_step(Epoch{1}, Instant{1}) == BlockStatus::kOk);
  whole += calls.drain();
  CHECK(calls.complete_until(Epoch{1}) == BlockStatus::kOk);
  whole += calls.drain();
  CHECK(whole == "kvpool.trace/1\nbegin_step 1 1 = ok\ncomplete_until 1 = ok\n");
  BlockManager again = manager_of();
  CHECK(replay(whole, again).value() == 2);
  CHECK(again.completed() == Epoch{1});
}

TEST_CASE("a replay that goes another way names the line", "[block][trace]") {
  BlockManager manager = manager_of();
  TracingBlockManager calls{manager};
  use(calls);

  // Another pool: some call is refused, or has another answer.
  BlockManager small = manager_of(8);
  const auto refused = replay(calls.trace(), small);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  CHECK(refused.error().key.starts_with("line "));

  BlockManager other = manager_of();
  const auto differs = replay("kvpool.trace/1\nbegin_step 1 1 = ok\nrelease 0.0 = ok\n", other);
  REQUIRE_FALSE(differs.has_value());
  CHECK(differs.error().key == "line 3");
  CHECK_THAT(differs.error().message,
             Catch::Matchers::ContainsSubstring("'release' answers 'stale_id' and not 'ok'"));

  // The calls have the answers of the recorded ones, but the state is not that of its mark.
  BlockManager stepped = manager_of();
  const auto state = replay("kvpool.trace/1\nfingerprint = 0000000000000000\n", stepped);
  REQUIRE_FALSE(state.has_value());
  CHECK(state.error().key == "line 2");
}

TEST_CASE("the trace in the documentation runs", "[block][trace]") {
  std::ifstream file{std::string{KVPOOL_SOURCE_DIR} + "/docs/block_manager.md"};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  const std::size_t first = text.find("```\nkvpool.trace/1\n");
  REQUIRE(first != std::string::npos);
  const std::size_t last = text.find("```", first + 4);
  BlockManager manager = manager_of();
  const auto replayed = replay(text.substr(first + 4, last - first - 4), manager);
  if (!replayed) {
    FAIL(replayed.error().message);
  }
  CHECK(*replayed == 5);
}

TEST_CASE("what is no trace is refused with its line", "[block][trace]") {
  const auto key_of = [](const std::string& trace) {
    BlockManager manager = manager_of();
    const auto replayed = replay(trace, manager);
    REQUIRE_FALSE(replayed.has_value());
    CHECK(replayed.error().code == ErrorCode::kInvalidArgument);
    CHECK_FALSE(replayed.error().message.empty());
    return replayed.error().key;
  };
  CHECK(key_of("") == "line 1");
  CHECK(key_of("kvpool.trace/2\n") == "line 1");
  const std::string head = "kvpool.trace/1\n";
  CHECK(key_of(head + "\n") == "line 2");
  CHECK(key_of(head + "begin_step 1 1") == "line 2");
  CHECK(key_of(head + "begin_step 1 1 = ok\ndance 1 = ok\n") == "line 3");
  for (const char* const call : {"begin_step",
                                 "begin_step 1",
                                 "begin_step 1 1 1",
                                 "begin_step 1 x",
                                 "begin_step -1 1",
                                 "begin_step 1 99999999999999999999",
                                 "begin_step  1 1",
                                 "append 0 1",
                                 "append 0.0.0 1",
                                 "append 0.-1 1",
                                 "commit 0.0 1,,2",
                                 "commit 0.0 1,",
                                 "commit 0.0 9999999999",
                                 "tenant 61",
                                 "tenant x6",
                                 "tenant xzz",
                                 "pin 1 0 0 3",
                                 "pin 1 0 0 -1",
                                 "pin 1 0 0",
                                 "admit 1 0 0 1 - 0 0 1:2:3 35:0 1",
                                 "admit 1 0 0 1 - 0 0 - 35 1",
                                 "admit 1 0 0 1 - 0 0 - 35:0 2"}) {
    INFO(call);
    CHECK(key_of(head + call + " = ok\n") == "line 2");
  }
}

}  // namespace
}  // namespace kvpool
