// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <kvpool/core/size_text.hpp>

#include <algorithm>
#include <cstddef>
#include <iomanip>
#include <numeric>
#include <sstream>

namespace example {
namespace {

double ratio(std::int64_t of, std::int64_t by) {
  return by == 0 ? 0.0 : static_cast<double>(of) / static_cast<double>(by);
}

}  // namespace

std::string report_decisions(const std::vector<kvpool::Decision>& decisions) {
  std::ostringstream text;
  for (const kvpool::Decision& decision : decisions) {
    if (decision.instead_of.empty() && decision.cost.unit.empty()) {
      continue;
    }
    text << "  " << decision.id << ": " << decision.chosen
         << (decision.instead_of.empty() ? "" : " instead of ") << decision.instead_of << "; "
         << decision.reason;
    if (!decision.cost.unit.empty()) {
      text << "; costs " << decision.cost.value << ' ' << decision.cost.unit << " ("
           << decision.cost.conditions << ')';
    }
    text << '\n';
  }
  return text.str();
}

std::string report(const Outcome& outcome) {
  const Statistics& s = outcome.statistics;
  std::ostringstream text;
  text << std::fixed << std::setprecision(2);
  text << "back-end " << outcome.backend << "; " << outcome.finished << " answers, " << s.generated
       << " tokens in " << s.steps << " steps: " << ratio(s.generated, s.steps)
       << " tokens a step, " << ratio(s.running_rows, s.steps) << " sequences running\n";
  const std::int64_t blocks =
      std::accumulate(s.accepted.begin(), s.accepted.end(), std::int64_t{0});
  text << "blocks verified " << blocks << ", " << ratio(s.by_blocks, blocks)
       << " tokens each; accepted";
  for (std::size_t i = 0; i < s.accepted.size(); ++i) {
    text << ' ' << i << ":" << s.accepted[i];
  }
  text << "; the drafter itself was right " << s.drafter_right << " of " << s.drafter_proposed
       << " times\n";
  text << "prompt tokens " << outcome.counters.prompt_tokens << ", hits "
       << outcome.counters.hit_tokens << " in " << outcome.counters.hits << " admissions; forks "
       << s.forks << ", preemptions " << s.preemptions << ", suspensions " << s.suspensions
       << "; refused " << s.refused_admissions << ", admitted later " << s.admitted_later
       << "; waits " << s.waits << "\n";
  text << "evicted " << outcome.counters.evicted_blocks << " blocks and "
       << outcome.counters.evicted_pages << " pages of windows; copied " << s.copied_pages
       << " pages; changed table entries " << s.table_changes
       << "; rejections gave pages back: target " << s.target_pages_rejected << ", drafter "
       << s.draft_pages_rejected << "\n";
  for (const kvpool::PoolDescriptor& pool : outcome.pools) {
    text << "pool " << pool.name << ": " << kvpool::size_text(pool.bytes()) << ", page "
         << pool.groups.front().page.tokens_per_block.count() << " tokens\n";
  }
  for (std::size_t g = 0; g < outcome.groups.size(); ++g) {
    text << "  " << outcome.groups[g] << ": pages in use " << ratio(s.held_pages[g], s.steps)
         << " of " << outcome.pages[g] << " on average, " << s.most_held_pages[g] << " at most\n";
  }
  text << "step: scheduling " << ratio(s.scheduling_ns, s.steps) / 1e3 << " us, kernels "
       << ratio(s.kernels_ns, s.steps) / 1e3 << " us; scheduling is "
       << 100.0 * ratio(s.scheduling_ns, s.scheduling_ns + s.kernels_ns) << " %\n";
  if (outcome.graph.captures > 0) {
    text << "graph: captured " << outcome.graph.captures << " time(s), " << outcome.graph.nodes
         << " nodes, " << outcome.graph.allocations << " allocations among them; replayed "
         << outcome.graph.replays << " times; the capture took " << outcome.graph.taken.count()
         << " B\n";
  }
  text << "compared with the target alone: " << outcome.compared << " tokens, " << outcome.wrong
       << " wrong, " << outcome.ties << " ties out of " << outcome.near_ties
       << " that rounding may decide; its two best logits differ by " << std::setprecision(7)
       << outcome.smallest_gap << " at least\n";
  if (const std::string decisions = report_decisions(outcome.decisions); !decisions.empty()) {
    text << "decisions of the plan\n" << decisions;
  }
  return text.str();
}

}  // namespace example
