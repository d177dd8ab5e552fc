// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
// The header reader on arbitrary bytes: tensors whose bytes cover the data exactly, or an error
// that says what is wrong. The first 8 bytes are how much data follows the header, the next 8 the
// header's length unless they are all 0xff (then the length is that of the rest); what is read is
// sorted and divided, too.
#include <kvpool/io/checkpoint.hpp>
#include <kvpool/plan/stored_share.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

kvpool::ModelConfig model() {
  kvpool::ModelConfig model;
  model.native_dtype = kvpool::KvDtype::kBf16;
  for (std::int32_t i = 0; i < 3; ++i) {
    model.layers.push_back({.index = kvpool::LayerIndex{i},
                            .caches = {kvpool::AttentionCache{.query_heads = kvpool::Heads{6},
                                                              .kv_heads = kvpool::Heads{3},
                                                              .key_dim = 16,
                                                              .value_dim = 16}}});
  }
  return model;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kSizes = 16;
  if (size < kSizes) {
    return 0;
  }
  const std::string_view all{reinterpret_cast<const char*>(data), size};
  std::uint64_t behind = 0;
  for (std::size_t i = 8; i > 0; --i) {
    behind = (behind << 8U) | data[i - 1];
  }
  std::string head{all.substr(8)};
  if (head.substr(0, 8) == std::string(8, '\xff')) {
    std::uint64_t length = head.size() - 8;
    for (std::size_t i = 0; i < 8; ++i) {
      head[i] = static_cast<char>(length & 0xFFU);
      length >>= 8U;
    }
  }
  const auto extra = static_cast<std::int64_t>(behind & 0xFF'FFFF'FFFFU);
  const kvpool::Bytes file_size{static_cast<std::int64_t>(head.size()) + extra};
  const auto tensors = kvpool::io::parse_safetensors_header(head, file_size, "fuzz.safetensors");
  if (!tensors.has_value()) {
    require(!tensors.error().message.empty() && tensors.error().file == "fuzz.safetensors");
    require(tensors.error().code == kvpool::ErrorCode::kInvalidArgument);
    return 0;
  }
  std::int64_t sum = 0;
  for (const kvpool::io::StoredTensor& tensor : *tensors) {
    require(tensor.bytes.count() >= 0);
    sum += tensor.bytes.count();
  }
  require(sum <= file_size.count());
  const kvpool::StoredWeights weights =
      kvpool::io::sort_weights(*tensors, model(), std::nullopt, 1);
  require(weights.stored.count() == sum && weights.unused.count() <= sum);
  for (const std::int64_t ranks : {1, 2, 5, 65'536}) {
    const kvpool::Parallelism spread{.tensor = ranks, .pipeline = 3, .expert = ranks};
    for (const kvpool::StoredShare& share : kvpool::stored_shares(weights, 3, spread, true)) {
      require(share.low.count() >= 0 && share.low <= share.bytes && share.bytes <= share.high);
    }
  }
  return 0;
}
