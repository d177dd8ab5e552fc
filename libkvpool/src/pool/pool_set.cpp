// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/pool/pool_set.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace kvpool {
namespace {

Error refused(const PoolDescriptor& pool, ErrorCode code, const std::string& why) {
  return {.code = code, .message = fmt::format("pool {}: {}", pool.name, why), .key = pool.name};
}

/// What must hold of descriptors before any memory is touched.
Result<void> check_descriptors(std::span<const PoolDescriptor> pools, Bytes granularity) {
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const PoolDescriptor& pool = pools[i];
    if (granularity.count() <= 0 || pool.granularity.count() <= 0 ||
        (pool.granularity % granularity).count() != 0) {
      return refused(pool, ErrorCode::kInvalidArgument,
                     fmt::format("charged in granules of {} bytes, but the memory maps granules of "
                                 "{}; plan with the memory's granularity",
                                 pool.granularity.count(), granularity.count()));
    }
    if (pool.bytes().count() <= 0) {
      return refused(pool, ErrorCode::kInvalidArgument, "it has no pages");
    }
    const auto same_name = [&pool](const PoolDescriptor& other) { return other.name == pool.name; };
    if (std::ranges::any_of(pools.first(i), same_name)) {
      return refused(pool, ErrorCode::kInvalidArgument, "two pools have this name");
    }
  }
  return {};
}

}  // namespace

struct PoolSet::Impl {
  AnyPageMemory memory;
  std::vector<PoolDescriptor> pools{};
  std::vector<Region> regions{};
  std::vector<PoolCharge> ledger{};

  explicit Impl(AnyPageMemory from) : memory{std::move(from)} {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { release(); }

  /// Allocates one more pool; on failure nothing of it stays held.
  Result<void> allocate(const PoolDescriptor& pool) {
    const Bytes charged = pool.charged_bytes();
    const Bytes before = memory.held();
    auto region = memory.reserve(charged);
    if (!region) {
      return refused(pool, region.error().code, region.error().message);
    }
    // From here on `release()` gives the region back.
    pools.push_back(pool);
    regions.push_back(*region);
    if (auto committed = memory.commit(*region, Bytes{0}, charged); !committed) {
      return refused(pool, committed.error().code, committed.error().message);
    }
    const Bytes held = memory.held() - before;
    if (held > charged) {
      return refused(pool, ErrorCode::kInternal,
                     fmt::format("the memory holds {} bytes, {} more than were charged",
                                 held.count(), (held - charged).count()));
    }
    if (region->address % static_cast<std::uintptr_t>(kBaseAlignment.count()) != 0) {
      return refused(pool, ErrorCode::kInternal,
                     fmt::format("its base is not aligned to {} bytes", kBaseAlignment.count()));
    }
    ledger.push_back({.pool = pool.name, .charged = charged, .held = held});
    return {};
  }

  /// Gives regions back, the newest first.
  void release() noexcept {
    while (!regions.empty()) {
      // A failure here means that the memory itself is gone; there is nobody left to tell.
      static_cast<void>(memory.release(regions.back()));
      regions.pop_back();
    }
    pools.clear();
    ledger.clear();
  }
};

PoolSet::PoolSet(std::unique_ptr<Impl> impl) noexcept : impl_{std::move(impl)} {}
PoolSet::PoolSet(PoolSet&& other) noexcept = default;
PoolSet& PoolSet::operator=(PoolSet&& other) noexcept = default;
PoolSet::~PoolSet() = default;

Result<PoolSet> PoolSet::create(std::span<const PoolDescriptor> pools, AnyPageMemory memory,
                                PoolSetOptions options) {
  if (auto checked = check_descriptors(pools, memory.granularity()); !checked) {
    return std::move(checked).error();
  }
  auto impl = std::make_unique<Impl>(std::move(memory));
  for (const PoolDescriptor& pool : pools) {
    if (auto allocated = impl->allocate(pool); !allocated) {
      return std::move(allocated).error();
    }
  }
  if (options.poison_reserved_pages) {
    for (std::size_t i = 0; i < pools.size(); ++i) {
      for (const PoolRange& range : kvpool::reserved_ranges(pools[i])) {
        // The caller vouches that the memory is writable from here: that is the option's meaning.
        void* first = reinterpret_cast<void*>(  // NOLINT: an address is a pointer here
            impl->regions[i].address + static_cast<std::uintptr_t>(range.offset.count()));
        std::memset(first, kPoisonByte, static_cast<std::size_t>(range.size.count()));
      }
    }
  }
  return PoolSet{std::move(impl)};
}

std::span<const PoolDescriptor> PoolSet::pools() const noexcept {
  return impl_ == nullptr ? std::span<const PoolDescriptor>{} : impl_->pools;
}

std::optional<PoolId> PoolSet::find(std::string_view name) const noexcept {
  const std::span<const PoolDescriptor> all = pools();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) {
      return PoolId{static_cast<std::int32_t>(i)};
    }
  }
  return std::nullopt;
}

const PoolDescriptor& PoolSet::descriptor(PoolId pool) const noexcept {
  return impl_->pools[static_cast<std::size_t>(pool.value())];
}

std::uintptr_t PoolSet::base(PoolId pool) const noexcept {
  return impl_->regions[static_cast<std::size_t>(pool.value())].address;
}

std::uintptr_t PoolSet::entry_address(PoolId pool, std::int64_t entry) const noexcept {
  return base(pool) + static_cast<std::uintptr_t>(entry * descriptor(pool).unit_bytes.count());
}

std::vector<Region> PoolSet::reserved_ranges(PoolId pool) const {
  std::vector<Region> ranges;
  for (const PoolRange& range : kvpool::reserved_ranges(descriptor(pool))) {
    ranges.push_back({.address = base(pool) + static_cast<std::uintptr_t>(range.offset.count()),
                      .size = range.size});
  }
  return ranges;
}

std::vector<PlacedView> PoolSet::views(PoolId pool, std::size_t group) const {
  std::vector<PlacedView> placed;
  for (TensorView& view : views_of(descriptor(pool), group)) {
    const std::uintptr_t address = base(pool) + static_cast<std::uintptr_t>(view.offset.count());
    placed.push_back({.view = std::move(view), .address = address});
  }
  return placed;
}

std::span<const PoolCharge> PoolSet::ledger() const noexcept {
  return impl_ == nullptr ? std::span<const PoolCharge>{} : impl_->ledger;
}

void PoolSet::reset() noexcept {
  if (impl_ != nullptr) {
    impl_->release();
  }
}

}  // namespace kvpool
