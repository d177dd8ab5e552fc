// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/cuda/cuda_queue.hpp>

#include "cuda/cuda_error.hpp"
#include "memory/queue_checks.hpp"

#include <deque>
#include <utility>
#include <vector>

namespace kvpool {
namespace {

void* pointer_to(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT: an address is a pointer here
}

}  // namespace

struct CudaQueue::State {
  State(std::int32_t ordinal, cudaStream_t on, bool own)
      : device{ordinal}, stream{on}, owns_stream{own} {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ~State() {
    // Work that is still pending keeps what it needs; the runtime frees it afterwards.
    const DeviceScope scope{device};
    for (cudaEvent_t event : pending) {
      static_cast<void>(cudaEventDestroy(event));
    }
    for (cudaEvent_t event : idle) {
      static_cast<void>(cudaEventDestroy(event));
    }
    if (owns_stream) {
      static_cast<void>(cudaStreamDestroy(stream));
    }
  }

  /// The event of a ticket that is not known to be complete.
  [[nodiscard]] cudaEvent_t event_of(Ticket ticket) const {
    return pending[static_cast<std::size_t>(ticket.value() - completed)];
  }

  /// Notes that the work before a ticket is complete. Allocates nothing: `record` made room.
  void complete(Ticket ticket) {
    for (; completed <= ticket.value(); ++completed) {
      idle.push_back(pending.front());
      pending.pop_front();
    }
  }

  std::int32_t device;
  cudaStream_t stream;
  bool owns_stream;
  std::uint64_t recorded = 0;
  /// Tickets below this are complete.
  std::uint64_t completed = 0;
  /// Events of the tickets from `completed` to `recorded`.
  std::deque<cudaEvent_t> pending;
  std::vector<cudaEvent_t> idle;
};

CudaQueue::CudaQueue(std::shared_ptr<State> state) : state_{std::move(state)} {}

Result<CudaQueue> CudaQueue::create(std::int32_t device) {
  if (auto usable = check_gpu(device); !usable) {
    return std::move(usable).error();
  }
  const DeviceScope scope{device};
  cudaStream_t stream = nullptr;
  if (auto made =
          check_cuda("cudaStreamCreate", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      !made) {
    return std::move(made).error();
  }
  return CudaQueue{std::make_shared<State>(device, stream, true)};
}

Result<CudaQueue> CudaQueue::on_stream(std::int32_t device, StreamHandle stream) {
  if (auto usable = check_gpu(device); !usable) {
    return std::move(usable).error();
  }
  return CudaQueue{std::make_shared<State>(device, static_cast<cudaStream_t>(stream.value), false)};
}

Result<void> CudaQueue::copy_async(std::uintptr_t destination, std::uintptr_t source, Bytes size) {
  if (auto valid = check_copy(destination, source, size); !valid) {
    return valid;
  }
  if (size.count() == 0) {
    return {};
  }
  const DeviceScope scope{state_->device};
  return check_cuda("cudaMemcpyAsync", cudaMemcpyAsync(pointer_to(destination), pointer_to(source),
                                                       static_cast<std::size_t>(size.count()),
                                                       cudaMemcpyDefault, state_->stream));
}

Result<void> CudaQueue::fill_async(std::uintptr_t destination, std::uint8_t value, Bytes size) {
  if (auto valid = check_copy(destination, destination, size); !valid) {
    return valid;
  }
  if (size.count() == 0) {
    return {};
  }
  const DeviceScope scope{state_->device};
  return check_cuda("cudaMemsetAsync",
                    cudaMemsetAsync(pointer_to(destination), value,
                                    static_cast<std::size_t>(size.count()), state_->stream));
}

Result<Ticket> CudaQueue::record() {
  const DeviceScope scope{state_->device};
  if (state_->idle.empty()) {
    cudaEvent_t event = nullptr;
    if (auto made =
            check_cuda("cudaEventCreate", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        !made) {
      return std::move(made).error();
    }
    state_->idle.push_back(event);
  }
  cudaEvent_t const event = state_->idle.back();
  if (auto done = check_cuda("cudaEventRecord", cudaEventRecord(event, state_->stream)); !done) {
    return std::move(done).error();
  }
  state_->pending.push_back(event);
  state_->idle.pop_back();
  if (const std::size_t events = state_->idle.size() + state_->pending.size();
      events > state_->idle.capacity()) {
    state_->idle.reserve(2 * events);
  }
  return Ticket{state_->recorded++};
}

Result<bool> CudaQueue::query(Ticket ticket) {
  if (auto valid = check_ticket(ticket, state_->recorded); !valid) {
    return std::move(valid).error();
  }
  if (ticket.value() < state_->completed) {
    return true;
  }
  const cudaError_t code = cudaEventQuery(state_->event_of(ticket));
  if (code == cudaErrorNotReady) {
    // Not an error, and nobody's who asks the runtime for the last one.
    if (cudaPeekAtLastError() == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
    }
    return false;
  }
  if (code != cudaSuccess) {
    return cuda_error("work on the device", code);
  }
  state_->complete(ticket);
  return true;
}

Result<void> CudaQueue::wait(Ticket ticket) {
  if (auto valid = check_ticket(ticket, state_->recorded); !valid) {
    return valid;
  }
  if (ticket.value() < state_->completed) {
    return {};
  }
  if (const cudaError_t code = cudaEventSynchronize(state_->event_of(ticket));
      code != cudaSuccess) {
    return cuda_error("work on the device", code);
  }
  state_->complete(ticket);
  return {};
}

StreamHandle CudaQueue::stream() const { return {.value = state_->stream}; }

std::int32_t CudaQueue::device() const { return state_->device; }

}  // namespace kvpool
