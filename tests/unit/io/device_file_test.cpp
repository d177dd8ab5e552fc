// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/device_file.hpp>

#include "support/catch.hpp"

#include <string>

namespace kvpool {
namespace {

constexpr const char* kWhole = R"([[gpu]]
name = "h200-mig-3g"
architecture = "sm_90"
marketed = "71GB"
nvidia_smi = "70.4GiB"
cuda_visible = "69.5GiB"
cuda_visible_high = "69.75GiB"
bandwidth_gb_per_s = 2400
granularity = "2MiB"
note = "a slice"

[[gpu]]
name = "x1"
architecture = "sm_90"
cuda_visible = "80GB"
)";

TEST_CASE("a file of GPUs says everything in bytes", "[io]") {
  const auto devices = io::parse_device_file(kWhole, "gpus.toml");
  REQUIRE(devices.has_value());
  REQUIRE(devices->size() == 2);
  CHECK((*devices)[0] == DeviceSpec{.name = "h200-mig-3g",
                                    .architecture = "sm_90",
                                    .marketed = Bytes{71'000'000'000},
                                    .nvidia_smi = Bytes{75'591'424'409},
                                    .cuda_visible_low = Bytes{74'625'056'768},
                                    .cuda_visible_high = Bytes{74'893'492'224},
                                    .bandwidth_gb_per_s = 2400,
                                    .granularity = Bytes{2'097'152},
                                    .note = "a slice"});
  CHECK((*devices)[1].cuda_visible_low == Bytes{80'000'000'000});
  CHECK((*devices)[1].cuda_visible_high == Bytes{80'000'000'000});
  CHECK((*devices)[1].granularity == Bytes{2'097'152});
  CHECK((*devices)[1].nvidia_smi == Bytes{0});
}

TEST_CASE("mistakes in a file of GPUs name line, column and key", "[io]") {
  struct Line {
    const char* text;
    const char* key;
    const char* message;
  };
  const auto line = GENERATE(values<Line>({
      {"", "gpu", "one [[gpu]] table"},
      {"[[gpus]]\nname = \"a\"\n", "file.gpus", "did you mean 'gpu'?"},
      {"gpu = 7\n", "gpu", "one [[gpu]] table"},
      {"gpu = [7]\n", "gpu[0]", "line 1, column 8: needs a table"},
      {"[[gpu]]\nname = \"a\"\n", "gpu[0].architecture", "missing"},
      {"[[gpu]]\nnmae = \"a\"\n", "gpu[0].nmae",
       "line 2, column 1: unknown key; did you mean 'name'"},
      {"[[gpu]]\nname = \"a\"\narchitecture = \"sm_90\"\ncuda_visible = 80\n",
       "gpu[0].cuda_visible", "line 4, column 16: needs a size with its unit"},
      {"[[gpu]]\nname = \"a\"\narchitecture = \"sm_90\"\ncuda_visible = \"80G\"\n",
       "gpu[0].cuda_visible", "line 4, column 16"},
      {"[[gpu]]\nname = \"a\"\narchitecture = \"sm_90\"\ncuda_visible = \"0B\"\n",
       "gpu[0].cuda_visible", "1 B to 2^60"},
      {"[[gpu]]\nname = \"a\"\narchitecture = \"sm_90\"\ncuda_visible = \"80GiB\"\n"
       "nvidia_smi = \"79GiB\"\n",
       "gpu[0].cuda_visible", "marketed memory (GB) taken for GiB?"},
      {"[[gpu]]\nname = \"a\"\narchitecture = \"sm_90\"\ncuda_visible = \"80GiB\"\n"
       "cuda_visible_high = \"79GiB\"\n",
       "gpu[0].cuda_visible_high", "less than"},
      {"[[gpu]]\nname = \"a\"\narchitecture = \"sm_90\"\ncuda_visible = \"80GiB\"\n"
       "granularity = \"3MiB\"\n",
       "gpu[0].granularity", "power of two"},
      {"[[gpu]]\nname = \"a\"\narchitecture = \"sm_90\"\ncuda_visible = \"80GiB\"\n"
       "bandwidth_gb_per_s = -1\n",
       "gpu[0].bandwidth_gb_per_s", "0 to 10^9"},
      {"[[gpu]]\nname = \"\"\narchitecture = \"sm_90\"\ncuda_visible = \"80GiB\"\n", "gpu[0].name",
       "1 to 64"},
      {"[[gpu]]\nname = \"a\"\narchitecture = \"s\"\ncuda_visible = \"1GiB\"\n"
       "[[gpu]]\nname = \"a\"\narchitecture = \"s\"\ncuda_visible = \"1GiB\"\n",
       "gpu[1].name", "line 6, column 8: stands in the file twice"},
      {"[[gpu]\n", "", "line 1"},
  }));
  INFO(line.text);
  const auto devices = io::parse_device_file(line.text, "gpus.toml");
  REQUIRE(!devices.has_value());
  CHECK(devices.error().code == ErrorCode::kInvalidArgument);
  CHECK(devices.error().file == "gpus.toml");
  CHECK(devices.error().key == line.key);
  CHECK_THAT(devices.error().message, Catch::Contains(line.message));
}

TEST_CASE("files of GPUs that cannot be read are errors", "[io]") {
  CHECK(io::read_device_file("/no/such/file.toml").error().code == ErrorCode::kNotFound);
  CHECK(io::parse_device_file(std::string((1U << 20U) + 1, '\n'), "f")
            .error()
            .message.find("1 MiB") != std::string::npos);
}

}  // namespace
}  // namespace kvpool
