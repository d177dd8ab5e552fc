// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/capability/device_spec.hpp>

#include <iterator>

namespace kvpool {
namespace {

constexpr std::int64_t kGigabyte = 1'000'000'000;
constexpr std::int64_t kMebibyteBits = 20;
constexpr std::int64_t kGibibyteBits = 30;
/// The CUDA-visible figures are stated with two decimals.
constexpr std::int64_t kHundredths = 100;
/// Unit in which NVIDIA GPUs map memory.
constexpr Bytes kNvidiaGranule{std::int64_t{2} << kMebibyteBits};

/// One line of the table, in the units in which the figures are published.
struct DeviceLine {
  std::string_view name;
  std::string_view architecture;
  std::int64_t marketed_gb;
  std::int64_t nvidia_smi_mib;
  /// In hundredths of a GiB.
  std::int64_t cuda_low;
  /// In hundredths of a GiB.
  std::int64_t cuda_high;
  std::int64_t bandwidth_gb_per_s;
  std::int64_t multiprocessors;
  std::string_view note = {};
};

constexpr std::string_view kOneSample = "one CUDA-visible figure was observed";
constexpr std::string_view kAmd =
    "HIP's total; the unit in which memory is mapped is taken to be NVIDIA's";

// Marketed: vendor pages and MLPerf v6.1 system files. nvidia-smi: captures in public repositories.
// CUDA-visible: PyTorch's "total capacity" messages in public issues.
// Multiprocessors: vendor pages; the H200's was read from one. Of the A10 those of the A10G, which
// goes by this line too; of GB200, B300 and GB300 those of the whole chip, of which some are off: a
// workspace that is sized by them is at least large enough. A100-40: a deviceQuery capture of PC2
// at Paderborn University, which also has its CUDA-visible bytes. RTX 6000 Ada: published
// comparisons with the RTX 4090 (142 of the chip's 144). GB10: NVIDIA's hardware guide of DGX Spark
// has 6,144 CUDA cores, and there are 128 in a multiprocessor. Of AMD's GPUs: compute units, from
// ROCm's table of GPU specifications.
constexpr DeviceLine kDevices[] = {
    {"h100", "sm_90", 80, 81559, 7910, 7933, 3350, 132, "SXM; 79.18 GiB is typical"},
    {"h100-pcie", "sm_90", 80, 81559, 7910, 7933, 2000, 114},
    {"h100-nvl", "sm_90", 94, 95830, 9298, 9326, 3900, 132,
     "the CUDA-visible range is nvidia-smi's figure less the 0.32 to 0.60 GiB that other Hopper "
     "GPUs lose; one figure was observed, 93.00 GiB"},
    {"h200", "sm_90", 141, 143771, 13980, 13981, 4800, 132},
    {"b200", "sm_100", 180, 183359, 17835, 17836, 8000, 148},
    {"gb200", "sm_100", 186, 189471, 18431, 18431, 8000, 160, kOneSample},
    {"b300", "sm_103", 288, 275040, 26769, 26769, 8000, 160, kOneSample},
    {"gb300", "sm_103", 288, 284208, 27650, 27650, 8000, 160, kOneSample},
    {"gh200", "sm_90", 96, 97871, 9498, 9526, 4000, 132,
     "the CUDA-visible range was not observed: it is nvidia-smi's figure less the 0.32 to 0.60 GiB "
     "that other Hopper GPUs lose; the multiprocessors are those of an H100, and not confirmed"},
    {"a100-40", "sm_80", 40, 40960, 3949, 3959, 1555, 108,
     "SXM; 42,405,855,232 bytes were observed"},
    {"a100-80", "sm_80", 80, 81920, 7914, 7925, 2039, 108, "SXM; PCIe has 1935 GB/s"},
    {"a10", "sm_86", 24, 23028, 2203, 2206, 600, 80},
    {"l4", "sm_89", 24, 23034, 2203, 2204, 300, 58},
    {"l40s", "sm_89", 48, 46068, 4453, 4453, 864, 142, kOneSample},
    {"rtx-6000-ada", "sm_89", 48, 0, 4737, 4737, 960, 142,
     "one CUDA-visible figure was observed; nvidia-smi's was not"},
    {"rtx-4090", "sm_89", 24, 24564, 2352, 2364, 1008, 128},
    {"rtx-5090", "sm_120", 32, 32607, 3136, 3137, 1792, 170},
    {"rtx-pro-6000", "sm_120", 96, 97887, 9497, 9501, 1792, 188},
    {"gb10", "sm_121", 128, 0, 12169, 12169, 273, 48,
     "DGX Spark; the memory is the CPU's, too; one CUDA-visible figure was observed"},
    {"mi300x", "gfx942", 192, 196592, 19198, 19198, 5300, 304, kAmd},
    {"mi325x", "gfx942", 256, 262128, 25598, 25598, 6000, 304, kAmd},
    {"mi355x", "gfx950", 288, 0, 28798, 28798, 8000, 256, kAmd},
};

Bytes gibibytes_from_hundredths(std::int64_t hundredths) {
  return Bytes{(hundredths << kGibibyteBits) / kHundredths};
}

std::vector<DeviceSpec> build_devices() {
  std::vector<DeviceSpec> devices;
  devices.reserve(std::size(kDevices));
  for (const DeviceLine& line : kDevices) {
    devices.push_back({.name = std::string{line.name},
                       .architecture = std::string{line.architecture},
                       .marketed = Bytes{line.marketed_gb * kGigabyte},
                       .nvidia_smi = Bytes{line.nvidia_smi_mib << kMebibyteBits},
                       .cuda_visible_low = gibibytes_from_hundredths(line.cuda_low),
                       .cuda_visible_high = gibibytes_from_hundredths(line.cuda_high),
                       .bandwidth_gb_per_s = line.bandwidth_gb_per_s,
                       .multiprocessors = line.multiprocessors,
                       .granularity = kNvidiaGranule,
                       .note = std::string{line.note}});
  }
  return devices;
}

}  // namespace

std::span<const DeviceSpec> known_devices() {
  static const std::vector<DeviceSpec> kAllDevices = build_devices();
  return kAllDevices;
}

}  // namespace kvpool
