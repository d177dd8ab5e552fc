// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "command_table.hpp"

#include <algorithm>
#include <array>

namespace kvpool::cli {
namespace {

constexpr std::string_view kModelHelp =
    "config.json, checkpoint directory, or a name of the local\nHugging Face cache or of 'kvplan "
    "models'";

constexpr auto kCommands = std::to_array<CommandSpec>({
    {Command::kPlan, "plan",
     "what fits: pools, pages, tokens, sequences, the ledger and every decision",
     "  kvplan plan ./Llama-3.1-70B -tp 4 --gpu h200 --max-num-seqs 64 --max-model-len 32k\n"
     "  kvplan plan ./model --kv-budget 40GiB --kv-cache-dtype fp8 --page-size 32\n"
     "  kvplan plan ./target --drafter ./draft --tp 16 --gpu gb200 --json\n",
     "MODEL", kModelHelp, "@model"},
    {Command::kExplain, "explain", "every figure derived: config key, formula, number",
     "  kvplan explain ./Llama-3.1-70B -tp 4 --gpu h200\n"
     "  kvplan explain ./model --kv-budget 40GiB --page-size 32\n"
     "  kvplan explain ./target --drafter ./draft --tp 16 --gpu gb200\n",
     "MODEL", kModelHelp, "@model"},
    {Command::kKernels, "kernels", "which kernels serve which page sizes, and why not",
     "  kvplan kernels\n"
     "  kvplan kernels ./target --drafter ./draft --tp 16 --gpu gb200\n"
     "  kvplan kernels ./model --gpu h200 --kernels my_kernels.toml --json\n",
     "MODEL", kModelHelp, "@model"},
    {Command::kVerify, "verify", "does what an engine allocated agree with what a plan charged",
     "  kvplan verify plan.json --allocations allocations.json\n"
     "  kvplan verify plan.json --allocations allocations.json --stage 1 --json\n"
     "  kvplan plan ./model --gpu h200 --json > plan.json   (makes the plan)\n",
     "PLAN", "plan document that 'kvplan plan --json' wrote", "@file"},
    {Command::kCheck, "check", "does the arithmetic of other engines agree with what they printed",
     "  kvplan check --configs ./configs --cases cases.jsonl\n"
     "  kvplan check --configs ./configs --cases cases.jsonl --cases more.jsonl --json\n",
     "", "", ""},
    {Command::kSolve, "solve",
     "plan backwards: the longest, the most, the fewest, the least that works",
     "  kvplan solve ./Llama-3.1-70B -tp 4 --gpu h200 --max-num-seqs 64\n"
     "  kvplan solve ./model --gpu h200 --find max-num-seqs --lengths p50=4k,p90=32k,max=128k\n"
     "  kvplan solve ./model --gpu b200 --find gpus --max-num-seqs 256 --max-model-len 128k "
     "--json\n",
     "MODEL", kModelHelp, "@model"},
    {Command::kSweep, "sweep", "many plans at once: a table, CSV, JSON or a chart over any options",
     "  kvplan sweep ./model --gpu h200 --over tp=1,2,4,8 --over max-model-len=8k:128k:*2\n"
     "  kvplan sweep ./model --over gpu=h100,h200,b200 --over kv-cache-dtype=bf16,fp8 --format "
     "csv\n"
     "  kvplan sweep ./model --gpu h200 --over max-num-seqs=1:64:+1 --y max-len --format svg > "
     "c.svg\n",
     "MODEL", kModelHelp, "@model"},
    {Command::kDiff, "diff", "what differs between two plans or deployments",
     "  kvplan diff before.json after.json\n"
     "  kvplan diff staging.toml production.toml --json\n",
     "A", "plan document of 'kvplan plan --json', or a deployment file that ends in .toml", "@file",
     "B"},
    {Command::kLint, "lint",
     "what in a config or deployment is not understood, contradictory or defaulted",
     "  kvplan lint ./model\n"
     "  kvplan lint deployment.toml\n"
     "  kvplan lint Qwen/Qwen3-8B --allow defaulted --json\n",
     "INPUT", "as MODEL of 'plan', or a deployment file that ends in .toml", "@model"},
    {Command::kModels, "models", "models and drafters that are known by name",
     "  kvplan models\n"
     "  kvplan models qwen3\n"
     "  kvplan models --json\n",
     "TEXT", "only names that contain it", ""},
    {Command::kGpus, "gpus", "GPUs that are known by name, and what a process sees of them",
     "  kvplan gpus\n"
     "  kvplan gpus h200\n"
     "  kvplan gpus --gpus my_gpus.toml --json\n",
     "TEXT", "only names that contain it", ""},
    {Command::kCompletion, "completion", "a completion script for a shell",
     "  kvplan completion bash > /etc/bash_completion.d/kvplan\n"
     "  kvplan completion zsh > \"${fpath[1]}/_kvplan\"\n"
     "  kvplan completion fish > ~/.config/fish/completions/kvplan.fish\n",
     "SHELL", "bash, zsh or fish", "bash zsh fish"},
    {Command::kMan, "man", "the manual page",
     "  kvplan man > kvplan.1\n"
     "  kvplan man | man -l -\n",
     "", "", ""},
});

constexpr std::string_view kExamples =
    "kvplan plans the KV-cache memory of an LLM inference engine, to the byte, without a GPU.\n"
    "\n"
    "  What fits on this GPU, and what to change if it does not?\n"
    "    kvplan plan ./Llama-3.1-70B -tp 4 --gpu h200 --max-num-seqs 64 --max-model-len 32k\n"
    "\n"
    "  A target, its drafter, and a page size for both:\n"
    "    kvplan plan target/config.json --drafter draft/config.json --drafter-kind dspark \\\n"
    "        --tp 16 --gpu gb200 --page-size 64\n"
    "\n"
    "  Does what an engine allocated agree with what the plan charged?\n"
    "    kvplan plan ./model --gpu h200 --json > plan.json\n"
    "    kvplan verify plan.json --allocations allocations.json\n";

constexpr std::string_view kExitStatus =
    "Exit status: 0 fits (verify, check: agrees; solve: found; sweep: some point fits; diff: "
    "equal;\n"
    "lint: clean), 1 bytes are missing (disagrees; not found; none fits; different; findings),\n"
    "2 wrong command line, 3 bad or unsupported input or a refusal, 4 device or I/O error.\n";

}  // namespace

std::span<const CommandSpec> command_specs() noexcept { return kCommands; }

const CommandSpec& command_spec(Command command) noexcept {
  return *std::ranges::find(kCommands, command, &CommandSpec::command);
}

std::optional<Command> find_command(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(kCommands, name, &CommandSpec::name);
  return found == kCommands.end() ? std::nullopt : std::optional{found->command};
}

std::string_view to_string(Command command) noexcept { return command_spec(command).name; }

std::string_view program_examples() noexcept { return kExamples; }

std::string_view exit_status_text() noexcept { return kExitStatus; }

}  // namespace kvpool::cli
