// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <kvpool/core/version.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

namespace kvpool::cli {
namespace {

constexpr std::string_view kExamples =
    "kvplan plans the KV-cache memory of an LLM inference engine, to the byte, without a GPU.\n"
    "\n"
    "  What fits on this GPU, and what to change if it does not?\n"
    "    kvplan plan ./Llama-3.1-70B -tp 4 --gpu h200 --max-num-seqs 64 --max-model-len 32k\n"
    "\n"
    "  A target, its drafter, and a page size for both:\n"
    "    kvplan plan target/config.json --drafter draft/config.json --drafter-kind dspark \\\n"
    "        --tp 16 --gpu gb200 --page-size 64\n"
    "\n"
    "  Does what an engine allocated agree with what the plan charged?\n"
    "    kvplan plan ./model --gpu h200 --json > plan.json\n"
    "    kvplan verify plan.json --allocations allocations.json\n";

constexpr std::string_view kFooter =
    "Exit status: 0 fits (verify, check: agrees), 1 bytes are missing (disagrees), 2 wrong\n"
    "command line, 3 bad or unsupported input or a refusal, 4 device or I/O error.\n";

constexpr std::array<Command, kCommandCount> kCommands{
    Command::kPlan, Command::kExplain, Command::kKernels, Command::kVerify, Command::kCheck};

struct CommandText {
  std::string_view summary;
  std::string_view examples;
};

constexpr std::array<CommandText, kCommandCount> kCommandTexts{{
    {"what fits: pools, pages, tokens, sequences, the ledger and every decision",
     "  kvplan plan ./Llama-3.1-70B -tp 4 --gpu h200 --max-num-seqs 64 --max-model-len 32k\n"
     "  kvplan plan ./model --kv-budget 40GiB --kv-cache-dtype fp8 --page-size 32\n"
     "  kvplan plan ./target --drafter ./draft --tp 16 --gpu gb200 --json\n"},
    {"every figure derived: config key, formula, number",
     "  kvplan explain ./Llama-3.1-70B -tp 4 --gpu h200\n"
     "  kvplan explain ./model --kv-budget 40GiB --page-size 32\n"
     "  kvplan explain ./target --drafter ./draft --tp 16 --gpu gb200\n"},
    {"which kernels serve which page sizes, and why not",
     "  kvplan kernels\n"
     "  kvplan kernels ./target --drafter ./draft --tp 16 --gpu gb200\n"
     "  kvplan kernels ./model --gpu h200 --kernels my_kernels.toml --json\n"},
    {"does what an engine allocated agree with what a plan charged",
     "  kvplan verify plan.json --allocations allocations.json\n"
     "  kvplan verify plan.json --allocations allocations.json --stage 1 --json\n"
     "  kvplan plan ./model --gpu h200 --json > plan.json   (makes the plan)\n"},
    {"does the arithmetic of other engines agree with what they printed",
     "  kvplan check --configs ./configs --cases cases.jsonl\n"
     "  kvplan check --configs ./configs --cases cases.jsonl --cases more.jsonl --json\n"},
}};

/// CLI11's help with examples first.
class HelpText : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override {
    return app->get_description() + "\n";
  }
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    text.erase(0, text.find_first_not_of('\n'));
    for (std::size_t at = text.find("\n\n\n"); at != std::string::npos; at = text.find("\n\n\n")) {
      text.erase(at, 1);
    }
    return text;
  }
};

/// The help of one option: its other spellings follow.
[[nodiscard]] std::string help_of(const OptionSpec& spec) {
  std::string help{spec.help};
  std::string others;
  for (const std::string_view spelling : std::span{spec.spellings}.subspan(1)) {
    if (!spelling.empty()) {
      others.append(others.empty() ? "" : ", ").append("--").append(spelling);
    }
  }
  return others.empty() ? help : help + "\n[also " + others + "]";
}

using Store = std::map<OptionId, std::vector<std::string>>;

/// A subcommand with all options that it takes.
CLI::App* add_command(CLI::App& app, Command command, Store& store, std::string& input) {
  const CommandText& text = kCommandTexts.at(static_cast<std::size_t>(command));
  CLI::App* sub = app.add_subcommand(std::string{to_string(command)}, std::string{text.summary});
  const bool verify = command == Command::kVerify;
  if (command != Command::kCheck) {
    sub->add_option(verify ? "PLAN" : "MODEL", input,
                    verify ? "plan document that 'kvplan plan --json' wrote"
                           : "config.json or checkpoint directory of the model")
        ->type_name(" ");
  }
  for (const OptionSpec& spec : option_specs()) {
    if (!spec.serves(command)) {
      continue;
    }
    if (spec.arity == Arity::kFlag) {
      sub->add_flag_callback(
             spec.flag(), [&store, id = spec.id] { store[id] = {"true"}; }, help_of(spec))
          ->group(std::string{spec.group});
      continue;
    }
    CLI::Option* option = sub->add_option(spec.flag(), store[spec.id], help_of(spec))
                              ->type_name(std::string{spec.value})
                              ->group(std::string{spec.group})
                              ->allow_extra_args(false);
    if (spec.arity == Arity::kRepeated) {
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    } else {
      option->expected(1);
    }
  }
  return sub;
}

[[nodiscard]] std::string help_text(const CLI::App& app, const NormalArguments& normal) {
  if (!normal.has_command) {
    std::string text{kExamples};
    text += "\nCommands (kvplan COMMAND --help):\n";
    for (const Command command : kCommands) {
      std::string name{to_string(command)};
      name.resize(9, ' ');
      text += "  " + name;
      text += kCommandTexts.at(static_cast<std::size_t>(command)).summary;
      text += "\n";
    }
    return text + "\n" + std::string{kFooter};
  }
  const std::string name{to_string(normal.command)};
  const CommandText& about = kCommandTexts.at(static_cast<std::size_t>(normal.command));
  std::string text{about.examples};
  text += "\n" + app.get_subcommand(name)->help("kvplan") + "\n";
  return text + std::string{kFooter};
}

}  // namespace

void GivenValue::fail(const OptionSpec& option, const std::string& message) const {
  if (file.empty()) {
    throw usage_failure(option.flag() + ": " + message);
  }
  throw Failure{ExitCode::kBadInput, Error{ErrorCode::kInvalidArgument, place + ": " + message,
                                           file, std::string{option.spellings[0]}, text}};
}

bool Options::flag(OptionId id) const {
  const GivenValue* value = find(id);
  return value != nullptr && value->text == "true";
}

const GivenValue* Options::find(OptionId id) const {
  const auto found = values.find(id);
  return found == values.end() || found->second.empty() ? nullptr : &found->second.front();
}

CommandLine read_command_line(std::span<const std::string_view> arguments) {
  const NormalArguments normal = normalise_arguments(arguments);
  if (normal.version) {
    return {.options = {}, .text = "kvplan " + std::string{kVersion} + "\n"};
  }
  CLI::App app{"kvplan", "kvplan"};
  app.formatter(std::make_shared<HelpText>());
  app.get_formatter()->column_width(34);
  app.set_help_flag();
  app.require_subcommand(1);
  Store store;
  std::string input;
  for (const Command command : kCommands) {
    if (command == normal.command) {
      CLI::App* sub = add_command(app, command, store, input);
      sub->set_help_flag();
    }
  }
  if (normal.help) {
    return {.options = {}, .text = help_text(app, normal)};
  }
  if (!normal.has_command) {
    throw usage_failure(
        "no command given; there are plan, explain, kernels, verify, check "
        "(kvplan --help)");
  }
  if (normal.command == Command::kCheck && !normal.positionals.empty()) {
    throw usage_failure("'kvplan check' takes options only, got '" + normal.positionals[0] + "'");
  }
  if (normal.positionals.size() > 1) {
    throw usage_failure(
        "one " + std::string{normal.command == Command::kVerify ? "PLAN" : "MODEL"} +
        " is expected, got '" + normal.positionals[0] + "' and '" + normal.positionals[1] + "'");
  }
  // CLI11 takes its arguments from the end.
  std::vector<std::string> words{normal.positionals.rbegin(), normal.positionals.rend()};
  if (!words.empty()) {
    words.emplace_back("--");
  }
  words.insert(words.end(), normal.options.rbegin(), normal.options.rend());
  words.emplace_back(to_string(normal.command));
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    throw usage_failure(error.what());
  }
  CommandLine line{.options = {.command = normal.command, .input = std::move(input), .values = {}},
                   .text = {}};
  for (auto& [id, texts] : store) {
    for (std::string& text : texts) {
      line.options.values[id].push_back(
          GivenValue{.text = std::move(text), .file = {}, .place = {}});
    }
  }
  return line;
}

}  // namespace kvpool::cli
