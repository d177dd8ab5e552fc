// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "engine_settings.hpp"

#include <kvpool/io/engine_cases.hpp>

#include "io/nearest_word.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <string>
#include <utility>

namespace kvpool::io {
namespace detail {
namespace {

constexpr std::array<std::string_view, 36> kNames{"tp",
                                                  "pp",
                                                  "dp",
                                                  "dcp",
                                                  "kv_dtype",
                                                  "tokens_per_block",
                                                  "max_model_len",
                                                  "token_report",
                                                  "prefix_caching",
                                                  "state_dtype",
                                                  "conv_state_dtype",
                                                  "max_num_batched_tokens",
                                                  "max_concurrent_batches",
                                                  "max_num_seqs",
                                                  "hybrid_kv_manager",
                                                  "encoder_budget_tokens",
                                                  "group_padding_limit",
                                                  "dp_attention",
                                                  "max_state_slots",
                                                  "max_running_requests",
                                                  "swa_full_ratio",
                                                  "mamba_full_ratio",
                                                  "mem_fraction_static",
                                                  "cuda_graph_max_bs",
                                                  "max_tokens",
                                                  "free_gpu_memory_fraction",
                                                  "block_manager",
                                                  "max_attention_window",
                                                  "k_dtype",
                                                  "v_dtype",
                                                  "n_seq_max",
                                                  "kv_unified",
                                                  "n_ubatch",
                                                  "rollback_states",
                                                  "mla_mode",
                                                  "swa_cell_multiple"};

// Whatever an engine's arithmetic can take; it checks narrower domains itself.
constexpr Limits kAnyCount{0, std::int64_t{1} << 40};
constexpr Limits kAnyWindow{-1, std::int64_t{1} << 40};

template <typename T>
using Choice = std::pair<std::string_view, T>;

/// One of a few words.
template <typename T, std::size_t kCount>
std::optional<T> choice(const JsonReader& object, std::string_view key,
                        const std::array<Choice<T>, kCount>& choices) {
  const auto text = object.text(key);
  if (!text.has_value()) {
    return std::nullopt;
  }
  std::array<std::string_view, kCount> names{};
  for (std::size_t i = 0; i < kCount; ++i) {
    if (*text == choices.at(i).first) {
      return choices.at(i).second;
    }
    names.at(i) = choices.at(i).first;
  }
  object.invalid(object.dotted(key), *text, "not understood" + advice(*text, names));
}

void take_count(const JsonReader& object, std::string_view key, std::int64_t& into) {
  if (const auto value = object.integer({key}, kAnyCount)) {
    into = value->value;
  }
}

void take_count(const JsonReader& object, std::string_view key, std::optional<std::int64_t>& into) {
  if (const auto value = object.integer({key}, kAnyCount)) {
    into = value->value;
  }
}

void take_tokens(const JsonReader& object, std::string_view key, std::optional<Tokens>& into) {
  if (const auto value = object.integer({key}, kAnyCount)) {
    into = Tokens{value->value};
  }
}

void take_flag(const JsonReader& object, std::string_view key, bool& into) {
  into = object.boolean(key).value_or(into);
}

/// A number that need not be whole.
std::optional<double> number(const JsonReader& object, std::string_view key) {
  const Json* value = object.find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  double out = -1;
  if (const auto* whole = value->integer()) {
    out = static_cast<double>(*whole);
  } else if (const auto* real = value->real()) {
    out = *real;
  }
  constexpr double kMost = 1e6;
  if (!(out >= 0 && out <= kMost)) {
    object.invalid(object.dotted(key), value->shortened(), "must be a number from 0 to 1000000");
  }
  return out;
}

std::optional<EngineFormat> format(const JsonReader& object, std::string_view key, Engine engine) {
  const auto text = object.text(key);
  if (!text.has_value() || *text == "auto") {
    return std::nullopt;
  }
  auto parsed = parse_engine_format(engine, *text);
  if (!parsed.has_value()) {
    object.unsupported(object.dotted(key), *text,
                       "no cache format of " + std::string{to_string(engine)} +
                           " that is understood; docs/engines.md lists them");
  }
  return parsed;
}

std::optional<KvDtype> state_type(const JsonReader& object, std::string_view key) {
  const auto text = object.text(key);
  if (!text.has_value()) {
    return std::nullopt;
  }
  const auto dtype = parse_state_dtype(*text);
  if (!dtype.has_value()) {
    object.invalid(object.dotted(key), *text, "must be f32, bf16 or f16");
  }
  return dtype;
}

void read_vllm(const JsonReader& object, EngineSettings& s) {
  constexpr std::array kReports{Choice<TokenReport>{"blocks", TokenReport::kBlocks},
                                Choice<TokenReport>{"concurrency", TokenReport::kConcurrency}};
  s.token_report = choice(object, "token_report", kReports).value_or(s.token_report);
  take_flag(object, "prefix_caching", s.prefix_caching);
  if (const auto tokens = object.integer({"max_num_batched_tokens"}, kAnyCount)) {
    s.max_num_batched_tokens = Tokens{tokens->value};
  }
  take_count(object, "max_concurrent_batches", s.max_concurrent_batches);
  take_flag(object, "hybrid_kv_manager", s.hybrid_kv_manager);
  take_tokens(object, "encoder_budget_tokens", s.encoder_budget_tokens);
  take_count(object, "group_padding_limit", s.group_padding_limit);
}

/// A share of memory in millionths.
std::optional<std::int64_t> share(const JsonReader& object, std::string_view key) {
  constexpr double kMillion = 1e6;
  const auto value = number(object, key);
  if (!value.has_value()) {
    return std::nullopt;
  }
  const std::int64_t ppm = std::llround(*value * kMillion);
  if (ppm < 1 || *value > 1) {
    object.invalid(object.dotted(key), object.find(key)->shortened(),
                   "must be above 0 and at most 1");
  }
  return ppm;
}

void read_sglang(const JsonReader& object, EngineSettings& s) {
  take_flag(object, "dp_attention", s.dp_attention);
  take_count(object, "max_state_slots", s.max_state_slots);
  take_count(object, "max_running_requests", s.max_running_requests);
  s.swa_full_ratio = number(object, "swa_full_ratio").value_or(s.swa_full_ratio);
  if (const auto fraction = share(object, "mem_fraction_static")) {
    s.mem_fraction_ppm = fraction;
  }
  take_count(object, "cuda_graph_max_bs", s.cuda_graph_max_bs);
  take_count(object, "max_tokens", s.max_tokens);
  s.mamba_full_ratio = number(object, "mamba_full_ratio").value_or(s.mamba_full_ratio);
}

void read_trtllm(const JsonReader& object, EngineSettings& s) {
  constexpr std::array kManagers{
      Choice<BlockManagerKind>{"cpp", BlockManagerKind::kCpp},
      Choice<BlockManagerKind>{"python_v1", BlockManagerKind::kPythonV1},
      Choice<BlockManagerKind>{"python_v2", BlockManagerKind::kPythonV2}};
  s.free_fraction_ppm = share(object, "free_gpu_memory_fraction").value_or(s.free_fraction_ppm);
  if (const auto manager = choice(object, "block_manager", kManagers)) {
    s.block_manager = manager;
  }
  if (const auto windows = object.integers("max_attention_window", kAnyWindow)) {
    s.max_attention_window.clear();
    for (const std::int64_t window : *windows) {
      s.max_attention_window.emplace_back(window);
    }
  }
}

void read_llama(const JsonReader& object, Engine engine, EngineSettings& s) {
  constexpr std::array kModes{Choice<MlaMode>{"expanded", MlaMode::kExpanded},
                              Choice<MlaMode>{"latent", MlaMode::kLatent},
                              Choice<MlaMode>{"latent_and_copy", MlaMode::kLatentAndCopy}};
  const bool family = engine == Engine::kLlamacpp || engine == Engine::kIkLlamacpp;
  const Engine types = family ? engine : Engine::kLlamacpp;
  s.k_format = format(object, "k_dtype", types).value_or(s.k_format);
  s.v_format = format(object, "v_dtype", types).value_or(s.v_format);
  take_count(object, "n_seq_max", s.n_seq_max);
  take_flag(object, "kv_unified", s.kv_unified);
  take_count(object, "n_ubatch", s.n_ubatch);
  take_count(object, "rollback_states", s.rollback_states);
  if (const auto mode = choice(object, "mla_mode", kModes)) {
    s.mla_mode = mode;
  }
  take_count(object, "swa_cell_multiple", s.swa_cell_multiple);
}

}  // namespace

std::span<const std::string_view> setting_names() noexcept { return kNames; }

void read_settings(const JsonReader& object, Engine engine, EngineSettings& s) {
  refuse_unknown_keys(object, kNames);
  take_count(object, "tp", s.tp);
  take_count(object, "pp", s.pp);
  take_count(object, "dp", s.dp);
  take_count(object, "dcp", s.dcp);
  const bool llama = engine == Engine::kLlamacpp || engine == Engine::kIkLlamacpp;
  if (auto kv = format(object, "kv_dtype", llama ? Engine::kVllm : engine)) {
    s.kv_format = std::move(*kv);
  }
  take_tokens(object, "tokens_per_block", s.tokens_per_block);
  take_tokens(object, "max_model_len", s.max_model_len);
  take_count(object, "max_num_seqs", s.max_num_seqs);
  if (const auto state = state_type(object, "state_dtype")) {
    s.state_dtype = state;
  }
  if (const auto state = state_type(object, "conv_state_dtype")) {
    s.conv_state_dtype = state;
  }
  read_vllm(object, s);
  read_sglang(object, s);
  read_trtllm(object, s);
  read_llama(object, engine, s);
}

void refuse_unknown_keys(const JsonReader& object, std::span<const std::string_view> known) {
  for (const std::string_view key : object.keys()) {
    if (std::ranges::find(known, key) == known.end()) {
      const Json* value = object.find(key);
      object.invalid(object.dotted(key), value == nullptr ? "null" : value->shortened(),
                     "unknown key" + advice(key, known));
    }
  }
}

}  // namespace detail

Result<void> set_engine_setting(std::string_view key, std::string_view value, Engine engine,
                                EngineSettings& settings) {
  try {
    Result<detail::Json> parsed = detail::parse_json(value, {});
    detail::Json text;
    if (!parsed) {
      text.set(std::string{value});
    } else {
      text = *std::move(parsed);
    }
    detail::Json object;
    object.set(detail::Json::Object{detail::Json::Member{std::string{key}, std::move(text)}});
    detail::read_settings(detail::JsonReader{object, {}, {}}, engine, settings);
    return {};
  } catch (detail::Refused& refused) {
    return std::move(refused.error);
  } catch (const std::exception& e) {
    return Error{ErrorCode::kInternal, std::string{"reading a setting failed: "} + e.what()};
  }
}

}  // namespace kvpool::io
