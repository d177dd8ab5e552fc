// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/io/plan_document.hpp>
#include <kvpool/plan/planner.hpp>

#include "json_reader.hpp"
#include "json_value.hpp"
#include "plan_fields.hpp"
#include "plan_hash.hpp"
#include "text_file.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kvpool::io {
namespace {

using detail::Json;
using detail::JsonReader;
using detail::Limits;
using detail::Refused;

/// Layers share one list in the document; without an end a small file could fill the memory.
constexpr std::size_t kMostCachesOfALayer = 16;
constexpr Limits kLayerNumbers{0, detail::limits::kLayers.high - 1};

/// Reads one object, field by field; the counterpart of the writer's.
class FieldReader {
 public:
  explicit FieldReader(JsonReader object) : object_{std::move(object)} {}

  template <typename T>
  void operator()(const char* key, T& value, Limits limits = detail::limits::kAny) const {
    need(key);
    read(key, value, limits);
  }
  template <typename T>
  void operator()(const char* key, std::optional<T>& value,
                  Limits limits = detail::limits::kAny) const {
    if (object_.has(key)) {
      read(key, value.emplace(), limits);
    }
  }

  /// Absent in documents from before there were overheads by engine.
  void operator()(const char* key, OverheadRequest& value,
                  Limits limits = detail::limits::kAny) const {
    if (object_.has(key)) {
      read(key, value, limits);
    }
  }

 private:
  void need(const char* key) const {
    if (!object_.has(key)) {
      object_.invalid(object_.dotted(key), {}, "missing, needed to make the plan again");
    }
  }

  void read(const char* key, std::int64_t& value, Limits limits) const {
    value = object_.to_integer(*object_.find(key), object_.dotted(key), limits);
  }
  template <typename Tag>
  void read(const char* key, Quantity<Tag>& value, Limits limits) const {
    std::int64_t count = 0;
    read(key, count, limits);
    value = Quantity<Tag>{count};
  }
  void read(const char* key, bool& value, Limits /*limits*/) const {
    value = object_.boolean(key).value_or(false);
  }
  void read(const char* key, std::string& value, Limits /*limits*/) const {
    value = object_.text(key).value_or("");
  }
  void read(const char* key, std::vector<std::string>& value, Limits /*limits*/) const {
    value = object_.texts(key).value_or(std::vector<std::string>{});
  }
  template <typename T>
    requires std::is_enum_v<T> || std::same_as<T, PageLayout>
  void read(const char* key, T& value, Limits /*limits*/) const {
    const std::string text = object_.text(key).value_or("");
    const auto values = detail::all_values<T>();
    const auto at = std::find_if(values.begin(), values.end(),
                                 [&text](T candidate) { return to_string(candidate) == text; });
    if (at == values.end()) {
      std::string names;
      for (const T candidate : values) {
        names.append(names.empty() ? "" : ", ").append(to_string(candidate));
      }
      object_.invalid(object_.dotted(key), text, "must be one of " + names);
    }
    value = *at;
  }
  template <typename T>
    requires(std::is_aggregate_v<T> && !std::same_as<T, PageLayout>)
  void read(const char* key, T& value, Limits /*limits*/) const {
    const FieldReader reader{*object_.child(key)};
    detail::fields(reader, value);
  }
  template <typename T>
  void read(const char* key, std::vector<T>& values, Limits /*limits*/) const {
    for (const JsonReader& element : elements(key)) {
      read_element(element, values.emplace_back());
    }
  }
  void read(const char* key, std::vector<LayerCache>& caches, Limits /*limits*/) const {
    const std::vector<JsonReader> list = elements(key);
    if (list.size() > kMostCachesOfALayer) {
      object_.invalid(object_.dotted(key), std::to_string(list.size()),
                      "more caches than a layer can have");
    }
    for (const JsonReader& element : list) {
      read_cache(element, caches.emplace_back());
    }
  }
  void read(const char* key, std::vector<ModelLayer>& layers, Limits /*limits*/) const {
    for (const JsonReader& kind : elements(key)) {
      read_layers(kind, layers);
    }
    std::ranges::sort(layers, {}, &ModelLayer::index);
    const auto twice = std::ranges::adjacent_find(layers, {}, &ModelLayer::index);
    if (twice != layers.end()) {
      object_.invalid(object_.dotted(key), std::to_string(twice->index.value()),
                      "a layer stands there twice");
    }
  }

  template <typename T>
  static void read_element(const JsonReader& object, T& value) {
    const FieldReader reader{object};
    detail::fields(reader, value);
  }
  static void read_cache(const JsonReader& object, LayerCache& cache) {
    const std::string kind = object.text("kind").value_or("");
    if (kind == "attention") {
      read_element(object, cache.emplace<AttentionCache>());
    } else if (kind == "latent") {
      read_element(object, cache.emplace<LatentCache>());
    } else if (kind == "indexer") {
      read_element(object, cache.emplace<IndexerCache>());
    } else if (kind == "state") {
      read_element(object, cache.emplace<StateCache>());
    } else {
      object.invalid(object.dotted("kind"), kind,
                     "must be one of attention, latent, indexer, state");
    }
  }
  /// All layers that keep the same.
  static void read_layers(const JsonReader& kind, std::vector<ModelLayer>& layers) {
    ModelLayer layer;
    const FieldReader reader{kind};
    reader("caches", layer.caches);
    if (const auto source = kind.integer({"reads_layer"}, kLayerNumbers)) {
      layer.shares_with = LayerIndex{static_cast<std::int32_t>(source->value)};
    }
    reader.need("layers");
    for (const std::int64_t index :
         kind.integers("layers", kLayerNumbers).value_or(std::vector<std::int64_t>{})) {
      if (layers.size() > static_cast<std::size_t>(kLayerNumbers.high)) {
        kind.invalid(kind.dotted("layers"), {}, "more layers than a model can have");
      }
      layer.index = LayerIndex{static_cast<std::int32_t>(index)};
      layers.push_back(layer);
    }
  }

  [[nodiscard]] std::vector<JsonReader> elements(const char* key) const {
    std::vector<JsonReader> out;
    const Json::Array* list = object_.list(key);
    if (list == nullptr) {
      return out;
    }
    out.reserve(list->size());
    for (const Json& element : *list) {
      const std::string name = object_.dotted(key) + "[" + std::to_string(out.size()) + "]";
      if (element.object() == nullptr) {
        object_.invalid(name, element.shortened(), "must be an object");
      }
      out.emplace_back(element, name + ".", object_.file());
    }
    return out;
  }

  JsonReader object_;
};

/// Where two documents differ first.
class Comparison {
 public:
  explicit Comparison(const std::string& file) : file_{file} {}

  [[nodiscard]] std::optional<Error> difference(const Json& found, const Json& planned,
                                                const std::string& key) const {
    if (found.object() != nullptr && planned.object() != nullptr) {
      return between_objects(*found.object(), *planned.object(), key);
    }
    if (found.array() != nullptr && planned.array() != nullptr) {
      return between_arrays(*found.array(), *planned.array(), key);
    }
    return same_scalar(found, planned)
               ? std::nullopt
               : std::optional{unlike(key, found.shortened(),
                                      "the plan comes out with " + planned.shortened())};
  }

 private:
  static bool same_scalar(const Json& a, const Json& b) {
    if (a.text() != nullptr && b.text() != nullptr) {
      return *a.text() == *b.text();
    }
    if (a.integer() != nullptr && b.integer() != nullptr) {
      return *a.integer() == *b.integer();
    }
    if (a.boolean() != nullptr && b.boolean() != nullptr) {
      return *a.boolean() == *b.boolean();
    }
    return a.is_null() && b.is_null();
  }

  // Both are sorted by key.
  [[nodiscard]] std::optional<Error> between_objects(const Json::Object& found,
                                                     const Json::Object& planned,
                                                     const std::string& key) const {
    auto f = found.begin();
    auto p = planned.begin();
    while (f != found.end() || p != planned.end()) {
      const bool only_found = p == planned.end() || (f != found.end() && f->key < p->key);
      const bool only_planned = f == found.end() || (p != planned.end() && p->key < f->key);
      const std::string name = (key.empty() ? "" : key + ".") + (only_planned ? p->key : f->key);
      if (only_found && key.empty() && f->key == "advice") {
        ++f;  // said about a plan, and no part of it
        continue;
      }
      if (only_found) {
        return unlike(name, f->value.shortened(), "no such key belongs there");
      }
      if (only_planned) {
        return unlike(name, {}, "missing; the plan comes out with " + p->value.shortened());
      }
      if (auto error = difference(f->value, p->value, name)) {
        return error;
      }
      ++f;
      ++p;
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<Error> between_arrays(const Json::Array& found,
                                                    const Json::Array& planned,
                                                    const std::string& key) const {
    for (std::size_t i = 0; i < std::min(found.size(), planned.size()); ++i) {
      if (auto error = difference(found[i], planned[i], key + "[" + std::to_string(i) + "]")) {
        return error;
      }
    }
    if (found.size() != planned.size()) {
      return unlike(key, std::to_string(found.size()) + " entries",
                    "the plan comes out with " + std::to_string(planned.size()));
    }
    return std::nullopt;
  }

  [[nodiscard]] Error unlike(const std::string& key, std::string value, std::string what) const {
    return {.code = ErrorCode::kInvalidArgument,
            .message = std::move(what) +
                       ": the document was edited, or written by a version of kvpool that counts "
                       "differently; plan again",
            .file = file_,
            .key = detail::shorten(key, 120),
            .value = std::move(value)};
  }

  const std::string& file_;
};

std::optional<Error> differs(const Json& found, const Plan& plan, const std::string& file) {
  const auto planned = detail::parse_json(plan_to_json(plan), file);
  if (!planned) {
    return planned.error();
  }
  const Comparison comparison{file};
  // What was asked first: a change there changes everything else as well.
  const Json* request = found.find("request");
  if (auto error = comparison.difference(*request, *planned->find("request"), "request")) {
    return error;
  }
  return comparison.difference(found, *planned, {});
}

/// What of a resolution follows from the request alone must: page sizes are the registry's answer.
void check_resolution(const PlanRequest& request, const Resolution& found,
                      const JsonReader& object) {
  const auto settled = resolve(request, CapabilityRegistry{});
  if (!settled) {
    return;  // planning says what is wrong
  }
  const auto must = [&object](bool same, const char* key) {
    if (!same) {
      object.invalid(object.dotted(key), {},
                     "does not follow from the rest of the request: the "
                     "document was edited; plan again");
    }
  };
  must(found.sequences == settled->sequences, "sequences");
  must(found.max_model_len == settled->max_model_len, "max_model_len");
  must(found.draft_pool == settled->draft_pool, "draft_pool");
  must(found.draft_tokens == settled->draft_tokens, "draft_tokens");
  must(found.draft_max_len == settled->draft_max_len, "draft_max_len");
  must(found.target_formats == settled->target_formats, "target_formats");
  must(found.draft_formats == settled->draft_formats, "draft_formats");
  must(found.state_slots_per_seq == settled->state_slots_per_seq, "state_slots_per_seq");
}

/// What the registry said cannot be derived without it: its hash tells whether it stands as
/// written.
void check_registry(const Resolution& found, const JsonReader& object) {
  const std::string hash = object.text("registry_hash").value_or("");
  if (hash != detail::registry_hash(found)) {
    object.invalid(object.dotted("registry_hash"), hash,
                   "is not the hash of the registry's decisions and refusals in this document: the "
                   "document was edited, or written by another version of kvpool; plan again");
  }
}

Result<Plan> plan_again(const Json& document, const std::string& file) {
  const JsonReader root{document, {}, file};
  const std::string schema = root.text("schema").value_or("");
  if (schema != kPlanSchema) {
    root.unsupported("schema", schema, "must be " + std::string{kPlanSchema});
  }
  if (root.has("error")) {
    root.unsupported("error", {}, "this is the document of an input error and holds no plan");
  }
  PlanRequest request;
  Resolution resolution;
  const FieldReader reader{root};
  const auto object = root.child("request");
  if (!object.has_value()) {
    root.invalid("request", {}, "missing, needed to make the plan again");
  }
  const FieldReader request_reader{*object};
  detail::fields(request_reader, request);
  request_reader("resolution", resolution);
  const JsonReader settled = *object->child("resolution");
  check_resolution(request, resolution, settled);
  reader("decisions", resolution.decisions);
  const auto count = settled.need_integer(
      {"decisions"}, {0, static_cast<std::int64_t>(resolution.decisions.size())},
      "telling the registry's decisions from the plan's");
  resolution.decisions.resize(static_cast<std::size_t>(count.value));
  check_registry(resolution, settled);

  auto plan = allocate_plan(request, resolution);
  if (!plan) {
    Error error = std::move(plan).error();
    error.file = file;
    error.key = "request" + (error.key.empty() ? "" : "." + error.key);
    return error;
  }
  if (auto error = differs(document, *plan, file)) {
    return *std::move(error);
  }
  return plan;
}

}  // namespace

Result<Plan> parse_plan(std::string_view json, const std::string& file) {
  try {
    const auto document = detail::parse_json(json, file);
    if (!document) {
      return document.error();
    }
    if (document->object() == nullptr) {
      return Error{ErrorCode::kInvalidArgument,
                   "must be an object: a plan document",
                   file,
                   {},
                   document->shortened()};
    }
    return plan_again(*document, file);
  } catch (const Refused& refused) {
    return refused.error;
  } catch (const std::exception& e) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string{"cannot be read as a plan: "} + e.what(),
                 file,
                 {},
                 {}};
  }
}

Result<Plan> read_plan(const std::string& path) {
  const auto text = detail::read_text_file(path);
  if (!text) {
    return text.error();
  }
  return parse_plan(*text, path);
}

Result<void> write_plan(const Plan& plan, const std::string& path) {
  return detail::write_text_file(path, plan_to_json(plan));
}

}  // namespace kvpool::io
