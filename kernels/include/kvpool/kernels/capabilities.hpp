// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/capability/kernel_capability.hpp>

#include <span>

namespace kvpool::kernels {

/// The rows of the kernels in this library, of the kernel set `kvpool`. They are made from the list
/// that the dispatchers are made from.
[[nodiscard]] std::span<const KernelCapability> bundled_kernels();

/// A registry with `known_kernels()` and `bundled_kernels()`.
[[nodiscard]] CapabilityRegistry registry_with_bundled_kernels();

}  // namespace kvpool::kernels
