// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/kernel_file.hpp>

#include <kvpool/capability/capability_registry.hpp>

#include "core/format.hpp"
#include "io/text_file.hpp"
#include "io/toml_table.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace kvpool::io {
namespace {

using detail::placed;
using detail::TableReader;
using detail::Words;

/// Larger files are none that a person wrote.
constexpr std::size_t kLargestFile = std::size_t{1} << 20U;
constexpr std::array<std::string_view, 18> kRowKeys = {"name",
                                                       "provider",
                                                       "versions",
                                                       "kernel_set",
                                                       "backend",
                                                       "serves",
                                                       "model_families",
                                                       "role",
                                                       "page_sizes",
                                                       "reads_sub_views",
                                                       "reads_strided_pages",
                                                       "layout",
                                                       "limits",
                                                       "certified",
                                                       "necessity",
                                                       "cost_of_loss",
                                                       "evidence",
                                                       "source"};
constexpr std::array<std::string_view, 13> kLimitKeys = {
    "family",       "head_dims",        "excluded_head_dims", "exact_head_ratio", "max_head_ratio",
    "query_dtypes", "kv_dtypes",        "output_dtypes",      "architectures",    "masks",
    "max_batch",    "max_query_tokens", "max_context"};
constexpr std::array<std::string_view, 3> kCostKeys = {"value", "unit", "conditions"};
constexpr std::array<std::string_view, 3> kRuleKeys = {"divisors_of", "multiples_of", "max"};

constexpr std::array kUsers = {PoolUser::kTarget, PoolUser::kMtp,    PoolUser::kEagle3,
                               PoolUser::kDflash, PoolUser::kDspark, PoolUser::kDraftTarget,
                               PoolUser::kPard};
constexpr std::array kRoles = {KernelRole::kTargetDecode, KernelRole::kTargetPrefill,
                               KernelRole::kDraftBlock, KernelRole::kAppend, KernelRole::kCopy};
constexpr std::array kMasks = {AttentionMask::kCausal, AttentionMask::kNonCausal,
                               AttentionMask::kWindow};
constexpr std::array kFamilies = {AttentionFamily::kKeyValue, AttentionFamily::kLatent};
constexpr std::array kNecessities = {Necessity::kRequired, Necessity::kPreferred};
constexpr std::array kEvidences = {Evidence::kDeclared, Evidence::kTestedHere};

/// Reads the rows of a file.
class KernelFileReader {
 public:
  explicit KernelFileReader(const std::string& file) : file_{file} {}

  Result<std::vector<KernelCapability>> read(const toml::table& root) {
    constexpr std::array<std::string_view, 1> kRootKeys = {"kernel"};
    TableReader top{root, "file", file_, error_, kRootKeys};
    const toml::node* kernels = top.find("kernel");
    const toml::array* rows = kernels == nullptr ? nullptr : kernels->as_array();
    if (!error_.has_value() &&
        (rows == nullptr || rows->empty() || !rows->is_homogeneous(toml::node_type::table))) {
      const auto position =
          kernels == nullptr ? toml::source_position{1, 1} : kernels->source().begin;
      error_ = Error{.code = ErrorCode::kInvalidArgument,
                     .message = placed(position, "needs one [[kernel]] table for each row"),
                     .file = file_,
                     .key = "kernel"};
    }
    for (std::size_t i = 0; !error_.has_value() && i < rows->size(); ++i) {
      const toml::table& table = *rows->get(i)->as_table();
      add(table, read_row(table, fmt::format("kernel[{}]", i)), i);
    }
    if (error_.has_value()) {
      return *std::move(error_);
    }
    return std::vector<KernelCapability>{registry_.rows().begin(), registry_.rows().end()};
  }

 private:
  KernelCapability read_row(const toml::table& table, const std::string& name) {
    KernelCapability row;
    TableReader reader{table, name, file_, error_, kRowKeys};
    reader.require({"name", "serves", "role", "page_sizes"});
    reader.read("name", row.name);
    reader.read("provider", row.provider);
    reader.read("versions", row.versions);
    reader.read("kernel_set", row.kernel_set);
    reader.read("backend", row.backend);
    reader.read("serves", kUsers, row.serves);
    reader.read("model_families", row.model_families);
    reader.read("role", kRoles, row.role);
    row.page_sizes = read_rule(reader);
    reader.read("reads_sub_views", row.reads_sub_views);
    reader.read("reads_strided_pages", row.reads_strided_pages);
    reader.read("layout", row.layout);
    if (const toml::table* limits = reader.table("limits")) {
      read_limits(*limits, reader.dotted("limits"), row.limits);
    }
    reader.read("certified", row.certified);
    reader.read("necessity", kNecessities, row.necessity);
    if (const toml::table* cost = reader.table("cost_of_loss")) {
      TableReader fields{*cost, reader.dotted("cost_of_loss"), file_, error_, kCostKeys};
      fields.read("value", row.cost_of_loss.value);
      fields.read("unit", row.cost_of_loss.unit);
      fields.read("conditions", row.cost_of_loss.conditions);
    }
    reader.read("evidence", kEvidences, row.evidence);
    reader.read("source", row.source);
    return row;
  }

  void read_limits(const toml::table& table, std::string name, KernelLimits& limits) {
    TableReader reader{table, std::move(name), file_, error_, kLimitKeys};
    if (reader.find("family") != nullptr) {
      reader.read("family", kFamilies, limits.family.emplace());
    }
    reader.read("head_dims", limits.head_dims);
    reader.read("excluded_head_dims", limits.excluded_head_dims);
    reader.read("exact_head_ratio", limits.exact_head_ratio);
    reader.read("max_head_ratio", limits.max_head_ratio);
    reader.read("query_dtypes", limits.query_dtypes);
    reader.read("kv_dtypes", limits.kv_dtypes);
    reader.read("output_dtypes", limits.output_dtypes);
    reader.read("architectures", limits.architectures);
    reader.read("masks", kMasks, limits.masks);
    reader.read("max_batch", limits.max_batch);
    reader.read("max_query_tokens", limits.max_query_tokens);
    std::optional<std::int64_t> context;
    reader.read("max_context", context);
    if (context.has_value()) {
      limits.max_context = Tokens{*context};
    }
  }

  /// `[32, 64]`, `"any"`, `"not_read"`, `{divisors_of = 128}` or `{multiples_of = 16, max = 256}`.
  PageSizeRule read_rule(TableReader& reader) {
    constexpr std::string_view kKey = "page_sizes";
    constexpr std::string_view kWanted =
        R"(a list of sizes, "any", "not_read", {divisors_of = 128} or {multiples_of = 16})";
    const toml::node* node = reader.find(kKey);
    if (node == nullptr) {
      return {};
    }
    if (node->is_array()) {
      PageSizeRule::OneOf rule;
      reader.read(kKey, rule.sizes);
      std::ranges::sort(rule.sizes);
      return PageSizeRule{std::move(rule)};
    }
    if (const auto* word = node->as_string()) {
      if (word->get() == "any") {
        return PageSizeRule{PageSizeRule::Any{}};
      }
      if (word->get() == "not_read") {
        return PageSizeRule{PageSizeRule::NotRead{}};
      }
    }
    if (const toml::table* table = node->as_table()) {
      TableReader fields{*table, reader.dotted(kKey), file_, error_, kRuleKeys};
      const bool divisors = fields.find("divisors_of") != nullptr;
      const bool multiples = fields.find("multiples_of") != nullptr;
      const bool limited = fields.find("max") != nullptr;
      if (divisors && !multiples && !limited) {
        PageSizeRule::DivisorsOf rule;
        fields.read("divisors_of", rule.n);
        return PageSizeRule{rule};
      }
      if (multiples && !divisors) {
        PageSizeRule::MultiplesOf rule;
        fields.read("multiples_of", rule.n);
        fields.read("max", rule.max);
        return PageSizeRule{rule};
      }
    }
    reader.wrong_type(*node, kKey, kWanted);
    return {};
  }

  void add(const toml::table& table, KernelCapability row, std::size_t index) {
    if (error_.has_value()) {
      return;
    }
    const Result<void> added = registry_.add(std::move(row));
    if (added.has_value()) {
      return;
    }
    error_ = added.error();
    const toml::node* node = table.get(error_->key);
    error_->file = file_;
    error_->message =
        placed((node == nullptr ? table.source() : node->source()).begin, error_->message);
    error_->key = fmt::format("kernel[{}].{}", index, error_->key);
  }

  const std::string& file_;
  std::optional<Error> error_;
  /// Checks each row and that names are unique.
  CapabilityRegistry registry_;
};

}  // namespace

Result<std::vector<KernelCapability>> read_kernel_file(const std::string& path) {
  const Result<std::string> text = detail::read_text_file(path);
  if (!text.has_value()) {
    return text.error();
  }
  return parse_kernel_file(*text, path);
}

Result<std::vector<KernelCapability>> parse_kernel_file(std::string_view text,
                                                        const std::string& file) {
  if (text.size() > kLargestFile) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "is larger than 1 MiB, the most that is read as kernel rows",
                 .file = file};
  }
  try {
    const toml::table root = toml::parse(text, std::string_view{file});
    return KernelFileReader{file}.read(root);
  } catch (const toml::parse_error& error) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = placed(error.source().begin, error.description()),
                 .file = file};
  }
}

}  // namespace kvpool::io
