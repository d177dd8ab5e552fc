// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/block/cache_group.hpp>

#include <fmt/format.h>

#include <utility>

namespace kvpool {
namespace {

GroupKind kind_of(const LayerGroup& group) noexcept {
  if (group.is_state) {
    return GroupKind::kState;
  }
  switch (group.span.kind) {
    case SpanKind::kFull: return GroupKind::kFull;
    case SpanKind::kSlidingWindow: return GroupKind::kSlidingWindow;
    case SpanKind::kChunked: return GroupKind::kChunked;
    case SpanKind::kCross: return GroupKind::kCross;
  }
  return GroupKind::kFull;
}

Error invalid(std::string message) {
  return {.code = ErrorCode::kInvalidArgument, .message = std::move(message)};
}

}  // namespace

std::string_view to_string(GroupKind kind) noexcept {
  switch (kind) {
    case GroupKind::kFull: return "full";
    case GroupKind::kSlidingWindow: return "sliding_window";
    case GroupKind::kChunked: return "chunked";
    case GroupKind::kCross: return "cross";
    case GroupKind::kState: return "state";
  }
  return "full";
}

Result<std::vector<CacheGroup>> cache_groups(std::span<const PoolDescriptor> pools,
                                             std::optional<Tokens> draft_max_len) {
  std::vector<CacheGroup> groups;
  for (std::size_t p = 0; p < pools.size(); ++p) {
    const PoolDescriptor& pool = pools[p];
    if (pool.groups.empty()) {
      return invalid(fmt::format("pool {} has no groups", pool.name));
    }
    for (std::size_t g = 0; g < pool.groups.size(); ++g) {
      const PooledGroup& pooled = pool.groups[g];
      CacheGroup group{
          .name = fmt::format("{}/{}", pool.name, group_name(pooled.group)),
          .pool = PoolId{static_cast<std::int32_t>(p)},
          .group_in_pool = static_cast<std::int32_t>(g),
          .kind = kind_of(pooled.group),
          .is_draft = pool.role == PoolRole::kDraft ||
                      (pool.role == PoolRole::kState && pool.name.starts_with("draft")),
          .tokens_per_block = pooled.page.tokens_per_block,
          .extent = pooled.group.span.extent,
          .page_bytes = pooled.page.page_bytes,
          .pages_per_slab = pooled.pages_per_slab};
      if (group.kind == GroupKind::kState) {
        group.tokens_per_block = Tokens{0};
        group.extent = Tokens{0};
      } else if (group.tokens_per_block.count() <= 0) {
        return invalid(fmt::format("{}: a page has no token slots", group.name));
      }
      const bool has_extent =
          group.kind == GroupKind::kSlidingWindow || group.kind == GroupKind::kChunked;
      if (has_extent && group.extent.count() <= 0) {
        return invalid(
            fmt::format("{}: a window or chunk of {} tokens", group.name, group.extent.count()));
      }
      if (group.kind == GroupKind::kFull) {
        group.extent = Tokens{0};
      }
      if (group.is_draft) {
        group.max_len = draft_max_len;
      }
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

}  // namespace kvpool
