// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "json_reader.hpp"

#include <cmath>
#include <utility>

namespace kvpool::io::detail {
namespace {

std::string joined(std::initializer_list<std::string_view> keys) {
  std::string out;
  for (const std::string_view key : keys) {
    out.append(out.empty() ? "" : " or ").append(key);
  }
  return out;
}

std::string element_key(const std::string& key, std::size_t index) {
  return key + "[" + std::to_string(index) + "]";
}

}  // namespace

JsonReader::JsonReader(const Json& object, std::string prefix, std::string file)
    : layers_{Layer{&object, std::move(prefix)}}, file_{std::move(file)} {}

void JsonReader::overlay(const Json& object, std::string prefix) {
  layers_.insert(layers_.begin(), Layer{&object, std::move(prefix)});
}

const JsonReader::Layer* JsonReader::owner(std::string_view key) const noexcept {
  for (const Layer& layer : layers_) {
    if (layer.object->find(key) != nullptr) {
      return &layer;
    }
  }
  return nullptr;
}

void JsonReader::record(std::string_view key) const {
  if (asked_ != nullptr && !asked_->contains(key)) {
    asked_->emplace(key);
  }
}

bool JsonReader::mentions(std::string_view key) const {
  record(key);
  return owner(key) != nullptr;
}

const Json* JsonReader::find(std::string_view key) const {
  record(key);
  return peek(key);
}

const Json* JsonReader::peek(std::string_view key) const noexcept {
  const Layer* layer = owner(key);
  const Json* value = layer == nullptr ? nullptr : layer->object->find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::vector<std::string_view> JsonReader::keys() const {
  std::vector<std::string_view> names;
  for (const Layer& layer : layers_) {
    for (const Json::Member& member : *layer.object->object()) {
      names.push_back(member.key);
    }
  }
  return names;
}

std::string JsonReader::dotted(std::string_view key) const {
  const Layer* layer = owner(key);
  return (layer == nullptr ? layers_.front().prefix : layer->prefix) + std::string{key};
}

std::int64_t JsonReader::to_integer(const Json& value, const std::string& key,
                                    Limits limits) const {
  std::optional<std::int64_t> number;
  if (const auto* i = value.integer()) {
    number = *i;
  } else if (const auto* d = value.real()) {
    // 2^53: whole numbers beyond it are not exact, and no field is that large.
    if (std::isfinite(*d) && std::trunc(*d) == *d && std::abs(*d) <= 9007199254740992.0) {
      number = static_cast<std::int64_t>(*d);
    }
  }
  if (!number.has_value() || *number < limits.low || *number > limits.high) {
    invalid(key, value.shortened(),
            "must be a whole number from " + std::to_string(limits.low) + " to " +
                std::to_string(limits.high));
  }
  return *number;
}

std::optional<Named<std::int64_t>> JsonReader::integer(std::initializer_list<std::string_view> keys,
                                                       Limits limits) const {
  for (const std::string_view key : keys) {
    if (const Json* value = find(key)) {
      const std::string name = dotted(key);
      return Named<std::int64_t>{to_integer(*value, name, limits), name};
    }
  }
  return std::nullopt;
}

Named<std::int64_t> JsonReader::need_integer(std::initializer_list<std::string_view> keys,
                                             Limits limits, std::string_view purpose) const {
  auto found = integer(keys, limits);
  if (!found.has_value()) {
    const std::string name = layers_.front().prefix + std::string{*keys.begin()};
    invalid(name, {}, "missing, needed for " + std::string{purpose} + ": add " + joined(keys));
  }
  return *found;
}

std::int64_t JsonReader::integer_or(std::initializer_list<std::string_view> keys, Limits limits,
                                    std::int64_t otherwise) const {
  const auto found = integer(keys, limits);
  return found.has_value() ? found->value : otherwise;
}

std::optional<bool> JsonReader::boolean(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (value->boolean() == nullptr) {
    invalid(dotted(key), value->shortened(), "must be true or false");
  }
  return *value->boolean();
}

std::optional<std::string> JsonReader::text(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (value->text() == nullptr) {
    invalid(dotted(key), value->shortened(), "must be text");
  }
  return *value->text();
}

const Json::Array* JsonReader::list(std::string_view key) const {
  const Json* value = find(key);
  if (value != nullptr && value->array() == nullptr) {
    invalid(dotted(key), value->shortened(), "must be a list");
  }
  return value == nullptr ? nullptr : value->array();
}

std::optional<std::vector<std::int64_t>> JsonReader::integers(std::string_view key,
                                                              Limits limits) const {
  const Json::Array* values = list(key);
  if (values == nullptr) {
    return std::nullopt;
  }
  std::vector<std::int64_t> out;
  out.reserve(values->size());
  const std::string name = dotted(key);
  for (const Json& value : *values) {
    if (const auto* i = value.integer(); i != nullptr && *i >= limits.low && *i <= limits.high) {
      out.push_back(*i);
    } else {
      out.push_back(to_integer(value, element_key(name, out.size()), limits));
    }
  }
  return out;
}

std::optional<std::vector<std::string>> JsonReader::texts(std::string_view key) const {
  const Json::Array* values = list(key);
  if (values == nullptr) {
    return std::nullopt;
  }
  std::vector<std::string> out;
  out.reserve(values->size());
  for (const Json& value : *values) {
    if (value.text() == nullptr) {
      invalid(element_key(dotted(key), out.size()), value.shortened(), "must be text");
    }
    out.push_back(*value.text());
  }
  return out;
}

std::optional<JsonReader> JsonReader::child(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (value->object() == nullptr) {
    invalid(dotted(key), value->shortened(), "must be an object");
  }
  return JsonReader{*value, dotted(key) + ".", file_};
}

void JsonReader::invalid(const std::string& key, const std::string& value,
                         std::string message) const {
  throw Refused{Error{ErrorCode::kInvalidArgument, std::move(message), file_, shorten(key, 120),
                      shorten(value)}};
}

void JsonReader::unsupported(const std::string& key, const std::string& value,
                             std::string message) const {
  throw Refused{
      Error{ErrorCode::kUnsupported, std::move(message), file_, shorten(key, 120), shorten(value)}};
}

}  // namespace kvpool::io::detail
