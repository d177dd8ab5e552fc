// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/units.hpp>
#include <kvpool/layout/parallelism.hpp>
#include <kvpool/model/stored_weights.hpp>

#include <cstdint>
#include <vector>

namespace kvpool {

/// What one rank of a pipeline stage loads of a checkpoint.
struct StoredShare {
  /// Stage, from 0.
  std::int64_t stage = 0;
  /// Bytes; parts of which it is not sure whether they are divided count whole.
  Bytes bytes{};
  /// Bytes with those parts divided.
  Bytes low{};
  /// Bytes with those parts whole, and a token table whose rows are filled up to a multiple of 64.
  Bytes high{};

  /// Field by field.
  friend bool operator==(const StoredShare&, const StoredShare&) = default;
};

/// What the fullest rank of each stage loads. Ranks get whole units (heads, rows, experts), so a
/// part whose units do not come out even is charged for the rank that has one more.
/// @param layers layers of the model, dealt out over the stages by `stage_layers`
/// @param next_token_layers whether next-token (MTP) layers are loaded
/// @return one share per stage
[[nodiscard]] std::vector<StoredShare> stored_shares(const StoredWeights& weights,
                                                     std::int64_t layers,
                                                     const Parallelism& parallelism,
                                                     bool next_token_layers);

/// The share of the stage that loads most; the first of those that load the same.
[[nodiscard]] StoredShare heaviest_share(const StoredWeights& weights, std::int64_t layers,
                                         const Parallelism& parallelism, bool next_token_layers);

}  // namespace kvpool
