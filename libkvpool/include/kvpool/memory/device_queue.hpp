// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/ids.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>

namespace kvpool {

/// A point in the order of one device queue. Tickets of one queue grow.
using Ticket = Id<struct TicketTag, std::uint64_t>;

/// Address of an object, as device queues take it. @pre the object is not `const` if it is written
[[nodiscard]] inline std::uintptr_t address_of(const void* object) noexcept {
  return reinterpret_cast<std::uintptr_t>(object);  // NOLINT: what the function is for
}

/// Work that is put in order and done later, such as a stream of a GPU.
///
/// A model is a copyable handle; copies share one queue. Semantics, for addresses that the device
/// can reach:
/// - `copy_async(destination, source, size)` enqueues a copy and returns. The source is read when
///   the copy runs, not before: it stays as it is until a ticket recorded after the call has
///   completed. Ranges do not overlap. A size of 0 does nothing; a negative size and an address of
///   0 are `invalid_argument`.
/// - `record()` returns a ticket for the work enqueued before it.
/// - `query(ticket)` tells whether that work is complete, without waiting. A ticket of another
///   queue or one not recorded yet is `invalid_argument`.
/// - `wait(ticket)` returns when that work is complete, or with `invalid_argument` as above.
/// - Work runs in the order of the calls: a completed ticket completes all earlier ones.
/// - A handle that was moved from may be destroyed and assigned to, and nothing else.
/// - `device` is returned by any call when the device reports a failure, also one of earlier work.
///
/// Complexity: constant, but for the copy itself and for `wait`. Threads: one call at a time per
/// queue; the caller serialises. `query` does not allocate when it succeeds.
template <typename Q>
concept DeviceQueue = requires(Q& queue, std::uintptr_t address, Bytes size, Ticket ticket) {
  { queue.copy_async(address, address, size) } -> std::same_as<Result<void>>;
  { queue.record() } -> std::same_as<Result<Ticket>>;
  { queue.query(ticket) } -> std::same_as<Result<bool>>;
  { queue.wait(ticket) } -> std::same_as<Result<void>>;
};

/// Any device queue, by value. Copies share the queue inside.
class AnyDeviceQueue {
 public:
  /// Takes a handle of any device queue.
  template <typename Q>
    requires(!std::same_as<Q, AnyDeviceQueue> && DeviceQueue<Q>)
  AnyDeviceQueue(Q queue)  // NOLINT: any queue is one
      : queue_{std::make_shared<Model<Q>>(std::move(queue))} {
    // Not part of the concept: for a model that is itself made from an AnyDeviceQueue, the answer
    // would depend on itself.
    static_assert(std::copyable<Q>);
  }

  /// See `DeviceQueue`.
  Result<void> copy_async(std::uintptr_t destination, std::uintptr_t source, Bytes size) {
    return queue_->copy_async(destination, source, size);
  }
  /// See `DeviceQueue`.
  Result<Ticket> record() { return queue_->record(); }
  /// See `DeviceQueue`.
  Result<bool> query(Ticket ticket) { return queue_->query(ticket); }
  /// See `DeviceQueue`.
  Result<void> wait(Ticket ticket) { return queue_->wait(ticket); }

  /// True for copies of one another.
  friend bool operator==(const AnyDeviceQueue&, const AnyDeviceQueue&) = default;

 private:
  struct Interface {
    Interface() = default;
    Interface(const Interface&) = delete;
    Interface& operator=(const Interface&) = delete;
    virtual ~Interface() = default;
    virtual Result<void> copy_async(std::uintptr_t destination, std::uintptr_t source,
                                    Bytes size) = 0;
    virtual Result<Ticket> record() = 0;
    virtual Result<bool> query(Ticket ticket) = 0;
    virtual Result<void> wait(Ticket ticket) = 0;
  };

  template <typename Q>
  struct Model final : Interface {
    explicit Model(Q value) : queue{std::move(value)} {}
    Result<void> copy_async(std::uintptr_t destination, std::uintptr_t source,
                            Bytes size) override {
      return queue.copy_async(destination, source, size);
    }
    Result<Ticket> record() override { return queue.record(); }
    Result<bool> query(Ticket ticket) override { return queue.query(ticket); }
    Result<void> wait(Ticket ticket) override { return queue.wait(ticket); }

    Q queue;
  };

  std::shared_ptr<Interface> queue_;
};

static_assert(DeviceQueue<AnyDeviceQueue>);

}  // namespace kvpool
