// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "commands/describe.hpp"

#include "output/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kvpool::cli {

std::string words_of(std::string_view name) {
  std::string words{name};
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::string cost_text(const AffineCost& cost) {
  std::string text;
  if (cost.bytes_per_token.count() == 0) {
    text = bytes_text(cost.fixed_bytes);
  } else {
    text = (cost.fixed_bytes.count() == 0 ? std::string{} : bytes_text(cost.fixed_bytes) + " + ") +
           bytes_text(cost.bytes_per_token) + " x L";
  }
  if (cost.from_length.count() > 1) {
    text += " for L >= " + count_text(cost.from_length.count());
  }
  return text;
}

std::string cost_text(const CostOfChoice& cost) {
  std::string text;
  if (!cost.unit.empty()) {
    text = fmt::format("{}{} {}", cost.value > 0 ? "+" : "", count_text(cost.value),
                       words_of(cost.unit));
  }
  if (!cost.conditions.empty()) {
    text += text.empty() ? cost.conditions : " (" + cost.conditions + ")";
  }
  return text;
}

std::string group_label(const PoolDescriptor& pool, const PooledGroup& group) {
  return pool.groups.size() > 1 ? pool.name + ": " + group_name(group.group) : pool.name;
}

std::string formats_text(const PageGeometry& page) {
  std::vector<std::string_view> seen;
  std::string text;
  for (const PlaneGeometry& plane : page.planes) {
    const std::string_view name = to_string(plane.dtype);
    if (std::ranges::find(seen, name) == seen.end()) {
      seen.push_back(name);
      text.append(text.empty() ? "" : " + ").append(name);
    }
  }
  return text;
}

Tokens length_in_pool(const Plan& plan, const PoolDescriptor& pool, Tokens length) {
  const bool limited = pool.role == PoolRole::kDraft && plan.resolution.draft_max_len.count() > 0;
  const Tokens followed = limited ? std::min(length, plan.resolution.draft_max_len) : length;
  return Tokens{ceil_div(followed.count(), plan.request.parallelism.decode_context)};
}

Pages pages_in_pool(const Plan& plan, const PoolDescriptor& pool, const PooledGroup& group,
                    Tokens length) {
  const Pages pages = pages_of_sequence(group.group, length_in_pool(plan, pool, length),
                                        group.page.tokens_per_block, plan.resolution.draft_tokens);
  return group.group.is_state ? pages * plan.resolution.state_slots_per_seq : pages;
}

Bytes sequence_bytes(const Plan& plan, const PoolDescriptor& pool, const PooledGroup& group,
                     Tokens length) {
  return pages_in_pool(plan, pool, group, length).count() * group.page.page_bytes;
}

AffineCost cost_in_pool(const Plan& plan, const PoolDescriptor& pool, const PooledGroup& group) {
  return sequence_cost(group, sequence_rules(plan, pool.role));
}

std::string ranges_text(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) {
      ++end;
    }
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[i]);
    if (end - i > 1) {
      text += (end - i == 2 ? ", " : "-") + std::to_string(numbers[end - 1]);
    }
    i = end;
  }
  return text;
}

void report_verdicts(std::span<const Verdict> verdicts, Report& report, std::size_t indent) {
  if (verdicts.empty()) {
    return;
  }
  Table table{{{"kernel row"}, {"accepts"}, {"verdict"}}};
  for (const Verdict& verdict : verdicts) {
    table.row({verdict.row, verdict.accepts, verdict.verdict});
  }
  report.table(table, indent);
}

}  // namespace kvpool::cli
