// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/planned_batch.hpp"

#include <kvpool/kernels/capabilities.hpp>
#include <kvpool/kernels/narrow_float.hpp>
#include <kvpool/memory/host_memory.hpp>
#include <kvpool/plan/planner.hpp>

#include "kernels/compare.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

namespace kvpool::test {
namespace {

constexpr Bytes kGranule{65'536};
constexpr std::byte kUntouched{0xFF};

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::abort();
}

template <typename T>
T must(Result<T> result) {
  if (!result.has_value()) {
    give_up(to_string(result.error()));
  }
  return std::move(*result);
}

ModelConfig model_of(const CacheShape& shape) {
  ModelConfig model;
  for (std::int32_t i = 0; i < 2; ++i) {
    ModelLayer layer;
    layer.index = LayerIndex{i};
    if (shape.latent) {
      layer.caches = {LatentCache{.query_heads = Heads{shape.query_heads},
                                  .latent_dim = shape.value_dim,
                                  .rope_dim = shape.key_dim - shape.value_dim}};
    } else {
      layer.caches = {AttentionCache{.query_heads = Heads{shape.query_heads},
                                     .kv_heads = Heads{shape.kv_heads},
                                     .key_dim = shape.key_dim,
                                     .value_dim = shape.value_dim}};
    }
    model.layers.push_back(std::move(layer));
  }
  model.native_dtype = KvDtype::kBf16;
  model.max_positions = Tokens{1'024};
  return model;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

PoolSet make_pools(const PoolsShape& shape) {
  PlanRequest request;
  request.target = model_of(shape.target);
  request.drafter.emplace();
  request.drafter->kind = DrafterKind::kDspark;
  request.drafter->model = model_of(shape.draft);
  request.drafter->kv_dtype = shape.dtype;
  request.drafter->tokens_per_block = Tokens{shape.draft_page};
  request.kv_dtype = shape.dtype;
  request.tokens_per_block = Tokens{shape.target_page};
  request.kernel_set = KernelSet::kKvpool;
  request.layout = shape.layout;
  request.granularity = kGranule;
  request.budget.kv_budget = Bytes{32 << 20};
  request.workload.max_num_seqs = Sequences{1};
  const Plan plan = must(make_plan(request, kernels::registry_with_bundled_kernels()));
  if (!plan.fits) {
    give_up(plan.refusals.empty() ? "does not fit" : plan.refusals.front().what);
  }
  PoolSet pools = must(create_pools(plan.ranks.front(), must(HostMemory::create(kGranule))));
  for (std::size_t i = 0; i < pools.pools().size(); ++i) {
    const PoolId pool{static_cast<std::int32_t>(i)};
    std::memset(reinterpret_cast<void*>(pools.base(pool)), 0xFF,  // NOLINT: host memory
                static_cast<std::size_t>(pools.descriptor(pool).charged_bytes().count()));
  }
  return pools;
}

PlannedBatch::PlannedBatch(const PoolSet& pools, PoolId pool, LayerIndex layer,
                           SequencesShape shape, std::uint32_t seed)
    : shape_{std::move(shape)},
      full_lengths_{shape_.lengths},
      cache_{must(kernels::cache_operands(pools, pool, 0, layer))},
      random_{seed},
      element_{kernels::element_bytes(cache_.k.type)},
      sequences_(shape_.lengths.size()) {
  draw_sequences();
  hand_out_pages(pools.descriptor(pool));
}

std::vector<std::byte> PlannedBatch::draw(std::int64_t elements) {
  std::uniform_real_distribution<float> values{-1.0F, 1.0F};
  std::vector<std::byte> tensor(static_cast<std::size_t>(elements * element_));
  for (std::int64_t i = 0; i < elements; ++i) {
    const float value = values(random_);
    const std::uint16_t narrow = cache_.k.type == kernels::ElementType::kBf16
                                     ? kernels::float_to_bf16(value)
                                     : kernels::float_to_fp16(value);
    std::memcpy(tensor.data() + i * element_,
                element_ == 4 ? static_cast<const void*>(&value) : &narrow,
                static_cast<std::size_t>(element_));
  }
  return tensor;
}

float PlannedBatch::value(const std::vector<std::byte>& tensor, std::int64_t index) const {
  if (element_ == 4) {
    float wide = 0.0F;
    std::memcpy(&wide, tensor.data() + index * element_, sizeof(wide));
    return wide;
  }
  std::uint16_t narrow = 0;
  std::memcpy(&narrow, tensor.data() + index * element_, sizeof(narrow));
  return cache_.k.type == kernels::ElementType::kBf16 ? kernels::bf16_to_float(narrow)
                                                      : kernels::fp16_to_float(narrow);
}

void PlannedBatch::draw_sequences() {
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const std::int64_t rows = full_lengths_[i] * cache_.kv_heads;
    sequences_[i].k = draw(rows * cache_.k.dim);
    if (!cache_.v_aliases_k) {
      sequences_[i].v = draw(rows * cache_.v.dim);
      continue;
    }
    sequences_[i].v.resize(static_cast<std::size_t>(rows * cache_.v.dim * element_));
    for (std::int64_t row = 0; row < rows; ++row) {
      std::memcpy(sequences_[i].v.data() + row * cache_.v.dim * element_,
                  sequences_[i].k.data() + row * cache_.k.dim * element_,
                  static_cast<std::size_t>(cache_.v.dim * element_));
    }
  }
  if (shape_.sinks) {
    std::uniform_real_distribution<float> logits{-3.0F, 3.0F};
    for (std::int32_t head = 0; head < cache_.query_heads; ++head) {
      sinks_.push_back(logits(random_));
    }
  }
  lengths_.assign(full_lengths_.begin(), full_lengths_.end());
  std::int64_t tokens = 0;
  q_indptr_ = {0};
  for (const std::int64_t queries : shape_.queries) {
    tokens += queries;
    q_indptr_.push_back(static_cast<std::int32_t>(tokens));
  }
  q_ = draw(tokens * cache_.query_heads * cache_.k.dim);
}

void PlannedBatch::hand_out_pages(const PoolDescriptor& pool) {
  pages_ = pool.total_slabs().count();
  std::vector<std::int32_t> pages(static_cast<std::size_t>(pool.slabs.count()));
  std::iota(pages.begin(), pages.end(), static_cast<std::int32_t>(pool.reserved_slabs.count()));
  std::ranges::shuffle(pages, random_);
  for (const std::int64_t length : full_lengths_) {
    width_ = std::max(width_, ceil_div(length, cache_.tokens_per_block) + 2);
  }
  entries_.assign(static_cast<std::size_t>(width_) * full_lengths_.size(),
                  std::numeric_limits<std::int32_t>::max());
  auto next = pages.begin();
  for (std::size_t i = 0; i < full_lengths_.size(); ++i) {
    const std::int64_t blocks = ceil_div(full_lengths_[i], cache_.tokens_per_block);
    if (pages.end() - next < blocks) {
      give_up("the pool has too few pages for the batch");
    }
    std::copy_n(next, blocks, entries_.begin() + static_cast<std::ptrdiff_t>(i) * width_);
    next += blocks;
  }
}

std::int64_t PlannedBatch::slot(std::size_t sequence, std::int64_t position) const {
  const std::int64_t block = position / cache_.tokens_per_block;
  const std::int64_t entry =
      entries_[static_cast<std::size_t>(static_cast<std::int64_t>(sequence) * width_ + block)];
  return entry * cache_.tokens_per_block + position % cache_.tokens_per_block;
}

void PlannedBatch::push_token(std::size_t sequence, std::int64_t position) {
  const auto push = [&](const std::vector<std::byte>& from, std::int64_t dim,
                        std::vector<std::byte>& to) {
    const std::int64_t row = cache_.kv_heads * dim * element_;
    to.insert(to.end(), from.begin() + position * row, from.begin() + (position + 1) * row);
  };
  push(sequences_[sequence].k, cache_.k.dim, k_source_);
  push(sequences_[sequence].v, cache_.v.dim, v_source_);
  slots_.push_back(slot(sequence, position));
}

kernels::AppendParams PlannedBatch::append_pushed() {
  return {.k = k_source_.data(),
          .v = cache_.v_aliases_k ? nullptr : v_source_.data(),
          .slot_mapping = slots_.data(),
          .k_cache = cache_.k,
          .v_cache = cache_.v,
          .k_token_stride = cache_.kv_heads * cache_.k.dim,
          .k_head_stride = cache_.k.dim,
          .v_token_stride = cache_.kv_heads * cache_.v.dim,
          .v_head_stride = cache_.v.dim,
          .tokens = static_cast<std::int32_t>(slots_.size()),
          .kv_heads = cache_.kv_heads,
          .tokens_per_block = cache_.tokens_per_block,
          .source_type = cache_.k.type};
}

kernels::AppendParams PlannedBatch::append_all() {
  std::vector<std::pair<std::size_t, std::int64_t>> tokens;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    for (std::int64_t position = 0; position < full_lengths_[i]; ++position) {
      tokens.emplace_back(i, position);
    }
  }
  std::ranges::shuffle(tokens, random_);
  k_source_.clear();
  v_source_.clear();
  slots_.clear();
  for (const auto& [sequence, position] : tokens) {
    push_token(sequence, position);
    if (slots_.size() % 5 == 0) {
      push_token(sequence, full_lengths_[sequence] - 1 - position);
      slots_.back() = -1;
    }
  }
  return append_pushed();
}

kernels::AppendParams PlannedBatch::append_position(std::int64_t position) {
  k_source_.clear();
  v_source_.clear();
  slots_.clear();
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    if (position < full_lengths_[i]) {
      push_token(i, position);
    }
  }
  return append_pushed();
}

void PlannedBatch::set_lengths(std::vector<std::int64_t> lengths, std::int64_t queries) {
  shape_.lengths = std::move(lengths);
  shape_.queries.clear();
  lengths_.clear();
  q_indptr_ = {0};
  for (const std::int64_t length : shape_.lengths) {
    shape_.queries.push_back(std::min(queries, length));
    lengths_.push_back(static_cast<std::int32_t>(length));
    q_indptr_.push_back(q_indptr_.back() + static_cast<std::int32_t>(shape_.queries.back()));
  }
  q_ = draw(q_indptr_.back() * cache_.query_heads * cache_.k.dim);
}

kernels::AttentionParams PlannedBatch::attention() {
  const std::int64_t tokens = q_indptr_.back();
  const std::int64_t heads = cache_.query_heads;
  out_.assign(static_cast<std::size_t>(tokens * heads * cache_.v.dim * element_), kUntouched);
  lse_.assign(static_cast<std::size_t>(tokens * heads), 12'345.0F);
  const auto most = std::ranges::max_element(shape_.queries);
  return {.q = q_.data(),
          .out = out_.data(),
          .lse = lse_.data(),
          .sinks = sinks_.empty() ? nullptr : sinks_.data(),
          .q_indptr = q_indptr_.data(),
          .table = {.entries = entries_.data(),
                    .lengths = lengths_.data(),
                    .row_stride_entries = width_,
                    .rows = static_cast<std::int32_t>(lengths_.size()),
                    .tokens_per_block = cache_.tokens_per_block},
          .k = cache_.k,
          .v = cache_.v,
          .q_token_stride = heads * cache_.k.dim,
          .q_head_stride = cache_.k.dim,
          .out_token_stride = heads * cache_.v.dim,
          .out_head_stride = cache_.v.dim,
          .lse_token_stride = heads,
          .lse_head_stride = 1,
          .scale = static_cast<float>(problem().scale),
          .softcap = shape_.softcap,
          .tokens = static_cast<std::int32_t>(tokens),
          .max_query_tokens = most == shape_.queries.end() ? 0 : static_cast<std::int32_t>(*most),
          .query_heads = cache_.query_heads,
          .kv_heads = cache_.kv_heads,
          .window_left = shape_.window_left,
          .window_right = shape_.window_right,
          .causal = shape_.causal ? 1 : 0,
          .q_type = cache_.k.type,
          .out_type = cache_.k.type,
          .lse_base = shape_.lse_base};
}

std::vector<float> PlannedBatch::out() const {
  std::vector<float> values;
  for (std::size_t i = 0; i < out_.size() / static_cast<std::size_t>(element_); ++i) {
    values.push_back(value(out_, static_cast<std::int64_t>(i)));
  }
  return values;
}

DenseProblem PlannedBatch::problem() const {
  DenseProblem problem{.query_heads = cache_.query_heads,
                       .kv_heads = cache_.kv_heads,
                       .key_dim = cache_.k.dim,
                       .value_dim = cache_.v.dim,
                       // Short rows and a large scale: a peaked softmax, as real ones are.
                       .scale = 0.25,
                       .softcap = static_cast<double>(shape_.softcap),
                       .causal = shape_.causal,
                       .window_left = shape_.window_left,
                       .window_right = shape_.window_right};
  problem.sinks.assign(sinks_.begin(), sinks_.end());
  return problem;
}

DenseSequence PlannedBatch::dense(std::size_t sequence) const {
  DenseSequence dense{.length = shape_.lengths[sequence], .queries = shape_.queries[sequence]};
  const auto copy = [&](const std::vector<std::byte>& from, std::int64_t first, std::int64_t count,
                        std::vector<double>& to) {
    for (std::int64_t i = first; i < first + count; ++i) {
      to.push_back(static_cast<double>(value(from, i)));
    }
  };
  const std::int64_t q_row = cache_.query_heads * cache_.k.dim;
  copy(q_, q_indptr_[sequence] * q_row, dense.queries * q_row, dense.q);
  copy(sequences_[sequence].k, 0, dense.length * cache_.kv_heads * cache_.k.dim, dense.k);
  copy(sequences_[sequence].v, 0, dense.length * cache_.kv_heads * cache_.v.dim, dense.v);
  return dense;
}

DenseResult PlannedBatch::expected() const {
  DenseResult all;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const DenseResult one = dense_attention(problem(), dense(i));
    all.out.insert(all.out.end(), one.out.begin(), one.out.end());
    for (const double lse : one.lse_natural) {
      all.lse_natural.push_back(
          shape_.lse_base == kernels::LogBase::kTwo ? lse * std::numbers::log2e : lse);
    }
  }
  return all;
}

std::string PlannedBatch::difference() const {
  const DenseResult reference = expected();
  const Comparison outputs = compare_outputs(out(), reference.out, cache_.k.type);
  const Comparison sums = compare_lse(lse_, reference.lse_natural);
  std::string text;
  if (!outputs.within) {
    text += "out: " + outputs.text() + "\n";
  }
  if (!sums.within) {
    text += "lse: " + sums.text() + "\n";
  }
  return text;
}

std::string PlannedBatch::row_difference(const kernels::CacheOperand& operand,
                                         const std::vector<std::byte>& raw, std::size_t sequence,
                                         std::int64_t position) const {
  const std::int64_t slots = cache_.tokens_per_block;
  for (std::int64_t head = 0; head < cache_.kv_heads; ++head) {
    const std::int64_t at = slot(sequence, position);
    const auto* const row = static_cast<const std::byte*>(operand.base) +
                            kernels::row_offset(operand, at / slots, head, at % slots);
    const std::int64_t bytes = operand.dim * element_;
    if (std::memcmp(row, raw.data() + (position * cache_.kv_heads + head) * bytes,
                    static_cast<std::size_t>(bytes)) != 0) {
      return "sequence " + std::to_string(sequence) + ", token " + std::to_string(position) +
             ", head " + std::to_string(head);
    }
  }
  return {};
}

std::string PlannedBatch::cache_difference() const {
  std::vector<bool> used(static_cast<std::size_t>(pages_ * cache_.tokens_per_block));
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    for (std::int64_t position = 0; position < full_lengths_[i]; ++position) {
      used[static_cast<std::size_t>(slot(i, position))] = true;
      std::string wrong = row_difference(cache_.k, sequences_[i].k, i, position);
      wrong = wrong.empty() ? row_difference(cache_.v, sequences_[i].v, i, position) : wrong;
      if (!wrong.empty()) {
        return wrong;
      }
    }
  }
  for (const kernels::CacheOperand* operand : {&cache_.k, &cache_.v}) {
    for (std::size_t at = 0; at < used.size(); ++at) {
      for (std::int64_t head = 0; !used[at] && head < cache_.kv_heads; ++head) {
        const auto slots = static_cast<std::size_t>(cache_.tokens_per_block);
        const auto* const row = static_cast<const std::byte*>(operand->base) +
                                kernels::row_offset(*operand, static_cast<std::int64_t>(at / slots),
                                                    head, static_cast<std::int64_t>(at % slots));
        if (std::any_of(row, row + operand->dim * element_,
                        [](std::byte byte) { return byte != kUntouched; })) {
          return "slot " + std::to_string(at) + " was written and is nobody's";
        }
      }
    }
  }
  return {};
}

}  // namespace kvpool::test
