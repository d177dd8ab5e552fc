// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/kernels/packed_attention.hpp>

#include "cache_layers.hpp"
#include "model.hpp"

#include <cstdint>

namespace example {

/// Passes of a step, each with queries and lengths of its own.
enum class PassKind : std::uint8_t { kExtend, kDraft, kVerify };

/// Where the plans of packed attention lie, one for each pass and window, and what its blocks hand
/// to each other. On a GPU plans are made by a kernel; on the host they are only made to be
/// checked.
class PackedPlans {
 public:
  /// @param longest query tokens of a row of the largest pass
  /// @return `unsupported` for heads that packed attention does not take
  static kvpool::Result<PackedPlans> create(const ModelShape& shape, std::int64_t rows,
                                            std::int64_t longest, std::int64_t multiprocessors);

  /// Bytes that all of it takes, at an address that is a multiple of 256.
  [[nodiscard]] kvpool::Bytes bytes() const { return memory_.total(); }
  /// Says where it lies.
  void place(std::uintptr_t base) { base_ = base; }
  /// The part that has to be zero before the first launch.
  [[nodiscard]] std::uintptr_t counters() const { return base_; }
  /// See above.
  [[nodiscard]] kvpool::Bytes counter_bytes() const { return memory_.exchange; }

  /// Attention with the plan of its pass and window.
  [[nodiscard]] kvpool::Result<kvpool::kernels::AttentionParams> with_plan(
      kvpool::kernels::AttentionParams params, PassKind pass) const;

 private:
  kvpool::kernels::PackedShape largest_{};
  kvpool::kernels::PackedMemory memory_{};
  std::uintptr_t base_ = 0;
};

}  // namespace example
