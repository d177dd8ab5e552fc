// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/overheads.hpp>

#include <kvpool/plan/memory_budget.hpp>
#include <kvpool/plan/planner.hpp>

#include "support/catch.hpp"
#include "support/models.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace kvpool {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kGiB = std::int64_t{1} << 30;

std::vector<LedgerLine> ledger(const OverheadRequest& overheads,
                               const Parallelism& parallelism = {}, std::int64_t step = 8192) {
  auto lines = budget_ledger({.gpu_memory = Bytes{80 * kGiB},
                              .utilization_ppm = 1'000'000,
                              .weights = Bytes{0},
                              .overheads = overheads},
                             {}, parallelism, Tokens{step}, test::llama_8b(), nullptr);
  REQUIRE(lines.has_value());
  return *std::move(lines);
}

const LedgerLine* find(const std::vector<LedgerLine>& lines, const std::string& name) {
  const auto found = std::ranges::find(lines, name, &LedgerLine::name);
  return found == lines.end() ? nullptr : &*found;
}

/// Low, expected and high of a line in MiB.
struct Mib {
  std::int64_t low;
  std::int64_t expected;
  std::int64_t high;
  friend bool operator==(const Mib&, const Mib&) = default;
};

Mib mib(const std::vector<LedgerLine>& lines, const std::string& name) {
  const LedgerLine* line = find(lines, name);
  REQUIRE(line != nullptr);
  CHECK(line->kind == LedgerKind::kAssumed);
  return {line->low.count() / kMiB, line->bytes.count() / kMiB, line->high.count() / kMiB};
}

TEST_CASE("a range of sizes reads as it is written", "[plan]") {
  CHECK(*parse_size_range("2GiB") == SizeRange{Bytes{2 * kGiB}, Bytes{2 * kGiB}, Bytes{2 * kGiB}});
  CHECK(*parse_size_range("1GiB..4GiB") ==
        SizeRange{Bytes{kGiB}, Bytes{5 * kGiB / 2}, Bytes{4 * kGiB}});
  CHECK(*parse_size_range("1B..2B..9B") == SizeRange{Bytes{1}, Bytes{2}, Bytes{9}});
  CHECK(*parse_size_range("1.5KB..1.5KB") == SizeRange{Bytes{1500}, Bytes{1500}, Bytes{1500}});
  for (const char* text : {"", "..", "1GiB..", "..1GiB", "2GiB..1GiB", "1B..3B..2B",
                           "1B..2B..3B..4B", "1G", "-1B", "1GiB...2GiB"}) {
    INFO(text);
    CHECK(!parse_size_range(text).has_value());
  }
}

TEST_CASE("overheads are those of the engine and its version", "[plan]") {
  const auto any = ledger({}, {.tensor = 8});
  CHECK(mib(any, "activations") == Mib{225, 2458, 7557});
  CHECK(mib(any, "cuda_context") == Mib{287, 426, 700});
  CHECK(mib(any, "cuda_graphs") == Mib{369, 553, 1587});
  CHECK(mib(any, "communication") == Mib{342, 392, 1086});
  CHECK(find(ledger({}), "communication") == nullptr);

  // vLLM charges its cache with graphs from 0.21 on.
  CHECK(mib(ledger({.engine = "vllm", .version = "0.20.2"}), "cuda_graphs") == Mib{0, 0, 0});
  CHECK(mib(ledger({.engine = "vllm", .version = "0.21"}), "cuda_graphs") == Mib{369, 727, 1587});
  CHECK(mib(ledger({.engine = "vllm", .version = "1.0.0rc1"}), "cuda_graphs") ==
        Mib{369, 727, 1587});
  CHECK(mib(ledger({.engine = "vllm"}), "cuda_graphs") == Mib{369, 727, 1587});
  CHECK(mib(ledger({.engine = "vllm"}, {.tensor = 2}), "communication") == Mib{342, 563, 1086});

  // 1.5 MiB a token of a chunk; 1024 MiB for 8 ranks.
  const auto sglang = ledger({.engine = "sglang"}, {.tensor = 4}, 4096);
  CHECK(mib(sglang, "activations").expected == 6144);
  CHECK(mib(sglang, "cuda_context").expected == 512);
  CHECK(mib(sglang, "communication").expected == 512);
  CHECK(find(sglang, "engine_buffers") == nullptr);
  // At least 10 GiB together under attention data parallelism: 6144 + 512 + 512 + 512 are there.
  const auto dp =
      ledger({.engine = "sglang"}, {.tensor = 4, .attention_data_parallel = true}, 4096);
  CHECK(mib(dp, "engine_buffers") == Mib{0, 2560, 2560});

  CHECK(mib(ledger({.engine = "trtllm"}), "engine_buffers") == Mib{551, 551, 3584});
}

TEST_CASE("each overhead can be given, exactly or as a range", "[plan]") {
  const SizeRange graphs{Bytes{kGiB}, Bytes{2 * kGiB}, Bytes{3 * kGiB}};
  const SizeRange exact{Bytes{kGiB}, Bytes{kGiB}, Bytes{kGiB}};
  const auto lines = ledger({.activations = exact,
                             .cuda_context = exact,
                             .cuda_graphs = graphs,
                             .communication = exact,
                             .co_located = {{"reranker", exact}}});
  CHECK(find(lines, "activations")->kind == LedgerKind::kExact);
  CHECK(find(lines, "co_located:reranker")->bytes == Bytes{kGiB});
  const LedgerLine& budget = lines.back();
  CHECK(budget.kind == LedgerKind::kAssumed);
  CHECK(budget.bytes == Bytes{74 * kGiB});
  CHECK(budget.low == Bytes{73 * kGiB});
  CHECK(budget.high == Bytes{75 * kGiB});
}

TEST_CASE("all overheads given exactly leave an exact budget", "[plan]") {
  const SizeRange exact{Bytes{kGiB}, Bytes{kGiB}, Bytes{kGiB}};
  const auto lines = ledger({.activations = exact, .cuda_context = exact, .cuda_graphs = exact});
  CHECK(lines.back().kind == LedgerKind::kDerived);
  CHECK(lines.back().low == Bytes{77 * kGiB});
  CHECK(lines.back().high == Bytes{77 * kGiB});
}

TEST_CASE("other processes count beside overheads that are given as a whole", "[plan]") {
  const SizeRange other{Bytes{kGiB}, Bytes{kGiB}, Bytes{kGiB}};
  const auto lines = budget_ledger({.gpu_memory = Bytes{80 * kGiB},
                                    .utilization_ppm = 1'000'000,
                                    .weights = Bytes{0},
                                    .overhead = Bytes{3 * kGiB},
                                    .overheads = {.co_located = {{"a", other}, {"b", other}}}},
                                   {}, {}, Tokens{8192}, test::llama_8b(), nullptr);
  REQUIRE(lines.has_value());
  CHECK(lines->back().bytes == Bytes{75 * kGiB});
}

TEST_CASE("a request with overheads that mean nothing is an error", "[plan]") {
  PlanRequest request;
  request.target = test::llama_8b();
  request.budget.gpu_memory = Bytes{80 * kGiB};
  const auto registry = CapabilityRegistry::with_known_kernels();
  const auto key_of = [&](const OverheadRequest& overheads) {
    request.budget.overheads = overheads;
    const auto plan = make_plan(request, registry);
    return plan.has_value() ? std::string{} : plan.error().key;
  };
  CHECK(key_of({}).empty());
  CHECK(key_of({.engine = "ollama"}) == "host_engine");
  CHECK(key_of({.engine = "vllm", .version = "new"}) == "host_engine");
  CHECK(key_of({.activations = SizeRange{Bytes{2}, Bytes{1}, Bytes{3}}}) == "activations");
  CHECK(key_of({.co_located = {{"", {}}}}) == "co_located");
  CHECK(key_of({.co_located = {{"x", {Bytes{-1}, Bytes{0}, Bytes{0}}}}}) == "co_located");
}

}  // namespace
}  // namespace kvpool
