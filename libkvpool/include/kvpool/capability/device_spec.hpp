// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/units.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool {

/// A GPU as numbers. Three totals are told apart, because engines count with the third: the
/// marketed one (decimal), what nvidia-smi prints, and what a CUDA process sees.
struct DeviceSpec {
  /// Lower-case name, such as `h200`.
  std::string name = {};
  /// Compute capability as `sm_90`, `sm_100`, `sm_103`; `gfx942` and the like for AMD.
  std::string architecture = {};
  /// Marketed memory (GB = 10^9 bytes).
  Bytes marketed = {};
  /// Memory as nvidia-smi or amd-smi prints it; 0 when it is not known.
  Bytes nvidia_smi = {};
  /// Smallest total that a CUDA process was seen to get.
  Bytes cuda_visible_low = {};
  /// Largest total that a CUDA process was seen to get.
  Bytes cuda_visible_high = {};
  /// Memory bandwidth in 10^9 bytes a second; 0 when it is not known.
  std::int64_t bandwidth_gb_per_s = 0;
  /// Streaming multiprocessors that a CUDA process sees; more where the number was not observed.
  std::int64_t multiprocessors = 0;
  /// Unit in which memory is mapped: every pool is charged in whole granules.
  Bytes granularity = {};
  /// Which figure is not an observed one and where it comes from, or empty.
  std::string note = {};

  /// Field by field.
  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
};

/// The GPUs that kvpool knows: H100, H200, B200, GB200 and others, as data.
[[nodiscard]] std::span<const DeviceSpec> known_devices();

/// Looks a GPU up by name, case and separators (`-`, `_`, space) aside.
[[nodiscard]] std::optional<DeviceSpec> find_device(std::string_view name);

/// As above, in a list of one's own; the known GPUs' other names (`h100-sxm`) are understood, too.
/// Of several with one name the last counts.
[[nodiscard]] std::optional<DeviceSpec> find_device(std::string_view name,
                                                    std::span<const DeviceSpec> devices);

}  // namespace kvpool
