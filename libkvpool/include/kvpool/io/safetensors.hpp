// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::io {

/// One tensor as the header of a safetensors file describes it.
struct StoredTensor {
  /// Name in the checkpoint.
  std::string name{};
  /// Element type as the file spells it, such as `BF16` or `F8_E4M3`.
  std::string dtype{};
  /// Extents, outermost first; empty for a scalar.
  std::vector<std::int64_t> shape{};
  /// Bytes of its data; agrees with type and shape.
  Bytes bytes{};

  /// Field by field.
  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

/// Largest header that is read: the format's own limit.
inline constexpr std::int64_t kMostSafetensorsHeaderBytes = 100'000'000;

/// Reads the header of a safetensors file: no tensor data is touched.
///
/// A header is accepted only if it describes the file completely: types are known, extents and type
/// give the bytes that the offsets span, and the spans cover the data without gap or overlap.
/// @param head the first bytes of the file, at least the 8-byte length and the header
/// @param file_size size of the whole file
/// @param file name used in errors
/// @return tensors in the order of their data, or `kInvalidArgument` with file, key (a tensor's
///   name and the field) and value
[[nodiscard]] Result<std::vector<StoredTensor>> parse_safetensors_header(std::string_view head,
                                                                         Bytes file_size,
                                                                         const std::string& file);

/// As `parse_safetensors_header`, from a file, of which only the header is read.
/// @return also `kNotFound` or `kIo` for the file
[[nodiscard]] Result<std::vector<StoredTensor>> read_safetensors_header(const std::string& path);

}  // namespace kvpool::io
