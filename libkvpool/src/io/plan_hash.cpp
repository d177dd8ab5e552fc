// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/plan_document.hpp>

#include <cstddef>
#include <string>

// The header's functions are used inline, so nothing has to be linked.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kvpool::io {

std::string plan_hash(const Plan& plan) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  const std::string document = plan_to_json(plan);
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, XXH3_128bits(document.data(), document.size()));
  std::string text;
  for (const unsigned char byte : bytes.digest) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 0xFU];
  }
  return text;
}

}  // namespace kvpool::io
