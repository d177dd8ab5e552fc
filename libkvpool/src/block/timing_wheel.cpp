// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "block/timing_wheel.hpp"

#include <algorithm>
#include <bit>

namespace kvpool::block {

void TimingWheel::arm(std::uint32_t i, std::int64_t at) noexcept {
  timers_[i].at = std::max(to_ticks(at), now_);
  insert(i);
}

void TimingWheel::disarm(std::uint32_t i) noexcept {
  Timer& timer = timers_[i];
  if (timer.place == 0) {
    return;
  }
  const std::size_t wheel = (timer.place - 1) / kSlots;
  const std::size_t slot = (timer.place - 1) % kSlots;
  LinkedList& list = lists_[wheel][slot];
  list.erase(i, [this](std::uint32_t j) -> Link& { return timers_[j].link; });
  if (list.empty()) {
    used_[wheel] &= ~(std::uint64_t{1} << slot);
  }
  timer.place = 0;
}

void TimingWheel::insert(std::uint32_t i) noexcept {
  Timer& timer = timers_[i];
  // The wheel of the highest digit (6 bits) in which the time differs from now.
  const std::uint64_t difference = timer.at ^ now_;
  const std::size_t wheel =
      difference == 0 ? 0 : (static_cast<std::size_t>(std::bit_width(difference)) - 1) / 6;
  const auto slot = static_cast<std::size_t>(timer.at >> (6 * wheel) & (kSlots - 1));
  lists_[wheel][slot].push_back(i, [this](std::uint32_t j) -> Link& { return timers_[j].link; });
  used_[wheel] |= std::uint64_t{1} << slot;
  timer.place = static_cast<std::uint32_t>(1 + wheel * kSlots + slot);
}

std::uint32_t TimingWheel::next_due(std::uint64_t target) noexcept {
  if (target < now_) {
    return kNil;
  }
  while (true) {
    // Slots of a wheel lie after the clock's digit (or at it, on the first), and every wheel's come
    // before those of the next: the first one in use is the earliest.
    std::size_t wheel = 0;
    while (wheel < kWheels && used_[wheel] == 0) {
      ++wheel;
    }
    if (wheel == kWheels) {
      now_ = target;
      return kNil;
    }
    const auto slot = static_cast<std::uint64_t>(std::countr_zero(used_[wheel]));
    const std::uint64_t shift = 6 * wheel;
    const std::uint64_t above = shift + 6 >= 64 ? 0 : now_ >> (shift + 6) << (shift + 6);
    const std::uint64_t start = above | slot << shift;
    if (start > target) {
      now_ = target;
      return kNil;
    }
    now_ = std::max(now_, start);
    LinkedList& list = lists_[wheel][slot];
    if (wheel == 0) {
      const std::uint32_t i = list.head;
      disarm(i);
      return i;
    }
    // The whole slot moves down before anything fires, so that the earliest is seen first.
    while (!list.empty()) {
      const std::uint32_t i = list.head;
      disarm(i);
      insert(i);
    }
  }
}

}  // namespace kvpool::block
