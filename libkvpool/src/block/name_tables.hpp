// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/cache_namespace.hpp>
#include <kvpool/core/result.hpp>

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace kvpool::block {

/// What stands behind a namespace.
struct Namespace {
  /// Whom its private region is charged to.
  TenantId tenant;
  /// The namespace without salt that its public region is in: one per adapter, of the public
  /// tenant.
  NamespaceId public_region;
};

/// Names of tenants, namespaces and items, by whole keys.
class NameTables {
 public:
  /// The public tenant and the default namespace.
  explicit NameTables(std::size_t max_tenants);

  /// See `BlockManager::intern_tenant`.
  [[nodiscard]] Result<TenantId> tenant(std::string_view name);
  /// See `BlockManager::intern_namespace`.
  [[nodiscard]] Result<NamespaceId> name_space(const NamespaceKey& key);
  /// See `BlockManager::intern_item`.
  [[nodiscard]] Result<ItemId> item(std::string_view key);

  /// Namespaces by id.
  [[nodiscard]] const std::vector<Namespace>& namespaces() const noexcept { return namespaces_; }
  /// Tenants so far.
  [[nodiscard]] std::size_t tenants() const noexcept { return tenants_.size(); }
  /// Their names, by id.
  [[nodiscard]] std::vector<std::string> tenant_names() const;
  /// Items so far.
  [[nodiscard]] std::size_t items() const noexcept { return items_.size(); }

 private:
  /// Tenant, salt, adapter.
  using Key = std::tuple<std::int32_t, std::string, std::string>;

  NamespaceId add(const NamespaceKey& key);

  std::size_t max_tenants_;
  absl::flat_hash_map<std::string, std::int32_t> tenants_;
  absl::flat_hash_map<Key, std::int32_t> keys_;
  absl::flat_hash_map<std::string, std::int32_t> items_;
  std::vector<Namespace> namespaces_;
};

}  // namespace kvpool::block
