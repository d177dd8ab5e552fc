// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/plan_difference.hpp>

#include <kvpool/core/checked.hpp>
#include <kvpool/io/plan_document.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

namespace kvpool::io {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::array kAreas{PlanArea::kOutcome, PlanArea::kOptions,   PlanArea::kModel,
                            PlanArea::kSettled, PlanArea::kDecisions, PlanArea::kRefusals,
                            PlanArea::kPools,   PlanArea::kLedger};

/// A document as a list of keys and plain values, in its order.
class FlatDocument {
 public:
  explicit FlatDocument(const Plan& plan) {
    const OrderedJson document = OrderedJson::parse(plan_to_json(plan));
    add(PlanArea::kOutcome, "fits", document.at("fits"));
    add(PlanArea::kOutcome, "capacity", document.at("capacity"));
    for (const auto& [key, value] : document.at("request").items()) {
      add_request(key, value);
    }
    add_list(PlanArea::kDecisions, "", document.at("decisions"), {"id", "pool"});
    add_list(PlanArea::kRefusals, "", document.at("refusals"), {"id", ""});
    if (document.at("ranks").size() > 1) {
      for (const OrderedJson& rank : document.at("ranks")) {
        add_list(PlanArea::kPools, "stage " + rank.at("stage").dump() + " ", rank.at("pools"),
                 {"role", "group"});
      }
    } else {
      add_list(PlanArea::kPools, "", document.at("pools"), {"role", "group"});
    }
    add_list(PlanArea::kLedger, "", document.at("ledger"), {"name", ""});
  }

  using Key = std::pair<PlanArea, std::string>;
  [[nodiscard]] const std::vector<Key>& keys() const { return keys_; }
  [[nodiscard]] const OrderedJson* find(const Key& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
  }

 private:
  void add_request(const std::string& key, const OrderedJson& value) {
    if (key == "resolution") {
      OrderedJson settled = value;
      // Told by the decisions and refusals themselves.
      for (const char* other : {"decisions", "refusals", "registry_hash"}) {
        settled.erase(other);
      }
      for (const auto& [name, member] : settled.items()) {
        add(PlanArea::kSettled, name, member);
      }
    } else if (key == "target") {
      add(PlanArea::kModel, key, value);
    } else if (key == "drafter" && value.is_object()) {
      OrderedJson drafter = value;
      if (drafter.contains("model")) {
        add(PlanArea::kModel, "drafter", drafter.at("model"));
        drafter.erase("model");
      }
      add(PlanArea::kOptions, key, drafter);
    } else {
      add(PlanArea::kOptions, key, value);
    }
  }

  /// Entries of a list by what names them; a second of the same name gets a number.
  void add_list(PlanArea area, const std::string& prefix, const OrderedJson& list,
                std::array<const char*, 2> named_by) {
    std::map<std::string, int> seen;
    for (const OrderedJson& entry : list) {
      std::string name = entry.value(named_by[0], std::string{});
      if (*named_by[1] != '\0') {
        if (const std::string second = entry.value(named_by[1], std::string{}); !second.empty()) {
          name.append("/").append(second);
        }
      }
      if (const int count = ++seen[name]; count > 1) {
        name.append(" #").append(std::to_string(count));
      }
      OrderedJson rest = entry;
      rest.erase(named_by[0]);
      rest.erase(named_by[1]);
      if (rest.contains("low") && rest.at("low") == rest.at("bytes") &&
          rest.at("high") == rest.at("bytes")) {
        rest.erase("low");  // an exact line has no range
        rest.erase("high");
      }
      add(area, prefix + name, rest);
    }
  }

  void add(PlanArea area, const std::string& key, const OrderedJson& value) {
    const bool is_list_of_objects = value.is_array() && !value.empty() && value.front().is_object();
    if (value.is_object() && !value.empty()) {
      for (const auto& [name, member] : value.items()) {
        add(area, std::string{key}.append(".").append(name), member);
      }
    } else if (is_list_of_objects) {
      std::size_t index = 0;
      for (const OrderedJson& element : value) {
        add(area, key + "[" + std::to_string(index++) + "]", element);
      }
    } else {
      keys_.emplace_back(area, key);
      values_.emplace(Key{area, key}, value);
    }
  }

  std::vector<Key> keys_;
  std::map<Key, OrderedJson> values_;
};

std::optional<std::string> text_of(const OrderedJson* value) {
  return value == nullptr
             ? std::nullopt
             : std::optional{value->dump(-1, ' ', false, OrderedJson::error_handler_t::replace)};
}

std::optional<std::int64_t> change_of(const OrderedJson* before, const OrderedJson* after) {
  if (before == nullptr || after == nullptr || !before->is_number_integer() ||
      !after->is_number_integer()) {
    return std::nullopt;
  }
  return (CheckedInt{after->get<std::int64_t>()} - before->get<std::int64_t>()).to_int64();
}

}  // namespace

std::string_view to_string(PlanArea area) noexcept {
  switch (area) {
    case PlanArea::kOutcome: return "outcome";
    case PlanArea::kOptions: return "options";
    case PlanArea::kModel: return "model";
    case PlanArea::kSettled: return "settled";
    case PlanArea::kDecisions: return "decisions";
    case PlanArea::kRefusals: return "refusals";
    case PlanArea::kPools: return "pools";
    case PlanArea::kLedger: return "ledger";
  }
  return "outcome";
}

std::vector<PlanDifference> plan_differences(const Plan& first, const Plan& second) {
  const FlatDocument before{first};
  const FlatDocument after{second};
  std::vector<PlanDifference> differences;
  const auto compare = [&](const FlatDocument::Key& key) {
    const OrderedJson* old_value = before.find(key);
    const OrderedJson* new_value = after.find(key);
    if (old_value != nullptr && new_value != nullptr && *old_value == *new_value) {
      return;
    }
    differences.push_back({.area = key.first,
                           .key = key.second,
                           .before = text_of(old_value),
                           .after = text_of(new_value),
                           .change = change_of(old_value, new_value)});
  };
  std::ranges::for_each(before.keys(), compare);
  for (const FlatDocument::Key& key : after.keys()) {
    if (before.find(key) == nullptr) {
      compare(key);
    }
  }
  // Area by area, else in the order of the documents.
  std::vector<PlanDifference> sorted;
  for (const PlanArea area : kAreas) {
    std::ranges::copy_if(
        differences, std::back_inserter(sorted),
        [area](const PlanDifference& difference) { return difference.area == area; });
  }
  return sorted;
}

}  // namespace kvpool::io
