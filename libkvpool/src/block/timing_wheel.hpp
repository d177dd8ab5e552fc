// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block/level_lists.hpp"
#include "block/reserved_array.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvpool::block {

/// Timers of elements 0..n-1 in a hierarchy of wheels: arming, disarming and firing take constant
/// work (a timer moves down at most once per wheel), however far `now` jumps.
class TimingWheel {
 public:
  TimingWheel() noexcept = default;
  /// No timer armed, the clock at its earliest.
  explicit TimingWheel(std::size_t elements) noexcept : timers_{elements} {}

  /// False when the system did not give the address space.
  [[nodiscard]] bool ok() const noexcept { return timers_.ok(); }
  /// Arms the timer of element `i` for `at`; one that is due already fires on the next `advance`.
  /// @pre it is not armed
  void arm(std::uint32_t i, std::int64_t at) noexcept;
  /// Disarms the timer of element `i`, if it is armed.
  void disarm(std::uint32_t i) noexcept;
  /// True while the timer of element `i` is armed.
  [[nodiscard]] bool armed(std::uint32_t i) const noexcept { return timers_[i].place != 0; }
  /// Moves the clock to `now` and calls `fire(i)` for every timer that is due. `fire` may arm and
  /// disarm. Does nothing when `now` is not later than before.
  template <typename Fire>
  void advance(std::int64_t now, Fire&& fire) noexcept {
    const std::uint64_t target = to_ticks(now);
    while (true) {
      const std::uint32_t i = next_due(target);
      if (i == kNil) {
        return;
      }
      fire(i);
    }
  }
  /// Bytes when all of it has been touched.
  [[nodiscard]] std::int64_t bytes() const noexcept { return timers_.bytes(); }

 private:
  static constexpr std::size_t kSlots = 64;
  static constexpr std::size_t kWheels = 11;

  struct Timer {
    std::uint64_t at;
    Link link;
    /// 1 + wheel * kSlots + slot; 0 when not armed.
    std::uint32_t place;
  };

  /// Signed time as unsigned, in the same order.
  [[nodiscard]] static std::uint64_t to_ticks(std::int64_t time) noexcept {
    return static_cast<std::uint64_t>(time) ^ (std::uint64_t{1} << 63);
  }
  void insert(std::uint32_t i) noexcept;
  /// Disarms and returns a timer due at `target`, or moves the clock there and returns `kNil`.
  std::uint32_t next_due(std::uint64_t target) noexcept;

  ReservedArray<Timer> timers_;
  std::array<std::array<LinkedList, kSlots>, kWheels> lists_;
  std::array<std::uint64_t, kWheels> used_{};
  std::uint64_t now_ = 0;
};

}  // namespace kvpool::block
