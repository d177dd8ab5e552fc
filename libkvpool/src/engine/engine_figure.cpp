// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/engine/engine_figure.hpp>

#include <kvpool/core/checked.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace kvpool {
namespace {

struct FigureSpec {
  FigureKey key;
  std::string_view name;
  FigureUnit unit;
};

using enum FigureUnit;

constexpr std::array kSpecs{
    FigureSpec{FigureKey::kNumBlocks, "num_blocks", kCount},
    FigureSpec{FigureKey::kKvTokens, "kv_tokens", kCount},
    FigureSpec{FigureKey::kTokensPerBlock, "tokens_per_block", kCount},
    FigureSpec{FigureKey::kMaxConcurrency, "max_concurrency", kReal},
    FigureSpec{FigureKey::kMaxLenThatFits, "max_len_that_fits", kCount},
    FigureSpec{FigureKey::kNeededGib, "needed_gib", kGib},
    FigureSpec{FigureKey::kPoolGib, "pool_gib", kGib},
    FigureSpec{FigureKey::kPoolBytes, "pool_bytes", kCount},
    FigureSpec{FigureKey::kBudgetGib, "budget_gib", kGib},
    FigureSpec{FigureKey::kAvailableGib, "available_gib", kGib},
    FigureSpec{FigureKey::kAllocatedSlots, "allocated_slots", kCount},
    FigureSpec{FigureKey::kMlaGib, "mla_gib", kGib},
    FigureSpec{FigureKey::kKGib, "k_gib", kGib},
    FigureSpec{FigureKey::kVGib, "v_gib", kGib},
    FigureSpec{FigureKey::kSwaTokens, "swa_tokens", kCount},
    FigureSpec{FigureKey::kSwaKGib, "swa_k_gib", kGib},
    FigureSpec{FigureKey::kSwaVGib, "swa_v_gib", kGib},
    FigureSpec{FigureKey::kDraftKGib, "draft_k_gib", kGib},
    FigureSpec{FigureKey::kDraftVGib, "draft_v_gib", kGib},
    FigureSpec{FigureKey::kStateConvGib, "state_conv_gib", kGib},
    FigureSpec{FigureKey::kStateSsmGib, "state_ssm_gib", kGib},
    FigureSpec{FigureKey::kSpecStateSsmGib, "spec_state_ssm_gib", kGib},
    FigureSpec{FigureKey::kSpecStateConvGib, "spec_state_conv_gib", kGib},
    FigureSpec{FigureKey::kStatePaddingPercent, "state_padding_percent", kReal},
    FigureSpec{FigureKey::kPaddingLayers, "padding_layers", kCount},
    FigureSpec{FigureKey::kPaddingLayersPercent, "padding_layers_percent", kReal},
    FigureSpec{FigureKey::kKMib, "k_mib", kMib},
    FigureSpec{FigureKey::kVMib, "v_mib", kMib},
    FigureSpec{FigureKey::kKvMib, "kv_mib", kMib},
    FigureSpec{FigureKey::kSwaCells, "swa_cells", kCount},
    FigureSpec{FigureKey::kSwaKMib, "swa_k_mib", kMib},
    FigureSpec{FigureKey::kSwaKvMib, "swa_kv_mib", kMib},
    FigureSpec{FigureKey::kRecurrentCells, "recurrent_cells", kCount},
    FigureSpec{FigureKey::kRecurrentRMib, "recurrent_r_mib", kMib},
    FigureSpec{FigureKey::kRecurrentSMib, "recurrent_s_mib", kMib},
    FigureSpec{FigureKey::kDraftKvMib, "draft_kv_mib", kMib},
    FigureSpec{FigureKey::kDraftTokensPerBlock, "draft_tokens_per_block", kCount},
    FigureSpec{FigureKey::kDraftNumBlocks, "draft_num_blocks", kCount},
    FigureSpec{FigureKey::kDraftPoolBytes, "draft_pool_bytes", kCount}};

constexpr std::array kKeys = [] {
  std::array<FigureKey, kSpecs.size()> keys{};
  std::ranges::transform(kSpecs, keys.begin(), &FigureSpec::key);
  return keys;
}();

const FigureSpec& spec_of(FigureKey key) noexcept {
  return *std::ranges::find(kSpecs, key, &FigureSpec::key);
}

/// More digits would not survive 64 bits; more decimals nobody prints.
constexpr std::size_t kMostDigits = 18;
constexpr std::size_t kMostDecimals = 9;
/// A double has no more binary places that matter here, so that cutting its text is exact.
constexpr std::size_t kExactDecimals = 64;

std::size_t decimals_of(std::string_view printed) noexcept {
  const std::size_t dot = printed.find('.');
  return dot == std::string_view::npos ? 0 : printed.size() - dot - 1;
}

/// Bytes of one printed unit.
std::int64_t unit_bytes(FigureKey key) noexcept {
  constexpr std::int64_t kGibBytes = std::int64_t{1} << 30;
  constexpr std::int64_t kMibBytes = std::int64_t{1} << 20;
  switch (unit_of(key)) {
    case kGib: return kGibBytes;
    case kMib: return kMibBytes;
    case kCount:
    case kReal: return 1;
  }
  return 1;
}

std::string decimal_text(double value, std::size_t decimals, FigureRounding rounding) {
  if (rounding == FigureRounding::kNearest) {
    return fmt::format("{:.{}f}", value, decimals);
  }
  std::string text = fmt::format("{:.{}f}", value, decimals + kExactDecimals);
  const std::size_t dot = text.find('.');
  text.resize(decimals == 0 ? dot : dot + 1 + decimals);
  return text;
}

/// The printed number without its dot.
std::int64_t scaled_digits(std::string_view printed) noexcept {
  std::int64_t digits = 0;
  for (const char c : printed) {
    if (c != '.') {
      digits = digits * 10 + (c - '0');
    }
  }
  return digits;
}

/// True if some size that prints as `printed` lies in the range. Everything is compared as whole
/// numbers: sizes times 2 x 10^decimals x scale.
bool reaches(const PrintedRange& range, std::string_view printed, std::int64_t unit,
             FigureRounding rounding) {
  std::int64_t power = 1;
  for (std::size_t i = 0; i < decimals_of(printed); ++i) {
    power *= 10;
  }
  const CheckedInt digits{scaled_digits(printed)};
  const bool even = scaled_digits(printed) % 2 == 0;
  const bool nearest = rounding == FigureRounding::kNearest;
  // Printed sizes: [least, most], the ends included as exact halves go to the even digit; cut off
  // decimals include the lower end alone.
  const CheckedInt scale = CheckedInt{unit} * range.scale_ppm;
  const CheckedInt least = (digits * 2 - (nearest ? 1 : 0)) * scale;
  const CheckedInt most = (digits * 2 + (nearest ? 1 : 2)) * scale;
  const bool holds_least = nearest ? even : true;
  const bool holds_most = nearest && even;
  const CheckedInt per_byte = CheckedInt{power} * 2 * 1'000'000;
  const CheckedInt low = per_byte * range.low;
  const CheckedInt high = per_byte * range.high;
  const auto sign = [](CheckedInt a, CheckedInt b) {
    const auto order = (a - b).saturated();
    return order < 0 ? -1 : static_cast<int>(order > 0);
  };
  const int below_high = sign(least, high);
  const int above_low = sign(most, low);
  const bool meets_high = below_high < 0 || (below_high == 0 && holds_least && !range.holds_low);
  const bool meets_low = above_low > 0 || (above_low == 0 && holds_most && range.holds_low);
  return meets_high && meets_low;
}

}  // namespace

std::span<const FigureKey> all_figures() noexcept { return kKeys; }

std::string_view to_string(FigureKey key) noexcept { return spec_of(key).name; }

std::optional<FigureKey> parse_figure_key(std::string_view text) noexcept {
  const auto* found = std::ranges::find(kSpecs, text, &FigureSpec::name);
  return found == kSpecs.end() ? std::nullopt : std::optional{found->key};
}

FigureUnit unit_of(FigureKey key) noexcept { return spec_of(key).unit; }

bool is_printed_number(std::string_view text) noexcept {
  const auto digits = static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return c >= '0' && c <= '9'; }));
  const auto dots = static_cast<std::size_t>(std::ranges::count(text, '.'));
  return digits > 0 && digits <= kMostDigits && dots <= 1 && digits + dots == text.size() &&
         decimals_of(text) <= kMostDecimals && text.front() != '.' && text.back() != '.';
}

std::string figure_text(const EngineFigure& figure, std::string_view printed,
                        FigureRounding rounding) {
  const std::size_t decimals = decimals_of(printed);
  const auto unit = static_cast<double>(unit_bytes(figure.key));
  if (const auto* count = std::get_if<std::int64_t>(&figure.value)) {
    return decimals == 0 ? fmt::format("{}", *count)
                         : decimal_text(static_cast<double>(*count), decimals, rounding);
  }
  if (const auto* real = std::get_if<double>(&figure.value)) {
    return decimal_text(*real, decimals, rounding);
  }
  if (const auto* size = std::get_if<Bytes>(&figure.value)) {
    return unit_of(figure.key) == kCount
               ? fmt::format("{}", size->count())
               : decimal_text(static_cast<double>(size->count()) / unit, decimals, rounding);
  }
  const auto& range = std::get<PrintedRange>(figure.value);
  const double scale = static_cast<double>(range.scale_ppm) / 1e6;
  return decimal_text(static_cast<double>(range.low) / scale / unit, decimals, rounding);
}

bool agrees(const EngineFigure& predicted, const ExpectedFigure& expected,
            FigureRounding rounding) {
  if (const auto* range = std::get_if<PrintedRange>(&predicted.value)) {
    return reaches(*range, expected.printed, unit_bytes(expected.key), rounding);
  }
  return figure_text(predicted, expected.printed, rounding) == expected.printed;
}

}  // namespace kvpool
