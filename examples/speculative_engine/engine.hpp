// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The engine of one rank: continuous batching with chunked prefill, and a speculative step over two
// models and two pools. Everything about memory is asked of kvpool; the processor is a `Backend`.
#pragma once

#include <kvpool/block/block_manager.hpp>
#include <kvpool/block/decode_rows.hpp>
#include <kvpool/block/table_batch.hpp>
#include <kvpool/pool/pool_set.hpp>

#include "backend.hpp"
#include "jobs.hpp"
#include "proposals.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace example {

/// How an engine runs.
struct EngineOptions {
  /// Sequences of a step.
  std::int64_t rows = 6;
  /// Tokens of a prompt that a step computes.
  kvpool::Tokens chunk{48};
  /// What requests ask of the drafter.
  kvpool::DraftMode draft = kvpool::DraftMode::kIfRoom;
  /// Step from which on nobody drafts; 0: never.
  std::int64_t drafter_off_at = 0;
  /// The manager checks itself every so many steps; 0: never.
  std::int64_t check_every = 0;
};

/// The engine.
class Engine {
 public:
  /// @param mixer, `manager`, `pools`, `models` and `backend` outlive the engine
  static kvpool::Result<std::unique_ptr<Engine>> create(const EngineOptions& options,
                                                        const Models& models,
                                                        const kvpool::PoolSet& pools,
                                                        kvpool::BlockManager& manager,
                                                        Backend& backend, ProposalMixer& mixer);

  /// Adds a request to the queue.
  void submit(Request request);
  /// Schedules and runs one step. @return what went wrong, if something did
  kvpool::Result<void> step();
  /// True when nothing waits or runs.
  [[nodiscard]] bool is_idle() const { return waiting_.empty() && running_.empty(); }

  [[nodiscard]] const std::vector<Job>& finished() const { return finished_; }
  [[nodiscard]] const Statistics& statistics() const { return statistics_; }

 private:
  Engine(const EngineOptions& options, const kvpool::PoolSet& pools, kvpool::BlockManager& manager,
         kvpool::TableBatch tables, Backend& backend, ProposalMixer& mixer);

  /// A part of a step whose time counts as scheduling, or as kernels.
  template <typename Part>
  auto timed(std::int64_t& total, const Part& part) {
    const auto start = std::chrono::steady_clock::now();
    auto result = part();
    total += std::chrono::nanoseconds{std::chrono::steady_clock::now() - start}.count();
    return result;
  }

  kvpool::Result<void> schedule();
  kvpool::Result<void> end_step();
  kvpool::BlockStatus reserve(std::size_t place);
  void schedule_running();
  void schedule_waiting();
  void fork_branches();
  void preempt_last();
  void start(Job job, std::int64_t row);
  kvpool::Result<void> copy_pages(kvpool::CopyOrder order);
  kvpool::Result<void> update_tables();
  kvpool::Result<void> extend();
  std::int32_t write_extend(std::int32_t& most);
  void take_extended(Job& job, std::int32_t next);
  kvpool::Result<void> speculate();
  void write_block();
  void take_verified(Job& job, const Verified& verified);
  void retire();
  void count_pages();
  [[nodiscard]] Job* job_of_row(std::int64_t row);
  [[nodiscard]] std::optional<std::int64_t> free_row() const;
  [[nodiscard]] std::int64_t held_pages(kvpool::SequenceId sequence, bool of_drafter) const;
  [[nodiscard]] bool drafts(const Job& job) const;

  EngineOptions options_;
  const kvpool::PoolSet* pools_;
  kvpool::BlockManager* manager_;
  kvpool::TableBatch tables_;
  Backend* backend_;
  ProposalMixer* mixer_;
  StepLayout layout_;
  std::uint64_t epoch_ = 0;
  std::deque<Job> waiting_;
  /// In the order of admission: the last one is preempted first.
  std::vector<Job> running_;
  std::vector<Job> finished_;
  Statistics statistics_;
  /// Refused at least once, by name.
  std::vector<std::int32_t> refused_;
  // What a step needs again and again.
  std::vector<kvpool::SequenceId> sequences_;
  std::vector<kvpool::StepTokens> parts_;
  std::vector<std::int64_t> slots_;
  std::vector<kvpool::kernels::PageCopyPair> pairs_;
};

}  // namespace example
