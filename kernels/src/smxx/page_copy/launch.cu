// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "smxx/device/launch.cuh"
#include "smxx/page_copy/kernel.cuh"
#include "smxx/page_copy/launch.hpp"

#include <cstdint>

namespace kvpool::kernels {

cudaError_t launch_page_copy(const PageCopyParams& params, cudaStream_t stream) {
  const std::int64_t items =
      static_cast<std::int64_t>(params.count) * params.parts * slices_per_part(params);
  return launch_items(page_copy_kernel, params, items, 1, kPageCopyThreads, stream);
}

}  // namespace kvpool::kernels
