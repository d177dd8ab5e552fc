// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The hit rule of docs/block_manager.md, token by token: a prefix of F tokens is a hit when every
// group still has every key that the next token, at position F, may see there.
#include "property/dice.hpp"
#include "support/block_pools.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::test {
namespace {

using Prefix = std::vector<std::int32_t>;

/// A page that held tokens of a block, by the block's whole prefix.
struct Kept {
  Prefix prefix{};
  std::size_t group = 0;
  std::int64_t first = 0;  ///< position of the page's first token
};

/// Runs sequences and remembers what each page held last.
class Cache {
 public:
  explicit Cache(const std::vector<PoolDescriptor>& pools, BlockManagerOptions options)
      : manager_{make_manager(pools, with_hook(options))} {
    step();
  }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  [[nodiscard]] BlockManager& manager() { return manager_; }
  [[nodiscard]] std::int64_t block() const { return manager_.prefix_block().count(); }

  /// Every epoch but the latest completes: pages that went back are free.
  void step() {
    ++epoch_;
    REQUIRE(manager_.begin_step(Epoch{epoch_}, Instant{static_cast<std::int64_t>(epoch_)}) ==
            BlockStatus::kOk);
    REQUIRE(manager_.complete_until(Epoch{epoch_ - 1}) == BlockStatus::kOk);
  }

  /// Admits, commits in pieces and releases. Nothing is remembered if there is no room.
  void run(Dice& dice, const Prefix& tokens, DraftMode draft) {
    const AdmitOutcome outcome = manager_.admit({.prompt = {.tokens = tokens, .draft = draft}});
    if (outcome.status != BlockStatus::kOk) {
      return;
    }
    manager_.clear_copies();
    const auto length = static_cast<std::int64_t>(tokens.size());
    for (std::int64_t committed = outcome.hit.tokens.count(); committed < length;) {
      const std::int64_t cut =
          manager_.tokens_to_next_snapshot(outcome.sequence).value_or(Tokens{length}).count();
      const std::int64_t count = std::min({length - committed, 1 + dice.below(20), cut});
      remember(outcome.sequence, tokens, committed, committed + count);
      REQUIRE(manager_.commit_prompt(outcome.sequence, Tokens{count}) == BlockStatus::kOk);
      committed += count;
      for (const PageCopy& copy : manager_.copies()) {
        kept_[{manager_.groups()[static_cast<std::size_t>(copy.group.value())].pool.value(),
               copy.destination.value()}] = {{tokens.begin(), tokens.begin() + committed},
                                             static_cast<std::size_t>(copy.group.value()),
                                             committed};
      }
      manager_.clear_copies();
      step();
    }
    REQUIRE(manager_.release(outcome.sequence) == BlockStatus::kOk);
    step();
  }

  /// Whether the key at `position` of `tokens`, or the state after them, is still in the cache.
  [[nodiscard]] bool has(std::size_t group, const Prefix& tokens, std::int64_t position) const {
    const CacheGroup& g = manager_.groups()[group];
    return std::ranges::any_of(kept_, [&](const auto& entry) {
      const auto& [place, kept] = entry;
      const std::int64_t page = g.tokens_per_block.count();
      const std::int64_t first = page == 0 ? position : position / page * page;
      const auto size = static_cast<std::int64_t>(kept.prefix.size());
      return kept.group == group && place.first == g.pool.value() && kept.first == first &&
             size <= static_cast<std::int64_t>(tokens.size()) &&
             size >= (page == 0 ? position : first + page) &&
             std::equal(kept.prefix.begin(), kept.prefix.end(), tokens.begin()) &&
             manager_.page_pool(g.pool).is_live(PageId{place.second});
    });
  }
  /// Tokens from the start, of at most `end`, that all full draft groups have.
  [[nodiscard]] std::int64_t drafted(const Prefix& tokens, std::int64_t end) const {
    for (std::int64_t key = 0; key < end / block() * block(); ++key) {
      for (std::size_t g = 0; g < manager_.groups().size(); ++g) {
        const CacheGroup& group = manager_.groups()[g];
        if (group.is_draft && group.kind == GroupKind::kFull && !has(g, tokens, key)) {
          return key / block() * block();
        }
      }
    }
    return end;
  }
  /// The rule, tried from the longest prefix on.
  [[nodiscard]] std::int64_t longest(const Prefix& tokens, std::int64_t limit, bool draft) const {
    for (std::int64_t end = limit / block() * block(); end > 0; end -= block()) {
      if (is_hit(tokens, end, draft)) {
        return end;
      }
    }
    return 0;
  }

 private:
  BlockManagerOptions with_hook(BlockManagerOptions options) {
    options.on_allocate = {
        .call =
            [](void* context, PoolId pool, PageId page, Bytes) {
              static_cast<Cache*>(context)->kept_.erase({pool.value(), page.value()});
            },
        .context = this};
    return options;
  }
  void remember(SequenceId sequence, const Prefix& tokens, std::int64_t from, std::int64_t to) {
    const std::int64_t first_block = from / block();
    for (std::int64_t b = first_block; b < to / block(); ++b) {
      const Prefix prefix{tokens.begin(), tokens.begin() + (b + 1) * block()};
      for (std::size_t g = 0; g < manager_.groups().size(); ++g) {
        const GroupView view = manager_.view(sequence, GroupId{static_cast<std::int32_t>(g)});
        const std::int64_t page = manager_.groups()[g].tokens_per_block.count();
        for (std::int64_t t = b * block(); page > 0 && t < (b + 1) * block(); t += page) {
          const auto column = static_cast<std::size_t>(t / page);
          if (column < view.entries.size() && view.entries[column] != 0) {
            kept_[{manager_.groups()[g].pool.value(), view.entries[column]}] = {prefix, g, t};
          }
        }
      }
    }
  }
  [[nodiscard]] bool is_hit(const Prefix& tokens, std::int64_t end, bool draft) const {
    for (std::size_t g = 0; g < manager_.groups().size(); ++g) {
      const CacheGroup& group = manager_.groups()[g];
      if (group.is_draft && !draft) {
        continue;
      }
      if (group.kind == GroupKind::kState) {
        if (!has(g, tokens, end)) {
          return false;
        }
        continue;
      }
      for (std::int64_t key = 0; key < end; ++key) {
        const bool is_seen =
            group.kind == GroupKind::kFull ||
            (group.kind == GroupKind::kSlidingWindow && end - key < group.extent.count()) ||
            (group.kind == GroupKind::kChunked &&
             key / group.extent.count() == end / group.extent.count());
        if (is_seen && !has(g, tokens, key)) {
          return false;
        }
      }
    }
    return true;
  }

  std::map<std::pair<std::int32_t, std::int32_t>, Kept> kept_{};
  BlockManager manager_;
  std::uint64_t epoch_ = 0;
};

/// Full and windows, chunks or states, with or without a drafter; small enough that much is
/// evicted.
std::vector<PoolDescriptor> random_pools(Dice& dice, bool& has_state, bool& has_draft) {
  const std::int64_t page = dice.of(std::vector<std::int64_t>{1, 4, 6});
  std::vector<LayerGroup> groups{full_group()};
  if (dice.one_in(2)) {
    groups.push_back(window_group(1 + dice.below(24)));
  }
  if (dice.one_in(2)) {
    groups.push_back(chunk_group(1 + dice.below(24)));
  }
  const std::int64_t slabs = (120 + dice.below(200)) / page;
  std::vector<PoolDescriptor> pools{target_pool(groups, page, slabs)};
  has_draft = dice.one_in(2);
  if (has_draft) {
    std::vector<LayerGroup> draft{full_group()};
    if (dice.one_in(2)) {
      draft.push_back(window_group(1 + dice.below(16)));
    }
    pools.push_back(draft_pool(draft, dice.of(std::vector<std::int64_t>{page, 4}), slabs));
  }
  has_state = dice.one_in(3);
  if (has_state) {
    pools.push_back(state_pool(6 + dice.below(10)));
  }
  return pools;
}

TEST_CASE("a hit ends where every group has what the next token sees", "[block_manager]") {
  std::int64_t queries = 0;
  std::int64_t hits = 0;
  std::int64_t clipped = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Dice dice{seed};
    bool has_state = false;
    bool has_draft = false;
    const std::vector<PoolDescriptor> pools = random_pools(dice, has_state, has_draft);
    BlockManagerOptions options{.max_sequences = Sequences{4}, .max_length = Tokens{256}};
    options.partial_page_reuse = false;
    options.draft_lookahead = Tokens{has_draft ? dice.below(4) : 0};
    options.snapshot_interval = Tokens{has_state ? 12 * (1 + dice.below(2)) : 0};
    Cache cache{pools, options};
    INFO("seed " << seed << ", blocks of " << cache.block());

    std::vector<Prefix> documents;
    for (int i = 0; i < 4; ++i) {
      Prefix tokens = i > 0 && dice.one_in(2) ? documents.front() : Prefix{};
      tokens.resize(std::min<std::size_t>(tokens.size(), static_cast<std::size_t>(dice.below(60))));
      while (tokens.size() < static_cast<std::size_t>(20 + dice.below(60))) {
        tokens.push_back(static_cast<std::int32_t>(dice.below(3)));
      }
      documents.push_back(tokens);
    }
    for (int i = 0; i < 10; ++i) {
      const bool drafts = !dice.one_in(4);
      cache.run(dice, dice.of(documents), drafts ? DraftMode::kRequired : DraftMode::kOff);
      if (dice.one_in(3)) {
        const auto groups = static_cast<std::int64_t>(cache.manager().groups().size());
        cache.manager().evict(GroupId{static_cast<std::int32_t>(dice.below(groups))},
                              Pages{1 + dice.below(4)});
        cache.step();
      }
      for (int j = 0; j < 4; ++j) {
        Prefix tokens = dice.of(documents);
        tokens.resize(
            static_cast<std::size_t>(1 + dice.below(static_cast<std::int64_t>(tokens.size()))));
        const bool draft = has_draft && dice.one_in(2);
        const PrefixHit hit = cache.manager().match_prefix(
            {.tokens = tokens, .draft = draft ? DraftMode::kRequired : DraftMode::kOff});
        const std::int64_t limit = static_cast<std::int64_t>(tokens.size()) - 1;
        const std::int64_t end = std::min(limit, hit.matched.count());
        std::int64_t expected = 0;
        if (draft) {
          // The look-ahead is cut off the end of what the drafter has; of the block that goes on
          // differently it has either its part or nothing.
          for (const std::int64_t last : {end, end / cache.block() * cache.block()}) {
            const std::int64_t drafted = std::min(last, cache.drafted(tokens, last));
            expected = cache.longest(
                tokens, std::max<std::int64_t>(0, drafted - options.draft_lookahead.count()),
                draft);
            if (expected == hit.tokens.count()) {
              break;
            }
          }
        } else {
          expected = cache.longest(tokens, end, draft);
        }
        INFO("query of " << tokens.size() << " tokens" << (draft ? ", with drafter" : "")
                         << ", look-ahead " << options.draft_lookahead.count() << ", longest "
                         << cache.longest(tokens, limit, draft) << ", matched "
                         << hit.matched.count());
        REQUIRE(hit.tokens.count() == expected);
        REQUIRE(hit.whole_blocks == hit.tokens);
        REQUIRE(hit.matched >= hit.tokens);
        ++queries;
        hits += expected > 0 ? 1 : 0;
        clipped += hit.matched.count() / cache.block() * cache.block() > expected ? 1 : 0;
      }
    }
  }
  CHECK(queries == 12'000);
  CHECK(hits > 3'000);
  CHECK(clipped > 1'000);
}

}  // namespace
}  // namespace kvpool::test
