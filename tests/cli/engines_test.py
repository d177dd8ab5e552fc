# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""`kvplan plan --engine NAME` and `--compare-engines`."""

import unittest

from kvplan_case import CONFIGS, DSPARK, KIMI, LLAMA, KvplanCase

GIB = 1 << 30
ENGINES = ["vllm", "sglang", "trtllm", "llamacpp", "ik_llamacpp"]


class Engines(KvplanCase):
    def engine(self, name, *arguments, model=LLAMA):
        outcome = self.kvplan("plan", model, "--engine", name, *arguments, "--json")
        document = outcome.document()
        self.assertEqual(document["schema"], "kvpool.engines/1")
        answer = document["engines"][0]
        self.assertEqual(answer["engine"], name)
        self.assertEqual(outcome.code, 0 if answer["fits"] else 1)
        return answer

    @staticmethod
    def figure(answer, key):
        return next((f for f in answer["figures"] if f["key"] == key), None)

    def test_a_budget_leads_to_what_each_engine_prints(self):
        budget = ("--kv-budget", "16GiB", "--max-model-len", "32768", "--page-size", "32")
        # 131,072 B a token and 131,072 tokens.
        for name, tokens in (("vllm", 131072), ("sglang", 131072), ("trtllm", 131072)):
            with self.subTest(name):
                answer = self.engine(name, *budget)
                self.assertEqual(self.figure(answer, "kv_tokens")["count"], tokens)
                self.assertEqual(answer["needed_bytes"], 4 * GIB)
                self.assertEqual(answer["charged_bytes"], 4 * GIB)

    def test_it_fits_or_not(self):
        self.assertFalse(self.engine("vllm", "--kv-budget", "1GiB", "--max-model-len", "32768")
                         ["fits"])
        self.assertFalse(self.engine("llamacpp", "--kv-budget", "1GiB", "--max-model-len", "32768")
                         ["fits"])
        self.assertTrue(self.engine("llamacpp", "--kv-budget", "4GiB", "--max-model-len", "32768")
                        ["fits"])

    def test_fractions_mean_different_things(self):
        memory = ("--gpu-memory", "100GiB", "--weights", "20GiB", "--overhead", "10GiB",
                  "--max-model-len", "8192")

        def kv(name, *options):
            ledger = self.engine(name, *memory, *options)["ledger"]
            self.assertEqual(ledger[-1]["name"], "kv_budget")
            self.assertEqual(ledger[0]["bytes"] - sum(line["bytes"] for line in ledger[1:-1]),
                             ledger[-1]["bytes"])
            return ledger[-1]["bytes"]

        self.assertEqual(kv("vllm"), 62 * GIB)
        self.assertEqual(kv("vllm", "--engine-version", "0.11.0"), 60 * GIB)
        self.assertEqual(kv("vllm", "--gpu-memory-utilization", "0.5"), 20 * GIB)
        self.assertEqual(kv("trtllm"), 63 * GIB)
        self.assertEqual(kv("trtllm", "--engine-option", "free_gpu_memory_fraction=0.5"), 35 * GIB)
        self.assertEqual(kv("sglang", "--engine-option", "mem_fraction_static=0.8"), 50 * GIB)
        self.assertEqual(kv("llamacpp"), 70 * GIB)

    def test_versions_switch_rules(self):
        hybrid = CONFIGS / "qwen3.5-27b.json"
        options = ("--kv-budget", "10GiB", "--max-model-len", "32768")
        new = self.engine("vllm", *options, model=hybrid)
        old = self.engine("vllm", *options, "--engine-version", "0.19", model=hybrid)
        self.assertGreater(self.figure(new, "kv_tokens")["count"],
                           3 * self.figure(old, "kv_tokens")["count"])
        rules = {rule["id"]: rule["value"] for rule in old["rules"]}
        self.assertEqual(rules["token_report"], "blocks")
        odd = ("--kv-budget", str(16 * GIB - 1), "--max-model-len", "32768", "--page-size", "64")
        self.assertEqual(self.figure(self.engine("trtllm", *odd, "--engine-version", "0.13"),
                                     "num_blocks")["count"], 2048)
        self.assertEqual(self.figure(self.engine("trtllm", *odd, "--engine-version", "1.1"),
                                     "num_blocks")["count"], 2047)

    def test_accounts_add_up(self):
        answer = self.engine("vllm", "--kv-budget", "40GiB", "--max-model-len", "100000",
                             "--drafter", CONFIGS / "dflash-5-full.json", "--num-draft-tokens", "7",
                             model=CONFIGS / "qwen3.5-27b.json")
        self.assertEqual(sum(line["bytes"] for line in answer["request_account"]),
                         answer["charged_bytes"])
        self.assertEqual(answer["request_account"][0]["bytes"], answer["needed_bytes"])
        self.assertEqual(sum(line["bytes"] for line in answer["pool_account"]), 0)
        self.assertEqual(len(answer["groups"]), 15)

    def test_engine_options_are_those_of_the_case_files(self):
        base = ("--kv-budget", "40GiB", "--max-model-len", "8192")
        plain = self.engine("llamacpp", *base)
        small = self.engine("llamacpp", *base, "--engine-option", "k_dtype=q8_0",
                            "--engine-option", "v_dtype=q8_0")
        self.assertEqual(small["charged_bytes"] * 64, plain["charged_bytes"] * 34)
        self.assert_usage(self.kvplan("plan", LLAMA, "--engine", "vllm", *base, "--engine-option",
                                      "token_raport=blocks"), "did you mean 'token_report'")
        self.assert_usage(self.kvplan("plan", LLAMA, "--engine", "vllm", *base, "--engine-option",
                                      "blocks"), "KEY=VALUE")

    def test_the_drafters_page_in_tensorrt_llm(self):
        for page, draft in ((64, 64), (32, 32), (128, 32)):
            answer = self.engine("trtllm", "--kv-budget", "40GiB", "--max-model-len", "8192",
                                 "--tp", "16", "--page-size", page, "--drafter", DSPARK, model=KIMI)
            self.assertEqual(self.figure(answer, "draft_tokens_per_block")["count"], draft)

    def test_all_engines_side_by_side(self):
        options = ("--gpu", "h200", "--tp", "2", "--max-model-len", "32768", "--compare-engines")
        outcome = self.kvplan("plan", LLAMA, *options, "--json")
        document = outcome.document()
        self.assertEqual([e["engine"] for e in document["engines"]], ENGINES)
        self.assertTrue(document["kvpool"]["fits"])
        self.assertEqual(outcome.code, 0)
        # Two ranks halve the heads; llama.cpp has one.
        self.assertEqual([e["needed_bytes"] // GIB for e in document["engines"]], [2, 2, 2, 4, 4])
        text = self.kvplan("plan", LLAMA, *options)
        for name in ["kvpool", *ENGINES]:
            self.assertRegex(text.out, rf"(?m)^  {name} ")
        self.assertEqual(text.err, "")

    def test_padding_layers_are_advice_in_text_and_document(self):
        options = ("--kv-budget", "60GiB", "--max-model-len", "32000", "--page-size", "16")
        gemma = CONFIGS / "gemma-3-27b.json"
        # 8 empty places of 131,072 B in each of the 577 blocks that a windowed group holds.
        bytes_freed = 8 * 131_072 * 577
        answer = self.engine("vllm", *options, "--max-num-seqs", "2", model=gemma)
        self.assertEqual([(a["id"], a["frees_bytes"]) for a in answer["advice"]],
                         [("padding_layers", 2 * bytes_freed)])
        self.assertEqual(self.engine("sglang", *options, model=gemma)["advice"], [])
        document = self.kvplan("plan", gemma, *options, "--compare-engines", "--json").document()
        self.assertEqual(document["kvpool"]["advice"], [])
        self.assertEqual([[a["frees_bytes"] for a in e["advice"]] for e in document["engines"]],
                         [[bytes_freed], [], [], [], []])
        for choice in (("--engine", "vllm"), ("--compare-engines",)):
            report = self.kvplan("plan", gemma, *options, *choice).out
            self.assertIn("\nAdvice\n  padding layers: ", report)
            self.assertIn(f"no setting frees these {bytes_freed:,} B", report)

    def test_a_comparison_has_the_advice_on_the_plan_too(self):
        options = ("--kv-budget", "60GiB", "--max-model-len", "8192", "--tp", "32",
                   "--compare-engines")
        advice = self.kvplan("plan", LLAMA, *options, "--json").document()["kvpool"]["advice"]
        self.assertEqual({item["id"] for item in advice}, {"kv_heads_replicated"})
        self.assertIn("kv heads replicated", self.kvplan("plan", LLAMA, *options).out)

    def test_the_report_says_that_it_is_no_plan(self):
        outcome = self.kvplan("plan", LLAMA, "--gpu", "h200", "--engine", "sglang",
                              "--max-model-len", "8192")
        self.assertEqual((outcome.code, outcome.err), (0, ""))
        self.assertIn("nothing can be allocated from it", " ".join(outcome.out.split()))
        self.assertIn("mem_fraction_static", outcome.out)
        self.assertLessEqual(max(map(len, outcome.out.splitlines())), 120)

    def test_options_that_nobody_would_read_are_refused(self):
        base = ("plan", LLAMA, "--gpu", "h200")
        self.assert_usage(self.kvplan(*base, "--engine-option", "token_report=blocks"),
                          "give --engine or --compare-engines")
        self.assert_usage(self.kvplan(*base, "--engine", "vllm", "--compare-engines"),
                          "exclude each other")
        for name in ("sglang", "trtllm", "llamacpp"):
            self.assert_usage(self.kvplan(*base, "--engine", name, "--gpu-memory-utilization",
                                          "0.9"), "mem_fraction_static")

    def test_unknown_engines_are_refused(self):
        outcome = self.kvplan("plan", LLAMA, "--gpu", "h200", "--engine", "ollama")
        self.assertEqual((outcome.code, outcome.out), (3, ""))
        self.assertIn("ik_llamacpp", outcome.err)
        outcome = self.kvplan("explain", LLAMA, "--gpu", "h200", "--engine", "vllm")
        self.assertEqual(outcome.code, 3)
        self.assert_usage(self.kvplan("plan", LLAMA, "--gpu", "h200", "--engine", "vllm",
                                      "--engine-version", "main"), "0.20.1")


if __name__ == "__main__":
    unittest.main()
