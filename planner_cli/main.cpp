// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/plan_document.hpp>

#include "commands/commands.hpp"
#include "deployment_file.hpp"
#include "exit_codes.hpp"
#include "options.hpp"
#include "output/json_writer.hpp"
#include "output/terminal.hpp"

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::cli {
namespace {

[[nodiscard]] ExitCode run_command(const Options& options) {
  switch (options.command) {
    case Command::kPlan: return run_plan(options);
    case Command::kExplain: return run_explain(options);
    case Command::kKernels: return run_kernels(options);
    case Command::kVerify: return run_verify(options);
    case Command::kCheck: return run_check(options);
    case Command::kSolve: return run_solve(options);
    case Command::kSweep: return run_sweep(options);
    case Command::kDiff: return run_diff(options);
    case Command::kLint: return run_lint(options);
    case Command::kModels: return run_models(options);
    case Command::kGpus: return run_gpus(options);
    case Command::kCompletion: return run_completion(options);
    case Command::kMan: return run_man(options);
  }
  return ExitCode::kUsage;
}

/// The document that `--json` owes when the input is bad.
[[nodiscard]] std::string error_document(Command command, const Error& error) {
  if (command == Command::kPlan) {
    std::string document = io::error_to_json(error);
    return document.ends_with('\n') ? document : document + "\n";
  }
  JsonWriter json;
  json.begin_object()
      .text("schema", "kvpool." + std::string{to_string(command)} + "/1")
      .error(error)
      .end_object();
  return json.document();
}

[[nodiscard]] ExitCode run(const std::vector<std::string_view>& arguments) {
  Options options;
  try {
    CommandLine line = read_command_line(arguments);
    if (!line.text.empty()) {
      print(line.text);
      return ExitCode::kFits;
    }
    options = std::move(line.options);
    if (const GivenValue* file = options.find(OptionId::kDeployment); file != nullptr) {
      add_deployment_file(file->text, options);
    }
    return run_command(options);
  } catch (const Failure& failure) {
    print_error(failure.error());
    if (failure.exit() == ExitCode::kBadInput && options.flag(OptionId::kJson)) {
      print(error_document(options.command, failure.error()));
    }
    return failure.exit();
  }
}

}  // namespace
}  // namespace kvpool::cli

int main(int argc, char** argv) {
  using kvpool::cli::ExitCode;
  try {
    const std::vector<std::string_view> arguments{argv + (argc > 0 ? 1 : 0), argv + argc};
    return static_cast<int>(kvpool::cli::run(arguments));
  } catch (const kvpool::cli::Failure& failure) {
    kvpool::cli::print_error(failure.error());
    return static_cast<int>(failure.exit());
  } catch (const std::bad_alloc&) {
    std::fputs("kvplan: error: the host's memory is used up\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kvplan: error: %s (this is a bug in kvpool: please report it)\n",
                 error.what());
  }
  return static_cast<int>(ExitCode::kDeviceOrIo);
}
