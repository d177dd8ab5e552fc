// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/kernel_file.hpp>

#include <kvpool/capability/capability_registry.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <fstream>
#include <iterator>
#include <regex>

namespace kvpool::io {
namespace {

using Catch::Matchers::ContainsSubstring;

const std::string kExample = KVPOOL_SOURCE_DIR "/tests/data/kernels/my_kernels.toml";

std::string text_of(const std::string& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{}};
}

/// A row with the four keys that it needs, and `more`.
std::string row(const std::string& more, const std::string& page_sizes = "[64]") {
  return "[[kernel]]\nname = \"mine\"\nserves = [\"dspark\"]\nrole = \"draft_block\"\npage_sizes "
         "= " +
         page_sizes + "\n" + more + "\n";
}

KernelCapability only_row(const std::string& text) {
  const auto rows = parse_kernel_file(text, "k.toml");
  INFO((rows.has_value() ? std::string{} : rows.error().message));
  REQUIRE(rows.has_value());
  REQUIRE(rows->size() == 1);
  return rows->front();
}

/// The error, with `line 5, column 14: ` taken from the message and written `k.toml:5:14`.
Error error_of(const std::string& text) {
  const auto rows = parse_kernel_file(text, "k.toml");
  REQUIRE_FALSE(rows.has_value());
  Error error = rows.error();
  CHECK(error.code == ErrorCode::kInvalidArgument);
  CHECK(error.file == "k.toml");
  std::smatch place;
  const std::regex form{"line ([0-9]+), column ([0-9]+): "};
  REQUIRE(std::regex_search(error.message, place, form, std::regex_constants::match_continuous));
  error.file += ":" + place.str(1) + ":" + place.str(2);
  error.message.erase(0, static_cast<std::size_t>(place.length()));
  return error;
}

TEST_CASE("the example file has every field where it belongs", "[io]") {
  const auto rows = read_kernel_file(kExample);
  REQUIRE(rows.has_value());
  REQUIRE(rows->size() == 2);
  const KernelCapability& decode = rows->at(0);
  CHECK(decode.name == "my_target_decode");
  CHECK(decode.provider == "my engine");
  CHECK(decode.versions == "2.4 and later");
  CHECK(decode.kernel_set.empty());
  CHECK(decode.backend.empty());
  CHECK(decode.serves == std::vector<PoolUser>{PoolUser::kTarget});
  CHECK(decode.role == KernelRole::kTargetDecode);
  CHECK(decode.page_sizes == PageSizeRule{});
  CHECK(decode.necessity == Necessity::kRequired);
  CHECK(decode.evidence == Evidence::kDeclared);
  CHECK(decode.limits == KernelLimits{});
  CHECK(decode.source == "my engine, docs/decode.md");
  const KernelCapability& block = rows->at(1);
  CHECK(block.backend == "MINE");
  CHECK(block.serves == std::vector<PoolUser>{PoolUser::kDflash, PoolUser::kDspark});
  CHECK(block.role == KernelRole::kDraftBlock);
  CHECK(block.page_sizes == PageSizeRule{PageSizeRule::OneOf{{64}}});
  CHECK(block.layout == "HND");
  CHECK(block.necessity == Necessity::kPreferred);
  CHECK(block.cost_of_loss == CostOfChoice{.value = 120,
                                           .unit = "us_per_step",
                                           .conditions = "H200, batch 1, 32K tokens"});
  CHECK(block.limits == KernelLimits{.family = AttentionFamily::kKeyValue,
                                     .head_dims = {64, 128},
                                     .max_head_ratio = 16,
                                     .kv_dtypes = {KvDtype::kBf16},
                                     .architectures = {"sm_90", "sm_100"},
                                     .masks = {AttentionMask::kNonCausal},
                                     .max_batch = 32});
}

TEST_CASE("the documented example is the tested one", "[io]") {
  const std::string page = text_of(KVPOOL_SOURCE_DIR "/docs/kernels.md");
  CHECK_THAT(page, ContainsSubstring("```toml\n" + text_of(kExample) + "```"));
}

TEST_CASE("the rows of a file go into a registry", "[io]") {
  const auto rows = read_kernel_file(kExample);
  REQUIRE(rows.has_value());
  CapabilityRegistry registry = CapabilityRegistry::with_known_kernels();
  for (const KernelCapability& kernel : *rows) {
    CHECK(registry.add(kernel).has_value());
  }
}

TEST_CASE("page sizes have five forms", "[io]") {
  CHECK(only_row(row("", "[64, 32]")).page_sizes.text() == "{32, 64}");
  CHECK(only_row(row("", "\"any\"")).page_sizes.text() == "any");
  CHECK(only_row(row("", "\"not_read\"")).page_sizes.text() == "does not read the pool");
  CHECK(only_row(row("", "{divisors_of = 128}")).page_sizes.text() == "divisors of 128 but 1");
  CHECK(only_row(row("", "{multiples_of = 16, max = 256}")).page_sizes.text() ==
        "multiples of 16 up to 256");
  CHECK(only_row(row("", "{multiples_of = 16}")).page_sizes.text() == "multiples of 16");
}

TEST_CASE("other page sizes are refused", "[io]") {
  const auto* const form =
      GENERATE("64", "\"some\"", "{}", "{max = 64}", "{divisors_of = 128, multiples_of = 16}",
               "{divisors_of = 128, max = 64}", "true", "1.5");
  const Error error = error_of(row("", form));
  CHECK(error.file == "k.toml:5:14");
  CHECK(error.key == "kernel[0].page_sizes");
  CHECK_THAT(error.message, ContainsSubstring("needs a list of sizes, \"any\""));
}

TEST_CASE("every other key is read", "[io]") {
  const KernelCapability kernel = only_row(row(R"(
kernel_set = "kvpool"
model_families = ["kimi_k3"]
reads_sub_views = true
reads_strided_pages = false
certified = "up to 2041"
evidence = "tested_here"
[kernel.limits]
family = "latent"
excluded_head_dims = [96]
exact_head_ratio = 6
query_dtypes = ["bf16"]
kv_dtypes = ["fp8", "fp8_ds_mla"]
output_dtypes = ["fp16"]
max_query_tokens = 8
max_context = 131072
)"));
  CHECK(kernel.kernel_set == "kvpool");
  CHECK(kernel.model_families == std::vector<std::string>{"kimi_k3"});
  CHECK(kernel.reads_sub_views);
  CHECK_FALSE(kernel.reads_strided_pages);
  CHECK(kernel.certified == "up to 2041");
  CHECK(kernel.evidence == Evidence::kTestedHere);
  CHECK(kernel.limits == KernelLimits{.family = AttentionFamily::kLatent,
                                      .excluded_head_dims = {96},
                                      .exact_head_ratio = 6,
                                      .query_dtypes = {KvDtype::kBf16},
                                      .kv_dtypes = {KvDtype::kFp8E4m3, KvDtype::kFp8DsMla},
                                      .output_dtypes = {KvDtype::kFp16},
                                      .max_query_tokens = 8,
                                      .max_context = Tokens{131'072}});
}

TEST_CASE("an unknown key has its place and the key that was meant", "[io]") {
  const Error in_row = error_of(row("necesity = \"preferred\""));
  CHECK(in_row.file == "k.toml:6:1");
  CHECK(in_row.key == "kernel[0].necesity");
  CHECK(in_row.message == "unknown key; did you mean 'necessity'?");
  const Error in_limits = error_of(row("[kernel.limits]\nhead_dim = [64]"));
  CHECK(in_limits.file == "k.toml:7:1");
  CHECK(in_limits.key == "kernel[0].limits.head_dim");
  CHECK(in_limits.message == "unknown key; did you mean 'head_dims'?");
  const Error in_cost = error_of(row("cost_of_loss = {values = 3}"));
  CHECK(in_cost.message == "unknown key; did you mean 'value'?");
  const Error far_off = error_of(row("cost_of_loss = {xyzzy = 3}"));
  CHECK(far_off.message == "unknown key; write one of value, unit, conditions");
  const Error at_top = error_of("[[kernels]]\nname = \"x\"");
  CHECK(at_top.file == "k.toml:1:3");
  CHECK(at_top.message == "unknown key; did you mean 'kernel'?");
}

TEST_CASE("a missing key is named", "[io]") {
  const Error error =
      error_of("[[kernel]]\nname = \"mine\"\nserves = [\"dspark\"]\nrole = \"draft_block\"\n");
  CHECK(error.file == "k.toml:1:1");
  CHECK(error.key == "kernel[0].page_sizes");
  CHECK(error.message == "missing: a row needs name, serves, role, page_sizes");
  CHECK(error_of("").key == "kernel");
  CHECK(error_of("kernel = []").message == "needs one [[kernel]] table for each row");
  CHECK(error_of("[kernel]\nname = \"x\"").message == "needs one [[kernel]] table for each row");
  CHECK(error_of("kernel = [1]").key == "kernel");
}

TEST_CASE("a word that is not known has its place and the word that was meant", "[io]") {
  const Error error = error_of(
      "[[kernel]]\nname = \"m\"\nserves = [\"dsparc\"]\nrole = \"draft_block\"\npage_sizes = [64]");
  CHECK(error.file == "k.toml:3:11");
  CHECK(error.key == "kernel[0].serves");
  CHECK(error.value == "dsparc");
  CHECK(error.message == "'dsparc' is not known; did you mean 'dspark'?");
  CHECK(error_of(row("limits = {kv_dtypes = [\"bf61\"]}")).message ==
        "'bf61' is not known; did you mean 'bf16'?");
  CHECK(error_of(row("limits = {kv_dtypes = [\"bits\"]}")).message ==
        "'bits' is not known; write one of fp32, bf16, fp16, fp8_e4m3, fp8_e5m2, "
        "fp8_e4m3_per_token_head, fp8_e5m2_per_token_head, int8_per_token_head, nvfp4, "
        "fp8_ds_mla, fp4_mla");
  CHECK_THAT(error_of(row("limits = {masks = [\"noncausal\"]}")).message,
             ContainsSubstring("did you mean 'non_causal'?"));
}

TEST_CASE("a value of the wrong type is refused", "[io]") {
  CHECK(error_of(row("layout = 3")).message == "needs a text");
  CHECK(error_of(row("reads_sub_views = 1")).message == "needs true or false");
  CHECK(error_of(row("limits = 3")).message == "needs a table");
  CHECK(error_of(row("limits = {max_batch = 8.5}")).message == "needs a whole number");
  CHECK(error_of(row("limits = {head_dims = 64}")).message == "needs a list of whole numbers");
  CHECK(error_of(row("limits = {head_dims = [\"64\"]}")).message == "needs a whole number");
  CHECK(error_of(row("model_families = \"kimi_k3\"")).message == "needs a list of texts");
  CHECK(error_of(row("", "[64, \"32\"]")).message == "needs a whole number");
}

TEST_CASE("a row that no registry takes is refused at its place", "[io]") {
  const Error size = error_of(row("", "[64, 64]"));
  CHECK(size.file == "k.toml:5:14");
  CHECK(size.key == "kernel[0].page_sizes");
  const Error twice = error_of(row("") + row(""));
  CHECK(twice.file == "k.toml:8:8");
  CHECK(twice.key == "kernel[1].name");
  CHECK_THAT(twice.message, ContainsSubstring("exists already"));
  CHECK(error_of(row("limits = {max_batch = 0}")).key == "kernel[0].limits");
  CHECK(error_of(row("", "[9223372036854775807]")).key == "kernel[0].page_sizes");
}

TEST_CASE("text that is no TOML is refused at its place", "[io]") {
  const auto* const text = GENERATE("[[kernel]\n", "kernel = ", "= 3", "[[kernel]]\nname = \"x",
                                    "[[kernel]]\nname = 1\nname = 2", "\xff\xfe", "[\n", "[[[");
  const Error error = error_of(text);
  CHECK(error.file.rfind("k.toml:", 0) == 0);
  CHECK_FALSE(error.message.empty());
}

TEST_CASE("a hostile file is an error", "[io]") {
  std::string deep = "kernel = ";
  for (int i = 0; i < 5000; ++i) {
    deep += "[";
  }
  CHECK_FALSE(error_of(deep).message.empty());
  CHECK_THAT(parse_kernel_file(std::string(2 << 20, '#'), "k.toml").error().message,
             ContainsSubstring("larger than 1 MiB"));
  const Error controls = error_of(row("", "[64]") + "\"\\u0007\\u001b[31m\" = 1\n");
  CHECK(controls.value == "??[31m");
  CHECK(controls.key.find('\x1b') == std::string::npos);
}

TEST_CASE("a file that cannot be read is an error", "[io]") {
  CHECK(read_kernel_file(KVPOOL_SOURCE_DIR "/tests/data/kernels/none.toml").error().code ==
        ErrorCode::kNotFound);
  CHECK(read_kernel_file(KVPOOL_SOURCE_DIR "/tests/data/kernels").error().code == ErrorCode::kIo);
}

}  // namespace
}  // namespace kvpool::io
