// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "weight_vision.hpp"

namespace kvpool::io::detail {
namespace {

constexpr std::int64_t kColours = 3;
/// Patches that Kimi's projector joins along each side; its config does not say.
constexpr std::int64_t kKimiMerge = 2;

}  // namespace

std::optional<CheckedInt> vision_parameters(const JsonReader& config, std::int64_t text_hidden) {
  const auto vision = config.child("vision_config");
  if (!vision.has_value()) {
    return std::nullopt;
  }
  const std::int64_t layers = vision->integer_or(
      {"depth", "num_hidden_layers", "vt_num_hidden_layers"}, limits::kLayersOrNone, 0);
  const CheckedInt hidden{
      vision->integer_or({"hidden_size", "vt_hidden_size"}, limits::kDimOrNone, 0)};
  const CheckedInt inner{
      vision->integer_or({"intermediate_size", "vt_intermediate_size"}, limits::kDimOrNone, 0)};
  if (layers == 0 || hidden.saturated() == 0 || inner.saturated() == 0) {
    return std::nullopt;
  }
  // Pixtral's MLP has a gate, the others' have none.
  const std::int64_t matrices = vision->text("hidden_act") == "silu" ? 3 : 2;
  const CheckedInt of_layers =
      CheckedInt{layers} * (hidden * hidden * 4 + hidden * inner * matrices);

  const CheckedInt patch{vision->integer_or({"patch_size"}, limits::kDimOrNone, 0)};
  const CheckedInt frames{vision->integer_or({"temporal_patch_size"}, limits::kKernel, 1)};
  const CheckedInt positions{
      vision->integer_or({"num_position_embeddings"}, limits::kDimOrNone, 0)};
  const CheckedInt of_patches = patch * patch * kColours * frames * hidden + positions * hidden;

  const bool kimi = vision->has("vt_hidden_size");
  const std::int64_t merge =
      vision->integer_or({"spatial_merge_size"}, limits::kKernel, kimi ? kKimiMerge : 1);
  const CheckedInt joined = hidden * merge * merge;
  const CheckedInt out{vision->integer_or({"out_hidden_size"}, limits::kDim, text_hidden)};
  // Where patches are joined, a square matrix comes before the projection; Qwen3-VL has one such
  // pair more for each layer that it taps.
  const CheckedInt of_projector = joined * out + (merge > 1 ? joined * joined : CheckedInt{0});
  const Json::Array* taps = vision->list("deepstack_visual_indexes");
  const auto projectors = static_cast<std::int64_t>(taps == nullptr ? 1 : taps->size() + 1);
  return of_layers + of_patches + of_projector * projectors;
}

}  // namespace kvpool::io::detail
