// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Compiled, never run: quantities are usable in device code, in C++20, with every warning an error.
#include <kvpool/core/units.hpp>

#include <cstdint>

namespace {

using kvpool::Bytes;
using kvpool::Pages;
using kvpool::Tokens;
using namespace kvpool::literals;

template <typename A, typename B>
concept Addable = requires(A a, B b) { a + b; };
static_assert(Addable<Pages, Pages>);
static_assert(!Addable<Pages, Tokens>);

__global__ void page_bytes(const std::int64_t* tokens, std::int64_t* bytes, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) {
    return;
  }
  const Pages pages = kvpool::pages_ceil(Tokens{tokens[i]}, 64_tokens);
  const Bytes charged = kvpool::align_up(Bytes{80 * 1024} * pages.count(), 2_MiB);
  bytes[i] = charged > 0_B ? charged.count() : 0;
}

}  // namespace

/// Launches the kernel, so that it is instantiated.
void launch_page_bytes(const std::int64_t* tokens, std::int64_t* bytes, std::int64_t count) {
  page_bytes<<<1, 32>>>(tokens, bytes, count);
}
