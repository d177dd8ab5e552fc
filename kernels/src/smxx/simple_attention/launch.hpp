// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/kernels/attention_params.hpp>

#include <cuda_runtime_api.h>

namespace kvpool::kernels::simple_attention {

/// Enqueues the kernel for one element type. Rows may have any length that the parameters allow.
template <ElementType type>
cudaError_t launch_for(const AttentionParams& params, cudaStream_t stream);

/// Enqueues the kernel. @pre the parameters are checked
cudaError_t launch(const AttentionParams& params, cudaStream_t stream);

}  // namespace kvpool::kernels::simple_attention
