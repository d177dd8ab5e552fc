// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "flashinfer.hpp"

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/scheduler.cuh>
#include <flashinfer/attention/variants.cuh>

namespace kvpool::bench::peers {
namespace {

using Element = nv_bfloat16;
using Params = flashinfer::BatchPrefillPagedParams<Element, Element, Element, std::int32_t>;
using Variant = flashinfer::DefaultAttention<false, false, false, false>;

void require(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    std::fprintf(stderr, "error: the peer: %s: %s\n", what, cudaGetErrorString(status));
    std::exit(4);
  }
}

/// Memory of the device, with some contents.
class Memory {
 public:
  explicit Memory(std::size_t bytes) { require(cudaMalloc(&data_, bytes + 16), "allocating"); }
  explicit Memory(const std::vector<std::int32_t>& values) : Memory{values.size() * 4} {
    require(cudaMemcpy(data_, values.data(), values.size() * 4, cudaMemcpyHostToDevice), "copying");
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { static_cast<void>(cudaFree(data_)); }
  template <typename T = std::int32_t>
  T* at(std::int64_t byte = 0) const {
    return reinterpret_cast<T*>(static_cast<char*>(data_) + byte);
  }

 private:
  void* data_ = nullptr;
};

template <std::uint32_t tile, std::uint32_t dim>
cudaError_t launch_tile(const Params& params, Element* partial, float* sums, bool causal,
                        cudaStream_t stream) {
  using flashinfer::MaskMode;
  constexpr auto kNoRope = flashinfer::PosEncodingMode::kNone;
  if (causal) {
    return flashinfer::BatchPrefillWithPagedKVCacheDispatched<true, tile, dim, dim, kNoRope, false,
                                                              MaskMode::kCausal, false, Variant>(
        params, partial, sums, true, stream);
  }
  return flashinfer::BatchPrefillWithPagedKVCacheDispatched<true, tile, dim, dim, kNoRope, false,
                                                            MaskMode::kNone, false, Variant>(
      params, partial, sums, true, stream);
}

template <std::uint32_t dim>
cudaError_t launch_dim(std::int64_t tile, const Params& params, Element* partial, float* sums,
                       bool causal, cudaStream_t stream) {
  switch (tile) {
    case 16: return launch_tile<16, dim>(params, partial, sums, causal, stream);
    case 64: return launch_tile<64, dim>(params, partial, sums, causal, stream);
    default: return launch_tile<128, dim>(params, partial, sums, causal, stream);
  }
}

/// Its compressed tables, on the host.
struct Tables {
  std::vector<std::int32_t> indptr{0}, last_page, q_indptr{0}, indices;

  explicit Tables(const PeerBatch& batch) {
    const std::int32_t page = batch.params.table.tokens_per_block;
    for (const std::int32_t length : batch.lengths) {
      const std::int32_t pages = (length + page - 1) / page;
      indptr.push_back(indptr.back() + pages);
      last_page.push_back(length - (pages - 1) * page);
      q_indptr.push_back(q_indptr.back() + batch.params.max_query_tokens);
    }
    const auto rows = static_cast<std::int64_t>(batch.lengths.size());
    for (std::int64_t row = 0; row < batch.tables * rows; ++row) {
      const auto in_batch = static_cast<std::size_t>(row % rows);
      const std::int32_t pages = indptr[in_batch + 1] - indptr[in_batch];
      const auto first = batch.entries->begin() + row * batch.columns;
      indices.insert(indices.end(), first, first + pages);
    }
  }
};

}  // namespace

struct FlashInferPacked::State {
  PeerBatch batch;
  Tables tables;
  Memory indptr, last_page, q_indptr, indices;
  flashinfer::PrefillPlanInfo plan;
  std::unique_ptr<Memory> floats, ints;

  explicit State(const PeerBatch& of)
      : batch{of},
        tables{of},
        indptr{tables.indptr},
        last_page{tables.last_page},
        q_indptr{tables.q_indptr},
        indices{tables.indices} {
    constexpr std::size_t kFloats = std::size_t{1} << 30;
    constexpr std::size_t kInts = std::size_t{64} << 20;
    floats = std::make_unique<Memory>(kFloats);
    ints = std::make_unique<Memory>(kInts);
    void* pinned = nullptr;
    require(cudaMallocHost(&pinned, kInts), "allocating pinned memory");
    const kernels::AttentionParams& params = batch.params;
    const auto status = flashinfer::PrefillPlan<std::int32_t>(
        floats->at<void>(), kFloats, ints->at<void>(), pinned, kInts, plan, tables.q_indptr.data(),
        tables.indptr.data(), static_cast<std::uint32_t>(params.tokens),
        static_cast<std::uint32_t>(batch.lengths.size()),
        static_cast<std::uint32_t>(params.query_heads), static_cast<std::uint32_t>(params.kv_heads),
        static_cast<std::uint32_t>(params.k.dim), static_cast<std::uint32_t>(params.k.dim),
        static_cast<std::uint32_t>(params.table.tokens_per_block), false, 2, -1, -1, false, 0, 0,
        false, nullptr);
    require(status, "planning");
    require(cudaDeviceSynchronize(), "planning");
    require(cudaFreeHost(pinned), "freeing pinned memory");
  }

  [[nodiscard]] Params params_over(int table) const {
    const kernels::AttentionParams& from = batch.params;
    const bool hnd = from.k.head_stride_bytes > from.k.slot_stride_bytes;
    const std::int64_t strides[3] = {
        from.k.entry_stride_bytes / 2,
        (hnd ? from.k.head_stride_bytes : from.k.slot_stride_bytes) / 2,
        (hnd ? from.k.slot_stride_bytes : from.k.head_stride_bytes) / 2};
    const std::int64_t pages = tables.indptr.back();
    flashinfer::paged_kv_t<Element, std::int32_t> cache{
        static_cast<std::uint32_t>(from.kv_heads),
        static_cast<std::uint32_t>(from.table.tokens_per_block),
        static_cast<std::uint32_t>(from.k.dim),
        static_cast<std::uint32_t>(batch.lengths.size()),
        hnd ? flashinfer::QKVLayout::kHND : flashinfer::QKVLayout::kNHD,
        static_cast<Element*>(from.k.base),
        static_cast<Element*>(from.v.base),
        strides,
        indices.at(4 * pages * (table % batch.tables)),
        indptr.at(),
        last_page.at()};
    Params params{static_cast<Element*>(const_cast<void*>(from.q)),
                  cache,
                  nullptr,
                  q_indptr.at(),
                  nullptr,
                  nullptr,
                  static_cast<Element*>(from.out),
                  from.lse,
                  nullptr,
                  static_cast<std::uint32_t>(from.query_heads),
                  static_cast<std::int32_t>(from.q_token_stride),
                  static_cast<std::int32_t>(from.q_head_stride),
                  -1,
                  0.0F,
                  from.scale,
                  1.0F,
                  1.0F};
    params.request_indices = ints->at(plan.request_indices_offset);
    params.qo_tile_indices = ints->at(plan.qo_tile_indices_offset);
    params.kv_tile_indices = ints->at(plan.kv_tile_indices_offset);
    params.o_indptr = ints->at(plan.o_indptr_offset);
    params.kv_chunk_size_ptr = ints->at(plan.kv_chunk_size_ptr_offset);
    params.padded_batch_size = static_cast<std::uint32_t>(plan.padded_batch_size);
    params.max_total_num_rows = static_cast<std::uint32_t>(plan.total_num_rows);
    params.partition_kv = plan.split_kv;
    if (plan.split_kv) {
      params.merge_indptr = ints->at(plan.merge_indptr_offset);
    }
    return params;
  }
};

FlashInferPacked::FlashInferPacked(const PeerBatch& batch) {
  try {
    state_ = std::make_unique<State>(batch);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: the peer: %s\n", error.what());
    std::exit(4);
  }
}

FlashInferPacked::~FlashInferPacked() = default;

void FlashInferPacked::launch(int table, cudaStream_t stream) const {
  const State& state = *state_;
  const Params params = state.params_over(table);
  Element* const partial =
      state.plan.split_kv ? state.floats->at<Element>(state.plan.v_offset) : nullptr;
  float* const sums = state.plan.split_kv ? state.floats->at<float>(state.plan.s_offset) : nullptr;
  const bool causal = state.batch.params.causal != 0;
  require(state.batch.params.k.dim == 64
              ? launch_dim<64>(state.plan.cta_tile_q, params, partial, sums, causal, stream)
              : launch_dim<128>(state.plan.cta_tile_q, params, partial, sums, causal, stream),
          "launching");
}

}  // namespace kvpool::bench::peers
