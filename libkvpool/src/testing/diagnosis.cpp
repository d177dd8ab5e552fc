// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/diagnosis.hpp"

#include <kvpool/core/checked.hpp>
#include <kvpool/core/kv_dtype.hpp>
#include <kvpool/core/size_text.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

namespace kvpool::testing::detail {
namespace {

constexpr std::size_t kMostExplanations = 3;
constexpr std::int64_t kMostHeads = 128;
constexpr std::int64_t kMostHeadRanks = 64;

/// An explanation and how likely it is; smaller is likelier.
struct Explanation {
  int rank = 0;
  std::string text;
};

bool caches_elements(const LayerGeometry& layer) noexcept {
  return layer.kind == CacheKind::kKeyValue || layer.kind == CacheKind::kLatent;
}

/// The shape that a descriptor was made from.
PoolShape shape_of(const PoolDescriptor& pool) {
  PoolShape shape{.name = pool.name,
                  .role = pool.role,
                  .tokens_per_block = page_tokens(pool),
                  .layout = pool.groups.empty() ? PageLayout{} : pool.groups.front().page.layout,
                  .granularity = pool.granularity,
                  .reserved_slabs = pool.reserved_slabs};
  for (const PooledGroup& group : pool.groups) {
    shape.groups.push_back(group.group);
  }
  return shape;
}

/// Gives a new descriptor as many usable pages of every group as `planned` has.
void set_pages(PoolDescriptor& laid_out, const PoolDescriptor& planned) {
  Slabs spare = planned.slabs;
  for (std::size_t i = 0; i < laid_out.groups.size() && i < planned.groups.size(); ++i) {
    PooledGroup& group = laid_out.groups[i];
    spare -= planned.groups[i].planned_slabs;
    group.planned_slabs =
        Slabs{ceil_div(planned.groups[i].planned_pages().count(), group.pages_per_slab)};
    laid_out.slabs += group.planned_slabs;
  }
  laid_out.slabs += spare;
}

/// One pool laid out from a changed shape. Groups that then have no common slab get pools of their
/// own.
std::optional<PoolBytes> lay_out(const PoolShape& shape, const PoolDescriptor& planned) {
  if (auto pool = describe_pool(shape); pool.has_value()) {
    set_pages(*pool, planned);
    return PoolBytes{.rows = pool->bytes(), .charged = pool->charged_bytes()};
  }
  if (shape.groups.size() < 2 || shape.groups.size() != planned.groups.size()) {
    return std::nullopt;
  }
  PoolBytes sum;
  for (std::size_t i = 0; i < shape.groups.size(); ++i) {
    PoolShape own = shape;
    own.groups = {shape.groups[i]};
    PoolDescriptor part = planned;
    part.groups = {planned.groups[i]};
    part.slabs = planned.groups[i].planned_slabs;
    const auto bytes = lay_out(own, part);
    if (!bytes.has_value()) {
      return std::nullopt;
    }
    sum.rows += bytes->rows;
    sum.charged += bytes->charged;
  }
  return sum;
}

/// Changes every layer that `applies` to.
template <typename Applies, typename Change>
bool change_layers(PoolShape& shape, const Applies& applies, const Change& change) {
  bool changed = false;
  for (LayerGroup& group : shape.groups) {
    for (LayerGeometry& layer : group.layers) {
      if (applies(layer)) {
        const LayerGeometry before = layer;
        change(layer);
        changed = changed || !(layer == before);
      }
    }
  }
  return changed;
}

bool is_key_value(const LayerGeometry& layer) noexcept {
  return layer.kind == CacheKind::kKeyValue;
}
bool is_state(const LayerGeometry& layer) noexcept { return layer.kind == CacheKind::kState; }

/// Looks at every layer of some pools.
template <typename Function>
void for_each_layer(PoolRefs pools, const Function& function) {
  for (const PoolDescriptor* pool : pools) {
    for (const PooledGroup& group : pool->groups) {
      for (const LayerGeometry& layer : group.group.layers) {
        function(layer);
      }
    }
  }
}

std::optional<KvDtype> element_dtype(PoolRefs pools) {
  std::optional<KvDtype> dtype;
  for_each_layer(pools, [&dtype](const LayerGeometry& layer) {
    if (!dtype.has_value() && caches_elements(layer)) {
      dtype = layer.dtype;
    }
  });
  return dtype;
}

/// The number of KV heads of a rank, when all layers with heads have the same.
std::optional<Heads> common_kv_heads(PoolRefs pools) {
  std::optional<Heads> heads;
  bool differ = false;
  for_each_layer(pools, [&](const LayerGeometry& layer) {
    if (is_key_value(layer)) {
      differ = differ || (heads.has_value() && *heads != layer.kv_heads);
      heads = layer.kv_heads;
    }
  });
  return differ ? std::nullopt : heads;
}

/// A part of what was charged, in words.
std::string proportion(Bytes held, Bytes charged) {
  if (held.count() <= 0 || charged.count() <= 0) {
    return {};
  }
  if ((held % charged).count() == 0) {
    const std::int64_t times = held / charged;
    return times == 2 ? " (twice)" : fmt::format(" ({} times)", times);
  }
  if ((charged % held).count() == 0) {
    const std::int64_t part = charged / held;
    return part == 2 ? " (half)" : part == 4 ? " (a quarter)" : fmt::format(" (1/{})", part);
  }
  return {};
}

/// Collects what explains the bytes that are held.
class Diagnosis {
 public:
  Diagnosis(PoolRefs pools, PoolRefs others, Bytes held)
      : pools_{pools}, others_{others}, held_{held}, now_{size_of(pools)} {}

  void try_page_sizes() {
    const Tokens charged = pools_.empty() ? Tokens{0} : page_tokens(*pools_.front());
    for (std::int64_t tokens = 1; tokens <= 1024; tokens *= 2) {
      const auto size = size_after(
          pools_, [tokens](PoolShape& shape) { return set_page_tokens(shape, Tokens{tokens}); });
      if (size.has_value() && size->matches(held_)) {
        const bool elsewhere = std::ranges::any_of(others_, [tokens](const PoolDescriptor* other) {
          return page_tokens(*other) == Tokens{tokens};
        });
        add(elsewhere                       ? 0
            : tokens >= 16 && tokens <= 128 ? 2
                                            : 4,
            fmt::format("held is the bytes of {}-token pages where {}-token pages were charged",
                        tokens, charged.count()));
      }
    }
  }

  void try_formats() {
    const auto charged = element_dtype(pools_);
    if (!charged.has_value()) {
      return;
    }
    const auto elsewhere = [this, &charged](KvDtype dtype) {
      bool found = false;
      for_each_layer(others_, [&](const LayerGeometry& layer) {
        found = found || (caches_elements(layer) && layer.dtype == dtype && dtype != *charged);
      });
      return found;
    };
    std::vector<KvDtype> candidates{KvDtype::kBf16, KvDtype::kFp8E4m3, KvDtype::kFp32};
    for (const KvDtype dtype : all_kv_dtypes()) {
      const bool known = std::ranges::find(candidates, dtype) != candidates.end();
      if (!known) {
        candidates.push_back(dtype);
      }
    }
    std::ranges::stable_partition(candidates, elsewhere);
    for (const KvDtype dtype : candidates) {
      const auto size = size_after(pools_, [dtype](PoolShape& shape) {
        return change_layers(shape, caches_elements,
                             [dtype](LayerGeometry& layer) { layer.dtype = dtype; });
      });
      if (size.has_value() && size->matches(held_)) {
        // Formats of equal size cannot be told apart: the first one stands for them.
        const bool was_8_bit = plain_element_bytes(*charged) == Bytes{1};
        const bool usual = dtype == KvDtype::kBf16 || dtype == KvDtype::kFp8E4m3;
        add(elsewhere(dtype)     ? 0
            : was_8_bit && usual ? 1
            : usual              ? 2
                                 : 4,
            fmt::format("charged as {}, held as {}{}", to_string(*charged), to_string(dtype),
                        proportion(held_, held_ == size->rows ? now_.rows : now_.charged)));
        return;
      }
    }
  }

  void try_state_formats() {
    for (const KvDtype dtype : {KvDtype::kFp32, KvDtype::kBf16, KvDtype::kFp8E4m3}) {
      try_state(dtype, "matrix states", [dtype](LayerGeometry& layer) { layer.dtype = dtype; });
      try_state(dtype, "convolution states",
                [dtype](LayerGeometry& layer) { layer.conv_dtype = dtype; });
    }
    if (found()) {
      return;
    }
    for (const KvDtype dtype : {KvDtype::kFp32, KvDtype::kBf16, KvDtype::kFp8E4m3}) {
      try_state(dtype, "all states", [dtype](LayerGeometry& layer) {
        layer.dtype = dtype;
        layer.conv_dtype = dtype;
      });
    }
  }

  void try_heads() {
    const auto charged = common_kv_heads(pools_);
    if (!charged.has_value()) {
      return;
    }
    for (std::int64_t heads = 1; heads <= kMostHeads; ++heads) {
      const auto size = size_with_heads(heads);
      if (size.has_value() && heads != charged->count() && size->matches(held_)) {
        add(3, fmt::format("held with {} KV heads a rank where {} {} charged", heads,
                           charged->count(), charged->count() == 1 ? "was" : "were"));
      }
    }
    for (std::int64_t ranks = 2; ranks <= kMostHeadRanks; ranks *= 2) {
      const std::int64_t rounded = charged->count() * ranks;
      for (std::int64_t heads = rounded - ranks + 1; heads < rounded; ++heads) {
        if (std::gcd(heads, ranks) == 1 && is_share_of(size_with_heads(heads), ranks)) {
          add(3, fmt::format("KV heads were divided ({}/{}) instead of rounded up to {}", heads,
                             ranks, charged->count()));
          return;
        }
      }
    }
  }

  void try_reserved() {
    std::int64_t reserved = 0;
    for (const PoolDescriptor* pool : pools_) {
      reserved += pool->reserved_slabs.count();
    }
    const auto size = size_after(pools_, [](PoolShape& shape) {
      return std::exchange(shape.reserved_slabs, Slabs{0}).count() != 0;
    });
    if (size.has_value() && size->matches(held_)) {
      add(1, fmt::format("held without the {} reserved page{} at the start", reserved,
                         reserved == 1 ? "" : "s"));
    }
  }

  void try_layers() {
    if (pools_.size() != 1 || pools_.front()->groups.size() != 1) {
      return;
    }
    const std::size_t all = pools_.front()->groups.front().group.layers.size();
    for (std::size_t layers = 1; layers < all; ++layers) {
      const auto size = size_after(pools_, [layers](PoolShape& shape) {
        shape.groups.front().layers.resize(layers);
        return true;
      });
      if (size.has_value() && size->matches(held_)) {
        add(5, fmt::format("held is the bytes of {} of its {} layers", layers, all));
        return;
      }
    }
  }

  void try_granules(std::size_t allocations) {
    if (held_ > now_.rows && held_ < now_.charged) {
      add(5, fmt::format("held in other granules than {}",
                         size_argument(pools_.front()->granularity)));
    }
    if (allocations > 1 && held_ > now_.charged) {
      const CheckedInt limit =
          CheckedInt{now_.charged.count()} +
          CheckedInt{pools_.front()->granularity.count()} * static_cast<std::int64_t>(allocations);
      if (held_.count() < limit.saturated()) {
        add(5, fmt::format("{} allocations, each in granules of its own", allocations));
      }
    }
  }

  void try_pages() {
    if (pools_.size() != 1 || pools_.front()->slab_bytes.count() <= 0) {
      return;
    }
    const PoolDescriptor& pool = *pools_.front();
    if ((held_ % pool.slab_bytes).count() == 0) {
      add(6,
          fmt::format("held is {} pages of {} B where {} were charged", held_ / pool.slab_bytes,
                      pool.slab_bytes.count(), pool.slabs.count() + pool.reserved_slabs.count()));
    }
  }

  [[nodiscard]] bool found() const noexcept { return !explanations_.empty(); }

  [[nodiscard]] std::string text() && {
    std::ranges::stable_sort(explanations_, {}, &Explanation::rank);
    if (explanations_.size() > kMostExplanations) {
      explanations_.resize(kMostExplanations);
    }
    std::string out;
    for (const Explanation& explanation : explanations_) {
      out += (out.empty() ? "" : "; or ") + explanation.text;
    }
    return out;
  }

 private:
  void add(int rank, std::string text) { explanations_.push_back({rank, std::move(text)}); }

  template <typename Change>
  void try_state(KvDtype dtype, std::string_view which, const Change& change) {
    const auto size = size_after(
        pools_, [&change](PoolShape& shape) { return change_layers(shape, is_state, change); });
    if (size.has_value() && size->matches(held_)) {
      add(1, fmt::format("{} held as {}{}", which, to_string(dtype),
                         proportion(held_, held_ == size->rows ? now_.rows : now_.charged)));
    }
  }

  [[nodiscard]] std::optional<PoolBytes> size_with_heads(std::int64_t heads) const {
    if (common_kv_heads(pools_) == Heads{heads}) {
      return now_;
    }
    return size_after(pools_, [heads](PoolShape& shape) {
      return change_layers(shape, is_key_value,
                           [heads](LayerGeometry& layer) { layer.kv_heads = Heads{heads}; });
    });
  }

  /// Whether one of `ranks` equal parts of `whole` is held.
  [[nodiscard]] bool is_share_of(const std::optional<PoolBytes>& whole, std::int64_t ranks) const {
    if (!whole.has_value() || whole->rows.count() % ranks != 0) {
      return false;
    }
    const Bytes share{whole->rows.count() / ranks};
    return held_ == share || held_ == align_up(share, pools_.front()->granularity);
  }

  PoolRefs pools_;
  PoolRefs others_;
  Bytes held_;
  PoolBytes now_;
  std::vector<Explanation> explanations_;
};

void note(std::string& out, bool differs, std::string text) {
  if (differs) {
    out += (out.empty() ? "" : "; ") + std::move(text);
  }
}

}  // namespace

PoolBytes size_of(PoolRefs pools) {
  CheckedInt rows{0};
  CheckedInt charged{0};
  for (const PoolDescriptor* pool : pools) {
    rows += pool->bytes().count();
    charged += pool->charged_bytes().count();
  }
  return {.rows = Bytes{rows.saturated()}, .charged = Bytes{charged.saturated()}};
}

std::optional<PoolBytes> size_after(PoolRefs pools, const std::function<bool(PoolShape&)>& change) {
  PoolBytes sum;
  bool changed = false;
  for (const PoolDescriptor* pool : pools) {
    PoolShape shape = shape_of(*pool);
    changed = change(shape) || changed;
    const auto bytes = lay_out(shape, *pool);
    if (!bytes.has_value()) {
      return std::nullopt;
    }
    sum.rows += bytes->rows;
    sum.charged += bytes->charged;
  }
  return changed ? std::optional{sum} : std::nullopt;
}

Tokens page_tokens(const PoolDescriptor& pool) noexcept {
  for (const PooledGroup& group : pool.groups) {
    if (!group.group.is_state) {
      return group.page.tokens_per_block;
    }
  }
  return Tokens{0};
}

bool set_page_tokens(PoolShape& shape, Tokens tokens_per_block) {
  const bool has_pages =
      std::ranges::any_of(shape.groups, [](const LayerGroup& group) { return !group.is_state; });
  return has_pages && std::exchange(shape.tokens_per_block, tokens_per_block) != tokens_per_block;
}

std::string diagnose(PoolRefs pools, PoolRefs others, Bytes held, std::size_t allocations) {
  Diagnosis diagnosis{pools, others, held};
  diagnosis.try_page_sizes();
  diagnosis.try_formats();
  diagnosis.try_state_formats();
  diagnosis.try_heads();
  diagnosis.try_reserved();
  if (!diagnosis.found()) {
    diagnosis.try_layers();
    diagnosis.try_granules(allocations);
  }
  if (!diagnosis.found()) {
    diagnosis.try_pages();
  }
  if (diagnosis.found()) {
    return std::move(diagnosis).text();
  }
  const Bytes charged = size_of(pools).charged;
  return held < charged
             ? fmt::format("{} less is held than was charged", size_text(charged - held))
             : fmt::format("{} more is held than was charged", size_text(held - charged));
}

std::string descriptor_difference(const PoolDescriptor& planned, const PoolDescriptor& allocated) {
  if (planned == allocated) {
    return {};
  }
  const PoolDescriptor* const planned_ref = &planned;
  const PoolDescriptor* const allocated_ref = &allocated;
  const PoolRefs planned_refs{&planned_ref, 1};
  const PoolRefs allocated_refs{&allocated_ref, 1};
  std::string out;
  note(out, page_tokens(planned) != page_tokens(allocated),
       fmt::format("held in {}-token pages where {}-token pages were charged",
                   page_tokens(allocated).count(), page_tokens(planned).count()));
  const auto charged_dtype = element_dtype(planned_refs);
  const auto held_dtype = element_dtype(allocated_refs);
  if (charged_dtype.has_value() && held_dtype.has_value()) {
    note(out, *charged_dtype != *held_dtype,
         fmt::format("charged as {}, held as {}", to_string(*charged_dtype),
                     to_string(*held_dtype)));
  }
  const auto charged_heads = common_kv_heads(planned_refs);
  const auto held_heads = common_kv_heads(allocated_refs);
  if (charged_heads.has_value() && held_heads.has_value()) {
    note(out, *charged_heads != *held_heads,
         fmt::format("held with {} KV heads a rank where {} were charged", held_heads->count(),
                     charged_heads->count()));
  }
  note(out, planned.slabs != allocated.slabs,
       fmt::format("{} usable pages held where {} were charged", allocated.slabs.count(),
                   planned.slabs.count()));
  note(out, planned.reserved_slabs != allocated.reserved_slabs,
       fmt::format("{} reserved pages held where {} were charged", allocated.reserved_slabs.count(),
                   planned.reserved_slabs.count()));
  note(out, planned.granularity != allocated.granularity,
       fmt::format("held in granules of {} where {} were charged",
                   size_argument(allocated.granularity), size_argument(planned.granularity)));
  note(out, out.empty(), "allocated from another descriptor than the plan's");
  return out;
}

}  // namespace kvpool::testing::detail
