# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""The command line of kvplan: spellings, sizes, mistakes, help."""

import unittest

from kvplan_case import DSPARK, KIMI, LLAMA, KvplanCase

# One row per option: every spelling, and a value that changes the plan or is accepted by it.
SPELLINGS = [
    (["--tp 4", "-tp 4", "-tp=4", "-tp4", "--tensor-parallel-size 4", "--tensor_parallel_size=4",
      "--tp-size 4", "--tp_size 4", "--tensor-parallel 4"], []),
    (["--pp 2", "-pp 2", "--pipeline-parallel-size 2", "--pp-size=2", "--pp_size 2"], []),
    (["--dp 2", "-dp 2", "--data-parallel-size 2", "--dp-size 2"], []),
    (["--dcp 2", "-dcp 2", "--decode-context-parallel-size 2", "--dcp-size 2", "--cp_size 2"],
     ["--tp", "4"]),
    (["--ep 2", "-ep 2", "--expert-parallel-size 2", "--ep-size 2",
      "--moe_expert_parallel_size 2"], []),
    (["--attention-dp", "--enable-attention-dp", "--enable_dp_attention"], ["--tp", "4"]),
    (["--kv-cache-dtype fp8", "--kv_cache_dtype=fp8_e4m3", "--kv-dtype fp8"], []),
    (["--page-size 32", "--block-size 32", "--tokens-per-block 32", "--tokens_per_block=32"], []),
    (["--max-model-len 32768", "--max-model-len 32K", "--context-length 32768",
      "--max_seq_len=32768"], []),
    (["--max-num-seqs 4", "--max-running-requests 4", "--max_batch_size 4"], []),
    (["--max-num-batched-tokens 4096", "--chunked-prefill-size 4096", "--max_num_tokens=4K"], []),
    (["--gpu h200", "--gpu H200", "-gpu h200"], []),
    (["--kv-budget 16GiB", "--kv-budget 17179869184", "--kv-cache-memory-bytes 17179869184",
      "--max_gpu_total_bytes=16GiB"], []),
]


class Spellings(KvplanCase):
    def test_all_spellings_of_an_option_give_the_same_document(self):
        for spellings, others in SPELLINGS:
            base = [] if "--gpu" in spellings[0] else ["--gpu", "b200"]
            first = None
            for spelling in spellings:
                with self.subTest(spelling=spelling):
                    outcome = self.kvplan("plan", LLAMA, *base, *others, *spelling.split(),
                                          "--json")
                    self.assertIn(outcome.code, (0, 1), outcome.err)
                    first = first or outcome.raw
                    self.assertEqual(outcome.raw, first)

    def test_drafter_options_have_spellings_too(self):
        first = None
        for drafter, kind, count in [
                ("--drafter", "--drafter-kind=dspark", "--num-draft-tokens=7"),
                ("--speculative-draft-model-path", "--speculative_algorithm=DSPARK",
                 "--num_speculative_tokens=7"),
                ("--speculative-model", "--drafter-kind=dspark", "--max-draft-len=7")]:
            outcome = self.kvplan("plan", KIMI, drafter, DSPARK, kind, count, "-tp", "16", "--gpu",
                                  "gb200", "--json")
            self.assertEqual(outcome.code, 0, outcome.err)
            first = first or outcome.raw
            self.assertEqual(outcome.raw, first)

    def test_kinds_of_drafters_have_spellings(self):
        for spelling in ["eagle", "eagle-3", "EAGLE3", "p-eagle", "P_EAGLE"]:
            outcome = self.kvplan("plan", LLAMA, "--gpu", "h200", "--drafter-kind", spelling)
            kind = "peagle" if spelling.lower().startswith("p") else "eagle3"
            self.assert_usage(outcome, f"a drafter of kind {kind} has a config of its own")

    def test_a_format_that_is_spelled_otherwise_is_said(self):
        for spelling, name in [("int8", "int8_per_token_head"), ("fp8", "fp8_e4m3"),
                               ("fp4", "nvfp4")]:
            arguments = ["plan", LLAMA, "--gpu", "h200", "--kv-cache-dtype"]
            self.assertIn(f"cache {name} (asked as {spelling});",
                          self.kvplan(*arguments, spelling).out)
            self.assertIn(f"cache {name};", self.kvplan(*arguments, name).out)
            self.assert_usage(self.kvplan(*arguments, "bits"), f"{spelling} is {name}")

    def test_single_dash_tp_means_tensor_parallel_size(self):
        document = self.plan(LLAMA, "--gpu", "h200", "-tp", "4")
        self.assertEqual(document["pools"][0]["page_bytes"], 32 * 2 * 2 * 64 * 128 * 2)

    def test_arguments_may_come_before_the_model_and_after_two_dashes(self):
        first = self.kvplan("plan", LLAMA, "--gpu", "h200", "--json").raw
        self.assertEqual(self.kvplan("plan", "--json", "--gpu", "h200", LLAMA).raw, first)
        self.assertEqual(self.kvplan("plan", "--json", "--gpu=h200", "--", LLAMA).raw, first)


class Sizes(KvplanCase):
    def budget(self, text):
        document = self.plan(LLAMA, "--kv-budget", text)
        return next(l["bytes"] for l in document["ledger"] if l["name"] == "kv_budget")

    def test_units_mean_what_they_say(self):
        self.assertEqual(self.budget("40GB"), 40 * 10**9)
        self.assertEqual(self.budget("40GiB"), 40 * 2**30)
        self.assertEqual(self.budget("1.5GiB"), 3 * 2**29)
        self.assertEqual(self.budget("40960MiB"), 40 * 2**30)

    def test_bad_sizes_are_usage_errors(self):
        for text in ["4G", "-1", "", "GiB", "1.5", "4 gibi", "99999999TiB"]:
            with self.subTest(text=text):
                self.assert_usage(self.kvplan("plan", LLAMA, f"--kv-budget={text}"), "--kv-budget")

    def test_a_gpu_of_bytes_lacks_its_unit(self):
        self.assert_usage(self.kvplan("plan", LLAMA, "--gpu-memory", "80"), "80GiB")
        path = self.write("bytes.toml", f'model = "{LLAMA}"\ngpu_memory = 80\n')
        outcome = self.kvplan("plan", "--deployment", path)
        self.assertEqual((outcome.code, outcome.out), (3, ""))
        self.assertIn("line 2", outcome.err)

    def test_the_share_of_the_gpu_is_exact(self):
        memory = 80 * 10**9
        for text, ppm in [("0.92", 920000), ("0.920000", 920000), (".5", 500000), ("1", 10**6),
                          ("1.0", 10**6), ("0.000001", 1), ("0.333333", 333333)]:
            with self.subTest(text=text):
                document = self.plan(LLAMA, "--gpu-memory", memory, "--weights", "0B", "--overhead",
                                     "0B", "--gpu-memory-utilization", text)
                budget = next(l["bytes"] for l in document["ledger"] if l["name"] == "kv_budget")
                self.assertEqual(budget, memory * ppm // 10**6)

    def test_shares_outside_their_range_are_refused(self):
        for text in ["0", "0.0", "1.000001", "1.1", "92", "92%", "-0.5", "0.9999999", "9e-1", ".",
                     "nan"]:
            with self.subTest(text=text):
                self.assert_usage(self.kvplan("plan", LLAMA, "--gpu", "h200",
                                              f"--gpu-memory-utilization={text}"),
                                  "--gpu-memory-utilization")

    def test_lengths_take_suffixes(self):
        for text, tokens in [("32k", 32000), ("32K", 32768), ("131072", 131072)]:
            document = self.plan(LLAMA, "--gpu", "b200", "--max-model-len", text)
            self.assertEqual(document["request"]["workload"]["max_model_len"], tokens)
        first = self.kvplan("plan", LLAMA, "--gpu", "b200", "--json").raw
        for text in ["auto", "-1"]:
            self.assertEqual(self.kvplan("plan", LLAMA, "--gpu", "b200", "--max-model-len", text,
                                         "--json").raw, first)


class Mistakes(KvplanCase):
    def test_nearest_names_are_suggested(self):
        self.assert_usage(self.kvplan("pln", LLAMA), "did you mean 'plan'?")
        self.assert_usage(self.kvplan("plan", LLAMA, "--tpp", "4"), "did you mean '--tp'?")
        self.assert_usage(self.kvplan("plan", LLAMA, "--max-model-length", "4"),
                          "did you mean '--max-model-len'?")
        self.assert_usage(self.kvplan("plan", LLAMA, "--tensor-paralel-size=4"),
                          "did you mean '--tensor-parallel-size'?")
        self.assert_usage(self.kvplan("plan", LLAMA, "--gpu", "h20"), "did you mean 'h200'?")
        self.assert_usage(self.kvplan("plan", LLAMA, "--kv-cache-dtype", "bf61"),
                          "did you mean 'bf16'?")
        self.assert_usage(self.kvplan("plan", LLAMA, "--drafter-kind", "dspak"),
                          "did you mean 'dspark'?")
        self.assert_usage(self.kvplan("plan", LLAMA, "--layout", "page_major_hdn"),
                          "did you mean 'page_major_hnd'?")
        self.assert_usage(self.kvplan("plan", LLAMA, "--kernel-set", "trtlm"),
                          "did you mean 'trtllm'?")

    def test_options_that_the_budget_makes_useless_are_named(self):
        arguments = ["plan", LLAMA, "--kv-budget", "20GiB", "--overhead", "1GiB",
                     "--gpu-memory-utilization", "0.9"]
        unused = "--gpu-memory-utilization, --overhead: not used, --kv-budget starts below them"
        self.assertIn("note     " + unused, self.kvplan(*arguments).out)
        outcome = self.kvplan(*arguments, "--json")
        self.assertEqual(outcome.err, f"kvplan: note: {unused}\n")
        self.assertEqual(outcome.document()["schema"], "kvpool.plan/1")
        self.assertNotIn("not used", self.kvplan("plan", LLAMA, "--kv-budget", "20GiB").out)

    def test_an_unknown_gpu_is_said_to_be_unknown(self):
        self.assert_usage(self.kvplan("plan", LLAMA, "--gpu", "voodoo2"), "unknown GPU 'voodoo2'",
                          "h100", "gb200")

    def test_options_of_engines_are_explained(self):
        self.assert_usage(self.kvplan("plan", LLAMA, "--mem-fraction-static", "0.9"), "SGLang",
                          "--kv-budget")
        self.assert_usage(self.kvplan("plan", LLAMA, "--free_gpu_memory_fraction", "0.9"),
                          "TensorRT-LLM")
        self.assert_usage(self.kvplan("plan", LLAMA, "--speculative-config={}"), "--drafter")

    def test_wrong_command_lines(self):
        for arguments in [[], ["--json"], ["plan"], ["plan", LLAMA, LLAMA], ["plan", LLAMA, "--tp"],
                          ["plan", LLAMA, "--tp", "--json"], ["plan", LLAMA, "--tp", "0"],
                          ["plan", LLAMA, "--tp", "four"], ["plan", LLAMA, "--tp", "4", "-tp", "8"],
                          ["plan", LLAMA, "--tp", "99999999999999999999"],
                          ["plan", LLAMA, "--json=yes"], ["plan", LLAMA, "--page-size", "0"],
                          ["plan", LLAMA, "--draft-page-size", "32"], ["plan", LLAMA, "-x"],
                          ["plan", LLAMA, "--drafter-kind", "dflash"],
                          ["plan", LLAMA, "--drafter", LLAMA],
                          ["plan", LLAMA, "--drafter", LLAMA, "--drafter-kind", "mtp"],
                          ["plan", LLAMA, "--allocations", "x"], ["verify"], ["verify", "p.json"],
                          ["explain", LLAMA, "--json"], ["calibrate", LLAMA], ["plan", LLAMA, "--="]]:
            with self.subTest(arguments=arguments):
                self.assert_usage(self.kvplan(*arguments), "kvplan: error: ")

    def test_engines_that_are_not_known_are_refused(self):
        outcome = self.kvplan("plan", LLAMA, "--gpu", "h200", "--engine", "ollama", "--json")
        self.assertEqual(outcome.code, 3)
        self.assertIn("unknown engine", outcome.document()["error"]["message"])
        self.assertEqual(self.kvplan("plan", LLAMA, "--gpu", "h200", "--engine", "kvpool").code, 0)


class Help(KvplanCase):
    def test_help_begins_with_three_examples(self):
        for arguments in [["--help"], ["-h"], ["help"], ["plan", "--help"], ["explain", "-h"],
                          ["kernels", "--help"], ["verify", "--help"]]:
            with self.subTest(arguments=arguments):
                outcome = self.kvplan(*arguments)
                self.assertEqual((outcome.code, outcome.err), (0, ""))
                head = "\n".join(outcome.out.splitlines()[:14])
                self.assertGreaterEqual(head.count("kvplan "), 3)
                self.assertLessEqual(max(map(len, outcome.out.splitlines())), 120)

    def test_help_of_plan_names_every_option(self):
        text = self.kvplan("plan", "--help").out
        for name in ["--tp", "--tensor-parallel-size", "--gpu-memory-utilization", "--drafter",
                     "--kernel-set", "--deployment", "--json"]:
            self.assertIn(name, text)

    def test_version(self):
        outcome = self.kvplan("--version")
        self.assertEqual(outcome.code, 0)
        self.assertRegex(outcome.out, r"^kvplan \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    unittest.main()
