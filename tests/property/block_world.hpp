// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// A block manager, the naive model of it, and random calls that both have to agree on.
#pragma once

#include <kvpool/block/block_manager.hpp>

#include "property/dice.hpp"
#include "property/naive_blocks.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::test {

/// How often things happened, so that a test can insist that they did.
struct WorldCounts {
  std::int64_t calls = 0, admitted = 0, hits = 0, partial_hits = 0, forks = 0, evictions = 0;
  std::int64_t refusals = 0, unsettled = 0, over_quota = 0, injected = 0, rejects_across_pages = 0;
  std::int64_t window_moves = 0, snapshots = 0, restored = 0, resumed = 0, duplicates = 0;

  WorldCounts& operator+=(const WorldCounts& other);
};

/// What the manager's hooks see.
struct PageLog {
  std::vector<bool> may_fail{};  ///< [pool]
  std::int64_t fail_at = -1;     ///< which allocation from now on fails
  std::int64_t asked = 0;
  std::set<std::pair<std::int32_t, std::int32_t>> allocated{}, freed{};

  void clear();
};

/// What a world is made of.
struct WorldShape {
  std::string name{};
  std::vector<PoolDescriptor> pools{};
  BlockManagerOptions options{};
  std::vector<NamespaceKey> namespaces{};  ///< beside the default one; tenants 1 and 2 exist
  bool encoder = false;
  std::int64_t longest_prompt = 64;
};
/// All kinds of groups, alone and together.
[[nodiscard]] std::vector<WorldShape> world_shapes();

/// What a call may do beside its effect.
struct Leeway {
  bool windows_pass = false;
  bool drops_draft = false;
};

class BlockWorld {
 public:
  BlockWorld(const WorldShape& shape, std::uint64_t seed);
  BlockWorld(const BlockWorld&) = delete;
  BlockWorld& operator=(const BlockWorld&) = delete;

  /// One random call, compared with the model. `deep`: with all invariants.
  void step(bool deep);
  /// Everything released and flushed: all pages are back.
  void drain();
  [[nodiscard]] const WorldCounts& counts() const { return counts_; }
  /// First disagreement, with the calls before it; empty for none.
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  struct Plan {  // what a call needs, at least and at most, and what of the cache it keeps
    std::vector<std::int64_t> least{}, most{};
    std::vector<std::set<std::int32_t>> kept{};
    std::map<std::int32_t, std::vector<std::int64_t>> charged{};  // tenant, [pool]
  };

  void fail(const std::string& what);
  /// Texts and numbers are put together only when it does not hold.
  template <typename... Parts>
  void expect(bool holds, const Parts&... parts) {
    if (!holds) {
      std::ostringstream text;
      (text << ... << parts);
      fail(text.str());
    }
  }
  void note(const std::string& call);
  [[nodiscard]] bool is_alive(std::size_t group, std::int32_t entry, bool fresh_counts) const;
  BlockStatus attempt(const std::function<BlockStatus()>& call, bool may_move_windows = false);
  void after(const std::function<void()>& effect, Leeway leeway = {});
  void read_rows();
  void find_lingering(const std::map<std::pair<std::size_t, std::int32_t>, NaiveLinger>& drafted);
  void spare_behind(std::size_t group, std::int32_t source);
  void take_copies(NaiveSequence* committing);
  void compare(bool deep);
  void compare_sequence(int id);
  void compare_contents(int id);
  void compare_pools();

  [[nodiscard]] Plan empty_plan() const;
  void charge(Plan& plan, const PrefixQuery& query, std::size_t group, std::int64_t from,
              std::int64_t to) const;
  void keep_hit(Plan& plan, const std::vector<Run>& runs, std::int64_t hit, bool draft);
  [[nodiscard]] std::int32_t tenant_of(std::int32_t scope) const;
  [[nodiscard]] std::map<std::int32_t, std::int32_t> held_tenants(std::size_t pool);
  [[nodiscard]] bool quota_allows(const Plan& plan, bool most);
  [[nodiscard]] bool has_room(const Plan& plan, bool most, std::uint64_t NaivePage::* fence);
  void check_status(BlockStatus status, const Plan& plan);
  [[nodiscard]] std::int64_t told_hit(const PrefixQuery& query, bool draft) const;
  [[nodiscard]] std::int64_t expected_hit(const PrefixQuery& query, bool draft, std::int64_t told);
  void let_fail(bool drafters);
  [[nodiscard]] bool has_group(const NaiveSequence& s, std::size_t group) const;

  PrefixQuery random_query(std::vector<std::int32_t>& tokens);
  int random_sequence();
  [[nodiscard]] bool shares_drafts(int id) const;
  void advance();
  void admit();
  void admit_with(const AdmitRequest& request, const std::function<AdmitOutcome()>& call);
  void append();
  void commit();
  void truncate();
  void fork();
  void release(int id);
  void suspend(bool preempt);
  void forget_pin(int id);
  void pin();
  void match();
  void misuse();
  void quota();
  void evict();
  void finish(int id);

  WorldShape shape_;
  PageLog log_{};
  BlockManager manager_;
  NaiveBlocks model_;
  Dice dice_;
  WorldCounts counts_{};
  std::string failure_{};
  std::vector<std::string> calls_{};
  std::map<int, SequenceId> ids_{};
  std::map<int, PinId> pin_ids_{};
  std::map<int, std::vector<std::int32_t>> prompts_{};  // storage of the model's queries
  std::vector<std::vector<std::int32_t>> documents_{};
  std::vector<SuspendedSequence> suspended_{};
  std::vector<NamespaceId> namespaces_{NamespaceId{0}};
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> quotas_{};  // tenant, pool
  bool has_draft_ = false, only_full_ = true;
  bool was_injected_ = false;  ///< the last attempt made do with what did not fail
  std::int64_t lookahead_ = 0, draft_limit_ = 0;
  std::int64_t now_ = 0;
  int next_id_ = 0;
};

}  // namespace kvpool::test
