// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "property/block_world.hpp"

#include "property/naive_hit_rule.hpp"
#include "support/block_pools.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
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
    const NamespaceId id = must(manager_.intern_namespace(key));
    // Ids between are names that the manager made for itself.
    while (std::ssize(model_.names) <= id.value()) {
      model_.names.push_back({.salt = "nobody's"});
    }
    model_.names[static_cast<std::size_t>(id.value())] = key;
    namespaces_.push_back(id);
  }
  log_.may_fail.assign(shape.pools.size(), false);
  for (const CacheGroup& group : model_.groups) {
    has_draft_ = has_draft_ || group.is_draft;
    only_full_ = only_full_ && group.kind == GroupKind::kFull;
    log_.may_fail[static_cast<std::size_t>(group.pool.value())] = true;
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
    const std::size_t first = calls_.size() > 60 ? calls_.size() - 60 : 0;
    for (std::size_t i = first; i < calls_.size(); ++i) {
      failure_ += "\n  " + calls_[i];
    }
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
  return model_.groups[group].is_draft         ? s.drafts
         : model_.is(group, GroupKind::kCross) ? s.encoder > 0
                                               : true;
}

void BlockWorld::let_fail(bool drafters) {
  for (const CacheGroup& group : model_.groups) {
    log_.may_fail[static_cast<std::size_t>(group.pool.value())] = !group.is_draft || drafters;
  }
}

/// Makes a call with every one of its allocations failing in turn, then in earnest.
/// `may_move_windows`: that windows move on is all that a refusal may leave behind.
BlockStatus BlockWorld::attempt(const std::function<BlockStatus()>& call, bool may_move_windows) {
  for (std::int64_t fail_at = 0;; ++fail_at) {
    const std::uint64_t before = manager_.fingerprint();
    log_.clear();
    log_.fail_at = fail_at;
    const BlockStatus status = call();
    const bool injected = log_.asked > fail_at;
    if (status == BlockStatus::kOk || !injected) {
      log_.fail_at = -1;
      was_injected_ = injected;
      if (status != BlockStatus::kOk && may_move_windows) {
        after([] {}, {.windows_pass = true});
      }
      return status;
    }
    ++counts_.injected;
    expect(status == BlockStatus::kNoPages, "a failed allocation is answered by ",
           to_string(status));
    expect(log_.allocated.empty(), "a refused call took pages");
    if (may_move_windows) {
      after([] {}, {.windows_pass = true});
    } else {
      expect(manager_.fingerprint() == before, "a refused call changed the fingerprint");
    }
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
    s.drafts = manager_.drafts(ids_[id]);
    std::erase_if(s.last, [&, &of = s](const auto& entry) { return !has_group(of, entry.first); });
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

/// Pages that drafters had and nobody has now: a run keeps them, if they are alive, as long as a
/// sequence without drafter has it.
void BlockWorld::find_lingering(
    const std::map<std::pair<std::size_t, std::int32_t>, NaiveLinger>& drafted) {
  std::set<std::pair<std::size_t, std::int32_t>> known{{0, kGone}};
  for (const auto& [id, s] : model_.sequences) {
    for (std::size_t g = 0; g < model_.groups.size(); ++g) {
      for (const std::int32_t entry : s.rows[g]) {
        known.emplace(g, entry);
      }
    }
  }
  for (auto& [run, block] : model_.cache) {
    model_.for_pages(block, [&](std::size_t g, std::int32_t entry) { known.emplace(g, entry); });
  }
  for (const auto& [place, linger] : drafted) {
    if (place.second != kGone && model_.is(place.first, GroupKind::kFull) &&
        !known.contains(place) && is_alive(place.first, place.second, false)) {
      model_.lingering[place] = linger;
    }
  }
}

/// After a successful call: what the manager evicted, then the call's effect on the model.
void BlockWorld::after(const std::function<void()>& effect, Leeway leeway) {
  const auto known = [&](std::size_t g, std::int32_t e) { return is_alive(g, e, false); };
  const auto alive = [&](std::size_t g, std::int32_t e) { return is_alive(g, e, true); };
  for (const auto& [pool, entry] : log_.allocated) {
    NaivePage& page = model_.pages[static_cast<std::size_t>(pool)][entry];
    const bool is_passed = leeway.windows_pass && page.group >= 0 &&
                           model_.groups[static_cast<std::size_t>(page.group)].extent > Tokens{0};
    expect(!page.held || is_passed, "a page in use was handed out again");
    expect(page.earliest <= model_.completed, "a page was handed out before its epoch completed");
  }
  for (auto& [id, s] : model_.sequences) {
    std::erase_if(s.snapshots, [&](const auto& snapshot) {
      return !known(snapshot.first.second, snapshot.second);
    });
  }
  const std::size_t blocks = model_.cache.size();
  const std::string wrong = model_.absorb(known, leeway.windows_pass, leeway.drops_draft);
  expect(wrong.empty(), wrong);
  counts_.evictions += static_cast<std::int64_t>(blocks - model_.cache.size());
  for (const auto& [pool, entry] : log_.allocated) {
    NaivePage& page = model_.pages[static_cast<std::size_t>(pool)][entry];
    page.slots.clear();
    page.fence = page.earliest = 0;
  }
  std::map<std::pair<std::size_t, std::int32_t>, NaiveLinger> drafted;
  for (const auto& [id, s] : model_.sequences) {
    for (std::size_t g = 0; g < model_.groups.size(); ++g) {
      for (std::size_t b = 0; model_.groups[g].is_draft && b < s.rows[g].size(); ++b) {
        const std::int64_t first = static_cast<std::int64_t>(b) * model_.slots(g);
        const auto end = static_cast<std::size_t>((first / model_.block + 1) * model_.block);
        if (end < s.runs.size()) {
          drafted[{g, s.rows[g][b]}] = {
              model_.scope(s.query, first), s.runs[end],
              static_cast<std::size_t>(first % model_.block / model_.slots(g))};
        }
      }
    }
  }
  effect();
  model_.run_step();
  read_rows();
  model_.absorb(alive, true, true);
  find_lingering(drafted);
  for (const auto& [place, linger] : model_.lingering) {
    model_.page(place.first, place.second).fence = model_.opened;  // should it go now
  }
  std::erase_if(model_.lingering, [&](const auto& page) {
    return !is_alive(page.first.first, page.first.second, true) ||
           log_.allocated.contains(
               {model_.groups[page.first.first].pool.value(), page.first.second});
  });
  model_.settle(leeway.windows_pass);
  log_.clear();
}

/// A page that is copied may keep the blocks behind it, too, until the copy is done.
void BlockWorld::spare_behind(std::size_t group, std::int32_t source) {
  for (auto& [run, block] : model_.cache) {
    bool is_behind = false;
    model_.for_path(run, [&](const NaiveBlock& before) {
      is_behind = is_behind || std::ranges::count(before.pages[group], source) > 0;
    });
    if (is_behind) {
      model_.for_pages(block, [&](std::size_t g, std::int32_t entry) {
        NaivePage& page = model_.page(g, entry);
        page.fence = std::max(page.fence, model_.opened);
      });
    }
  }
}

void BlockWorld::take_copies(NaiveSequence* committing) {
  for (const PageCopy& copy : manager_.copies()) {
    const auto g = static_cast<std::size_t>(copy.group.value());
    note("  copy in " + model_.groups[g].name + ": " + std::to_string(copy.source.value()) +
         " to " + std::to_string(copy.destination.value()) +
         (copy.order == CopyOrder::kBeforeStep ? ", before" : ", after") + " the step");
    NaivePage& source = model_.page(g, copy.source.value());
    NaivePage& destination = model_.page(g, copy.destination.value());
    (copy.order == CopyOrder::kBeforeStep ? model_.copies_before : model_.copies_after)
        .emplace_back(&source, &destination);
    destination.group = copy.group.value();
    source.fence = std::max(source.fence, model_.opened);
    if (copy.reason == CopyReason::kPartialReuse) {
      spare_behind(g, copy.source.value());
    }
    expect(is_alive(g, copy.destination.value(), true), "a copy goes to a free page");
    if (copy.reason == CopyReason::kSnapshot) {
      ++counts_.snapshots;
      expect(committing != nullptr && model_.is(g, GroupKind::kState) &&
                 committing->rows[g][0] == copy.source.value(),
             "a snapshot of another sequence");
      destination.fence = destination.earliest = model_.opened;
      if (committing != nullptr) {
        committing->snapshots[{committing->committed, g}] = copy.destination.value();
        committing->last[g] = {committing->committed, copy.destination.value()};
      }
    }
    if (copy.reason == CopyReason::kRestoreSnapshot) {
      ++counts_.restored;
      NaiveSequence& restored = model_.sequences.rbegin()->second;  // admitted just now
      restored.last[g] = {restored.committed, copy.source.value()};
    }
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
  for (const auto& [place, linger] : model_.lingering) {
    plan.kept[model_.pool_of(place.first)].insert(place.second);
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
    for (const auto& [g, snapshot] : s.last) {
      if (in_pool(g)) {
        tenants[snapshot.second] = tenant_of(model_.scope(s.query, snapshot.first - 1));
      }
    }
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
    std::int64_t more = 0;  // what it may take beyond the least, whoever is charged
    for (std::size_t g = 0; most && g < model_.groups.size(); ++g) {
      more += model_.groups[g].pool.value() == pool ? plan.most[g] - plan.least[g] : 0;
    }
    const auto charged = plan.charged.find(tenant);
    const std::int64_t own = charged == plan.charged.end() ? 0 : charged->second[p];
    if (own + more == 0) {
      continue;
    }
    pages += own + more;
    // Cached pages that become live; whose they are matters only for the upper bound.
    for (const std::int32_t entry : plan.kept[p]) {
      pages += most && !held.contains(entry) ? 1 : 0;
    }
    // Its cached pages go first, but those that wait for an epoch need not.
    for (const auto& [entry, page] : model_.pages[p]) {
      pages += most && !page.held && page.group >= 0 && page.fence > model_.completed &&
                       is_alive(static_cast<std::size_t>(page.group), entry, true)
                   ? 1
                   : 0;
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

/// What is cached of a query now, as the manager tells.
std::int64_t BlockWorld::told_hit(const PrefixQuery& query, bool draft) const {
  PrefixQuery asked = query;
  asked.draft = draft ? DraftMode::kRequired : DraftMode::kOff;
  return manager_.match_prefix(asked).whole_blocks.count();
}

/// The hit rule, before it is cut by the look-ahead. Which block that goes on differently the
/// manager compares is its own affair: both answers are right.
std::int64_t BlockWorld::expected_hit(const PrefixQuery& query, bool draft, std::int64_t told) {
  const std::vector<Run> runs = model_.runs(query);
  const auto [whole, more] = naive_match(model_, runs);
  std::int64_t hit = 0;
  for (const std::int64_t matched : {whole, whole + more}) {
    std::int64_t limit = std::min(matched, static_cast<std::int64_t>(runs.size()) - 2);
    if (draft) {
      limit = std::max<std::int64_t>(
          0, std::min(limit, naive_drafted(model_, runs, whole, matched)) - lookahead_);
    }
    hit = naive_frontier(model_, runs, std::min(limit, whole), draft);
    if (hit == told) {
      break;
    }
  }
  return hit;
}

bool BlockWorld::shares_drafts(int id) const {
  const Rows& rows = model_.sequences.at(id).rows;
  for (const auto& [other, s] : model_.sequences) {
    for (std::size_t g = 0; other != id && g < rows.size(); ++g) {
      const std::size_t common = std::min(rows[g].size(), s.rows[g].size());
      for (std::size_t b = 0; model_.groups[g].is_draft && b < common; ++b) {
        if (rows[g][b] == s.rows[g][b] && rows[g][b] != kGone) {
          return true;
        }
      }
    }
  }
  return false;
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
    // Where forks share a run, what becomes of the drafter's pages depends on who ends first.
    if (const int id = random_sequence(); id >= 0 && !shares_drafts(id)) {
      note("stop drafting #" + std::to_string(id));
      log_.clear();
      expect(manager_.stop_drafting(ids_[id]) == BlockStatus::kOk, "stop_drafting");
      after([] {}, {.drops_draft = true});
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
    after([&] { forget_pin(id); });
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
           group.name, ": pages are missing at the end");
  }
  for (const Finding& finding : manager_.check_invariants(CheckLevel::kEverything)) {
    fail("invariant: " + finding.message);
  }
}

}  // namespace kvpool::test
