// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/validate_geometry.hpp>

#include "host/geometry_pages.hpp"
#include "host/geometry_probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvpool::kernels {
namespace {

bool is_kernel_plane(PlaneKind kind) noexcept {
  return kind == PlaneKind::kKey || kind == PlaneKind::kValue || kind == PlaneKind::kLatent;
}

/// Whether append and attention read these rows.
bool kernels_read(const CachePair& caches) noexcept {
  const auto good = [](const CacheOperand& cache) {
    return cache.type != ElementType::kFp8E4m3 && cache.dim % kDimStep == 0 && cache.dim > 0 &&
           cache.dim <= kMaxDim;
  };
  return good(caches.k) && good(caches.v) && caches.tokens_per_block > 0;
}

/// The probes of one group: one for each cache that kernels read, one for each other view.
std::vector<GeometryProbe> probes_of(const PoolSet& pools, PoolId pool, std::size_t group) {
  const PoolDescriptor& descriptor = pools.descriptor(pool);
  const std::vector<std::int64_t> entries = boundary_entries(descriptor, group);
  std::vector<GeometryProbe> probes;
  for (const PlacedView& placed : pools.views(pool, group)) {
    const TensorView& view = placed.view;
    const bool has_probe = is_kernel_plane(view.kind) && !probes.empty() &&
                           probes.back().check.layer == view.layer &&
                           probes.back().check.method == GeometryMethod::kKernels;
    if (has_probe) {  // V of another width than K: the operands have it
      continue;
    }
    GeometryProbe probe;
    probe.check.pool = descriptor.name;
    probe.check.group = group;
    probe.check.layer = view.layer;
    probe.check.plane = view.kind;
    probe.check.dtype = view.dtype;
    probe.check.method = GeometryMethod::kBytes;
    probe.check.pages = static_cast<std::int64_t>(entries.size());
    probe.views.push_back(placed);
    probe.entries = entries;
    if (is_kernel_plane(view.kind)) {
      if (auto caches = cache_operands(pools, pool, group, view.layer);
          caches && kernels_read(*caches)) {
        probe.check.method = GeometryMethod::kKernels;
        probe.operands = *caches;
      }
    }
    probes.push_back(std::move(probe));
  }
  return probes;
}

/// Another pool whose addresses this one has too, or empty.
std::string overlap_of(const PoolSet& pools, std::size_t index) {
  const auto first = [&](std::size_t i) {
    return pools.base(PoolId{static_cast<std::int32_t>(i)});
  };
  const auto end = [&](std::size_t i) {
    return first(i) + static_cast<std::uintptr_t>(pools.pools()[i].bytes().count());
  };
  for (std::size_t other = 0; other < pools.pools().size(); ++other) {
    if (other != index && first(index) < end(other) && first(other) < end(index)) {
      return fmt::format("its {} bytes overlap those of pool {}",
                         pools.pools()[index].bytes().count(), pools.pools()[other].name);
    }
  }
  return {};
}

/// Writes all probes, then reads all of them.
Result<void> run(std::vector<GeometryProbe>& probes, const GeometryKernels& kernels,
                 GeometryScratch& scratch) {
  for (const GeometryProbe& probe : probes) {
    if (probe.entries.empty()) {
      continue;
    }
    if (auto written = write_pattern(probe, kernels, scratch); !written) {
      return written;
    }
  }
  for (GeometryProbe& probe : probes) {
    if (probe.entries.empty()) {
      continue;
    }
    auto difference = find_difference(probe, kernels, scratch);
    if (!difference) {
      return std::move(difference).error();
    }
    if (probe.check.finding.empty()) {
      probe.check.finding = *std::move(difference);
    }
  }
  return {};
}

std::string_view text_of(GeometryMethod method) noexcept {
  return method == GeometryMethod::kKernels ? "by append and attention" : "as bytes";
}

}  // namespace

bool GeometryReport::passed() const noexcept {
  return std::ranges::all_of(checks, [](const GeometryCheck& c) { return c.finding.empty(); });
}

std::string GeometryReport::text() const {
  std::string text;
  // Checks of a pool's group that differ in nothing but the layer share a line.
  std::vector<bool> done(checks.size());
  for (std::size_t i = 0; i < checks.size(); ++i) {
    const GeometryCheck& first = checks[i];
    std::int64_t layers = 0;
    std::int64_t wrong = 0;
    for (std::size_t j = i; j < checks.size(); ++j) {
      const GeometryCheck& other = checks[j];
      if (!done[j] && other.pool == first.pool && other.group == first.group &&
          other.plane == first.plane && other.dtype == first.dtype &&
          other.method == first.method) {
        done[j] = true;
        ++layers;
        wrong += other.finding.empty() ? 0 : 1;
      }
    }
    if (layers > 0) {
      text += fmt::format("pool {}, group {}, {} ({}): {} layers, {} pages each, checked {}: {}\n",
                          first.pool, first.group, to_string(first.plane), to_string(first.dtype),
                          layers, first.pages, text_of(first.method),
                          wrong == 0 ? "as planned" : fmt::format("{} layers differ", wrong));
    }
  }
  for (const GeometryCheck& check : checks) {
    if (!check.finding.empty()) {
      text += fmt::format("pool {}, group {}, layer {}, {}: {}\n", check.pool, check.group,
                          check.layer.value(), to_string(check.plane), check.finding);
    }
  }
  return text;
}

Result<GeometryReport> validate_geometry(const PoolSet& pools, const GeometryKernels& kernels) {
  GeometryReport report;
  GeometryScratch scratch{kernels};
  std::size_t rounds = 0;
  for (const PoolDescriptor& pool : pools.pools()) {
    rounds = std::max(rounds, pool.groups.size());
  }
  for (std::size_t group = 0; group < rounds; ++group) {
    std::vector<GeometryProbe> probes;
    for (std::size_t i = 0; i < pools.pools().size(); ++i) {
      const PoolId pool{static_cast<std::int32_t>(i)};
      if (group < pools.descriptor(pool).groups.size()) {
        for (GeometryProbe& probe : probes_of(pools, pool, group)) {
          probe.seed = mixed(group + 1, probes.size());
          probe.check.finding = overlap_of(pools, i);
          probes.push_back(std::move(probe));
        }
      }
    }
    if (auto checked = run(probes, kernels, scratch); !checked) {
      return std::move(checked).error();
    }
    for (GeometryProbe& probe : probes) {
      report.checks.push_back(std::move(probe.check));
    }
  }
  return report;
}

}  // namespace kvpool::kernels
