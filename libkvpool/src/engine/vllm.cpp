// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// vLLM: blocks of one pool are shared by groups of layers; a block id belongs to one group at a
// time. Rules and sources: docs/engines.md.
#include "engine/cache_slices.hpp"
#include "engine/prediction_builder.hpp"
#include "engine/profiles.hpp"
#include "engine/vllm_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace kvpool::detail {
namespace {

constexpr std::int64_t kDefaultBlock = 16;
constexpr std::int64_t kDefaultLatentBlock = 64;
/// Layers at either end of a dense model that packed formats leave in 16 bit.
constexpr std::int64_t kUnpackedEnds = 2;

using Predicate = std::function<bool(std::int64_t)>;

/// The smallest number in [low, high] for which `holds`, which does not turn false again; nothing
/// when it holds for none.
std::optional<std::int64_t> first_that(std::int64_t low, std::int64_t high,
                                       const Predicate& holds) {
  if (low > high || !holds(high)) {
    return std::nullopt;
  }
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

class VllmProfile {
 public:
  explicit VllmProfile(const EngineRequest& request)
      : request_{request}, set_{request.settings}, out_{Engine::kVllm} {}

  Result<EnginePrediction> run() {
    if (auto read = read_layers(); !read) {
      return std::move(read).error();
    }
    if (auto laid_out = lay_out(); !laid_out) {
      return std::move(laid_out).error();
    }
    print_layout();
    if (auto printed = print_request(); !printed) {
      return std::move(printed).error();
    }
    if (auto printed = print_pool(); !printed) {
      return std::move(printed).error();
    }
    return std::move(out_).take();
  }

 private:
  Result<void> read_layers() {
    SliceRules rules;
    rules.tensor = set_.tp;
    rules.key_format = cache_format(set_, request_.target);
    rules.value_format = rules.key_format;
    rules.state_dtype = set_.state_dtype;
    rules.conv_state_dtype = set_.conv_state_dtype;
    rules.windows_in_full = !set_.hybrid_kv_manager;
    rules.cross_attention = true;
    Result<std::vector<CacheSlice>> target = model_slices(request_.target, rules);
    if (!target) {
      return std::move(target).error();
    }
    slices_ = *std::move(target);
    if (auto kept = keep_ends_unpacked(rules); !kept) {
      return kept;
    }
    Result<DraftSlices> draft = draft_slices(request_, rules);
    if (!draft) {
      return std::move(draft).error();
    }
    draft_ = *std::move(draft);
    if (rules.windows_in_full) {
      out_.rule("hybrid_kv_manager", "off", "windows and chunks are charged as full attention");
    }
    return {};
  }

  /// Packed formats leave the first and last layers of a dense model alone.
  Result<void> keep_ends_unpacked(const SliceRules& rules) {
    if (rules.key_format.rule != RowRule::kTurboquant || has_recurrent_state(request_.target)) {
      return {};
    }
    SliceRules plain = rules;
    plain.key_format = engine_format(request_.target.native_dtype.value_or(KvDtype::kBf16));
    plain.value_format = plain.key_format;
    const Result<std::vector<CacheSlice>> native = model_slices(request_.target, plain);
    if (!native) {
      return native.error();
    }
    const auto layers = static_cast<std::int64_t>(request_.target.layers.size());
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      if (slices_[i].layer < kUnpackedEnds || slices_[i].layer >= layers - kUnpackedEnds) {
        slices_[i] = (*native)[i];
      }
    }
    out_.rule("unpacked_layers", fmt::format("{}", 2 * kUnpackedEnds),
              "the first and last two layers of a dense model stay in 16 bit");
    return {};
  }

  /// Tokens drafted in a step; an error where something depends on an unknown number.
  Result<std::int64_t> draft_tokens() const {
    if (!request_.drafter.has_value()) {
      return std::int64_t{0};
    }
    const auto& tokens = request_.drafter->num_draft_tokens;
    const bool matters = std::ranges::any_of(slices_, &CacheSlice::is_state);
    if (!tokens.has_value() && matters) {
      return setting_error("drafter.num_draft_tokens",
                           "needed: recurrent states grow with the tokens drafted in a step");
    }
    return tokens.value_or(0);
  }

  Result<void> lay_out() {
    const Result<std::int64_t> tokens = draft_tokens();
    if (!tokens) {
      return tokens.error();
    }
    draft_tokens_ = *tokens;
    const std::int64_t usual =
        has_latent_cache(request_.target) ? kDefaultLatentBlock : kDefaultBlock;
    const std::int64_t asked = set_.tokens_per_block.value_or(Tokens{usual}).count();
    Result<VllmBlock> block = vllm_block(slices_, asked, draft_tokens_);
    if (!block) {
      return std::move(block).error();
    }
    block_ = *block;
    slices_.insert(slices_.end(), draft_.slices.begin(), draft_.slices.end());
    Result<VllmLayout> layout = vllm_layout(slices_, request_, block_, draft_tokens_);
    if (!layout) {
      return std::move(layout).error();
    }
    layout_ = *std::move(layout);
    return {};
  }

  [[nodiscard]] const CacheSlice& kind_of(const VllmGroup& group) const {
    return slices_[group.members.front()];
  }

  /// Tokens in flight beyond a window.
  [[nodiscard]] CheckedInt in_flight() const {
    return CheckedInt{set_.max_num_batched_tokens.count()} * set_.max_concurrent_batches;
  }

  /// Blocks that one request of `length` takes of a group.
  [[nodiscard]] CheckedInt blocks_of(const VllmGroup& group, std::int64_t length) const {
    const CacheSlice& kind = kind_of(group);
    if (kind.is_state()) {
      return CheckedInt{draft_tokens_} + (set_.prefix_caching ? 2 : 1);
    }
    const CheckedInt block{group.tokens_per_block};
    const CheckedInt extent{kind.span.extent.count()};
    switch (kind.span.kind) {
      case SpanKind::kFull: return ceil_div(ceil_div(CheckedInt{length}, set_.dcp), block);
      case SpanKind::kSlidingWindow:
        return ceil_div(min(extent - 1 + in_flight(), length), block) + 1;
      case SpanKind::kChunked: return ceil_div(min(extent + in_flight(), length), block);
      case SpanKind::kCross:
        return ceil_div(CheckedInt{set_.encoder_budget_tokens.value_or(kind.span.extent).count()},
                        block);
    }
    return 0;
  }

  [[nodiscard]] CheckedInt blocks_of_request(std::int64_t length) const {
    CheckedInt blocks{0};
    for (const VllmGroup& group : layout_.groups) {
      blocks += blocks_of(group, length);
    }
    return blocks;
  }

  /// The smallest attention block; 0 without attention.
  [[nodiscard]] std::int64_t smallest_block() const {
    std::int64_t smallest = 0;
    for (const VllmGroup& group : layout_.groups) {
      if (group.tokens_per_block > 0 && (smallest == 0 || group.tokens_per_block < smallest)) {
        smallest = group.tokens_per_block;
      }
    }
    return smallest;
  }

  void print_layout() {
    out_.count(FigureKey::kTokensPerBlock, block_.tokens);
    if (block_.state_bytes > 0 && block_.page > 0) {
      const auto state = static_cast<double>(block_.state_bytes);
      out_.real(FigureKey::kStatePaddingPercent,
                (static_cast<double>(block_.page) - state) / state * 100.0);
      out_.rule("block_size", fmt::format("{}", block_.tokens),
                fmt::format("enlarged until a page of {} B holds a state of {} B", block_.page,
                            block_.state_bytes));
    }
    bool first_padding = true;
    const std::optional<std::int64_t> length = asked_length();
    for (const VllmGroup& group : layout_.groups) {
      if (group.padding > 0 && std::exchange(first_padding, false)) {
        out_.count(FigureKey::kPaddingLayers, group.padding);
        out_.real(FigureKey::kPaddingLayersPercent,
                  static_cast<double>(group.padding) / static_cast<double>(group.bucket) * 100.0);
      }
      out_.group(
          {.what = layout_.uniform && group.members.size() > 1 ? one_group_text()
                                                               : describe(kind_of(group)),
           .layers = static_cast<std::int64_t>(group.members.size()),
           .padding_layers = group.padding,
           .tokens_per_block = Tokens{group.tokens_per_block},
           .blocks_per_request = length.has_value() ? blocks_of(group, *length).saturated() : 0});
    }
    if (first_padding) {
      out_.count(FigureKey::kPaddingLayers, 0);
      out_.real(FigureKey::kPaddingLayersPercent, 0.0);
    }
    if (!layout_.uniform) {
      out_.rule("group_size", fmt::format("{} groups", layout_.groups.size()),
                fmt::format("the largest kind of layers sets the size below {}.{:02} times the "
                            "smallest, else the smallest; older versions: 1.25",
                            set_.group_padding_limit / 100, set_.group_padding_limit % 100));
    }
    if (layout_.padded_pages) {
      out_.rule("padded_pages", fmt::format("{} B", layout_.page),
                "a page that does not divide the largest one is padded; the engine does not start "
                "where the kernel cannot read padded pages");
    }
    draft_pages();
  }

  [[nodiscard]] std::string one_group_text() const {
    std::string text = describe(slices_.front());
    const bool mixed = std::ranges::any_of(slices_, [&](const CacheSlice& slice) {
      return describe(slice) != describe(slices_.front());
    });
    return mixed ? text + " and others" : text;
  }

  void draft_pages() {
    for (const VllmGroup& group : layout_.groups) {
      const bool has_draft = std::ranges::any_of(
          group.members, [this](std::size_t member) { return slices_[member].draft; });
      if (has_draft && group.tokens_per_block > 0) {
        out_.count(FigureKey::kDraftTokensPerBlock, group.tokens_per_block);
        return;
      }
    }
  }

  /// The length that accounts are about.
  [[nodiscard]] std::optional<std::int64_t> asked_length() const {
    if (request_.given.kind == GivenKind::kMaxModelLen) {
      return request_.given.value;
    }
    return set_.max_model_len.has_value() ? std::optional{set_.max_model_len->count()}
                                          : std::nullopt;
  }

  /// What one request of the asked length needs, line by line.
  Result<void> print_request() {
    const std::optional<std::int64_t> length = asked_length();
    if (!length.has_value() || !draft_.known) {
      return {};
    }
    const CheckedInt needed = blocks_of_request(*length) * layout_.block_bytes;
    out_.size(FigureKey::kNeededGib, needed);
    CheckedInt target{0};
    CheckedInt draft{0};
    CheckedInt held{0};
    CheckedInt paged{0};
    for (const VllmGroup& group : layout_.groups) {
      const CheckedInt blocks = blocks_of(group, *length);
      for (const std::size_t member : group.members) {
        const CacheSlice& slice = slices_[member];
        if (!layout_.on_stage(slice, request_)) {
          continue;
        }
        (slice.draft ? draft : target) += slice.is_state()
                                              ? slice.state_bytes()
                                              : slice.token_bytes() * slice.kept_tokens(*length);
        const CheckedInt page = slice.is_state() ? slice.state_bytes(draft_tokens_)
                                                 : slice.token_bytes() * group.tokens_per_block;
        held += blocks * page;
        paged += blocks * (layout_.uniform ? page : CheckedInt{layout_.page});
      }
    }
    out_.request_line("target_layers", target, "what the target's layers need");
    out_.request_line("draft_layers", draft, "what the drafter's layers need");
    out_.request_line("whole_blocks", held - target - draft,
                      "whole blocks, tokens in flight beyond windows, copies of states");
    out_.request_line("page_padding", paged - held, "pages padded to the largest one");
    out_.request_line("padding_layers", needed - paged,
                      "places of a block id that no layer of its group uses");
    return {};
  }

  [[nodiscard]] std::int64_t tokens_by_concurrency(std::int64_t blocks, std::int64_t per_request,
                                                   std::int64_t length) const {
    // In this order and in double precision, as the engine does it.
    const double requests = static_cast<double>(blocks) / static_cast<double>(per_request);
    return whole_count(requests * static_cast<double>(length));
  }

  /// What the engine prints for a number of blocks; nothing where the report needs a length.
  [[nodiscard]] std::optional<std::int64_t> printed_tokens(std::int64_t blocks) const {
    if (set_.token_report == TokenReport::kBlocks) {
      const auto groups = static_cast<std::int64_t>(layout_.groups.size());
      return (CheckedInt{blocks / groups} * smallest_block() * set_.dcp).saturated();
    }
    if (!set_.max_model_len.has_value()) {
      return std::nullopt;
    }
    const std::int64_t length = set_.max_model_len->count();
    return tokens_by_concurrency(blocks, blocks_of_request(length).saturated(), length);
  }

  Result<std::optional<std::int64_t>> pool_blocks() const {
    const std::int64_t given = request_.given.value;
    switch (request_.given.kind) {
      case GivenKind::kNumBlocks: return std::optional{given};
      case GivenKind::kKvBudgetBytes:
        if (!draft_.known) {
          return std::optional<std::int64_t>{};
        }
        return std::optional{given / layout_.block_bytes};
      case GivenKind::kKvTokens: {
        if (!printed_tokens(0).has_value()) {
          return setting_error("max_model_len",
                               "needed: this version prints tokens as requests of that length");
        }
        constexpr std::int64_t kMostBlocks = std::int64_t{1} << 40;
        const auto blocks = first_that(0, kMostBlocks, [this, given](std::int64_t count) {
          return *printed_tokens(count) >= given;
        });
        if (!blocks.has_value() || *printed_tokens(*blocks) != given) {
          return setting_error("given.kv_tokens",
                               fmt::format("no number of blocks prints as {} tokens", given));
        }
        return blocks;
      }
      case GivenKind::kMaxModelLen: return std::optional<std::int64_t>{};
      case GivenKind::kNumSlots:
      case GivenKind::kCells: break;
    }
    return setting_error("given",
                         fmt::format("{} is no figure of vLLM", to_string(request_.given.kind)));
  }

  Result<void> print_pool() {
    const Result<std::optional<std::int64_t>> found = pool_blocks();
    if (!found) {
      return found.error();
    }
    if (!found->has_value()) {
      return {};
    }
    const std::int64_t blocks = **found;
    out_.count(FigureKey::kNumBlocks, blocks);
    if (smallest_block() > 0) {
      if (const auto tokens = printed_tokens(blocks); tokens.has_value()) {
        out_.count(FigureKey::kKvTokens, *tokens);
        out_.rule("token_report",
                  set_.token_report == TokenReport::kBlocks ? "blocks" : "concurrency",
                  "blocks: the whole pool as if it were one group's, up to about 0.20; "
                  "concurrency: requests of the longest length, from about 0.20.1 on");
      }
    }
    print_lengths(blocks);
    if (draft_.known) {
      print_bytes(blocks);
    }
    return {};
  }

  void print_lengths(std::int64_t blocks) {
    if (!set_.max_model_len.has_value()) {
      return;
    }
    const std::int64_t longest = set_.max_model_len->count();
    const std::int64_t per_request = blocks_of_request(longest).saturated();
    out_.real(FigureKey::kMaxConcurrency,
              static_cast<double>(blocks) / static_cast<double>(per_request));
    const auto too_long = first_that(1, longest + 1, [this, blocks, longest](std::int64_t length) {
      return length > longest || blocks_of_request(length).saturated() > blocks;
    });
    out_.count(FigureKey::kMaxLenThatFits, too_long.value_or(1) - 1);
  }

  void print_bytes(std::int64_t blocks) {
    const CheckedInt pool = CheckedInt{blocks} * layout_.block_bytes;
    out_.range(FigureKey::kBudgetGib, pool, pool + layout_.block_bytes, 1'000'000, true);
    CheckedInt draft{0};
    if (layout_.uniform) {
      for (const CacheSlice& slice : slices_) {
        if (slice.draft && layout_.on_stage(slice, request_)) {
          draft += CheckedInt{blocks} * slice.token_bytes() * block_.tokens;
        }
      }
    }
    if (!draft_.slices.empty()) {
      out_.count(FigureKey::kDraftNumBlocks, blocks);
      if (layout_.uniform) {
        out_.count(FigureKey::kDraftPoolBytes, draft);
      }
    }
    out_.size(FigureKey::kPoolGib, pool - draft);
    out_.count(FigureKey::kPoolBytes, pool - draft);
    const bool from_budget = request_.given.kind == GivenKind::kKvBudgetBytes;
    const CheckedInt budget = from_budget ? CheckedInt{request_.given.value} : pool;
    out_.pool_line("kv_budget", budget, from_budget ? "given" : "the pool itself");
    out_.pool_line("draft_layers", CheckedInt{0} - draft, "the drafter's share of every block");
    out_.pool_line(
        "pool", draft - pool,
        fmt::format("{} blocks of {} B, the null block among them", blocks, layout_.block_bytes));
    out_.pool_line("less_than_a_block", pool - budget, "blocks are rounded down");
  }

  const EngineRequest& request_;
  const EngineSettings& set_;
  PredictionBuilder out_;
  std::vector<CacheSlice> slices_;
  DraftSlices draft_;
  std::int64_t draft_tokens_ = 0;
  VllmBlock block_;
  VllmLayout layout_;
};

}  // namespace

Result<EnginePrediction> predict_vllm(const EngineRequest& request) {
  return VllmProfile{request}.run();
}

}  // namespace kvpool::detail
