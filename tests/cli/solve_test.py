# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""kvplan solve: answers on both sides of their limit, texts, documents, exit codes."""

import os
import unittest

from kvplan_case import CONFIGS, DSPARK, KIMI, LLAMA, LLAMA_70B, KvplanCase


class Solve(KvplanCase):
    def answers(self, *arguments, code=0):
        outcome = self.kvplan("solve", *arguments, "--json")
        self.assertEqual(outcome.code, code, outcome.out + outcome.err)
        document = outcome.document()
        self.assertEqual(document["schema"], "kvpool.solve/1")
        return {answer["question"]: answer for answer in document["answers"]}

    def fits(self, *arguments):
        return self.plan(*arguments)["fits"]

    def test_the_answers_options_fit_and_the_next_step_does_not(self):
        base = [LLAMA_70B, "--gpu", "h200", "-tp", "2"]
        length = self.answers(*base, "--max-num-seqs", 8, "--find", "max-model-len")
        value = length["max_model_len"]["value"]
        asked = [*base, "--max-num-seqs", 8, "--max-model-len"]
        self.assertEqual(length["max_model_len"]["options"], f"--max-model-len {value}")
        self.assertTrue(self.fits(*asked, value))
        self.assertFalse(self.fits(*asked, value + 1))

        most = self.answers(*base, "--max-model-len", 20000, "--find", "max-num-seqs")
        value = most["max_num_seqs"]["value"]
        asked = [*base, "--max-model-len", 20000, "--max-num-seqs"]
        self.assertTrue(self.fits(*asked, value))
        self.assertFalse(self.fits(*asked, value + 1))

        share = self.answers(*base, "--max-model-len", 20000, "--max-num-seqs", 4, "--find",
                             "gpu-memory-utilization")["gpu_memory_utilization"]
        asked = [*base, "--max-model-len", 20000, "--max-num-seqs", 4]
        self.assertTrue(self.fits(*asked, *share["options"].split()))
        less = f"{(share['value'] - 1) / 1e6:.6f}"
        self.assertFalse(self.fits(*asked, "--gpu-memory-utilization", less))

    def test_reliefs_give_what_they_say(self):
        answer = self.answers(LLAMA_70B, "--gpu", "h200", "-tp", "2", "--max-model-len", 30000,
                              "--find", "max-num-seqs")["max_num_seqs"]
        relief = next(r for r in answer["reliefs"] if r["change"] == "--kv-cache-dtype fp8")
        self.assertGreater(relief["value"], answer["value"])
        asked = [LLAMA_70B, "--gpu", "h200", "-tp", "2", "--max-model-len", 30000,
                 "--kv-cache-dtype", "fp8", "--max-num-seqs"]
        self.assertTrue(self.fits(*asked, relief["value"]))
        self.assertFalse(self.fits(*asked, relief["value"] + 1))

    def test_all_questions_that_apply_are_answered(self):
        answers = self.answers(LLAMA, "--gpu", "h200")
        self.assertEqual(list(answers), ["max_model_len", "max_num_seqs", "gpus",
                                         "gpu_memory_utilization", "kv_cache_dtype", "page_size"])
        answers = self.answers(KIMI, "--drafter", DSPARK, "-tp", "16", "--kv-budget", "40GiB",
                               "--max-model-len", "64k")
        self.assertNotIn("gpu_memory_utilization", answers)
        self.assertIn("drafter", answers)
        self.assertIn("num_draft_tokens", answers)
        fast = next(f for f in answers["num_draft_tokens"]["figures"] if f["name"] == "fast_path")
        self.assertLess(fast["value"], answers["num_draft_tokens"]["value"])

    def test_lengths_as_percentiles_and_as_a_file(self):
        base = [LLAMA, "--kv-budget", "8GiB", "--find", "max-num-seqs"]
        even = self.answers(*base, "--lengths", "p50=1000,max=8000")["max_num_seqs"]["value"]
        path = self.write("lengths.txt", "# two halves\n1000\n\n8k   # the long one\n")
        self.assertEqual(self.answers(*base, "--lengths", path)["max_num_seqs"]["value"], even)
        longest = self.answers(*base, "--max-model-len", 8000)["max_num_seqs"]["value"]
        self.assertGreater(even, longest)

    def test_bad_lengths_say_where(self):
        base = ["solve", LLAMA, "--gpu", "h200"]
        self.assert_usage(self.kvplan(*base, "--lengths", "p50=4k,p40=8k"), "--lengths", "ascend")
        path = self.write("lengths.txt", "100\n\nmany\n")
        outcome = self.kvplan(*base, "--lengths", path, "--json")
        self.assertEqual(outcome.code, 3)
        self.assertIn("line 3", outcome.document()["error"]["message"])
        outcome = self.kvplan(*base, "--lengths", "nowhere.txt")
        self.assertEqual((outcome.code, outcome.out), (3, ""))
        self.assertIn("no such file", outcome.err)

    def test_candidates_are_drafters_to_choose_from(self):
        eagle = str(CONFIGS / "eagle3-llama-8b.json")
        dflash = str(CONFIGS / "dflash-5-full.json")
        answer = self.answers(LLAMA, "--kv-budget", "8GiB", "--max-model-len", "16k", "--find",
                              "drafter", "--candidate", eagle, "--candidate", dflash)["drafter"]
        self.assertEqual([c["name"] for c in answer["candidates"]], [eagle, dflash])
        self.assertTrue(answer["found"])
        self.assertEqual(answer["options"], f"--drafter {dflash}")

    def test_exit_codes(self):
        small = ["solve", LLAMA, "--kv-budget", "8MiB", "--find", "max-model-len"]
        self.assertEqual(self.kvplan(*small).code, 1)
        self.assertIn("none fits", self.kvplan(*small).out)
        refused = ["solve", KIMI, "--kv-budget", "8GiB", "--kv-cache-dtype", "fp4_mla", "--find",
                   "max-model-len"]
        self.assertEqual(self.kvplan(*refused).code, 3)
        self.assert_usage(self.kvplan("solve", LLAMA, "--gpu", "h200", "--find", "max-model-lne"),
                          "did you mean 'max-model-len'")
        self.assert_usage(self.kvplan("solve", LLAMA, "--gpu", "h200", "--max-gpus", "0"),
                          "--max-gpus")
        outcome = self.kvplan("solve", LLAMA, "--kv-budget", "8GiB", "--find",
                              "gpu-memory-utilization", "--json")
        self.assertEqual(outcome.code, 3)
        self.assertEqual(outcome.document()["error"]["key"], "kv_budget")
        self.assertEqual(self.kvplan("solve", str(self.scratch / "none.json"), "--json").code, 3)

    def test_text_is_plain_and_narrow(self):
        env = {**os.environ, "TERM": "xterm-256color"}
        for command in [["solve", LLAMA, "--gpu", "h200"],
                        ["solve", KIMI, "--drafter", DSPARK, "-tp", "16", "--gpu", "gb200"],
                        ["plan", LLAMA_70B, "--gpu", "h200", "-tp", "16", "--lengths",
                         "p50=100,max=1000"]]:
            outcome = self.kvplan(*command, env=env)
            self.assertNotIn("\x1b", outcome.out)
            self.assertTrue(outcome.out.isascii())
            self.assertFalse([l for l in outcome.out.splitlines() if l != l.rstrip()])
            self.assertLessEqual(max(map(len, outcome.out.splitlines())), 120)


class Advice(KvplanCase):
    ARGUMENTS = [str(CONFIGS / "deepseek-v3.json"), "-tp", "8", "--kv-budget", "40GiB",
                 "--max-num-seqs", "8", "--max-model-len", "32k"]

    def test_plan_and_explain_show_the_same_advice(self):
        document = self.plan(*self.ARGUMENTS)
        advice = next(a for a in document["advice"] if a["id"] == "latent_replicated")
        self.assertGreater(advice["frees_bytes"], 0)
        for command in ["plan", "explain"]:
            text = self.kvplan(command, *self.ARGUMENTS).out
            self.assertIn("\nAdvice\n", text)
            self.assertIn(f"{advice['change']} frees {advice['frees_bytes']:,} B", text)

    def test_what_is_freed_is_what_planning_both_ways_says(self):
        advice = next(a for a in self.plan(*self.ARGUMENTS)["advice"]
                      if a["id"] == "latent_replicated")

        def needed(*changes):
            return self.plan(self.ARGUMENTS[0], *changes)["refusals"][0]["missing_bytes"]

        before = needed("-tp", 8, "--kv-budget", 0, "--max-num-seqs", 8, "--max-model-len", "32k")
        change = advice["change"].split()
        sequences = [] if "--max-num-seqs" in change else ["--max-num-seqs", 8]
        after = needed("-tp", 8, "--kv-budget", 0, *sequences, "--max-model-len", "32k", *change)
        self.assertEqual(before - after, advice["frees_bytes"])

    def test_a_plan_with_advice_is_read_back(self):
        path = self.write("plan.json", self.kvplan("plan", *self.ARGUMENTS, "--json").raw)
        outcome = self.kvplan("diff", path, path)
        self.assertEqual(outcome.code, 0, outcome.err)


if __name__ == "__main__":
    unittest.main()
