// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "step_arrays.hpp"

#include <algorithm>

namespace example {
namespace {

/// Hands out arrays of a piece of memory, one behind the other, each aligned to 16 bytes.
class Places {
 public:
  explicit Places(std::uintptr_t base) : next_{base} {}

  template <typename T>
  T* take(std::int64_t count) {
    T* const place = reinterpret_cast<T*>(next_);  // NOLINT: memory of a GPU, perhaps
    const std::uintptr_t bytes = static_cast<std::uintptr_t>(count) * sizeof(T);
    next_ += (bytes + 15) / 16 * 16;
    return place;
  }
  [[nodiscard]] std::uintptr_t next() const { return next_; }

 private:
  std::uintptr_t next_;
};

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
