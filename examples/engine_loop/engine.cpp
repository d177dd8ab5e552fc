// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "engine.hpp"

#include <kvpool/memory/host_memory.hpp>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <utility>

namespace example {

using kvpool::BlockManager;
using kvpool::BlockStatus;
using kvpool::Result;
using kvpool::SequenceId;
using kvpool::Tokens;

std::int32_t Job::token(std::int64_t position) const {
  const auto at = static_cast<std::size_t>(position);
  return at < request.prompt.size() ? request.prompt[at] : output[at - request.prompt.size()];
}

Engine::Engine(const kvpool::PoolSet& pools, kvpool::TracingBlockManager& calls,
               kvpool::TableBatch tables, kvpool::AnyDeviceQueue queue)
    : pools_{&pools},
      calls_{&calls},
      tables_{std::move(tables)},
      queue_{std::move(queue)},
      slots_(calls.manager().groups().size()) {}

Result<Engine> Engine::create(const kvpool::PoolSet& pools, kvpool::TracingBlockManager& calls) {
  // On a GPU: device memory, pinned memory, the engine's stream, and `kByKernel`.
  const kvpool::AnyDeviceQueue queue{kvpool::HostQueue{}};
  auto tables = kvpool::TableBatch::create(calls.manager(), {.rows = kRows, .staging_buffers = 2},
                                           kvpool::HostMemory{}, kvpool::HostMemory{}, queue);
  if (!tables) {
    return std::move(tables).error();
  }
  Engine engine{pools, calls, *std::move(tables), queue};
  if (auto found = engine.find_layers(); !found) {
    return std::move(found).error();
  }
  return engine;
}

Result<void> Engine::find_layers() {
  const std::span<const kvpool::CacheGroup> groups = calls_->manager().groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const kvpool::CacheGroup& group = groups[g];
    const auto in_pool = static_cast<std::size_t>(group.group_in_pool);
    const auto& pooled = pools_->descriptor(group.pool).groups[in_pool];
    for (const kvpool::LayerGeometry& layer : pooled.group.layers) {
      const auto cache = kvpool::kernels::cache_operands(*pools_, group.pool, in_pool, layer.layer);
      if (!cache) {
        return cache.error();
      }
      const bool has_window = group.kind == kvpool::GroupKind::kSlidingWindow;
      layers_.push_back(
          {.input = {.seed = layer.layer.value() + (group.is_draft ? 100 : 0),
                     .cache = *cache,
                     .window_left =
                         has_window ? static_cast<std::int32_t>(group.extent.count()) - 1 : -1},
           .group = kvpool::GroupId{static_cast<std::int32_t>(g)},
           .pool = group.pool,
           .of_drafter = group.is_draft});
    }
  }
  std::ranges::sort(layers_, {}, [](const Layer& layer) { return layer.input.seed; });
  return {};
}

void Engine::submit(Request request) {
  Job job{.request = std::move(request)};
  job.prefill = Tokens{static_cast<std::int64_t>(job.request.prompt.size())};
  waiting_.push_back(std::move(job));
}

Result<void> Engine::step() {
  ++statistics_.steps;
  ++epoch_;
  // Pages that are given back from now on may still be read by this step.
  calls_->begin_step(kvpool::Epoch{epoch_}, kvpool::Instant{statistics_.steps});
  schedule_running();
  schedule_waiting();
  for (const auto part :
       {&Engine::copy_pages, &Engine::update_tables, &Engine::compute, &Engine::draft}) {
    if (auto done = (this->*part)(); !done) {
      return done;
    }
  }
  retire();
  statistics_.findings += static_cast<std::int64_t>(
      calls_->manager().check_invariants(kvpool::CheckLevel::kEverything).size());
  // As in an engine that schedules a step while the device runs the one before.
  calls_->complete_until(kvpool::Epoch{epoch_ - 1});
  return {};
}

void Engine::schedule_running() {
  const BlockManager& manager = calls_->manager();
  for (std::size_t place = 0; place < running_.size(); ++place) {
    Job& job = running_[place];
    const kvpool::SequenceLengths lengths = manager.lengths(*job.sequence);
    const Tokens left = job.prefill - lengths.committed;
    // A prompt comes in chunks; afterwards one token, and the drafter's guesses behind it.
    job.query = left > Tokens{} ? std::min(left, kChunk)
                                : Tokens{1 + static_cast<std::int64_t>(job.drafts.size())};
    BlockStatus status = calls_->append(*job.sequence, job.query);
    while (status == BlockStatus::kNoPages && place + 1 < running_.size()) {
      preempt_last();
      status = calls_->append(*job.sequence, job.query);
    }
    if (status != BlockStatus::kOk) {
      // `kUnsettled`: what was preempted is read until the step before has ended. To preempt more
      // would not help.
      job.query = Tokens{};
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
  const Tokens committed = calls_->manager().lengths(*job.sequence).committed;
  statistics_.abandoned_tokens += std::max(job.prefill - committed, Tokens{}).count();
  auto receipt = calls_->preempt(*job.sequence);
  if (receipt) {
    job.suspended = std::move(receipt->sequence);
    job.prefill = Tokens{static_cast<std::int64_t>(job.suspended->tokens.size())};
  }
  tables_.unbind(job.row);
  job.sequence.reset();
  job.drafts.clear();
  waiting_.push_front(std::move(job));
  ++statistics_.preemptions;
}

void Engine::schedule_waiting() {
  const BlockManager& manager = calls_->manager();
  while (!waiting_.empty() && waiting_.front().request.arrives <= statistics_.steps) {
    std::int64_t row = 0;
    while (row < kRows && tables_.sequence(row).has_value()) {
      ++row;
    }
    if (row == kRows) {
      return;
    }
    Job& job = waiting_.front();
    kvpool::AdmitRequest request{.prompt = {.tokens = job.request.prompt,
                                            .name_space = job.request.name_space,
                                            .public_tokens = job.request.public_tokens},
                                 .must_fit = job.prefill};
    if (job.suspended.has_value()) {
      request.prompt.tokens = job.suspended->tokens;
    }
    const Tokens hit = manager.match_prefix(request.prompt).tokens;
    request.reserve = std::min(job.prefill, hit + kChunk);
    const kvpool::AdmitOutcome outcome = job.suspended.has_value()
                                             ? calls_->resume(*job.suspended, request.reserve)
                                             : calls_->admit(request);
    if (outcome.status != BlockStatus::kOk) {
      ++statistics_.waits;
      return;  // first come, first served
    }
    job.sequence = outcome.sequence;
    job.row = row;
    job.query = *request.reserve - outcome.hit.tokens;
    tables_.bind(calls_->manager(), row, outcome.sequence);
    running_.push_back(std::move(job));
    waiting_.pop_front();
  }
}

Result<void> Engine::copy_pages() {
  for (const kvpool::PageCopy& copy : calls_->manager().copies()) {
    const auto& group = calls_->manager().groups()[static_cast<std::size_t>(copy.group.value())];
    auto copied =
        queue_.copy_async(pools_->entry_address(group.pool, copy.destination.value()),
                          pools_->entry_address(group.pool, copy.source.value()), group.page_bytes);
    if (!copied) {
      return copied;
    }
  }
  calls_->clear_copies();
  return {};
}

Result<void> Engine::update_tables() {
  do {
    // The ring has as many buffers as steps are under way, so there is one.
    if (tables_.stage(calls_->manager()) != BlockStatus::kOk) {
      return kvpool::Error{.message = "no staging buffer"};
    }
    statistics_.deltas += static_cast<std::int64_t>(tables_.staged().deltas.size());
    if (auto copied = tables_.enqueue(); !copied) {
      return copied;
    }
  } while (tables_.has_more());
  return {};
}

std::vector<LayerInput> Engine::layers(bool of_drafter) const {
  std::vector<LayerInput> inputs;
  for (const Layer& layer : layers_) {
    if (layer.of_drafter == of_drafter) {
      inputs.push_back(layer.input);
      inputs.back().tables = tables_.view(layer.group, pools_->base(layer.pool));
      inputs.back().slots = slots_[static_cast<std::size_t>(layer.group.value())];
    }
  }
  return inputs;
}

Result<void> Engine::compute() {
  const BlockManager& manager = calls_->manager();
  std::vector<Job*> by_row(kRows);
  for (Job& job : running_) {
    by_row[static_cast<std::size_t>(job.row)] = &job;
  }
  std::vector<kvpool::StepTokens> parts;
  std::vector<SequenceId> sequences(kRows);
  Step step{.q_indptr = {0}};
  for (std::size_t row = 0; row < by_row.size(); ++row) {
    const Job* job = by_row[row];
    if (job != nullptr && job->query > Tokens{}) {
      sequences[row] = *job->sequence;
      const std::int64_t first = manager.lengths(*job->sequence).committed.count();
      parts.push_back({.table_row = static_cast<std::int32_t>(row),
                       .first_position = static_cast<std::int32_t>(first),
                       .count = static_cast<std::int32_t>(job->query.count())});
      // A position beyond what is known holds a guess of the drafter.
      const auto known = static_cast<std::int64_t>(job->request.prompt.size() + job->output.size());
      for (std::int64_t p = first; p < first + job->query.count(); ++p) {
        step.tokens.push_back(p < known ? job->token(p)
                                        : job->drafts[static_cast<std::size_t>(p - known)]);
      }
    }
    step.q_indptr.push_back(static_cast<std::int32_t>(step.tokens.size()));
  }
  if (parts.empty()) {
    return {};
  }
  // Once per step, for all layers.
  kvpool::DecodeRows rows;
  kvpool::expand_decode_rows(parts, rows);
  step.positions = rows.position;
  for (std::size_t g = 0; g < slots_.size(); ++g) {
    kvpool::slot_mapping(manager, kvpool::GroupId{static_cast<std::int32_t>(g)}, sequences, parts,
                         slots_[g]);
  }

  const auto hashes = forward(layers(false), step);
  if (!hashes) {
    return hashes.error();
  }
  for (const LayerInput& layer : layers(true)) {
    if (auto written = write_cache(layer, step); !written) {
      return written;
    }
  }
  for (std::size_t row = 0; row < by_row.size(); ++row) {
    const auto first = static_cast<std::size_t>(step.q_indptr[row]);
    const auto count = static_cast<std::size_t>(step.q_indptr[row + 1]) - first;
    if (count > 0) {
      Job& job = *by_row[row];
      const bool is_prefill = manager.lengths(*job.sequence).committed < job.prefill;
      (this->*(is_prefill ? &Engine::take_prefilled : &Engine::take_decoded))(
          job, std::span{*hashes}.subspan(first, count));
    }
  }
  return {};
}

void Engine::take_prefilled(Job& job, std::span<const std::uint64_t> hashes) {
  calls_->commit_prompt(*job.sequence, job.query);
  statistics_.prefill_tokens += job.query.count();
  if (calls_->manager().lengths(*job.sequence).committed < job.prefill) {
    return;
  }
  const std::int32_t next = sample(hashes.back());
  if (job.output.empty()) {
    job.output.push_back(next);
  } else {  // It was preempted, and knows already what comes next.
    ++(next == job.output.back() ? statistics_.resumed_alike : statistics_.resumed_otherwise);
  }
}

void Engine::take_decoded(Job& job, std::span<const std::uint64_t> hashes) {
  const BlockManager& manager = calls_->manager();
  // The token itself is final, and so are guesses as long as they are what the target says.
  std::vector<std::int32_t> final_tokens{job.output.back()};
  std::int32_t next = sample(hashes[0]);
  for (const std::int32_t guess : job.drafts) {
    if (guess != next) {
      break;
    }
    final_tokens.push_back(guess);
    job.output.push_back(guess);
    next = sample(hashes[final_tokens.size() - 1]);
  }
  job.output.push_back(next);

  const auto pages = [&] {
    std::int64_t held = 0;
    for (std::size_t g = 0; g < manager.groups().size(); ++g) {
      held +=
          manager.view(*job.sequence, kvpool::GroupId{static_cast<std::int32_t>(g)}).held.count();
    }
    return held;
  };
  const std::int64_t before = pages();
  calls_->truncate(*job.sequence,
                   job.query - Tokens{static_cast<std::int64_t>(final_tokens.size())});
  statistics_.pages_rejected += before > pages() ? 1 : 0;
  calls_->commit(*job.sequence, final_tokens);

  statistics_.decode_tokens += static_cast<std::int64_t>(final_tokens.size());
  statistics_.drafted += static_cast<std::int64_t>(job.drafts.size());
  statistics_.accepted += static_cast<std::int64_t>(final_tokens.size()) - 1;
  job.drafts.clear();
}

Result<void> Engine::draft() {
  const BlockManager& manager = calls_->manager();
  Step step{.q_indptr = {0}};
  std::vector<std::int32_t> lengths(kRows);
  std::vector<Job*> by_token;
  for (std::int64_t row = 0; row < kRows; ++row) {
    const auto job = std::ranges::find(running_, row, &Job::row);
    if (job != running_.end() && job->drafts.empty() && manager.drafts(*job->sequence)) {
      const std::int64_t committed = manager.lengths(*job->sequence).committed.count();
      const auto left = static_cast<std::int64_t>(job->request.max_output - job->output.size());
      const bool decodes = committed >= job->prefill.count() && !job->output.empty();
      lengths[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(committed);
      for (std::int64_t i = 0; decodes && i < std::min(kDrafts, left - 1); ++i) {
        step.tokens.push_back(job->output.back());
        step.positions.push_back(static_cast<std::int32_t>(committed + i));
        by_token.push_back(&*job);
      }
    }
    step.q_indptr.push_back(static_cast<std::int32_t>(step.tokens.size()));
  }
  if (by_token.empty()) {
    return {};
  }
  // A block of guesses sees what is committed, and nothing is written for it.
  std::vector<LayerInput> inputs = layers(true);
  for (LayerInput& layer : inputs) {
    layer.tables.lengths = lengths.data();
    layer.slots = {};
    layer.causal = false;
  }
  const auto hashes = forward(inputs, step);
  if (!hashes) {
    return hashes.error();
  }
  for (std::size_t t = 0; t < by_token.size(); ++t) {
    by_token[t]->drafts.push_back(sample((*hashes)[t]));
  }
  return {};
}

void Engine::retire() {
  for (std::size_t place = 0; place < running_.size();) {
    Job& job = running_[place];
    if (job.output.size() < job.request.max_output) {
      ++place;
      continue;
    }
    calls_->release(*job.sequence);
    tables_.unbind(job.row);
    finished_.push_back(std::move(job));
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(place));
  }
}

std::string Engine::describe() const {
  std::ostringstream text;
  text << "step " << statistics_.steps << ": running";
  for (const Job& job : running_) {
    text << ' ' << job.request.name << '(' << job.query.count() << ')';
  }
  text << ", waiting " << waiting_.size() << "; pages available";
  const BlockManager& manager = calls_->manager();
  for (std::size_t g = 0; g < manager.groups().size(); ++g) {
    text << ' ' << manager.groups()[g].name << ' '
         << manager.available_pages(kvpool::GroupId{static_cast<std::int32_t>(g)}).count();
  }
  return text.str();
}

}  // namespace example
