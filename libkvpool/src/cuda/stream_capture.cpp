// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/cuda/stream_capture.hpp>

#include "cuda/cuda_error.hpp"

namespace kvpool {

Result<bool> stream_is_capturing(StreamHandle stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t code = cudaStreamIsCapturing(static_cast<cudaStream_t>(stream.value), &status);
  if (code == cudaErrorStreamCaptureImplicit) {
    // The default stream cannot be asked while a stream that waits for it is captured.
    static_cast<void>(cudaGetLastError());
    return true;
  }
  if (code != cudaSuccess) {
    Error error = cuda_error("cudaStreamIsCapturing", code);
    if (error.code == ErrorCode::kUnsupported) {
      error.message += "; a GPU and a driver that supports this CUDA runtime are needed";
    }
    return error;
  }
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace kvpool
