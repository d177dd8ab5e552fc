// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>
#include <kvpool/block/table_batch.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/kernels/page_params.hpp>
#include <kvpool/memory/device_queue.hpp>
#include <kvpool/memory/page_memory.hpp>
#include <kvpool/pool/pool_set.hpp>

#include "model.hpp"
#include "step_arrays.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace example {

/// Where kvpool's memory and queue are, before anything is allocated.
struct BackendMemory {
  kvpool::AnyPageMemory pools;
  kvpool::AnyPageMemory tables;
  kvpool::AnyPageMemory staging;
  kvpool::AnyDeviceQueue queue;
  kvpool::TableApply apply = kvpool::TableApply::kByCopies;
};

/// What a back-end runs on.
struct BackendSetup {
  const Models* models = nullptr;
  const kvpool::PoolSet* pools = nullptr;
  const kvpool::BlockManager* manager = nullptr;
  /// Of the batch.
  const kvpool::TableBatch* tables = nullptr;
  StepLayout layout{0, 0, 0};
  /// Longest sequence.
  std::int64_t max_length = 0;
};

/// How often speculative steps were captured and replayed, and what a capture took.
struct GraphUse {
  std::int64_t captures = 0;
  std::int64_t replays = 0;
  /// Of the captured graph: kernels and copies, and allocations among them.
  std::int64_t nodes = 0;
  std::int64_t allocations = 0;
  /// By which what kvpool's memories hold grew meanwhile, and the device's free memory shrank.
  kvpool::Bytes held{};
  kvpool::Bytes taken{};
};

/// The models on a processor. An engine calls it in the order of a step: copies of pages, tables,
/// then passes. Work may still be under way when a call returns, unless it returns results.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual BackendMemory memory() const = 0;
  /// Allocates what passes of the largest step need. Nothing is allocated afterwards.
  virtual kvpool::Result<void> set_up(const BackendSetup& setup) = 0;
  /// Address, on the host, of the arrays of the next pass.
  [[nodiscard]] virtual std::uintptr_t arrays() const = 0;
  /// Fills a page that was given back with NaN.
  virtual void poison(std::uintptr_t address, kvpool::Bytes bytes) noexcept = 0;

  /// Copies pages of one group. @param pairs no more than the manager lists
  virtual kvpool::Result<void> copy_pages(const kvpool::CacheGroup& group,
                                          std::span<const kvpool::kernels::PageCopyPair> pairs) = 0;
  /// What `TableBatch::enqueue` leaves to do.
  virtual kvpool::Result<void> apply_tables(const kvpool::TableUpdate& update) = 0;
  /// Runs `tokens` tokens of `ExtendArrays` through the target, and writes the drafter's cache.
  virtual kvpool::Result<Extended> extend(std::int32_t tokens, std::int32_t most) = 0;
  /// Runs `BlockArrays`: the drafter's block, then the target over it.
  virtual kvpool::Result<Verified> speculate() = 0;
  /// All 0 where nothing is captured.
  [[nodiscard]] virtual GraphUse graph() const { return {}; }
};

/// The models on the host: kvpool's reference kernels.
[[nodiscard]] std::unique_ptr<Backend> make_cpu_backend();

/// The models on GPU 0: kvpool's kernels, and the simplest ones for the products. A speculative
/// step is captured once and replayed.
/// @return `unsupported` without a GPU, or in a build without CUDA
[[nodiscard]] kvpool::Result<std::unique_ptr<Backend>> make_cuda_backend();

}  // namespace example
