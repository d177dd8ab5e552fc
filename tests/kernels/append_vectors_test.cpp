// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The append kernel's own arithmetic, run item by item on the host: what its threads write is what
// the reference writes.
#include <kvpool/kernels/reference.hpp>

#include "kernels/element_bytes.hpp"
#include "kernels/paged_batch.hpp"
#include "smxx/append/vectors.hpp"
#include "smxx/device/quotient.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace kvpool::test {
namespace {

using kernels::ElementType;

template <int tokens>
void run_items(const kernels::AppendParams& params) {
  for (std::int64_t item = 0; item < kernels::append_items<tokens>(params); ++item) {
    kernels::append_item<tokens>(params, item);
  }
}

TEST_CASE("the items of append are the reference's, for every layout, format and skipped token",
          "[append]") {
  const auto type = GENERATE(ElementType::kBf16, ElementType::kFp16, ElementType::kFp32);
  const auto rows =
      GENERATE(Rows::kTokensHeads, Rows::kHeadsTokens, Rows::kInterleaved, Rows::kLatent);
  const auto k_dim = GENERATE(8, 64, 136);
  const auto page = GENERATE(1, 3, 16);
  const bool latent = rows == Rows::kLatent;
  const PagedBatch batch{{.type = type,
                          .rows = rows,
                          .layer_major = page == 3,
                          .kv_heads = latent ? 1 : 3,
                          .k_dim = k_dim,
                          .v_dim = latent       ? 8
                                   : k_dim == 8 ? 64
                                                : k_dim,
                          .page = page,
                          .lengths = {7, 0, 23, 1},
                          .queries = {1, 1, 1, 1}}};
  // Slots in no order, some tokens skipped.
  std::vector<std::int64_t> slots = batch.slots;
  std::mt19937 random{static_cast<std::uint32_t>(k_dim + page)};
  for (std::int64_t& slot : slots) {
    slot = random() % 4 == 0 ? -1 : slot;
  }
  const Elements elements{type};
  const auto k = elements.bytes(batch.k);
  const auto v = elements.bytes(batch.v);
  const auto appended = [&](const auto& append) {
    std::vector<std::byte> pool(batch.pool.size(), std::byte{0xFF});
    kernels::AppendParams params = batch.append(pool.data());
    params.k = k.data();
    params.v = latent ? nullptr : v.data();
    params.slot_mapping = slots.data();
    params.tokens = static_cast<std::int32_t>(slots.size());
    append(params);
    return pool;
  };
  const auto expected = appended([](const kernels::AppendParams& params) {
    REQUIRE(kernels::reference::append(params).has_value());
  });
  CHECK(appended([](const kernels::AppendParams& params) { run_items<1>(params); }) == expected);
  CHECK(appended([](const kernels::AppendParams& params) { run_items<4>(params); }) == expected);
}

TEST_CASE("quotients of any size are those of a division", "[append]") {
  constexpr std::int64_t kEdge = std::int64_t{1} << 32;
  constexpr std::int64_t kMost = INT64_MAX;
  for (const std::int64_t a : {std::int64_t{0}, std::int64_t{1}, std::int64_t{17}, kEdge - 1, kEdge,
                               kEdge + 1, 3 * kEdge, kMost - 1, kMost}) {
    for (const std::int64_t b :
         {std::int64_t{1}, std::int64_t{2}, std::int64_t{16}, kEdge - 1, kEdge, kEdge + 1, kMost}) {
      CHECK(kernels::quotient(a, b) == a / b);
    }
  }
}

}  // namespace
}  // namespace kvpool::test
