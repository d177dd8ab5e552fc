// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "commands/describe.hpp"
#include "commands/explain_report.hpp"
#include "output/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

namespace kvpool::cli {
namespace {

/// Planes of one layer, and the layers whose planes are just like them.
struct LayerForm {
  std::vector<PlaneGeometry> planes;
  std::vector<std::int64_t> layers;

  /// Bytes of one layer in a page.
  [[nodiscard]] Bytes bytes() const {
    Bytes sum;
    for (const PlaneGeometry& plane : planes) {
      sum += plane.bytes;
    }
    return sum;
  }
};

[[nodiscard]] bool same_plane(const PlaneGeometry& a, const PlaneGeometry& b) noexcept {
  return a.kind == b.kind && a.dtype == b.dtype && a.row_elements == b.row_elements &&
         a.heads == b.heads && a.slots == b.slots && a.row_bytes == b.row_bytes &&
         a.bytes == b.bytes;
}

/// The planes of a page, layer by layer, equal layers together.
[[nodiscard]] std::vector<LayerForm> forms_of(const PageGeometry& page) {
  std::vector<LayerForm> layers;
  for (const PlaneGeometry& plane : page.planes) {
    if (layers.empty() || layers.back().layers.front() != plane.layer.value()) {
      layers.push_back({.planes = {}, .layers = {plane.layer.value()}});
    }
    layers.back().planes.push_back(plane);
  }
  std::vector<LayerForm> forms;
  for (LayerForm& layer : layers) {
    const auto found = std::ranges::find_if(forms, [&layer](const LayerForm& form) {
      return std::ranges::equal(form.planes, layer.planes, same_plane);
    });
    if (found == forms.end()) {
      forms.push_back(std::move(layer));
    } else {
      found->layers.push_back(layer.layers.front());
    }
  }
  return forms;
}

/// `64 elements x 2 B = 128 B` for formats with whole elements, else the row's size as it is.
[[nodiscard]] std::string row_text(const PlaneGeometry& plane) {
  const std::optional<Bytes> element = plain_element_bytes(plane.dtype);
  const bool plain = element.has_value() && plane.row_elements > 0 &&
                     plane.row_elements * *element == plane.row_bytes;
  if (plain) {
    return fmt::format("row: {} elements x {} B ({}) = {}", count_text(plane.row_elements),
                       element->count(), to_string(plane.dtype), bytes_text(plane.row_bytes));
  }
  if (plane.row_elements > 0) {
    return fmt::format("row: {} for {} elements of {}", bytes_text(plane.row_bytes),
                       count_text(plane.row_elements), to_string(plane.dtype));
  }
  return fmt::format("row: {} of scales", bytes_text(plane.row_bytes));
}

/// `1 head x 64 slots x 128 B = 8,192 B`.
[[nodiscard]] std::string plane_text(const PlaneGeometry& plane) {
  const Bytes stride = std::min(plane.slot_stride, plane.head_stride);
  const Bytes rows = plane.heads.count() * plane.slots.count() * stride;
  std::string text =
      fmt::format("{} x {} x {} = {}", counted(plane.heads.count(), "head"),
                  counted(plane.slots.count(), "slot"), bytes_text(stride), bytes_text(rows));
  if (stride != plane.row_bytes) {
    text += fmt::format(" (rows of {} start every {})", bytes_text(plane.row_bytes),
                        bytes_text(stride));
  }
  if (rows != plane.bytes) {
    text += fmt::format(", rounded up to {}", bytes_text(plane.bytes));
  }
  return text;
}

void explain_form(const LayerForm& form, Report& report) {
  report.line(fmt::format("{} {} ({} in all)", form.layers.size() == 1 ? "layer" : "layers",
                          ranges_text(form.layers), form.layers.size()),
              4, 6);
  std::string sum;
  for (const PlaneGeometry& plane : form.planes) {
    const std::string name = words_of(to_string(plane.kind));
    report.line(fmt::format("{} {}", name, row_text(plane)), 6, 8);
    if (plane.slots.count() > 1 || plane.heads.count() > 1) {
      report.line(fmt::format("{} plane: {}", name, plane_text(plane)), 6, 8);
    }
    sum += (sum.empty() ? "" : " + ") + bytes_text(plane.bytes);
  }
  if (form.planes.size() > 1) {
    report.line(fmt::format("one layer: {} = {}", sum, bytes_text(form.bytes())), 6, 8);
  }
}

void explain_group(const PoolDescriptor& pool, const PooledGroup& group, Report& report) {
  const bool state = group.group.is_state;
  report.line(
      fmt::format("{}: {}", group_label(pool, group),
                  state ? std::string{"one slot a sequence or snapshot, whatever its length"}
                        : fmt::format("pages of {}, {}",
                                      counted(group.page.tokens_per_block.count(), "token"),
                                      to_string(group.page.layout))),
      2, 4);
  std::string sum;
  for (const LayerForm& form : forms_of(group.page)) {
    explain_form(form, report);
    sum += fmt::format("{}{} x {}", sum.empty() ? "" : " + ",
                       counted(static_cast<std::int64_t>(form.layers.size()), "layer"),
                       bytes_text(form.bytes()));
  }
  report.line(
      fmt::format("{}: {} = {}", state ? "slot" : "page", sum, bytes_text(group.page.page_bytes)),
      4, 6);
  if (group.pages_per_slab > 1 || pool.groups.size() > 1) {
    const Bytes covered = group.pages_per_slab * group.page.page_bytes;
    report.line(fmt::format("in a slab of {}: {} x {} = {}", bytes_text(pool.slab_bytes),
                            counted(group.pages_per_slab, "page"),
                            bytes_text(group.page.page_bytes), bytes_text(covered)),
                4, 6);
    report.line(fmt::format("unused in a slab: {} - {} = {}", bytes_text(pool.slab_bytes),
                            bytes_text(covered), bytes_text(pool.slab_bytes - covered)),
                4, 6);
  }
}

/// Heads of the model and of one rank, wherever they are divided.
void explain_heads(const ModelConfig& model, const Parallelism& spread, std::string_view role,
                   Report& report) {
  std::vector<std::pair<Heads, Heads>> seen;
  const std::int64_t ranks = head_parallel_size(spread);
  for (const ModelLayer& layer : model.layers) {
    for (const LayerCache& cache : layer.caches) {
      const auto* attention = std::get_if<AttentionCache>(&cache);
      if (attention == nullptr) {
        continue;
      }
      const std::pair heads{attention->query_heads, attention->kv_heads};
      if (std::ranges::find(seen, heads) != seen.end()) {
        continue;
      }
      seen.push_back(heads);
      report.line(
          fmt::format("{} KV heads on a rank: ceil({} / {} ranks) = {}", role, heads.second.count(),
                      ranks, heads_per_rank(heads.second, spread).count()),
          2, 4);
    }
  }
  if (has_latent_cache(model)) {
    report.line(fmt::format("{} MLA latent: one vector for all heads, whole on every rank", role),
                2, 4);
  }
  if (has_recurrent_state(model)) {
    report.line(fmt::format("{} recurrent state: its heads are divided by {}", role,
                            counted(ranks, "rank")),
                2, 4);
  }
}

[[nodiscard]] std::string pages_formula(const Plan& plan, const PoolDescriptor& pool,
                                        const PooledGroup& group, Tokens length) {
  const std::int64_t page = group.page.tokens_per_block.count();
  const std::int64_t extent = group.group.span.extent.count();
  const std::int64_t draft = plan.resolution.draft_tokens.count();
  const std::string whole = fmt::format(
      "ceil({} tokens / {})", count_text(length_in_pool(plan, pool, length).count()), page);
  switch (group.group.span.kind) {
    case SpanKind::kFull: return whole;
    case SpanKind::kSlidingWindow:
      return fmt::format("min({}, ceil(({} window - 1 + {} draft) / {}) + 1)", whole,
                         count_text(extent), draft, page);
    case SpanKind::kChunked:
      return fmt::format("min({}, ceil(({} chunk + {} draft) / {}) + {})", whole,
                         count_text(extent), draft, page, extent % page != 0 ? 1 : 0);
    case SpanKind::kCross: return fmt::format("ceil({} tokens / {})", count_text(extent), page);
  }
  return whole;
}

}  // namespace

void explain_pages(const Plan& plan, Report& report) {
  const PoolPlan& rank = plan.ranks.at(plan.smallest_rank);
  report.heading("3. From layers to pages, on one GPU" +
                 (plan.ranks.size() > 1 ? fmt::format(" of stage {}", rank.stage) : std::string{}));
  explain_heads(plan.request.target, plan.request.parallelism, "target", report);
  if (plan.request.drafter.has_value() && plan.request.drafter->model.has_value()) {
    explain_heads(*plan.request.drafter->model, plan.request.parallelism, "drafter", report);
  }
  for (const PoolDescriptor& pool : rank.pools) {
    report.blank();
    for (const PooledGroup& group : pool.groups) {
      explain_group(pool, group, report);
    }
    report.line(fmt::format("table entries of {} count units of {}", pool.name,
                            bytes_text(pool.unit_bytes)),
                4, 6);
  }
}

void explain_sequence(const Plan& plan, Report& report) {
  const PoolPlan& rank = plan.ranks.at(plan.smallest_rank);
  const Tokens length = plan.resolution.max_model_len;
  report.heading(fmt::format("4. One sequence of {}", counted(length.count(), "token")));
  std::string sum;
  Bytes total;
  for (const PoolDescriptor& pool : rank.pools) {
    for (const PooledGroup& group : pool.groups) {
      const std::string label = group_label(pool, group);
      const Pages pages = pages_in_pool(plan, pool, group, length);
      const Bytes bytes = pages.count() * group.page.page_bytes;
      if (!group.group.is_state) {
        report.line(
            fmt::format("{} pages: {} = {} pages", label, pages_formula(plan, pool, group, length),
                        count_text(pages.count())),
            2, 4);
      }
      report.line(fmt::format("{} bytes: {} x {} = {}", label,
                              counted(pages.count(), group.group.is_state ? "slot" : "page"),
                              bytes_text(group.page.page_bytes), bytes_text(bytes)),
                  2, 4);
      sum += (sum.empty() ? "" : " + ") + bytes_text(bytes);
      total += bytes;
    }
  }
  report.line(fmt::format("together: {} = {}", sum, bytes_text(total)), 2, 4);
}

void explain_page_decisions(const Plan& plan, Report& report) {
  report.heading("2. Page sizes, row by row");
  bool any = false;
  for (const Decision& decision : plan.decisions) {
    if (decision.verdicts.empty()) {
      continue;
    }
    any = true;
    report.line(
        fmt::format(
            "{} of the {} pool: {} tokens{}", words_of(decision.id), decision.pool, decision.chosen,
            decision.instead_of.empty() ? std::string{} : " instead of " + decision.instead_of),
        2, 4);
    report.line(decision.reason, 4, 4);
    if (const std::string cost = cost_text(decision.cost); !cost.empty()) {
      report.line("cost: " + cost, 4, 4);
    }
    report_verdicts(decision.verdicts, report, 6);
  }
  if (!any) {
    report.line("no kernel row was asked", 2, 2);
  }
}

}  // namespace kvpool::cli
