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
  kNumBlocks,
  kKvTokens,
  kTokensPerBlock,
  kMaxConcurrency,
  kMaxLenThatFits,
  kNeededGib,
  kPoolGib,
  kPoolBytes,
  kBudgetGib,
  kAvailableGib,
  kAllocatedSlots,
  kMlaGib,
  kKGib,
  kVGib,
  kSwaTokens,
  kSwaKGib,
  kSwaVGib,
  kDraftKGib,
  kDraftVGib,
  kStateConvGib,
  kStateSsmGib,
  kSpecStateSsmGib,
  kSpecStateConvGib,
  kStatePaddingPercent,
  kPaddingLayers,
  kPaddingLayersPercent,
  kKMib,
  kVMib,
  kKvMib,
  kSwaCells,
  kSwaKMib,
  kSwaKvMib,
  kRecurrentCells,
  kRecurrentRMib,
  kRecurrentSMib,
  kDraftKvMib,
  kDraftTokensPerBlock,
  kDraftNumBlocks,
  kDraftPoolBytes,
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
