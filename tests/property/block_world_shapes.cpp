// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "property/block_world.hpp"
#include "support/block_pools.hpp"

namespace kvpool::test {
namespace {

BlockManagerOptions small_options() {
  return {
      .max_sequences = Sequences{8}, .max_length = Tokens{160}, .max_pins = 4, .max_tenants = 4};
}

/// Two tenants with a salt each, and an adapter.
std::vector<NamespaceKey> salted_names() {
  return {{.tenant = TenantId{1}, .salt = "a"},
          {.tenant = TenantId{2}, .salt = "b"},
          {.tenant = TenantId{1}, .salt = "a", .adapter = "lora"}};
}

}  // namespace

std::vector<WorldShape> world_shapes() {
  std::vector<WorldShape> shapes;

  shapes.push_back({.name = "full",
                    .pools = {target_pool({full_group()}, 4, 40)},
                    .options = small_options(),
                    .namespaces = salted_names()});

  // Slabs of 768 bytes: six pages of the first group, or three, or two.
  shapes.push_back(
      {.name = "slabs",
       .pools = {target_pool({full_group(1), window_group(12, 2), chunk_group(16, 3)}, 4, 36)},
       .options = small_options(),
       .namespaces = {{.tenant = TenantId{1}, .salt = "a"}}});

  shapes.push_back({.name = "state",
                    .pools = {target_pool({full_group()}, 4, 60), state_pool(20)},
                    .options = small_options(),
                    .namespaces = {{.tenant = TenantId{2}, .salt = "b"}}});
  shapes.back().options.snapshot_interval = Tokens{8};

  shapes.push_back(
      {.name = "draft",
       .pools = {target_pool({full_group(2)}, 8, 30), draft_pool({full_group()}, 4, 50)},
       .options = small_options(),
       .namespaces = salted_names()});
  shapes.back().options.draft_lookahead = Tokens{1};

  // Pages of 4 and 6 tokens: prefix blocks of 12.
  shapes.push_back({.name = "mla and a drafter with a window",
                    .pools = {target_pool({mla_group()}, 4, 60),
                              draft_pool({full_group(1), window_group(8, 2)}, 6, 30)},
                    .options = small_options()});
  shapes.back().options.draft_lookahead = Tokens{2};
  shapes.back().options.draft_max_length = Tokens{72};

  shapes.push_back({.name = "everything",
                    .pools = {target_pool({full_group(1), window_group(20, 2), chunk_group(24, 3),
                                           cross_group(1)},
                                          4, 50),
                              draft_pool({full_group(1), window_group(16, 1)}, 8, 50),
                              state_pool(24), state_pool(24, "draft_state")},
                    .options = small_options(),
                    .namespaces = salted_names(),
                    .encoder = true});
  shapes.back().options.snapshot_interval = Tokens{16};
  shapes.back().options.draft_lookahead = Tokens{1};
  shapes.back().options.draft_max_length = Tokens{120};
  return shapes;
}

}  // namespace kvpool::test
