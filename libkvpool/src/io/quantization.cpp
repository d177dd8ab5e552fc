// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "quantization.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace kvpool::io::detail {
namespace {

std::string lower(std::string_view text) {
  std::string out{text};
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// A cache algorithm by name, as modelopt writes it; nothing for "none".
std::optional<KvDtype> kv_algo(const JsonReader& where, const std::string& key,
                               const std::string& text) {
  const std::string algo = lower(text);
  if (algo.empty() || algo == "none" || algo == "auto") {
    return std::nullopt;
  }
  if (algo == "fp8" || algo == "fp8_e4m3") {
    return KvDtype::kFp8E4m3;
  }
  if (algo == "nvfp4") {
    return KvDtype::kNvfp4;
  }
  where.unsupported(key, text, "this cache format is not understood: FP8 and NVFP4 are");
}

// `kv_cache_scheme`: an algorithm's name, or an object with bits and type.
std::optional<KvDtype> kv_scheme(const JsonReader& quantization) {
  const Json* scheme = quantization.find("kv_cache_scheme");
  if (scheme == nullptr) {
    return std::nullopt;
  }
  const std::string key = quantization.dotted("kv_cache_scheme");
  if (const std::string* name = scheme->text()) {
    return kv_algo(quantization, key, *name);
  }
  if (scheme->object() == nullptr) {
    quantization.invalid(key, scheme->shortened(), "must be an object or a name");
  }
  const JsonReader fields{*scheme, key + ".", quantization.file()};
  const auto bits = fields.need_integer({"num_bits"}, {1, 64}, "the cache format");
  const std::string type = fields.text("type").value_or("");
  if (bits.value == 8 && type == "float") {
    return KvDtype::kFp8E4m3;
  }
  if (bits.value == 4 && type == "float") {
    return KvDtype::kNvfp4;
  }
  quantization.unsupported(key, type + " of " + std::to_string(bits.value) + " bits",
                           "this cache format is not understood: 8-bit float (fp8) and 4-bit "
                           "float (nvfp4) are");
}

// The object that holds the algorithms: modelopt nests it under `quantization`.
JsonReader quantization_of(const JsonReader& beside) {
  auto nested = beside.child("quantization");
  return nested.has_value() ? *nested : beside;
}

}  // namespace

std::optional<KvDtype> read_checkpoint_kv_dtype(const JsonReader& config, const JsonReader* beside,
                                                FactLog& facts) {
  std::optional<Named<KvDtype>> found;
  const auto offer = [&](std::optional<KvDtype> dtype, const JsonReader& where,
                         const std::string& key) {
    if (!dtype.has_value()) {
      return;
    }
    if (found.has_value() && found->value != *dtype) {
      where.invalid(key, std::string{to_string(*dtype)},
                    "contradicts " + found->key + ", which asks for a " +
                        std::string{to_string(found->value)} + " cache");
    }
    if (!found.has_value()) {
      found = Named<KvDtype>{*dtype, key};
      facts.add("checkpoint_kv_dtype", key, to_string(*dtype), "the checkpoint's cache format");
    }
  };
  const auto offer_algo = [&](const JsonReader& where) {
    if (const auto algo = where.text("kv_cache_quant_algo")) {
      const std::string key = where.dotted("kv_cache_quant_algo");
      offer(kv_algo(where, key, *algo), where, key);
    }
  };
  if (const auto quantization = config.child("quantization_config")) {
    offer(kv_scheme(*quantization), *quantization, quantization->dotted("kv_cache_scheme"));
    offer_algo(*quantization);
  }
  if (beside != nullptr) {
    const JsonReader section = quantization_of(*beside);
    offer_algo(section);
    offer(kv_scheme(section), section, section.dotted("kv_cache_scheme"));
  }
  return found.has_value() ? std::optional<KvDtype>{found->value} : std::nullopt;
}

}  // namespace kvpool::io::detail
