// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/cuda/stream.hpp>

namespace kvpool {

/// Whether work on a stream is being recorded into a graph instead of run, so that nothing may be
/// allocated or freed for it. True as well for a capture that has failed and not ended, and for the
/// default stream while a stream that waits for it is captured. Asking leaves the capture as it is.
/// Several threads may ask at once.
/// @return `kUnsupported` where there is no GPU or no driver that fits, `kDevice` when the driver
///   fails, as for a stream that was destroyed
[[nodiscard]] Result<bool> stream_is_capturing(StreamHandle stream);

}  // namespace kvpool
