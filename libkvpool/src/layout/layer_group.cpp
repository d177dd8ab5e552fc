// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/layout/layer_group.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace kvpool {
namespace {

bool is_per_sequence(CacheKind kind) noexcept {
  return kind == CacheKind::kState || kind == CacheKind::kLatentTail;
}

/// Order of groups in a pool: by span, states last.
bool comes_before(const LayerGroup& a, const LayerGroup& b) noexcept {
  return a.is_state != b.is_state ? !a.is_state : a.span < b.span;
}

}  // namespace

std::string group_name(const LayerGroup& group) {
  if (group.is_state) {
    return "state";
  }
  const bool has_extent =
      group.span.kind == SpanKind::kSlidingWindow || group.span.kind == SpanKind::kChunked;
  return has_extent ? fmt::format("{}_{}", to_string(group.span.kind), group.span.extent.count())
                    : std::string{to_string(group.span.kind)};
}

std::vector<LayerGroup> group_layers(std::span<const LayerGeometry> layers) {
  std::vector<LayerGroup> groups;
  for (const LayerGeometry& layer : layers) {
    const bool is_state = is_per_sequence(layer.kind);
    const Span span = is_state ? Span{} : layer.span;
    auto found = std::ranges::find_if(groups, [&](const LayerGroup& group) {
      return group.is_state == is_state && group.span == span;
    });
    if (found == groups.end()) {
      found = groups.insert(groups.end(), LayerGroup{.span = span, .is_state = is_state});
    }
    found->layers.push_back(layer);
  }
  std::ranges::sort(groups, comes_before);
  return groups;
}

Pages pages_of_sequence(const LayerGroup& group, Tokens length, Tokens tokens_per_block,
                        Tokens lookahead) noexcept {
  if (group.is_state) {
    return Pages{1};
  }
  if (length.count() <= 0) {
    return Pages{0};
  }
  const Pages whole = pages_ceil(length, tokens_per_block);
  const Tokens extent = group.span.extent;
  switch (group.span.kind) {
    case SpanKind::kFull: return whole;
    case SpanKind::kSlidingWindow: {
      // The newest token and the window - 1 before it, wherever they start inside a page.
      const Tokens kept = extent - Tokens{1} + lookahead;
      return std::min(whole, pages_ceil(kept, tokens_per_block) + Pages{1});
    }
    case SpanKind::kChunked: {
      const Pages chunk = pages_ceil(extent + lookahead, tokens_per_block);
      const bool starts_inside_a_page = (extent % tokens_per_block).count() != 0;
      return std::min(whole, chunk + Pages{starts_inside_a_page ? 1 : 0});
    }
    case SpanKind::kCross: return pages_ceil(extent, tokens_per_block);
  }
  return whole;
}

}  // namespace kvpool
