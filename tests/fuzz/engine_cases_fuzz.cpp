// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
// Lines of cases on arbitrary bytes, and the arithmetic behind those that can be read: a prediction
// whose accounts add up, or an error that says what is wrong.
#include <kvpool/io/engine_cases.hpp>

#include <kvpool/engine/engine_prediction.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

void check(const kvpool::io::EngineCase& question) {
  static const auto registry = kvpool::CapabilityRegistry::with_known_kernels();
  const auto prediction = kvpool::predict_engine(question.request, registry);
  if (!prediction.has_value()) {
    require(!prediction.error().message.empty() && !prediction.error().key.empty());
    require(prediction.error().code != kvpool::ErrorCode::kInternal);
    return;
  }
  require(kvpool::EnginePrediction::total(prediction->pool_account).count() == 0);
  for (const kvpool::ExpectedFigure& expected : question.expected) {
    if (const auto* figure = prediction->find(expected.key); figure != nullptr) {
      (void)kvpool::agrees(*figure, expected, question.rounding);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  for (const auto& line : kvpool::io::parse_engine_cases(text, "fuzz.jsonl", KVPOOL_CONFIGS)) {
    require(line.line > 0);
    if (line.content.has_value()) {
      check(*line.content);
    } else {
      require(!line.content.error().message.empty() && !line.content.error().file.empty());
      require(line.content.error().code != kvpool::ErrorCode::kInternal);
    }
  }
  return 0;
}
