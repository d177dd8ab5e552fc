// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/stored_share.hpp>

#include "commands/describe.hpp"
#include "commands/explain_report.hpp"
#include "output/numbers.hpp"

#include <fmt/format.h>

#include <cstddef>

namespace kvpool::cli {
namespace {

/// How a rank's part of `split` comes about.
[[nodiscard]] std::string_view rule_of(WeightSplit split) noexcept {
  switch (split) {
    case WeightSplit::kReplicated: return "whole on every rank";
    case WeightSplit::kAttention: return "whole heads, over tensor parallel ranks";
    case WeightSplit::kTensor: return "whole rows or columns, over tensor parallel ranks";
    case WeightSplit::kExperts: return "whole experts, over expert parallel ranks";
    case WeightSplit::kUnsure: return "counted whole, engines differ";
  }
  return "";
}

}  // namespace

void explain_stored_weights(const Plan& plan, const ModelConfig& model, std::string_view line_name,
                            const Parallelism& spread, Report& report) {
  const StoredWeights& weights = *model.weights;
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  const bool next_token = line_name == "weights" && plan.request.drafter.has_value() &&
                          plan.request.drafter->kind == DrafterKind::kMtp;
  const std::int64_t stage = spread.pipeline > 1 ? plan.ledger_stage : 0;
  const auto share_of = [&](const StoredWeights& part) {
    return stored_shares(part, layers, spread, next_token)[static_cast<std::size_t>(stage)].bytes;
  };
  const Bytes whole = share_of(weights);
  report.line(fmt::format("{}: from the safetensors headers of {}; {} on disk, {} of it loaded by "
                          "no engine",
                          words_of(line_name), counted(weights.files, "file"),
                          bytes_text(weights.stored), bytes_text(weights.unused)),
              2, 4);
  if (spread.pipeline > 1) {
    report.line(fmt::format("what stage {} of {} loads, counted from 0: its pools hold the fewest "
                            "tokens",
                            stage, spread.pipeline),
                4, 6);
  }
  std::string sum;
  for (const WeightSplit split :
       {WeightSplit::kReplicated, WeightSplit::kAttention, WeightSplit::kTensor,
        WeightSplit::kExperts, WeightSplit::kUnsure}) {
    StoredWeights part;
    part.tied_embeddings = weights.tied_embeddings;
    for (const WeightPart& candidate : weights.parts) {
      if (candidate.split == split) {
        part.parts.push_back(candidate);
      }
    }
    if (part.parts.empty()) {
      continue;
    }
    sum += fmt::format("{}{} {}", sum.empty() ? "" : " + ", bytes_text(share_of(part)),
                       to_string(split));
    report.line(fmt::format("{}: {}", to_string(split), rule_of(split)), 4, 6);
  }
  report.line(fmt::format("{}: {} = {}", words_of(line_name), sum, bytes_text(whole)), 2, 4);
  for (const std::string& name : weights.unknown_names) {
    report.line("it is not known how ranks divide " + name, 4, 6);
  }
}

}  // namespace kvpool::cli
