// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Settings with a choice: the cache format, and the page.
#include <kvpool/core/kv_dtype.hpp>
#include <kvpool/plan/planner.hpp>
#include <kvpool/solve/sequence_use.hpp>
#include <kvpool/solve/solver.hpp>

#include "core/format.hpp"
#include "solve/changes.hpp"
#include "solve/page_choices.hpp"
#include "solve/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace kvpool {
namespace {

constexpr std::int64_t kMostSequences = std::int64_t{1} << 31;

bool is_sixteen_bit(KvDtype dtype) { return dtype == KvDtype::kBf16 || dtype == KvDtype::kFp16; }

/// One format with what the asked sequences need in it.
struct Format {
  KvDtype dtype = KvDtype::kBf16;
  Bytes needed{};
  bool fits = false;
  /// Place among all formats, the model's own first.
  std::size_t order = 0;
};

/// The formats of a deployment, the widest first.
class Formats {
 public:
  Formats(const PlanRequest& request, const CapabilityRegistry& registry)
      : request_{request}, registry_{registry} {
    PlanRequest own = request;
    own.kv_dtype.reset();
    const auto plan = plan_of(own, registry);
    native_ = plan.has_value() ? plan->resolution.target_formats.kv : KvDtype::kBf16;
    add(native_);
    for (const KvDtype dtype : all_kv_dtypes()) {
      const bool same = dtype == native_ || (is_sixteen_bit(dtype) && is_sixteen_bit(native_));
      if (!same && (formats_.empty() || dtype != KvDtype::kFp32)) {
        add(dtype);
      }
    }
    if (!formats_.empty() && formats_.front().dtype == native_) {
      std::erase_if(formats_, [most = formats_.front().needed](const Format& format) {
        return format.needed > most;
      });
    }
    std::ranges::sort(formats_, {}, [](const Format& format) {
      return std::pair{-format.needed.count(), format.order};
    });
  }

  [[nodiscard]] KvDtype native() const { return native_; }
  [[nodiscard]] const std::vector<Format>& all() const { return formats_; }
  [[nodiscard]] std::vector<Candidate> refused() && { return std::move(refused_); }
  [[nodiscard]] PlanRequest with(KvDtype dtype) const {
    PlanRequest changed = request_;
    changed.kv_dtype = dtype;
    return changed;
  }
  /// Index of the first that fits, or nothing.
  [[nodiscard]] std::optional<std::size_t> widest() const {
    const auto found = std::ranges::find(formats_, true, &Format::fits);
    return found == formats_.end()
               ? std::nullopt
               : std::optional{static_cast<std::size_t>(found - formats_.begin())};
  }

 private:
  void add(KvDtype dtype) {
    const PlanRequest changed = with(dtype);
    const auto needed = least_kv_budget(changed, registry_);
    if (needed.has_value() && needed->has_value()) {
      formats_.push_back({.dtype = dtype,
                          .needed = **needed,
                          .fits = fits(changed, registry_),
                          .order = formats_.size()});
    } else {
      refused_.push_back(
          {.name = std::string{to_string(dtype)}, .note = binding_of(changed, registry_).what});
    }
  }

  const PlanRequest& request_;
  const CapabilityRegistry& registry_;
  KvDtype native_ = KvDtype::kBf16;
  std::vector<Format> formats_;
  std::vector<Candidate> refused_;
};

std::int64_t most_of_mix(const PlanRequest& request, const CapabilityRegistry& registry,
                         const LengthMix& mix) {
  PlanRequest probe = request;
  return most_that(kMostSequences, [&](std::int64_t sequences) {
    probe.workload.max_num_seqs = Sequences{sequences};
    const auto plan = plan_of(probe, registry);
    return plan.has_value() && !pool_that_runs_out(*plan, sequences_of(mix, Sequences{sequences}));
  });
}

}  // namespace

Result<Answer> solve_kv_cache_dtype(const PlanRequest& request,
                                    const CapabilityRegistry& registry) {
  if (auto plan = make_plan(request, registry); !plan) {
    return std::move(plan).error();
  }
  Answer answer{.question = Question::kKvCacheDtype, .request = request};
  Formats formats{request, registry};
  for (const Format& format : formats.all()) {
    answer.candidates.push_back({.name = std::string{to_string(format.dtype)},
                                 .fits = format.fits,
                                 .note = format.dtype == formats.native() ? "the model's own" : "",
                                 .figures = {{"needs_bytes", format.needed.count(), "bytes"}}});
  }
  const auto widest = formats.widest();
  answer.found = widest.has_value();
  std::optional<std::size_t> next;
  if (answer.found) {
    const Format& format = formats.all()[*widest];
    answer.request = formats.with(format.dtype);
    answer.options = fmt::format("--kv-cache-dtype {}", to_string(format.dtype));
    answer.figures.push_back({"needs_bytes", format.needed.count(), "bytes"});
    if (*widest > 0) {
      next = *widest - 1;
    }
  } else if (!formats.all().empty()) {
    next = formats.all().size() - 1;
  }
  if (next.has_value()) {
    answer.beyond = formats.with(formats.all()[*next].dtype);
    answer.binding = binding_of(*answer.beyond, registry);
  } else if (!answer.found) {
    answer.binding = binding_of(request, registry);
  }
  std::ranges::move(std::move(formats).refused(), std::back_inserter(answer.candidates));
  // The place among the formats: 0 is the widest.
  answer.value = answer.found ? static_cast<std::int64_t>(*widest) : 0;
  add_reliefs(
      request, registry,
      {ChangeKind::kSetting, ChangeKind::kDraftFormat, ChangeKind::kFewer, ChangeKind::kShorter,
       ChangeKind::kNoDrafter, ChangeKind::kTensor, ChangeKind::kPipeline, ChangeKind::kData},
      [&](const Change& change) -> std::optional<Outcome> {
        const Formats other{change.request, registry};
        const auto found = other.widest();
        return found.has_value() ? std::optional{Outcome{
                                       .value = static_cast<std::int64_t>(*found),
                                       .chosen = std::string{to_string(other.all()[*found].dtype)}}}
                                 : std::nullopt;
      },
      [](std::int64_t a, std::int64_t b) { return a < b; }, answer);
  answer.value = 0;
  return answer;
}

Result<Answer> solve_page_size(const PlanRequest& request, const CapabilityRegistry& registry,
                               const LengthMix& mix) {
  if (auto plan = make_plan(request, registry); !plan) {
    return std::move(plan).error();
  }
  Answer answer{.question = Question::kPageSize, .unit = "tokens", .request = request};
  const std::vector<PageChoice> choices = page_choices(request, registry, mix);
  for (const PageChoice& choice : choices) {
    Candidate candidate{.name = fmt::format("{}", choice.page.count()),
                        .fits = choice.plan.has_value() && choice.plan->fits};
    candidate.note =
        choice.is_usable() ? choice.lost_text : binding_of(choice.request, registry).what;
    if (choice.is_usable()) {
      candidate.figures = {{"waste_bytes", choice.waste.count(), "bytes"},
                           {"held_bytes", choice.held.count(), "bytes"},
                           {"sequences", most_of_mix(choice.request, registry, mix), "sequences"},
                           {"shareable", shareable_ppm(mix, choice.page), "millionths"}};
    }
    answer.candidates.push_back(std::move(candidate));
  }
  const PageChoice* best = least_waste(choices);
  if (best == nullptr) {
    answer.binding = binding_of(request, registry);
    return answer;
  }
  answer.found = true;
  answer.value = best->page.count();
  answer.options = fmt::format("--page-size {}", answer.value);
  answer.request = best->request;
  answer.figures = {{"waste_bytes", best->waste.count(), "bytes"},
                    {"shareable", shareable_ppm(mix, best->page), "millionths"}};
  // What keeps a smaller page, which would waste less.
  if (best == choices.data()) {
    answer.binding = {.id = "search_limit", .what = "smaller pages are not compared"};
    return answer;
  }
  const PageChoice& smaller = *std::prev(best);
  if (!smaller.is_usable()) {
    answer.beyond = smaller.request;
    answer.binding = binding_of(smaller.request, registry);
  } else if (smaller.lost > best->lost) {
    answer.binding = {
        .id = "kernels",
        .what = fmt::format("a page of {} {}", smaller.page.count(), smaller.lost_text)};
  } else {
    answer.binding = {.id = "waste",
                      .what = fmt::format("a page of {} wastes no less", smaller.page.count())};
  }
  return answer;
}

}  // namespace kvpool
