// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Catch2 version 2 or 3, whichever is there. Tests include this header and no Catch2 header, and
// use the names of version 3: Catch::Approx, Catch::Matchers::ContainsSubstring and so on.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>

namespace Catch {
using Detail::Approx;
namespace Matchers {
inline auto ContainsSubstring(const std::string& text) { return Contains(text); }
}  // namespace Matchers
}  // namespace Catch
#endif
