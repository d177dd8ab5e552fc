// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/io/safetensors.hpp>
#include <kvpool/model/model_config.hpp>
#include <kvpool/model/stored_weights.hpp>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace kvpool::io::detail {

/// Heads of one layer, which ranks get whole.
struct LayerHeads {
  std::int64_t query = 0;
  std::int64_t kv = 0;
  /// Elements of all query, key and value rows, for tensors that hold them together.
  std::int64_t query_rows = 0;
  std::int64_t kv_rows = 0;
};

/// What a stored tensor is to an engine.
struct TensorRole {
  /// Where and how divided; `bytes` are the tensor's, as loaded.
  WeightPart part{};
  /// A part of the same tensor that is divided differently: keys and values beside queries.
  std::optional<WeightPart> second{};
  /// Loaded by no engine.
  bool unused = false;
  /// The output head: unused where the token table serves as one.
  bool is_head = false;
  /// One expert of several, by its number.
  std::optional<std::int64_t> expert{};
  /// The name is not known.
  bool unknown = false;
};

/// Tells the roles of tensors by their names, shapes and the model's heads.
class TensorRoles {
 public:
  /// @pre `model` outlives this
  explicit TensorRoles(const ModelConfig& model);

  /// The role of one tensor.
  [[nodiscard]] TensorRole of(const StoredTensor& tensor) const;

 private:
  [[nodiscard]] const LayerHeads& heads(const WeightPart& part) const;
  void place(std::string_view name, TensorRole& role, std::string_view& module) const;
  void divide_layer(std::string_view module, const StoredTensor& tensor, TensorRole& role) const;
  void divide_fused(const LayerHeads& heads, TensorRole& role) const;

  const ModelConfig& model_;
  std::vector<LayerHeads> layers_;
  LayerHeads next_token_;
};

}  // namespace kvpool::io::detail
