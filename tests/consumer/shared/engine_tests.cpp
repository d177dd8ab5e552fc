// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The tests of an engine that embeds kvpool: built against the installed package and against the
// source tree. The engine has an allocator and a size formula of its own, and three bugs that such
// engines have had; its tests assert that kvpool::testing finds each of them.
#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/core/version.hpp>
#include <kvpool/io/allocations.hpp>
#include <kvpool/io/plan_document.hpp>
#include <kvpool/kernels/capabilities.hpp>
#include <kvpool/kernels/reference.hpp>
#include <kvpool/memory/simulated_memory.hpp>
#include <kvpool/plan/planner.hpp>
#include <kvpool/testing/agreement.hpp>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace {

int failures = 0;

void expect(bool condition, const char* what, const std::string& detail = {}) {
  if (!condition) {
    ++failures;
    std::printf("FAILED: %s\n%s\n", what, detail.c_str());
  }
}

constexpr std::int64_t kTargetLayers = 4;
constexpr std::int64_t kTargetKvHeads = 2;
constexpr std::int64_t kTargetDim = 128;
constexpr std::int64_t kDraftLayers = 5;
constexpr std::int64_t kDraftRecord = 576;
constexpr std::int64_t kRanks = 8;

/// What the engine believes about its pools. The defaults are right.
struct EngineSettings {
  std::int64_t draft_page = 64;
  std::int64_t draft_element_bytes = 2;
  bool divides_kv_heads = false;
};

/// An engine that allocates its pools itself: as many pages as the plan has, of the size that it
/// believes they have, one behind the other.
class Engine {
 public:
  explicit Engine(EngineSettings settings) : settings_{settings} {}

  std::vector<kvpool::Allocation> allocate(const kvpool::Plan& plan) {
    std::vector<kvpool::Allocation> allocations;
    for (const kvpool::PoolDescriptor& pool : plan.ranks[plan.smallest_rank].pools) {
      const std::int64_t pages = pool.slabs.count() + pool.reserved_slabs.count();
      const std::int64_t bytes =
          pages * (pool.role == kvpool::PoolRole::kDraft ? draft_page() : target_page());
      allocations.push_back({pool.name, next_, kvpool::Bytes{bytes}});
      next_ += (static_cast<std::uintptr_t>(bytes) + 255) / 256 * 256;
    }
    return allocations;
  }

 private:
  [[nodiscard]] static std::int64_t target_page(std::int64_t kv_heads) {
    return 64 * kTargetLayers * 2 * kv_heads * kTargetDim * 2;
  }
  [[nodiscard]] std::int64_t target_page() const {
    return settings_.divides_kv_heads ? target_page(kTargetKvHeads) / kRanks
                                      : target_page((kTargetKvHeads + kRanks - 1) / kRanks);
  }
  [[nodiscard]] std::int64_t draft_page() const {
    return settings_.draft_page * kDraftLayers * kDraftRecord * settings_.draft_element_bytes;
  }

  EngineSettings settings_;
  std::uintptr_t next_ = 0x7f0000000000;
};

kvpool::ModelConfig model_of(const kvpool::LayerCache& cache, std::int64_t layers) {
  kvpool::ModelConfig model;
  for (std::int64_t i = 0; i < layers; ++i) {
    kvpool::ModelLayer layer;
    layer.index = kvpool::LayerIndex{static_cast<std::int32_t>(i)};
    layer.caches = {cache};
    model.layers.push_back(layer);
  }
  model.native_dtype = kvpool::KvDtype::kBf16;
  model.max_positions = kvpool::Tokens{8192};
  return model;
}

/// 2 KV heads over 8 ranks, and an MLA drafter of 5 layers of 512 + 64 elements.
kvpool::PlanRequest request() {
  kvpool::AttentionCache attention;
  attention.query_heads = kvpool::Heads{16};
  attention.kv_heads = kvpool::Heads{kTargetKvHeads};
  attention.key_dim = kTargetDim;
  attention.value_dim = kTargetDim;
  kvpool::LatentCache latent;
  latent.query_heads = kvpool::Heads{16};
  latent.latent_dim = 512;
  latent.rope_dim = 64;

  kvpool::PlanRequest request;
  request.target = model_of(attention, kTargetLayers);
  request.drafter.emplace();
  request.drafter->kind = kvpool::DrafterKind::kDspark;
  request.drafter->model = model_of(latent, kDraftLayers);
  request.parallelism.tensor = kRanks;
  request.budget.kv_budget = kvpool::Bytes{std::int64_t{1} << 30};
  return request;
}

kvpool::Plan plan_of(const kvpool::PlanRequest& request) {
  auto plan = kvpool::make_plan(request, kvpool::CapabilityRegistry::with_known_kernels());
  expect(plan.has_value() && plan->fits, "the plan fits");
  return plan.has_value() ? *plan : kvpool::Plan{};
}

std::int64_t draft_bytes_per_token(const kvpool::Plan& plan) {
  for (const kvpool::PoolDescriptor& pool : plan.ranks[plan.smallest_rank].pools) {
    if (pool.role == kvpool::PoolRole::kDraft) {
      const kvpool::PageGeometry& page = pool.groups.front().page;
      return page.page_bytes.count() / page.tokens_per_block.count();
    }
  }
  return 0;
}

/// The check finds the bug in this pool, and in no other, and says what it is.
void expect_found(const kvpool::Plan& plan, const EngineSettings& settings, std::string_view pool,
                  std::string_view diagnosis, const char* what) {
  const auto report = kvpool::testing::check_allocations(plan, Engine{settings}.allocate(plan));
  expect(!report.agrees(), what, report.text());
  for (const kvpool::testing::PoolAgreement& found : report.pools) {
    const bool blamed = found.reason.find(diagnosis) != std::string::npos;
    expect(found.pool == pool ? blamed : found.reason.empty(), what, report.text());
  }
}

void a_correct_engine_agrees() {
  const kvpool::Plan plan = plan_of(request());
  const auto report = kvpool::testing::check_allocations(plan, Engine{{}}.allocate(plan));
  expect(report.agrees(), "a correct engine agrees", report.text());
  expect(report.pools.size() == 2, "target and draft are compared", report.text());
  expect(kvpool::testing::check_page_size(plan, "draft", kvpool::Tokens{64}).agrees(),
         "the draft page is the target's");

  const auto& pools = plan.ranks[plan.smallest_rank].pools;
  const auto own = kvpool::PoolSet::create(pools, kvpool::SimulatedMemory{});
  expect(own.has_value() && kvpool::testing::check_cost_equals_allocation(plan, *own).agrees(),
         "kvpool's own pools agree");
}

void pages_of_64_tokens_where_32_were_charged() {
  kvpool::PlanRequest small = request();
  small.drafter->tokens_per_block = kvpool::Tokens{32};
  const kvpool::Plan plan = plan_of(small);
  expect(!kvpool::testing::check_page_size(plan, "draft", kvpool::Tokens{64}).agrees(),
         "a 32-token draft page is not a 64-token one");
  expect_found(plan, {}, "draft",
               "held is the bytes of 64-token pages where 32-token pages were charged",
               "64-token pages where 32-token pages were charged");
  EngineSettings right;
  right.draft_page = 32;
  expect(kvpool::testing::check_allocations(plan, Engine{right}.allocate(plan)).agrees(),
         "32-token pages where 32-token pages were charged");
}

void a_draft_pool_that_inherits_fp8() {
  // The target's setting does not make the draft pool cheaper: an engine that lets it be inherited
  // holds half of what is charged.
  kvpool::PlanRequest fp8_target = request();
  fp8_target.kv_dtype = kvpool::KvDtype::kFp8E4m3;
  const kvpool::Plan plan = plan_of(fp8_target);
  expect(draft_bytes_per_token(plan) == 5'760, "a draft token costs 5,760 B");

  // The reverse: charged as fp8, 2,880 B a token, and allocated as bf16, 5,760 B.
  kvpool::PlanRequest inherited = request();
  inherited.drafter->kv_dtype = kvpool::KvDtype::kFp8E4m3;
  const kvpool::Plan cheap = plan_of(inherited);
  expect(draft_bytes_per_token(cheap) == 2'880, "a draft token charged as fp8 costs 2,880 B");
  expect_found(cheap, {}, "draft", "charged as fp8_e4m3, held as bf16 (twice)",
               "a draft pool charged as fp8 and held as bf16");
  EngineSettings fp8;
  fp8.draft_element_bytes = 1;
  expect_found(plan_of(request()), fp8, "draft", "charged as bf16, held as fp8_e4m3 (half)",
               "a draft pool charged as bf16 and held as fp8");
  expect(kvpool::testing::check_allocations(cheap, Engine{fp8}.allocate(cheap)).agrees(),
         "fp8 where fp8 was charged");
}

void kv_heads_that_are_divided() {
  EngineSettings divides;
  divides.divides_kv_heads = true;
  expect_found(plan_of(request()), divides, "target",
               "KV heads were divided (1/4) instead of rounded up to 1",
               "KV heads divided instead of rounded up");
}

void plans_and_allocations_travel_as_files() {
  const kvpool::Plan plan = plan_of(request());
  const auto read = kvpool::io::parse_plan(kvpool::io::plan_to_json(plan), "plan.json");
  expect(read.has_value() && *read == plan, "a plan reads back as it was written");
  expect(kvpool::io::plan_hash(plan).size() == 32, "a plan has a hash");
  const auto allocations = kvpool::io::parse_allocations(
      R"([{"pool": "draft", "address": "0x100", "bytes": 5}])", "allocations.json");
  expect(
      allocations.has_value() && !kvpool::testing::check_allocations(plan, *allocations).agrees(),
      "allocations from a file are compared");
}

void the_bundled_kernels_keep_any_page() {
  kvpool::PlanRequest asked = request();
  asked.kernel_set = kvpool::KernelSet::kKvpool;
  asked.tokens_per_block = kvpool::Tokens{128};
  const auto plan = kvpool::make_plan(asked, kvpool::kernels::registry_with_bundled_kernels());
  expect(plan.has_value() && plan->fits && plan->resolution.draft_page == kvpool::Tokens{128},
         "pages of 128 tokens in both pools");
  expect(!kvpool::kernels::reference::attention({}).has_value(), "params that say nothing");
}

}  // namespace

int main() {
  a_correct_engine_agrees();
  pages_of_64_tokens_where_32_were_charged();
  a_draft_pool_that_inherits_fp8();
  kv_heads_that_are_divided();
  plans_and_allocations_travel_as_files();
  the_bundled_kernels_keep_any_page();
  std::printf("kvpool %s: %d failures\n", kvpool::kVersion.data(), failures);
  return failures == 0 ? 0 : 1;
}
