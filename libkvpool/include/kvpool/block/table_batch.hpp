// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>
#include <kvpool/block/block_status.hpp>
#include <kvpool/block/page_table_view.hpp>
#include <kvpool/core/ids.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/memory/device_queue.hpp>

#include <cstdint>
#include <memory>
#include <span>

namespace kvpool {

/// Size and memory of a batch of page tables.
struct TableBatchOptions {
  /// Rows: sequences in the batch, padded ones included.
  std::int64_t rows = 256;
  /// Staging buffers. One is filled while the copies of the others are under way, so 2 or more.
  std::int64_t staging_buffers = 3;
  /// Deltas that a step may have, over all groups; 0 for a number derived from rows and groups.
  /// What does not fit stays for the next `stage`.
  std::int64_t deltas_per_step = 0;
};

/// What a step changes in the tables of one group, in a staging buffer.
struct StagedGroup {
  /// Changed entries; no place occurs twice.
  std::span<const PageTableDelta> deltas{};
  /// [rows] Lengths of the sequences in this group; 0 for rows that nothing is bound to.
  std::span<const std::int32_t> lengths{};
};

/// The page tables of a batch, for every group of a manager: the dense tables that kernels read,
/// and a ring of staging buffers through which a step's changes reach them.
///
/// A step: `stage` writes what changed into the next buffer; `enqueue` copies it to the device; on
/// a GPU the engine then runs `apply_table_deltas` on the copied buffer, without one `apply` does
/// so on the host. A buffer is written again only when the copies from it have completed.
///
/// Threads: one caller at a time, the manager's. `stage` does not allocate, lock or throw.
class TableBatch {
 public:
  /// Empty tables for a batch.
  /// @return the batch; `kInvalidArgument` for an option out of its range
  [[nodiscard]] static Result<TableBatch> create(const BlockManager& manager,
                                                 const TableBatchOptions& options);

  TableBatch(TableBatch&& other) noexcept;
  TableBatch& operator=(TableBatch&& other) noexcept;
  TableBatch(const TableBatch&) = delete;
  TableBatch& operator=(const TableBatch&) = delete;
  ~TableBatch();

  /// Puts a sequence into a row; all its entries count as changed.
  /// @return `kStaleId`, or `kInvalid` for a row that does not exist or is taken
  BlockStatus bind(BlockManager& manager, std::int64_t row, SequenceId sequence) noexcept;
  /// Empties a row. @return `kInvalid` for a row that does not exist
  BlockStatus unbind(std::int64_t row) noexcept;
  /// Writes the changes of all rows into the next staging buffer. Rows whose sequence has ended are
  /// emptied.
  /// @return `kUnsettled`, with nothing changed, when that buffer's copies have not completed
  BlockStatus stage(BlockManager& manager, AnyDeviceQueue& queue) noexcept;
  /// What the last `stage` wrote for a group.
  [[nodiscard]] StagedGroup staged(GroupId group) const noexcept;
  /// Enqueues the copies of the buffer that `stage` filled last, and the deltas' application on the
  /// host's tables where they are host memory.
  Result<void> enqueue(AnyDeviceQueue& queue);
  /// The tables of a group, for kernels. `base_address` is the pool's, which the caller knows.
  [[nodiscard]] PageTableView view(GroupId group, std::uint64_t base_address) const noexcept;

 private:
  struct Impl;
  explicit TableBatch(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvpool
