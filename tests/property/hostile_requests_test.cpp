// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Law 8: no request overflows, crashes or takes long. Each gives an error that names a key, or a
// plan, or a refusal.
#include "dice.hpp"
#include "scenario.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace kvpool {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kQuintillion = 1'000'000'000'000'000'000;

/// Generous, for sanitizers on a busy machine; a plan takes a thousandth of it.
constexpr std::chrono::milliseconds kPatience{500};

PlanRequest ordinary() {
  static const auto target = test::own_config("gemma-3-27b");
  static const auto drafter = test::own_config("dflash-4-sliding-1-full");
  PlanRequest request;
  request.target = target.model;
  request.drafter = DrafterRequest{.kind = DrafterKind::kDflash, .model = drafter.model};
  request.budget.kv_budget = Bytes{std::int64_t{40} << 30};
  request.workload.max_model_len = Tokens{4096};
  return request;
}

/// Plans in time, and answers in one of the three ways.
Result<Plan> survive(const PlanRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  auto plan = make_plan(request, test::known());
  const auto took = std::chrono::steady_clock::now() - start;
  CHECK(took < kPatience);
  if (!plan) {
    CHECK_FALSE(plan.error().key.empty());
    CHECK_FALSE(plan.error().message.empty());
    return plan;
  }
  CHECK(plan->fits == plan->refusals.empty());
  for (const Refusal& refusal : plan->refusals) {
    CHECK_FALSE(refusal.what.empty());
    CHECK_FALSE(refusal.least_that_works.empty());
    CHECK(refusal.missing_bytes >= Bytes{0});
  }
  for (const PoolPlan& rank : plan->ranks) {
    for (const PoolDescriptor& pool : rank.pools) {
      CHECK(pool.bytes() > Bytes{0});
      CHECK(pool.charged_bytes() <= rank.budget);
    }
  }
  return plan;
}

struct Field {
  std::string key;
  std::function<void(PlanRequest&, std::int64_t)> set;
};

const std::vector<Field>& fields() {
  static const std::vector<Field> all{
      {"tensor_parallel_size", [](auto& r, auto v) { r.parallelism.tensor = v; }},
      {"pipeline_parallel_size", [](auto& r, auto v) { r.parallelism.pipeline = v; }},
      {"data_parallel_size", [](auto& r, auto v) { r.parallelism.data = v; }},
      {"decode_context_parallel_size", [](auto& r, auto v) { r.parallelism.decode_context = v; }},
      {"expert_parallel_size", [](auto& r, auto v) { r.parallelism.expert = v; }},
      {"page_size", [](auto& r, auto v) { r.tokens_per_block = Tokens{v}; }},
      {"draft_page_size", [](auto& r, auto v) { r.drafter->tokens_per_block = Tokens{v}; }},
      {"num_draft_tokens", [](auto& r, auto v) { r.drafter->num_draft_tokens = Tokens{v}; }},
      {"reserved_pages", [](auto& r, auto v) { r.reserved_pages = v; }},
      {"granularity", [](auto& r, auto v) { r.granularity = Bytes{v}; }},
      {"max_num_seqs", [](auto& r, auto v) { r.workload.max_num_seqs = Sequences{v}; }},
      {"max_model_len", [](auto& r, auto v) { r.workload.max_model_len = Tokens{v}; }},
      {"max_num_batched_tokens",
       [](auto& r, auto v) { r.workload.max_batched_tokens = Tokens{v}; }},
      {"state_snapshots", [](auto& r, auto v) { r.workload.state_snapshots_per_seq = v; }},
      {"kv_budget", [](auto& r, auto v) { r.budget.kv_budget = Bytes{v}; }},
      {"gpu_memory",
       [](auto& r, auto v) {
         r.budget.kv_budget.reset();
         r.budget.gpu_memory = Bytes{v};
       }},
      {"gpu_memory_utilization", [](auto& r, auto v) { r.budget.utilization_ppm = v; }},
      {"weights", [](auto& r, auto v) { r.budget.weights = Bytes{v}; }},
      {"overhead", [](auto& r, auto v) { r.budget.overhead = Bytes{v}; }},
  };
  return all;
}

}  // namespace

TEST_CASE("a number out of its range is an error that names its key") {
  for (const Field& field : fields()) {
    for (const std::int64_t value : {std::int64_t{-1}, kLeast, kMost, kQuintillion * 2}) {
      INFO(field.key << " = " << value);
      PlanRequest request = ordinary();
      field.set(request, value);
      const auto plan = survive(request);
      REQUIRE_FALSE(plan.has_value());
      CHECK(plan.error().key == field.key);
      CHECK(plan.error().value == std::to_string(value));
      CHECK(plan.error().message.find(field.key) != std::string::npos);
    }
  }
}

TEST_CASE("zero is an error where nothing can be zero") {
  for (const Field& field : fields()) {
    INFO(field.key);
    PlanRequest request = ordinary();
    field.set(request, 0);
    const auto plan = survive(request);
    const bool can_be_zero = field.key == "num_draft_tokens" || field.key == "reserved_pages" ||
                             field.key == "max_num_batched_tokens" ||
                             field.key == "state_snapshots" || field.key == "kv_budget" ||
                             field.key == "weights" || field.key == "overhead";
    CHECK(plan.has_value() == can_be_zero);
    if (!plan) {
      CHECK(plan.error().key == field.key);
    }
  }
}

TEST_CASE("powers of two in every field, alone and together, are survived") {
  for (const Field& field : fields()) {
    for (int bit = 0; bit < 63; bit += 3) {
      for (const std::int64_t off : {-1, 0, 1}) {
        INFO(field.key << " = 2^" << bit << " + " << off);
        PlanRequest request = ordinary();
        field.set(request, (std::int64_t{1} << bit) + off);
        static_cast<void>(survive(request));
      }
    }
  }
  test::Dice dice{4711};
  for (int i = 0; i < 2000; ++i) {
    PlanRequest request = ordinary();
    for (int j = 0; j < 4; ++j) {
      dice.of(fields()).set(request, dice.spread(0, 41));
    }
    INFO("round " << i);
    static_cast<void>(survive(request));
  }
}

TEST_CASE("10^18 tokens are answered at once") {
  PlanRequest request = ordinary();
  request.workload.max_model_len = Tokens{kQuintillion};
  CHECK_FALSE(survive(request).has_value());
  // The config's own claim.
  request.workload.max_model_len.reset();
  for (const std::int64_t positions : {kQuintillion, kMost, std::int64_t{0}, std::int64_t{-1}}) {
    INFO(positions);
    request.target.max_positions = Tokens{positions};
    request.drafter->model->max_positions = Tokens{positions};
    const auto plan = survive(request);
    REQUIRE_FALSE(plan.has_value());
    CHECK(plan.error().key == "max_position_embeddings");
  }
  // The largest length and number of sequences that are accepted: petabytes, and it says so.
  request = ordinary();
  request.workload.max_model_len = Tokens{std::int64_t{1} << 40};
  request.workload.max_num_seqs = Sequences{std::int64_t{1} << 31};
  request.workload.state_snapshots_per_seq = 1 << 16;
  const auto plan = survive(request);
  REQUIRE(plan.has_value());
  CHECK_FALSE(plan->fits);
}

TEST_CASE("a layer of absurd size is an error or a refusal, and never overflows") {
  const std::vector<std::int64_t> sizes{kMost,  kMost / 2, kMost / 1000,          kQuintillion,
                                        kLeast, -1,        std::int64_t{1} << 31, 1'000'000,
                                        0};
  const auto with = [](const LayerCache& cache, const LayerCache& second) {
    PlanRequest request = ordinary();
    request.drafter.reset();
    request.target.layers = {{.index = LayerIndex{0}, .caches = {cache, second}}};
    return request;
  };
  AttentionCache window{
      .query_heads = Heads{8}, .kv_heads = Heads{8}, .key_dim = 128, .value_dim = 128};
  window.span = {SpanKind::kSlidingWindow, Tokens{128}};
  int answered = 0;
  for (const std::int64_t a : sizes) {
    for (const std::int64_t b : sizes) {
      INFO(a << ", " << b);
      AttentionCache attention{.query_heads = Heads{8}, .kv_heads = Heads{8}};
      attention.key_dim = a;
      attention.value_dim = b;
      AttentionCache heads{
          .query_heads = Heads{a}, .kv_heads = Heads{b}, .key_dim = 128, .value_dim = 128};
      AttentionCache span = window;
      span.span.extent = Tokens{a};
      const LatentCache latent{.query_heads = Heads{8}, .latent_dim = a, .rope_dim = b};
      StateCache state{.conv_channels = a, .conv_kernel = b, .matrix_elements = a, .heads = 1};
      StateCache groups{.conv_channels = 1024,
                        .conv_kernel = 4,
                        .matrix_elements = 1024,
                        .heads = 1,
                        .groups = a,
                        .channels_per_group = b};
      for (const LayerCache& cache :
           {LayerCache{attention}, LayerCache{heads}, LayerCache{span}, LayerCache{latent},
            LayerCache{IndexerCache{.key_dim = a}}, LayerCache{state}, LayerCache{groups}}) {
        PlanRequest request = with(cache, window);
        request.workload.max_num_seqs = Sequences{std::int64_t{1} << 31};
        request.workload.max_model_len = Tokens{std::int64_t{1} << 40};
        static_cast<void>(survive(request));
        for (const KvDtype dtype : all_kv_dtypes()) {
          const auto rows = key_value_row(dtype, std::max<std::int64_t>(a, 0));
          answered += rows.has_value() ? 1 : 0;
        }
      }
    }
  }
  CHECK(answered > 0);
}

TEST_CASE("layers with absurd fields as draft layers and as MTP layers") {
  for (const std::int64_t size : {kMost, kQuintillion, std::int64_t{-1}, std::int64_t{0}}) {
    INFO(size);
    const AttentionCache absurd{
        .query_heads = Heads{1}, .kv_heads = Heads{1}, .key_dim = size, .value_dim = size};
    PlanRequest request = ordinary();
    request.drafter->model->layers = {{.index = LayerIndex{0}, .caches = {absurd}}};
    static_cast<void>(survive(request));
    request = ordinary();
    request.target.mtp_layer = {absurd};
    request.target.mtp_layers = Layers{1};
    request.drafter = DrafterRequest{.kind = DrafterKind::kMtp};
    static_cast<void>(survive(request));
    request.target.mtp_layer = request.target.layers.front().caches;
    request.target.mtp_layers = Layers{size};
    static_cast<void>(survive(request));
  }
}

TEST_CASE("layouts of absurd layers are errors, without a plan around them") {
  const auto page_of = [](const LayerGeometry& layer, std::int64_t page) {
    return page_geometry({.layers = {layer}}, Tokens{page}, {});
  };
  for (const KvDtype dtype : {KvDtype::kBf16, KvDtype::kFp8E4m3PerTokenHead, KvDtype::kNvfp4}) {
    for (const CacheKind kind : {CacheKind::kKeyValue, CacheKind::kLatent, CacheKind::kIndexer}) {
      const LayerGeometry layer{
          .kind = kind, .dtype = dtype, .kv_heads = Heads{1}, .key_dim = kMost, .value_dim = kMost};
      INFO(to_string(dtype) << ' ' << to_string(kind));
      CHECK_FALSE(page_of(layer, 1).has_value());
      CHECK_FALSE(page_of(layer, 65'536).has_value());
    }
  }
  const LayerGeometry many{.kv_heads = Heads{kMost}, .key_dim = 128, .value_dim = 128};
  CHECK_FALSE(page_of(many, 64).has_value());
  for (const std::int64_t page :
       {kLeast, std::int64_t{-1}, std::int64_t{0}, std::int64_t{65'537}, kMost}) {
    const auto result = page_of({.kv_heads = Heads{1}, .key_dim = 8, .value_dim = 8}, page);
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().key == "tokens_per_block");
  }
  const std::vector<ModelLayer> states{{.caches = {StateCache{.conv_channels = kMost,
                                                              .conv_kernel = kMost,
                                                              .matrix_elements = kMost,
                                                              .groups = kMost,
                                                              .channels_per_group = kMost}}}};
  static_cast<void>(layer_geometry(states, {}, {}));
}

TEST_CASE("requests that contradict themselves name the key") {
  PlanRequest request = ordinary();
  request.drafter->model.reset();
  CHECK(survive(request).error().key == "drafter");
  request = ordinary();
  request.drafter->kind = DrafterKind::kMtp;
  CHECK(survive(request).error().key == "drafter");
  request = ordinary();
  request.parallelism.pipeline = 63;  // of 62 layers
  CHECK(survive(request).error().key == "pipeline_parallel_size");
  request = ordinary();
  request.target.layers.clear();
  CHECK_FALSE(survive(request).has_value());
  request = ordinary();
  request.parallelism = {.tensor = 4, .decode_context = 3};
  CHECK(survive(request).error().key == "decode_context_parallel_size");
  request = ordinary();
  request.granularity = Bytes{3 << 20};
  CHECK(survive(request).error().key == "granularity");
  request = ordinary();
  request.target.max_positions.reset();
  request.workload.max_model_len.reset();
  const auto plan = survive(request);
  REQUIRE(plan.has_value());
  CHECK(plan->refusals.at(0).id == "max_model_len");
}

TEST_CASE("formats that do not suit a drafter are refusals, not errors") {
  const auto deepseek = test::own_config("deepseek-v3");
  const auto eagle3 = test::own_config("eagle3-llama-8b");
  PlanRequest request;
  request.target = deepseek.model;
  request.budget.kv_budget = Bytes{std::int64_t{40} << 30};
  request.workload.max_model_len = Tokens{4096};
  request.kv_dtype = KvDtype::kFp8DsMla;
  request.drafter = DrafterRequest{.kind = DrafterKind::kEagle3, .model = eagle3.model};
  request.parallelism.attention_data_parallel = true;  // the head's layers join the target's pool
  const auto joined = survive(request);
  REQUIRE(joined.has_value());
  CHECK_FALSE(joined->fits);
  CHECK(joined->refusals.at(0).id == "draft_kv_cache_dtype");

  // A format or page of its own cannot be kept where there is no pool of its own.
  request.kv_dtype = KvDtype::kBf16;
  request.drafter->kv_dtype = KvDtype::kFp8E4m3;
  const auto own_format = survive(request);
  REQUIRE(own_format.has_value());
  REQUIRE_FALSE(own_format->refusals.empty());
  CHECK(own_format->refusals[0].id == "draft_kv_cache_dtype");
  request.drafter->kv_dtype.reset();
  request.drafter->tokens_per_block = Tokens{32};
  const auto own_page = survive(request);
  REQUIRE(own_page.has_value());
  REQUIRE_FALSE(own_page->refusals.empty());
  CHECK(own_page->refusals[0].id == "draft_page_size");

  request.parallelism.attention_data_parallel = false;
  request.target = test::own_config("qwen3.5-27b").model;
  request.drafter = DrafterRequest{.kind = DrafterKind::kMtp, .kv_dtype = KvDtype::kFp8DsMla};
  const auto mtp = survive(request);
  REQUIRE(mtp.has_value());
  CHECK(mtp->refusals.at(0).id == "draft_kv_cache_dtype");
}

}  // namespace kvpool
