// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>
#include <kvpool/block/block_status.hpp>
#include <kvpool/block/page_table_view.hpp>
#include <kvpool/core/ids.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/layout/pool_descriptor.hpp>
#include <kvpool/memory/device_queue.hpp>
#include <kvpool/memory/page_memory.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace kvpool {

/// How the changes of a step get from a staging buffer into the tables.
enum class TableApply : std::uint8_t {
  kByCopies,  ///< one copy of the queue per change: no kernel is needed; for tables on the host
  kByKernel,  ///< one copy of the whole buffer, then `apply_table_deltas`, which the engine
              ///< launches
};

/// Size of a batch of page tables.
struct TableBatchOptions {
  /// Rows: sequences in the batch, padded ones included; 1..2^20.
  std::int64_t rows = 256;
  /// Staging buffers, 1..64. One is filled while copies from the others are under way: with a
  /// single one `stage` is refused until the step before has been copied.
  std::int64_t staging_buffers = 3;
  /// Changes that a staging buffer has room for, over all groups: at least the columns of one row;
  /// 0 for these and two more for every row and group.
  std::int64_t deltas_per_step = 0;
  /// See `TableApply`.
  TableApply apply = TableApply::kByCopies;
};

/// Entries of a line, the piece that all tables of a batch consist of: 256 bytes.
inline constexpr std::int64_t kTableLineEntries = 64;

/// What `stage` wrote. The tables of all groups are lines of one table, one group after the other,
/// so that one launch brings all of them up to date: a delta's `row` is a line, and its `column` a
/// place in the line.
struct StagedTables {
  /// Changed entries; no place occurs twice.
  std::span<const PageTableDelta> deltas{};
  /// All lengths, those of `TableBatch::view` one after the other.
  std::span<const std::int32_t> lengths{};
};

/// Where the device finds a step's changes, and where they belong: the arguments of
/// `apply_table_deltas`, the same in every step, so that its launch may be captured.
struct TableUpdate {
  /// [lines, row_stride_entries] Tables of all groups.
  std::int32_t* entries = nullptr;
  /// [rows] Lengths of all groups.
  std::int32_t* lengths = nullptr;
  /// [delta_capacity] Changes, as the copy of `enqueue` left them.
  const PageTableDelta* deltas = nullptr;
  /// [1] How many of them count.
  const std::int32_t* delta_count = nullptr;
  /// [rows] New lengths.
  const std::int32_t* new_lengths = nullptr;
  /// Entries of a line.
  std::int64_t row_stride_entries = kTableLineEntries;
  /// Changes that there is room for.
  std::int32_t delta_capacity = 0;
  /// Lengths, over all groups.
  std::int32_t rows = 0;
};

/// Memory that a batch of tables takes, before it is rounded up to granules.
struct TableMemory {
  /// Of the tables' memory: `TableBatch::table_bytes`.
  Bytes tables{};
  /// Of the staging buffers' memory.
  Bytes staging{};

  /// Field by field.
  friend constexpr bool operator==(const TableMemory&, const TableMemory&) = default;
};

/// What `TableBatch::create` will take for a manager of these pools, before there are any: tables
/// of the device are not part of a plan's KV budget, so an engine takes them off before it plans.
/// It does not depend on how many pages the pools have.
/// @return the bytes, or what `create` would say of an option
[[nodiscard]] Result<TableMemory> required_table_memory(std::span<const PoolDescriptor> pools,
                                                        const BlockManagerOptions& manager,
                                                        const TableBatchOptions& options);

/// The page tables of a batch, for every group of a manager: the dense tables that kernels read,
/// and a ring of staging buffers through which a step's changes reach them.
///
/// A step: `stage` writes what changed into the next buffer, `enqueue` copies it. The kernels that
/// are enqueued afterwards read the tables of this step, those before it the tables of the step
/// before. A buffer is written again only when the copies from it have completed.
///
/// Threads: one caller at a time, the manager's. `stage` does not allocate, lock or throw.
class TableBatch {
 public:
  /// Empty tables for a batch.
  /// @param tables memory of the tables, where `queue` copies to: of the device, or of the host
  /// @param staging memory of the staging buffers, which this process writes: pinned, for a GPU
  /// @param queue in whose order tables change and kernels read them
  /// @return the batch; `kInvalidArgument` for an option out of its range, `kExhausted` when a
  ///   memory gives less
  [[nodiscard]] static Result<TableBatch> create(const BlockManager& manager,
                                                 const TableBatchOptions& options,
                                                 AnyPageMemory tables, AnyPageMemory staging,
                                                 AnyDeviceQueue queue);

  TableBatch(TableBatch&& other) noexcept;
  TableBatch& operator=(TableBatch&& other) noexcept;
  TableBatch(const TableBatch&) = delete;
  TableBatch& operator=(const TableBatch&) = delete;
  /// Waits for the copies that were enqueued. Kernels that read the tables have to be done.
  ~TableBatch();

  /// Puts a sequence into a row; all its entries count as changed.
  /// @pre the sequence is in no other row, of any batch
  /// @return `kStaleId`, or `kInvalid` for a row that does not exist or is taken
  BlockStatus bind(BlockManager& manager, std::int64_t row, SequenceId sequence) noexcept;
  /// Empties a row. @return `kInvalid` for a row that does not exist
  BlockStatus unbind(std::int64_t row) noexcept;
  /// Tokens of a row that kernels see from the next `stage` on: fewer than are reserved where a
  /// step computes a part of a prompt, or look-ahead slots are not used. Empty, as after `bind`,
  /// for all that are reserved. Tables of encoders and states do not depend on it.
  /// @return `kInvalid` for a row that does not exist, or a negative number
  BlockStatus set_length(std::int64_t row, std::optional<Tokens> tokens) noexcept;
  /// The sequence of a row, if there is one. After the next `stage` a row whose sequence has ended
  /// is empty. @pre 0 <= row < rows
  [[nodiscard]] std::optional<SequenceId> sequence(std::int64_t row) const noexcept;

  /// Writes the changes of all rows into the next staging buffer. Rows whose sequence has ended are
  /// emptied.
  /// @return `kUnsettled`, with nothing changed, when that buffer's copies have not completed;
  ///   `kInvalid` when what was staged before has not been enqueued, or the queue has failed, which
  ///   its next call explains
  BlockStatus stage(BlockManager& manager) noexcept;
  /// True when not all changes fitted into the buffer: rows that are not up to date keep their old
  /// lengths. Stage and enqueue again before the step's kernels.
  [[nodiscard]] bool has_more() const noexcept;
  /// What the last `stage` wrote; valid until the next one.
  [[nodiscard]] StagedTables staged() const noexcept;
  /// Enqueues the copies of what was staged. After a failure it may be called again.
  /// @return `kInvalidArgument` when nothing was staged, or what the queue says
  Result<void> enqueue();

  /// The tables of a group, for kernels. A state is a block of one token, and its length 1.
  /// @param base_address the pool's, as `PoolSet::base` has it
  /// @pre the group is one of the manager's
  [[nodiscard]] PageTableView view(GroupId group, std::uint64_t base_address) const noexcept;
  /// Arguments of `apply_table_deltas`; empty unless tables are updated `kByKernel`.
  [[nodiscard]] TableUpdate update() const noexcept;
  /// Bytes of the tables and, for `kByKernel`, of the place where changes arrive.
  [[nodiscard]] Bytes table_bytes() const noexcept;

 private:
  struct Impl;
  explicit TableBatch(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvpool
