// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/plan_difference.hpp>

#include <kvpool/io/plan_document.hpp>
#include <kvpool/solve/advice.hpp>

#include "plan_samples.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace kvpool::io {
namespace {

const CapabilityRegistry& known() {
  static const CapabilityRegistry registry = CapabilityRegistry::with_known_kernels();
  return registry;
}

PlanRequest plain() {
  PlanRequest request;
  request.target = test::model_of("plain", std::vector<LayerCache>(4, test::gqa(8, 4, 64)));
  request.budget.kv_budget = Bytes{std::int64_t{1} << 30};
  request.workload.max_model_len = Tokens{4096};
  return request;
}

Plan plan_of(const PlanRequest& request) { return make_plan(request, known()).value(); }

const PlanDifference* find(const std::vector<PlanDifference>& differences, PlanArea area,
                           const std::string& key) {
  const auto found = std::ranges::find_if(differences, [&](const PlanDifference& difference) {
    return difference.area == area && difference.key == key;
  });
  return found == differences.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("a plan does not differ from itself") {
  for (const test::PlanSample& sample : test::plan_samples()) {
    const auto plan = make_plan(sample.request, known());
    if (plan.has_value()) {
      INFO(sample.name);
      CHECK(plan_differences(*plan, *plan).empty());
    }
  }
}

TEST_CASE("what was changed, and what follows from it") {
  PlanRequest changed = plain();
  changed.parallelism.tensor = 2;
  changed.workload.max_num_seqs = Sequences{3};
  const auto differences = plan_differences(plan_of(plain()), plan_of(changed));
  CHECK(*find(differences, PlanArea::kOptions, "parallelism.tensor") ==
        PlanDifference{.area = PlanArea::kOptions,
                       .key = "parallelism.tensor",
                       .before = "1",
                       .after = "2",
                       .change = 1});
  CHECK(*find(differences, PlanArea::kOptions, "workload.max_num_seqs") ==
        PlanDifference{.area = PlanArea::kOptions,
                       .key = "workload.max_num_seqs",
                       .before = "null",
                       .after = "3",
                       .change = {}});
  // 4 layers x 2 x 4 heads x 64 slots x 64 elements x 2 bytes, and half the heads.
  const PlanDifference* page = find(differences, PlanArea::kPools, "target/full.page_bytes");
  REQUIRE(page != nullptr);
  CHECK(page->change == -131'072);
  CHECK(find(differences, PlanArea::kModel, "target.name") == nullptr);
  // Areas come in their order.
  CHECK(std::ranges::is_sorted(differences, {}, &PlanDifference::area));
}

TEST_CASE("both directions tell the same with the sides changed") {
  PlanRequest changed = plain();
  changed.kv_dtype = KvDtype::kFp8E4m3;
  changed.budget.kv_budget = Bytes{1 << 20};
  auto forward = plan_differences(plan_of(plain()), plan_of(changed));
  auto back = plan_differences(plan_of(changed), plan_of(plain()));
  REQUIRE(forward.size() == back.size());
  const auto by_key = [](const PlanDifference& a, const PlanDifference& b) {
    return std::pair{a.area, a.key} < std::pair{b.area, b.key};
  };
  std::ranges::sort(forward, by_key);
  std::ranges::sort(back, by_key);
  for (std::size_t i = 0; i < forward.size(); ++i) {
    CHECK(forward[i].key == back[i].key);
    CHECK(forward[i].before == back[i].after);
    CHECK(forward[i].after == back[i].before);
    CHECK(forward[i].change.value_or(0) == -back[i].change.value_or(0));
  }
  CHECK(find(forward, PlanArea::kRefusals, "does_not_fit.missing_bytes") != nullptr);
  CHECK(find(forward, PlanArea::kOutcome, "fits")->after == "false");
}

TEST_CASE("names of areas") {
  CHECK(to_string(PlanArea::kOutcome) == "outcome");
  CHECK(to_string(PlanArea::kLedger) == "ledger");
}

TEST_CASE("advice in a document is ignored by its reader, and anything else is not") {
  const Plan plan = plan_of(plain());
  const std::vector<Advice> advice{{.id = "page_waste",
                                    .pool = "target",
                                    .what = "what",
                                    .change = "--page-size 16",
                                    .frees = Bytes{-5},
                                    .cost = ""}};
  std::string with = plan_to_json(plan, advice);
  CHECK(with.find("\"frees_bytes\": -5") != std::string::npos);
  const auto read = parse_plan(with, "plan.json");
  REQUIRE(read.has_value());
  CHECK(plan_to_json(*read) == plan_to_json(plan));
  CHECK(plan_to_json(plan).find("advice") == std::string::npos);
  const std::size_t at = with.find("\"advice\"");
  with.replace(at, 8, "\"advise\"");
  CHECK_FALSE(parse_plan(with, "plan.json").has_value());
}

}  // namespace kvpool::io
