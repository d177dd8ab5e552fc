// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "step_arrays.hpp"

#include "places.hpp"

#include <algorithm>

namespace example {
namespace {

ExtendArrays take_extend(Places& places, std::int64_t rows, std::int64_t groups,
                         std::int64_t capacity) {
  ExtendArrays arrays;
  arrays.tokens = places.take<std::int32_t>(capacity);
  arrays.positions = places.take<std::int32_t>(capacity);
  arrays.q_indptr = places.take<std::int32_t>(rows + 1);
  arrays.lengths = places.take<std::int32_t>(rows);
  arrays.slots = places.take<std::int64_t>(groups * capacity);
  return arrays;
}

BlockArrays take_block(Places& places, std::int64_t rows, std::int64_t groups) {
  BlockArrays arrays;
  arrays.anchors = places.take<std::int32_t>(rows);
  arrays.firsts = places.take<std::int32_t>(rows);
  arrays.proposals = places.take<std::int32_t>(rows * kDrafts);
  arrays.lengths = places.take<std::int32_t>(rows);
  arrays.draft_lengths = places.take<std::int32_t>(rows);
  arrays.slots = places.take<std::int64_t>(groups * rows * kBlock);
  return arrays;
}

}  // namespace

StepLayout::StepLayout(std::int64_t rows, std::int64_t groups, std::int64_t capacity)
    : rows_{rows}, groups_{groups}, capacity_{capacity}, bytes_{0} {
  Places extend{0};
  take_extend(extend, rows, groups, capacity);
  Places block{0};
  take_block(block, rows, groups);
  bytes_ = static_cast<std::int64_t>(std::max(extend.next(), block.next()));
}

ExtendArrays StepLayout::extend(std::uintptr_t base) const {
  Places places{base};
  return take_extend(places, rows_, groups_, capacity_);
}

BlockArrays StepLayout::block(std::uintptr_t base) const {
  Places places{base};
  return take_block(places, rows_, groups_);
}

void clear_block(const StepLayout& layout, const BlockArrays& arrays) {
  std::fill_n(arrays.anchors, layout.rows(), 0);
  std::fill_n(arrays.firsts, layout.rows(), 0);
  std::fill_n(arrays.proposals, layout.rows() * kDrafts, -1);
  std::fill_n(arrays.lengths, layout.rows(), 0);
  std::fill_n(arrays.draft_lengths, layout.rows(), 0);
  std::fill_n(arrays.slots, layout.groups() * layout.rows() * kBlock, -1);
}

}  // namespace example
