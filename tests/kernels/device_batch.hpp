// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// A PagedBatch on the device: uploads it, runs kernels over it and fetches what they wrote. Outputs
// are NaN before each run, and bytes behind them have to stay as they are.
#pragma once

#include <kvpool/kernels/cuda.hpp>

#include "kernels/device_bytes.hpp"
#include "kernels/paged_batch.hpp"
#include "support/catch.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace kvpool::test {

/// What attention wrote.
struct AttentionResult {
  /// [tokens, query_heads, v_dim]
  std::vector<float> out;
  /// [tokens, query_heads]
  std::vector<float> lse;
};

/// Where the pages of a batch are in a large pool: entries from `split` on lie `distance` entries
/// further, those from twice `split` on twice as far. Page-major pools only.
struct FarPages {
  std::int32_t split = 0;
  std::int32_t distance = 0;
};

class DeviceBatch {
 public:
  /// A pool with the batch in it.
  explicit DeviceBatch(const PagedBatch& batch, FarPages far = {})
      : DeviceBatch{batch, Before::kNan, far} {
    pool_.write(batch.pool);
  }
  /// A pool without tokens.
  DeviceBatch(const PagedBatch& batch, Before before, FarPages far = {})
      : batch_{batch},
        far_{far},
        pool_{parts(), before},
        entries_{mapped(batch.entries)},
        lengths_{batch.shape().lengths},
        q_indptr_{batch.q_indptr},
        sinks_{batch.sinks},
        q_{Elements{batch.shape().type}.bytes(batch.q)} {}

  /// Parameters with every address set.
  [[nodiscard]] kernels::AttentionParams attention() const {
    kernels::AttentionParams params = batch_.attention(pool_.base());
    params.q = q_.at(0);
    params.q_indptr = q_indptr_.as<std::int32_t>();
    params.table.entries = entries_.as<std::int32_t>();
    params.table.lengths = lengths_.as<std::int32_t>();
    return params;
  }
  [[nodiscard]] const float* sinks() const { return sinks_.as<float>(); }

  /// Runs attention; outputs are the batch's own.
  [[nodiscard]] AttentionResult run(const kernels::AttentionParams& params) const {
    return run(params, [](const kernels::AttentionParams& with_outputs) {
      const auto launched = kernels::attention(with_outputs, {});
      INFO((launched.has_value() ? "" : to_string(launched.error())));
      REQUIRE(launched.has_value());
    });
  }
  /// Lets `launch` enqueue some attention on the default stream; outputs are the batch's own.
  template <typename Launch>
  [[nodiscard]] AttentionResult run(kernels::AttentionParams params, const Launch& launch) const {
    const auto rows = static_cast<std::size_t>(batch_.query_tokens() * batch_.query_heads());
    const auto values = rows * static_cast<std::size_t>(batch_.shape().v_dim);
    const auto size = static_cast<std::size_t>(batch_.element());
    const DeviceBytes out{values * size};
    const DeviceBytes lse{rows * sizeof(float)};
    params.out = out.at(0);
    params.lse = lse.as<float>();
    launch(params);
    AttentionResult result{.out = std::vector<float>(values), .lse = lse.read<float>(0, rows)};
    const auto bytes = out.read(0, values * size);
    const Elements elements{batch_.shape().type};
    for (std::size_t i = 0; i < values; ++i) {
      result.out[i] = elements.load(bytes.data() + i * size);
    }
    return result;
  }

  /// Writes tokens [first, first + count) of the batch; all slots before and after are skipped.
  void append(std::int64_t first, std::int64_t count) {
    std::vector<std::int64_t> slots;
    for (std::int64_t i = first; i < first + count; ++i) {
      const std::int64_t slot = batch_.slots[static_cast<std::size_t>(i)];
      const std::int64_t page = batch_.shape().page;
      slots.push_back(std::int64_t{far_entry(static_cast<std::int32_t>(slot / page))} * page +
                      slot % page);
    }
    append(first, slots);
  }
  /// Writes tokens from `first` on to these slots.
  void append(std::int64_t first, const std::vector<std::int64_t>& slots) {
    const BatchShape& shape = batch_.shape();
    const Elements elements{shape.type};
    const auto part = [&](const std::vector<float>& values, std::int64_t dim) {
      const auto* from = values.data() + first * shape.kv_heads * dim;
      return elements.bytes(
          {from, from + static_cast<std::int64_t>(slots.size()) * shape.kv_heads * dim});
    };
    const DeviceBytes k{part(batch_.k, shape.k_dim)};
    const DeviceBytes v{part(batch_.v, shape.v_dim)};
    const DeviceBytes mapping{slots};
    kernels::AppendParams params = batch_.append(pool_.base());
    params.k = k.at(0);
    params.v = shape.rows == Rows::kLatent ? nullptr : v.at(0);
    params.slot_mapping = mapping.as<std::int64_t>();
    params.tokens = static_cast<std::int32_t>(slots.size());
    const auto launched = kernels::append(params, {});
    INFO((launched.has_value() ? "" : to_string(launched.error())));
    REQUIRE(launched.has_value());
    require_cuda(cudaDeviceSynchronize());
  }
  /// The pool as it is, without the gaps before far pages.
  [[nodiscard]] std::vector<std::byte> pool() const { return pool_.read(); }
  /// Where the pool starts.
  [[nodiscard]] void* pool_base() const { return pool_.base(); }

 private:
  [[nodiscard]] std::int32_t far_entry(std::int32_t entry) const {
    const bool used = entry != std::numeric_limits<std::int32_t>::max();
    return used && far_.split > 0 ? entry + std::min(entry / far_.split, 2) * far_.distance : entry;
  }
  [[nodiscard]] std::vector<std::int32_t> mapped(std::vector<std::int32_t> entries) const {
    std::ranges::transform(entries, entries.begin(),
                           [this](auto entry) { return far_entry(entry); });
    return entries;
  }
  [[nodiscard]] std::vector<PoolPart> parts() const {
    if (far_.split == 0) {
      return {{.size = batch_.pool.size()}};
    }
    const auto bytes = [this](std::int32_t entries) {
      return static_cast<std::size_t>(entries) * static_cast<std::size_t>(batch_.entry_stride());
    };
    const std::size_t near = bytes(far_.split);
    const std::size_t gap = bytes(far_.distance);
    return {{.first = 0, .size = near},
            {.first = near, .size = near, .gap = gap},
            {.first = 2 * near, .size = batch_.pool.size() - 2 * near, .gap = 2 * gap}};
  }

  const PagedBatch& batch_;
  FarPages far_;
  DevicePool pool_;
  DeviceBytes entries_, lengths_, q_indptr_, sinks_, q_;
};

}  // namespace kvpool::test
