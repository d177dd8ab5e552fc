// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/planner.hpp>

#include <kvpool/core/size_text.hpp>
#include <kvpool/memory/simulated_memory.hpp>
#include <kvpool/pool/pool_set.hpp>

#include "core/format.hpp"
#include "plan/request_checks.hpp"
#include "plan/stage_pools.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace kvpool {
namespace {

constexpr std::int64_t kMostSequences = std::int64_t{1} << 31;
constexpr std::int64_t kLargestBudget = std::int64_t{1} << 62;
/// Table entries are 32-bit, signed.
constexpr std::int64_t kMostTableEntries = std::int64_t{1} << 31;

/// Largest x in [low, high] for which `holds`, which holds for `low` and never again once it fails.
template <typename Holds>
std::int64_t largest(std::int64_t low, std::int64_t high, const Holds& holds) {
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2 + (high - low) % 2;
    if (holds(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/// One request on its way to a plan: stages described once, sized for any budget.
class Allocation {
 public:
  Allocation(const PlanRequest& request, const Resolution& resolution,
             std::vector<StagePools> stages)
      : stages_{std::move(stages)},
        planned_{.sequences = resolution.sequences, .length = resolution.max_model_len},
        rules_{sizing_rules(request, resolution)},
        workspace_{align_up(resolution.workspace, granularity_of(request))} {}

  [[nodiscard]] const std::vector<StagePools>& stages() const { return stages_; }

  /// One budget for each stage.
  void size(std::vector<Bytes> budgets) {
    budgets_ = std::move(budgets);
    sizes_.clear();
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      sizes_.push_back(size_stage(stages_[i], budgets_[i] - workspace_, planned_, rules_));
    }
  }

  [[nodiscard]] bool fits(Load load) const {
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      if (!stage_fits(stages_[i], sizes_[i], load, rules_)) {
        return false;
      }
    }
    return true;
  }
  [[nodiscard]] bool fits() const { return fits(planned_); }

  [[nodiscard]] bool fits_within(const std::vector<Bytes>& budgets) {
    size(budgets);
    return is_feasible() && fits();
  }

  [[nodiscard]] bool is_feasible() const {
    return std::ranges::all_of(sizes_, [](const StageSizes& s) { return s.missing.count() <= 0; });
  }

  /// Sequences of this length that fit on every stage.
  [[nodiscard]] Sequences most_sequences(Tokens length) const {
    return Sequences{largest(0, kMostSequences, [&](std::int64_t n) {
      return fits({.sequences = Sequences{n}, .length = length});
    })};
  }

  /// Longest length up to the planned one at which the planned sequences fit.
  [[nodiscard]] Tokens longest() const {
    return Tokens{largest(0, planned_.length.count(), [&](std::int64_t length) {
      return length == 0 || fits({.sequences = planned_.sequences, .length = Tokens{length}});
    })};
  }

  [[nodiscard]] std::optional<Tokens> tokens(std::size_t stage) const {
    return stage_tokens(stages_[stage], sizes_[stage], planned_, rules_);
  }

  /// The stage that runs out first; stages that nothing grows on do not count.
  [[nodiscard]] std::size_t smallest() const {
    const auto keeps_something = [](const StageSizes& sizes) { return !sizes.slabs.empty(); };
    auto smallest =
        static_cast<std::size_t>(std::ranges::find_if(sizes_, keeps_something) - sizes_.begin());
    std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const std::int64_t here = tokens(i).value_or(Tokens{fewest}).count();
      if (here < fewest) {
        fewest = here;
        smallest = i;
      }
    }
    return smallest;
  }

  /// Smallest budget in which a stage holds the planned load; nothing when none below 2^62 bytes
  /// does.
  [[nodiscard]] std::optional<Bytes> least_budget(std::size_t stage) const {
    const auto suffices = [this, stage](std::int64_t budget) {
      const StageSizes sizes =
          size_stage(stages_[stage], Bytes{budget} - workspace_, planned_, rules_);
      return sizes.missing.count() <= 0 && stage_fits(stages_[stage], sizes, planned_, rules_);
    };
    if (!suffices(kLargestBudget)) {
      return std::nullopt;
    }
    const std::int64_t too_little = largest(
        -1, kLargestBudget, [&](std::int64_t budget) { return budget < 0 || !suffices(budget); });
    return Bytes{too_little + 1};
  }

  /// Longest sequence for which a plan in these budgets fits, the number of sequences being kept.
  [[nodiscard]] Tokens longest_planned(const std::vector<Bytes>& budgets) const {
    Allocation probe = *this;
    return Tokens{largest(0, planned_.length.count(), [&](std::int64_t length) {
      probe.planned_.length = Tokens{length};
      return length == 0 || probe.fits_within(budgets);
    })};
  }

  /// Most sequences for which a plan in these budgets fits, their length being kept.
  [[nodiscard]] Sequences most_planned(const std::vector<Bytes>& budgets) const {
    Allocation probe = *this;
    return Sequences{largest(0, planned_.sequences.count(), [&](std::int64_t sequences) {
      probe.planned_.sequences = Sequences{sequences};
      return sequences == 0 || probe.fits_within(budgets);
    })};
  }

  /// The stage's pools, allocated on simulated memory; what was held fills the accounts.
  [[nodiscard]] Result<PoolPlan> allocate(std::size_t index) const {
    const StagePools& stage = stages_[index];
    const StageSizes& sizes = sizes_[index];
    PoolPlan plan{.stage = stage.stage,
                  .rank = stage.rank,
                  .budget = budgets_[index],
                  .workspace = workspace_,
                  .pools = sized_pools(stage, sizes, planned_, rules_)};
    for (const PoolDescriptor& pool : plan.pools) {
      if (pool.bytes() / pool.unit_bytes >= kMostTableEntries) {
        return Error{.code = ErrorCode::kOutOfRange,
                     .message = fmt::format(
                         "pool {} has {} table entries of {} bytes; entries have "
                         "32 bits: use larger pages",
                         pool.name, pool.bytes() / pool.unit_bytes, pool.unit_bytes.count()),
                     .key = "page_size"};
      }
    }
    if (plan.pools.empty()) {
      return plan;
    }
    auto memory = SimulatedMemory::create({.granularity = plan.pools.front().granularity});
    if (!memory) {
      return std::move(memory).error();
    }
    auto set = PoolSet::create(plan.pools, AnyPageMemory{*std::move(memory)});
    if (!set) {
      return std::move(set).error();
    }
    for (std::size_t i = 0; i < plan.pools.size(); ++i) {
      const PoolDescriptor& pool = plan.pools[i];
      const Bytes reserved = pool.reserved_slabs.count() * pool.slab_bytes;
      const Bytes waste = pool.slab_waste();
      plan.accounts.push_back({.pool = pool.name,
                               .share = sizes.shares[i],
                               .pages = pool.bytes() - reserved - waste,
                               .slab_waste = waste,
                               .reserved = reserved,
                               .loss = sizes.shares[i] - pool.bytes(),
                               .charged = set->ledger()[i].held});
    }
    return plan;
  }

 private:
  std::vector<StagePools> stages_;
  std::vector<StageSizes> sizes_;
  std::vector<Bytes> budgets_;
  Load planned_;
  SizingRules rules_;
  Bytes workspace_;
};

LedgerLine exact_line(std::string name, Bytes bytes, std::string reason) {
  return {.name = std::move(name),
          .bytes = bytes,
          .kind = LedgerKind::kExact,
          .low = bytes,
          .high = bytes,
          .reason = std::move(reason)};
}

std::string workspace_reason(const PoolPlan& rank, KernelSet kernel_set) {
  if (kernel_set != KernelSet::kKvpool) {
    return "no bundled kernel is planned for, so none needs a workspace";
  }
  return rank.workspace.count() == 0
             ? "the bundled kernels that run here need none"
             : "shared by the bundled kernels, for the largest shape, in whole granules";
}

/// The lines below `kv_budget`: they sum to it.
void append_pool_lines(const PoolPlan& rank, KernelSet kernel_set,
                       std::vector<LedgerLine>& ledger) {
  Bytes waste;
  Bytes reserved;
  Bytes loss;
  for (std::size_t i = 0; i < rank.pools.size(); ++i) {
    const PoolAccount& account = rank.accounts[i];
    const PoolDescriptor& pool = rank.pools[i];
    ledger.push_back(exact_line(
        fmt::format("pool:{}", pool.name), account.pages,
        pool.groups.size() == 1
            ? fmt::format("{} pages of {} B", format_count(pool.slabs.count()),
                          format_count(pool.slab_bytes.count()))
            : fmt::format("{} slabs of {} B, shared by {} groups", format_count(pool.slabs.count()),
                          format_count(pool.slab_bytes.count()), pool.groups.size())));
    waste += account.slab_waste;
    reserved += account.reserved;
    loss += account.loss;
  }
  ledger.push_back(exact_line("workspaces", rank.workspace, workspace_reason(rank, kernel_set)));
  ledger.push_back(exact_line("reserved_pages", reserved, "guard pages at the start of the pools"));
  ledger.push_back(exact_line("slab_waste", waste, "ends of slabs that no page covers"));
  ledger.push_back(exact_line("rounding_loss", loss, "less than a slab and a granule per pool"));
}

std::string sequences_text(Sequences sequences) {
  return fmt::format("{} sequence{}", format_count(sequences.count()),
                     sequences.count() == 1 ? "" : "s");
}

/// The stage that lacks most, and what it and all of them would need.
struct Shortage {
  std::size_t stage = 0;
  Bytes missing{};
  Bytes least{};
  /// Budget with which every stage would do.
  Bytes least_of_all{};
};

/// Nothing when some stage would need 2^62 bytes or more.
std::optional<Shortage> shortage_of(const Allocation& allocation,
                                    const std::vector<Bytes>& budgets) {
  Shortage worst;
  for (std::size_t stage = 0; stage < budgets.size(); ++stage) {
    const auto least = allocation.least_budget(stage);
    if (!least.has_value()) {
      return std::nullopt;
    }
    worst.least_of_all = std::max(worst.least_of_all, *least);
    if (const Bytes missing = *least - budgets[stage]; stage == 0 || missing > worst.missing) {
      worst.stage = stage;
      worst.missing = missing;
      worst.least = *least;
    }
  }
  return worst;
}

Refusal does_not_fit(const Allocation& allocation, const std::optional<Shortage>& shortage,
                     const Resolution& resolution, const std::vector<Bytes>& budgets) {
  Refusal refusal{.id = "does_not_fit"};
  const std::string asked = fmt::format("{} of {} tokens", sequences_text(resolution.sequences),
                                        format_count(resolution.max_model_len.count()));
  const std::string_view need = resolution.sequences.count() == 1 ? "needs" : "need";
  if (shortage.has_value()) {
    const bool alike = std::ranges::equal(budgets, std::vector(budgets.size(), budgets.front()));
    refusal.missing_bytes = shortage->missing;
    refusal.what = fmt::format("{} {} a KV budget of {} on a rank{}, and {} are there", asked, need,
                               size_text(shortage->least),
                               alike ? std::string{} : fmt::format(" of stage {}", shortage->stage),
                               size_text(budgets[shortage->stage]));
    refusal.least_that_works = fmt::format("a KV budget of {}", size_text(shortage->least_of_all));
  } else {
    refusal.missing_bytes = Bytes{kLargestBudget} - std::ranges::min(budgets);
    refusal.what = fmt::format("{} {} more than 2^62 bytes on a rank", asked, need);
    refusal.least_that_works = "less to hold";
  }
  // What a plan for less would hold: states and windows shrink with the load.
  if (const Tokens length = allocation.longest_planned(budgets); length.count() > 0) {
    refusal.least_that_works +=
        fmt::format(", or a longest sequence of {} tokens", format_count(length.count()));
  }
  if (const Sequences most = allocation.most_planned(budgets); most.count() > 0) {
    refusal.least_that_works += fmt::format(", or {} at a time", sequences_text(most));
  }
  return refusal;
}

/// Bytes of a drafter's private arena in its engine's geometry, for comparison with its pool.
std::optional<Bytes> arena_of(const PlanRequest& request, const Resolution& resolution) {
  constexpr Tokens kArenaPage{32};
  const bool comparable = request.drafter.has_value() && request.drafter->model.has_value() &&
                          resolution.draft_pool == DraftPoolKind::kOwnPool &&
                          (request.drafter->kind == DrafterKind::kDflash ||
                           request.drafter->kind == DrafterKind::kDspark);
  if (!comparable) {
    return std::nullopt;
  }
  const auto layers =
      layer_geometry(request.drafter->model->layers, request.parallelism, resolution.draft_formats);
  if (!layers) {
    return std::nullopt;
  }
  const Tokens capacity = resolution.draft_max_len + resolution.draft_tokens;
  CheckedInt bytes{0};
  for (const LayerGroup& group : group_layers(*layers)) {
    const auto page = page_geometry(group, group.is_state ? Tokens{0} : kArenaPage, PageLayout{});
    if (!page || group.is_state) {
      return std::nullopt;
    }
    bytes += private_arena_bytes(*page, resolution.sequences.count() + 1, capacity).count();
  }
  return Bytes{bytes.saturated()};
}

void note_planned_sequences(const PlanRequest& request, const std::vector<StagePools>& stages,
                            std::vector<Decision>& decisions) {
  if (request.workload.max_num_seqs.has_value()) {
    return;
  }
  for (const StagePools& stage : stages) {
    const auto has_fixed = [](const std::optional<ModelPools>& model) {
      return model.has_value() &&
             (!model->grows || model->pools.size() > 1 || model->pools.front().groups.size() > 1);
    };
    if (!stage.states.empty() || has_fixed(stage.target) || has_fixed(stage.draft)) {
      decisions.push_back(
          {.id = "max_num_seqs",
           .chosen = "1",
           .reason = "states and windows are sized by the number of sequences, and none was asked "
                     "for: --max-num-seqs"});
      return;
    }
  }
}

Capacity capacity_of(const Allocation& allocation, const Resolution& resolution,
                     std::size_t smallest) {
  Capacity capacity{.sequences = allocation.most_sequences(resolution.max_model_len),
                    .max_len = allocation.longest()};
  // Where nothing grows with length, sequences are the limit.
  capacity.tokens = allocation.tokens(smallest).value_or(Tokens{
      (CheckedInt{capacity.sequences.count()} * resolution.max_model_len.count()).saturated()});
  return capacity;
}

const ModelConfig* drafter_model(const PlanRequest& request) {
  return request.drafter.has_value() && request.drafter->model.has_value()
             ? &*request.drafter->model
             : nullptr;
}

bool loads_next_token_layers(const PlanRequest& request) {
  return request.drafter.has_value() && request.drafter->kind == DrafterKind::kMtp;
}

using Ledgers = std::vector<std::vector<LedgerLine>>;

/// The stage with the least left.
std::size_t tightest(const Ledgers& ledgers) {
  const auto found = std::ranges::min_element(
      ledgers, {}, [](const std::vector<LedgerLine>& lines) { return lines.back().bytes; });
  return static_cast<std::size_t>(found - ledgers.begin());
}

void keep_ledger(Ledgers& ledgers, std::size_t stage, Plan& plan) {
  plan.ledger = std::move(ledgers[stage]);
  plan.ledger_stage = static_cast<std::int64_t>(stage);
}

std::vector<Bytes> budgets_of(const Ledgers& ledgers, BudgetEnd end) {
  std::vector<Bytes> budgets;
  for (const std::vector<LedgerLine>& lines : ledgers) {
    const LedgerLine& left = lines.back();
    budgets.push_back(end == BudgetEnd::kLow ? std::max(left.low, Bytes{0}) : left.bytes);
  }
  return budgets;
}

Result<void> fill_plan(Allocation& allocation, Ledgers& ledgers, BudgetEnd end, Plan& plan) {
  const std::vector<Bytes> budgets = budgets_of(ledgers, end);
  allocation.size(budgets);
  if (!allocation.is_feasible()) {
    const auto shortage = shortage_of(allocation, budgets);
    keep_ledger(ledgers, shortage.has_value() ? shortage->stage : tightest(ledgers), plan);
    plan.refusals.push_back(does_not_fit(allocation, shortage, plan.resolution, budgets));
    return {};
  }
  for (std::size_t stage = 0; stage < allocation.stages().size(); ++stage) {
    auto rank = allocation.allocate(stage);
    if (!rank) {
      return std::move(rank).error();
    }
    plan.ranks.push_back(*std::move(rank));
  }
  plan.smallest_rank = allocation.smallest();
  keep_ledger(ledgers, plan.smallest_rank, plan);
  plan.capacity = capacity_of(allocation, plan.resolution, plan.smallest_rank);
  plan.fits = allocation.fits();
  if (!plan.fits) {
    plan.refusals.push_back(
        does_not_fit(allocation, shortage_of(allocation, budgets), plan.resolution, budgets));
  }
  append_pool_lines(plan.ranks[plan.smallest_rank], plan.request.kernel_set, plan.ledger);
  return {};
}

}  // namespace

Result<std::vector<std::vector<LedgerLine>>> stage_ledgers(const PlanRequest& request) {
  return stage_ledgers(request.budget, request.device, request.parallelism,
                       request.workload.max_batched_tokens, request.target, drafter_model(request),
                       loads_next_token_layers(request));
}

Result<std::vector<LedgerLine>> budget_ledger(const PlanRequest& request) {
  return budget_ledger(request.budget, request.device, request.parallelism,
                       request.workload.max_batched_tokens, request.target, drafter_model(request),
                       loads_next_token_layers(request));
}

Result<Plan> allocate_plan(const PlanRequest& request, const Resolution& resolution,
                           BudgetEnd end) {
  if (auto checked = check_request(request); !checked) {
    return std::move(checked).error();
  }
  Plan plan{.request = request,
            .resolution = resolution,
            .decisions = resolution.decisions,
            .refusals = resolution.refusals};
  auto ledgers = stage_ledgers(request);
  if (!ledgers) {
    return std::move(ledgers).error();
  }
  if (!resolution.refusals.empty()) {
    keep_ledger(*ledgers, tightest(*ledgers), plan);
    return plan;
  }
  auto stages = describe_stages(request, resolution);
  if (!stages) {
    return std::move(stages).error();
  }
  note_planned_sequences(request, *stages, plan.decisions);
  const auto keeps_nothing = [](const StagePools& stage) {
    return !stage.target.has_value() && !stage.draft.has_value() && stage.states.empty();
  };
  if (std::ranges::all_of(*stages, keeps_nothing)) {
    keep_ledger(*ledgers, tightest(*ledgers), plan);
    plan.refusals.push_back({.id = "no_cache",
                             .what = "no layer of this model keeps a cache",
                             .least_that_works = "a model with attention or state"});
    return plan;
  }
  for (const StagePools& stage : *stages) {
    for (const Decision& decision : stage.decisions) {
      if (std::ranges::find(plan.decisions, decision) == plan.decisions.end()) {
        plan.decisions.push_back(decision);
      }
    }
  }
  plan.private_arena = arena_of(request, resolution);
  Allocation allocation{request, resolution, *std::move(stages)};
  if (auto filled = fill_plan(allocation, *ledgers, end, plan); !filled) {
    return std::move(filled).error();
  }
  return plan;
}

Result<Plan> make_plan(const PlanRequest& request, const CapabilityRegistry& registry) {
  auto resolution = resolve(request, registry);
  if (!resolution) {
    return std::move(resolution).error();
  }
  return allocate_plan(request, *resolution);
}

}  // namespace kvpool
