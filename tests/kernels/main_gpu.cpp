// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// main of the GPU tests. Exit codes: 0 passed, 1 any number of failures, or a driver that is there
// and cannot be used, 77 nothing was run: there is no GPU, or this one can run none of the test
// cases that were asked for. Catch2 would end with the number of failures, which can be 77.
#define CATCH_CONFIG_RUNNER
#include <kvpool/cuda/gpu_info.hpp>

#include "gpu_support.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdio>

namespace {

constexpr int kSkipped = 77;

/// True for command lines that only list test cases.
bool lists_only(const Catch::Session& session) {
#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
  const auto& data = session.configData();
  return data.showHelp || data.listTests || data.listTags || data.listReporters ||
         data.listListeners;
#else
  Catch::Config config{const_cast<Catch::Session&>(session).configData()};  // NOLINT: not const
  return config.showHelp() || config.listTests() || config.listTestNamesOnly() ||
         config.listTags() || config.listReporters();
#endif
}

#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
using Listener = Catch::EventListenerBase;
#else
using Listener = Catch::TestEventListenerBase;
#endif

std::size_t failed_cases = 0;
std::size_t all_cases = 0;

/// Counts what was run: the session's result does not tell skipped test cases from passed ones.
class Counter : public Listener {
 public:
  using Listener::Listener;
  void testRunEnded(const Catch::TestRunStats& stats) override {  // NOLINT: Catch2's name
    failed_cases = stats.totals.testCases.failed;
    all_cases = stats.totals.testCases.total();
  }
};

}  // namespace

CATCH_REGISTER_LISTENER(Counter)

int main(int argc, char** argv) {
  Catch::Session session;
  if (session.applyCommandLine(argc, argv) != 0) {
    return 1;
  }
  if (!lists_only(session)) {
    const auto gpus = kvpool::gpu_count();
    if (!gpus.has_value()) {
      std::fprintf(stderr, "error: %s\n", gpus.error().message.c_str());
      return 1;
    }
    if (*gpus == 0) {
      std::fputs("skipped: this machine has no GPU, or no driver for it\n", stderr);
      return kSkipped;
    }
  }
  const int code = session.run();
  const std::size_t skipped = kvpool::test::skipped_cases();
  if (skipped > 0 && skipped == all_cases && failed_cases == 0) {
    return kSkipped;
  }
  return code == 0 ? 0 : 1;
}
