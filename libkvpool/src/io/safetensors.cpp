// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/safetensors.hpp>

#include <kvpool/core/checked.hpp>

#include "io/json_value.hpp"
#include "io/text_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>

namespace kvpool::io {
namespace {

/// Bytes of the header's length at the start of a file.
constexpr std::int64_t kLengthBytes = 8;
/// More axes than any tensor of a model has.
constexpr std::size_t kMostAxes = 16;
/// More than any checkpoint has in one file.
constexpr std::size_t kMostTensors = 2'000'000;
constexpr std::int64_t kLargestExtent = std::int64_t{1} << 48;

struct TypeBits {
  std::string_view name;
  std::int64_t bits;
};

constexpr std::array kTypes{
    TypeBits{"BF16", 16},   TypeBits{"F16", 16},    TypeBits{"F32", 32},    TypeBits{"F8_E4M3", 8},
    TypeBits{"U8", 8},      TypeBits{"I8", 8},      TypeBits{"F8_E5M2", 8}, TypeBits{"F8_E8M0", 8},
    TypeBits{"F64", 64},    TypeBits{"I64", 64},    TypeBits{"I32", 32},    TypeBits{"U32", 32},
    TypeBits{"U64", 64},    TypeBits{"I16", 16},    TypeBits{"U16", 16},    TypeBits{"BOOL", 8},
    TypeBits{"F6_E2M3", 6}, TypeBits{"F6_E3M2", 6}, TypeBits{"F4", 4},      TypeBits{"C64", 64},
};

[[nodiscard]] std::optional<std::int64_t> bits_of(std::string_view dtype) {
  const auto* const found = std::ranges::find(kTypes, dtype, &TypeBits::name);
  return found == kTypes.end() ? std::nullopt : std::optional{found->bits};
}

/// A tensor with the span of its data.
struct Described {
  StoredTensor tensor;
  std::int64_t begin = -1;
  std::int64_t end = -1;
  bool has_shape = false;
};

/// Takes the header apart while it is parsed; has the members of nlohmann::json_sax. Stops at the
/// first thing that is none of a header.
class HeaderReader {
 public:
  explicit HeaderReader(const std::string& file) : file_{file} {}

  bool null() { return other("null"); }
  bool boolean(bool /*value*/) { return other("a boolean"); }
  bool number_integer(std::int64_t value) { return number(value); }
  bool number_unsigned(std::uint64_t value) {
    return value > static_cast<std::uint64_t>(kLargestExtent)
               ? fail(path(), std::to_string(value), "is too large")
               : number(static_cast<std::int64_t>(value));
  }
  bool number_float(double /*value*/, const std::string& text) {
    return other(detail::shorten(text));
  }
  bool binary(nlohmann::json::binary_t& /*value*/) { return other("binary data"); }

  bool string(std::string& value) {
    if (in_metadata_) {
      return true;
    }
    if (depth_ == 2 && field_ == Field::kDtype) {
      current_.tensor.dtype = std::move(value);
      return true;
    }
    return other("a text");
  }
  bool start_object(std::size_t /*size*/) {
    if (depth_ >= 2 || in_list_) {
      return other("an object");
    }
    ++depth_;
    return true;
  }
  bool key(std::string& value) {
    if (depth_ == 1) {
      in_metadata_ = value == "__metadata__";
      current_ = Described{};
      current_.tensor.name = std::move(value);
      field_ = Field::kNone;
      return true;
    }
    if (in_metadata_) {
      return true;
    }
    if (value == "dtype") {
      field_ = Field::kDtype;
    } else if (value == "shape") {
      field_ = Field::kShape;
    } else if (value == "data_offsets") {
      field_ = Field::kOffsets;
    } else {
      return fail(current_.tensor.name, detail::shorten(value),
                  "is no field of a tensor: dtype, shape and data_offsets are");
    }
    return true;
  }
  bool end_object() {
    --depth_;
    if (depth_ == 0) {
      return true;
    }
    if (in_metadata_) {
      in_metadata_ = false;
      return true;
    }
    return add();
  }
  bool start_array(std::size_t /*size*/) {
    if (depth_ != 2 || in_list_ || in_metadata_ ||
        (field_ != Field::kShape && field_ != Field::kOffsets)) {
      return other("a list");
    }
    in_list_ = true;
    offsets_ = 0;
    current_.has_shape = current_.has_shape || field_ == Field::kShape;
    if (field_ == Field::kShape) {
      current_.tensor.shape.clear();
    }
    return true;
  }
  bool end_array() {
    in_list_ = false;
    return field_ != Field::kOffsets || offsets_ == 2 ||
           fail(path(), std::to_string(offsets_) + " numbers", "must be two: begin and end");
  }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) {
    return fail({}, {}, "the header is not valid JSON at byte " + std::to_string(position));
  }

  [[nodiscard]] std::vector<Described>& tensors() { return tensors_; }
  [[nodiscard]] std::optional<Error>& error() { return error_; }

  bool fail(const std::string& key, const std::string& value, std::string message) {
    if (!error_.has_value()) {
      error_ = Error{ErrorCode::kInvalidArgument, std::move(message), file_,
                     detail::shorten(key, 120), value};
    }
    return false;
  }

 private:
  enum class Field { kNone, kDtype, kShape, kOffsets };

  [[nodiscard]] std::string path() const {
    std::string out = current_.tensor.name;
    switch (field_) {
      case Field::kNone: break;
      case Field::kDtype: out += ".dtype"; break;
      case Field::kShape: out += ".shape"; break;
      case Field::kOffsets: out += ".data_offsets"; break;
    }
    return out;
  }
  bool other(const std::string& what) {
    if (depth_ == 0) {
      return fail({}, what, "a header must be an object");
    }
    return fail(path(), what, "is not what a header has there");
  }
  bool number(std::int64_t value) {
    if (!in_list_) {
      return other(std::to_string(value));
    }
    if (value < 0 || value > kLargestExtent) {
      return fail(path(), std::to_string(value), "must be from 0 to 2^48");
    }
    if (field_ == Field::kShape) {
      current_.tensor.shape.push_back(value);
      return current_.tensor.shape.size() <= kMostAxes ||
             fail(path(), {}, "has more axes than a tensor can have");
    }
    if (offsets_ == 0) {
      current_.begin = value;
    } else if (offsets_ == 1) {
      current_.end = value;
    }
    ++offsets_;
    return true;
  }
  /// A tensor is complete: its fields must agree.
  bool add() {
    const auto missing = [this](std::string_view field) {
      return fail(current_.tensor.name, {}, "lacks " + std::string{field});
    };
    if (current_.tensor.dtype.empty()) {
      return missing("dtype");
    }
    if (!current_.has_shape) {
      return missing("shape");
    }
    if (current_.end < 0) {
      return missing("data_offsets");
    }
    const auto bits = bits_of(current_.tensor.dtype);
    if (!bits.has_value()) {
      field_ = Field::kDtype;
      return fail(path(), detail::shorten(current_.tensor.dtype),
                  "is no element type of a safetensors file that is known here");
    }
    CheckedInt size{*bits};
    for (const std::int64_t extent : current_.tensor.shape) {
      size = size * extent;
    }
    const auto all_bits = size.to_int64();
    field_ = Field::kOffsets;
    if (current_.begin > current_.end) {
      return fail(path(), std::to_string(current_.begin) + ", " + std::to_string(current_.end),
                  "ends before it begins");
    }
    if (!all_bits.has_value() || *all_bits % 8 != 0 ||
        *all_bits / 8 != current_.end - current_.begin) {
      return fail(path(), std::to_string(current_.end - current_.begin) + " bytes",
                  "does not agree with the tensor's type and shape" +
                      (all_bits.has_value() ? ": they give " + std::to_string(*all_bits / 8)
                                            : std::string{}));
    }
    current_.tensor.bytes = Bytes{current_.end - current_.begin};
    tensors_.push_back(std::move(current_));
    return tensors_.size() <= kMostTensors || fail({}, {}, "more tensors than a file can have");
  }

  const std::string& file_;
  std::vector<Described> tensors_;
  Described current_;
  Field field_ = Field::kNone;
  std::size_t depth_ = 0;
  std::size_t offsets_ = 0;
  bool in_list_ = false;
  bool in_metadata_ = false;
  std::optional<Error> error_;
};

/// The spans cover the data once, from its first to its last byte.
bool covers(HeaderReader& reader, std::int64_t data_bytes) {
  std::vector<Described>& tensors = reader.tensors();
  std::ranges::sort(tensors, [](const Described& a, const Described& b) {
    return std::pair{a.begin, a.end} < std::pair{b.begin, b.end};
  });
  std::int64_t at = 0;
  for (const Described& described : tensors) {
    const std::string key = described.tensor.name + ".data_offsets";
    if (described.begin != at) {
      return reader.fail(key, std::to_string(described.begin),
                         described.begin < at ? "overlaps the tensor before it"
                                              : "leaves a gap behind the tensor before it");
    }
    at = described.end;
    if (at > data_bytes) {
      return reader.fail(key, std::to_string(at),
                         "ends behind the file's data, which has " + std::to_string(data_bytes) +
                             " bytes: is the file cut?");
    }
  }
  if (at != data_bytes) {
    return reader.fail({}, std::to_string(data_bytes),
                       "bytes of data, of which the tensors cover " + std::to_string(at));
  }
  return true;
}

[[nodiscard]] std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) {
    value = (value << 8U) | static_cast<unsigned char>(bytes[i - 1]);
  }
  return value;
}

/// Bytes of the header behind the length, checked against the file.
[[nodiscard]] Result<std::int64_t> header_bytes(std::string_view head, Bytes file_size,
                                                const std::string& file) {
  if (head.size() < static_cast<std::size_t>(kLengthBytes)) {
    return Error{ErrorCode::kInvalidArgument,
                 "is too short for a safetensors file: a Git LFS pointer, or a download that "
                 "stopped?",
                 file,
                 {},
                 std::to_string(file_size.count()) + " bytes"};
  }
  const std::uint64_t length = little_endian(head.substr(0, kLengthBytes));
  const std::int64_t most = std::min(kMostSafetensorsHeaderBytes, file_size.count() - kLengthBytes);
  if (most < 0 || length > static_cast<std::uint64_t>(most)) {
    return Error{ErrorCode::kInvalidArgument,
                 "the header's length is more than the file has, or than the 100,000,000 bytes "
                 "that the format allows: no safetensors file (a Git LFS pointer?)",
                 file, "header length", std::to_string(length)};
  }
  return static_cast<std::int64_t>(length);
}

}  // namespace

Result<std::vector<StoredTensor>> parse_safetensors_header(std::string_view head, Bytes file_size,
                                                           const std::string& file) {
  const auto length = header_bytes(head, file_size, file);
  if (!length) {
    return length.error();
  }
  if (head.size() < static_cast<std::size_t>(kLengthBytes + *length)) {
    return Error{ErrorCode::kInvalidArgument, "the header is incomplete", file, {}, {}};
  }
  const std::string_view text =
      head.substr(static_cast<std::size_t>(kLengthBytes), static_cast<std::size_t>(*length));
  HeaderReader reader{file};
  try {
    if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) {
      reader.fail({}, {}, "the header is not valid JSON");
    } else {
      covers(reader, file_size.count() - kLengthBytes - *length);
    }
  } catch (const std::exception& e) {
    reader.fail({}, {}, "the header is not readable: " + detail::shorten(e.what()));
  }
  if (reader.error().has_value()) {
    return std::move(*reader.error());
  }
  std::vector<StoredTensor> tensors;
  tensors.reserve(reader.tensors().size());
  for (Described& described : reader.tensors()) {
    tensors.push_back(std::move(described.tensor));
  }
  // The same name twice would have two spans, each of which the coverage accepts.
  std::vector<std::string_view> names(tensors.size());
  std::ranges::transform(tensors, names.begin(),
                         [](const StoredTensor& tensor) { return std::string_view{tensor.name}; });
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) {
    return Error{ErrorCode::kInvalidArgument,
                 "stands in the header twice",
                 file,
                 detail::shorten(*twice, 120),
                 {}};
  }
  return tensors;
}

Result<std::vector<StoredTensor>> read_safetensors_header(const std::string& path) {
  auto first = detail::read_file_start(path, static_cast<std::size_t>(kLengthBytes));
  if (!first) {
    return std::move(first).error();
  }
  const auto length = header_bytes(first->text, first->file_size, path);
  if (!length) {
    return length.error();
  }
  auto head = detail::read_file_start(path, static_cast<std::size_t>(kLengthBytes + *length));
  if (!head) {
    return std::move(head).error();
  }
  return parse_safetensors_header(head->text, head->file_size, path);
}

}  // namespace kvpool::io
