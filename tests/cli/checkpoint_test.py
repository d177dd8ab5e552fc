# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoint directories: weights from the headers of their files, hostile files among them."""

import json
import struct
import time
import unittest

from kvplan_case import KvplanCase

CONFIG = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
          "intermediate_size": 128, "vocab_size": 256, "torch_dtype": "bfloat16",
          "max_position_embeddings": 4096}


def header(tensors):
    """Header and bytes of data of a file with (name, shape) tensors in bf16."""
    text, at = {}, 0
    for name, shape in tensors:
        size = 2
        for extent in shape:
            size *= extent
        text[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return json.dumps(text).encode(), at


class Checkpoints(KvplanCase):
    def setUp(self):
        super().setUp()
        self.folder = self.scratch / "checkpoint"
        self.folder.mkdir()
        (self.folder / "config.json").write_text(json.dumps(CONFIG))

    def write_tensors(self, name, tensors):
        text, size = header(tensors)
        with open(self.folder / name, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + size)

    def tensors(self):
        found = [("model.embed_tokens.weight", [256, 64]), ("model.norm.weight", [64]),
                 ("lm_head.weight", [256, 64])]
        for layer in range(2):
            start = f"model.layers.{layer}."
            found += [(start + "self_attn.q_proj.weight", [64, 64]),
                      (start + "self_attn.k_proj.weight", [32, 64]),
                      (start + "self_attn.v_proj.weight", [32, 64]),
                      (start + "self_attn.o_proj.weight", [64, 64]),
                      (start + "mlp.gate_proj.weight", [128, 64]),
                      (start + "mlp.up_proj.weight", [128, 64]),
                      (start + "mlp.down_proj.weight", [64, 128]),
                      (start + "input_layernorm.weight", [64]),
                      (start + "post_attention_layernorm.weight", [64])]
        return found

    def weights(self, *arguments):
        document = self.plan(self.folder, "--gpu", "h200", *arguments)
        return next(line for line in document["ledger"] if line["name"] == "weights")

    def test_weights_are_exact_and_divided(self):
        self.assertEqual(self.weights()["kind"], "assumed")
        self.write_tensors("model.safetensors", self.tensors())
        for arguments, expected in [([], 213632), (["-tp", "2"], 107136), (["-tp", "4"], 57984),
                                    (["--pp", "2"], 106752),
                                    (["-tp", "2", "--attention-dp"], 131712)]:
            line = self.weights(*arguments)
            self.assertEqual((line["kind"], line["bytes"]), ("exact", expected), arguments)

    def test_stages_have_what_their_weights_leave(self):
        self.write_tensors("model.safetensors", self.tensors())
        document = self.plan(self.folder, "--gpu-memory", "1GiB", "--overhead", "0B",
                             "--gpu-memory-utilization", "1", "--pp", "2")
        # The table and one layer; one layer, the norm behind it and the head.
        self.assertEqual([rank["budget_bytes"] for rank in document["ranks"]],
                         [(1 << 30) - 106752, (1 << 30) - 106880])

    def test_explain_says_where_the_weights_come_from(self):
        self.write_tensors("model.safetensors", self.tensors())
        outcome = self.kvplan("explain", self.folder, "--gpu", "h200", "-tp", "2")
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertIn("safetensors", outcome.out)
        self.assertIn("107,136 B", outcome.out)

    def test_a_plan_of_a_checkpoint_can_be_verified_without_it(self):
        self.write_tensors("model.safetensors", self.tensors())
        plan = self.plan(self.folder, "--gpu", "h200")
        path = self.write("plan.json", json.dumps(plan))
        allocations = [{"pool": pool["role"], "address": 2**32, "bytes": pool["bytes"]}
                       for pool in plan["pools"]]
        (self.folder / "model.safetensors").unlink()
        outcome = self.kvplan("verify", path, "--allocations",
                              self.write("a.json", json.dumps(allocations)))
        self.assertEqual(outcome.code, 0, outcome.err + outcome.out)

    def test_hostile_files_end_in_an_error_that_names_file_and_key(self):
        path = self.folder / "model.safetensors"
        for data, key in [(b"", ""), (b"\xff" * 64, "header length"),
                          (b"version https://git-lfs.github.com/spec/v1\n", "header length"),
                          (struct.pack("<Q", 2) + b"[]", ""),
                          (struct.pack("<Q", 40000) + b"[" * 40000, ""),
                          (struct.pack("<Q", 60) + b'{"w":{"dtype":"U8","shape":[4],'
                           b'"data_offsets":[0,4]}}         ', "w.data_offsets"),
                          (struct.pack("<Q", 14) + b'{"\x1b[31m": nul}', "")]:
            with self.subTest(data=data[:40]):
                path.write_bytes(data)
                start = time.perf_counter()
                outcome = self.kvplan("plan", self.folder, "--gpu", "h200", "--json")
                self.assertLess(time.perf_counter() - start, 5)
                self.assertEqual(outcome.code, 3, outcome.err)
                error = outcome.document()["error"]
                self.assertEqual(error["file"], str(path))
                self.assertEqual(error["key"], key)
                self.assertNotIn("\x1b", outcome.err)

    def test_an_index_cannot_lead_out_of_the_directory(self):
        (self.folder / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": {"w": "../other.safetensors"}}))
        outcome = self.kvplan("plan", self.folder, "--gpu", "h200")
        self.assertEqual((outcome.code, outcome.out), (3, ""))
        self.assertIn("weight_map.w", outcome.err)

    def test_many_tensors_are_read_quickly(self):
        tensors = [(f"model.layers.{layer}.mlp.experts.{expert}.{name}.weight", [8, 8])
                   for layer in range(2) for expert in range(8000)
                   for name in ("gate_proj", "up_proj", "down_proj")]
        self.write_tensors("model.safetensors", tensors)
        start = time.perf_counter()
        self.assertEqual(self.weights("--ep", "8")["bytes"], 48000 * 128 // 8)
        self.assertLess(time.perf_counter() - start, 2)


if __name__ == "__main__":
    unittest.main()
