// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "text_file.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

namespace kvpool::io::detail {
namespace {

constexpr std::size_t kLargestFile = std::size_t{64} << 20U;

struct CloseFile {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }  // NOLINT: it owns it
};
using File = std::unique_ptr<std::FILE, CloseFile>;

Error failure(ErrorCode code, std::string message, const std::string& path) {
  return {.code = code, .message = std::move(message), .file = path};
}

/// Opens a regular file for reading.
Result<File> open_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return failure(ErrorCode::kIo, "is a directory, not a file", path);
  }
  // A pipe without a writer would be waited for without end.
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
    return failure(ErrorCode::kIo, "is no regular file: write what a pipe gives to a file first",
                   path);
  }
  File file{std::fopen(path.c_str(), "rb")};
  if (file == nullptr) {
    const bool exists = std::filesystem::exists(path, ignored);
    return exists ? failure(ErrorCode::kIo, "cannot be opened for reading", path)
                  : failure(ErrorCode::kNotFound, "there is no such file", path);
  }
  return file;
}

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  const Result<File> file = open_file(path);
  if (!file.has_value()) {
    return file.error();
  }
  std::string text;
  std::array<char, 65'536> part{};
  std::size_t count = 0;
  while ((count = std::fread(part.data(), 1, part.size(), file->get())) > 0) {
    if (text.size() + count > kLargestFile) {
      return failure(ErrorCode::kInvalidArgument, "is larger than 64 MiB, the most that is read",
                     path);
    }
    text.append(part.data(), count);
  }
  if (std::ferror(file->get()) != 0) {
    return failure(ErrorCode::kIo, "cannot be read", path);
  }
  return text;
}

Result<FileStart> read_file_start(const std::string& path, std::size_t count) {
  const Result<File> file = open_file(path);
  if (!file.has_value()) {
    return file.error();
  }
  std::error_code failed;
  const std::uintmax_t size = std::filesystem::file_size(path, failed);
  if (failed || size > static_cast<std::uintmax_t>(INT64_MAX)) {
    return failure(ErrorCode::kIo, "its size cannot be told", path);
  }
  FileStart start{.text = std::string(std::min<std::uintmax_t>(count, size), '\0'),
                  .file_size = Bytes{static_cast<std::int64_t>(size)}};
  if (std::fread(start.text.data(), 1, start.text.size(), file->get()) != start.text.size()) {
    return failure(ErrorCode::kIo, "cannot be read", path);
  }
  return start;
}

Result<void> write_text_file(const std::string& path, std::string_view text) {
  File file{std::fopen(path.c_str(), "wb")};
  if (file == nullptr) {
    return failure(ErrorCode::kIo, "cannot be opened for writing", path);
  }
  const bool written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  const bool closed = std::fclose(file.release()) == 0;  // NOLINT: closing may fail, too
  if (!written || !closed) {
    return failure(ErrorCode::kIo, "cannot be written", path);
  }
  return {};
}

}  // namespace kvpool::io::detail
