// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "plan/stage_pools.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace kvpool {
namespace {

/// What a pool of so many usable slabs is charged; more than 64 bits count as the most there is, so
/// that sums of charges do not fail.
CheckedInt charge(const PoolDescriptor& pool, CheckedInt slabs) {
  return CheckedInt{pool.charged_bytes(Slabs{slabs.saturated()}).count()};
}

Load within(Load load, Tokens longest) {
  return {.sequences = load.sequences, .length = std::min(load.length, longest)};
}

/// Slabs of a model's main pool that its fixed groups take.
CheckedInt fixed_slabs(const ModelPools& model, Load load, const SizingRules& rules) {
  CheckedInt slabs{0};
  const PoolDescriptor& main = model.pools[model.main_pool];
  for (std::size_t group = 0; group < main.groups.size(); ++group) {
    if (group != model.main_group || !model.grows) {
      slabs +=
          slabs_needed(main.groups[group], within(load, model.max_len), model.lookahead, rules);
    }
  }
  return slabs;
}

/// Cost of a model on a stage: what does not depend on length, and bytes a token. The slopes of two
/// models are put over `denominator` so that they stay exact.
struct ModelCost {
  CheckedInt fixed{0};
  CheckedInt slab_bytes{0};
  std::int64_t tokens_per_slab = 1;
};

ModelCost cost_of(const ModelPools& model, Load load, const SizingRules& rules) {
  ModelCost cost;
  for (std::size_t i = 0; i < model.pools.size(); ++i) {
    const PoolDescriptor& pool = model.pools[i];
    if (i != model.main_pool) {
      cost.fixed +=
          charge(pool, slabs_needed(pool, within(load, model.max_len), model.lookahead, rules));
    }
  }
  const PoolDescriptor& main = model.pools[model.main_pool];
  const CheckedInt fixed = fixed_slabs(model, load, rules);
  if (!model.grows) {
    cost.fixed += charge(main, fixed);
    return cost;
  }
  const PooledGroup& group = main.groups[model.main_group];
  const std::int64_t page = group.page.tokens_per_block.count();
  cost.fixed += (fixed + main.reserved_slabs.count()) * main.slab_bytes.count();
  cost.slab_bytes = CheckedInt{main.slab_bytes.count()};
  cost.tokens_per_slab = page * group.pages_per_slab;
  if (rules.reserve_last_pages) {
    cost.fixed += ceil_div(CheckedInt{load.sequences.count()} * (page - 1) * cost.slab_bytes,
                           CheckedInt{cost.tokens_per_slab});
  }
  return cost;
}

/// Costs of target and draft with slopes over one common token count, as the split takes them.
std::pair<AffineCost, AffineCost> comparable(const ModelCost& target, const ModelCost& draft) {
  const std::int64_t common = std::lcm(target.tokens_per_slab, draft.tokens_per_slab);
  const auto affine = [common](const ModelCost& cost) {
    return AffineCost{
        .fixed_bytes = Bytes{cost.fixed.saturated()},
        .bytes_per_token = Bytes{(cost.slab_bytes * (common / cost.tokens_per_slab)).saturated()}};
  };
  return {affine(target), affine(draft)};
}

/// Gives a model's pools their slabs out of its share.
/// @return bytes that are missing, 0 when the share suffices
CheckedInt size_model(const ModelPools& model, Bytes share, Load planned, const SizingRules& rules,
                      StageSizes& sizes) {
  const std::size_t first = sizes.slabs.size();
  Bytes rest = share;
  for (const PoolDescriptor& pool : model.pools) {
    const CheckedInt slabs =
        slabs_needed(pool, within(planned, model.max_len), model.lookahead, rules);
    sizes.slabs.emplace_back(slabs.saturated());
    sizes.shares.emplace_back(charge(pool, slabs).saturated());
    if (&pool != &model.pools[model.main_pool]) {
      rest = Bytes{(CheckedInt{rest.count()} - charge(pool, slabs)).saturated()};
    }
  }
  const PoolDescriptor& main = model.pools[model.main_pool];
  const CheckedInt least = fixed_slabs(model, planned, rules) + (model.grows ? 1 : 0);
  const Slabs slabs = main.most_slabs_within(rest);
  if (slabs.count() < least.saturated()) {
    return charge(main, least) - rest.count();
  }
  sizes.slabs[first + model.main_pool] = slabs;
  sizes.shares[first + model.main_pool] = rest;
  return CheckedInt{0};
}

}  // namespace

SizingRules sizing_rules(const PlanRequest& request, const Resolution& resolution) {
  return {.state_slots_per_seq = resolution.state_slots_per_seq,
          .max_batched_tokens = request.workload.max_batched_tokens,
          .decode_context = request.parallelism.decode_context,
          .reserve_last_pages = request.workload.max_num_seqs.has_value()};
}

CheckedInt slabs_needed(const PooledGroup& group, std::span<const Load> loads, Tokens lookahead,
                        const SizingRules& rules) {
  const LayerGroup& layers = group.group;
  const Tokens page = group.page.tokens_per_block;
  CheckedInt pages{0};
  CheckedInt behind{0};
  for (const Load& load : loads) {
    if (layers.is_state) {
      pages += CheckedInt{load.sequences.count()} * rules.state_slots_per_seq;
      continue;
    }
    // Under decode-context parallelism a rank keeps its part of every sequence.
    const Tokens length{ceil_div(load.length.count(), rules.decode_context)};
    const Pages per_sequence = pages_of_sequence(layers, length, page, lookahead);
    pages += CheckedInt{load.sequences.count()} * per_sequence.count();
    behind +=
        CheckedInt{load.sequences.count()} * (pages_ceil(length, page) - per_sequence).count();
  }
  if (layers.is_state) {
    return pages;
  }
  if (layers.span.kind == SpanKind::kSlidingWindow || layers.span.kind == SpanKind::kChunked) {
    // Prompts that are being read hold the tokens of one step beyond the window.
    pages += min(behind, CheckedInt{pages_ceil(rules.max_batched_tokens, page).count()});
  }
  return ceil_div(pages, CheckedInt{group.pages_per_slab});
}

CheckedInt slabs_needed(const PooledGroup& group, Load load, Tokens lookahead,
                        const SizingRules& rules) {
  return slabs_needed(group, std::span{&load, 1}, lookahead, rules);
}

CheckedInt slabs_needed(const PoolDescriptor& pool, Load load, Tokens lookahead,
                        const SizingRules& rules) {
  CheckedInt slabs{0};
  for (const PooledGroup& group : pool.groups) {
    slabs += slabs_needed(group, load, lookahead, rules);
  }
  return slabs;
}

StageSizes size_stage(const StagePools& stage, Bytes budget, Load planned,
                      const SizingRules& rules) {
  StageSizes sizes;
  StageSizes states;
  CheckedInt rest{budget.count()};
  for (const PoolDescriptor& pool : stage.states) {
    const CheckedInt slots = slabs_needed(pool, planned, Tokens{0}, rules);
    states.slabs.emplace_back(slots.saturated());
    states.shares.emplace_back(charge(pool, slots).saturated());
    rest = rest - charge(pool, slots);
  }
  const auto cost = [&](const std::optional<ModelPools>& model) {
    return model.has_value() ? cost_of(*model, planned, rules) : ModelCost{};
  };
  const auto [target, draft] = comparable(cost(stage.target), cost(stage.draft));
  BudgetShares shares{.target = Bytes{rest.saturated()}, .draft = Bytes{0}};
  if (stage.draft.has_value()) {
    const BudgetSplit split = split_budget(shares.target, target, draft);
    if (split.refusal.has_value()) {
      sizes.missing = split.refusal->missing_bytes;
      return sizes;
    }
    shares = *split.shares;
    if (!stage.target.has_value()) {
      shares = {.target = Bytes{0}, .draft = Bytes{rest.saturated()}};
    }
  } else if (!stage.target.has_value() && !stage.states.empty()) {
    const PoolDescriptor& last = stage.states.back();
    const Bytes all{(rest + states.shares.back().count()).saturated()};
    const Slabs slots = last.most_slabs_within(all);
    if (slots >= states.slabs.back()) {
      states.slabs.back() = slots;
      states.shares.back() = all;
      shares.target = Bytes{0};
    }
  }
  CheckedInt missing = max(CheckedInt{0} - shares.target.count(), CheckedInt{0});
  if (stage.target.has_value()) {
    missing += size_model(*stage.target, shares.target, planned, rules, sizes);
  }
  if (stage.draft.has_value()) {
    missing += size_model(*stage.draft, shares.draft, planned, rules, sizes);
  }
  std::ranges::copy(states.slabs, std::back_inserter(sizes.slabs));
  std::ranges::copy(states.shares, std::back_inserter(sizes.shares));
  sizes.missing = Bytes{missing.saturated()};
  return sizes;
}

bool stage_fits(const StagePools& stage, const StageSizes& sizes, Load load,
                const SizingRules& rules) {
  if (sizes.missing.count() > 0) {
    return false;
  }
  std::size_t next = 0;
  const auto holds = [&](const PoolDescriptor& pool, Load here, Tokens lookahead) {
    return slabs_needed(pool, here, lookahead, rules).saturated() <= sizes.slabs[next++].count();
  };
  for (const auto* model : {&stage.target, &stage.draft}) {
    if (!model->has_value()) {
      continue;
    }
    for (const PoolDescriptor& pool : (*model)->pools) {
      if (!holds(pool, within(load, (*model)->max_len), (*model)->lookahead)) {
        return false;
      }
    }
  }
  return std::ranges::all_of(
      stage.states, [&](const PoolDescriptor& pool) { return holds(pool, load, Tokens{0}); });
}

std::vector<PoolDescriptor> sized_pools(const StagePools& stage, const StageSizes& sizes,
                                        Load planned, const SizingRules& rules) {
  std::vector<PoolDescriptor> pools;
  const auto add = [&](PoolDescriptor pool, Load load, Tokens lookahead, std::size_t main_group) {
    pool.slabs = sizes.slabs[pools.size()];
    Slabs left = pool.slabs;
    for (std::size_t i = 0; i < pool.groups.size(); ++i) {
      if (i != main_group) {
        const CheckedInt needed = slabs_needed(pool.groups[i], load, lookahead, rules);
        pool.groups[i].planned_slabs = std::min(left, Slabs{needed.saturated()});
        left -= pool.groups[i].planned_slabs;
      }
    }
    pool.groups[main_group].planned_slabs = left;
    pools.push_back(std::move(pool));
  };
  for (const auto* model : {&stage.target, &stage.draft}) {
    if (!model->has_value()) {
      continue;
    }
    for (std::size_t i = 0; i < (*model)->pools.size(); ++i) {
      add((*model)->pools[i], within(planned, (*model)->max_len), (*model)->lookahead,
          i == (*model)->main_pool ? (*model)->main_group : 0);
    }
  }
  for (const PoolDescriptor& pool : stage.states) {
    add(pool, planned, Tokens{0}, 0);
  }
  return pools;
}

std::optional<Tokens> stage_tokens(const StagePools& stage, const StageSizes& sizes, Load planned,
                                   const SizingRules& rules) {
  std::optional<Tokens> fewest;
  std::size_t first = 0;
  for (const auto* model : {&stage.target, &stage.draft}) {
    if (!model->has_value()) {
      continue;
    }
    if ((*model)->grows) {
      const PooledGroup& group = (*model)->pools[(*model)->main_pool].groups[(*model)->main_group];
      const CheckedInt slabs = CheckedInt{sizes.slabs[first + (*model)->main_pool].count()} -
                               fixed_slabs(**model, planned, rules);
      const Tokens tokens{(max(slabs, CheckedInt{0}) * group.pages_per_slab *
                           group.page.tokens_per_block.count() * rules.decode_context)
                              .saturated()};
      fewest = fewest.has_value() ? std::min(*fewest, tokens) : tokens;
    }
    first += (*model)->pools.size();
  }
  return fewest;
}

}  // namespace kvpool
