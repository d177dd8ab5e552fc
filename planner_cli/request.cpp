// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "request.hpp"

#include <kvpool/core/size_text.hpp>
#include <kvpool/core/version.hpp>
#include <kvpool/io/config_lint.hpp>
#include <kvpool/io/device_file.hpp>
#include <kvpool/io/kernel_file.hpp>
#include <kvpool/kernels/capabilities.hpp>

#include "model_input.hpp"
#include "spelling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <system_error>
#include <utility>
#include <vector>

namespace kvpool::cli {
namespace {

using enum OptionId;

constexpr std::array<std::string_view, 3> kSets{"trtllm", "exact", "kvpool"};

[[nodiscard]] bool means_default(std::string_view text) noexcept {
  return text == "auto" || text == "-1";
}

/// Reads options into typed values; every mistake is reported with the option's name.
class Values {
 public:
  explicit Values(const Options& options) : options_{options} {}

  /// A whole number of at least `least`.
  [[nodiscard]] std::optional<std::int64_t> number(OptionId id, std::int64_t least) const {
    const GivenValue* given = options_.find(id);
    if (given == nullptr) {
      return std::nullopt;
    }
    std::int64_t value = 0;
    const char* end = given->text.data() + given->text.size();
    const auto [stop, failed] = std::from_chars(given->text.data(), end, value);
    if (failed != std::errc{} || stop != end || value < least) {
      given->fail(option_spec(id), "'" + given->text + "' is not a whole number of at least " +
                                       std::to_string(least));
    }
    return value;
  }
  /// A size in bytes.
  [[nodiscard]] std::optional<Bytes> size(OptionId id) const {
    return parsed<Bytes>(id, parse_size);
  }
  /// A size, or a range of sizes.
  [[nodiscard]] std::optional<SizeRange> size_range(OptionId id) const {
    return parsed<SizeRange>(id, parse_size_range);
  }
  /// A number of tokens of at least 1; nothing for `auto`.
  [[nodiscard]] std::optional<Tokens> tokens(OptionId id) const {
    const GivenValue* given = options_.find(id);
    if (given == nullptr || means_default(given->text)) {
      return std::nullopt;
    }
    const auto value = parsed<Tokens>(id, parse_token_count);
    if (value->count() < 1) {
      given->fail(option_spec(id), "at least 1 token is expected");
    }
    return value;
  }
  /// A cache format; nothing for `auto`.
  [[nodiscard]] std::optional<KvDtype> dtype(OptionId id) const {
    const GivenValue* given = options_.find(id);
    if (given == nullptr || given->text == "auto") {
      return std::nullopt;
    }
    const auto dtype = parse_kv_dtype(given->text);
    if (!dtype.has_value()) {
      std::vector<std::string_view> names{"auto"};
      for (const KvDtype known : all_kv_dtypes()) {
        names.push_back(to_string(known));
      }
      std::string spellings;
      for (const std::string_view spelling : {"fp8", "fp8_per_token_head", "int8", "fp4"}) {
        const auto known = parse_kv_dtype(spelling);
        spellings.append(spellings.empty() ? " (" : ", ").append(spelling).append(" is ");
        spellings.append(known.has_value() ? to_string(*known) : spelling);
      }
      fail_choice(*given, id, "cache format", names, spellings + ")");
    }
    return dtype;
  }
  /// One of a few names.
  template <typename T, typename Parse>
  [[nodiscard]] std::optional<T> choice(OptionId id, std::string_view what, Parse parse,
                                        std::span<const std::string_view> names) const {
    const GivenValue* given = options_.find(id);
    if (given == nullptr) {
      return std::nullopt;
    }
    const std::optional<T> value = parse(given->text);
    if (!value.has_value()) {
      fail_choice(*given, id, what, names);
    }
    return value;
  }
  [[noreturn]] static void fail_choice(const GivenValue& given, OptionId id, std::string_view what,
                                       std::span<const std::string_view> names,
                                       const std::string& spellings = {}) {
    given.fail(option_spec(id),
               "unknown " + std::string{what} + " '" + given.text + "'" +
                   did_you_mean(given.text, names) +
                   (nearest(given.text, names).empty() ? "; known are " : " known are ") +
                   joined(names) + spellings);
  }

 private:
  template <typename T>
  [[nodiscard]] std::optional<T> parsed(OptionId id, Result<T> (*parse)(std::string_view)) const {
    const GivenValue* given = options_.find(id);
    if (given == nullptr) {
      return std::nullopt;
    }
    Result<T> value = parse(given->text);
    if (!value) {
      given->fail(option_spec(id), value.error().message);
    }
    return *value;
  }

  const Options& options_;
};

void check_engine(const Options& options) {
  const GivenValue* engine = options.find(kEngine);
  const GivenValue* version = options.find(kEngineVersion);
  if (options.command == Command::kPlan && asked_engine(options).has_value()) {
    return;  // a prediction, which reads the version by itself
  }
  if (engine != nullptr && engine->text != "kvpool") {
    throw Failure{ExitCode::kBadInput,
                  Error{ErrorCode::kUnsupported,
                        "unknown engine; known are kvpool, and for 'plan' vllm, sglang, trtllm, "
                        "llamacpp, ik_llamacpp",
                        engine->file, "engine", engine->text}};
  }
  if (version != nullptr && version->text != kVersion) {
    throw Failure{ExitCode::kBadInput, Error{ErrorCode::kUnsupported,
                                             "this is kvpool " + std::string{kVersion} +
                                                 " and plans for no other version",
                                             version->file, "engine_version", version->text}};
  }
}

void read_parallelism(const Options& options, const Values& values, Parallelism& parallelism) {
  parallelism.tensor = values.number(kTp, 1).value_or(1);
  parallelism.pipeline = values.number(kPp, 1).value_or(1);
  parallelism.data = values.number(kDp, 1).value_or(1);
  parallelism.decode_context = values.number(kDcp, 1).value_or(1);
  parallelism.expert = values.number(kEp, 1).value_or(1);
  parallelism.attention_data_parallel = options.flag(kAttentionDp);
}

/// `vllm@0.21`: the engine whose overheads are assumed.
void read_host_engine(const Options& options, OverheadRequest& overheads) {
  const GivenValue* given = options.find(kHostEngine);
  if (given == nullptr) {
    return;
  }
  const std::size_t at = given->text.find('@');
  overheads.engine = given->text.substr(0, at);
  overheads.version = at == std::string::npos ? std::string{} : given->text.substr(at + 1);
  const auto engines = host_engines();
  if (std::ranges::find(engines, overheads.engine) == engines.end()) {
    Values::fail_choice(*given, kHostEngine, "engine", engines);
  }
  if (at != std::string::npos && (overheads.version.empty() || overheads.version.front() < '0' ||
                                  overheads.version.front() > '9')) {
    given->fail(option_spec(kHostEngine), "a version follows the @, such as 0.21");
  }
}

/// `NAME=SIZE`, once for each process.
void read_co_located(const Options& options, OverheadRequest& overheads) {
  const auto given = options.values.find(kCoLocated);
  if (given == options.values.end()) {
    return;
  }
  for (const GivenValue& value : given->second) {
    const std::size_t equals = value.text.find('=');
    if (equals == std::string::npos || equals == 0) {
      value.fail(option_spec(kCoLocated), "NAME=SIZE is expected, got '" + value.text + "'");
    }
    const auto size = parse_size_range(std::string_view{value.text}.substr(equals + 1));
    if (!size) {
      value.fail(option_spec(kCoLocated), size.error().message);
    }
    overheads.co_located.push_back({.name = value.text.substr(0, equals), .size = *size});
  }
}

void read_overheads(const Options& options, const Values& values, OverheadRequest& overheads) {
  read_host_engine(options, overheads);
  read_co_located(options, overheads);
  overheads.activations = values.size_range(kActivations);
  overheads.cuda_context = values.size_range(kCudaContext);
  overheads.cuda_graphs = values.size_range(kCudaGraphs);
  overheads.communication = values.size_range(kCommunication);
}

/// `--gpu-memory 80` is 80 bytes, and was meant otherwise.
void refuse_forgotten_unit(const Options& options, OptionId id, std::optional<Bytes> size) {
  constexpr Bytes kLeast{1 << 20};
  if (size.has_value() && *size < kLeast) {
    const GivenValue* given = options.find(id);
    given->fail(option_spec(id), "'" + given->text + "' is " + size_text(*size) +
                                     ", no memory of a GPU: is the unit missing, as in 80GiB?");
  }
}

void read_memory(const Options& options, const Values& values, InputCache& inputs,
                 PlanRequest& request) {
  const std::vector<DeviceSpec>& devices = inputs.devices(options);
  std::vector<std::string_view> names(devices.size());
  std::ranges::transform(devices, names.begin(),
                         [](const DeviceSpec& device) { return std::string_view{device.name}; });
  request.device = values.choice<DeviceSpec>(
      kGpu, "GPU", [&devices](std::string_view name) { return find_device(name, devices); }, names);
  read_overheads(options, values, request.budget.overheads);
  request.budget.gpu_memory = values.size(kGpuMemory);
  refuse_forgotten_unit(options, kGpuMemory, request.budget.gpu_memory);
  request.budget.kv_budget = values.size(kKvBudget);
  request.budget.weights = values.size(kWeights);
  request.budget.overhead = values.size(kOverhead);
  request.granularity = values.size(kGranularity);
  if (const GivenValue* given = options.find(kGranularity);
      given != nullptr && request.granularity->count() < 1) {
    given->fail(option_spec(kGranularity), "at least 1 byte is expected");
  }
  if (const GivenValue* share = options.find(kGpuMemoryUtilization); share != nullptr) {
    request.budget.utilization_ppm = parse_share_ppm(share->text);
    if (request.budget.utilization_ppm < 0) {
      share->fail(option_spec(kGpuMemoryUtilization),
                  "'" + share->text +
                      "' is not a share above 0 and at most 1, such as 0.92, with "
                      "at most six decimals");
    }
  }
}

[[nodiscard]] std::optional<PageLayout> parse_layout(std::string_view text) {
  for (const PageOrder pages : {PageOrder::kPageMajor, PageOrder::kLayerMajor}) {
    for (const RowOrder rows : {RowOrder::kHnd, RowOrder::kNhd}) {
      if (text == to_string(PageLayout{pages, rows})) {
        return PageLayout{pages, rows};
      }
    }
  }
  return std::nullopt;
}

void read_cache(const Values& values, PlanRequest& request) {
  constexpr std::array<std::string_view, 4> kLayouts{"page_major_hnd", "page_major_nhd",
                                                     "layer_major_hnd", "layer_major_nhd"};
  request.kv_dtype = values.dtype(kKvCacheDtype);
  request.tokens_per_block = values.tokens(kPageSize);
  request.workload.max_model_len = values.tokens(kMaxModelLen);
  if (const auto sequences = values.number(kMaxNumSeqs, 1)) {
    request.workload.max_num_seqs = Sequences{*sequences};
  }
  request.workload.max_batched_tokens =
      values.tokens(kMaxNumBatchedTokens).value_or(request.workload.max_batched_tokens);
  request.layout =
      values.choice<PageLayout>(kLayout, "layout", parse_layout, kLayouts).value_or(PageLayout{});
  request.reserved_pages = values.number(kReservedPages, 0).value_or(request.reserved_pages);
  request.kernel_set = values.choice<KernelSet>(kKernelSet, "kernel set", parse_kernel_set, kSets)
                           .value_or(request.kernel_set);
}

[[nodiscard]] std::optional<DrafterKind> parse_kind_spelling(std::string_view text) {
  std::string name{text};
  for (char& letter : name) {
    letter = letter == '-' ? '_' : letter;
    letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  if (name == "eagle" || name == "eagle_3") {
    name = to_string(DrafterKind::kEagle3);
  } else if (name == "p_eagle") {
    name = to_string(DrafterKind::kPeagle);
  }
  return parse_drafter_kind(name);
}

[[nodiscard]] bool has_own_config(DrafterKind kind) noexcept {
  return kind != DrafterKind::kMtp && kind != DrafterKind::kNgram &&
         kind != DrafterKind::kSuffixAutomaton;
}

void read_drafter(const Options& options, const Values& values, InputCache& inputs,
                  PlanRequest& request) {
  constexpr std::array<std::string_view, 10> kKinds{
      "mtp",    "eagle3",       "dflash", "dspark", "domino",
      "peagle", "draft_target", "pard",   "ngram",  "suffix_automaton"};
  const GivenValue* path = options.find(kDrafter);
  auto kind =
      values.choice<DrafterKind>(kDrafterKind, "kind of drafter", parse_kind_spelling, kKinds);
  if (path == nullptr && !kind.has_value()) {
    for (const OptionId id :
         {kDrafterBackend, kNumDraftTokens, kDraftKvCacheDtype, kDraftPageSize}) {
      if (const GivenValue* given = options.find(id); given != nullptr) {
        given->fail(option_spec(id), "there is no drafter: give --drafter or --drafter-kind");
      }
    }
    return;
  }
  DrafterRequest drafter;
  if (path != nullptr) {
    if (kind.has_value() && !has_own_config(*kind)) {
      path->fail(option_spec(kDrafter), "a drafter of kind " + std::string{to_string(*kind)} +
                                            " has no config of its own");
    }
    drafter.model = inputs.model(path->text);
    if (!kind.has_value() && drafter.model->drafter.has_value()) {
      kind = drafter.model->drafter->kind;
    }
    if (!kind.has_value()) {
      path->fail(option_spec(kDrafter),
                 "its config does not say what kind of drafter it is; give "
                 "--drafter-kind, one of " +
                     joined(kKinds));
    }
  } else if (has_own_config(*kind)) {
    options.find(kDrafterKind)
        ->fail(option_spec(kDrafterKind), "a drafter of kind " + std::string{to_string(*kind)} +
                                              " has a config of its own: give --drafter PATH");
  }
  drafter.kind = *kind;
  if (const auto count = values.number(kNumDraftTokens, 1)) {
    drafter.num_draft_tokens = Tokens{*count};
  }
  if (const GivenValue* backend = options.find(kDrafterBackend); backend != nullptr) {
    drafter.backend = backend->text;
  }
  drafter.kv_dtype = values.dtype(kDraftKvCacheDtype);
  drafter.tokens_per_block = values.tokens(kDraftPageSize);
  request.drafter = std::move(drafter);
}

}  // namespace

std::int64_t parse_share_ppm(std::string_view text) noexcept {
  constexpr std::int64_t kWhole = 1'000'000;
  const std::size_t dot = text.find('.');
  const std::string_view whole = text.substr(0, dot);
  const std::string_view fraction =
      dot == std::string_view::npos ? std::string_view{} : text.substr(dot + 1);
  const auto all_digits = [](std::string_view digits) {
    return std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  };
  if (whole.size() + fraction.size() == 0 || !all_digits(whole) || !all_digits(fraction) ||
      !(whole.empty() || whole == "0" || whole == "1")) {
    return -1;
  }
  std::int64_t value = whole == "1" ? kWhole : 0;
  std::int64_t unit = kWhole;
  for (const char digit : fraction) {
    unit /= 10;
    if (unit == 0 && digit != '0') {
      return -1;
    }
    value += (digit - '0') * unit;
  }
  return value > 0 && value <= kWhole ? value : -1;
}

std::string unused_options(const Options& options) {
  std::string names;
  const auto list = [&](std::initializer_list<OptionId> ids) {
    for (const OptionId id : ids) {
      if (options.find(id) != nullptr) {
        names.append(names.empty() ? "" : ", ").append(option_spec(id).flag());
      }
    }
  };
  if (options.find(kKvBudget) != nullptr) {
    list({kGpuMemory, kGpuMemoryUtilization, kWeights, kOverhead, kHostEngine, kActivations,
          kCudaContext, kCudaGraphs, kCommunication, kCoLocated});
    return names.empty() ? names : names + ": not used, --kv-budget starts below them";
  }
  if (options.find(kOverhead) != nullptr) {
    list({kHostEngine, kActivations, kCudaContext, kCudaGraphs, kCommunication});
    return names.empty() ? names : names + ": not used, --overhead stands for all of them";
  }
  return names;
}

std::string unknown_type_note(const ModelConfig& model) {
  if (model.model_type.empty() || io::is_known_model_type(model.model_type)) {
    return {};
  }
  return fmt::format(
      "model_type '{}' of {} is not known here: its layers are priced by their keys alone; kvplan "
      "lint says which keys no rule reads",
      model.model_type, model.name);
}

std::vector<std::string> request_notes(const Options& options, const PlanRequest& request) {
  std::vector<std::string> notes{unused_options(options), unknown_type_note(request.target)};
  if (request.drafter.has_value() && request.drafter->model.has_value()) {
    notes.push_back(unknown_type_note(*request.drafter->model));
  }
  std::erase(notes, std::string{});
  return notes;
}

std::string spelled_as(const Options& options, OptionId id) {
  const GivenValue* given = options.find(id);
  if (given == nullptr) {
    return {};
  }
  const auto dtype = parse_kv_dtype(given->text);
  return dtype.has_value() && to_string(*dtype) != given->text ? given->text : std::string{};
}

std::optional<Engine> asked_engine(const Options& options) {
  const GivenValue* engine = options.find(kEngine);
  return engine == nullptr ? std::nullopt : parse_engine(engine->text);
}

std::optional<KernelSet> asked_kernel_set(const Options& options) {
  return Values{options}.choice<KernelSet>(kKernelSet, "kernel set", parse_kernel_set, kSets);
}

std::optional<std::int64_t> read_stage(const Options& options) {
  return Values{options}.number(kStage, 0);
}

std::vector<DeviceSpec> read_devices(const Options& options) {
  const auto known = known_devices();
  std::vector<DeviceSpec> devices{known.begin(), known.end()};
  const auto files = options.values.find(kGpus);
  if (files == options.values.end()) {
    return devices;
  }
  for (const GivenValue& file : files->second) {
    for (DeviceSpec& device : value_or_fail(io::read_device_file(file.text))) {
      devices.push_back(std::move(device));
    }
  }
  return devices;
}

CapabilityRegistry read_registry(const Options& options) {
  CapabilityRegistry registry = kernels::registry_with_bundled_kernels();
  const auto files = options.values.find(kKernels);
  if (files == options.values.end()) {
    return registry;
  }
  for (const GivenValue& file : files->second) {
    for (KernelCapability& row : value_or_fail(io::read_kernel_file(file.text))) {
      if (Result<void> added = registry.add(std::move(row)); !added) {
        Error error = std::move(added).error();
        error.file = file.text;
        throw Failure{std::move(error)};
      }
    }
  }
  return registry;
}

const ModelConfig& InputCache::model(const std::string& text) {
  const auto found = models_.find(text);
  return found != models_.end() ? found->second
                                : models_.emplace(text, read_model(text)).first->second;
}

const std::vector<DeviceSpec>& InputCache::devices(const Options& options) {
  if (devices_.empty()) {
    devices_ = read_devices(options);
  }
  return devices_;
}

PlanRequest read_request(const Options& options, InputCache& inputs) {
  check_engine(options);
  const Values values{options};
  PlanRequest request;
  read_parallelism(options, values, request.parallelism);
  read_memory(options, values, inputs, request);
  read_cache(values, request);
  if (options.input.empty()) {
    throw usage_failure(
        "MODEL is missing: the path of a config.json or of a checkpoint directory, or a name of "
        "'kvplan models'");
  }
  request.target = inputs.model(options.input);
  read_drafter(options, values, inputs, request);
  return request;
}

Deployment read_deployment(const Options& options) {
  InputCache inputs;
  Deployment deployment;
  deployment.request = read_request(options, inputs);
  deployment.registry = read_registry(options);
  return deployment;
}

std::optional<std::int64_t> read_whole_number(const Options& options, OptionId id,
                                              std::int64_t least) {
  return Values{options}.number(id, least);
}

}  // namespace kvpool::cli
