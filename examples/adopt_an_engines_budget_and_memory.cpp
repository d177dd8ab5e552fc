// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// An engine that has its own allocator says: this is my memory, make your pools in it. The plan
// starts from the number of bytes, the pools lie between the engine's pointers, and the engine's
// account can take kvpool's ledger as it is. If the engine gives less, nothing is allocated.
#include <kvpool/core/size_text.hpp>
#include <kvpool/memory/borrowed_memory.hpp>
#include <kvpool/plan/planner.hpp>
#include <kvpool/pool/pool_set.hpp>

#include "claims.hpp"

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <new>

namespace {

using kvpool::BorrowedMemory;
using kvpool::Bytes;
using kvpool::PoolSet;
using kvpool::Result;

/// The engine's allocation; on a GPU it would come from cudaMalloc.
class EngineMemory {
 public:
  explicit EngineMemory(Bytes size)
      : data_{::operator new(static_cast<std::size_t>(size.count()), kAlignment)} {}
  EngineMemory(const EngineMemory&) = delete;
  EngineMemory& operator=(const EngineMemory&) = delete;
  ~EngineMemory() { ::operator delete(data_, kAlignment); }

  [[nodiscard]] std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(data_); }

 private:
  static constexpr std::align_val_t kAlignment{kvpool::kRegionAlignment.count()};
  void* data_;
};

/// A model can be written by hand as well as read from a file: 16 layers, every second one with a
/// window, 8 KV heads of 128.
kvpool::ModelConfig engine_model() {
  kvpool::ModelConfig model{.name = "engine model",
                            .native_dtype = kvpool::KvDtype::kBf16,
                            .max_positions = kvpool::Tokens{32'768}};
  for (std::int32_t layer = 0; layer < 16; ++layer) {
    const bool has_window = layer % 2 == 1;
    model.layers.push_back({.index = kvpool::LayerIndex{layer},
                            .caches = {kvpool::AttentionCache{
                                .query_heads = kvpool::Heads{32},
                                .kv_heads = kvpool::Heads{8},
                                .key_dim = 128,
                                .value_dim = 128,
                                .span = has_window ? kvpool::Span{kvpool::SpanKind::kSlidingWindow,
                                                                  kvpool::Tokens{1'024}}
                                                   : kvpool::Span{}}}});
  }
  return model;
}

kvpool::PlanRequest request_for(Bytes budget) {
  kvpool::PlanRequest request{.target = engine_model()};
  // What kvpool owns is this and no more. Nothing about the GPU or the weights is looked at.
  request.budget.kv_budget = budget;
  // Borrowed memory is there already: it is not mapped in granules of 2 MiB, so that pools need
  // not be rounded up to them.
  request.granularity = kvpool::kRegionAlignment;
  request.workload.max_model_len = kvpool::Tokens{8'192};
  request.workload.max_num_seqs = kvpool::Sequences{2};
  return request;
}

}  // namespace

int main() {
  const auto registry = kvpool::CapabilityRegistry::with_known_kernels();
  const Bytes budget{1 << 30};
  const EngineMemory engine{budget};
  example::Claims claims;

  const auto plan = kvpool::make_plan(request_for(budget), registry);
  if (!plan) {
    return example::fail(plan.error());
  }
  if (!plan->fits) {
    return example::fail(plan->refusals.front());
  }
  const auto borrowed = BorrowedMemory::create(engine.address(), budget);
  if (!borrowed) {
    return example::fail(borrowed.error());
  }
  const kvpool::PoolPlan& rank = plan->ranks.front();
  {
    const Result<PoolSet> pools = PoolSet::create(rank.pools, *borrowed);
    if (!pools) {
      return example::fail(pools.error());
    }
    Bytes charged;
    for (const kvpool::PoolCharge& line : pools->ledger()) {
      std::cout << line.pool << ": charged " << kvpool::size_text(line.charged) << ", held "
                << kvpool::size_text(line.held) << '\n';
      claims.claim(line.charged == line.held, "charged is held");
      charged += line.charged;
    }
    claims.claim(charged == borrowed->held(), "the memory says the same");
    claims.claim(charged <= budget, "it is no more than the engine gave");
    claims.claim(pools->base(kvpool::PoolId{0}) == engine.address(), "it is the engine's memory");
  }
  claims.claim(borrowed->held() == Bytes{0}, "the pools give it back; the engine frees it");

  // The engine gives half of what was planned: all or nothing, and nothing stays held.
  const auto half = BorrowedMemory::create(engine.address(), Bytes{budget.count() / 2});
  if (!half) {
    return example::fail(half.error());
  }
  const Result<PoolSet> refused = PoolSet::create(rank.pools, *half);
  claims.claim(!refused && refused.error().code == kvpool::ErrorCode::kExhausted,
               "pools do not fit into less memory than planned");
  claims.claim(half->held() == Bytes{0}, "and nothing stays allocated");
  if (!refused) {
    std::cout << "  " << refused.error().message << '\n';
  }

  // The engine plans with what it really has, too little: the refusal says what is missing.
  const auto small = kvpool::make_plan(request_for(Bytes{640 << 20}), registry);
  if (!small) {
    return example::fail(small.error());
  }
  claims.claim(
      !small->fits && !small->refusals.empty() && small->refusals.front().missing_bytes.count() > 0,
      "a budget that is too small is refused, with the bytes that are missing");
  for (const kvpool::Refusal& refusal : small->refusals) {
    std::cout << "  " << refusal.what << "\n  would work: " << refusal.least_that_works << '\n';
  }
  return claims.exit_code();
}
