// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/block/table_batch.hpp>
#include <kvpool/cuda/cuda_queue.hpp>
#include <kvpool/cuda/device_memory.hpp>
#include <kvpool/cuda/pinned_memory.hpp>
#include <kvpool/kernels/cuda.hpp>
#include <kvpool/kernels/table_update.hpp>

#include "gpu_support.hpp"
#include "support/cache_pools.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace kvpool {
namespace {

using test::must;

/// 32-bit numbers of the device.
std::vector<std::int32_t> read_numbers(CudaQueue& queue, const std::int32_t* address,
                                       std::size_t count) {
  const auto bytes = test::read_bytes(queue, address_of(address), count * 4);
  std::vector<std::int32_t> numbers(count);
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

/// Compares the tables on the device with the manager's.
void check_tables(CudaQueue& queue, const BlockManager& manager, const TableBatch& batch,
                  std::int64_t rows) {
  for (std::size_t g = 0; g < manager.groups().size(); ++g) {
    const GroupId group{static_cast<std::int32_t>(g)};
    const PageTableView view = batch.view(group, 0);
    const auto stride = static_cast<std::size_t>(view.row_stride_entries);
    const auto lengths = read_numbers(queue, view.lengths, static_cast<std::size_t>(rows));
    const auto entries = read_numbers(queue, view.entries, static_cast<std::size_t>(rows) * stride);
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto sequence = batch.sequence(row);
      const GroupView expected = sequence ? manager.view(*sequence, group) : GroupView{};
      const std::int64_t reserved = sequence ? manager.lengths(*sequence).reserved.count() : 0;
      REQUIRE(lengths[static_cast<std::size_t>(row)] == reserved);
      for (auto block = static_cast<std::size_t>(expected.held.first.value());
           block < static_cast<std::size_t>(expected.held.last.value()); ++block) {
        REQUIRE(entries[static_cast<std::size_t>(row) * stride + block] == expected.entries[block]);
      }
    }
  }
}

TEST_CASE("tables on the device follow the manager, one copy and one launch a step",
          "[gpu][table_batch]") {
  constexpr std::int64_t kRows = 32;
  BlockManager manager = test::cache_manager(
      {test::cache_pool("target", PoolRole::kTarget,
                        {{}, {.kind = SpanKind::kSlidingWindow, .extent = Tokens{64}}}, 16, 9'000),
       test::cache_pool("draft", PoolRole::kDraft, {{}}, 32, 4'000)},
      {.max_sequences = Sequences{kRows}, .max_length = Tokens{4'096}});
  auto queue = must(CudaQueue::create(0));
  // Changes of a step do not always fit, so that some steps take two rounds.
  TableBatch batch = must(TableBatch::create(
      manager, {.rows = kRows, .deltas_per_step = 900, .apply = TableApply::kByKernel},
      must(DeviceMemory::create(0)), must(PinnedMemory::create(0)), queue));

  std::mt19937 random{7};
  const auto below = [&](std::uint32_t bound) {
    return static_cast<std::int64_t>(random() % bound);
  };
  std::int32_t first_token = 0;
  std::int64_t rounds = 0;
  for (std::uint64_t step = 1; step <= 200; ++step) {
    REQUIRE(manager.begin_step(Epoch{step}, Instant{static_cast<std::int64_t>(step)}) ==
            BlockStatus::kOk);
    for (std::int64_t row = 0; row < kRows; ++row) {
      const auto sequence = batch.sequence(row);
      if (!sequence.has_value()) {
        const auto prompt = test::tokens_from(first_token += 5'000, 1 + below(1'500));
        REQUIRE(batch.bind(manager, row, test::admitted(manager, prompt)) == BlockStatus::kOk);
      } else if (below(60) == 0) {
        REQUIRE(manager.release(*sequence) == BlockStatus::kOk);
      } else {
        REQUIRE(manager.append(*sequence, Tokens{8}) == BlockStatus::kOk);
        REQUIRE(manager.truncate(*sequence, Tokens{below(9)}) == BlockStatus::kOk);
      }
    }
    do {
      BlockStatus staged = batch.stage(manager);
      while (staged == BlockStatus::kUnsettled) {  // the device is behind
        staged = batch.stage(manager);
      }
      REQUIRE(staged == BlockStatus::kOk);
      must(batch.enqueue());
      must(
          kernels::apply_table_deltas(kernels::table_delta_params(batch.update()), queue.stream()));
      ++rounds;
    } while (batch.has_more());
    if (step % 10 == 0) {
      check_tables(queue, manager, batch, kRows);
    }
    REQUIRE(manager.complete_until(Epoch{step}) == BlockStatus::kOk);
  }
  CHECK(rounds > 200);
}

}  // namespace
}  // namespace kvpool
