// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The tests of an engine that embeds kvpool: built against the installed package and against the
// source tree.
#include <kvpool/core/units.hpp>
#include <kvpool/core/version.hpp>

#include <cstdio>

int main() {
  using namespace kvpool::literals;
  const kvpool::Pages pages = kvpool::pages_ceil(100_tokens, 64_tokens);
  std::printf("kvpool %s: 100 tokens are %lld pages of 64\n", kvpool::kVersion.data(),
              static_cast<long long>(pages.count()));
  return pages == 2_pages ? 0 : 1;
}
