// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/capability/device_spec.hpp>

#include "support/catch.hpp"

#include <set>

namespace kvpool {
namespace {

using namespace literals;

TEST_CASE("the three totals of an H200 are told apart, to the byte", "[capability]") {
  const auto h200 = find_device("h200");
  REQUIRE(h200.has_value());
  CHECK(h200->marketed == Bytes{141'000'000'000});
  CHECK(h200->nvidia_smi == Bytes{150'754'820'096});         // 143,771 MiB
  CHECK(h200->cuda_visible_low == Bytes{150'109'106'995});   // 139.80 GiB
  CHECK(h200->cuda_visible_high == Bytes{150'119'844'413});  // 139.81 GiB
  CHECK(h200->architecture == "sm_90");
  CHECK(h200->bandwidth_gb_per_s == 4800);
  CHECK(h200->multiprocessors == 132);
  CHECK(h200->granularity == 2_MiB);
  CHECK(h200->note.empty());
}

TEST_CASE("known GPUs have their published figures", "[capability]") {
  struct Line {
    const char* name;
    const char* architecture;
    std::int64_t marketed;
    std::int64_t nvidia_smi;
    std::int64_t cuda_low;
    std::int64_t cuda_high;
  };
  // MiB times 2^20; GiB with two decimals times 2^30, rounded down to bytes.
  const auto line = GENERATE(values<Line>({
      {"h100", "sm_90", 80'000'000'000, 85'520'809'984, 84'932'978'278, 85'179'938'897},
      {"h100-pcie", "sm_90", 80'000'000'000, 85'520'809'984, 84'932'978'278, 85'179'938'897},
      {"b200", "sm_100", 180'000'000'000, 192'265'846'784, 191'501'854'310, 191'512'591'728},
      {"gb200", "sm_100", 186'000'000'000, 198'674'743'296, 197'901'355'581, 197'901'355'581},
      {"b300", "sm_103", 288'000'000'000, 288'400'343'040, 287'429'948'866, 287'429'948'866},
      {"gb300", "sm_103", 288'000'000'000, 298'013'687'808, 296'889'614'336, 296'889'614'336},
      // 39.49 and 39.59 GiB; 47.37 GiB, with no figure of nvidia-smi; 191.98 GiB of HIP.
      {"a100-40", "sm_80", 40'000'000'000, 42'949'672'960, 42'402'064'629, 42'509'438'812},
      {"rtx-6000-ada", "sm_89", 48'000'000'000, 0, 50'863'150'202, 50'863'150'202},
      {"mi300x", "gfx942", 192'000'000'000, 206'141'652'992, 206'136'955'371, 206'136'955'371},
      {"l40s", "sm_89", 48'000'000'000, 48'305'799'168, 47'813'723'422, 47'813'723'422},
  }));
  const auto device = find_device(line.name);
  REQUIRE(device.has_value());
  CHECK(device->name == line.name);
  CHECK(device->architecture == line.architecture);
  CHECK(device->marketed == Bytes{line.marketed});
  CHECK(device->nvidia_smi == Bytes{line.nvidia_smi});
  CHECK(device->cuda_visible_low == Bytes{line.cuda_low});
  CHECK(device->cuda_visible_high == Bytes{line.cuda_high});
}

TEST_CASE("every known GPU is whole and in order", "[capability]") {
  std::set<std::string> names;
  for (const DeviceSpec& device : known_devices()) {
    INFO(device.name);
    CHECK(names.insert(device.name).second);
    CHECK((device.architecture.starts_with("sm_") || device.architecture.starts_with("gfx")));
    CHECK(device.cuda_visible_low > Bytes{0});
    CHECK(device.cuda_visible_low <= device.cuda_visible_high);
    // 0: not known. AMD's process sees all that amd-smi shows.
    CHECK((device.nvidia_smi.count() == 0 || device.cuda_visible_high <= device.nvidia_smi));
    // What nvidia-smi prints is at most the marketed number read as GiB.
    CHECK(device.nvidia_smi.count() / (1 << 30) <= device.marketed.count() / 1'000'000'000);
    CHECK(device.bandwidth_gb_per_s > 0);
    CHECK(device.multiprocessors > 0);
    CHECK(device.granularity == 2_MiB);
    CHECK(find_device(device.name) == device);
  }
  CHECK(names.size() == 22);
}

TEST_CASE("a GPU is found in any case and with any separator", "[capability]") {
  const auto* const name = GENERATE("H100", "h100-sxm", "H100 SXM", "h100_sxm5", "H-1-0-0");
  const auto device = find_device(name);
  REQUIRE(device.has_value());
  CHECK(device->name == "h100");
}

TEST_CASE("the forms of the H100 differ", "[capability]") {
  CHECK(find_device("h100")->bandwidth_gb_per_s == 3350);
  CHECK(find_device("h100-pcie")->bandwidth_gb_per_s == 2000);
  CHECK(find_device("h100")->multiprocessors == 132);
  CHECK(find_device("h100-pcie")->multiprocessors == 114);
  const auto nvl = find_device("H100 NVL");
  REQUIRE(nvl.has_value());
  CHECK(nvl->marketed == Bytes{94'000'000'000});
  CHECK_THAT(nvl->note, Catch::Matchers::ContainsSubstring("one figure was observed"));
}

TEST_CASE("an unknown GPU is said to be unknown", "[capability]") {
  CHECK_FALSE(find_device("").has_value());
  CHECK_FALSE(find_device("h20").has_value());
  CHECK_FALSE(find_device("h2000").has_value());
  CHECK_FALSE(find_device("a100").has_value());
}

}  // namespace
}  // namespace kvpool
