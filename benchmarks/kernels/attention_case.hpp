// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// One line of an attention suite: packed attention against the paged read, both over the same pages
// in the same run, outputs poisoned before and compared with the simple kernel's.
#pragma once

#include <kvpool/kernels/attention_path.hpp>

#include "measure.hpp"

#include <cstddef>
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
  /// How it is run; every form is a line.
  struct Form {
    /// Behind the suite's name in the CSV.
    std::string name{};
    kernels::AttentionPath path = kernels::AttentionPath::kPacked;
    /// As in `PackedOptions`.
    int instance = -1;
  };
  std::vector<Form> forms{Form{}};
  /// Whether a peer is measured too, where one is compiled in.
  bool has_peer = false;
};

/// Bytes of the pages of a case with one page table.
std::size_t pool_bytes(const AttentionCase& c);

/// Multiprocessors of GPU 0.
int multiprocessors_of_device();

/// Memory that all cases share; it only grows.
class Pool {
 public:
  [[nodiscard]] void* at_least(std::size_t bytes);
  /// Whether the device has so much memory.
  [[nodiscard]] bool fits(std::size_t bytes) const;

 private:
  std::unique_ptr<DeviceArray> memory_;
};

class Setup;

/// Microseconds of reading all pages of a case once: the fastest of a few grids.
double time_paged_read(const Setup& setup, int per_graph, int replays);

/// Measures a case and writes a line for each of its forms. One that this device has no memory for
/// is skipped, and said so. @return false if outputs were wrong
bool run_case(const AttentionCase& c, const std::string& suite, Pool& pool, Csv& csv);

}  // namespace kvpool::bench
