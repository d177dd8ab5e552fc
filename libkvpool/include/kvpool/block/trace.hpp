// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>
#include <kvpool/core/result.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kvpool {

/// First line of a trace.
inline constexpr std::string_view kTraceHeader = "kvpool.trace/1";

/// A manager whose calls are recorded with their answers, so that what happened can be run again:
/// the calls of `BlockManager` that change what it holds, under the same names. Reads go to
/// `manager()`. A trace holds tokens, salts and keys as they are given: treat it like prompts.
///
/// Threads: one caller at a time. Recording allocates: it is for diagnosis, not for every day.
class TracingBlockManager {
 public:
  /// Records the calls to `manager`, which outlives this and is changed by nobody else meanwhile
  /// (batches of tables may read it).
  explicit TracingBlockManager(BlockManager& manager);

  /// The manager, for reads, tables and copies.
  [[nodiscard]] BlockManager& manager() noexcept { return *manager_; }

  /// The calls so far, as text: `kTraceHeader`, then a line for each.
  [[nodiscard]] const std::string& trace() const noexcept { return trace_; }
  /// Takes the text out, so that it does not grow for ever; parts that are put together again, in
  /// order, are the trace.
  [[nodiscard]] std::string drain();
  /// Records the manager's fingerprint, which a replay then compares: it finds the first part of a
  /// trace after which the states differ.
  void mark();

  /// See `BlockManager`.
  [[nodiscard]] Result<TenantId> intern_tenant(std::string_view name);
  /// See `BlockManager`.
  [[nodiscard]] Result<NamespaceId> intern_namespace(const NamespaceKey& key);
  /// See `BlockManager`.
  [[nodiscard]] Result<ItemId> intern_item(std::string_view key);
  /// See `BlockManager`.
  BlockStatus set_quota(TenantId tenant, PoolId pool, std::optional<Pages> quota);
  /// See `BlockManager`.
  BlockStatus begin_step(Epoch epoch, Instant now);
  /// See `BlockManager`.
  BlockStatus complete_until(Epoch epoch);
  /// See `BlockManager`.
  [[nodiscard]] AdmitOutcome admit(const AdmitRequest& request);
  /// See `BlockManager`.
  [[nodiscard]] AdmitOutcome probe(const AdmitRequest& request);
  /// See `BlockManager`.
  BlockStatus append(SequenceId sequence, Tokens count);
  /// See `BlockManager`.
  BlockStatus commit_prompt(SequenceId sequence, Tokens count);
  /// See `BlockManager`.
  BlockStatus commit(SequenceId sequence, std::span<const std::int32_t> tokens);
  /// See `BlockManager`.
  BlockStatus truncate(SequenceId sequence, Tokens count);
  /// See `BlockManager`.
  [[nodiscard]] ForkOutcome fork(SequenceId sequence);
  /// See `BlockManager`.
  BlockStatus release(SequenceId sequence);
  /// See `BlockManager`.
  [[nodiscard]] Result<SuspendedSequence> suspend(SequenceId sequence);
  /// See `BlockManager`.
  [[nodiscard]] AdmitOutcome resume(const SuspendedSequence& suspended,
                                    std::optional<Tokens> reserve = {});
  /// See `BlockManager`.
  [[nodiscard]] Result<PreemptReceipt> preempt(SequenceId sequence);
  /// See `BlockManager`.
  [[nodiscard]] PinOutcome pin(const PrefixQuery& query);
  /// See `BlockManager`.
  BlockStatus unpin(PinId pin);
  /// See `BlockManager`.
  BlockStatus set_computed(SequenceId sequence, GroupId group, Tokens computed);
  /// See `BlockManager`.
  BlockStatus restore_snapshot(SequenceId sequence);
  /// See `BlockManager`.
  BlockStatus stop_drafting(SequenceId sequence);
  /// See `BlockManager`.
  void clear_copies();
  /// See `BlockManager`.
  Pages evict(GroupId group, Pages count);
  /// See `BlockManager`.
  void flush_cache();
  /// See `BlockManager`.
  void reset();

 private:
  BlockManager* manager_;
  std::string trace_;
};

/// Runs a trace against a manager in the state in which the recorded one was at the trace's start:
/// a fresh one of the same pools and options, for a trace from creation on.
/// @return the number of calls; `kInvalidArgument`, with the line as key, for a trace that does not
///   parse, or an answer or a fingerprint that differs from the recorded one
[[nodiscard]] Result<std::int64_t> replay(std::string_view trace, BlockManager& manager);

}  // namespace kvpool
