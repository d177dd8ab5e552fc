// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes the plan document of every sample, and that of an input error, into a folder: material for
// plan_schema_test.py.
#include <kvpool/io/plan_document.hpp>

#include "plan_samples.hpp"

#include <cstdio>
#include <fstream>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: plan_document_samples FOLDER\n", stderr);
    return 2;
  }
  const std::string folder = std::string{argv[1]} + "/";
  for (const kvpool::test::PlanSample& sample : kvpool::test::plan_samples()) {
    const auto plan = kvpool::test::plan_sample(sample.request);
    if (!plan || !kvpool::io::write_plan(*plan, folder + sample.name + ".json")) {
      std::fprintf(stderr, "%s: %s\n", sample.name.c_str(),
                   plan.has_value() ? "cannot be written" : plan.error().message.c_str());
      return 1;
    }
  }
  std::ofstream error{folder + "error.json", std::ios::binary};
  error << kvpool::io::error_to_json({.code = kvpool::ErrorCode::kInvalidArgument,
                                      .message = "must be a whole number",
                                      .file = "config.json",
                                      .key = "num_hidden_layers",
                                      .value = "many"});
  return error.good() ? 0 : 1;
}
