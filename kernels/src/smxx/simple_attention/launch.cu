// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "capability_rows.hpp"
#include "smxx/simple_attention/launch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace kvpool::kernels::simple_attention {
namespace {

/// The first instance of the list that fits: the switch and the capability rows cannot disagree.
template <std::size_t... i>
cudaError_t launch_first(const AttentionParams& params, cudaStream_t stream,
                         std::index_sequence<i...> /*instances*/) {
  const std::int32_t dim = std::max(params.k.dim, params.v.dim);
  cudaError_t status = cudaErrorInvalidValue;
  const auto launched = [&]<ElementType type>(std::int32_t max_dim) {
    if (params.k.type != type || dim > max_dim) {
      return false;
    }
    status = launch_for<type>(params, stream);
    return true;
  };
  constexpr auto& kList = kSimpleAttentionInstances;
  static_cast<void>((launched.template operator()<kList[i].type>(kList[i].max_dim) || ...));
  return status;
}

}  // namespace

cudaError_t launch(const AttentionParams& params, cudaStream_t stream) {
  return launch_first(params, stream, std::make_index_sequence<kSimpleAttentionInstances.size()>{});
}

}  // namespace kvpool::kernels::simple_attention
