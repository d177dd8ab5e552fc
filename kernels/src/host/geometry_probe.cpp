// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "host/geometry_probe.hpp"

#include <kvpool/kernels/narrow_float.hpp>

#include "host/geometry_pages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <numbers>
#include <span>

namespace kvpool::kernels {
namespace {

/// Most token slots of one page that are looked at: all of usual pages, else the first and last.
constexpr std::int32_t kMostSlots = 256;
/// What a log-sum-exp may differ by. Products of patterns are exact in fp32, and one wrong element
/// of a key moves it by at least five times as much.
constexpr float kLseTolerance = 1e-3F;

/// A multiple of 1/128 in [-1, 1], exact in every format.
float pattern_value(std::uint64_t seed, std::uint64_t index) noexcept {
  return static_cast<float>(static_cast<std::int64_t>(mixed(seed, index) % 257) - 128) / 128.0F;
}

/// A multiple of 1/2 in [-1, 1], but 0: every element of a key counts.
float query_value(std::uint64_t index) noexcept {
  constexpr float kValues[] = {-1.0F, -0.5F, 0.5F, 1.0F};
  return kValues[mixed(77, index) % 4];
}

/// Values as elements of a type, one behind the other.
class Elements {
 public:
  Elements(ElementType type, std::size_t count)
      : type_{type}, bytes_(count * static_cast<std::size_t>(element_bytes(type))) {}

  void set(std::size_t index, float value) noexcept {
    const std::uint16_t half =
        type_ == ElementType::kBf16 ? float_to_bf16(value) : float_to_fp16(value);
    type_ == ElementType::kFp32 ? store(index, value) : store(index, half);
  }
  [[nodiscard]] float get(std::size_t index) const noexcept {
    if (type_ == ElementType::kFp32) {
      return load<float>(index);
    }
    const auto half = load<std::uint16_t>(index);
    return type_ == ElementType::kBf16 ? bf16_to_float(half) : fp16_to_float(half);
  }
  [[nodiscard]] std::byte* data() noexcept { return bytes_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }

 private:
  template <typename T>
  void store(std::size_t index, T value) noexcept {
    std::memcpy(bytes_.data() + index * sizeof(T), &value, sizeof(T));
  }
  template <typename T>
  [[nodiscard]] T load(std::size_t index) const noexcept {
    T value;
    std::memcpy(&value, bytes_.data() + index * sizeof(T), sizeof(T));
    return value;
  }

  ElementType type_;
  std::vector<std::byte> bytes_;
};

/// A token slot of a page that is looked at.
struct Place {
  std::int64_t entry = 0;
  std::int32_t slot = 0;
};

std::vector<Place> places_of(const GeometryProbe& probe) {
  const std::int32_t slots = probe.operands.tokens_per_block;
  std::vector<Place> places;
  for (const std::int64_t entry : probe.entries) {
    for (std::int32_t slot = 0; slot < slots; ++slot) {
      if (slot < kMostSlots / 2 || slot >= slots - kMostSlots / 2) {
        places.push_back({.entry = entry, .slot = slot});
      }
    }
  }
  return places;
}

/// Element of the pattern of a probe: K and V of each head of each token. Entry and slot have a
/// seed of their own: all of it does not fit into one number, and places that truncated addresses
/// take for one another may not have the same values.
float pattern_of(const GeometryProbe& probe, const Place& place, std::int32_t head, bool value,
                 std::int32_t dim) noexcept {
  const std::uint64_t page = mixed(probe.seed, static_cast<std::uint64_t>(place.entry));
  const std::uint64_t token = mixed(page, static_cast<std::uint64_t>(place.slot));
  return pattern_value(token, (static_cast<std::uint64_t>(head) * 2 + (value ? 1 : 0)) * 1024 +
                                  static_cast<std::uint64_t>(dim));
}

/// Rows of K or of V as append takes them: [token, head, dim].
Elements rows_of(const GeometryProbe& probe, std::span<const Place> places, bool value) {
  const CacheOperand& cache = value ? probe.operands.v : probe.operands.k;
  const auto heads = static_cast<std::size_t>(probe.operands.kv_heads);
  Elements rows{cache.type, places.size() * heads * static_cast<std::size_t>(cache.dim)};
  std::size_t index = 0;
  for (const Place& place : places) {
    for (std::int32_t head = 0; head < probe.operands.kv_heads; ++head) {
      for (std::int32_t dim = 0; dim < cache.dim; ++dim) {
        rows.set(index++, pattern_of(probe, place, head, value, dim));
      }
    }
  }
  return rows;
}

Result<void> append_pattern(const GeometryProbe& probe, const GeometryKernels& kernels,
                            GeometryScratch& scratch) {
  const CachePair& caches = probe.operands;
  const std::vector<Place> places = places_of(probe);
  Elements k = rows_of(probe, places, false);
  Elements v = rows_of(probe, places, true);
  std::vector<std::int64_t> slots;
  slots.reserve(places.size());
  for (const Place& place : places) {
    slots.push_back(place.entry * caches.tokens_per_block + place.slot);
  }
  const std::size_t slot_bytes = slots.size() * sizeof(slots[0]);
  Result<void> result = scratch.lay_out({k.size(), v.size(), slot_bytes});
  const auto upload = [&](std::size_t index, const void* from, std::size_t size) {
    if (result) {
      result = scratch.write(scratch.at(index), from, size);
    }
  };
  upload(0, k.data(), k.size());
  upload(1, v.data(), v.size());
  upload(2, slots.data(), slot_bytes);
  if (!result) {
    return result;
  }
  const auto pointer = [&](std::size_t index) {
    return reinterpret_cast<void*>(scratch.at(index));  // NOLINT: an address of the kernels' memory
  };
  return kernels.append({.k = pointer(0),
                         .v = caches.v_aliases_k ? nullptr : pointer(1),
                         .slot_mapping = static_cast<const std::int64_t*>(pointer(2)),
                         .k_cache = caches.k,
                         .v_cache = caches.v,
                         .k_token_stride = std::int64_t{caches.kv_heads} * caches.k.dim,
                         .k_head_stride = caches.k.dim,
                         .v_token_stride = std::int64_t{caches.kv_heads} * caches.v.dim,
                         .v_head_stride = caches.v.dim,
                         .tokens = static_cast<std::int32_t>(places.size()),
                         .kv_heads = caches.kv_heads,
                         .tokens_per_block = caches.tokens_per_block,
                         .source_type = caches.k.type});
}

/// What attention gave for every place and head.
struct Attended {
  Elements out;
  std::vector<float> lse;
};

/// How the rows of a batch find their pages.
enum class Tables {
  kOnePage,   ///< a row's table has its own page only
  kAllPages,  ///< a row's table has all pages that are looked at, up to its own
};

/// One query for each place: a row of its own, that ends at the place and sees nothing else.
Result<Attended> attend(const GeometryProbe& probe, std::span<const Place> places, Tables tables,
                        const GeometryKernels& kernels, GeometryScratch& scratch) {
  const CachePair& caches = probe.operands;
  const auto heads = static_cast<std::size_t>(caches.kv_heads);
  const auto k_dim = static_cast<std::size_t>(caches.k.dim);
  const auto v_dim = static_cast<std::size_t>(caches.v.dim);
  const auto tokens = static_cast<std::int32_t>(places.size());
  Elements queries{caches.k.type, places.size() * heads * k_dim};
  for (std::size_t i = 0; i < places.size() * heads * k_dim; ++i) {
    queries.set(i, query_value(i));
  }
  std::vector<std::int32_t> entries;
  std::vector<std::int32_t> lengths;
  const std::int64_t columns =
      tables == Tables::kOnePage ? 1 : static_cast<std::int64_t>(probe.entries.size());
  for (const Place& place : places) {
    std::int64_t before = 0;  // tokens of the pages before it
    if (tables == Tables::kOnePage) {
      entries.push_back(static_cast<std::int32_t>(place.entry));
    } else {
      for (const std::int64_t entry : probe.entries) {
        entries.push_back(static_cast<std::int32_t>(entry));
        before += entry < place.entry ? caches.tokens_per_block : 0;
      }
    }
    lengths.push_back(static_cast<std::int32_t>(before) + place.slot + 1);
  }
  Attended attended{.out = Elements{caches.v.type, places.size() * heads * v_dim},
                    .lse = std::vector<float>(places.size() * heads)};
  const std::size_t table_bytes = entries.size() * sizeof(entries[0]);
  const std::size_t length_bytes = lengths.size() * sizeof(lengths[0]);
  const std::size_t lse_bytes = attended.lse.size() * sizeof(float);
  // What a kernel leaves out shows as NaN.
  std::fill_n(attended.out.data(), attended.out.size(), std::byte{0xFF});
  std::memset(attended.lse.data(), 0xFF, lse_bytes);
  Result<void> result =
      scratch.lay_out({queries.size(), attended.out.size(), lse_bytes, table_bytes, length_bytes});
  const auto upload = [&](std::size_t index, const void* from, std::size_t size) {
    if (result) {
      result = scratch.write(scratch.at(index), from, size);
    }
  };
  upload(0, queries.data(), queries.size());
  upload(1, attended.out.data(), attended.out.size());
  upload(2, attended.lse.data(), lse_bytes);
  upload(3, entries.data(), table_bytes);
  upload(4, lengths.data(), length_bytes);
  const auto pointer = [&](std::size_t index) {
    return reinterpret_cast<void*>(scratch.at(index));  // NOLINT: an address of the kernels' memory
  };
  if (result) {
    const auto head_count = static_cast<std::int64_t>(heads);
    result = kernels.attention({.q = pointer(0),
                                .out = pointer(1),
                                .lse = static_cast<float*>(pointer(2)),
                                .table = {.entries = static_cast<const std::int32_t*>(pointer(3)),
                                          .lengths = static_cast<const std::int32_t*>(pointer(4)),
                                          .row_stride_entries = columns,
                                          .unit_bytes = caches.k.entry_stride_bytes,
                                          .rows = tokens,
                                          .tokens_per_block = caches.tokens_per_block},
                                .k = caches.k,
                                .v = caches.v,
                                .q_token_stride = head_count * caches.k.dim,
                                .q_head_stride = caches.k.dim,
                                .out_token_stride = head_count * caches.v.dim,
                                .out_head_stride = caches.v.dim,
                                .lse_token_stride = head_count,
                                .lse_head_stride = 1,
                                .tokens = tokens,
                                .max_query_tokens = 1,
                                .query_heads = caches.kv_heads,
                                .kv_heads = caches.kv_heads,
                                .window_left = 0,
                                .causal = 1,
                                .q_type = caches.k.type,
                                .out_type = caches.v.type});
  }
  if (result) {
    result = scratch.read(attended.out.data(), scratch.at(1), attended.out.size());
  }
  if (result) {
    result = scratch.read(attended.lse.data(), scratch.at(2), lse_bytes);
  }
  if (!result) {
    return std::move(result).error();
  }
  return attended;
}

Result<std::string> attention_difference(const GeometryProbe& probe, Tables tables,
                                         const GeometryKernels& kernels, GeometryScratch& scratch) {
  const CachePair& caches = probe.operands;
  const std::vector<Place> places = places_of(probe);
  const auto attended = attend(probe, places, tables, kernels, scratch);
  if (!attended) {
    return attended.error();
  }
  std::size_t query = 0;
  std::size_t output = 0;
  std::size_t row = 0;
  for (const Place& place : places) {
    for (std::int32_t head = 0; head < caches.kv_heads; ++head, ++row) {
      const auto where = [&] {
        return fmt::format("page at entry {}, slot {}, head {}{}", place.entry, place.slot, head,
                           tables == Tables::kOnePage ? "" : ", in a table of several pages");
      };
      float product = 0;
      for (std::int32_t dim = 0; dim < caches.k.dim; ++dim) {
        product += query_value(query++) * pattern_of(probe, place, head, false, dim);
      }
      for (std::int32_t dim = 0; dim < caches.v.dim; ++dim) {
        const float expected = pattern_of(probe, place, head, !caches.v_aliases_k, dim);
        const float found = attended->out.get(output++);
        if (found != expected) {
          return fmt::format("{}: element {} of the value is {}, {} was appended", where(), dim,
                             found, expected);
        }
      }
      const float expected = product * std::numbers::log2e_v<float>;
      const float found = attended->lse[row];
      if (!(std::abs(found - expected) <= kLseTolerance)) {
        return fmt::format("{}: the product of key and query is {}, that of the appended key {}",
                           where(), found / std::numbers::log2e_v<float>, product);
      }
    }
  }
  return std::string{};
}

/// Attention through tables of one page, and of all.
Result<std::string> attention_difference(const GeometryProbe& probe, const GeometryKernels& kernels,
                                         GeometryScratch& scratch) {
  auto difference = attention_difference(probe, Tables::kOnePage, kernels, scratch);
  const std::int64_t tokens =
      std::int64_t{probe.operands.tokens_per_block} * std::ssize(probe.entries);
  const bool walks = probe.entries.size() > 1 && tokens <= std::numeric_limits<std::int32_t>::max();
  if (!difference || !difference->empty() || !walks) {
    return difference;
  }
  return attention_difference(probe, Tables::kAllPages, kernels, scratch);
}

/// Bytes from the first to behind the last element of one row of a view.
std::size_t extent_of(const TensorView& view) noexcept {
  std::int64_t extent = view.strides.back();
  for (std::size_t i = 1; i < view.shape.size(); ++i) {
    extent += (view.shape[i] - 1) * view.strides[i];
  }
  return static_cast<std::size_t>(extent);
}

std::uintptr_t row_address(const PlacedView& placed, std::int64_t entry) noexcept {
  return placed.address + static_cast<std::uintptr_t>(entry * placed.view.strides.front());
}

/// The bytes of one row of a view.
void fill_bytes(std::vector<std::byte>& bytes, std::uint64_t seed, std::size_t view,
                std::int64_t entry) noexcept {
  const std::uint64_t row = mixed(seed + view, static_cast<std::uint64_t>(entry));
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
    const std::uint64_t word = mixed(row, i);
    std::memcpy(bytes.data() + i, &word, std::min(sizeof(word), bytes.size() - i));
  }
}

Result<void> write_bytes(const GeometryProbe& probe, GeometryScratch& scratch) {
  for (std::size_t i = 0; i < probe.views.size(); ++i) {
    std::vector<std::byte> bytes(extent_of(probe.views[i].view));
    for (const std::int64_t entry : probe.entries) {
      fill_bytes(bytes, probe.seed, i, entry);
      if (auto written =
              scratch.write(row_address(probe.views[i], entry), bytes.data(), bytes.size());
          !written) {
        return written;
      }
    }
  }
  return {};
}

Result<std::string> byte_difference(const GeometryProbe& probe, GeometryScratch& scratch) {
  for (std::size_t i = 0; i < probe.views.size(); ++i) {
    std::vector<std::byte> expected(extent_of(probe.views[i].view));
    std::vector<std::byte> found(expected.size());
    for (const std::int64_t entry : probe.entries) {
      fill_bytes(expected, probe.seed, i, entry);
      if (auto read = scratch.read(found.data(), row_address(probe.views[i], entry), found.size());
          !read) {
        return std::move(read).error();
      }
      const auto differs = std::ranges::mismatch(found, expected).in1;
      if (differs != found.end()) {
        return fmt::format("{} of the page at entry {}: byte {} of {} is not what was written",
                           to_string(probe.views[i].view.kind), entry, differs - found.begin(),
                           found.size());
      }
    }
  }
  return std::string{};
}

}  // namespace

Result<void> write_pattern(const GeometryProbe& probe, const GeometryKernels& kernels,
                           GeometryScratch& scratch) {
  return probe.check.method == GeometryMethod::kKernels ? append_pattern(probe, kernels, scratch)
                                                        : write_bytes(probe, scratch);
}

Result<std::string> find_difference(const GeometryProbe& probe, const GeometryKernels& kernels,
                                    GeometryScratch& scratch) {
  return probe.check.method == GeometryMethod::kKernels
             ? attention_difference(probe, kernels, scratch)
             : byte_difference(probe, scratch);
}

}  // namespace kvpool::kernels
