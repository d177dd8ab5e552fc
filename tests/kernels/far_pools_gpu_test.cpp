// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Pools whose pages lie beyond 2^31 and 2^32 bytes and elements: ranges of addresses of which few
// pages are mapped.
#include "kernels/attention_checks.hpp"
#include "kernels/device_batch.hpp"
#include "kernels/packed_batch.hpp"
#include "kernels/paged_batch.hpp"
#include "support/catch.hpp"

#include <cstdint>

namespace kvpool::test {
namespace {

using kernels::ElementType;

/// Three parts of four pages each: the first at the pool's start, the last `gigabytes` behind it.
FarPages apart(const PagedBatch& batch, std::int64_t gigabytes) {
  return {.split = 4 * batch.shape().units,
          .distance = static_cast<std::int32_t>(gigabytes * 500'000'000LL / batch.entry_stride())};
}

TEST_CASE("offsets in a pool are of 64 bits", "[attention][append][far]") {
  // bf16: 2^31 and 2^32 elements are 4 and 8 GiB. Entries of 16 bytes reach 2^31 at 34 GB.
  const auto page = GENERATE(16, 128);
  const auto units = GENERATE(1, 4096);
  const auto gigabytes = GENERATE(5, 9, 20, 34);
  const auto rows = GENERATE(Rows::kTokensHeads, Rows::kHeadsTokens);
  const PagedBatch batch{{.rows = rows,
                          .layers = 1,
                          .layer = 0,
                          .kv_heads = 8,
                          .group = 2,
                          .k_dim = 128,
                          .v_dim = 128,
                          .page = page,
                          .units = units,
                          .lengths = {5 * page + 3, 1, 2 * page},
                          .queries = {2, 1, 1}}};
  const FarPages far = apart(batch, gigabytes);
  INFO("entries of " << batch.entry_stride() << " bytes, parts " << far.distance << " apart");
  DeviceBatch device{batch, Before::kNan, far};
  device.append(0, batch.tokens());
  check_bytes(device.pool(), batch.pool);
  check_attention(batch, device, device.attention());
}

TEST_CASE("packed attention's offsets in a pool are of 64 bits", "[packed][far]") {
  // 2^31 and 2^32 elements are 4 and 8 GiB, 2^32 steps of 16 keys of one head far more.
  const auto page = GENERATE(16, 48, 128);
  const auto dim = GENERATE(64, 128);
  const auto gigabytes = GENERATE(5, 9, 20, 34);
  const auto rows = GENERATE(Rows::kTokensHeads, Rows::kHeadsTokens);
  const PagedBatch batch{{.type = gigabytes == 9 ? ElementType::kFp16 : ElementType::kBf16,
                          .rows = rows,
                          .layers = 1,
                          .layer = 0,
                          .kv_heads = 8,
                          .group = 4,
                          .k_dim = dim,
                          .v_dim = dim,
                          .page = page,
                          .lengths = {5 * page + 3, 1, 2 * page},
                          .queries = {7, 1, 2}}};
  const FarPages far = apart(batch, gigabytes);
  INFO("pages of " << page << ", dim " << dim << ", parts " << far.distance << " entries apart");
  const DeviceBatch device{batch, far};
  for (const std::int32_t split : {0, 64}) {
    const PackedBatch packed{
        device, device.attention(), {.split_tokens = split, .max_length = 5 * page + 3}};
    check_result(batch, packed.params(), packed.run(), batch.shape().lengths);
  }
}

TEST_CASE("offsets of fp32 and of latent records are of 64 bits", "[attention][append][far]") {
  // fp32: 2^32 elements are 16 GiB.
  const bool latent = GENERATE(false, true);
  const PagedBatch batch{{.type = latent ? ElementType::kBf16 : ElementType::kFp32,
                          .rows = latent ? Rows::kLatent : Rows::kInterleaved,
                          .layers = 1,
                          .layer = 0,
                          .kv_heads = latent ? 1 : 4,
                          .group = 4,
                          .k_dim = latent ? 576 : 64,
                          .v_dim = latent ? 512 : 64,
                          .page = 64,
                          .lengths = {7 * 64 + 5, 3},
                          .queries = {2, 1}}};
  DeviceBatch device{batch, Before::kNan, apart(batch, 70)};
  device.append(0, batch.tokens());
  check_bytes(device.pool(), batch.pool);
  check_attention(batch, device, device.attention());
}

}  // namespace
}  // namespace kvpool::test
