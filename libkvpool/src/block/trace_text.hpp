// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>
#include <kvpool/core/ids.hpp>
#include <kvpool/core/units.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

/// Words of a trace's lines. Every argument is one word after a space: numbers in decimal; slots as
/// `index.generation`; lists with commas; texts as `x` and hexadecimal digits; `-` for nothing.
namespace kvpool::tracing {

struct TokenList {
  std::span<const std::int32_t> tokens{};
  std::vector<std::int32_t> storage{};
};

/// Appends arguments to a line.
class ArgumentWriter {
 public:
  explicit ArgumentWriter(std::string& line) : line_{&line} {}

  void operator()(bool value) { number(value ? 1 : 0); }
  template <typename Tag, typename Rep>
  void operator()(Id<Tag, Rep> id) {
    number(id.value());
  }
  template <typename Tag>
  void operator()(Quantity<Tag> quantity) {
    number(quantity.count());
  }
  template <typename Tag>
  void operator()(const std::optional<Quantity<Tag>>& quantity) {
    if (quantity.has_value()) {
      number(quantity->count());
    } else {
      line_->append(" -");
    }
  }
  void operator()(DraftMode mode) { number(static_cast<int>(mode)); }
  void operator()(SequenceId sequence) { slot(sequence.index, sequence.generation); }
  void operator()(PinId pin) { slot(pin.index, pin.generation); }
  void operator()(const std::string& text);
  void operator()(const TokenList& list);
  void operator()(std::span<const std::int32_t> tokens);
  void operator()(const std::vector<std::int32_t>& tokens) { (*this)(std::span{tokens}); }
  void operator()(const Retention& retention);
  void operator()(const std::vector<RetentionRange>& ranges);

 private:
  template <typename T>
  void number(T value) {
    line_->push_back(' ');
    line_->append(std::to_string(value));
  }
  void slot(std::uint32_t index, std::uint32_t generation);

  std::string* line_;
};

/// Reads the arguments of a line, in the order in which they were written. What does not parse is
/// left as it is, and `ok()` is false from then on.
class ArgumentReader {
 public:
  explicit ArgumentReader(std::string_view arguments) : rest_{arguments} {}

  /// True when all arguments parsed, and none is left.
  [[nodiscard]] bool ok() const { return ok_ && rest_.empty(); }

  void operator()(bool& value);
  template <typename Tag, typename Rep>
  void operator()(Id<Tag, Rep>& id) {
    Rep value{};
    number(word(), value);
    id = Id<Tag, Rep>{value};
  }
  template <typename Tag>
  void operator()(Quantity<Tag>& quantity) {
    std::int64_t value = 0;
    number(word(), value);
    quantity = Quantity<Tag>{value};
  }
  template <typename Tag>
  void operator()(std::optional<Quantity<Tag>>& quantity) {
    const std::string_view text = word();
    quantity.reset();
    if (text != "-") {
      std::int64_t value = 0;
      number(text, value);
      quantity = Quantity<Tag>{value};
    }
  }
  void operator()(DraftMode& mode);
  void operator()(SequenceId& sequence) { slot(sequence.index, sequence.generation); }
  void operator()(PinId& pin) { slot(pin.index, pin.generation); }
  void operator()(std::string& text);
  void operator()(TokenList& list);
  void operator()(std::vector<std::int32_t>& tokens);
  void operator()(Retention& retention);
  void operator()(std::vector<RetentionRange>& ranges);

 private:
  /// The next word; empty when there is none.
  std::string_view word();
  /// Reads the whole of `text` as a number.
  template <typename T>
  void number(std::string_view text, T& value);
  void slot(std::uint32_t& index, std::uint32_t& generation);

  std::string_view rest_;
  bool ok_ = true;
};

/// The answers of calls, as text.
[[nodiscard]] std::string answer(std::monostate done);
[[nodiscard]] std::string answer(BlockStatus status);
[[nodiscard]] std::string answer(Pages pages);
[[nodiscard]] std::string answer(std::uint64_t number);
[[nodiscard]] std::string answer(const AdmitOutcome& outcome);
[[nodiscard]] std::string answer(const ForkOutcome& outcome);
[[nodiscard]] std::string answer(const PinOutcome& outcome);
[[nodiscard]] std::string answer(const SuspendedSequence& sequence);
[[nodiscard]] std::string answer(const PreemptReceipt& receipt);
template <typename Tag, typename Rep>
[[nodiscard]] std::string answer(Id<Tag, Rep> id) {
  return std::to_string(id.value());
}
[[nodiscard]] inline std::string answer(ItemId item) { return std::to_string(item.index()); }
template <typename T>
[[nodiscard]] std::string answer(const Result<T>& result) {
  return result.has_value() ? answer(*result) : std::string{to_string(result.error().code)};
}

}  // namespace kvpool::tracing
