// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/block/trace.hpp>

#include "block/trace_calls.hpp"
#include "block/trace_text.hpp"
#include "core/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace kvpool {
namespace {

/// Between a call and its answer.
constexpr std::string_view kAnswers = " = ";

template <typename Call>
auto record(BlockManager& manager, std::string& trace, Call call) {
  trace.append(Call::kName);
  tracing::ArgumentWriter writer{trace};
  call.visit(writer);
  auto given = call.run(manager);
  trace.append(kAnswers);
  trace.append(tracing::answer(given));
  trace.push_back('\n');
  return given;
}

Error bad_line(std::int64_t line, std::string message, std::string_view text) {
  return {.code = ErrorCode::kInvalidArgument,
          .message = std::move(message),
          .key = fmt::format("line {}", line),
          .value = format_excerpt(text)};
}

/// One line of a trace, in its parts.
struct TraceLine {
  std::string_view name;
  std::string_view arguments;
  std::string_view recorded;
};

/// Makes the call of a line if it is one of `Call`; empty if it is not.
template <typename Call>
std::optional<std::string> answer_of(const TraceLine& line, BlockManager& manager) {
  if (line.name != Call::kName) {
    return std::nullopt;
  }
  Call call{};
  tracing::ArgumentReader reader{line.arguments};
  call.visit(reader);
  // No answer is empty, so an empty one stands for arguments that do not parse.
  return reader.ok() ? tracing::answer(call.run(manager)) : std::string{};
}

template <typename... Calls>
struct CallList {
  static std::optional<std::string> answer(const TraceLine& line, BlockManager& manager) {
    std::optional<std::string> given;
    static_cast<void>(((given = answer_of<Calls>(line, manager)).has_value() || ...));
    return given;
  }
};

using AllCalls =
    CallList<tracing::Append, tracing::Commit, tracing::CommitPrompt, tracing::Truncate,
             tracing::BeginStep, tracing::CompleteUntil, tracing::Admit, tracing::Probe,
             tracing::Fork, tracing::Release, tracing::Suspend, tracing::Resume, tracing::Preempt,
             tracing::Pin, tracing::Unpin, tracing::SetComputed, tracing::RestoreSnapshot,
             tracing::StopDrafting, tracing::ClearCopies, tracing::Evict, tracing::FlushCache,
             tracing::Reset, tracing::Fingerprint, tracing::InternTenant, tracing::InternNamespace,
             tracing::InternItem, tracing::SetQuota>;

Result<void> replay_line(std::int64_t number, std::string_view text, BlockManager& manager) {
  const std::size_t answers = text.find(kAnswers);
  if (answers == std::string_view::npos) {
    return bad_line(number, "a call without an answer; the trace is cut off or no trace", text);
  }
  const std::string_view call = text.substr(0, answers);
  const std::size_t name_end = std::min(call.find(' '), call.size());
  const TraceLine line{.name = call.substr(0, name_end),
                       .arguments = call.substr(std::min(name_end + 1, call.size())),
                       .recorded = text.substr(answers + kAnswers.size())};
  const std::optional<std::string> given = AllCalls::answer(line, manager);
  if (!given.has_value()) {
    return bad_line(number, fmt::format("there is no call '{}'", format_excerpt(line.name)), text);
  }
  if (given->empty()) {
    return bad_line(number, fmt::format("the arguments of '{}' do not parse", line.name), text);
  }
  if (*given != line.recorded) {
    return bad_line(number,
                    fmt::format("'{}' answers '{}' and not '{}', as recorded; the manager has "
                                "other pools or options, was not in the same state, or has changed",
                                line.name, *given, format_excerpt(line.recorded)),
                    text);
  }
  return {};
}

}  // namespace

TracingBlockManager::TracingBlockManager(BlockManager& manager)
    : manager_{&manager}, trace_{fmt::format("{}\n", kTraceHeader)} {}

std::string TracingBlockManager::drain() { return std::exchange(trace_, std::string{}); }

void TracingBlockManager::mark() { record(*manager_, trace_, tracing::Fingerprint{}); }

Result<TenantId> TracingBlockManager::intern_tenant(std::string_view name) {
  return record(*manager_, trace_, tracing::InternTenant{.name = std::string{name}});
}
Result<NamespaceId> TracingBlockManager::intern_namespace(const NamespaceKey& key) {
  return record(*manager_, trace_, tracing::InternNamespace{.key = key});
}
Result<ItemId> TracingBlockManager::intern_item(std::string_view key) {
  return record(*manager_, trace_, tracing::InternItem{.key = std::string{key}});
}
BlockStatus TracingBlockManager::set_quota(TenantId tenant, PoolId pool,
                                           std::optional<Pages> quota) {
  return record(*manager_, trace_,
                tracing::SetQuota{.tenant = tenant, .pool = pool, .quota = quota});
}
BlockStatus TracingBlockManager::begin_step(Epoch epoch, Instant now) {
  return record(*manager_, trace_, tracing::BeginStep{.epoch = epoch, .now = now});
}
BlockStatus TracingBlockManager::complete_until(Epoch epoch) {
  return record(*manager_, trace_, tracing::CompleteUntil{.epoch = epoch});
}
AdmitOutcome TracingBlockManager::admit(const AdmitRequest& request) {
  return record(*manager_, trace_, tracing::Admit{.request = tracing::Request{request}});
}
AdmitOutcome TracingBlockManager::probe(const AdmitRequest& request) {
  return record(*manager_, trace_, tracing::Probe{.request = tracing::Request{request}});
}
BlockStatus TracingBlockManager::append(SequenceId sequence, Tokens count) {
  return record(*manager_, trace_, tracing::Append{.sequence = sequence, .count = count});
}
BlockStatus TracingBlockManager::commit_prompt(SequenceId sequence, Tokens count) {
  return record(*manager_, trace_, tracing::CommitPrompt{.sequence = sequence, .count = count});
}
BlockStatus TracingBlockManager::commit(SequenceId sequence, std::span<const std::int32_t> tokens) {
  return record(*manager_, trace_,
                tracing::Commit{.sequence = sequence, .list = {.tokens = tokens}});
}
BlockStatus TracingBlockManager::truncate(SequenceId sequence, Tokens count) {
  return record(*manager_, trace_, tracing::Truncate{.sequence = sequence, .count = count});
}
ForkOutcome TracingBlockManager::fork(SequenceId sequence) {
  return record(*manager_, trace_, tracing::Fork{.sequence = sequence});
}
BlockStatus TracingBlockManager::release(SequenceId sequence) {
  return record(*manager_, trace_, tracing::Release{.sequence = sequence});
}
Result<SuspendedSequence> TracingBlockManager::suspend(SequenceId sequence) {
  return record(*manager_, trace_, tracing::Suspend{.sequence = sequence});
}
AdmitOutcome TracingBlockManager::resume(const SuspendedSequence& suspended,
                                         std::optional<Tokens> reserve) {
  return record(*manager_, trace_, tracing::Resume{.suspended = suspended, .reserve = reserve});
}
Result<PreemptReceipt> TracingBlockManager::preempt(SequenceId sequence) {
  return record(*manager_, trace_, tracing::Preempt{.sequence = sequence});
}
PinOutcome TracingBlockManager::pin(const PrefixQuery& query) {
  return record(*manager_, trace_, tracing::Pin{.query = tracing::Query{query}});
}
BlockStatus TracingBlockManager::unpin(PinId pin) {
  return record(*manager_, trace_, tracing::Unpin{.pin = pin});
}
BlockStatus TracingBlockManager::set_computed(SequenceId sequence, GroupId group, Tokens computed) {
  return record(*manager_, trace_,
                tracing::SetComputed{.sequence = sequence, .group = group, .computed = computed});
}
BlockStatus TracingBlockManager::restore_snapshot(SequenceId sequence) {
  return record(*manager_, trace_, tracing::RestoreSnapshot{.sequence = sequence});
}
BlockStatus TracingBlockManager::stop_drafting(SequenceId sequence) {
  return record(*manager_, trace_, tracing::StopDrafting{.sequence = sequence});
}
void TracingBlockManager::clear_copies() { record(*manager_, trace_, tracing::ClearCopies{}); }
Pages TracingBlockManager::evict(GroupId group, Pages count) {
  return record(*manager_, trace_, tracing::Evict{.group = group, .count = count});
}
void TracingBlockManager::flush_cache() { record(*manager_, trace_, tracing::FlushCache{}); }
void TracingBlockManager::reset() { record(*manager_, trace_, tracing::Reset{}); }

Result<std::int64_t> replay(std::string_view trace, BlockManager& manager) {
  std::int64_t number = 0;
  while (!trace.empty()) {
    const std::size_t end = std::min(trace.find('\n'), trace.size());
    const std::string_view line = trace.substr(0, end);
    trace.remove_prefix(std::min(end + 1, trace.size()));
    ++number;
    if (number == 1) {
      if (line != kTraceHeader) {
        return bad_line(1, fmt::format("a trace begins with '{}'", kTraceHeader), line);
      }
      continue;
    }
    if (auto replayed = replay_line(number, line, manager); !replayed) {
      return std::move(replayed).error();
    }
  }
  if (number == 0) {
    return bad_line(1, fmt::format("a trace begins with '{}'", kTraceHeader), {});
  }
  return number - 1;
}

}  // namespace kvpool
