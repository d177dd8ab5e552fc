// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0

// Setting up a block manager: every table that it will ever need.

#include <kvpool/core/checked.hpp>

#include "block/manager_impl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace kvpool {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 30;
constexpr std::int64_t kMostSequences = std::int64_t{1} << 20;
/// Largest prefix block, unless one page is larger: nothing shorter can be found in the cache.
constexpr std::int64_t kMostBlockTokens = 4096;
/// Prefix block where no group has pages of tokens.
constexpr std::int64_t kBlockWithoutPages = 64;

Error invalid(std::string message, std::string key) {
  return {
      .code = ErrorCode::kInvalidArgument, .message = std::move(message), .key = std::move(key)};
}

Result<void> check_options(const BlockManagerOptions& options) {
  const auto in_range = [](std::int64_t value, std::int64_t least, std::int64_t most,
                           const char* name) -> Result<void> {
    if (value < least || value > most) {
      return invalid(fmt::format("{} is {}; it must be {}..{}", name, value, least, most), name);
    }
    return {};
  };
  const std::int64_t length = options.max_length.count();
  const std::int64_t draft_length = options.draft_max_length.value_or(Tokens{1}).count();
  for (const Result<void>& checked :
       {in_range(options.max_sequences.count(), 1, kMostSequences, "max_sequences"),
        in_range(length, 1, kMostTokens, "max_length"),
        in_range(draft_length, 1, kMostTokens, "draft_max_length"),
        in_range(options.draft_lookahead.count(), 0, kMostTokens, "draft_lookahead"),
        in_range(options.snapshot_interval.count(), 0, kMostTokens, "snapshot_interval"),
        in_range(options.max_pins, 0, kMostSequences, "max_pins"),
        in_range(options.max_tenants, 1, std::numeric_limits<std::uint16_t>::max(), "max_tenants"),
        in_range(options.max_cached_runs, 0, kMostTokens, "max_cached_runs"),
        in_range(options.max_copies, 0, kMostTokens, "max_copies")}) {
    if (!checked) {
      return checked.error();
    }
  }
  return {};
}

/// Least common multiple of the page sizes that prefixes are shared in.
Result<std::int64_t> prefix_block_of(std::span<const CacheGroup> groups,
                                     const BlockManagerOptions& options) {
  std::int64_t block = 1;
  std::int64_t largest = 0;
  std::string sizes;
  for (const CacheGroup& group : groups) {
    if (group.kind == GroupKind::kState || group.kind == GroupKind::kCross) {
      continue;
    }
    const std::int64_t page = group.tokens_per_block.count();
    block = std::lcm(block, std::min(page, kMostTokens));
    largest = std::max(largest, page);
    sizes += fmt::format("{}{} of {}", sizes.empty() ? "" : ", ", page, group.name);
    if (block > std::max(largest, kMostBlockTokens)) {
      return invalid(fmt::format("pages of {} tokens have the least common multiple {}, which is "
                                 "the shortest prefix that all groups could share; at most {} is "
                                 "sensible: choose sizes that divide one another",
                                 sizes, block, std::max(largest, kMostBlockTokens)),
                     "tokens_per_block");
    }
  }
  const std::int64_t interval = options.snapshot_interval.count();
  if (largest == 0) {
    return interval != 0 ? std::min(interval, kMostBlockTokens) : kBlockWithoutPages;
  }
  return block;
}

}  // namespace

Result<void> BlockManager::Impl::set_up(std::span<const PoolDescriptor> pool_descriptors) {
  if (auto checked = check_options(options); !checked) {
    return checked;
  }
  if (pool_descriptors.empty()) {
    return invalid("a block manager needs at least one pool", "pools");
  }
  draft_limit = options.draft_limit().count();
  auto found = cache_groups(pool_descriptors, options.draft_limit());
  if (!found) {
    return std::move(found).error();
  }
  described = *std::move(found);
  if (described.size() > kMaxGroups) {
    return Error{.code = ErrorCode::kOutOfRange,
                 .message = fmt::format("{} groups; a manager has at most {}", described.size(),
                                        kMaxGroups)};
  }
  const auto block = prefix_block_of(described, options);
  if (!block) {
    return block.error();
  }
  block_tokens = *block;
  by_block = block::Divider{block_tokens};
  const std::int64_t interval = options.snapshot_interval.count();
  if (interval % block_tokens != 0) {
    return invalid(fmt::format("snapshot_interval is {} tokens; it must be a multiple of the "
                               "prefix block, which is {}",
                               interval, block_tokens),
                   "snapshot_interval");
  }
  descriptors.assign(pool_descriptors.begin(), pool_descriptors.end());

  // Units of tokens: as many as the pools have pages for, and a quarter more for prompts whose
  // pages are not taken yet.
  const std::int64_t sequences = options.max_sequences.count();
  const std::int64_t length = options.max_length.count();
  const std::int64_t blocks_of_longest = ceil_div(length, block_tokens);
  std::int64_t pooled_blocks = 0;
  for (const CacheGroup& group : described) {
    if (group.kind == GroupKind::kFull) {
      const PoolDescriptor& pool = descriptors[static_cast<std::size_t>(group.pool.value())];
      pooled_blocks = std::max(
          pooled_blocks,
          (CheckedInt{pool.slabs.count()} * group.pages_per_slab * group.tokens_per_block.count())
                  .saturated() /
              block_tokens);
    }
  }
  CheckedInt units = CheckedInt{pooled_blocks} + pooled_blocks / 4 + blocks_of_longest +
                     CheckedInt{sequences} * (kTokenRoom / block_tokens + 2);
  if (pooled_blocks == 0) {
    // Windows and states alone do not bound what is remembered: all live sequences, and as much
    // again.
    units += CheckedInt{2} * sequences * blocks_of_longest;
  }
  const std::int64_t most_runs =
      options.max_cached_runs != 0
          ? options.max_cached_runs
          : (pooled_blocks != 0 ? pooled_blocks : units.saturated()) / 5 + 64;
  const std::int64_t run_count = most_runs + 2 * sequences + block::kSpareRuns;
  if (units.saturated() > kMostTokens || run_count > kMostTokens ||
      (units * block_tokens).saturated() > (std::int64_t{1} << 40)) {
    return Error{.code = ErrorCode::kOutOfRange,
                 .message = fmt::format("the pools have {} prefix blocks of {} tokens; at most {} "
                                        "can be managed",
                                        units.saturated(), block_tokens, kMostTokens)};
  }
  const auto unit_count = static_cast<std::uint32_t>(units.saturated());
  runs = block::RunTree{static_cast<std::uint32_t>(run_count), unit_count,
                        static_cast<std::uint32_t>(block_tokens)};
  const auto run_slots = static_cast<std::size_t>(run_count) + 1;
  timers = block::TimingWheel{run_slots};
  time_to_live = ReservedArray<std::int64_t>{run_slots};
  expires = ReservedArray<std::int64_t>{run_slots};
  tenant_links = ReservedArray<Link>{run_slots};
  hot = ReservedArray<Hot>{static_cast<std::size_t>(sequences)};
  cold = ReservedArray<Cold>{static_cast<std::size_t>(sequences)};
  cells = ReservedArray<Cell>{static_cast<std::size_t>(sequences) * described.size()};
  bool ok = runs.ok() && timers.ok() && time_to_live.ok() && expires.ok() && tenant_links.ok() &&
            hot.ok() && cold.ok() && cells.ok();

  all_full = true;
  groups.resize(described.size());
  for (std::size_t p = 0; p < descriptors.size(); ++p) {
    const PoolDescriptor& descriptor = descriptors[p];
    auto pool = PagePool::create(descriptor, {.pool = PoolId{static_cast<std::int32_t>(p)},
                                              .record_owners = options.record_owners,
                                              .on_free = options.on_free,
                                              .on_allocate = options.on_allocate});
    if (!pool) {
      return std::move(pool).error();
    }
    Pool& at = pools.emplace_back(*std::move(pool));
    at.first_group = p == 0 ? 0 : pools[p - 1].last_group;
    at.last_group = at.first_group + descriptor.groups.size();
    PagePool::Impl& pages = at.pages.impl();
    bool needs_meta = pages.shared;
    any_shared = any_shared || pages.shared;
    for (std::size_t g = at.first_group; g < at.last_group; ++g) {
      const CacheGroup& from = described[g];
      Group& group = groups[g];
      group.kind = from.kind;
      group.draft = from.is_draft;
      group.pool = static_cast<std::int32_t>(p);
      group.group_in_pool = from.group_in_pool;
      group.extent = from.extent.count();
      group.pages = &pages;
      group.independent = from.kind != GroupKind::kFull;
      group.paged = from.kind != GroupKind::kState && from.kind != GroupKind::kCross;
      group.page = std::max<std::int64_t>(1, from.tokens_per_block.count());
      group.by_page = block::Divider{group.page};
      group.by_extent = block::Divider{std::max<std::int64_t>(1, group.extent)};
      all_full = all_full && from.kind == GroupKind::kFull;
      needs_meta = needs_meta || group.independent;
      const std::uint64_t bit = std::uint64_t{1} << g;
      all_groups |= bit;
      draft_groups |= group.draft ? bit : 0;
      switch (from.kind) {
        case GroupKind::kFull: break;
        case GroupKind::kSlidingWindow:
        case GroupKind::kChunked:
          has_windows = true;
          window_groups |= bit;
          break;
        case GroupKind::kCross: has_cross = true; break;
        case GroupKind::kState: state_groups |= bit; break;
      }
      if (group.paged) {
        group.per_block = block_tokens / group.page;
      } else if (group.kind == GroupKind::kState) {
        group.per_block = 1;
      }
      pages_per_block += group.per_block;
      const std::int64_t columns =
          group.kind == GroupKind::kState ? 1 : ceil_div(length, group.page);
      // Whole lines of the processor's cache, so that two rows do not share one.
      group.columns = static_cast<std::size_t>(ceil_div(columns, 16) * 16);
      group.by_unit =
          ReservedArray<std::int32_t>{unit_count * static_cast<std::size_t>(group.per_block)};
      group.rows = ReservedArray<std::int32_t>{static_cast<std::size_t>(sequences) * group.columns};
      ok = ok && group.by_unit.ok() && group.rows.ok();
    }
    if (needs_meta) {
      at.meta = ReservedArray<Meta>{pages.slots()};
      ok = ok && at.meta.ok();
    }
  }
  if (any_shared) {
    run_of_unit = ReservedArray<std::uint32_t>{unit_count};
    ok = ok && run_of_unit.ok();
  }
  if (!ok) {
    return Error{.code = ErrorCode::kExhausted,
                 .message = fmt::format("no address space for the tables of {} sequences and {} "
                                        "prefix blocks",
                                        sequences, units.saturated())};
  }
  const auto tenant_count = static_cast<std::size_t>(options.max_tenants);
  tenants.resize(tenant_count * pools.size());
  limited.resize(tenant_count);
  tenant_runs.resize(tenant_count);
  tenant_pages.resize(tenant_count * groups.size());
  free_sequences.resize(static_cast<std::size_t>(sequences));
  for (std::size_t i = 0; i < free_sequences.size(); ++i) {
    // The smallest index on top.
    free_sequences[i] = static_cast<std::uint32_t>(free_sequences.size() - 1 - i);
    hot[i].generation = kNil;
  }
  pins.resize(static_cast<std::size_t>(options.max_pins));
  free_pins.resize(pins.size());
  for (std::size_t i = 0; i < pins.size(); ++i) {
    free_pins[i] = static_cast<std::uint32_t>(pins.size() - 1 - i);
  }
  const std::int64_t per_sequence = pages_per_block + static_cast<std::int64_t>(groups.size());
  copies.reserve(static_cast<std::size_t>(
      options.max_copies != 0
          ? options.max_copies
          : std::min<std::int64_t>(sequences * per_sequence, 1 << 20) + 4 * per_sequence));
  shortage_lines.reserve(groups.size());
  return {};
}

Result<BlockManager> BlockManager::create(std::span<const PoolDescriptor> pools,
                                          const BlockManagerOptions& options) {
  if (options.max_tenants < 1) {
    return invalid("max_tenants must count the public tenant", "max_tenants");
  }
  auto impl = std::make_unique<Impl>(options);
  if (auto done = impl->set_up(pools); !done) {
    return std::move(done).error();
  }
  return BlockManager{std::move(impl)};
}

}  // namespace kvpool
