// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/memory/page_memory.hpp>

#include <cstdint>
#include <optional>

namespace kvpool {

/// A committed region that goes back to its memory when the owner does.
class OwnedRegion {
 public:
  /// Owns nothing.
  OwnedRegion() = default;
  /// Reserves and commits `size`, in whole granules.
  static Result<OwnedRegion> create(AnyPageMemory memory, Bytes size);

  OwnedRegion(OwnedRegion&& other) noexcept;
  OwnedRegion& operator=(OwnedRegion&& other) noexcept;
  OwnedRegion(const OwnedRegion&) = delete;
  OwnedRegion& operator=(const OwnedRegion&) = delete;
  ~OwnedRegion();

  /// First byte; 0 when it owns nothing.
  [[nodiscard]] std::uintptr_t address() const noexcept { return region_.address; }

 private:
  OwnedRegion(AnyPageMemory memory, Region region);

  std::optional<AnyPageMemory> memory_{};
  Region region_{};
};

}  // namespace kvpool
