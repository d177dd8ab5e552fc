// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// kernels_bench [--csv FILE] [--suite NAME]: how fast the bundled kernels are on this GPU, against
// what its memory allows. Exit codes: 0 measured, 1 a kernel computed something wrong, 2 wrong
// command line, 4 device, 77 no GPU.
#include "attention_case.hpp"
#include "memory_suites.hpp"
#include "step_suite.hpp"

// Which instances there are is private to the kernels.
#include "capability_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::bench {
namespace {

constexpr std::string_view kSuites[] = {"draft",  "gate", "step",   "decode", "verify",    "ragged",
                                        "append", "copy", "layout", "plan",   "candidates"};

/// The forms that are compared: packed attention and the two classic ones.
std::vector<AttentionCase::Form> all_paths() {
  using enum kernels::AttentionPath;
  return {{.name = "packed", .path = kPacked},
          {.name = "rows", .path = kDecodeRows},
          {.name = "context", .path = kContext}};
}

/// The drafter's block: 7 query tokens, no causal mask.
std::vector<AttentionCase> draft_cases() {
  std::vector<AttentionCase> cases;
  struct Heads {
    int q, kv, dim;
  };
  for (const Heads heads : {Heads{8, 2, 64}, {12, 2, 64}, {64, 16, 64}}) {
    for (const int length : {32'768, 131'072}) {
      for (const int batch : {1, 4, 16, 64}) {
        cases.push_back({.q_heads = heads.q,
                         .kv_heads = heads.kv,
                         .head_dim = heads.dim,
                         .length = length,
                         .batch = batch});
      }
    }
  }
  for (const Heads heads : {Heads{8, 2, 128}, {12, 2, 128}}) {
    for (const int batch : {1, 16, 64}) {
      cases.push_back(
          {.q_heads = heads.q, .kv_heads = heads.kv, .head_dim = heads.dim, .batch = batch});
    }
  }
  return cases;
}

std::vector<AttentionCase> decode_cases() {
  std::vector<AttentionCase> cases;
  for (const int length : {32'768, 131'072}) {
    AttentionCase c{.q_len = 1, .length = length};
    cases.push_back(c);
    c.q_heads = 8;
    c.kv_heads = 1;
    c.head_dim = 128;
    cases.push_back(c);
    c.page = 64;
    c.hnd = false;
    cases.push_back(c);
  }
  for (const int batch : {16, 32, 64}) {
    for (const int page : {16, 32, 64}) {
      cases.push_back({.q_heads = 32,
                       .kv_heads = 8,
                       .head_dim = 128,
                       .page = page,
                       .hnd = page != 16,
                       .q_len = 1,
                       .length = 8192,
                       .batch = batch});
    }
  }
  return cases;
}

/// Verification of drafted tokens: causal inside the block.
std::vector<AttentionCase> verify_cases() {
  std::vector<AttentionCase> cases;
  for (const int queries : {2, 4, 8}) {
    for (const int batch : {1, 16}) {
      cases.push_back({.q_heads = 32,
                       .kv_heads = 8,
                       .head_dim = 128,
                       .q_len = queries,
                       .length = batch == 1 ? 32'768 : 8192,
                       .batch = batch,
                       .causal = true});
    }
  }
  return cases;
}

/// Lengths from 1K to `longest` whose frequency falls as their inverse.
std::vector<std::int32_t> zipf_lengths(int batch, int longest) {
  std::mt19937 random{5};
  std::uniform_real_distribution<double> uniform{0.0, 1.0};
  std::vector<std::int32_t> lengths;
  for (int i = 0; i < batch; ++i) {
    lengths.push_back(
        static_cast<std::int32_t>(1024.0 * std::pow(longest / 1024.0, uniform(random))));
  }
  return lengths;
}

std::vector<AttentionCase> ragged_cases() {
  const std::vector<std::int32_t> lengths = zipf_lengths(64, 131'072);
  const int longest = *std::ranges::max_element(lengths);
  return {{.length = longest, .batch = 64, .lengths = lengths},
          {.q_heads = 32,
           .kv_heads = 8,
           .head_dim = 128,
           .q_len = 1,
           .length = longest,
           .batch = 64,
           .lengths = lengths}};
}

std::vector<AttentionCase> layout_cases() {
  std::vector<AttentionCase> cases;
  for (const int page : {16, 32, 64, 128}) {
    for (const bool hnd : {true, false}) {
      cases.push_back({.page = page, .hnd = hnd, .length = 32'768, .batch = 16});
      cases.push_back({.q_heads = 32,
                       .kv_heads = 8,
                       .head_dim = 128,
                       .page = page,
                       .hnd = hnd,
                       .q_len = 1,
                       .length = 8192,
                       .batch = 16});
    }
  }
  for (const bool layer_major : {false, true}) {
    for (const int page : {16, 32, 64}) {
      cases.push_back(
          {.page = page, .length = 32'768, .batch = 16, .layers = 32, .layer_major = layer_major});
    }
  }
  return cases;
}

/// Up to which batch decode rows beat context, and what packed attention takes.
std::vector<AttentionCase> gate_cases() {
  std::vector<AttentionCase> cases;
  struct Heads {
    int q, kv;
  };
  for (const Heads heads : {Heads{8, 2}, {12, 2}, {64, 16}}) {
    for (const int length : {32'768, 131'072}) {
      for (const bool equal : {true, false}) {
        for (const int batch : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
          AttentionCase c{.q_heads = heads.q,
                          .kv_heads = heads.kv,
                          .length = length,
                          .batch = batch,
                          .forms = all_paths()};
          if (!equal) {
            c.lengths = zipf_lengths(batch, length);
            c.length = *std::ranges::max_element(c.lengths);
          }
          cases.push_back(c);
        }
      }
    }
  }
  return cases;
}

/// Five layers, each with a pool of its own.
std::vector<AttentionCase> step_cases() {
  std::vector<AttentionCase> cases;
  struct Heads {
    int q, kv;
  };
  for (const Heads heads : {Heads{8, 2}, {16, 4}}) {
    for (const int length : {32'768, 131'072}) {
      for (const int batch : {1, 8, 16}) {
        cases.push_back({.q_heads = heads.q,
                         .kv_heads = heads.kv,
                         .length = length,
                         .batch = batch,
                         .layers = 5,
                         .layer_major = true,
                         .forms = all_paths()});
      }
    }
  }
  return cases;
}

/// Instances that do not run by themselves, on the lines that each is for, between two measurements
/// of what does. None without KVPOOL_KERNEL_CANDIDATES.
std::vector<AttentionCase> candidate_cases() {
  std::vector<AttentionCase> cases;
  const auto add = [&](int dim, int row_tiles, int blocks, AttentionCase c) {
    c.forms = {{.name = "default"}};
    for (std::size_t i = 0; i < kernels::kPackedInstances.size(); ++i) {
      const kernels::PackedInstance& instance = kernels::kPackedInstances[i];
      if (instance.least_items == kernels::kCandidate && instance.dim == dim &&
          instance.row_tiles == row_tiles && instance.blocks == blocks) {
        c.forms.push_back({.name = std::to_string(i), .instance = static_cast<int>(i)});
      }
    }
    if (c.forms.size() > 1) {
      c.forms.push_back({.name = "default_again"});
      cases.push_back(c);
    }
  };
  for (const int length : {32'768, 131'072}) {
    for (const int batch : {1, 4, 16}) {
      add(64, 2, 1, {.length = length, .batch = batch});
      add(64, 3, 1, {.q_heads = 12, .length = length, .batch = batch});
    }
    for (const int batch : {4, 16, 64}) {
      add(64, 3, 2, {.q_heads = 12, .length = length, .batch = batch});
    }
  }
  AttentionCase decode{.q_heads = 32, .kv_heads = 8, .head_dim = 128, .q_len = 1, .length = 8192};
  for (const int batch : {16, 32, 64}) {
    decode.batch = batch;
    add(128, 1, 2, decode);
  }
  AttentionCase verify = decode;
  verify.q_len = 8;
  verify.causal = true;
  for (const int batch : {1, 16}) {
    verify.batch = batch;
    verify.length = batch == 1 ? 32'768 : 8192;
    add(128, 2, 1, verify);
  }
  for (const int batch : {1, 16, 64}) {
    add(128, 3, 1, {.q_heads = 12, .head_dim = 128, .batch = batch});
  }
  return cases;
}

std::vector<AttentionCase> plan_cases() {
  std::vector<AttentionCase> cases;
  for (const int batch : {1, 16, 64, 256}) {
    cases.push_back({.length = 4096, .batch = batch});
  }
  return cases;
}

bool run_cases(std::vector<AttentionCase> cases, const std::string& suite, Pool& pool, Csv& csv) {
  bool good = true;
  for (AttentionCase& c : cases) {
    c.has_peer = suite == "draft" || suite == "decode" || suite == "verify" || suite == "ragged" ||
                 suite == "layout";
    good = run_case(c, suite, pool, csv) && good;
  }
  return good;
}

bool run_suite(std::string_view name, Pool& pool, Csv& csv) {
  if (name == "append") {
    run_append(pool, csv);
    return true;
  }
  if (name == "copy") {
    run_page_copy(pool, csv);
    return true;
  }
  if (name == "step") {
    bool good = true;
    for (const AttentionCase& c : step_cases()) {
      good = run_step(c, pool, csv) && good;
    }
    return good;
  }
  const std::vector<AttentionCase> cases = name == "draft"        ? draft_cases()
                                           : name == "gate"       ? gate_cases()
                                           : name == "candidates" ? candidate_cases()
                                           : name == "decode"     ? decode_cases()
                                           : name == "verify"     ? verify_cases()
                                           : name == "ragged"     ? ragged_cases()
                                           : name == "layout"     ? layout_cases()
                                                                  : plan_cases();
  return run_cases(cases, std::string{name}, pool, csv);
}

int usage() {
  std::fputs("usage: kernels_bench [--csv FILE] [--suite NAME]\nsuites: all", stderr);
  for (const std::string_view suite : kSuites) {
    std::fprintf(stderr, " %.*s", static_cast<int>(suite.size()), suite.data());
  }
  std::fputc('\n', stderr);
  return 2;
}

}  // namespace
}  // namespace kvpool::bench

int main(int argc, char** argv) {
  using namespace kvpool::bench;
  std::string csv_path;
  std::string wanted = "all";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (i + 1 < argc && argument == "--csv") {
      csv_path = argv[++i];
    } else if (i + 1 < argc && argument == "--suite") {
      wanted = argv[++i];
    } else {
      return usage();
    }
  }
  if (wanted != "all" && std::ranges::find(kSuites, wanted) == std::end(kSuites)) {
    return usage();
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fputs("skipped: this machine has no GPU, or no driver for it\n", stderr);
    return 77;
  }
  Csv csv{csv_path, copy_rate(), wanted == "all" || wanted == "step"};
  Pool pool;
  bool good = true;
  for (const std::string_view suite : kSuites) {
    if (wanted == "all" || wanted == suite) {
      good = run_suite(suite, pool, csv) && good;
    }
  }
  return good ? 0 : 1;
}
