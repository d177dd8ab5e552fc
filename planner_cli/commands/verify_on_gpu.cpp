// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "commands/verify_on_gpu.hpp"

#include <kvpool/io/plan_document.hpp>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

extern char** environ;  // NOLINT: POSIX has it so

namespace kvpool::cli {
namespace {

constexpr const char* kHelper = "kvplan-gpu-verify";

[[nodiscard]] Failure device_failure(std::string message) {
  return Failure{ExitCode::kDeviceOrIo, Error{ErrorCode::kDevice, std::move(message)}};
}

/// The helper beside this program.
[[nodiscard]] std::filesystem::path helper_path() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    throw device_failure("--verify-on-gpu: cannot find this program's folder: " + error.message());
  }
  std::filesystem::path helper = self.parent_path() / kHelper;
  if (::access(helper.c_str(), X_OK) != 0) {
    throw device_failure("--verify-on-gpu needs the program " + std::string{kHelper} +
                         " beside kvplan, in " + self.parent_path().string() +
                         "; builds with CUDA have it (KVPOOL_CUDA=ON)");
  }
  return helper;
}

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

/// Runs a program with one argument. @return its exit code, or -1 if a signal ended it
[[nodiscard]] int run_program(const std::string& program, const std::string& argument,
                              bool keep_standard_output) {
  // Where the caller ignores SIGCHLD, exit codes of children are thrown away.
  ::signal(SIGCHLD, SIG_DFL);  // NOLINT(cert-err33-c): it cannot fail
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (keep_standard_output) {
    ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  }
  std::string words[] = {program, argument};
  char* const arguments[] = {words[0].data(), words[1].data(), nullptr};
  pid_t child = 0;
  const int error = ::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    throw device_failure("cannot run " + program + ": " + std::generic_category().message(error));
  }
  int status = 0;
  pid_t ended = -1;
  do {
    ended = ::waitpid(child, &status, 0);
  } while (ended < 0 && errno == EINTR);
  if (ended != child) {
    throw device_failure("cannot learn how " + program +
                         " ended: " + std::generic_category().message(errno));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

ExitCode verify_on_gpu(const Plan& plan, bool keep_standard_output) {
  const std::filesystem::path helper = helper_path();
  const ScratchFile file;
  if (auto written = io::write_plan(plan, file.path().string()); !written) {
    throw Failure{std::move(written).error()};
  }
  const int code = run_program(helper.string(), file.path().string(), keep_standard_output);
  switch (code) {
    case 0: return ExitCode::kFits;
    case 1: return ExitCode::kDoesNotFit;
    case -1: throw device_failure("--verify-on-gpu: " + std::string{kHelper} + " crashed");
    default:
      throw device_failure("--verify-on-gpu: the plan could not be allocated and read on a GPU; " +
                           std::string{kHelper} + " says why (it ended with " +
                           std::to_string(code) + ")");
  }
}

}  // namespace kvpool::cli
