// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/solve/advice.hpp>

#include <kvpool/core/checked.hpp>
#include <kvpool/core/size_text.hpp>
#include <kvpool/plan/planner.hpp>
#include <kvpool/solve/sequence_use.hpp>
#include <kvpool/solve/solver.hpp>

#include "core/format.hpp"
#include "solve/fast_path.hpp"
#include "solve/page_choices.hpp"
#include "solve/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>

namespace kvpool {
namespace {

constexpr std::int64_t kWhole = 1'000'000;
/// Less than this share of what a deployment needs is not worth a line.
constexpr std::int64_t kWorthOneIn = 100;
/// Below it, prefixes lose too many tokens to partly filled pages.
constexpr std::int64_t kWellShared = 900'000;

/// `1.06` of a ratio.
std::string ratio_text(Bytes a, Bytes b) {
  return fmt::format("{:.2f}", static_cast<double>(a.count()) / static_cast<double>(b.count()));
}

std::string percent_text(std::int64_t ppm) {
  return fmt::format("{}.{} %", ppm / 10'000, ppm / 1000 % 10);
}

bool is_sixteen_bit(KvDtype dtype) { return dtype == KvDtype::kBf16 || dtype == KvDtype::kFp16; }

class Adviser {
 public:
  Adviser(const Plan& plan, const CapabilityRegistry& registry, const LengthMix* mix)
      : plan_{plan}, request_{plan.request}, registry_{registry}, mix_{mix} {}

  std::vector<Advice> run() {
    need_ = need_of(request_);
    if (!need_.has_value()) {
      return {};  // refused, or beyond all bounds
    }
    look_at_longest_request();
    look_at_formats();
    look_at_heads();
    look_at_latents();
    look_at_pages();
    look_at_lost_kernels();
    look_at_draft_tokens();
    std::ranges::sort(out_, {}, [](const Advice& advice) {
      return std::tuple{-advice.frees.count(), advice.id, advice.change};
    });
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::optional<Bytes> need_of(const PlanRequest& request) const {
    const auto need = least_kv_budget(request, registry_);
    return need.has_value() ? *need : std::nullopt;
  }
  [[nodiscard]] bool is_worth_it(Bytes frees) const {
    return frees.count() > 0 && frees.count() >= need_->count() / kWorthOneIn;
  }
  [[nodiscard]] std::int64_t sequences() const { return plan_.resolution.sequences.count(); }

  /// No single request of the longest length can ever be held.
  void look_at_longest_request() {
    if (plan_.fits) {
      return;
    }
    PlanRequest one = request_;
    one.workload.max_num_seqs = Sequences{1};
    if (fits(one, registry_)) {
      return;
    }
    PlanRequest probe = one;
    const std::int64_t longest =
        most_that(plan_.resolution.max_model_len.count(), [&](std::int64_t length) {
          probe.workload.max_model_len = Tokens{length};
          return fits(probe, registry_);
        });
    if (longest == 0) {
      return;
    }
    probe.workload.max_model_len = Tokens{longest};
    const auto all = need_of(one);
    const auto less = need_of(probe);
    if (!all.has_value() || !less.has_value()) {
      return;
    }
    out_.push_back(
        {.id = "longest_request",
         .what = fmt::format(
             "no pool here can hold one request of {} tokens: one that grows beyond "
             "{} would wait for ever",
             format_count(plan_.resolution.max_model_len.count()), format_count(longest)),
         .change = fmt::format("--max-model-len {}", longest),
         .frees = *all - *less,
         .cost = "longer requests are refused at the door"});
  }

  /// States keep their own format, so a smaller one of the pages saves little beside them.
  void look_at_formats() {
    const KvDtype now = plan_.resolution.target_formats.kv;
    const bool wide = is_sixteen_bit(now);
    if (!has_recurrent_state(request_.target) || (!wide && now != KvDtype::kFp8E4m3)) {
      return;
    }
    PlanRequest other = request_;
    other.kv_dtype = wide ? KvDtype::kFp8E4m3 : KvDtype::kBf16;
    const auto need = need_of(other);
    if (!need.has_value()) {
      return;
    }
    const Bytes sixteen = wide ? *need_ : *need;
    const Bytes eight = wide ? *need : *need_;
    // Halving everything would be 2; below 1.5 the rest weighs more than the pages.
    if (eight.count() <= 0 || sixteen.count() * 2 >= eight.count() * 3 || sixteen <= eight) {
      return;
    }
    out_.push_back({.id = "fp8_gains_little",
                    .pool = "state",
                    .what = fmt::format(
                        "an 8-bit cache takes {} here, a 16-bit one {}: {} times, not 2, because "
                        "recurrent state keeps its own format",
                        size_text(eight), size_text(sixteen), ratio_text(sixteen, eight)),
                    .change = wide ? "--kv-cache-dtype fp8" : "--kv-cache-dtype bf16",
                    .frees = *need_ - *need,
                    .cost = wide ? "at the precision of an 8-bit cache" : ""});
  }

  /// KV heads that several ranks hold again.
  void look_at_heads() {
    const std::int64_t ranks = head_parallel_size(request_.parallelism);
    std::int64_t fewest = 0;
    for (const ModelLayer& layer : request_.target.layers) {
      for (const LayerCache& cache : layer.caches) {
        if (const auto* heads = std::get_if<AttentionCache>(&cache); heads != nullptr) {
          const std::int64_t kv = heads->kv_heads.count();
          fewest = fewest == 0 ? kv : std::min(fewest, kv);
        }
      }
    }
    if (fewest == 0 || ranks <= fewest || ranks % fewest != 0) {
      return;
    }
    const std::int64_t copies = ranks / fewest;
    offer_spread(
        "kv_heads_replicated",
        fmt::format("{} ranks share {} KV heads, so each is held {} times", ranks, fewest, copies),
        request_.parallelism.decode_context * copies);
  }

  /// A latent has no heads to divide: every rank holds all of it.
  void look_at_latents() {
    const std::int64_t ranks = head_parallel_size(request_.parallelism);
    if (!has_latent_cache(request_.target) || ranks <= 1) {
      return;
    }
    offer_spread(
        "latent_replicated",
        fmt::format("an MLA latent has no heads to divide: {} ranks hold the same cache", ranks),
        request_.parallelism.tensor);
  }

  /// Two ways not to hold the same on several ranks: deal out tokens, or sequences.
  void offer_spread(const std::string& id, const std::string& what, std::int64_t decode_context) {
    const auto offer = [&](std::string change, const PlanRequest& changed) {
      const auto need = need_of(changed);
      if (!need.has_value()) {
        return;
      }
      const Bytes weights = weights_of(changed) - weights_of(request_);
      const Bytes net = *need_ - *need - weights;
      if (is_worth_it(net)) {
        out_.push_back({.id = id,
                        .pool = "target",
                        .what = what,
                        .change = std::move(change),
                        .frees = net,
                        .cost = weights.count() > 0
                                    ? fmt::format("{} more weights on each rank are counted in",
                                                  size_text(weights))
                                    : ""});
      }
    };
    PlanRequest dealt = request_;
    dealt.parallelism.decode_context = decode_context;
    offer(fmt::format("--dcp {}", decode_context), dealt);
    if (sequences() > 1 && request_.parallelism.decode_context == 1) {
      PlanRequest apart = request_;
      apart.parallelism.attention_data_parallel = true;
      const std::int64_t each = ceil_div(sequences(), request_.parallelism.tensor);
      apart.workload.max_num_seqs = Sequences{each};
      offer(fmt::format("--attention-dp --max-num-seqs {}", each), apart);
    }
  }

  /// Estimated weights of a rank, also where the ledger starts below them or they were given for
  /// another split.
  [[nodiscard]] static Bytes weights_of(const PlanRequest& request) {
    PlanRequest estimated = request;
    estimated.budget.kv_budget.reset();
    estimated.budget.weights.reset();
    estimated.budget.gpu_memory = Bytes{std::int64_t{1} << 50};
    const auto ledger = budget_ledger(estimated);
    Bytes sum;
    if (ledger.has_value()) {
      for (const LedgerLine& line : *ledger) {
        sum += line.name == "weights" || line.name == "draft_weights" ? line.bytes : Bytes{0};
      }
    }
    return sum;
  }

  void look_at_pages() {
    if (mix_ == nullptr || plan_.ranks.empty()) {
      return;
    }
    const Tokens page = plan_.resolution.target_page;
    const SequenceUse now = average_use(plan_, *mix_);
    const std::vector<PageChoice> choices = page_choices(request_, registry_, *mix_);
    const auto freed = [&](const PageChoice& choice) {
      return Bytes{(now.held - choice.held).count() * sequences()};
    };
    const PageChoice* best = least_waste(choices);
    if (best != nullptr && best->page != page && is_worth_it(freed(*best)) &&
        best->lost <= lost_kernels(plan_)) {
      out_.push_back({.id = "page_waste",
                      .pool = "target",
                      .what = fmt::format(
                          "with pages of {} tokens the average sequence of the mix holds {} of "
                          "which {} are not filled",
                          page.count(), size_text(now.held), size_text(now.waste())),
                      .change = fmt::format("--page-size {}", best->page.count()),
                      .frees = freed(*best)});
    }
    look_at_prefixes(choices, freed);
  }

  template <typename Freed>
  void look_at_prefixes(const std::vector<PageChoice>& choices, const Freed& freed) {
    const Tokens page = plan_.resolution.target_page;
    const std::int64_t shared = shareable_ppm(*mix_, page);
    if (shared >= kWellShared) {
      return;
    }
    const PageChoice* better = nullptr;
    for (const PageChoice& choice : choices) {
      if (choice.is_usable() && choice.page < page && choice.lost <= lost_kernels(plan_) &&
          (better == nullptr || shareable_ppm(*mix_, choice.page) >= kWellShared)) {
        better = &choice;
      }
    }
    std::int64_t shorter = 0;
    for (const LengthShare& share : mix_->shares) {
      shorter += share.length < page ? share.weight : 0;
    }
    const std::int64_t shorter_ppm =
        floor_div(CheckedInt{shorter} * kWhole, CheckedInt{mix_->total_weight()}).saturated();
    out_.push_back(
        {.id = "prefix_granularity",
         .pool = "target",
         .what =
             fmt::format("prefixes are found by whole pages of {} tokens: {} of the mix's tokens "
                         "lie in full ones, and {} of its sequences fill none",
                         page.count(), percent_text(shared), percent_text(shorter_ppm)),
         .change = better == nullptr ? "" : fmt::format("--page-size {}", better->page.count()),
         .frees = better == nullptr ? Bytes{0} : freed(*better)});
  }

  /// Kernels that would have run at another page.
  void look_at_lost_kernels() {
    for (const Decision& decision : plan_.decisions) {
      if (decision.id != "preferred_kernel_lost" || decision.verdicts.empty()) {
        continue;
      }
      const std::string& row = decision.verdicts.front().row;
      Advice advice{.id = "fast_path_lost",
                    .pool = decision.pool,
                    .what = fmt::format("{} does not run at a page of {}: {}", row, decision.chosen,
                                        decision.reason)};
      if (!decision.cost.unit.empty()) {
        advice.what += fmt::format(" ({} {})", decision.cost.value, decision.cost.unit);
      }
      find_page_back(decision, row, advice);
      out_.push_back(std::move(advice));
    }
  }

  /// The page with which a lost kernel runs again, and what it takes: the page that it was lost
  /// from, as the pool's own or as the target's, else any.
  void find_page_back(const Decision& decision, const std::string& row, Advice& advice) const {
    std::vector<Tokens> pages;
    if (const auto page = parse_token_count(decision.instead_of); page.has_value()) {
      pages.push_back(*page);
    }
    for (const std::int64_t size : {64, 32, 128, 16}) {
      pages.emplace_back(size);
    }
    const bool has_own = decision.pool == "draft" && request_.drafter.has_value();
    for (const Tokens page : pages) {
      for (const bool own : {true, false}) {
        PlanRequest changed = request_;
        if (page.count() < 1 || (own && !has_own)) {
          continue;
        }
        (own ? changed.drafter->tokens_per_block : changed.tokens_per_block) = page;
        const auto plan = plan_of(changed, registry_);
        const auto need = need_of(changed);
        if (plan.has_value() && need.has_value() && runs(*plan, decision.pool, row)) {
          advice.change =
              fmt::format("{} {}", own ? "--draft-page-size" : "--page-size", page.count());
          advice.frees = *need_ - *need;
          return;
        }
      }
    }
  }

  static bool runs(const Plan& plan, const std::string& pool, const std::string& row) {
    return std::ranges::any_of(plan.decisions, [&](const Decision& decision) {
      return decision.id == pool + "_page_size" &&
             std::ranges::any_of(decision.verdicts, [&row](const Verdict& verdict) {
               return verdict.row == row && verdict.verdict.starts_with("accepts");
             });
    });
  }

  /// The first of these rows that is known to cost something when it is lost, or null.
  [[nodiscard]] const KernelCapability* costly_row(const std::vector<std::string>& names) const {
    for (const KernelCapability& row : registry_.rows()) {
      if (row.necessity == Necessity::kPreferred && !row.cost_of_loss.unit.empty() &&
          std::ranges::find(names, row.name) != names.end()) {
        return &row;
      }
    }
    return nullptr;
  }

  /// More draft tokens than a drafter's kernels take.
  void look_at_draft_tokens() {
    if (!request_.drafter.has_value() || plan_.resolution.draft_tokens.count() <= 1) {
      return;
    }
    PlanRequest probe = request_;
    const auto rows_at = [&](std::int64_t tokens) {
      probe.drafter->num_draft_tokens = Tokens{tokens};
      const auto resolution = resolve(probe, registry_);
      Plan plan;
      if (resolution.has_value()) {
        plan.decisions = resolution->decisions;
      }
      return running_draft_rows(plan);
    };
    const std::vector<std::string> all = rows_at(1);
    const KernelCapability* lost = costly_row(rows_lost(all, running_draft_rows(plan_)));
    if (lost == nullptr) {
      return;
    }
    const std::int64_t most =
        most_that(plan_.resolution.draft_tokens.count(), [&](std::int64_t tokens) {
          return costly_row(rows_lost(all, rows_at(tokens))) == nullptr;
        });
    Advice advice{.id = "fast_path_lost",
                  .pool = "draft",
                  .what = fmt::format("{} does not run at {} draft tokens a step ({} {})",
                                      lost->name, plan_.resolution.draft_tokens.count(),
                                      lost->cost_of_loss.value, lost->cost_of_loss.unit),
                  .change = fmt::format("--num-draft-tokens {}", most)};
    probe.drafter->num_draft_tokens = Tokens{most};
    if (const auto need = need_of(probe); need.has_value()) {
      advice.frees = *need_ - *need;
    }
    out_.push_back(std::move(advice));
  }

  const Plan& plan_;
  const PlanRequest& request_;
  const CapabilityRegistry& registry_;
  const LengthMix* mix_;
  std::optional<Bytes> need_;
  std::vector<Advice> out_;
};

}  // namespace

std::vector<Advice> advise(const Plan& plan, const CapabilityRegistry& registry,
                           const LengthMix* mix) {
  return Adviser{plan, registry, mix}.run();
}

}  // namespace kvpool
