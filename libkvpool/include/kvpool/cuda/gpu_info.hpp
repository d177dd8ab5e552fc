// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>

#include <cstdint>
#include <string>

namespace kvpool {

/// A GPU as driver and runtime describe it.
struct GpuInfo {
  /// Marketing name, such as `NVIDIA H200`.
  std::string name{};
  /// Compute capability times ten: 90 for 9.0.
  std::int32_t architecture = 0;
  /// Streaming multiprocessors.
  std::int32_t multiprocessors = 0;
  /// Memory of the device.
  Bytes total{};
  /// Smallest granule of the driver's virtual memory management.
  Bytes granularity{};
  /// Whether the device has virtual memory management.
  bool has_virtual_memory = false;
  /// Newest CUDA version that the driver supports, as 13000 for 13.0.
  std::int32_t driver_version = 0;

  /// Field by field.
  friend bool operator==(const GpuInfo&, const GpuInfo&) = default;
};

/// GPUs that this process can use.
/// @return 0 on a machine without one, or without any driver; `kUnsupported` when the driver is too
///   old, `kDevice` when it fails: neither says that there is no GPU
[[nodiscard]] Result<std::int32_t> gpu_count();

/// Describes a GPU. The first call of a process for a device makes its context.
/// @param device ordinal of the GPU, from 0
/// @return `kUnsupported` when there is no GPU or no driver that fits, `kInvalidArgument` when
/// there
///   are GPUs, but not this one
[[nodiscard]] Result<GpuInfo> gpu_info(std::int32_t device);

/// Free bytes of a GPU now, over all processes (`cudaMemGetInfo`); errors as of `gpu_info`.
[[nodiscard]] Result<Bytes> gpu_free_bytes(std::int32_t device);

}  // namespace kvpool
