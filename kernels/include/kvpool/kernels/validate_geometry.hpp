// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/ids.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/kernels/params.hpp>
#include <kvpool/memory/device_queue.hpp>
#include <kvpool/memory/page_memory.hpp>
#include <kvpool/pool/pool_set.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kvpool::kernels {

/// How a cache was checked.
enum class GeometryMethod {
  kKernels,  ///< written by append, read by attention: K, V and every stride as kernels take them
  kBytes,    ///< written and read by copies: addresses and extents, not what kernels make of them
};

/// What was found of one cache of one layer.
struct GeometryCheck {
  /// Name of the pool.
  std::string pool{};
  /// Index of the group in its pool.
  std::size_t group = 0;
  /// Layer in its model.
  LayerIndex layer{};
  /// First plane of the cache; of K and V together the key.
  PlaneKind plane = PlaneKind::kKey;
  /// Format of its elements.
  KvDtype dtype = KvDtype::kBf16;
  /// How it was checked.
  GeometryMethod method = GeometryMethod::kKernels;
  /// Pages that were written and read; 0 in a pool without usable pages.
  std::int64_t pages = 0;
  /// The first difference, or empty.
  std::string finding{};

  /// Field by field.
  friend bool operator==(const GeometryCheck&, const GeometryCheck&) = default;
};

/// What a validation found.
struct GeometryReport {
  /// One entry per cache, in the order of pools, groups and layers within each round of groups.
  std::vector<GeometryCheck> checks{};

  /// True if no check has a finding.
  [[nodiscard]] bool passed() const noexcept;
  /// For people: one line per pool, group and method, then every finding.
  [[nodiscard]] std::string text() const;
};

/// The kernels that write and read, and where. Calls and copies take effect in one order.
struct GeometryKernels {
  /// Appends.
  std::function<Result<void>(const AppendParams&)> append{};
  /// Attends.
  std::function<Result<void>(const AttentionParams&)> attention{};
  /// Copies between this process and the memory of the pools and `scratch`.
  AnyDeviceQueue queue;
  /// Memory that the kernels can read and write, for their inputs and outputs; some megabytes.
  AnyPageMemory scratch;
};

/// Whether every layer of every pool is where its descriptor says, and where kernels look for it.
/// Writes a pattern of its own for every cache, page, slot and head into the first, the last and
/// the boundary pages (those around the 2^31st to 2^34th byte) of every pool, then reads all of
/// them back, so that two places that overlap are found; pools may not overlap anywhere. Of a page
/// of more than 256 token slots kernels get the first and the last 128. bf16, fp16 and fp32 rows of
/// K, V and MLA go through append and attention: each query sees its own token only, so that the
/// output is that token's V to the bit, and the log-sum-exp is the product of its K with a query;
/// once through a table of that token's page alone, and once through one of all pages looked at.
/// Other formats, records, indexers, scales and states are written and read as bytes. Groups of one
/// pool, which share its pages, are checked one after another. What the usable pages held is lost;
/// reserved pages are not touched.
/// @return the report, also when it has findings; an `Error` when a kernel, a copy or the scratch
///   memory fails
[[nodiscard]] Result<GeometryReport> validate_geometry(const PoolSet& pools,
                                                       const GeometryKernels& kernels);

/// As above with the CPU reference. @pre this process can read and write the memory of `pools`
[[nodiscard]] Result<GeometryReport> validate_geometry_on_host(const PoolSet& pools);

}  // namespace kvpool::kernels
