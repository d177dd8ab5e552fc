// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/validate_geometry.hpp>

#include <kvpool/kernels/operands.hpp>
#include <kvpool/kernels/reference.hpp>
#include <kvpool/memory/host_memory.hpp>
#include <kvpool/memory/host_queue.hpp>
#include <kvpool/plan/planner.hpp>

#include "geometry_plans.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

namespace kvpool::kernels {
namespace {

GeometryKernels on_host() {
  return {.append = [](const AppendParams& params) { return reference::append(params); },
          .attention = [](const AttentionParams& params) { return reference::attention(params); },
          .queue = HostQueue{},
          .scratch = HostMemory{}};
}

GeometryReport report_of(Result<GeometryReport> result) {
  if (!result.has_value()) {
    FAIL(to_string(result.error()));
  }
  return *std::move(result);
}

TEST_CASE("pools on the host are where they were planned", "[geometry]") {
  for (const test::GeometryPlan& sample : test::geometry_plans()) {
    INFO(sample.name);
    const Plan plan = test::planned(sample);
    const auto pools = create_pools(*plan.smallest(), HostMemory{});
    REQUIRE(pools.has_value());
    const GeometryReport report = report_of(validate_geometry_on_host(*pools));
    INFO(report.text());
    CHECK(report.passed());
    std::set<GeometryMethod> methods;
    for (const GeometryCheck& check : report.checks) {
      CHECK(check.pages >= 2);
      methods.insert(check.method);
    }
    CHECK(methods == sample.methods);
    // Every layer of every group.
    for (const PoolDescriptor& pool : pools->pools()) {
      for (std::size_t group = 0; group < pool.groups.size(); ++group) {
        for (const LayerGeometry& layer : pool.groups[group].group.layers) {
          CHECK(std::ranges::any_of(report.checks, [&](const GeometryCheck& check) {
            return check.pool == pool.name && check.group == group && check.layer == layer.layer;
          }));
        }
      }
    }
  }
}

TEST_CASE("the report says what was checked as bytes", "[geometry]") {
  const auto plans = test::geometry_plans();
  const auto sample = std::ranges::find(plans, "records", &test::GeometryPlan::name);
  REQUIRE(sample != plans.end());
  const Plan plan = test::planned(*sample);
  const auto pools = create_pools(*plan.smallest(), HostMemory{});
  REQUIRE(pools.has_value());
  const std::string text = report_of(validate_geometry_on_host(*pools)).text();
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("as bytes: as planned"));
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("fp8_ds_mla"));
}

/// A queue that notes how much it copies at a time.
class WatchedQueue {
 public:
  explicit WatchedQueue(std::set<std::int64_t>& sizes) : sizes_{&sizes} {}
  Result<void> copy_async(std::uintptr_t destination, std::uintptr_t source, Bytes size) {
    sizes_->insert(size.count());
    return queue_.copy_async(destination, source, size);
  }
  Result<Ticket> record() { return queue_.record(); }
  Result<bool> query(Ticket ticket) { return queue_.query(ticket); }
  Result<void> wait(Ticket ticket) { return queue_.wait(ticket); }

 private:
  HostQueue queue_;
  std::set<std::int64_t>* sizes_;
};

TEST_CASE("what is checked as bytes is checked to its last byte", "[geometry]") {
  const auto plans = test::geometry_plans();
  const auto sample = std::ranges::find(plans, "fp8", &test::GeometryPlan::name);
  REQUIRE(sample != plans.end());
  const Plan plan = test::planned(*sample);
  const auto pools = create_pools(*plan.smallest(), HostMemory{});
  REQUIRE(pools.has_value());
  std::set<std::int64_t> sizes;
  GeometryKernels watched = on_host();
  watched.queue = WatchedQueue{sizes};
  CHECK(report_of(validate_geometry(*pools, watched)).passed());
  // K and V of 4 heads, 64 slots and 64 elements of one byte.
  CHECK(sizes == std::set<std::int64_t>{32'768});
}

TEST_CASE("what usable pages held is lost, reserved pages are not touched", "[geometry]") {
  const Plan plan = test::planned(test::geometry_plans().front());
  const auto pools = create_pools(*plan.smallest(), HostMemory{}, {.poison_reserved_pages = true});
  REQUIRE(pools.has_value());
  REQUIRE(report_of(validate_geometry_on_host(*pools)).passed());
  for (std::size_t i = 0; i < pools->pools().size(); ++i) {
    for (const Region& range : pools->reserved_ranges(PoolId{static_cast<std::int32_t>(i)})) {
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(range.address);
      CHECK(std::all_of(bytes, bytes + range.size.count(),
                        [](std::uint8_t byte) { return byte == kPoisonByte; }));
    }
  }
}

/// Host memory whose second region is the first one, moved by some bytes: pools that overlap.
class OverlappingMemory {
 public:
  explicit OverlappingMemory(Bytes shift) : shift_{shift} {}
  Result<Region> reserve(Bytes size) {
    if (!first_.has_value()) {
      const auto whole = upstream_.reserve(size * 2);
      if (!whole) {
        return whole.error();
      }
      if (auto committed = upstream_.commit(*whole, Bytes{0}, whole->size); !committed) {
        return std::move(committed).error();
      }
      first_ = *whole;
      return Region{.address = whole->address, .size = size};
    }
    return Region{.address = first_->address + static_cast<std::uintptr_t>(shift_.count()),
                  .size = size};
  }
  Result<void> commit(const Region& /*region*/, Bytes /*offset*/, Bytes size) {
    held_ += size;
    return {};
  }
  Result<void> decommit(const Region& /*region*/, Bytes /*offset*/, Bytes size) {
    held_ -= size;
    return {};
  }
  Result<void> release(const Region& region) {
    held_ -= region.size;
    return {};
  }
  [[nodiscard]] Bytes granularity() const { return Bytes{2 << 20}; }
  [[nodiscard]] Bytes held() const { return held_; }

 private:
  HostMemory upstream_;
  std::optional<Region> first_{};
  Bytes shift_;
  Bytes held_{};
};

static_assert(PageMemory<OverlappingMemory>);

TEST_CASE("pools that overlap are found", "[geometry]") {
  const Plan plan = test::planned(test::geometry_plans().front());
  REQUIRE(plan.smallest()->pools.size() >= 2);
  for (const Bytes shift : {Bytes{0}, Bytes{4096}}) {
    const auto pools = create_pools(*plan.smallest(), OverlappingMemory{shift});
    REQUIRE(pools.has_value());
    const GeometryReport report = report_of(validate_geometry_on_host(*pools));
    CHECK_FALSE(report.passed());
    CHECK_THAT(report.text(), Catch::Matchers::ContainsSubstring("overlap"));
  }
}

/// A report with an append or an attention whose params were changed.
template <typename Params>
GeometryReport with_change(void (*change)(Params&)) {
  const Plan plan = test::planned(test::geometry_plans().front());
  const auto pools = create_pools(*plan.smallest(), HostMemory{});
  REQUIRE(pools.has_value());
  GeometryKernels kernels = on_host();
  if constexpr (std::is_same_v<Params, AppendParams>) {
    kernels.append = [change](AppendParams params) {
      change(params);
      return reference::append(params);
    };
  } else {
    kernels.attention = [change](AttentionParams params) {
      change(params);
      return reference::attention(params);
    };
  }
  return report_of(validate_geometry(*pools, kernels));
}

TEST_CASE("a kernel that steps through pages or slots wrongly is found", "[geometry]") {
  CHECK(with_change<AppendParams>([](AppendParams&) {}).passed());
  CHECK_FALSE(with_change<AppendParams>([](AppendParams& p) {
                std::swap(p.k_cache.base, p.v_cache.base);
              }).passed());
  CHECK_FALSE(with_change<AppendParams>([](AppendParams& p) {
                p.k_cache.entry_stride_bytes -= 16;
              }).passed());
  CHECK_FALSE(with_change<AppendParams>([](AppendParams& p) {
                p.v_cache.base = static_cast<std::byte*>(p.v_cache.base) - 16;
              }).passed());
  CHECK_FALSE(with_change<AttentionParams>([](AttentionParams& p) {
                p.k.base = static_cast<std::byte*>(p.k.base) + p.k.slot_stride_bytes;
              }).passed());
  CHECK_FALSE(with_change<AttentionParams>([](AttentionParams& p) {
                std::swap(p.k.base, p.v.base);
              }).passed());
}

TEST_CASE("layers that share their memory are found, though each reads what it wrote last",
          "[geometry]") {
  const Plan plan = test::planned(test::geometry_plans().front());
  const auto pools = create_pools(*plan.smallest(), HostMemory{});
  REQUIRE(pools.has_value());
  const CachePair first = cache_operands(*pools, PoolId{0}, 0, LayerIndex{0}).value();
  const CachePair second = cache_operands(*pools, PoolId{0}, 0, LayerIndex{1}).value();
  const auto moved = [&](CacheOperand operand) {
    if (operand.base == second.k.base || operand.base == second.v.base) {
      operand.base = operand.base == second.k.base ? first.k.base : first.v.base;
    }
    return operand;
  };
  const GeometryKernels aliasing{.append =
                                     [&](AppendParams params) {
                                       params.k_cache = moved(params.k_cache);
                                       params.v_cache = moved(params.v_cache);
                                       return reference::append(params);
                                     },
                                 .attention =
                                     [&](AttentionParams params) {
                                       params.k = moved(params.k);
                                       params.v = moved(params.v);
                                       return reference::attention(params);
                                     },
                                 .queue = HostQueue{},
                                 .scratch = HostMemory{}};
  const GeometryReport report = report_of(validate_geometry(*pools, aliasing));
  CHECK_FALSE(report.checks[0].finding.empty());
  CHECK(report.checks[1].finding.empty());
}

TEST_CASE("a kernel that writes nothing is found", "[geometry]") {
  const Plan plan = test::planned(test::geometry_plans().front());
  const auto pools = create_pools(*plan.smallest(), HostMemory{});
  REQUIRE(pools.has_value());
  GeometryKernels lazy = on_host();
  lazy.append = [](const AppendParams&) { return Result<void>{}; };
  CHECK_FALSE(report_of(validate_geometry(*pools, lazy)).passed());
  lazy = on_host();
  lazy.attention = [](const AttentionParams&) { return Result<void>{}; };
  CHECK_FALSE(report_of(validate_geometry(*pools, lazy)).passed());
}

TEST_CASE("a log-sum-exp that is not a number is found", "[geometry]") {
  const Plan plan = test::planned(test::geometry_plans().front());
  const auto pools = create_pools(*plan.smallest(), HostMemory{});
  REQUIRE(pools.has_value());
  GeometryKernels without_lse = on_host();
  without_lse.attention = [](AttentionParams params) {
    params.lse = nullptr;  // what stood there stays
    return reference::attention(params);
  };
  const GeometryReport report = report_of(validate_geometry(*pools, without_lse));
  CHECK_FALSE(report.passed());
  CHECK_THAT(report.text(), Catch::Matchers::ContainsSubstring("product of key and query"));
}

TEST_CASE("of pages of more than 256 slots the first and the last 128 are looked at",
          "[geometry]") {
  test::GeometryPlan sample = test::geometry_plans().front();
  sample.request.drafter.reset();
  sample.request.tokens_per_block = Tokens{512};
  const Plan plan = test::planned(sample);
  const auto pools = create_pools(*plan.smallest(), HostMemory{});
  REQUIRE(pools.has_value());
  std::set<std::int64_t> slots;
  GeometryKernels watched = on_host();
  watched.append = [&slots](const AppendParams& params) {
    for (std::int32_t token = 0; token < params.tokens; ++token) {
      slots.insert(params.slot_mapping[token] % 512);
    }
    return reference::append(params);
  };
  CHECK(report_of(validate_geometry(*pools, watched)).passed());
  CHECK(slots.size() == 256);
  CHECK(slots.contains(127));
  CHECK_FALSE(slots.contains(128));
  CHECK_FALSE(slots.contains(383));
  CHECK(slots.contains(384));
  CHECK(slots.contains(511));
}

TEST_CASE("kernels that count the bytes of a pool in 32 bits are found", "[geometry]") {
  // Pages of one token, of 128 bytes, and one more than 2^32 bytes hold: entry 2^25 + 1 has the
  // offset of entry 1 then, for append and for attention alike.
  constexpr std::int64_t kWrap = std::int64_t{1} << 25;
  const LayerGroup group{.layers = {{.layer = LayerIndex{0},
                                     .kind = CacheKind::kKeyValue,
                                     .query_heads = Heads{1},
                                     .kv_heads = Heads{1},
                                     .key_dim = 32,
                                     .value_dim = 32}}};
  auto pool = describe_pool({.name = "target",
                             .groups = {group},
                             .tokens_per_block = Tokens{1},
                             .granularity = Bytes{2 << 20},
                             .reserved_slabs = Slabs{1}});
  REQUIRE(pool.has_value());
  pool->slabs = Slabs{kWrap + 1};
  REQUIRE(pool->unit_bytes == Bytes{128});
  const auto pools = PoolSet::create(std::vector{*pool}, HostMemory{});
  REQUIRE(pools.has_value());
  CHECK(report_of(validate_geometry_on_host(*pools)).passed());
  GeometryKernels narrow = on_host();
  narrow.append = [](AppendParams params) {
    std::vector<std::int64_t> slots(params.slot_mapping, params.slot_mapping + params.tokens);
    std::ranges::for_each(slots, [](std::int64_t& slot) { slot %= kWrap; });
    params.slot_mapping = slots.data();
    return reference::append(params);
  };
  narrow.attention = [](AttentionParams params) {
    std::vector<std::int32_t> entries(
        params.table.entries,
        params.table.entries + params.table.rows * params.table.row_stride_entries);
    std::ranges::for_each(
        entries, [](std::int32_t& entry) { entry = static_cast<std::int32_t>(entry % kWrap); });
    params.table.entries = entries.data();
    return reference::attention(params);
  };
  CHECK_FALSE(report_of(validate_geometry(*pools, narrow)).passed());
}

TEST_CASE("attention that does not walk over the pages of a row is found", "[geometry]") {
  const Plan plan = test::planned(test::geometry_plans().front());
  const auto pools = create_pools(*plan.smallest(), HostMemory{});
  REQUIRE(pools.has_value());
  std::set<std::int64_t> columns;
  GeometryKernels standing = on_host();
  standing.attention = [&columns](AttentionParams params) {
    // Every block of a row is its first.
    const std::int64_t stride = params.table.row_stride_entries;
    columns.insert(stride);
    std::vector<std::int32_t> entries(params.table.entries,
                                      params.table.entries + params.table.rows * stride);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      entries[i] = entries[i - i % static_cast<std::size_t>(stride)];
    }
    params.table.entries = entries.data();
    return reference::attention(params);
  };
  const GeometryReport report = report_of(validate_geometry(*pools, standing));
  CHECK_FALSE(report.passed());
  CHECK_THAT(report.text(), Catch::Matchers::ContainsSubstring("in a table of several pages"));
  CHECK(columns.contains(1));
  CHECK(*columns.rbegin() > 1);
}

TEST_CASE("what a kernel refuses is an error", "[geometry]") {
  const Plan plan = test::planned(test::geometry_plans().front());
  const auto pools = create_pools(*plan.smallest(), HostMemory{});
  REQUIRE(pools.has_value());
  GeometryKernels broken = on_host();
  broken.append = [](const AppendParams&) -> Result<void> {
    return Error{.code = ErrorCode::kDevice, .message = "the device is gone"};
  };
  const auto report = validate_geometry(*pools, broken);
  REQUIRE_FALSE(report.has_value());
  CHECK(report.error().message == "the device is gone");
}

}  // namespace
}  // namespace kvpool::kernels
