// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/block/block_manager.hpp>

#include "block/manager_impl.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace kvpool {

BlockManager::BlockManager(std::unique_ptr<Impl> impl) noexcept : impl_{std::move(impl)} {}
BlockManager::BlockManager(BlockManager&& other) noexcept = default;
BlockManager& BlockManager::operator=(BlockManager&& other) noexcept = default;
BlockManager::~BlockManager() = default;

// What it manages ---------------------------------------------------------------------------------

std::span<const PoolDescriptor> BlockManager::pools() const noexcept { return impl_->descriptors; }

std::span<const CacheGroup> BlockManager::groups() const noexcept { return impl_->described; }

const BlockManagerOptions& BlockManager::options() const noexcept { return impl_->options; }

Tokens BlockManager::prefix_block() const noexcept { return Tokens{impl_->block_tokens}; }

// Names -------------------------------------------------------------------------------------------

Result<TenantId> BlockManager::intern_tenant(std::string_view name) {
  return impl_->names.tenant(name);
}

Result<NamespaceId> BlockManager::intern_namespace(const NamespaceKey& key) {
  return impl_->names.name_space(key);
}

Result<ItemId> BlockManager::intern_item(std::string_view key) {
  auto item = impl_->names.item(key);
  impl_->items = static_cast<std::int64_t>(impl_->names.items());
  return item;
}

BlockStatus BlockManager::set_quota(TenantId tenant, PoolId pool,
                                    std::optional<Pages> quota) noexcept {
  const auto index = static_cast<std::size_t>(tenant.value());
  if (tenant.value() <= 0 || index >= impl_->names.tenants() || pool.value() < 0 ||
      static_cast<std::size_t>(pool.value()) >= impl_->pools.size() ||
      (quota.has_value() && quota->count() < 0)) {
    return BlockStatus::kInvalid;
  }
  impl_->tenant_of(index, pool.value()).quota = quota.has_value() ? quota->count() : -1;
  impl_->limited[index] = true;
  return BlockStatus::kOk;
}

TenantUsage BlockManager::usage(TenantId tenant, PoolId pool) const noexcept {
  const Impl::Tenant& of = impl_->tenant_of(static_cast<std::size_t>(tenant.value()), pool.value());
  TenantUsage usage{.live = Pages{of.used - of.idle - of.cooling},
                    .cached = Pages{of.idle + of.cooling}};
  if (of.quota >= 0) {
    usage.quota = Pages{of.quota};
  }
  return usage;
}

// Time --------------------------------------------------------------------------------------------

BlockStatus BlockManager::begin_step(Epoch epoch, Instant now) noexcept {
  Impl& m = *impl_;
  if (epoch.value() <= m.opened) {
    return BlockStatus::kInvalid;
  }
  m.opened = epoch.value();
  for (Impl::Pool& pool : m.pools) {
    pool.pages.impl().opened = m.opened;
  }
  if (now.value() > m.now) {
    m.now = now.value();
    m.timers.advance(m.now, [&m](std::uint32_t run) { m.expire(run); });
  }
  return BlockStatus::kOk;
}

BlockStatus BlockManager::complete_until(Epoch epoch) noexcept {
  Impl& m = *impl_;
  if (epoch.value() > m.opened) {
    return BlockStatus::kInvalid;
  }
  if (epoch.value() > m.completed) {
    m.completed = epoch.value();
    m.settle();
  }
  return BlockStatus::kOk;
}

Epoch BlockManager::opened() const noexcept { return Epoch{impl_->opened}; }

Epoch BlockManager::completed() const noexcept { return Epoch{impl_->completed}; }

// Sequences ---------------------------------------------------------------------------------------

AdmitOutcome BlockManager::admit(const AdmitRequest& request) noexcept {
  return impl_->admit(request, false);
}

AdmitOutcome BlockManager::probe(const AdmitRequest& request) noexcept {
  return impl_->admit(request, true);
}

PrefixHit BlockManager::match_prefix(const PrefixQuery& query) const noexcept {
  if (!impl_->options.prefix_cache || !impl_->is_valid(query)) {
    return {};
  }
  return impl_
      ->match(query, impl_->draft_groups != 0 && query.draft != DraftMode::kOff &&
                         static_cast<std::int64_t>(query.tokens.size()) <= impl_->draft_limit)
      .hit;
}

BlockStatus BlockManager::append(SequenceId sequence, Tokens count) noexcept {
  Impl::Hot* const of = impl_->find(sequence);
  if (of == nullptr) {
    return BlockStatus::kStaleId;
  }
  const std::int64_t more = count.count();
  if (more < 0) {
    return BlockStatus::kInvalid;
  }
  if (more <= of->boundary - of->reserved) {
    of->reserved += static_cast<std::int32_t>(more);
    return BlockStatus::kOk;
  }
  if (more > impl_->options.max_length.count()) {
    return BlockStatus::kTooLong;
  }
  return impl_->append_slow(sequence.index, of->reserved + more);
}

BlockStatus BlockManager::commit_prompt(SequenceId sequence, Tokens count) noexcept {
  Impl& m = *impl_;
  const Impl::Hot* const of = m.find(sequence);
  if (of == nullptr) {
    return BlockStatus::kStaleId;
  }
  if (count.count() < 0 || count.count() > m.cold[sequence.index].prompt - of->committed ||
      count.count() > of->reserved - of->committed) {
    return BlockStatus::kInvalid;
  }
  if (count.count() != 0) {
    m.after_commit(sequence.index, of->committed + count.count());
  }
  return BlockStatus::kOk;
}

BlockStatus BlockManager::commit(SequenceId sequence,
                                 std::span<const std::int32_t> tokens) noexcept {
  Impl& m = *impl_;
  Impl::Hot* const of = m.find(sequence);
  if (of == nullptr) {
    return BlockStatus::kStaleId;
  }
  if (tokens.size() == 1 && of->committed < of->reserved && of->committed + 1 < of->event &&
      tokens.front() >= 0) {
    *of->write++ = tokens.front();
    m.note_commit(*of);
    ++of->committed;
    return BlockStatus::kOk;
  }
  return m.commit(sequence.index, tokens);
}

BlockStatus BlockManager::truncate(SequenceId sequence, Tokens count) noexcept {
  Impl& m = *impl_;
  Impl::Hot* const of = m.find(sequence);
  if (of == nullptr) {
    return BlockStatus::kStaleId;
  }
  if (count.count() < 0 || count.count() > of->reserved - of->committed) {
    return BlockStatus::kInvalid;
  }
  if (count.count() == 0) {
    return BlockStatus::kOk;
  }
  of->reserved -= static_cast<std::int32_t>(count.count());
  if (of->reserved <= of->last_page) {
    m.free_behind(sequence.index);
  }
  Impl::Cold& c = m.cold[sequence.index];
  if ((of->groups & m.state_groups) != 0 && of->committed >= c.prompt) {
    // The live state may have seen the rejected tokens.
    c.state_computed = c.state_computed < 0 ? c.snapshot : std::min(c.state_computed, c.snapshot);
  }
  return BlockStatus::kOk;
}

ForkOutcome BlockManager::fork(SequenceId sequence) noexcept {
  if (impl_->find(sequence) == nullptr) {
    return {.status = BlockStatus::kStaleId};
  }
  return impl_->fork(sequence.index);
}

BlockStatus BlockManager::release(SequenceId sequence) noexcept {
  if (impl_->find(sequence) == nullptr) {
    return BlockStatus::kStaleId;
  }
  impl_->release(sequence.index);
  return BlockStatus::kOk;
}

Result<SuspendedSequence> BlockManager::suspend(SequenceId sequence) {
  Impl& m = *impl_;
  const Impl::Hot* const of = m.find(sequence);
  if (of == nullptr) {
    return Error{.code = ErrorCode::kNotFound, .message = describe(sequence)};
  }
  const Impl::Cold& c = m.cold[sequence.index];
  SuspendedSequence kept{
      .name_space = NamespaceId{c.name_space},
      .public_tokens = Tokens{c.public_tokens},
      .encoder_tokens = Tokens{c.encoder_tokens},
      .draft = c.draft_mode,
      .generated = {.priority = c.generated_priority, .time_to_live = Ticks{c.generated_ttl}},
      .use_cache = c.uses_cache,
      .committed = Tokens{of->committed}};
  kept.tokens.resize(static_cast<std::size_t>(std::max(of->committed, c.prompt)));
  m.read_tokens(sequence.index, 0, kept.tokens);
  m.release(sequence.index);
  return kept;
}

AdmitOutcome BlockManager::resume(const SuspendedSequence& suspended,
                                  std::optional<Tokens> reserve) noexcept {
  return impl_->admit({.prompt = {.tokens = suspended.tokens,
                                  .name_space = suspended.name_space,
                                  .public_tokens = suspended.public_tokens,
                                  .draft = suspended.draft},
                       .reserve = reserve,
                       .encoder_tokens = suspended.encoder_tokens,
                       .retention = {.generated = suspended.generated},
                       .use_cache = suspended.use_cache},
                      false);
}

Result<PreemptReceipt> BlockManager::preempt(SequenceId sequence) {
  const auto held_in = [this](const Impl::Pool& pool) {
    std::int64_t held = 0;
    for (std::size_t g = pool.first_group; g < pool.last_group; ++g) {
      held += held_pages(GroupId{static_cast<std::int32_t>(g)}).count();
    }
    return held;
  };
  PreemptReceipt receipt;
  for (std::size_t p = 0; p < impl_->pools.size(); ++p) {
    receipt.pages.push_back(
        {.pool = PoolId{static_cast<std::int32_t>(p)}, .pages = Pages{held_in(impl_->pools[p])}});
  }
  auto suspended = suspend(sequence);
  if (!suspended) {
    return std::move(suspended).error();
  }
  receipt.sequence = *std::move(suspended);
  for (std::size_t p = 0; p < impl_->pools.size(); ++p) {
    receipt.pages[p].pages -= Pages{held_in(impl_->pools[p])};
  }
  if (impl_->opened != impl_->completed) {
    receipt.free_at = Epoch{impl_->opened};
  }
  return receipt;
}

PinOutcome BlockManager::pin(const PrefixQuery& query) noexcept { return impl_->pin(query); }

BlockStatus BlockManager::unpin(PinId pin) noexcept { return impl_->unpin(pin); }

BlockStatus BlockManager::set_computed(SequenceId sequence, GroupId group,
                                       Tokens computed) noexcept {
  Impl& m = *impl_;
  const Impl::Hot* const of = m.find(sequence);
  if (of == nullptr) {
    return BlockStatus::kStaleId;
  }
  const auto g = static_cast<std::size_t>(group.value());
  if (group.value() < 0 || g >= m.groups.size() || (of->groups >> g & 1U) == 0 ||
      computed.count() < 0 || computed.count() > of->committed ||
      (!m.groups[g].draft && m.groups[g].kind != GroupKind::kState)) {
    return BlockStatus::kInvalid;
  }
  const auto value =
      static_cast<std::int32_t>(computed.count() == of->committed ? -1 : computed.count());
  if (m.groups[g].kind == GroupKind::kState) {
    m.cold[sequence.index].state_computed = value;
  } else {
    m.cold[sequence.index].draft_computed = value;
  }
  m.complete_blocks(sequence.index);
  return BlockStatus::kOk;
}

BlockStatus BlockManager::restore_snapshot(SequenceId sequence) noexcept {
  Impl& m = *impl_;
  const Impl::Hot* const of = m.find(sequence);
  if (of == nullptr) {
    return BlockStatus::kStaleId;
  }
  Impl::Cold& c = m.cold[sequence.index];
  const std::uint64_t states = of->groups & m.state_groups;
  if (states == 0 || c.snapshot == 0) {
    return BlockStatus::kInvalid;
  }
  if (m.copies.capacity() - m.copies.size() < static_cast<std::size_t>(std::popcount(states))) {
    return BlockStatus::kCopiesFull;
  }
  Impl::each(states, [&](std::size_t g) {
    m.add_copy(g, m.cell(sequence.index, g).snapshot, m.row(sequence.index, g)[0],
               CopyOrder::kBeforeStep, CopyReason::kRestoreSnapshot);
  });
  c.state_computed = c.snapshot == of->committed ? -1 : c.snapshot;
  return BlockStatus::kOk;
}

BlockStatus BlockManager::stop_drafting(SequenceId sequence) noexcept {
  if (impl_->find(sequence) == nullptr) {
    return BlockStatus::kStaleId;
  }
  impl_->drop_draft(sequence.index, DraftNotice::kNone);
  return BlockStatus::kOk;
}

// Reads -------------------------------------------------------------------------------------------

bool BlockManager::is_live(SequenceId sequence) const noexcept {
  return impl_->find(sequence) != nullptr;
}

SequenceLengths BlockManager::lengths(SequenceId sequence) const noexcept {
  const Impl::Hot* const of = impl_->find(sequence);
  if (of == nullptr) {
    return {};
  }
  return {.reserved = Tokens{of->reserved},
          .committed = Tokens{of->committed},
          .computed = Tokens{impl_->computed(*of)},
          .prompt = Tokens{impl_->cold[sequence.index].prompt}};
}

Tokens BlockManager::computed(SequenceId sequence, GroupId group) const noexcept {
  const Impl& m = *impl_;
  const Impl::Hot* const of = m.find(sequence);
  const auto g = static_cast<std::size_t>(group.value());
  if (of == nullptr || g >= m.groups.size() || (of->groups >> g & 1U) == 0) {
    return {};
  }
  const Impl::Cold& c = m.cold[sequence.index];
  if (m.groups[g].kind == GroupKind::kCross) {
    return Tokens{m.computed(*of)};
  }
  const std::int32_t lag = m.groups[g].kind == GroupKind::kState ? c.state_computed
                           : m.groups[g].draft                   ? c.draft_computed
                                                                 : -1;
  const std::int32_t done = m.computed(*of);
  return Tokens{lag >= 0 ? std::min(lag, done) : done};
}

GroupView BlockManager::view(SequenceId sequence, GroupId group) const noexcept {
  const Impl& m = *impl_;
  const Impl::Hot* const of = m.find(sequence);
  const auto g = static_cast<std::size_t>(group.value());
  if (of == nullptr || g >= m.groups.size() || (of->groups >> g & 1U) == 0) {
    return {};
  }
  const Impl::Cell& at = m.cell(sequence.index, g);
  return {.entries = {m.row(sequence.index, g), static_cast<std::size_t>(at.end)},
          .held = {.first = BlockIndex{at.first}, .last = BlockIndex{at.end}},
          .computed = computed(sequence, group)};
}

DraftNotice BlockManager::draft_notice(SequenceId sequence) const noexcept {
  return is_live(sequence) ? impl_->cold[sequence.index].notice : DraftNotice::kNone;
}

bool BlockManager::drafts(SequenceId sequence) const noexcept {
  const Impl::Hot* const of = impl_->find(sequence);
  return of != nullptr && (of->groups & impl_->draft_groups) != 0;
}

std::optional<Tokens> BlockManager::tokens_to_next_snapshot(SequenceId sequence) const noexcept {
  const Impl::Hot* const of = impl_->find(sequence);
  const std::int64_t interval = impl_->options.snapshot_interval.count();
  if (of == nullptr || interval == 0 || (of->groups & impl_->state_groups) == 0 ||
      !impl_->cold[sequence.index].caches) {
    return std::nullopt;
  }
  return Tokens{interval - of->committed % interval};
}

BlockStatus BlockManager::copy_tokens(SequenceId sequence, Tokens first,
                                      std::span<std::int32_t> out) const noexcept {
  const Impl::Hot* const of = impl_->find(sequence);
  if (of == nullptr) {
    return BlockStatus::kStaleId;
  }
  const std::int64_t end = std::max(of->committed, impl_->cold[sequence.index].prompt);
  if (first.count() < 0 || first.count() > end ||
      static_cast<std::int64_t>(out.size()) > end - first.count()) {
    return BlockStatus::kInvalid;
  }
  impl_->read_tokens(sequence.index, first.count(), out);
  return BlockStatus::kOk;
}

Sequences BlockManager::live_sequences() const noexcept { return Sequences{impl_->live}; }

std::optional<SequenceId> BlockManager::next_live(std::uint32_t index) const noexcept {
  for (; index < impl_->hot.size(); ++index) {
    if (impl_->hot[index].generation != kNil) {
      return SequenceId{.index = index, .generation = impl_->hot[index].generation};
    }
  }
  return std::nullopt;
}

// Tables ------------------------------------------------------------------------------------------

TableState BlockManager::table_state(SequenceId sequence) const noexcept {
  const Impl::Hot* const of = impl_->find(sequence);
  if (of == nullptr) {
    return {};
  }
  return {.reserved = of->reserved, .changed_groups = of->changed, .groups = of->groups};
}

BlockRange BlockManager::take_changes(SequenceId sequence, GroupId group) noexcept {
  Impl& m = *impl_;
  Impl::Hot* const of = m.find(sequence);
  const std::uint64_t bit = std::uint64_t{1} << static_cast<unsigned>(group.value() & 63);
  if (of == nullptr || (of->changed & bit) == 0) {
    return {};
  }
  of->changed &= ~bit;
  const Impl::Cell& at = m.cell(sequence.index, static_cast<std::size_t>(group.value()));
  // What went back again since is not there any more.
  const std::int32_t first = std::max(at.changed_first, at.first);
  const std::int32_t end = std::max(std::min(at.changed_end, at.end), first);
  return {.first = BlockIndex{first}, .last = BlockIndex{end}};
}

void BlockManager::mark_all_changed(SequenceId sequence) noexcept {
  Impl& m = *impl_;
  if (const Impl::Hot* const of = m.find(sequence); of != nullptr) {
    Impl::each(of->groups, [&](std::size_t g) {
      const Impl::Cell& at = m.cell(sequence.index, g);
      m.mark_changed(sequence.index, g, at.first, at.end);
    });
  }
}

std::span<const PageCopy> BlockManager::copies() const noexcept { return impl_->copies; }

void BlockManager::clear_copies() noexcept { impl_->copies.clear(); }

// Pools and cache ---------------------------------------------------------------------------------

Shortage BlockManager::shortage() const noexcept { return impl_->shortage; }

Pages BlockManager::available_pages(GroupId group) const noexcept {
  return Pages{impl_->available(static_cast<std::size_t>(group.value()))};
}

Pages BlockManager::evictable_pages(GroupId group) const noexcept {
  return Pages{impl_->groups[static_cast<std::size_t>(group.value())].idle};
}

Pages BlockManager::held_pages(GroupId group) const noexcept {
  const Impl::Group& of = impl_->groups[static_cast<std::size_t>(group.value())];
  return Pages{of.pages->groups[static_cast<std::size_t>(of.group_in_pool)].out - of.idle -
               of.cooling};
}

const PagePool& BlockManager::page_pool(PoolId pool) const noexcept {
  return impl_->pools[static_cast<std::size_t>(pool.value())].pages;
}

Pages BlockManager::evict(GroupId group, Pages count) noexcept {
  Impl& m = *impl_;
  const auto g = static_cast<std::size_t>(group.value());
  if (group.value() < 0 || g >= m.groups.size()) {
    return {};
  }
  const std::int64_t before = m.groups[g].idle;
  while (before - m.groups[g].idle < count.count() && m.evict_one(g)) {
  }
  return Pages{before - m.groups[g].idle};
}

void BlockManager::flush_cache() noexcept { impl_->flush(); }

void BlockManager::reset() noexcept {
  Impl& m = *impl_;
  for (std::size_t i = 0; i < m.hot.size(); ++i) {
    if (m.hot[i].generation != kNil) {
      m.cold[i].caches = false;
      m.release(i);
    }
  }
  for (std::uint32_t i = 0; i < m.pins.size(); ++i) {
    if (m.pins[i].live) {
      static_cast<void>(m.unpin({.index = i, .generation = m.pins[i].generation}));
    }
  }
  m.flush();
  m.copies.clear();
}

// Diagnosis ---------------------------------------------------------------------------------------

std::vector<Finding> BlockManager::check_invariants(CheckLevel level) const {
  return impl_->check_invariants(level);
}

Bytes BlockManager::metadata_bytes() const noexcept {
  const Impl& m = *impl_;
  std::int64_t bytes = m.runs.metadata_bytes() + m.timers.bytes() + m.time_to_live.bytes() +
                       m.expires.bytes() + m.tenant_links.bytes() + m.run_of_unit.bytes();
  for (const Impl::Pool& pool : m.pools) {
    bytes += pool.pages.metadata_bytes().count() + pool.meta.bytes();
  }
  for (const Impl::Group& group : m.groups) {
    bytes += group.by_unit.bytes();
  }
  return Bytes{bytes};
}

Bytes BlockManager::host_bytes() const noexcept {
  const Impl& m = *impl_;
  std::int64_t bytes = metadata_bytes().count() + m.runs.token_bytes() + m.hot.bytes() +
                       m.cold.bytes() + m.cells.bytes();
  for (const Impl::Group& group : m.groups) {
    bytes += group.rows.bytes();
  }
  return Bytes{bytes};
}

const BlockManagerCounters& BlockManager::counters() const noexcept { return impl_->counters; }

}  // namespace kvpool
