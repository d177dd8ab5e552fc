// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "output/svg_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvpool::cli {
namespace {

constexpr double kWidth = 880;
constexpr double kHeight = 500;
constexpr double kLeft = 96;
constexpr double kTop = 70;
constexpr double kBottom = 62;
constexpr double kLegendWidth = 210;
constexpr double kNarrowRight = 30;
constexpr double kLineHeight = 20;
/// More lines than fit into the legend are drawn without a name.
constexpr std::size_t kMostNames = 17;
constexpr std::size_t kLongestName = 26;
constexpr double kWideBottom = 16;
constexpr double kWideLeft = 100;

struct Colour {
  std::string_view light;
  std::string_view dark;
};

/// Told apart by people who do not see all colours alike (after Okabe and Ito), each dark enough on
/// white or light enough on black.
constexpr std::array<Colour, 8> kColours{{{"#0072b2", "#56b4e9"},
                                          {"#c84e00", "#ff9a4d"},
                                          {"#00795a", "#2fd3a5"},
                                          {"#a0467f", "#ee9fd0"},
                                          {"#8a6d00", "#f0d24b"},
                                          {"#5b4bb7", "#b3a6ff"},
                                          {"#9c1c1c", "#ff8080"},
                                          {"#4a4a4a", "#d0d0d0"}}};

[[nodiscard]] std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c >= ' ' && c <= '~' ? c : '?';
    }
  }
  return out;
}

[[nodiscard]] std::string shortened(const std::string& name) {
  return name.size() <= kLongestName ? name : name.substr(0, kLongestName - 3) + "...";
}

/// A number with at most two decimals and no trailing zeros.
[[nodiscard]] std::string trimmed(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) {
    text.pop_back();
  }
  return text;
}

[[nodiscard]] std::string number_text(double value, ChartUnit unit) {
  struct Step {
    double size;
    std::string_view name;
  };
  static constexpr std::array<Step, 4> kDecimal{{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  static constexpr std::array<Step, 4> kBinary{
      {{1099511627776.0, " TiB"}, {1073741824.0, " GiB"}, {1048576.0, " MiB"}, {1024.0, " KiB"}}};
  if (unit == ChartUnit::kShare) {
    return trimmed(value / 1e6);
  }
  for (const Step& step : unit == ChartUnit::kBytes ? kBinary : kDecimal) {
    if (value >= step.size) {
      return trimmed(value / step.size) + std::string{step.name};
    }
  }
  return trimmed(value);
}

/// From numbers to places on the paper.
class Scale {
 public:
  Scale(double low, double high, double from, double to, bool logarithmic)
      : low_{low}, high_{high}, from_{from}, to_{to}, logarithmic_{logarithmic} {}

  [[nodiscard]] double at(double value) const {
    const double span = position(high_) - position(low_);
    const double share = span > 0 ? (position(value) - position(low_)) / span : 0.5;
    return from_ + share * (to_ - from_);
  }
  [[nodiscard]] bool logarithmic() const { return logarithmic_; }
  [[nodiscard]] double low() const { return low_; }
  [[nodiscard]] double high() const { return high_; }

 private:
  [[nodiscard]] double position(double value) const {
    return logarithmic_ ? std::log2(std::max(value, std::numeric_limits<double>::min())) : value;
  }
  double low_;
  double high_;
  double from_;
  double to_;
  bool logarithmic_;
};

/// Steps of 1, 2 or 5 times a power of ten (binary units: of two) from 0 to at least `high`.
[[nodiscard]] double nice_step(double span, ChartUnit unit) {
  constexpr double kAbout = 5;
  const double rough = span / kAbout;
  if (unit == ChartUnit::kBytes) {
    return std::exp2(std::ceil(std::log2(std::max(rough, 1.0))));
  }
  const double power = std::pow(10, std::floor(std::log10(std::max(rough, 1e-9))));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      return factor * power;
    }
  }
  return 10 * power;
}

[[nodiscard]] std::vector<double> ticks_of(const Scale& scale, ChartUnit unit) {
  std::vector<double> ticks;
  if (!scale.logarithmic()) {
    const double step = nice_step(scale.high() - scale.low(), unit);
    for (double tick = std::ceil(scale.low() / step) * step; tick <= scale.high() * (1 + 1e-9);
         tick += step) {
      ticks.push_back(tick);
    }
    return ticks;
  }
  const double base = unit == ChartUnit::kBytes ? 2 : 10;
  const auto log = [base](double value) { return std::log(value) / std::log(base); };
  const double first = std::ceil(log(scale.low()) - 1e-9);
  const double last = std::floor(log(scale.high()) + 1e-9);
  const double stride = std::max(1.0, std::ceil((last - first) / 8));
  for (double power = first; power <= last; power += stride) {
    ticks.push_back(std::pow(base, power));
  }
  return ticks;
}

struct Extent {
  double low = std::numeric_limits<double>::max();
  double high = std::numeric_limits<double>::lowest();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

class Drawing {
 public:
  explicit Drawing(const Chart& chart)
      : chart_{chart},
        right_{chart.series.size() > 1 ? kWidth - kLegendWidth : kWidth - kNarrowRight},
        x_{x_scale()},
        y_{y_scale()} {}

  [[nodiscard]] std::string draw() {
    head();
    grid();
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      line(i);
    }
    if (chart_.series.size() > 1) {
      legend();
    }
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  [[nodiscard]] Scale x_scale() const {
    if (!chart_.categories.empty()) {
      const double last = static_cast<double>(chart_.categories.size()) - 1;
      // Half a step free at both ends.
      return {-0.5, last + 0.5, kLeft, right_, false};
    }
    Extent extent;
    for (const ChartSeries& series : chart_.series) {
      for (const ChartPoint& point : series.points) {
        extent.add(point.x);
      }
    }
    if (extent.low > extent.high) {
      extent = {0, 1};
    }
    const bool wide = extent.low > 0 && extent.high / extent.low >= kWideBottom;
    if (extent.low == extent.high) {
      extent = {extent.low - 1, extent.high + 1};
    }
    return {extent.low, extent.high, kLeft + 8, right_ - 8, wide};
  }
  [[nodiscard]] Scale y_scale() const {
    Extent extent;
    for (const ChartSeries& series : chart_.series) {
      for (const ChartPoint& point : series.points) {
        extent.add(point.y);
      }
    }
    const double bottom = kHeight - kBottom;
    if (extent.low > extent.high || extent.high <= 0) {
      return {0, 1, bottom, kTop, false};
    }
    if (extent.low > 0 && extent.high / extent.low >= kWideLeft) {
      const double base = chart_.y_unit == ChartUnit::kBytes ? 2 : 10;
      const auto log = [base](double value) { return std::log(value) / std::log(base); };
      return {std::pow(base, std::floor(log(extent.low))),
              std::pow(base, std::ceil(log(extent.high))), bottom, kTop, true};
    }
    const double step = nice_step(extent.high, chart_.y_unit);
    return {0, std::ceil(extent.high / step) * step, bottom, kTop, false};
  }

  template <typename... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    out_ += fmt::format(format, std::forward<Args>(args)...);
    out_ += '\n';
  }

  void head() {
    put("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
        "width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\" aria-label=\"{2}\">",
        kWidth, kHeight, escaped(chart_.title));
    put("<title>{}</title>", escaped(chart_.title));
    out_ +=
        "<style>\n"
        "text{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;"
        "font-size:13px}\n"
        ".title{font-size:17px;font-weight:600}\n"
        ".back{fill:#ffffff}.ink{fill:#1b1f24}.soft{fill:#57606a}\n"
        ".grid{stroke:#d8dee4;stroke-width:1}.axis{stroke:#57606a;stroke-width:1}\n"
        ".line{fill:none;stroke-width:2.2;stroke-linejoin:round}.hollow{fill:#ffffff;"
        "stroke-width:1.8}\n";
    for (std::size_t i = 0; i < kColours.size(); ++i) {
      put(".s{0}{{stroke:{1}}}.f{0}{{fill:{1}}}", i, kColours.at(i).light);
    }
    out_ +=
        "@media (prefers-color-scheme:dark){\n"
        ".back{fill:#0d1117}.ink{fill:#e6edf3}.soft{fill:#9da7b1}\n"
        ".grid{stroke:#30363d}.axis{stroke:#9da7b1}.hollow{fill:#0d1117}\n";
    for (std::size_t i = 0; i < kColours.size(); ++i) {
      put(".s{0}{{stroke:{1}}}.f{0}{{fill:{1}}}", i, kColours.at(i).dark);
    }
    out_ += "}\n</style>\n";
    put(R"(<rect class="back" width="{:.0f}" height="{:.0f}"/>)", kWidth, kHeight);
    put(R"(<text class="title ink" x="{:.0f}" y="28">{}</text>)", kLeft - 72,
        escaped(chart_.title));
    put(R"(<text class="soft" x="{:.0f}" y="49">{}</text>)", kLeft - 72, escaped(chart_.subtitle));
  }

  void grid() {
    const double bottom = kHeight - kBottom;
    for (const double tick : ticks_of(y_, chart_.y_unit)) {
      const double y = y_.at(tick);
      put(R"(<line class="grid" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", kLeft, y,
          right_, y);
      put(R"(<text class="soft" x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", kLeft - 8,
          y + 4.5, number_text(tick, chart_.y_unit));
    }
    put(R"(<line class="axis" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", kLeft, bottom,
        right_, bottom);
    double free_from = 0;
    for (const auto& [place, name] : x_ticks()) {
      put(R"(<line class="axis" x1="{0:.1f}" y1="{1:.1f}" x2="{0:.1f}" y2="{2:.1f}"/>)", place,
          bottom, bottom + 5);
      const double half = static_cast<double>(name.size()) * 3.7;
      if (place - half >= free_from) {
        put(R"(<text class="soft" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", place,
            bottom + 20, escaped(name));
        free_from = place + half + 6;
      }
    }
    put(R"(<text class="ink" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)",
        (kLeft + right_) / 2, kHeight - 16, escaped(chart_.x_label));
    put("<text class=\"ink\" transform=\"translate(20 {:.1f}) rotate(-90)\" "
        "text-anchor=\"middle\">{}</text>",
        (kTop + bottom) / 2, escaped(chart_.y_label));
  }

  /// Places and names along the bottom: every value while there are few.
  [[nodiscard]] std::vector<std::pair<double, std::string>> x_ticks() const {
    constexpr std::size_t kFew = 12;
    std::vector<std::pair<double, std::string>> ticks;
    ticks.reserve(chart_.categories.size());
    for (std::size_t i = 0; i < chart_.categories.size(); ++i) {
      ticks.emplace_back(x_.at(static_cast<double>(i)), shortened(chart_.categories[i]));
    }
    if (!ticks.empty()) {
      return ticks;
    }
    std::vector<double> values;
    for (const ChartSeries& series : chart_.series) {
      for (const ChartPoint& point : series.points) {
        values.push_back(point.x);
      }
    }
    std::ranges::sort(values);
    const auto same = std::ranges::unique(values);
    values.erase(same.begin(), same.end());
    if (values.size() > kFew) {
      values = ticks_of(x_, chart_.x_unit);
    }
    for (const double value : values) {
      ticks.emplace_back(x_.at(value), number_text(value, chart_.x_unit));
    }
    return ticks;
  }

  [[nodiscard]] static std::string dash_of(std::size_t index) {
    const std::size_t round = index / kColours.size();
    return round == 0 ? "" : fmt::format(" stroke-dasharray=\"{} 4\"", 2 + 5 * (round % 3));
  }

  void line(std::size_t index) {
    const ChartSeries& series = chart_.series[index];
    const std::size_t colour = index % kColours.size();
    std::string places;
    for (const ChartPoint& point : series.points) {
      places +=
          fmt::format("{}{:.1f},{:.1f}", places.empty() ? "" : " ", x_.at(point.x), y_.at(point.y));
    }
    if (series.points.size() > 1 && chart_.categories.empty()) {
      put(R"(<polyline class="line s{}"{} points="{}"/>)", colour, dash_of(index), places);
    }
    if (series.points.size() > kMostMarks) {
      return;
    }
    for (const ChartPoint& point : series.points) {
      if (point.solid) {
        put(R"(<circle class="f{}" cx="{:.1f}" cy="{:.1f}" r="3.6"/>)", colour, x_.at(point.x),
            y_.at(point.y));
      } else {
        put(R"(<circle class="hollow s{}" cx="{:.1f}" cy="{:.1f}" r="3.6"/>)", colour,
            x_.at(point.x), y_.at(point.y));
      }
    }
  }

  void legend() {
    const std::size_t shown = std::min(chart_.series.size(), kMostNames);
    for (std::size_t i = 0; i < shown; ++i) {
      const double y = kTop + 8 + static_cast<double>(i) * kLineHeight;
      put(R"(<line class="line s{}"{} x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)",
          i % kColours.size(), dash_of(i), right_ + 18, y, right_ + 40, y);
      put(R"(<text class="ink" x="{:.1f}" y="{:.1f}">{}</text>)", right_ + 47, y + 4.5,
          escaped(shortened(chart_.series[i].name)));
    }
    if (shown < chart_.series.size()) {
      put(R"(<text class="soft" x="{:.1f}" y="{:.1f}">and {} more</text>)", right_ + 47,
          kTop + 8 + static_cast<double>(shown) * kLineHeight + 4.5, chart_.series.size() - shown);
    }
  }

  const Chart& chart_;
  double right_;
  Scale x_;
  Scale y_;
  std::string out_;
};

}  // namespace

std::string svg_of(const Chart& chart) { return Drawing{chart}.draw(); }

}  // namespace kvpool::cli
