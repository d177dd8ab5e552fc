// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/kernels/params.hpp>

/// What a launch checks before it reaches a kernel: everything that the struct alone tells.
/// Contents of device memory (tables, lengths, slot mappings) are not read.
namespace kvpool::kernels {

/// Whether kernels can run this attention: shapes, types, alignment of addresses and strides to 16
/// bytes, rows that overlap, distances beyond 64 bits, windows, scales, null pointers, workspace.
/// @return `kInvalidArgument` with the field as key, `kUnsupported` for what no kernel is compiled
///   for
[[nodiscard]] Result<void> check(const AttentionParams& params);

/// Whether kernels can run this append. See above.
[[nodiscard]] Result<void> check(const AppendParams& params);

/// Whether kernels can run this merge: shapes, types, alignment, strides, null pointers.
/// @return as above
[[nodiscard]] Result<void> check(const MergeParams& params);

/// Whether kernels can copy these pages: sizes, alignment of addresses and strides to 16 bytes,
/// null pointers.
/// @return `kInvalidArgument` with the field as key
[[nodiscard]] Result<void> check(const PageCopyParams& params);

/// Whether kernels can apply these deltas: sizes, alignment, null pointers.
/// @return `kInvalidArgument` with the field as key
[[nodiscard]] Result<void> check(const TableDeltaParams& params);

/// Whether the workspace of `params` holds `required` bytes and is aligned.
/// @return `kInvalidArgument`; the message has the required size
[[nodiscard]] Result<void> check_workspace(const AttentionParams& params, Bytes required);

}  // namespace kvpool::kernels
