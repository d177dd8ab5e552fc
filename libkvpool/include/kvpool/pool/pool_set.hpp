// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/ids.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/layout/pool_descriptor.hpp>
#include <kvpool/memory/page_memory.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool {

/// One pool's line in the ledger of an allocation.
struct PoolCharge {
  /// Name of the pool.
  std::string pool{};
  /// Bytes that the descriptor charges to the budget.
  Bytes charged{};
  /// Bytes that the memory says it holds for the pool.
  Bytes held{};

  /// Field by field.
  friend bool operator==(const PoolCharge&, const PoolCharge&) = default;
};

/// What reserved pages are filled with to be noticed: NaN in every floating format.
inline constexpr std::uint8_t kPoisonByte = 0xFF;

/// How `PoolSet::create` treats memory beyond allocating it.
struct PoolSetOptions {
  /// Fill the reserved pages with `kPoisonByte` after allocation. Only for memory that this process
  /// can write; on a GPU, `poison_reserved_pages` of kvpool::cuda does it.
  bool poison_reserved_pages = false;
};

/// A tensor at an address: a view of one layer's cache in an allocated pool.
struct PlacedView {
  /// Shape, strides, format.
  TensorView view{};
  /// Address of the first element.
  std::uintptr_t address = 0;
};

/// The allocated pools of one rank. Owns the memory and gives it back on destruction, in reverse
/// order. Move-only; no call but the constructor and destructor touches memory. Not synchronised:
/// const calls may run at the same time.
class PoolSet {
 public:
  /// Allocates exactly what the descriptors charge, pool by pool. All or nothing.
  /// @param pools descriptors of one rank; names are unique
  /// @param memory where the pools live; its granularity must divide every pool's
  /// @return the set; `kInvalidArgument` for a granularity that does not match or a name twice,
  ///   `kExhausted` when the memory gives less, `kInternal` when it holds more than was charged
  [[nodiscard]] static Result<PoolSet> create(std::span<const PoolDescriptor> pools,
                                              AnyPageMemory memory, PoolSetOptions options = {});

  /// The moved-from set is empty: it has no pools, and `reset` does nothing.
  PoolSet(PoolSet&& other) noexcept;
  /// Gives back what this set holds; the moved-from one is empty.
  PoolSet& operator=(PoolSet&& other) noexcept;
  PoolSet(const PoolSet&) = delete;
  PoolSet& operator=(const PoolSet&) = delete;
  ~PoolSet();

  /// Pools, in plan order.
  [[nodiscard]] std::span<const PoolDescriptor> pools() const noexcept;
  /// Index of the pool of this name, if there is one.
  [[nodiscard]] std::optional<PoolId> find(std::string_view name) const noexcept;
  /// Descriptor of a pool. @pre `pool` is one of this set
  [[nodiscard]] const PoolDescriptor& descriptor(PoolId pool) const noexcept;
  /// Base address of a pool, aligned to at least 256 bytes. @pre `pool` is one of this set
  [[nodiscard]] std::uintptr_t base(PoolId pool) const noexcept;
  /// Address of a table entry: base + entry * unit_bytes. @pre the entry lies inside the pool
  [[nodiscard]] std::uintptr_t entry_address(PoolId pool, std::int64_t entry) const noexcept;
  /// Where the reserved pages of a pool lie: one range, or one per layer in a layer-major pool.
  /// @pre `pool` is one of this set
  [[nodiscard]] std::vector<Region> reserved_ranges(PoolId pool) const;
  /// Views of one group, with addresses. @pre `pool` and `group` are of this set
  [[nodiscard]] std::vector<PlacedView> views(PoolId pool, std::size_t group) const;

  /// Charged and held bytes per pool, as the allocation found them.
  [[nodiscard]] std::span<const PoolCharge> ledger() const noexcept;

  /// Gives all memory back now; the set is empty afterwards.
  void reset() noexcept;

 private:
  struct Impl;
  explicit PoolSet(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvpool
