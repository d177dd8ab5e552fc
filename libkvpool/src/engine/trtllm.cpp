// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// TensorRT-LLM: blocks over all attention layers; a fraction of what is free after the peak; the
// Python managers divide it between target and drafter. Rules and sources: docs/engines.md.
#include <kvpool/layout/layer_group.hpp>
#include <kvpool/layout/page_geometry.hpp>
#include <kvpool/plan/draft_pool_kind.hpp>

#include "engine/cache_slices.hpp"
#include "engine/prediction_builder.hpp"
#include "engine/profiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace kvpool::detail {
namespace {

constexpr std::int64_t kMillion = 1'000'000;
/// Share of its pool that the second Python manager fills before it stops resuming requests.
constexpr std::int64_t kResumePercent = 95;
/// Page of a private arena.
constexpr Tokens kArenaPage{32};
/// Page of the Eagle3 pool beside the 128-token blocks of MiniMax-M3's sparse attention.
constexpr std::int64_t kMinimaxPage = 128;
constexpr std::int64_t kMinimaxDraftPage = 32;

bool is_block_drafter(DrafterKind kind) noexcept {
  return kind == DrafterKind::kDflash || kind == DrafterKind::kDspark ||
         kind == DrafterKind::kDomino || kind == DrafterKind::kPeagle;
}

/// Drafters with a model of their own keep its 16-bit cache, whatever the target's format is.
bool is_external(DrafterKind kind) noexcept {
  return is_block_drafter(kind) || kind == DrafterKind::kDraftTarget || kind == DrafterKind::kPard;
}

/// nvfp4 is rounded over K and V of all heads of a layer, not row by row.
void round_by_layer(std::vector<CacheSlice>& slices, const EngineFormat& format) {
  if (format.carrier != KvDtype::kNvfp4) {
    return;
  }
  for (CacheSlice& slice : slices) {
    if (slice.kind == CacheKind::kKeyValue) {
      const CheckedInt elements = CheckedInt{2} * slice.heads * slice.key_dim;
      slice.key_bytes = (ceil_div(elements, 2) + ceil_div(elements, 16)).saturated();
      slice.value_bytes = 0;
    }
  }
}

class TrtllmProfile {
 public:
  TrtllmProfile(const EngineRequest& request, const CapabilityRegistry& registry)
      : request_{request}, set_{request.settings}, registry_{registry}, out_{Engine::kTrtllm} {}

  Result<EnginePrediction> run() {
    if (auto read = read_target(); !read) {
      return std::move(read).error();
    }
    if (auto read = read_drafter(); !read) {
      return std::move(read).error();
    }
    settle_manager();
    if (auto printed = print_pool(); !printed) {
      return std::move(printed).error();
    }
    print_request();
    return std::move(out_).take();
  }

 private:
  [[nodiscard]] SliceRules rules(const EngineFormat& format) const {
    SliceRules rules;
    rules.tensor = set_.dp_attention ? 1 : set_.tp;
    rules.key_format = format;
    rules.value_format = format;
    rules.state_dtype = set_.state_dtype;
    rules.conv_state_dtype = set_.conv_state_dtype;
    rules.values_as_wide_as_keys = true;
    rules.windows_in_full = true;
    return rules;
  }

  Result<void> read_target() {
    const EngineFormat format = cache_format(set_, request_.target);
    Result<std::vector<CacheSlice>> target = model_slices(request_.target, rules(format));
    if (!target) {
      return std::move(target).error();
    }
    round_by_layer(*target, format);
    if (auto charged = charge(*target, format); !charged) {
      return charged;
    }
    page_ = set_.tokens_per_block.has_value() ? set_.tokens_per_block->count() : 0;
    keep_largest_stage(*target);
    return {};
  }

  /// What the split between target and drafter assumes: heads over ranks without rounding up.
  Result<void> charge(const std::vector<CacheSlice>& local, const EngineFormat& format) {
    SliceRules whole = rules(format);
    whole.tensor = 1;
    Result<std::vector<CacheSlice>> all = model_slices(request_.target, whole);
    if (!all) {
      return std::move(all).error();
    }
    round_by_layer(*all, format);
    for (std::size_t i = 0; i < all->size() && i < local.size(); ++i) {
      if (!local[i].is_state()) {
        target_charge_ += charged(local[i], (*all)[i]);
      }
    }
    return {};
  }

  [[nodiscard]] CheckedInt charged(const CacheSlice& local, const CacheSlice& all) const {
    return local.heads == all.heads ? local.token_bytes()
                                    : floor_div(all.token_bytes(), set_.dp_attention ? 1 : set_.tp);
  }

  /// The 16-bit ring of the newest tokens that `fp4_mla` keeps per sequence and layer.
  [[nodiscard]] CheckedInt tail_bytes(const CacheSlice& slice) const {
    if (slice.kind != CacheKind::kLatent) {
      return 0;
    }
    const std::int64_t rewind =
        request_.drafter.has_value() ? request_.drafter->num_draft_tokens.value_or(0) : 0;
    return latent_tail(cache_format(set_, request_.target).carrier, slice.key_dim, slice.value_dim,
                       rewind)
        .count();
  }

  void keep_largest_stage(const std::vector<CacheSlice>& target) {
    const auto layers = static_cast<std::int64_t>(request_.target.layers.size());
    bool first = true;
    for (std::vector<CacheSlice>& slices : by_stage(target, layers, set_.pp)) {
      CheckedInt bytes{0};
      CheckedInt states{0};
      for (const CacheSlice& slice : slices) {
        (slice.is_state() ? states : bytes) +=
            slice.is_state() ? slice.state_bytes() : slice.token_bytes();
        states += tail_bytes(slice);
      }
      if (std::exchange(first, false) || bytes.saturated() > token_bytes_.saturated()) {
        token_bytes_ = bytes;
        state_bytes_ = states;
        slices_ = std::move(slices);
      }
    }
  }

  Result<void> read_drafter() {
    if (!request_.drafter.has_value()) {
      return {};
    }
    const EngineDrafter& drafter = *request_.drafter;
    EngineFormat format = cache_format(set_, request_.target);
    if (is_external(drafter.kind) && drafter.model.has_value()) {
      format = engine_format(drafter.model->native_dtype.value_or(KvDtype::kBf16));
      out_.rule("draft_kv_dtype", format.name,
                "an external drafter keeps its own type: the target's 8-bit cache does not make "
                "its pool cheaper");
    }
    Result<DraftSlices> draft = draft_slices(request_, rules(format));
    if (!draft) {
      return std::move(draft).error();
    }
    draft_ = *std::move(draft);
    round_by_layer(draft_.slices, format);
    for (const CacheSlice& slice : draft_.slices) {
      draft_bytes_ += slice.token_bytes();
    }
    pool_ = draft_pool_kind(Profile::kTrtllm, {.drafter = drafter.kind,
                                               .backend = drafter.backend,
                                               .attention_data_parallel = set_.dp_attention,
                                               .pipeline = set_.pp,
                                               .target_model_type = request_.target.model_type});
    if (draft_.slices.empty()) {
      pool_ = DraftPoolKind::kNone;
    }
    out_.rule("draft_pool", std::string{to_string(pool_)}, "where the drafter's cache lives");
    return pool_ == DraftPoolKind::kOwnPool ? settle_draft_page() : Result<void>{};
  }

  /// The page of the drafter's own pool: decided by kernel rows for block drafters, else the
  /// target's.
  Result<void> settle_draft_page() {
    const DrafterKind kind = request_.drafter->kind;
    if (page_ == 0) {
      return setting_error("tokens_per_block", "needed: the draft pool's page follows from it");
    }
    draft_page_ = page_;
    if (kind == DrafterKind::kEagle3 && page_ == kMinimaxPage &&
        request_.target.model_type.starts_with("minimax_m3")) {
      draft_page_ = kMinimaxDraftPage;
      out_.rule("draft_page", "32", "beside the 128-token blocks of sparse attention");
      return {};
    }
    if (!is_block_drafter(kind)) {
      out_.rule("draft_page", fmt::format("{}", draft_page_), "the target's");
      return {};
    }
    const bool latent = std::ranges::any_of(
        draft_.slices, [](const CacheSlice& slice) { return slice.kind == CacheKind::kLatent; });
    KernelQuery query{.user = kind == DrafterKind::kDspark ? PoolUser::kDspark : PoolUser::kDflash,
                      .mask = AttentionMask::kNonCausal};
    query.family = latent ? AttentionFamily::kLatent : AttentionFamily::kKeyValue;
    const PageSizeChoice choice = decide_drafter_page(
        registry_, {.query = query, .kernel_set = KernelSet::kTrtllm}, Tokens{page_});
    if (!choice.tokens_per_block.has_value()) {
      return setting_error(
          "tokens_per_block",
          choice.refusal.has_value() ? choice.refusal->what : std::string{"no draft page suits it"},
          ErrorCode::kUnsupported);
    }
    draft_page_ = choice.tokens_per_block->count();
    out_.rule("draft_page", fmt::format("{}", draft_page_), choice.decision.reason);
    return {};
  }

  [[nodiscard]] bool shares_target_pool() const { return pool_ == DraftPoolKind::kTargetLayers; }
  [[nodiscard]] bool has_draft_pool() const { return pool_ == DraftPoolKind::kOwnPool; }

  void settle_manager() {
    manager_ = set_.block_manager.value_or(has_draft_pool() ? BlockManagerKind::kPythonV2
                                                            : BlockManagerKind::kCpp);
    const bool up = manager_ == BlockManagerKind::kCpp;
    out_.rule("block_rounding", up ? "up" : "down",
              up ? "the C++ manager rounds blocks up: the pool may exceed the budget by less than "
                   "one"
                 : "the Python managers round blocks down");
  }

  /// Bytes of a token in the target's pool.
  [[nodiscard]] CheckedInt pool_token_bytes() const {
    return shares_target_pool() ? token_bytes_ + draft_bytes_ : token_bytes_;
  }

  [[nodiscard]] std::int64_t block_tokens() const { return std::max<std::int64_t>(page_, 1); }

  [[nodiscard]] CheckedInt rounded(CheckedInt bytes, CheckedInt unit) const {
    return manager_ == BlockManagerKind::kCpp ? ceil_div(bytes, unit) : floor_div(bytes, unit);
  }

  /// What states take whatever the lengths are: one slot per running sequence and a dummy.
  [[nodiscard]] CheckedInt fixed_states() const {
    return set_.max_num_seqs.has_value()
               ? (CheckedInt{*set_.max_num_seqs} * set_.pp + 1) * state_bytes_
               : CheckedInt{0};
  }

  struct Blocks {
    CheckedInt target{0};
    CheckedInt draft{0};
  };

  /// `max_tokens` in bytes, where it is less than the budget. V2 allows for the share of the pool
  /// that it keeps free for requests that resume.
  [[nodiscard]] CheckedInt capped(CheckedInt budget) {
    if (!set_.max_tokens.has_value()) {
      return budget;
    }
    const CheckedInt slope = has_draft_pool() ? target_charge_ + draft_bytes_ : pool_token_bytes();
    CheckedInt bytes = slope * *set_.max_tokens;
    if (manager_ == BlockManagerKind::kPythonV2) {
      bytes = ceil_div(bytes * 100, kResumePercent);
    }
    if (min(bytes, budget).saturated() == budget.saturated()) {
      return budget;
    }
    out_.rule("max_tokens", fmt::format("{}", *set_.max_tokens), "less than the budget holds");
    return bytes;
  }

  /// Blocks of both pools from a budget.
  Result<Blocks> blocks_of_budget(std::int64_t budget) {
    const CheckedInt rest = capped(CheckedInt{budget} - fixed_states());
    const CheckedInt unit = pool_token_bytes() * block_tokens();
    if (unit.saturated() <= 0) {
      return setting_error("model", "no layer attends", ErrorCode::kUnsupported);
    }
    if (rest.saturated() < 0) {
      return setting_error("given.kv_budget_bytes", "the recurrent states alone exceed it");
    }
    if (!set_.max_attention_window.empty()) {
      return windowed_blocks(rest);
    }
    if (!has_draft_pool()) {
      return Blocks{.target = rounded(rest, unit)};
    }
    if (!draft_.known) {
      return setting_error("drafter.num_layers", "needed: the budget is divided by its layers");
    }
    const CheckedInt slopes = target_charge_ + draft_bytes_;
    if (manager_ == BlockManagerKind::kPythonV1 || manager_ == BlockManagerKind::kCpp) {
      const CheckedInt tokens = floor_div(rest, slopes);
      return Blocks{.target = rounded(tokens, block_tokens()),
                    .draft = rounded(tokens, draft_page_)};
    }
    const CheckedInt draft_share = floor_div(rest * draft_bytes_, slopes);
    return Blocks{.target = floor_div(rest - draft_share, unit),
                  .draft = floor_div(draft_share, draft_bytes_ * draft_page_)};
  }

  /// Explicit windows, cycled over the layers. V2: a fixed cost per request and step, the rest for
  /// full layers. Else every window gets an equal share of the bytes, whatever its layers take.
  Result<Blocks> windowed_blocks(CheckedInt budget) {
    std::map<std::int64_t, CheckedInt> by_window;
    const std::int64_t longest =
        set_.max_model_len.value_or(request_.target.max_positions.value_or(Tokens{0})).count();
    for (const CacheSlice& slice : slices_) {
      if (slice.is_state()) {
        continue;
      }
      const auto at = static_cast<std::size_t>(slice.layer) % set_.max_attention_window.size();
      const std::int64_t window = set_.max_attention_window[at].count();
      const bool full = window <= 0 || (longest > 0 && window >= longest);
      by_window.try_emplace(full ? 0 : window, 0).first->second += slice.token_bytes();
    }
    if (manager_ == BlockManagerKind::kPythonV2) {
      CheckedInt fixed{0};
      for (const auto& [window, bytes] : by_window) {
        if (window > 0) {
          const CheckedInt kept = ceil_div(CheckedInt{window}, block_tokens()) * block_tokens();
          fixed += kept * bytes * set_.max_num_seqs.value_or(1) +
                   bytes * set_.max_num_batched_tokens.count();
        }
      }
      out_.rule("windows", "fixed cost",
                "windows cost whole blocks per request and their bytes for the tokens of a step");
      const auto full = by_window.find(0);
      if (full == by_window.end() || (budget - fixed).saturated() < 0) {
        return setting_error("max_attention_window",
                             "the windows' fixed cost leaves nothing for full attention");
      }
      return Blocks{.target = floor_div(budget - fixed, full->second * block_tokens())};
    }
    out_.rule("windows", fmt::format("{} pools", by_window.size()),
              "every distinct window gets an equal share of the bytes; the largest is reported");
    const auto& largest = by_window.contains(0) ? by_window.find(0) : std::prev(by_window.end());
    const CheckedInt share = floor_div(budget, static_cast<std::int64_t>(by_window.size()));
    windowed_ = true;
    return Blocks{.target = rounded(share, largest->second * block_tokens())};
  }

  Result<std::optional<Blocks>> pool_blocks() {
    const std::int64_t given = request_.given.value;
    switch (request_.given.kind) {
      case GivenKind::kMaxModelLen: return std::optional<Blocks>{};
      case GivenKind::kNumBlocks:
      case GivenKind::kKvTokens: {
        const bool tokens_given = request_.given.kind == GivenKind::kKvTokens;
        if (tokens_given && page_ > 0 && given % page_ != 0) {
          return setting_error("given.kv_tokens", fmt::format("no multiple of the {} tokens of a "
                                                              "block",
                                                              page_));
        }
        const CheckedInt blocks{tokens_given ? given / block_tokens() : given};
        Blocks out{.target = blocks};
        if (has_draft_pool()) {
          out.draft = floor_div(blocks * block_tokens(), draft_page_);
        }
        return std::optional{out};
      }
      case GivenKind::kKvBudgetBytes: {
        const Result<Blocks> blocks = blocks_of_budget(given);
        if (!blocks) {
          return blocks.error();
        }
        return std::optional{*blocks};
      }
      case GivenKind::kNumSlots:
      case GivenKind::kCells: break;
    }
    return setting_error(
        "given", fmt::format("{} is no figure of TensorRT-LLM", to_string(request_.given.kind)));
  }

  Result<void> print_pool() {
    const Result<std::optional<Blocks>> found = pool_blocks();
    if (!found) {
      return found.error();
    }
    print_draft_page();
    if (!found->has_value()) {
      return {};
    }
    const Blocks blocks = **found;
    const CheckedInt tokens = blocks.target * block_tokens();
    if (page_ > 0) {
      out_.count(FigureKey::kNumBlocks, blocks.target);
      out_.count(FigureKey::kTokensPerBlock, page_);
    }
    out_.count(FigureKey::kKvTokens, tokens);
    out_.group({.what = "attention layers",
                .layers = std::ranges::count_if(
                    slices_, [](const CacheSlice& slice) { return !slice.is_state(); }),
                .tokens_per_block = Tokens{page_}});
    const CheckedInt pool = tokens * token_bytes_;
    CheckedInt draft{0};
    if (shares_target_pool()) {
      draft = tokens * draft_bytes_;
      out_.count(FigureKey::kDraftNumBlocks, blocks.target);
      out_.count(FigureKey::kDraftPoolBytes, draft);
    } else if (has_draft_pool()) {
      draft = blocks.draft * draft_page_ * draft_bytes_;
      out_.count(FigureKey::kDraftNumBlocks, blocks.draft);
      out_.count(FigureKey::kDraftPoolBytes, draft);
      out_.group({.what = "draft layers",
                  .layers = draft_.layers,
                  .tokens_per_block = Tokens{draft_page_}});
    }
    out_.size(FigureKey::kPoolGib, pool);
    out_.count(FigureKey::kPoolBytes, pool);
    if (!windowed_ && draft_.known) {
      print_memory(pool + draft);
      account(pool, draft);
    }
    print_lengths(tokens);
    return {};
  }

  void print_draft_page() {
    if (has_draft_pool()) {
      out_.count(FigureKey::kDraftTokensPerBlock, draft_page_);
    } else if (shares_target_pool() && page_ > 0) {
      out_.count(FigureKey::kDraftTokensPerBlock, page_);
    } else if (pool_ == DraftPoolKind::kPrivateArena) {
      print_arena();
    }
  }

  /// A private arena is dense in the longest sequence and allocated behind the pool: no fraction
  /// bounds it.
  void print_arena() {
    if (!set_.max_num_seqs.has_value() || !set_.max_model_len.has_value() ||
        !request_.drafter->model.has_value()) {
      return;
    }
    const ModelConfig& model = *request_.drafter->model;
    std::int64_t capacity = set_.max_model_len->count();
    if (model.max_positions.has_value()) {
      capacity = std::min(capacity, model.max_positions->count());
    }
    const std::int64_t block = model.drafter.has_value() && model.drafter->block_tokens.count() > 0
                                   ? model.drafter->block_tokens.count()
                                   : request_.drafter->num_draft_tokens.value_or(0);
    const CheckedInt pages = (CheckedInt{*set_.max_num_seqs} + 1) *
                             ceil_div(CheckedInt{capacity} + block, kArenaPage.count());
    const CheckedInt bytes = pages * kArenaPage.count() * draft_bytes_;
    out_.count(FigureKey::kDraftPoolBytes, bytes);
    out_.rule("private_arena", fmt::format("{} B", bytes.saturated()),
              "one slot per sequence and a scratch slot, each for the longest sequence; beyond the "
              "fraction");
  }

  void print_memory(CheckedInt pool) {
    const CheckedInt block = pool_token_bytes() * block_tokens();
    const bool up = manager_ == BlockManagerKind::kCpp;
    const CheckedInt low = up ? pool - block : pool;
    const CheckedInt high = up ? pool : pool + block;
    // Ends times the scale: memory = end / fraction.
    out_.range(FigureKey::kAvailableGib, low, high, set_.free_fraction_ppm, !up);
    out_.range(FigureKey::kBudgetGib, low, high, kMillion, !up);
  }

  void account(CheckedInt pool, CheckedInt draft) {
    const bool from_budget = request_.given.kind == GivenKind::kKvBudgetBytes;
    const CheckedInt taken = pool + draft + fixed_states();
    const CheckedInt budget = from_budget ? CheckedInt{request_.given.value} : taken;
    out_.pool_line("kv_budget", budget, from_budget ? "given" : "the pools themselves");
    out_.pool_line("pool", CheckedInt{0} - pool, "blocks of the target");
    out_.pool_line("draft_pool", CheckedInt{0} - draft, "blocks or layers of the drafter");
    out_.pool_line("states", CheckedInt{0} - fixed_states(),
                   "one state (or 16-bit tail) per running sequence and a dummy");
    out_.pool_line("block_rounding", taken - budget,
                   "blocks are rounded; positive where the pool exceeds the budget");
  }

  void print_lengths(CheckedInt tokens) {
    if (!set_.max_model_len.has_value()) {
      return;
    }
    const std::int64_t longest = set_.max_model_len->count();
    const std::int64_t held = ceil_div(longest, block_tokens()) * block_tokens();
    out_.real(FigureKey::kMaxConcurrency,
              static_cast<double>(tokens.saturated()) / static_cast<double>(held));
    out_.count(FigureKey::kMaxLenThatFits, min(longest, tokens));
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
    const SliceRules honest = [this] {
      SliceRules kept = rules(cache_format(set_, request_.target));
      kept.values_as_wide_as_keys = false;
      kept.windows_in_full = false;
      return kept;
    }();
    const Result<std::vector<CacheSlice>> real = model_slices(request_.target, honest);
    if (!real) {
      return;
    }
    for (const CacheSlice& slice : *real) {
      // A stage's layers are consecutive.
      const bool here = !slices_.empty() && slice.layer >= slices_.front().layer &&
                        slice.layer <= slices_.back().layer;
      if (here) {
        exact += slice.is_state() ? slice.state_bytes()
                                  : slice.token_bytes() * slice.kept_tokens(*length);
      }
    }
    const CheckedInt in_full = token_bytes_ * *length + state_bytes_;
    const CheckedInt held =
        token_bytes_ * (ceil_div(CheckedInt{*length}, block_tokens()) * block_tokens()) +
        state_bytes_;
    const std::int64_t draft_page = has_draft_pool() ? draft_page_ : block_tokens();
    const bool pooled = has_draft_pool() || shares_target_pool();
    const CheckedInt draft =
        pooled ? draft_bytes_ * (ceil_div(CheckedInt{*length}, draft_page) * draft_page)
               : CheckedInt{0};
    out_.size(FigureKey::kNeededGib, held + draft);
    out_.request_line("target_layers", exact, "what the target's layers need");
    out_.request_line("in_full", in_full - exact,
                      "windows in full, V rows as wide as K rows, scales by layer");
    out_.request_line("whole_blocks", held - in_full, "whole blocks");
    out_.request_line("draft_layers", draft, "the drafter's layers, in whole blocks");
  }

  const EngineRequest& request_;
  const EngineSettings& set_;
  const CapabilityRegistry& registry_;
  PredictionBuilder out_;
  std::vector<CacheSlice> slices_;
  CheckedInt token_bytes_{0};
  CheckedInt state_bytes_{0};
  CheckedInt target_charge_{0};
  CheckedInt draft_bytes_{0};
  DraftSlices draft_;
  DraftPoolKind pool_ = DraftPoolKind::kNone;
  BlockManagerKind manager_ = BlockManagerKind::kCpp;
  std::int64_t page_ = 0;
  std::int64_t draft_page_ = 0;
  bool windowed_ = false;
};

}  // namespace

Result<EnginePrediction> predict_trtllm(const EngineRequest& request,
                                        const CapabilityRegistry& registry) {
  return TrtllmProfile{request, registry}.run();
}

}  // namespace kvpool::detail
