// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>

#include <string>

namespace kvpool {

/// The state of a manager as one JSON document, schema `kvpool.block_manager/1`: pools, groups,
/// sequences with lengths and pages, tenants, counters. Stable between equal states. Cold.
[[nodiscard]] std::string manager_snapshot(const BlockManager& manager);

}  // namespace kvpool
