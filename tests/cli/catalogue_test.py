# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""Names instead of paths: the catalogue, the hub cache; lists of models and GPUs."""

import json
import os
import pathlib
import re
import shutil
import time
import unittest

from kvplan_case import CONFIGS, LLAMA, SOURCE_DIR, KvplanCase

ENTRIES = SOURCE_DIR / "planner_cli" / "catalogue" / "entries"
SHARED = SOURCE_DIR.parent / "shared" / "configs"


class Models(KvplanCase):
    def models(self, *arguments):
        outcome = self.kvplan("models", "--json", *arguments)
        self.assertEqual((outcome.code, outcome.err), (0, ""))
        document = outcome.document()
        self.assertEqual(document["schema"], "kvpool.models/1")
        return document["models"]

    def test_at_least_thirty_targets_and_drafters_of_each_kind_are_known(self):
        kinds = [model["kind"] for model in self.models()]
        self.assertGreaterEqual(kinds.count("target"), 60)
        for kind, least in [("eagle3", 15), ("dflash", 4), ("dspark", 4), ("domino", 1),
                            ("peagle", 1)]:
            self.assertGreaterEqual(kinds.count(kind), least, kind)

    def test_every_model_has_its_figures_and_their_source(self):
        for model in self.models():
            with self.subTest(model=model["name"]):
                self.assertRegex(model["name"], r"^[\w.-]+/[\w.-]+$")
                self.assertTrue(model["source"].startswith("https://"))
                self.assertGreater(model["parameters"], 10**6)
                self.assertGreater(model["estimated_weight_bytes"], 10**6)
                self.assertNotEqual(model["layers"], "")

    def test_figures_are_those_of_the_published_models(self):
        known = {model["name"]: model for model in self.models()}
        for name, billions, longest in [("meta-llama/Llama-3.1-70B-Instruct", 70.6, 131072),
                                        ("Qwen/Qwen3-8B", 8.2, 40960),
                                        ("openai/gpt-oss-120b", 117, 131072),
                                        ("moonshotai/Kimi-K2-Instruct", 1030, 131072)]:
            self.assertAlmostEqual(known[name]["parameters"] / 1e9 / billions, 1, delta=0.03)
            self.assertEqual(known[name]["max_model_len"], longest)

    def test_a_text_narrows_the_list(self):
        names = [model["name"] for model in self.models("qwen3 8b")]
        self.assertIn("Qwen/Qwen3-8B", names)
        self.assertTrue(all("qwen3-8b" in name.lower() for name in names), names)
        self.assertEqual(self.models("no such model"), [])
        self.assertIn("No name contains", self.kvplan("models", "zzz").out)

    def test_the_report_has_a_line_for_every_model(self):
        outcome = self.kvplan("models")
        self.assertEqual((outcome.code, outcome.err), (0, ""))
        for model in self.models():
            self.assertIn(model["name"], outcome.out)

    def test_every_name_plans_like_its_entry(self):
        for model in self.models():
            with self.subTest(model=model["name"]):
                document = self.plan(model["name"], "--kv-budget", "4TiB")
                self.assertEqual(document["request"]["target"]["name"], model["name"])
                self.assertNotIn("error", document)

    def test_entries_say_what_their_sources_say(self):
        if not SHARED.is_dir():
            self.skipTest("no folder of real configs beside the source tree")
        seen = 0
        for path in sorted(ENTRIES.glob("*.json")):
            for source in [SHARED / path.name, SHARED / "drafts" / path.name]:
                if not source.is_file():
                    continue
                seen += 1
                entry = json.loads(path.read_text())
                alone = self.write("model.json", json.dumps(entry["config"]))
                mine = self.plan(alone, "--kv-budget", "4TiB")["request"]["target"]
                shutil.copy(source, alone)
                theirs = self.plan(alone, "--kv-budget", "4TiB")["request"]["target"]
                self.assertEqual(mine, theirs, path.name)
        self.assertGreater(seen, 60)

    def test_names_need_no_owner_and_no_exact_spelling(self):
        first = self.plan("Qwen/Qwen3-8B", "--gpu", "h200")
        for name in ["Qwen3-8B", "qwen3_8b", "QWEN/qwen3-8b"]:
            self.assertEqual(self.plan(name, "--gpu", "h200"), first)

    def test_a_drafter_may_be_a_name(self):
        document = self.plan("Qwen/Qwen3-8B", "--drafter", "SpecForge/qwen3-8b-dflash", "--gpu",
                             "h200")
        self.assertIn("draft", [pool["role"] for pool in document["pools"]])

    def test_a_mistyped_name_gets_the_nearest(self):
        outcome = self.kvplan("plan", "Qwen/Qwen3-8BB", "--gpu", "h200")
        self.assertEqual(outcome.code, 3)
        self.assertIn("did you mean 'Qwen/Qwen3-8B'?", outcome.err)
        self.assertIn("kvplan models", outcome.err)

    def test_a_path_wins_over_a_name(self):
        shutil.copy(LLAMA, self.scratch / "Qwen3-8B")
        outcome = self.kvplan("plan", "Qwen3-8B", "--gpu", "h200", "--json", cwd=self.scratch)
        self.assertEqual(outcome.document()["request"]["target"]["model_type"], "llama")


class HubCache(KvplanCase):
    def setUp(self):
        super().setUp()
        self.hub = self.scratch / "hub"
        self.snapshot = self.hub / "models--me--my-model" / "snapshots" / ("a" * 40)
        self.snapshot.mkdir(parents=True)
        shutil.copy(LLAMA, self.snapshot / "config.json")

    def plan_in(self, name, **variables):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.scratch / "home"), **variables}
        return self.kvplan("plan", name, "--gpu", "h200", "--json", env=environment)

    def test_a_name_is_looked_up_where_the_environment_says(self):
        default = self.scratch / "home" / ".cache" / "huggingface" / "hub"
        for variables in [{"HF_HUB_CACHE": str(self.hub)}, {"HF_HOME": str(self.scratch)}]:
            outcome = self.plan_in("me/my-model", **variables)
            self.assertEqual(outcome.code, 0, outcome.err)
            self.assertEqual(outcome.document()["request"]["target"]["name"], "me/my-model")
        self.assertEqual(self.plan_in("me/my-model").code, 3)
        default.parent.mkdir(parents=True)
        self.hub.rename(default)
        self.assertEqual(self.plan_in("me/my-model").code, 0)
        self.assertEqual(self.plan_in("me/my-model", HF_HOME=str(self.scratch / "x")).code, 3)

    def test_the_snapshot_of_refs_main_counts(self):
        other = self.snapshot.parent / ("b" * 40)
        shutil.copytree(self.snapshot, other)
        (other / "config.json").write_text(
            pathlib.Path(LLAMA).read_text().replace('"num_hidden_layers": 32',
                                                    '"num_hidden_layers": 16'))
        # Two snapshots and nothing that says which.
        self.assertEqual(self.plan_in("me/my-model", HF_HUB_CACHE=str(self.hub)).code, 3)
        refs = self.hub / "models--me--my-model" / "refs"
        refs.mkdir()
        for revision, layers in [("a" * 40, 32), ("b" * 40 + "\n", 16)]:
            (refs / "main").write_text(revision)
            outcome = self.kvplan("plan", "me/my-model", "--gpu", "h200",
                                  env={"HF_HUB_CACHE": str(self.hub)})
            self.assertEqual(outcome.code, 0, outcome.err)
            self.assertIn(f"me/my-model (llama): {layers} x 8 KV heads x 128", outcome.out)
        (refs / "main").write_text("../../../../etc")
        self.assertEqual(self.plan_in("me/my-model", HF_HUB_CACHE=str(self.hub)).code, 3)

    def test_no_name_leads_out_of_the_cache(self):
        for name in ["../../etc/passwd", "me/../my-model", "me/my-model/x", ".../x", "me/", "/x"]:
            outcome = self.plan_in(name, HF_HUB_CACHE=str(self.hub))
            self.assertIn(outcome.code, (3, 4), name)

    def test_a_cached_checkpoint_wins_over_the_catalogue(self):
        folder = self.hub / "models--Qwen--Qwen3-8B" / "snapshots" / ("c" * 40)
        folder.mkdir(parents=True)
        shutil.copy(LLAMA, folder / "config.json")
        outcome = self.plan_in("Qwen/Qwen3-8B", HF_HUB_CACHE=str(self.hub))
        self.assertEqual(outcome.document()["request"]["target"]["model_type"], "llama")


class Gpus(KvplanCase):
    def gpus(self, *arguments):
        outcome = self.kvplan("gpus", "--json", *arguments)
        self.assertEqual((outcome.code, outcome.err), (0, ""))
        document = outcome.document()
        self.assertEqual(document["schema"], "kvpool.gpus/1")
        return {gpu["name"]: gpu for gpu in document["gpus"]}

    def test_three_totals_are_told_apart(self):
        gpus = self.gpus()
        self.assertGreaterEqual(len(gpus), 21)
        b300 = gpus["b300"]
        self.assertEqual(b300["marketed_bytes"], 288 * 10**9)
        self.assertEqual(b300["nvidia_smi_bytes"], 275040 * 2**20)
        self.assertEqual(b300["cuda_visible_low_bytes"], 26769 * 2**30 // 100)
        for gpu in gpus.values():
            self.assertLessEqual(gpu["cuda_visible_low_bytes"], gpu["cuda_visible_high_bytes"])

    def test_every_gpu_plans(self):
        for name in self.gpus():
            document = self.plan(LLAMA, "--gpu", name)
            self.assertEqual(document["ledger"][0]["name"], "device_total")

    def test_gpus_of_a_file_are_known_and_win(self):
        file = self.write("gpus.toml", '[[gpu]]\nname = "h200"\narchitecture = "sm_90"\n'
                                       'cuda_visible = "100GiB"\n'
                                       '[[gpu]]\nname = "slice"\narchitecture = "sm_90"\n'
                                       'cuda_visible = "40GiB"\n')
        gpus = self.gpus("--gpus", file)
        self.assertEqual(gpus["h200"]["cuda_visible_low_bytes"], 100 * 2**30)
        for name, total in [("h200", 100 * 2**30), ("slice", 40 * 2**30)]:
            document = self.plan(LLAMA, "--gpu", name, "--gpus", file)
            self.assertEqual(document["ledger"][0]["bytes"], total)
        deployment = self.write("d.toml", 'gpus = "gpus.toml"\ngpu = "slice"\n')
        document = self.plan(LLAMA, "--deployment", deployment)
        self.assertEqual(document["ledger"][0]["bytes"], 40 * 2**30)
        outcome = self.kvplan("plan", LLAMA, "--gpu", "slce", "--gpus", file)
        self.assert_usage(outcome, "did you mean 'slice'?")

    def test_a_broken_file_is_an_input_error_with_line_and_column(self):
        file = self.write("gpus.toml", '[[gpu]]\nname = "x"\narchitectur = "sm_90"\n')
        outcome = self.kvplan("gpus", "--gpus", file, "--json")
        self.assertEqual(outcome.code, 3)
        error = outcome.document()["error"]
        self.assertIn("line 3, column 1", error["message"])
        self.assertIn("did you mean 'architecture'?", error["message"])


class Memory(KvplanCase):
    def ledger(self, *arguments):
        document = self.plan(LLAMA, "--gpu", "h200", *arguments)
        return {line["name"]: line for line in document["ledger"]}

    def test_overheads_and_neighbours_are_lines(self):
        lines = self.ledger("--activations", "1GiB..2GiB..4GiB", "--cuda-context", "500MiB",
                            "--cuda-graphs", "0B", "--co-located", "embedder=6GiB", "--co-located",
                            "reranker=1GiB..3GiB", "-tp", "2", "--communication", "400MiB")
        self.assertEqual([lines["activations"][key] for key in ("low", "bytes", "high")],
                         [2**30, 2 * 2**30, 4 * 2**30])
        self.assertEqual(lines["cuda_context"]["kind"], "exact")
        self.assertEqual(lines["co_located:embedder"]["bytes"], 6 * 2**30)
        self.assertEqual(lines["co_located:reranker"]["bytes"], 2 * 2**30)
        self.assertEqual(lines["communication"]["bytes"], 400 * 2**20)

    def test_overheads_come_from_the_host_engine(self):
        old = self.ledger("--host-engine", "vllm@0.20.1")
        new = self.ledger("--host-engine", "vllm@0.21.0")
        self.assertEqual(old["cuda_graphs"]["bytes"], 0)
        self.assertEqual(new["cuda_graphs"]["bytes"], 727 * 2**20)
        self.assertIn("engine_buffers", self.ledger("--host-engine", "trtllm"))

    def test_mistakes_are_usage_errors(self):
        for arguments, message in [(["--host-engine", "vlm"], "did you mean 'vllm'?"),
                                   (["--host-engine", "vllm@"], "a version follows"),
                                   (["--co-located", "6GiB"], "NAME=SIZE"),
                                   (["--co-located", "x=6G"], "--co-located"),
                                   (["--activations", "3GiB..1GiB"], "must ascend")]:
            self.assert_usage(self.kvplan("plan", LLAMA, "--gpu", "h200", *arguments), message)

    def test_what_is_not_used_is_said(self):
        outcome = self.kvplan("plan", LLAMA, "--gpu", "h200", "--overhead", "2GiB", "--cuda-graphs",
                              "1GiB")
        self.assertIn("--cuda-graphs: not used", outcome.out)
        outcome = self.kvplan("plan", LLAMA, "--kv-budget", "9GiB", "--co-located", "x=1GiB")
        self.assertIn("--co-located: not used", outcome.out)


class Speed(KvplanCase):
    def test_small_configs_plan_within_the_cold_limit(self):
        """Best of several runs, so that a busy machine does not fail it."""
        for model in [LLAMA, "Qwen/Qwen3-8B", str(CONFIGS / "kimi-k3.json")]:
            best = 1.0
            for _ in range(10):
                start = time.perf_counter()
                self.kvplan("plan", model, "--gpu", "h200", "-tp", "8", "--json")
                best = min(best, time.perf_counter() - start)
            self.assertLess(best, 0.05, model)


if __name__ == "__main__":
    unittest.main()
