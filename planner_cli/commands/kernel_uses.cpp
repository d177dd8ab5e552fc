// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "commands/kernel_uses.hpp"

#include "exit_codes.hpp"

#include <algorithm>
#include <optional>
#include <span>

namespace kvpool::cli {
namespace {

/// A model as its kernels see it.
struct AttentionModel {
  PoolUser user = PoolUser::kTarget;
  std::string model_type;
  std::span<const ModelLayer> layers;
  CacheFormats formats;
  Tokens page;
  Tokens query_tokens;
};

[[nodiscard]] std::optional<PoolUser> user_of(DrafterKind kind) noexcept {
  switch (kind) {
    case DrafterKind::kMtp: return PoolUser::kMtp;
    case DrafterKind::kEagle3: return PoolUser::kEagle3;
    case DrafterKind::kDspark: return PoolUser::kDspark;
    case DrafterKind::kDflash:
    case DrafterKind::kDomino:
    case DrafterKind::kPeagle: return PoolUser::kDflash;
    case DrafterKind::kDraftTarget: return PoolUser::kDraftTarget;
    case DrafterKind::kPard: return PoolUser::kPard;
    default: return std::nullopt;
  }
}

[[nodiscard]] AttentionMask mask_of(const LayerGeometry& layer, PoolUser user) noexcept {
  if (layer.span.kind == SpanKind::kSlidingWindow) {
    return AttentionMask::kWindow;
  }
  const bool block = user == PoolUser::kDflash || user == PoolUser::kDspark;
  return block ? AttentionMask::kNonCausal : AttentionMask::kCausal;
}

[[nodiscard]] bool same_question(const KernelQuery& a, const KernelQuery& b) noexcept {
  return a.family == b.family && a.head_dim == b.head_dim && a.query_heads == b.query_heads &&
         a.kv_heads == b.kv_heads && a.mask == b.mask;
}

void add_uses(const PlanRequest& request, const AttentionModel& model,
              std::vector<KernelUse>& uses) {
  const auto first = static_cast<std::ptrdiff_t>(uses.size());
  for (const LayerGeometry& layer :
       value_or_fail(layer_geometry(model.layers, request.parallelism, model.formats))) {
    const bool latent = layer.kind == CacheKind::kLatent;
    if (!latent && layer.kind != CacheKind::kKeyValue) {
      continue;
    }
    KernelQuery query{
        .user = model.user,
        .model_family = model.model_type,
        .architecture = request.device.has_value() ? request.device->architecture : "",
        .family = latent ? AttentionFamily::kLatent : AttentionFamily::kKeyValue,
        .head_dim = latent ? layer.key_dim + layer.value_dim : layer.key_dim,
        .query_heads = layer.query_heads,
        .kv_heads = layer.kv_heads,
        .kv_dtype = layer.dtype,
        .mask = mask_of(layer, model.user)};
    if (model.user != PoolUser::kTarget) {
      query.query_tokens = model.query_tokens.count();
    }
    const auto found = std::find_if(uses.begin() + first, uses.end(), [&query](const KernelUse& u) {
      return same_question(u.query, query);
    });
    if (found == uses.end()) {
      uses.push_back({.query = std::move(query), .page = model.page, .layers = 1});
    } else {
      ++found->layers;
    }
  }
}

}  // namespace

std::vector<KernelUse> kernel_uses(const PlanRequest& request, const Resolution& resolution) {
  std::vector<KernelUse> uses;
  add_uses(request,
           {.user = PoolUser::kTarget,
            .model_type = request.target.model_type,
            .layers = request.target.layers,
            .formats = resolution.target_formats,
            .page = resolution.target_page,
            .query_tokens = Tokens{1}},
           uses);
  if (!request.drafter.has_value()) {
    return uses;
  }
  const DrafterRequest& drafter = *request.drafter;
  const std::optional<PoolUser> user = user_of(drafter.kind);
  const std::vector<ModelLayer> next_token{
      ModelLayer{.index = LayerIndex{0}, .caches = request.target.mtp_layer, .shares_with = {}}};
  if (!user.has_value()) {
    return uses;
  }
  const ModelConfig& model = drafter.model.has_value() ? *drafter.model : request.target;
  add_uses(request,
           {.user = *user,
            .model_type = model.model_type,
            .layers = drafter.model.has_value() ? std::span<const ModelLayer>{model.layers}
                                                : std::span<const ModelLayer>{next_token},
            .formats = resolution.draft_formats,
            .page = resolution.draft_page.value_or(Tokens{0}),
            .query_tokens = resolution.draft_tokens},
           uses);
  return uses;
}

}  // namespace kvpool::cli
