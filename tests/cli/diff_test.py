# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""kvplan diff: what differs between two plans or deployments."""

import json
import os
import unittest

from kvplan_case import DSPARK, KIMI, LLAMA, LLAMA_70B, KvplanCase


class Diff(KvplanCase):
    def document(self, name, *arguments):
        return self.write(name, self.kvplan("plan", *arguments, "--json").raw)

    def deployment(self, name, model, **keys):
        lines = [f'model = "{model}"']
        lines += [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        return self.write(name, "\n".join(lines) + "\n")

    def differences(self, first, second, code=1):
        outcome = self.kvplan("diff", first, second, "--json")
        self.assertEqual(outcome.code, code, outcome.err)
        document = outcome.document()
        self.assertEqual(document["schema"], "kvpool.diff/1")
        self.assertEqual(document["equal"], code == 0)
        return {(d["area"], d["key"]): d for d in document["differences"]}

    def test_equal_plans(self):
        plan = self.document("plan.json", LLAMA, "--gpu", "h200", "-tp", "2")
        toml = self.deployment("deployment.toml", LLAMA, gpu="h200", tp=2)
        for first, second in [(plan, plan), (toml, toml), (plan, toml), (toml, plan)]:
            self.assertEqual(self.differences(first, second, code=0), {})
            self.assertEqual(self.kvplan("diff", first, second).out, "EQUAL: the same plan\n")

    def test_options_pools_ledger_and_capacity(self):
        before = self.document("a.json", LLAMA_70B, "-tp", "4", "--gpu", "h200")
        after = self.deployment("b.toml", LLAMA_70B, tp=8, gpu="h200", kv_cache_dtype="fp8")
        found = self.differences(before, after)
        tensor = found["options", "parallelism.tensor"]
        self.assertEqual((tensor["a"], tensor["b"], tensor["change"]), (4, 8, 4))
        self.assertEqual(found["options", "kv_dtype"]["a"], None)
        self.assertEqual(found["options", "kv_dtype"]["b"], "fp8_e4m3")
        # Half the heads of half the bytes.
        page = found["pools", "target/full.page_bytes"]
        self.assertEqual(page["a"], 4 * page["b"])
        self.assertIn(("ledger", "weights.bytes"), found)
        tokens = found["outcome", "capacity.tokens"]
        self.assertEqual(tokens["change"], tokens["b"] - tokens["a"])
        self.assertNotIn("model", {area for area, _ in found})

    def test_a_drafter_and_another_model(self):
        alone = self.document("alone.json", KIMI, "-tp", "16", "--gpu", "gb200")
        both = self.document("both.json", KIMI, "-tp", "16", "--gpu", "gb200", "--drafter", DSPARK)
        found = self.differences(alone, both)
        self.assertIsNone(found["pools", "draft/full.page_bytes"]["a"])
        self.assertTrue(any(area == "decisions" and key.startswith("draft_page_size/draft")
                            for area, key in found))
        self.assertTrue(any(area == "model" and key.startswith("drafter.")
                            for area, key in found))
        other = self.document("other.json", LLAMA, "--gpu", "gb200")
        self.assertTrue(any(area == "model" for area, _ in self.differences(alone, other)))

    def test_fitting_and_not_fitting(self):
        fits = self.document("fits.json", LLAMA_70B, "-tp", "4", "--gpu", "h100")
        lacks = self.document("lacks.json", LLAMA_70B, "--gpu", "h100")
        found = self.differences(fits, lacks)
        self.assertEqual((found["outcome", "fits"]["a"], found["outcome", "fits"]["b"]),
                         (True, False))
        self.assertIn(("refusals", "does_not_fit.missing_bytes"), found)

    def test_the_report(self):
        before = self.document("a.json", KIMI, "-tp", "16", "--gpu", "gb200")
        after = self.document("b.json", KIMI, "-tp", "16", "--gpu", "gb200", "--drafter", DSPARK)
        outcome = self.kvplan("diff", before, after, env={**os.environ, "TERM": "xterm"})
        self.assertEqual((outcome.code, outcome.err), (1, ""))
        self.assertTrue(outcome.out.startswith("DIFFERENT: "))
        for heading in ("Options", "Pools", "Ledger", "Decisions", "Outcome"):
            self.assertIn(f"\n{heading}\n", outcome.out)
        self.assertNotIn("\x1b", outcome.out)
        self.assertTrue(outcome.out.isascii())
        self.assertLessEqual(max(map(len, outcome.out.splitlines())), 140)

    def test_mistakes(self):
        plan = self.document("plan.json", LLAMA, "--gpu", "h200")
        self.assert_usage(self.kvplan("diff", plan), "takes A and B")
        self.assert_usage(self.kvplan("diff", plan, plan, plan), "takes A and B")
        self.assert_usage(self.kvplan("diff", plan, plan, "--gpu", "h200"), "--gpu")
        for bad in [str(self.scratch / "none.json"), LLAMA, self.write("x.toml", "tpp = 4\n")]:
            outcome = self.kvplan("diff", plan, bad, "--json")
            self.assertEqual(outcome.code, 3, outcome.err)
            self.assertEqual(outcome.document()["schema"], "kvpool.diff/1")
            self.assertIn(bad, outcome.err)


if __name__ == "__main__":
    unittest.main()
