// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace kvpool::block {

/// No element.
inline constexpr std::uint32_t kNil = 0xFFFF'FFFF;

/// Neighbours in a list.
struct Link {
  std::uint32_t previous = kNil;
  std::uint32_t next = kNil;
};

/// A doubly linked list over elements that carry their own links; `link(i)` returns element i's.
struct LinkedList {
  std::uint32_t head = kNil;
  std::uint32_t tail = kNil;

  [[nodiscard]] bool empty() const noexcept { return head == kNil; }

  template <typename LinkOf>
  void push_back(std::uint32_t i, const LinkOf& link) noexcept {
    link(i) = {.previous = tail, .next = kNil};
    (tail == kNil ? head : link(tail).next) = i;
    tail = i;
  }
  template <typename LinkOf>
  void push_front(std::uint32_t i, const LinkOf& link) noexcept {
    link(i) = {.previous = kNil, .next = head};
    (head == kNil ? tail : link(head).previous) = i;
    head = i;
  }
  template <typename LinkOf>
  void erase(std::uint32_t i, const LinkOf& link) noexcept {
    const Link at = link(i);
    (at.previous == kNil ? head : link(at.previous).next) = at.next;
    (at.next == kNil ? tail : link(at.next).previous) = at.previous;
  }
};

/// Lists by level, lowest first: what is evicted next is found in two words.
class LevelLists {
 public:
  /// Levels: 0 is for what goes before everything else, 1 + priority for the rest.
  static constexpr std::size_t kLevels = 102;

  /// The next element to go, or `kNil`.
  [[nodiscard]] std::uint32_t front() const noexcept {
    const std::size_t level = lowest();
    return level == kLevels ? kNil : lists_[level].head;
  }
  template <typename LinkOf>
  void push_back(std::uint32_t i, std::size_t level, const LinkOf& link) noexcept {
    lists_[level].push_back(i, link);
    used_[level / 64] |= std::uint64_t{1} << (level % 64);
  }
  template <typename LinkOf>
  void push_front(std::uint32_t i, std::size_t level, const LinkOf& link) noexcept {
    lists_[level].push_front(i, link);
    used_[level / 64] |= std::uint64_t{1} << (level % 64);
  }
  template <typename LinkOf>
  void erase(std::uint32_t i, std::size_t level, const LinkOf& link) noexcept {
    lists_[level].erase(i, link);
    if (lists_[level].empty()) {
      used_[level / 64] &= ~(std::uint64_t{1} << (level % 64));
    }
  }
  /// The list of one level.
  [[nodiscard]] const LinkedList& level(std::size_t level) const noexcept { return lists_[level]; }

 private:
  [[nodiscard]] std::size_t lowest() const noexcept {
    if (used_[0] != 0) {
      return static_cast<std::size_t>(std::countr_zero(used_[0]));
    }
    return used_[1] != 0 ? 64 + static_cast<std::size_t>(std::countr_zero(used_[1])) : kLevels;
  }

  std::array<LinkedList, kLevels> lists_;
  std::array<std::uint64_t, 2> used_{};
};

}  // namespace kvpool::block
