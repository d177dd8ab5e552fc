// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/kernels/validate_geometry.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvpool::kernels {

/// Inputs and outputs of kernels in the scratch memory of a validation: a region that grows, and is
/// laid out anew for each check.
class GeometryScratch {
 public:
  /// @param kernels outlives this
  explicit GeometryScratch(const GeometryKernels& kernels)
      : memory_{kernels.scratch}, queue_{kernels.queue} {}
  GeometryScratch(const GeometryScratch&) = delete;
  GeometryScratch& operator=(const GeometryScratch&) = delete;
  ~GeometryScratch();

  /// Makes room for arrays of these sizes, each aligned to 256 bytes. What was there is lost.
  [[nodiscard]] Result<void> lay_out(const std::vector<std::size_t>& sizes);
  /// Address of the array at this place in the last layout.
  [[nodiscard]] std::uintptr_t at(std::size_t index) const { return addresses_[index]; }

  /// Copies bytes from this process, and waits.
  [[nodiscard]] Result<void> write(std::uintptr_t to, const void* from, std::size_t size);
  /// Copies bytes to this process, after everything before, and waits.
  [[nodiscard]] Result<void> read(void* to, std::uintptr_t from, std::size_t size);

 private:
  [[nodiscard]] Result<void> copy(std::uintptr_t to, std::uintptr_t from, std::size_t size);

  AnyPageMemory memory_;
  AnyDeviceQueue queue_;
  Region region_{};
  std::vector<std::uintptr_t> addresses_;
};

}  // namespace kvpool::kernels
