// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/block/table_batch.hpp>

#include "block/owned_region.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace kvpool {
namespace {

constexpr std::int64_t kMaxRows = std::int64_t{1} << 20;
constexpr std::int64_t kMaxStagingBuffers = 64;
constexpr std::int32_t kNoLimit = std::numeric_limits<std::int32_t>::max();
/// Alignment of the arrays inside a buffer: a line.
constexpr std::int64_t kLineBytes = kTableLineEntries * 4;

/// Groups whose sequences have equal lengths share an array of lengths.
enum class LengthKind : std::uint8_t { kTarget, kDraft, kEncoder, kState, kDraftState };
constexpr std::size_t kLengthKinds = 5;

LengthKind length_kind(const CacheGroup& group) {
  switch (group.kind) {
    case GroupKind::kCross: return LengthKind::kEncoder;
    case GroupKind::kState: return group.is_draft ? LengthKind::kDraftState : LengthKind::kState;
    case GroupKind::kFull:
    case GroupKind::kSlidingWindow:
    case GroupKind::kChunked: break;
  }
  return group.is_draft ? LengthKind::kDraft : LengthKind::kTarget;
}

std::int64_t columns_of(const CacheGroup& group, const BlockManagerOptions& options) {
  if (group.kind == GroupKind::kState) {
    return 1;
  }
  Tokens longest = options.max_length;
  if (group.max_len.has_value()) {
    longest = std::min(longest, *group.max_len);
  }
  return std::max<std::int64_t>(pages_ceil(longest, group.tokens_per_block).count(), 1);
}

std::int64_t in_lines(std::int64_t bytes) { return ceil_div(bytes, kLineBytes) * kLineBytes; }

Error out_of_range(std::string_view key, std::int64_t value, std::int64_t least,
                   std::int64_t most) {
  return {.code = ErrorCode::kInvalidArgument,
          .message = fmt::format("{} must be {} to {}, not {}", key, least, most, value),
          .key = std::string{key},
          .value = fmt::format("{}", value)};
}

/// Columns [first, last) of one row in one group, and the first one's entry while it is valid.
struct Columns {
  std::int32_t first;
  std::int32_t last;
  const std::int32_t* entries;
};

/// Where the table of a group is, and how its blocks are counted.
struct GroupTable {
  /// Its first line among those of all groups.
  std::int64_t first_line = 0;
  /// Lines of a row.
  std::int64_t row_lines = 0;
  /// Its array of lengths.
  std::int64_t lengths = 0;
  std::int64_t unit_bytes = 0;
  std::int32_t tokens_per_block = 0;
};

/// Lengths of one kind, and the groups that have them, as bits.
struct LengthArray {
  LengthKind kind = LengthKind::kTarget;
  std::uint64_t groups = 0;
};

/// How a batch of tables lies in its memories.
struct TableLayout {
  /// By group.
  std::vector<GroupTable> tables{};
  /// For each kind of length: its place among the arrays, or -1.
  std::array<std::int64_t, kLengthKinds> array_of_kind{-1, -1, -1, -1, -1};
  std::array<LengthArray, kLengthKinds> arrays{};
  std::int64_t length_arrays = 0;
  std::int64_t deltas_per_step = 0;
  /// Of the deltas in a staging buffer.
  std::int64_t deltas_offset = 0;
  std::int64_t buffer_bytes = 0;
  std::int64_t entry_bytes = 0;
  std::int64_t length_bytes = 0;
  std::int64_t table_bytes = 0;
};

Result<TableLayout> lay_out(std::span<const CacheGroup> groups,
                            std::span<const PoolDescriptor> pools,
                            const BlockManagerOptions& manager, const TableBatchOptions& options) {
  if (options.rows < 1 || options.rows > kMaxRows) {
    return out_of_range("rows", options.rows, 1, kMaxRows);
  }
  if (options.staging_buffers < 1 || options.staging_buffers > kMaxStagingBuffers) {
    return out_of_range("staging_buffers", options.staging_buffers, 1, kMaxStagingBuffers);
  }
  TableLayout layout;
  // At most 2^20 rows of 64 groups with 2^30 columns: far below 64 bits.
  std::int64_t lines = 0;
  std::int64_t row_columns = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const CacheGroup& group = groups[g];
    const auto kind = static_cast<std::size_t>(length_kind(group));
    if (layout.array_of_kind[kind] < 0) {
      layout.arrays[static_cast<std::size_t>(layout.length_arrays)].kind = length_kind(group);
      layout.array_of_kind[kind] = layout.length_arrays++;
    }
    layout.arrays[static_cast<std::size_t>(layout.array_of_kind[kind])].groups |= std::uint64_t{1}
                                                                                  << g;
    const std::int64_t group_columns = columns_of(group, manager);
    const std::int64_t row_lines = ceil_div(group_columns, kTableLineEntries);
    layout.tables.push_back(
        {.first_line = lines,
         .row_lines = row_lines,
         .lengths = layout.array_of_kind[kind],
         .unit_bytes = pools[static_cast<std::size_t>(group.pool.value())].unit_bytes.count(),
         .tokens_per_block = static_cast<std::int32_t>(
             group.kind == GroupKind::kState ? 1 : group.tokens_per_block.count())});
    lines += row_lines * options.rows;
    row_columns += group_columns;
  }
  const auto groups_count = static_cast<std::int64_t>(groups.size());
  layout.deltas_per_step =
      options.deltas_per_step != 0
          ? options.deltas_per_step
          : std::min<std::int64_t>(row_columns + 2 * options.rows * groups_count, kNoLimit);
  if (layout.deltas_per_step < row_columns || layout.deltas_per_step > kNoLimit) {
    return out_of_range("deltas_per_step", layout.deltas_per_step, row_columns, kNoLimit);
  }
  const std::int64_t lengths = layout.length_arrays * options.rows;
  // Lines and lengths are counted in 32 bits by deltas and kernels.
  if (lines > kNoLimit || lengths > kNoLimit) {
    return Error{.code = ErrorCode::kOutOfRange,
                 .message = fmt::format("tables of {} rows and {} groups have more than 2^31 lines "
                                        "of {} entries; use fewer rows or a smaller max_length",
                                        options.rows, groups_count, kTableLineEntries),
                 .key = "rows",
                 .value = fmt::format("{}", options.rows)};
  }
  layout.deltas_offset = kLineBytes + in_lines(lengths * 4);
  layout.buffer_bytes = layout.deltas_offset +
                        in_lines(layout.deltas_per_step * std::int64_t{sizeof(PageTableDelta)});
  layout.entry_bytes = lines * kLineBytes;
  layout.length_bytes = in_lines(lengths * 4);
  layout.table_bytes = layout.entry_bytes + layout.length_bytes +
                       (options.apply == TableApply::kByKernel ? layout.buffer_bytes : 0);
  return layout;
}

/// Head of a staging buffer, and of the place where it arrives.
struct BufferHead {
  std::int32_t delta_count;
};

struct StagingBuffer {
  std::uintptr_t address = 0;
  /// Set while copies from the buffer may be under way.
  std::optional<Ticket> ticket{};
};

}  // namespace

struct TableBatch::Impl {
  Impl(AnyDeviceQueue device_queue, TableBatchOptions batch_options)
      : queue{std::move(device_queue)}, options{batch_options} {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    for (const StagingBuffer& buffer : ring) {
      if (buffer.ticket.has_value()) {
        // A queue that fails now copies no more.
        static_cast<void>(queue.wait(*buffer.ticket));
      }
    }
  }

  [[nodiscard]] std::uintptr_t lengths_in(std::uintptr_t buffer) const {
    return buffer + static_cast<std::uintptr_t>(kLineBytes);
  }
  [[nodiscard]] std::uintptr_t deltas_in(std::uintptr_t buffer) const {
    return buffer + static_cast<std::uintptr_t>(layout.deltas_offset);
  }
  [[nodiscard]] std::int32_t* entry(std::int64_t line, std::int64_t column) const {
    return reinterpret_cast<std::int32_t*>(entries) + line * kTableLineEntries + column;
  }

  void empty_row(std::size_t row) {
    bound[row] = 0;
    backlog_groups[row] = 0;
    for (std::int64_t kind = 0; kind < layout.length_arrays; ++kind) {
      lengths[static_cast<std::size_t>(kind * options.rows) + row] = 0;
    }
  }

  void write_lengths(const BlockManager& manager, std::size_t row, const TableState& state);
  /// What changed together with what did not fit into a buffer before.
  [[nodiscard]] Columns with_waiting(const BlockManager& manager, std::size_t row,
                                     std::size_t group, Columns changed) const;
  /// Takes what changed in a row; false when the buffer has no room for it.
  bool write_deltas(BlockManager& manager, std::size_t row, std::uint64_t groups);

  AnyDeviceQueue queue;
  TableBatchOptions options;
  TableLayout layout{};

  OwnedRegion table_region{};
  OwnedRegion staging_region{};
  std::uintptr_t entries = 0;
  std::uintptr_t device_lengths = 0;
  /// Where buffers arrive; 0 unless a kernel applies them.
  std::uintptr_t inbox = 0;

  std::vector<StagingBuffer> ring{};
  std::size_t next = 0;
  /// Buffer of the last `stage`.
  std::size_t last = 0;
  std::int64_t delta_count = 0;
  bool is_staged = false;
  bool has_more = false;

  /// By row.
  std::vector<SequenceId> sequences{};
  std::vector<std::uint8_t> bound{};
  std::vector<std::int32_t> limits{};
  /// Groups with columns that did not fit into a buffer, as bits; the columns by row and group.
  std::vector<std::uint64_t> backlog_groups{};
  std::vector<Columns> backlog{};
  /// Lengths as the device has them after the last `stage`, by array and row.
  std::vector<std::int32_t> lengths{};
};

void TableBatch::Impl::write_lengths(const BlockManager& manager, std::size_t row,
                                     const TableState& state) {
  const auto length =
      static_cast<std::int32_t>(std::min<std::int64_t>(state.reserved, limits[row]));
  std::int32_t* to = lengths.data() + row;
  for (std::int64_t array = 0; array < layout.length_arrays; ++array, to += options.rows) {
    const auto [kind, groups] = layout.arrays[static_cast<std::size_t>(array)];
    const bool has = (state.groups & groups) != 0;
    *to = !has ? 0 : kind == LengthKind::kTarget || kind == LengthKind::kDraft ? length : 1;
  }
  const std::int64_t encoder = layout.array_of_kind[static_cast<std::size_t>(LengthKind::kEncoder)];
  if (encoder >= 0) [[unlikely]] {
    lengths[static_cast<std::size_t>(encoder * options.rows) + row] =
        static_cast<std::int32_t>(manager.encoder_tokens(sequences[row]).count());
  }
}

Columns TableBatch::Impl::with_waiting(const BlockManager& manager, std::size_t row,
                                       std::size_t group, Columns changed) const {
  const Columns waiting = backlog[row * layout.tables.size() + group];
  const bool has_changed = changed.first != changed.last;
  const GroupView view = manager.view(sequences[row], GroupId{static_cast<std::int32_t>(group)});
  // What waited may have been given back since.
  const auto first = static_cast<std::int32_t>(
      std::max<std::int64_t>(has_changed ? std::min(changed.first, waiting.first) : waiting.first,
                             view.held.first.value()));
  const auto end = static_cast<std::int32_t>(std::min<std::int64_t>(
      has_changed ? std::max(changed.last, waiting.last) : waiting.last, view.held.last.value()));
  return first < end ? Columns{.first = first, .last = end, .entries = view.entries.data() + first}
                     : Columns{.first = 0, .last = 0, .entries = nullptr};
}

bool TableBatch::Impl::write_deltas(BlockManager& manager, std::size_t row, std::uint64_t groups) {
  std::array<Columns, 64> changes;  // NOLINT: written before it is read
  std::int64_t needed = 0;
  for (std::uint64_t left = groups; left != 0; left &= left - 1) {
    const auto group = static_cast<std::size_t>(std::countr_zero(left));
    const ChangedColumns taken =
        manager.take_changed_columns(sequences[row], GroupId{static_cast<std::int32_t>(group)});
    const auto first = static_cast<std::int32_t>(taken.first.value());
    changes[group] = {.first = first,
                      .last = first + static_cast<std::int32_t>(taken.entries.size()),
                      .entries = taken.entries.data()};
    if ((backlog_groups[row] >> group & 1U) != 0) [[unlikely]] {
      changes[group] = with_waiting(manager, row, group, changes[group]);
    }
    needed += changes[group].last - changes[group].first;
  }
  // A row is written as a whole or not at all.
  const bool fits = needed <= options.deltas_per_step - delta_count;
  backlog_groups[row] = fits ? 0 : groups;
  auto* delta = reinterpret_cast<PageTableDelta*>(deltas_in(ring[next].address)) + delta_count;
  for (std::uint64_t left = groups; left != 0; left &= left - 1) {
    const auto group = static_cast<std::size_t>(std::countr_zero(left));
    const Columns columns = changes[group];
    if (!fits) [[unlikely]] {
      backlog[row * layout.tables.size() + group] = columns;
      continue;
    }
    const std::int64_t line = layout.tables[group].first_line +
                              static_cast<std::int64_t>(row) * layout.tables[group].row_lines;
    for (std::int32_t i = 0; i < columns.last - columns.first; ++i) {
      const std::int32_t column = columns.first + i;
      *delta++ = {.row = static_cast<std::int32_t>(line + column / kTableLineEntries),
                  .column = static_cast<std::int32_t>(column % kTableLineEntries),
                  .entry = columns.entries[i]};
    }
  }
  delta_count += fits ? needed : 0;
  return fits;
}

Result<TableMemory> required_table_memory(std::span<const PoolDescriptor> pools,
                                          const BlockManagerOptions& manager,
                                          const TableBatchOptions& options) {
  const auto groups = cache_groups(pools, manager.draft_limit());
  if (!groups) {
    return groups.error();
  }
  const auto layout = lay_out(*groups, pools, manager, options);
  if (!layout) {
    return layout.error();
  }
  return TableMemory{.tables = Bytes{layout->table_bytes},
                     .staging = Bytes{layout->buffer_bytes * options.staging_buffers}};
}

TableBatch::TableBatch(std::unique_ptr<Impl> impl) noexcept : impl_{std::move(impl)} {}
TableBatch::TableBatch(TableBatch&& other) noexcept = default;
TableBatch& TableBatch::operator=(TableBatch&& other) noexcept = default;
TableBatch::~TableBatch() = default;

Result<TableBatch> TableBatch::create(const BlockManager& manager, const TableBatchOptions& options,
                                      AnyPageMemory tables, AnyPageMemory staging,
                                      AnyDeviceQueue queue) {
  auto found = lay_out(manager.groups(), manager.pools(), manager.options(), options);
  if (!found) {
    return std::move(found).error();
  }
  auto impl = std::make_unique<Impl>(std::move(queue), options);
  impl->layout = *std::move(found);
  const TableLayout& layout = impl->layout;
  impl->options.deltas_per_step = layout.deltas_per_step;
  auto table_region = OwnedRegion::create(std::move(tables), Bytes{layout.table_bytes});
  if (!table_region) {
    return std::move(table_region).error();
  }
  auto staging_region =
      OwnedRegion::create(std::move(staging), Bytes{layout.buffer_bytes * options.staging_buffers});
  if (!staging_region) {
    return std::move(staging_region).error();
  }
  impl->table_region = std::move(*table_region);
  impl->staging_region = std::move(*staging_region);
  impl->entries = impl->table_region.address();
  impl->device_lengths = impl->entries + static_cast<std::uintptr_t>(layout.entry_bytes);
  if (options.apply == TableApply::kByKernel) {
    impl->inbox = impl->device_lengths + static_cast<std::uintptr_t>(layout.length_bytes);
  }
  for (std::int64_t i = 0; i < options.staging_buffers; ++i) {
    impl->ring.push_back({.address = impl->staging_region.address() +
                                     static_cast<std::uintptr_t>(i * layout.buffer_bytes)});
  }

  const auto rows = static_cast<std::size_t>(options.rows);
  impl->sequences.resize(rows);
  impl->bound.resize(rows);
  impl->limits.resize(rows, kNoLimit);
  impl->backlog_groups.resize(rows);
  impl->backlog.resize(rows * layout.tables.size());
  impl->lengths.resize(rows * static_cast<std::size_t>(layout.length_arrays));
  return TableBatch{std::move(impl)};
}

BlockStatus TableBatch::bind(BlockManager& manager, std::int64_t row,
                             SequenceId sequence) noexcept {
  if (row < 0 || row >= impl_->options.rows) {
    return BlockStatus::kInvalid;
  }
  const auto at = static_cast<std::size_t>(row);
  if (impl_->bound[at] != 0 && manager.is_live(impl_->sequences[at])) {
    return BlockStatus::kInvalid;
  }
  if (!manager.is_live(sequence)) {
    return BlockStatus::kStaleId;
  }
  impl_->empty_row(at);
  impl_->bound[at] = 1;
  impl_->sequences[at] = sequence;
  impl_->limits[at] = kNoLimit;
  manager.mark_all_changed(sequence);
  return BlockStatus::kOk;
}

BlockStatus TableBatch::unbind(std::int64_t row) noexcept {
  if (row < 0 || row >= impl_->options.rows) {
    return BlockStatus::kInvalid;
  }
  impl_->empty_row(static_cast<std::size_t>(row));
  return BlockStatus::kOk;
}

BlockStatus TableBatch::set_length(std::int64_t row, std::optional<Tokens> tokens) noexcept {
  if (row < 0 || row >= impl_->options.rows || (tokens.has_value() && tokens->count() < 0)) {
    return BlockStatus::kInvalid;
  }
  impl_->limits[static_cast<std::size_t>(row)] =
      tokens.has_value()
          ? static_cast<std::int32_t>(std::min<std::int64_t>(tokens->count(), kNoLimit))
          : kNoLimit;
  return BlockStatus::kOk;
}

std::optional<SequenceId> TableBatch::sequence(std::int64_t row) const noexcept {
  const auto at = static_cast<std::size_t>(row);
  return impl_->bound[at] != 0 ? std::optional{impl_->sequences[at]} : std::nullopt;
}

BlockStatus TableBatch::stage(BlockManager& manager) noexcept {
  Impl& batch = *impl_;
  if (batch.is_staged) {
    return BlockStatus::kInvalid;
  }
  StagingBuffer& buffer = batch.ring[batch.next];
  if (buffer.ticket.has_value()) {
    const Result<bool> copied = batch.queue.query(*buffer.ticket);
    if (!copied) {
      return BlockStatus::kInvalid;
    }
    if (!*copied) {
      return BlockStatus::kUnsettled;
    }
    buffer.ticket.reset();
  }

  batch.delta_count = 0;
  batch.has_more = false;
  for (std::size_t row = 0; row < batch.bound.size(); ++row) {
    if (batch.bound[row] == 0) {
      continue;
    }
    const TableState state = manager.table_state(batch.sequences[row]);
    if (state.reserved == 0 && !manager.is_live(batch.sequences[row])) {
      batch.empty_row(row);
      continue;
    }
    const std::uint64_t changed = state.changed_groups | batch.backlog_groups[row];
    if (changed != 0 && !batch.write_deltas(manager, row, changed)) [[unlikely]] {
      batch.has_more = true;
      continue;
    }
    batch.write_lengths(manager, row, state);
  }
  const BufferHead head{.delta_count = static_cast<std::int32_t>(batch.delta_count)};
  std::memcpy(reinterpret_cast<void*>(buffer.address), &head, sizeof(head));
  std::memcpy(reinterpret_cast<void*>(batch.lengths_in(buffer.address)), batch.lengths.data(),
              batch.lengths.size() * sizeof(std::int32_t));
  batch.last = batch.next;
  batch.is_staged = true;
  return BlockStatus::kOk;
}

bool TableBatch::has_more() const noexcept { return impl_->has_more; }

StagedTables TableBatch::staged() const noexcept {
  const std::uintptr_t buffer = impl_->ring[impl_->last].address;
  return {.deltas = {reinterpret_cast<const PageTableDelta*>(impl_->deltas_in(buffer)),
                     static_cast<std::size_t>(impl_->delta_count)},
          .lengths = {reinterpret_cast<const std::int32_t*>(impl_->lengths_in(buffer)),
                      impl_->lengths.size()}};
}

Result<void> TableBatch::enqueue() {
  Impl& batch = *impl_;
  if (!batch.is_staged) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "no changes are staged; call stage first"};
  }
  StagingBuffer& buffer = batch.ring[batch.next];
  const auto delta_bytes = batch.delta_count * std::int64_t{sizeof(PageTableDelta)};
  if (batch.inbox != 0) {
    const auto copied = batch.queue.copy_async(batch.inbox, buffer.address,
                                               Bytes{batch.layout.deltas_offset + delta_bytes});
    if (!copied) {
      return copied;
    }
  } else {
    const auto length_bytes = static_cast<std::int64_t>(batch.lengths.size() * 4);
    auto copied = batch.queue.copy_async(batch.device_lengths, batch.lengths_in(buffer.address),
                                         Bytes{length_bytes});
    for (const PageTableDelta& delta : staged().deltas) {
      if (!copied) {
        return copied;
      }
      copied = batch.queue.copy_async(address_of(batch.entry(delta.row, delta.column)),
                                      address_of(&delta.entry), Bytes{sizeof(delta.entry)});
    }
    if (!copied) {
      return copied;
    }
  }
  const Result<Ticket> ticket = batch.queue.record();
  if (!ticket) {
    return ticket.error();
  }
  buffer.ticket = *ticket;
  batch.next = (batch.next + 1) % batch.ring.size();
  batch.is_staged = false;
  return {};
}

PageTableView TableBatch::view(GroupId group, std::uint64_t base_address) const noexcept {
  const GroupTable& table = impl_->layout.tables[static_cast<std::size_t>(group.value())];
  return {.entries = impl_->entry(table.first_line, 0),
          .lengths = reinterpret_cast<const std::int32_t*>(impl_->device_lengths) +
                     table.lengths * impl_->options.rows,
          .base_address = base_address,
          .row_stride_entries = table.row_lines * kTableLineEntries,
          .unit_bytes = table.unit_bytes,
          .rows = static_cast<std::int32_t>(impl_->options.rows),
          .tokens_per_block = table.tokens_per_block};
}

TableUpdate TableBatch::update() const noexcept {
  if (impl_->inbox == 0) {
    return {};
  }
  return {.entries = impl_->entry(0, 0),
          .lengths = reinterpret_cast<std::int32_t*>(impl_->device_lengths),
          .deltas = reinterpret_cast<const PageTableDelta*>(impl_->deltas_in(impl_->inbox)),
          .delta_count = reinterpret_cast<const std::int32_t*>(impl_->inbox),
          .new_lengths = reinterpret_cast<const std::int32_t*>(impl_->lengths_in(impl_->inbox)),
          .row_stride_entries = kTableLineEntries,
          .delta_capacity = static_cast<std::int32_t>(impl_->options.deltas_per_step),
          .rows = static_cast<std::int32_t>(impl_->lengths.size())};
}

Bytes TableBatch::table_bytes() const noexcept { return Bytes{impl_->layout.table_bytes}; }

}  // namespace kvpool
