// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "json_value.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

namespace kvpool::io::detail {
namespace {

constexpr std::size_t kMaxKeyInMessage = 120;

// Replaces bare Infinity, -Infinity and NaN by strings; nothing when there is none.
std::optional<std::string> quote_non_finite(std::string_view text) {
  static constexpr std::array<std::string_view, 3> kTokens{"-Infinity", "Infinity", "NaN"};
  std::string out;
  std::size_t copied = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
      continue;
    }
    if (c == '"') {
      in_string = true;
    } else if (c == 'I' || c == 'N' || c == '-') {
      for (const std::string_view token : kTokens) {
        if (text.substr(i, token.size()) == token) {
          out.append(text.substr(copied, i - copied)).append("\"").append(token).append("\"");
          i += token.size() - 1;
          copied = i + 1;
          break;
        }
      }
    }
  }
  if (copied == 0) {
    return std::nullopt;
  }
  out.append(text.substr(copied));
  return out;
}

// Builds the tree without recursion and stops at the first thing it will not hold. Has the members
// of nlohmann::json_sax without deriving from it, so that the parser can inline them.
class TreeBuilder {
 public:
  TreeBuilder(std::string_view text, const std::string& file) : text_{text}, file_{file} {}

  bool null() { return add(std::monostate{}); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) {
    if (value > static_cast<std::uint64_t>(INT64_MAX)) {
      return add(static_cast<double>(value));
    }
    return add(static_cast<std::int64_t>(value));
  }
  bool number_float(double value, const std::string& /*text*/) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(nlohmann::json::binary_t& /*value*/) { return fail("binary values are not JSON"); }

  bool start_object(std::size_t /*size*/) { return open(true); }
  bool key(std::string& value) {
    open_.back().key = std::move(value);
    return true;
  }
  bool end_object() {
    Json::Object& members = open_.back().members;
    const auto not_ascending = [](const Json::Member& a, const Json::Member& b) {
      return a.key >= b.key;
    };
    if (std::ranges::adjacent_find(members, not_ascending) != members.end()) {
      sort_members(members);
    }
    return close(Json::Object{std::move(members)});
  }
  bool start_array(std::size_t /*size*/) { return open(false); }
  bool end_array() { return close(Json::Array{std::move(open_.back().elements)}); }

  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::detail::exception& error) {
    std::string what = error.id == 406 ? "a number is too large" : "not valid JSON";
    const std::string_view before = text_.substr(0, std::min(position, text_.size()));
    const auto line = 1 + std::ranges::count(before, '\n');
    const std::size_t line_start = before.rfind('\n');
    const std::size_t column =
        line_start == std::string_view::npos ? before.size() : before.size() - line_start - 1;
    what += " at line " + std::to_string(line) + ", column " + std::to_string(column);
    if (position >= text_.size()) {
      what += ": the text ends too early";
    }
    error_ =
        Error{ErrorCode::kInvalidArgument, std::move(what), file_, path(), shorten(last_token)};
    return false;
  }

  [[nodiscard]] Result<Json> finish(bool complete) && {
    if (error_.has_value()) {
      return std::move(*error_);
    }
    if (!complete || !open_.empty()) {
      return Error{ErrorCode::kInvalidArgument, "not valid JSON", file_, path(), {}};
    }
    return std::move(root_);
  }

 private:
  struct Open {
    bool is_object = false;
    std::string key;
    Json::Object members;
    Json::Array elements;
  };

  // Orders by key and keeps the last member of each key.
  static void sort_members(Json::Object& members) {
    std::vector<std::size_t> order(members.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, [&members](std::size_t a, std::size_t b) {
      const int keys = members[a].key.compare(members[b].key);
      return keys != 0 ? keys < 0 : a < b;
    });
    Json::Object sorted;
    sorted.reserve(members.size());
    for (const std::size_t i : order) {
      if (!sorted.empty() && sorted.back().key == members[i].key) {
        sorted.back() = std::move(members[i]);
      } else {
        sorted.push_back(std::move(members[i]));
      }
    }
    members = std::move(sorted);
  }

  // Dotted key of the place that is being read.
  [[nodiscard]] std::string path() const {
    std::string dotted;
    for (const Open& open : open_) {
      if (open.is_object && !open.key.empty()) {
        dotted += dotted.empty() ? "" : ".";
        dotted += shorten(open.key);
      } else if (!open.is_object) {
        dotted.append("[").append(std::to_string(open.elements.size())).append("]");
      }
    }
    return shorten(dotted, kMaxKeyInMessage);
  }
  bool fail(std::string message) {
    error_ = Error{ErrorCode::kInvalidArgument, std::move(message), file_, path(), {}};
    return false;
  }
  bool count() {
    if (++values_ > kMaxJsonValues) {
      return fail("more than " + std::to_string(kMaxJsonValues) + " values: this is no config");
    }
    return true;
  }
  template <typename T>
  bool add(T value) {
    if (!count()) {
      return false;
    }
    next().set(std::move(value));
    return true;
  }
  bool open(bool is_object) {
    if (open_.size() >= kMaxJsonDepth) {
      return fail("nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
    }
    open_.push_back(Open{.is_object = is_object, .key = {}, .members = {}, .elements = {}});
    return count();
  }
  template <typename T>
  bool close(T value) {
    open_.pop_back();
    next().set(std::move(value));
    return true;
  }
  // Where the value that has just been read belongs.
  Json& next() {
    if (open_.empty()) {
      return root_;
    }
    Open& parent = open_.back();
    if (!parent.is_object) {
      return parent.elements.emplace_back();
    }
    parent.members.emplace_back();
    parent.members.back().key = std::move(parent.key);
    parent.key.clear();
    return parent.members.back().value;
  }

  std::string_view text_;
  const std::string& file_;
  std::vector<Open> open_;
  Json root_;
  std::size_t values_ = 0;
  std::optional<Error> error_;
};

}  // namespace

const Json* Json::find(std::string_view key) const noexcept {
  const Object* members = object();
  if (members == nullptr) {
    return nullptr;
  }
  const auto at = std::ranges::lower_bound(*members, key, std::ranges::less{}, &Member::key);
  return at != members->end() && at->key == key ? &at->value : nullptr;
}

std::string shorten(std::string_view text, std::size_t limit) {
  std::string out;
  const bool cut = text.size() > limit;
  std::size_t end = cut ? limit : text.size();
  while (cut && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
    --end;  // not inside a multi-byte character
  }
  for (const char c : text.substr(0, end)) {
    out += static_cast<unsigned char>(c) < 0x20U || c == 0x7F ? '?' : c;
  }
  return cut ? out + "..." : out;
}

std::string Json::shortened() const {
  if (const auto* b = boolean()) {
    return *b ? "true" : "false";
  }
  if (const auto* i = integer()) {
    return std::to_string(*i);
  }
  if (const auto* d = real()) {
    return nlohmann::json(*d).dump();
  }
  if (const auto* s = text()) {
    return shorten(*s);
  }
  if (const auto* a = array()) {
    return "a list of " + std::to_string(a->size());
  }
  if (const auto* o = object()) {
    return "an object of " + std::to_string(o->size());
  }
  return "null";
}

Result<Json> parse_json(std::string_view text, const std::string& file) {
  try {
    const std::optional<std::string> quoted = quote_non_finite(text);
    const std::string_view source = quoted.has_value() ? std::string_view{*quoted} : text;
    TreeBuilder builder{source, file};
    const bool complete = nlohmann::json::sax_parse(source.begin(), source.end(), &builder);
    return std::move(builder).finish(complete);
  } catch (const std::exception& e) {
    return Error{
        ErrorCode::kInvalidArgument, "not readable as JSON: " + shorten(e.what()), file, {}, {}};
  }
}

}  // namespace kvpool::io::detail
