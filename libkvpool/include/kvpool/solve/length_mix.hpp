// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/plan/pool_plan.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool {

/// One length of a mix and how common it is beside the others.
struct LengthShare {
  /// Tokens of a sequence, prompt and answer.
  Tokens length{};
  /// Weight: a count of a sample, or millionths.
  std::int64_t weight = 1;

  /// Field by field.
  friend bool operator==(const LengthShare&, const LengthShare&) = default;
};

/// Lengths of the sequences of a deployment. Made by the functions below: ascending, no length
/// twice, at least one; weights are at least 1 and sum to less than 2^40.
struct LengthMix {
  /// The lengths.
  std::vector<LengthShare> shares{};

  /// Longest length. @pre not empty
  [[nodiscard]] Tokens longest() const noexcept { return shares.back().length; }
  /// Sum of the weights.
  [[nodiscard]] std::int64_t total_weight() const noexcept;

  /// Field by field.
  friend bool operator==(const LengthMix&, const LengthMix&) = default;
};

/// So many sequences of one length.
struct LengthCount {
  /// Tokens of each.
  Tokens length{};
  /// How many.
  Sequences sequences{};

  /// Field by field.
  friend bool operator==(const LengthCount&, const LengthCount&) = default;
};

/// A sample of lengths, each counted once.
/// @return `kInvalidArgument` when there is none, or one outside 1 to 2^40 tokens
[[nodiscard]] Result<LengthMix> mix_of_sample(std::span<const Tokens> lengths);

/// Reads percentiles: `p50=4k,p90=32k,p99.9=128k,max=256k`. All sequences up to a percentile have
/// its length, so that a mix is never shorter than what was stated. Lengths are written as for
/// `parse_token_count`, percentiles with up to four decimals; `max` is `p100`.
/// @param longest length of those above the last percentile when `max` is not among them
/// @return `kInvalidArgument` for anything else, for percentiles or lengths that do not ascend, and
///   for lengths above `longest`
[[nodiscard]] Result<LengthMix> parse_percentiles(std::string_view text, Tokens longest);

/// 256 lengths from short to `longest`, equally common: what is assumed when no mix is stated.
/// @pre `longest` is at least 1
[[nodiscard]] LengthMix even_mix(Tokens longest);

/// Lengths of `sequences` sequences that follow a mix, ascending; classes of none are left out. The
/// longer lengths get the rounding, so that one sequence has the longest length, and a sequence
/// more never makes the load smaller.
[[nodiscard]] std::vector<LengthCount> sequences_of(const LengthMix& mix, Sequences sequences);

/// A pool that runs out before others.
struct ShortPool {
  /// Pipeline stage.
  std::int64_t stage = 0;
  /// Name of the pool.
  std::string pool{};

  /// Field by field.
  friend bool operator==(const ShortPool&, const ShortPool&) = default;
};

/// The first pool of a plan that does not hold such sequences at the same time; nothing when all
/// do. For sequences of one length, those that were planned for, this is the question that
/// `Plan::fits` answers. A plan without pools holds nothing: its name is empty then.
[[nodiscard]] std::optional<ShortPool> pool_that_runs_out(const Plan& plan,
                                                          std::span<const LengthCount> load);

}  // namespace kvpool
