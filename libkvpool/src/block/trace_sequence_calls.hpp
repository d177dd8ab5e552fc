// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>

#include "block/trace_text.hpp"

#include <optional>
#include <string_view>
#include <vector>

/// The calls about sequences that a trace knows. Each says its name, its arguments in the order in
/// which they are written (`visit`, for writers and readers alike), and how it is made.
namespace kvpool::tracing {

struct Query {
  TokenList list{};
  PrefixQuery query{};

  explicit Query(const PrefixQuery& of = {}) : list{.tokens = of.tokens}, query{of} {}
  template <typename V>
  void visit(V& v) {
    v(list), v(query.name_space), v(query.public_tokens), v(query.draft);
  }
  [[nodiscard]] PrefixQuery get() const {
    PrefixQuery result = query;
    result.tokens = list.tokens;
    return result;
  }
};

struct Request {
  Query prompt{};
  AdmitRequest request{};
  std::vector<RetentionRange> ranges{};

  explicit Request(const AdmitRequest& of = {})
      : prompt{of.prompt},
        request{of},
        ranges{of.retention.prompt.begin(), of.retention.prompt.end()} {}
  template <typename V>
  void visit(V& v) {
    prompt.visit(v);
    v(request.reserve), v(request.must_fit), v(request.encoder_tokens), v(ranges),
        v(request.retention.generated), v(request.use_cache);
  }
  [[nodiscard]] AdmitRequest get() const {
    AdmitRequest result = request;
    result.prompt = prompt.get();
    result.retention.prompt = ranges;
    return result;
  }
};

struct Admit {
  static constexpr std::string_view kName = "admit";
  Request request{};
  template <typename V>
  void visit(V& v) {
    request.visit(v);
  }
  auto run(BlockManager& manager) const { return manager.admit(request.get()); }
};

struct Probe {
  static constexpr std::string_view kName = "probe";
  Request request{};
  template <typename V>
  void visit(V& v) {
    request.visit(v);
  }
  auto run(BlockManager& manager) const { return manager.probe(request.get()); }
};

struct Append {
  static constexpr std::string_view kName = "append";
  SequenceId sequence{};
  Tokens count{};
  template <typename V>
  void visit(V& v) {
    v(sequence), v(count);
  }
  auto run(BlockManager& manager) const { return manager.append(sequence, count); }
};

struct CommitPrompt {
  static constexpr std::string_view kName = "commit_prompt";
  SequenceId sequence{};
  Tokens count{};
  template <typename V>
  void visit(V& v) {
    v(sequence), v(count);
  }
  auto run(BlockManager& manager) const { return manager.commit_prompt(sequence, count); }
};

struct Commit {
  static constexpr std::string_view kName = "commit";
  SequenceId sequence{};
  TokenList list{};
  template <typename V>
  void visit(V& v) {
    v(sequence), v(list);
  }
  auto run(BlockManager& manager) const { return manager.commit(sequence, list.tokens); }
};

struct Truncate {
  static constexpr std::string_view kName = "truncate";
  SequenceId sequence{};
  Tokens count{};
  template <typename V>
  void visit(V& v) {
    v(sequence), v(count);
  }
  auto run(BlockManager& manager) const { return manager.truncate(sequence, count); }
};

struct Fork {
  static constexpr std::string_view kName = "fork";
  SequenceId sequence{};
  template <typename V>
  void visit(V& v) {
    v(sequence);
  }
  auto run(BlockManager& manager) const { return manager.fork(sequence); }
};

struct Release {
  static constexpr std::string_view kName = "release";
  SequenceId sequence{};
  template <typename V>
  void visit(V& v) {
    v(sequence);
  }
  auto run(BlockManager& manager) const { return manager.release(sequence); }
};

struct Suspend {
  static constexpr std::string_view kName = "suspend";
  SequenceId sequence{};
  template <typename V>
  void visit(V& v) {
    v(sequence);
  }
  auto run(BlockManager& manager) const { return manager.suspend(sequence); }
};

struct Resume {
  static constexpr std::string_view kName = "resume";
  SuspendedSequence suspended{};
  std::optional<Tokens> reserve{};
  template <typename V>
  void visit(V& v) {
    v(suspended.tokens), v(suspended.name_space), v(suspended.public_tokens),
        v(suspended.encoder_tokens), v(suspended.draft), v(suspended.generated),
        v(suspended.use_cache), v(suspended.committed), v(reserve);
  }
  auto run(BlockManager& manager) const { return manager.resume(suspended, reserve); }
};

struct Preempt {
  static constexpr std::string_view kName = "preempt";
  SequenceId sequence{};
  template <typename V>
  void visit(V& v) {
    v(sequence);
  }
  auto run(BlockManager& manager) const { return manager.preempt(sequence); }
};

struct SetComputed {
  static constexpr std::string_view kName = "set_computed";
  SequenceId sequence{};
  GroupId group{};
  Tokens computed{};
  template <typename V>
  void visit(V& v) {
    v(sequence), v(group), v(computed);
  }
  auto run(BlockManager& manager) const { return manager.set_computed(sequence, group, computed); }
};

struct RestoreSnapshot {
  static constexpr std::string_view kName = "restore_snapshot";
  SequenceId sequence{};
  template <typename V>
  void visit(V& v) {
    v(sequence);
  }
  auto run(BlockManager& manager) const { return manager.restore_snapshot(sequence); }
};

struct StopDrafting {
  static constexpr std::string_view kName = "stop_drafting";
  SequenceId sequence{};
  template <typename V>
  void visit(V& v) {
    v(sequence);
  }
  auto run(BlockManager& manager) const { return manager.stop_drafting(sequence); }
};

}  // namespace kvpool::tracing
