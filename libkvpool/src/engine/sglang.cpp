// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// SGLang: pools of token slots over whole layers, one page of slots more than tokens, and slots of
// recurrent state. Rules and sources: docs/engines.md.
#include "engine/cache_slices.hpp"
#include "engine/prediction_builder.hpp"
#include "engine/profiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace kvpool::detail {
namespace {

/// Bytes of a token over the layers of one kind.
struct TokenBytes {
  CheckedInt key{0};
  CheckedInt value{0};
  CheckedInt indexer{0};
  std::int64_t layers = 0;

  void add(const CacheSlice& slice) {
    if (slice.kind == CacheKind::kIndexer) {
      indexer += slice.key_bytes;
      return;
    }
    key += slice.key_bytes;
    value += slice.value_bytes;
    ++layers;
  }
  [[nodiscard]] CheckedInt all() const { return key + value + indexer; }
};

class SglangProfile {
 public:
  explicit SglangProfile(const EngineRequest& request)
      : request_{request}, set_{request.settings}, out_{Engine::kSglang} {}

  Result<EnginePrediction> run() {
    if (auto read = read_layers(); !read) {
      return std::move(read).error();
    }
    const Result<std::optional<std::int64_t>> tokens = pool_tokens();
    if (!tokens) {
      return tokens.error();
    }
    if (tokens->has_value()) {
      print_pool(**tokens);
    }
    print_states();
    print_request();
    return std::move(out_).take();
  }

 private:
  Result<void> read_layers() {
    if (set_.dp_attention && set_.tp % set_.dp != 0) {
      return setting_error("dp",
                           fmt::format("with dp_attention it must divide the {} of tp", set_.tp));
    }
    SliceRules rules;
    rules.tensor = set_.dp_attention ? set_.tp / set_.dp : set_.tp;
    rules.key_format = cache_format(set_, request_.target);
    rules.value_format = rules.key_format;
    rules.state_dtype = set_.state_dtype;
    rules.conv_state_dtype = set_.conv_state_dtype;
    const Result<std::vector<CacheSlice>> target = model_slices(request_.target, rules);
    if (!target) {
      return target.error();
    }
    Result<DraftSlices> draft = draft_slices(request_, rules);
    if (!draft) {
      return std::move(draft).error();
    }
    draft_ = *std::move(draft);
    keep_largest_stage(*target);
    for (const CacheSlice& slice : draft_.slices) {
      draft_bytes_.add(slice);
    }
    // Where every layer slides there is one pool and it is the full one.
    if (full_.layers == 0) {
      std::swap(full_, sliding_);
      one_window_ = true;
    }
    page_ = set_.tokens_per_block.value_or(Tokens{1}).count();
    return {};
  }

  void keep_largest_stage(const std::vector<CacheSlice>& target) {
    const auto layers = static_cast<std::int64_t>(request_.target.layers.size());
    bool first = true;
    for (std::vector<CacheSlice>& slices : by_stage(target, layers, set_.pp)) {
      TokenBytes full;
      TokenBytes sliding;
      std::vector<CacheSlice> states;
      for (const CacheSlice& slice : slices) {
        if (slice.is_state()) {
          states.push_back(slice);
        } else {
          const bool bounded =
              slice.span.kind == SpanKind::kSlidingWindow || slice.span.kind == SpanKind::kChunked;
          (bounded ? sliding : full).add(slice);
        }
      }
      if (std::exchange(first, false) ||
          (full.all() + sliding.all()).saturated() > (full_.all() + sliding_.all()).saturated()) {
        full_ = full;
        sliding_ = sliding;
        states_ = std::move(states);
        slices_ = std::move(slices);
      }
    }
  }

  [[nodiscard]] bool drafts_by_blocks() const {
    const DrafterKind kind = request_.drafter->kind;
    return kind == DrafterKind::kDflash || kind == DrafterKind::kDspark ||
           kind == DrafterKind::kDomino || kind == DrafterKind::kPeagle;
  }

  /// Bytes that a token is charged when a budget becomes tokens.
  double cell_bytes() {
    auto cell = static_cast<double>(full_.all().saturated()) +
                set_.swa_full_ratio * static_cast<double>(sliding_.all().saturated());
    const auto target = static_cast<double>(full_.layers + sliding_.layers);
    if (draft_.layers > 0 && target > 0) {
      const auto draft = static_cast<double>(draft_.layers);
      const bool blocks = drafts_by_blocks();
      cell = blocks ? std::ceil(cell * (target + draft) / target) : cell * (1.0 + draft / target);
      out_.rule("draft_charge", fmt::format("{:.0f} B a token", cell),
                "a draft layer is charged as if it were as large as a target layer; the pool that "
                "is allocated has the drafter's own size");
    }
    return cell;
  }

  [[nodiscard]] CheckedInt slot_bytes() const {
    CheckedInt bytes{0};
    for (const CacheSlice& state : states_) {
      bytes += state.state_bytes();
    }
    return bytes;
  }

  Result<std::optional<std::int64_t>> pool_tokens() {
    const std::int64_t given = request_.given.value;
    switch (request_.given.kind) {
      case GivenKind::kKvTokens: return std::optional{given};
      case GivenKind::kNumBlocks: return std::optional{(CheckedInt{given} * page_).saturated()};
      case GivenKind::kKvBudgetBytes: return tokens_of_budget(given);
      case GivenKind::kMaxModelLen: return std::optional<std::int64_t>{};
      case GivenKind::kNumSlots:
      case GivenKind::kCells: break;
    }
    return setting_error("given",
                         fmt::format("{} is no figure of SGLang", to_string(request_.given.kind)));
  }

  Result<std::optional<std::int64_t>> tokens_of_budget(std::int64_t budget) {
    std::int64_t rest = budget;
    if (!states_.empty()) {
      const std::int64_t slot = std::max<std::int64_t>(slot_bytes().saturated(), 1);
      if (!state_slots_.has_value()) {
        state_slots_ = set_.max_state_slots;
      }
      if (!state_slots_.has_value()) {
        const double share = set_.mamba_full_ratio / (1.0 + set_.mamba_full_ratio);
        state_slots_ = whole_count(static_cast<double>(budget) * share) / slot;
        out_.rule("mamba_full_memory_ratio", fmt::format("{}", set_.mamba_full_ratio),
                  fmt::format("the share r / (1 + r) of the budget goes to {} slots of state",
                              *state_slots_));
      }
      rest = (CheckedInt{budget} - CheckedInt{*state_slots_} * slot).saturated();
    }
    const double cell = cell_bytes();
    if (rest < 0 || cell <= 0) {
      return setting_error("given.kv_budget_bytes", "the recurrent states alone exceed the budget");
    }
    std::int64_t tokens = whole_count(static_cast<double>(rest) / cell);
    if (set_.max_tokens.has_value() && *set_.max_tokens < tokens) {
      tokens = *set_.max_tokens;
      out_.rule("max_tokens", fmt::format("{}", tokens), "less than the budget holds");
    }
    return std::optional{tokens / page_ * page_};
  }

  void print_pool(std::int64_t tokens) {
    out_.count(FigureKey::kKvTokens, tokens);
    out_.count(FigureKey::kTokensPerBlock, page_);
    out_.count(FigureKey::kNumBlocks, tokens / page_);
    const CheckedInt slots = CheckedInt{tokens} + page_;
    out_.count(FigureKey::kAllocatedSlots, slots);
    out_.rule("dump_page", fmt::format("{} slots", page_),
              "every token pool holds one page more; the first page takes what is written for "
              "padded rows");
    CheckedInt pool = slots * full_.all();
    if (full_.value.saturated() == 0) {
      out_.size(FigureKey::kMlaGib, slots * full_.key);
    } else {
      out_.size(FigureKey::kKGib, slots * full_.key);
      out_.size(FigureKey::kVGib, slots * full_.value);
    }
    out_.group({.what = one_window_ ? "layers with a window" : "layers with all tokens",
                .layers = full_.layers,
                .tokens_per_block = Tokens{page_}});
    if (sliding_.layers > 0) {
      const std::int64_t share = whole_count(static_cast<double>(tokens) * set_.swa_full_ratio);
      const std::int64_t swa_tokens = share / page_ * page_;
      const CheckedInt swa_slots = CheckedInt{swa_tokens} + page_;
      out_.count(FigureKey::kSwaTokens, swa_tokens);
      out_.size(FigureKey::kSwaKGib, swa_slots * sliding_.key);
      out_.size(FigureKey::kSwaVGib, swa_slots * sliding_.value);
      out_.group({.what = "layers with a window",
                  .layers = sliding_.layers,
                  .tokens_per_block = Tokens{page_}});
      pool += swa_slots * sliding_.all();
    }
    out_.size(FigureKey::kPoolGib, pool);
    out_.count(FigureKey::kPoolBytes, pool);
    CheckedInt draft{0};
    if (!draft_.slices.empty()) {
      draft = slots * draft_bytes_.all();
      out_.size(FigureKey::kDraftKGib, slots * (draft_bytes_.key + draft_bytes_.indexer));
      out_.size(FigureKey::kDraftVGib, slots * draft_bytes_.value);
      out_.count(FigureKey::kDraftTokensPerBlock, page_);
      out_.count(FigureKey::kDraftNumBlocks, floor_div(slots, page_));
      out_.count(FigureKey::kDraftPoolBytes, draft);
      out_.group(
          {.what = "draft layers", .layers = draft_.layers, .tokens_per_block = Tokens{page_}});
    }
    account(pool, draft, tokens);
    print_lengths(tokens);
  }

  void account(CheckedInt pool, CheckedInt draft, std::int64_t tokens) {
    const CheckedInt dump = CheckedInt{page_} * (full_.all() + sliding_.all());
    const CheckedInt states = states_.empty() || !slots().has_value()
                                  ? CheckedInt{0}
                                  : (CheckedInt{*slots()} + 1) * slot_bytes();
    const bool from_budget = request_.given.kind == GivenKind::kKvBudgetBytes;
    const CheckedInt taken = pool + draft + states;
    const CheckedInt budget = from_budget ? CheckedInt{request_.given.value} : taken;
    out_.pool_line("kv_budget", budget, from_budget ? "given" : "the pools themselves");
    out_.pool_line("pool", dump - pool, fmt::format("slots of {} tokens", tokens));
    out_.pool_line("dump_page", CheckedInt{0} - dump, "one page more in each pool");
    out_.pool_line("draft_pool", CheckedInt{0} - draft, "as many slots as the target's");
    out_.pool_line("states", CheckedInt{0} - states, "state slots and one more");
    out_.pool_line("not_taken", taken - budget,
                   "whole pages, the charge of the drafter; negative where the budget is exceeded");
  }

  void print_lengths(std::int64_t tokens) {
    if (!set_.max_model_len.has_value()) {
      return;
    }
    const std::int64_t longest = set_.max_model_len->count();
    const std::int64_t held = ceil_div(longest, page_) * page_;
    out_.real(FigureKey::kMaxConcurrency, static_cast<double>(tokens) / static_cast<double>(held));
    out_.count(FigureKey::kMaxLenThatFits, std::min(longest, tokens));
  }

  [[nodiscard]] std::optional<std::int64_t> slots() const {
    return state_slots_.has_value() ? state_slots_ : set_.max_state_slots;
  }

  void print_states() {
    CheckedInt conv{0};
    CheckedInt conv_column{0};
    CheckedInt matrix{0};
    std::int64_t columns = 0;
    for (const CacheSlice& state : states_) {
      conv += CheckedInt{state.conv_columns} * state.conv_column_bytes;
      conv_column += state.conv_column_bytes;
      matrix += state.matrix_bytes;
      columns = std::max(columns, state.conv_columns);
    }
    if (states_.empty()) {
      return;
    }
    if (slots().has_value()) {
      const CheckedInt held = CheckedInt{*slots()} + 1;
      out_.size(FigureKey::kStateConvGib, held * conv);
      out_.size(FigureKey::kStateSsmGib, held * matrix);
      out_.group({.what = "recurrent states",
                  .layers = static_cast<std::int64_t>(states_.size()),
                  .blocks_per_request = 1});
    }
    const bool drafts = request_.drafter.has_value() &&
                        request_.drafter->num_draft_tokens.value_or(0) > 0 &&
                        set_.max_running_requests.has_value();
    if (drafts) {
      const CheckedInt copies = CheckedInt{*set_.max_running_requests} + 1;
      const std::int64_t tokens = *request_.drafter->num_draft_tokens;
      out_.size(FigureKey::kSpecStateSsmGib, copies * tokens * matrix);
      // A window of all draft tokens behind the kernel: D + K - 2 columns, K - 1 = columns.
      out_.size(FigureKey::kSpecStateConvGib,
                copies * (CheckedInt{tokens} + columns - 1) * conv_column);
      out_.rule("draft_states", fmt::format("{} running requests", *set_.max_running_requests),
                "a matrix state for each draft token of a request, and one window of convolution "
                "columns; older builds kept D * (K - 1) columns");
    }
  }

  void print_request() {
    std::optional<std::int64_t> length;
    if (request_.given.kind == GivenKind::kMaxModelLen) {
      length = request_.given.value;
    } else if (set_.max_model_len.has_value()) {
      length = set_.max_model_len->count();
    }
    if (!length.has_value() || !draft_.known) {
      return;
    }
    CheckedInt exact{0};
    CheckedInt held{0};
    const CheckedInt slots = ceil_div(CheckedInt{*length}, page_) * page_;
    for (const CacheSlice& slice : slices_) {
      exact +=
          slice.is_state() ? slice.state_bytes() : slice.token_bytes() * slice.kept_tokens(*length);
      // Windows hold what their pool's share of the tokens is; a request at least its window.
      held += slice.is_state()
                  ? slice.state_bytes()
                  : slice.token_bytes() *
                        (ceil_div(CheckedInt{slice.kept_tokens(*length)}, page_) * page_);
    }
    const CheckedInt draft = slots * draft_bytes_.all();
    out_.size(FigureKey::kNeededGib, held + draft);
    out_.request_line("target_layers", exact, "what the target's layers need");
    out_.request_line("draft_layers", draft, "the drafter's layers, as many tokens as the target");
    out_.request_line("whole_pages", held - exact, "whole pages");
  }

  const EngineRequest& request_;
  const EngineSettings& set_;
  PredictionBuilder out_;
  TokenBytes full_;
  TokenBytes sliding_;
  TokenBytes draft_bytes_;
  std::vector<CacheSlice> states_;
  std::vector<CacheSlice> slices_;
  DraftSlices draft_;
  std::int64_t page_ = 1;
  bool one_window_ = false;
  std::optional<std::int64_t> state_slots_;
};

}  // namespace

Result<EnginePrediction> predict_sglang(const EngineRequest& request) {
  return SglangProfile{request}.run();
}

}  // namespace kvpool::detail
