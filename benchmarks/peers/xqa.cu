// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// XQA's shape is fixed by macros, which this file's target defines; it has one file, and no header
// with its launch.
#include "xqa.hpp"

#include <xqa/mha.cu>

namespace kvpool::bench::peers {

void launch_xqa(const XqaLaunch& launch, cudaStream_t stream) {
  static_assert(kXqaDim == HEAD_ELEMS && kXqaGroup == HEAD_GRP_SIZE && kXqaPage == TOKENS_PER_PAGE);
  launchMHAFlashInfer(
      launch.multiprocessors, launch.kv_heads, 0, 1.0F, nullptr,
      static_cast<OutputHead*>(launch.out), static_cast<const InputHead*>(launch.q), nullptr,
      static_cast<GMemCacheHead*>(launch.k), static_cast<GMemCacheHead*>(launch.v),
      reinterpret_cast<const KVCachePageIndex*>(launch.entries), launch.columns * kXqaPage,
      reinterpret_cast<const std::uint32_t*>(launch.lengths), launch.rows, 1.0F, nullptr,
      launch.queries, nullptr, launch.mask, launch.semaphores, launch.scratch, true,
      static_cast<std::uint64_t>(launch.page_stride),
      static_cast<std::uint64_t>(launch.token_stride),
      static_cast<std::uint64_t>(launch.head_stride), stream);
}

}  // namespace kvpool::bench::peers
