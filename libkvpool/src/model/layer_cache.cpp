// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/model/layer_cache.hpp>

namespace kvpool {

std::string_view to_string(SpanKind kind) noexcept {
  switch (kind) {
    case SpanKind::kFull: return "full";
    case SpanKind::kSlidingWindow: return "sliding_window";
    case SpanKind::kChunked: return "chunked";
    case SpanKind::kCross: return "cross";
  }
  return "full";
}

std::string_view to_string(StateFamily family) noexcept {
  switch (family) {
    case StateFamily::kMamba2: return "mamba2";
    case StateFamily::kGatedDeltaNet: return "gated_delta_net";
    case StateFamily::kKimiDelta: return "kimi_delta";
    case StateFamily::kShortConv: return "short_conv";
  }
  return "mamba2";
}

}  // namespace kvpool
