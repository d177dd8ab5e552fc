// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// golden_update           writes the reviewed plans anew
// golden_update --check   compares them, and writes nothing
#include "golden_plans.hpp"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <string_view>

int main(int argc, char** argv) {
  using namespace kvpool;
  const bool check = argc == 2 && std::string_view{argv[1]} == "--check";
  if (argc > 1 && !check) {
    std::cerr << "usage: golden_update [--check]\n";
    return 2;
  }
  int different = 0;
  for (const golden::GoldenPlan& plan : golden::make_plans()) {
    const std::string path = golden::path_of(plan.name);
    if (golden::read_file(path) == plan.json) {
      continue;
    }
    ++different;
    std::cout << (check ? "differs: " : "writes ") << path << '\n';
    if (!check) {
      std::filesystem::create_directories(std::filesystem::path{path}.parent_path());
      std::ofstream{path, std::ios::binary} << plan.json;
    }
  }
  return check && different > 0 ? 1 : 0;
}
