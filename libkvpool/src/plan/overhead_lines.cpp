// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "plan/overhead_lines.hpp"

#include <kvpool/core/checked.hpp>
#include <kvpool/core/size_text.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

namespace kvpool {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
/// Published activation peaks are of steps of this many tokens.
constexpr std::int64_t kActivationTokens = 8192;

/// Least, expected and most of one line, in MiB.
struct Figures {
  std::int64_t low = 0;
  std::int64_t expected = 0;
  std::int64_t high = 0;
};

/// A figure from logs or an engine's own rule.
struct Overhead {
  std::string_view name;
  Figures mib;
  std::string_view reason;
};

/// What one engine needs. Absent figures are of no engine in particular.
struct EngineOverheads {
  std::string_view engine;
  /// From this version on, as `major * 1000 + minor`; the last row that applies counts.
  std::int64_t from_version;
  /// Of a step of `kActivationTokens`, in proportion.
  Overhead activations;
  Overhead context;
  Overhead graphs;
  /// Of more than one GPU.
  Overhead communication;
  /// Communication in proportion to the ranks: MiB for 8 of them; 0: the figure as it stands.
  std::int64_t mib_per_8_ranks = 0;
  /// Buffers of its own, if any.
  Overhead buffers = {};
};

constexpr Overhead kActivations{
    "activations",
    {225, 2458, 7557},
    "published logs: 4.76 to 5.64 GiB dense, 7.38 GiB with experts at 16k, 0.22 GiB at least"};
constexpr Overhead kContext{
    "cuda_context", {287, 426, 700}, "CUDA context of one process; published logs"};
constexpr Overhead kGraphs{"cuda_graphs", {369, 553, 1587}, "captured graphs; published logs"};
constexpr Overhead kCommunication{
    "communication", {342, 392, 1086}, "communicators of more than one GPU; published logs"};

// Sources: llm-d-planner's validation runs (vLLM's memory outside the framework, activations),
// vLLM's logs of August 2026 (graphs), SGLang's rule for its default fraction, aiconfigurator's
// system files (NCCL, TensorRT-LLM's other memory).
constexpr EngineOverheads kEngines[] = {
    {"", 0, kActivations, kContext, kGraphs, kCommunication},
    {"vllm",
     0,
     kActivations,
     kContext,
     {"cuda_graphs",
      {0, 0, 0},
      "vLLM before 0.21 does not count graphs: it captures 1 to 3 GiB in what utilization "
      "withholds"},
     {"communication",
      {342, 563, 1086},
      "memory outside the framework on two GPUs and more; llm-d-planner's runs, published logs"}},
    {"vllm",
     21,
     kActivations,
     kContext,
     {"cuda_graphs",
      {369, 727, 1587},
      "graphs, which vLLM from 0.21 on estimates before it sizes its cache: 0.36 to 1.55 GiB "
      "estimated, 0.71 GiB seen"},
     {"communication",
      {342, 563, 1086},
      "memory outside the framework on two GPUs and more; llm-d-planner's runs, published logs"}},
    {"sglang",
     0,
     {"activations",
      {225, 12288, 12288},
      "SGLang reserves 1.5 MiB for each token of a prefill chunk; the low end is the least that a "
      "log shows"},
     {"cuda_context", {287, 512, 700}, "SGLang's reserve for the process"},
     {"cuda_graphs",
      {16, 512, 1024},
      "SGLang's reserve of 2 MiB for each captured batch size of "
      "8, 256 or 512"},
     {"communication",
      {342, 342, 1086},
      "SGLang's reserve of 1024 MiB for 8 ranks, and at least "
      "what logs show"},
     1024},
    {"trtllm",
     0,
     kActivations,
     kContext,
     kGraphs,
     {"communication", {342, 392, 1086}, "NCCL on two GPUs (342 MiB), on four or eight (392 MiB)"},
     0,
     {"engine_buffers",
      {551, 551, 3584},
      "TensorRT-LLM's other memory: 551 MiB, 3.5 GiB in newer "
      "figures"}},
};

constexpr std::array<std::string_view, 3> kEngineNames{"vllm", "sglang", "trtllm"};

/// SGLang keeps this much under attention data parallelism on GPUs with more than 60 GB.
constexpr std::int64_t kDpReserveMib = 10'240;
constexpr std::int64_t kDpReserveFromBytes = 60'000'000'000;

/// `0.21.1` as 21; a number that is too large counts as the newest.
[[nodiscard]] std::int64_t version_number(std::string_view text) noexcept {
  constexpr std::int64_t kNewest = 1'000'000'000;
  std::array<std::int64_t, 2> parts{};
  for (std::int64_t& part : parts) {
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), part);
    if (failed != std::errc{} || part < 0 || part > 999) {
      return kNewest;
    }
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.starts_with('.')) {
      break;
    }
    text.remove_prefix(1);
  }
  return parts[0] * 1000 + parts[1];
}

[[nodiscard]] const EngineOverheads& overheads_of(const OverheadRequest& request) noexcept {
  const std::int64_t version = version_number(request.version);
  const EngineOverheads* found = &kEngines[0];
  for (const EngineOverheads& row : kEngines) {
    if (row.engine == request.engine && row.from_version <= version) {
      found = &row;
    }
  }
  return *found;
}

[[nodiscard]] LedgerLine line_of(std::string_view name, const SizeRange& size, LedgerKind kind,
                                 std::string reason) {
  return {.name = std::string{name},
          .bytes = size.expected,
          .kind = kind,
          .low = size.low,
          .high = size.high,
          .reason = std::move(reason)};
}

/// A line that the user gave.
[[nodiscard]] LedgerLine given_line(std::string_view name, const SizeRange& size,
                                    std::string_view option) {
  const bool exact = size.low == size.high;
  return line_of(name, size, exact ? LedgerKind::kExact : LedgerKind::kAssumed,
                 fmt::format("given as {}", option));
}

/// Figures times `numerator / denominator`, rounded up.
[[nodiscard]] SizeRange scaled(const Figures& mib, std::int64_t numerator,
                               std::int64_t denominator) {
  const auto bytes = [=](std::int64_t value) {
    return Bytes{
        ceil_div(CheckedInt{value} * kMiB * numerator, CheckedInt{denominator}).saturated()};
  };
  return {bytes(mib.low), bytes(mib.expected), bytes(mib.high)};
}

[[nodiscard]] LedgerLine assumed_line(const Overhead& overhead) {
  return line_of(overhead.name, scaled(overhead.mib, 1, 1), LedgerKind::kAssumed,
                 std::string{overhead.reason});
}

[[nodiscard]] LedgerLine activations_line(const Overhead& overhead, Tokens step) {
  return line_of(overhead.name, scaled(overhead.mib, step.count(), kActivationTokens),
                 LedgerKind::kAssumed,
                 fmt::format("peak of one step of {} tokens (--max-num-batched-tokens), in "
                             "proportion to {} MiB at 8192 ({} to {}); {}",
                             step.count(), overhead.mib.expected, overhead.mib.low,
                             overhead.mib.high, overhead.reason));
}

/// GPUs that exchange data while one replica runs; independent replicas do not.
[[nodiscard]] std::int64_t communicating_ranks(const Parallelism& p) {
  return (max(CheckedInt{p.tensor}, CheckedInt{p.expert}) * p.pipeline).saturated();
}

[[nodiscard]] LedgerLine communication_line(const EngineOverheads& engine, std::int64_t ranks) {
  LedgerLine line = assumed_line(engine.communication);
  if (engine.mib_per_8_ranks > 0) {
    const SizeRange by_ranks =
        scaled({0, engine.mib_per_8_ranks, engine.mib_per_8_ranks}, ranks, 8);
    line.bytes = std::max(line.bytes, by_ranks.expected);
    line.high = std::max(line.high, by_ranks.high);
  }
  return line;
}

/// What SGLang's reserve for attention data parallelism adds to the other lines.
void add_dp_reserve(const OverheadRequest& request, const Parallelism& parallelism,
                    Bytes gpu_memory, std::vector<LedgerLine>& lines) {
  if (request.engine != "sglang" || !parallelism.attention_data_parallel ||
      gpu_memory.count() <= kDpReserveFromBytes) {
    return;
  }
  CheckedInt sum{0};
  for (const LedgerLine& line : lines) {
    sum += line.bytes.count();
  }
  const std::int64_t missing =
      std::max<std::int64_t>(0, (CheckedInt{kDpReserveMib} * kMiB - sum).saturated());
  if (missing > 0) {
    lines.push_back(line_of("engine_buffers", {Bytes{}, Bytes{missing}, Bytes{missing}},
                            LedgerKind::kAssumed,
                            "SGLang reserves at least 10 GiB under attention data parallelism on "
                            "more than 60 GB"));
  }
}

}  // namespace

std::span<const std::string_view> host_engines() noexcept { return kEngineNames; }

Result<SizeRange> parse_size_range(std::string_view text) {
  constexpr std::string_view kDots = "..";
  std::array<Bytes, 3> sizes{};
  std::size_t count = 0;
  for (std::string_view rest = text;;) {
    const std::size_t at = rest.find(kDots);
    const auto size = parse_size(rest.substr(0, at));
    if (!size) {
      return size.error();
    }
    if (count == sizes.size()) {
      return Error{.code = ErrorCode::kInvalidArgument,
                   .message = "a size, LOW..HIGH or LOW..EXPECTED..HIGH is expected",
                   .value = std::string{text.substr(0, 60)}};
    }
    sizes[count++] = *size;
    if (at == std::string_view::npos) {
      break;
    }
    rest.remove_prefix(at + kDots.size());
  }
  if (count == 1) {
    return SizeRange{sizes[0], sizes[0], sizes[0]};
  }
  const SizeRange range =
      count == 3
          ? SizeRange{sizes[0], sizes[1], sizes[2]}
          : SizeRange{sizes[0], Bytes{sizes[0].count() + (sizes[1].count() - sizes[0].count()) / 2},
                      sizes[1]};
  if (range.low > range.expected || range.expected > range.high) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("the sizes of a range must ascend: {}, {}, {}",
                                        size_argument(range.low), size_argument(range.expected),
                                        size_argument(range.high)),
                 .value = std::string{text.substr(0, 60)}};
  }
  return range;
}

bool is_version(std::string_view text) noexcept {
  return text.empty() || (text.size() < 40 && text.front() >= '0' && text.front() <= '9' &&
                          std::ranges::all_of(text, [](char c) {
                            return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' ||
                                   c == '+' || c == '-';
                          }));
}

std::vector<LedgerLine> overhead_lines(const OverheadRequest& request,
                                       const Parallelism& parallelism, Tokens step,
                                       Bytes gpu_memory) {
  const EngineOverheads& engine = overheads_of(request);
  std::vector<LedgerLine> lines;
  lines.push_back(request.activations.has_value()
                      ? given_line("activations", *request.activations, "--activations")
                      : activations_line(engine.activations, step));
  lines.push_back(request.cuda_context.has_value()
                      ? given_line("cuda_context", *request.cuda_context, "--cuda-context")
                      : assumed_line(engine.context));
  lines.push_back(request.cuda_graphs.has_value()
                      ? given_line("cuda_graphs", *request.cuda_graphs, "--cuda-graphs")
                      : assumed_line(engine.graphs));
  const std::int64_t ranks = communicating_ranks(parallelism);
  if (request.communication.has_value()) {
    lines.push_back(given_line("communication", *request.communication, "--communication"));
  } else if (ranks > 1) {
    lines.push_back(communication_line(engine, ranks));
  }
  if (!engine.buffers.name.empty()) {
    lines.push_back(assumed_line(engine.buffers));
  }
  add_dp_reserve(request, parallelism, gpu_memory, lines);
  return lines;
}

std::vector<LedgerLine> co_located_lines(const OverheadRequest& request) {
  std::vector<LedgerLine> lines;
  lines.reserve(request.co_located.size());
  for (const CoLocated& other : request.co_located) {
    lines.push_back(given_line("co_located:" + other.name, other.size, "--co-located"));
  }
  return lines;
}

}  // namespace kvpool
