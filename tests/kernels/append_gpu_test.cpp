// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_checks.hpp"
#include "kernels/device_batch.hpp"
#include "kernels/paged_batch.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace kvpool::test {
namespace {

using kernels::ElementType;

TEST_CASE("append writes the bytes of its tokens and no others", "[append]") {
  const auto type = GENERATE(ElementType::kFp32, ElementType::kBf16, ElementType::kFp16);
  const auto page = GENERATE(16, 32, 64, 128);
  const auto rows = GENERATE(Rows::kTokensHeads, Rows::kHeadsTokens, Rows::kInterleaved);
  const auto layer_major = GENERATE(false, true);
  const PagedBatch batch{{.type = type,
                          .rows = rows,
                          .layer_major = layer_major,
                          .layers = 3,
                          .kv_heads = 3,
                          .k_dim = 72,
                          .v_dim = 40,
                          .page = page,
                          .lengths = {0, 1, page - 1, page + 1, 2 * page},
                          .queries = {1, 1, 1, 1, 1}}};
  DeviceBatch device{batch, Before::kNan};
  device.append(0, batch.tokens());
  check_bytes(device.pool(), batch.pool);
}

TEST_CASE("append writes latent records without values", "[append][sanitize]") {
  const PagedBatch batch{{.rows = Rows::kLatent,
                          .kv_heads = 1,
                          .group = 4,
                          .k_dim = 576,
                          .v_dim = 512,
                          .page = 64,
                          .lengths = {65, 3},
                          .queries = {1, 1}}};
  DeviceBatch device{batch, Before::kNan};
  device.append(0, batch.tokens());
  check_bytes(device.pool(), batch.pool);
  check_attention(batch, device, device.attention());
}

TEST_CASE("append skips slot -1", "[append][sanitize]") {
  const PagedBatch batch{{.page = 16, .lengths = {40}, .queries = {1}}};
  DeviceBatch device{batch, Before::kNan};
  std::vector<std::int64_t> even = batch.slots;
  std::vector<std::int64_t> odd = batch.slots;
  for (std::size_t i = 0; i < even.size(); ++i) {
    (i % 2 == 0 ? odd : even)[i] = -1;
  }
  device.append(0, std::vector<std::int64_t>(40, -1));
  check_bytes(device.pool(), std::vector<std::byte>(batch.pool.size(), std::byte{0xFF}));
  device.append(0, even);
  const bool complete = device.pool() == batch.pool;
  CHECK_FALSE(complete);
  device.append(0, odd);
  check_bytes(device.pool(), batch.pool);
  device.append(0, 0);
}

TEST_CASE("append takes more tokens and heads than there are warps", "[append]") {
  const PagedBatch batch{{.layers = 1,
                          .layer = 0,
                          .kv_heads = 8,
                          .group = 1,
                          .k_dim = 8,
                          .v_dim = 8,
                          .page = 128,
                          .lengths = {70'000},
                          .queries = {1}}};
  DeviceBatch device{batch, Before::kNan};
  device.append(0, batch.tokens());
  check_bytes(device.pool(), batch.pool);
}

TEST_CASE("tokens appended one by one across pages are all there", "[append][attention]") {
  struct Pages {
    std::int32_t target, draft;
  };
  const auto pages = GENERATE(values<Pages>({{64, 64}, {128, 32}}));
  const std::int32_t length = 2 * pages.target + 3;
  const PagedBatch target{{.kv_heads = 2,
                           .group = 4,
                           .k_dim = 128,
                           .v_dim = 128,
                           .page = pages.target,
                           .lengths = {length},
                           .queries = {1}}};
  const PagedBatch draft{{.rows = Rows::kHeadsTokens,
                          .page = pages.draft,
                          .lengths = {length},
                          .queries = {1},
                          .seed = 2}};
  DeviceBatch target_device{target, Before::kNan};
  DeviceBatch draft_device{draft, Before::kNan};
  for (std::int32_t token = 0; token < length; ++token) {
    for (const auto& [batch, device] :
         {std::pair{&target, &target_device}, std::pair{&draft, &draft_device}}) {
      device->append(token, 1);
      // At each boundary of either pool's pages.
      if ((token + 1) % 32 <= 2 || token + 1 == length) {
        const DeviceBytes lengths{std::vector<std::int32_t>{token + 1}};
        kernels::AttentionParams params = device->attention();
        params.table.lengths = lengths.as<std::int32_t>();
        check_attention(*batch, *device, params, {token + 1});
      }
    }
  }
  check_bytes(target_device.pool(), target.pool);
  check_bytes(draft_device.pool(), draft.pool);
}

}  // namespace
}  // namespace kvpool::test
