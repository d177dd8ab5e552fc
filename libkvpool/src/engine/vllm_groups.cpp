// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "engine/vllm_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace kvpool::detail {
namespace {

/// Kinds that one block table serves whatever their sizes.
bool is_full_family(const CacheSlice& slice) noexcept {
  return !slice.is_state() && slice.span.kind == SpanKind::kFull;
}

/// Layers of one identity share a bucket: what they are, not how many bytes they take. (The bytes
/// stand in it for layers that a packed format leaves in 16 bit.)
auto identity(const CacheSlice& s) {
  return std::tuple{s.kind,
                    s.span,
                    s.heads,
                    s.key_dim,
                    s.value_dim,
                    s.key_bytes,
                    s.value_bytes,
                    s.family,
                    s.conv_channels,
                    s.conv_columns,
                    s.conv_column_bytes,
                    s.matrix_bytes};
}

bool is_uniform(std::span<const CacheSlice> slices) noexcept {
  const CacheSlice& first = slices.front();
  if (std::ranges::all_of(slices, is_full_family)) {
    return true;
  }
  return std::ranges::all_of(slices, [&first](const CacheSlice& slice) {
    return slice.is_state() ? identity(slice) == identity(first)
                            : !first.is_state() && slice.span == first.span;
  });
}

std::int64_t stage_of(const CacheSlice& slice, const EngineRequest& request) noexcept {
  const auto layers = static_cast<std::int64_t>(request.target.layers.size());
  const std::int64_t stages = request.settings.pp;
  if (slice.draft) {
    return stages - 1;  // draft layers run behind the target's last
  }
  return stage_of_layer(slice.layer, layers, stages);
}

using Bucket = std::vector<std::size_t>;

std::vector<Bucket> buckets_of(std::span<const CacheSlice> slices) {
  std::vector<Bucket> buckets;
  std::map<decltype(identity(slices.front())), std::size_t> known;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const auto [at, is_new] = known.try_emplace(identity(slices[i]), buckets.size());
    if (is_new) {
      buckets.emplace_back();
    }
    buckets[at->second].push_back(i);
  }
  return buckets;
}

/// Layers of a group: the smallest bucket, or the largest one where that pads little.
std::int64_t group_size(const std::vector<Bucket>& buckets, std::int64_t limit_percent) {
  const auto size = [](const Bucket& bucket) { return bucket.size(); };
  const auto smallest =
      static_cast<std::int64_t>(std::ranges::min_element(buckets, {}, size)->size());
  const auto largest =
      static_cast<std::int64_t>(std::ranges::max_element(buckets, {}, size)->size());
  constexpr std::int64_t kPercent = 100;
  return largest * kPercent < smallest * limit_percent ? largest : smallest;
}

/// Adds up a stage's bytes of one block id and keeps the largest stage.
class Stages {
 public:
  explicit Stages(std::int64_t stages) : bytes_(static_cast<std::size_t>(stages), CheckedInt{0}) {}
  CheckedInt& operator[](std::int64_t stage) { return bytes_[static_cast<std::size_t>(stage)]; }
  void settle(VllmLayout& layout) const {
    for (std::size_t stage = 0; stage < bytes_.size(); ++stage) {
      if (const std::int64_t bytes = bytes_[stage].saturated(); bytes > layout.block_bytes) {
        layout.block_bytes = bytes;
        layout.stage = static_cast<std::int64_t>(stage);
      }
    }
  }

 private:
  std::vector<CheckedInt> bytes_;
};

}  // namespace

bool VllmLayout::on_stage(const CacheSlice& slice, const EngineRequest& request) const noexcept {
  return stage_of(slice, request) == stage;
}

Result<VllmBlock> vllm_block(std::span<const CacheSlice> target, std::int64_t asked,
                             std::int64_t draft_columns) {
  VllmBlock block{.tokens = asked};
  std::int64_t attention = 0;
  for (const CacheSlice& slice : target) {
    if (slice.is_state()) {
      block.state_bytes = std::max(block.state_bytes, slice.state_bytes(draft_columns).saturated());
    } else if (slice.kind != CacheKind::kIndexer) {
      attention = std::max(attention, slice.token_bytes().saturated());
    }
  }
  if (block.state_bytes == 0 || attention == 0) {
    return block;
  }
  const CheckedInt step = CheckedInt{asked} * attention;
  const CheckedInt enlarged = max(asked, ceil_div(CheckedInt{block.state_bytes}, step) * asked);
  const auto tokens = enlarged.to_int64();
  const auto page = (enlarged * attention).to_int64();
  if (!tokens.has_value() || !page.has_value()) {
    return setting_error("tokens_per_block", "the block that holds a state exceeds 64 bits",
                         ErrorCode::kOutOfRange);
  }
  block.tokens = *tokens;
  block.page = *page;
  return block;
}

Result<VllmLayout> vllm_layout(std::span<const CacheSlice> slices, const EngineRequest& request,
                               const VllmBlock& block, std::int64_t draft_columns) {
  VllmLayout layout;
  const bool keeps_something = std::ranges::any_of(slices, [&](const CacheSlice& slice) {
    const CheckedInt bytes =
        slice.is_state() ? slice.state_bytes(draft_columns) : slice.token_bytes();
    return bytes.saturated() > 0;
  });
  if (!keeps_something) {
    return setting_error("model", "no layer keeps a cache", ErrorCode::kUnsupported);
  }
  Stages stages{request.settings.pp};
  if (is_uniform(slices)) {
    layout.uniform = true;
    VllmGroup& group = layout.groups.emplace_back();
    for (std::size_t i = 0; i < slices.size(); ++i) {
      group.members.push_back(i);
      const CacheSlice& slice = slices[i];
      stages[stage_of(slice, request)] +=
          slice.is_state() ? slice.state_bytes(draft_columns) : slice.token_bytes() * block.tokens;
    }
    group.bucket = static_cast<std::int64_t>(slices.size());
    group.tokens_per_block = slices.front().is_state() ? 0 : block.tokens;
    stages.settle(layout);
    return layout;
  }
  CheckedInt page{block.page};
  for (const CacheSlice& slice : slices) {
    page = max(page, slice.is_state() ? slice.state_bytes(draft_columns)
                                      : slice.token_bytes() * block.tokens);
  }
  layout.page = page.saturated();
  const std::vector<Bucket> buckets = buckets_of(slices);
  const std::int64_t size = group_size(buckets, request.settings.group_padding_limit);
  std::vector<std::int64_t> on_stage(static_cast<std::size_t>(request.settings.pp), 0);
  for (const Bucket& bucket : buckets) {
    const CacheSlice& kind = slices[bucket.front()];
    const auto layers = static_cast<std::int64_t>(bucket.size());
    const std::int64_t count = ceil_div(layers, size);
    std::int64_t tokens = 0;
    if (!kind.is_state()) {
      const std::int64_t own = (kind.token_bytes() * block.tokens).saturated();
      const bool divides = own > 0 && layout.page % own == 0;
      tokens =
          divides ? (CheckedInt{block.tokens} * (layout.page / own)).saturated() : block.tokens;
      layout.padded_pages = layout.padded_pages || !divides;
    }
    for (std::int64_t g = 0; g < count; ++g) {
      VllmGroup group{.bucket = layers, .tokens_per_block = tokens};
      group.padding = g == 0 ? count * size - layers : 0;
      for (std::int64_t i = g; i < layers; i += count) {
        const std::size_t member = bucket[static_cast<std::size_t>(i)];
        group.members.push_back(member);
        ++on_stage[static_cast<std::size_t>(stage_of(slices[member], request))];
      }
      for (const std::size_t member : group.members) {
        const std::int64_t stage = stage_of(slices[member], request);
        std::int64_t& places = on_stage[static_cast<std::size_t>(stage)];
        stages[stage] = max(stages[stage], CheckedInt{layout.page} * places);
      }
      for (const std::size_t member : group.members) {
        on_stage[static_cast<std::size_t>(stage_of(slices[member], request))] = 0;
      }
      layout.groups.push_back(std::move(group));
    }
  }
  stages.settle(layout);
  return layout;
}

}  // namespace kvpool::detail
