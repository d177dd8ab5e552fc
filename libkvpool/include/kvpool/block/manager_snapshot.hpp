// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>

#include <string>

/// In target kvpool::io, where JSON lives.
namespace kvpool::io {

/// The state of a manager as one JSON document, schema `kvpool.block_manager/1`: epochs, pools,
/// groups, sequences with their lengths and pages, tenants, counters. Equal states give equal
/// texts. It has neither tokens nor salts. Cold: work grows with the pages that sequences hold.
[[nodiscard]] std::string manager_snapshot(const BlockManager& manager);

}  // namespace kvpool::io
