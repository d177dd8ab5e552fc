// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// A PagedBatch on the device: uploads it, runs kernels over it and fetches what they wrote. Outputs
// are NaN before each run, and bytes behind them have to stay as they are.
#pragma once

#include <kvpool/kernels/cuda.hpp>

#include "kernels/paged_batch.hpp"
#include "support/catch.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

namespace kvpool::test {

/// Fails the test if a call of the runtime failed.
inline void require_cuda(cudaError_t status) {
  INFO(cudaGetErrorString(status));
  REQUIRE(status == cudaSuccess);
}

/// Checks that bytes are equal. A failure names the first difference and does not print them all.
inline void check_bytes(const std::vector<std::byte>& actual,
                        const std::vector<std::byte>& expected) {
  REQUIRE(actual.size() == expected.size());
  const auto at = std::ranges::mismatch(actual, expected).in1 - actual.begin();
  INFO("first difference at byte " << at);
  CHECK(at == std::ssize(actual));
}

/// What memory holds before anything is written to it.
enum class Before {
  kNan,      ///< bytes 0xFF, which is NaN in every floating format
  kNothing,  ///< nothing that `compute-sanitizer --tool initcheck` takes for initialised
};

/// Memory of the device with a guard behind it.
class DeviceBytes {
 public:
  static constexpr std::size_t kGuard = 512;

  explicit DeviceBytes(std::size_t size, Before before = Before::kNan) : size_{size} {
    require_cuda(cudaMalloc(&data_, size + kGuard));
    require_cuda(cudaMemset(at(size), 0xFF, kGuard));
    if (before == Before::kNan) {
      require_cuda(cudaMemset(data_, 0xFF, size));
    }
  }
  template <typename T>
  explicit DeviceBytes(const std::vector<T>& values) : DeviceBytes{values.size() * sizeof(T)} {
    write(0, values.data(), size_);
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { static_cast<void>(cudaFree(data_)); }

  void write(std::size_t offset, const void* from, std::size_t size) {
    require_cuda(cudaMemcpy(at(offset), from, size, cudaMemcpyHostToDevice));
  }
  /// Bytes of the device, after all work. The guard is checked too.
  template <typename T = std::byte>
  [[nodiscard]] std::vector<T> read(std::size_t offset, std::size_t count) const {
    require_cuda(cudaDeviceSynchronize());
    std::vector<T> values(count);
    require_cuda(cudaMemcpy(values.data(), at(offset), count * sizeof(T), cudaMemcpyDeviceToHost));
    std::vector<std::byte> guard(kGuard);
    require_cuda(cudaMemcpy(guard.data(), at(size_), kGuard, cudaMemcpyDeviceToHost));
    CHECK(guard == std::vector<std::byte>(kGuard, std::byte{0xFF}));
    return values;
  }
  [[nodiscard]] void* at(std::size_t offset) const {
    return static_cast<std::byte*>(data_) + offset;
  }
  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  std::size_t size_;
};

/// What attention wrote.
struct AttentionResult {
  /// [tokens, query_heads, v_dim]
  std::vector<float> out;
  /// [tokens, query_heads]
  std::vector<float> lse;
};

/// Where the pages of a batch are in a large pool: entries from `split` on lie `distance` entries
/// further. Page-major pools only.
struct FarPages {
  std::int32_t split = 0;
  std::int32_t distance = 0;
};

class DeviceBatch {
 public:
  /// A pool with the batch in it.
  explicit DeviceBatch(const PagedBatch& batch, FarPages far = {})
      : DeviceBatch{batch, Before::kNan, far} {
    pool_.write(0, batch.pool.data(), near_bytes());
    pool_.write(near_bytes() + far_bytes(), batch.pool.data() + near_bytes(),
                batch.pool.size() - near_bytes());
  }
  /// A pool without tokens.
  DeviceBatch(const PagedBatch& batch, Before before, FarPages far = {})
      : batch_{batch},
        far_{far},
        pool_{batch.pool.size() + far_bytes(), before},
        entries_{mapped(batch.entries)},
        lengths_{batch.shape().lengths},
        q_indptr_{batch.q_indptr},
        sinks_{batch.sinks},
        q_{Elements{batch.shape().type}.bytes(batch.q)} {}

  /// Parameters with every address set.
  [[nodiscard]] kernels::AttentionParams attention() const {
    kernels::AttentionParams params = batch_.attention(pool_.at(0));
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
    kernels::AppendParams params = batch_.append(pool_.at(0));
    params.k = k.at(0);
    params.v = shape.rows == Rows::kLatent ? nullptr : v.at(0);
    params.slot_mapping = mapping.as<std::int64_t>();
    params.tokens = static_cast<std::int32_t>(slots.size());
    const auto launched = kernels::append(params, {});
    INFO((launched.has_value() ? "" : to_string(launched.error())));
    REQUIRE(launched.has_value());
    require_cuda(cudaDeviceSynchronize());
  }
  /// The pool as it is, without the gap before far pages.
  [[nodiscard]] std::vector<std::byte> pool() const {
    auto bytes = pool_.read(0, near_bytes());
    const auto rest = pool_.read(near_bytes() + far_bytes(), batch_.pool.size() - near_bytes());
    bytes.insert(bytes.end(), rest.begin(), rest.end());
    return bytes;
  }

 private:
  [[nodiscard]] std::int32_t far_entry(std::int32_t entry) const {
    const bool used = entry != std::numeric_limits<std::int32_t>::max();
    return used && entry >= far_.split ? entry + far_.distance : entry;
  }
  [[nodiscard]] std::vector<std::int32_t> mapped(std::vector<std::int32_t> entries) const {
    std::ranges::transform(entries, entries.begin(),
                           [this](auto entry) { return far_entry(entry); });
    return entries;
  }
  [[nodiscard]] std::size_t near_bytes() const {
    return static_cast<std::size_t>(far_.split * batch_.entry_stride());
  }
  [[nodiscard]] std::size_t far_bytes() const {
    return static_cast<std::size_t>(far_.distance * batch_.entry_stride());
  }

  const PagedBatch& batch_;
  FarPages far_;
  DeviceBytes pool_, entries_, lengths_, q_indptr_, sinks_, q_;
};

}  // namespace kvpool::test
