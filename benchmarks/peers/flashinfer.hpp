// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// FlashInfer's packed attention with split KV over the pages of a case: the peer that kvpool's is
// compared with, in the same process, on the same pages.
#pragma once

#include <kvpool/kernels/attention_params.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace kvpool::bench::peers {

/// What a peer is made for.
struct PeerBatch {
  /// Queries, outputs, caches and shape; its tables are not read. bf16, head dim 64 or 128.
  kernels::AttentionParams params{};
  /// Tokens of each sequence.
  std::vector<std::int32_t> lengths{};
  /// [tables, rows, columns] Page tables, on the host.
  const std::vector<std::int32_t>* entries = nullptr;
  std::int64_t columns = 0;
  int tables = 1;
};

/// The prefill kernel of FlashInfer's back-end FA2 over a paged cache, planned once for the lengths
/// and without padding for graphs, which is the faster of its two modes.
class FlashInferPacked {
 public:
  /// Makes its page tables and its plan. Ends the program if that fails.
  explicit FlashInferPacked(const PeerBatch& batch);
  FlashInferPacked(const FlashInferPacked&) = delete;
  FlashInferPacked& operator=(const FlashInferPacked&) = delete;
  ~FlashInferPacked();

  /// Enqueues attention and merging over one of the tables.
  void launch(int table, cudaStream_t stream) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvpool::bench::peers
