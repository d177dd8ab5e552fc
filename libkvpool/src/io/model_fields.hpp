// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/model/model_config.hpp>

#include "json_reader.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::io::detail {

/// Collects where figures came from.
class FactLog {
 public:
  /// Notes an integer figure.
  void add(std::string_view figure, const std::string& key, std::int64_t value,
           std::string_view rule = {});
  /// Notes a figure as text.
  void add(std::string_view figure, const std::string& key, std::string_view value,
           std::string_view rule = {});
  /// Hands over all notes.
  [[nodiscard]] std::vector<ConfigFact> take() && { return std::move(facts_); }

 private:
  std::vector<ConfigFact> facts_;
};

/// The MLA part of a config.
struct LatentFields {
  std::int64_t latent_dim = 0;
  std::int64_t rope_dim = 0;
  /// Widths of a head before compression, 0 when not stated.
  std::int64_t nope_dim = 0;
  std::int64_t value_dim = 0;
};

/// Figures of the whole model, before layers are told apart.
struct ModelFields {
  std::string model_type;
  std::vector<std::string> architectures;
  std::int64_t layers = 0;
  /// Key of the number of layers.
  std::string layers_key;
  std::int64_t hidden_size = 0;
  /// Query heads of a layer; per layer when `query_heads_by_layer` is not empty.
  std::int64_t query_heads = 0;
  std::vector<std::int64_t> query_heads_by_layer;
  std::int64_t kv_heads = 0;
  /// Key that the KV heads come from.
  std::string kv_heads_key;
  std::vector<std::int64_t> kv_heads_by_layer;
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  std::optional<LatentFields> latent;
  std::optional<std::int64_t> indexer_dim;
  /// Window in tokens, unless `use_sliding_window` is false.
  std::optional<Named<std::int64_t>> window;
  /// True when `use_sliding_window` is false.
  bool window_switched_off = false;
  /// Encoder positions when every decoder layer also attends to the encoder.
  std::optional<std::int64_t> cross_positions;
  std::optional<Tokens> max_positions;
  std::optional<KvDtype> native_dtype;
};

/// Lays `text_config` (or `llm_config`, `language_config`) over the top level.
[[nodiscard]] JsonReader open_config(const Json& root, const std::string& file);

/// Refuses keys and model types that change what is cached in a way that is not understood.
void refuse_unknown_caches(const JsonReader& config);

/// Reads the figures of the whole model.
[[nodiscard]] ModelFields read_fields(const JsonReader& config, FactLog& facts);

}  // namespace kvpool::io::detail
