// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/workspace_cuda.hpp>

#include <kvpool/cuda/stream_capture.hpp>

#include <utility>

namespace kvpool::kernels {

Workspace stream_workspace(AnyPageMemory memory, StreamHandle stream) {
  return {std::move(memory), [stream] { return stream_is_capturing(stream); }};
}

}  // namespace kvpool::kernels
