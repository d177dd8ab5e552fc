// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Does one operation of block_manager_bench many times, so that callgrind counts its instructions:
// `block_manager_instructions OPERATION` prints how many times, as in `AllocatePage/10000`. Only
// the operations themselves are instrumented. See block_manager_instructions.py.
#include "block_manager_scenes.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#define KVPOOL_HAS_CALLGRIND 1
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#define KVPOOL_HAS_CALLGRIND 0
#endif

namespace kvpool::bench {
namespace {

/// Counts `times` calls.
template <typename Operation>
std::int64_t count(std::int64_t times, Operation operation) {
  CALLGRIND_START_INSTRUMENTATION;
  for (std::int64_t i = 0; i < times; ++i) {
    operation();
  }
  CALLGRIND_STOP_INSTRUMENTATION;
  return times;
}

std::int64_t run(const std::string& name, std::int64_t first, std::int64_t second) {
  if (name == "DecodeStep") {
    DecodeScene scene{first, second};
    scene.restart();
    return count(64, [&] { scene.decode(); });
  }
  if (name == "DecodeStepSpeculative") {
    SpeculativeScene scene{first};
    scene.restart();
    return count(64, [&] { scene.decode(); });
  }
  if (name == "PrefixMiss" || name == "PrefixMatch512") {
    const PrefixScene scene{4096, 512, name == "PrefixMiss"};
    const std::vector<std::int32_t> order = random_order(1024);
    std::size_t next = 0;
    Tokens hits{};
    return count(1024, [&] {
      hits += name == "PrefixMiss" ? scene.miss(order[next++]) : scene.match(order[next++]);
    });
  }
  if (name == "AllocatePage") {
    PageScene scene{first};
    scene.give_back();
    return count(first / 4, [&] { scene.allocate(); });
  }
  if (name == "FreePage") {
    PageScene scene{first};
    return count(first / 4, [&] { scene.free(); });
  }
  if (name == "EvictPage") {
    CachedScene scene{first};
    Pages evicted{};
    return count(first / 4, [&] { evicted += scene.evict(); });
  }
  if (name == "AdmitCold") {
    ColdScene scene{first};
    scene.empty();
    return count(1, [&] { scene.admit(); });
  }
  return -1;
}

}  // namespace
}  // namespace kvpool::bench

int main(int argc, char** argv) {
  if (KVPOOL_HAS_CALLGRIND == 0) {
    std::fputs("built without valgrind's headers\n", stderr);
    return 77;
  }
  const std::string operation = argc == 2 ? argv[1] : "";
  const std::size_t slash = operation.find('/');
  const std::string arguments =
      slash == std::string::npos ? std::string{} : operation.substr(slash + 1);
  const std::size_t next = arguments.find('/');
  const std::int64_t first = std::atoll(arguments.c_str());
  const std::int64_t second =
      next == std::string::npos ? 0 : std::atoll(arguments.c_str() + next + 1);
  const std::int64_t times = kvpool::bench::run(operation.substr(0, slash), first, second);
  if (times < 0) {
    std::fprintf(stderr, "no operation '%s'\n", operation.c_str());
    return 2;
  }
  std::printf("%lld\n", static_cast<long long>(times));
  return 0;
}
