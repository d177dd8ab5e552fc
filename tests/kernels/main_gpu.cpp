// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// main of the GPU tests. Exit codes: 0 passed, 1 any number of failures, 77 there is no GPU, so
// nothing was run. Catch2 would end with the number of failures, which can be 77.
#define CATCH_CONFIG_RUNNER
#include <kvpool/cuda/gpu_info.hpp>

#include "support/catch.hpp"

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

}  // namespace

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
  return session.run() == 0 ? 0 : 1;
}
