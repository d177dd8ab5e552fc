// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/units.hpp>
#include <kvpool/plan/plan_request.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool {

/// What is asked for: the value of one option, the others being kept.
enum class Question {
  kMaxModelLen,           ///< longest sequence, of the asked number of sequences
  kMaxNumSeqs,            ///< most sequences of the asked length or mix of lengths
  kGpus,                  ///< fewest GPUs that hold the asked sequences
  kGpuMemoryUtilization,  ///< smallest and largest share of the GPU with which it starts
  kKvCacheDtype,          ///< the format that costs the least precision and fits
  kPageSize,              ///< the page with the least waste
  kDrafter,               ///< the largest drafter that fits
  kNumDraftTokens,        ///< most draft tokens a step
};

/// Stable lower-case name: the option's, such as `max_model_len`; `gpus`.
[[nodiscard]] std::string_view to_string(Question question) noexcept;

/// All questions, in the order above.
[[nodiscard]] std::span<const Question> all_questions() noexcept;

/// A number with its name and unit.
struct Figure {
  /// Stable lower-case name.
  std::string name{};
  /// Amount, in `unit`.
  std::int64_t value = 0;
  /// `tokens`, `sequences`, `gpus`, `bytes`, `millionths`, `layers`, or empty for a plain number.
  std::string unit{};

  /// Field by field.
  friend bool operator==(const Figure&, const Figure&) = default;
};

/// Why the answer is not one step further.
struct BindingConstraint {
  /// Id of the refusal that a step further meets (`does_not_fit`, ...), or
  /// `max_position_embeddings`, `search_limit`, `overheads`, `kernels`, `waste`; empty when nothing
  /// binds.
  std::string id{};
  /// The same for people.
  std::string what{};
  /// Bytes that are missing on a rank for the next step; 0 when bytes are not what is missing.
  Bytes missing{};
  /// Pool that runs out first, or empty.
  std::string pool{};
  /// Pipeline stage of that pool.
  std::int64_t stage = 0;

  /// Field by field.
  friend bool operator==(const BindingConstraint&, const BindingConstraint&) = default;
};

/// One change of the deployment and the answer that it would give.
struct Relief {
  /// The change, in the words of the command line.
  std::string change{};
  /// The answer with it, in the answer's unit; where the answer is a name, its place among the
  /// candidates.
  std::int64_t value = 0;
  /// The answer as text, where it is a name.
  std::string chosen{};
  /// GPUs of the deployment with it.
  std::int64_t gpus = 1;

  /// Field by field.
  friend bool operator==(const Relief&, const Relief&) = default;
};

/// One of the values that were compared.
struct Candidate {
  /// The value, as the command line writes it.
  std::string name{};
  /// True when a plan with it fits.
  bool fits = false;
  /// Why it does not, or what it costs beside memory; may be empty.
  std::string note{};
  /// What was compared.
  std::vector<Figure> figures{};

  /// Field by field.
  friend bool operator==(const Candidate&, const Candidate&) = default;
};

/// The answer to one question. `make_plan` fits on `request`, and not on `beyond`; of a page and of
/// a mix of lengths see the question.
struct Answer {
  /// What was asked.
  Question question = Question::kMaxModelLen;
  /// False when no value would do: `binding` says why, `reliefs` what would help.
  bool found = false;
  /// The answer, in `unit`; 0 when there is none or it is a name.
  std::int64_t value = 0;
  /// `tokens`, `sequences`, `gpus`, `millionths`, `layers`, or empty for a name.
  std::string unit{};
  /// The answer as the command line writes it: `--max-model-len 82176`.
  std::string options{};
  /// Further numbers that belong to it.
  std::vector<Figure> figures{};
  /// The request with the answer in it: it fits. Without an answer the request as it was asked.
  PlanRequest request{};
  /// The request one step further, where there is one: it does not fit.
  std::optional<PlanRequest> beyond{};
  /// What stops the next step.
  BindingConstraint binding{};
  /// What would help, the cheapest first: settings, then formats, then leaving something out, then
  /// more GPUs. Only changes that give a better answer.
  std::vector<Relief> reliefs{};
  /// The values that were compared, for questions with a choice.
  std::vector<Candidate> candidates{};
  /// What else is to be known of the answer.
  std::vector<std::string> notes{};

  /// The figure of this name, or null.
  [[nodiscard]] const Figure* find_figure(std::string_view name) const noexcept;

  /// Field by field.
  friend bool operator==(const Answer&, const Answer&) = default;
};

}  // namespace kvpool
