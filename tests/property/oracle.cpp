// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "oracle.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

namespace oracle {
namespace {

using Json = nlohmann::json;

Int up(Int a, Int b) { return (a + b - 1) / b; }
Int align(Int a, Int b) { return up(a, b) * b; }

// ---------------------------------------------------------------------------- from keys to layers

/// The text model's keys laid over the top level.
Json effective(const Json& top) {
  Json all = top;
  for (const char* nested : {"text_config", "llm_config"}) {
    if (top.contains(nested)) {
      for (const auto& [key, value] : top.at(nested).items()) {
        all[key] = value;
      }
    }
  }
  return all;
}

class Reader {
 public:
  explicit Reader(const std::string& text) : json_(effective(Json::parse(text))) {}

  Model read() {
    Model model;
    const Int depth = first({"num_hidden_layers", "decoder_layers", "n_layer"});
    for (Int i = 0; i < depth; ++i) {
      model.layers.push_back(layer(i, depth));
    }
    const Int shared = number("num_kv_shared_layers", 0);
    for (Int i = depth - shared; i < depth; ++i) {
      // They read the last layer of their kind that has a cache of its own.
      const auto at = [this](Int j) {
        return json_.at("layer_types").at(static_cast<std::size_t>(j));
      };
      Int source = depth - shared - 1;
      while (at(source) != at(i)) {
        --source;
      }
      model.reads[i] = source;
      model.layers[static_cast<std::size_t>(i)].clear();
    }
    if (json_.value("is_encoder_decoder", false)) {
      for (auto& caches : model.layers) {
        Cache cross = caches.front();
        cross.keeps = Keeps::kEncoder;
        cross.extent = number("max_source_positions", 0);
        caches.push_back(cross);
      }
    }
    model.mtp_layers = first({"num_nextn_predict_layers", "mtp_num_hidden_layers"}, 0);
    if (json_.value("use_mtp", false)) {
      model.mtp_layers = number("num_mtp_modules", 0);
    }
    if (model.mtp_layers > 0) {
      model.mtp = is_latent() ? latent(true) : std::vector<Cache>{attention(Keeps::kAll)};
    }
    model.dtype = dtype();
    model.max_positions =
        first({"max_position_embeddings", "n_positions", "max_target_positions"}, 0);
    model.block = number("block_size", 0);
    return model;
  }

 private:
  bool has(const char* key) const { return json_.contains(key) && !json_.at(key).is_null(); }
  Int number(const char* key, Int otherwise) const {
    return has(key) ? json_.at(key).get<Int>() : otherwise;
  }
  Int first(std::initializer_list<const char*> keys, std::optional<Int> otherwise = {}) const {
    for (const char* key : keys) {
      if (has(key)) {
        return number(key, 0);
      }
    }
    if (!otherwise.has_value()) {
      throw std::runtime_error{"oracle: none of the keys like " + std::string{*keys.begin()}};
    }
    return *otherwise;
  }
  std::string text(const char* key) const {
    return has(key) && json_.at(key).is_string() ? json_.at(key).get<std::string>() : std::string{};
  }
  std::string dtype() const {
    const std::string name = has("dtype") ? text("dtype") : text("torch_dtype");
    return name == "float16" ? "fp16" : name == "float32" ? "fp32" : "bf16";
  }

  bool is_latent() const { return has("kv_lora_rank"); }
  Int query_heads() const {
    return first({"num_attention_heads", "decoder_attention_heads", "n_head"});
  }
  Int head_width() const {
    return first({"head_dim", "attention_head_dim"},
                 first({"hidden_size", "d_model", "n_embd"}) / query_heads());
  }

  std::vector<Cache> latent(bool with_indexer) const {
    Cache record{.kind = Kind::kLatent, .query_heads = query_heads(), .heads = 1};
    record.key = number("kv_lora_rank", 0);
    record.value = number("qk_rope_head_dim", 0);
    std::vector<Cache> caches{record};
    if (has("index_head_dim") && with_indexer) {
      caches.push_back({.kind = Kind::kIndexer, .heads = 1, .key = number("index_head_dim", 0)});
    }
    return caches;
  }

  Cache attention(Keeps keeps) const {
    Cache cache{.query_heads = query_heads()};
    cache.heads = number("num_key_value_heads", query_heads());
    cache.key = head_width();
    cache.value = number("v_head_dim", cache.key);
    cache.keeps = keeps;
    if (keeps == Keeps::kWindow) {
      cache.extent = number("sliding_window", 0);
      cache.heads = number("swa_num_key_value_heads", cache.heads);
      cache.key = number("swa_head_dim", cache.key);
      cache.value = number("swa_v_head_dim", cache.value);
    } else if (keeps == Keeps::kChunk) {
      cache.extent = number("attention_chunk_size", 0);
    } else if (has("global_head_dim")) {
      cache.key = number("global_head_dim", 0);
      cache.value = cache.key;
      cache.heads = number("num_global_key_value_heads", cache.heads);
    }
    return cache;
  }

  Cache state() const {
    Cache cache{.kind = Kind::kState, .heads = 1};
    if (has("linear_attn_config")) {  // Kimi delta attention
      const Json& linear = json_.at("linear_attn_config");
      const Int heads = linear.at("num_heads");
      const Int dim = linear.at("head_dim");
      cache.channels = 3 * heads * dim;
      cache.kernel = linear.at("short_conv_kernel_size");
      cache.matrix = heads * dim * dim;
      cache.state_heads = heads;
    } else if (has("linear_num_value_heads")) {  // gated delta net
      const Int keys = number("linear_num_key_heads", 0) * number("linear_key_head_dim", 0);
      const Int heads = number("linear_num_value_heads", 0);
      const Int dim = number("linear_value_head_dim", 0);
      cache.channels = 2 * keys + heads * dim;
      cache.kernel = number("linear_conv_kernel_dim", 0);
      cache.matrix = heads * dim * number("linear_key_head_dim", 0);
      cache.state_heads = heads;
    } else if (has("conv_L_cache")) {  // short convolution
      cache.channels = number("hidden_size", 0);
      cache.kernel = number("conv_L_cache", 0);
    } else {  // Mamba-2
      const Int heads = first({"mamba_num_heads", "mamba_n_heads"});
      const Int dim = first({"mamba_head_dim", "mamba_d_head"});
      const Int size = first({"ssm_state_size", "mamba_d_state"});
      cache.channels = heads * dim;
      cache.groups = first({"n_groups", "mamba_n_groups"});
      cache.group_channels = 2 * size;
      cache.kernel = first({"conv_kernel", "mamba_d_conv"});
      cache.matrix = heads * dim * size;
      cache.state_heads = heads;
    }
    const std::string stored =
        has("mamba_ssm_cache_dtype") ? text("mamba_ssm_cache_dtype") : text("mamba_ssm_dtype");
    cache.matrix_bytes = stored == "bfloat16" || stored == "float16" ? 2 : 4;
    return cache;
  }

  /// Rules in the order in which the engines try them.
  std::vector<Cache> layer(Int i, Int depth) const {
    const auto at = static_cast<std::size_t>(i);
    const auto full = [this] { return std::vector{attention(Keeps::kAll)}; };
    const auto window = [this] { return std::vector{attention(Keeps::kWindow)}; };
    const auto recurrent = [this] { return std::vector{state()}; };
    if (has("hybrid_override_pattern")) {
      const char letter = text("hybrid_override_pattern").at(at);
      return letter == 'M' ? recurrent() : letter == '*' ? full() : std::vector<Cache>{};
    }
    if (has("layers_block_type")) {
      const std::string kind = json_.at("layers_block_type").at(at);
      return kind == "mamba" ? recurrent() : kind == "attention" ? full() : std::vector<Cache>{};
    }
    if (has("linear_attn_config")) {
      const auto list = json_.at("linear_attn_config").at("full_attn_layers");
      const bool is_full = std::find(list.begin(), list.end(), i + 1) != list.end();
      return !is_full ? recurrent() : is_latent() ? latent(true) : full();
    }
    if (has("hybrid_layer_pattern")) {
      return json_.at("hybrid_layer_pattern").at(at) == 0 ? full() : window();
    }
    if (has("block_configs")) {
      const Json& block = json_.at("block_configs").at(at).at("attention");
      if (block.value("no_op", false) || block.value("replace_with_linear", false)) {
        return {};
      }
      Cache cache = attention(Keeps::kAll);
      cache.heads = query_heads() / block.at("n_heads_in_group").get<Int>();
      return {cache};
    }
    if (has("layer_types") && !is_latent()) {
      const std::string kind = json_.at("layer_types").at(at);
      if (kind == "full_attention" || kind == "attention") {
        return full();
      }
      if (kind == "sliding_attention") {
        return window();
      }
      if (kind == "chunked_attention") {
        return {attention(Keeps::kChunk)};
      }
      if (kind == "linear_attention" || kind == "mamba" || kind == "conv") {
        return recurrent();
      }
      throw std::runtime_error{"oracle: layer type " + kind};
    }
    if (is_latent()) {
      const bool with_indexer = !has("indexer_types") || json_.at("indexer_types").at(at) == "full";
      return latent(with_indexer);
    }
    if (has("full_attention_interval") && has("linear_num_value_heads")) {
      return (i + 1) % number("full_attention_interval", 1) == 0 ? full() : recurrent();
    }
    if (has("attention_chunk_size")) {
      const bool is_full = has("no_rope_layers") && !json_.at("no_rope_layers").empty()
                               ? json_.at("no_rope_layers").at(at) == 0
                               : (i + 1) % 4 == 0;
      return is_full ? full() : std::vector{attention(Keeps::kChunk)};
    }
    const bool windowed = has("sliding_window") && json_.value("use_sliding_window", true);
    if (!windowed) {
      return full();
    }
    if (has("sliding_window_pattern")) {
      return (i + 1) % number("sliding_window_pattern", 1) == 0 ? full() : window();
    }
    if (text("model_type") == "gemma2") {
      return i % 2 == 0 ? window() : full();
    }
    if (json_.value("use_sliding_window", false) && has("max_window_layers")) {
      return i >= number("max_window_layers", depth) ? window() : full();
    }
    return window();
  }

  Json json_;
};

// ------------------------------------------------------------------------------ from layers to
// bytes

Int element(const std::string& dtype) {
  return dtype == "fp32" ? 4 : dtype == "bf16" || dtype == "fp16" ? 2 : 1;
}

bool is_plain(const std::string& dtype) {
  return dtype == "fp32" || dtype == "bf16" || dtype == "fp16" || dtype == "fp8_e4m3" ||
         dtype == "fp8_e5m2";
}

bool is_per_token_head(const std::string& dtype) {
  return dtype.find("per_token_head") != std::string::npos;
}

/// Data rows start at multiples of 16 bytes; a plane of scales is packed, its end rounded to 16.
Int plane(Int row, Int rows) { return align(row, 16) * rows; }
Int scale_plane(Int row, Int rows) { return align(row * rows, 16); }

Int cache_bytes(const Cache& c, const std::string& dtype, Int page, Int tp, Int conv_bytes) {
  switch (c.kind) {
    case Kind::kKeyValue: {
      const Int rows = up(c.heads, tp) * page;
      Int sum = 0;
      for (const Int width : {c.key, c.value}) {
        if (is_plain(dtype)) {
          sum += plane(width * element(dtype), rows);
        } else if (is_per_token_head(dtype)) {
          sum += plane(width, rows) + scale_plane(4, rows);
        } else {  // nvfp4
          sum += plane(up(width, 2), rows) + scale_plane(up(width, 16), rows);
        }
      }
      return sum;
    }
    case Kind::kLatent: {
      const Int width = c.key + c.value;
      if (is_plain(dtype)) {
        return plane(width * element(dtype), page);
      }
      if (dtype == "fp8_ds_mla") {
        return plane(c.key + 4 * up(c.key, 128) + 2 * c.value, page);
      }
      if (dtype == "fp4_mla") {  // 320 + 40 + 32 for 512 + 64
        return plane((width + 64) / 2, page) + scale_plane((width + 64) / 16 + c.key / 16, page);
      }
      return plane(up(width, 2), page) + scale_plane(up(width, 16), page);
    }
    case Kind::kIndexer: return plane(c.key, page) + scale_plane(4 * (c.key / 128), page);
    case Kind::kState: {
      const Int groups = up(c.groups, tp) * c.group_channels;
      const Int conv = (c.channels / tp + groups) * (c.kernel - 1) * conv_bytes;
      return align(conv, 16) + align(c.matrix / tp * c.matrix_bytes, 16);
    }
  }
  return 0;
}

/// Caches that live equally long.
struct Bunch {
  Keeps keeps = Keeps::kAll;
  Int extent = 0;
  Int page_bytes = 0;
};

struct Slice {
  std::vector<Bunch> bunches;  // in the order of groups
  Int state_bytes = 0;         // of one slot: states and tails
};

Slice slice_of(const std::vector<std::vector<Cache>>& layers, const Request& r,
               const std::string& dtype, Int page, Int conv_bytes) {
  const Int ranks = r.attention_dp ? 1 : r.tp;
  std::map<std::pair<Keeps, Int>, Int> bunches;
  Slice slice;
  for (const auto& caches : layers) {
    for (const Cache& c : caches) {
      // Ranks that share out a sequence's tokens hold the same heads; a state is divided by all.
      const Int tp = c.kind == Kind::kState ? ranks : ranks / r.context_parallel;
      const Int bytes = cache_bytes(c, dtype, page, tp, conv_bytes);
      if (c.kind == Kind::kState) {
        slice.state_bytes += bytes;
        continue;
      }
      bunches[{c.keeps, c.extent}] += bytes;
      if (c.kind == Kind::kLatent && dtype == "fp4_mla") {
        slice.state_bytes += (16 + r.draft_tokens) * (c.key + c.value) * 2;
      }
    }
  }
  for (const auto& [key, bytes] : bunches) {
    slice.bunches.push_back({.keeps = key.first, .extent = key.second, .page_bytes = bytes});
  }
  return slice;
}

std::string bunch_name(const Bunch& bunch) {
  switch (bunch.keeps) {
    case Keeps::kAll: return "full";
    case Keeps::kWindow: return "sliding_window_" + std::to_string(bunch.extent);
    case Keeps::kChunk: return "chunked_" + std::to_string(bunch.extent);
    case Keeps::kEncoder: return "cross";
  }
  return {};
}

/// Pages of `sequences` of `length` tokens.
Int pages_needed(const Bunch& b, const Request& r, Int page, Int length) {
  const Int local = up(length, r.context_parallel);
  const Int whole = up(local, page);
  if (b.keeps == Keeps::kAll) {
    return r.sequences * whole;
  }
  if (b.keeps == Keeps::kEncoder) {
    return r.sequences * up(b.extent, page);
  }
  const Int kept = b.keeps == Keeps::kWindow
                       ? up(b.extent - 1 + r.draft_tokens, page) + 1
                       : up(b.extent + r.draft_tokens, page) + (b.extent % page != 0 ? 1 : 0);
  const Int held = std::min(whole, kept);
  return r.sequences * held + std::min(r.sequences * (whole - held), up(r.step_tokens, page));
}

/// Pools of one model on one stage.
struct Side {
  std::vector<Pool> pools;
  std::vector<Int> needed;  // slabs per pool
  std::size_t main = 0;
  std::size_t main_group = 0;
  bool grows = false;
  Int page = 0;
  std::vector<std::vector<Int>> group_slabs;  // needed per pool and group
};

Int charge(const Pool& pool, Int slabs, const Request& r) {
  return align((slabs + r.reserved) * pool.slab, r.granule);
}

Side side_of(const Slice& slice, const Request& r, const std::string& name, Int page, Int length) {
  Side side;
  side.page = page;
  std::vector<Int> sizes;
  for (const Bunch& bunch : slice.bunches) {
    sizes.push_back(bunch.page_bytes);
  }
  const Int slab = sizes.size() == 1 ? sizes.front() : r.layer_major ? 0 : shared_slab(sizes);
  const auto add = [&](std::string pool_name, std::vector<Bunch> bunches, Int slab_bytes) {
    Pool pool;
    pool.name = std::move(pool_name);
    pool.slab = slab_bytes;
    std::vector<Int> group_slabs;
    for (std::size_t i = 0; i < bunches.size(); ++i) {
      const Bunch& bunch = bunches[i];
      const Int per_slab = slab_bytes / bunch.page_bytes;
      pool.groups.push_back({.page_bytes = bunch.page_bytes, .per_slab = per_slab});
      pool.unit = std::gcd(pool.unit, bunch.page_bytes);
      group_slabs.push_back(up(pages_needed(bunch, r, page, length), per_slab));
      if (!side.grows) {
        side.main = side.pools.size();
        side.main_group = i;
        side.grows = bunch.keeps == Keeps::kAll;
      }
    }
    side.needed.push_back(std::accumulate(group_slabs.begin(), group_slabs.end(), Int{0}));
    side.group_slabs.push_back(std::move(group_slabs));
    side.pools.push_back(std::move(pool));
  };
  if (slab > 0) {
    add(name, slice.bunches, slab);
  } else {
    for (const Bunch& bunch : slice.bunches) {
      add(name + "/" + bunch_name(bunch), {bunch}, bunch.page_bytes);
    }
  }
  return side;
}

/// Slabs of the main pool that do not grow with length.
Int steady_slabs(const Side& side) {
  const auto& groups = side.group_slabs[side.main];
  const Int all = std::accumulate(groups.begin(), groups.end(), Int{0});
  return side.grows ? all - groups[side.main_group] : all;
}

Int fixed_cost(const Side& side, const Request& r) {
  Int fixed = 0;
  for (std::size_t i = 0; i < side.pools.size(); ++i) {
    if (i != side.main) {
      fixed += charge(side.pools[i], side.needed[i], r);
    }
  }
  const Pool& main = side.pools[side.main];
  const Int steady = steady_slabs(side);
  if (!side.grows) {
    return fixed + charge(main, steady, r);
  }
  fixed += (steady + r.reserved) * main.slab;
  if (r.sequences_given) {
    const Int slab_tokens = main.groups[side.main_group].per_slab * side.page;
    const Wide last = Wide{r.sequences} * (side.page - 1) * main.slab;
    fixed += static_cast<Int>((last + slab_tokens - 1) / slab_tokens);
  }
  return fixed;
}

/// Gives the pools their slabs; false when the share is too small.
bool size_side(Side& side, Int share, const Request& r) {
  Int rest = share;
  for (std::size_t i = 0; i < side.pools.size(); ++i) {
    Pool& pool = side.pools[i];
    if (i != side.main) {
      pool.slabs = side.needed[i];
      pool.share = charge(pool, pool.slabs, r);
      rest -= pool.share;
    }
  }
  Pool& main = side.pools[side.main];
  main.share = rest;
  const Int whole = rest < 0 ? 0 : rest / r.granule * r.granule;
  main.slabs = whole / main.slab - r.reserved;
  if (rest < 0 || main.slabs < steady_slabs(side) + (side.grows ? 1 : 0)) {
    return false;
  }
  for (std::size_t i = 0; i < side.pools.size(); ++i) {
    Pool& pool = side.pools[i];
    const std::size_t rest_group = i == side.main ? side.main_group : 0;
    Int left = pool.slabs;
    for (std::size_t g = 0; g < pool.groups.size(); ++g) {
      if (g != rest_group) {
        pool.groups[g].planned_slabs = std::min(left, side.group_slabs[i][g]);
        left -= pool.groups[g].planned_slabs;
      }
    }
    pool.groups[rest_group].planned_slabs = left;
  }
  return true;
}

Int tokens_of(const Side& side, const Request& r) {
  const Pool& main = side.pools[side.main];
  const Int slabs = main.slabs - steady_slabs(side);
  return std::max<Int>(slabs, 0) * main.groups[side.main_group].per_slab * side.page *
         r.context_parallel;
}

/// First layer of a stage and how many it has: contiguous equal parts; what is left over goes one
/// each to the stages before the last.
std::pair<Int, Int> stage_layers(Int layers, Int stages, Int stage) {
  std::vector<Int> sizes(static_cast<std::size_t>(stages), layers / stages);
  for (Int left = layers % stages, at = stages - 2; left > 0; --left, --at) {
    ++sizes[static_cast<std::size_t>(at)];
  }
  return {std::accumulate(sizes.begin(), sizes.begin() + stage, Int{0}),
          sizes[static_cast<std::size_t>(stage)]};
}

std::vector<std::vector<Cache>> part_of(const std::vector<std::vector<Cache>>& layers, Int stages,
                                        Int stage) {
  const auto [first, count] = stage_layers(static_cast<Int>(layers.size()), stages, stage);
  return {layers.begin() + first, layers.begin() + first + count};
}

std::vector<std::vector<Cache>> draft_layers(const Request& r, Int stage) {
  if (r.mtp) {
    return stage == r.pp - 1 ? std::vector<std::vector<Cache>>(
                                   static_cast<std::size_t>(r.target->mtp_layers), r.target->mtp)
                             : std::vector<std::vector<Cache>>{};
  }
  if (r.drafter == nullptr) {
    return {};
  }
  if (r.last_stage_only) {
    return stage == r.pp - 1 ? r.drafter->layers : std::vector<std::vector<Cache>>{};
  }
  return part_of(r.drafter->layers, r.pp, stage);
}

Stage plan_stage(const Request& r, Int index) {
  Stage stage;
  auto target_layers = part_of(r.target->layers, r.pp, index);
  auto own_layers = draft_layers(r, index);
  if (r.extends_target) {
    target_layers.insert(target_layers.end(), own_layers.begin(), own_layers.end());
    own_layers.clear();
  }
  const Slice target = slice_of(target_layers, r, r.dtype, r.page, element(r.target->dtype));
  const Slice draft = slice_of(own_layers, r, r.draft_dtype, r.draft_page,
                               element(r.drafter != nullptr ? r.drafter->dtype : r.target->dtype));
  std::vector<Pool> states;
  Int rest = r.budget;
  for (const auto& [name, bytes] :
       {std::pair{"state", target.state_bytes}, std::pair{"draft_state", draft.state_bytes}}) {
    if (bytes > 0) {
      Pool pool{.name = name, .groups = {{.page_bytes = bytes}}, .unit = bytes, .slab = bytes};
      pool.slabs = r.sequences * r.state_slots;
      pool.groups.front().planned_slabs = pool.slabs;
      pool.share = charge(pool, pool.slabs, r);
      rest -= pool.share;
      states.push_back(pool);
    }
  }
  stage.has_target = !target.bunches.empty();
  stage.has_draft = !draft.bunches.empty();
  std::optional<Side> t;
  std::optional<Side> d;
  if (stage.has_target) {
    t = side_of(target, r, "target", r.page, r.length);
  }
  if (stage.has_draft) {
    d = side_of(draft, r, "draft", r.draft_page, r.draft_length);
  }
  for (const auto* side : {&t, &d}) {
    if (side->has_value()) {
      stage.needed.insert(stage.needed.end(), (*side)->needed.begin(), (*side)->needed.end());
    }
  }
  stage.needed.insert(stage.needed.end(), states.size(), r.sequences * r.state_slots);
  Int target_share = rest;
  Int draft_share = 0;
  if (t && d) {
    const Int fixed_t = fixed_cost(*t, r);
    const Int fixed_d = fixed_cost(*d, r);
    const Int open = rest - fixed_t - fixed_d;
    // Bytes a token as fractions, over one denominator.
    const auto rate = [](const Side& side) {
      const Pool& main = side.pools[side.main];
      return side.grows ? std::pair{main.slab, main.groups[side.main_group].per_slab * side.page}
                        : std::pair{Int{0}, Int{1}};
    };
    const auto [t_bytes, t_tokens] = rate(*t);
    const auto [d_bytes, d_tokens] = rate(*d);
    const Wide t_rate = Wide{t_bytes} * d_tokens;
    const Wide d_rate = Wide{d_bytes} * t_tokens;
    const bool grows = t_rate + d_rate > 0;
    stage.feasible = open > 0 || (open == 0 && !grows);
    if (stage.feasible) {
      draft_share = fixed_d + (grows ? static_cast<Int>(open * d_rate / (t_rate + d_rate)) : 0);
      target_share = rest - draft_share;
    }
  } else if (d) {
    draft_share = rest;
    target_share = 0;
  } else if (!t && !states.empty()) {
    Pool& last = states.back();
    const Int all = rest + last.share;
    const Int slots = all < 0 ? -1 : all / r.granule * r.granule / last.slab - r.reserved;
    stage.feasible = slots >= last.slabs;
    last.slabs = std::max(slots, last.slabs);
    last.groups.front().planned_slabs = last.slabs;
    last.share = all;
  }
  for (auto* side : {&t, &d}) {
    if (side->has_value() && stage.feasible) {
      stage.feasible = size_side(**side, side == &t ? target_share : draft_share, r);
    }
  }
  if (!stage.feasible) {
    return stage;
  }
  const auto take = [&](const Side& side, bool& grows, Int& tokens, Int& slab, Int& slab_tokens) {
    grows = side.grows;
    tokens = side.grows ? tokens_of(side, r) : 0;
    slab = side.pools[side.main].slab;
    slab_tokens = side.pools[side.main].groups[side.main_group].per_slab * side.page;
    stage.pools.insert(stage.pools.end(), side.pools.begin(), side.pools.end());
  };
  if (t) {
    take(*t, stage.target_grows, stage.target_tokens, stage.target_slab, stage.target_slab_tokens);
  }
  if (d) {
    take(*d, stage.draft_grows, stage.draft_tokens, stage.draft_slab, stage.draft_slab_tokens);
  }
  stage.pools.insert(stage.pools.end(), states.begin(), states.end());
  for (Pool& pool : stage.pools) {
    pool.bytes = (pool.slabs + r.reserved) * pool.slab;
    pool.charged = align(pool.bytes, r.granule);
  }
  return stage;
}

}  // namespace

Model read_model(const std::string& json) {
  std::string finite = json;
  for (std::size_t at = finite.find("Infinity"); at != std::string::npos;
       at = finite.find("Infinity")) {
    finite.replace(at, 8, "1e99");
  }
  return Reader{finite}.read();
}

Int page_bytes(const std::vector<Cache>& caches, const std::string& dtype, Int page, Int tp,
               Int conv_bytes) {
  Int sum = 0;
  for (const Cache& cache : caches) {
    sum += cache_bytes(cache, dtype, page, tp, conv_bytes);
  }
  return sum;
}

Int shared_slab(const std::vector<Int>& pages) {
  static std::map<std::vector<Int>, Int> known;
  if (const auto found = known.find(pages); found != known.end()) {
    return found->second;
  }
  constexpr Int kMost = Int{64} << 20;
  Int best = 0;
  for (const Int base : pages) {
    for (Int slab = base; slab <= kMost && (best == 0 || slab < best); slab += base) {
      const bool good = std::all_of(pages.begin(), pages.end(), [slab](Int page) {
        return page <= slab && 100 * (slab % page) <= slab;
      });
      if (good) {
        best = slab;
      }
    }
  }
  return known[pages] = best;
}

std::set<std::string> refusals(const Request& r) {
  std::set<std::string> ids;
  const Int tp = r.attention_dp ? 1 : r.tp;
  bool recurrent = false;
  const auto check = [&](const std::vector<std::vector<Cache>>& layers, const std::string& dtype,
                         const std::string& of) {
    for (const auto& caches : layers) {
      for (const Cache& c : caches) {
        const bool latent_only = dtype == "fp8_ds_mla" || dtype == "fp4_mla";
        if ((c.kind == Kind::kKeyValue && latent_only) ||
            (c.kind == Kind::kLatent && is_per_token_head(dtype))) {
          ids.insert(of + "kv_cache_dtype");
        }
        if (c.kind == Kind::kState &&
            (c.state_heads % tp != 0 || c.channels % tp != 0 || c.matrix % tp != 0)) {
          ids.insert("tensor_parallel_size");
        }
      }
    }
  };
  check(r.target->layers, r.dtype, "");
  for (const auto& caches : r.target->layers) {
    recurrent = recurrent || std::any_of(caches.begin(), caches.end(),
                                         [](const Cache& c) { return c.kind == Kind::kState; });
  }
  if (r.dtype == "fp4_mla" && recurrent) {
    ids.insert("kv_cache_dtype");
  }
  const bool has_latent =
      std::any_of(r.target->layers.begin(), r.target->layers.end(), [](const auto& caches) {
        return std::any_of(caches.begin(), caches.end(),
                           [](const Cache& c) { return c.kind == Kind::kLatent; });
      });
  if (r.dtype == "fp4_mla" && has_latent && r.page != 128) {
    ids.insert("target_page_size");
  }
  for (Int stage = 0; stage < r.pp; ++stage) {
    const auto [first, count] =
        stage_layers(static_cast<Int>(r.target->layers.size()), r.pp, stage);
    for (Int i = first; i < first + count; ++i) {
      const auto reads = r.target->reads.find(i);
      if (reads != r.target->reads.end() && reads->second < first) {
        ids.insert("pipeline_parallel_size");
      }
    }
  }
  if (r.drafter != nullptr) {
    check(r.drafter->layers, r.extends_target ? r.dtype : r.draft_dtype, "draft_");
  }
  if (r.mtp) {
    check({r.target->mtp}, r.extends_target ? r.dtype : r.draft_dtype, "draft_");
    // Its layers have the target's page, whose kernel refuses it as well.
    const bool latent = !r.target->mtp.empty() && r.target->mtp.front().kind == Kind::kLatent;
    if (latent && (r.extends_target ? r.dtype : r.draft_dtype) == "fp4_mla" && r.page != 128) {
      ids.insert("draft_page_size");
    }
  }
  return ids;
}

std::vector<Stage> plan(const Request& request) {
  std::vector<Stage> stages;
  for (Int stage = 0; stage < request.pp; ++stage) {
    stages.push_back(plan_stage(request, stage));
  }
  return stages;
}

bool holds(const std::vector<Stage>& stages, const Request& load) {
  const std::vector<Stage> asked = plan(load);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    for (std::size_t p = 0; p < stages[i].pools.size(); ++p) {
      if (asked[i].needed[p] > stages[i].pools[p].slabs) {
        return false;
      }
    }
  }
  return true;
}

bool fits(const std::vector<Stage>& stages) {
  for (const Stage& stage : stages) {
    if (!stage.feasible) {
      return false;
    }
    for (std::size_t i = 0; i < stage.pools.size(); ++i) {
      if (stage.needed[i] > stage.pools[i].slabs) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace oracle
