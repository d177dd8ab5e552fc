// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/kv_dtype.hpp>

#include "json_reader.hpp"
#include "model_fields.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace kvpool::io::detail {

/// Parts of a model that checkpoints quantise, or leave alone, together.
enum class WeightPart { kAttention, kRecurrent, kDenseMlp, kExperts, kSharedExperts };
/// Number of parts.
inline constexpr std::size_t kWeightParts = 5;

/// How a checkpoint stores the weights of each part.
class WeightFormat {
 public:
  /// Bits of one parameter of `part` in `layer`, in hundredths, scales included; 0 when the part is
  /// kept in the native type.
  [[nodiscard]] std::int64_t centibits(WeightPart part, std::int64_t layer) const;
  /// As `centibits`, of a next-token layer.
  [[nodiscard]] std::int64_t mtp_centibits(WeightPart part, std::int64_t layer) const;
  /// Name of the format for people, or empty when nothing is quantised.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Sets the format of every part.
  void set_all(std::int64_t centibits, std::string name);
  /// Sets the format of one part.
  void set(WeightPart part, std::int64_t centibits);
  /// Names the format.
  void set_name(std::string name) { name_ = std::move(name); }
  /// Notes a module path or pattern that the checkpoint leaves in the native type.
  void skip(std::string_view pattern);

 private:
  struct Skips {
    bool everywhere = false;
    std::set<std::int64_t> layers;
  };

  std::array<std::int64_t, kWeightParts> centibits_{};
  std::array<Skips, kWeightParts> skips_{};
  std::set<std::int64_t> whole_layers_;
  bool mtp_skipped_ = false;
  std::string name_;
};

/// The part that a module path or pattern stands for, if it stands for most of one.
[[nodiscard]] std::optional<WeightPart> weight_part(std::string_view path);

/// Cache type that the checkpoint asks for, from the config's quantisation section and from the
/// `hf_quant_config.json` beside it (null when there is none).
[[nodiscard]] std::optional<KvDtype> read_checkpoint_kv_dtype(const JsonReader& config,
                                                              const JsonReader* beside,
                                                              FactLog& facts);

/// Storage of the weights, from the same two places. A format that is not known counts as native.
[[nodiscard]] WeightFormat read_weight_format(const JsonReader& config, const JsonReader* beside);

}  // namespace kvpool::io::detail
