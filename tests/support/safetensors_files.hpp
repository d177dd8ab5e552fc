// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Safetensors files whose data is a hole: the header is real, the tensors take no space.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::testing_support {

/// A tensor to write.
struct TensorToWrite {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::int64_t bytes;
};

/// The 8 bytes of a length and the text behind them.
inline std::string with_length(const std::string& header) {
  std::string out;
  for (unsigned shift = 0; shift < 64; shift += 8) {
    out += static_cast<char>((header.size() >> shift) & 0xFFU);
  }
  return out + header;
}

/// Length and header of a file with these tensors, one behind the other.
inline std::string header_of(const std::vector<TensorToWrite>& tensors) {
  std::string text = R"({"__metadata__":{"format":"pt"})";
  std::int64_t at = 0;
  for (const TensorToWrite& tensor : tensors) {
    text += ",\"" + tensor.name + "\":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[";
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      text += (i == 0 ? "" : ",") + std::to_string(tensor.shape[i]);
    }
    text += "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(at + tensor.bytes) +
            "]}";
    at += tensor.bytes;
  }
  return with_length(text + "}");
}

/// Bytes of all tensors.
inline std::int64_t bytes_of(const std::vector<TensorToWrite>& tensors) {
  std::int64_t sum = 0;
  for (const TensorToWrite& tensor : tensors) {
    sum += tensor.bytes;
  }
  return sum;
}

/// A folder that goes with the test.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& name)
      : path_{std::filesystem::temp_directory_path() /
              ("kvpool_" + name + "_" + std::to_string(reinterpret_cast<std::uintptr_t>(this)))} {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::string path() const { return path_.string(); }
  [[nodiscard]] std::string path(const std::string& name) const { return (path_ / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream{path_ / name, std::ios::binary} << text;
  }
  void write_tensors(const std::string& name, const std::vector<TensorToWrite>& tensors) const {
    const std::string head = header_of(tensors);
    write(name, head);
    std::filesystem::resize_file(path_ / name,
                                 head.size() + static_cast<std::uintmax_t>(bytes_of(tensors)));
  }

 private:
  std::filesystem::path path_;
};

}  // namespace kvpool::testing_support
