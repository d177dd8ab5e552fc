// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/engine/engine.hpp>

#include "support/catch.hpp"

#include <string>
#include <vector>

namespace kvpool {

TEST_CASE("engines have the names that case files use", "[engine]") {
  std::vector<std::string> names;
  for (const Engine engine : all_engines()) {
    names.emplace_back(to_string(engine));
    CHECK(parse_engine(names.back()) == engine);
  }
  CHECK(names == std::vector<std::string>{"vllm", "sglang", "trtllm", "llamacpp", "ik_llamacpp"});
  CHECK_FALSE(parse_engine("vLLM").has_value());
  CHECK_FALSE(parse_engine("").has_value());
}

TEST_CASE("a release is read up to the first thing that is no number", "[engine]") {
  CHECK(parse_engine_version("0.20.1") == EngineVersion{0, 20, 1});
  CHECK(parse_engine_version("v0.20.1rc1.dev16") == EngineVersion{0, 20, 1});
  CHECK(parse_engine_version("0.11.x") == EngineVersion{0, 11, 0});
  CHECK(parse_engine_version("0.10-0.11") == EngineVersion{0, 10, 0});
  CHECK(parse_engine_version("b6500") == EngineVersion{6'500, 0, 0});
  CHECK(parse_engine_version("1") == EngineVersion{1, 0, 0});
  CHECK_FALSE(parse_engine_version("main").has_value());
  CHECK_FALSE(parse_engine_version("").has_value());
  CHECK_FALSE(parse_engine_version("-1.2").has_value());
  CHECK_FALSE(parse_engine_version("99999999999999999999").has_value());
  CHECK(EngineVersion{0, 9, 2} < EngineVersion{0, 20, 1});
}

}  // namespace kvpool
