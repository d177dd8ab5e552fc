// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/reference.hpp>
#include <kvpool/memory/host_memory.hpp>
#include <kvpool/memory/host_queue.hpp>

#include "arithmetic.hpp"
#include "backend.hpp"
#include "cache_layers.hpp"
#include "packed_plans.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

namespace example {
namespace {

using kvpool::Result;
namespace kernels = kvpool::kernels;

/// A pass of one model over some tokens.
struct Pass {
  PassKind kind = PassKind::kExtend;
  std::span<const std::int32_t> tokens{};
  std::span<const std::int32_t> positions{};
  QueryRows rows{};
  /// Slots of a group: [tokens] from `slots + group * slot_stride`.
  const std::int64_t* slots = nullptr;
  std::int64_t slot_stride = 0;
};

class CpuBackend final : public Backend {
 public:
  [[nodiscard]] std::string name() const override { return "cpu"; }

  [[nodiscard]] BackendMemory memory() const override {
    // Pools are planned in granules of 4 KiB, so that small ones are what was asked for.
    return {.pools = kvpool::HostMemory::create(kvpool::Bytes{4096}).value(),
            .tables = kvpool::HostMemory{},
            .staging = kvpool::HostMemory{},
            .queue = kvpool::HostQueue{}};
  }

  Result<void> set_up(const BackendSetup& setup) override {
    setup_ = setup;
    arrays_.resize(static_cast<std::size_t>(setup.layout.bytes()));
    for (const bool of_drafter : {false, true}) {
      auto layers = cache_layers(*setup.pools, setup.manager->groups(), of_drafter);
      if (!layers) {
        return std::move(layers).error();
      }
      (of_drafter ? draft_layers_ : target_layers_) = *std::move(layers);
    }
    const ModelShape& shape = setup.models->target.shape;
    rope_ = make_rope_table(shape.head_dim, setup.max_length);
    // What a GPU would launch is checked here, too, where it would: plans as of an H200.
    if (target_layers_.front().cache.k.type == kernels::ElementType::kBf16) {
      auto plans = PackedPlans::create(shape, setup.layout.rows(),
                                       setup.layout.capacity() / setup.layout.rows(), 132);
      if (plans) {
        packed_memory_.resize(static_cast<std::size_t>(plans->bytes().count()) + 256);
        const std::uintptr_t base = kvpool::address_of(packed_memory_.data());
        plans->place((base + 255) / 256 * 256);
        packed_ = *std::move(plans);
      }
    }
    return {};
  }

  [[nodiscard]] std::uintptr_t arrays() const override {
    return kvpool::address_of(arrays_.data());
  }

  void poison(std::uintptr_t address, kvpool::Bytes bytes) noexcept override {
    std::memset(reinterpret_cast<void*>(address), kvpool::kPoisonByte,  // NOLINT: of a pool
                static_cast<std::size_t>(bytes.count()));
  }

  Result<void> copy_pages(const kvpool::CacheGroup& group,
                          std::span<const kernels::PageCopyPair> pairs) override {
    return kernels::reference::copy_pages(
        copy_params(*setup_.pools, group, pairs.data(), static_cast<std::int32_t>(pairs.size())));
  }

  Result<void> apply_tables(const kvpool::TableUpdate& /*update*/) override {
    return {};  // the queue has copied the entries
  }

  Result<Extended> extend(std::int32_t tokens, std::int32_t most) override {
    const ExtendArrays arrays = setup_.layout.extend(this->arrays());
    const auto count = static_cast<std::size_t>(tokens);
    const auto logits = run_target({.kind = PassKind::kExtend,
                                    .tokens = {arrays.tokens, count},
                                    .positions = {arrays.positions, count},
                                    .rows = {.tokens = tokens,
                                             .most = most,
                                             .q_indptr = arrays.q_indptr,
                                             .lengths = arrays.lengths},
                                    .slots = arrays.slots,
                                    .slot_stride = setup_.layout.capacity()});
    if (!logits) {
      return logits.error();
    }
    return Extended{.best = largest(*logits)};
  }

  Result<Verified> speculate() override {
    const BlockArrays arrays = setup_.layout.block(this->arrays());
    auto drafted = draft(arrays);
    if (!drafted) {
      return std::move(drafted).error();
    }
    Verified verified{.drafted = *std::move(drafted)};
    const auto rows = static_cast<std::size_t>(setup_.layout.rows());
    for (std::size_t i = 0; i < rows * kDrafts; ++i) {
      verified.proposed.push_back(arrays.proposals[i] < 0 ? verified.drafted[i]
                                                          : arrays.proposals[i]);
    }
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> positions;
    for (std::size_t row = 0; row < rows; ++row) {
      tokens.push_back(arrays.anchors[row]);
      const auto first = verified.proposed.begin() + static_cast<std::ptrdiff_t>(row * kDrafts);
      tokens.insert(tokens.end(), first, first + kDrafts);
      positions.resize(positions.size() + kBlock);
      std::iota(positions.end() - kBlock, positions.end(), arrays.firsts[row]);
    }
    const auto logits = run_target({.kind = PassKind::kVerify,
                                    .tokens = tokens,
                                    .positions = positions,
                                    .rows = {.tokens = static_cast<std::int32_t>(tokens.size()),
                                             .most = kBlock,
                                             .lengths = arrays.lengths},
                                    .slots = arrays.slots,
                                    .slot_stride = setup_.layout.rows() * kBlock});
    if (!logits) {
      return logits.error();
    }
    verified.best = largest(*logits);
    return verified;
  }

 private:
  /// The drafter's block: the anchor and masks behind it, each of which says what follows it.
  Result<std::vector<std::int32_t>> draft(const BlockArrays& arrays) {
    const Models& models = *setup_.models;
    const std::int64_t rows = setup_.layout.rows();
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> positions;
    // Slots of the block without its last token, for each group.
    std::vector<std::int64_t> slots;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int32_t i = 0; i < kDrafts; ++i) {
        tokens.push_back(i == 0 ? arrays.anchors[row] : models.target.shape.vocabulary);
        positions.push_back(arrays.firsts[row] + i);
      }
    }
    for (std::int64_t i = 0; i < setup_.layout.groups() * rows; ++i) {
      slots.insert(slots.end(), arrays.slots + i * kBlock, arrays.slots + i * kBlock + kDrafts);
    }
    const Pass pass{.kind = PassKind::kDraft,
                    .tokens = tokens,
                    .positions = positions,
                    .rows = {.tokens = static_cast<std::int32_t>(tokens.size()),
                             .most = kDrafts,
                             .lengths = arrays.draft_lengths,
                             .causal = false},
                    .slots = slots.data(),
                    .slot_stride = rows * kDrafts};
    const auto x = run_layers(models.drafter, draft_layers_, pass);
    if (!x) {
      return x.error();
    }
    return largest(multiply(norm(*x, models.drafter.final_norm), models.target.head));
  }

  /// The target over a pass, and what its hidden states leave in the drafter's cache.
  Result<Rows> run_target(const Pass& pass) {
    const Models& models = *setup_.models;
    const auto x = run_layers(models.target, target_layers_, pass);
    if (!x) {
      return x.error();
    }
    for (std::size_t i = 0; i < draft_layers_.size(); ++i) {
      const LayerWeights& weights = models.drafter.layers[i];
      if (auto written =
              write_cache(weights, draft_layers_[i], norm(*x, weights.attention_norm), pass);
          !written) {
        return std::move(written).error();
      }
    }
    return multiply(norm(*x, models.target.final_norm), models.target.head);
  }

  Result<Rows> run_layers(const Model& model, const std::vector<CacheLayer>& layers,
                          const Pass& pass) {
    Model const& embedding = setup_.models->target;
    Rows x = embed(embedding, pass.tokens);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const LayerWeights& weights = model.layers[i];
      const Rows in = norm(x, weights.attention_norm);
      if (auto written = write_cache(weights, layers[i], in, pass); !written) {
        return std::move(written).error();
      }
      const auto seen = attend(weights, layers[i], in, pass);
      if (!seen) {
        return seen.error();
      }
      add(x, multiply(*seen, weights.output));
      add(x, mlp(norm(x, weights.mlp_norm), weights));
    }
    return x;
  }

  Result<void> write_cache(const LayerWeights& weights, const CacheLayer& layer, const Rows& in,
                           const Pass& pass) const {
    Rows key = multiply(in, weights.key);
    rotate(key, layer.cache.k.dim, rope_, pass.positions);
    const auto keys = encode(key, layer.cache.k.type);
    const auto values = encode(multiply(in, weights.value), layer.cache.v.type);
    const std::int64_t* const slots = pass.slots + layer.group.value() * pass.slot_stride;
    return kernels::reference::append(
        append_params(layer, {.key = keys.data(), .value = values.data()}, slots,
                      static_cast<std::int32_t>(pass.tokens.size())));
  }

  [[nodiscard]] Result<Rows> attend(const LayerWeights& weights, const CacheLayer& layer,
                                    const Rows& in, const Pass& pass) const {
    Rows query = multiply(in, weights.query);
    rotate(query, layer.cache.k.dim, rope_, pass.positions);
    const auto queries = encode(query, layer.cache.k.type);
    std::vector<std::byte> out(queries.size());
    const kvpool::PageTableView tables =
        setup_.tables->view(layer.group, setup_.pools->base(layer.pool));
    const kernels::AttentionParams params =
        attention_params(layer, {.query = queries.data(), .out = out.data()}, tables, pass.rows);
    if (packed_.has_value()) {
      if (auto checked = check_packed(params, pass.kind); !checked) {
        return std::move(checked).error();
      }
    }
    if (auto done = kernels::reference::attention(params); !done) {
      return std::move(done).error();
    }
    return decode(out, query.width, layer.cache.k.type);
  }

  /// Whether a GPU would take this, and could plan it.
  [[nodiscard]] Result<void> check_packed(const kernels::AttentionParams& params,
                                          PassKind kind) const {
    const auto packed = packed_->with_plan(params, kind);
    if (!packed) {
      return packed.error();
    }
    if (auto planned = kernels::plan_packed_attention_on_host(kernels::packed_plan_params(*packed));
        !planned) {
      return planned;
    }
    return kernels::check_packed(*packed);
  }

  BackendSetup setup_;
  std::vector<std::byte> arrays_;
  std::optional<PackedPlans> packed_;
  std::vector<std::byte> packed_memory_;
  std::vector<CacheLayer> target_layers_;
  std::vector<CacheLayer> draft_layers_;
  RopeTable rope_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace example
