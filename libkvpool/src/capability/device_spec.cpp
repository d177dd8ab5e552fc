// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/capability/device_spec.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace kvpool {
namespace {

/// Other names of known devices, without case and separators.
constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kAliases = {{
    {"h100sxm", "h100"},
    {"h100sxm5", "h100"},
    {"h100sxm80gb", "h100"},
    {"h10080gb", "h100"},
    {"h200sxm", "h200"},
    {"a10080gb", "a100-80"},
    {"a100sxm80gb", "a100-80"},
    {"a10g", "a10"},
    {"4090", "rtx-4090"},
    {"5090", "rtx-5090"},
    {"a10040gb", "a100-40"},
    {"a100sxm440gb", "a100-40"},
    {"gh20096gb", "gh200"},
    {"dgxspark", "gb10"},
}};

/// Walks a name in lower case, leaving out separators.
class PlainName {
 public:
  explicit PlainName(std::string_view text) : text_{text} {}

  /// The next character, or 0 at the end.
  char next() {
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '-' || c == '_' || c == ' ') {
        continue;
      }
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return '\0';
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

bool same_name(std::string_view a, std::string_view b) {
  PlainName left{a};
  PlainName right{b};
  for (;;) {
    const char c = left.next();
    if (c != right.next()) {
      return false;
    }
    if (c == '\0') {
      return true;
    }
  }
}

}  // namespace

std::optional<DeviceSpec> find_device(std::string_view name) {
  return find_device(name, known_devices());
}

std::optional<DeviceSpec> find_device(std::string_view name, std::span<const DeviceSpec> devices) {
  const auto* const alias = std::ranges::find_if(
      kAliases, [&](const auto& entry) { return same_name(entry.first, name); });
  const DeviceSpec* found = nullptr;
  for (const DeviceSpec& device : devices) {
    if (same_name(device.name, name)) {
      found = &device;
    }
  }
  for (const DeviceSpec& device : devices) {
    if (found == nullptr && alias != kAliases.end() && same_name(device.name, alias->second)) {
      found = &device;
    }
  }
  return found == nullptr ? std::nullopt : std::optional{*found};
}

}  // namespace kvpool
