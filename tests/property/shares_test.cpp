// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Laws 3 and 4 over random requests: shares sum to the budget and are what the oracle derives, a
// refusal names what is missing and the least that works, and more memory never fits less.
#include <kvpool/memory/simulated_memory.hpp>
#include <kvpool/pool/pool_set.hpp>

#include "dice.hpp"
#include "scenario.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kvpool {
namespace {

using test::Config;
using test::Dice;
using test::Scenario;

constexpr std::uint64_t kSeed = 77'003;

/// All configs, and a generator of scenarios over them.
class Scenarios {
 public:
  explicit Scenarios(std::uint64_t seed) : dice_{seed} {
    auto folder = test::read_folder(std::string{KVPOOL_SOURCE_DIR} + "/tests/data/configs");
    for (Config& config : folder.configs) {
      (config.model.drafter.has_value() ? drafters_ : targets_).push_back(std::move(config));
    }
    // A drafter with a recurrent state, as an external draft model.
    externals_.push_back(test::own_config("lfm2-1.2b"));
    externals_.push_back(test::own_config("gemma-3-27b"));
  }

  Scenario next() {
    static const std::vector<KvDtype> kFormats{
        KvDtype::kBf16,  KvDtype::kBf16,     KvDtype::kFp8E4m3, KvDtype::kFp8E4m3PerTokenHead,
        KvDtype::kNvfp4, KvDtype::kFp8DsMla, KvDtype::kFp4Mla,  KvDtype::kFp32};
    Scenario s{.target = &dice_.of(targets_)};
    s.dtype = dice_.of(kFormats);
    s.page = dice_.one_in(4) ? 1 + dice_.below(200) : std::int64_t{16} << dice_.below(4);
    s.tp = std::int64_t{1} << dice_.below(5);
    if (dice_.one_in(3)) {
      s.pp = 1 + dice_.below(std::min<std::int64_t>(
                     8, static_cast<std::int64_t>(s.target->model.layers.size())));
    }
    s.attention_dp = dice_.one_in(5);
    if (dice_.one_in(3) && !s.attention_dp) {
      s.context_parallel = std::min(s.tp, std::int64_t{1} << dice_.below(4));
    }
    if (!dice_.one_in(3)) {
      s.sequences = dice_.spread(0, 8);
    }
    s.length =
        std::min(dice_.spread(0, 18), std::max<std::int64_t>(1, s.target->law.max_positions));
    s.step_tokens = dice_.one_in(4) ? 0 : dice_.spread(4, 14);
    s.snapshots = dice_.one_in(4) ? dice_.below(3) : 0;
    s.reserved = dice_.below(3);
    s.granule = std::int64_t{1} << (dice_.one_in(2) ? 21 : dice_.below(26));
    s.budget = dice_.one_in(20) ? dice_.below(1000) : dice_.spread(18, 38);
    s.layout.rows = dice_.one_in(2) ? RowOrder::kHnd : RowOrder::kNhd;
    s.layout.pages = dice_.one_in(4) ? PageOrder::kLayerMajor : PageOrder::kPageMajor;
    add_drafter(s);
    return s;
  }

  Dice& dice() { return dice_; }

 private:
  void add_drafter(Scenario& s) {
    switch (dice_.below(5)) {
      case 0: return;
      case 1:
        if (s.target->law.mtp_layers > 0) {
          s.drafter = DrafterKind::kMtp;
        }
        break;
      case 2:
        s.drafter = DrafterKind::kDraftTarget;
        s.drafter_config = &dice_.of(externals_);
        break;
      default:
        s.drafter_config = &dice_.of(drafters_);
        s.drafter = s.drafter_config->model.drafter->kind;
    }
    if (s.drafter.has_value() && dice_.one_in(2)) {
      s.draft_tokens = 1 + dice_.below(16);
    }
  }

  Dice dice_;
  std::vector<Config> targets_;
  std::vector<Config> drafters_;
  std::vector<Config> externals_;
};

/// What a token costs on one side, rounded up, in tokens of a granule.
std::int64_t tokens_of_a_granule(std::int64_t granule, std::int64_t slab,
                                 std::int64_t slab_tokens) {
  return static_cast<std::int64_t>((static_cast<oracle::Wide>(granule) * slab_tokens + slab - 1) /
                                   slab);
}

std::string check_shares(const Scenario& s, const Plan& plan) {
  for (const PoolPlan& rank : plan.ranks) {
    std::int64_t sum = rank.workspace.count();
    for (std::size_t i = 0; i < rank.pools.size(); ++i) {
      const PoolAccount& account = rank.accounts[i];
      const PoolDescriptor& pool = rank.pools[i];
      sum += account.share.count();
      if (account.pages + account.slab_waste + account.reserved + account.loss != account.share) {
        return account.pool + ": the account does not sum to the share";
      }
      if (account.loss < Bytes{0} || account.loss >= pool.slab_bytes + pool.granularity) {
        return account.pool + ": loss " + std::to_string(account.loss.count());
      }
      if (account.charged > account.share || account.charged < pool.bytes() ||
          (account.charged % pool.granularity).count() != 0) {
        return account.pool + ": charged " + std::to_string(account.charged.count());
      }
      std::int64_t pages = 0;
      for (const PooledGroup& group : pool.groups) {
        pages += group.planned_pages().count() * group.page.page_bytes.count();
      }
      if (account.pages.count() != pages ||
          account.reserved.count() != s.reserved * pool.slab_bytes.count()) {
        return account.pool + ": pages " + std::to_string(account.pages.count()) + ", not " +
               std::to_string(pages);
      }
      for (const PooledGroup& group : pool.groups) {
        const std::int64_t waste =
            pool.slab_bytes.count() - group.pages_per_slab * group.page.page_bytes.count();
        if (waste < 0 || 100 * waste > pool.slab_bytes.count()) {
          return account.pool + ": a slab wastes " + std::to_string(waste);
        }
      }
    }
    if (!rank.pools.empty() && sum != s.budget) {
      return "shares sum to " + std::to_string(sum);
    }
  }
  // The ledger from the KV budget down sums to it.
  const auto budget = std::ranges::find(plan.ledger, "kv_budget", &LedgerLine::name);
  std::int64_t below = 0;
  for (auto line = budget + 1; line != plan.ledger.end(); ++line) {
    below += line->bytes.count();
  }
  if (!plan.ranks.at(plan.smallest_rank).pools.empty() && below != s.budget) {
    return "the ledger sums to " + std::to_string(below);
  }
  return {};
}

/// Usable tokens of target and draft are as close as pages and granules let them be.
std::string check_balance(const Scenario& s, const oracle::Request& law,
                          const std::vector<oracle::Stage>& stages) {
  for (const oracle::Stage& stage : stages) {
    if (!stage.target_grows || !stage.draft_grows) {
      continue;
    }
    // The last page of each sequence is set aside on top, in pages of either size.
    const std::int64_t n = s.sequences.has_value() ? *s.sequences : 0;
    const std::int64_t dcp = s.context_parallel;
    const std::int64_t target = stage.target_tokens - n * (law.page - 1) * dcp;
    const std::int64_t draft = stage.draft_tokens - n * (law.draft_page - 1) * dcp;
    const std::int64_t most =
        std::max(stage.target_slab_tokens, stage.draft_slab_tokens) +
        tokens_of_a_granule(s.granule, stage.target_slab, stage.target_slab_tokens) +
        tokens_of_a_granule(s.granule, stage.draft_slab, stage.draft_slab_tokens);
    if (std::abs(target - draft) >= most * dcp) {
      return "target holds " + std::to_string(target) + " tokens, draft " + std::to_string(draft);
    }
  }
  return {};
}

/// `tokens`, `sequences` and `max_len` say exactly what the pools hold.
std::string check_capacity(const oracle::Request& law, const Plan& plan,
                           const std::vector<oracle::Stage>& stages) {
  std::int64_t tokens = -1;
  for (const oracle::Stage& stage : stages) {
    for (const auto& [grows, held] : {std::pair{stage.target_grows, stage.target_tokens},
                                      std::pair{stage.draft_grows, stage.draft_tokens}}) {
      if (grows && (tokens < 0 || held < tokens)) {
        tokens = held;
      }
    }
  }
  const Capacity& capacity = plan.capacity;
  if (tokens >= 0 && capacity.tokens.count() != tokens) {
    return "tokens " + std::to_string(capacity.tokens.count()) + ", not " + std::to_string(tokens);
  }
  const auto holds = [&](std::int64_t sequences, std::int64_t length) {
    oracle::Request load = law;
    load.sequences = sequences;
    load.draft_length = std::min(load.draft_length, length);
    load.length = length;
    return oracle::holds(stages, load);
  };
  const std::int64_t n = capacity.sequences.count();
  if ((n > 0 && !holds(n, law.length)) || holds(n + 1, law.length)) {
    return "sequences " + std::to_string(n) + " is not the most";
  }
  const std::int64_t longest = capacity.max_len.count();
  if ((longest > 0 && !holds(law.sequences, longest)) ||
      (longest < law.length && holds(law.sequences, longest + 1))) {
    return "max_len " + std::to_string(longest) + " is not the longest";
  }
  if (plan.fits != (longest == law.length)) {
    return "fits and max_len disagree";
  }
  return {};
}

/// The number that `pattern` finds in a refusal's remedy, or nothing.
std::optional<std::int64_t> remedy(const Refusal& refusal, const std::string& pattern) {
  std::smatch match;
  if (!std::regex_search(refusal.least_that_works, match, std::regex{pattern})) {
    return std::nullopt;
  }
  std::string digits = match[1].str();
  std::erase(digits, ',');
  return std::stoll(digits);
}

/// What a refusal says would work, works; a byte less does not.
std::string check_remedies(const Scenario& s, const Plan& plan) {
  const auto fits = [](const Scenario& changed) {
    const auto again = make_plan(test::request_of(changed), test::known());
    return again.has_value() && again->fits;
  };
  const Refusal& refusal = plan.refusals.at(0);
  if (refusal.id != "does_not_fit" || plan.refusals.size() != 1) {
    return "refused for " + refusal.id;
  }
  Scenario least = s;
  least.budget = s.budget + refusal.missing_bytes.count();
  if (refusal.missing_bytes <= Bytes{0} || !fits(least)) {
    return "the missing " + std::to_string(refusal.missing_bytes.count()) + " do not suffice";
  }
  if (remedy(refusal, "a KV budget of ([0-9,]+) B") != least.budget) {
    return "the remedy names another budget: " + refusal.least_that_works;
  }
  --least.budget;
  if (fits(least)) {
    return "a byte less than the missing suffices";
  }
  if (const auto length = remedy(refusal, "a longest sequence of ([0-9]+) token")) {
    Scenario shorter = s;
    shorter.length = *length;
    if (!fits(shorter)) {
      return "a longest sequence of " + std::to_string(*length) + " does not fit";
    }
  }
  if (const auto sequences = remedy(refusal, "([0-9]+) sequences? at a time")) {
    Scenario fewer = s;
    fewer.sequences = *sequences;
    if (!fits(fewer)) {
      return std::to_string(*sequences) + " sequences at a time do not fit";
    }
  }
  return {};
}

std::string check_refused(const Plan& plan, const std::set<std::string>& expected) {
  std::set<std::string> ids;
  for (const Refusal& refusal : plan.refusals) {
    ids.insert(refusal.id);
    if (refusal.what.empty() || refusal.least_that_works.empty()) {
      return refusal.id + " does not say what would work";
    }
  }
  if (ids != expected || plan.fits || !plan.ranks.empty()) {
    std::string text = "refused for";
    for (const std::string& id : ids) {
      text += " " + id;
    }
    return text;
  }
  return {};
}

struct Seen {
  int fits = 0;
  int does_not_fit = 0;
  int infeasible = 0;
  int refused = 0;
  int shared = 0;
  int separate = 0;
  int states = 0;
  int staged = 0;
};

std::string check(const Scenario& s, Seen& seen) {
  const PlanRequest request = test::request_of(s);
  const auto plan = make_plan(request, test::known());
  if (!plan) {
    return "error " + plan.error().key + ": " + plan.error().message;
  }
  if (const auto again = make_plan(request, test::known()); !again || !(*again == *plan)) {
    return "the same request gave another plan";
  }
  oracle::Request law = test::law_of(s);
  if (s.drafter == DrafterKind::kDraftTarget) {
    law.draft_page = s.page;
  }
  const std::set<std::string> refused = oracle::refusals(law);
  if (!refused.empty()) {
    ++seen.refused;
    return check_refused(*plan, refused);
  }
  if (!plan->resolution.refusals.empty()) {
    return "refused: " + plan->resolution.refusals[0].what;
  }
  const std::vector<oracle::Stage> stages = oracle::plan(law);
  if (plan->fits != oracle::fits(stages)) {
    return plan->fits ? "fits, but should not" : "should fit";
  }
  const bool feasible =
      std::ranges::all_of(stages, [](const oracle::Stage& stage) { return stage.feasible; });
  if (feasible == plan->ranks.empty()) {
    return "feasible: " + std::to_string(feasible);
  }
  if (feasible) {
    for (const std::string& wrong :
         {test::difference(*plan, stages), check_shares(s, *plan), check_balance(s, law, stages),
          check_capacity(law, *plan, stages)}) {
      if (!wrong.empty()) {
        return wrong;
      }
    }
    for (const PoolDescriptor& pool : plan->ranks.front().pools) {
      seen.shared += pool.groups.size() > 1 ? 1 : 0;
      seen.separate += pool.name.find('/') != std::string::npos ? 1 : 0;
      seen.states += pool.role == PoolRole::kState ? 1 : 0;
    }
    seen.staged += plan->ranks.size() > 1 ? 1 : 0;
  } else {
    ++seen.infeasible;
  }
  ++(plan->fits ? seen.fits : seen.does_not_fit);
  return plan->fits ? (plan->refusals.empty() ? std::string{} : "fits and is refused")
                    : check_remedies(s, *plan);
}

}  // namespace

TEST_CASE("shares sum, are what the oracle derives, and refusals name the least that works") {
  INFO("seed " << kSeed);
  Scenarios scenarios{kSeed};
  Seen seen;
  int failures = 0;
  for (int i = 0; i < 4000; ++i) {
    const Scenario s = scenarios.next();
    const std::string wrong = check(s, seen);
    if (!wrong.empty() && ++failures <= 10) {
      INFO("scenario " << i << ": " << s.text());
      CHECK(wrong == "");
    }
  }
  CHECK(failures == 0);
  // The generator reaches every corner.
  CHECK(seen.fits > 500);
  CHECK(seen.does_not_fit > 500);
  CHECK(seen.infeasible > 100);
  CHECK(seen.refused > 100);
  CHECK(seen.shared > 50);
  CHECK(seen.separate > 20);
  CHECK(seen.states > 100);
  CHECK(seen.staged > 200);
}

TEST_CASE("more memory never fits less") {
  INFO("seed " << kSeed + 1);
  Scenarios scenarios{kSeed + 1};
  int compared = 0;
  for (int i = 0; i < 400; ++i) {
    Scenario s = scenarios.next();
    PlanRequest request = test::request_of(s);
    if (!oracle::refusals(test::law_of(s)).empty()) {
      continue;
    }
    std::vector<std::int64_t> budgets;
    for (int j = 0; j < 6; ++j) {
      budgets.push_back(scenarios.dice().spread(20, 38));
      budgets.push_back(budgets.back() + scenarios.dice().spread(0, 22));
    }
    std::ranges::sort(budgets);
    Capacity before;
    bool fitted = false;
    for (const std::int64_t budget : budgets) {
      request.budget.kv_budget = Bytes{budget};
      const auto plan = make_plan(request, test::known());
      INFO("scenario " << i << ", budget " << budget << ": " << s.text());
      REQUIRE(plan.has_value());
      const Capacity& now = plan->capacity;
      const bool grown = now.tokens >= before.tokens && now.sequences >= before.sequences &&
                         now.max_len >= before.max_len && (plan->fits || !fitted);
      CHECK(grown);
      before = now;
      fitted = plan->fits;
      ++compared;
    }
  }
  CHECK(compared > 2000);
}

TEST_CASE("a plan with a state of tails: fp4_mla target, its MTP layer and a drafter") {
  const Config target = test::own_config("deepseek-v3");
  Seen seen;
  for (const std::int64_t tokens : {1, 3, 8}) {
    for (const std::int64_t pp : {1, 2, 5}) {
      Scenario s{.target = &target,
                 .drafter = DrafterKind::kMtp,
                 .dtype = KvDtype::kFp4Mla,
                 .page = 128,
                 .draft_tokens = tokens,
                 .pp = pp,
                 .sequences = 16,
                 .length = 8192};
      INFO(s.text());
      CHECK(check(s, seen) == "");
    }
  }
  CHECK(seen.fits == 9);
}

TEST_CASE("common_plan takes the fewest pages of each group over the ranks") {
  INFO("seed " << kSeed + 2);
  Scenarios scenarios{kSeed + 2};
  int checked = 0;
  for (int i = 0; i < 3000 && checked < 120; ++i) {
    Scenario s = scenarios.next();
    s.pp = std::min<std::int64_t>(3, static_cast<std::int64_t>(s.target->model.layers.size()));
    s.budget = scenarios.dice().spread(34, 38);
    const auto plan = make_plan(test::request_of(s), test::known());
    if (!plan || plan->ranks.size() < 2) {
      continue;
    }
    const auto common = common_plan(plan->ranks);
    INFO("scenario " << i << ": " << s.text());
    REQUIRE(common.has_value());
    REQUIRE(common->size() == plan->ranks.size());
    ++checked;
    for (std::size_t rank = 0; rank < common->size(); ++rank) {
      for (std::size_t p = 0; p < (*common)[rank].pools.size(); ++p) {
        const PoolDescriptor& pool = (*common)[rank].pools[p];
        const PoolAccount& account = (*common)[rank].accounts[p];
        std::int64_t slabs = 0;
        for (const PooledGroup& group : pool.groups) {
          slabs += group.planned_slabs.count();
          // The fewest pages that any rank has for this group of this pool.
          std::int64_t fewest = group.planned_pages().count();
          for (const PoolPlan& other : plan->ranks) {
            for (const PoolDescriptor& theirs : other.pools) {
              for (const PooledGroup& same : theirs.groups) {
                if (theirs.name == pool.name && same.group.span == group.group.span &&
                    same.group.is_state == group.group.is_state) {
                  fewest = std::min(fewest, same.planned_pages().count());
                }
              }
            }
          }
          // In whole slabs, so up to a slab more.
          CHECK(group.planned_pages().count() - fewest < group.pages_per_slab);
          CHECK(group.planned_pages().count() >= fewest);
        }
        CHECK(slabs == pool.slabs.count());
        CHECK(pool.slabs <= plan->ranks[rank].pools[p].slabs);
        CHECK(account.pages + account.slab_waste + account.reserved + account.loss ==
              account.share);
        CHECK(account.charged == pool.charged_bytes());
      }
    }
  }
  CHECK(checked == 120);
  CHECK_FALSE(common_plan({}).has_value());
}

namespace {

/// Byte ranges of every row of a view.
void add_rows(const TensorView& view, std::vector<std::pair<std::int64_t, std::int64_t>>& rows) {
  const std::size_t outer = view.shape.size() - 1;
  const std::int64_t bytes = view.shape[outer] * view.strides[outer];
  std::vector<std::int64_t> at(outer, 0);
  while (true) {
    std::int64_t offset = view.offset.count();
    for (std::size_t i = 0; i < outer; ++i) {
      offset += at[i] * view.strides[i];
    }
    rows.emplace_back(offset, offset + bytes);
    std::size_t i = outer;
    while (i > 0 && ++at[i - 1] == view.shape[i - 1]) {
      at[--i] = 0;
    }
    if (i == 0) {
      return;
    }
  }
}

}  // namespace

TEST_CASE("no two rows of a pool with one group overlap, and all lie inside it") {
  INFO("seed " << kSeed + 3);
  Scenarios scenarios{kSeed + 3};
  int pools = 0;
  int adopted = 0;
  for (int i = 0; i < 2000 && pools < 150; ++i) {
    Scenario s = scenarios.next();
    s.pp = 1;
    s.page = 1 + scenarios.dice().below(8);
    s.tp = 16;
    s.attention_dp = scenarios.dice().one_in(3);
    s.context_parallel = 1;
    s.budget = std::int64_t{1} << 36;
    s.dtype = s.dtype == KvDtype::kFp4Mla ? KvDtype::kBf16 : s.dtype;
    const auto plan = make_plan(test::request_of(s), test::known());
    if (!plan || plan->ranks.empty()) {
      continue;
    }
    for (PoolDescriptor pool : plan->ranks[0].pools) {
      if (pool.groups.size() != 1 || pool.groups[0].page.page_bytes > Bytes{4 << 20}) {
        continue;
      }
      pool.slabs = Slabs{2};
      INFO("scenario " << i << ", pool " << pool.name << ": " << s.text());
      std::vector<std::pair<std::int64_t, std::int64_t>> rows;
      for (const TensorView& view : views_of(pool, 0)) {
        CHECK(view.shape.at(0) == 2 + s.reserved);
        add_rows(view, rows);
      }
      std::ranges::sort(rows);
      REQUIRE_FALSE(rows.empty());
      CHECK(rows.front().first >= 0);
      CHECK(rows.back().second <= pool.bytes().count());
      std::int64_t overlaps = 0;
      for (std::size_t r = 1; r < rows.size(); ++r) {
        overlaps += rows[r].first < rows[r - 1].second ? 1 : 0;
      }
      CHECK(overlaps == 0);
      ++pools;
      adopted += s.attention_dp && s.drafter == DrafterKind::kEagle3 ? 1 : 0;
    }
  }
  CHECK(pools >= 150);
  CHECK(adopted > 0);
}

// The layers of Eagle3 are numbered from 0 in their own config, and join the target's.
TEST_CASE("layers that join the target's pool have numbers and places of their own") {
  const Config target = test::own_config("llama-3.1-8b");
  const Config drafter = test::own_config("eagle3-llama-8b");
  for (const PageOrder order : {PageOrder::kPageMajor, PageOrder::kLayerMajor}) {
    Scenario s{.target = &target,
               .drafter = DrafterKind::kEagle3,
               .drafter_config = &drafter,
               .page = 4,
               .attention_dp = true,
               .layout = {.pages = order}};
    const auto plan = make_plan(test::request_of(s), test::known());
    REQUIRE(plan.has_value());
    REQUIRE(plan->ranks.at(0).pools.size() == 1);
    PoolDescriptor pool = plan->ranks[0].pools[0];
    pool.slabs = Slabs{2};
    const auto views = views_of(pool, 0);
    REQUIRE(views.size() == 33);
    std::set<std::int32_t> layers;
    std::vector<std::pair<std::int64_t, std::int64_t>> rows;
    for (const TensorView& view : views) {
      layers.insert(view.layer.value());
      add_rows(view, rows);
    }
    CHECK(layers.size() == 33);
    CHECK(*layers.rbegin() == 32);
    std::ranges::sort(rows);
    std::int64_t overlaps = 0;
    for (std::size_t r = 1; r < rows.size(); ++r) {
      overlaps += rows[r].first < rows[r - 1].second ? 1 : 0;
    }
    CHECK(overlaps == 0);
    CHECK(rows.back().second <= pool.bytes().count());
  }
}

TEST_CASE("rows start at multiples of 16 bytes") {
  Scenarios scenarios{kSeed + 4};
  for (int i = 0; i < 100; ++i) {
    const Scenario s = scenarios.next();
    const auto plan = make_plan(test::request_of(s), test::known());
    if (!plan || plan->ranks.empty()) {
      continue;
    }
    for (const PoolDescriptor& pool : plan->ranks[0].pools) {
      CHECK(pool.unit_bytes.count() % 16 == 0);
      for (std::size_t group = 0; group < pool.groups.size(); ++group) {
        for (const TensorView& view : views_of(pool, group)) {
          INFO(s.text() << ' ' << pool.name << ' ' << to_string(view.kind));
          CHECK(view.offset.count() % 16 == 0);
          CHECK(view.strides.at(0) % 16 == 0);
        }
      }
    }
  }
}

}  // namespace kvpool
