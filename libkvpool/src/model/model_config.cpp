// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/model/model_config.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <utility>

namespace kvpool {
namespace {

constexpr std::array<std::pair<DrafterKind, std::string_view>, 10> kDrafterNames{{
    {DrafterKind::kMtp, "mtp"},
    {DrafterKind::kEagle3, "eagle3"},
    {DrafterKind::kDflash, "dflash"},
    {DrafterKind::kDspark, "dspark"},
    {DrafterKind::kDomino, "domino"},
    {DrafterKind::kPeagle, "peagle"},
    {DrafterKind::kDraftTarget, "draft_target"},
    {DrafterKind::kPard, "pard"},
    {DrafterKind::kNgram, "ngram"},
    {DrafterKind::kSuffixAutomaton, "suffix_automaton"},
}};

template <typename Cache>
bool any_cache(const ModelConfig& model) noexcept {
  return std::ranges::any_of(model.layers, [](const ModelLayer& layer) {
    return std::ranges::any_of(
        layer.caches, [](const LayerCache& c) { return std::holds_alternative<Cache>(c); });
  });
}

std::string span_suffix(Span span) {
  switch (span.kind) {
    case SpanKind::kFull: return "";
    case SpanKind::kSlidingWindow: return fmt::format(" window {}", span.extent.count());
    case SpanKind::kChunked: return fmt::format(" chunk {}", span.extent.count());
    case SpanKind::kCross: return fmt::format(" cross {}", span.extent.count());
  }
  return "";
}

std::string describe(const AttentionCache& c) {
  std::string dims = std::to_string(c.key_dim);
  if (c.value_dim != c.key_dim) {
    dims += fmt::format("/{}", c.value_dim);
  }
  return fmt::format("{} KV heads x {}{}", c.kv_heads.count(), dims, span_suffix(c.span));
}

std::string describe(const LatentCache& c) {
  return fmt::format("MLA {}+{}{}", c.latent_dim, c.rope_dim, span_suffix(c.span));
}

std::string describe(const IndexerCache& c) { return fmt::format("indexer {}", c.key_dim); }

std::string describe(const StateCache& c) { return std::string{to_string(c.family)}; }

std::string describe(const ModelLayer& layer) {
  if (layer.caches.empty()) {
    return layer.shares_with.has_value() ? "shared" : "no cache";
  }
  std::string text;
  for (const LayerCache& cache : layer.caches) {
    text += text.empty() ? "" : " + ";
    text += std::visit([](const auto& c) { return describe(c); }, cache);
  }
  return text;
}

}  // namespace

std::string_view to_string(DrafterKind kind) noexcept {
  for (const auto& [value, name] : kDrafterNames) {
    if (value == kind) {
      return name;
    }
  }
  return "mtp";
}

std::optional<DrafterKind> parse_drafter_kind(std::string_view text) noexcept {
  for (const auto& [value, name] : kDrafterNames) {
    if (name == text) {
      return value;
    }
  }
  return std::nullopt;
}

Layers caching_layers(const ModelConfig& model) noexcept {
  return Layers{std::ranges::count_if(
      model.layers, [](const ModelLayer& layer) { return !layer.caches.empty(); })};
}

bool has_recurrent_state(const ModelConfig& model) noexcept { return any_cache<StateCache>(model); }

bool has_latent_cache(const ModelConfig& model) noexcept { return any_cache<LatentCache>(model); }

std::string describe_layers(const ModelConfig& model) {
  // Kinds in order of first appearance.
  struct Kind {
    std::string text;
    std::size_t count;
  };
  std::vector<Kind> kinds;
  std::map<std::string, std::size_t> index_of;
  for (const ModelLayer& layer : model.layers) {
    std::string kind = describe(layer);
    const auto [at, is_new] = index_of.emplace(kind, kinds.size());
    if (is_new) {
      kinds.push_back({std::move(kind), 0});
    }
    ++kinds[at->second].count;
  }
  std::string text;
  for (const Kind& kind : kinds) {
    text += text.empty() ? "" : ", ";
    text += fmt::format("{} x {}", kind.count, kind.text);
  }
  return text;
}

}  // namespace kvpool
