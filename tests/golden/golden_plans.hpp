// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The plans that are kept as reviewed files in tests/golden/plans.
#pragma once

#include <string>
#include <vector>

namespace kvpool::golden {

/// A plan as text, and the name of its file.
struct GoldenPlan {
  std::string name;
  std::string json;
};

/// Plans them all, now.
std::vector<GoldenPlan> make_plans();

/// Path of the reviewed file of this name.
std::string path_of(const std::string& name);

/// Content of a file; empty when there is none.
std::string read_file(const std::string& path);

}  // namespace kvpool::golden
