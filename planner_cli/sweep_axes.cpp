// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "sweep_axes.hpp"

#include <kvpool/core/size_text.hpp>

#include "exit_codes.hpp"
#include "request.hpp"
#include "spelling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <utility>

namespace kvpool::cli {
namespace {

using enum OptionId;

constexpr std::size_t kMostPoints = 1'000'000;
constexpr std::int64_t kWhole = 1'000'000;

/// How the values of an option are written as numbers.
enum class ValueKind { kText, kFlag, kNumber, kTokens, kSize, kShare };

[[nodiscard]] ValueKind kind_of(const OptionSpec& spec) noexcept {
  if (spec.arity == Arity::kFlag) {
    return ValueKind::kFlag;
  }
  switch (spec.id) {
    case kTp:
    case kPp:
    case kDp:
    case kDcp:
    case kEp:
    case kMaxNumSeqs:
    case kReservedPages:
    case kNumDraftTokens: return ValueKind::kNumber;
    case kPageSize:
    case kDraftPageSize:
    case kMaxModelLen:
    case kMaxNumBatchedTokens: return ValueKind::kTokens;
    case kGpuMemory:
    case kKvBudget:
    case kWeights:
    case kOverhead:
    case kGranularity: return ValueKind::kSize;
    case kGpuMemoryUtilization: return ValueKind::kShare;
    default: return ValueKind::kText;
  }
}

/// The number that a value stands for, or nothing.
[[nodiscard]] std::optional<std::int64_t> number_of(ValueKind kind, std::string_view text) {
  switch (kind) {
    case ValueKind::kNumber: {
      std::int64_t value = 0;
      const auto [stop, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
      return failed == std::errc{} && stop == text.data() + text.size() ? std::optional{value}
                                                                        : std::nullopt;
    }
    case ValueKind::kTokens: {
      const auto tokens = parse_token_count(text);
      return tokens ? std::optional{tokens->count()} : std::nullopt;
    }
    case ValueKind::kSize: {
      const auto size = parse_size(text);
      return size ? std::optional{size->count()} : std::nullopt;
    }
    case ValueKind::kShare: {
      const std::int64_t ppm = parse_share_ppm(text);
      return ppm > 0 ? std::optional{ppm} : std::nullopt;
    }
    case ValueKind::kText:
    case ValueKind::kFlag: break;
  }
  return std::nullopt;
}

[[nodiscard]] std::string text_of(ValueKind kind, std::int64_t value) {
  if (kind == ValueKind::kSize) {
    return size_argument(Bytes{value});
  }
  if (kind == ValueKind::kShare) {
    std::string text = fmt::format("{}.{:06}", value / kWhole, value % kWhole);
    text.erase(text.find_last_not_of('0') + 1);
    return text.ends_with('.') ? text + "0" : text;
  }
  return std::to_string(value);
}

[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = std::min(text.find(at), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size()) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

/// Reads one `--over`.
class AxisReader {
 public:
  AxisReader(const GivenValue& given) : given_{given} {}

  [[nodiscard]] SweepAxis read() {
    const std::size_t equals = given_.text.find('=');
    if (equals == std::string::npos || equals + 1 == given_.text.size()) {
      fail("OPTION=VALUES is expected, such as tp=1,2,4,8 or max-model-len=8k:128k:*2");
    }
    std::string_view name = std::string_view{given_.text}.substr(0, equals);
    name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
    const std::string_view values = std::string_view{given_.text}.substr(equals + 1);
    read_option(name);
    if (const auto parts = split(values, ':'); parts.size() > 1 && is_numeric()) {
      read_range(parts);
    } else {
      for (const std::string_view value : split(values, ',')) {
        add(value);
      }
    }
    if (axis_.numbers.size() != axis_.values.size()) {
      axis_.numbers.clear();
    }
    return std::move(axis_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    given_.fail(option_spec(kOver), message);
  }
  [[nodiscard]] bool is_numeric() const {
    return kind_ != ValueKind::kText && kind_ != ValueKind::kFlag;
  }

  void read_option(std::string_view name) {
    if (name == "model") {
      axis_.name = "model";
      return;
    }
    const OptionSpec* spec = find_option(name, Command::kPlan);
    const bool planned = spec != nullptr && spec->serves(Command::kSweep) &&
                         spec->arity != Arity::kRepeated && spec->id != kDeployment &&
                         spec->id != kJson;
    if (!planned) {
      std::string typed{name};
      std::ranges::replace(typed, '_', '-');
      fail("'" + std::string{name} + "' is no option of a plan that can be swept" +
           did_you_mean(typed, spellings_of(Command::kPlan)));
    }
    axis_.option = spec->id;
    axis_.name = std::string{spec->spellings[0]};
    kind_ = kind_of(*spec);
  }

  void add(std::string_view value) {
    if (value.empty()) {
      fail("an empty value among those of " + axis_.name);
    }
    if (kind_ == ValueKind::kFlag && value != "true" && value != "false") {
      fail(axis_.name + " is true or false, not '" + std::string{value} + "'");
    }
    if (const auto number = number_of(kind_, value); number.has_value()) {
      axis_.numbers.push_back(static_cast<double>(*number));
    }
    axis_.values.emplace_back(value);
  }

  void read_range(const std::vector<std::string_view>& parts) {
    const auto from = number_of(kind_, parts[0]);
    const auto to = parts.size() > 1 ? number_of(kind_, parts[1]) : std::nullopt;
    if (parts.size() != 3 || !from.has_value() || !to.has_value() || parts[2].size() < 2) {
      fail("a range of " + axis_.name + " is FROM:TO:*FACTOR or FROM:TO:+STEP");
    }
    const char sign = parts[2].front();
    const std::string_view step_text = parts[2].substr(1);
    const auto step = number_of(sign == '*' ? ValueKind::kNumber : kind_, step_text);
    if ((sign != '*' && sign != '+') || !step.has_value() || *step < (sign == '*' ? 2 : 1) ||
        *from < 1 || *to < *from) {
      fail("'" + std::string{parts[2]} + "' is no step of a range of " + axis_.name +
           " from 1 on: *FACTOR of at least 2, or +STEP");
    }
    for (std::int64_t value = *from; value <= *to;) {
      add(text_of(kind_, value));
      if (axis_.values.size() > kMostPoints) {
        fail("a range of more than a million values");
      }
      std::int64_t next = 0;
      const bool over = sign == '*' ? __builtin_mul_overflow(value, *step, &next)
                                    : __builtin_add_overflow(value, *step, &next);
      if (over) {
        break;
      }
      value = next;
    }
  }

  const GivenValue& given_;
  SweepAxis axis_;
  ValueKind kind_ = ValueKind::kText;
};

}  // namespace

std::vector<SweepAxis> read_axes(const Options& options) {
  std::vector<SweepAxis> axes;
  const auto given = options.values.find(kOver);
  if (given == options.values.end()) {
    throw usage_failure("--over is missing: what to sweep, such as --over tp=1,2,4,8");
  }
  for (const GivenValue& value : given->second) {
    SweepAxis axis = AxisReader{value}.read();
    if (std::ranges::find(axes, axis.name, &SweepAxis::name) != axes.end()) {
      value.fail(option_spec(kOver), axis.name + " is swept twice");
    }
    axes.push_back(std::move(axis));
    if (point_count(axes) > kMostPoints) {
      value.fail(option_spec(kOver), "more than a million points");
    }
  }
  return axes;
}

std::size_t point_count(std::span<const SweepAxis> axes) noexcept {
  std::size_t points = 1;
  for (const SweepAxis& axis : axes) {
    points *= axis.values.size();
  }
  return points;
}

std::vector<std::size_t> indices_of(std::span<const SweepAxis> axes, std::size_t point) {
  std::vector<std::size_t> indices(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    indices[i] = point % axes[i].values.size();
    point /= axes[i].values.size();
  }
  return indices;
}

Options options_of(const Options& options, std::span<const SweepAxis> axes,
                   std::span<const std::size_t> indices) {
  Options point = options;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::string& value = axes[i].values[indices[i]];
    if (!axes[i].option.has_value()) {
      point.input = value;
    } else if (value == "none" || value == "false") {
      point.values.erase(*axes[i].option);
    } else {
      point.values[*axes[i].option] = {GivenValue{.text = value, .file = {}, .place = {}}};
    }
  }
  return point;
}

}  // namespace kvpool::cli
