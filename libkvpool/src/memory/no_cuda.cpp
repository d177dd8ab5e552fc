// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/no_cuda.hpp"

#include <fmt/format.h>

namespace kvpool {

Error no_cuda(std::string_view what, std::int32_t device) {
  if (device < 0) {
    return {.code = ErrorCode::kInvalidArgument,
            .message = fmt::format("device {} does not exist: ordinals start at 0", device)};
  }
  return {.code = ErrorCode::kUnsupported,
          .message = fmt::format("{} on device {} needs the CUDA memories of target kvpool::cuda, "
                                 "built with KVPOOL_CUDA=ON; kvpool::kvpool has none: link that "
                                 "target, or pass the engine's own allocation as BorrowedMemory",
                                 what, device)};
}

}  // namespace kvpool
