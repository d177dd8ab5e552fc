// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "property/block_world.hpp"
#include "property/naive_hit_rule.hpp"
#include "support/block_pools.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::test {

void BlockWorld::advance() {
  if (model_.opened > 0 && !dice_.one_in(8)) {
    const auto lag = static_cast<std::uint64_t>(dice_.below(3));
    const std::uint64_t to =
        std::max(model_.completed, model_.opened - std::min(model_.opened, lag));
    note("complete_until " + std::to_string(to));
    log_.clear();
    expect(manager_.complete_until(Epoch{to}) == BlockStatus::kOk, "complete_until");
    model_.completed = to;
    after([] {});
  }
  for (const auto& [id, s] : model_.sequences) {
    compare_contents(id);
  }
  const std::uint64_t epoch = model_.opened + 1 + static_cast<std::uint64_t>(dice_.below(2));
  now_ += dice_.below(4);
  note("begin_step " + std::to_string(epoch) + " at " + std::to_string(now_));
  log_.clear();
  expect(manager_.begin_step(Epoch{epoch}, Instant{now_}) == BlockStatus::kOk, "begin_step");
  model_.opened = epoch;
  after([] {});
}

PrefixQuery BlockWorld::random_query(std::vector<std::int32_t>& tokens) {
  tokens = dice_.of(documents_);
  const auto longest = static_cast<std::int64_t>(tokens.size());
  tokens.resize(static_cast<std::size_t>(1 + dice_.below(longest)));
  for (std::int64_t i = dice_.below(3) == 0 ? dice_.below(12) : 0; i > 0; --i) {
    tokens.push_back(static_cast<std::int32_t>(dice_.below(2)));
  }
  return {.tokens = tokens,
          .name_space = dice_.of(namespaces_),
          .public_tokens = Tokens{dice_.one_in(2) ? dice_.below(40) : 0},
          .draft = dice_.of(std::vector{DraftMode::kOff, DraftMode::kIfRoom, DraftMode::kRequired,
                                        DraftMode::kRequired})};
}

int BlockWorld::random_sequence() {
  if (model_.sequences.empty()) {
    return -1;
  }
  auto at = model_.sequences.begin();
  std::advance(at, dice_.below(static_cast<std::int64_t>(model_.sequences.size())));
  return at->first;
}

void BlockWorld::admit() {
  std::vector<std::int32_t> tokens;
  AdmitRequest request{.prompt = random_query(tokens)};
  const auto length = static_cast<std::int64_t>(tokens.size());
  if (dice_.one_in(3)) {
    request.reserve = Tokens{dice_.below(length + 16)};
  }
  request.use_cache = !dice_.one_in(16);
  if (shape_.encoder && dice_.one_in(4)) {
    request.encoder_tokens = Tokens{1 + dice_.below(24)};
  }
  const std::vector<RetentionRange> ranges{
      {.first = Tokens{dice_.below(16)},
       .last = Tokens{16 + dice_.below(32)},
       .retention = {.priority = static_cast<int>(dice_.below(101)),
                     .time_to_live = Ticks{dice_.below(64)}}}};
  if (dice_.one_in(3)) {
    request.retention.prompt = ranges;
    request.retention.generated.priority = static_cast<int>(dice_.below(101));
  }
  admit_with(request, [&] { return manager_.admit(request); });
}

void BlockWorld::admit_with(const AdmitRequest& request,
                            const std::function<AdmitOutcome()>& call) {
  const auto prompt = static_cast<std::int64_t>(request.prompt.tokens.size());
  const std::vector<Run> runs = model_.runs(request.prompt);
  const bool cached = request.use_cache && request.encoder_tokens == Tokens{0};
  const DraftMode mode = request.prompt.draft;
  const std::int64_t asked = request.reserve.value_or(Tokens{prompt}).count();
  const bool beyond =
      has_draft_ && mode != DraftMode::kOff && std::max(asked, prompt) > draft_limit_;
  const std::array told{told_hit(request.prompt, false), told_hit(request.prompt, true)};
  const auto plan_for = [&](bool draft) {
    const std::int64_t hit = cached ? expected_hit(request.prompt, draft, told[draft ? 1 : 0]) : 0;
    const auto [whole, more] = naive_match(model_, runs);
    Plan plan = empty_plan();
    for (std::size_t g = 0; g < model_.groups.size(); ++g) {
      if (model_.groups[g].is_draft && !draft) {
        continue;
      }
      if (model_.paged(g)) {
        charge(plan, request.prompt, g, hit, std::max(hit, asked));
        if (only_full_ && cached && more > 0) {  // the page that a partial hit is copied from
          plan.most[g] += model_.block / model_.slots(g);
        }
      } else {
        PrefixQuery own = request.prompt;
        own.public_tokens = Tokens{0};
        const std::int64_t units = model_.is(g, GroupKind::kState)
                                       ? 1
                                       : ceil_div(request.encoder_tokens.count(), model_.slots(g));
        charge(plan, own, g, 0, units * model_.slots(g));
      }
    }
    if (cached) {
      keep_hit(plan, runs, hit, draft);
    }
    return plan;
  };
  const bool draft = has_draft_ && mode != DraftMode::kOff && !beyond;
  note("admit " + std::to_string(prompt) + " tokens, reserve " + std::to_string(asked) +
       ", namespace " + std::to_string(request.prompt.name_space.value()) + ", public " +
       std::to_string(request.prompt.public_tokens.count()) + ", draft " +
       std::to_string(static_cast<int>(mode)) + (cached ? "" : ", no cache"));
  AdmitOutcome outcome;
  const AdmitOutcome probed = manager_.probe(request);
  const auto once = [&] {
    outcome = call();
    return outcome.status;
  };
  // Without room for its drafter a sequence may go on without.
  let_fail(mode != DraftMode::kIfRoom || dice_.one_in(4));
  const BlockStatus status = attempt(once);
  let_fail(true);
  if (!failure_.empty()) {
    return;
  }
  expect(was_injected_ || (probed.status == status && probed.hit == outcome.hit),
         "probe foretold something else");
  const Plan with = plan_for(draft);
  const Plan without = draft && mode == DraftMode::kIfRoom ? plan_for(false) : with;
  if (status == BlockStatus::kNoSlot) {
    expect(Sequences{static_cast<std::int64_t>(ids_.size())} == shape_.options.max_sequences,
           "no slot");
    return;
  }
  if (beyond && mode == DraftMode::kRequired && status != BlockStatus::kOk) {
    return;  // what is required cannot be had
  }
  if (status != BlockStatus::kOk) {
    check_status(status, without);
    return;
  }
  const bool drafts = manager_.drafts(outcome.sequence);
  expect(!drafts || draft, "a drafter that nobody asked for");
  if (draft && !drafts) {
    expect(mode == DraftMode::kIfRoom && outcome.draft_notice == DraftNotice::kNoRoom,
           "runs without its drafter");
    expect(was_injected_ || !has_room(with, true, &NaivePage::fence) || !quota_allows(with, true),
           "no drafter, with room for it");
  }
  if (beyond) {
    expect(outcome.draft_notice == DraftNotice::kBeyondLimit, "no notice of the drafter's limit");
  }
  check_status(status, drafts || !draft ? with : without);

  const std::int64_t hit = cached ? expected_hit(request.prompt, drafts, told[drafts ? 1 : 0]) : 0;
  const std::int64_t partial = outcome.hit.partial.count();
  expect(outcome.hit.whole_blocks.count() == hit, "hit of ", outcome.hit.whole_blocks.count(),
         " tokens instead of ", hit);
  const auto [whole, more] = naive_match(model_, runs);
  expect(outcome.hit.tokens.count() == hit + partial && partial < model_.block &&
             hit + partial < prompt &&
             (partial == 0 || (only_full_ && hit + partial <= whole + more)),
         "partial hit of ", partial);
  ++counts_.admitted;
  counts_.hits += hit > 0 ? 1 : 0;
  counts_.partial_hits += partial > 0 ? 1 : 0;
  const int id = next_id_++;
  after([&] {
    ids_[id] = outcome.sequence;
    auto& tokens = prompts_[id];
    tokens.assign(request.prompt.tokens.begin(), request.prompt.tokens.end());
    NaiveSequence s{.query = request.prompt,
                    .tokens = tokens,
                    .runs = runs,
                    .prompt = prompt,
                    .reserved = std::max(hit + partial, asked),
                    .committed = hit + partial,
                    .encoder = request.encoder_tokens.count(),
                    .history = {{0, hit + partial}},
                    .cached = cached,
                    .on_path = hit / model_.block};
    s.query.tokens = tokens;
    s.rows.resize(model_.groups.size());
    model_.sequences[id] = s;
    read_rows();
    take_copies(nullptr);
  });
  const NaiveSequence& s = model_.sequences[id];
  std::size_t columns = 0;
  model_.for_path(runs[static_cast<std::size_t>(hit)], [&](const NaiveBlock&) { ++columns; });
  expect(static_cast<std::int64_t>(columns) * model_.block == hit, "the hit is not in the cache");
  for (std::size_t g = 0; g < model_.groups.size() && hit > 0; ++g) {
    for (std::int64_t b = 0; model_.paged(g) && has_group(s, g) && b < hit / model_.slots(g); ++b) {
      const std::int64_t first = b * model_.slots(g);
      const NaiveBlock& block = model_.cache.at(
          runs[static_cast<std::size_t>((first / model_.block + 1) * model_.block)]);
      const std::int32_t entry = s.rows[g][static_cast<std::size_t>(b)];
      expect(
          entry == kGone ||
              entry ==
                  block.pages[g][static_cast<std::size_t>(first % model_.block / model_.slots(g))],
          "a hit page is not the cached one");
    }
  }
}

void BlockWorld::append() {
  const int id = random_sequence();
  if (id < 0) {
    return;
  }
  NaiveSequence& s = model_.sequences[id];
  const std::int64_t count = dice_.one_in(4) ? 1 + dice_.below(24) : 1 + dice_.below(8);
  note("append " + std::to_string(count) + " to #" + std::to_string(id) + " of " +
       std::to_string(s.reserved));
  const BlockStatus status =
      attempt([&] { return manager_.append(ids_[id], Tokens{count}); }, true);
  if (!failure_.empty()) {
    return;
  }
  if (s.reserved + count > shape_.options.max_length.count()) {
    expect(status == BlockStatus::kTooLong, "longer than allowed");
    return;
  }
  Plan plan = empty_plan();
  for (std::size_t g = 0; g < model_.groups.size(); ++g) {
    if (model_.paged(g) && has_group(s, g) &&
        (!model_.groups[g].is_draft || s.reserved + count <= draft_limit_)) {
      charge(plan, s.query, g, s.reserved, s.reserved + count);
    }
  }
  // Pages that a window has passed may go back first, and serve whoever shares their slabs.
  const std::int64_t computed = manager_.lengths(ids_[id]).computed.count();
  for (std::size_t g = 0; g < model_.groups.size(); ++g) {
    const std::int64_t extent = model_.groups[g].extent.count();
    const std::int64_t first = model_.is(g, GroupKind::kSlidingWindow)
                                   ? std::max<std::int64_t>(0, computed - extent + 1)
                               : extent == 0 ? 0
                                             : computed / extent * extent;
    const auto behind =
        s.rows[g].begin() + std::min<std::int64_t>(first / model_.slots(g), std::ssize(s.rows[g]));
    const auto passed = std::count_if(s.rows[g].begin(), behind, [](auto e) { return e != kGone; });
    for (std::size_t other = 0; passed > 0 && other < model_.groups.size(); ++other) {
      if (model_.groups[other].pool == model_.groups[g].pool) {
        plan.least[other] = std::max<std::int64_t>(
            0, plan.least[other] - passed * model_.groups[other].pages_per_slab);
      }
    }
  }
  check_status(status, plan);
  if (status == BlockStatus::kOk) {
    after([&] { s.reserved += count; }, {.windows_pass = true, .drops_draft = true});
    if (s.reserved > draft_limit_ && has_draft_) {
      expect(!manager_.drafts(ids_[id]), "drafts beyond its limit");
    }
  }
}

void BlockWorld::commit() {
  const int id = random_sequence();
  if (id < 0) {
    return;
  }
  NaiveSequence& s = model_.sequences[id];
  // Once a step has left a snapshot, a sequence is committed again only in the next one.
  const std::int64_t interval = shape_.options.snapshot_interval.count();
  if (interval > 0 && s.history.back().first == model_.opened && s.committed % interval == 0) {
    return;
  }
  const std::int64_t room = std::min(s.reserved - s.committed,
                                     s.committed < s.prompt ? s.prompt - s.committed : s.reserved);
  if (room <= 0) {
    return;
  }
  const bool is_prompt = s.committed < s.prompt;
  std::int64_t count = 1 + dice_.below(room);
  const std::optional<Tokens> cut = manager_.tokens_to_next_snapshot(ids_[id]);
  if (cut.has_value() && dice_.one_in(2)) {
    count = std::min(room, cut->count());
    expect((s.committed + cut->count()) % interval == 0 && cut->count() > 0 &&
               cut->count() <= interval,
           "tokens to the next snapshot");
  }
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count && !is_prompt; ++i) {
    tokens.push_back(static_cast<std::int32_t>(dice_.below(2)));
  }
  note("commit " + std::to_string(count) + (is_prompt ? " of the prompt" : "") + " to #" +
       std::to_string(id) + " of " + std::to_string(s.committed));
  log_.clear();
  // A snapshot that finds no slot is left out.
  log_.fail_at = dice_.one_in(4) ? dice_.below(2) : -1;
  const BlockStatus status = is_prompt ? manager_.commit_prompt(ids_[id], Tokens{count})
                                       : manager_.commit(ids_[id], tokens);
  expect(status == BlockStatus::kOk, "commit answered by ", to_string(status));
  if (status != BlockStatus::kOk) {
    return;
  }
  std::vector<std::int64_t> held_first;
  for (std::size_t g = 0; g < model_.groups.size(); ++g) {
    held_first.push_back(std::ranges::count(s.rows[g], kGone));
  }
  after(
      [&] {
        for (const std::int32_t token : tokens) {
          const auto position = static_cast<std::int64_t>(s.runs.size()) - 1;
          s.tokens.push_back(token);
          s.runs.push_back(model_.extend(s.query, s.runs.back(), position, token));
        }
        model_.write(s, s.committed, s.committed + count);
        s.committed += count;
        s.history.emplace_back(model_.opened, s.committed);
        take_copies(&s);
        model_.publish(s);
        for (auto at = s.snapshots.begin(); at != s.snapshots.end();) {
          if (at->first.first <= s.on_path * model_.block) {
            model_.cache.at(s.runs[static_cast<std::size_t>(at->first.first)])
                .snapshots[at->first.second] = at->second;
            at = s.snapshots.erase(at);
          } else {
            ++at;
          }
        }
      },
      {.windows_pass = true});
  for (std::size_t g = 0; g < model_.groups.size(); ++g) {
    const std::int64_t gone = std::ranges::count(s.rows[g], kGone);
    counts_.window_moves += gone > held_first[g] ? 1 : 0;
    // Windows move at the latest when a prefix block is complete.
    if (model_.is(g, GroupKind::kSlidingWindow) && has_group(s, g) &&
        s.committed / model_.block > (s.committed - count) / model_.block) {
      const std::int64_t passed =
          manager_.lengths(ids_[id]).computed.count() - model_.groups[g].extent.count();
      expect(gone >= passed / model_.slots(g), "pages behind the window did not go back");
    }
  }
}

void BlockWorld::truncate() {
  const int id = random_sequence();
  if (id < 0) {
    return;
  }
  NaiveSequence& s = model_.sequences[id];
  const std::int64_t count = dice_.below(s.reserved - std::min(s.reserved, s.committed) + 1);
  note("truncate " + std::to_string(count) + " of #" + std::to_string(id) + " of " +
       std::to_string(s.reserved));
  log_.clear();
  expect(manager_.truncate(ids_[id], Tokens{count}) == BlockStatus::kOk, "truncate");
  bool across = false;
  for (std::size_t g = 0; g < model_.groups.size(); ++g) {
    across = across || (has_group(s, g) && model_.paged(g) &&
                        ceil_div(s.reserved, model_.slots(g)) >
                            ceil_div(s.reserved - count, model_.slots(g)));
  }
  counts_.rejects_across_pages += across ? 1 : 0;
  after([&] { s.reserved -= count; });
}

void BlockWorld::fork() {
  const int id = random_sequence();
  if (id < 0) {
    return;
  }
  NaiveSequence& parent = model_.sequences[id];
  // What the fork generates itself is its own, also where the parent's prompt goes on in public.
  const std::int64_t prompt = std::min(parent.prompt, parent.committed);
  PrefixQuery query = parent.query;
  query.tokens = query.tokens.first(static_cast<std::size_t>(prompt));
  note("fork #" + std::to_string(id) + " at " + std::to_string(parent.committed));
  ForkOutcome outcome;
  const BlockStatus status = attempt([&] {
    outcome = manager_.fork(ids_[id]);
    return outcome.status;
  });
  if (!failure_.empty() || status == BlockStatus::kNoSlot) {
    return;
  }
  Plan plan = empty_plan();
  for (std::size_t g = 0; g < model_.groups.size(); ++g) {
    if (has_group(parent, g) && model_.paged(g)) {
      const std::int64_t p = model_.slots(g);
      charge(plan, query, g, parent.committed / p * p, parent.committed);
      // Complete pages of an incomplete prefix block may be copied as well.
      plan.most[g] = ceil_div(parent.committed % model_.block, p);
    } else if (has_group(parent, g)) {
      PrefixQuery own = query;
      own.public_tokens = Tokens{0};
      if (model_.is(g, GroupKind::kState)) {
        charge(plan, own, g, 0, 1);
      } else {
        plan.most[g] += ceil_div(parent.encoder, model_.slots(g));
      }
    }
  }
  check_status(status, plan);
  if (status != BlockStatus::kOk) {
    return;
  }
  ++counts_.forks;
  const int child = next_id_++;
  after([&] {
    ids_[child] = outcome.sequence;
    prompts_[child] = prompts_[id];
    NaiveSequence s = parent;
    s.reserved = s.committed;
    s.prompt = prompt;
    expect(manager_.lengths(outcome.sequence).prompt.count() == prompt, "prompt of a fork");
    prompts_[child].resize(static_cast<std::size_t>(prompt));
    s.query.tokens = prompts_[child];
    s.tokens.resize(static_cast<std::size_t>(s.committed));
    s.runs = {0};
    for (const std::int32_t token : s.tokens) {
      s.runs.push_back(model_.extend(s.query, s.runs.back(), std::ssize(s.runs) - 1, token));
    }
    model_.sequences[child] = s;
    read_rows();
    take_copies(nullptr);
  });
}

void BlockWorld::finish(int id) {
  NaiveSequence s = model_.sequences[id];
  model_.sequences.erase(id);
  ids_.erase(id);
  prompts_.erase(id);
  // Who ends may still be read, also where others go on.
  for (std::size_t g = 0; g < model_.groups.size(); ++g) {
    for (const std::int32_t entry : s.rows[g]) {
      if (entry != kGone) {
        NaivePage& page = model_.page(g, entry);
        page.fence = page.earliest = model_.opened;
      }
    }
  }
  std::set<std::pair<std::size_t, std::int32_t>> others;
  for (const auto& [other, t] : model_.sequences) {
    for (std::size_t g = 0; g < t.rows.size(); ++g) {
      for (const std::int32_t entry : t.rows[g]) {
        others.emplace(g, entry);
      }
    }
  }
  for (const auto& [other, t] : model_.sequences) {
    for (const auto& [at, entry] : t.snapshots) {
      others.emplace(at.second, entry);
    }
  }
  std::int64_t blocks = s.cached ? s.committed / model_.block : 0;
  for (std::int64_t b = s.on_path; b < blocks; ++b) {
    const NaiveBlock made = model_.block_of(s, b);
    for (std::size_t g = 0; g < model_.groups.size(); ++g) {
      for (const std::int32_t entry : made.pages[g]) {
        if (entry != kGone && others.contains({g, entry})) {
          // A run that a fork still has need not stay: ask what did.
          std::vector<std::int32_t> tokens(s.tokens.begin(), s.tokens.begin() + s.committed);
          tokens.push_back(std::numeric_limits<std::int32_t>::max());
          PrefixQuery query = s.query;
          query.public_tokens = std::min(query.public_tokens, Tokens{std::ssize(s.query.tokens)});
          query.tokens = tokens;
          blocks = std::min(blocks, manager_.match_prefix(query).matched.count() / model_.block);
        }
      }
    }
  }
  for (std::int64_t b = 0; b < blocks; ++b) {
    NaiveBlock made = model_.block_of(s, b);
    const std::int64_t end = (b + 1) * model_.block;
    for (std::size_t g = 0; g < model_.groups.size(); ++g) {
      const auto snapshot = s.snapshots.find({end, g});
      made.snapshots[g] = snapshot == s.snapshots.end() ? kGone : snapshot->second;
    }
    const auto [at, is_new] = model_.cache.try_emplace(s.runs[static_cast<std::size_t>(end)], made);
    counts_.duplicates += is_new || b < s.on_path ? 0 : 1;
    // A run that somebody else still has keeps its pages.
    const bool has_other = std::ranges::any_of(model_.sequences, [&, b = b](const auto& entry) {
      const NaiveSequence& t = entry.second;
      return t.on_path <= b && t.committed >= end &&
             t.runs[static_cast<std::size_t>(end)] == s.runs[static_cast<std::size_t>(end)];
    });
    for (std::size_t g = 0; g < model_.groups.size() && !is_new && !has_other; ++g) {
      // Where the cache has no page the sequence's may fill the gap: it is alive then.
      if (at->second.snapshots[g] == kGone && !others.contains({g, made.snapshots[g]})) {
        at->second.snapshots[g] = made.snapshots[g];
      }
      for (std::size_t i = 0; i < made.pages[g].size(); ++i) {
        std::int32_t& cached = at->second.pages[g][i];
        if (cached == kGone && !others.contains({g, made.pages[g][i]})) {
          cached = made.pages[g][i];
        }
      }
    }
  }
  // The last one to have a run leaves with it what drafters had of it.
  std::erase_if(model_.lingering, [&](const auto& entry) {
    const auto& [place, linger] = entry;
    const auto cached = model_.cache.find(linger.run);
    bool is_last = std::ranges::count(s.runs, linger.run) > 0 && cached != model_.cache.end();
    for (const auto& [other, t] : model_.sequences) {
      const auto at = std::ranges::find(t.runs, linger.run) - t.runs.begin();
      is_last = is_last && (at > t.committed || at <= t.on_path * model_.block);
    }
    if (!is_last || cached->second.pages[place.first][linger.place] != kGone) {
      return false;
    }
    cached->second.pages[place.first][linger.place] = place.second;
    return true;
  });
}

void BlockWorld::release(int id) {
  note("release #" + std::to_string(id));
  log_.clear();
  const SequenceId sequence = ids_[id];
  expect(manager_.release(sequence) == BlockStatus::kOk, "release");
  expect(manager_.release(sequence) == BlockStatus::kStaleId, "a second release");
  after([&] { finish(id); });
}

void BlockWorld::suspend(bool preempt) {
  const int id = random_sequence();
  if (id < 0) {
    return;
  }
  const NaiveSequence s = model_.sequences[id];
  note((preempt ? "preempt #" : "suspend #") + std::to_string(id));
  log_.clear();
  SuspendedSequence kept;
  std::vector<std::set<std::int32_t>> before(model_.pools.size());
  for (std::size_t p = 0; p < model_.pools.size(); ++p) {
    for (const auto& [entry, page] : model_.pages[p]) {
      if (page.held) {
        before[p].insert(entry);
      }
    }
  }
  const bool lingers = !model_.lingering.empty();
  std::optional<PreemptReceipt> receipt;
  if (preempt) {
    receipt = must(manager_.preempt(ids_[id]));
    kept = receipt->sequence;
  } else {
    kept = must(manager_.suspend(ids_[id]));
  }
  after([&] { finish(id); });
  expect(kept.tokens == s.tokens, "suspended tokens");
  expect(kept.name_space == s.query.name_space && kept.committed == Tokens{s.committed},
         "suspended sequence");
  for (std::size_t p = 0; receipt.has_value() && p < before.size(); ++p) {
    std::int64_t pages = 0;
    for (const std::int32_t entry : before[p]) {
      pages += model_.pages[p][entry].held ? 0 : 1;
    }
    std::int64_t told = 0;
    for (const PoolPages& line : receipt->pages) {
      told += line.pool == PoolId{static_cast<std::int32_t>(p)} ? line.pages.count() : 0;
    }
    expect(told == pages || !model_.pins.empty() || lingers || !model_.lingering.empty(),
           "a receipt of ", told, " pages instead of ", pages);
    expect(pages == 0 || receipt->free_at == Epoch{model_.opened}, "a receipt's epoch");
  }
  suspended_.push_back(std::move(kept));
}

/// A pin may have kept windows and snapshots, too: then they wait for the epoch of its end.
void BlockWorld::forget_pin(int id) {
  model_.for_path(model_.pins[id], [&](NaiveBlock& block) {
    model_.for_pages(block, [&](std::size_t g, std::int32_t entry) {
      model_.page(g, entry).fence = model_.opened;
    });
  });
  model_.pins.erase(id);
}

void BlockWorld::pin() {
  if (!model_.pins.empty() && dice_.one_in(2)) {
    const int id = model_.pins.begin()->first;
    note("unpin " + std::to_string(id));
    log_.clear();
    expect(manager_.unpin(pin_ids_[id]) == BlockStatus::kOk, "unpin");
    expect(manager_.unpin(pin_ids_[id]) == BlockStatus::kStaleId, "a second unpin");
    after([&] { forget_pin(id); });
    return;
  }
  std::vector<std::int32_t> tokens;
  const PrefixQuery query = random_query(tokens);
  note("pin " + std::to_string(tokens.size()) + " tokens");
  log_.clear();
  const PinOutcome outcome = manager_.pin(query);
  if (outcome.status == BlockStatus::kNoSlot) {
    return;
  }
  expect(outcome.status == BlockStatus::kOk, "pin");
  const std::vector<Run> runs = model_.runs(query);
  expect(outcome.tokens.count() % model_.block == 0 &&
             outcome.tokens.count() <= naive_match(model_, runs).first,
         "more pinned than cached");
  const int id = next_id_++;
  pin_ids_[id] = outcome.pin;
  after([&] { model_.pins[id] = runs[static_cast<std::size_t>(outcome.tokens.count())]; });
}

void BlockWorld::match() {
  std::vector<std::int32_t> tokens;
  const PrefixQuery query = random_query(tokens);
  const std::vector<Run> runs = model_.runs(query);
  const bool draft = has_draft_ && query.draft != DraftMode::kOff &&
                     static_cast<std::int64_t>(tokens.size()) <= draft_limit_;
  const PrefixHit hit = manager_.match_prefix(query);
  const auto [whole, more] = naive_match(model_, runs);
  note("match " + std::to_string(tokens.size()));
  expect(hit.whole_blocks.count() == expected_hit(query, draft, hit.whole_blocks.count()),
         "match of ", hit.whole_blocks.count(), " instead of ",
         expected_hit(query, draft, hit.whole_blocks.count()));
  expect(hit.matched.count() <= whole + more &&
             hit.matched.count() >= std::min(whole, static_cast<std::int64_t>(tokens.size()) - 1),
         "matched ", hit.matched.count(), " of ", whole, "+", more);
}

void BlockWorld::misuse() {
  const int id = random_sequence();
  if (id < 0) {
    return;
  }
  const NaiveSequence& s = model_.sequences[id];
  const SequenceId live = ids_[id];
  const SequenceId stale{live.index, live.generation + 1};
  const std::vector<std::int32_t> many(static_cast<std::size_t>(s.reserved - s.committed + 1), 1);
  note("misuse of #" + std::to_string(id));
  log_.clear();
  const std::uint64_t before = manager_.fingerprint();
  expect(manager_.append(stale, Tokens{1}) == BlockStatus::kStaleId, "append to a stale id");
  expect(manager_.truncate(stale, Tokens{0}) == BlockStatus::kStaleId, "truncate of a stale id");
  expect(manager_.release(stale) == BlockStatus::kStaleId, "release of a stale id");
  expect(manager_.fork(stale).status == BlockStatus::kStaleId, "fork of a stale id");
  expect(manager_.append(live, Tokens{-1}) == BlockStatus::kInvalid, "append of -1");
  expect(manager_.truncate(live, Tokens{-1}) == BlockStatus::kInvalid, "truncate of -1");
  expect(manager_.truncate(live, Tokens{s.reserved - s.committed + 1}) == BlockStatus::kInvalid,
         "truncate of committed tokens");
  expect(manager_.commit(live, many) == BlockStatus::kInvalid, "commit beyond the reserved");
  expect(manager_.commit_prompt(live, Tokens{std::max(s.prompt, s.reserved) + 1 - s.committed}) ==
             BlockStatus::kInvalid,
         "commit beyond the prompt");
  expect(manager_.begin_step(Epoch{model_.opened}, Instant{now_}) == BlockStatus::kInvalid,
         "an epoch twice");
  expect(manager_.complete_until(Epoch{model_.opened + 1}) == BlockStatus::kInvalid,
         "an epoch that was never opened");
  expect(manager_.fingerprint() == before, "a wrong call changed the fingerprint");
}

void BlockWorld::quota() {
  const auto tenant = static_cast<std::int32_t>(1 + dice_.below(2));
  const auto pool =
      static_cast<std::int32_t>(dice_.below(static_cast<std::int64_t>(model_.pools.size())));
  const bool unlimited = dice_.one_in(3);
  const std::int64_t most = model_.pools[static_cast<std::size_t>(pool)].slabs.count();
  const std::int64_t pages = 4 + dice_.below(most);
  note("quota of tenant " + std::to_string(tenant) + " in pool " + std::to_string(pool) + ": " +
       (unlimited ? "none" : std::to_string(pages)));
  log_.clear();
  expect(manager_.set_quota(TenantId{tenant}, PoolId{pool},
                            unlimited ? std::nullopt : std::optional{Pages{pages}}) ==
             BlockStatus::kOk,
         "set_quota");
  quotas_.erase({tenant, pool});
  if (!unlimited) {
    quotas_[{tenant, pool}] = pages;
  }
  after([] {});
}

void BlockWorld::evict() {
  log_.clear();
  if (dice_.one_in(4)) {
    note("flush_cache");
    manager_.flush_cache();
    after([] {});
    for (std::size_t p = 0; p < model_.pools.size(); ++p) {
      for (const auto& [entry, page] : model_.pages[p]) {
        expect(page.held || !model_.pins.empty() || !model_.lingering.empty() || page.group < 0 ||
                   !is_alive(static_cast<std::size_t>(page.group), entry, true),
               "a page survived the flush");
      }
    }
    return;
  }
  const auto g =
      static_cast<std::size_t>(dice_.below(static_cast<std::int64_t>(model_.groups.size())));
  const std::int64_t count = 1 + dice_.below(8);
  note("evict " + std::to_string(count) + " of group " + std::to_string(g));
  const Pages evicted = manager_.evict(GroupId{static_cast<std::int32_t>(g)}, Pages{count});
  expect(evicted >= Pages{0}, "evicted less than nothing");
  after([] {});
}

}  // namespace kvpool::test
