// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <kvpool/core/version.hpp>

#include "spelling.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <utility>

namespace kvpool::cli {
namespace {

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
CLI::App* add_command(CLI::App& app, Command command, Store& store, std::string& input,
                      std::string& second_input) {
  const CommandSpec& about = command_spec(command);
  CLI::App* sub = app.add_subcommand(std::string{about.name}, std::string{about.summary});
  if (!about.input.empty()) {
    sub->add_option(std::string{about.input}, input, std::string{about.input_help})->type_name(" ");
  }
  if (!about.second_input.empty()) {
    sub->add_option(std::string{about.second_input}, second_input, "the other, as the first")
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
    std::string text{program_examples()};
    text += "\nCommands (kvplan COMMAND --help):\n";
    for (const CommandSpec& spec : command_specs()) {
      std::string name{spec.name};
      name.resize(12, ' ');
      text += "  " + name;
      text += spec.summary;
      text += "\n";
    }
    return text + "\n" + std::string{exit_status_text()};
  }
  const std::string name{to_string(normal.command)};
  const CommandSpec& about = command_spec(normal.command);
  std::string text{about.examples};
  text += "\n" + app.get_subcommand(name)->help("kvplan") + "\n";
  return text + std::string{exit_status_text()};
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
  std::string second_input;
  add_command(app, normal.command, store, input, second_input)->set_help_flag();
  if (normal.help) {
    return {.options = {}, .text = help_text(app, normal)};
  }
  if (!normal.has_command) {
    std::vector<std::string_view> names;
    for (const CommandSpec& spec : command_specs()) {
      names.push_back(spec.name);
    }
    throw usage_failure("no command given; there are " + joined(names) + " (kvplan --help)");
  }
  const std::string_view expected = command_spec(normal.command).input;
  if (expected.empty() && !normal.positionals.empty()) {
    throw usage_failure("'kvplan " + std::string{to_string(normal.command)} +
                        "' takes no argument, got '" + normal.positionals[0] + "'");
  }
  const std::string_view second = command_spec(normal.command).second_input;
  if (!second.empty() && normal.positionals.size() != 2) {
    throw usage_failure("'kvplan " + std::string{to_string(normal.command)} + "' takes " +
                        std::string{expected} + " and " + std::string{second} + ", got " +
                        std::to_string(normal.positionals.size()) + " of them");
  }
  if (second.empty() && normal.positionals.size() > 1) {
    throw usage_failure("one " + std::string{expected} + " is expected, got '" +
                        normal.positionals[0] + "' and '" + normal.positionals[1] + "'");
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
  CommandLine line{.options = {.command = normal.command,
                               .input = std::move(input),
                               .second_input = std::move(second_input),
                               .values = {}},
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
