// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "commands/verify_on_gpu.hpp"

#include <kvpool/io/plan_document.hpp>

#include "commands/gpu_helper.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace kvpool::cli {
namespace {

/// A file that goes with its object.
class ScratchFile {
 public:
  ScratchFile() : path_{std::filesystem::temp_directory_path() / "kvplan-XXXXXX"} {
    std::string name = path_.string();
    const int file = ::mkstemp(name.data());
    if (file < 0) {
      throw Failure{Error{ErrorCode::kIo, "cannot make a file in " + path_.parent_path().string() +
                                              ": " + std::generic_category().message(errno)}};
    }
    ::close(file);
    path_ = name;
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

ExitCode verify_on_gpu(const Plan& plan, bool keep_standard_output) {
  const ScratchFile file;
  if (auto written = io::write_plan(plan, file.path().string()); !written) {
    throw Failure{std::move(written).error()};
  }
  const int code = run_gpu_helper("--verify-on-gpu", {file.path().string()}, keep_standard_output);
  switch (code) {
    case 0: return ExitCode::kFits;
    case 1: return ExitCode::kDoesNotFit;
    case -1: throw device_failure("--verify-on-gpu: " + std::string{kGpuHelper} + " crashed");
    default:
      throw device_failure("--verify-on-gpu: the plan could not be allocated and read on a GPU; " +
                           std::string{kGpuHelper} + " says why (it ended with " +
                           std::to_string(code) + ")");
  }
}

}  // namespace kvpool::cli
