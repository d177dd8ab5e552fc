// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// What an engine tells a back-end about a step: plain arrays, one behind the other in one piece of
// memory, so that a step is one copy to a GPU. The same offsets serve the host's piece and the
// device's.
#pragma once

#include "model.hpp"

#include <cstdint>
#include <vector>

namespace example {

/// Arrays of a pass over tokens of any number for each row: chunks of prompts, and single tokens of
/// sequences without drafter.
struct ExtendArrays {
  std::int32_t* tokens = nullptr;     ///< [capacity] token ids, by row
  std::int32_t* positions = nullptr;  ///< [capacity]
  std::int32_t* q_indptr = nullptr;   ///< [rows + 1] first query token of each row
  std::int32_t* lengths = nullptr;    ///< [rows] tokens that a row's last query token sees
  std::int64_t* slots = nullptr;      ///< [groups, capacity] where keys and values go
};

/// Arrays of a speculative step. Every row has `kBlock` query tokens; idle ones have length 0.
struct BlockArrays {
  std::int32_t* anchors = nullptr;  ///< [rows] the last token, which is in no cache yet
  std::int32_t* firsts = nullptr;   ///< [rows] its position
  /// [rows, kDrafts] Tokens to propose instead of the drafter's; -1: the drafter's.
  std::int32_t* proposals = nullptr;
  std::int32_t* lengths = nullptr;        ///< [rows] tokens with the whole block; 0 for idle rows
  std::int32_t* draft_lengths = nullptr;  ///< [rows] those that the drafter's block sees
  std::int64_t* slots = nullptr;          ///< [groups, rows * kBlock]
};

/// Where the arrays lie.
class StepLayout {
 public:
  /// @param capacity tokens of the largest `ExtendArrays`
  StepLayout(std::int64_t rows, std::int64_t groups, std::int64_t capacity);

  /// Bytes of the piece of memory; at an address that is a multiple of 256.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t groups() const { return groups_; }
  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  /// The arrays in a piece of memory. Both use the same one: a step copies one, then the other.
  [[nodiscard]] ExtendArrays extend(std::uintptr_t base) const;
  /// See above.
  [[nodiscard]] BlockArrays block(std::uintptr_t base) const;

 private:
  std::int64_t rows_;
  std::int64_t groups_;
  std::int64_t capacity_;
  std::int64_t bytes_;
};

/// Sets everything to what idle rows have.
void clear_block(const StepLayout& layout, const BlockArrays& arrays);

/// What a pass computed.
struct Extended {
  /// [tokens] The target's choice behind each token.
  std::vector<std::int32_t> best{};
};

/// What a speculative step computed.
struct Verified {
  /// [rows, kDrafts] What the drafter said.
  std::vector<std::int32_t> drafted{};
  /// [rows, kDrafts] What was verified: the drafter's tokens, or those given.
  std::vector<std::int32_t> proposed{};
  /// [rows, kBlock] The target's choice behind each token of the block.
  std::vector<std::int32_t> best{};
};

}  // namespace example
