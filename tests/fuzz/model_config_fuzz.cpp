// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
// The config reader on arbitrary bytes: it returns a model whose parts agree, or an error that
// says what is wrong. Input up to the first NUL is the config, the rest a hf_quant_config.json.
#include <kvpool/io/model_config_io.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

void check(const kvpool::ModelConfig& model) {
  require(!model.layers.empty());
  require(model.query_heads.count() > 0 && model.hidden_size > 0);
  require(model.parameters.plain.count() >= 0 && model.parameters.quantized.count() >= 0);
  require(model.parameters.quantized_centibits > 0);
  std::int32_t index = 0;
  for (const kvpool::ModelLayer& layer : model.layers) {
    require(layer.index.value() == index++);
    if (layer.shares_with.has_value()) {
      const auto owner = static_cast<std::size_t>(layer.shares_with->value());
      require(layer.caches.empty() && owner < model.layers.size());
      require(!model.layers[owner].caches.empty());
    }
    for (const kvpool::LayerCache& cache : layer.caches) {
      if (const auto* a = std::get_if<kvpool::AttentionCache>(&cache)) {
        require(a->kv_heads.count() > 0 && a->query_heads.count() % a->kv_heads.count() == 0);
        require(a->key_dim > 0 && a->value_dim > 0);
        require((a->span.kind == kvpool::SpanKind::kFull) == (a->span.extent.count() == 0));
      } else if (const auto* state = std::get_if<kvpool::StateCache>(&cache)) {
        require(state->conv_channels > 0 && state->conv_kernel > 0);
        require(state->matrix_elements >= 0);
      }
    }
  }
  require((model.mtp_layers.count() == 0) || !model.mtp_layer.empty());
  (void)describe_layers(model);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all{reinterpret_cast<const char*>(data), size};
  const std::size_t split = all.find('\0');
  const std::string_view config = all.substr(0, split);
  const std::string_view beside =
      split == std::string_view::npos ? std::string_view{} : all.substr(split + 1);
  const auto model = kvpool::io::parse_model_config(config, "fuzz.json", beside);
  if (model.has_value()) {
    check(*model);
  } else {
    require(!model.error().message.empty() && !model.error().file.empty());
    require(model.error().code != kvpool::ErrorCode::kInternal);
  }
  return 0;
}
