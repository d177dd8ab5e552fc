// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/cuda/stream.hpp>
#include <kvpool/memory/device_queue.hpp>

#include <cstdint>
#include <memory>

namespace kvpool {

/// A stream of a GPU as a `DeviceQueue`. Addresses may be of the device and of the host; a copy
/// from host memory that is not pinned is staged by the driver, and may block. Tickets are events
/// of the stream, so they also cover kernels that someone else has launched on it before.
///
/// Copies are handles of one state. A moved-from one may only be destroyed and assigned to.
class CudaQueue {
 public:
  /// A queue with a stream of its own, which does not wait for the default stream. The stream goes
  /// with the last handle, after its work.
  /// @param device ordinal of the GPU, from 0
  /// @return `invalid_argument` for an ordinal out of range, `unsupported` when there is no GPU or
  /// no
  ///     driver that fits
  static Result<CudaQueue> create(std::int32_t device);
  /// A queue on a stream of the engine, which outlives the queue; errors as of `create`.
  static Result<CudaQueue> on_stream(std::int32_t device, StreamHandle stream);

  /// See `DeviceQueue`.
  Result<void> copy_async(std::uintptr_t destination, std::uintptr_t source, Bytes size);
  /// See `DeviceQueue`.
  Result<Ticket> record();
  /// See `DeviceQueue`.
  Result<bool> query(Ticket ticket);
  /// See `DeviceQueue`.
  Result<void> wait(Ticket ticket);

  /// Enqueues setting each byte of a range of the device to `value`. A size of 0 does nothing; a
  /// negative size and an address of 0 are `invalid_argument`.
  Result<void> fill_async(std::uintptr_t destination, std::uint8_t value, Bytes size);

  /// The stream, for launching kernels in the same order.
  [[nodiscard]] StreamHandle stream() const;
  /// Ordinal of the GPU.
  [[nodiscard]] std::int32_t device() const;

 private:
  struct State;
  explicit CudaQueue(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

static_assert(DeviceQueue<CudaQueue>);

}  // namespace kvpool
