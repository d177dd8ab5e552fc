// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/ids.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/layout/pool_descriptor.hpp>

#include <cstdint>
#include <memory>
#include <optional>

namespace kvpool {

/// Called with pages that were given back, or are about to be handed out, so that a test can fill
/// and check them. Costs nothing when `call` is null.
struct PageHook {
  /// @param context the pointer below; @param pool and @param page which page; @param bytes its
  /// size
  void (*call)(void* context, PoolId pool, PageId page, Bytes bytes) = nullptr;
  /// Passed back to `call`.
  void* context = nullptr;
};

/// Asked before every page that is handed out; a false answer is treated as an empty pool. For
/// tests that let any allocation fail.
struct PageGate {
  /// @param context the pointer below; @return false to refuse the page
  bool (*admits)(void* context, PoolId pool, std::int32_t group_in_pool) = nullptr;
  /// Passed back to `admits`.
  void* context = nullptr;
};

/// Who had a page last: what a leak, double free or use after free is named by.
struct PageOwner {
  /// The sequence that the page was handed out to.
  SequenceId sequence{};
  /// True while the page is handed out.
  bool is_live = false;
  /// Step (latest opened epoch) in which it was handed out, or given back.
  Epoch step{};

  /// Field by field.
  friend bool operator==(const PageOwner&, const PageOwner&) = default;
};

/// How a pool of pages behaves beyond handing them out.
struct PagePoolOptions {
  /// The pool's place in its plan, for hooks and messages.
  PoolId pool{};
  /// Remember the last owner of every page (12 bytes a page).
  bool record_owners = false;
  /// See `PageGate`.
  PageGate gate{};
  /// Runs when a page becomes free for others.
  PageHook on_free{};
  /// Runs when a page is handed out.
  PageHook on_allocate{};
};

/// The pages of one pool. Slabs belong to one group at a time, or to none; a slab whose pages are
/// all free belongs to none again. A page that is given back while an epoch is open is not handed
/// out before that epoch has completed; the page given back last is handed out first.
///
/// A page is a `PageId`: its distance from the pool's base in units of `unit_bytes`, which is also
/// the row of the pool's views and the entry of page tables.
///
/// Threads: one caller at a time. After `create` no call allocates memory, locks or throws; the
/// work of a call does not depend on the size of the pool.
class PagePool {
 public:
  /// A pool with all pages free. Its tables take address space at once and memory as it is used.
  /// @return the pool; `kInvalidArgument` for a descriptor that is not laid out, `kOutOfRange` when
  ///   pages do not fit into 31 bits of units, `kExhausted` when the host has no memory
  [[nodiscard]] static Result<PagePool> create(const PoolDescriptor& pool,
                                               const PagePoolOptions& options = {});

  PagePool(PagePool&& other) noexcept;
  PagePool& operator=(PagePool&& other) noexcept;
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;
  ~PagePool();

  /// A page of group `group`, or nothing when none is free.
  /// @pre `group` is a group of the pool
  [[nodiscard]] std::optional<PageId> allocate(std::int32_t group) noexcept;
  /// Gives a page back; it is free for others when the epochs opened so far have completed.
  /// @return false, with nothing changed, when the page is not one that is handed out to `group`:
  ///   a double free, named by `owner(page)`
  [[nodiscard]] bool free(std::int32_t group, PageId page) noexcept;

  /// Opens an epoch: pages given back from now on may still be read in it. Epochs grow.
  void open_epoch(Epoch epoch) noexcept;
  /// All epochs up to this one have completed.
  void complete_until(Epoch epoch) noexcept;
  /// Earliest epoch whose completion frees a page that is waiting; empty when none waits.
  [[nodiscard]] std::optional<Epoch> next_settled() const noexcept;

  /// Usable pages of `group` that it could have if it had every free slab, and those of its slabs.
  [[nodiscard]] Pages free_pages(std::int32_t group) const noexcept;
  /// Pages that were given back and wait for an epoch, over all groups.
  [[nodiscard]] Pages unsettled_pages() const noexcept;
  /// Pages of `group` that are handed out.
  [[nodiscard]] Pages live_pages(std::int32_t group) const noexcept;
  /// Slabs that belong to no group.
  [[nodiscard]] Slabs free_slabs() const noexcept;

  /// True when `page` is handed out.
  [[nodiscard]] bool is_live(PageId page) const noexcept;
  /// Last owner of a page; empty unless owners are recorded.
  [[nodiscard]] std::optional<PageOwner> owner(PageId page) const noexcept;
  /// Names the owner of pages that are handed out from now on.
  void set_owner(SequenceId sequence) noexcept;

  /// Bytes of host memory that the pool's tables take when every page has been used.
  [[nodiscard]] Bytes metadata_bytes() const noexcept;

  /// The tables behind the pool, for the block manager.
  struct Impl;
  /// See `Impl`.
  [[nodiscard]] Impl& impl() noexcept { return *impl_; }
  /// See `Impl`.
  [[nodiscard]] const Impl& impl() const noexcept { return *impl_; }

 private:
  explicit PagePool(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvpool
