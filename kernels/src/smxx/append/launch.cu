// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "smxx/append/kernel.cuh"
#include "smxx/append/launch.hpp"
#include "smxx/device/launch.cuh"

#include <cstdint>

namespace kvpool::kernels {
namespace {

/// Items from which on every multiprocessor of a large device has two blocks: below, tokens are
/// spread instead.
constexpr std::int64_t kManyItems = std::int64_t{2} * 132 * kAppendThreads;

}  // namespace

cudaError_t launch_append(const AppendParams& params, cudaStream_t stream) {
  if (const std::int64_t items = append_items<kAppendTokens>(params); items >= kManyItems) {
    return launch_items(append_kernel<kAppendTokens>, params, items, kAppendThreads, kAppendThreads,
                        stream);
  }
  return launch_items(append_kernel<1>, params, append_items<1>(params), kAppendThreads,
                      kAppendThreads, stream);
}

}  // namespace kvpool::kernels
