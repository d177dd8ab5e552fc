# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""kvplan lint: configs, checkpoints and deployments."""

import json
import re
import shutil
import unittest

from kvplan_case import DSPARK, KIMI, LLAMA, KvplanCase

CLEAN = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
         "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
         "intermediate_size": 128, "vocab_size": 256, "torch_dtype": "bfloat16",
         "max_position_embeddings": 4096, "tie_word_embeddings": False}


class Lint(KvplanCase):
    def lint(self, *arguments):
        """Exit code and findings as (kind, key)."""
        outcome = self.kvplan("lint", *arguments, "--json")
        self.assertIn(outcome.code, (0, 1), outcome.err)
        document = outcome.document()
        self.assertEqual(document["schema"], "kvpool.lint/1")
        self.assertEqual(document["clean"], outcome.code == 0)
        self.assertEqual(document["clean"], document["findings"] == [])
        self.findings = document["findings"]
        return outcome.code, [(f["kind"], f["key"]) for f in document["findings"]]

    def model(self, name="model.json", **keys):
        return self.write(name, json.dumps({**CLEAN, **keys}))

    def test_a_clean_config_ends_with_0(self):
        self.assertEqual(self.lint(self.model()), (0, []))
        outcome = self.kvplan("lint", self.model())
        self.assertEqual((outcome.code, outcome.err), (0, ""))
        self.assertTrue(outcome.out.startswith("CLEAN"))

    def test_findings_end_with_1_and_say_kind_file_and_key(self):
        path = self.model(hyper_fold=3, dtype="float16")
        self.assertEqual(self.lint(path), (1, [("not_understood", "hyper_fold"),
                                               ("contradictory", "torch_dtype")]))
        self.assertEqual({f["file"] for f in self.findings}, {path})
        outcome = self.kvplan("lint", path)
        self.assertEqual((outcome.code, outcome.err), (1, ""))
        for part in ["2 findings", "not understood", "hyper_fold = 3", "contradictory"]:
            self.assertIn(part, outcome.out)

    def test_kinds_can_be_allowed(self):
        path = self.model(hyper_fold=3, head_dim=None)
        self.assertEqual(self.lint(path)[1], [("not_understood", "hyper_fold"),
                                              ("defaulted", "hidden_size")])
        self.assertEqual(self.lint(path, "--allow", "defaulted")[1],
                         [("not_understood", "hyper_fold")])
        self.assertEqual(self.lint(path, "--allow=defaulted", "--allow=not-understood"), (0, []))
        self.assert_usage(self.kvplan("lint", path, "--allow", "defaultd"),
                          "did you mean 'defaulted'?")

    def test_a_refused_config_is_a_finding_and_a_missing_one_an_error(self):
        self.assertEqual(self.lint(self.model(num_hidden_layers=-1)),
                         (1, [("contradictory", "num_hidden_layers")]))
        self.assertEqual(self.lint(self.write("broken.json", "{")), (1, [("contradictory", "")]))
        outcome = self.kvplan("lint", self.scratch / "none.json", "--json")
        self.assertEqual(outcome.code, 3)
        self.assertEqual(outcome.document()["schema"], "kvpool.lint/1")
        self.assert_usage(self.kvplan("lint"), "INPUT is missing")

    def test_names_are_linted_too(self):
        code, findings = self.lint("Qwen/Qwen3-8B", "--allow", "defaulted")
        self.assertEqual((code, findings), (0, []))

    def deployment(self, text):
        return self.write("deployment.toml", text)

    def test_every_mistake_of_a_deployment_is_found_with_its_place(self):
        self.model()
        path = self.deployment('model = "model.json"\ntensor_paralel_size = 2\ngpu = "h20"\n'
                               'max_num_seqs = "many"\nkv_cache_dtype = "fp8"\n')
        code, findings = self.lint(path, "--allow", "defaulted")
        self.assertEqual(code, 1)
        self.assertEqual(findings[:3], [("not_understood", "tensor_paralel_size"),
                                        ("contradictory", "gpu"),
                                        ("contradictory", "max-num-seqs")])
        places = [re.match(r"line (\d+), column (\d+)", f["message"]) for f in self.findings[:3]]
        self.assertEqual([place.groups() for place in places],
                         [("2", "1"), ("3", "7"), ("4", "16")])
        self.assertIn("did you mean 'tensor-parallel-size'?", self.findings[0]["message"])

    def test_what_a_deployment_asks_for_must_go_together(self):
        self.model()
        base = 'model = "model.json"\nmax_num_seqs = 1\nkv_cache_dtype = "bf16"\n'
        for more, key, message in [
                ('gpu = "h200"\nmax_model_len = 8192\nhost_engine = "vllm"\n', "max_model_len",
                 "longest position"),
                ('kv_budget = "1GiB"\nweights = "1GiB"\nmax_model_len = 4096\n', "",
                 "--weights: not used"),
                ('gpu = "h100"\ngpu_memory = "80GiB"\noverhead = "1GiB"\nmax_model_len = 4096\n',
                 "gpu_memory", "marketed memory"),
                ('kv_budget = "1MiB"\nmax_model_len = 4096\n', "does_not_fit", "least that works"),
                ('max_model_len = 4096\nhost_engine = "vllm"\n', "gpu", "--kv-budget")]:
            with self.subTest(more=more):
                code, findings = self.lint(self.deployment(base + more))
                self.assertEqual(code, 1)
                self.assertIn(("contradictory", key), findings)
                self.assertIn(message, " ".join(f["message"] for f in self.findings))
        self.assertEqual(self.lint(self.deployment(
            base + 'kv_budget = "1GiB"\nmax_model_len = 4096\n')), (0, []))

    def test_what_a_deployment_leaves_out_is_defaulted(self):
        self.model()
        code, findings = self.lint(self.deployment('model = "model.json"\ngpu = "h200"\n'))
        self.assertEqual((code, findings), (1, [("defaulted", "max_num_seqs"),
                                                ("defaulted", "max_model_len"),
                                                ("defaulted", "kv_cache_dtype"),
                                                ("defaulted", "host_engine")]))

    def test_the_model_and_the_drafter_of_a_deployment_are_linted(self):
        shutil.copy(KIMI, self.scratch / "target.json")
        shutil.copy(DSPARK, self.scratch / "draft.json")
        code, _ = self.lint(self.deployment('model = "target.json"\ndrafter = "draft.json"\n'
                                            'tp = 16\ngpu = "gb200"\n'))
        self.assertEqual(code, 1)
        files = {f["file"].rsplit("/", 1)[-1] for f in self.findings}
        self.assertLessEqual(files, {"deployment.toml", "target.json", "draft.json"})

    def test_a_deployment_without_a_model_says_so(self):
        self.assertEqual(self.lint(self.deployment('gpu = "h200"\n')),
                         (1, [("not_understood", "model")]))
        outcome = self.kvplan("lint", self.deployment("gpu = \n"))
        self.assertEqual(outcome.code, 3)
        self.assertIn("line 1", outcome.err)


if __name__ == "__main__":
    unittest.main()
