// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// llama.cpp and ik_llama.cpp: cells of a context, one stream for all sequences or one each, a ring
// for layers with a window, recurrent states of 4-byte elements. Rules and sources:
// docs/engines.md.
#include "engine/cache_slices.hpp"
#include "engine/prediction_builder.hpp"
#include "engine/profiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace kvpool::detail {
namespace {

/// The context is a multiple of this many cells.
constexpr std::int64_t kCellMultiple = 256;

/// Bytes of one cell over the layers of one kind.
struct CellBytes {
  CheckedInt key{0};
  CheckedInt value{0};
  std::int64_t layers = 0;

  void add(const CacheSlice& slice) {
    key += slice.key_bytes;
    value += slice.value_bytes;
    ++layers;
  }
};

class LlamaProfile {
 public:
  explicit LlamaProfile(const EngineRequest& request)
      : request_{request}, set_{request.settings}, out_{request.engine} {}

  Result<EnginePrediction> run() {
    if (auto read = read_layers(); !read) {
      return std::move(read).error();
    }
    const Result<std::optional<std::int64_t>> cells = stream_cells();
    if (!cells) {
      return cells.error();
    }
    if (cells->has_value()) {
      print_cache(**cells);
    }
    print_states();
    if (cells->has_value()) {
      account(**cells);
    }
    return std::move(out_).take();
  }

 private:
  [[nodiscard]] bool keeps_windows() const { return request_.engine == Engine::kLlamacpp; }

  Result<void> read_layers() {
    SliceRules rules;
    rules.key_format = set_.k_format;
    rules.value_format = set_.v_format;
    rules.state_dtype = KvDtype::kFp32;
    rules.conv_state_dtype = KvDtype::kFp32;
    rules.windows_in_full = !keeps_windows();
    rules.indexers = false;
    rules.mla = set_.mla_mode.value_or(keeps_windows() ? MlaMode::kLatent : MlaMode::kExpanded);
    Result<std::vector<CacheSlice>> target = model_slices(request_.target, rules);
    if (!target) {
      return std::move(target).error();
    }
    slices_ = *std::move(target);
    Result<DraftSlices> draft = draft_slices(request_, rules);
    if (!draft) {
      return std::move(draft).error();
    }
    draft_ = *std::move(draft);
    for (const CacheSlice& slice : slices_) {
      if (!slice.is_state()) {
        (has_window(slice) ? sliding_ : full_).add(slice);
        if (has_window(slice)) {
          window_ = std::max(window_, slice.span.extent.count());
        }
      }
    }
    for (const CacheSlice& slice : draft_.slices) {
      if (!slice.is_state()) {
        (has_window(slice) ? draft_sliding_ : draft_bytes_).add(slice);
        if (has_window(slice)) {
          draft_window_ = std::max(draft_window_, slice.span.extent.count());
        }
      }
    }
    if (has_latent_cache(request_.target)) {
      constexpr std::string_view kModes[] = {"expanded", "latent", "latent_and_copy"};
      out_.rule("mla_mode", std::string{kModes[static_cast<std::size_t>(*rules.mla)]},
                set_.mla_mode.has_value() ? "given" : "the engine's default");
    }
    return {};
  }

  static bool has_window(const CacheSlice& slice) {
    return slice.span.kind == SpanKind::kSlidingWindow || slice.span.kind == SpanKind::kChunked;
  }

  [[nodiscard]] std::int64_t streams() const { return set_.kv_unified ? 1 : set_.n_seq_max; }

  Result<std::optional<std::int64_t>> stream_cells() {
    const std::int64_t given = request_.given.value;
    switch (request_.given.kind) {
      case GivenKind::kCells: return std::optional{given};
      case GivenKind::kKvTokens: {
        if (given % streams() != 0) {
          return setting_error("given.kv_tokens",
                               fmt::format("{} streams do not divide them", streams()));
        }
        return std::optional{given / streams()};
      }
      case GivenKind::kMaxModelLen: return std::optional{padded(given)};
      case GivenKind::kNumSlots: return std::optional<std::int64_t>{};
      case GivenKind::kKvBudgetBytes: return cells_of_budget(given);
      case GivenKind::kNumBlocks: break;
    }
    return setting_error("given", "num_blocks is no figure of llama.cpp");
  }

  static std::int64_t padded(std::int64_t tokens) {
    return (ceil_div(CheckedInt{tokens}, kCellMultiple) * kCellMultiple).saturated();
  }

  /// Cells of a ring for layers with a window.
  [[nodiscard]] CheckedInt swa_cells(std::int64_t cells, std::int64_t window) const {
    const CheckedInt windows = CheckedInt{window} * (set_.kv_unified ? set_.n_seq_max : 1);
    const CheckedInt wanted = min(cells, windows + set_.n_ubatch);
    return ceil_div(wanted, set_.swa_cell_multiple) * set_.swa_cell_multiple;
  }

  [[nodiscard]] CheckedInt recurrent_cells() const {
    return request_.given.kind == GivenKind::kNumSlots
               ? CheckedInt{request_.given.value}
               : CheckedInt{set_.n_seq_max} * (CheckedInt{set_.rollback_states} + 1);
  }

  [[nodiscard]] CheckedInt state_bytes() const {
    CheckedInt bytes{0};
    for (const CacheSlice& slice : slices_) {
      if (slice.is_state()) {
        bytes += recurrent_cells() * slice.state_bytes();
      }
    }
    return bytes;
  }

  /// The drafter's context has as many cells and streams as the target's.
  [[nodiscard]] CheckedInt draft_cache_bytes(std::int64_t cells) const {
    return CheckedInt{streams()} *
           ((draft_bytes_.key + draft_bytes_.value) * cells +
            swa_cells(cells, draft_window_) * (draft_sliding_.key + draft_sliding_.value));
  }

  /// Bytes of all caches of a context of `cells`.
  [[nodiscard]] CheckedInt cache_bytes(std::int64_t cells) const {
    return CheckedInt{streams()} * ((full_.key + full_.value) * cells +
                                    swa_cells(cells, window_) * (sliding_.key + sliding_.value)) +
           draft_cache_bytes(cells) + state_bytes();
  }

  /// The longest context, in whole multiples, that a budget holds: the engine itself has no budget.
  Result<std::optional<std::int64_t>> cells_of_budget(std::int64_t budget) {
    if (!draft_.known) {
      return std::optional<std::int64_t>{};
    }
    std::int64_t low = 0;
    std::int64_t high = std::int64_t{1} << 32;
    while (low < high) {
      const std::int64_t middle = low + (high - low + 1) / 2;
      if (cache_bytes(middle * kCellMultiple).saturated() <= budget) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    if (low == 0) {
      return setting_error("given.kv_budget_bytes", "no context fits: 256 cells need more");
    }
    return std::optional{low * kCellMultiple};
  }

  void print_cache(std::int64_t cells) {
    const CheckedInt all = CheckedInt{streams()} * cells;
    out_.count(FigureKey::kKvTokens, all);
    out_.size(FigureKey::kKMib, all * full_.key);
    out_.size(FigureKey::kVMib, all * full_.value);
    out_.size(FigureKey::kKvMib, all * (full_.key + full_.value));
    out_.group({.what = "layers with all tokens", .layers = full_.layers});
    CheckedInt pool = all * (full_.key + full_.value);
    const CheckedInt ring = CheckedInt{streams()} * swa_cells(cells, window_);
    if (sliding_.layers > 0) {
      out_.count(FigureKey::kSwaCells, swa_cells(cells, window_));
      out_.size(FigureKey::kSwaKMib, ring * sliding_.key);
      out_.size(FigureKey::kSwaKvMib, ring * (sliding_.key + sliding_.value));
      out_.group(
          {.what = fmt::format("layers with a window of {}", window_), .layers = sliding_.layers});
      out_.rule("swa_cells", fmt::format("{} cells", swa_cells(cells, window_).saturated()),
                fmt::format("window and micro-batch, at most the context, rounded up to {}",
                            set_.swa_cell_multiple));
      pool += ring * (sliding_.key + sliding_.value);
    }
    out_.size(FigureKey::kPoolGib, pool);
    out_.count(FigureKey::kPoolBytes, pool);
    if (!draft_.slices.empty()) {
      const CheckedInt draft = draft_cache_bytes(cells);
      out_.size(FigureKey::kDraftKvMib, draft);
      out_.count(FigureKey::kDraftPoolBytes, draft);
      out_.group({.what = "draft layers, in a context of their own", .layers = draft_.layers});
    }
  }

  void print_states() {
    CheckedInt conv{0};
    CheckedInt matrix{0};
    std::int64_t layers = 0;
    for (const CacheSlice& slice : slices_) {
      if (slice.is_state()) {
        conv += CheckedInt{slice.conv_columns} * slice.conv_column_bytes;
        matrix += slice.matrix_bytes;
        ++layers;
      }
    }
    if (layers == 0) {
      return;
    }
    out_.count(FigureKey::kRecurrentCells, recurrent_cells());
    out_.size(FigureKey::kRecurrentRMib, recurrent_cells() * conv);
    out_.size(FigureKey::kRecurrentSMib, recurrent_cells() * matrix);
    out_.rule("state_dtype", "f32", "always, whatever the types of K and V are");
    out_.group({.what = "recurrent states", .layers = layers});
  }

  /// All sequences of a context: what their layers need, and what the cells take.
  void account(std::int64_t cells) {
    const bool of_length = request_.given.kind == GivenKind::kMaxModelLen;
    std::int64_t length = of_length ? request_.given.value : cells;
    if (!of_length && set_.max_model_len.has_value()) {
      length = std::min(length, set_.max_model_len->count());
    }
    CheckedInt exact{0};
    for (const CacheSlice& slice : slices_) {
      exact +=
          slice.is_state() ? slice.state_bytes() : slice.token_bytes() * slice.kept_tokens(length);
    }
    if (!draft_.known) {
      return;
    }
    CheckedInt draft{0};
    for (const CacheSlice& slice : draft_.slices) {
      draft +=
          slice.is_state() ? slice.state_bytes() : slice.token_bytes() * slice.kept_tokens(length);
    }
    const CheckedInt taken = cache_bytes(cells);
    out_.size(FigureKey::kNeededGib, taken);
    out_.request_line("target_layers", exact, "what the target's layers need for one sequence");
    out_.request_line("draft_layers", draft, "what the drafter's layers need");
    out_.request_line("cells", taken - exact - draft,
                      "whole cells of the context, windows with a micro-batch, all streams and "
                      "state copies");
  }

  const EngineRequest& request_;
  const EngineSettings& set_;
  PredictionBuilder out_;
  std::vector<CacheSlice> slices_;
  DraftSlices draft_;
  CellBytes full_;
  CellBytes sliding_;
  CellBytes draft_bytes_;
  CellBytes draft_sliding_;
  std::int64_t window_ = 0;
  std::int64_t draft_window_ = 0;
};

}  // namespace

Result<EnginePrediction> predict_llamacpp(const EngineRequest& request) {
  return LlamaProfile{request}.run();
}

}  // namespace kvpool::detail
