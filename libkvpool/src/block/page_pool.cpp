// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/block/page_pool.hpp>

#include <kvpool/core/checked.hpp>

#include "block/page_pool_impl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

namespace kvpool {
namespace {

Error invalid(std::string message) {
  return {.code = ErrorCode::kInvalidArgument, .message = std::move(message)};
}

Result<void> check(const PoolDescriptor& pool) {
  if (pool.groups.empty() || pool.slab_bytes.count() <= 0 || pool.unit_bytes.count() <= 0 ||
      pool.slabs.count() < 0 || pool.reserved_slabs.count() < 0) {
    return invalid(fmt::format("pool {} is not laid out", pool.name));
  }
  for (const PooledGroup& group : pool.groups) {
    const Bytes page = group.page.page_bytes;
    if (page.count() <= 0 || (page % pool.unit_bytes).count() != 0 || group.pages_per_slab < 1 ||
        group.pages_per_slab > pool.slab_bytes / page) {
      return invalid(fmt::format("pool {}: {} pages of {} bytes do not fit a slab of {} bytes",
                                 pool.name, group.pages_per_slab, page.count(),
                                 pool.slab_bytes.count()));
    }
  }
  const CheckedInt units =
      floor_div(CheckedInt{pool.slabs.count()} + pool.reserved_slabs.count(), CheckedInt{1});
  const auto end = (units * (pool.slab_bytes / pool.unit_bytes)).to_int64();
  std::int64_t most = 1;
  for (const PooledGroup& group : pool.groups) {
    most = std::max(most, group.pages_per_slab);
  }
  const auto slots = (units * most).to_int64();
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (!end || *end > kMost || !slots || *slots > kMost) {
    return Error{.code = ErrorCode::kOutOfRange,
                 .message = fmt::format("pool {}: its pages do not fit into 31 bits of units of {} "
                                        "bytes; use larger pages or fewer",
                                        pool.name, pool.unit_bytes.count())};
  }
  return {};
}

}  // namespace

// The hot path ------------------------------------------------------------------------------------

std::int32_t PagePool::Impl::take(std::int32_t group, bool may_take_slab) noexcept {
  if (options.gate.admits != nullptr &&
      !options.gate.admits(options.gate.context, options.pool, group)) {
    return -1;
  }
  Group& of = groups[static_cast<std::size_t>(group)];
  std::int32_t page = -1;
  std::uint32_t slot = 0;
  if (!shared) {
    if (free_count > 0) {
      page = free_stack[static_cast<std::size_t>(--free_count)];
    } else if (fresh < slabs_end) {
      page = fresh++;
    } else {
      return -1;
    }
    slot = static_cast<std::uint32_t>(page);
  } else if (of.pages_per_slab == 1) {
    // Slab and page are one: there is never an open slab.
    const std::int32_t index = may_take_slab ? take_slab() : -1;
    if (index < 0) {
      return -1;
    }
    Slab& slab = slabs[static_cast<std::size_t>(index)];
    slab.owner = static_cast<std::int16_t>(group + 1);
    slab.first_in = -1;
    slab.fresh = slab.busy = slab.held = slab.out = 1;
    slab.level = 0;
    --quiet_slabs;
    --unheld_slabs;
    slot = static_cast<std::uint32_t>(index) * static_cast<std::uint32_t>(slots_per_slab);
    page = page_at(group, index, 0);
  } else {
    std::uint32_t index = of.open_busy.head;
    if (index == kNil && may_take_slab) {
      index = of.open_idle.head;
      if (index == kNil) {
        const std::int32_t taken = take_slab();
        if (taken < 0) {
          return -1;
        }
        index = static_cast<std::uint32_t>(taken);
        Slab& slab = slabs[index];
        slab.owner = static_cast<std::int16_t>(group + 1);
        slab.first_in = -1;
        slab.fresh = 0;
        slab.out = 0;
        slab.level = 0;
        of.in += of.pages_per_slab;
      }
    }
    if (index == kNil) {
      return -1;
    }
    Slab& slab = slabs[index];
    std::int32_t place = slab.first_in;
    slot = index * static_cast<std::uint32_t>(slots_per_slab);
    if (place >= 0) {
      slab.first_in = chain[slot + static_cast<std::uint32_t>(place)] - 1;
    } else {
      place = slab.fresh++;
    }
    slot += static_cast<std::uint32_t>(place);
    page = page_at(group, static_cast<std::int32_t>(index), place);
    ++slab.out;
    --of.in;
    count_busy(group, index, 1, 1);
    update_open(group, index);
  }
  ++of.out;
  set_out(slot, true);
  if (options.on_allocate.call != nullptr) {
    options.on_allocate.call(options.on_allocate.context, options.pool, PageId{page},
                             of.page_bytes);
  }
  return page;
}

void PagePool::Impl::take_many(std::int32_t* to, std::int64_t count) noexcept {
  groups.front().out += count;
  const std::int64_t from_stack = std::min(count, free_count);
  for (std::int64_t i = 0; i < from_stack; ++i) {
    to[i] = free_stack[static_cast<std::size_t>(free_count - 1 - i)];
  }
  free_count -= from_stack;
  for (std::int64_t i = from_stack; i < count; ++i) {
    to[i] = fresh++;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const auto slot = static_cast<std::uint32_t>(to[i]);
    out_bits[slot / 64] |= std::uint64_t{1} << (slot % 64);
  }
  if (owners.size() != 0) {
    const OwnerRecord record{.sequence = owner,
                             .step_and_out = static_cast<std::uint32_t>(opened * 2) + 1};
    for (std::int64_t i = 0; i < count; ++i) {
      owners[static_cast<std::size_t>(to[i])] = record;
    }
  }
}

void PagePool::Impl::give_back(std::int32_t group, std::int32_t page, bool settled) noexcept {
  if (!shared) {
    give_back_simple(static_cast<std::uint32_t>(page), settled);
    return;
  }
  const std::uint32_t slot = slot_of(group, page);
  const std::uint32_t index = slab_of(slot);
  set_out(slot, false);
  --groups[static_cast<std::size_t>(group)].out;
  --slabs[index].out;
  if (!settled && opened != completed) {
    count(group, index, 0, -1);
    push_pending(slot);
    ++groups[static_cast<std::size_t>(group)].pending;
    return;
  }
  count_busy(group, index, -1, -1);
  insert_free(group, slot);
}

void PagePool::Impl::give_back_idle(std::int32_t group, std::int32_t page) noexcept {
  if (!shared) {
    give_back_simple(static_cast<std::uint32_t>(page), true);
    return;
  }
  const std::uint32_t slot = slot_of(group, page);
  set_out(slot, false);
  --groups[static_cast<std::size_t>(group)].out;
  --slabs[slab_of(slot)].out;
  insert_free(group, slot);
}

void PagePool::Impl::insert_free(std::int32_t group, std::uint32_t slot) noexcept {
  if (!shared) {
    insert_free_simple(slot);
    return;
  }
  Group& of = groups[static_cast<std::size_t>(group)];
  const std::uint32_t index = slab_of(slot);
  const auto place =
      static_cast<std::int32_t>(slot - index * static_cast<std::uint32_t>(slots_per_slab));
  const std::int32_t page = page_at(group, static_cast<std::int32_t>(index), place);
  Slab& slab = slabs[index];
  chain[slot] = slab.first_in + 1;
  slab.first_in = place;
  ++of.in;
  if (slab.out == 0 && slab.busy == 0) {
    // Nothing is left in it: it belongs to nobody again.
    of.in -= of.pages_per_slab;
    slab.owner = 0;
    if (slab.is_open) {
      of.open_idle.erase(index, open_link());
      slab.is_open = false;
    }
    update_reclaimable(index);
    free_stack[static_cast<std::size_t>(free_count++)] = static_cast<std::int32_t>(index);
  } else {
    update_open(group, index);
  }
  if (options.on_free.call != nullptr) {
    options.on_free.call(options.on_free.context, options.pool, PageId{page}, of.page_bytes);
  }
}

void PagePool::Impl::list_slab(std::int32_t group, std::uint32_t slab_index) noexcept {
  Slab& slab = slabs[slab_index];
  const bool is_quiet = slab.busy == 0;
  if (slab.is_open) {
    Group& of = groups[static_cast<std::size_t>(group)];
    (is_quiet ? of.open_busy : of.open_idle).erase(slab_index, open_link());
    (is_quiet ? of.open_idle : of.open_busy).push_front(slab_index, open_link());
  }
  if (!is_quiet) {
    slab.level = 0;
  }
  update_reclaimable(slab_index);
}

void PagePool::Impl::update_open(std::int32_t group, std::uint32_t slab_index) noexcept {
  Slab& slab = slabs[slab_index];
  Group& of = groups[static_cast<std::size_t>(group)];
  const bool has_page = slab.first_in >= 0 || slab.fresh < of.pages_per_slab;
  if (has_page != slab.is_open) {
    LinkedList& list = slab.busy == 0 ? of.open_idle : of.open_busy;
    if (has_page) {
      list.push_front(slab_index, open_link());
    } else {
      list.erase(slab_index, open_link());
    }
    slab.is_open = has_page;
  }
}

void PagePool::Impl::update_reclaimable(std::uint32_t slab_index) noexcept {
  Slab& slab = slabs[slab_index];
  const bool reclaimable_now = slab.owner != 0 && slab.busy == 0 && slab.out > 0;
  const auto level = static_cast<std::int16_t>(reclaimable_now ? slab.level + 1 : 0);
  if (level == slab.reclaim_level) {
    return;
  }
  if (slab.reclaim_level != 0) {
    reclaimable.erase(slab_index, static_cast<std::size_t>(slab.reclaim_level - 1), reclaim_link());
  }
  if (level != 0) {
    reclaimable.push_back(slab_index, static_cast<std::size_t>(level - 1), reclaim_link());
  }
  slab.reclaim_level = level;
}

void PagePool::Impl::mark_busy_shared(std::int32_t group, std::int32_t page) noexcept {
  const std::uint32_t index = slab_of(slot_of(group, page));
  count_busy(group, index, 1, 1);
}

void PagePool::Impl::settle() noexcept {
  while (pending_epochs != 0 && pending[pending_first].epoch <= completed) {
    for (std::int64_t i = 0; i < pending[pending_first].pages; ++i) {
      const auto slot = static_cast<std::uint32_t>(pending_slots[pending_head]);
      ++pending_head;
      pending_head = pending_head == pending_slots.size() ? 0 : pending_head;
      --pending_count;
      std::int32_t group = 0;
      if (shared) {
        const std::uint32_t index = slab_of(slot);
        group = slabs[index].owner - 1;
        count_busy(group, index, -1, 0);
      }
      --groups[static_cast<std::size_t>(group)].pending;
      insert_free(group, slot);
    }
    pending_first = (pending_first + 1) % kPendingEpochs;
    --pending_epochs;
  }
}

// The public face ---------------------------------------------------------------------------------

PagePool::PagePool(std::unique_ptr<Impl> impl) noexcept : impl_{std::move(impl)} {}
PagePool::PagePool(PagePool&& other) noexcept = default;
PagePool& PagePool::operator=(PagePool&& other) noexcept = default;
PagePool::~PagePool() = default;

Result<PagePool> PagePool::create(const PoolDescriptor& pool, const PagePoolOptions& options) {
  if (auto checked = check(pool); !checked) {
    return std::move(checked).error();
  }
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->shared = pool.groups.size() > 1 || pool.groups.front().pages_per_slab != 1;
  impl->silent = options.gate.admits == nullptr && options.on_allocate.call == nullptr;
  impl->first_slab = static_cast<std::int32_t>(pool.reserved_slabs.count());
  impl->slabs_end = static_cast<std::int32_t>(pool.total_slabs().count());
  impl->fresh = impl->first_slab;
  impl->units_per_slab = static_cast<std::int32_t>(pool.slab_bytes / pool.unit_bytes);
  for (const PooledGroup& group : pool.groups) {
    Impl::Group& of = impl->groups.emplace_back();
    of.pages_per_slab = static_cast<std::int32_t>(group.pages_per_slab);
    of.units_per_page = static_cast<std::int32_t>(group.page.page_bytes / pool.unit_bytes);
    of.by_units_per_page = block::Divider{of.units_per_page};
    of.by_pages_per_slab = block::Divider{of.pages_per_slab};
    of.page_bytes = group.page.page_bytes;
    impl->slots_per_slab = std::max(impl->slots_per_slab, of.pages_per_slab);
  }
  if (!impl->shared) {
    // A page is a row of the pool's views, whatever the unit of a descriptor made by hand.
    impl->units_per_slab = 1;
    impl->groups.front().units_per_page = 1;
  }
  impl->by_units_per_slab = block::Divider{impl->units_per_slab};
  impl->by_slots_per_slab = block::Divider{impl->slots_per_slab};
  impl->quiet_slabs = impl->slabs_end - impl->first_slab;
  impl->unheld_slabs = impl->quiet_slabs;
  const std::size_t slots = impl->slots();
  impl->free_stack = ReservedArray<std::int32_t>{static_cast<std::size_t>(impl->slabs_end)};
  impl->out_bits = ReservedArray<std::uint64_t>{(slots + 63) / 64};
  impl->pending_slots = ReservedArray<std::int32_t>{slots};
  if (impl->shared) {
    impl->slabs = ReservedArray<Impl::Slab>{static_cast<std::size_t>(impl->slabs_end)};
    impl->chain = ReservedArray<std::int32_t>{slots};
  }
  if (options.record_owners) {
    impl->owners = ReservedArray<Impl::OwnerRecord>{slots};
  }
  if (!impl->free_stack.ok() || !impl->out_bits.ok() || !impl->pending_slots.ok() ||
      !impl->slabs.ok() || !impl->chain.ok() || !impl->owners.ok()) {
    return Error{.code = ErrorCode::kExhausted,
                 .message = fmt::format("no address space for the tables of pool {}", pool.name)};
  }
  return PagePool{std::move(impl)};
}

std::optional<PageId> PagePool::allocate(std::int32_t group) noexcept {
  Impl& pool = *impl_;
  if (!pool.shared && pool.silent) {
    return pool.free_page_count() == 0 ? std::nullopt : std::optional{PageId{pool.take_simple()}};
  }
  const std::int32_t page = pool.take(group, true);
  return page < 0 ? std::nullopt : std::optional{PageId{page}};
}

bool PagePool::free(std::int32_t group, PageId page) noexcept {
  Impl& pool = *impl_;
  if (!pool.shared) {
    const auto slot = static_cast<std::uint32_t>(page.value());
    if (page.value() < 0 || page.value() >= pool.slabs_end || !pool.is_out(slot)) {
      return false;
    }
    pool.give_back_simple(slot, false);
    return true;
  }
  if (!is_live(page) ||
      pool.slabs[pool.slab_of(pool.slot_of(group, page.value()))].owner != group + 1) {
    return false;
  }
  pool.give_back(group, page.value(), false);
  return true;
}

void PagePool::open_epoch(Epoch epoch) noexcept {
  impl_->opened = std::max(impl_->opened, epoch.value());
}

void PagePool::complete_until(Epoch epoch) noexcept {
  impl_->completed = std::max(impl_->completed, std::min(epoch.value(), impl_->opened));
  impl_->settle();
}

std::optional<Epoch> PagePool::next_settled() const noexcept {
  if (impl_->pending_epochs == 0) {
    return std::nullopt;
  }
  return Epoch{impl_->pending[impl_->pending_first].epoch};
}

Pages PagePool::free_pages(std::int32_t group) const noexcept {
  if (!impl_->shared) {
    return Pages{impl_->free_page_count()};
  }
  const Impl::Group& of = impl_->groups[static_cast<std::size_t>(group)];
  return Pages{of.in + impl_->free_slab_count() * of.pages_per_slab};
}

Pages PagePool::unsettled_pages() const noexcept {
  return Pages{static_cast<std::int64_t>(impl_->pending_count)};
}

Pages PagePool::live_pages(std::int32_t group) const noexcept {
  return Pages{impl_->groups[static_cast<std::size_t>(group)].out};
}

Slabs PagePool::free_slabs() const noexcept { return Slabs{impl_->free_slab_count()}; }

bool PagePool::is_live(PageId page) const noexcept {
  const std::int32_t value = page.value();
  if (value < 0 || value / impl_->units_per_slab >= impl_->slabs_end) {
    return false;
  }
  if (!impl_->shared) {
    return impl_->is_out(static_cast<std::uint32_t>(value));
  }
  const auto slab = static_cast<std::size_t>(value / impl_->units_per_slab);
  const std::int32_t group = impl_->slabs[slab].owner - 1;
  if (group < 0) {
    return false;
  }
  const Impl::Group& of = impl_->groups[static_cast<std::size_t>(group)];
  const std::int32_t offset = value % impl_->units_per_slab;
  return offset % of.units_per_page == 0 && offset / of.units_per_page < of.pages_per_slab &&
         impl_->is_out(impl_->slot_of(group, value));
}

std::optional<PageOwner> PagePool::owner(PageId page) const noexcept {
  if (impl_->owners.size() == 0 || page.value() < 0 ||
      page.value() / impl_->units_per_slab >= impl_->slabs_end) {
    return std::nullopt;
  }
  std::int32_t group = 0;
  if (impl_->shared) {
    group = impl_->slabs[static_cast<std::size_t>(page.value() / impl_->units_per_slab)].owner - 1;
    if (group < 0) {
      return std::nullopt;
    }
  }
  const Impl::OwnerRecord& record = impl_->owners[impl_->slot_of(group, page.value())];
  // Of the step the low 31 bits are kept; it is not later than the present one.
  const std::uint64_t behind =
      (impl_->opened - record.step_and_out / 2) & ((std::uint64_t{1} << 31) - 1);
  return PageOwner{.sequence = record.sequence,
                   .is_live = record.step_and_out % 2 != 0,
                   .step = Epoch{impl_->opened - behind}};
}

void PagePool::set_owner(SequenceId sequence) noexcept { impl_->owner = sequence; }

Bytes PagePool::metadata_bytes() const noexcept {
  return Bytes{impl_->free_stack.bytes() + impl_->out_bits.bytes() + impl_->pending_slots.bytes() +
               impl_->slabs.bytes() + impl_->chain.bytes() + impl_->owners.bytes()};
}

}  // namespace kvpool
