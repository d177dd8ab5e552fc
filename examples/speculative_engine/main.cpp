// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// example_speculative_engine [--backend cpu|cuda] [--target-page TOKENS] [--seed NUMBER]
//
// The speculative step of an engine, end to end: a drafter's block, append, verification by the
// target, acceptance of 0 to 7 drafts, roll-back in both pools; with prefix hits, forks, eviction
// and preemption on the way. What is generated is compared with the target decoded alone.
#include "claims.hpp"
#include "report.hpp"
#include "scenario.hpp"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <optional>
#include <string_view>
#include <utility>

namespace {

using kvpool::Result;

struct Options {
  bool on_gpu = false;
  std::int64_t target_page = 128;
  std::uint64_t seed = 1;
};

template <typename Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

std::optional<Options> parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name{argv[i]};
    const std::string_view value{argv[i + 1]};
    const bool is_known = (name == "--backend" && (value == "cpu" || value == "cuda")) ||
                          (name == "--target-page" && parse(value, options.target_page)) ||
                          (name == "--seed" && parse(value, options.seed));
    if (!is_known) {
      return std::nullopt;
    }
    options.on_gpu = options.on_gpu || value == "cuda";
  }
  return argc % 2 == 1 ? std::optional{options} : std::nullopt;
}

void claim_what_happened(const example::Outcome& outcome, example::Claims& claims) {
  const example::Statistics& statistics = outcome.statistics;
  claims.claim(outcome.finished == outcome.submitted + static_cast<std::size_t>(statistics.forks),
               "every request was answered, and every branch");
  claims.claim(outcome.wrong == 0, "each as the target would have alone, token by token");
  claims.claim(outcome.near_ties * 100 <= outcome.compared,
               "with at most 1 % of the tokens a matter of rounding, none in fp32");
  claims.claim(std::ranges::all_of(statistics.accepted, [](auto count) { return count >= 50; }),
               "blocks were accepted to every length, 0 to 7, 50 times or more");
  claims.claim(statistics.steps >= 200, "over 200 steps or more");
  claims.claim(statistics.target_pages_rejected > 0 && statistics.draft_pages_rejected > 0,
               "rejections gave pages back in both pools");
  claims.claim(outcome.counters.hits > 0, "prefixes were hit");
  claims.claim(statistics.forks > 0 && statistics.copied_pages > 0,
               "sequences were forked, and their incomplete pages copied");
  claims.claim(outcome.counters.evicted_blocks > 0, "cached blocks were evicted");
  claims.claim(statistics.preemptions > 0 && statistics.suspensions > 0,
               "sequences were preempted and suspended");
  claims.claim(statistics.resumed_alike > 0 && statistics.resumed_otherwise <= outcome.near_ties,
               "and went on as if nothing had happened");
  claims.claim(statistics.admitted_later > 0, "requests were refused, and admitted later");
  claims.claim(statistics.findings == 0, "the manager never contradicted itself");
  claims.claim(outcome.leaked == 0, "in the end every page is free");
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = parse_options(argc, argv);
  if (!options.has_value()) {
    std::cerr << "usage: example_speculative_engine [--backend cpu|cuda] [--target-page TOKENS] "
                 "[--seed NUMBER]\n";
    return 2;
  }
  auto scenario = options->on_gpu ? example::gpu_scenario() : example::Scenario{};
  scenario.target_page = options->target_page;
  scenario.seed = options->seed;
  scenario.engine.check_every = 8;
  auto backend = options->on_gpu
                     ? example::make_cuda_backend()
                     : Result<std::unique_ptr<example::Backend>>{example::make_cpu_backend()};
  if (!backend) {
    return example::fail(backend.error());
  }
  const auto outcome =
      example::run_scenario(scenario, kvpool::CapabilityRegistry::with_known_kernels(), **backend);
  if (!outcome) {
    return example::fail(outcome.error());
  }
  std::cout << example::report(*outcome) << '\n';
  example::Claims claims;
  claim_what_happened(*outcome, claims);
  return claims.exit_code();
}
