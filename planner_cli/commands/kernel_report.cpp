// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "commands/kernel_report.hpp"

#include "output/json_writer.hpp"

#include <algorithm>
#include <optional>

namespace kvpool::cli {
namespace {

template <typename T>
[[nodiscard]] std::vector<std::string> names_of(const std::vector<T>& values) {
  std::vector<std::string> names;
  names.reserve(values.size());
  for (const T& value : values) {
    names.emplace_back(to_string(value));
  }
  return names;
}

void write_limits(const KernelLimits& limits, JsonWriter& json) {
  const auto number = [&json](std::string_view key, const std::optional<std::int64_t>& value) {
    if (value.has_value()) {
      json.number(key, *value);
    }
  };
  json.begin_object("limits");
  if (limits.family.has_value()) {
    json.text("family", to_string(*limits.family));
  }
  json.numbers("head_dims", limits.head_dims)
      .numbers("excluded_head_dims", limits.excluded_head_dims);
  number("exact_head_ratio", limits.exact_head_ratio);
  number("max_head_ratio", limits.max_head_ratio);
  json.texts("query_dtypes", names_of(limits.query_dtypes))
      .texts("kv_dtypes", names_of(limits.kv_dtypes))
      .texts("output_dtypes", names_of(limits.output_dtypes))
      .texts("architectures", limits.architectures)
      .texts("masks", names_of(limits.masks));
  number("max_batch", limits.max_batch);
  number("max_query_tokens", limits.max_query_tokens);
  if (limits.max_context.has_value()) {
    json.number("max_context", limits.max_context->count());
  }
  json.end_object();
}

void write_row(const KernelCapability& row, JsonWriter& json) {
  json.begin_object()
      .text("name", row.name)
      .text("provider", row.provider)
      .text("versions", row.versions)
      .text("kernel_set", row.kernel_set)
      .text("backend", row.backend)
      .texts("serves", names_of(row.serves))
      .texts("model_families", row.model_families)
      .text("role", to_string(row.role))
      .text("accepts", row.page_sizes.text())
      .boolean("reads_sub_views", row.reads_sub_views)
      .boolean("reads_strided_pages", row.reads_strided_pages)
      .text("layout", row.layout);
  write_limits(row.limits, json);
  json.text("certified", row.certified)
      .text("necessity", to_string(row.necessity))
      .begin_object("cost_of_loss")
      .number("value", row.cost_of_loss.value)
      .text("unit", row.cost_of_loss.unit)
      .text("conditions", row.cost_of_loss.conditions)
      .end_object()
      .text("evidence", to_string(row.evidence))
      .text("source", row.source)
      .end_object();
}

void write_use(std::span<const KernelCapability> rows, const KernelUse& use, JsonWriter& json) {
  const KernelQuery& query = use.query;
  json.begin_object()
      .text("user", to_string(query.user))
      .text("model_type", query.model_family)
      .text("architecture", query.architecture)
      .number("layers", use.layers)
      .text("family", to_string(query.family))
      .number("head_dim", query.head_dim)
      .number("query_heads", query.query_heads.count())
      .number("kv_heads", query.kv_heads.count())
      .text("kv_dtype", to_string(query.kv_dtype))
      .text("mask", to_string(query.mask))
      .number("tokens_per_block", use.page.count())
      .begin_array("rows");
  for (const KernelCapability& row : rows) {
    if (!serves_user(row, query.user)) {
      continue;
    }
    const std::string reason = why_not(row, query);
    json.begin_object()
        .text("row", row.name)
        .text("accepts", row.page_sizes.text())
        .text("page", page_verdict(row, use.page))
        .boolean("runs", reason.empty())
        .text("why_not", reason)
        .end_object();
  }
  json.end_array().end_object();
}

}  // namespace

bool serves_user(const KernelCapability& row, PoolUser user) noexcept {
  return std::ranges::find(row.serves, user) != row.serves.end();
}

std::string page_verdict(const KernelCapability& row, Tokens page) {
  if (!row.page_sizes.reads_pool()) {
    return "not read";
  }
  if (page.count() < 1) {
    return "-";
  }
  return row.page_sizes.accepts(page) ? "kept" : "refused";
}

std::string kernels_document(std::span<const KernelCapability> rows, const Resolution* resolution,
                             const std::vector<KernelUse>& uses) {
  JsonWriter json;
  json.begin_object().text("schema", "kvpool.kernels/1").begin_array("rows");
  for (const KernelCapability& row : rows) {
    write_row(row, json);
  }
  json.end_array().begin_array("uses");
  for (const KernelUse& use : uses) {
    write_use(rows, use, json);
  }
  json.end_array().begin_array("refusals");
  if (resolution != nullptr) {
    for (const Refusal& refusal : resolution->refusals) {
      json.begin_object()
          .text("id", refusal.id)
          .text("what", refusal.what)
          .texts("accepted", refusal.accepted)
          .text("least_that_works", refusal.least_that_works)
          .end_object();
    }
  }
  json.end_array().end_object();
  return json.document();
}

}  // namespace kvpool::cli
