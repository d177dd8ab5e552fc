// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// What a plan has to come to, worked out a second time: from the config's keys, layer by layer, to
// the bytes of every pool. No header of the project is included here or in oracle.cpp, and nothing
// of its code is used; formulas follow the published rules of the engines and the documented
// contract of the library.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace oracle {

using Int = std::int64_t;
__extension__ using Wide = __int128;

enum class Kind { kKeyValue, kLatent, kIndexer, kState };
enum class Keeps { kAll, kWindow, kChunk, kEncoder };

/// One cache of one layer over all ranks.
struct Cache {
  Kind kind = Kind::kKeyValue;
  Int query_heads = 0;
  Int heads = 0;
  Int key = 0;    // latent part of MLA, width of an indexer key
  Int value = 0;  // rope part of MLA
  Keeps keeps = Keeps::kAll;
  Int extent = 0;
  // Recurrent states.
  Int channels = 0;        // without those of shared groups
  Int groups = 0;          // groups that heads share
  Int group_channels = 0;  // channels of one of them
  Int kernel = 0;
  Int matrix = 0;
  Int state_heads = 0;
  Int matrix_bytes = 4;
};

struct Model {
  std::vector<std::vector<Cache>> layers;
  std::vector<Cache> mtp;  // one next-token layer
  Int mtp_layers = 0;
  std::map<Int, Int> reads;    // layers without a cache, and the layer whose cache they read
  std::string dtype = "bf16";  // of the weights
  std::string kv_dtype;        // of the cache, where the checkpoint says so
  Int max_positions = 0;
  Int block = 0;  // tokens of a draft block
};

/// Reads the text of a config.json by the rules of the engines.
Model read_model(const std::string& json);

struct Request {
  const Model* target = nullptr;
  const Model* drafter = nullptr;  // null with `mtp` or without a drafter
  bool mtp = false;
  bool last_stage_only = false;  // drafters that live on the last pipeline stage
  bool extends_target = false;   // draft layers are further layers of the target's pool
  std::string dtype;             // target's cache, as it is settled
  std::string draft_dtype;       // draft cache, as it is settled
  Int page = 64;
  Int draft_page = 64;
  Int draft_tokens = 0;
  Int tp = 1;
  Int pp = 1;
  Int context_parallel = 1;
  bool attention_dp = false;
  Int sequences = 1;
  bool sequences_given = false;
  Int length = 0;
  Int draft_length = 0;
  Int step_tokens = 8192;
  Int state_slots = 1;
  Int reserved = 1;
  Int granule = Int{2} << 20;
  Int budget = 0;
  bool layer_major = false;  // groups cannot share slabs then
};

struct Group {
  Int page_bytes = 0;
  Int per_slab = 1;
  Int planned_slabs = 0;
};

struct Pool {
  std::string name;
  std::vector<Group> groups;
  Int unit = 0;
  Int slab = 0;
  Int slabs = 0;
  Int share = 0;
  Int bytes = 0;
  Int charged = 0;
};

struct Stage {
  std::vector<Pool> pools;
  bool has_target = false;
  bool has_draft = false;
  // Tokens of the growing group, 0 where nothing grows; and what one token costs there as a ratio.
  bool target_grows = false;
  bool draft_grows = false;
  Int target_tokens = 0;
  Int draft_tokens = 0;
  // Bytes and tokens of a slab of the growing group.
  Int target_slab = 0;
  Int target_slab_tokens = 1;
  Int draft_slab = 0;
  Int draft_slab_tokens = 1;
  bool feasible = true;
  // Slabs that the asked load needs, in the order of pools.
  std::vector<Int> needed;
};

/// Ids of the refusals that the request deserves before any byte is counted; empty if none.
std::set<std::string> refusals(const Request& request);

/// The pools of every stage. The request is one without refusals.
std::vector<Stage> plan(const Request& request);

/// True when the asked sequences at the asked length fit on every stage.
bool fits(const std::vector<Stage>& stages);

/// True when pools of these sizes hold another load (other sequences or lengths) of the same
/// request.
bool holds(const std::vector<Stage>& stages, const Request& load);

/// Bytes of one page (one slot of a state group, with `page` 0) on one rank.
Int page_bytes(const std::vector<Cache>& caches, const std::string& dtype, Int page, Int tp,
               Int conv_bytes);

/// Smallest slab of at most 64 MiB that wastes at most 1 % for each page size; 0 for none. Searched
/// among all multiples of all pages.
Int shared_slab(const std::vector<Int>& pages);

}  // namespace oracle
