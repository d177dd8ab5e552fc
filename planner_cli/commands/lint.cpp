// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/config_lint.hpp>
#include <kvpool/plan/planner.hpp>

#include "catalogue/catalogue.hpp"
#include "commands/commands.hpp"
#include "deployment_file.hpp"
#include "hub_cache.hpp"
#include "model_input.hpp"
#include "output/json_writer.hpp"
#include "output/numbers.hpp"
#include "output/report.hpp"
#include "output/terminal.hpp"
#include "request.hpp"
#include "spelling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::cli {
namespace {

using io::Finding;
using io::FindingKind;

constexpr std::array kKinds{FindingKind::kNotUnderstood, FindingKind::kContradictory,
                            FindingKind::kDefaulted};

/// Findings about a model: a path, a name of the hub cache, or one of the catalogue.
[[nodiscard]] std::vector<Finding> lint_model(const std::string& text) {
  std::error_code failed;
  if (std::filesystem::exists(text, failed)) {
    return value_or_fail(io::lint_checkpoint(text));
  }
  if (const auto snapshot = find_snapshot(hub_cache_folder(), text)) {
    return value_or_fail(io::lint_checkpoint(*snapshot));
  }
  if (const CatalogueEntry* entry = find_entry(text); entry != nullptr) {
    return io::lint_config(entry->config, "catalogue: " + std::string{entry->name});
  }
  (void)read_model_input(text);  // says what is near
  return {};
}

[[nodiscard]] Finding finding_of(const Error& error) {
  return {.kind = error.code == ErrorCode::kUnsupported || error.code == ErrorCode::kNotFound
                      ? FindingKind::kNotUnderstood
                      : FindingKind::kContradictory,
          .file = error.file,
          .key = error.key,
          .value = error.value,
          .message = error.message};
}

void add_all(std::vector<Finding>& to, std::vector<Finding> from) {
  std::ranges::move(from, std::back_inserter(to));
}

/// Options whose values are not understood, one after the other; what remains can be read.
[[nodiscard]] std::optional<Deployment> read_in_spite(Options& options,
                                                      std::vector<Finding>& findings) {
  for (std::size_t left = options.values.size() + 1; left > 0; --left) {
    try {
      return read_deployment(options);
    } catch (const Failure& failure) {
      findings.push_back(finding_of(failure.error()));
      const OptionSpec* spec = find_option(failure.error().key, Command::kPlan);
      if (spec == nullptr || options.values.erase(spec->id) == 0) {
        return std::nullopt;
      }
    }
  }
  return std::nullopt;
}

/// What a deployment leaves to be taken from elsewhere.
void look_at_defaults(const Deployment& deployment, const std::string& file,
                      std::vector<Finding>& findings) {
  const PlanRequest& request = deployment.request;
  const auto defaulted = [&](std::string key, std::string message) {
    findings.push_back({.kind = FindingKind::kDefaulted,
                        .file = file,
                        .key = std::move(key),
                        .value = {},
                        .message = std::move(message)});
  };
  if (!request.workload.max_num_seqs.has_value()) {
    defaulted("max_num_seqs", "absent: one sequence is planned for");
  }
  if (!request.workload.max_model_len.has_value()) {
    defaulted("max_model_len", request.target.max_positions.has_value()
                                   ? "absent: the config's longest position, " +
                                         count_text(request.target.max_positions->count())
                                   : std::string{"absent, and the config has no longest position"});
  }
  if (!request.kv_dtype.has_value()) {
    defaulted("kv_cache_dtype", "absent: the checkpoint's, else the weights' own type");
  }
  const BudgetRequest& budget = request.budget;
  if (!budget.kv_budget.has_value() && !budget.overhead.has_value() &&
      budget.overheads.engine.empty()) {
    defaulted("host_engine", "absent: overheads are of no engine in particular");
  }
}

void look_at_plan(const Deployment& deployment, const Options& options, const std::string& file,
                  std::vector<Finding>& findings) {
  const PlanRequest& request = deployment.request;
  const auto contradictory = [&](std::string key, std::string value, std::string message) {
    findings.push_back({.kind = FindingKind::kContradictory,
                        .file = file,
                        .key = std::move(key),
                        .value = std::move(value),
                        .message = std::move(message)});
  };
  if (const std::string unused = unused_options(options); !unused.empty()) {
    contradictory({}, {}, unused);
  }
  if (request.device.has_value() && request.budget.gpu_memory.has_value() &&
      *request.budget.gpu_memory > request.device->cuda_visible_high) {
    contradictory(
        "gpu_memory", bytes_text(*request.budget.gpu_memory),
        fmt::format("is more than a process sees of the {}, at most {}: is marketed memory "
                    "(GB) meant as GiB?",
                    request.device->name, bytes_text(request.device->cuda_visible_high)));
  }
  const auto& longest = request.target.max_positions;
  if (request.workload.max_model_len.has_value() && longest.has_value() &&
      *request.workload.max_model_len > *longest) {
    contradictory("max_model_len", count_text(request.workload.max_model_len->count()),
                  "is longer than the config's longest position, " + count_text(longest->count()));
  }
  const auto plan = make_plan(request, deployment.registry);
  if (!plan) {
    Error error = plan.error();
    error.file = error.file.empty() ? file : error.file;
    findings.push_back(finding_of(error));
    return;
  }
  for (const Refusal& refusal : plan->refusals) {
    contradictory(refusal.id, {},
                  refusal.what + (refusal.least_that_works.empty()
                                      ? std::string{}
                                      : "; least that works: " + refusal.least_that_works));
  }
}

[[nodiscard]] std::vector<Finding> lint_deployment(const Options& asked) {
  Options options = asked;
  options.input.clear();
  std::vector<Error> complaints;
  add_deployment_file(asked.input, options, &complaints);
  std::vector<Finding> findings;
  findings.reserve(complaints.size());
  for (const Error& complaint : complaints) {
    findings.push_back(finding_of(complaint));
  }
  if (options.input.empty()) {
    findings.push_back({.kind = FindingKind::kNotUnderstood,
                        .file = asked.input,
                        .key = "model",
                        .value = {},
                        .message = "absent: nothing can be planned without a model"});
    return findings;
  }
  const GivenValue* drafter = options.find(OptionId::kDrafter);
  const std::string drafter_text = drafter == nullptr ? std::string{} : drafter->text;
  const auto deployment = read_in_spite(options, findings);
  if (deployment.has_value()) {
    look_at_plan(*deployment, options, asked.input, findings);
    look_at_defaults(*deployment, asked.input, findings);
    add_all(findings, lint_model(options.input));
    if (deployment->request.drafter.has_value() && !drafter_text.empty()) {
      add_all(findings, lint_model(drafter_text));
    }
  }
  return findings;
}

/// Kinds that `--allow` lets pass.
[[nodiscard]] std::vector<FindingKind> allowed_kinds(const Options& options) {
  std::vector<FindingKind> kinds;
  const auto given = options.values.find(OptionId::kAllow);
  if (given == options.values.end()) {
    return kinds;
  }
  std::vector<std::string_view> names(kKinds.size());
  std::ranges::transform(kKinds, names.begin(), [](FindingKind kind) { return to_string(kind); });
  for (const GivenValue& value : given->second) {
    std::string text = value.text;
    std::ranges::replace(text, '-', '_');
    const auto at = std::ranges::find(names, std::string_view{text});
    if (at == names.end()) {
      value.fail(option_spec(OptionId::kAllow), "unknown kind '" + value.text + "'" +
                                                    did_you_mean(text, names) + "; known are " +
                                                    joined(names));
    }
    kinds.push_back(kKinds.at(static_cast<std::size_t>(at - names.begin())));
  }
  return kinds;
}

[[nodiscard]] std::string document(const std::string& input, const std::vector<Finding>& findings) {
  JsonWriter json;
  json.begin_object()
      .text("schema", "kvpool.lint/1")
      .text("input", input)
      .boolean("clean", findings.empty())
      .begin_array("findings");
  for (const Finding& finding : findings) {
    json.begin_object()
        .text("kind", to_string(finding.kind))
        .text("file", finding.file)
        .text("key", finding.key)
        .text("value", finding.value)
        .text("message", finding.message)
        .end_object();
  }
  json.end_array().end_object();
  return json.document();
}

void report_findings(const std::vector<Finding>& findings, Report& report) {
  for (const FindingKind kind : kKinds) {
    if (std::ranges::find(findings, kind, &Finding::kind) == findings.end()) {
      continue;
    }
    std::string title{to_string(kind)};
    std::ranges::replace(title, '_', ' ');
    report.heading(title);
    for (const Finding& finding : findings) {
      if (finding.kind != kind) {
        continue;
      }
      std::string text = finding.file;
      text += text.empty() || finding.key.empty() ? "" : ": ";
      text += finding.key;
      text += finding.value.empty() ? "" : " = " + finding.value;
      report.line(text, 2, 4);
      report.line(finding.message, 6, 6);
    }
  }
}

}  // namespace

ExitCode run_lint(const Options& options) {
  if (options.input.empty()) {
    throw usage_failure("INPUT is missing: a model as for 'kvplan plan', or a deployment file");
  }
  const std::vector<FindingKind> allowed = allowed_kinds(options);
  std::vector<Finding> findings =
      options.input.ends_with(".toml") ? lint_deployment(options) : lint_model(options.input);
  std::erase_if(findings, [&allowed](const Finding& finding) {
    return std::ranges::find(allowed, finding.kind) != allowed.end();
  });
  if (options.flag(OptionId::kJson)) {
    print(document(options.input, findings));
  } else {
    Report report{use_colour()};
    report.line(findings.empty() ? "CLEAN: " + options.input
                                 : counted(static_cast<std::int64_t>(findings.size()), "finding") +
                                       ": " + options.input,
                0, 2, findings.empty() ? Emphasis::kGood : Emphasis::kNotice);
    report_findings(findings, report);
    print(report.text());
  }
  return findings.empty() ? ExitCode::kFits : ExitCode::kDoesNotFit;
}

}  // namespace kvpool::cli
