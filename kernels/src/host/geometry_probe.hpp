// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/kernels/operands.hpp>
#include <kvpool/kernels/validate_geometry.hpp>

#include "host/geometry_scratch.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace kvpool::kernels {

/// One cache of one layer, whose pages are first written, then read.
struct GeometryProbe {
  /// What will be reported of it.
  GeometryCheck check{};
  /// Where it lies: of K and V together the joined view, else one per plane.
  std::vector<PlacedView> views{};
  /// As kernels take it, when they are used.
  CachePair operands{};
  /// Table entries of the pages to look at.
  std::vector<std::int64_t> entries{};
  /// Tells its pattern from all others.
  std::uint64_t seed = 0;
};

/// Writes the pattern of a probe, with append or as bytes.
[[nodiscard]] Result<void> write_pattern(const GeometryProbe& probe, const GeometryKernels& kernels,
                                         GeometryScratch& scratch);

/// Reads the pages of a probe, with attention or as bytes. @return the first difference, or empty
[[nodiscard]] Result<std::string> find_difference(const GeometryProbe& probe,
                                                  const GeometryKernels& kernels,
                                                  GeometryScratch& scratch);

}  // namespace kvpool::kernels
