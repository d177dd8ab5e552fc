// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// One line of an attention suite: packed attention against the paged read, both over the same pages
// in the same run, outputs poisoned before and compared with the simple kernel's.
#pragma once

#include "measure.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kvpool::bench {

/// What is measured.
struct AttentionCase {
  int q_heads = 8, kv_heads = 2, head_dim = 64, page = 32;
  bool hnd = true;
  int q_len = 7;
  int length = 32'768;
  int batch = 1;
  bool causal = false;
  int window_left = -1;
  /// Layers that share the pages; one of them is read.
  int layers = 1;
  bool layer_major = false;
  /// Lengths of the rows, where they differ; `batch` and `length` (the longest) agree with them.
  std::vector<std::int32_t> lengths{};
  /// As in `PackedOptions`.
  int split_tokens = 0;
};

/// Memory that all cases share; it only grows.
class Pool {
 public:
  [[nodiscard]] void* at_least(std::size_t bytes);

 private:
  std::unique_ptr<DeviceArray> memory_;
};

/// Measures a case and writes its line. @return false if outputs were wrong
bool run_case(const AttentionCase& c, const std::string& suite, Pool& pool, Csv& csv);

}  // namespace kvpool::bench
