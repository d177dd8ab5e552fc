// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The keys of a plan document's `request`, once for writing and reading. `fields(visit, value)`
// calls `visit(key, member, limits)` for each member in the order in which they are written.
#pragma once

#include <kvpool/plan/pool_plan.hpp>

#include "json_reader.hpp"
#include "plan_domains.hpp"

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace kvpool::io::detail {

/// `U`, const or not.
template <typename T, typename U>
concept Maybe = std::same_as<std::remove_const_t<T>, U>;

template <typename V, Maybe<Span> T>
void fields(V& visit, T& x) {
  visit("kind", x.kind);
  visit("extent", x.extent, limits::kTokensOrNone);
}

template <typename V, Maybe<AttentionCache> T>
void fields(V& visit, T& x) {
  visit("query_heads", x.query_heads, limits::kHeadsOrNone);
  visit("kv_heads", x.kv_heads, limits::kHeads);
  visit("key_dim", x.key_dim, limits::kDimOrNone);
  visit("value_dim", x.value_dim, limits::kDimOrNone);
  visit("span", x.span);
}

template <typename V, Maybe<LatentCache> T>
void fields(V& visit, T& x) {
  visit("query_heads", x.query_heads, limits::kHeadsOrNone);
  visit("latent_dim", x.latent_dim, limits::kDimOrNone);
  visit("rope_dim", x.rope_dim, limits::kDimOrNone);
  visit("span", x.span);
}

template <typename V, Maybe<IndexerCache> T>
void fields(V& visit, T& x) {
  visit("key_dim", x.key_dim, limits::kDim);
}

template <typename V, Maybe<StateCache> T>
void fields(V& visit, T& x) {
  visit("family", x.family);
  visit("conv_channels", x.conv_channels, limits::kStateElements);
  visit("conv_kernel", x.conv_kernel, limits::kKernel);
  visit("matrix_elements", x.matrix_elements, limits::kStateElements);
  visit("heads", x.heads, limits::kHeadsOrNone);
  visit("groups", x.groups, limits::kHeadsOrNone);
  visit("channels_per_group", x.channels_per_group, limits::kDimOrNone);
  visit("conv_dtype", x.conv_dtype);
  visit("matrix_dtype", x.matrix_dtype);
}

template <typename V, Maybe<DrafterTraits> T>
void fields(V& visit, T& x) {
  visit("kind", x.kind);
  visit("block_tokens", x.block_tokens, limits::kTokensOrNone);
  visit("target_layers", x.target_layers, limits::kLayersOrNone);
}

template <typename V, Maybe<ParameterEstimate> T>
void fields(V& visit, T& x) {
  visit("plain", x.plain, limits::kElements);
  visit("quantized", x.quantized, limits::kElements);
  visit("quantized_centibits", x.quantized_centibits, limits::kMillion);
  visit("plain_bits", x.plain_bits, limits::kMillion);
  visit("attention", x.attention, limits::kBytes);
  visit("routed_experts", x.routed_experts, limits::kBytes);
  visit("basis", x.basis);
}

template <typename V, Maybe<WeightPart> T>
void fields(V& visit, T& x) {
  visit("place", x.place);
  visit("layer", x.layer, limits::kLayersOrNone);
  visit("split", x.split);
  visit("units", x.units, limits::kStateElements);
  visit("inner_units", x.inner_units, limits::kStateElements);
  visit("bytes", x.bytes, limits::kBytes);
}

template <typename V, Maybe<StoredWeights> T>
void fields(V& visit, T& x) {
  visit("parts", x.parts);
  visit("tied_embeddings", x.tied_embeddings);
  visit("stored", x.stored, limits::kBytes);
  visit("unused", x.unused, limits::kBytes);
  visit("tensors", x.tensors, limits::kBytes);
  visit("files", x.files, limits::kBytes);
  visit("unknown_names", x.unknown_names);
}

template <typename V, Maybe<ModelConfig> T>
void fields(V& visit, T& x) {
  visit("name", x.name);
  visit("model_type", x.model_type);
  visit("architecture", x.architecture);
  visit("layers", x.layers);
  visit("mtp_layer", x.mtp_layer);
  visit("mtp_layers", x.mtp_layers, limits::kLayersOrNone);
  visit("native_dtype", x.native_dtype);
  visit("checkpoint_kv_dtype", x.checkpoint_kv_dtype);
  visit("max_positions", x.max_positions, limits::kTokensOrNone);
  visit("query_heads", x.query_heads, limits::kHeadsOrNone);
  visit("hidden_size", x.hidden_size, limits::kStateElements);
  visit("drafter", x.drafter);
  visit("parameters", x.parameters);
  visit("weights", x.weights);
}

template <typename V, Maybe<DrafterRequest> T>
void fields(V& visit, T& x) {
  visit("kind", x.kind);
  visit("model", x.model);
  visit("num_draft_tokens", x.num_draft_tokens, limits::kCount);
  visit("backend", x.backend);
  visit("kv_dtype", x.kv_dtype);
  visit("tokens_per_block", x.tokens_per_block, limits::kPage);
  visit("in_checkpoint", x.in_checkpoint);
}

template <typename V, Maybe<Parallelism> T>
void fields(V& visit, T& x) {
  visit("tensor", x.tensor, limits::kRanks);
  visit("pipeline", x.pipeline, limits::kRanks);
  visit("data", x.data, limits::kRanks);
  visit("decode_context", x.decode_context, limits::kRanks);
  visit("expert", x.expert, limits::kRanks);
  visit("attention_data_parallel", x.attention_data_parallel);
}

template <typename V, Maybe<DeviceSpec> T>
void fields(V& visit, T& x) {
  visit("name", x.name);
  visit("architecture", x.architecture);
  visit("marketed", x.marketed, limits::kBytes);
  visit("nvidia_smi", x.nvidia_smi, limits::kBytes);
  visit("cuda_visible_low", x.cuda_visible_low, limits::kBytes);
  visit("cuda_visible_high", x.cuda_visible_high, limits::kBytes);
  visit("bandwidth_gb_per_s", x.bandwidth_gb_per_s, limits::kBytes);
  visit("multiprocessors", x.multiprocessors, limits::kCount);
  visit("granularity", x.granularity, limits::kGranule);
  visit("note", x.note);
}

template <typename V, Maybe<SizeRange> T>
void fields(V& visit, T& x) {
  visit("low", x.low, limits::kBytes);
  visit("expected", x.expected, limits::kBytes);
  visit("high", x.high, limits::kBytes);
}

template <typename V, Maybe<CoLocated> T>
void fields(V& visit, T& x) {
  visit("name", x.name);
  visit("size", x.size);
}

template <typename V, Maybe<OverheadRequest> T>
void fields(V& visit, T& x) {
  visit("engine", x.engine);
  visit("version", x.version);
  visit("activations", x.activations);
  visit("cuda_context", x.cuda_context);
  visit("cuda_graphs", x.cuda_graphs);
  visit("communication", x.communication);
  visit("co_located", x.co_located);
}

template <typename V, Maybe<BudgetRequest> T>
void fields(V& visit, T& x) {
  visit("kv_budget", x.kv_budget, limits::kBytes);
  visit("gpu_memory", x.gpu_memory, limits::kBytes);
  visit("utilization_ppm", x.utilization_ppm, limits::kMillion);
  visit("weights", x.weights, limits::kBytes);
  visit("overhead", x.overhead, limits::kBytes);
  visit("overheads", x.overheads);
}

template <typename V, Maybe<Workload> T>
void fields(V& visit, T& x) {
  visit("max_num_seqs", x.max_num_seqs, limits::kSequences);
  visit("max_model_len", x.max_model_len, limits::kTokensOrNone);
  visit("max_batched_tokens", x.max_batched_tokens, limits::kTokensOrNone);
  visit("state_snapshots_per_seq", x.state_snapshots_per_seq, limits::kCount);
}

template <typename V, Maybe<CacheFormats> T>
void fields(V& visit, T& x) {
  visit("kv", x.kv);
  visit("conv_state", x.conv_state);
  visit("matrix_state", x.matrix_state);
  visit("max_rewind", x.max_rewind, limits::kCount);
}

template <typename V, Maybe<Verdict> T>
void fields(V& visit, T& x) {
  visit("row", x.row);
  visit("accepts", x.accepts);
  visit("verdict", x.verdict);
}

template <typename V, Maybe<CostOfChoice> T>
void fields(V& visit, T& x) {
  visit("value", x.value, limits::kAny);
  visit("unit", x.unit);
  visit("conditions", x.conditions);
}

template <typename V, Maybe<Decision> T>
void fields(V& visit, T& x) {
  visit("id", x.id);
  visit("pool", x.pool);
  visit("chosen", x.chosen);
  visit("instead_of", x.instead_of);
  visit("reason", x.reason);
  visit("cost", x.cost);
  visit("verdicts", x.verdicts);
}

template <typename V, Maybe<Refusal> T>
void fields(V& visit, T& x) {
  visit("id", x.id);
  visit("what", x.what);
  visit("missing_bytes", x.missing_bytes, limits::kAny);
  visit("accepted", x.accepted);
  visit("least_that_works", x.least_that_works);
  visit("verdicts", x.verdicts);
}

/// Of the decisions only the number is written: they are the first ones of the document's own
/// `decisions`. Refusals stand there in full, because the document's own have no verdicts. A hash
/// of both follows: without the registry they cannot be derived again.
template <typename V, Maybe<Resolution> T>
void fields(V& visit, T& x) {
  visit("target_page", x.target_page, limits::kPage);
  visit("draft_page", x.draft_page, limits::kPage);
  visit("draft_pool", x.draft_pool);
  visit("target_formats", x.target_formats);
  visit("draft_formats", x.draft_formats);
  visit("sequences", x.sequences, limits::kSequences);
  visit("max_model_len", x.max_model_len, limits::kTokensOrNone);
  visit("draft_max_len", x.draft_max_len, limits::kTokensOrNone);
  visit("draft_tokens", x.draft_tokens, limits::kCount);
  visit("state_slots_per_seq", x.state_slots_per_seq, limits::kStateSlots);
  visit("workspace", x.workspace, limits::kBytes);
  visit("refusals", x.refusals);
}

template <typename V, Maybe<PlanRequest> T>
void fields(V& visit, T& x) {
  visit("target", x.target);
  visit("drafter", x.drafter);
  visit("parallelism", x.parallelism);
  visit("device", x.device);
  visit("budget", x.budget);
  visit("workload", x.workload);
  visit("kv_dtype", x.kv_dtype);
  visit("tokens_per_block", x.tokens_per_block, limits::kPage);
  visit("kernel_set", x.kernel_set);
  visit("layout", x.layout);
  visit("reserved_pages", x.reserved_pages, limits::kCount);
  visit("granularity", x.granularity, limits::kGranule);
}

}  // namespace kvpool::io::detail
