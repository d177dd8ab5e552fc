// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/layout/parallelism.hpp>

#include "support/catch.hpp"

namespace kvpool {
namespace {

TEST_CASE("heads are rounded up per rank and replicated down to one") {
  CHECK(heads_per_rank(Heads{16}, {.tensor = 16}) == Heads{1});
  CHECK(heads_per_rank(Heads{2}, {.tensor = 8}) == Heads{1});
  CHECK(heads_per_rank(Heads{6}, {.tensor = 4}) == Heads{2});
  CHECK(heads_per_rank(Heads{8}, {.tensor = 1}) == Heads{8});
}

TEST_CASE("attention data parallelism keeps every head on every rank") {
  CHECK(heads_per_rank(Heads{16}, {.tensor = 16, .attention_data_parallel = true}) == Heads{16});
}

TEST_CASE("a remainder of layers goes to the stages before the last") {
  // 61 layers over 4 stages: 15 each and one over, which the last but one gets.
  CHECK(stage_layers(61, 4, 0) == StageLayers{0, 15});
  CHECK(stage_layers(61, 4, 1) == StageLayers{15, 15});
  CHECK(stage_layers(61, 4, 2) == StageLayers{30, 16});
  CHECK(stage_layers(61, 4, 3) == StageLayers{46, 15});
  CHECK(stage_layers(62, 4, 1) == StageLayers{15, 16});
  CHECK(stage_layers(63, 4, 0) == StageLayers{0, 16});
  CHECK(stage_layers(63, 4, 3) == StageLayers{48, 15});
}

TEST_CASE("stages are contiguous and cover every layer once") {
  for (std::int64_t layers = 1; layers <= 40; ++layers) {
    for (std::int64_t stages = 1; stages <= layers; ++stages) {
      std::int64_t next = 0;
      for (std::int64_t stage = 0; stage < stages; ++stage) {
        const StageLayers part = stage_layers(layers, stages, stage);
        REQUIRE(part.first == next);
        REQUIRE(part.count >= 1);
        next += part.count;
      }
      REQUIRE(next == layers);
    }
  }
}

}  // namespace
}  // namespace kvpool
