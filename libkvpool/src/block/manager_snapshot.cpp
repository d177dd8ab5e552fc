// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/block/manager_snapshot.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace kvpool::io {
namespace {

// Keys stay in the order in which they are written.
using Json = nlohmann::ordered_json;

std::string_view name_of(DraftNotice notice) {
  switch (notice) {
    case DraftNotice::kNone: return "none";
    case DraftNotice::kNoRoom: return "no_room";
    case DraftNotice::kBeyondLimit: return "beyond_limit";
  }
  return "none";
}

Json pools_of(const BlockManager& manager) {
  Json pools = Json::array();
  for (std::size_t i = 0; i < manager.pools().size(); ++i) {
    const PoolDescriptor& pool = manager.pools()[i];
    const PagePool& pages = manager.page_pool(PoolId{static_cast<std::int32_t>(i)});
    pools.push_back({{"name", pool.name},
                     {"role", to_string(pool.role)},
                     {"unit_bytes", pool.unit_bytes.count()},
                     {"slab_bytes", pool.slab_bytes.count()},
                     {"slabs", pool.slabs.count()},
                     {"free_slabs", pages.free_slabs().count()},
                     {"unsettled_pages", pages.unsettled_pages().count()}});
  }
  return pools;
}

Json groups_of(const BlockManager& manager) {
  Json groups = Json::array();
  for (std::size_t i = 0; i < manager.groups().size(); ++i) {
    const CacheGroup& group = manager.groups()[i];
    const GroupId id{static_cast<std::int32_t>(i)};
    groups.push_back({{"name", group.name},
                      {"pool", group.pool.value()},
                      {"kind", to_string(group.kind)},
                      {"is_draft", group.is_draft},
                      {"tokens_per_block", group.tokens_per_block.count()},
                      {"extent", group.extent.count()},
                      {"page_bytes", group.page_bytes.count()},
                      {"held_pages", manager.held_pages(id).count()},
                      {"evictable_pages", manager.evictable_pages(id).count()},
                      {"available_pages", manager.available_pages(id).count()}});
  }
  return groups;
}

Json sequence_of(const BlockManager& manager, SequenceId id) {
  const SequenceLengths lengths = manager.lengths(id);
  Json groups = Json::array();
  for (std::size_t i = 0; i < manager.groups().size(); ++i) {
    const GroupId group{static_cast<std::int32_t>(i)};
    const GroupView view = manager.view(id, group);
    const auto first = static_cast<std::size_t>(view.held.first.value());
    const auto count = static_cast<std::size_t>(view.held.count());
    if (count > 0) {
      groups.push_back({{"group", group.value()},
                        {"computed", view.computed.count()},
                        {"first_block", view.held.first.value()},
                        {"entries", view.entries.subspan(first, count)}});
    }
  }
  return {{"index", id.index},
          {"generation", id.generation},
          {"prompt", lengths.prompt.count()},
          {"reserved", lengths.reserved.count()},
          {"committed", lengths.committed.count()},
          {"computed", lengths.computed.count()},
          {"drafts", manager.drafts(id)},
          {"draft_notice", name_of(manager.draft_notice(id))},
          {"groups", std::move(groups)}};
}

Json sequences_of(const BlockManager& manager) {
  Json sequences = Json::array();
  for (std::optional<SequenceId> id = manager.next_live(0); id.has_value();
       id = manager.next_live(id->index + 1)) {
    sequences.push_back(sequence_of(manager, *id));
  }
  return sequences;
}

Json tenants_of(const BlockManager& manager) {
  Json tenants = Json::array();
  const std::vector<std::string> names = manager.tenants();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const TenantId id{static_cast<std::int32_t>(i)};
    Json pools = Json::array();
    for (std::size_t p = 0; p < manager.pools().size(); ++p) {
      const TenantUsage usage = manager.usage(id, PoolId{static_cast<std::int32_t>(p)});
      pools.push_back({{"live", usage.live.count()},
                       {"cached", usage.cached.count()},
                       {"quota", usage.quota.has_value() ? Json(usage.quota->count()) : Json()}});
    }
    tenants.push_back({{"name", names[i]}, {"pools", std::move(pools)}});
  }
  return tenants;
}

Json counters_of(const BlockManagerCounters& counters) {
  return {{"admitted", counters.admitted},
          {"refused", counters.refused},
          {"prompt_tokens", counters.prompt_tokens},
          {"hit_tokens", counters.hit_tokens},
          {"hits", counters.hits},
          {"forked", counters.forked},
          {"released", counters.released},
          {"evicted_blocks", counters.evicted_blocks},
          {"evicted_pages", counters.evicted_pages},
          {"duplicate_blocks", counters.duplicate_blocks},
          {"snapshots", counters.snapshots}};
}

}  // namespace

std::string manager_snapshot(const BlockManager& manager) {
  const Json document = {{"schema", "kvpool.block_manager/1"},
                         {"opened", manager.opened().value()},
                         {"completed", manager.completed().value()},
                         {"prefix_block", manager.prefix_block().count()},
                         {"fingerprint", fmt::format("{:016x}", manager.fingerprint())},
                         {"pools", pools_of(manager)},
                         {"groups", groups_of(manager)},
                         {"sequences", sequences_of(manager)},
                         {"tenants", tenants_of(manager)},
                         {"counters", counters_of(manager.counters())}};
  // Names come from the engine: what is not UTF-8 in them is replaced, not thrown about.
  return document.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kvpool::io
