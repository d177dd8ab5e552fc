// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "recurrent_states.hpp"

#include <kvpool/core/checked.hpp>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace kvpool::io::detail {
namespace {

std::int64_t checked(const JsonReader& config, const std::string& key, CheckedInt size) {
  const auto value = size.to_int64();
  if (!value.has_value()) {
    throw Refused{Error{ErrorCode::kOutOfRange,
                        "the recurrent state does not fit into 64 bits",
                        config.file(),
                        key,
                        {}}};
  }
  return *value;
}

// `rule = 3 x 96 x 128 = 36864`.
std::string worked(std::string_view rule, std::string_view numbers, std::int64_t result) {
  return std::string{rule} + " = " + std::string{numbers} + " = " + std::to_string(result);
}

std::string times(std::initializer_list<std::int64_t> factors) {
  std::string out;
  for (const std::int64_t factor : factors) {
    out += (out.empty() ? "" : " x ") + std::to_string(factor);
  }
  return out;
}

void note_kernel(const Named<std::int64_t>& kernel, FactLog& facts) {
  facts.add("conv_kernel", kernel.key, kernel.value, "the state keeps kernel - 1 columns");
}

std::optional<KvDtype> read_state_dtype(const JsonReader& config, FactLog& facts) {
  for (const std::string_view key : {"mamba_ssm_cache_dtype", "mamba_ssm_dtype"}) {
    const auto text = config.text(key);
    if (!text.has_value() || *text == "auto") {
      continue;
    }
    const auto dtype = parse_kv_dtype(*text);
    if (dtype != KvDtype::kFp32 && dtype != KvDtype::kBf16 && dtype != KvDtype::kFp16) {
      config.invalid(config.dotted(key), *text, "must be float32, bfloat16 or float16");
    }
    facts.add("state_dtype", config.dotted(key), to_string(*dtype));
    return dtype;
  }
  return std::nullopt;
}

StateCache mamba2(const JsonReader& config, FactLog& facts) {
  const std::string_view why = "the Mamba-2 state";
  const auto heads = config.need_integer({"mamba_num_heads", "mamba_n_heads"}, limits::kHeads, why);
  const auto dim = config.need_integer({"mamba_head_dim", "mamba_d_head"}, limits::kDim, why);
  const auto state = config.need_integer({"ssm_state_size", "mamba_d_state"}, limits::kDim, why);
  const auto groups = config.need_integer({"n_groups", "mamba_n_groups"}, limits::kHeads, why);
  const auto kernel = config.need_integer({"conv_kernel", "mamba_d_conv"}, limits::kKernel, why);
  if (heads.value % groups.value != 0) {
    config.invalid(groups.key, std::to_string(groups.value),
                   "must divide the " + std::to_string(heads.value) + " heads");
  }
  const CheckedInt inner = CheckedInt{heads.value} * dim.value;
  StateCache cache;
  cache.family = StateFamily::kMamba2;
  cache.conv_channels =
      checked(config, heads.key, inner + CheckedInt{2} * groups.value * state.value);
  cache.conv_kernel = kernel.value;
  cache.matrix_elements = checked(config, heads.key, inner * state.value);
  cache.heads = heads.value;
  cache.groups = groups.value;
  cache.channels_per_group = 2 * state.value;
  facts.add("conv_channels", heads.key, heads.value,
            worked("heads * head dim + 2 * groups * state size",
                   times({heads.value, dim.value}) + " + " + times({2, groups.value, state.value}),
                   cache.conv_channels));
  note_kernel(kernel, facts);
  facts.add("matrix_elements", state.key, state.value,
            worked("heads * head dim * state size", times({heads.value, dim.value, state.value}),
                   cache.matrix_elements));
  return cache;
}

StateCache gated_delta_net(const JsonReader& config, FactLog& facts) {
  const std::string_view why = "the gated delta net state";
  const auto key_heads = config.need_integer({"linear_num_key_heads"}, limits::kHeads, why);
  const auto key_dim = config.need_integer({"linear_key_head_dim"}, limits::kDim, why);
  const auto value_heads = config.need_integer({"linear_num_value_heads"}, limits::kHeads, why);
  const auto value_dim = config.need_integer({"linear_value_head_dim"}, limits::kDim, why);
  const auto kernel = config.need_integer({"linear_conv_kernel_dim"}, limits::kKernel, why);
  if (value_heads.value % key_heads.value != 0) {
    config.invalid(value_heads.key, std::to_string(value_heads.value),
                   "must be a multiple of the " + std::to_string(key_heads.value) + " key heads");
  }
  const CheckedInt values = CheckedInt{value_heads.value} * value_dim.value;
  StateCache cache;
  cache.family = StateFamily::kGatedDeltaNet;
  cache.conv_channels =
      checked(config, key_heads.key, CheckedInt{2} * key_heads.value * key_dim.value + values);
  cache.conv_kernel = kernel.value;
  cache.matrix_elements = checked(config, value_heads.key, values * key_dim.value);
  cache.heads = value_heads.value;
  facts.add("conv_channels", value_heads.key, value_heads.value,
            worked("2 * key heads * key dim + value heads * value dim",
                   times({2, key_heads.value, key_dim.value}) + " + " +
                       times({value_heads.value, value_dim.value}),
                   cache.conv_channels));
  note_kernel(kernel, facts);
  facts.add(
      "matrix_elements", key_dim.key, key_dim.value,
      worked("value heads * value dim * key dim",
             times({value_heads.value, value_dim.value, key_dim.value}), cache.matrix_elements));
  return cache;
}

StateCache kimi_delta(const JsonReader& config, FactLog& facts) {
  const auto linear = config.child("linear_attn_config");
  if (!linear.has_value()) {
    config.invalid("linear_attn_config", {}, "missing, needed for the Kimi delta attention state");
  }
  const std::string_view why = "the Kimi delta attention state";
  const auto heads = linear->need_integer({"num_heads"}, limits::kHeads, why);
  const auto dim = linear->need_integer({"head_dim"}, limits::kDim, why);
  const auto kernel = linear->need_integer({"short_conv_kernel_size"}, limits::kKernel, why);
  const CheckedInt width = CheckedInt{heads.value} * dim.value;
  StateCache cache;
  cache.family = StateFamily::kKimiDelta;
  cache.conv_channels = checked(config, heads.key, width * 3);
  cache.conv_kernel = kernel.value;
  cache.matrix_elements = checked(config, heads.key, width * dim.value);
  cache.heads = heads.value;
  facts.add("conv_channels", heads.key, heads.value,
            worked("3 * heads * dim", times({3, heads.value, dim.value}), cache.conv_channels));
  note_kernel(kernel, facts);
  facts.add("matrix_elements", dim.key, dim.value,
            worked("heads * dim * dim", times({heads.value, dim.value, dim.value}),
                   cache.matrix_elements));
  return cache;
}

StateCache short_conv(const JsonReader& config, const ModelFields& fields, FactLog& facts) {
  const auto kernel =
      config.need_integer({"conv_L_cache"}, limits::kKernel, "the short convolution state");
  StateCache cache;
  cache.family = StateFamily::kShortConv;
  cache.conv_channels = fields.hidden_size;
  cache.conv_kernel = kernel.value;
  facts.add("conv_channels", config.dotted(config.has("hidden_size") ? "hidden_size" : "d_model"),
            cache.conv_channels, "one channel per hidden element");
  note_kernel(kernel, facts);
  return cache;
}

}  // namespace

StateCache read_state(const JsonReader& config, const ModelFields& fields, LayerKind kind,
                      FactLog& facts) {
  StateCache cache;
  switch (kind) {
    case LayerKind::kMamba2: cache = mamba2(config, facts); break;
    case LayerKind::kGatedDeltaNet: cache = gated_delta_net(config, facts); break;
    case LayerKind::kKimiDelta: cache = kimi_delta(config, facts); break;
    default: cache = short_conv(config, fields, facts); break;
  }
  cache.matrix_dtype = read_state_dtype(config, facts);
  return cache;
}

}  // namespace kvpool::io::detail
