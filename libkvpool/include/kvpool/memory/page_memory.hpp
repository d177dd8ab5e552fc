// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>

namespace kvpool {

/// A range of addresses that a page memory has reserved. A plain value: it owns nothing.
struct Region {
  /// First byte.
  std::uintptr_t address = 0;
  /// Length.
  Bytes size{};

  /// Same address and size.
  friend bool operator==(const Region&, const Region&) = default;
};

/// Every region of a bundled memory starts at a multiple of this and of the memory's granularity.
inline constexpr Bytes kRegionAlignment{256};

/// Memory that is reserved as addresses first and backed with bytes on demand.
///
/// Words: an *OS page* is the unit of the operating system, a *granule* the unit in which a memory
/// commits; neither is the page of a pool.
///
/// A model is a copyable handle: copies share one state, and what is still reserved goes back when
/// the last copy does. Semantics, for a `memory`, a `region` it returned, and an offset and a size
/// in bytes:
/// - `reserve(size)` returns addresses that no other live region overlaps. Nothing is committed.
///   `size` is a positive multiple of the granularity, or the call is an `invalid_argument`; no
///   such range left is `exhausted`.
/// - `commit(region, offset, size)` backs `[offset, offset + size)` with memory. Both are multiples
///   of the granularity, the size is positive, the range lies in the region, and none of it is
///   committed: anything else is `invalid_argument`. No memory left is `exhausted`.
/// - `decommit(region, offset, size)` gives memory back, keeping the addresses. All of the range is
///   committed, or the call is `invalid_argument`. Contents are lost.
/// - `release(region)` gives everything back, committed or not. The region is one that `reserve`
///   returned and that has not been released, with its size, or the call is `invalid_argument`.
/// - `granularity()` never changes. `held()` is what is committed now, over all regions.
/// - A call that fails changes nothing.
/// - A handle that was moved from may be destroyed and assigned to, and nothing else.
///
/// Complexity: logarithmic in regions and in separately committed ranges, beside what the operating
/// system or the driver does. Threads: one call at a time per shared state; the caller serialises.
/// A call may take milliseconds and allocate: none belongs into a step of the engine.
template <typename M>
concept PageMemory =
    requires(M& memory, const M& constant, const Region& region, Bytes offset, Bytes size) {
      { memory.reserve(size) } -> std::same_as<Result<Region>>;
      { memory.commit(region, offset, size) } -> std::same_as<Result<void>>;
      { memory.decommit(region, offset, size) } -> std::same_as<Result<void>>;
      { memory.release(region) } -> std::same_as<Result<void>>;
      { constant.granularity() } -> std::same_as<Bytes>;
      { constant.held() } -> std::same_as<Bytes>;
    };

/// Any page memory, by value. Copies share the memory inside.
class AnyPageMemory {
 public:
  /// Takes a handle of any page memory.
  template <typename M>
    requires(!std::same_as<M, AnyPageMemory> && PageMemory<M>)
  AnyPageMemory(M memory)  // NOLINT: any memory is one
      : memory_{std::make_shared<Model<M>>(std::move(memory))} {
    // Not part of the concept: for a model that is itself made from an AnyPageMemory, the answer
    // would depend on itself.
    static_assert(std::copyable<M>);
  }

  /// See `PageMemory`.
  Result<Region> reserve(Bytes size) { return memory_->reserve(size); }
  /// See `PageMemory`.
  Result<void> commit(const Region& region, Bytes offset, Bytes size) {
    return memory_->commit(region, offset, size);
  }
  /// See `PageMemory`.
  Result<void> decommit(const Region& region, Bytes offset, Bytes size) {
    return memory_->decommit(region, offset, size);
  }
  /// See `PageMemory`.
  Result<void> release(const Region& region) { return memory_->release(region); }
  /// See `PageMemory`.
  [[nodiscard]] Bytes granularity() const { return memory_->granularity(); }
  /// See `PageMemory`.
  [[nodiscard]] Bytes held() const { return memory_->held(); }

  /// True for copies of one another.
  friend bool operator==(const AnyPageMemory&, const AnyPageMemory&) = default;

 private:
  struct Interface {
    Interface() = default;
    Interface(const Interface&) = delete;
    Interface& operator=(const Interface&) = delete;
    virtual ~Interface() = default;
    virtual Result<Region> reserve(Bytes size) = 0;
    virtual Result<void> commit(const Region& region, Bytes offset, Bytes size) = 0;
    virtual Result<void> decommit(const Region& region, Bytes offset, Bytes size) = 0;
    virtual Result<void> release(const Region& region) = 0;
    [[nodiscard]] virtual Bytes granularity() const = 0;
    [[nodiscard]] virtual Bytes held() const = 0;
  };

  template <typename M>
  struct Model final : Interface {
    explicit Model(M value) : memory{std::move(value)} {}
    Result<Region> reserve(Bytes size) override { return memory.reserve(size); }
    Result<void> commit(const Region& region, Bytes offset, Bytes size) override {
      return memory.commit(region, offset, size);
    }
    Result<void> decommit(const Region& region, Bytes offset, Bytes size) override {
      return memory.decommit(region, offset, size);
    }
    Result<void> release(const Region& region) override { return memory.release(region); }
    [[nodiscard]] Bytes granularity() const override { return memory.granularity(); }
    [[nodiscard]] Bytes held() const override { return memory.held(); }

    M memory;
  };

  std::shared_ptr<Interface> memory_;
};

static_assert(PageMemory<AnyPageMemory>);

}  // namespace kvpool
