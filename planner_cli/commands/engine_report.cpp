// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "commands/engine_report.hpp"

#include "commands/describe.hpp"
#include "commands/plan_report.hpp"
#include "output/json_writer.hpp"
#include "output/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kvpool::cli {
namespace {

/// Decimals of numbers that are not whole.
constexpr std::string_view kDecimals = "0.000";

[[nodiscard]] std::string figure_value(const EngineFigure& figure) {
  if (const auto* count = std::get_if<std::int64_t>(&figure.value)) {
    return count_text(*count);
  }
  if (const auto* size = std::get_if<Bytes>(&figure.value)) {
    return fmt::format("{} ({})", bytes_text(*size), short_size(*size));
  }
  if (const auto* range = std::get_if<PrintedRange>(&figure.value)) {
    const auto scaled = [&](std::int64_t end) {
      return Bytes{static_cast<std::int64_t>(static_cast<double>(end) * 1e6 /
                                             static_cast<double>(range->scale_ppm))};
    };
    return fmt::format("{} to {}", short_size(scaled(range->low)), short_size(scaled(range->high)));
  }
  return figure_text(figure, kDecimals, FigureRounding::kNearest);
}

void report_account(std::string_view title, const std::vector<EngineLine>& account, bool total,
                    Report& report) {
  if (account.empty()) {
    return;
  }
  report.heading(title);
  Table table{{{"line"}, {"bytes", Align::kRight}, {"GiB", Align::kRight}, {"why"}}};
  for (const EngineLine& line : account) {
    table.row(
        {words_of(line.name), count_text(line.bytes.count()), gib_number(line.bytes), line.reason});
  }
  if (total) {
    const Bytes sum = EnginePrediction::total(account);
    table.row({"= charged", count_text(sum.count()), gib_number(sum), ""});
  }
  report.table(table);
}

[[nodiscard]] std::string verdict(const EngineAnswer& answer) {
  const std::string request = "one request of " + counted(answer.length.count(), "token");
  if (answer.error.has_value()) {
    return "NO PREDICTION: " + to_string(*answer.error);
  }
  const std::string budget = short_size(answer.kv_budget());
  return answer.fits() ? fmt::format("FITS: {} in a KV budget of {}", request, budget)
                       : fmt::format("DOES NOT FIT: {} in a KV budget of {}", request, budget);
}

[[nodiscard]] std::string overhead_text(Bytes charged, Bytes needed) {
  if (needed.count() <= 0) {
    return {};
  }
  const double percent =
      (static_cast<double>(charged.count()) / static_cast<double>(needed.count()) - 1.0) * 100.0;
  return fmt::format("{:+.2f} %", percent);
}

/// Requests of the longest length that fit at once, as the engine counts them.
[[nodiscard]] std::string requests_text(const EngineAnswer& answer) {
  const EngineFigure* at_once =
      answer.prediction.has_value() ? answer.prediction->find(FigureKey::kMaxConcurrency) : nullptr;
  return at_once == nullptr ? "-" : figure_text(*at_once, "0.00", FigureRounding::kNearest);
}

[[nodiscard]] std::string tokens_text(const EngineAnswer& answer) {
  const EngineFigure* tokens =
      answer.prediction.has_value() ? answer.prediction->find(FigureKey::kKvTokens) : nullptr;
  return tokens == nullptr ? "-" : count_text(std::get<std::int64_t>(tokens->value));
}

void write_figures(JsonWriter& json, const EnginePrediction& prediction) {
  json.begin_array("figures");
  for (const EngineFigure& figure : prediction.figures) {
    json.begin_object().text("key", to_string(figure.key));
    if (const auto* count = std::get_if<std::int64_t>(&figure.value)) {
      json.number("count", *count);
    } else if (const auto* size = std::get_if<Bytes>(&figure.value)) {
      json.number("bytes", size->count());
    } else if (const auto* range = std::get_if<PrintedRange>(&figure.value)) {
      json.number("low", range->low).number("high", range->high);
      json.number("scale_ppm", range->scale_ppm);
    } else {
      json.text("decimal", figure_text(figure, "0.000000", FigureRounding::kNearest));
    }
    json.end_object();
  }
  json.end_array();
}

void write_account(JsonWriter& json, std::string_view name,
                   const std::vector<EngineLine>& account) {
  json.begin_array(name);
  for (const EngineLine& line : account) {
    json.begin_object()
        .text("name", line.name)
        .number("bytes", line.bytes.count())
        .text("reason", line.reason)
        .end_object();
  }
  json.end_array();
}

void write_prediction(JsonWriter& json, const EnginePrediction& prediction) {
  write_figures(json, prediction);
  json.begin_array("groups");
  for (const EngineGroup& group : prediction.groups) {
    json.begin_object()
        .text("what", group.what)
        .number("layers", group.layers)
        .number("padding_layers", group.padding_layers)
        .number("tokens_per_block", group.tokens_per_block.count())
        .number("blocks_per_request", group.blocks_per_request)
        .end_object();
  }
  json.end_array();
  write_account(json, "request_account", prediction.request_account);
  write_account(json, "pool_account", prediction.pool_account);
  json.begin_array("rules");
  for (const EngineRule& rule : prediction.rules) {
    json.begin_object()
        .text("id", rule.id)
        .text("value", rule.value)
        .text("reason", rule.reason)
        .text("source", rule.source)
        .end_object();
  }
  json.end_array();
}

void write_advice(JsonWriter& json, const std::vector<Advice>& advice) {
  json.begin_array("advice");
  for (const Advice& item : advice) {
    json.begin_object()
        .text("id", item.id)
        .text("pool", item.pool)
        .text("what", item.what)
        .text("change", item.change)
        .number("frees_bytes", item.frees.count())
        .text("cost", item.cost)
        .end_object();
  }
  json.end_array();
}

void write_answer(JsonWriter& json, const EngineAnswer& answer) {
  json.begin_object()
      .text("engine", to_string(answer.engine))
      .text("version", answer.version)
      .boolean("fits", answer.fits())
      .number("max_model_len", answer.length.count())
      .number("needed_bytes", answer.needed.count())
      .number("charged_bytes", answer.charged().value_or(Bytes{0}).count());
  json.begin_array("ledger");
  for (const LedgerLine& line : answer.budget) {
    json.begin_object()
        .text("name", line.name)
        .number("bytes", line.bytes.count())
        .text("kind", to_string(line.kind))
        .number("low", line.low.count())
        .number("high", line.high.count())
        .text("reason", line.reason)
        .end_object();
  }
  json.end_array();
  write_prediction(json, answer.prediction.value_or(EnginePrediction{}));
  write_advice(json, answer.advice);
  if (answer.error.has_value()) {
    json.error(*answer.error);
  }
  json.end_object();
}

/// Bytes that kvpool's plan sets aside for one sequence of the longest length.
[[nodiscard]] Bytes sequence_bytes_of(const Plan& plan) {
  Bytes sum;
  if (const PoolPlan* rank = plan.smallest(); rank != nullptr) {
    for (const PoolDescriptor& pool : rank->pools) {
      for (const PooledGroup& group : pool.groups) {
        sum += sequence_bytes(plan, pool, group, plan.resolution.max_model_len);
      }
    }
  }
  return sum;
}

}  // namespace

void report_engine(const EngineAnswer& answer, Report& report) {
  report.line(verdict(answer), 0, 6, answer.fits() ? Emphasis::kGood : Emphasis::kBad);
  report.blank();
  report.line(fmt::format("engine   {}{}", to_string(answer.engine),
                          answer.version.empty() ? std::string{} : " " + answer.version),
              2, 11);
  report.line(
      "model    " + answer.request.target.name + ": " + describe_layers(answer.request.target), 2,
      11);
  report.line(
      "a prediction of what the engine would print: it is no plan, and nothing can be "
      "allocated from it",
      2, 2, Emphasis::kNotice);
  report.heading("Memory of one GPU");
  Table ledger{{{"line"}, {"bytes", Align::kRight}, {"GiB", Align::kRight}, {"where from"}}};
  for (const LedgerLine& line : answer.budget) {
    ledger.row(
        {words_of(line.name), count_text(line.bytes.count()), gib_number(line.bytes), line.reason});
  }
  report.table(ledger);
  if (!answer.prediction.has_value()) {
    return;
  }
  const EnginePrediction& prediction = *answer.prediction;
  report.heading("What it would print");
  Table figures{{{"figure"}, {"value", Align::kRight}}};
  for (const EngineFigure& figure : prediction.figures) {
    figures.row({std::string{to_string(figure.key)}, figure_value(figure)});
  }
  report.table(figures);
  report.heading("Groups of layers");
  Table groups{{{"layers", Align::kRight},
                {"padding", Align::kRight},
                {"block", Align::kRight},
                {"blocks a request", Align::kRight},
                {"what"}}};
  for (const EngineGroup& group : prediction.groups) {
    groups.row(
        {count_text(group.layers), count_text(group.padding_layers),
         group.tokens_per_block.count() == 0 ? "-" : count_text(group.tokens_per_block.count()),
         group.blocks_per_request == 0 ? "-" : count_text(group.blocks_per_request), group.what});
  }
  report.table(groups);
  report_account(fmt::format("One request of {}", counted(answer.length.count(), "token")),
                 prediction.request_account, true, report);
  report_account("The pool", prediction.pool_account, false, report);
  if (!prediction.rules.empty()) {
    report.heading("Rules");
    for (const EngineRule& rule : prediction.rules) {
      report.line(
          fmt::format("{}: {}: {} [{}]", words_of(rule.id), rule.value, rule.reason, rule.source),
          2, 4);
    }
  }
  report_advice(answer.advice, report);
}

void report_comparison(const ComparedPlan& own, std::span<const EngineAnswer> answers,
                       Report& report) {
  const Plan& plan = own.plan;
  report.line(fmt::format("{}: {}", plan.request.target.name, describe_layers(plan.request.target)),
              0, 2);
  const Bytes needed = answers.front().needed;
  report.line(fmt::format("One request of {} needs {} ({}) of one GPU's layers, before any "
                          "engine's roundings. Each engine's own KV budget:",
                          counted(answers.front().length.count(), "token"), bytes_text(needed),
                          short_size(needed)),
              0, 2);
  report.blank();
  Table table{{{"engine"},
               {"KV budget", Align::kRight},
               {"tokens", Align::kRight},
               {"at once", Align::kRight},
               {"a request", Align::kRight},
               {"over need", Align::kRight},
               {"verdict"}}};
  const LedgerLine* budget = plan.find_line("kv_budget");
  const Bytes request = sequence_bytes_of(plan);
  table.row({"kvpool", budget == nullptr ? "-" : short_size(budget->bytes),
             count_text(plan.capacity.tokens.count()), count_text(plan.capacity.sequences.count()),
             short_size(request), overhead_text(request, needed),
             plan.fits ? "fits" : "does not fit"});
  for (const EngineAnswer& answer : answers) {
    const std::optional<Bytes> charged = answer.charged();
    std::string text = answer.fits() ? "fits" : "does not fit";
    if (answer.error.has_value()) {
      text = to_string(*answer.error);
    }
    table.row({std::string{to_string(answer.engine)}, short_size(answer.kv_budget()),
               tokens_text(answer), requests_text(answer),
               charged.has_value() ? short_size(*charged) : "-",
               charged.has_value() ? overhead_text(*charged, answer.needed) : "", text});
  }
  report.table(table);
  report.blank();
  report.line(
      "kvpool's own row is a plan; the others are predictions. 'over need' holds the "
      "drafter's layers too. --engine NAME shows one of them line by line.",
      0, 0);
  std::vector<Advice> advice = own.advice;
  for (const EngineAnswer& answer : answers) {
    advice.insert(advice.end(), answer.advice.begin(), answer.advice.end());
  }
  report_advice(advice, report);
}

std::string engines_document(const ComparedPlan* own, std::span<const EngineAnswer> answers) {
  JsonWriter json;
  json.begin_object().text("schema", "kvpool.engines/1");
  if (own != nullptr) {
    json.begin_object("kvpool")
        .boolean("fits", own->plan.fits)
        .number("capacity_tokens", own->plan.capacity.tokens.count())
        .number("capacity_sequences", own->plan.capacity.sequences.count())
        .number("charged_bytes", sequence_bytes_of(own->plan).count());
    write_advice(json, own->advice);
    json.end_object();
  }
  json.begin_array("engines");
  for (const EngineAnswer& answer : answers) {
    write_answer(json, answer);
  }
  json.end_array().end_object();
  return json.document();
}

}  // namespace kvpool::cli
