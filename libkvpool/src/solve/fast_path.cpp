// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "solve/fast_path.hpp"

#include <algorithm>
#include <iterator>

namespace kvpool {

std::vector<std::string> running_draft_rows(const Plan& plan) {
  std::vector<std::string> rows;
  for (const Decision& decision : plan.decisions) {
    if (decision.id != "draft_page_size") {
      continue;
    }
    for (const Verdict& verdict : decision.verdicts) {
      if (verdict.verdict.starts_with("accepts")) {
        rows.push_back(verdict.row);
      }
    }
  }
  return rows;
}

std::vector<std::string> rows_lost(const std::vector<std::string>& before,
                                   const std::vector<std::string>& now) {
  std::vector<std::string> lost;
  std::ranges::copy_if(before, std::back_inserter(lost), [&now](const std::string& row) {
    return std::ranges::find(now, row) == now.end();
  });
  return lost;
}

std::size_t lost_kernels(const Plan& plan) {
  return static_cast<std::size_t>(
      std::ranges::count(plan.decisions, "preferred_kernel_lost", &Decision::id));
}

}  // namespace kvpool
