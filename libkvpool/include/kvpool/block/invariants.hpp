// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/ids.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool {

/// How much `BlockManager::check_invariants` looks at.
enum class CheckLevel : std::uint8_t {
  kCheap,       ///< counters against each other: constant work
  kPools,       ///< every page of every pool: linear in the pools
  kEverything,  ///< every sequence, run and list against every page
};

/// What is wrong with a page, or with the manager.
enum class FindingKind : std::uint8_t {
  kCounter,       ///< two counts of one thing differ
  kLeak,          ///< a page is handed out and nobody holds it
  kUseAfterFree,  ///< somebody holds a page that is free
  kDoubleUse,     ///< two hold a page that is not shared
  kStructure,     ///< a list, tree or table contradicts itself
};

/// Stable lower-case name: `counter`, `leak`, `use_after_free`, `double_use`, `structure`.
[[nodiscard]] std::string_view to_string(FindingKind kind) noexcept;

/// One broken invariant.
struct Finding {
  /// What is wrong.
  FindingKind kind = FindingKind::kStructure;
  /// One line that names sequence, group and step where they are known.
  std::string message{};
  /// Group of the page, if it is about one.
  std::optional<GroupId> group{};
  /// The page, if it is about one.
  std::optional<PageId> page{};
  /// The sequence that had the page last, if it is known.
  std::optional<SequenceId> sequence{};
  /// Step in which the page was handed out or given back last, if it is known.
  std::optional<Epoch> step{};
};

}  // namespace kvpool
