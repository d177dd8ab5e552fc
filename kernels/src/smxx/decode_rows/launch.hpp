// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/kernels/decode_row_params.hpp>

#include <cuda_runtime_api.h>

namespace kvpool::kernels {

/// Enqueues the making of the table. @pre the parameters are checked
cudaError_t launch_decode_rows(const DecodeRowParams& params, cudaStream_t stream);

}  // namespace kvpool::kernels
