// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// One planning question, put to the planner and to the oracle alike.
#pragma once

#include <kvpool/io/model_config_io.hpp>
#include <kvpool/plan/planner.hpp>

#include "oracle.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvpool::test {

/// A config, read twice: by the project and by the oracle.
struct Config {
  std::string name;
  ModelConfig model;
  oracle::Model law;
};

/// Reads one file; nothing if the project's reader refuses it.
std::optional<Config> read_config(const std::string& path);

/// tests/data/configs/<name>.json. Aborts when it does not parse.
Config own_config(const std::string& name);

/// Every config below `folder`, sorted by name; those that the reader refuses are counted.
struct ConfigFolder {
  std::vector<Config> configs;
  std::vector<std::string> refused;
};
ConfigFolder read_folder(const std::string& folder);

struct Scenario {
  const Config* target = nullptr;
  std::optional<DrafterKind> drafter{};
  const Config* drafter_config = nullptr;
  KvDtype dtype = KvDtype::kBf16;
  std::optional<KvDtype> draft_dtype{};
  std::int64_t page = 64;
  std::int64_t draft_tokens = 0;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t context_parallel = 1;
  bool attention_dp = false;
  std::optional<std::int64_t> sequences{};
  std::int64_t length = 4096;
  std::int64_t step_tokens = 8192;
  std::int64_t snapshots = 0;
  std::int64_t reserved = 1;
  std::int64_t granule = std::int64_t{2} << 20;
  std::int64_t budget = std::int64_t{200} << 30;
  PageLayout layout{};

  /// All of it, for messages.
  [[nodiscard]] std::string text() const;
};

[[nodiscard]] PlanRequest request_of(const Scenario& s);
[[nodiscard]] oracle::Request law_of(const Scenario& s);

/// The known kernels, shared by all tests of a program.
[[nodiscard]] const CapabilityRegistry& known();

/// Where plan and oracle differ, or empty: every pool, group, share, byte.
[[nodiscard]] std::string difference(const Plan& plan, const std::vector<oracle::Stage>& stages);

}  // namespace kvpool::test
