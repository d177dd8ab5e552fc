// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/cuda/stream.hpp>
#include <kvpool/kernels/workspace.hpp>

namespace kvpool::kernels {

/// An empty workspace of the kernels that are launched on one stream. Each use of it asks the
/// stream whether it is being captured, so that nobody has to remember to.
/// @param memory where it lives: memory of the stream's GPU
/// @param stream outlives the workspace
[[nodiscard]] Workspace stream_workspace(AnyPageMemory memory, StreamHandle stream);

}  // namespace kvpool::kernels
