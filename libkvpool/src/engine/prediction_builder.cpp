// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "engine/prediction_builder.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace kvpool::detail {
namespace {

struct SourceOfRule {
  std::string_view id;
  std::string_view source;
};

/// What each rule is known from; docs/engines.md says more.
constexpr std::array kSources{
    SourceOfRule{"block_rounding",
                 "start-up logs of TensorRT-LLM 0.13 to 0.15; Python managers: source"},
    SourceOfRule{"block_size", "start-up logs of vLLM 0.20 to 0.28"},
    SourceOfRule{"draft_charge", "SGLang's source"},
    SourceOfRule{"draft_kv_dtype", "TensorRT-LLM, pull request 19040"},
    SourceOfRule{"draft_page", "TensorRT-LLM, pull requests 19960 and 21046; kernel rows"},
    SourceOfRule{"draft_pool", "TensorRT-LLM's source"},
    SourceOfRule{"draft_states", "a start-up log of SGLang of 2026; older builds: source"},
    SourceOfRule{"dump_page", "start-up logs of SGLang 0.4.6 to 0.5.17"},
    SourceOfRule{"group_size", "start-up logs and planning functions of vLLM 0.20 to 0.28"},
    SourceOfRule{"hybrid_kv_manager", "a start-up log of vLLM 0.8.3"},
    SourceOfRule{"mamba_full_memory_ratio", "SGLang's source"},
    SourceOfRule{"max_tokens", "the engine's source"},
    SourceOfRule{"mla_mode", "start-up logs of llama.cpp and ik_llama.cpp; defaults: assumed"},
    SourceOfRule{"padded_pages", "vLLM's source"},
    SourceOfRule{"private_arena", "TensorRT-LLM, pull requests 16005 and 18343"},
    SourceOfRule{"state_dtype", "start-up logs of llama.cpp of 2026"},
    SourceOfRule{"swa_cells", "start-up logs of llama.cpp of 2025 and 2026"},
    SourceOfRule{"token_report", "start-up logs of vLLM 0.6 to 0.28"},
    SourceOfRule{"unpacked_layers", "vLLM's source"},
    SourceOfRule{"windows", "TensorRT-LLM's source"}};

std::string source_of(std::string_view id) {
  const auto* found = std::ranges::find(kSources, id, &SourceOfRule::id);
  return std::string{found == kSources.end() ? std::string_view{} : found->source};
}

}  // namespace

void PredictionBuilder::count(FigureKey key, CheckedInt value) {
  out_.figures.push_back({.key = key, .value = narrow(value)});
}

void PredictionBuilder::real(FigureKey key, double value) {
  out_.figures.push_back({.key = key, .value = value});
}

void PredictionBuilder::size(FigureKey key, CheckedInt bytes) {
  out_.figures.push_back({.key = key, .value = Bytes{narrow(bytes)}});
}

void PredictionBuilder::range(FigureKey key, CheckedInt low, CheckedInt high,
                              std::int64_t scale_ppm, bool holds_low) {
  out_.figures.push_back({.key = key,
                          .value = PrintedRange{.low = narrow(low),
                                                .high = narrow(high),
                                                .scale_ppm = scale_ppm,
                                                .holds_low = holds_low}});
}

void PredictionBuilder::request_line(std::string_view name, CheckedInt bytes, std::string reason) {
  add(out_.request_account, name, bytes, std::move(reason));
}

void PredictionBuilder::pool_line(std::string_view name, CheckedInt bytes, std::string reason) {
  add(out_.pool_account, name, bytes, std::move(reason));
}

void PredictionBuilder::rule(std::string_view id, std::string value, std::string reason) {
  out_.rules.push_back({.id = std::string{id},
                        .value = std::move(value),
                        .reason = std::move(reason),
                        .source = source_of(id)});
}

void PredictionBuilder::add(std::vector<EngineLine>& account, std::string_view name,
                            CheckedInt bytes, std::string reason) {
  if (const std::int64_t exact = narrow(bytes); exact != 0) {
    account.push_back(
        {.name = std::string{name}, .bytes = Bytes{exact}, .reason = std::move(reason)});
  }
}

std::int64_t PredictionBuilder::narrow(CheckedInt value) {
  const auto exact = value.to_int64();
  overflowed_ = overflowed_ || !exact.has_value();
  return exact.value_or(0);
}

Result<EnginePrediction> PredictionBuilder::take() && {
  if (overflowed_) {
    return Error{.code = ErrorCode::kOutOfRange,
                 .message = "a size of the prediction does not fit into 64 bits",
                 .key = "given"};
  }
  std::ranges::sort(out_.figures, {}, &EngineFigure::key);  // each key once
  return std::move(out_);
}

}  // namespace kvpool::detail
