// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "smxx/simple_attention/kernel.cuh"

namespace kvpool::kernels::simple_attention {

template cudaError_t launch_for<ElementType::kBf16>(const AttentionParams&, cudaStream_t);

}  // namespace kvpool::kernels::simple_attention
