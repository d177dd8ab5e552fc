// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace kvpool {

/// A CUDA stream without CUDA's headers: what the runtime calls `cudaStream_t`, as a plain pointer.
/// Null is the default stream. It owns nothing.
struct StreamHandle {
  /// The `cudaStream_t`.
  void* value = nullptr;

  /// Same stream.
  friend constexpr bool operator==(StreamHandle, StreamHandle) noexcept = default;
};

}  // namespace kvpool
