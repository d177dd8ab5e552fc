// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "engine.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace example {

using kvpool::BlockStatus;
using kvpool::GroupId;
using kvpool::Result;
using kvpool::SequenceId;
using kvpool::Tokens;

namespace {

GroupId group_id(std::size_t index) { return GroupId{static_cast<std::int32_t>(index)}; }

}  // namespace

Engine::Engine(const EngineOptions& options, const kvpool::PoolSet& pools,
               kvpool::BlockManager& manager, kvpool::TableBatch tables, Backend& backend,
               ProposalMixer& mixer)
    : options_{options},
      pools_{&pools},
      manager_{&manager},
      tables_{std::move(tables)},
      backend_{&backend},
      mixer_{&mixer},
      layout_{options.rows, static_cast<std::int64_t>(manager.groups().size()),
              options.rows * options.chunk.count()} {
  statistics_.held_pages.resize(manager.groups().size());
  statistics_.most_held_pages.resize(manager.groups().size());
}

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options, const Models& models,
                                               const kvpool::PoolSet& pools,
                                               kvpool::BlockManager& manager, Backend& backend,
                                               ProposalMixer& mixer) {
  BackendMemory memory = backend.memory();
  // Two steps under way, and one more to write.
  auto tables = kvpool::TableBatch::create(
      manager, {.rows = options.rows, .staging_buffers = 3, .apply = memory.apply}, memory.tables,
      memory.staging, memory.queue);
  if (!tables) {
    return std::move(tables).error();
  }
  std::unique_ptr<Engine> engine{
      new Engine{options, pools, manager, *std::move(tables), backend, mixer}};
  if (auto done = backend.set_up({.models = &models,
                                  .pools = &pools,
                                  .manager = &manager,
                                  .tables = &engine->tables_,
                                  .layout = engine->layout_,
                                  .max_length = manager.options().max_length.count()});
      !done) {
    return std::move(done).error();
  }
  return engine;
}

void Engine::submit(Request request) {
  Job job{.request = std::move(request)};
  job.prefill = Tokens{static_cast<std::int64_t>(job.request.prompt.size())};
  waiting_.push_back(std::move(job));
}

// One step: reserve in all pools, bring copies and tables to the device, run the models, and tell
// the manager what is final.
Result<void> Engine::step() {
  ++statistics_.steps;
  if (auto done = timed(statistics_.scheduling_ns, [&] { return schedule(); }); !done) {
    return done;
  }
  for (const auto part : {&Engine::extend, &Engine::speculate}) {
    if (auto done = (this->*part)(); !done) {
      return done;
    }
  }
  if (auto done = timed(statistics_.scheduling_ns, [&] { return end_step(); }); !done) {
    return done;
  }
  count_pages();
  if (options_.check_every > 0 && statistics_.steps % options_.check_every == 0) {
    const auto findings = manager_->check_invariants(kvpool::CheckLevel::kEverything);
    statistics_.findings += static_cast<std::int64_t>(findings.size());
  }
  return {};
}

Result<void> Engine::end_step() {
  if (auto copied = copy_pages(kvpool::CopyOrder::kAfterStep); !copied) {
    return copied;
  }
  manager_->clear_copies();
  retire();
  // As in an engine that schedules a step while the device runs the one before.
  manager_->complete_until(kvpool::Epoch{epoch_ - 1});
  return {};
}

Result<void> Engine::schedule() {
  ++epoch_;
  // What is given back from now on may still be read by this step.
  manager_->begin_step(kvpool::Epoch{epoch_}, kvpool::Instant{statistics_.steps});
  if (statistics_.steps == options_.drafter_off_at) {
    for (const Job& job : running_) {
      manager_->stop_drafting(*job.sequence);
    }
  }
  fork_branches();
  schedule_running();
  schedule_waiting();
  if (auto copied = copy_pages(kvpool::CopyOrder::kBeforeStep); !copied) {
    return copied;
  }
  return update_tables();
}

bool Engine::drafts(const Job& job) const { return manager_->drafts(*job.sequence); }

BlockStatus Engine::reserve(std::size_t place) {
  Job& job = running_[place];
  const Tokens left = job.prefill - manager_->lengths(*job.sequence).committed;
  // A prompt comes in chunks; afterwards one token, and with a drafter the drafts behind it.
  job.is_speculative = left <= Tokens{} && drafts(job);
  job.query = left > Tokens{}      ? std::min(left, options_.chunk)
              : job.is_speculative ? Tokens{kBlock}
                                   : Tokens{1};
  // All groups of all pools, or none.
  return manager_->append(*job.sequence, job.query);
}

void Engine::schedule_running() {
  for (std::size_t place = 0; place < running_.size(); ++place) {
    BlockStatus status = reserve(place);
    while (status == BlockStatus::kNoPages && place + 1 < running_.size()) {
      preempt_last();
      status = reserve(place);
    }
    if (status != BlockStatus::kOk) {
      // `kUnsettled`: what was preempted is read until the step before has ended. To preempt more
      // would not help.
      running_[place].query = Tokens{};
      ++statistics_.waits;
      if (status == BlockStatus::kNoPages && running_.size() > 1) {
        preempt_last();
      }
    }
  }
}

void Engine::preempt_last() {
  Job job = std::move(running_.back());
  running_.pop_back();
  if (auto receipt = manager_->preempt(*job.sequence)) {
    job.suspended = std::move(receipt->sequence);
    job.prefill = Tokens{static_cast<std::int64_t>(job.suspended->tokens.size())};
  }
  tables_.unbind(job.row);
  job.sequence.reset();
  waiting_.push_front(std::move(job));
  ++statistics_.preemptions;
}

void Engine::schedule_waiting() {
  for (;;) {
    const auto next = std::ranges::find_if(
        waiting_, [&](const Job& job) { return job.request.arrives <= statistics_.steps; });
    const auto row = free_row();
    if (next == waiting_.end() || !row.has_value()) {
      return;
    }
    const bool is_off = options_.drafter_off_at > 0 && statistics_.steps >= options_.drafter_off_at;
    kvpool::AdmitRequest request{
        .prompt = {.tokens = next->request.prompt,
                   .draft = is_off ? kvpool::DraftMode::kOff : options_.draft},
        .must_fit = next->prefill + Tokens{kBlock}};
    if (next->suspended.has_value()) {
      next->suspended->draft = request.prompt.draft;
      request.prompt.tokens = next->suspended->tokens;
    }
    const Tokens hit = manager_->match_prefix(request.prompt).tokens;
    request.reserve = std::min(next->prefill, hit + options_.chunk);
    const kvpool::AdmitOutcome outcome = next->suspended.has_value()
                                             ? manager_->resume(*next->suspended, request.reserve)
                                             : manager_->admit(request);
    if (outcome.status != BlockStatus::kOk) {
      ++statistics_.refused_admissions;
      refused_.push_back(next->request.name);
      return;  // first come, first served
    }
    if (std::erase(refused_, next->request.name) > 0) {
      ++statistics_.admitted_later;
    }
    statistics_.without_drafter += outcome.draft_notice == kvpool::DraftNotice::kNone ? 0 : 1;
    Job job = std::move(*next);
    waiting_.erase(next);
    job.sequence = outcome.sequence;
    job.query = *request.reserve - outcome.hit.tokens;
    job.is_speculative = false;
    start(std::move(job), *row);
  }
}

void Engine::start(Job job, std::int64_t row) {
  job.row = row;
  tables_.bind(*manager_, row, *job.sequence);
  running_.push_back(std::move(job));
}

void Engine::fork_branches() {
  const std::size_t count = running_.size();
  for (std::size_t place = 0; place < count; ++place) {
    const auto row = free_row();
    const Job& job = running_[place];
    // It has to have answered: the branch begins with another token.
    if (!job.request.has_branch || job.output.empty() || !row.has_value() ||
        manager_->lengths(*job.sequence).committed < job.prefill) {
      continue;
    }
    const kvpool::ForkOutcome outcome = manager_->fork(*job.sequence);
    if (outcome.status != BlockStatus::kOk) {
      ++statistics_.waits;
      continue;
    }
    Job branch = job;
    running_[place].request.has_branch = false;
    branch.request.has_branch = false;
    branch.request.pauses_at = 0;
    branch.request.name += kBranchName;
    branch.output.back() =
        (branch.output.back() + 1) % static_cast<std::int32_t>(mixer_->vocabulary());
    branch.given = branch.output.size();
    branch.sequence = outcome.sequence;
    ++statistics_.forks;
    start(std::move(branch), *row);
  }
}

Result<void> Engine::copy_pages(kvpool::CopyOrder order) {
  for (std::size_t g = 0; g < manager_->groups().size(); ++g) {
    pairs_.clear();
    for (const kvpool::PageCopy& copy : manager_->copies()) {
      if (copy.order == order && copy.group == group_id(g)) {
        pairs_.push_back({.source = copy.source.value(), .destination = copy.destination.value()});
      }
    }
    if (pairs_.empty()) {
      continue;
    }
    statistics_.copied_pages += static_cast<std::int64_t>(pairs_.size());
    if (auto copied = backend_->copy_pages(manager_->groups()[g], pairs_); !copied) {
      return copied;
    }
  }
  return {};
}

Result<void> Engine::update_tables() {
  do {
    // The ring has a buffer more than steps are under way, so there is one.
    if (tables_.stage(*manager_) != BlockStatus::kOk) {
      return kvpool::Error{.message = "no staging buffer"};
    }
    statistics_.table_changes += static_cast<std::int64_t>(tables_.staged().deltas.size());
    if (auto copied = tables_.enqueue(); !copied) {
      return copied;
    }
    if (auto applied = backend_->apply_tables(tables_.update()); !applied) {
      return applied;
    }
  } while (tables_.has_more());
  return {};
}

Result<void> Engine::extend() {
  std::int32_t most = 0;
  const std::int32_t tokens = timed(statistics_.scheduling_ns, [&] { return write_extend(most); });
  if (tokens == 0) {
    return {};
  }
  const auto extended =
      timed(statistics_.kernels_ns, [&] { return backend_->extend(tokens, most); });
  if (!extended) {
    return extended.error();
  }
  return timed(statistics_.scheduling_ns, [&] {
    const ExtendArrays arrays = layout_.extend(backend_->arrays());
    for (std::int64_t row = 0; row < options_.rows; ++row) {
      if (arrays.q_indptr[row + 1] > arrays.q_indptr[row]) {
        const auto last = static_cast<std::size_t>(arrays.q_indptr[row + 1] - 1);
        take_extended(*job_of_row(row), extended->best[last]);
      }
    }
    return Result<void>{};
  });
}

std::int32_t Engine::write_extend(std::int32_t& most) {
  const ExtendArrays arrays = layout_.extend(backend_->arrays());
  sequences_.assign(static_cast<std::size_t>(options_.rows), kvpool::kNoSequence);
  parts_.clear();
  std::int32_t tokens = 0;
  arrays.q_indptr[0] = 0;
  for (std::int64_t row = 0; row < options_.rows; ++row) {
    arrays.lengths[row] = 0;
    const Job* const job = job_of_row(row);
    if (job != nullptr && job->query > Tokens{} && !job->is_speculative) {
      sequences_[static_cast<std::size_t>(row)] = *job->sequence;
      const auto first =
          static_cast<std::int32_t>(manager_->lengths(*job->sequence).committed.count());
      const auto count = static_cast<std::int32_t>(job->query.count());
      parts_.push_back(
          {.table_row = static_cast<std::int32_t>(row), .first_position = first, .count = count});
      const std::vector<std::int32_t> known = job->tokens();
      for (std::int32_t position = first; position < first + count; ++position, ++tokens) {
        arrays.tokens[tokens] = known[static_cast<std::size_t>(position)];
        arrays.positions[tokens] = position;
      }
      arrays.lengths[row] = first + count;
      most = std::max(most, count);
    }
    arrays.q_indptr[row + 1] = tokens;
  }
  for (std::size_t g = 0; g < manager_->groups().size(); ++g) {
    kvpool::slot_mapping(*manager_, group_id(g), sequences_, parts_, slots_);
    std::ranges::copy(slots_, arrays.slots + static_cast<std::int64_t>(g) * layout_.capacity());
  }
  return tokens;
}

void Engine::take_extended(Job& job, std::int32_t next) {
  if (manager_->lengths(*job.sequence).committed >= job.prefill) {
    manager_->commit(*job.sequence, std::span{&job.output.back(), 1});
    job.output.push_back(next);
    ++statistics_.generated;
    return;
  }
  manager_->commit_prompt(*job.sequence, job.query);
  statistics_.prefill_tokens += job.query.count();
  if (manager_->lengths(*job.sequence).committed < job.prefill) {
    return;
  }
  if (job.output.empty()) {
    job.output.push_back(next);
    ++statistics_.generated;
  } else if (job.output.size() > job.given) {  // it knows already what comes next
    ++(next == job.output.back() ? statistics_.resumed_alike : statistics_.resumed_otherwise);
  }
}

Result<void> Engine::speculate() {
  const auto drafting = [](const Job& job) { return job.is_speculative && job.query > Tokens{}; };
  if (std::ranges::none_of(running_, drafting)) {
    return {};
  }
  timed(statistics_.scheduling_ns, [&] {
    write_block();
    return 0;
  });
  // What the target would say is looked up for the example's sake: no part of the step's time.
  const BlockArrays arrays = layout_.block(backend_->arrays());
  for (const Job& job : running_) {
    if (drafting(job)) {
      const std::vector<std::int32_t> tokens = job.tokens();
      mixer_->mix(job.request.name, tokens, {arrays.proposals + job.row * kDrafts, kDrafts});
    }
  }
  ++statistics_.speculative_steps;
  const auto verified = timed(statistics_.kernels_ns, [&] { return backend_->speculate(); });
  if (!verified) {
    return verified.error();
  }
  timed(statistics_.scheduling_ns, [&] {
    for (Job& job : running_) {
      if (drafting(job)) {
        take_verified(job, *verified);
      }
    }
    return 0;
  });
  return {};
}

void Engine::write_block() {
  const BlockArrays arrays = layout_.block(backend_->arrays());
  clear_block(layout_, arrays);
  sequences_.assign(static_cast<std::size_t>(options_.rows), kvpool::kNoSequence);
  for (const Job& job : running_) {
    if (job.is_speculative && job.query > Tokens{}) {
      sequences_[static_cast<std::size_t>(job.row)] = *job.sequence;
      const auto first =
          static_cast<std::int32_t>(manager_->lengths(*job.sequence).committed.count());
      arrays.anchors[job.row] = job.output.back();
      arrays.firsts[job.row] = first;
      arrays.lengths[job.row] = first + kBlock;
      // A sequence that has just grown beyond what the drafter follows has no pages for it.
      arrays.draft_lengths[job.row] = drafts(job) ? first + kDrafts : 0;
    }
  }
  // Idle rows are `kNoSequence`'s, which has no slots.
  parts_.clear();
  for (std::int32_t row = 0; row < static_cast<std::int32_t>(options_.rows); ++row) {
    parts_.push_back({.table_row = row, .first_position = arrays.firsts[row], .count = kBlock});
  }
  for (std::size_t g = 0; g < manager_->groups().size(); ++g) {
    kvpool::slot_mapping(*manager_, group_id(g), sequences_, parts_, slots_);
    std::ranges::copy(slots_, arrays.slots + static_cast<std::int64_t>(g) * options_.rows * kBlock);
  }
}

void Engine::take_verified(Job& job, const Verified& verified) {
  const auto drafts = static_cast<std::size_t>(job.row) * kDrafts;
  const auto block = static_cast<std::size_t>(job.row) * kBlock;
  // The last token is final now, and so are drafts as long as they are what the target says.
  std::vector<std::int32_t> final_tokens{job.output.back()};
  std::size_t accepted = 0;
  while (accepted < kDrafts &&
         verified.proposed[drafts + accepted] == verified.best[block + accepted]) {
    final_tokens.push_back(verified.proposed[drafts + accepted]);
    ++accepted;
  }
  job.output.insert(job.output.end(), final_tokens.begin() + 1, final_tokens.end());
  job.output.push_back(verified.best[block + accepted]);

  const std::int64_t target = held_pages(*job.sequence, false);
  const std::int64_t draft = held_pages(*job.sequence, true);
  // The rest of the block goes, in both pools.
  manager_->truncate(*job.sequence,
                     Tokens{});
  statistics_.target_pages_rejected += held_pages(*job.sequence, false) < target ? 1 : 0;
  statistics_.draft_pages_rejected += held_pages(*job.sequence, true) < draft ? 1 : 0;
  manager_->commit(*job.sequence, final_tokens);

  ++statistics_.accepted[accepted];
  const auto new_tokens = static_cast<std::int64_t>(final_tokens.size());
  statistics_.generated += new_tokens;
  statistics_.by_blocks += new_tokens;
  for (std::size_t i = 0; i < kDrafts; ++i) {
    const bool is_own = verified.drafted[drafts + i] == verified.proposed[drafts + i];
    statistics_.drafter_proposed += is_own ? 1 : 0;
    statistics_.drafter_right += is_own && i < accepted ? 1 : 0;
  }
}

void Engine::retire() {
  for (std::size_t place = 0; place < running_.size();) {
    Job& job = running_[place];
    const bool is_done = job.output.size() >= job.request.max_output;
    const bool pauses = job.request.pauses_at > 0 && job.output.size() >= job.request.pauses_at &&
                        manager_->lengths(*job.sequence).committed >= job.prefill;
    if (!is_done && !pauses) {
      ++place;
      continue;
    }
    tables_.unbind(job.row);
    if (is_done) {
      manager_->release(*job.sequence);
      job.sequence.reset();
      finished_.push_back(std::move(job));
    } else {
      if (auto suspended = manager_->suspend(*job.sequence)) {
        job.suspended = *std::move(suspended);
        job.prefill = Tokens{static_cast<std::int64_t>(job.suspended->tokens.size())};
      }
      job.sequence.reset();
      job.request.pauses_at = 0;
      job.request.arrives = statistics_.steps + kPause;
      ++statistics_.suspensions;
      waiting_.push_back(std::move(job));
    }
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(place));
  }
}

void Engine::count_pages() {
  statistics_.running_rows += static_cast<std::int64_t>(running_.size());
  for (std::size_t g = 0; g < manager_->groups().size(); ++g) {
    const std::int64_t held = manager_->held_pages(group_id(g)).count();
    statistics_.held_pages[g] += held;
    statistics_.most_held_pages[g] = std::max(statistics_.most_held_pages[g], held);
  }
}

Job* Engine::job_of_row(std::int64_t row) {
  const auto job = std::ranges::find(running_, row, &Job::row);
  return job == running_.end() ? nullptr : &*job;
}

std::optional<std::int64_t> Engine::free_row() const {
  for (std::int64_t row = 0; row < options_.rows; ++row) {
    if (!tables_.sequence(row).has_value()) {
      return row;
    }
  }
  return std::nullopt;
}

std::int64_t Engine::held_pages(SequenceId sequence, bool of_drafter) const {
  std::int64_t held = 0;
  for (std::size_t g = 0; g < manager_->groups().size(); ++g) {
    if (manager_->groups()[g].is_draft == of_drafter) {
      held += manager_->view(sequence, group_id(g)).held.count();
    }
  }
  return held;
}

}  // namespace example
