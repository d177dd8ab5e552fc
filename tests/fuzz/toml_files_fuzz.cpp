// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
// The readers of TOML files on arbitrary bytes: what they accept is sound, everything else ends in
// an error that names the file. The first byte picks the reader.
#include <kvpool/io/device_file.hpp>
#include <kvpool/io/kernel_file.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

void check_error(const kvpool::Error& error) {
  require(!error.message.empty() && error.file == "fuzz.toml");
  require(error.code == kvpool::ErrorCode::kInvalidArgument);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view text{reinterpret_cast<const char*>(data) + 1, size - 1};
  if (data[0] % 2 == 0) {
    const auto devices = kvpool::io::parse_device_file(text, "fuzz.toml");
    if (!devices.has_value()) {
      check_error(devices.error());
      return 0;
    }
    for (const kvpool::DeviceSpec& device : *devices) {
      require(!device.name.empty() && device.granularity.count() > 0);
      require(device.cuda_visible_low.count() > 0);
      require(device.cuda_visible_low <= device.cuda_visible_high);
    }
  } else {
    const auto rows = kvpool::io::parse_kernel_file(text, "fuzz.toml");
    if (!rows.has_value()) {
      check_error(rows.error());
      return 0;
    }
    require(!rows->empty());
  }
  return 0;
}
