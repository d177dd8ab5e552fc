// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/model/stored_weights.hpp>

namespace kvpool {

std::string_view to_string(WeightPlace place) noexcept {
  switch (place) {
    case WeightPlace::kEmbedding: return "embedding";
    case WeightPlace::kLayer: return "layer";
    case WeightPlace::kHead: return "head";
    case WeightPlace::kNextToken: return "next_token";
    case WeightPlace::kEncoder: return "encoder";
  }
  return "layer";
}

std::string_view to_string(WeightSplit split) noexcept {
  switch (split) {
    case WeightSplit::kReplicated: return "replicated";
    case WeightSplit::kAttention: return "attention";
    case WeightSplit::kTensor: return "tensor";
    case WeightSplit::kExperts: return "experts";
    case WeightSplit::kUnsure: return "unsure";
  }
  return "replicated";
}

}  // namespace kvpool
