// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/workspace.hpp>

#include <kvpool/kernels/packed_attention.hpp>
#include <kvpool/memory/failing_memory.hpp>
#include <kvpool/memory/host_memory.hpp>
#include <kvpool/memory/limited_memory.hpp>
#include <kvpool/memory/recording_memory.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

namespace kvpool::kernels {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr Bytes kGranule{65'536};

HostMemory host_memory() {
  auto memory = HostMemory::create(kGranule);
  REQUIRE(memory.has_value());
  return *memory;
}

TEST_CASE("requests of decode rows, as TensorRT-LLM 20373 sizes them", "[kernels]") {
  constexpr std::array<std::int64_t, 5> kBatches = {1, 2, 32, 33, 200};
  constexpr std::array<std::int64_t, 5> kBlock4 = {4, 8, 128, 128, 200};
  constexpr std::array<std::int64_t, 5> kBlock7 = {7, 14, 224, 224, 224};
  for (std::size_t i = 0; i < kBatches.size(); ++i) {
    CHECK(decode_rows_requests(kBatches[i], 4, 32).value() == kBlock4[i]);
    CHECK(decode_rows_requests(kBatches[i], 7, 32).value() == kBlock7[i]);
  }
}

TEST_CASE("requests of decode rows that 64 bits do not count are an error", "[kernels]") {
  constexpr std::int64_t kHuge = std::int64_t{1} << 32;
  CHECK(decode_rows_requests(kHuge, kHuge / 4, kHuge).value() == std::int64_t{1} << 62);
  // 2^32 * 2^31 is one more than fits.
  const auto beyond = decode_rows_requests(kHuge, kHuge / 2, kHuge);
  REQUIRE_FALSE(beyond.has_value());
  CHECK(beyond.error().code == ErrorCode::kOutOfRange);
  for (const auto& negative : {decode_rows_requests(-1, 4, 32), decode_rows_requests(1, -4, 32),
                               decode_rows_requests(1, 4, -32)}) {
    REQUIRE_FALSE(negative.has_value());
    CHECK(negative.error().code == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("packed attention's exchange and plans are the workspace of the bundled kernels",
          "[kernels]") {
  // 128 query rows are two tiles of 64. Of 264 blocks, two results of 64 x (128 + 4) words each;
  // four plans of a header of 48 bytes, 264 blocks of 64 and 256 rows of 32, in multiples of 256.
  WorkspaceShape shape{.batch = 256,
                       .query_tokens = 16,
                       .query_heads = 64,
                       .kv_heads = 8,
                       .key_dim = 128,
                       .value_dim = 128,
                       .multiprocessors = 132};
  const Bytes largest = required_workspace(shape);
  CHECK(largest == Bytes{17'842'176 + 4 * 25'344});
  const PackedShape packed{.rows = 256,
                           .max_query_tokens = 16,
                           .query_heads = 64,
                           .kv_heads = 8,
                           .head_dim = 128,
                           .multiprocessors = 132};
  const auto memory = packed_memory(packed);
  REQUIRE(memory.has_value());
  CHECK(memory->exchange == Bytes{17'842'176});
  CHECK(memory->plan_offset(3) == Bytes{17'842'176 + 3 * 25'344});
  CHECK(memory->workspace == Bytes{0});
  CHECK(memory->total() == largest);
  CHECK(packed_memory(packed, 6)->total() == Bytes{17'842'176 + 6 * 25'344});
  CHECK(packed_memory(packed, 0).error().key == "plans");
  for (const std::int64_t batch : {1, 16, 255}) {
    shape.batch = batch;
    CHECK(required_workspace(shape) <= largest);
  }
  // Rows of 96 elements run on the simple kernel.
  shape.key_dim = 96;
  CHECK(required_workspace(shape) == Bytes{0});
}

/// What a kernel needs that packs a request's query tokens and heads into tiles of 16 to 64 rows
/// and deals the work out among `blocks` resident thread blocks per multiprocessor: two partial
/// tiles (fp32 outputs, maximum and sum) per block, a counter and a plan entry per item, a plan
/// entry per block.
Bytes packed_rows(const WorkspaceShape& shape, std::int64_t blocks) {
  const std::int64_t rows = shape.query_tokens * (shape.query_heads / shape.kv_heads);
  const std::int64_t tile = std::min<std::int64_t>((rows + 15) / 16 * 16, 64);
  const std::int64_t tiles = (rows + tile - 1) / tile;
  const std::int64_t resident = blocks * shape.multiprocessors;
  const std::int64_t items = shape.batch * shape.kv_heads * tiles;
  return Bytes{2 * resident * tile * (shape.value_dim * 4 + 8) + 4 * items + 16 * (resident + 1) +
               16 * items};
}

TEST_CASE("a shape says all that a kernel which splits the work has to know", "[kernels]") {
  // 7 tokens of 4 heads: 28 rows in a tile of 32. 132 blocks of 32 x (64 x 4 + 8) bytes, twice.
  const WorkspaceShape drafter{.batch = 16,
                               .query_tokens = 7,
                               .query_heads = 32,
                               .kv_heads = 8,
                               .key_dim = 64,
                               .value_dim = 64,
                               .multiprocessors = 132};
  CHECK(packed_rows(drafter, 1) == Bytes{2'230'272 + 512 + 2'128 + 2'048});
  // 16 tokens of 8 heads: two tiles of 64 rows. 264 blocks of 64 x (128 x 4 + 8) bytes, twice.
  const WorkspaceShape verification{.batch = 256,
                                    .query_tokens = 16,
                                    .query_heads = 64,
                                    .kv_heads = 8,
                                    .key_dim = 128,
                                    .value_dim = 128,
                                    .multiprocessors = 132};
  CHECK(packed_rows(verification, 2) == Bytes{17'571'840 + 16'384 + 4'240 + 65'536});
  // MLA: one KV head, values shorter than keys.
  const WorkspaceShape latent{.batch = 1,
                              .query_tokens = 4,
                              .query_heads = 16,
                              .kv_heads = 1,
                              .key_dim = 576,
                              .value_dim = 512,
                              .multiprocessors = 132};
  CHECK(packed_rows(latent, 1) == Bytes{34'738'176 + 4 + 2'128 + 16});
}

TEST_CASE("a workspace grows outside of captures only", "[kernels]") {
  HostMemory memory = host_memory();
  bool capturing = false;
  Workspace workspace{memory, [&capturing] { return Result<bool>{capturing}; }};
  // 16 KiB for every request of batches of 2 and 16 with a block of 4 tokens.
  const Bytes small{decode_rows_requests(2, 4, 32).value() * 16'384};
  const Bytes large{decode_rows_requests(16, 4, 32).value() * 16'384};
  REQUIRE(small == Bytes{131'072});
  REQUIRE(large == Bytes{1'048'576});

  const auto empty = workspace.require(Bytes{0});
  REQUIRE(empty.has_value());
  CHECK(empty->address == 0);
  CHECK(memory.held() == Bytes{0});

  const auto first = workspace.require(small);
  REQUIRE(first.has_value());
  CHECK(workspace.held() == small);
  CHECK(memory.held() == small);

  SECTION("sized for the largest shape first, a capture uses it") {
    REQUIRE(workspace.require(large).has_value());
    capturing = true;
    const auto captured = workspace.require(small);
    REQUIRE(captured.has_value());
    CHECK(captured->size == large);
    CHECK(memory.held() == large);
    std::memset(reinterpret_cast<void*>(captured->address), 1,  // NOLINT: host memory
                static_cast<std::size_t>(captured->size.count()));
  }
  SECTION("growing while capturing is an error that changes nothing") {
    capturing = true;
    const auto grown = workspace.require(large);
    REQUIRE_FALSE(grown.has_value());
    CHECK(grown.error().code == ErrorCode::kExhausted);
    CHECK(grown.error().message ==
          "the workspace holds 131072 bytes and 1048576 are needed while a stream is captured: "
          "size it for the largest shape first");
    CHECK(memory.held() == small);
    capturing = false;
    CHECK(workspace.require(large).has_value());  // nothing was captured with it
  }
  SECTION("growing after a capture is one too: the graph keeps the address") {
    capturing = true;
    REQUIRE(workspace.require(small).has_value());
    capturing = false;
    CHECK_THAT(workspace.require(large).error().message, ContainsSubstring("after a stream"));
    CHECK(workspace.require(small)->address == first->address);
    workspace.reset();
    CHECK(memory.held() == Bytes{0});
    CHECK(workspace.require(large).has_value());
  }
}

TEST_CASE("a capture whose kernels need no workspace does not stop it from growing later",
          "[kernels]") {
  HostMemory memory = host_memory();
  bool capturing = true;
  Workspace workspace{memory, [&capturing] { return Result<bool>{capturing}; }};
  CHECK(workspace.require(Bytes{0})->address == 0);
  CHECK(workspace.require(Bytes{1}).error().code == ErrorCode::kExhausted);
  capturing = false;
  REQUIRE(workspace.require(Bytes{1}).has_value());
  // With memory, asking for none captures its address all the same.
  capturing = true;
  REQUIRE(workspace.require(Bytes{0})->address != 0);
  capturing = false;
  CHECK(workspace.require(kGranule * 2).error().code == ErrorCode::kExhausted);
}

TEST_CASE("a workspace of more bytes than 64 bits count in granules is exhausted", "[kernels]") {
  HostMemory memory = host_memory();
  Workspace workspace{memory, never_capturing};
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t size : {kMost, kMost - 65'535, kMost - 65'536}) {
    CAPTURE(size);
    const auto region = workspace.require(Bytes{size});
    REQUIRE_FALSE(region.has_value());
    CHECK(region.error().code == ErrorCode::kExhausted);
  }
  CHECK(memory.held() == Bytes{0});
}

TEST_CASE("a workspace that cannot tell whether a stream is captured does nothing", "[kernels]") {
  HostMemory memory = host_memory();
  Workspace forgotten{memory, {}};
  const auto without = forgotten.require(Bytes{1});
  REQUIRE_FALSE(without.has_value());
  CHECK(without.error().code == ErrorCode::kInvalidArgument);
  CHECK_THAT(without.error().message, ContainsSubstring("stream_workspace"));
  Workspace lost{memory,
                 [] { return Result<bool>{Error{.code = ErrorCode::kDevice, .message = "gone"}}; }};
  const auto failed = lost.require(Bytes{1});
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().code == ErrorCode::kDevice);
  CHECK(memory.held() == Bytes{0});
}

TEST_CASE("a workspace holds whole granules and gives them back", "[kernels]") {
  HostMemory memory = host_memory();
  {
    Workspace workspace{memory, never_capturing};
    REQUIRE(workspace.require(Bytes{1}).has_value());
    CHECK(memory.held() == kGranule);
    Workspace moved{std::move(workspace)};
    CHECK(moved.held() == kGranule);
    CHECK(workspace.held() == Bytes{0});  // NOLINT: moved from, and empty
    Workspace other{memory, never_capturing};
    REQUIRE(other.require(Bytes{65'537}).has_value());
    CHECK(memory.held() == 3 * kGranule);
    other = std::move(moved);
    CHECK(memory.held() == kGranule);
  }
  CHECK(memory.held() == Bytes{0});
  CHECK(Workspace{memory, never_capturing}.require(Bytes{-1}).error().code ==
        ErrorCode::kInvalidArgument);
}

TEST_CASE("a workspace whose memory cannot be committed gives its addresses back", "[kernels]") {
  const RecordingMemory recorded{FailingMemory{host_memory(), {.commit = 2}}};
  Workspace workspace{recorded, never_capturing};
  const auto held = workspace.require(kGranule);
  REQUIRE(held.has_value());
  CHECK(workspace.require(2 * kGranule).error().code == ErrorCode::kExhausted);
  const auto calls = recorded.calls();
  REQUIRE(calls.size() == 5);  // reserve and commit, twice
  CHECK_FALSE(calls[3].succeeded);
  CHECK(calls[4].operation == MemoryOperation::kRelease);
  CHECK(calls[4].region == calls[2].region);
  CHECK(workspace.require(kGranule)->address == held->address);
}

TEST_CASE("a workspace that cannot grow keeps what it has", "[kernels]") {
  HostMemory memory = host_memory();
  Workspace workspace{LimitedMemory{memory, 2 * kGranule}, never_capturing};
  const auto held = workspace.require(kGranule);
  REQUIRE(held.has_value());
  CHECK(workspace.require(2 * kGranule).error().code == ErrorCode::kExhausted);
  CHECK(workspace.require(kGranule)->address == held->address);
  CHECK(memory.held() == kGranule);
}

}  // namespace
}  // namespace kvpool::kernels
