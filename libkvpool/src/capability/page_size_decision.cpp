// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/capability/capability_registry.hpp>

#include "capability/kernel_match.hpp"
#include "capability/kernel_narrowing.hpp"
#include "capability/page_size_sets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace kvpool {
namespace {

/// What a standalone drafter takes when the target's page does not suit its kernels.
constexpr Tokens kFallbackDraftPage{32};

constexpr std::string_view kTargetPageId = "target_page_size";
constexpr std::string_view kDraftPageId = "draft_page_size";
constexpr std::string_view kLossId = "preferred_kernel_lost";
constexpr std::string_view kUnknownLossId = "preferred_kernel_unknown";

std::string text(Tokens size) { return std::to_string(size.count()); }

/// A page-size question while it is being decided.
struct Case {
  std::string_view id;
  std::string_view pool;
  /// Option that sets the page.
  std::string_view option;
  /// Rows that are asked.
  RowSpan rows;
  /// The computation, when rows of other shapes are left out.
  const KernelQuery* query = nullptr;
  /// Required rows bind whatever their shapes.
  bool binds_all_shapes = false;
};

bool runs(const Case& page, const KernelCapability& row) {
  return page.query == nullptr || find_mismatch(row, *page.query) == Mismatch::kNone;
}

/// Required rows that read the pool. A row that could run only if an unknown GPU were of the right
/// kind does not bind.
RowList binding_rows(const Case& page) {
  RowList binding;
  for (const KernelCapability* row : page.rows) {
    if (row->necessity == Necessity::kRequired && row->page_sizes.reads_pool() &&
        (page.binds_all_shapes ||
         (runs(page, *row) &&
          (page.query == nullptr || !hangs_on_architecture(*row, *page.query))))) {
      binding.push_back(row);
    }
  }
  return binding;
}

std::string answer_text(const KernelCapability& row, std::span<const Tokens> asked) {
  std::string answer;
  for (const Tokens size : asked) {
    answer += answer.empty() ? "" : ", ";
    answer += row.page_sizes.accepts(size) ? "accepts " : "refuses ";
    answer += text(size);
  }
  return answer;
}

Verdict verdict(const Case& page, const KernelCapability& row, std::span<const Tokens> asked) {
  Verdict said{.row = row.name, .accepts = row.page_sizes.text()};
  const bool preferred = row.necessity == Necessity::kPreferred;
  const Mismatch mismatch = page.query == nullptr || (page.binds_all_shapes && !preferred)
                                ? Mismatch::kNone
                                : find_mismatch(row, *page.query);
  if (!row.page_sizes.reads_pool()) {
    said.verdict = "not read";
  } else if (mismatch != Mismatch::kNone) {
    said.verdict = "would not run: " + describe_mismatch(mismatch, row, *page.query);
  } else {
    said.verdict = answer_text(row, asked);
    if (preferred) {
      said.verdict += " (preferred)";
    }
    if ((!page.binds_all_shapes || preferred) && page.query != nullptr) {
      said.verdict += if_the_gpu_is(row, *page.query);
    }
  }
  return said;
}

std::vector<Verdict> verdicts(const Case& page, std::span<const Tokens> asked) {
  std::vector<Verdict> all;
  all.reserve(page.rows.size());
  for (const KernelCapability* row : page.rows) {
    all.push_back(verdict(page, *row, asked));
  }
  return all;
}

/// `flashmla_sm90 ({64}) and mine ({16, 64})`: the rows that refuse a size.
std::string refusing_rows(RowSpan binding, Tokens size) {
  std::vector<std::string> refusing;
  for (const KernelCapability* row : binding) {
    if (!row->page_sizes.accepts(size)) {
      refusing.push_back(fmt::format("{} ({})", row->name, row->page_sizes.text()));
    }
  }
  return join_alternatives(refusing, "and");
}

PageSizeChoice chosen(const Case& page, Tokens size, std::string instead_of, std::string reason,
                      std::span<const Tokens> asked) {
  PageSizeChoice choice;
  choice.tokens_per_block = size;
  choice.decision = {.id = std::string{page.id},
                     .pool = std::string{page.pool},
                     .chosen = text(size),
                     .instead_of = std::move(instead_of),
                     .reason = std::move(reason),
                     .verdicts = verdicts(page, asked)};
  return choice;
}

PageSizeChoice kept(const Case& page, Tokens size, std::string reason) {
  return chosen(page, size, "", std::move(reason), std::array{size});
}

PageSizeChoice refused(const Case& page, std::string what, RowSpan binding,
                       std::span<const Tokens> asked) {
  Refusal refusal{
      .id = std::string{page.id}, .what = std::move(what), .verdicts = verdicts(page, asked)};
  const std::vector<std::int64_t> sizes = common_sizes(binding);
  if (sizes.empty()) {
    const RowsToDrop drop = rows_to_drop(binding, asked.front().count());
    refusal.what += "; no size suits every required row";
    refusal.least_that_works =
        fmt::format("{} {}, without the rows {}", page.option, drop.size, drop.rows);
  } else {
    refusal.accepted = describe_sizes(sizes, binding);
    refusal.least_that_works =
        fmt::format("{} {}", page.option, nearest_size(sizes, asked.front().count()));
  }
  PageSizeChoice choice;
  choice.refusal = std::move(refusal);
  return choice;
}

PageSizeChoice refused_below_one(const Case& page, Tokens size) {
  return refused(page, fmt::format("a page of {} tokens: pages start at 1 token", size.count()),
                 binding_rows(page), std::array{size});
}

PageSizeChoice refused_narrowing(NarrowedRows asked) {
  PageSizeChoice choice;
  choice.refusal = std::move(asked.refusal);
  choice.losses = std::move(asked.decisions);
  return choice;
}

/// What is lost with a preferred row.
Decision loss(const Case& page, const KernelCapability& row, Tokens size, std::string instead_of,
              std::string_view when) {
  std::string reason = fmt::format("{} accepts {} and would have run {}{}", row.name,
                                   row.page_sizes.text(), when, if_the_gpu_is(row, *page.query));
  CostOfChoice cost = row.cost_of_loss;
  if (cost.unit.empty() && cost.conditions.empty()) {
    cost.conditions = "unknown: the row states no cost";
  }
  return {.id = std::string{kLossId},
          .pool = std::string{page.pool},
          .chosen = text(size),
          .instead_of = std::move(instead_of),
          .reason = std::move(reason),
          .cost = std::move(cost),
          .verdicts = {verdict(page, row, std::array{size})}};
}

/// Adds a loss. What hangs on a GPU that is not stated is no loss yet: such rows stand together in
/// one decision, which says of which GPU each is.
void add_loss(const Case& page, const KernelCapability& row, Decision lost,
              PageSizeChoice& choice) {
  if (!hangs_on_architecture(row, *page.query)) {
    choice.losses.push_back(std::move(lost));
    return;
  }
  const auto before = std::ranges::find(choice.losses, kUnknownLossId, &Decision::id);
  if (before != choice.losses.end()) {
    before->reason += "; " + lost.reason;
    before->verdicts.push_back(std::move(lost.verdicts.front()));
    return;
  }
  lost.id = kUnknownLossId;
  lost.reason = "the GPU is not stated: " + lost.reason;
  lost.cost = {.value = 0, .unit = "", .conditions = "unknown: give the GPU to learn what is lost"};
  choice.losses.push_back(std::move(lost));
}

/// The rule of standalone drafters: the target's page, else 32.
std::optional<Tokens> standalone_page(RowSpan binding, Tokens target_page) {
  for (const Tokens size : {target_page, kFallbackDraftPage}) {
    if (all_accept(binding, size)) {
      return size;
    }
  }
  return std::nullopt;
}

PageSizeChoice explicit_standalone(const Case& page, RowSpan binding, Tokens target_page,
                                   Tokens wanted) {
  if (!all_accept(binding, wanted)) {
    return refused(page,
                   fmt::format("a draft page of {} tokens is refused by {}", wanted.count(),
                               refusing_rows(binding, wanted)),
                   binding, std::array{wanted});
  }
  const auto otherwise = standalone_page(binding, target_page);
  const bool moves = otherwise.has_value() && *otherwise != wanted;
  return chosen(page, wanted, moves ? text(*otherwise) : "",
                "asked for; every required row accepts it", std::array{wanted});
}

PageSizeChoice decide_standalone(const Case& page, Tokens target_page,
                                 const std::optional<Tokens>& explicit_page) {
  for (const Tokens size : {target_page, explicit_page.value_or(target_page)}) {
    if (size < Tokens{1}) {
      return refused_below_one(page, size);
    }
  }
  const RowList binding = binding_rows(page);
  if (explicit_page.has_value()) {
    return explicit_standalone(page, binding, target_page, *explicit_page);
  }
  if (binding.empty()) {
    return kept(page, target_page, "no required row reads the pool: the target's page");
  }
  const auto size = standalone_page(binding, target_page);
  if (size == target_page) {
    return kept(page, target_page, "the target's page; every required row accepts it");
  }
  const std::array<Tokens, 2> both = {target_page, kFallbackDraftPage};
  const std::span<const Tokens> asked =
      std::span{both}.first(target_page == kFallbackDraftPage ? 1 : 2);
  std::string refused_by = fmt::format("the target's page of {} tokens is refused by {}",
                                       target_page.count(), refusing_rows(binding, target_page));
  if (size.has_value()) {
    return chosen(page, *size, text(target_page),
                  fmt::format("{}; every required row accepts {}", refused_by, size->count()),
                  asked);
  }
  if (asked.size() > 1) {
    refused_by += fmt::format(", and {} by {}", kFallbackDraftPage.count(),
                              refusing_rows(binding, kFallbackDraftPage));
  }
  return refused(page, std::move(refused_by), binding, asked);
}

/// Preferred rows that run, accept the target's page and refuse the chosen one.
void add_draft_losses(const Case& page, Tokens target_page, PageSizeChoice& choice) {
  if (!choice.tokens_per_block.has_value() || *choice.tokens_per_block == target_page) {
    return;
  }
  const Tokens size = *choice.tokens_per_block;
  for (const KernelCapability* row : page.rows) {
    if (row->necessity == Necessity::kPreferred && row->page_sizes.reads_pool() &&
        row->page_sizes.accepts(target_page) && !row->page_sizes.accepts(size) &&
        runs(page, *row)) {
      add_loss(page, *row,
               loss(page, *row, size, text(target_page),
                    fmt::format("at the target's page of {} tokens", target_page.count())),
               choice);
    }
  }
}

/// MTP and Eagle3: the target's page or none.
PageSizeChoice follow_target(const Case& page, Tokens target_page,
                             const std::optional<Tokens>& explicit_page) {
  if (target_page < Tokens{1}) {
    return refused_below_one(page, target_page);
  }
  const std::string_view user = to_string(page.query->user);
  if (explicit_page.has_value() && *explicit_page != target_page) {
    PageSizeChoice choice;
    choice.refusal = Refusal{
        .id = std::string{page.id},
        .what = fmt::format("a draft page of {} tokens: {} has the target's page of {} tokens",
                            explicit_page->count(), user, target_page.count()),
        .accepted = {text(target_page)},
        .least_that_works = fmt::format("--draft-page-size {}", target_page.count()),
        .verdicts = verdicts(page, std::array{*explicit_page})};
    return choice;
  }
  const RowList binding = binding_rows(page);
  if (all_accept(binding, target_page)) {
    return kept(page, target_page, fmt::format("{} has the target's page", user));
  }
  // What would have to change is the target's page.
  Case target = page;
  target.option = "--page-size";
  return refused(target,
                 fmt::format("{} has the target's page of {} tokens, which is refused by {}", user,
                             target_page.count(), refusing_rows(binding, target_page)),
                 binding, std::array{target_page});
}

/// Sizes, ascending, that suit the binding rows and `row`.
std::vector<std::int64_t> sizes_with(RowSpan binding, const KernelCapability* row) {
  RowList rows{binding.begin(), binding.end()};
  rows.push_back(row);
  return common_sizes(rows);
}

/// Preferred rows that run and would have had a page that the binding rows accept too.
void add_target_losses(const Case& page, RowSpan binding, PageSizeChoice& choice) {
  const Tokens size = *choice.tokens_per_block;
  for (const KernelCapability* row : page.rows) {
    if (row->necessity != Necessity::kPreferred || row->page_sizes.accepts(size) ||
        !runs(page, *row)) {
      continue;
    }
    const std::vector<std::int64_t> sizes = sizes_with(binding, row);
    if (!sizes.empty()) {
      const std::int64_t other = nearest_size(sizes, kDefaultTargetPage.count());
      add_loss(page, *row,
               loss(page, *row, size, std::to_string(other),
                    fmt::format("at a page of {} tokens", other)),
               choice);
    }
  }
}

/// The default of 64 tokens, moved by required rows and, where these leave a choice, by preferred
/// rows that are the model's own kernels.
PageSizeChoice default_target_page(const Case& page, const RowList& binding) {
  const std::array asked = {kDefaultTargetPage};
  RowList wishes = binding;
  for (const KernelCapability* row : page.rows) {
    if (row->necessity == Necessity::kPreferred && !row->model_families.empty() &&
        !hangs_on_architecture(*row, *page.query)) {
      wishes.push_back(row);
    }
  }
  if (all_accept(wishes, kDefaultTargetPage)) {
    return kept(page, kDefaultTargetPage,
                binding.empty() ? "the default; no required row runs here"
                                : "the default; every required row accepts it");
  }
  std::vector<std::int64_t> sizes = common_sizes(wishes);
  std::string_view whom = "every required row and the model's own kernels accept";
  if (sizes.empty()) {
    if (all_accept(binding, kDefaultTargetPage)) {
      return kept(page, kDefaultTargetPage,
                  "the default; every required row accepts it, and no size suits the model's own "
                  "kernels too");
    }
    sizes = common_sizes(binding);
    whom = "every required row accepts";
  }
  if (sizes.empty()) {
    return refused(
        page,
        fmt::format("the default page of {} tokens is refused by {}", kDefaultTargetPage.count(),
                    refusing_rows(binding, kDefaultTargetPage)),
        binding, asked);
  }
  const Tokens size{nearest_size(sizes, kDefaultTargetPage.count())};
  return chosen(page, size, text(kDefaultTargetPage),
                fmt::format("the default of {} is refused by {}; {} {}", kDefaultTargetPage.count(),
                            refusing_rows(wishes, kDefaultTargetPage), whom, size.count()),
                std::array{kDefaultTargetPage, size});
}

PageSizeChoice explicit_target_page(const Case& page, RowSpan binding, Tokens wanted) {
  if (wanted < Tokens{1}) {
    return refused_below_one(page, wanted);
  }
  if (all_accept(binding, wanted)) {
    return kept(page, wanted,
                binding.empty() ? "asked for; no required row runs here"
                                : "asked for; every required row accepts it");
  }
  return refused(page,
                 fmt::format("a page of {} tokens is refused by {}", wanted.count(),
                             refusing_rows(binding, wanted)),
                 binding, std::array{wanted});
}

void put_in_front(std::vector<Decision> first, PageSizeChoice& choice) {
  if (!first.empty()) {
    choice.losses.insert(choice.losses.begin(), std::make_move_iterator(first.begin()),
                         std::make_move_iterator(first.end()));
  }
}

}  // namespace

PageSizeChoice decide_draft_page(Tokens target_page, std::span<const KernelCapability> rows) {
  RowList pointers;
  pointers.reserve(rows.size());
  for (const KernelCapability& row : rows) {
    pointers.push_back(&row);
  }
  return decide_standalone({.id = kDraftPageId,
                            .pool = pool_of(PoolUser::kDflash),
                            .option = "--draft-page-size",
                            .rows = pointers,
                            .query = nullptr,
                            .binds_all_shapes = true},
                           target_page, std::nullopt);
}

PageSizeChoice decide_target_page(const CapabilityRegistry& registry,
                                  const PageSizeQuestion& question) {
  NarrowedRows asked = rows_to_ask(registry, question, std::array{question.query.user});
  if (asked.refusal.has_value()) {
    return refused_narrowing(std::move(asked));
  }
  // Rows of other models and GPUs say nothing about this pool.
  RowList running;
  for (const KernelCapability* row : asked.rows) {
    if (find_mismatch(*row, question.query) == Mismatch::kNone) {
      running.push_back(row);
    }
  }
  const Case page{.id = kTargetPageId,
                  .pool = pool_of(question.query.user),
                  .option = "--page-size",
                  .rows = running,
                  .query = &question.query};
  const RowList binding = binding_rows(page);
  PageSizeChoice choice = question.explicit_page.has_value()
                              ? explicit_target_page(page, binding, *question.explicit_page)
                              : default_target_page(page, binding);
  if (choice.tokens_per_block.has_value()) {
    add_target_losses(page, binding, choice);
  }
  put_in_front(std::move(asked.decisions), choice);
  return choice;
}

PageSizeChoice decide_drafter_page(const CapabilityRegistry& registry,
                                   const PageSizeQuestion& question, Tokens target_page) {
  const PoolUser user = question.query.user;
  // The back-end of a block drafter is picked at run time: the rows of both kinds bind both.
  const bool block_drafter = user == PoolUser::kDflash || user == PoolUser::kDspark;
  const std::array<PoolUser, 2> block_drafters = {PoolUser::kDflash, PoolUser::kDspark};
  NarrowedRows asked = rows_to_ask(registry, question,
                                   block_drafter ? std::span<const PoolUser>{block_drafters}
                                                 : std::span<const PoolUser>{&user, 1});
  if (asked.refusal.has_value()) {
    return refused_narrowing(std::move(asked));
  }
  if (block_drafter && question.kernel_set == KernelSet::kExact) {
    keep_rows_that_run(asked, question.query);
  }
  const Case page{.id = kDraftPageId,
                  .pool = pool_of(user),
                  .option = "--draft-page-size",
                  .rows = asked.rows,
                  .query = &question.query,
                  .binds_all_shapes = block_drafter};
  const bool follows =
      user == PoolUser::kMtp || user == PoolUser::kEagle3 || user == PoolUser::kTarget;
  PageSizeChoice choice = follows ? follow_target(page, target_page, question.explicit_page)
                                  : decide_standalone(page, target_page, question.explicit_page);
  add_draft_losses(page, target_page, choice);
  put_in_front(std::move(asked.decisions), choice);
  return choice;
}

}  // namespace kvpool
