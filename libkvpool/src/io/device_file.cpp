// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/device_file.hpp>

#include <kvpool/core/size_text.hpp>

#include "io/text_file.hpp"
#include "io/toml_table.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

namespace kvpool::io {
namespace {

using detail::placed;
using detail::TableReader;

/// Larger files are none that a person wrote.
constexpr std::size_t kLargestFile = std::size_t{1} << 20U;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
constexpr std::int64_t kLargestGranule = std::int64_t{1} << 40;
constexpr std::int64_t kMostBandwidth = 1'000'000'000;
constexpr std::int64_t kNvidiaGranule = std::int64_t{2} << 20;
constexpr std::size_t kLongestName = 64;

constexpr std::array<std::string_view, 9> kKeys = {
    "name",         "architecture",      "marketed",           "nvidia_smi",
    "cuda_visible", "cuda_visible_high", "bandwidth_gb_per_s", "granularity",
    "note"};

/// Reads the GPUs of a file.
class DeviceFileReader {
 public:
  explicit DeviceFileReader(const std::string& file) : file_{file} {}

  Result<std::vector<DeviceSpec>> read(const toml::table& root) {
    constexpr std::array<std::string_view, 1> kRootKeys = {"gpu"};
    const TableReader top{root, "file", file_, error_, kRootKeys};
    const toml::node* node = top.find("gpu");
    const toml::array* list = node == nullptr ? nullptr : node->as_array();
    if (!error_.has_value() && (list == nullptr || list->empty())) {
      fail(root, "gpu", "a file of GPUs has one [[gpu]] table for each of them");
    }
    std::vector<DeviceSpec> devices;
    for (std::size_t i = 0; !error_.has_value() && i < list->size(); ++i) {
      if (const toml::table* table = (*list)[i].as_table()) {
        devices.push_back(read_device(*table, fmt::format("gpu[{}]", i)));
      } else {
        fail((*list)[i], fmt::format("gpu[{}]", i), "needs a table");
      }
    }
    if (error_.has_value()) {
      return *std::move(error_);
    }
    return devices;
  }

 private:
  DeviceSpec read_device(const toml::table& table, const std::string& name) {
    TableReader reader{table, name, file_, error_, kKeys};
    reader.require({"name", "architecture", "cuda_visible"});
    DeviceSpec device;
    reader.read("name", device.name);
    reader.read("architecture", device.architecture);
    reader.read("note", device.note);
    reader.read("bandwidth_gb_per_s", device.bandwidth_gb_per_s);
    device.marketed = size(reader, "marketed").value_or(Bytes{});
    device.nvidia_smi = size(reader, "nvidia_smi").value_or(Bytes{});
    device.cuda_visible_low = size(reader, "cuda_visible").value_or(Bytes{});
    device.cuda_visible_high = size(reader, "cuda_visible_high").value_or(device.cuda_visible_low);
    device.granularity = size(reader, "granularity").value_or(Bytes{kNvidiaGranule});
    if (!error_.has_value()) {
      check(table, name, device);
    }
    return device;
  }

  /// A size as text; a bare number would leave its unit to be guessed.
  std::optional<Bytes> size(TableReader& reader, std::string_view key) {
    const toml::node* node = reader.find(key);
    if (node == nullptr) {
      return std::nullopt;
    }
    const auto* text = node->as_string();
    if (text == nullptr) {
      reader.wrong_type(*node, key, "a size with its unit as text, such as \"139.8GiB\"");
      return std::nullopt;
    }
    const auto bytes = parse_size(text->get());
    if (!bytes) {
      fail(*node, reader.dotted(key), bytes.error().message);
      return std::nullopt;
    }
    if (bytes->count() < 1 || bytes->count() > kMostBytes) {
      fail(*node, reader.dotted(key), "must be from 1 B to 2^60 B");
      return std::nullopt;
    }
    return *bytes;
  }

  void check(const toml::table& table, const std::string& name, const DeviceSpec& device) {
    const auto must = [&](bool holds, std::string_view key, const std::string& message) {
      if (!holds && !error_.has_value()) {
        const toml::node* node = table.get(key);
        fail(node == nullptr ? static_cast<const toml::node&>(table) : *node,
             fmt::format("{}.{}", name, key), message);
      }
    };
    must(!device.name.empty() && device.name.size() <= kLongestName, "name",
         "must have 1 to 64 letters");
    must(names_.insert(device.name).second, "name", "stands in the file twice");
    must(!device.architecture.empty(), "architecture", "must be a name such as sm_90");
    must(device.cuda_visible_low <= device.cuda_visible_high, "cuda_visible_high",
         "is less than cuda_visible");
    must(device.nvidia_smi.count() == 0 || device.cuda_visible_high <= device.nvidia_smi,
         "cuda_visible", "is more than nvidia_smi shows: is marketed memory (GB) taken for GiB?");
    must(device.bandwidth_gb_per_s >= 0 && device.bandwidth_gb_per_s <= kMostBandwidth,
         "bandwidth_gb_per_s", "must be from 0 to 10^9");
    must(std::has_single_bit(static_cast<std::uint64_t>(device.granularity.count())) &&
             device.granularity.count() <= kLargestGranule,
         "granularity", "must be a power of two bytes up to 2^40");
  }

  void fail(const toml::node& node, const std::string& key, const std::string& message) {
    if (!error_.has_value()) {
      error_ = Error{.code = ErrorCode::kInvalidArgument,
                     .message = placed(node.source().begin, message),
                     .file = file_,
                     .key = key};
    }
  }

  const std::string& file_;
  std::optional<Error> error_;
  std::set<std::string> names_;
};

}  // namespace

Result<std::vector<DeviceSpec>> read_device_file(const std::string& path) {
  const Result<std::string> text = detail::read_text_file(path);
  if (!text.has_value()) {
    return text.error();
  }
  return parse_device_file(*text, path);
}

Result<std::vector<DeviceSpec>> parse_device_file(std::string_view text, const std::string& file) {
  if (text.size() > kLargestFile) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "is larger than 1 MiB, the most that is read as GPUs",
                 .file = file};
  }
  try {
    const toml::table root = toml::parse(text, std::string_view{file});
    return DeviceFileReader{file}.read(root);
  } catch (const toml::parse_error& error) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = placed(error.source().begin, error.description()),
                 .file = file};
  }
}

}  // namespace kvpool::io
