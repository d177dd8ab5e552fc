// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/block/table_batch.hpp>

#include <kvpool/kernels/table_update.hpp>
#include <kvpool/memory/delayed_queue.hpp>
#include <kvpool/memory/host_memory.hpp>
#include <kvpool/memory/host_queue.hpp>
#include <kvpool/memory/limited_memory.hpp>

#include "support/cache_pools.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace kvpool {
namespace {

using test::admitted;
using test::cache_manager;
using test::cache_pool;
using test::tokens_from;

static_assert(std::is_nothrow_move_constructible_v<TableBatch>);
static_assert(!std::is_copy_constructible_v<TableBatch>);
static_assert(noexcept(std::declval<TableBatch&>().stage(std::declval<BlockManager&>())));

constexpr GroupId kFullGroup{0};
constexpr GroupId kWindowGroup{1};
constexpr GroupId kDraftGroup{2};
constexpr std::array kGroups = {kFullGroup, kWindowGroup, kDraftGroup};

/// A target of a full group and a window of 8 with pages of 4, a drafter with pages of 8.
std::vector<PoolDescriptor> pools() {
  return {cache_pool("target", PoolRole::kTarget,
                     {{}, {.kind = SpanKind::kSlidingWindow, .extent = Tokens{8}}}, 4, 400),
          cache_pool("draft", PoolRole::kDraft, {{}}, 8, 200)};
}

BlockManager manager_of(std::int64_t max_length = 64) {
  return cache_manager(pools(), {.max_sequences = Sequences{8}, .max_length = Tokens{max_length}});
}

TableBatch batch_of(const BlockManager& manager, const TableBatchOptions& options,
                    AnyDeviceQueue queue) {
  auto batch = TableBatch::create(manager, options, HostMemory{}, HostMemory{}, std::move(queue));
  REQUIRE(batch.has_value());
  return *std::move(batch);
}

std::int32_t length_at(const PageTableView& view, std::int64_t row) { return view.lengths[row]; }

/// Whether the tables of a row are the manager's, in all groups that its sequence has.
bool row_is_current(const TableBatch& batch, const BlockManager& manager, std::int64_t row,
                    SequenceId sequence) {
  return std::ranges::all_of(kGroups, [&](GroupId group) {
    const GroupView expected = manager.view(sequence, group);
    const PageTableView view = batch.view(group, 0);
    const std::int64_t first = expected.held.first.value();
    const std::int64_t end =
        std::min(ceil_div(length_at(view, row), view.tokens_per_block), expected.held.last.value());
    for (std::int64_t column = first; column < end; ++column) {
      if (view.entries[row * view.row_stride_entries + column] !=
          expected.entries[static_cast<std::size_t>(column)]) {
        return false;
      }
    }
    return true;
  });
}

void update(TableBatch& batch, BlockManager& manager) {
  REQUIRE(batch.stage(manager) == BlockStatus::kOk);
  REQUIRE(batch.enqueue().has_value());
}

/// What `apply_table_deltas` does on a device.
void apply_deltas(const TableBatch& batch) {
  const kernels::TableDeltaParams params = kernels::table_delta_params(batch.update());
  REQUIRE(*params.delta_count <= params.delta_capacity);
  for (std::int32_t i = 0; i < *params.delta_count; ++i) {
    const PageTableDelta& delta = params.deltas[i];
    REQUIRE(delta.column < params.row_stride_entries);
    params.entries[delta.row * params.row_stride_entries + delta.column] = delta.entry;
  }
  std::copy_n(params.new_lengths, params.rows, params.lengths);
}

TEST_CASE("a step's changes reach the tables of every group", "[block][table_batch]") {
  BlockManager manager = manager_of();
  TableBatch batch = batch_of(manager, {.rows = 4}, HostQueue{});
  const SequenceId sequence = admitted(manager, tokens_from(100, 10));
  REQUIRE(batch.bind(manager, 2, sequence) == BlockStatus::kOk);
  CHECK(batch.sequence(2) == sequence);
  CHECK_FALSE(batch.sequence(1).has_value());
  update(batch, manager);

  for (const GroupId group : kGroups) {
    const PageTableView view = batch.view(group, 0x1000);
    CHECK(view.base_address == 0x1000);
    CHECK(view.rows == 4);
    CHECK(std::vector(view.lengths, view.lengths + 4) == std::vector<std::int32_t>{0, 0, 10, 0});
  }
  CHECK(batch.view(kFullGroup, 0).tokens_per_block == 4);
  CHECK(batch.view(kDraftGroup, 0).tokens_per_block == 8);
  // 4 and 8 tokens of 64 bytes.
  CHECK(batch.view(kWindowGroup, 0).unit_bytes == 256);
  CHECK(batch.view(kDraftGroup, 0).unit_bytes == 512);
  CHECK(row_is_current(batch, manager, 2, sequence));
}

TEST_CASE("only what changed is staged", "[block][table_batch]") {
  BlockManager manager = manager_of();
  TableBatch batch = batch_of(manager, {.rows = 4}, HostQueue{});
  const SequenceId sequence = admitted(manager, tokens_from(100, 10));
  REQUIRE(batch.bind(manager, 0, sequence) == BlockStatus::kOk);
  update(batch, manager);
  // Three blocks of 4, the window's three (8 tokens before the eleventh, and what it is in), two
  // blocks of 8.
  CHECK(batch.staged().deltas.size() == 8);

  REQUIRE(manager.append(sequence, Tokens{2}) == BlockStatus::kOk);  // 12: inside the last blocks
  update(batch, manager);
  CHECK(batch.staged().deltas.empty());
  CHECK(length_at(batch.view(kFullGroup, 0), 0) == 12);

  REQUIRE(manager.append(sequence, Tokens{1}) == BlockStatus::kOk);  // 13: a block of 4 each
  update(batch, manager);
  CHECK(batch.staged().deltas.size() == 2);
  CHECK(row_is_current(batch, manager, 0, sequence));

  REQUIRE(manager.append(sequence, Tokens{4}) == BlockStatus::kOk);  // 17: and one of 8
  update(batch, manager);
  CHECK(batch.staged().deltas.size() == 3);
  CHECK(row_is_current(batch, manager, 0, sequence));
}

TEST_CASE("long rows are many lines of 64 entries", "[block][table_batch]") {
  BlockManager manager = manager_of(1'000);
  const TableApply apply = GENERATE(TableApply::kByCopies, TableApply::kByKernel);
  TableBatch batch = batch_of(manager, {.rows = 2, .apply = apply}, HostQueue{});
  // 250 columns of 4 tokens are four lines, 125 of 8 are two.
  CHECK(batch.view(kFullGroup, 0).row_stride_entries == 256);
  CHECK(batch.view(kDraftGroup, 0).row_stride_entries == 128);
  const SequenceId first = admitted(manager, tokens_from(1'000, 300));
  const SequenceId second = admitted(manager, tokens_from(2'000, 257));
  REQUIRE(batch.bind(manager, 0, first) == BlockStatus::kOk);
  REQUIRE(batch.bind(manager, 1, second) == BlockStatus::kOk);
  for (int step = 0; step < 3; ++step) {
    update(batch, manager);
    if (apply == TableApply::kByKernel) {
      apply_deltas(batch);
    }
    CHECK(length_at(batch.view(kFullGroup, 0), 1) == 257 + step * 4);
    CHECK(row_is_current(batch, manager, 0, first));
    CHECK(row_is_current(batch, manager, 1, second));
    REQUIRE(manager.append(second, Tokens{4}) == BlockStatus::kOk);
  }
}

TEST_CASE("rejected tokens shorten a row, and other pages may follow", "[block][table_batch]") {
  BlockManager manager = manager_of();
  TableBatch batch = batch_of(manager, {.rows = 2}, HostQueue{});
  const SequenceId first = admitted(manager, tokens_from(100, 7));
  const SequenceId second = admitted(manager, tokens_from(200, 7));
  REQUIRE(batch.bind(manager, 0, first) == BlockStatus::kOk);
  REQUIRE(batch.bind(manager, 1, second) == BlockStatus::kOk);
  REQUIRE(manager.append(first, Tokens{8}) == BlockStatus::kOk);
  update(batch, manager);
  CHECK(length_at(batch.view(kFullGroup, 0), 0) == 15);
  REQUIRE(manager.truncate(first, Tokens{7}) == BlockStatus::kOk);
  // The other sequence takes the pages, and the first one gets others.
  REQUIRE(manager.append(second, Tokens{8}) == BlockStatus::kOk);
  REQUIRE(manager.append(first, Tokens{8}) == BlockStatus::kOk);
  update(batch, manager);
  CHECK(length_at(batch.view(kFullGroup, 0), 0) == 16);
  CHECK(row_is_current(batch, manager, 0, first));
  CHECK(row_is_current(batch, manager, 1, second));
}

TEST_CASE("rows without sequence have length 0", "[block][table_batch]") {
  BlockManager manager = manager_of();
  TableBatch batch = batch_of(manager, {.rows = 3}, HostQueue{});
  const SequenceId left = admitted(manager, tokens_from(100, 5));
  const SequenceId ended = admitted(manager, tokens_from(200, 6));
  REQUIRE(batch.bind(manager, 0, left) == BlockStatus::kOk);
  REQUIRE(batch.bind(manager, 1, ended) == BlockStatus::kOk);
  update(batch, manager);
  const auto lengths = [&] {
    const PageTableView view = batch.view(kDraftGroup, 0);
    return std::vector(view.lengths, view.lengths + 3);
  };
  CHECK(lengths() == std::vector<std::int32_t>{5, 6, 0});
  REQUIRE(manager.release(ended) == BlockStatus::kOk);
  REQUIRE(batch.unbind(0) == BlockStatus::kOk);
  update(batch, manager);
  CHECK(lengths() == std::vector<std::int32_t>{0, 0, 0});
  CHECK_FALSE(batch.sequence(1).has_value());
  // The row of an ended sequence can be taken at once, that of a live one not.
  REQUIRE(batch.bind(manager, 1, left) == BlockStatus::kOk);
  CHECK(batch.bind(manager, 1, left) == BlockStatus::kInvalid);
  CHECK(batch.bind(manager, 2, ended) == BlockStatus::kStaleId);
  CHECK(batch.bind(manager, 3, left) == BlockStatus::kInvalid);
  CHECK(batch.unbind(-1) == BlockStatus::kInvalid);
  update(batch, manager);
  CHECK(lengths() == std::vector<std::int32_t>{0, 5, 0});
  CHECK(row_is_current(batch, manager, 1, left));
}

TEST_CASE("a sequence without drafter has no length in draft groups", "[block][table_batch]") {
  BlockManager manager = manager_of();
  TableBatch batch = batch_of(manager, {.rows = 2}, HostQueue{});
  const SequenceId without = admitted(manager, tokens_from(100, 9), DraftMode::kOff);
  const SequenceId with = admitted(manager, tokens_from(200, 9));
  REQUIRE(batch.bind(manager, 0, without) == BlockStatus::kOk);
  REQUIRE(batch.bind(manager, 1, with) == BlockStatus::kOk);
  update(batch, manager);
  CHECK(length_at(batch.view(kFullGroup, 0), 0) == 9);
  CHECK(length_at(batch.view(kDraftGroup, 0), 0) == 0);
  CHECK(length_at(batch.view(kDraftGroup, 0), 1) == 9);
  REQUIRE(manager.stop_drafting(with) == BlockStatus::kOk);
  update(batch, manager);
  CHECK(length_at(batch.view(kFullGroup, 0), 1) == 9);
  CHECK(length_at(batch.view(kDraftGroup, 0), 1) == 0);
}

TEST_CASE("kernels see fewer tokens than are reserved where the engine says so",
          "[block][table_batch]") {
  BlockManager manager = manager_of();
  TableBatch batch = batch_of(manager, {.rows = 1}, HostQueue{});
  const SequenceId sequence = admitted(manager, tokens_from(100, 20));
  REQUIRE(batch.bind(manager, 0, sequence) == BlockStatus::kOk);
  REQUIRE(batch.set_length(0, Tokens{8}) == BlockStatus::kOk);
  update(batch, manager);
  CHECK(length_at(batch.view(kFullGroup, 0), 0) == 8);
  CHECK(length_at(batch.view(kDraftGroup, 0), 0) == 8);
  REQUIRE(batch.set_length(0, Tokens{1'000}) == BlockStatus::kOk);
  update(batch, manager);
  CHECK(length_at(batch.view(kFullGroup, 0), 0) == 20);
  REQUIRE(batch.set_length(0, Tokens{8}) == BlockStatus::kOk);
  REQUIRE(batch.set_length(0, std::nullopt) == BlockStatus::kOk);
  update(batch, manager);
  CHECK(length_at(batch.view(kFullGroup, 0), 0) == 20);
  CHECK(batch.set_length(1, Tokens{8}) == BlockStatus::kInvalid);
  CHECK(batch.set_length(0, Tokens{-1}) == BlockStatus::kInvalid);
}

TEST_CASE("states are blocks of one token, encoders have their own length",
          "[block][table_batch]") {
  BlockManager manager =
      cache_manager({cache_pool("target", PoolRole::kTarget,
                                {{}, {.kind = SpanKind::kCross, .extent = Tokens{32}}}, 4, 60),
                     test::state_pool(9)},
                    {.max_sequences = Sequences{4}, .max_length = Tokens{64}});
  TableBatch batch = batch_of(manager, {.rows = 2}, HostQueue{});
  const std::vector<std::int32_t> prompt = tokens_from(100, 6);
  const AdmitOutcome outcome = manager.admit(
      {.prompt = {.tokens = prompt, .draft = DraftMode::kOff}, .encoder_tokens = Tokens{30}});
  REQUIRE(outcome.status == BlockStatus::kOk);
  REQUIRE(batch.bind(manager, 1, outcome.sequence) == BlockStatus::kOk);
  // Neither depends on how many tokens the kernels see.
  REQUIRE(batch.set_length(1, Tokens{3}) == BlockStatus::kOk);
  update(batch, manager);
  CHECK(length_at(batch.view(GroupId{0}, 0), 1) == 3);
  const PageTableView cross = batch.view(GroupId{1}, 0);
  CHECK(length_at(cross, 1) == 30);
  const GroupView encoder = manager.view(outcome.sequence, GroupId{1});
  CHECK(std::ranges::equal(std::span{cross.entries + cross.row_stride_entries, 8},
                           encoder.entries.subspan(0, 8)));
  const PageTableView state = batch.view(GroupId{2}, 0);
  CHECK(length_at(state, 1) == 1);
  CHECK(length_at(state, 0) == 0);
  CHECK(state.tokens_per_block == 1);
  CHECK(state.entries[state.row_stride_entries] ==
        manager.view(outcome.sequence, GroupId{2}).entries[0]);
}

/// A queue of a driver that reports work as done too early.
class RashQueue {
 public:
  explicit RashQueue(DelayedQueue queue) : queue_{std::move(queue)} {}
  Result<void> copy_async(std::uintptr_t destination, std::uintptr_t source, Bytes size) {
    return queue_.copy_async(destination, source, size);
  }
  Result<Ticket> record() { return queue_.record(); }
  static Result<bool> query(Ticket /*ticket*/) { return true; }
  Result<void> wait(Ticket ticket) { return queue_.wait(ticket); }

 private:
  DelayedQueue queue_;
};

/// Schedules a step, and another one while the device has not begun to copy the first. Whether both
/// could be scheduled, and the device then saw the lengths and pages of each in turn.
bool device_sees_each_step(std::int64_t staging_buffers, bool is_rash) {
  BlockManager manager = manager_of();
  DelayedQueue device;
  TableBatch batch = batch_of(manager, {.rows = 1, .staging_buffers = staging_buffers},
                              is_rash ? AnyDeviceQueue{RashQueue{device}} : AnyDeviceQueue{device});
  const SequenceId sequence = admitted(manager, tokens_from(100, 8));
  bool ok = batch.bind(manager, 0, sequence) == BlockStatus::kOk;
  ok = ok && batch.stage(manager) == BlockStatus::kOk && batch.enqueue().has_value();
  const std::int64_t first_step = device.pending();
  const GroupView before = manager.view(sequence, kFullGroup);
  const std::vector<std::int32_t> pages_before{before.entries.begin(), before.entries.end()};

  ok = ok && manager.append(sequence, Tokens{5}) == BlockStatus::kOk;
  if (!ok || batch.stage(manager) != BlockStatus::kOk) {
    return false;
  }
  ok = batch.enqueue().has_value();
  device.advance(first_step);
  const PageTableView view = batch.view(kFullGroup, 0);
  ok = ok && view.lengths[0] == 8 &&
       std::equal(view.entries, view.entries + 2, pages_before.begin());
  device.advance_all();
  return ok && view.lengths[0] == 13 && row_is_current(batch, manager, 0, sequence);
}

TEST_CASE("a buffer is not written again while the device reads it", "[block][table_batch]") {
  // Two steps under way need two buffers.
  CHECK(device_sees_each_step(2, false));
  CHECK(device_sees_each_step(3, false));
  CHECK_FALSE(device_sees_each_step(1, false));
  // Not for caution's sake: when the answer is ignored, the device reads the next step's tables
  // with a ring of one, and the right ones with a ring of two.
  CHECK_FALSE(device_sees_each_step(1, true));
  CHECK(device_sees_each_step(2, true));
}

TEST_CASE("a single buffer is refused until its copies have run", "[block][table_batch]") {
  BlockManager manager = manager_of();
  DelayedQueue device;
  TableBatch batch = batch_of(manager, {.rows = 1, .staging_buffers = 1}, device);
  const SequenceId sequence = admitted(manager, tokens_from(100, 8));
  REQUIRE(batch.bind(manager, 0, sequence) == BlockStatus::kOk);
  update(batch, manager);
  REQUIRE(manager.append(sequence, Tokens{1}) == BlockStatus::kOk);
  CHECK(batch.stage(manager) == BlockStatus::kUnsettled);
  device.advance(device.pending() - 1);
  CHECK(batch.stage(manager) == BlockStatus::kUnsettled);
  CHECK(length_at(batch.view(kFullGroup, 0), 0) == 8);
  device.advance();
  CHECK(batch.stage(manager) == BlockStatus::kOk);
  // What was refused is not lost.
  CHECK(batch.staged().deltas.size() == 3);
  REQUIRE(batch.enqueue().has_value());
  device.advance_all();
  CHECK(length_at(batch.view(kFullGroup, 0), 0) == 9);
  CHECK(row_is_current(batch, manager, 0, sequence));
}

TEST_CASE("a batch waits for its copies before its memory goes", "[block][table_batch]") {
  BlockManager manager = manager_of();
  DelayedQueue device;
  const AnyPageMemory memory{HostMemory{}};
  {
    auto batch = TableBatch::create(manager, {.rows = 1}, memory, memory, device);
    REQUIRE(batch.has_value());
    REQUIRE(batch->bind(manager, 0, admitted(manager, tokens_from(100, 8))) == BlockStatus::kOk);
    update(*batch, manager);
    CHECK(device.pending() > 0);
    CHECK(memory.held() > Bytes{0});
  }
  CHECK(device.pending() == 0);
  CHECK(memory.held() == Bytes{0});
}

TEST_CASE("one copy and one kernel do what many copies do", "[block][table_batch]") {
  BlockManager manager = manager_of();
  TableBatch batch = batch_of(manager, {.rows = 3, .apply = TableApply::kByKernel}, HostQueue{});
  const SequenceId first = admitted(manager, tokens_from(100, 21));
  const SequenceId second = admitted(manager, tokens_from(200, 3), DraftMode::kOff);
  REQUIRE(batch.bind(manager, 0, first) == BlockStatus::kOk);
  REQUIRE(batch.bind(manager, 2, second) == BlockStatus::kOk);
  for (int step = 0; step < 5; ++step) {
    update(batch, manager);
    apply_deltas(batch);
    CHECK(length_at(batch.view(kFullGroup, 0), 0) == 21 + 3 * step);
    CHECK(length_at(batch.view(kDraftGroup, 0), 2) == 0);
    CHECK(row_is_current(batch, manager, 0, first));
    CHECK(row_is_current(batch, manager, 2, second));
    REQUIRE(manager.append(first, Tokens{3}) == BlockStatus::kOk);
  }
}

TEST_CASE("what does not fit into a buffer follows in the next", "[block][table_batch]") {
  BlockManager manager = manager_of();
  // 16 blocks of 4 in two groups and 8 of 8: the columns of a row.
  TableBatch batch = batch_of(manager, {.rows = 8, .deltas_per_step = 40}, HostQueue{});
  std::vector<SequenceId> sequences;
  for (std::int64_t row = 0; row < 8; ++row) {
    sequences.push_back(admitted(manager, tokens_from(static_cast<std::int32_t>(100 * row), 40)));
    REQUIRE(batch.bind(manager, row, sequences.back()) == BlockStatus::kOk);
  }
  std::int64_t rounds = 0;
  do {
    update(batch, manager);
    CHECK(batch.staged().deltas.size() <= 40);
    ++rounds;
    for (std::int64_t row = 0; row < 8; ++row) {
      // A row is as before or complete, never in between.
      const std::int32_t length = length_at(batch.view(kFullGroup, 0), row);
      CHECK((length == 0 || length >= 40));
      CHECK(row_is_current(batch, manager, row, sequences[static_cast<std::size_t>(row)]));
    }
    // Other changes while rows wait: longer, shorter, gone.
    if (rounds == 2) {
      REQUIRE(manager.append(sequences[7], Tokens{9}) == BlockStatus::kOk);
      REQUIRE(manager.append(sequences[6], Tokens{9}) == BlockStatus::kOk);
      REQUIRE(manager.truncate(sequences[6], Tokens{9}) == BlockStatus::kOk);
      REQUIRE(manager.release(sequences[5]) == BlockStatus::kOk);
    }
  } while (batch.has_more() && rounds < 20);
  CHECK(rounds > 2);
  CHECK(rounds < 20);
  const PageTableView view = batch.view(kWindowGroup, 0);
  CHECK(std::vector(view.lengths, view.lengths + 8) ==
        std::vector<std::int32_t>{40, 40, 40, 40, 40, 0, 40, 49});
}

TEST_CASE("staging and enqueueing take turns", "[block][table_batch]") {
  BlockManager manager = manager_of();
  TableBatch batch = batch_of(manager, {.rows = 1}, HostQueue{});
  CHECK(batch.enqueue().error().code == ErrorCode::kInvalidArgument);
  CHECK(batch.stage(manager) == BlockStatus::kOk);
  CHECK(batch.stage(manager) == BlockStatus::kInvalid);
  CHECK(batch.enqueue().has_value());
  CHECK(batch.stage(manager) == BlockStatus::kOk);
  CHECK(batch.update().entries == nullptr);
}

/// A queue that fails after so many copies.
class FailingQueue {
 public:
  explicit FailingQueue(std::int64_t copies) : left_{std::make_shared<std::int64_t>(copies)} {}
  Result<void> copy_async(std::uintptr_t destination, std::uintptr_t source, Bytes size) {
    if ((*left_)-- <= 0) {
      return Error{.code = ErrorCode::kDevice, .message = "the device fell off the bus"};
    }
    return queue_.copy_async(destination, source, size);
  }
  Result<Ticket> record() { return queue_.record(); }
  Result<bool> query(Ticket ticket) { return queue_.query(ticket); }
  Result<void> wait(Ticket ticket) { return queue_.wait(ticket); }

 private:
  HostQueue queue_;
  std::shared_ptr<std::int64_t> left_;
};

TEST_CASE("a queue's failure is told, and enqueueing can be repeated", "[block][table_batch]") {
  BlockManager manager = manager_of();
  for (const TableApply apply : {TableApply::kByCopies, TableApply::kByKernel}) {
    TableBatch batch = batch_of(manager, {.rows = 1, .apply = apply}, FailingQueue{0});
    const SequenceId sequence = admitted(manager, tokens_from(100, 8));
    REQUIRE(batch.bind(manager, 0, sequence) == BlockStatus::kOk);
    REQUIRE(batch.stage(manager) == BlockStatus::kOk);
    CHECK(batch.enqueue().error().code == ErrorCode::kDevice);
    CHECK(batch.enqueue().error().code == ErrorCode::kDevice);
    CHECK(batch.stage(manager) == BlockStatus::kInvalid);
    REQUIRE(manager.release(sequence) == BlockStatus::kOk);
  }
}

TEST_CASE("options out of their range are refused by name", "[block][table_batch]") {
  const BlockManager manager = manager_of();
  const auto key_of = [&](const TableBatchOptions& options) {
    const auto batch =
        TableBatch::create(manager, options, HostMemory{}, HostMemory{}, HostQueue{});
    REQUIRE_FALSE(batch.has_value());
    CHECK(batch.error().code == ErrorCode::kInvalidArgument);
    return batch.error().key;
  };
  CHECK(key_of({.rows = 0}) == "rows");
  CHECK(key_of({.rows = (1 << 20) + 1}) == "rows");
  CHECK(key_of({.staging_buffers = 0}) == "staging_buffers");
  CHECK(key_of({.staging_buffers = 65}) == "staging_buffers");
  CHECK(key_of({.deltas_per_step = 39}) == "deltas_per_step");
  CHECK(key_of({.deltas_per_step = std::int64_t{1} << 31}) == "deltas_per_step");
}

TEST_CASE("tables that lines of 32 bits cannot name are refused", "[block][table_batch]") {
  // 2^20 rows of 2^30 / 4 columns in 64s: 2^42 lines in the first group alone.
  const BlockManager manager = manager_of(std::int64_t{1} << 30);
  const auto batch = TableBatch::create(manager, {.rows = 1 << 20, .deltas_per_step = 1 << 30},
                                        HostMemory{}, HostMemory{}, HostQueue{});
  REQUIRE_FALSE(batch.has_value());
  CHECK(batch.error().code == ErrorCode::kOutOfRange);
}

TEST_CASE("what tables will take is known before there are any", "[block][table_batch]") {
  const BlockManagerOptions blocks{.max_sequences = Sequences{8}, .max_length = Tokens{1'000}};
  const TableBatchOptions options{
      .rows = 8, .staging_buffers = 2, .deltas_per_step = 640, .apply = TableApply::kByKernel};
  const auto needed = required_table_memory(pools(), blocks, options);
  REQUIRE(needed.has_value());
  // Rows of 250, 250 and 125 entries in lines of 64: 4, 4 and 2 lines of 256 bytes. Lengths of
  // target and drafter are a line, the head of a buffer one, and 640 changes of 12 bytes 30.
  CHECK(needed->staging == Bytes{2 * (1 + 1 + 30) * 256});
  CHECK(needed->tables == Bytes{8 * 10 * 256 + 256 + (1 + 1 + 30) * 256});

  const AnyPageMemory tables{HostMemory{}};
  const AnyPageMemory staging{HostMemory{}};
  const BlockManager manager = cache_manager(pools(), blocks);
  const auto batch = TableBatch::create(manager, options, tables, staging, HostQueue{});
  REQUIRE(batch.has_value());
  CHECK(batch->table_bytes() == needed->tables);
  const auto granules = [](const AnyPageMemory& memory, Bytes bytes) {
    return ceil_div(bytes.count(), memory.granularity().count()) * memory.granularity().count();
  };
  CHECK(tables.held().count() == granules(tables, needed->tables));
  CHECK(staging.held().count() == granules(staging, needed->staging));

  CHECK(required_table_memory(pools(), blocks, {.rows = 0}).error().key == "rows");
}

TEST_CASE("a memory that gives less leaves nothing behind", "[block][table_batch]") {
  const BlockManager manager = manager_of();
  const AnyPageMemory tables{HostMemory{}};
  const AnyPageMemory staging{LimitedMemory{HostMemory{}, Bytes{0}}};
  const auto batch = TableBatch::create(manager, {}, tables, staging, HostQueue{});
  REQUIRE_FALSE(batch.has_value());
  CHECK(batch.error().code == ErrorCode::kExhausted);
  CHECK(tables.held() == Bytes{0});
}

TEST_CASE("a sequence may move to another row", "[block][table_batch]") {
  BlockManager manager = manager_of();
  TableBatch batch = batch_of(manager, {.rows = 2}, HostQueue{});
  const SequenceId sequence = admitted(manager, tokens_from(100, 30));
  REQUIRE(batch.bind(manager, 0, sequence) == BlockStatus::kOk);
  update(batch, manager);
  REQUIRE(batch.unbind(0) == BlockStatus::kOk);
  REQUIRE(batch.bind(manager, 1, sequence) == BlockStatus::kOk);
  update(batch, manager);
  CHECK(length_at(batch.view(kFullGroup, 0), 0) == 0);
  CHECK(length_at(batch.view(kFullGroup, 0), 1) == 30);
  CHECK(row_is_current(batch, manager, 1, sequence));
}

}  // namespace
}  // namespace kvpool
