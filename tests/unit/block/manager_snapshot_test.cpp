// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/block/manager_snapshot.hpp>

#include "support/cache_pools.hpp"
#include "support/catch.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace kvpool {
namespace {

using test::admitted;
using test::cache_manager;
using test::cache_pool;
using test::tokens_from;

using Json = nlohmann::json;

BlockManager manager_of() {
  return cache_manager({cache_pool("target", PoolRole::kTarget, {{}}, 4, 40),
                        cache_pool("draft", PoolRole::kDraft, {{}}, 8, 20)},
                       {.max_sequences = Sequences{4}, .max_length = Tokens{64}});
}

TEST_CASE("a snapshot has what the manager holds", "[block][manager_snapshot]") {
  BlockManager manager = manager_of();
  const TenantId tenant = manager.intern_tenant("a \"tenant\"").value();
  REQUIRE(manager.set_quota(tenant, PoolId{1}, Pages{12}) == BlockStatus::kOk);
  const NamespaceId salted =
      manager.intern_namespace({.tenant = tenant, .salt = "the secret salt"}).value();
  REQUIRE(manager.begin_step(Epoch{3}, Instant{1}) == BlockStatus::kOk);
  REQUIRE(manager.complete_until(Epoch{4}) == BlockStatus::kInvalid);
  const SequenceId released = admitted(manager, tokens_from(700'000, 9));
  const std::vector<std::int32_t> prompt = tokens_from(100'000, 10);
  const AdmitOutcome outcome =
      manager.admit({.prompt = {.tokens = prompt, .name_space = salted}, .reserve = Tokens{6}});
  REQUIRE(outcome.status == BlockStatus::kOk);
  REQUIRE(manager.commit_prompt(outcome.sequence, Tokens{5}) == BlockStatus::kOk);
  REQUIRE(manager.release(released) == BlockStatus::kOk);

  const std::string text = io::manager_snapshot(manager);
  const Json document = Json::parse(text);
  CHECK(document["schema"] == "kvpool.block_manager/1");
  CHECK(document["opened"] == 3);
  CHECK(document["completed"] == 0);
  CHECK(document["prefix_block"] == 8);

  REQUIRE(document["pools"].size() == 2);
  CHECK(document["pools"][0]["name"] == "target");
  CHECK(document["pools"][1]["role"] == "draft");
  CHECK(document["pools"][1]["slabs"] == 20);
  CHECK(document["pools"][1]["unit_bytes"] == 512);
  REQUIRE(document["groups"].size() == 2);
  CHECK(document["groups"][0]["name"] == "target/full");
  CHECK(document["groups"][0]["kind"] == "full");
  CHECK(document["groups"][0]["tokens_per_block"] == 4);
  CHECK(document["groups"][0]["held_pages"] == 2);
  CHECK(document["groups"][1]["is_draft"] == true);
  CHECK(document["groups"][1]["held_pages"] == 1);

  REQUIRE(document["sequences"].size() == 1);
  const Json& sequence = document["sequences"][0];
  CHECK(sequence["index"] == outcome.sequence.index);
  CHECK(sequence["generation"] == outcome.sequence.generation);
  CHECK(sequence["prompt"] == 10);
  CHECK(sequence["reserved"] == 6);
  CHECK(sequence["committed"] == 5);
  CHECK(sequence["computed"] == 0);
  CHECK(sequence["drafts"] == true);
  CHECK(sequence["draft_notice"] == "none");
  REQUIRE(sequence["groups"].size() == 2);
  CHECK(sequence["groups"][0]["first_block"] == 0);
  const GroupView view = manager.view(outcome.sequence, GroupId{0});
  CHECK(sequence["groups"][0]["entries"] == Json{view.entries[0], view.entries[1]});

  REQUIRE(document["tenants"].size() == 2);
  CHECK(document["tenants"][1]["name"] == "a \"tenant\"");
  CHECK(document["tenants"][1]["pools"][0]["live"] == 2);
  CHECK(document["tenants"][1]["pools"][0]["quota"].is_null());
  CHECK(document["tenants"][1]["pools"][1]["quota"] == 12);
  CHECK(document["counters"]["admitted"] == 2);
  CHECK(document["counters"]["released"] == 1);
  CHECK(document["counters"]["prompt_tokens"] == 19);

  // Neither tokens nor salts.
  CHECK(text.find("the secret salt") == std::string::npos);
  CHECK(text.find("10000") == std::string::npos);
  CHECK(text.find("70000") == std::string::npos);
}

TEST_CASE("equal states have equal snapshots", "[block][manager_snapshot]") {
  BlockManager one = manager_of();
  BlockManager other = manager_of();
  CHECK(io::manager_snapshot(one) == io::manager_snapshot(other));
  const SequenceId sequence = admitted(one, tokens_from(1, 9));
  CHECK(io::manager_snapshot(one) != io::manager_snapshot(other));
  CHECK(admitted(other, tokens_from(1, 9)) == sequence);
  CHECK(io::manager_snapshot(one) == io::manager_snapshot(other));
}

TEST_CASE("a name that is no UTF-8 does not spoil the document", "[block][manager_snapshot]") {
  BlockManager manager = manager_of();
  REQUIRE(manager.intern_tenant("\xff\xfe").has_value());
  CHECK(Json::accept(io::manager_snapshot(manager)));
}

}  // namespace
}  // namespace kvpool
