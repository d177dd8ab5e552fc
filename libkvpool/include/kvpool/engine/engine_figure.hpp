// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/units.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace kvpool {

/// Figures that engines print, or that follow from what they print. `docs/engines.md` says what
/// each means.
enum class FigureKey {
  kNumBlocks,             ///< blocks of the pool, a null block among them
  kKvTokens,              ///< tokens as the engine prints them
  kTokensPerBlock,        ///< tokens of a block after the engine has enlarged it
  kMaxConcurrency,        ///< requests of the longest length that fit at once
  kMaxLenThatFits,        ///< longest single request, up to the longest length
  kNeededGib,             ///< what one request of the asked length takes
  kPoolGib,               ///< cache of all layers without drafter and states
  kPoolBytes,             ///< the same in bytes
  kBudgetGib,             ///< memory offered to the cache
  kAvailableGib,          ///< free memory before the fraction
  kAllocatedSlots,        ///< token slots held, the dump page among them
  kMlaGib,                ///< latent cache without indexer keys
  kKGib,                  ///< K of the full-attention layers
  kVGib,                  ///< V of the full-attention layers
  kSwaTokens,             ///< tokens of the sliding layers' pool
  kSwaKGib,               ///< K of the sliding layers
  kSwaVGib,               ///< V of the sliding layers
  kDraftKGib,             ///< K of the drafter's pool
  kDraftVGib,             ///< V of the drafter's pool
  kStateConvGib,          ///< convolution states of all slots
  kStateSsmGib,           ///< matrix states of all slots
  kSpecStateSsmGib,       ///< matrix states kept for draft tokens
  kSpecStateConvGib,      ///< convolution states kept for draft tokens
  kStatePaddingPercent,   ///< what a state's page exceeds it by, relative to the state
  kPaddingLayers,         ///< empty places of the first kind of layers that has any
  kPaddingLayersPercent,  ///< the same relative to the layers of that kind
  kKMib,                  ///< K of the layers without window, all streams
  kVMib,                  ///< V of the layers without window, all streams
  kKvMib,                 ///< their sum
  kSwaCells,              ///< cells of one stream of the sliding cache
  kSwaKMib,               ///< K of the sliding layers
  kSwaKvMib,              ///< K and V of the sliding layers
  kRecurrentCells,        ///< recurrent states
  kRecurrentRMib,         ///< convolution part of the recurrent states
  kRecurrentSMib,         ///< matrix part of the recurrent states
  kDraftKvMib,            ///< K and V of the drafter's context
  kDraftTokensPerBlock,   ///< page of the drafter's pool
  kDraftNumBlocks,        ///< pages of the drafter's pool
  kDraftPoolBytes,        ///< bytes of the drafter's pool
};

/// In what a figure is printed.
enum class FigureUnit {
  kCount,  ///< a whole number
  kReal,   ///< a decimal number (requests, percent)
  kGib,    ///< bytes, printed as multiples of 2^30
  kMib,    ///< bytes, printed as multiples of 2^20
};

/// All figures, in declaration order.
[[nodiscard]] std::span<const FigureKey> all_figures() noexcept;

/// Name as in the case files, such as `kv_tokens` or `state_padding_percent`.
[[nodiscard]] std::string_view to_string(FigureKey key) noexcept;

/// Reads the spelling of `to_string`, or nothing.
[[nodiscard]] std::optional<FigureKey> parse_figure_key(std::string_view text) noexcept;

/// Unit in which a figure is printed.
[[nodiscard]] FigureUnit unit_of(FigureKey key) noexcept;

/// Memory sizes between which a printed one must lie: `low / scale` to `high / scale` bytes. Where
/// an engine prints memory that is not the pool itself.
struct PrintedRange {
  /// Lower end, in bytes times `scale`.
  std::int64_t low = 0;
  /// Upper end, in bytes times `scale`.
  std::int64_t high = 0;
  /// Millionths when the ends were divided by a fraction, else 1 000 000.
  std::int64_t scale_ppm = 1'000'000;
  /// True if the lower end itself is in the range (and the upper not); else the other way round.
  bool holds_low = true;

  /// Field by field.
  friend bool operator==(const PrintedRange&, const PrintedRange&) = default;
};

/// A predicted figure: a whole number, a decimal one, a size, or a range of sizes.
struct EngineFigure {
  /// Which.
  FigureKey key = FigureKey::kNumBlocks;
  /// How much.
  std::variant<std::int64_t, double, Bytes, PrintedRange> value{};

  /// Field by field.
  friend bool operator==(const EngineFigure&, const EngineFigure&) = default;
};

/// How many decimals an engine keeps.
enum class FigureRounding {
  kNearest,  ///< to the nearest, exact halves to the even digit
  kFloor,    ///< further decimals are cut off
};

/// A figure that an engine printed.
struct ExpectedFigure {
  /// Which.
  FigureKey key = FigureKey::kNumBlocks;
  /// As printed: digits, and decimals behind a dot.
  std::string printed{};

  /// Field by field.
  friend bool operator==(const ExpectedFigure&, const ExpectedFigure&) = default;
};

/// True for digits with at most one dot and at most nine decimals, at most 18 digits in all.
[[nodiscard]] bool is_printed_number(std::string_view text) noexcept;

/// A figure with as many decimals as `printed` has; of a range the lower end.
/// @pre is_printed_number(printed)
[[nodiscard]] std::string figure_text(const EngineFigure& figure, std::string_view printed,
                                      FigureRounding rounding);

/// True if the engine would print `expected` for what is predicted: the same digits after rounding,
/// or, for a range, if a value that prints so lies in it.
/// @pre is_printed_number(expected.printed)
[[nodiscard]] bool agrees(const EngineFigure& predicted, const ExpectedFigure& expected,
                          FigureRounding rounding);

}  // namespace kvpool
