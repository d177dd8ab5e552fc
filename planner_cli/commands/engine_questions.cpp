// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "commands/engine_questions.hpp"

#include <kvpool/engine/engine_budget.hpp>
#include <kvpool/io/engine_cases.hpp>
#include <kvpool/solve/engine_advice.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvpool::cli {
namespace {

/// Release of vLLM from which tokens are reported by concurrency.
constexpr EngineVersion kConcurrencyReport{.major = 0, .minor = 20, .patch = 1};
/// Release of TensorRT-LLM from which the Python managers are the default.
constexpr EngineVersion kPythonManagers{.major = 1};
/// TensorRT-LLM's default block, that of FlashMLA on Hopper, and that of FP4 MLA.
constexpr Tokens kTrtllmBlock{32};
constexpr Tokens kFlashMlaBlock{64};
constexpr Tokens kFp4MlaBlock{128};

[[nodiscard]] bool is_llama(Engine engine) noexcept {
  return engine == Engine::kLlamacpp || engine == Engine::kIkLlamacpp;
}

/// `--engine-version`, for the one engine that was asked for.
[[nodiscard]] std::optional<EngineVersion> asked_version(const Options& options) {
  const GivenValue* version = options.find(OptionId::kEngineVersion);
  if (version == nullptr || !asked_engine(options).has_value()) {
    return std::nullopt;
  }
  const auto parsed = parse_engine_version(version->text);
  if (!parsed.has_value()) {
    version->fail(option_spec(OptionId::kEngineVersion),
                  "'" + version->text + "' is no release such as 0.20.1 or b6500");
  }
  return parsed;
}

void set_parallelism(Engine engine, const Parallelism& spread, EngineSettings& settings) {
  if (is_llama(engine)) {
    return;  // one GPU holds all heads of its layers
  }
  settings.tp = spread.tensor;
  settings.pp = spread.pipeline;
  settings.dcp = engine == Engine::kVllm ? spread.decode_context : 1;
  settings.dp = spread.data;
  if (!spread.attention_data_parallel) {
    return;
  }
  if (engine == Engine::kSglang) {
    // The attention of all ranks is data parallel unless a number of replicas is given.
    settings.dp = spread.data > 1 ? spread.data : spread.tensor;
    settings.dp_attention = true;
  } else if (engine == Engine::kTrtllm) {
    settings.dp_attention = true;
  } else {
    settings.tp = 1;
  }
}

[[nodiscard]] Tokens trtllm_block(const PlanRequest& request) {
  if (request.kv_dtype == KvDtype::kFp4Mla) {
    return kFp4MlaBlock;
  }
  const bool hopper = request.device.has_value() && request.device->architecture == "sm_90";
  return hopper && has_latent_cache(request.target) ? kFlashMlaBlock : kTrtllmBlock;
}

void set_by_version(Engine engine, const std::optional<EngineVersion>& version,
                    EngineSettings& settings) {
  if (!version.has_value()) {
    return;
  }
  if (engine == Engine::kVllm && *version < kConcurrencyReport) {
    settings.token_report = TokenReport::kBlocks;
  }
  if (engine == Engine::kTrtllm) {
    settings.block_manager =
        *version < kPythonManagers ? BlockManagerKind::kCpp : BlockManagerKind::kPythonV1;
  }
}

/// `--engine-option KEY=VALUE`. When several engines are compared, formats that one of them does
/// not know are left out for it.
void set_options(Engine engine, const Options& options, EngineSettings& settings) {
  const auto given = options.values.find(OptionId::kEngineOption);
  if (given == options.values.end()) {
    return;
  }
  for (const GivenValue& option : given->second) {
    const std::size_t equals = option.text.find('=');
    if (equals == std::string::npos || equals == 0) {
      option.fail(option_spec(OptionId::kEngineOption),
                  "'" + option.text + "' is no KEY=VALUE such as token_report=blocks");
    }
    const Result<void> set = io::set_engine_setting(
        option.text.substr(0, equals), option.text.substr(equals + 1), engine, settings);
    if (!set &&
        !(options.flag(OptionId::kCompareEngines) && set.error().code == ErrorCode::kUnsupported)) {
      option.fail(option_spec(OptionId::kEngineOption), option.text + ": " + set.error().message);
    }
  }
}

[[nodiscard]] std::optional<EngineDrafter> drafter_of(const PlanRequest& request) {
  if (!request.drafter.has_value()) {
    return std::nullopt;
  }
  const DrafterRequest& asked = *request.drafter;
  EngineDrafter drafter{.kind = asked.kind, .model = asked.model, .backend = asked.backend};
  std::int64_t tokens = asked.num_draft_tokens.count();
  if (tokens == 0 && asked.model.has_value() && asked.model->drafter.has_value()) {
    tokens = asked.model->drafter->block_tokens.count();
  }
  drafter.num_draft_tokens = std::max<std::int64_t>(tokens, 1);
  return drafter;
}

[[nodiscard]] EngineSettings settings_of(Engine engine, const Options& options,
                                         const PlanRequest& request, Tokens length) {
  EngineSettings settings;
  set_parallelism(engine, request.parallelism, settings);
  if (request.kv_dtype.has_value()) {
    settings.kv_format = engine_format(*request.kv_dtype);
  }
  settings.tokens_per_block = request.tokens_per_block;
  if (engine == Engine::kTrtllm && !settings.tokens_per_block.has_value()) {
    settings.tokens_per_block = trtllm_block(request);
  }
  settings.max_model_len = length;
  settings.max_num_batched_tokens = request.workload.max_batched_tokens;
  if (request.workload.max_num_seqs.has_value()) {
    settings.max_num_seqs = request.workload.max_num_seqs->count();
    settings.max_running_requests = settings.max_num_seqs;
    settings.n_seq_max = *settings.max_num_seqs;
  }
  set_by_version(engine, asked_version(options), settings);
  set_options(engine, options, settings);
  return settings;
}

[[nodiscard]] Tokens asked_length(const PlanRequest& request) {
  if (request.workload.max_model_len.has_value()) {
    return *request.workload.max_model_len;
  }
  if (!request.target.max_positions.has_value()) {
    throw Failure{ExitCode::kBadInput,
                  Error{ErrorCode::kInvalidArgument,
                        "the config states no max_position_embeddings and no length was asked "
                        "for; give --max-model-len",
                        "", "max_model_len", ""}};
  }
  return *request.target.max_positions;
}

}  // namespace

Bytes EngineAnswer::kv_budget() const noexcept {
  return budget.empty() ? Bytes{0} : budget.back().bytes;
}

std::optional<Bytes> EngineAnswer::charged() const {
  const EngineFigure* needs =
      prediction.has_value() ? prediction->find(FigureKey::kNeededGib) : nullptr;
  return needs == nullptr ? std::nullopt : std::optional{std::get<Bytes>(needs->value)};
}

bool EngineAnswer::fits() const {
  if (!prediction.has_value() || kv_budget().count() <= 0) {
    return false;
  }
  if (is_llama(engine)) {
    return charged().has_value() && *charged() <= kv_budget();
  }
  const EngineFigure* longest = prediction->find(FigureKey::kMaxLenThatFits);
  return longest != nullptr && std::get<std::int64_t>(longest->value) >= length.count();
}

EngineAnswer ask_engine(Engine engine, const Options& options, const Deployment& deployment) {
  const PlanRequest& plan = deployment.request;
  EngineAnswer answer;
  answer.engine = engine;
  answer.length = asked_length(plan);
  if (const GivenValue* version = options.find(OptionId::kEngineVersion); version != nullptr) {
    answer.version = version->text;
  }
  answer.request.engine = engine;
  answer.request.target = plan.target;
  answer.request.drafter = drafter_of(plan);
  answer.request.settings = settings_of(engine, options, plan, answer.length);
  const EngineSettings& settings = answer.request.settings;
  EngineFractions fractions{.version = asked_version(options)};
  if (engine == Engine::kVllm && options.find(OptionId::kGpuMemoryUtilization) != nullptr) {
    fractions.fraction_ppm = plan.budget.utilization_ppm;
  } else if (engine == Engine::kTrtllm) {
    fractions.fraction_ppm = settings.free_fraction_ppm;
  } else if (engine == Engine::kSglang) {
    fractions.fraction_ppm = settings.mem_fraction_ppm;
    fractions.graph_max_batch = settings.cuda_graph_max_bs;
  }
  const Result<Bytes> needed = bytes_needed(plan.target, settings, answer.length);
  answer.needed = needed ? *needed : Bytes{0};
  Result<std::vector<LedgerLine>> budget = engine_budget(engine, fractions, plan);
  if (!budget) {
    throw Failure{std::move(budget).error()};
  }
  answer.budget = *std::move(budget);
  // llama.cpp takes the context as asked, whatever is free.
  answer.request.given = is_llama(engine)
                             ? EngineGiven{GivenKind::kMaxModelLen, answer.length.count()}
                             : EngineGiven{GivenKind::kKvBudgetBytes,
                                           std::max<std::int64_t>(answer.kv_budget().count(), 0)};
  Result<EnginePrediction> prediction = predict_engine(answer.request, deployment.registry);
  if (prediction) {
    answer.prediction = *std::move(prediction);
    answer.advice =
        advise_engine(answer.request, *answer.prediction,
                      plan.workload.max_num_seqs.value_or(Sequences{1}), deployment.registry);
  } else {
    answer.error = std::move(prediction).error();
  }
  return answer;
}

}  // namespace kvpool::cli
