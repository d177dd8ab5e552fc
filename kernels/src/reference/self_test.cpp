// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/self_test.hpp>

#include <kvpool/kernels/operands.hpp>
#include <kvpool/kernels/reference.hpp>

#include "reference/self_test_batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace kvpool::kernels {
namespace {

constexpr Bytes kScratch{64 << 20};

/// Arrays of a case in the kernels' memory, one behind the other.
class Arena {
 public:
  Arena(const SelfTestKernels& kernels) : memory_{kernels.scratch}, queue_{kernels.queue} {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() {
    if (region_.size > Bytes{0}) {
      static_cast<void>(memory_.release(region_));
    }
  }

  Result<void> open() {
    auto region = memory_.reserve(align_up(kScratch, memory_.granularity()));
    if (!region) {
      return std::move(region).error();
    }
    region_ = *region;
    return memory_.commit(region_, Bytes{0}, region_.size);
  }
  void clear() { used_ = 0; }
  /// A copy of some bytes.
  Result<void*> put(const void* from, std::size_t size) {
    const auto at = region_.address + used_;
    used_ += (size + 255) / 256 * 256 + 256;
    if (used_ > static_cast<std::size_t>(region_.size.count())) {
      return Error{.code = ErrorCode::kInternal, .message = "a case of the self-test is too large"};
    }
    if (size > 0) {
      if (auto copied = copy(at, address_of(from), size); !copied) {
        return std::move(copied).error();
      }
    }
    return reinterpret_cast<void*>(at);  // NOLINT: an address of the kernels' memory
  }
  template <typename T>
  Result<T*> put(const std::vector<T>& values) {
    auto put_bytes = put(values.data(), values.size() * sizeof(T));
    if (!put_bytes) {
      return std::move(put_bytes).error();
    }
    return static_cast<T*>(*put_bytes);
  }
  Result<void> get(void* to, const void* from, std::size_t size) {
    return copy(address_of(to), address_of(from), size);
  }

 private:
  Result<void> copy(std::uintptr_t to, std::uintptr_t from, std::size_t size) {
    if (auto copied = queue_.copy_async(to, from, Bytes{static_cast<std::int64_t>(size)});
        !copied) {
      return copied;
    }
    const auto ticket = queue_.record();
    if (!ticket) {
      return ticket.error();
    }
    return queue_.wait(*ticket);
  }

  AnyPageMemory memory_;
  AnyDeviceQueue queue_;
  Region region_{};
  std::size_t used_ = 0;
};

std::string text_of(const SelfTestShape& shape) {
  return fmt::format(
      "{} rows of {} elements, pages of {}, {}, {} query heads a KV head, {} query "
      "tokens{}{}",
      shape.type == ElementType::kFp32   ? "fp32"
      : shape.type == ElementType::kBf16 ? "bf16"
                                         : "fp16",
      shape.dim, shape.page, shape.heads_first ? "HND" : "NHD", shape.group, shape.queries,
      shape.causal != 0 ? ", causal" : "",
      shape.window_left >= 0 ? fmt::format(", window of {}", shape.window_left + 1) : "");
}

/// The first wrong byte, or empty.
Result<std::string> append_difference(const SelfTestShape& shape, const SelfTestKernels& kernels,
                                      Arena& arena) {
  const SelfTestBatch batch{shape};
  std::vector<std::byte> found(batch.pool.size(), std::byte{0xFF});
  const auto k = arena.put(batch.k);
  const auto v = arena.put(batch.v);
  const auto slots = arena.put(batch.slots);
  const auto pool = arena.put(found);
  if (!k || !v || !slots || !pool) {
    return !k ? k.error() : !v ? v.error() : !slots ? slots.error() : pool.error();
  }
  const std::int64_t heads = SelfTestBatch::kKvHeads;
  if (auto ran = kernels.append({.k = *k,
                                 .v = *v,
                                 .slot_mapping = *slots,
                                 .k_cache = batch.operand(*pool, false),
                                 .v_cache = batch.operand(*pool, true),
                                 .k_token_stride = heads * shape.dim,
                                 .k_head_stride = shape.dim,
                                 .v_token_stride = heads * shape.dim,
                                 .v_head_stride = shape.dim,
                                 .tokens = batch.tokens,
                                 .kv_heads = SelfTestBatch::kKvHeads,
                                 .tokens_per_block = shape.page,
                                 .source_type = shape.type});
      !ran) {
    return std::move(ran).error();
  }
  if (auto got = arena.get(found.data(), *pool, found.size()); !got) {
    return std::move(got).error();
  }
  const auto differs = std::ranges::mismatch(found, batch.pool).in1;
  return differs == found.end() ? std::string{}
                                : fmt::format("{}: byte {} of the pool is not what was appended",
                                              text_of(shape), differs - found.begin());
}

/// Distance of neighbouring numbers of a format at |value|; fp32 is held to fp16's.
double ulp_at(ElementType type, double value) {
  return std::ldexp(
      1.0, (value == 0.0 ? -14 : std::ilogb(value)) - (type == ElementType::kBf16 ? 7 : 10));
}

/// Outputs and log-sum-exps.
struct Attended {
  std::vector<std::byte> out;
  std::vector<float> lse;
};

/// What is too far from the reference, or empty. @param largest_ulp grows
std::string compare(const SelfTestShape& shape, const Attended& found, const Attended& expected,
                    double& largest_ulp) {
  const auto size = static_cast<std::size_t>(element_bytes(shape.type));
  double squares = 0.0;
  double norm = 0.0;
  double worst = 0.0;
  double largest = 0.0;
  bool finite = true;
  for (std::size_t i = 0; i < expected.out.size(); i += size) {
    const double value = load_element(found.out.data() + i, shape.type);
    const double reference = load_element(expected.out.data() + i, shape.type);
    finite = finite && std::isfinite(value);
    squares += (value - reference) * (value - reference);
    norm += reference * reference;
    worst = std::max(worst, std::fabs(value - reference));
    largest = std::max(largest, std::fabs(reference));
  }
  const double ulps = worst / ulp_at(shape.type, largest);
  largest_ulp = std::max(largest_ulp, ulps);
  if (!finite || ulps > 2.0 || squares > 1e-4 * norm) {
    return fmt::format("{}: outputs are {} ulp from the reference, relative L2 {:.2e}{}",
                       text_of(shape), ulps, std::sqrt(squares / norm),
                       finite ? "" : ", and not all are finite");
  }
  for (std::size_t i = 0; i < expected.lse.size(); ++i) {
    const bool same = found.lse[i] == expected.lse[i];  // -infinity too
    if (!same && !(std::fabs(found.lse[i] - expected.lse[i]) <= 0x1p-10F)) {
      return fmt::format("{}: log-sum-exp {} is {}, that of the reference {}", text_of(shape), i,
                         found.lse[i], expected.lse[i]);
    }
  }
  return {};
}

/// Nothing but NaN.
Attended unwritten(const SelfTestBatch& batch) {
  const auto rows = static_cast<std::size_t>(batch.query_tokens()) *
                    static_cast<std::size_t>(batch.query_heads());
  Attended result;
  result.out.assign(rows * static_cast<std::size_t>(batch.shape().dim) *
                        static_cast<std::size_t>(element_bytes(batch.shape().type)),
                    std::byte{0xFF});
  result.lse.assign(rows, std::numeric_limits<float>::quiet_NaN());
  return result;
}

/// Runs simple or packed attention, with plan and exchange.
Result<void> launch(AttentionParams params, bool packed, const SelfTestKernels& kernels,
                    Arena& arena) {
  if (!packed) {
    return kernels.attention(params);
  }
  const auto sizes = packed_sizes({.rows = params.table.rows,
                                   .max_query_tokens = params.max_query_tokens,
                                   .query_heads = params.query_heads,
                                   .kv_heads = params.kv_heads,
                                   .head_dim = params.k.dim,
                                   .multiprocessors = kernels.multiprocessors});
  if (!sizes) {
    return sizes.error();
  }
  const auto plan = arena.put(
      std::vector<std::byte>(static_cast<std::size_t>(sizes->plan.count()), std::byte{0xFF}));
  const auto exchange =
      arena.put(std::vector<std::int32_t>(static_cast<std::size_t>(sizes->counters)));
  if (!plan || !exchange) {
    return !plan ? plan.error() : exchange.error();
  }
  params.split = {.plan = *plan,
                  .plan_bytes = sizes->plan.count(),
                  .counters = *exchange,
                  .counter_count = sizes->counters,
                  .blocks = sizes->blocks};
  if (auto planned = kernels.plan_packed(packed_plan_params(params)); !planned) {
    return planned;
  }
  return kernels.packed(params, {});
}

Result<std::string> attention_difference(const SelfTestShape& shape, bool packed,
                                         const SelfTestKernels& kernels, Arena& arena,
                                         double& largest_ulp) {
  SelfTestBatch batch{shape};
  Attended expected = unwritten(batch);
  AttentionParams params = batch.attention(batch.pool.data());
  params.q = batch.q.data();
  params.out = expected.out.data();
  params.lse = expected.lse.data();
  params.table.entries = batch.entries.data();
  params.table.lengths = batch.lengths.data();
  if (auto computed = reference::attention(params); !computed) {
    return std::move(computed).error();
  }
  Attended found = unwritten(batch);
  const auto pool = arena.put(batch.pool);
  const auto q = arena.put(batch.q);
  const auto out = arena.put(found.out);
  const auto lse = arena.put(found.lse);
  const auto entries = arena.put(batch.entries);
  const auto lengths = arena.put(batch.lengths);
  for (const Error* error :
       {pool ? nullptr : &pool.error(), q ? nullptr : &q.error(), out ? nullptr : &out.error(),
        lse ? nullptr : &lse.error(), entries ? nullptr : &entries.error(),
        lengths ? nullptr : &lengths.error()}) {
    if (error != nullptr) {
      return *error;
    }
  }
  params = batch.attention(*pool);
  params.q = *q;
  params.out = *out;
  params.lse = *lse;
  params.table.entries = *entries;
  params.table.lengths = *lengths;
  if (auto launched = launch(params, packed, kernels, arena); !launched) {
    return std::move(launched).error();
  }
  if (auto got = arena.get(found.out.data(), *out, found.out.size()); !got) {
    return std::move(got).error();
  }
  if (auto got = arena.get(found.lse.data(), *lse, found.lse.size() * sizeof(float)); !got) {
    return std::move(got).error();
  }
  return compare(shape, found, expected, largest_ulp);
}

/// Some of the row lengths that it takes: usual ones, the shortest and the longest.
std::vector<std::int32_t> dims_of(const KernelCapability& row) {
  std::vector<std::int32_t> dims;
  for (const std::int64_t dim : row.limits.head_dims) {
    if (dim == 64 || dim == 128 || dim == row.limits.head_dims.front() ||
        dim == row.limits.head_dims.back()) {
      dims.push_back(static_cast<std::int32_t>(dim));
    }
  }
  return dims;
}

/// Shapes on which a row is run, from its limits.
std::vector<SelfTestShape> shapes_of(const KernelCapability& row) {
  std::vector<SelfTestShape> kinds;
  switch (row.role) {
    case KernelRole::kTargetDecode:
      kinds = {{.group = 1, .queries = 1},
               {.group = 4, .queries = 5},
               {.group = 8, .queries = 1},
               {.group = 6, .queries = 2, .window_left = 40}};
      break;
    case KernelRole::kDraftBlock:
      kinds = {{.group = 4, .queries = 7, .causal = 0},
               {.group = 6, .queries = 7, .causal = 0},
               {.group = 1, .queries = 16, .causal = 0, .window_left = 40},
               {.group = 8, .queries = 8}};
      break;
    case KernelRole::kTargetPrefill: kinds = {{.group = 2, .queries = 17}}; break;
    case KernelRole::kAppend:
    case KernelRole::kCopy: kinds = {{}}; break;
  }
  std::vector<SelfTestShape> shapes;
  for (const KvDtype dtype : row.limits.kv_dtypes) {
    const auto type = element_type(dtype);
    for (const std::int32_t dim : dims_of(row)) {
      for (const std::int32_t page : {1, 16, 32, 64}) {
        for (SelfTestShape shape : kinds) {
          if (type.has_value() && row.page_sizes.accepts(Tokens{page})) {
            shape.type = *type;
            shape.dim = dim;
            shape.page = page;
            shape.heads_first = (page + dim / 8 + shape.group) % 2 == 0;
            shapes.push_back(shape);
          }
        }
      }
    }
  }
  return shapes;
}

enum class Check { kNone, kAppend, kSimple, kPacked };

Check check_of(std::string_view row) {
  return row == "kvpool_append"              ? Check::kAppend
         : row.starts_with("kvpool_simple_") ? Check::kSimple
         : row.starts_with("kvpool_packed_") ? Check::kPacked
                                             : Check::kNone;
}

Result<RowResult> test_row(const KernelCapability& row, const SelfTestKernels& kernels,
                           Arena& arena) {
  RowResult result{.row = row.name};
  const Check check = check_of(row.name);
  if (check == Check::kNone) {
    result.finding = "the self-test has no check for it";
    return result;
  }
  for (const SelfTestShape& shape : shapes_of(row)) {
    arena.clear();
    auto difference = check == Check::kAppend
                          ? append_difference(shape, kernels, arena)
                          : attention_difference(shape, check == Check::kPacked, kernels, arena,
                                                 result.largest_ulp);
    if (!difference) {
      return std::move(difference).error();
    }
    ++result.cases;
    if (result.finding.empty()) {
      result.finding = *std::move(difference);
    }
  }
  return result;
}

}  // namespace

bool SelfTestReport::passed() const noexcept {
  return !rows.empty() && std::ranges::all_of(rows, [](const RowResult& row) {
    return row.cases > 0 && row.finding.empty();
  });
}

std::string SelfTestReport::text() const {
  std::string text;
  for (const RowResult& row : rows) {
    text +=
        fmt::format("{}: {} shapes, {}\n", row.row, row.cases,
                    !row.finding.empty()    ? row.finding
                    : row.cases == 0        ? std::string{"so nothing was run"}
                    : row.largest_ulp > 0.0 ? fmt::format("correct to {:.2f} ulp", row.largest_ulp)
                                            : std::string{"correct to the bit"});
  }
  return text;
}

Result<SelfTestReport> self_test(const SelfTestKernels& kernels,
                                 std::span<const KernelCapability> rows) {
  Arena arena{kernels};
  if (auto opened = arena.open(); !opened) {
    return std::move(opened).error();
  }
  SelfTestReport report;
  for (const KernelCapability& row : rows) {
    auto result = test_row(row, kernels, arena);
    if (!result) {
      return std::move(result).error();
    }
    report.rows.push_back(*std::move(result));
  }
  return report;
}

}  // namespace kvpool::kernels
