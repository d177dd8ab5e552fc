// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// kernels_bench [--csv FILE] [--suite NAME]: how fast the bundled kernels are on this GPU, against
// what its memory allows. Exit codes: 0 measured, 1 a kernel computed something wrong, 2 wrong
// command line, 4 device, 77 no GPU.
#include "attention_case.hpp"
#include "memory_suites.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::bench {
namespace {

constexpr std::string_view kSuites[] = {"draft",  "decode", "verify", "ragged",
                                        "layout", "append", "copy",   "plan"};

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

/// Lengths from 1K to 128K whose frequency falls as their inverse.
std::vector<AttentionCase> ragged_cases() {
  std::mt19937 random{5};
  std::uniform_real_distribution<double> uniform{0.0, 1.0};
  std::vector<std::int32_t> lengths;
  for (int i = 0; i < 64; ++i) {
    lengths.push_back(static_cast<std::int32_t>(1024.0 * std::pow(128.0, uniform(random))));
  }
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

std::vector<AttentionCase> plan_cases() {
  std::vector<AttentionCase> cases;
  for (const int batch : {1, 16, 64, 256}) {
    cases.push_back({.length = 4096, .batch = batch});
  }
  return cases;
}

bool run_cases(const std::vector<AttentionCase>& cases, const std::string& suite, Pool& pool,
               Csv& csv) {
  bool good = true;
  for (const AttentionCase& c : cases) {
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
  const std::vector<AttentionCase> cases = name == "draft"    ? draft_cases()
                                           : name == "decode" ? decode_cases()
                                           : name == "verify" ? verify_cases()
                                           : name == "ragged" ? ragged_cases()
                                           : name == "layout" ? layout_cases()
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
  Csv csv{csv_path, copy_rate()};
  Pool pool;
  bool good = true;
  for (const std::string_view suite : kSuites) {
    if (wanted == "all" || wanted == suite) {
      good = run_suite(suite, pool, csv) && good;
    }
  }
  return good ? 0 : 1;
}
