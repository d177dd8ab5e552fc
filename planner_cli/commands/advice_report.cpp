// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "commands/describe.hpp"
#include "commands/plan_report.hpp"
#include "output/numbers.hpp"

#include <fmt/format.h>

namespace kvpool::cli {

void report_advice(const std::vector<Advice>& advice, Report& report) {
  if (advice.empty()) {
    return;
  }
  report.heading("Advice");
  for (const Advice& item : advice) {
    report.line(words_of(item.id) + ": " + item.what, 2, 4);
    if (item.change.empty()) {
      if (item.frees.count() > 0) {
        report.line(fmt::format("no setting frees these {} ({}) on each GPU",
                                bytes_text(item.frees), short_size(item.frees)),
                    4, 6);
      }
      continue;
    }
    std::string effect;
    if (item.frees.count() > 0) {
      effect =
          fmt::format(" frees {} ({}) on each GPU", bytes_text(item.frees), short_size(item.frees));
    } else if (item.frees.count() < 0) {
      effect = fmt::format(" takes {} ({}) more on each GPU", bytes_text(Bytes{0} - item.frees),
                           short_size(Bytes{0} - item.frees));
    } else {
      effect = " takes no more memory";
    }
    report.line(item.change + effect + (item.cost.empty() ? "" : "; " + item.cost), 4, 6);
  }
}

}  // namespace kvpool::cli
