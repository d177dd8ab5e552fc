// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "block/name_tables.hpp"

#include <fmt/format.h>

#include <limits>

namespace kvpool::block {

NameTables::NameTables(std::size_t max_tenants) : max_tenants_{max_tenants} {
  tenants_.emplace("", 0);
  add(NamespaceKey{});
}

NamespaceId NameTables::add(const NamespaceKey& key) {
  // The public region of an adapter is a namespace of its own, made before the first that needs it.
  const bool is_public = key.tenant == kPublicTenant && key.salt.empty();
  NamespaceId region{static_cast<std::int32_t>(namespaces_.size())};
  if (!is_public) {
    const auto found = keys_.find(Key{0, "", key.adapter});
    region = found != keys_.end() ? NamespaceId{found->second}
                                  : add(NamespaceKey{.adapter = key.adapter});
  }
  const auto id = static_cast<std::int32_t>(namespaces_.size());
  namespaces_.push_back({.tenant = key.tenant, .public_region = region});
  keys_.emplace(Key{key.tenant.value(), key.salt, key.adapter}, id);
  return NamespaceId{id};
}

Result<TenantId> NameTables::tenant(std::string_view name) {
  const std::string key{name};
  if (const auto found = tenants_.find(key); found != tenants_.end()) {
    return TenantId{found->second};
  }
  if (tenants_.size() >= max_tenants_) {
    return Error{
        .code = ErrorCode::kExhausted,
        .message = fmt::format("all {} tenants have names; raise max_tenants", max_tenants_),
        .value = key};
  }
  const auto id = static_cast<std::int32_t>(tenants_.size());
  tenants_.emplace(key, id);
  return TenantId{id};
}

Result<NamespaceId> NameTables::name_space(const NamespaceKey& key) {
  const auto tenant = static_cast<std::size_t>(key.tenant.value());
  if (key.tenant.value() < 0 || tenant >= tenants_.size()) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("tenant {} is not one of the {} that have names",
                                        key.tenant.value(), tenants_.size())};
  }
  const auto found = keys_.find(Key{key.tenant.value(), key.salt, key.adapter});
  return found != keys_.end() ? NamespaceId{found->second} : add(key);
}

Result<ItemId> NameTables::item(std::string_view key) {
  const std::string owned{key};
  if (const auto found = items_.find(owned); found != items_.end()) {
    return ItemId{found->second};
  }
  if (items_.size() >= std::numeric_limits<std::int32_t>::max()) {
    return Error{.code = ErrorCode::kExhausted, .message = "2^31 - 1 items have names"};
  }
  const auto id = static_cast<std::int32_t>(items_.size());
  items_.emplace(owned, id);
  return ItemId{id};
}

std::vector<std::string> NameTables::tenant_names() const {
  std::vector<std::string> names(tenants_.size());
  for (const auto& [name, id] : tenants_) {
    names[static_cast<std::size_t>(id)] = name;
  }
  return names;
}

}  // namespace kvpool::block
