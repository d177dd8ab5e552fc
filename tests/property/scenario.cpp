// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "scenario.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace kvpool::test {
namespace {

bool is_one_model(DrafterKind kind) {
  return kind == DrafterKind::kMtp || kind == DrafterKind::kEagle3;
}

bool has_state(const oracle::Model& model) {
  for (const auto& layer : model.layers) {
    for (const oracle::Cache& cache : layer) {
      if (cache.kind == oracle::Kind::kState) {
        return true;
      }
    }
  }
  return false;
}

oracle::Model read_law(const std::string& path, const std::string& text) {
  try {
    return oracle::read_model(text);
  } catch (const std::exception& error) {
    throw std::runtime_error{path + ": " + error.what()};
  }
}

/// Collects the first difference.
class Comparison {
 public:
  void same(const std::string& what, std::int64_t planned, std::int64_t expected) {
    if (text_.empty() && planned != expected) {
      text_ =
          what + ": planned " + std::to_string(planned) + ", expected " + std::to_string(expected);
    }
  }
  void same(const std::string& what, const std::string& planned, const std::string& expected) {
    if (text_.empty() && planned != expected) {
      text_ = what + ": planned " + planned + ", expected " + expected;
    }
  }
  [[nodiscard]] bool failed() const { return !text_.empty(); }
  [[nodiscard]] std::string text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

std::optional<Config> read_config(const std::string& path) {
  auto model = io::read_model_config(path);
  if (!model) {
    return std::nullopt;
  }
  std::ifstream file{path};
  const std::string text{std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{}};
  Config config{.name = std::filesystem::path{path}.stem().string(),
                .model = *std::move(model),
                .law = read_law(path, text)};
  // Not a matter of bytes: taken over.
  if (config.model.drafter.has_value()) {
    config.law.block = config.model.drafter->block_tokens.count();
  }
  return config;
}

Config own_config(const std::string& name) {
  auto config =
      read_config(std::string{KVPOOL_SOURCE_DIR} + "/tests/data/configs/" + name + ".json");
  if (!config.has_value()) {
    std::cerr << "no such config: " << name << '\n';
    std::abort();
  }
  return *std::move(config);
}

ConfigFolder read_folder(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{folder}) {
    if (entry.path().extension() == ".json") {
      paths.push_back(entry.path().string());
    }
  }
  std::ranges::sort(paths);
  ConfigFolder all;
  for (const std::string& path : paths) {
    if (auto config = read_config(path)) {
      all.configs.push_back(*std::move(config));
    } else {
      all.refused.push_back(std::filesystem::path{path}.stem().string());
    }
  }
  return all;
}

std::string Scenario::text() const {
  std::ostringstream out;
  out << target->name << ", " << to_string(dtype) << ", page " << page << ", tp " << tp << ", pp "
      << pp << ", dcp " << context_parallel << (attention_dp ? ", attention dp" : "");
  if (drafter.has_value()) {
    out << ", drafter " << to_string(*drafter);
    if (drafter_config != nullptr) {
      out << ' ' << drafter_config->name;
    }
    if (draft_dtype.has_value()) {
      out << ' ' << to_string(*draft_dtype);
    }
    out << ", draft tokens " << draft_tokens;
  }
  out << ", sequences " << (sequences.has_value() ? std::to_string(*sequences) : "not given")
      << ", length " << length << ", step " << step_tokens << ", snapshots " << snapshots
      << ", reserved " << reserved << ", granule " << granule << ", budget " << budget
      << ", layout " << to_string(layout);
  return out.str();
}

PlanRequest request_of(const Scenario& s) {
  PlanRequest request;
  request.target = s.target->model;
  request.parallelism = {.tensor = s.tp,
                         .pipeline = s.pp,
                         .decode_context = s.context_parallel,
                         .attention_data_parallel = s.attention_dp};
  request.budget.kv_budget = Bytes{s.budget};
  if (s.sequences.has_value()) {
    request.workload.max_num_seqs = Sequences{*s.sequences};
  }
  request.workload.max_model_len = Tokens{s.length};
  request.workload.max_batched_tokens = Tokens{s.step_tokens};
  request.workload.state_snapshots_per_seq = s.snapshots;
  request.kv_dtype = s.dtype;
  request.tokens_per_block = Tokens{s.page};
  request.reserved_pages = s.reserved;
  request.granularity = Bytes{s.granule};
  request.layout = s.layout;
  if (s.drafter.has_value()) {
    DrafterRequest drafter{
        .kind = *s.drafter, .num_draft_tokens = Tokens{s.draft_tokens}, .kv_dtype = s.draft_dtype};
    if (s.drafter_config != nullptr) {
      drafter.model = s.drafter_config->model;
    }
    request.drafter = std::move(drafter);
  }
  return request;
}

oracle::Request law_of(const Scenario& s) {
  oracle::Request r;
  r.target = &s.target->law;
  r.dtype = std::string{to_string(s.dtype)};
  r.page = s.page;
  r.tp = s.tp;
  r.pp = s.pp;
  r.context_parallel = s.context_parallel;
  r.attention_dp = s.attention_dp;
  r.sequences = s.sequences.value_or(1);
  r.sequences_given = s.sequences.has_value();
  r.length = s.length;
  r.draft_length = s.length;
  r.step_tokens = s.step_tokens;
  r.reserved = s.reserved;
  r.granule = s.granule;
  r.budget = s.budget;
  r.layer_major = s.layout.pages == PageOrder::kLayerMajor;
  r.state_slots = 1 + s.snapshots;
  if (!s.drafter.has_value()) {
    return r;
  }
  r.mtp = *s.drafter == DrafterKind::kMtp;
  r.last_stage_only = is_one_model(*s.drafter);
  r.extends_target = is_one_model(*s.drafter) && s.attention_dp;
  // MTP and Eagle3 share the target's page; the others keep 32 and 64, and else have 32.
  r.draft_page = is_one_model(*s.drafter) || s.page == 32 || s.page == 64 ? s.page : 32;
  r.draft_dtype = r.dtype;
  r.draft_tokens = s.draft_tokens > 0 ? s.draft_tokens : 1;
  if (s.drafter_config != nullptr) {
    r.drafter = &s.drafter_config->law;
    r.draft_dtype = r.drafter->dtype;
    if (s.draft_tokens == 0 && r.drafter->block > 0) {
      r.draft_tokens = r.drafter->block;
    }
    if (r.drafter->max_positions > 0) {
      r.draft_length = std::min(r.length, r.drafter->max_positions);
    }
  }
  if (s.draft_dtype.has_value()) {
    r.draft_dtype = std::string{to_string(*s.draft_dtype)};
  }
  const bool rolls_back = has_state(*r.target) || (r.drafter != nullptr && has_state(*r.drafter));
  if (rolls_back && s.snapshots == 0) {
    r.state_slots = 2;  // a rejected draft goes back to the state before it
  }
  return r;
}

const CapabilityRegistry& known() {
  static const CapabilityRegistry registry = CapabilityRegistry::with_known_kernels();
  return registry;
}

std::string difference(const Plan& plan, const std::vector<oracle::Stage>& stages) {
  Comparison c;
  c.same("stages", static_cast<std::int64_t>(plan.ranks.size()),
         static_cast<std::int64_t>(stages.size()));
  for (std::size_t i = 0; i < stages.size() && !c.failed(); ++i) {
    const PoolPlan& rank = plan.ranks[i];
    const oracle::Stage& stage = stages[i];
    const std::string at = "stage " + std::to_string(i) + " ";
    c.same(at + "pools", static_cast<std::int64_t>(rank.pools.size()),
           static_cast<std::int64_t>(stage.pools.size()));
    for (std::size_t p = 0; p < stage.pools.size() && !c.failed(); ++p) {
      const PoolDescriptor& pool = rank.pools[p];
      const oracle::Pool& expected = stage.pools[p];
      const std::string name = at + expected.name + " ";
      c.same(at + "name", pool.name, expected.name);
      c.same(name + "groups", static_cast<std::int64_t>(pool.groups.size()),
             static_cast<std::int64_t>(expected.groups.size()));
      for (std::size_t g = 0; g < expected.groups.size() && !c.failed(); ++g) {
        const PooledGroup& group = pool.groups[g];
        c.same(name + "page bytes", group.page.page_bytes.count(), expected.groups[g].page_bytes);
        c.same(name + "pages a slab", group.pages_per_slab, expected.groups[g].per_slab);
        c.same(name + "planned slabs", group.planned_slabs.count(),
               expected.groups[g].planned_slabs);
      }
      c.same(name + "unit", pool.unit_bytes.count(), expected.unit);
      c.same(name + "slab", pool.slab_bytes.count(), expected.slab);
      c.same(name + "slabs", pool.slabs.count(), expected.slabs);
      c.same(name + "bytes", pool.bytes().count(), expected.bytes);
      c.same(name + "charged", pool.charged_bytes().count(), expected.charged);
      c.same(name + "account", rank.accounts[p].charged.count(), expected.charged);
      c.same(name + "share", rank.accounts[p].share.count(), expected.share);
    }
  }
  return c.text();
}

}  // namespace kvpool::test
