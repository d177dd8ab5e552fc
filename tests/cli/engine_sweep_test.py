# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""`kvplan check` against a second derivation of the rules, over the own configs and many settings.

Every configuration that the reader accepts is asked of every engine with settings drawn from a
fixed seed.
"""

import json
import random
import unittest

from engine_oracle import as_printed, predict
from kvplan_case import CONFIGS, KvplanCase

# Kept for other tests: drafters of their own and what the reader refuses.
LEFT_OUT = ("dspark", "dflash", "domino", "peagle", "eagle3", "deepseek-v4", "gpt2", "nemotron-nas")
DRAFTERS = ("dflash-5-full.json", "eagle3-llama-8b.json", "dflash-4-sliding-1-full.json")
SEED = 20_260
ROUNDS = 6


def is_latent(fields):
    return "kv_lora_rank" in json.dumps(fields)


class Draw:
    """Settings of one case."""

    def __init__(self, rng, model, fields):
        self.rng, self.model, self.fields = rng, model, fields
        self.latent = is_latent(fields)

    def pick(self, *choices):
        return self.rng.choice(choices)

    def drafter(self, engine):
        kind = self.pick("none", "mtp", "config")
        if kind == "none" or engine == "trtllm":
            return None
        if kind == "mtp":
            return {"kind": "mtp", "config": None, "num_draft_tokens": self.pick(1, 3, 7),
                    "num_layers": self.pick(1, 2)}
        return {"kind": "dflash", "config": self.pick(*DRAFTERS),
                "num_draft_tokens": self.pick(1, 7, 15), "num_layers": None}

    def case(self, engine):
        llama = "llama" in engine
        formats = ["bf16", "fp16", "fp8", "int8", "nvfp4"]
        if engine == "vllm" and not self.latent:
            formats += ["int8_per_token_head", "turboquant_3bit_nc", "turboquant_k8v4"]
        if self.latent:
            formats = ["bf16", "fp8", "int8"]
            if "linear_attn_config" not in json.dumps(self.fields):
                formats.append("fp8_ds_mla")
        tp = 1 if llama else self.pick(1, 2, 4)
        deployment = {"tp": tp, "kv_dtype": None if llama else self.pick(*formats),
                      "state_dtype": self.pick("f32", "bf16"),
                      "conv_state_dtype": self.pick("bf16", "f32")}
        given = {"cells": self.pick(256, 1000, 8192, 131072)}
        if llama:
            deployment.update(n_seq_max=self.pick(1, 2, 5), kv_unified=self.pick(True, False),
                              n_ubatch=self.pick(128, 512, 2048), rollback_states=self.pick(0, 2),
                              k_dtype=self.pick("f16", "q8_0", "f32"),
                              v_dtype=self.pick("f16", "q4_0"))
            if self.latent:
                deployment["mla_mode"] = self.pick("latent", "latent_and_copy")
        elif engine == "vllm":
            deployment.update(tokens_per_block=self.pick(16, 64, 128),
                              max_model_len=self.pick(1000, 8192, 131072),
                              token_report=self.pick("blocks", "concurrency"),
                              prefix_caching=self.pick(True, False), dcp=self.pick(1, 1, 2),
                              max_num_batched_tokens=self.pick(1024, 8192),
                              max_concurrent_batches=self.pick(1, 2),
                              hybrid_kv_manager=self.pick(True, True, False),
                              pp=self.pick(1, 1, 2, 3))
            given = self.pick({"num_blocks": self.pick(1, 77, 5000)},
                              {"kv_budget_bytes": self.pick(10**9, 20 << 30, 31_234_567_891)},
                              {"max_model_len": self.pick(17, 5000, 200_000)})
        elif engine == "sglang":
            page = self.pick(1, 64)
            deployment.update(tokens_per_block=page, swa_full_ratio=self.pick(0.8, 0.5, 0.1),
                              max_state_slots=self.pick(1, 37), dp_attention=self.pick(True, False),
                              max_running_requests=self.pick(None, 12), dp=tp)
            given = {"kv_tokens": page * self.pick(100, 3333)}
        else:
            deployment.update(tokens_per_block=self.pick(32, 64))
            given = self.pick({"num_blocks": 123}, {"kv_budget_bytes": self.pick(10**9, 20 << 30)},
                              {"kv_tokens": 64 * 321})
        return {"id": "", "engine": engine, "model": self.model, "model_overrides": {},
                "drafter": self.drafter(engine), "deployment": deployment, "given": given}


class EngineSweep(KvplanCase):
    def cases(self):
        rng = random.Random(SEED)
        for path in sorted(CONFIGS.glob("*.json")):
            if path.name.startswith(LEFT_OUT):
                continue
            fields = json.loads(path.read_text(), parse_constant=lambda name: None)
            for engine in ("vllm", "sglang", "trtllm", "llamacpp", "ik_llamacpp"):
                if "whisper" in path.name and engine != "vllm":
                    continue
                for number in range(ROUNDS):
                    case = Draw(rng, path.name, fields).case(engine)
                    case["id"] = f"{path.stem}/{engine}/{number}"
                    yield case

    def test_every_figure_agrees_with_the_second_derivation(self):
        lines, figures = [], 0
        for case in self.cases():
            expected = {k: as_printed(v) for k, v in predict(case, CONFIGS).items()}
            figures += len(expected)
            lines.append(json.dumps({**case, "expect": expected}))
        self.assertGreater(len(lines), 900)
        self.assertGreater(figures, 4000)
        outcome = self.kvplan("check", "--configs", CONFIGS, "--cases",
                              self.write("sweep.jsonl", "\n".join(lines)))
        wrong = [line for line in outcome.out.splitlines()[:-2] if not line.startswith("ok ")]
        self.assertEqual("\n".join(wrong[:20]), "")
        self.assertEqual(outcome.code, 0)


if __name__ == "__main__":
    unittest.main()
