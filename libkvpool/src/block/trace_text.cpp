// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "block/trace_text.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <utility>

namespace kvpool::tracing {
namespace {

/// The text up to `separator`, which is taken out of `rest` with it.
std::string_view take_until(std::string_view& rest, char separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view text = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return text;
}

}  // namespace

void ArgumentWriter::slot(std::uint32_t index, std::uint32_t generation) {
  fmt::format_to(std::back_inserter(*line_), " {}.{}", index, generation);
}

void ArgumentWriter::operator()(const std::string& text) {
  line_->append(" x");
  for (const char character : text) {
    fmt::format_to(std::back_inserter(*line_), "{:02x}", static_cast<unsigned char>(character));
  }
}

void ArgumentWriter::operator()(const TokenList& list) { (*this)(list.tokens); }

void ArgumentWriter::operator()(std::span<const std::int32_t> tokens) {
  line_->append(tokens.empty() ? " -" : "");
  char separator = ' ';
  std::array<char, 16> digits{};
  for (const std::int32_t token : tokens) {
    const auto end = std::to_chars(digits.begin(), digits.end(), token);
    line_->push_back(std::exchange(separator, ','));
    line_->append(digits.begin(), end.ptr);
  }
}

void ArgumentWriter::operator()(const Retention& retention) {
  fmt::format_to(std::back_inserter(*line_), " {}:{}", retention.priority,
                 retention.time_to_live.count());
}

void ArgumentWriter::operator()(const std::vector<RetentionRange>& ranges) {
  line_->append(ranges.empty() ? " -" : "");
  char separator = ' ';
  for (const RetentionRange& range : ranges) {
    fmt::format_to(std::back_inserter(*line_), "{}{}:{}:{}:{}", std::exchange(separator, ','),
                   range.first.count(), range.last.count(), range.retention.priority,
                   range.retention.time_to_live.count());
  }
}

std::string_view ArgumentReader::word() {
  if (rest_.empty()) {
    ok_ = false;
    return {};
  }
  return take_until(rest_, ' ');
}

template <typename T>
void ArgumentReader::number(std::string_view text, T& value) {
  const char* const first = text.data();
  const char* const end = first + text.size();
  const auto read = std::from_chars(first, end, value);
  ok_ = ok_ && read.ec == std::errc{} && read.ptr == end;
}

template void ArgumentReader::number(std::string_view, std::int32_t&);
template void ArgumentReader::number(std::string_view, std::int64_t&);
template void ArgumentReader::number(std::string_view, std::uint64_t&);

void ArgumentReader::slot(std::uint32_t& index, std::uint32_t& generation) {
  std::string_view text = word();
  number(take_until(text, '.'), index);
  number(text, generation);
}

void ArgumentReader::operator()(bool& value) {
  const std::string_view text = word();
  ok_ = ok_ && (text == "0" || text == "1");
  value = text == "1";
}

void ArgumentReader::operator()(DraftMode& mode) {
  std::int32_t value = 0;
  number(word(), value);
  ok_ = ok_ && value >= 0 && value <= static_cast<std::int32_t>(DraftMode::kRequired);
  mode = ok_ ? static_cast<DraftMode>(value) : DraftMode::kOff;
}

void ArgumentReader::operator()(std::string& text) {
  std::string_view digits = word();
  text.clear();
  ok_ = ok_ && digits.starts_with('x') && digits.size() % 2 == 1;
  for (std::size_t i = 1; ok_ && i < digits.size(); i += 2) {
    unsigned value = 0;
    const auto read = std::from_chars(digits.data() + i, digits.data() + i + 2, value, 16);
    ok_ = read.ec == std::errc{} && read.ptr == digits.data() + i + 2;
    text.push_back(static_cast<char>(value));
  }
}

void ArgumentReader::operator()(TokenList& list) {
  (*this)(list.storage);
  list.tokens = list.storage;
}

void ArgumentReader::operator()(std::vector<std::int32_t>& tokens) {
  std::string_view text = word();
  tokens.clear();
  if (text == "-") {
    return;
  }
  do {
    std::int32_t token = 0;
    number(take_until(text, ','), token);
    tokens.push_back(token);
  } while (ok_ && !text.empty());
}

void ArgumentReader::operator()(Retention& retention) {
  std::string_view text = word();
  std::int64_t ticks = 0;
  number(take_until(text, ':'), retention.priority);
  number(text, ticks);
  retention.time_to_live = Ticks{ticks};
}

void ArgumentReader::operator()(std::vector<RetentionRange>& ranges) {
  std::string_view text = word();
  ranges.clear();
  while (ok_ && text != "-" && !text.empty()) {
    std::string_view range = take_until(text, ',');
    std::int64_t first = 0;
    std::int64_t last = 0;
    int priority = 0;
    std::int64_t ticks = 0;
    number(take_until(range, ':'), first);
    number(take_until(range, ':'), last);
    number(take_until(range, ':'), priority);
    number(range, ticks);
    ranges.push_back({.first = Tokens{first},
                      .last = Tokens{last},
                      .retention = {.priority = priority, .time_to_live = Ticks{ticks}}});
  }
}

std::string answer(std::monostate /*done*/) { return "done"; }

std::string answer(BlockStatus status) { return std::string{to_string(status)}; }

std::string answer(Pages pages) { return std::to_string(pages.count()); }

std::string answer(std::uint64_t number) { return fmt::format("{:016x}", number); }

std::string answer(const AdmitOutcome& outcome) {
  return fmt::format("{} {}.{} {} {} {} {} {}", to_string(outcome.status), outcome.sequence.index,
                     outcome.sequence.generation, outcome.hit.tokens.count(),
                     outcome.hit.whole_blocks.count(), outcome.hit.partial.count(),
                     outcome.hit.matched.count(), static_cast<int>(outcome.draft_notice));
}

std::string answer(const ForkOutcome& outcome) {
  return fmt::format("{} {}.{}", to_string(outcome.status), outcome.sequence.index,
                     outcome.sequence.generation);
}

std::string answer(const PinOutcome& outcome) {
  return fmt::format("{} {}.{} {}", to_string(outcome.status), outcome.pin.index,
                     outcome.pin.generation, outcome.tokens.count());
}

std::string answer(const SuspendedSequence& sequence) {
  return fmt::format("{} {}", sequence.tokens.size(), sequence.committed.count());
}

std::string answer(const PreemptReceipt& receipt) {
  std::string text = answer(receipt.sequence);
  for (const PoolPages& pool : receipt.pages) {
    fmt::format_to(std::back_inserter(text), " {}:{}", pool.pool.value(), pool.pages.count());
  }
  if (receipt.free_at.has_value()) {
    fmt::format_to(std::back_inserter(text), " @{}", receipt.free_at->value());
  }
  return text;
}

}  // namespace kvpool::tracing
