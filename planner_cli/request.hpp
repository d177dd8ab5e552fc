// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/capability/device_spec.hpp>
#include <kvpool/engine/engine.hpp>
#include <kvpool/plan/plan_request.hpp>

#include "options.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::cli {

/// A deployment that was read and understood.
struct Deployment {
  /// What the planner is asked.
  PlanRequest request;
  /// The known kernels and those of the user.
  CapabilityRegistry registry;
};

/// The known kernels, and those of `--kernels` files.
[[nodiscard]] CapabilityRegistry read_registry(const Options& options);

/// The known GPUs, and behind them those of `--gpus` files, which win over known ones of the same
/// name.
[[nodiscard]] std::vector<DeviceSpec> read_devices(const Options& options);

/// What was read from files for one deployment, so that another one with the same files does not
/// read them again. Not for several threads.
class InputCache {
 public:
  /// The model of this path or name, as `read_model`.
  [[nodiscard]] const ModelConfig& model(const std::string& text);
  /// As `read_devices`; the `--gpus` files are those of the first call.
  [[nodiscard]] const std::vector<DeviceSpec>& devices(const Options& options);

 private:
  std::map<std::string, ModelConfig> models_;
  std::vector<DeviceSpec> devices_;
};

/// Understands every option but those that say which kernels there are. Throws as
/// `read_deployment`.
[[nodiscard]] PlanRequest read_request(const Options& options, InputCache& inputs);

/// The whole number of an option, when it is given. Throws a usage `Failure` for less than `least`.
[[nodiscard]] std::optional<std::int64_t> read_whole_number(const Options& options, OptionId id,
                                                            std::int64_t least);

/// Understands every option and reads the files that they name. Throws a `Failure`: usage for a
/// value on the command line, input for what stands in files.
[[nodiscard]] Deployment read_deployment(const Options& options);

/// Options that were given and are not used, and why; empty when there are none.
[[nodiscard]] std::string unused_options(const Options& options);

/// A note when the reader was not made for configs of this type, so that layers are priced by their
/// keys alone; or empty.
[[nodiscard]] std::string unknown_type_note(const ModelConfig& model);

/// What a person who reads an answer should know beside it: `unused_options`, and
/// `unknown_type_note` for target and drafter.
[[nodiscard]] std::vector<std::string> request_notes(const Options& options,
                                                     const PlanRequest& request);

/// What a cache format was spelled as, where that is not its own name; else empty.
[[nodiscard]] std::string spelled_as(const Options& options, OptionId id);

/// `--engine`, when it names another one than kvpool.
[[nodiscard]] std::optional<Engine> asked_engine(const Options& options);

/// `--kernel-set`, when it is given.
[[nodiscard]] std::optional<KernelSet> asked_kernel_set(const Options& options);

/// `--stage`, when it is given. Throws a usage `Failure` for what is no whole number from 0 on.
[[nodiscard]] std::optional<std::int64_t> read_stage(const Options& options);

/// A share such as `0.92` in millionths, exactly; -1 for what is not above 0 and at most 1 with at
/// most six decimals.
[[nodiscard]] std::int64_t parse_share_ppm(std::string_view text) noexcept;

}  // namespace kvpool::cli
