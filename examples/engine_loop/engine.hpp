// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The scheduling loop of an engine: continuous batching with chunked prefill, speculation,
// prefix hits and preemption. Everything about memory is asked of kvpool.
#pragma once

#include <kvpool/block/block_manager.hpp>
#include <kvpool/block/decode_rows.hpp>
#include <kvpool/block/table_batch.hpp>
#include <kvpool/block/trace.hpp>
#include <kvpool/memory/host_queue.hpp>
#include <kvpool/pool/pool_set.hpp>

#include "toy_model.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace example {

/// What a user asks for.
struct Request {
  std::int32_t name = 0;
  std::vector<std::int32_t> prompt{};
  std::size_t max_output = 0;
  /// Step in which it arrives.
  std::int64_t arrives = 0;
  /// The first so many tokens of the prompt are shared with all users.
  kvpool::Tokens public_tokens{};
  kvpool::NamespaceId name_space{};
};

/// A request on its way through the engine.
struct Job {
  Request request{};
  /// Generated so far. While it is decoding, the last one is not in the cache yet.
  std::vector<std::int32_t> output{};
  /// Its pages, while it runs.
  std::optional<kvpool::SequenceId> sequence{};
  /// Its row in the batch, while it runs.
  std::int64_t row = 0;
  /// Tokens to compute before it decodes: the prompt, and what was generated before a preemption.
  kvpool::Tokens prefill{};
  /// Query tokens of this step.
  kvpool::Tokens query{};
  /// The drafter's guesses for this step.
  std::vector<std::int32_t> drafts{};
  /// What is left of it while it does not run.
  std::optional<kvpool::SuspendedSequence> suspended{};

  /// Token at a position.
  [[nodiscard]] std::int32_t token(std::int64_t position) const;
};

/// What happened, for the report.
struct Statistics {
  std::int64_t steps = 0;
  std::int64_t prefill_tokens = 0;
  /// Prompt tokens that were not computed because the job was preempted before.
  std::int64_t abandoned_tokens = 0;
  std::int64_t decode_tokens = 0;
  std::int64_t drafted = 0;
  std::int64_t accepted = 0;
  /// Rejections after which the target, or the drafter, gave back a page.
  std::int64_t pages_rejected = 0;
  std::int64_t preemptions = 0;
  /// Resumed jobs that generated the same token again.
  std::int64_t resumed_alike = 0;
  std::int64_t resumed_otherwise = 0;
  /// Times a job waited for a step of the device to end.
  std::int64_t waits = 0;
  std::int64_t deltas = 0;
  std::int64_t findings = 0;
};

/// The engine of one rank.
class Engine {
 public:
  /// @param calls the manager of `pools`' pools, recorded
  static kvpool::Result<Engine> create(const kvpool::PoolSet& pools,
                                       kvpool::TracingBlockManager& calls);

  /// Adds a request to the queue.
  void submit(Request request);
  /// Schedules and runs one step. @return what went wrong, if something did
  kvpool::Result<void> step();
  /// True when nothing waits or runs.
  [[nodiscard]] bool is_idle() const { return waiting_.empty() && running_.empty(); }

  [[nodiscard]] const std::vector<Job>& finished() const { return finished_; }
  [[nodiscard]] const Statistics& statistics() const { return statistics_; }
  /// One line about the last step.
  [[nodiscard]] std::string describe() const;

 private:
  Engine(const kvpool::PoolSet& pools, kvpool::TracingBlockManager& calls,
         kvpool::TableBatch tables, kvpool::AnyDeviceQueue queue);

  kvpool::Result<void> find_layers();
  void schedule_running();
  void schedule_waiting();
  void preempt_last();
  kvpool::Result<void> copy_pages();
  kvpool::Result<void> update_tables();
  kvpool::Result<void> compute();
  void take_prefilled(Job& job, std::span<const std::uint64_t> hashes);
  void take_decoded(Job& job, std::span<const std::uint64_t> hashes);
  kvpool::Result<void> draft();
  void retire();
  [[nodiscard]] std::vector<LayerInput> layers(bool of_drafter) const;

  /// A layer of the target or the drafter, without what changes every step.
  struct Layer {
    LayerInput input;
    kvpool::GroupId group;
    kvpool::PoolId pool;
    bool of_drafter;
  };

  const kvpool::PoolSet* pools_;
  kvpool::TracingBlockManager* calls_;
  kvpool::TableBatch tables_;
  kvpool::AnyDeviceQueue queue_;
  std::vector<Layer> layers_;
  std::uint64_t epoch_ = 0;
  std::deque<Job> waiting_;
  /// In the order of admission: the last one is preempted first.
  std::vector<Job> running_;
  std::vector<Job> finished_;
  Statistics statistics_;
  /// Slots of this step's query tokens, by group.
  std::vector<std::vector<std::int64_t>> slots_;
};

/// Rows of the engine's batch.
inline constexpr std::int64_t kRows = 6;
/// Tokens of a prompt that a step computes.
inline constexpr kvpool::Tokens kChunk{40};
/// Guesses of the drafter in a step.
inline constexpr std::int64_t kDrafts = 4;

}  // namespace example
