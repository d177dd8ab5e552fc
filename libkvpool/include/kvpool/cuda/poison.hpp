// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/cuda/cuda_queue.hpp>
#include <kvpool/pool/pool_set.hpp>

namespace kvpool {

/// Enqueues filling the reserved pages of every pool with 0xFF, which is NaN in every floating
/// format: what `PoolSetOptions::poison_reserved_pages` does for memory that the process can write.
/// @param pools a set on the queue's GPU that outlives the work
/// @return what the queue says
Result<void> poison_reserved_pages(const PoolSet& pools, CudaQueue& queue);

}  // namespace kvpool
