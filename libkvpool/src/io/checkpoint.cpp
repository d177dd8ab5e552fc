// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/checkpoint.hpp>

#include <kvpool/core/checked.hpp>
#include <kvpool/io/model_config_io.hpp>

#include "io/checkpoint_files.hpp"
#include "io/json_value.hpp"
#include "io/tensor_roles.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

namespace kvpool::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfigName = "config.json";
/// Names that are kept for people.
constexpr std::size_t kMostUnknownNames = 5;

[[nodiscard]] auto order_of(const WeightPart& part) {
  return std::tuple{part.place, part.layer, part.split, part.units, part.inner_units};
}

/// Adds up parts that are placed and divided alike.
[[nodiscard]] std::vector<WeightPart> merged(std::vector<WeightPart> parts) {
  std::ranges::sort(parts, {}, order_of);
  std::vector<WeightPart> sums;
  for (const WeightPart& part : parts) {
    if (!sums.empty() && order_of(sums.back()) == order_of(part)) {
      sums.back().bytes =
          Bytes{(CheckedInt{sums.back().bytes.count()} + part.bytes.count()).saturated()};
    } else {
      sums.push_back(part);
    }
  }
  return sums;
}

/// How many experts each layer has, from the numbers in their names.
void count_experts(const std::vector<detail::TensorRole>& roles,
                   std::map<std::pair<WeightPlace, std::int64_t>, std::int64_t>& counts) {
  for (const detail::TensorRole& role : roles) {
    if (role.expert.has_value()) {
      std::int64_t& count = counts[{role.part.place, role.part.layer}];
      count = std::max(count, (CheckedInt{*role.expert} + 1).saturated());
    }
  }
}

}  // namespace

StoredWeights sort_weights(std::span<const StoredTensor> tensors, const ModelConfig& model,
                           std::optional<bool> tied, std::int64_t files) {
  const detail::TensorRoles of{model};
  std::vector<detail::TensorRole> roles;
  roles.reserve(tensors.size());
  bool has_head = false;
  bool has_table = false;
  for (const StoredTensor& tensor : tensors) {
    roles.push_back(of.of(tensor));
    has_head = has_head || roles.back().is_head;
    has_table = has_table || roles.back().part.place == WeightPlace::kEmbedding;
  }
  std::map<std::pair<WeightPlace, std::int64_t>, std::int64_t> experts;
  count_experts(roles, experts);

  StoredWeights weights;
  weights.tied_embeddings = has_table && tied.value_or(!has_head) && !model.drafter.has_value();
  weights.files = files;
  weights.tensors = static_cast<std::int64_t>(tensors.size());
  std::vector<WeightPart> parts;
  parts.reserve(roles.size());
  for (std::size_t i = 0; i < roles.size(); ++i) {
    detail::TensorRole& role = roles[i];
    weights.stored =
        Bytes{(CheckedInt{weights.stored.count()} + tensors[i].bytes.count()).saturated()};
    if (role.unused || (role.is_head && weights.tied_embeddings)) {
      weights.unused =
          Bytes{(CheckedInt{weights.unused.count()} + tensors[i].bytes.count()).saturated()};
      continue;
    }
    if (role.expert.has_value()) {
      role.part.units = experts.at({role.part.place, role.part.layer});
    }
    if (role.unknown && weights.unknown_names.size() < kMostUnknownNames) {
      weights.unknown_names.push_back(detail::shorten(tensors[i].name, 100));
    }
    parts.push_back(role.part);
    if (role.second.has_value()) {
      parts.push_back(*role.second);
    }
  }
  weights.parts = merged(std::move(parts));
  return weights;
}

Result<ModelConfig> read_checkpoint(const std::string& path) {
  auto model = read_model_config(path);
  if (!model) {
    return model;
  }
  try {
    std::error_code failed;
    fs::path directory{path};
    if (!fs::is_directory(directory, failed)) {
      if (directory.filename() != kConfigName) {
        return model;
      }
      directory = directory.parent_path();
    }
    const auto all = detail::read_tensors(directory.empty() ? fs::path{"."} : directory);
    if (!all) {
      return all.error();
    }
    if (all->files > 0) {
      model->weights = sort_weights(
          all->tensors, *model, detail::read_tied((directory / kConfigName).string()), all->files);
    }
    return model;
  } catch (const std::exception& e) {
    return Error{ErrorCode::kIo, std::string{"cannot be read: "} + e.what(), path, {}, {}};
  }
}

}  // namespace kvpool::io
