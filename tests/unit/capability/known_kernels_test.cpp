// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/capability/capability_registry.hpp>

#include "support/catch.hpp"
#include "unit/capability/kernel_rows.hpp"

#include <algorithm>
#include <string_view>

namespace kvpool {
namespace {

const KernelCapability& known(std::string_view name) {
  const auto rows = known_kernels();
  const auto found =
      std::ranges::find_if(rows, [&](const KernelCapability& row) { return row.name == name; });
  REQUIRE(found != rows.end());
  return *found;
}

TEST_CASE("every known row says where it comes from, and a registry takes it", "[capability]") {
  CapabilityRegistry registry;
  for (const KernelCapability& row : known_kernels()) {
    INFO(row.name);
    CHECK_FALSE(row.provider.empty());
    CHECK_FALSE(row.versions.empty());
    CHECK_FALSE(row.source.empty());
    CHECK(row.kernel_set == "trtllm");
    CHECK(row.evidence == Evidence::kDeclared);
    CHECK(registry.add(row).has_value());
    if (row.necessity == Necessity::kPreferred) {
      // The cost is known, or the row says that it is not.
      CHECK_FALSE(row.cost_of_loss.conditions.empty());
      CHECK((row.cost_of_loss.unit.empty() || row.cost_of_loss.value > 0));
      CHECK_THAT(row.source, Catch::Matchers::ContainsSubstring("preferred"));
    }
  }
  CHECK(registry.rows().size() == 20);
}

TEST_CASE("known rows accept the published page sizes", "[capability]") {
  struct Line {
    const char* name;
    const char* accepts;
    Necessity necessity;
  };
  const auto line = GENERATE(values<Line>({
      {"dspark_mla_trtllm_gen", "{32, 64}", Necessity::kRequired},
      {"dspark_mla_cute_dsl", "divisors of 128 but 1", Necessity::kRequired},
      {"dflash_gqa_trtllm_gen", "{16, 32, 64}", Necessity::kRequired},
      {"dflash_fa4", "does not read the pool", Necessity::kRequired},
      {"dflash_vanilla", "does not read the pool", Necessity::kRequired},
      {"k3_drafter_attn_qknorm", "{64}", Necessity::kPreferred},
      {"k3_drafter_attn", "{64}", Necessity::kPreferred},
      {"dspark_mla_paged_gather", "any", Necessity::kPreferred},
      {"trtllm_gen_gqa_decode", "{16, 32, 64}", Necessity::kPreferred},
      {"trtllm_gen_gqa_context", "{16, 32, 64}", Necessity::kPreferred},
      {"minimax_m3_msa", "{128}", Necessity::kRequired},
      {"minimax_m3_eagle3", "{32}", Necessity::kRequired},
      {"flashmla_sm90", "{64}", Necessity::kRequired},
      {"fp4_mla", "{128}", Necessity::kRequired},
      {"kimi_k3_fused_attention", "{64}", Necessity::kPreferred},
      {"trtllm_gen_mla_decode_576", "{16, 64}", Necessity::kPreferred},
      {"trtllm_gen_mla_decode_320", "{16, 32, 64}", Necessity::kPreferred},
      {"cute_dsl_mla_decode_16_heads", "divisors of 128 but 1", Necessity::kPreferred},
      {"cute_dsl_mla_decode_128_heads", "divisors of 128 but 1", Necessity::kPreferred},
      {"dsa_indexer", "{64}", Necessity::kPreferred},
  }));
  INFO(line.name);
  CHECK(known(line.name).page_sizes.text() == line.accepts);
  CHECK(known(line.name).necessity == line.necessity);
}

TEST_CASE("the fused drafter row has its measured cost and its shape", "[capability]") {
  const KernelCapability& row = known("k3_drafter_attn_qknorm");
  CHECK(row.cost_of_loss.value == 306);
  CHECK(row.cost_of_loss.unit == "us_per_step");
  CHECK(row.cost_of_loss.conditions ==
        "GPU work per step; 257 us end to end at batch 1; Kimi-K3 TP16, DSpark 7 drafts, GB200");
  CHECK(row.limits.exact_head_ratio == 6);
  CHECK(row.limits.head_dims == std::vector<std::int64_t>{64});
  CHECK(row.limits.max_batch == 8);
  CHECK(row.limits.max_query_tokens == 8);
  CHECK(row.limits.architectures == std::vector<std::string>{"sm_100"});
  CHECK(row.limits.kv_dtypes == std::vector<KvDtype>{KvDtype::kBf16});
  // Tested contexts are evidence and no limit.
  CHECK_FALSE(row.limits.max_context.has_value());
  CHECK_THAT(row.certified, Catch::Matchers::ContainsSubstring("2041"));
}

TEST_CASE("no known row binds a GQA target", "[capability]") {
  for (const auto* architecture : {"sm_90", "sm_100", "sm_103", "sm_120"}) {
    for (const KernelCapability& row : known_kernels()) {
      INFO(row.name << " on " << architecture);
      CHECK((row.necessity == Necessity::kPreferred ||
             !why_not(row, rows::gqa_target(architecture)).empty()));
    }
  }
}

TEST_CASE("back-ends of known drafter rows are spelled as engines do", "[capability]") {
  CHECK(known("dspark_mla_trtllm_gen").backend == "TRTLLM");
  CHECK(known("dspark_mla_cute_dsl").backend == "CUTEDSL");
  CHECK(known("dflash_gqa_trtllm_gen").backend == "TRTLLM");
  CHECK(known("dflash_fa4").backend == "FA4");
  CHECK(known("dflash_vanilla").backend == "VANILLA");
}

}  // namespace
}  // namespace kvpool
