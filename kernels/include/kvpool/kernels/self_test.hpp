// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/kernel_capability.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/kernels/packed_attention.hpp>
#include <kvpool/kernels/params.hpp>
#include <kvpool/memory/device_queue.hpp>
#include <kvpool/memory/page_memory.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace kvpool::kernels {

/// The kernels that a self-test runs, and where. Calls and copies take effect in one order.
struct SelfTestKernels {
  /// Appends.
  std::function<Result<void>(const AppendParams&)> append{};
  /// Simple attention.
  std::function<Result<void>(const AttentionParams&)> attention{};
  /// Plans packed attention.
  std::function<Result<void>(const PackedPlanParams&)> plan_packed{};
  /// Packed attention.
  std::function<Result<void>(const AttentionParams&, const PackedOptions&)> packed{};
  /// Copies between this process and `scratch`.
  AnyDeviceQueue queue;
  /// Memory that the kernels can read and write; 64 MiB are taken.
  AnyPageMemory scratch;
  /// Of the device, for sizes.
  std::int64_t multiprocessors = 1;
};

/// How a row fared.
struct RowResult {
  std::string row{};         ///< its name
  std::int64_t cases = 0;    ///< shapes that were run
  double largest_ulp = 0.0;  ///< largest error of an output, in units in the last place at max|ref|
  std::string finding{};     ///< the first difference, or empty

  /// Field by field.
  friend bool operator==(const RowResult&, const RowResult&) = default;
};

/// What a self-test found.
struct SelfTestReport {
  /// One entry per row, in their order.
  std::vector<RowResult> rows{};

  /// True if there are rows, every one ran some case, and none has a finding.
  [[nodiscard]] bool passed() const noexcept;
  /// For people: one line per row.
  [[nodiscard]] std::string text() const;
};

/// Runs every row's kernel on shapes of its own limits (formats, head dims, page sizes, masks) and
/// compares: what append writes bit for bit with pages laid out by hand, what attention gives with
/// the CPU reference, to 2 ulp at the largest output, a relative L2 error of 1e-2 and 2^-10 of the
/// log-sum-exp. Slots and outputs are NaN before. A row that this function has no check for is a
/// finding. It takes seconds.
/// @return the report, also when it has findings; an `Error` when a kernel, a copy or the memory
///   fails
[[nodiscard]] Result<SelfTestReport> self_test(const SelfTestKernels& kernels,
                                               std::span<const KernelCapability> rows);

}  // namespace kvpool::kernels
