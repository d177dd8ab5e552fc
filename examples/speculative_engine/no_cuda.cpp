// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The GPU's back-end in a build without CUDA.
#include "backend.hpp"

namespace example {

kvpool::Result<std::unique_ptr<Backend>> make_cuda_backend() {
  return kvpool::Error{.code = kvpool::ErrorCode::kUnsupported,
                       .message = "this build has no CUDA: configure with KVPOOL_CUDA=ON"};
}

}  // namespace example
