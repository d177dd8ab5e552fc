// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/kernels/page_params.hpp>

#include <cuda_runtime_api.h>

namespace kvpool::kernels {

/// Enqueues the page copy. @pre the parameters are checked
cudaError_t launch_page_copy(const PageCopyParams& params, cudaStream_t stream);

}  // namespace kvpool::kernels
