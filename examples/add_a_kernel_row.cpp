// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Page sizes are chosen by the kernels that read the pools. An engine tells kvpool about its own
// kernels as rows, in code or in a TOML file, and sees what they change and what that costs.
//
//   example_add_a_kernel_row MODEL.json DRAFTER.json
#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/capability/device_spec.hpp>
#include <kvpool/io/kernel_file.hpp>
#include <kvpool/io/model_config_io.hpp>
#include <kvpool/plan/planner.hpp>

#include "claims.hpp"

#include <algorithm>
#include <iostream>
#include <string_view>

namespace {

using kvpool::CapabilityRegistry;
using kvpool::Decision;
using kvpool::Resolution;
using kvpool::Tokens;

/// The engine's block attention for drafters: it reads pages of 16 or 32 tokens, and the engine has
/// no other kernel for the job.
kvpool::KernelCapability my_row() {
  return {.name = "my_block_attention",
          .provider = "my engine",
          .versions = "2.4 and later",
          .serves = {kvpool::PoolUser::kDflash, kvpool::PoolUser::kDspark},
          .role = kvpool::KernelRole::kDraftBlock,
          .page_sizes = kvpool::PageSizeRule{kvpool::PageSizeRule::OneOf{{16, 32}}},
          .limits = {.family = kvpool::AttentionFamily::kKeyValue},
          .necessity = kvpool::Necessity::kRequired,
          .source = "my engine, docs/drafting.md"};
}

/// The same row in a file.
constexpr std::string_view kMyRows = R"(
[[kernel]]
name = "my_block_attention"
provider = "my engine"
versions = "2.4 and later"
serves = ["dflash", "dspark"]
role = "draft_block"
page_sizes = [16, 32]
necessity = "required"
source = "my engine, docs/drafting.md"
[kernel.limits]
family = "key_value"
)";

const Decision* find(const Resolution& resolution, std::string_view id) {
  const auto found = std::ranges::find(resolution.decisions, id, &Decision::id);
  return found == resolution.decisions.end() ? nullptr : &*found;
}

void print_page(const Resolution& resolution) {
  const Decision* page = find(resolution, "draft_page_size");
  if (page != nullptr) {
    std::cout << "draft page " << page->chosen << ": " << page->reason << '\n';
    for (const kvpool::Verdict& verdict : page->verdicts) {
      std::cout << "    " << verdict.row << ", " << verdict.accepts << ": " << verdict.verdict
                << '\n';
    }
  }
  for (const Decision& decision : resolution.decisions) {
    if (decision.id == "preferred_kernel_lost") {
      std::cout << "  lost: " << decision.reason << "\n    " << decision.cost.value << ' '
                << decision.cost.unit << " (" << decision.cost.conditions << ")\n";
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto target = kvpool::io::read_model_config(argc > 1 ? argv[1] : "");
  const auto drafter = kvpool::io::read_model_config(argc > 2 ? argv[2] : "");
  if (!target || !drafter) {
    return example::fail(target ? drafter.error() : target.error());
  }
  kvpool::PlanRequest request{.target = *target};
  request.drafter = kvpool::DrafterRequest{.kind = kvpool::DrafterKind::kDspark, .model = *drafter};
  request.parallelism.tensor = 16;
  request.device = kvpool::find_device("gb200");
  example::Claims claims;

  // Without the row. `resolve` settles pages and formats, and counts no bytes.
  const auto known = CapabilityRegistry::with_known_kernels();
  const auto without = kvpool::resolve(request, known);
  if (!without) {
    return example::fail(without.error());
  }
  print_page(*without);
  claims.claim(without->draft_page == Tokens{64}, "without my row the draft page is the target's");

  // With it.
  auto mine = CapabilityRegistry::with_known_kernels();
  if (const auto added = mine.add(my_row()); !added) {
    return example::fail(added.error());
  }
  const auto with = kvpool::resolve(request, mine);
  if (!with) {
    return example::fail(with.error());
  }
  print_page(*with);
  const Decision* lost = find(*with, "preferred_kernel_lost");
  claims.claim(with->draft_page == Tokens{32}, "my row moves the draft page to 32");
  claims.claim(with->target_page == without->target_page, "and leaves the target's page alone");
  claims.claim(lost != nullptr && lost->cost.value == 306 && lost->cost.unit == "us_per_step",
               "which loses the fused draft kernel: 306 us of GPU work a step");

  // The file says the same.
  auto from_file = CapabilityRegistry::with_known_kernels();
  const auto rows = kvpool::io::parse_kernel_file(kMyRows, "my_kernels.toml");
  if (!rows) {
    return example::fail(rows.error());
  }
  for (const kvpool::KernelCapability& row : *rows) {
    if (const auto added = from_file.add(row); !added) {
      return example::fail(added.error());
    }
  }
  claims.claim(kvpool::resolve(request, from_file).value() == *with,
               "a row in a file does the same");

  // The rule alone, without a model: what do these rows say about a target page of 128?
  const auto choice = kvpool::decide_draft_page(Tokens{128}, mine.rows().last(1));
  claims.claim(choice.tokens_per_block == Tokens{32}, "to a 128-token target my row adds 32");
  return claims.exit_code();
}
