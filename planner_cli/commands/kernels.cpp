// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/planner.hpp>

#include "commands/commands.hpp"
#include "commands/describe.hpp"
#include "commands/gpu_helper.hpp"
#include "commands/kernel_report.hpp"
#include "commands/kernel_uses.hpp"
#include "commands/plan_report.hpp"
#include "output/numbers.hpp"
#include "output/terminal.hpp"
#include "request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvpool::cli {
namespace {

template <typename T>
[[nodiscard]] std::string names_text(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) {
    text.append(text.empty() ? "" : ", ").append(to_string(value));
  }
  return text;
}

/// Whom a row serves; the exceptions where they are fewer.
[[nodiscard]] std::string serves_text(const std::vector<PoolUser>& serves) {
  using enum PoolUser;
  constexpr std::size_t kLongest = 4;
  if (serves.size() <= kLongest) {
    return names_text(serves);
  }
  std::vector<PoolUser> others;
  for (const PoolUser user : {kTarget, kMtp, kEagle3, kDflash, kDspark, kDraftTarget, kPard}) {
    if (std::ranges::find(serves, user) == serves.end()) {
      others.push_back(user);
    }
  }
  return others.empty() ? "all" : "all but " + names_text(others);
}

/// Where a row runs: family, shapes, types, architectures.
[[nodiscard]] std::string limits_text(const KernelLimits& limits) {
  std::vector<std::string> parts;
  if (limits.family.has_value()) {
    parts.emplace_back(*limits.family == AttentionFamily::kLatent ? "MLA latent" : "K and V");
  }
  if (limits.head_dims.size() > 8) {
    parts.push_back(fmt::format("{} head dims from {} to {}", limits.head_dims.size(),
                                limits.head_dims.front(), limits.head_dims.back()));
  } else if (!limits.head_dims.empty()) {
    parts.push_back(fmt::format("head dim {}", fmt::join(limits.head_dims, ", ")));
  }
  if (limits.exact_head_ratio.has_value()) {
    parts.push_back(fmt::format("query heads = {} x KV heads", *limits.exact_head_ratio));
  }
  if (limits.max_head_ratio.has_value()) {
    parts.push_back(fmt::format("query heads <= {} x KV heads", *limits.max_head_ratio));
  }
  if (limits.max_batch.has_value()) {
    parts.push_back(fmt::format("<= {} requests", *limits.max_batch));
  }
  if (limits.max_query_tokens.has_value()) {
    parts.push_back(fmt::format("<= {} query tokens", *limits.max_query_tokens));
  }
  if (!limits.kv_dtypes.empty()) {
    parts.push_back("cache " + names_text(limits.kv_dtypes));
  }
  if (!limits.masks.empty()) {
    parts.push_back(names_text(limits.masks));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

[[nodiscard]] std::string architectures_text(const KernelLimits& limits) {
  return limits.architectures.empty() ? "any"
                                      : fmt::format("{}", fmt::join(limits.architectures, ", "));
}

void report_rows(std::span<const KernelCapability> rows, Report& report) {
  report.line(counted(static_cast<std::int64_t>(rows.size()), "kernel row") +
                  ". A required row that refuses a page size rules it out; a preferred one is "
                  "lost at a cost.",
              0, 0);
  report.blank();
  if (rows.empty()) {
    report.line("This version has no rows of that kernel set; --kernels FILE adds rows.", 0, 0);
    return;
  }
  Table table{{{"row"}, {"role"}, {"serves"}, {"need"}, {"GPU"}, {"pages it accepts"}}};
  for (const KernelCapability& row : rows) {
    table.row({row.name, std::string{to_string(row.role)}, serves_text(row.serves),
               std::string{to_string(row.necessity)}, architectures_text(row.limits),
               row.page_sizes.text()});
  }
  report.table(table, 0);
  report.heading("What each row rests on");
  for (const KernelCapability& row : rows) {
    std::string origin = row.provider;
    if (!row.versions.empty()) {
      origin += ", " + row.versions;
    }
    report.line(row.name + ": " + origin, 2, 6);
    if (const std::string limits = limits_text(row.limits); !limits.empty()) {
      report.line("runs on: " + limits, 6, 8);
    }
    if (row.necessity == Necessity::kPreferred) {
      report.line("losing it costs: " + cost_text(row.cost_of_loss), 6, 8);
    }
    report.line(words_of(to_string(row.evidence)) + ": " + row.source, 6, 8);
  }
}

[[nodiscard]] std::string use_text(const KernelUse& use) {
  const KernelQuery& query = use.query;
  std::string shape;
  if (query.family == AttentionFamily::kLatent) {
    shape = fmt::format("MLA latent of {}, {}", query.head_dim,
                        counted(query.query_heads.count(), "query head"));
  } else {
    shape = fmt::format("{} on {} of {}", counted(query.query_heads.count(), "query head"),
                        counted(query.kv_heads.count(), "KV head"), query.head_dim);
  }
  std::string text =
      fmt::format("{}: {} of {}, {}, {}, {}", to_string(query.user), counted(use.layers, "layer"),
                  shape, to_string(query.kv_dtype), words_of(to_string(query.mask)),
                  query.architecture.empty() ? "GPU not stated" : query.architecture);
  if (query.query_tokens.has_value()) {
    text += fmt::format(", {} a step", counted(*query.query_tokens, "token"));
  }
  return text + (use.page.count() > 0
                     ? fmt::format("; page of {}", counted(use.page.count(), "token"))
                     : std::string{"; no page"});
}

void report_uses(std::span<const KernelCapability> rows, const std::vector<KernelUse>& uses,
                 Report& report) {
  for (const KernelUse& use : uses) {
    report.heading(use_text(use));
    Table table{{{"row"}, {"need"}, {"accepts"}, {"page"}, {"runs"}, {"why not"}}};
    for (const KernelCapability& row : rows) {
      if (!serves_user(row, use.query.user)) {
        continue;
      }
      const std::string reason = why_not(row, use.query);
      table.row({row.name, std::string{to_string(row.necessity)}, row.page_sizes.text(),
                 page_verdict(row, use.page), reason.empty() ? "yes" : "no", reason});
    }
    if (table.empty()) {
      report.line("no row serves " + std::string{to_string(use.query.user)}, 2, 2);
    } else {
      report.table(table);
    }
  }
}

/// The rows of the kernel set that was asked for; all when none was.
[[nodiscard]] std::vector<KernelCapability> asked_rows(const CapabilityRegistry& registry,
                                                       const Options& options) {
  const std::optional<KernelSet> set = asked_kernel_set(options);
  std::vector<KernelCapability> rows;
  for (const KernelCapability& row : registry.rows()) {
    // `exact` narrows the rows of the set trtllm.
    const std::string_view name =
        to_string(set == KernelSet::kKvpool ? KernelSet::kKvpool : KernelSet::kTrtllm);
    if (!set.has_value() || row.kernel_set.empty() || row.kernel_set == name) {
      rows.push_back(row);
    }
  }
  return rows;
}

/// Has the helper run the kernel of every bundled row on a GPU.
[[nodiscard]] ExitCode self_test_on_gpu(bool json) {
  std::vector<std::string> arguments = {"--self-test"};
  if (json) {
    arguments.emplace_back("--json");  // then it writes the document
  }
  const int code =
      run_gpu_helper("--self-test", std::move(arguments), false, ErrorCode::kUnsupported);
  switch (code) {
    case 0: return ExitCode::kFits;
    case 1: return ExitCode::kDoesNotFit;
    case 77:
      throw device_failure(
          "unsupported: --self-test runs the bundled kernels on a GPU, and they "
          "cannot run here; " +
              std::string{kGpuHelper} + " says why",
          ErrorCode::kUnsupported);
    case -1: throw device_failure("--self-test: " + std::string{kGpuHelper} + " crashed");
    default:
      throw device_failure("--self-test: the bundled kernels could not be run; " +
                           std::string{kGpuHelper} + " says why (it ended with " +
                           std::to_string(code) + ")");
  }
}

}  // namespace

ExitCode run_kernels(const Options& options) {
  const bool json = options.flag(OptionId::kJson);
  if (options.flag(OptionId::kSelfTest)) {
    return self_test_on_gpu(json);
  }
  if (options.input.empty()) {
    const std::vector<KernelCapability> rows = asked_rows(read_registry(options), options);
    if (json) {
      print(kernels_document(rows, nullptr, {}));
    } else {
      Report report{use_colour()};
      report_rows(rows, report);
      print(report.text());
    }
    return ExitCode::kFits;
  }
  const Deployment deployment = read_deployment(options);
  const Resolution resolution = value_or_fail(resolve(deployment.request, deployment.registry));
  const std::vector<KernelCapability> rows = asked_rows(deployment.registry, options);
  const std::vector<KernelUse> uses = kernel_uses(deployment.request, resolution);
  if (json) {
    print(kernels_document(rows, &resolution, uses));
  } else {
    Report report{use_colour()};
    Plan settled;
    settled.request = deployment.request;
    settled.resolution = resolution;
    settled.decisions = resolution.decisions;
    settled.refusals = resolution.refusals;
    report.line(deployment.request.target.name + ": " + describe_layers(deployment.request.target),
                0, 2);
    report_refusals(settled, report);
    report_uses(rows, uses, report);
    report_decisions(settled, report);
    print(report.text());
  }
  return resolution.refusals.empty() ? ExitCode::kFits : ExitCode::kBadInput;
}

}  // namespace kvpool::cli
