// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/plan_document.hpp>

#include "plan_samples.hpp"
#include "support/catch.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::io {
namespace {

using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::ordered_json;
using Keys = std::vector<std::string>;

Plan plan_of(const PlanRequest& request) {
  auto plan = test::plan_sample(request);
  REQUIRE(plan.has_value());
  return *std::move(plan);
}

Keys keys_of(const Json& object) {
  Keys keys;
  for (const auto& member : object.items()) {
    keys.push_back(member.key());
  }
  return keys;
}

/// The key that a reader blames after `edit`, or "" when the document is still read.
std::string blamed(const Plan& plan, const std::function<void(Json&)>& edit) {
  Json document = Json::parse(plan_to_json(plan));
  edit(document);
  const auto read = parse_plan(document.dump(), "plan.json");
  if (read.has_value()) {
    return "";
  }
  CHECK(read.error().file == "plan.json");
  return read.error().key;
}

const Keys kPoolKeys{
    "role",        "group",     "tokens_per_block", "page_bytes", "unit_bytes", "slab_bytes",
    "granularity", "num_pages", "reserved_pages",   "bytes",      "loss",       "dtype",
    "layout",      "shape",     "strides",          "cost"};

TEST_CASE("a plan document has exactly the documented keys, in their order") {
  const Json document = Json::parse(plan_to_json(plan_of(test::hybrid_request())));
  CHECK(keys_of(document) == Keys{"schema", "fits", "request", "ledger", "ranks", "pools",
                                  "decisions", "refusals", "capacity"});
  CHECK(document["schema"] == "kvpool.plan/1");
  for (const Json& line : document["ledger"]) {
    CHECK(keys_of(line) == Keys{"name", "bytes", "kind", "low", "high"});
  }
  for (const Json& rank : document["ranks"]) {
    CHECK(keys_of(rank) == Keys{"stage", "rank", "budget_bytes", "pools"});
    for (const Json& pool : rank["pools"]) {
      CHECK(keys_of(pool) == kPoolKeys);
    }
  }
  for (const Json& pool : document["pools"]) {
    CHECK(keys_of(pool) == kPoolKeys);
    CHECK(keys_of(pool["cost"]) == Keys{"fixed_bytes", "bytes_per_token", "from_length"});
  }
  REQUIRE_FALSE(document["decisions"].empty());
  for (const Json& decision : document["decisions"]) {
    CHECK(keys_of(decision) ==
          Keys{"id", "pool", "chosen", "instead_of", "reason", "cost", "verdicts"});
    CHECK(keys_of(decision["cost"]) == Keys{"value", "unit", "conditions"});
    for (const Json& verdict : decision["verdicts"]) {
      CHECK(keys_of(verdict) == Keys{"row", "accepts", "verdict"});
    }
  }
  CHECK(keys_of(document["capacity"]) == Keys{"tokens", "sequences", "max_len"});
  CHECK(keys_of(document["request"]) == Keys{"target", "drafter", "parallelism", "device", "budget",
                                             "workload", "kv_dtype", "tokens_per_block",
                                             "kernel_set", "layout", "reserved_pages",
                                             "granularity", "resolution"});

  PlanRequest refused = test::hybrid_request();
  refused.drafter->tokens_per_block = Tokens{128};
  const Json refusals = Json::parse(plan_to_json(plan_of(refused)))["refusals"];
  REQUIRE(refusals.size() == 1);
  CHECK(keys_of(refusals[0]) ==
        Keys{"id", "what", "missing_bytes", "accepted", "least_that_works"});
  CHECK_THAT(refusals[0]["what"].get<std::string>(),
             ContainsSubstring(". dspark_mla_trtllm_gen accepts {32, 64}: refuses 128"));
}

TEST_CASE("layers that keep the same stand together") {
  const Json document = Json::parse(plan_to_json(plan_of(test::hybrid_request())));
  const Json& layers = document["request"]["target"]["layers"];
  REQUIRE(layers.size() == 2);
  CHECK(layers[0]["layers"].size() == 69);
  CHECK(layers[1]["layers"].size() == 24);
  CHECK(layers[1]["layers"][23] == 92);
}

TEST_CASE("the DSpark pool of a 16-way deployment reads as from the field") {
  PoolShape shape{};
  shape.name = "draft";
  shape.role = PoolRole::kDraft;
  const auto drafter = test::hybrid_request().drafter;
  const auto layers =
      layer_geometry(drafter->model->layers, test::hybrid_request().parallelism, CacheFormats{});
  REQUIRE(layers.has_value());
  shape.groups = group_layers(*layers);
  shape.tokens_per_block = Tokens{64};
  shape.granularity = Bytes{2 << 20};
  shape.reserved_slabs = Slabs{1};
  auto pool = describe_pool(shape);
  REQUIRE(pool.has_value());
  pool->slabs = Slabs{45'440};
  pool->groups[0].planned_slabs = pool->slabs;
  Plan plan{};
  plan.ranks.resize(1);
  plan.ranks[0].pools = {*pool};
  plan.ranks[0].accounts.resize(1);
  plan.ranks[0].accounts[0].loss = Bytes{2'015'232};
  const Json document = Json::parse(plan_to_json(plan));
  const Json expected = Json::parse(R"({
    "role": "draft", "group": "full", "tokens_per_block": 64, "page_bytes": 81920,
    "unit_bytes": 81920, "slab_bytes": 81920, "granularity": 2097152, "num_pages": 45440,
    "reserved_pages": 1, "bytes": 3722526720, "loss": 2015232, "dtype": "bf16",
    "layout": "page_major_hnd", "shape": [45441, 2, 1, 64, 64],
    "strides": [81920, 8192, 8192, 128, 2],
    "cost": {"fixed_bytes": 0, "bytes_per_token": 1280, "from_length": 0}})");
  CHECK(document["pools"] == Json::array({expected}));
  CHECK(document["ranks"][0]["pools"] == document["pools"]);
  CHECK(pool->charged_bytes() == Bytes{3'724'541'952});
}

TEST_CASE("the rows of a pool sum to its size") {
  for (const test::PlanSample& sample : test::plan_samples()) {
    INFO(sample.name);
    const Plan plan = plan_of(sample.request);
    const Json document = Json::parse(plan_to_json(plan));
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      std::int64_t bytes = 0;
      std::int64_t losses = 0;
      for (const Json& row : document["ranks"][rank]["pools"]) {
        bytes += row["bytes"].get<std::int64_t>();
        losses += row["loss"].get<std::int64_t>();
      }
      for (std::size_t i = 0; i < plan.ranks[rank].pools.size(); ++i) {
        bytes -= plan.ranks[rank].pools[i].bytes().count();
        losses -= plan.ranks[rank].accounts[i].loss.count();
      }
      CHECK(bytes == 0);
      CHECK(losses == 0);
    }
  }
}

TEST_CASE("groups that share slabs have a row each, the first with what the pool has in common") {
  const Json pools = Json::parse(plan_to_json(plan_of(test::windowed_request())))["pools"];
  REQUIRE(pools.size() == 2);
  CHECK(pools[0]["group"] == "full");
  CHECK(pools[0]["page_bytes"] == 131'072);
  CHECK(pools[0]["slab_bytes"] == 262'144);
  // One reserved slab of two pages.
  CHECK(pools[0]["reserved_pages"] == 2);
  CHECK(pools[0]["bytes"] == 4'261'412'864);
  CHECK(pools[1]["group"] == "sliding_window_1024");
  CHECK(pools[1]["num_pages"] == 128);
  CHECK(pools[1]["bytes"] == 33'554'432);
  CHECK(pools[1]["reserved_pages"] == 0);
  CHECK(pools[1]["cost"] ==
        Json::parse(R"({"fixed_bytes": 4456448, "bytes_per_token": 0, "from_length": 1025})"));
}

TEST_CASE("groups with pools of their own are a decision in the document") {
  PlanRequest request = test::windowed_request();
  request.layout.pages = PageOrder::kLayerMajor;
  const Json document = Json::parse(plan_to_json(plan_of(request)));
  CHECK(document["pools"].size() == 2);
  CHECK(document["pools"][1]["reserved_pages"] == 1);
  bool told = false;
  for (const Json& decision : document["decisions"]) {
    told = told || decision["id"] == "separate_group_pools";
  }
  CHECK(told);
}

TEST_CASE("every sample reads back as the plan that was written") {
  for (const test::PlanSample& sample : test::plan_samples()) {
    INFO(sample.name);
    const Plan plan = plan_of(sample.request);
    const auto read = parse_plan(plan_to_json(plan), "plan.json");
    if (!read.has_value()) {
      FAIL(read.error().key << ": " << read.error().message << ": " << read.error().value);
    }
    CHECK(*read == plan);
    CHECK(plan_to_json(*read) == plan_to_json(plan));
    CHECK(plan_hash(*read) == plan_hash(plan));
  }
}

TEST_CASE("where figures came from is left out") {
  PlanRequest request = test::staged_request();
  request.target.facts.push_back({"layers", "num_hidden_layers", "7", ""});
  const auto read = parse_plan(plan_to_json(plan_of(request)), "plan.json");
  REQUIRE(read.has_value());
  CHECK(read->request.target.facts.empty());
  CHECK(*read == plan_of(test::staged_request()));
}

TEST_CASE("order of keys and white space do not matter") {
  const Plan plan = plan_of(test::detailed_request());
  const std::string sorted = nlohmann::json::parse(plan_to_json(plan)).dump();
  const auto read = parse_plan(sorted, "plan.json");
  REQUIRE(read.has_value());
  CHECK(*read == plan);
}

TEST_CASE("an edited figure is blamed by its key") {
  const Plan plan = plan_of(test::hybrid_request());
  const auto set = [&plan](const char* pointer, const Json& value) {
    return blamed(plan, [&](Json& d) { d[Json::json_pointer{pointer}] = value; });
  };
  CHECK(blamed(plan, [](Json& /*document*/) {}).empty());
  CHECK(set("/pools/0/num_pages", 1) == "pools[0].num_pages");
  CHECK(set("/pools/1/tokens_per_block", 32) == "pools[1].tokens_per_block");
  CHECK(set("/pools/1/shape/0", 45'440) == "pools[1].shape[0]");
  CHECK(set("/pools/2/cost/fixed_bytes", 0) == "pools[2].cost.fixed_bytes");
  CHECK(set("/pools/0/dtype", "fp8_e4m3") == "pools[0].dtype");
  CHECK(set("/ranks/0/pools/0/bytes", 1) == "ranks[0].pools[0].bytes");
  CHECK(set("/ledger/0/bytes", 1) == "ledger[0].bytes");
  CHECK(set("/capacity/tokens", 1) == "capacity.tokens");
  CHECK(set("/fits", false) == "fits");
  CHECK(set("/pools", Json::array()) == "pools");
  CHECK(set("/pools/0/bytes", 137'983'426'560.0) == "pools[0].bytes");
  CHECK(set("/surprise", 1) == "surprise");
  CHECK(set("/request/surprise", 1) == "request.surprise");
  CHECK(set("/request/workload/max_num_sequences", 1) == "request.workload.max_num_sequences");
  // What was asked or settled changes the figures that follow from it.
  CHECK(set("/request/workload/max_num_seqs", 9) == "request.resolution.sequences");
  CHECK(set("/request/kv_dtype", "fp8_e4m3") == "request.resolution.target_formats");
  CHECK(set("/request/drafter/kv_dtype", "fp8_e4m3") == "request.resolution.draft_formats");
  CHECK(set("/request/resolution/draft_page", 32) == "capacity.tokens");
  CHECK(set("/request/drafter/model/layers/0/caches/0/kv_heads", 32) == "capacity.tokens");
  CHECK(blamed(plan, [](Json& d) { d.erase("capacity"); }) == "capacity");
  CHECK(blamed(plan, [](Json& d) { d.erase("decisions"); }) == "decisions");
  CHECK(blamed(plan, [](Json& d) { d["request"].erase("layout"); }) == "request.layout");
  CHECK(blamed(plan, [](Json& d) { d["request"].erase("drafter"); }) ==
        "request.resolution.draft_pool");
  CHECK(blamed(plan, [](Json& d) { d["pools"][0].erase("loss"); }) == "pools[0].loss");

  const auto edited = [&plan] {
    Json document = Json::parse(plan_to_json(plan));
    document["pools"][0]["num_pages"] = 45'440;
    return parse_plan(document.dump(), "plan.json").error();
  }();
  CHECK(edited.code == ErrorCode::kInvalidArgument);
  CHECK(edited.value == "45440");
  CHECK_THAT(edited.message, ContainsSubstring("the plan comes out with 77979"));
  CHECK_THAT(edited.message, ContainsSubstring("a version of kvpool that counts differently"));
}

TEST_CASE("refusals and what is missing are compared, too") {
  PlanRequest small = test::staged_request();
  small.budget.kv_budget = Bytes{std::int64_t{64} << 20};
  const Plan plan = plan_of(small);
  REQUIRE(plan.refusals.size() == 1);
  CHECK(blamed(plan, [](Json& d) { d["refusals"][0]["missing_bytes"] = 1; }) ==
        "refusals[0].missing_bytes");
  CHECK(blamed(plan, [](Json& d) { d["refusals"].clear(); }) == "refusals");
  PlanRequest refused = test::hybrid_request();
  refused.drafter->tokens_per_block = Tokens{128};
  CHECK(blamed(plan_of(refused), [](Json& d) { d["request"]["resolution"]["refusals"].clear(); }) ==
        "request.resolution.registry_hash");
}

TEST_CASE("what the registry said is held by its hash") {
  const Plan plan = plan_of(test::hybrid_request());
  const auto& decisions = plan.resolution.decisions;
  const auto asked = std::ranges::find_if(
      decisions, [](const Decision& decision) { return !decision.verdicts.empty(); });
  REQUIRE(asked != decisions.end());
  const std::string first_verdict =
      "/decisions/" + std::to_string(asked - decisions.begin()) + "/verdicts/0/verdict";
  const auto set = [&plan](const char* pointer, const Json& value) {
    return blamed(plan, [&](Json& d) { d[Json::json_pointer{pointer}] = value; });
  };
  const std::string hash = "request.resolution.registry_hash";
  CHECK(set("/decisions/0/reason", "because") == hash);
  CHECK(set("/decisions/0/chosen", "16") == hash);
  CHECK(set("/decisions/0/cost/value", 1) == hash);
  CHECK(set(first_verdict.c_str(), "accepts 16") == hash);
  CHECK(set("/request/resolution/decisions", decisions.size() - 1) == hash);
  CHECK(set("/request/resolution/registry_hash", std::string(32, '0')) == hash);
  CHECK_FALSE(blamed(plan, [](Json& d) { d["decisions"].erase(0); }).empty());
  CHECK(blamed(plan, [](Json& d) { d["request"]["resolution"].erase("registry_hash"); }) == hash);
  PlanRequest refused = test::hybrid_request();
  refused.drafter->tokens_per_block = Tokens{128};
  CHECK(blamed(plan_of(refused), [](Json& d) {
          d["request"]["resolution"]["refusals"][0]["what"] = "another reason";
        }) == hash);
}

TEST_CASE("other documents are not plans") {
  const auto error = [](const std::string& text) {
    const auto read = parse_plan(text, "plan.json");
    REQUIRE_FALSE(read.has_value());
    return read.error();
  };
  CHECK(error("[]").message == "must be an object: a plan document");
  CHECK(error("{}").key == "schema");
  CHECK(error(R"({"schema": "kvpool.plan/2"})").code == ErrorCode::kUnsupported);
  CHECK(error(R"({"schema": "kvpool.plan/1"})").key == "request");
  const Error input = error(error_to_json({.code = ErrorCode::kIo, .message = "x"}));
  CHECK(input.code == ErrorCode::kUnsupported);
  CHECK(input.key == "error");
}

TEST_CASE("an input error is a document of the same form") {
  const Error error{.code = ErrorCode::kInvalidArgument,
                    .message = "must be a whole number",
                    .file = "config.json",
                    .key = "num_hidden_layers",
                    .value = "many \"\xff\""};
  CHECK(error_to_json(error) == R"({
  "schema": "kvpool.plan/1",
  "fits": false,
  "request": {},
  "ledger": [],
  "ranks": [],
  "pools": [],
  "decisions": [],
  "refusals": [],
  "capacity": {
    "tokens": 0,
    "sequences": 0,
    "max_len": 0
  },
  "error": {
    "file": "config.json",
    "key": "num_hidden_layers",
    "value": "many \")"
                                "\xEF\xBF\xBD"
                                R"(\"",
    "message": "must be a whole number"
  }
}
)");
}

TEST_CASE("names that are not UTF-8 give valid JSON that reads back") {
  PlanRequest request = test::staged_request();
  request.target.name = "caf\xe9 \x01";
  const std::string text = plan_to_json(plan_of(request));
  CHECK(Json::parse(text)["request"]["target"]["name"] == "caf\xEF\xBF\xBD \x01");
  const auto read = parse_plan(text, "plan.json");
  REQUIRE(read.has_value());
  CHECK(plan_to_json(*read) == text);
}

TEST_CASE("cut-off and overly deep documents are refused") {
  const std::string text = plan_to_json(plan_of(test::staged_request()));
  for (std::size_t length = 0; length + 2 < text.size(); length += 97) {
    CHECK_FALSE(parse_plan(text.substr(0, length), "plan.json").has_value());
  }
  CHECK_FALSE(parse_plan(std::string(1'000'000, '['), "plan.json").has_value());
  std::string deep = R"({"schema": "kvpool.plan/1", "request": )";
  for (int i = 0; i < 100'000; ++i) {
    deep += R"({"target": )";
  }
  CHECK_FALSE(parse_plan(deep, "plan.json").has_value());
}

/// Paths of all values in a document; of long lists of numbers the first element only.
void collect(const Json& value, const std::string& path, std::vector<std::string>& out) {
  out.push_back(path);
  if (value.is_object()) {
    for (const auto& member : value.items()) {
      collect(member.value(), path + "/" + member.key(), out);
    }
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size() && (i == 0 || !value[i].is_number()); ++i) {
      collect(value[i], path + "/" + std::to_string(i), out);
    }
  }
}

TEST_CASE("whatever stands in the request, reading ends in a plan or an error with a key") {
  const std::vector<Json> hostile{nullptr,
                                  true,
                                  -1,
                                  0,
                                  1,
                                  3,
                                  65'536,
                                  INT64_MAX,
                                  INT64_MIN,
                                  std::uint64_t{UINT64_MAX},
                                  1e300,
                                  0.5,
                                  "",
                                  "bf16",
                                  Json::array(),
                                  Json::object(),
                                  Json::array({1, 2}),
                                  Json::array({Json::object()})};
  int refused = 0;
  for (const PlanRequest& request :
       {test::detailed_request(), test::windowed_request(), test::hybrid_request()}) {
    const Json document = Json::parse(plan_to_json(plan_of(request)));
    std::vector<std::string> paths;
    collect(document["request"], "/request", paths);
    for (const std::string& path : paths) {
      for (const Json& value : hostile) {
        Json edited = document;
        edited[Json::json_pointer{path}] = value;
        const auto read = parse_plan(edited.dump(), "plan.json");
        if (read.has_value()) {
          // Then nothing that was read has been dropped.
          CHECK((Json::parse(plan_to_json(*read)) == edited));
        } else {
          ++refused;
          INFO(path << " = " << value);
          CHECK_FALSE(read.error().key.empty());
          CHECK(read.error().code != ErrorCode::kInternal);
        }
      }
    }
  }
  CHECK(refused > 1'500);
}

TEST_CASE("a plan document is written to and read from a file") {
  const std::string path =
      (std::filesystem::temp_directory_path() / "kvpool_plan_document_test.json").string();
  const Plan plan = plan_of(test::staged_request());
  REQUIRE(write_plan(plan, path).has_value());
  CHECK(std::filesystem::file_size(path) == plan_to_json(plan).size());
  const auto read = read_plan(path);
  std::filesystem::remove(path);
  REQUIRE(read.has_value());
  CHECK(*read == plan);
  CHECK(read_plan(path).error().code == ErrorCode::kNotFound);
  CHECK(read_plan(std::filesystem::temp_directory_path().string()).error().code == ErrorCode::kIo);
  CHECK(write_plan(plan, path + "/nowhere/x.json").error().code == ErrorCode::kIo);
}

TEST_CASE("the hash tells plans apart and is stable") {
  const std::string hash = plan_hash(plan_of(test::staged_request()));
  CHECK(hash.size() == 32);
  CHECK(hash.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(hash == plan_hash(plan_of(test::staged_request())));
  PlanRequest other = test::staged_request();
  other.workload.max_model_len = Tokens{32'767};
  CHECK(hash != plan_hash(plan_of(other)));
}

}  // namespace
}  // namespace kvpool::io
