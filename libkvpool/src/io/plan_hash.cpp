// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "plan_hash.hpp"

#include <kvpool/io/plan_document.hpp>

#include <string>
#include <string_view>

// The header's functions are used inline, so nothing has to be linked.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kvpool::io {

std::string detail::hash_text(std::string_view text) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, XXH3_128bits(text.data(), text.size()));
  std::string hash;
  for (const unsigned char byte : bytes.digest) {
    hash += kDigits[byte >> 4U];
    hash += kDigits[byte & 0xFU];
  }
  return hash;
}

std::string plan_hash(const Plan& plan) { return detail::hash_text(plan_to_json(plan)); }

}  // namespace kvpool::io
