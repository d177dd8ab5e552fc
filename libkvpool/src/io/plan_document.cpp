// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/plan_document.hpp>

#include "plan_fields.hpp"
#include "plan_hash.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace kvpool::io {
namespace {

using detail::Limits;
using OrderedJson = nlohmann::ordered_json;

OrderedJson write(std::int64_t value) { return value; }
OrderedJson write(bool value) { return value; }
OrderedJson write(const std::string& value) { return value; }
template <typename Tag>
OrderedJson write(Quantity<Tag> value) {
  return value.count();
}
template <typename E>
  requires std::is_enum_v<E>
OrderedJson write(E value) {
  return std::string{to_string(value)};
}
OrderedJson write(PageLayout value) { return std::string{to_string(value)}; }
template <typename T>
  requires std::is_aggregate_v<T>
OrderedJson write(const T& value);
OrderedJson write(const std::vector<ModelLayer>& layers);
OrderedJson write(const LayerCache& cache);
template <typename T>
OrderedJson write(const std::vector<T>& values);
template <typename T>
OrderedJson write(const std::optional<T>& value) {
  return value.has_value() ? write(*value) : OrderedJson{};
}

/// Collects the fields of one object.
class FieldWriter {
 public:
  template <typename T>
  void operator()(const char* key, const T& value, Limits /*limits*/ = {}) {
    object_[key] = write(value);
  }
  /// Left out where there is nothing to say, as in documents from before there were any.
  void operator()(const char* key, const std::optional<StoredWeights>& value,
                  Limits /*limits*/ = {}) {
    if (value.has_value()) {
      object_[key] = write(*value);
    }
  }
  void operator()(const char* key, const OverheadRequest& value, Limits /*limits*/ = {}) {
    if (value != OverheadRequest{}) {
      object_[key] = write(value);
    }
  }
  [[nodiscard]] OrderedJson take() && { return std::move(object_); }

 private:
  OrderedJson object_ = OrderedJson::object();
};

template <typename T>
  requires std::is_aggregate_v<T>
OrderedJson write(const T& value) {
  FieldWriter writer;
  detail::fields(writer, value);
  return std::move(writer).take();
}

template <typename T>
OrderedJson write(const std::vector<T>& values) {
  OrderedJson array = OrderedJson::array();
  for (const T& value : values) {
    array.push_back(write(value));
  }
  return array;
}

std::string_view cache_kind(const AttentionCache& /*cache*/) { return "attention"; }
std::string_view cache_kind(const LatentCache& /*cache*/) { return "latent"; }
std::string_view cache_kind(const IndexerCache& /*cache*/) { return "indexer"; }
std::string_view cache_kind(const StateCache& /*cache*/) { return "state"; }

OrderedJson write(const LayerCache& cache) {
  return std::visit(
      [](const auto& alternative) {
        FieldWriter writer;
        writer("kind", std::string{cache_kind(alternative)});
        detail::fields(writer, alternative);
        return std::move(writer).take();
      },
      cache);
}

// Layers that keep the same stand together: most models have one or two kinds of layers, and dozens
// of layers.
OrderedJson write(const std::vector<ModelLayer>& layers) {
  OrderedJson kinds = OrderedJson::array();
  std::map<std::string, std::size_t> known;
  for (const ModelLayer& layer : layers) {
    OrderedJson kind = OrderedJson::object();
    kind["caches"] = write(layer.caches);
    if (layer.shares_with.has_value()) {
      kind["reads_layer"] = layer.shares_with->value();
    }
    const auto [at, is_new] = known.try_emplace(kind.dump(), kinds.size());
    if (is_new) {
      kind["layers"] = OrderedJson::array();
      kinds.push_back(std::move(kind));
    }
    kinds[at->second]["layers"].push_back(layer.index.value());
  }
  return kinds;
}

OrderedJson write_ledger(const std::vector<LedgerLine>& ledger) {
  OrderedJson lines = OrderedJson::array();
  for (const LedgerLine& line : ledger) {
    lines.push_back({{"name", line.name},
                     {"bytes", line.bytes.count()},
                     {"kind", to_string(line.kind)},
                     {"low", line.low.count()},
                     {"high", line.high.count()}});
  }
  return lines;
}

/// One group of a pool. The first row of a pool also has what belongs to the pool as a whole.
OrderedJson write_group(const PoolDescriptor& pool, std::size_t index, Bytes loss,
                        const SequenceRules& rules) {
  const PooledGroup& pooled = pool.groups[index];
  const bool first = index == 0;
  Bytes bytes = pooled.planned_slabs.count() * pool.slab_bytes;
  if (first) {
    bytes = pool.bytes();
    for (std::size_t other = 1; other < pool.groups.size(); ++other) {
      bytes -= pool.groups[other].planned_slabs.count() * pool.slab_bytes;
    }
  }
  const std::vector<TensorView> views = views_of(pool, index);
  const TensorView view = views.empty() ? TensorView{} : views.front();
  const AffineCost cost = sequence_cost(pooled, rules);
  return {{"role", to_string(pool.role)},
          {"group", group_name(pooled.group)},
          {"tokens_per_block", pooled.page.tokens_per_block.count()},
          {"page_bytes", pooled.page.page_bytes.count()},
          {"unit_bytes", pool.unit_bytes.count()},
          {"slab_bytes", pool.slab_bytes.count()},
          {"granularity", pool.granularity.count()},
          {"num_pages", pooled.planned_pages().count()},
          {"reserved_pages", first ? pool.reserved_slabs.count() * pooled.pages_per_slab : 0},
          {"bytes", bytes.count()},
          {"loss", first ? loss.count() : 0},
          {"dtype", to_string(view.dtype)},
          {"layout", to_string(pooled.page.layout)},
          {"shape", view.shape},
          {"strides", view.strides},
          {"cost",
           {{"fixed_bytes", cost.fixed_bytes.count()},
            {"bytes_per_token", cost.bytes_per_token.count()},
            {"from_length", cost.from_length.count()}}}};
}

OrderedJson write_pools(const PoolPlan& rank, const Plan& plan) {
  OrderedJson rows = OrderedJson::array();
  for (std::size_t i = 0; i < rank.pools.size(); ++i) {
    const Bytes loss = i < rank.accounts.size() ? rank.accounts[i].loss : Bytes{0};
    for (std::size_t group = 0; group < rank.pools[i].groups.size(); ++group) {
      rows.push_back(
          write_group(rank.pools[i], group, loss, sequence_rules(plan, rank.pools[i].role)));
    }
  }
  return rows;
}

OrderedJson write_ranks(const Plan& plan) {
  OrderedJson ranks = OrderedJson::array();
  for (const PoolPlan& rank : plan.ranks) {
    ranks.push_back({{"stage", rank.stage},
                     {"rank", rank.rank},
                     {"budget_bytes", rank.budget.count()},
                     {"pools", write_pools(rank, plan)}});
  }
  return ranks;
}

/// The document has no key for a refusal's verdicts: they are told in `what`.
OrderedJson write_refusals(const std::vector<Refusal>& refusals) {
  OrderedJson out = OrderedJson::array();
  for (const Refusal& refusal : refusals) {
    std::string what = refusal.what;
    for (const Verdict& verdict : refusal.verdicts) {
      what += ". " + verdict.row + " accepts " + verdict.accepts + ": " + verdict.verdict;
    }
    out.push_back({{"id", refusal.id},
                   {"what", std::move(what)},
                   {"missing_bytes", refusal.missing_bytes.count()},
                   {"accepted", refusal.accepted},
                   {"least_that_works", refusal.least_that_works}});
  }
  return out;
}

OrderedJson write_request(const Plan& plan) {
  FieldWriter writer;
  detail::fields(writer, plan.request);
  OrderedJson resolution = write(plan.resolution);
  resolution["decisions"] = plan.resolution.decisions.size();
  resolution["registry_hash"] = detail::registry_hash(plan.resolution);
  OrderedJson request = std::move(writer).take();
  request["resolution"] = std::move(resolution);
  return request;
}

OrderedJson write_capacity(const Capacity& capacity) {
  return {{"tokens", capacity.tokens.count()},
          {"sequences", capacity.sequences.count()},
          {"max_len", capacity.max_len.count()}};
}

OrderedJson write_advice(const std::vector<Advice>& advice) {
  OrderedJson out = OrderedJson::array();
  for (const Advice& item : advice) {
    out.push_back({{"id", item.id},
                   {"pool", item.pool},
                   {"what", item.what},
                   {"change", item.change},
                   {"frees_bytes", item.frees.count()},
                   {"cost", item.cost}});
  }
  return out;
}

OrderedJson plan_document(const Plan& plan) {
  const bool has_rank = plan.smallest_rank < plan.ranks.size();
  OrderedJson document = OrderedJson::object();
  document["schema"] = kPlanSchema;
  document["fits"] = plan.fits;
  document["request"] = write_request(plan);
  document["ledger"] = write_ledger(plan.ledger);
  document["ranks"] = write_ranks(plan);
  document["pools"] =
      has_rank ? document["ranks"][plan.smallest_rank]["pools"] : OrderedJson::array();
  document["decisions"] = write(plan.decisions);
  document["refusals"] = write_refusals(plan.refusals);
  document["capacity"] = write_capacity(plan.capacity);
  return document;
}

std::string text_of(const OrderedJson& document) {
  return document.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace

std::string detail::registry_hash(const Resolution& resolution) {
  const OrderedJson said = {{"decisions", write(resolution.decisions)},
                            {"refusals", write(resolution.refusals)}};
  return hash_text(said.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
}

std::string plan_to_json(const Plan& plan) { return text_of(plan_document(plan)); }

std::string plan_to_json(const Plan& plan, const std::vector<Advice>& advice) {
  OrderedJson document = plan_document(plan);
  document["advice"] = write_advice(advice);
  return text_of(document);
}

std::string error_to_json(const Error& error) {
  OrderedJson document = OrderedJson::object();
  document["schema"] = kPlanSchema;
  document["fits"] = false;
  document["request"] = OrderedJson::object();
  for (const char* key : {"ledger", "ranks", "pools", "decisions", "refusals"}) {
    document[key] = OrderedJson::array();
  }
  document["capacity"] = write_capacity(Capacity{});
  document["error"] = {
      {"file", error.file}, {"key", error.key}, {"value", error.value}, {"message", error.message}};
  return text_of(document);
}

}  // namespace kvpool::io
