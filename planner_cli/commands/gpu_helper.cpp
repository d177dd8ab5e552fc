// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "commands/gpu_helper.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

extern char** environ;  // NOLINT: POSIX has it so

namespace kvpool::cli {
namespace {

/// The helper beside this program.
[[nodiscard]] std::filesystem::path helper_path(const std::string& option, ErrorCode missing) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    throw device_failure(option + ": cannot find this program's folder: " + error.message());
  }
  std::filesystem::path helper = self.parent_path() / kGpuHelper;
  if (::access(helper.c_str(), X_OK) != 0) {
    const std::string prefix = missing == ErrorCode::kUnsupported ? "unsupported: " : "";
    throw device_failure(prefix + option + " needs the program " + std::string{kGpuHelper} +
                             " beside kvplan, in " + self.parent_path().string() +
                             "; builds with CUDA have it (KVPOOL_CUDA=ON)",
                         missing);
  }
  return helper;
}

}  // namespace

Failure device_failure(std::string message, ErrorCode code) {
  return Failure{ExitCode::kDeviceOrIo, Error{code, std::move(message)}};
}

int run_gpu_helper(const std::string& option, std::vector<std::string> arguments,
                   bool keep_standard_output, ErrorCode missing) {
  const std::string program = helper_path(option, missing).string();
  // Where the caller ignores SIGCHLD, exit codes of children are thrown away.
  ::signal(SIGCHLD, SIG_DFL);  // NOLINT(cert-err33-c): it cannot fail
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (keep_standard_output) {
    ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  }
  arguments.insert(arguments.begin(), program);
  std::vector<char*> words;
  words.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) {
    words.push_back(argument.data());
  }
  words.push_back(nullptr);
  pid_t child = 0;
  const int error =
      ::posix_spawn(&child, program.c_str(), &actions, nullptr, words.data(), environ);
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

}  // namespace kvpool::cli
