// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/planner.hpp>

#include "commands/describe.hpp"
#include "commands/plan_report.hpp"
#include "output/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvpool::cli {
namespace {

/// Lengths of the table of requests.
constexpr std::array<std::int64_t, 4> kLengths{4'096, 32'768, 131'072, 1'048'576};
/// More sequences than this are not told apart.
constexpr std::int64_t kManySequences = 1 << 16;

[[nodiscard]] const PoolPlan& smallest(const Plan& plan) {
  return plan.ranks.at(plan.smallest_rank);
}

[[nodiscard]] bool is_key_and_value(const TensorView& view) noexcept {
  constexpr std::size_t kCombined = 5;
  return view.kind == PlaneKind::kKey && view.shape.size() == kCombined;
}

[[nodiscard]] bool same_form(const TensorView& a, const TensorView& b) noexcept {
  return a.kind == b.kind && a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides;
}

/// Views of a group, equal ones counted.
void report_views(const PoolDescriptor& pool, std::size_t group, Table& table) {
  const std::vector<TensorView> views = views_of(pool, group);
  std::vector<std::pair<TensorView, std::int64_t>> forms;
  for (const TensorView& view : views) {
    const auto found = std::ranges::find_if(
        forms, [&view](const auto& form) { return same_form(form.first, view); });
    if (found == forms.end()) {
      forms.emplace_back(view, 1);
    } else {
      ++found->second;
    }
  }
  const PooledGroup& pooled = pool.groups[group];
  for (const auto& [view, count] : forms) {
    // Where groups share slabs, a row of the view is a unit and no whole page.
    const std::int64_t stride = view.strides.empty() ? 0 : view.strides.front();
    std::string_view row = pooled.group.is_state ? "slot" : "page";
    if (stride != pooled.page.page_bytes.count()) {
      row = "entry";
    }
    table.row({group_label(pool, pooled), counted(count, "view"),
               is_key_and_value(view) ? "K and V" : words_of(to_string(view.kind)),
               fmt::format("({}) {}, {} stride {} B", fmt::join(view.shape, ", "),
                           to_string(view.dtype), row, count_text(stride))});
  }
}

void report_stages(const Plan& plan, Report& report) {
  if (plan.ranks.size() < 2) {
    return;
  }
  report.heading("Pipeline stages");
  Table table{
      {{"stage", Align::kRight}, {"rank", Align::kRight}, {"budget", Align::kRight}, {"pools"}}};
  for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
    const PoolPlan& rank = plan.ranks[i];
    std::string pools;
    for (const PoolDescriptor& pool : rank.pools) {
      pools += fmt::format("{}{}: {} in {}", pools.empty() ? "" : "; ", pool.name,
                           counted(pool.slabs.count(), "slab"), short_size(pool.charged_bytes()));
    }
    table.row({std::to_string(rank.stage), std::to_string(rank.rank),
               gib_number(rank.budget) + " GiB",
               pools + (i == plan.smallest_rank ? "  <- holds the fewest tokens" : "")});
  }
  report.table(table);
}

/// Most sequences of a length that a plan made for them holds, up to a limit that says "many".
[[nodiscard]] std::int64_t most_sequences(const Plan& plan, Tokens length) {
  PlanRequest request = plan.request;
  Resolution resolution = plan.resolution;
  request.workload.max_model_len = length;
  resolution.max_model_len = length;
  resolution.draft_max_len = std::min(resolution.draft_max_len, length);
  const auto fits = [&](std::int64_t sequences) {
    request.workload.max_num_seqs = Sequences{sequences};
    resolution.sequences = Sequences{sequences};
    const Result<Plan> planned = allocate_plan(request, resolution);
    return planned.has_value() && planned->fits;
  };
  std::int64_t most = 0;
  std::int64_t too_many = 1;
  while (too_many <= kManySequences && fits(too_many)) {
    most = too_many;
    too_many *= 2;
  }
  while (too_many - most > 1 && most < kManySequences) {
    const std::int64_t middle = most + (too_many - most) / 2;
    (fits(middle) ? most : too_many) = middle;
  }
  return most;
}

/// Lengths worth a row: the usual ones below the longest, and that one.
[[nodiscard]] std::vector<std::int64_t> lengths_up_to(std::int64_t longest) {
  std::vector<std::int64_t> lengths;
  std::ranges::copy_if(kLengths, std::back_inserter(lengths),
                       [longest](std::int64_t length) { return length < longest; });
  lengths.push_back(longest);
  return lengths;
}

}  // namespace

void report_pools(const Plan& plan, Report& report) {
  const PoolPlan& rank = smallest(plan);
  report.heading(plan.ranks.size() > 1 ? fmt::format("Pools of one GPU (stage {})", rank.stage)
                                       : std::string{"Pools of one GPU"});
  Table table{{{"pool"},
               {"page", Align::kRight},
               {"page bytes", Align::kRight},
               {"pages", Align::kRight},
               {"bytes charged", Align::kRight},
               {"GiB", Align::kRight},
               {"a token", Align::kRight},
               {"loss", Align::kRight},
               {"format"}}};
  for (std::size_t p = 0; p < rank.pools.size(); ++p) {
    const PoolDescriptor& pool = rank.pools[p];
    for (std::size_t g = 0; g < pool.groups.size(); ++g) {
      const PooledGroup& group = pool.groups[g];
      const AffineCost cost = cost_in_pool(plan, pool, group);
      const bool first = g == 0;
      table.row({group_label(pool, group),
                 group.group.is_state ? "slot" : count_text(group.page.tokens_per_block.count()),
                 bytes_text(group.page.page_bytes), count_text(group.planned_pages().count()),
                 first ? bytes_text(pool.charged_bytes()) : "",
                 first ? gib_number(pool.charged_bytes()) : "",
                 cost.bytes_per_token.count() == 0 ? "-" : bytes_text(cost.bytes_per_token),
                 first && p < rank.accounts.size() ? bytes_text(rank.accounts[p].loss) : "",
                 formats_text(group.page)});
    }
  }
  report.table(table);
  report.blank();
  Table views{{{""}, {"", Align::kRight}, {""}, {""}}};
  for (const PoolDescriptor& pool : rank.pools) {
    for (std::size_t g = 0; g < pool.groups.size(); ++g) {
      report_views(pool, g, views);
    }
  }
  report.table(views);
  if (plan.private_arena.has_value()) {
    report.blank();
    report.line(fmt::format("For comparison: a private arena for the drafter would take {} ({}), "
                            "whatever is in use.",
                            bytes_text(*plan.private_arena), short_size(*plan.private_arena)),
                2, 2);
  }
  report_stages(plan, report);
}

void report_capacity(const Plan& plan, Report& report) {
  const PoolPlan& rank = smallest(plan);
  report.heading("What fits");
  report.line(
      fmt::format("{} in the pool that runs out first; {} at {}. One sequence costs, and so "
                  "many fit when planned for (--max-num-seqs):",
                  counted(plan.capacity.tokens.count(), "token"),
                  counted(plan.capacity.sequences.count(), "sequence"),
                  counted(plan.resolution.max_model_len.count(), "token")),
      2, 2);
  report.blank();
  std::vector<Column> columns{{"tokens", Align::kRight}};
  std::vector<std::string> costs{"L"};
  for (const PoolDescriptor& pool : rank.pools) {
    for (const PooledGroup& group : pool.groups) {
      columns.push_back({group_label(pool, group), Align::kRight});
      costs.push_back(cost_text(cost_in_pool(plan, pool, group)));
    }
  }
  columns.push_back({"together", Align::kRight});
  columns.push_back({"fit", Align::kRight});
  Table table{std::move(columns)};
  for (const std::int64_t length : lengths_up_to(plan.resolution.max_model_len.count())) {
    std::vector<std::string> cells{count_text(length)};
    Bytes sum;
    for (const PoolDescriptor& pool : rank.pools) {
      for (const PooledGroup& group : pool.groups) {
        const Bytes bytes = sequence_bytes(plan, pool, group, Tokens{length});
        cells.push_back(bytes_text(bytes));
        sum += bytes;
      }
    }
    cells.push_back(short_size(sum));
    const std::int64_t most = most_sequences(plan, Tokens{length});
    cells.push_back((most >= kManySequences ? ">= " : "") + count_text(most));
    table.row(std::move(cells));
  }
  table.row(std::move(costs));
  report.table(table);
}

}  // namespace kvpool::cli
