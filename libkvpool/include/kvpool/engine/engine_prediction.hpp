// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/engine/engine.hpp>
#include <kvpool/engine/engine_figure.hpp>
#include <kvpool/engine/engine_request.hpp>

#include <string>
#include <vector>

namespace kvpool {

/// One signed line of an engine's account. The lines of an account add up to its total.
struct EngineLine {
  /// Stable name, such as `target_layers`, `whole_blocks`, `padding_layers`, `dump_page`.
  std::string name{};
  /// Bytes; negative where the engine takes less than the line before.
  Bytes bytes{};
  /// The rule, in words.
  std::string reason{};

  /// Field by field.
  friend bool operator==(const EngineLine&, const EngineLine&) = default;
};

/// A rule that an engine follows, or a default that stands in for a setting.
struct EngineRule {
  /// Stable name, such as `block_size`, `group_size`, `token_report`.
  std::string id{};
  /// What came out.
  std::string value{};
  /// Why, and from which version on.
  std::string reason{};
  /// What the rule is known from: start-up logs of which versions, or the engine's source.
  std::string source{};

  /// Field by field.
  friend bool operator==(const EngineRule&, const EngineRule&) = default;
};

/// Layers that an engine keeps in one kind of memory.
struct EngineGroup {
  /// What they hold, such as `full 4x256`, `state gated_delta_net`, `sliding_window_1024 8x128`.
  std::string what{};
  /// Layers.
  std::int64_t layers = 0;
  /// Empty places beside them.
  std::int64_t padding_layers = 0;
  /// Tokens of a block, page or cell; 0 for states.
  Tokens tokens_per_block{};
  /// Blocks (or slots) that one request of the asked length takes; 0 where no length is known.
  std::int64_t blocks_per_request = 0;

  /// Field by field.
  friend bool operator==(const EngineGroup&, const EngineGroup&) = default;
};

/// What an engine would print for a deployment. A prediction is never allocatable: the bytes of its
/// layers come from `PageGeometry`, everything else are the engine's own roundings.
struct EnginePrediction {
  /// Whose arithmetic.
  Engine engine = Engine::kVllm;
  /// The figures that the given one leads to, in the order of `FigureKey`.
  std::vector<EngineFigure> figures{};
  /// One request of the asked length: from what the layers need to what the engine charges. Empty
  /// where no length is known.
  std::vector<EngineLine> request_account{};
  /// The pool of one rank: from what was given to what is left. Empty where no pool is known.
  std::vector<EngineLine> pool_account{};
  /// The groups of layers.
  std::vector<EngineGroup> groups{};
  /// Rules and defaults that came into it.
  std::vector<EngineRule> rules{};

  /// The figure of this key, or null when the given one does not lead to it.
  [[nodiscard]] const EngineFigure* find(FigureKey key) const noexcept;
  /// Sum of the lines of an account.
  [[nodiscard]] static Bytes total(const std::vector<EngineLine>& account) noexcept;

  /// Field by field.
  friend bool operator==(const EnginePrediction&, const EnginePrediction&) = default;
};

/// Follows an engine's arithmetic. Pure.
/// @param registry kernel rows that decide the page of a draft pool of TensorRT-LLM
/// @return the prediction; `kInvalidArgument` with the key of a setting that is missing or out of
///   its range, `kUnsupported` where the engine does not start with it (a format that a cache
///   cannot have, say), `kOutOfRange` when a size does not fit into 64 bits
[[nodiscard]] Result<EnginePrediction> predict_engine(const EngineRequest& request,
                                                      const CapabilityRegistry& registry);

/// Bytes that one request of `length` tokens needs on one rank, without any engine's roundings:
/// every layer the tokens that it can see, one state per recurrent layer, no pages, padding or
/// draft layers. The reference that engines and planners are compared with.
/// @return `kUnsupported` for formats that a cache cannot have; `kOutOfRange` beyond 64 bits
[[nodiscard]] Result<Bytes> bytes_needed(const ModelConfig& model, const EngineSettings& settings,
                                         Tokens length);

}  // namespace kvpool
