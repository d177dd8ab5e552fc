// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/solve/length_mix.hpp>

#include <kvpool/core/checked.hpp>
#include <kvpool/core/size_text.hpp>

#include "plan/stage_pools.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

namespace kvpool {
namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 40;
/// Percentiles are read to a millionth.
constexpr std::int64_t kWhole = 1'000'000;
constexpr std::size_t kMostDecimals = 4;
constexpr std::int64_t kEvenLengths = 256;

Error bad_mix(std::string message, std::string_view value) {
  return {.code = ErrorCode::kInvalidArgument,
          .message = std::move(message),
          .key = "lengths",
          .value = std::string{value.substr(0, 80)}};
}

/// `p99.9`, `99.9` or `max` in millionths; -1 for anything else.
std::int64_t percentile_ppm(std::string_view text) {
  if (text == "max") {
    return kWhole;
  }
  if (text.starts_with('p') || text.starts_with('P')) {
    text.remove_prefix(1);
  }
  const std::size_t dot = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, dot);
  const std::string_view decimals = dot < text.size() ? text.substr(dot + 1) : std::string_view{};
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (whole.empty() || whole.size() > 3 || decimals.size() > kMostDecimals ||
      !std::ranges::all_of(whole, is_digit) || !std::ranges::all_of(decimals, is_digit)) {
    return -1;
  }
  std::int64_t value = 0;
  for (const char digit : whole) {
    value = value * 10 + (digit - '0');
  }
  for (std::size_t i = 0; i < kMostDecimals; ++i) {
    value = value * 10 + (i < decimals.size() ? decimals[i] - '0' : 0);
  }
  return value > 0 && value <= kWhole ? value : -1;
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) {
    text.remove_prefix(1);
  }
  while (text.ends_with(' ')) {
    text.remove_suffix(1);
  }
  return text;
}

/// Adds one length class, merged with an equal one before it.
void add_share(LengthMix& mix, Tokens length, std::int64_t weight) {
  if (!mix.shares.empty() && mix.shares.back().length == length) {
    mix.shares.back().weight += weight;
  } else {
    mix.shares.push_back({.length = length, .weight = weight});
  }
}

}  // namespace

std::int64_t LengthMix::total_weight() const noexcept {
  std::int64_t sum = 0;
  for (const LengthShare& share : shares) {
    sum += share.weight;
  }
  return sum;
}

Result<LengthMix> mix_of_sample(std::span<const Tokens> lengths) {
  if (lengths.empty()) {
    return bad_mix("no lengths are given", "");
  }
  std::vector<Tokens> sorted{lengths.begin(), lengths.end()};
  std::ranges::sort(sorted);
  for (const Tokens length : {sorted.front(), sorted.back()}) {
    if (length.count() < 1 || length.count() > kLongest) {
      return bad_mix(fmt::format("a length of {} tokens is outside 1 to 2^40", length.count()),
                     fmt::format("{}", length.count()));
    }
  }
  LengthMix mix;
  for (const Tokens length : sorted) {
    add_share(mix, length, 1);
  }
  return mix;
}

Result<LengthMix> parse_percentiles(std::string_view text, Tokens longest) {
  LengthMix mix;
  std::int64_t below = 0;
  const std::string_view whole = text;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = trimmed(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      return bad_mix(
          fmt::format("'{}' is no percentile and its length, such as p90=32k", part.substr(0, 80)),
          whole);
    }
    const std::int64_t ppm = percentile_ppm(trimmed(part.substr(0, equals)));
    if (ppm < 0) {
      return bad_mix(
          fmt::format("'{}' is no percentile above 0 and up to 100, such as p99.9, or max",
                      trimmed(part.substr(0, equals)).substr(0, 80)),
          whole);
    }
    const auto length = parse_token_count(trimmed(part.substr(equals + 1)));
    if (!length) {
      return bad_mix(length.error().message, whole);
    }
    if (ppm <= below || (!mix.shares.empty() && *length < mix.longest())) {
      return bad_mix("percentiles and their lengths must ascend", whole);
    }
    if (length->count() < 1 || *length > longest) {
      return bad_mix(fmt::format("a length of {} tokens is outside 1 to {}, the longest sequence",
                                 length->count(), longest.count()),
                     whole);
    }
    add_share(mix, *length, ppm - below);
    below = ppm;
  }
  if (mix.shares.empty()) {
    return bad_mix("no percentiles are given, such as p50=4k,p99=32k,max=128k", whole);
  }
  if (below < kWhole) {
    add_share(mix, longest, kWhole - below);
  }
  return mix;
}

LengthMix even_mix(Tokens longest) {
  LengthMix mix;
  const std::int64_t classes = std::min(kEvenLengths, longest.count());
  for (std::int64_t i = 1; i <= classes; ++i) {
    const CheckedInt length = floor_div(CheckedInt{longest.count()} * i, CheckedInt{classes});
    // Not all of them multiples of a power of two, which would fill every page.
    const std::int64_t odd =
        i == classes ? 0 : (i * 37) % std::max<std::int64_t>(longest.count() / classes, 1);
    add_share(mix, Tokens{length.saturated() + odd}, 1);
  }
  return mix;
}

std::vector<LengthCount> sequences_of(const LengthMix& mix, Sequences sequences) {
  std::vector<LengthCount> counts;
  const CheckedInt total{mix.total_weight()};
  std::int64_t weight_above = 0;
  std::int64_t above = 0;
  for (const LengthShare& share : std::views::reverse(mix.shares)) {
    weight_above += share.weight;
    const std::int64_t at_least =
        ceil_div(CheckedInt{sequences.count()} * weight_above, total).saturated();
    if (at_least > above) {
      counts.push_back({.length = share.length, .sequences = Sequences{at_least - above}});
    }
    above = at_least;
  }
  std::ranges::reverse(counts);
  return counts;
}

std::optional<ShortPool> pool_that_runs_out(const Plan& plan, std::span<const LengthCount> load) {
  if (plan.ranks.empty()) {
    return ShortPool{};
  }
  const Resolution& resolution = plan.resolution;
  const SizingRules rules = sizing_rules(plan.request, resolution);
  for (const PoolPlan& rank : plan.ranks) {
    for (const PoolDescriptor& pool : rank.pools) {
      const bool is_state = pool.role == PoolRole::kState;
      const Tokens followed =
          pool.role == PoolRole::kDraft ? resolution.draft_max_len : resolution.max_model_len;
      std::vector<Load> loads;
      for (const LengthCount& count : load) {
        loads.push_back({.sequences = count.sequences, .length = std::min(count.length, followed)});
      }
      CheckedInt slabs{0};
      for (const PooledGroup& group : pool.groups) {
        slabs += slabs_needed(group, loads, is_state ? Tokens{0} : resolution.draft_tokens, rules);
      }
      if (slabs.saturated() > pool.slabs.count()) {
        return ShortPool{.stage = rank.stage, .pool = pool.name};
      }
    }
  }
  return std::nullopt;
}

}  // namespace kvpool
