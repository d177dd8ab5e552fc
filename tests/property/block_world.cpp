// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "property/block_world.hpp"

#include "property/naive_hit_rule.hpp"
#include "support/block_pools.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <optional>
#include <span>

namespace kvpool::test {
namespace {

BlockManagerOptions with_hooks(BlockManagerOptions options, PageLog& log) {
  options.gate = {.admits =
                      [](void* context, PoolId pool, std::int32_t) {
                        auto& to = *static_cast<PageLog*>(context);
                        return !to.may_fail[static_cast<std::size_t>(pool.value())] ||
                               to.asked++ != to.fail_at;
                      },
                  .context = &log};
  options.on_allocate = {.call =
                             [](void* context, PoolId pool, PageId page, Bytes) {
                               static_cast<PageLog*>(context)->allocated.emplace(pool.value(),
                                                                                 page.value());
                             },
                         .context = &log};
  options.on_free = {.call =
                         [](void* context, PoolId pool, PageId page, Bytes) {
                           static_cast<PageLog*>(context)->freed.emplace(pool.value(),
                                                                         page.value());
                         },
                     .context = &log};
  return options;
}

}  // namespace

WorldCounts& WorldCounts::operator+=(const WorldCounts& other) {
  calls += other.calls;
  admitted += other.admitted;
  hits += other.hits;
  partial_hits += other.partial_hits;
  forks += other.forks;
  evictions += other.evictions;
  refusals += other.refusals;
  unsettled += other.unsettled;
  over_quota += other.over_quota;
  injected += other.injected;
  rejects_across_pages += other.rejects_across_pages;
  window_moves += other.window_moves;
  snapshots += other.snapshots;
  restored += other.restored;
  resumed += other.resumed;
  duplicates += other.duplicates;
  return *this;
}

void PageLog::clear() {
  allocated.clear();
  freed.clear();
  asked = 0;
  fail_at = -1;
}

BlockWorld::BlockWorld(const WorldShape& shape, std::uint64_t seed)
    : shape_{shape},
      manager_{make_manager(shape.pools, with_hooks(shape.options, log_))},
      model_{manager_},
      dice_{seed} {
  for (const char* tenant : {"first", "second"}) {
    must(manager_.intern_tenant(tenant));
  }
  for (const NamespaceKey& key : shape.namespaces) {
    model_.names.push_back(key);
    must(manager_.intern_namespace(key));
  }
  log_.may_fail.assign(shape.pools.size(), false);
  for (const CacheGroup& group : model_.groups) {
    has_draft_ = has_draft_ || group.is_draft;
    only_full_ = only_full_ && group.kind == GroupKind::kFull;
    if (!group.is_draft) {
      log_.may_fail[static_cast<std::size_t>(group.pool.value())] = true;
    }
  }
  lookahead_ = shape.options.draft_lookahead.count();
  draft_limit_ = shape.options.draft_max_length.value_or(shape.options.max_length).count();
  for (int i = 0; i < 3; ++i) {
    auto& document = documents_.emplace_back();
    for (std::int64_t t = 0; t < shape.longest_prompt; ++t) {
      document.push_back(static_cast<std::int32_t>(dice_.below(2)));
    }
  }
  advance();
}

void BlockWorld::fail(const std::string& what) {
  if (failure_.empty()) {
    failure_ = shape_.name + ", call " + std::to_string(counts_.calls) + ": " + what;
    const std::size_t first = calls_.size() > 12 ? calls_.size() - 12 : 0;
    for (std::size_t i = first; i < calls_.size(); ++i) {
      failure_ += "\n  " + calls_[i];
    }
  }
}

void BlockWorld::expect(bool holds, const std::string& what) {
  if (!holds) {
    fail(what);
  }
}

void BlockWorld::note(const std::string& call) {
  if (calls_.size() > 256) {
    calls_.erase(calls_.begin(), calls_.begin() + 128);
  }
  calls_.push_back(call);
}

bool BlockWorld::is_alive(std::size_t group, std::int32_t entry, bool fresh_counts) const {
  const PoolId pool = model_.groups[group].pool;
  return manager_.page_pool(pool).is_live(PageId{entry}) &&
         (fresh_counts || !log_.allocated.contains({pool.value(), entry}));
}

bool BlockWorld::has_group(const NaiveSequence& s, std::size_t group) const {
  return !s.rows[group].empty();
}

/// Makes a call with every one of its allocations failing in turn, then in earnest.
BlockStatus BlockWorld::attempt(const std::function<BlockStatus()>& call) {
  for (std::int64_t fail_at = 0;; ++fail_at) {
    const std::uint64_t before = manager_.fingerprint();
    log_.clear();
    log_.fail_at = fail_at;
    const BlockStatus status = call();
    const bool injected = log_.asked > fail_at;
    if (status == BlockStatus::kOk || !injected) {
      log_.fail_at = -1;
      return status;
    }
    ++counts_.injected;
    expect(status == BlockStatus::kNoPages,
           "a failed allocation is answered by " + std::string{to_string(status)});
    expect(log_.allocated.empty(), "a refused call took pages");
    expect(manager_.fingerprint() == before, "a refused call changed the fingerprint");
    if (fail_at % 4 == 0) {
      compare(false);
    }
    if (!failure_.empty()) {
      return status;
    }
  }
}

void BlockWorld::read_rows() {
  for (auto& [id, s] : model_.sequences) {
    s.rows.assign(model_.groups.size(), {});
    for (std::size_t g = 0; g < model_.groups.size(); ++g) {
      const GroupView view = manager_.view(ids_[id], GroupId{static_cast<std::int32_t>(g)});
      s.rows[g].assign(view.entries.begin(), view.entries.end());
      for (std::int64_t b = 0; b < view.held.first.value(); ++b) {
        expect(s.rows[g][static_cast<std::size_t>(b)] == kGone,
               "a column before the window is set");
      }
    }
  }
}

/// After a successful call: what the manager evicted, then the call's effect on the model.
void BlockWorld::after(const std::function<void()>& effect) {
  const auto known = [&](std::size_t g, std::int32_t e) { return is_alive(g, e, false); };
  const auto alive = [&](std::size_t g, std::int32_t e) { return is_alive(g, e, true); };
  for (const auto& [pool, entry] : log_.allocated) {
    NaivePage& page = model_.pages[static_cast<std::size_t>(pool)][entry];
    expect(!page.held, "a page in use was handed out again");
    expect(page.earliest <= model_.completed, "a page was handed out before its epoch completed");
  }
  const std::size_t blocks = model_.cache.size();
  const std::string wrong = model_.absorb(known);
  expect(wrong.empty(), wrong);
  counts_.evictions += static_cast<std::int64_t>(blocks - model_.cache.size());
  for (const auto& [pool, entry] : log_.allocated) {
    NaivePage& page = model_.pages[static_cast<std::size_t>(pool)][entry];
    page.slots.clear();
    page.fence = page.earliest = 0;
  }
  effect();
  read_rows();
  model_.absorb(alive);
  model_.settle();
  log_.clear();
}

void BlockWorld::take_copies(NaiveSequence* committing) {
  for (const PageCopy& copy : manager_.copies()) {
    const auto g = static_cast<std::size_t>(copy.group.value());
    NaivePage& source = model_.page(g, copy.source.value());
    NaivePage& destination = model_.page(g, copy.destination.value());
    destination.slots = source.slots;
    destination.group = copy.group.value();
    source.fence = std::max(source.fence, model_.opened);
    expect(is_alive(g, copy.destination.value(), true), "a copy goes to a free page");
    if (copy.reason == CopyReason::kSnapshot) {
      ++counts_.snapshots;
      expect(committing != nullptr && model_.is(g, GroupKind::kState) &&
                 committing->rows[g][0] == copy.source.value(),
             "a snapshot of another sequence");
      destination.fence = destination.earliest = model_.opened;
      if (committing != nullptr) {
        committing->snapshots[{committing->committed, g}] = copy.destination.value();
      }
    }
    counts_.restored += copy.reason == CopyReason::kRestoreSnapshot ? 1 : 0;
  }
  manager_.clear_copies();
}

// What calls need ---------------------------------------------------------------------------------

BlockWorld::Plan BlockWorld::empty_plan() const {
  Plan plan{.least = std::vector<std::int64_t>(model_.groups.size()),
            .most = std::vector<std::int64_t>(model_.groups.size()),
            .kept = std::vector<std::set<std::int32_t>>(model_.pools.size())};
  // Whether a pin also keeps windows and snapshots is not said.
  for (const auto& [id, pinned] : model_.pins) {
    for (auto at = model_.cache.find(pinned); at != model_.cache.end();
         at = model_.cache.find(at->second.parent)) {
      for (std::size_t g = 0; g < model_.groups.size(); ++g) {
        auto& kept = plan.kept[static_cast<std::size_t>(model_.groups[g].pool.value())];
        kept.insert(at->second.snapshots[g]);
        kept.insert(at->second.pages[g].begin(), at->second.pages[g].end());
      }
    }
  }
  for (auto& kept : plan.kept) {
    kept.erase(kGone);
  }
  return plan;
}

std::int32_t BlockWorld::tenant_of(std::int32_t scope) const {
  return scope < 0 ? 0 : model_.names[static_cast<std::size_t>(scope)].tenant.value();
}

/// Blocks of a group from token `from` to `to`, charged to whoever owns them.
void BlockWorld::charge(Plan& plan, const PrefixQuery& query, std::size_t group, std::int64_t from,
                        std::int64_t to) const {
  const std::int64_t p = model_.slots(group);
  for (std::int64_t b = ceil_div(from, p); b < ceil_div(to, p); ++b) {
    const std::int32_t tenant = tenant_of(model_.scope(query, b * p));
    auto& pools = plan.charged[tenant];
    pools.resize(model_.pools.size());
    ++pools[static_cast<std::size_t>(model_.groups[group].pool.value())];
    ++plan.least[group];
    ++plan.most[group];
  }
}

/// The cached pages that a hit makes live.
void BlockWorld::keep_hit(Plan& plan, const std::vector<Run>& runs, std::int64_t hit, bool draft) {
  model_.for_path(runs[static_cast<std::size_t>(hit)], [&](const NaiveBlock& block) {
    const std::int64_t last = static_cast<std::int64_t>(
        std::find(runs.begin(), runs.end(), block.runs.back()) - runs.begin());
    for (std::size_t g = 0; g < model_.groups.size(); ++g) {
      auto& kept = plan.kept[static_cast<std::size_t>(model_.groups[g].pool.value())];
      if (last == hit) {
        kept.insert(block.snapshots[g]);
      }
      const std::int64_t extent = model_.groups[g].extent.count();
      const std::int64_t first = model_.is(g, GroupKind::kSlidingWindow) ? hit - extent + 1
                                 : model_.is(g, GroupKind::kChunked)     ? hit / extent * extent
                                                                         : 0;
      for (std::size_t i = 0; i < block.pages[g].size(); ++i) {
        const std::int64_t end =
            last - model_.block + static_cast<std::int64_t>(i + 1) * model_.slots(g);
        if (end > first &&
            (draft || !model_.groups[g].is_draft || model_.is(g, GroupKind::kFull))) {
          kept.insert(block.pages[g][i]);
        }
      }
    }
  });
  for (auto& kept : plan.kept) {
    kept.erase(kGone);
  }
}

/// Who is charged for each page of a pool that a sequence or pin holds.
std::map<std::int32_t, std::int32_t> BlockWorld::held_tenants(std::size_t pool) {
  std::map<std::int32_t, std::int32_t> tenants;
  const auto in_pool = [&](std::size_t g) {
    return model_.groups[g].pool == PoolId{static_cast<std::int32_t>(pool)};
  };
  const auto add_path = [&](Run run) {
    model_.for_path(run, [&](const NaiveBlock& block) {
      for (std::size_t g = 0; g < model_.groups.size(); ++g) {
        for (const std::int32_t entry : block.pages[g]) {
          if (in_pool(g) && model_.is(g, GroupKind::kFull) && entry != kGone) {
            tenants[entry] = tenant_of(block.scope);
          }
        }
      }
    });
  };
  for (const auto& [id, pinned] : model_.pins) {
    add_path(pinned);
  }
  for (const auto& [id, s] : model_.sequences) {
    add_path(s.runs[static_cast<std::size_t>(s.on_path * model_.block)]);
    for (std::size_t g = 0; g < model_.groups.size(); ++g) {
      for (std::size_t b = 0; in_pool(g) && b < s.rows[g].size(); ++b) {
        if (s.rows[g][b] != kGone) {
          const std::int64_t position = model_.paged(g)
                                            ? static_cast<std::int64_t>(b) * model_.slots(g)
                                            : std::numeric_limits<std::int64_t>::max();
          tenants[s.rows[g][b]] = tenant_of(model_.scope(s.query, position));
        }
      }
    }
  }
  return tenants;
}

bool BlockWorld::quota_allows(const Plan& plan, bool most) {
  for (const auto& [key, quota] : quotas_) {
    const auto& [tenant, pool] = key;
    const auto p = static_cast<std::size_t>(pool);
    std::int64_t pages = 0;
    const auto held = held_tenants(p);
    for (const auto& [entry, owner] : held) {
      pages += owner == tenant ? 1 : 0;
    }
    const auto charged = plan.charged.find(tenant);
    if (charged == plan.charged.end() || charged->second[p] == 0) {
      continue;
    }
    pages += charged->second[p];
    // Cached pages that become live; whose they are matters only for the upper bound.
    for (const std::int32_t entry : plan.kept[p]) {
      pages += most && !held.contains(entry) ? 1 : 0;
    }
    for (std::size_t g = 0; most && g < model_.groups.size(); ++g) {
      pages += model_.groups[g].pool.value() == pool ? plan.most[g] - plan.least[g] : 0;
    }
    if (pages > quota) {
      return false;
    }
  }
  return true;
}

bool BlockWorld::has_room(const Plan& plan, bool most, std::uint64_t NaivePage::* fence) {
  for (std::size_t p = 0; p < model_.pools.size(); ++p) {
    if (!naive_fits(model_, p, most ? plan.most : plan.least,
                    most ? plan.kept[p] : std::set<std::int32_t>{}, fence)) {
      return false;
    }
  }
  return true;
}

void BlockWorld::check_status(BlockStatus status, const Plan& plan) {
  const bool must = has_room(plan, true, &NaivePage::fence) && quota_allows(plan, true);
  const bool can = has_room(plan, false, &NaivePage::earliest) && quota_allows(plan, false);
  const std::string got{to_string(status)};
  switch (status) {
    case BlockStatus::kOk: expect(can, "granted without room"); break;
    case BlockStatus::kNoPages:
      expect(!must, "refused with room");
      expect(!has_room(plan, true, nullptr), "no_pages where waiting would do");
      break;
    case BlockStatus::kUnsettled:
      ++counts_.unsettled;
      expect(!must, "told to wait with room");
      expect(has_room(plan, false, nullptr), "told to wait in vain");
      expect(manager_.shortage().settles_at.has_value(), "told to wait for nothing");
      break;
    case BlockStatus::kOverQuota:
      ++counts_.over_quota;
      expect(!quota_allows(plan, true), "over quota within the quota");
      break;
    default: fail("answered by " + got);
  }
  counts_.refusals += status == BlockStatus::kOk ? 0 : 1;
  if (status != BlockStatus::kOk) {
    expect(manager_.shortage().status == status, "the shortage explains another answer");
  }
}

std::int64_t BlockWorld::expected_hit(const std::vector<Run>& runs, bool draft) const {
  const auto [whole, more] = naive_match(model_, runs);
  const std::int64_t limit = std::min(whole + more, static_cast<std::int64_t>(runs.size()) - 2);
  const std::int64_t hit = naive_frontier(model_, runs, limit, draft);
  return draft && lookahead_ > 0 && hit > 0
             ? naive_frontier(model_, runs, std::max<std::int64_t>(0, hit - lookahead_), draft)
             : hit;
}

// Calls -------------------------------------------------------------------------------------------

void BlockWorld::advance() {
  if (model_.opened > 0 && !dice_.one_in(8)) {
    const std::uint64_t lag = static_cast<std::uint64_t>(dice_.below(3));
    const std::uint64_t to =
        std::max(model_.completed, model_.opened - std::min(model_.opened, lag));
    note("complete_until " + std::to_string(to));
    log_.clear();
    expect(manager_.complete_until(Epoch{to}) == BlockStatus::kOk, "complete_until");
    model_.completed = to;
    after([] {});
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
  const auto names = static_cast<std::int64_t>(model_.names.size());
  return {.tokens = tokens,
          .name_space = NamespaceId{static_cast<std::int32_t>(dice_.below(names))},
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
  const auto plan_for = [&](bool draft) {
    const std::int64_t hit = cached ? expected_hit(runs, draft) : 0;
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
  const BlockStatus status = attempt(once);
  if (!failure_.empty()) {
    return;
  }
  expect(probed.status == status && probed.hit == outcome.hit, "probe foretold something else");
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
    expect(!has_room(with, true, &NaivePage::fence) || !quota_allows(with, true),
           "no drafter, with room for it");
  }
  if (beyond) {
    expect(outcome.draft_notice == DraftNotice::kBeyondLimit, "no notice of the drafter's limit");
  }
  check_status(status, drafts || !draft ? with : without);

  const std::int64_t hit = cached ? expected_hit(runs, drafts) : 0;
  const std::int64_t partial = outcome.hit.partial.count();
  expect(outcome.hit.whole_blocks.count() == hit,
         "hit of " + std::to_string(outcome.hit.whole_blocks.count()) + " tokens instead of " +
             std::to_string(hit));
  const auto [whole, more] = naive_match(model_, runs);
  expect(outcome.hit.tokens.count() == hit + partial && partial < model_.block &&
             hit + partial < prompt &&
             (partial == 0 || (only_full_ && hit + partial <= whole + more)),
         "partial hit of " + std::to_string(partial));
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
  const BlockStatus status = attempt([&] { return manager_.append(ids_[id], Tokens{count}); });
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
  check_status(status, plan);
  if (status == BlockStatus::kOk) {
    after([&] { s.reserved += count; });
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
    const std::int64_t interval = shape_.options.snapshot_interval.count();
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
  const BlockStatus status = is_prompt ? manager_.commit_prompt(ids_[id], Tokens{count})
                                       : manager_.commit(ids_[id], tokens);
  expect(status == BlockStatus::kOk, "commit answered by " + std::string{to_string(status)});
  if (status != BlockStatus::kOk) {
    return;
  }
  std::vector<std::int64_t> held_first;
  for (std::size_t g = 0; g < model_.groups.size(); ++g) {
    held_first.push_back(std::ranges::count(s.rows[g], kGone));
  }
  after([&] {
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
  });
  for (std::size_t g = 0; g < model_.groups.size(); ++g) {
    const std::int64_t gone = std::ranges::count(s.rows[g], kGone);
    counts_.window_moves += gone > held_first[g] ? 1 : 0;
    if (model_.is(g, GroupKind::kSlidingWindow) && has_group(s, g)) {
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
      charge(plan, parent.query, g, parent.committed / p * p, parent.committed);
      // Complete pages of an incomplete prefix block may be copied as well.
      plan.most[g] = ceil_div(parent.committed % model_.block, p);
    } else if (has_group(parent, g)) {
      PrefixQuery own = parent.query;
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
    s.query.tokens = prompts_[child];
    s.reserved = s.committed;
    // Whether the fork has the rest of a prompt that is not committed yet is not said.
    s.prompt = manager_.lengths(outcome.sequence).prompt.count();
    expect(s.prompt == parent.prompt || s.prompt == s.committed, "prompt of a fork");
    s.tokens.resize(static_cast<std::size_t>(std::max(s.prompt, s.committed)));
    s.runs.resize(s.tokens.size() + 1);
    s.snapshots.clear();
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
  if (!s.cached) {
    return;
  }
  std::set<std::pair<std::size_t, std::int32_t>> others;
  for (const auto& [other, t] : model_.sequences) {
    for (std::size_t g = 0; g < t.rows.size(); ++g) {
      for (const std::int32_t entry : t.rows[g]) {
        others.emplace(g, entry);
      }
    }
  }
  std::int64_t blocks = s.committed / model_.block;
  for (std::int64_t b = s.on_path; b < blocks; ++b) {
    for (std::size_t g = 0; g < model_.groups.size(); ++g) {
      for (const std::int32_t entry : model_.block_of(s, b).pages[g]) {
        if (entry != kGone && others.contains({g, entry})) {
          // A run that a fork still has need not stay: ask what did.
          std::vector<std::int32_t> tokens(s.tokens.begin(), s.tokens.begin() + s.committed);
          tokens.push_back(std::numeric_limits<std::int32_t>::max());
          PrefixQuery query = s.query;
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
    for (std::size_t g = 0; g < model_.groups.size() && !is_new; ++g) {
      // Where the cache has no page the sequence's may fill the gap: it is alive then.
      if (at->second.snapshots[g] == kGone) {
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
    expect(told == pages || !model_.pins.empty(),
           "a receipt of " + std::to_string(told) + " pages instead of " + std::to_string(pages));
    expect(pages == 0 || receipt->free_at == Epoch{model_.opened}, "a receipt's epoch");
  }
  suspended_.push_back(std::move(kept));
}

void BlockWorld::pin() {
  if (!model_.pins.empty() && dice_.one_in(2)) {
    const int id = model_.pins.begin()->first;
    note("unpin " + std::to_string(id));
    log_.clear();
    expect(manager_.unpin(pin_ids_[id]) == BlockStatus::kOk, "unpin");
    expect(manager_.unpin(pin_ids_[id]) == BlockStatus::kStaleId, "a second unpin");
    after([&] { model_.pins.erase(id); });
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
  expect(hit.whole_blocks.count() == expected_hit(runs, draft),
         "match of " + std::to_string(hit.whole_blocks.count()) + " instead of " +
             std::to_string(expected_hit(runs, draft)));
  expect(hit.matched.count() <= whole + more &&
             hit.matched.count() >= std::min(whole, static_cast<std::int64_t>(tokens.size()) - 1),
         "matched " + std::to_string(hit.matched.count()) + " of " + std::to_string(whole) + "+" +
             std::to_string(more));
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
        expect(page.held || !model_.pins.empty() || page.group < 0 ||
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

// Comparison --------------------------------------------------------------------------------------

void BlockWorld::compare_sequence(int id) {
  const NaiveSequence& s = model_.sequences[id];
  const SequenceLengths lengths = manager_.lengths(ids_[id]);
  std::int64_t computed = 0;
  for (const auto& [epoch, committed] : s.history) {
    computed = epoch <= model_.completed ? std::max(computed, committed) : computed;
  }
  const std::string name = "#" + std::to_string(id) + ": ";
  expect(lengths.reserved.count() == s.reserved && lengths.committed.count() == s.committed &&
             lengths.prompt.count() == s.prompt,
         name + "lengths " + std::to_string(lengths.reserved.count()) + ", " +
             std::to_string(lengths.committed.count()));
  expect(lengths.computed.count() == computed, name + "computed " +
                                                   std::to_string(lengths.computed.count()) +
                                                   " instead of " + std::to_string(computed));
  for (std::size_t g = 0; g < model_.groups.size(); ++g) {
    const GroupId group{static_cast<std::int32_t>(g)};
    const GroupView view = manager_.view(ids_[id], group);
    const std::string where = name + model_.groups[g].name + ": ";
    expect(manager_.computed(ids_[id], group) <= lengths.committed, where + "computed");
    if (!has_group(s, g)) {
      continue;
    }
    const std::int64_t p = model_.slots(g);
    const std::int64_t tokens = model_.is(g, GroupKind::kState)   ? 1
                                : model_.is(g, GroupKind::kCross) ? s.encoder
                                                                  : s.reserved;
    expect(view.held.last.value() == ceil_div(tokens, p),
           where + "holds blocks to " + std::to_string(view.held.last.value()));
    const std::int64_t extent = model_.groups[g].extent.count();
    const std::int64_t needed = model_.is(g, GroupKind::kSlidingWindow)
                                    ? std::max<std::int64_t>(0, computed - extent + 1) / p
                                : model_.is(g, GroupKind::kChunked) ? computed / extent * extent / p
                                                                    : 0;
    expect(view.held.first.value() <= needed, where + "a page of the window is gone");
    for (std::int64_t b = view.held.first.value(); b < view.held.last.value(); ++b) {
      const std::int32_t entry = s.rows[g][static_cast<std::size_t>(b)];
      expect(entry != kGone && is_alive(g, entry, true), where + "holds a free page");
      const std::vector<Run>& slots = model_.page(g, entry).slots;
      if (model_.is(g, GroupKind::kState)) {
        expect(
            s.committed == 0 || slots == std::vector{s.runs[static_cast<std::size_t>(s.committed)]},
            where + "not the state of its tokens");
      }
      for (std::int64_t t = b * p; model_.paged(g) && t < std::min((b + 1) * p, s.committed); ++t) {
        expect(
            static_cast<std::size_t>(t % p) < slots.size() &&
                slots[static_cast<std::size_t>(t % p)] == s.runs[static_cast<std::size_t>(t + 1)],
            where + "token " + std::to_string(t) + " is not in its page");
      }
    }
  }
}

void BlockWorld::compare_pools() {
  std::vector<std::int64_t> alive(model_.groups.size()), held(model_.groups.size());
  std::vector<std::set<std::int32_t>> known(model_.pools.size());
  const auto add = [&](std::size_t g, std::int32_t entry) {
    const auto p = static_cast<std::size_t>(model_.groups[g].pool.value());
    if (entry != kGone && known[p].insert(entry).second) {
      ++alive[g];
      held[g] += model_.page(g, entry).held ? 1 : 0;
    }
  };
  for (const auto& [run, block] : model_.cache) {
    for (std::size_t g = 0; g < model_.groups.size(); ++g) {
      add(g, block.snapshots[g]);
      for (const std::int32_t entry : block.pages[g]) {
        add(g, entry);
      }
    }
  }
  for (const auto& [id, s] : model_.sequences) {
    for (const auto& [at, entry] : s.snapshots) {
      if (is_alive(at.second, entry, true)) {
        add(at.second, entry);
      }
    }
    for (std::size_t g = 0; g < model_.groups.size(); ++g) {
      for (const std::int32_t entry : s.rows[g]) {
        add(g, entry);
      }
    }
  }
  for (std::size_t g = 0; g < model_.groups.size(); ++g) {
    const CacheGroup& group = model_.groups[g];
    const GroupId id{static_cast<std::int32_t>(g)};
    const auto pool = static_cast<std::size_t>(group.pool.value());
    const std::int64_t live =
        manager_.page_pool(group.pool).live_pages(group.group_in_pool).count();
    expect(live == alive[g], group.name + ": " + std::to_string(live) + " pages are out, " +
                                 std::to_string(alive[g]) + " are known of");
    const std::int64_t holds = manager_.held_pages(id).count();
    expect(
        holds >= held[g] && (holds == held[g] || !model_.pins.empty()),
        group.name + ": holds " + std::to_string(holds) + " instead of " + std::to_string(held[g]));
    const std::int64_t available = manager_.available_pages(id).count();
    Plan plan = empty_plan();
    plan.least[g] = plan.most[g] = available;
    expect(naive_fits(model_, pool, plan.least, {}, &NaivePage::earliest),
           group.name + ": " + std::to_string(available) + " available are not there");
    ++plan.most[g];
    expect(!naive_fits(model_, pool, plan.most, plan.kept[pool], &NaivePage::fence),
           group.name + ": more than " + std::to_string(available) + " are available");
  }
  std::map<std::pair<std::int32_t, std::size_t>, std::int64_t> live, all;
  for (std::size_t p = 0; p < model_.pools.size(); ++p) {
    auto tenants = held_tenants(p);
    for (const auto& [entry, tenant] : tenants) {
      ++live[{tenant, p}];
    }
    for (const auto& [run, block] : model_.cache) {
      for (std::size_t g = 0; g < model_.groups.size(); ++g) {
        if (model_.groups[g].pool == PoolId{static_cast<std::int32_t>(p)}) {
          for (const std::int32_t entry : block.pages[g]) {
            tenants.try_emplace(entry, tenant_of(block.scope));
          }
          tenants.try_emplace(block.snapshots[g], tenant_of(block.scope));
        }
      }
    }
    for (const auto& [id, s] : model_.sequences) {
      for (const auto& [at, entry] : s.snapshots) {
        if (model_.groups[at.second].pool == PoolId{static_cast<std::int32_t>(p)} &&
            is_alive(at.second, entry, true)) {
          tenants.try_emplace(entry, tenant_of(model_.scope(s.query, at.first - 1)));
        }
      }
    }
    tenants.erase(kGone);
    for (const auto& [entry, tenant] : tenants) {
      ++all[{tenant, p}];
    }
    for (std::int32_t t = 0; t < 3; ++t) {
      const TenantUsage usage = manager_.usage(TenantId{t}, PoolId{static_cast<std::int32_t>(p)});
      const std::int64_t told = usage.live.count() + usage.cached.count();
      expect(told == all[{t, p}] && usage.live.count() >= live[{t, p}] &&
                 (usage.live.count() == live[{t, p}] || !model_.pins.empty()),
             "tenant " + std::to_string(t) + " in pool " + std::to_string(p) + " has " +
                 std::to_string(usage.live.count()) + " live and " +
                 std::to_string(usage.cached.count()) + " cached pages instead of " +
                 std::to_string(live[{t, p}]) + " of " + std::to_string(all[{t, p}]));
    }
  }
}

void BlockWorld::compare(bool deep) {
  for (const auto& [id, s] : model_.sequences) {
    compare_sequence(id);
    std::vector<std::int32_t> tokens(deep ? s.tokens.size() : 0);
    expect(manager_.copy_tokens(ids_[id], Tokens{0}, tokens) == BlockStatus::kOk &&
               (!deep || tokens == s.tokens),
           "tokens of #" + std::to_string(id));
  }
  compare_pools();
  expect(manager_.live_sequences().count() == static_cast<std::int64_t>(ids_.size()),
         "number of sequences");
  for (const Finding& finding :
       manager_.check_invariants(deep ? CheckLevel::kEverything : CheckLevel::kCheap)) {
    fail("invariant: " + finding.message);
  }
}

void BlockWorld::step(bool deep) {
  if (!failure_.empty()) {
    return;
  }
  ++counts_.calls;
  const std::int64_t choice = dice_.below(100);
  const auto live = static_cast<std::int64_t>(model_.sequences.size());
  if (choice < 14) {
    admit();
  } else if (choice < 30) {
    append();
  } else if (choice < 54) {
    commit();
  } else if (choice < 62) {
    truncate();
  } else if (choice < 66) {
    fork();
  } else if (choice < 74 || live > 6) {
    if (const int id = random_sequence(); id >= 0) {
      release(id);
    }
  } else if (choice < 76) {
    suspend(dice_.one_in(2));
  } else if (choice < 78 && !suspended_.empty()) {
    const SuspendedSequence again = suspended_.back();
    suspended_.pop_back();
    if (!again.tokens.empty()) {
      ++counts_.resumed;
      admit_with({.prompt = {.tokens = again.tokens,
                             .name_space = again.name_space,
                             .public_tokens = again.public_tokens,
                             .draft = again.draft},
                  .encoder_tokens = again.encoder_tokens,
                  .use_cache = again.use_cache},
                 [&] { return manager_.resume(again); });
    }
  } else if (choice < 80) {
    pin();
  } else if (choice < 84) {
    match();
  } else if (choice < 86) {
    misuse();
  } else if (choice < 87) {
    quota();
  } else if (choice < 88) {
    evict();
  } else if (choice < 89 && has_draft_) {
    if (const int id = random_sequence(); id >= 0) {
      note("stop drafting #" + std::to_string(id));
      log_.clear();
      expect(manager_.stop_drafting(ids_[id]) == BlockStatus::kOk, "stop_drafting");
      after([] {});
      expect(!manager_.drafts(ids_[id]), "still drafts");
    }
  } else {
    advance();
  }
  if (failure_.empty()) {
    compare(deep);
  }
}

void BlockWorld::drain() {
  while (!model_.sequences.empty() && failure_.empty()) {
    release(model_.sequences.begin()->first);
  }
  while (!model_.pins.empty() && failure_.empty()) {
    const int id = model_.pins.begin()->first;
    log_.clear();
    manager_.unpin(pin_ids_[id]);
    after([&] { model_.pins.erase(id); });
  }
  manager_.flush_cache();
  expect(manager_.complete_until(Epoch{model_.opened}) == BlockStatus::kOk, "the last epoch");
  for (std::size_t g = 0; g < model_.groups.size(); ++g) {
    const CacheGroup& group = model_.groups[g];
    const GroupId id{static_cast<std::int32_t>(g)};
    const std::int64_t most =
        model_.pools[static_cast<std::size_t>(group.pool.value())].slabs.count() *
        group.pages_per_slab;
    expect(manager_.available_pages(id).count() == most && manager_.held_pages(id) == Pages{0} &&
               manager_.evictable_pages(id) == Pages{0},
           group.name + ": pages are missing at the end");
  }
  for (const Finding& finding : manager_.check_invariants(CheckLevel::kEverything)) {
    fail("invariant: " + finding.message);
  }
}

}  // namespace kvpool::test
