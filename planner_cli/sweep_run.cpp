// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "sweep_run.hpp"

#include <kvpool/plan/planner.hpp>

#include "exit_codes.hpp"
#include "request.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace kvpool::cli {
namespace {

/// Points that a thread takes at a time.
constexpr std::size_t kChunk = 32;
constexpr std::chrono::milliseconds kBetweenReports{100};

[[nodiscard]] SweepPoint failed_point(const Failure& failure) {
  const bool usage = failure.exit() == ExitCode::kUsage;
  return {.refusal = usage ? "usage" : "input", .reason = to_string(failure.error())};
}

[[nodiscard]] SweepPoint summary_of(const Plan& plan) {
  SweepPoint point{.fits = plan.fits, .capacity = plan.capacity};
  if (const LedgerLine* line = plan.find_line("kv_budget"); line != nullptr) {
    point.kv_budget = line->bytes;
  }
  if (const PoolPlan* rank = plan.smallest(); rank != nullptr) {
    for (const PoolDescriptor& pool : rank->pools) {
      const SequenceRules rules = sequence_rules(plan, pool.role);
      for (const PooledGroup& group : pool.groups) {
        point.bytes_per_token += sequence_cost(group, rules).bytes_per_token;
      }
    }
  }
  for (const Refusal& refusal : plan.refusals) {
    if (point.refusal.empty() ||
        (point.missing.count() > 0 && refusal.missing_bytes.count() == 0)) {
      point.refusal = refusal.id;
      point.reason = refusal.what;
      point.missing = refusal.missing_bytes;
    }
  }
  return point;
}

/// The work that threads share.
class Work {
 public:
  Work(const Options& options, std::span<const SweepAxis> axes, const CapabilityRegistry& registry)
      : options_{options}, axes_{axes}, registry_{registry}, points_(point_count(axes)) {}

  /// Takes points until there are none. Files are read once a thread.
  void run() {
    InputCache inputs;
    while (true) {
      const std::size_t first = next_.fetch_add(kChunk);
      if (first >= points_.size() || failed_) {
        break;
      }
      const std::size_t end = std::min(first + kChunk, points_.size());
      for (std::size_t i = first; i < end; ++i) {
        points_[i] = plan_point(i, inputs);
      }
      done_ += end - first;
    }
    const std::lock_guard lock{mutex_};
    ++finished_;
    changed_.notify_one();
  }

  /// As `run`; what it throws is kept for the caller.
  void run_guarded() {
    try {
      run();
    } catch (...) {
      const std::lock_guard lock{mutex_};
      failed_ = true;
      thrown_ = std::current_exception();
      ++finished_;
      changed_.notify_one();
    }
  }

  void wait(std::size_t threads, const std::function<void(std::size_t)>& progress) {
    std::unique_lock lock{mutex_};
    while (!changed_.wait_for(lock, kBetweenReports, [&] { return finished_ == threads; })) {
      progress(done_);
    }
  }

  [[nodiscard]] std::vector<SweepPoint> take() {
    if (thrown_ != nullptr) {
      std::rethrow_exception(thrown_);
    }
    return std::move(points_);
  }

 private:
  [[nodiscard]] SweepPoint plan_point(std::size_t index, InputCache& inputs) const {
    try {
      const Options point = options_of(options_, axes_, indices_of(axes_, index));
      const Result<Plan> plan = make_plan(read_request(point, inputs), registry_);
      if (!plan) {
        return failed_point(Failure{plan.error()});
      }
      return summary_of(*plan);
    } catch (const Failure& failure) {
      return failed_point(failure);
    }
  }

  const Options& options_;
  std::span<const SweepAxis> axes_;
  const CapabilityRegistry& registry_;
  std::vector<SweepPoint> points_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::size_t> done_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t finished_ = 0;
  std::exception_ptr thrown_;
};

}  // namespace

std::vector<SweepPoint> run_points(const Options& options, std::span<const SweepAxis> axes,
                                   const CapabilityRegistry& registry, std::size_t threads,
                                   const std::function<void(std::size_t)>& progress) {
  Work work{options, axes, registry};
  threads = std::clamp<std::size_t>(threads, 1, (point_count(axes) + kChunk - 1) / kChunk);
  std::vector<std::jthread> running;
  running.reserve(threads);
  for (std::size_t i = 0; i < threads; ++i) {
    running.emplace_back([&work] { work.run_guarded(); });
  }
  work.wait(threads, progress);
  running.clear();
  return work.take();
}

}  // namespace kvpool::cli
