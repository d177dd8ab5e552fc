// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>

#include "block/trace_sequence_calls.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <variant>

/// The other calls that a trace knows: names, time, the cache.
namespace kvpool::tracing {

using Done = std::monostate;

struct InternTenant {
  static constexpr std::string_view kName = "tenant";
  std::string name{};
  template <typename V>
  void visit(V& v) {
    v(name);
  }
  auto run(BlockManager& manager) const { return manager.intern_tenant(name); }
};

struct InternNamespace {
  static constexpr std::string_view kName = "namespace";
  NamespaceKey key{};
  template <typename V>
  void visit(V& v) {
    v(key.tenant), v(key.salt), v(key.adapter);
  }
  auto run(BlockManager& manager) const { return manager.intern_namespace(key); }
};

struct InternItem {
  static constexpr std::string_view kName = "item";
  std::string key{};
  template <typename V>
  void visit(V& v) {
    v(key);
  }
  auto run(BlockManager& manager) const { return manager.intern_item(key); }
};

struct SetQuota {
  static constexpr std::string_view kName = "quota";
  TenantId tenant{};
  PoolId pool{};
  std::optional<Pages> quota{};
  template <typename V>
  void visit(V& v) {
    v(tenant), v(pool), v(quota);
  }
  auto run(BlockManager& manager) const { return manager.set_quota(tenant, pool, quota); }
};

struct BeginStep {
  static constexpr std::string_view kName = "begin_step";
  Epoch epoch{};
  Instant now{};
  template <typename V>
  void visit(V& v) {
    v(epoch), v(now);
  }
  auto run(BlockManager& manager) const { return manager.begin_step(epoch, now); }
};

struct CompleteUntil {
  static constexpr std::string_view kName = "complete_until";
  Epoch epoch{};
  template <typename V>
  void visit(V& v) {
    v(epoch);
  }
  auto run(BlockManager& manager) const { return manager.complete_until(epoch); }
};

struct Pin {
  static constexpr std::string_view kName = "pin";
  Query query{};
  template <typename V>
  void visit(V& v) {
    query.visit(v);
  }
  auto run(BlockManager& manager) const { return manager.pin(query.get()); }
};

struct Unpin {
  static constexpr std::string_view kName = "unpin";
  PinId pin{};
  template <typename V>
  void visit(V& v) {
    v(pin);
  }
  auto run(BlockManager& manager) const { return manager.unpin(pin); }
};

struct ClearCopies {
  static constexpr std::string_view kName = "clear_copies";
  template <typename V>
  void visit(V& /*v*/) {}
  auto run(BlockManager& manager) const {
    manager.clear_copies();
    return Done{};
  }
};

struct Evict {
  static constexpr std::string_view kName = "evict";
  GroupId group{};
  Pages count{};
  template <typename V>
  void visit(V& v) {
    v(group), v(count);
  }
  auto run(BlockManager& manager) const { return manager.evict(group, count); }
};

struct FlushCache {
  static constexpr std::string_view kName = "flush_cache";
  template <typename V>
  void visit(V& /*v*/) {}
  auto run(BlockManager& manager) const {
    manager.flush_cache();
    return Done{};
  }
};

struct Reset {
  static constexpr std::string_view kName = "reset";
  template <typename V>
  void visit(V& /*v*/) {}
  auto run(BlockManager& manager) const {
    manager.reset();
    return Done{};
  }
};

struct Fingerprint {
  static constexpr std::string_view kName = "fingerprint";
  template <typename V>
  void visit(V& /*v*/) {}
  auto run(const BlockManager& manager) const { return manager.fingerprint(); }
};

}  // namespace kvpool::tracing
