// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// A batch of sequences: as raw tensors, as the oracle takes them, and as params over the pages of
// an allocated pool. The addresses in the params are of host memory; tests on a GPU put their own
// in.
#pragma once

#include <kvpool/kernels/operands.hpp>
#include <kvpool/kernels/params.hpp>
#include <kvpool/layout/page_geometry.hpp>
#include <kvpool/pool/pool_set.hpp>

#include "kernels/dense_oracle.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace kvpool::test {

/// What is cached for one pool's layers.
struct CacheShape {
  std::int64_t query_heads = 4;
  std::int64_t kv_heads = 2;
  std::int64_t key_dim = 64;
  std::int64_t value_dim = 64;
  bool latent = false;  ///< MLA: records of `key_dim`, of which `value_dim` are the value
};

/// Two pools of one plan, with two layers each.
struct PoolsShape {
  CacheShape target{};
  CacheShape draft{};
  std::int64_t target_page = 64;
  std::int64_t draft_page = 64;
  KvDtype dtype = KvDtype::kBf16;
  PageLayout layout{};
};

/// Plans target and draft for the kernel set `kvpool` and allocates them on the host, every byte
/// 0xFF (NaN in every format). Aborts if there is no such plan.
[[nodiscard]] PoolSet make_pools(const PoolsShape& shape);

/// Lengths, queries and masks of a batch.
struct SequencesShape {
  std::vector<std::int64_t> lengths{};
  std::vector<std::int64_t> queries{};
  bool causal = true;
  std::int32_t window_left = -1;
  std::int32_t window_right = -1;
  float softcap = 0.0F;
  bool sinks = false;
  kernels::LogBase lse_base = kernels::LogBase::kTwo;
};

class PlannedBatch {
 public:
  /// Draws tensors and hands out pages of the pool in a shuffled order. Table entries past a
  /// sequence's pages are INT_MAX. Nothing is written into the pool. `layer` is the one in use.
  PlannedBatch(const PoolSet& pools, PoolId pool, LayerIndex layer, SequencesShape shape,
               std::uint32_t seed);
  PlannedBatch(const PlannedBatch&) = delete;
  PlannedBatch& operator=(const PlannedBatch&) = delete;

  /// All tokens of all sequences, in a shuffled order, among tokens that are skipped.
  [[nodiscard]] kernels::AppendParams append_all();
  /// Token `position` of every sequence that is that long.
  [[nodiscard]] kernels::AppendParams append_position(std::int64_t position);
  /// Attention of the batch, `lengths` being those that are set now.
  [[nodiscard]] kernels::AttentionParams attention();
  /// Shortens or restores the sequences, and lets each have this many queries (at most its own).
  void set_lengths(std::vector<std::int64_t> lengths, std::int64_t queries);

  /// Outputs and log-sum-exps that the last params pointed at.
  [[nodiscard]] std::vector<float> out() const;
  [[nodiscard]] const std::vector<float>& lse() const { return lse_; }
  /// What the oracle says about the batch as it is now: outputs, and log-sum-exps in its base.
  [[nodiscard]] DenseResult expected() const;
  /// Where outputs or log-sum-exps are not the oracle's; empty if they are.
  [[nodiscard]] std::string difference() const;
  /// Where a cached row is not the raw one, bit for bit, or a slot that no token has is not as
  /// `make_pools` left it; empty if none is.
  [[nodiscard]] std::string cache_difference() const;

  [[nodiscard]] const kernels::CachePair& cache() const { return cache_; }

 private:
  struct Sequence {
    std::int64_t first_block = 0;
    std::vector<std::byte> k;
    std::vector<std::byte> v;
  };

  [[nodiscard]] std::int64_t slot(std::size_t sequence, std::int64_t position) const;
  [[nodiscard]] std::vector<std::byte> draw(std::int64_t elements);
  [[nodiscard]] float value(const std::vector<std::byte>& tensor, std::int64_t index) const;
  void draw_sequences();
  void hand_out_pages(const PoolDescriptor& pool);
  void push_token(std::size_t sequence, std::int64_t position);
  [[nodiscard]] kernels::AppendParams append_pushed();
  [[nodiscard]] DenseProblem problem() const;
  [[nodiscard]] DenseSequence dense(std::size_t sequence) const;
  [[nodiscard]] std::string row_difference(const kernels::CacheOperand& operand,
                                           const std::vector<std::byte>& raw, std::size_t sequence,
                                           std::int64_t position) const;

  SequencesShape shape_;
  std::vector<std::int64_t> full_lengths_;
  kernels::CachePair cache_;
  std::mt19937 random_;
  std::int64_t element_ = 0;
  std::int64_t pages_ = 0;
  std::vector<Sequence> sequences_;
  std::vector<float> sinks_;
  std::vector<std::int32_t> entries_;
  std::int64_t width_ = 0;
  // What the last params point at.
  std::vector<std::int32_t> lengths_;
  std::vector<std::int32_t> q_indptr_;
  std::vector<std::byte> q_;
  std::vector<std::byte> out_;
  std::vector<float> lse_;
  std::vector<std::byte> k_source_;
  std::vector<std::byte> v_source_;
  std::vector<std::int64_t> slots_;
};

}  // namespace kvpool::test
