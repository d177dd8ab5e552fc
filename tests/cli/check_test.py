# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""`kvplan check`: what engines printed, against what their arithmetic predicts."""

import json
import time
import unittest

from kvplan_case import CONFIGS, SOURCE_DIR, KvplanCase

OWN = sorted((SOURCE_DIR / "tests" / "data" / "cases").glob("*.jsonl"))
SHARED = SOURCE_DIR.parent / "shared"

GOOD = {"id": "good", "engine": "vllm", "model": "llama-3.1-8b.json", "model_overrides": {},
        "drafter": None, "deployment": {"kv_dtype": "bf16", "tokens_per_block": 16,
                                        "token_report": "blocks", "max_model_len": 320},
        "given": {"num_blocks": 100}, "expect": {"kv_tokens": 1600, "max_concurrency": "5.00"},
        "tolerance": {}, "note": None}


class Check(KvplanCase):
    def check(self, *cases, options=()):
        text = "\n".join(c if isinstance(c, str) else json.dumps(c) for c in cases)
        path = self.write("cases.jsonl", text)
        return self.kvplan("check", "--configs", CONFIGS, "--cases", path, *options)

    def test_the_own_cases_hold(self):
        self.assertEqual(len(OWN), 3)
        arguments = [part for path in OWN for part in ("--cases", path)]
        outcome = self.kvplan("check", "--configs", CONFIGS, *arguments)
        lines = outcome.out.splitlines()
        self.assertEqual([line for line in lines[:-2] if not line.startswith("ok ")], [])
        self.assertEqual((outcome.code, lines[-1]), (0, f"{len(lines) - 2} cases: "
                                                        f"{len(lines) - 2} ok"))
        self.assertGreater(len(lines), 200)

    def test_the_published_cases_hold_within_a_second(self):
        cases = sorted((SHARED / "cases").glob("*.jsonl"))
        if not cases:
            self.skipTest(f"no cases at {SHARED}")
        arguments = [part for path in cases for part in ("--cases", path)]
        start = time.monotonic()
        outcome = self.kvplan("check", "--configs", SHARED / "configs", *arguments)
        self.assertLess(time.monotonic() - start, 1.0)
        self.assertEqual([line for line in outcome.out.splitlines()[:-2]
                          if not line.startswith("ok ")], [])
        self.assertEqual(outcome.code, 0)

    def test_a_figure_that_differs_fails_its_case(self):
        wrong = {**GOOD, "id": "wrong", "expect": {"kv_tokens": 1601, "max_concurrency": "5.00",
                                                   "needed_gib": "0.05", "mla_gib": "1.00"}}
        outcome = self.check(GOOD, wrong)
        self.assertEqual(outcome.code, 1)
        self.assertEqual(outcome.out.splitlines(), [
            "ok    good",
            "FAIL  wrong: kv_tokens: predicted 1600, printed 1601; mla_gib: predicted nothing, "
            "printed 1.00; needed_gib: predicted 0.04, printed 0.05",
            "", "2 cases: 1 ok, 1 FAIL"])
        self.assertEqual(outcome.err, "")

    def test_every_decimal_that_was_printed_counts(self):
        for printed, code in (("5", 0), ("5.0", 0), ("5.000", 0), ("5.001", 1), ("05.00", 1)):
            with self.subTest(printed):
                case = {**GOOD, "expect": {"max_concurrency": printed}}
                self.assertEqual(self.check(case).code, code)

    def test_a_line_that_is_not_understood_is_named_and_the_rest_is_checked(self):
        unknown = {**GOOD, "id": "odd", "deployment": {"token_raport": "blocks"}}
        outcome = self.check(unknown, "{", GOOD, {**GOOD, "id": "v4",
                                                  "model": "deepseek-v4-flash.json"})
        self.assertEqual(outcome.code, 3)
        lines = outcome.out.splitlines()
        self.assertIn("ERROR odd: ", lines[0])
        self.assertIn("cases.jsonl:1: deployment.token_raport: unknown key; did you mean "
                      "'token_report'?", lines[0])
        self.assertIn("cases.jsonl:2: ", lines[1])
        self.assertEqual(lines[2], "ok    good")
        self.assertIn("cases.jsonl:4: model deepseek-v4-flash.json: compress_ratios", lines[3])
        self.assertEqual(lines[-1], "4 cases: 1 ok, 3 not understood")

    def test_a_setting_that_the_engine_refuses_is_named(self):
        outcome = self.check({**GOOD, "given": {"cells": 3}},
                             {**GOOD, "given": {"kv_tokens": 1601}},
                             {**GOOD, "deployment": {**GOOD["deployment"], "tp": 0}})
        self.assertEqual(outcome.code, 3)
        for line, key in zip(outcome.out.splitlines(), ("given", "given.kv_tokens", "tp")):
            self.assertIn(f": {key}: ", line)

    def test_json_is_one_document_at_every_outcome(self):
        document = self.check(GOOD, options=("--json",)).document()
        self.assertEqual((document["schema"], document["agrees"]), ("kvpool.check/1", True))
        self.assertEqual(document["cases"][0]["figures"], [
            {"key": "kv_tokens", "agrees": True, "predicted": "1600", "printed": "1600"},
            {"key": "max_concurrency", "agrees": True, "predicted": "5.00", "printed": "5.00"}])
        outcome = self.check({**GOOD, "expect": {"kv_tokens": 1}}, "[]", options=("--json",))
        document = outcome.document()
        self.assertEqual(outcome.code, 3)
        self.assertEqual([document[key] for key in ("cases_ok", "cases_failed",
                                                    "cases_not_understood")], [0, 1, 1])
        self.assertEqual(document["cases"][1]["line"], 2)
        self.assertIn(":2", document["cases"][1]["error"]["file"])

    def test_files_and_options_that_are_missing(self):
        self.assert_usage(self.kvplan("check"), "--configs")
        self.assert_usage(self.kvplan("check", "--configs", CONFIGS), "--cases")
        self.assert_usage(self.kvplan("check", "cases.jsonl"), "takes no argument")
        outcome = self.kvplan("check", "--configs", CONFIGS, "--cases", "nowhere.jsonl")
        self.assertEqual((outcome.code, outcome.out), (3, ""))
        self.assertIn("nowhere.jsonl", outcome.err)
        outcome = self.check("", options=("--json",))
        self.assertEqual(outcome.code, 3)
        self.assertIn("no cases", outcome.document()["error"]["message"])

    def test_hostile_lines_end_in_an_error_quickly(self):
        lines = ["\x00\x01", "{" * 10_000, json.dumps({**GOOD, "given": {"num_blocks": 10**30}}),
                 json.dumps({**GOOD, "model_overrides": {"num_hidden_layers": 10**12}}),
                 json.dumps({**GOOD, "model_overrides": {"num_hidden_layers": 100_000,
                                                         "head_dim": 1_048_576},
                             "given": {"num_blocks": 2**40}}),
                 json.dumps({**GOOD, "expect": {"kv_tokens": "9" * 400}}),
                 json.dumps({**GOOD, "model": "../" * 40 + "etc/passwd"}), "null", "\"\x1b[31m\""]
        start = time.monotonic()
        outcome = self.check(*lines)
        self.assertLess(time.monotonic() - start, 5.0)
        self.assertEqual(outcome.code, 3)
        self.assertEqual(outcome.out.splitlines()[-1], f"{len(lines)} cases: 0 ok, "
                                                       f"{len(lines)} not understood")
        self.assertNotIn("\x1b", outcome.out)


if __name__ == "__main__":
    unittest.main()
