// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>
#include <kvpool/core/ids.hpp>
#include <kvpool/core/units.hpp>

#include "model.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace example {

/// Added to the name of a request for its branch.
inline constexpr std::int32_t kBranchName = 1'000;
/// Steps that a user who stopped reading takes to go on.
inline constexpr std::int64_t kPause = 12;

/// What a user asks for.
struct Request {
  std::int32_t name = 0;
  std::vector<std::int32_t> prompt{};
  std::size_t max_output = 0;
  /// Step in which it arrives.
  std::int64_t arrives = 0;
  /// He wants a second answer that begins with another token: a fork.
  bool has_branch = false;
  /// He stops reading after so many tokens for a while, and his pages go to others; 0: never.
  std::size_t pauses_at = 0;
};

/// A request on its way through the engine.
struct Job {
  Request request{};
  /// Generated so far. While it is decoding, the last one is not in the cache yet.
  std::vector<std::int32_t> output{};
  /// Tokens of `output` that it began with: those of a branch are not all its own.
  std::size_t given = 0;
  /// Its pages, while it runs.
  std::optional<kvpool::SequenceId> sequence{};
  /// Its row in the batch, while it runs.
  std::int64_t row = 0;
  /// Tokens to compute before it decodes: the prompt, and what was generated before a preemption.
  kvpool::Tokens prefill{};
  /// Query tokens of this step.
  kvpool::Tokens query{};
  /// Whether they are a block of drafts behind the last token.
  bool is_speculative = false;
  /// What is left of it while it does not run.
  std::optional<kvpool::SuspendedSequence> suspended{};

  /// Prompt and output.
  [[nodiscard]] std::vector<std::int32_t> tokens() const {
    std::vector<std::int32_t> all = request.prompt;
    all.insert(all.end(), output.begin(), output.end());
    return all;
  }
};

/// What happened, for the report.
struct Statistics {
  std::int64_t steps = 0;
  /// Steps in which blocks of drafts were verified.
  std::int64_t speculative_steps = 0;
  std::int64_t prefill_tokens = 0;
  std::int64_t generated = 0;
  /// Tokens that came out of blocks.
  std::int64_t by_blocks = 0;
  /// Blocks by the number of drafts that were accepted.
  std::array<std::int64_t, kBlock> accepted{};
  /// Accepted drafts that were the drafter's own, and all that it proposed.
  std::int64_t drafter_right = 0;
  std::int64_t drafter_proposed = 0;
  /// Truncations after which the target's pools, or the drafter's, had pages given back.
  std::int64_t target_pages_rejected = 0;
  std::int64_t draft_pages_rejected = 0;
  std::int64_t forks = 0;
  std::int64_t preemptions = 0;
  std::int64_t suspensions = 0;
  /// Resumed jobs that generated the same token again, and others.
  std::int64_t resumed_alike = 0;
  std::int64_t resumed_otherwise = 0;
  /// Requests that were refused at least once and admitted later.
  std::int64_t admitted_later = 0;
  std::int64_t refused_admissions = 0;
  /// Times that a job waited for a step of the device to end.
  std::int64_t waits = 0;
  /// Sequences that went on without the drafter.
  std::int64_t without_drafter = 0;
  std::int64_t copied_pages = 0;
  std::int64_t table_changes = 0;
  std::int64_t findings = 0;
  std::int64_t running_rows = 0;  ///< summed over steps
  std::int64_t scheduling_ns = 0;
  std::int64_t kernels_ns = 0;
  /// Pages that sequences held, by group: summed over steps, and most.
  std::vector<std::int64_t> held_pages{};
  std::vector<std::int64_t> most_held_pages{};
};

}  // namespace example
