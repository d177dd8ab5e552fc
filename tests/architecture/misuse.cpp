// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Compiled once as it is, which must work, and once for each KVPOOL_MISUSE, which must not.
#include <kvpool/core/ids.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>

#ifndef KVPOOL_MISUSE
#define KVPOOL_MISUSE 0
#endif

namespace {

using kvpool::Bytes;
using kvpool::PageId;
using kvpool::Pages;
using kvpool::Result;
using kvpool::Tokens;

[[maybe_unused]] Pages sum(Pages pages, [[maybe_unused]] Tokens tokens) {
#if KVPOOL_MISUSE == 1
  return pages + tokens;
#else
  return pages + pages;
#endif
}

[[maybe_unused]] PageId next(PageId page) {
#if KVPOOL_MISUSE == 2
  return page + 1;
#else
  return PageId{page.value() + 1};
#endif
}

[[maybe_unused]] Bytes five() {
#if KVPOOL_MISUSE == 3
  Bytes bytes = 5;
#else
  Bytes bytes{5};
#endif
  return bytes;
}

Result<Bytes> reserve() { return Bytes{5}; }
Result<void> release() { return {}; }

[[maybe_unused]] bool use() {
#if KVPOOL_MISUSE == 4
  reserve();
  return true;
#elif KVPOOL_MISUSE == 5
  release();
  return true;
#else
  return reserve().has_value() && release().has_value();
#endif
}

[[maybe_unused]] bool same([[maybe_unused]] PageId page, [[maybe_unused]] kvpool::PoolId pool) {
#if KVPOOL_MISUSE == 6
  return page == pool;
#else
  return page == page;
#endif
}

}  // namespace
