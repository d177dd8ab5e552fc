// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/cuda/cuda_queue.hpp>
#include <kvpool/kernels/validate_geometry.hpp>

namespace kvpool::kernels {

/// `validate_geometry` with the bundled kernels, on the queue's GPU and stream. It waits for its
/// own work; scratch memory is allocated and given back.
/// @param pools a set on the queue's GPU
[[nodiscard]] Result<GeometryReport> validate_geometry(const PoolSet& pools, CudaQueue queue);

}  // namespace kvpool::kernels
