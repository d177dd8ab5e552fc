// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "solve/page_choices.hpp"

#include <kvpool/solve/sequence_use.hpp>

#include "solve/fast_path.hpp"
#include "solve/probe.hpp"

#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

namespace kvpool {
namespace {

constexpr std::array<std::int64_t, 6> kPages{8, 16, 32, 64, 128, 256};

std::string lost_text(const Plan& plan) {
  std::string text;
  for (const Decision& decision : plan.decisions) {
    if (decision.id == "preferred_kernel_lost" && !decision.verdicts.empty()) {
      text += (text.empty() ? "loses " : ", ") + decision.verdicts.front().row;
    }
  }
  return text;
}

}  // namespace

std::vector<PageChoice> page_choices(const PlanRequest& request, const CapabilityRegistry& registry,
                                     const LengthMix& mix) {
  std::vector<PageChoice> choices;
  for (const std::int64_t size : kPages) {
    PageChoice choice{.page = Tokens{size}, .request = request};
    choice.request.tokens_per_block = choice.page;
    choice.plan = plan_of(choice.request, registry);
    if (choice.plan.has_value()) {
      const SequenceUse use = average_use(*choice.plan, mix);
      choice.held = use.held;
      choice.waste = use.waste();
      choice.lost = lost_kernels(*choice.plan);
      choice.lost_text = lost_text(*choice.plan);
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

const PageChoice* least_waste(std::span<const PageChoice> choices) {
  const auto key = [](const PageChoice& choice) {
    return std::tuple{choice.lost, choice.waste.count(), -choice.page.count()};
  };
  const PageChoice* best = nullptr;
  for (const PageChoice& choice : choices) {
    if (choice.is_usable() && (best == nullptr || key(choice) < key(*best))) {
      best = &choice;
    }
  }
  return best;
}

}  // namespace kvpool
