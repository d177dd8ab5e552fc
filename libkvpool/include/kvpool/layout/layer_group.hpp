// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/units.hpp>
#include <kvpool/layout/layer_geometry.hpp>

#include <span>
#include <string>
#include <vector>

namespace kvpool {

/// Caches that live equally long and therefore share one page table: one page holds the same tokens
/// of all of them, whatever their sizes. States and tails form a group of slots: one slot per
/// sequence or snapshot.
struct LayerGroup {
  /// Positions that every member keeps.
  Span span{};
  /// True for the group of per-sequence slots (states, tails).
  bool is_state = false;
  /// Members, in layer order.
  std::vector<LayerGeometry> layers{};

  /// Field by field.
  friend bool operator==(const LayerGroup&, const LayerGroup&) = default;
};

/// Name of a group inside its pool: `full`, `sliding_window_1024`, `chunked_8192`, `cross`,
/// `state`.
[[nodiscard]] std::string group_name(const LayerGroup& group);

/// Collects caches by how long they live: full first, then windows and chunks by extent, then
/// cross, then state.
[[nodiscard]] std::vector<LayerGroup> group_layers(std::span<const LayerGeometry> layers);

/// Pages of one sequence of `length` tokens in a group.
/// full: ceil(L/p). window w: at most ceil((w - 1 + lookahead)/p) + 1. chunk c: ceil(c/p), one more
/// when p does not divide c. cross: ceil(encoder tokens/p) once L > 0. state: one slot.
/// @param length tokens of the sequence, non-negative
/// @param tokens_per_block p; ignored for states
/// @param lookahead uncommitted tokens (draft tokens) that the window must hold beside its own
[[nodiscard]] Pages pages_of_sequence(const LayerGroup& group, Tokens length,
                                      Tokens tokens_per_block, Tokens lookahead) noexcept;

}  // namespace kvpool
