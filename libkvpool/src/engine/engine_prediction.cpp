// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/engine/engine_prediction.hpp>

#include "engine/cache_slices.hpp"
#include "engine/profiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace kvpool {
namespace {

constexpr std::array kGivenKinds{GivenKind::kKvBudgetBytes, GivenKind::kNumBlocks,
                                 GivenKind::kKvTokens,      GivenKind::kNumSlots,
                                 GivenKind::kCells,         GivenKind::kMaxModelLen};

/// Bounds far above any deployment; they keep arithmetic within 128 bits.
constexpr std::int64_t kMostRanks = 65'536;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;
constexpr std::int64_t kMostBlock = 65'536;
constexpr std::int64_t kMostSequences = std::int64_t{1} << 31;
constexpr std::int64_t kMostGiven = std::int64_t{1} << 60;
constexpr std::int64_t kMillion = 1'000'000;
constexpr std::int64_t kMostPaddingLimit = 100'000;
constexpr double kMostRatio = 1e6;

struct Domain {
  std::string_view key;
  std::int64_t value;
  std::int64_t low;
  std::int64_t high;
};

Result<void> check_settings(const EngineRequest& request) {
  const EngineSettings& s = request.settings;
  const auto tokens = [](const std::optional<Tokens>& value) {
    return value.value_or(Tokens{1}).count();
  };
  const EngineDrafter drafter = request.drafter.value_or(EngineDrafter{});
  const std::array domains{
      Domain{"tp", s.tp, 1, kMostRanks},
      Domain{"pp", s.pp, 1, kMostRanks},
      Domain{"dp", s.dp, 1, kMostRanks},
      Domain{"dcp", s.dcp, 1, kMostRanks},
      Domain{"tokens_per_block", tokens(s.tokens_per_block), 1, kMostBlock},
      Domain{"max_model_len", tokens(s.max_model_len), 1, kMostTokens},
      Domain{"max_num_batched_tokens", s.max_num_batched_tokens.count(), 0, kMostTokens},
      Domain{"max_concurrent_batches", s.max_concurrent_batches, 0, kMostRanks},
      Domain{"max_num_seqs", s.max_num_seqs.value_or(1), 1, kMostSequences},
      Domain{"encoder_budget_tokens", tokens(s.encoder_budget_tokens), 0, kMostTokens},
      Domain{"group_padding_limit", s.group_padding_limit, 100, kMostPaddingLimit},
      Domain{"max_state_slots", s.max_state_slots.value_or(0), 0, kMostSequences},
      Domain{"max_running_requests", s.max_running_requests.value_or(0), 0, kMostSequences},
      Domain{"max_tokens", s.max_tokens.value_or(1), 1, kMostTokens},
      Domain{"free_gpu_memory_fraction", s.free_fraction_ppm, 1, kMillion},
      Domain{"n_seq_max", s.n_seq_max, 1, kMostSequences},
      Domain{"n_ubatch", s.n_ubatch, 0, kMostTokens},
      Domain{"rollback_states", s.rollback_states, 0, kMostRanks},
      Domain{"swa_cell_multiple", s.swa_cell_multiple, 1, kMostBlock},
      Domain{"drafter.num_draft_tokens", drafter.num_draft_tokens.value_or(0), 0, kMostRanks},
      Domain{"drafter.num_layers", drafter.num_layers.value_or(0), 0, kMostRanks},
      Domain{"given", request.given.value, request.given.kind == GivenKind::kMaxModelLen ? 1 : 0,
             request.given.kind == GivenKind::kKvBudgetBytes ? kMostGiven : kMostTokens}};
  for (const Domain& domain : domains) {
    if (domain.value < domain.low || domain.value > domain.high) {
      Error error = detail::setting_error(
          domain.key, fmt::format("must be from {} to {}", domain.low, domain.high));
      error.value = fmt::format("{}", domain.value);
      return error;
    }
  }
  for (const auto& [key, ratio] :
       {std::pair{"swa_full_ratio", s.swa_full_ratio}, {"mamba_full_ratio", s.mamba_full_ratio}}) {
    if (!(ratio >= 0.0 && ratio <= kMostRatio)) {
      return detail::setting_error(key, fmt::format("must be from 0 to {}", kMostRatio));
    }
  }
  const auto layers = static_cast<std::int64_t>(request.target.layers.size());
  if (s.pp > std::max<std::int64_t>(layers, 1)) {
    return detail::setting_error("pp", fmt::format("at most the {} layers of the model", layers));
  }
  return {};
}

}  // namespace

std::string_view to_string(GivenKind kind) noexcept {
  switch (kind) {
    case GivenKind::kKvBudgetBytes: return "kv_budget_bytes";
    case GivenKind::kNumBlocks: return "num_blocks";
    case GivenKind::kKvTokens: return "kv_tokens";
    case GivenKind::kNumSlots: return "num_slots";
    case GivenKind::kCells: return "cells";
    case GivenKind::kMaxModelLen: return "max_model_len";
  }
  return "kv_budget_bytes";
}

std::optional<GivenKind> parse_given_kind(std::string_view text) noexcept {
  const auto* found =
      std::ranges::find_if(kGivenKinds, [text](GivenKind kind) { return to_string(kind) == text; });
  return found == kGivenKinds.end() ? std::nullopt : std::optional{*found};
}

const EngineFigure* EnginePrediction::find(FigureKey key) const noexcept {
  const auto found = std::ranges::find(figures, key, &EngineFigure::key);
  return found == figures.end() ? nullptr : &*found;
}

Bytes EnginePrediction::total(const std::vector<EngineLine>& account) noexcept {
  Bytes sum;
  for (const EngineLine& line : account) {
    sum += line.bytes;
  }
  return sum;
}

Result<EnginePrediction> predict_engine(const EngineRequest& request,
                                        const CapabilityRegistry& registry) {
  if (auto checked = check_settings(request); !checked) {
    return std::move(checked).error();
  }
  switch (request.engine) {
    case Engine::kVllm: return detail::predict_vllm(request);
    case Engine::kSglang: return detail::predict_sglang(request);
    case Engine::kTrtllm: return detail::predict_trtllm(request, registry);
    case Engine::kLlamacpp:
    case Engine::kIkLlamacpp: return detail::predict_llamacpp(request);
  }
  return Error{.code = ErrorCode::kInternal, .message = "unknown engine"};
}

Result<Bytes> bytes_needed(const ModelConfig& model, const EngineSettings& settings,
                           Tokens length) {
  detail::SliceRules rules;
  rules.tensor = settings.tp;
  rules.key_format = detail::cache_format(settings, model);
  rules.value_format = rules.key_format;
  rules.state_dtype = settings.state_dtype;
  rules.conv_state_dtype = settings.conv_state_dtype;
  rules.cross_attention = true;
  const Result<std::vector<detail::CacheSlice>> slices = detail::model_slices(model, rules);
  if (!slices) {
    return slices.error();
  }
  CheckedInt bytes{0};
  for (const detail::CacheSlice& slice : *slices) {
    bytes += slice.is_state() ? slice.state_bytes()
                              : slice.token_bytes() * slice.kept_tokens(length.count());
  }
  const auto exact = bytes.to_int64();
  if (!exact.has_value()) {
    return Error{.code = ErrorCode::kOutOfRange,
                 .message = "the cache of one request does not fit into 64 bits",
                 .key = "max_model_len"};
  }
  return Bytes{*exact};
}

}  // namespace kvpool
