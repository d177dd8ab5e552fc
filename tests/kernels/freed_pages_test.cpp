// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Freed pages are poisoned (NaN), and nobody reads them: attention over the block manager's tables
// gives what the tokens say, on a device that is two steps behind. Nobody writes them either: the
// poison is still there when a page is handed out again.
#include <kvpool/block/block_manager.hpp>
#include <kvpool/kernels/narrow_float.hpp>
#include <kvpool/kernels/operands.hpp>
#include <kvpool/kernels/reference.hpp>
#include <kvpool/memory/host_memory.hpp>
#include <kvpool/pool/pool_set.hpp>

#include "property/dice.hpp"
#include "support/block_pools.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace kvpool::test {
namespace {

constexpr std::size_t kDim = 8;
constexpr std::int64_t kLookahead = 4;
using Row = std::array<float, kDim>;

/// Names a run of tokens; its last token has the rows of this number.
std::uint64_t extend(std::uint64_t run, std::int32_t token) {
  std::uint64_t x = run * std::uint64_t{0x9E3779B97F4A7C15} + static_cast<std::uint64_t>(token) + 1;
  x ^= x >> 29U;
  return x * std::uint64_t{0xBF58476D1CE4E5B9};
}
/// Eighths between -1 and 1, which bf16 has exactly.
Row row_of(std::uint64_t run, std::uint64_t kind) {
  Row row{};
  std::uint64_t x = extend(run, static_cast<std::int32_t>(kind) + 1'000'000);
  for (float& value : row) {
    value = static_cast<float>(static_cast<int>(x % 17U) - 8) / 8.0F;
    x /= 17U;
  }
  return row;
}

/// Memory of a rank whose free pages are NaN.
class PoisonedPools {
 public:
  explicit PoisonedPools(const std::vector<PoolDescriptor>& pools)
      : set_{must(PoolSet::create(pools, must(HostMemory::create(Bytes{4096}))))} {
    for (std::size_t i = 0; i < pools.size(); ++i) {
      const PoolId pool{static_cast<std::int32_t>(i)};
      std::memset(at(pool, 0), kPoisonByte, static_cast<std::size_t>(pools[i].bytes().count()));
    }
  }
  PoisonedPools(const PoisonedPools&) = delete;
  PoisonedPools& operator=(const PoisonedPools&) = delete;

  [[nodiscard]] PageHook on_free() {
    return {.call =
                [](void* context, PoolId pool, PageId page, Bytes bytes) {
                  auto& self = *static_cast<PoisonedPools*>(context);
                  std::memset(self.at(pool, page.value()), kPoisonByte,
                              static_cast<std::size_t>(bytes.count()));
                  ++self.poisoned;
                },
            .context = this};
  }
  [[nodiscard]] PageHook on_allocate() {
    return {.call =
                [](void* context, PoolId pool, PageId page, Bytes bytes) {
                  auto& self = *static_cast<PoisonedPools*>(context);
                  const auto* const first =
                      static_cast<const std::uint8_t*>(self.at(pool, page.value()));
                  self.written_when_free += std::any_of(first, first + bytes.count(),
                                                        [](auto b) { return b != kPoisonByte; });
                },
            .context = this};
  }
  [[nodiscard]] void* at(PoolId pool, std::int64_t entry) const {
    return reinterpret_cast<void*>(set_.entry_address(pool, entry));  // NOLINT: host memory
  }
  [[nodiscard]] const PoolSet& set() const { return set_; }

  std::int64_t poisoned = 0;
  std::int64_t written_when_free = 0;

 private:
  PoolSet set_;
};

/// What one sequence does in one group in one step, with the table as it was then.
struct Job {
  GroupId group{};
  std::vector<std::int32_t> entries{};
  std::vector<std::uint64_t> runs{};     ///< [i] names tokens [0, i]
  std::vector<std::uint64_t> written{};  ///< runs of the tokens from `first` on, rejected ones too
  std::int64_t first = 0;
};
struct Step {
  std::uint64_t epoch = 0;
  std::vector<PageCopy> before{}, after{};
  std::vector<Job> jobs{};
};

/// Runs steps later, in order, over the pools.
class Device {
 public:
  Device(PoisonedPools& pools, std::vector<CacheGroup> groups)
      : pools_{pools}, groups_{std::move(groups)} {}

  void run(const Step& step) {
    for (const PageCopy& copy : step.before) {
      copy_page(copy);
    }
    for (const Job& job : step.jobs) {
      write(job);
    }
    for (const Job& job : step.jobs) {
      attend(job);
    }
    for (const PageCopy& copy : step.after) {
      copy_page(copy);
    }
  }
  std::int64_t compared = 0;
  std::int64_t wrong = 0;

 private:
  [[nodiscard]] const CacheGroup& group(GroupId id) const {
    return groups_[static_cast<std::size_t>(id.value())];
  }
  [[nodiscard]] kernels::CachePair operands(const CacheGroup& g) const {
    return must(kernels::cache_operands(pools_.set(), g.pool,
                                        static_cast<std::size_t>(g.group_in_pool), LayerIndex{0}));
  }
  void copy_page(const PageCopy& copy) const {
    const CacheGroup& g = group(copy.group);
    std::memcpy(pools_.at(g.pool, copy.destination.value()), pools_.at(g.pool, copy.source.value()),
                static_cast<std::size_t>(g.page_bytes.count()));
  }
  void write(const Job& job) const {
    const CacheGroup& g = group(job.group);
    const kernels::CachePair cache = operands(g);
    const std::int64_t page = g.tokens_per_block.count();
    std::vector<std::uint16_t> k, v;
    std::vector<std::int64_t> slots;
    for (std::size_t i = 0; i < job.written.size(); ++i) {
      const std::int64_t position = job.first + static_cast<std::int64_t>(i);
      slots.push_back(job.entries[static_cast<std::size_t>(position / page)] * page +
                      position % page);
      for (const float value : row_of(job.written[i], 1)) {
        k.push_back(kernels::float_to_bf16(value));
      }
      for (const float value : row_of(job.written[i], 2)) {
        v.push_back(kernels::float_to_bf16(value));
      }
    }
    const kernels::AppendParams params{.k = k.data(),
                                       .v = v.data(),
                                       .slot_mapping = slots.data(),
                                       .k_cache = cache.k,
                                       .v_cache = cache.v,
                                       .k_token_stride = kDim,
                                       .k_head_stride = kDim,
                                       .v_token_stride = kDim,
                                       .v_head_stride = kDim,
                                       .tokens = static_cast<std::int32_t>(slots.size()),
                                       .kv_heads = 1,
                                       .tokens_per_block = static_cast<std::int32_t>(page)};
    const Result<void> done = kernels::reference::append(params);
    REQUIRE((done.has_value() ? std::string{} : to_string(done.error())) == "");
  }
  /// The last token's attention, by the kernel over the pages and by hand over the tokens.
  void attend(const Job& job) {
    const CacheGroup& g = group(job.group);
    const kernels::CachePair cache = operands(g);
    const auto length = static_cast<std::int32_t>(job.runs.size());
    const Row query = row_of(job.runs.back(), 3);
    std::array<std::uint16_t, kDim> q{};
    std::ranges::transform(query, q.begin(), kernels::float_to_bf16);
    std::array<std::uint16_t, kDim> out{};
    kernels::AttentionParams params{.q = q.data(), .out = out.data(), .k = cache.k, .v = cache.v};
    params.table = {.entries = job.entries.data(),
                    .lengths = &length,
                    .row_stride_entries = static_cast<std::int64_t>(job.entries.size()),
                    .unit_bytes = cache.k.entry_stride_bytes,
                    .rows = 1,
                    .tokens_per_block = cache.tokens_per_block};
    params.q_token_stride = params.q_head_stride = kDim;
    params.out_token_stride = params.out_head_stride = kDim;
    params.tokens = params.max_query_tokens = 1;
    params.query_heads = params.kv_heads = 1;
    const bool is_window = g.kind == GroupKind::kSlidingWindow;
    params.window_left = is_window ? static_cast<std::int32_t>(g.extent.count()) - 1 : -1;
    const Result<void> done = kernels::reference::attention(params);
    REQUIRE((done.has_value() ? std::string{} : to_string(done.error())) == "");

    const std::size_t first =
        is_window ? static_cast<std::size_t>(std::max<std::int64_t>(0, length - g.extent.count()))
                  : 0;
    std::array<double, kDim> sum{};
    double weights = 0;
    for (std::size_t i = first; i < job.runs.size(); ++i) {
      const Row key = row_of(job.runs[i], 1);
      const Row value = row_of(job.runs[i], 2);
      double score = 0;
      for (std::size_t d = 0; d < kDim; ++d) {
        score += static_cast<double>(query[d]) * static_cast<double>(key[d]);
      }
      weights += std::exp(score);
      for (std::size_t d = 0; d < kDim; ++d) {
        sum[d] += std::exp(score) * static_cast<double>(value[d]);
      }
    }
    for (std::size_t d = 0; d < kDim; ++d) {
      ++compared;
      // Rounded to bf16 once; written so that NaN counts as wrong.
      const auto read = static_cast<double>(kernels::bf16_to_float(out[d]));
      wrong += std::abs(sum[d] / weights - read) < 0.005 ? 0 : 1;
    }
  }

  PoisonedPools& pools_;
  std::vector<CacheGroup> groups_;
};

struct Running {
  SequenceId id{};
  std::vector<std::uint64_t> runs{};  ///< of the prompt, and of what was committed after it
  std::int64_t prompt = 0;
};

/// An engine with a drafter over a device that is `lag` steps behind.
class Engine {
 public:
  Engine(const std::vector<PoolDescriptor>& pools, std::uint64_t seed, std::uint64_t lag)
      : memory_{pools},
        blocks_{make_manager(pools, {.max_sequences = Sequences{6},
                                     .max_length = Tokens{160},
                                     .on_free = memory_.on_free(),
                                     .on_allocate = memory_.on_allocate()})},
        device_{memory_, {blocks_.groups().begin(), blocks_.groups().end()}},
        dice_{seed},
        lag_{lag} {
    for (int i = 0; i < 3; ++i) {
      std::vector<std::int32_t>& document = documents_.emplace_back();
      for (int t = 0; t < 90; ++t) {
        document.push_back(static_cast<std::int32_t>(dice_.below(3)));
      }
    }
  }

  void step() {
    ++epoch_;
    REQUIRE(blocks_.begin_step(Epoch{epoch_}, Instant{static_cast<std::int64_t>(epoch_)}) ==
            BlockStatus::kOk);
    Step work = std::exchange(next_, Step{});
    work.epoch = epoch_;
    come(work);
    const std::size_t before = running_.size();
    for (std::size_t i = 0, seen = 0; seen < before; ++seen) {
      const bool ends = dice_.one_in(24) || !advance(running_[i], work);
      if (ends) {
        REQUIRE(blocks_.release(running_[i].id) == BlockStatus::kOk);
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    take_copies(work);
    // Those that come now find what this step commits, before the device has written any of it;
    // the kernels of this step are enqueued, so what they ask for is copied before the next.
    come(next_);
    in_flight_.push_back(std::move(work));
    while (in_flight_.size() > lag_) {
      device_.run(in_flight_.front());
      REQUIRE(blocks_.complete_until(Epoch{in_flight_.front().epoch}) == BlockStatus::kOk);
      in_flight_.pop_front();
    }
  }

  [[nodiscard]] const PoisonedPools& memory() const { return memory_; }
  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] const BlockManager& blocks() const { return blocks_; }

 private:
  void come(Step& work) {
    if (dice_.one_in(3)) {
      admit();
    }
    if (!running_.empty() && dice_.one_in(10)) {
      fork();
    }
    take_copies(work);
  }
  void take_copies(Step& work) {
    for (const PageCopy& copy : blocks_.copies()) {
      (copy.order == CopyOrder::kBeforeStep ? work.before : work.after).push_back(copy);
    }
    blocks_.clear_copies();
  }
  void admit() {
    std::vector<std::int32_t> tokens = dice_.of(documents_);
    tokens.resize(static_cast<std::size_t>(1 + dice_.below(90)));
    for (std::int64_t i = dice_.below(6); i > 0; --i) {
      tokens.push_back(static_cast<std::int32_t>(dice_.below(3)));
    }
    const AdmitOutcome outcome = blocks_.admit(
        {.prompt = {.tokens = tokens,
                    .draft = dice_.one_in(4) ? DraftMode::kOff : DraftMode::kIfRoom}});
    if (outcome.status != BlockStatus::kOk) {
      return;
    }
    Running& sequence = running_.emplace_back(
        Running{.id = outcome.sequence, .prompt = static_cast<std::int64_t>(tokens.size())});
    std::uint64_t run = 0;
    for (const std::int32_t token : tokens) {
      sequence.runs.push_back(run = extend(run, token));
    }
  }
  void fork() {
    const Running parent = dice_.of(running_);
    const auto committed = blocks_.lengths(parent.id).committed.count();
    if (committed < parent.prompt) {
      return;
    }
    const ForkOutcome outcome = blocks_.fork(parent.id);
    if (outcome.status == BlockStatus::kOk) {
      running_.push_back(parent);
      running_.back().id = outcome.sequence;
    }
  }
  /// One step of a sequence: a piece of its prompt, or look-ahead tokens of which some stay.
  /// @return false when there is no room
  bool advance(Running& s, Step& work) {
    const std::int64_t committed = blocks_.lengths(s.id).committed.count();
    std::vector<std::uint64_t> written;
    if (committed < s.prompt) {
      const std::int64_t count = std::min<std::int64_t>(s.prompt - committed, 1 + dice_.below(40));
      written.assign(s.runs.begin() + committed, s.runs.begin() + committed + count);
      record(s, work, committed, committed + count, written);
      return blocks_.commit_prompt(s.id, Tokens{count}) == BlockStatus::kOk;
    }
    if (blocks_.append(s.id, Tokens{kLookahead}) != BlockStatus::kOk) {
      return false;
    }
    std::vector<std::int32_t> tokens;
    for (std::int64_t i = 0; i < kLookahead; ++i) {
      tokens.push_back(static_cast<std::int32_t>(dice_.below(3)));
      written.push_back(extend(written.empty() ? s.runs.back() : written.back(), tokens.back()));
    }
    const std::int64_t stay = 1 + dice_.below(kLookahead);
    tokens.resize(static_cast<std::size_t>(stay));
    s.runs.insert(s.runs.end(), written.begin(), written.begin() + stay);
    record(s, work, committed, committed + stay, written);
    return blocks_.commit(s.id, tokens) == BlockStatus::kOk &&
           blocks_.truncate(s.id, Tokens{kLookahead - stay}) == BlockStatus::kOk;
  }
  /// The step's tables are those before its tokens were accepted.
  void record(const Running& s, Step& work, std::int64_t first, std::int64_t length,
              const std::vector<std::uint64_t>& written) {
    for (std::size_t g = 0; g < blocks_.groups().size(); ++g) {
      const GroupId group{static_cast<std::int32_t>(g)};
      const GroupView view = blocks_.view(s.id, group);
      if (!view.entries.empty()) {
        work.jobs.push_back({.group = group,
                             .entries = {view.entries.begin(), view.entries.end()},
                             .runs = {s.runs.begin(), s.runs.begin() + length},
                             .written = written,
                             .first = first});
      }
    }
  }

  PoisonedPools memory_;
  BlockManager blocks_;
  Device device_;
  Dice dice_;
  std::uint64_t lag_;
  std::uint64_t epoch_ = 0;
  std::vector<std::vector<std::int32_t>> documents_{};
  std::vector<Running> running_{};
  Step next_{};
  std::deque<Step> in_flight_{};
};

TEST_CASE("freed pages are poisoned and read by nobody", "[block_manager]") {
  // The target's groups share slabs; the drafter's pages have another size.
  const std::vector<PoolDescriptor> pools{target_pool({full_group(1), window_group(20, 3)}, 8, 44),
                                          draft_pool({full_group()}, 4, 56)};
  for (const std::uint64_t lag : {1U, 2U, 3U}) {
    Engine engine{pools, lag, lag};
    for (int step = 0; step < 1'500; ++step) {
      engine.step();
    }
    INFO("a device " << lag << " steps behind");
    CHECK(engine.device().wrong == 0);
    CHECK(engine.memory().written_when_free == 0);
    // It means something only if pages went and came back in all ways.
    CHECK(engine.device().compared > 20'000);
    CHECK(engine.memory().poisoned > 3'000);
    CHECK(engine.blocks().counters().hits > 50);
    CHECK(engine.blocks().counters().forked > 20);
    CHECK(engine.blocks().counters().evicted_blocks > 100);
    CHECK(engine.blocks().counters().refused > 50);
    CHECK(engine.blocks().check_invariants(CheckLevel::kEverything).empty());
  }
}

}  // namespace
}  // namespace kvpool::test
