// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "smxx/packed_attention/instantiate.cuh"

namespace kvpool::kernels::packed {

template cudaError_t launch_for<ElementType::kFp16, 64>(const KernelParams&, std::size_t,
                                                        cudaStream_t);

}  // namespace kvpool::kernels::packed
