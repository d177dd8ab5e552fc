// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/planner.hpp>

#include "plan/request_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kvpool {
namespace {

/// The only page in which the FP4 MLA format is laid out.
constexpr Tokens kFp4MlaPage{128};

/// Larger workspaces are taken for mistakes; sums stay within 64 bits.
constexpr Bytes kLargestWorkspace{std::int64_t{1} << 60};

/// Copies of a recurrent state that rejecting draft tokens needs beside the running one.
constexpr std::int64_t kSnapshotsForRejection = 1;

bool is_external_block_drafter(DrafterKind kind) noexcept {
  return kind == DrafterKind::kDflash || kind == DrafterKind::kDspark ||
         kind == DrafterKind::kDomino || kind == DrafterKind::kPeagle;
}

AttentionMask draft_mask(DrafterKind kind) noexcept {
  return is_external_block_drafter(kind) ? AttentionMask::kNonCausal : AttentionMask::kCausal;
}

/// Elements of the longest value row.
std::int64_t widest_value(std::span<const ModelLayer> layers) {
  std::int64_t widest = 0;
  for (const ModelLayer& layer : layers) {
    for (const LayerCache& cache : layer.caches) {
      if (const auto* const attention = std::get_if<AttentionCache>(&cache)) {
        widest = std::max(widest, attention->value_dim);
      } else if (const auto* const latent = std::get_if<LatentCache>(&cache)) {
        widest = std::max(widest, latent->latent_dim);
      }
    }
  }
  return widest;
}

/// Whose rows decide the page of a drafter's pool; nothing when no row can be about it.
std::optional<PoolUser> pool_user(DrafterKind kind) noexcept {
  switch (kind) {
    case DrafterKind::kMtp: return PoolUser::kMtp;
    case DrafterKind::kEagle3: return PoolUser::kEagle3;
    case DrafterKind::kDspark: return PoolUser::kDspark;
    case DrafterKind::kDflash:
    case DrafterKind::kDomino:
    case DrafterKind::kPeagle: return PoolUser::kDflash;
    case DrafterKind::kDraftTarget: return PoolUser::kDraftTarget;
    case DrafterKind::kPard: return PoolUser::kPard;
    case DrafterKind::kNgram:
    case DrafterKind::kSuffixAutomaton: return std::nullopt;
  }
  return std::nullopt;
}

/// Collects the distinct attention computations of a model's caches.
class QueryCollector {
 public:
  QueryCollector(KernelQuery base, const Parallelism& parallelism)
      : base_{std::move(base)}, parallelism_{parallelism} {}

  void operator()(const AttentionCache& cache) {
    KernelQuery query = base_;
    query.family = AttentionFamily::kKeyValue;
    query.head_dim = cache.key_dim;
    query.query_heads = heads_per_rank(cache.query_heads, parallelism_);
    query.kv_heads = heads_per_rank(cache.kv_heads, parallelism_);
    if (cache.span.kind == SpanKind::kSlidingWindow) {
      query.mask = AttentionMask::kWindow;
    }
    add(std::move(query));
  }
  void operator()(const LatentCache& cache) {
    KernelQuery query = base_;
    query.family = AttentionFamily::kLatent;
    query.head_dim = cache.latent_dim + cache.rope_dim;
    query.query_heads = heads_per_rank(cache.query_heads, parallelism_);
    query.kv_heads = Heads{1};
    add(std::move(query));
  }
  void operator()(const IndexerCache& /*cache*/) {}
  void operator()(const StateCache& /*cache*/) {}

  [[nodiscard]] std::vector<KernelQuery> take() && { return std::move(queries_); }

 private:
  void add(KernelQuery query) {
    const auto same = [&query](const KernelQuery& other) {
      return other.family == query.family && other.head_dim == query.head_dim &&
             other.query_heads == query.query_heads && other.kv_heads == query.kv_heads &&
             other.mask == query.mask;
    };
    if (std::ranges::none_of(queries_, same)) {
      queries_.push_back(std::move(query));
    }
  }

  KernelQuery base_;
  Parallelism parallelism_;
  std::vector<KernelQuery> queries_;
};

/// Settles one request, step by step; choices and refusals collect in `out_`.
class Resolver {
 public:
  Resolver(const PlanRequest& request, const CapabilityRegistry& registry)
      : request_{request}, registry_{registry} {}

  Resolution run() {
    settle_workload();
    settle_formats();
    settle_target_page();
    settle_drafter();
    settle_snapshots();
    settle_workspace();
    return std::move(out_);
  }

 private:
  void settle_workload() {
    out_.sequences = request_.workload.max_num_seqs.value_or(Sequences{1});
    const auto& positions = request_.target.max_positions;
    if (request_.workload.max_model_len.has_value()) {
      out_.max_model_len = *request_.workload.max_model_len;
      if (positions.has_value() && out_.max_model_len > *positions) {
        decide("max_model_len", "target", fmt::format("{}", out_.max_model_len.count()),
               fmt::format("{}", positions->count()),
               "asked for explicitly, beyond the positions that the config states");
      }
    } else if (positions.has_value()) {
      out_.max_model_len = *positions;
    } else {
      refuse("max_model_len",
             "the config states no max_position_embeddings and no length was asked for", {},
             "--max-model-len with the longest sequence in tokens");
    }
  }

  /// The type that a checkpoint's cache has unless somebody says otherwise.
  KvDtype own_format(const ModelConfig& model, const std::string& pool) {
    if (model.checkpoint_kv_dtype.has_value()) {
      decide("kv_cache_dtype", pool, std::string{to_string(*model.checkpoint_kv_dtype)},
             std::string{to_string(model.native_dtype.value_or(KvDtype::kBf16))},
             "the checkpoint's quantisation section asks for it");
      return *model.checkpoint_kv_dtype;
    }
    if (!model.native_dtype.has_value()) {
      decide("kv_cache_dtype", pool, "bf16", "", "the config states neither dtype nor torch_dtype");
    }
    return model.native_dtype.value_or(KvDtype::kBf16);
  }

  void settle_formats() {
    const ModelConfig& target = request_.target;
    CacheFormats& formats = out_.target_formats;
    formats.kv = request_.kv_dtype.has_value() ? *request_.kv_dtype : own_format(target, "target");
    formats.conv_state = target.native_dtype.value_or(KvDtype::kBf16);
    formats.matrix_state = KvDtype::kFp32;
    if (request_.drafter.has_value()) {
      formats.max_rewind = draft_tokens(*request_.drafter).count();
    }
    if (formats.kv == KvDtype::kFp4Mla && has_recurrent_state(target)) {
      refuse("kv_cache_dtype",
             fmt::format("fp4_mla does not support hybrid linear attention: {} ({}) has recurrent "
                         "layers beside its MLA layers",
                         target.name, target.model_type),
             {"bf16", "fp8_e4m3"}, "--kv-cache-dtype bf16");
    }
    check_layout(target.layers, formats, "target");
    note_state_formats(target);
    note_heads(target, "target");
    check_shared_layers(target);
  }

  /// The config of most models does not say in which types a recurrent state is kept.
  void note_state_formats(const ModelConfig& model) {
    for (const ModelLayer& layer : model.layers) {
      for (const LayerCache& cache : layer.caches) {
        const auto* state = std::get_if<StateCache>(&cache);
        const bool open = state != nullptr &&
                          ((!state->matrix_dtype.has_value() && state->matrix_elements > 0) ||
                           (!state->conv_dtype.has_value() && !model.native_dtype.has_value()));
        if (open) {
          decide("state_dtype", "state",
                 fmt::format(
                     "convolution state {}, matrix state {}",
                     to_string(state->conv_dtype.value_or(out_.target_formats.conv_state)),
                     to_string(state->matrix_dtype.value_or(out_.target_formats.matrix_state))),
                 "", "the config does not fix the types of the recurrent state");
          return;
        }
      }
    }
  }

  /// Heads that the ranks do not divide are rounded up, and those that are fewer are replicated:
  /// both cost memory on every rank.
  void note_heads(const ModelConfig& model, const std::string& pool) {
    const std::int64_t ranks = head_parallel_size(request_.parallelism);
    for (const ModelLayer& layer : model.layers) {
      for (const LayerCache& cache : layer.caches) {
        const auto* heads = std::get_if<AttentionCache>(&cache);
        if (heads == nullptr) {
          continue;
        }
        const std::int64_t local = heads_per_rank(heads->kv_heads, request_.parallelism).count();
        if (local * ranks != heads->kv_heads.count()) {
          decide("kv_heads_per_rank", pool, fmt::format("{}", local),
                 fmt::format("{}/{}", heads->kv_heads.count(), ranks),
                 fmt::format("{} KV heads over {} ranks: rounded up, so that {} are held in all",
                             heads->kv_heads.count(), ranks, local * ranks));
          return;
        }
      }
    }
  }

  /// A rank cannot read the cache of a layer that lives on another stage.
  void check_shared_layers(const ModelConfig& model) {
    const auto layers = static_cast<std::int64_t>(model.layers.size());
    const auto parted_by = [&](std::int64_t stages) -> const ModelLayer* {
      for (std::int64_t stage = 0; stage < stages; ++stage) {
        const StageLayers part = stage_layers(layers, stages, stage);
        for (std::int64_t i = part.first; i < part.first + part.count; ++i) {
          const ModelLayer& layer = model.layers[static_cast<std::size_t>(i)];
          if (layer.shares_with.has_value() && layer.shares_with->value() < part.first) {
            return &layer;
          }
        }
      }
      return nullptr;
    };
    const ModelLayer* parted = parted_by(request_.parallelism.pipeline);
    if (parted == nullptr) {
      return;
    }
    std::vector<std::string> accepted;
    for (std::int64_t stages = 1; stages < request_.parallelism.pipeline; ++stages) {
      if (parted_by(stages) == nullptr) {
        accepted.push_back(fmt::format("{}", stages));
      }
    }
    refuse("pipeline_parallel_size",
           fmt::format(
               "layer {} reads the cache of layer {}, which {} pipeline stages put on another "
               "stage",
               parted->index.value(), parted->shares_with->value(), request_.parallelism.pipeline),
           std::move(accepted), "--pp 1");
  }

  /// Asks the layout whether formats and parallelism suit the layers, before bytes are counted.
  void check_layout(std::span<const ModelLayer> layers, const CacheFormats& formats,
                    const std::string& pool) {
    const auto geometry = layer_geometry(layers, request_.parallelism, formats);
    if (geometry.has_value()) {
      return;
    }
    const Error& error = geometry.error();
    if (error.key == "kv_cache_dtype") {
      const bool of_drafter = pool == "draft";
      refuse(of_drafter ? "draft_kv_cache_dtype" : "kv_cache_dtype",
             fmt::format("{} pool: {}", pool, error.message), accepted_formats(layers, formats),
             of_drafter ? "--draft-kv-cache-dtype bf16" : "--kv-cache-dtype bf16");
    } else {
      refuse(error.key, fmt::format("{} pool: {}", pool, error.message),
             accepted_tensor_sizes(layers, formats), "a tensor parallel size that divides them");
    }
  }

  /// Formats that every cache of these layers has a form in.
  std::vector<std::string> accepted_formats(std::span<const ModelLayer> layers,
                                            CacheFormats formats) const {
    std::vector<std::string> accepted;
    for (const KvDtype dtype : all_kv_dtypes()) {
      formats.kv = dtype;
      if (layer_geometry(layers, request_.parallelism, formats).has_value()) {
        accepted.emplace_back(to_string(dtype));
      }
    }
    return accepted;
  }

  std::vector<std::string> accepted_tensor_sizes(std::span<const ModelLayer> layers,
                                                 const CacheFormats& formats) const {
    std::vector<std::string> accepted;
    Parallelism parallelism = request_.parallelism;
    for (parallelism.tensor = parallelism.decode_context;
         parallelism.tensor <= request_.parallelism.tensor; parallelism.tensor *= 2) {
      if (layer_geometry(layers, parallelism, formats).has_value()) {
        accepted.push_back(fmt::format("{}", parallelism.tensor));
      }
    }
    return accepted;
  }

  std::vector<KernelQuery> queries(std::span<const ModelLayer> layers, PoolUser user,
                                   const ModelConfig& model, KvDtype kv_dtype,
                                   AttentionMask mask) const {
    KernelQuery base{
        .user = user, .model_family = model.model_type, .kv_dtype = kv_dtype, .mask = mask};
    if (request_.device.has_value()) {
      base.architecture = request_.device->architecture;
    }
    QueryCollector collector{std::move(base), request_.parallelism};
    for (const ModelLayer& layer : layers) {
      for (const LayerCache& cache : layer.caches) {
        std::visit(collector, cache);
      }
    }
    return std::move(collector).take();
  }

  /// Takes over what the registry said about one of a pool's computations. Only the first chooses
  /// the size; the others may refuse it, or lose a preferred kernel.
  void record(const PageSizeChoice& choice, bool chooses) {
    if (choice.refusal.has_value()) {
      out_.refusals.push_back(*choice.refusal);
      return;
    }
    if (chooses) {
      out_.decisions.push_back(choice.decision);
    }
    for (const Decision& loss : choice.losses) {
      if (std::ranges::find(out_.decisions, loss) == out_.decisions.end()) {
        out_.decisions.push_back(loss);
      }
    }
  }

  void settle_target_page() {
    const std::vector<KernelQuery> asked =
        queries(request_.target.layers, PoolUser::kTarget, request_.target, out_.target_formats.kv,
                AttentionMask::kCausal);
    out_.target_page = request_.tokens_per_block.value_or(kDefaultTargetPage);
    PageSizeQuestion question{.kernel_set = request_.kernel_set,
                              .explicit_page = request_.tokens_per_block};
    bool first = true;
    for (const KernelQuery& query : asked) {
      question.query = query;
      const PageSizeChoice choice = decide_target_page(registry_, question);
      record(choice, std::exchange(first, false));
      if (!choice.tokens_per_block.has_value()) {
        return;
      }
      // The first computation chooses; the others must agree with it.
      out_.target_page = *choice.tokens_per_block;
      question.explicit_page = out_.target_page;
    }
    if (out_.target_formats.kv == KvDtype::kFp4Mla && has_latent_cache(request_.target) &&
        out_.target_page != kFp4MlaPage) {
      settle_fp4_mla_page();
    }
  }

  /// The format's own page, where no row has asked for it.
  void settle_fp4_mla_page() {
    if (request_.tokens_per_block.has_value()) {
      refuse("target_page_size",
             fmt::format("fp4_mla is laid out in pages of {} tokens, not {}", kFp4MlaPage.count(),
                         out_.target_page.count()),
             {fmt::format("{}", kFp4MlaPage.count())},
             fmt::format("--page-size {}", kFp4MlaPage.count()));
      return;
    }
    std::erase_if(out_.decisions, [](const Decision& d) { return d.id == "target_page_size"; });
    decide("target_page_size", "target", fmt::format("{}", kFp4MlaPage.count()),
           fmt::format("{}", out_.target_page.count()),
           "fp4_mla is laid out in pages of this size only");
    out_.target_page = kFp4MlaPage;
  }

  Tokens draft_tokens(const DrafterRequest& drafter) const {
    if (drafter.num_draft_tokens.count() > 0) {
      return drafter.num_draft_tokens;
    }
    const bool has_block = drafter.model.has_value() && drafter.model->drafter.has_value() &&
                           drafter.model->drafter->block_tokens.count() > 0;
    return has_block ? drafter.model->drafter->block_tokens : Tokens{1};
  }

  void settle_drafter() {
    if (!request_.drafter.has_value()) {
      return;
    }
    const DrafterRequest& drafter = *request_.drafter;
    out_.draft_tokens = draft_tokens(drafter);
    out_.draft_pool = draft_pool_kind(
        Profile::kKvpool, {.drafter = drafter.kind,
                           .backend = drafter.backend,
                           .attention_data_parallel = request_.parallelism.attention_data_parallel,
                           .pipeline = request_.parallelism.pipeline,
                           .target_model_type = request_.target.model_type,
                           .in_checkpoint = drafter.in_checkpoint});
    if (out_.draft_pool == DraftPoolKind::kNone) {
      decide("draft_pool", "draft", "none", "",
             fmt::format("{} keeps no cache", to_string(drafter.kind)));
      return;
    }
    if (drafter.kind == DrafterKind::kMtp && request_.target.mtp_layers.count() == 0) {
      refuse("drafter", fmt::format("{} has no next-token (MTP) layers", request_.target.name), {},
             "a model whose config counts them (num_nextn_predict_layers, "
             "mtp_num_hidden_layers), or another drafter");
      return;
    }
    note_contradictions(drafter);
    settle_draft_formats(drafter);
    settle_draft_length(drafter);
    if (out_.draft_pool == DraftPoolKind::kTargetLayers) {
      out_.draft_page = out_.target_page;
      decide("draft_pool", "draft", "target_layers", "own_pool",
             fmt::format("under attention data parallelism the layers of {} extend the target's "
                         "pool, in its format",
                         to_string(drafter.kind)));
    }
    settle_draft_page(drafter);
    refuse_fp4_mla_in_other_pages(drafter);
  }

  void refuse_fp4_mla_in_other_pages(const DrafterRequest& drafter) {
    const bool has_page = std::ranges::none_of(
        out_.refusals, [](const Refusal& refusal) { return refusal.id == "draft_page_size"; });
    const bool own_latent = drafter.model.has_value() && has_latent_cache(*drafter.model);
    if (has_page && own_latent && out_.draft_formats.kv == KvDtype::kFp4Mla &&
        out_.draft_page != kFp4MlaPage) {
      refuse("draft_kv_cache_dtype",
             fmt::format("fp4_mla is laid out in pages of {} tokens, and the draft pool has {}",
                         kFp4MlaPage.count(), out_.draft_page.value_or(Tokens{0}).count()),
             {"bf16", "fp8_e4m3", "fp8_ds_mla"}, "--draft-kv-cache-dtype bf16");
    }
  }

  /// A config that names another kind of drafter is followed as the caller says, not in silence.
  void note_contradictions(const DrafterRequest& drafter) {
    const bool named = drafter.model.has_value() && drafter.model->drafter.has_value() &&
                       drafter.model->drafter->kind.has_value();
    if (named && *drafter.model->drafter->kind != drafter.kind) {
      decide("drafter_kind", "draft", std::string{to_string(drafter.kind)},
             std::string{to_string(*drafter.model->drafter->kind)},
             fmt::format("asked for; the config of {} names the other", drafter.model->name));
    }
  }

  void settle_draft_formats(const DrafterRequest& drafter) {
    CacheFormats& formats = out_.draft_formats;
    formats = out_.target_formats;
    if (out_.draft_pool == DraftPoolKind::kTargetLayers) {
      const std::string shared{to_string(formats.kv)};
      if (drafter.kv_dtype.has_value() && *drafter.kv_dtype != formats.kv) {
        refuse("draft_kv_cache_dtype",
               fmt::format("under attention data parallelism the layers of {} extend the target's "
                           "pool, whose format is {}, not {}",
                           to_string(drafter.kind), shared, to_string(*drafter.kv_dtype)),
               {shared}, "leave --draft-kv-cache-dtype out");
      }
      check_layout(draft_layers(drafter), formats, "draft");
      return;
    }
    if (drafter.kv_dtype.has_value()) {
      formats.kv = *drafter.kv_dtype;
    } else if (drafter.model.has_value()) {
      formats.kv = own_format(*drafter.model, "draft");
      if (formats.kv != out_.target_formats.kv) {
        decide("draft_kv_cache_dtype", "draft", std::string{to_string(formats.kv)},
               std::string{to_string(out_.target_formats.kv)},
               "the draft pool keeps its own config's format; the target's setting does not apply");
      }
    }
    if (drafter.model.has_value()) {
      formats.conv_state = drafter.model->native_dtype.value_or(KvDtype::kBf16);
    }
    check_layout(draft_layers(drafter), formats, "draft");
    if (drafter.model.has_value()) {
      note_heads(*drafter.model, "draft");
    }
  }

  /// The drafter's layers; one stands for all next-token layers.
  [[nodiscard]] std::vector<ModelLayer> draft_layers(const DrafterRequest& drafter) const {
    return drafter.model.has_value() ? drafter.model->layers
                                     : std::vector{ModelLayer{.caches = request_.target.mtp_layer}};
  }

  void settle_draft_length(const DrafterRequest& drafter) {
    out_.draft_max_len = out_.max_model_len;
    const bool limited = drafter.model.has_value() && drafter.model->max_positions.has_value() &&
                         *drafter.model->max_positions < out_.max_model_len;
    if (limited) {
      out_.draft_max_len = *drafter.model->max_positions;
      decide("draft_max_len", "draft", fmt::format("{}", out_.draft_max_len.count()),
             fmt::format("{}", out_.max_model_len.count()),
             "the drafter's config states fewer positions: beyond them a sequence runs without "
             "drafting");
    }
  }

  void settle_draft_page(const DrafterRequest& drafter) {
    const auto user = pool_user(drafter.kind);
    const bool one_model =
        drafter.kind == DrafterKind::kMtp || drafter.kind == DrafterKind::kEagle3;
    if (one_model && drafter.tokens_per_block.has_value() &&
        *drafter.tokens_per_block != out_.target_page) {
      refuse("draft_page_size",
             fmt::format("{} runs inside the target model and shares its page of {} tokens, not {}",
                         to_string(drafter.kind), out_.target_page.count(),
                         drafter.tokens_per_block->count()),
             {fmt::format("{}", out_.target_page.count())}, "leave --draft-page-size out");
      return;
    }
    if (!user.has_value()) {
      return;
    }
    const ModelConfig& model = drafter.model.has_value() ? *drafter.model : request_.target;
    const std::vector<ModelLayer> layers = draft_layers(drafter);
    const AttentionMask mask = draft_mask(drafter.kind);
    PageSizeQuestion question{.kernel_set = request_.kernel_set,
                              .backend = drafter.backend,
                              .explicit_page = drafter.tokens_per_block};
    out_.draft_page = drafter.tokens_per_block.value_or(out_.target_page);
    bool first = true;
    for (KernelQuery query : queries(layers, *user, model, out_.draft_formats.kv, mask)) {
      if (one_model) {
        // Rows limited to a family mean the model that runs, and that is the target.
        query.model_family = request_.target.model_type;
      }
      query.query_tokens = out_.draft_tokens.count();
      question.query = std::move(query);
      const PageSizeChoice choice = decide_drafter_page(registry_, question, out_.target_page);
      record(choice, std::exchange(first, false));
      if (!choice.tokens_per_block.has_value()) {
        return;
      }
      out_.draft_page = choice.tokens_per_block;
      question.explicit_page = one_model ? std::nullopt : choice.tokens_per_block;
    }
  }

  void settle_snapshots() {
    const bool rejects = out_.draft_pool != DraftPoolKind::kNone ||
                         (request_.drafter.has_value() && out_.draft_tokens.count() > 0);
    out_.state_slots_per_seq = 1 + request_.workload.state_snapshots_per_seq;
    const bool has_state = has_recurrent_state(request_.target) ||
                           (request_.drafter.has_value() && request_.drafter->model.has_value() &&
                            has_recurrent_state(*request_.drafter->model));
    if (has_state && rejects && request_.workload.state_snapshots_per_seq == 0) {
      out_.state_slots_per_seq += kSnapshotsForRejection;
      decide("state_snapshots", "state", "1 snapshot per sequence", "0",
             "rejecting draft tokens goes back to the state before the step");
    }
  }

  /// What the kernels of the bundled set need of scratch memory; other sets' engines bring their
  /// own.
  void settle_workspace() {
    if (request_.kernel_set != KernelSet::kKvpool) {
      return;
    }
    widen_workspace(queries(request_.target.layers, PoolUser::kTarget, request_.target,
                            out_.target_formats.kv, AttentionMask::kCausal),
                    widest_value(request_.target.layers));
    if (!request_.drafter.has_value() || out_.draft_pool == DraftPoolKind::kNone) {
      return;
    }
    const DrafterRequest& drafter = *request_.drafter;
    if (const auto user = pool_user(drafter.kind); user.has_value()) {
      const std::vector<ModelLayer> layers = draft_layers(drafter);
      widen_workspace(
          queries(layers, *user, drafter.model.has_value() ? *drafter.model : request_.target,
                  out_.draft_formats.kv, draft_mask(drafter.kind)),
          widest_value(layers));
    }
  }

  void widen_workspace(const std::vector<KernelQuery>& asked, std::int64_t value_dim) {
    for (const KernelQuery& query : asked) {
      for (const KernelCapability& row : registry_.rows()) {
        const bool bundled = row.kernel_set == to_string(KernelSet::kKvpool);
        if (!bundled || row.workspace == nullptr || !why_not(row, query).empty()) {
          continue;
        }
        const Bytes needed = row.workspace(largest_shape(row, query, value_dim));
        out_.workspace = std::clamp(needed, out_.workspace, kLargestWorkspace);
      }
    }
  }

  /// The largest shape of one step in which this kernel runs.
  [[nodiscard]] WorkspaceShape largest_shape(const KernelCapability& row, const KernelQuery& query,
                                             std::int64_t value_dim) const {
    WorkspaceShape shape{.batch = out_.sequences.count(),
                         .query_tokens = 1 + out_.draft_tokens.count(),
                         .query_heads = query.query_heads.count(),
                         .kv_heads = query.kv_heads.count(),
                         .key_dim = query.head_dim,
                         .value_dim = value_dim,
                         .multiprocessors = multiprocessors(row.limits.architectures)};
    if (row.role == KernelRole::kDraftBlock) {
      shape.query_tokens = std::max(out_.draft_tokens.count(), std::int64_t{1});
    } else if (row.role != KernelRole::kTargetDecode) {
      shape.batch = 1;
      shape.query_tokens = request_.workload.max_batched_tokens.count();
    }
    return shape;
  }

  /// Of the GPU. Where it is not stated, the most that a known one has on which the kernel runs: a
  /// workspace that is too small cannot run, one that is too large costs a few granules.
  [[nodiscard]] std::int64_t multiprocessors(const std::vector<std::string>& architectures) const {
    if (request_.device.has_value() && request_.device->multiprocessors > 0) {
      return request_.device->multiprocessors;
    }
    std::int64_t most = 0;
    std::int64_t most_there = 0;
    for (const DeviceSpec& device : known_devices()) {
      if (device.architecture.starts_with("sm_")) {
        most = std::max(most, device.multiprocessors);
        if (std::ranges::find(architectures, device.architecture) != architectures.end()) {
          most_there = std::max(most_there, device.multiprocessors);
        }
      }
    }
    // A row may be for any GPU, or for one that is not among the known.
    return most_there > 0 ? most_there : most;
  }

  void decide(std::string id, std::string pool, std::string chosen, std::string instead_of,
              std::string reason) {
    out_.decisions.push_back({.id = std::move(id),
                              .pool = std::move(pool),
                              .chosen = std::move(chosen),
                              .instead_of = std::move(instead_of),
                              .reason = std::move(reason)});
  }

  void refuse(std::string id, std::string what, std::vector<std::string> accepted,
              std::string least) {
    out_.refusals.push_back({.id = std::move(id),
                             .what = std::move(what),
                             .accepted = std::move(accepted),
                             .least_that_works = std::move(least)});
  }

  const PlanRequest& request_;
  const CapabilityRegistry& registry_;
  Resolution out_{};
};

}  // namespace

Result<Resolution> resolve(const PlanRequest& request, const CapabilityRegistry& registry) {
  if (auto checked = check_request(request); !checked) {
    return std::move(checked).error();
  }
  return Resolver{request, registry}.run();
}

}  // namespace kvpool
