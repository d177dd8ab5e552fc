// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/stored_share.hpp>

#include <kvpool/core/checked.hpp>

#include <algorithm>
#include <cstddef>

namespace kvpool {
namespace {

/// Engines fill a token table up to a multiple of this many rows before they divide it.
constexpr std::int64_t kTableRows = 64;

/// Bytes of the fullest of `ranks`, which get whole units; 0 units come out even in any division.
[[nodiscard]] CheckedInt divided(CheckedInt bytes, std::int64_t units, CheckedInt ranks) {
  if (units <= 0) {
    return ceil_div(bytes, ranks);
  }
  return ceil_div(bytes * ceil_div(CheckedInt{units}, ranks), CheckedInt{units});
}

/// Whole experts over expert parallel ranks, each over the tensor parallel ranks that are left.
[[nodiscard]] CheckedInt expert_share(const WeightPart& part, const Parallelism& p) {
  const std::int64_t inner_ranks = std::max<std::int64_t>(1, p.tensor / p.expert);
  return divided(divided(part.bytes.count(), part.units, p.expert), part.inner_units, inner_ranks);
}

/// Expected, least and most that a rank loads of one part.
struct Ends {
  CheckedInt bytes{0};
  CheckedInt low{0};
  CheckedInt high{0};
};

[[nodiscard]] Ends share_of(const WeightPart& part, const Parallelism& p) {
  const CheckedInt whole{part.bytes.count()};
  switch (part.split) {
    case WeightSplit::kReplicated: return {whole, whole, whole};
    case WeightSplit::kAttention: {
      const CheckedInt share = divided(whole, part.units, state_parallel_size(p));
      return {share, share, share};
    }
    case WeightSplit::kTensor: {
      const CheckedInt share = divided(whole, part.units, p.tensor);
      const bool table = part.place == WeightPlace::kEmbedding || part.place == WeightPlace::kHead;
      if (!table || part.units % kTableRows == 0 || part.units <= 0) {
        return {share, share, share};
      }
      const CheckedInt rows = ceil_div(CheckedInt{part.units}, kTableRows) * kTableRows;
      const CheckedInt filled = ceil_div(whole * ceil_div(rows, p.tensor), CheckedInt{part.units});
      return {share, share, max(share, filled)};
    }
    case WeightSplit::kExperts: {
      const CheckedInt share = expert_share(part, p);
      return {share, share, share};
    }
    case WeightSplit::kUnsure: return {whole, divided(whole, 0, p.tensor), whole};
  }
  return {whole, whole, whole};
}

/// Adds one part to the stages that load it.
void add_part(const WeightPart& part, const StoredWeights& weights, std::int64_t layers,
              const Parallelism& p, bool next_token_layers, std::vector<Ends>& stages) {
  const Ends share = share_of(part, p);
  const auto add = [&share](Ends& sum) {
    sum.bytes += share.bytes;
    sum.low += share.low;
    sum.high += share.high;
  };
  switch (part.place) {
    case WeightPlace::kEncoder: add(stages.front()); break;
    case WeightPlace::kHead: add(stages.back()); break;
    case WeightPlace::kEmbedding:
      add(stages.front());
      if (weights.tied_embeddings && stages.size() > 1) {
        add(stages.back());
      }
      break;
    case WeightPlace::kNextToken:
      if (next_token_layers) {
        add(stages.back());
      }
      break;
    case WeightPlace::kLayer: {
      // Stages are contiguous, so the owner is the last one that starts at the layer or before.
      std::int64_t stage = 0;
      for (std::int64_t step = p.pipeline; step > 0; step /= 2) {
        while (stage + step < p.pipeline &&
               stage_layers(layers, p.pipeline, stage + step).first <= part.layer) {
          stage += step;
        }
      }
      add(stages[static_cast<std::size_t>(stage)]);
      break;
    }
  }
}

}  // namespace

std::vector<StoredShare> stored_shares(const StoredWeights& weights, std::int64_t layers,
                                       const Parallelism& parallelism, bool next_token_layers) {
  std::vector<Ends> stages(static_cast<std::size_t>(parallelism.pipeline));
  for (const WeightPart& part : weights.parts) {
    add_part(part, weights, layers, parallelism, next_token_layers, stages);
  }
  std::vector<StoredShare> shares;
  shares.reserve(stages.size());
  for (const Ends& sum : stages) {
    shares.push_back({.stage = static_cast<std::int64_t>(shares.size()),
                      .bytes = Bytes{sum.bytes.saturated()},
                      .low = Bytes{sum.low.saturated()},
                      .high = Bytes{sum.high.saturated()}});
  }
  return shares;
}

StoredShare heaviest_share(const StoredWeights& weights, std::int64_t layers,
                           const Parallelism& parallelism, bool next_token_layers) {
  const std::vector<StoredShare> shares =
      stored_shares(weights, layers, parallelism, next_token_layers);
  return *std::ranges::max_element(shares, {}, &StoredShare::bytes);
}

}  // namespace kvpool
