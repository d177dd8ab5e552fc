// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/ids.hpp>

#include <cstdint>
#include <string>

namespace kvpool {

/// A tenant: whom pages are charged to. Tenant 0 is the public one: it owns what namespaces share
/// in public regions, and has no quota.
using TenantId = Id<struct TenantIdTag, std::int32_t>;

/// The public tenant.
inline constexpr TenantId kPublicTenant{0};

/// Sequences of one namespace may share prefixes; those of two may not, but for public regions.
/// Namespace 0 is the default one: public tenant, no salt, no adapter.
using NamespaceId = Id<struct NamespaceIdTag, std::int32_t>;

/// What tells namespaces apart. Keys are compared as a whole; no hash decides.
struct NamespaceKey {
  /// Whom the pages of this namespace are charged to.
  TenantId tenant = kPublicTenant;
  /// Secret of the request or user, set by the server; empty for none.
  std::string salt{};
  /// Name or version of the LoRA adapter; empty for the base model.
  std::string adapter{};

  /// Field by field.
  friend bool operator==(const NamespaceKey&, const NamespaceKey&) = default;
};

/// Something other than text in a prompt (image, audio, embeddings), known by its content's key.
/// Its placeholders are written into the prompt as `token()`; so equal tokens mean equal content.
class ItemId {
 public:
  /// The item with this index.
  constexpr explicit ItemId(std::int32_t index) noexcept : index_{index} {}
  /// Index, from 0.
  [[nodiscard]] constexpr std::int32_t index() const noexcept { return index_; }
  /// The token that stands for every placeholder of this item: negative, unlike those of text.
  [[nodiscard]] constexpr std::int32_t token() const noexcept { return -1 - index_; }
  /// Orders by index.
  friend constexpr auto operator<=>(ItemId, ItemId) noexcept = default;

 private:
  std::int32_t index_ = 0;
};

}  // namespace kvpool
