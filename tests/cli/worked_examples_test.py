# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""docs/planner.md and docs/planner_solve.md show what is printed."""

import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import unittest

from kvplan_case import LLAMA, SOURCE_DIR, KvplanCase

DOCS = SOURCE_DIR / "docs"


def llama_tensors():
    """Names and shapes of the tensors of Llama-3.1-8B."""
    hidden, heads, wide, words = 4096, 1024, 14336, 128256
    yield "model.embed_tokens.weight", [words, hidden]
    for layer in range(32):
        start = f"model.layers.{layer}."
        for name, shape in (("self_attn.q_proj", [hidden, hidden]),
                            ("self_attn.k_proj", [heads, hidden]),
                            ("self_attn.v_proj", [heads, hidden]),
                            ("self_attn.o_proj", [hidden, hidden]),
                            ("mlp.gate_proj", [wide, hidden]), ("mlp.up_proj", [wide, hidden]),
                            ("mlp.down_proj", [hidden, wide]), ("input_layernorm", [hidden]),
                            ("post_attention_layernorm", [hidden])):
            yield f"{start}{name}.weight", shape
    yield "model.norm.weight", [hidden]
    yield "lm_head.weight", [words, hidden]


class WorkedExamples(KvplanCase):
    def write_checkpoint(self):
        """A directory as the examples name it, whose file has a header and no data."""
        folder = self.scratch / "Llama-3.1-8B-Instruct"
        folder.mkdir()
        shutil.copy(LLAMA, folder / "config.json")
        header, at = {}, 0
        for name, shape in llama_tensors():
            size = 2
            for extent in shape:
                size *= extent
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header).encode()
        with open(folder / "model.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + at)

    def examples(self, document):
        """Commands with the lines that follow them; files that are shown are written."""
        for kind, block in re.findall(r"```(console|toml)\n(.*?)```", document, re.DOTALL):
            if kind == "toml":
                # The first line of a file that an example reads is its name.
                if name := re.match(r"# (\w+\.toml)\n", block):
                    self.write(name[1], block)
                continue
            command, shown = None, []
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("$ "):
                    if command:
                        yield command, shown
                    command, shown = line[2:], []
                else:
                    shown.append(line)
            if command:
                yield command, shown

    def assert_printed(self, shown, printed):
        """Every line in order; one that ends in ` ...` is shortened."""
        for line in shown:
            if not line or line == "...":
                continue
            if line.endswith(" ..."):
                self.assertTrue(any(each.startswith(line[:-4]) for each in printed), line)
            else:
                self.assertIn(line, printed)

    def follow(self, name, least):
        # Names come from the catalogue: no cache of the machine stands in front of it.
        env = {**os.environ, "HF_HUB_CACHE": str(self.scratch / "none"), "NO_COLOR": "1"}
        examples = 0
        for command, shown in self.examples((DOCS / name).read_text(encoding="utf-8")):
            examples += 1
            with self.subTest(command=command):
                words = shlex.split(command)
                self.assertEqual(words[0], "kvplan")
                target = None
                if ">" in words:
                    at = words.index(">")
                    target, words = words[at + 1], words[:at]
                run = subprocess.run([os.environ["KVPLAN"], *words[1:]], capture_output=True,
                                     text=True, env=env, cwd=self.scratch, check=False, timeout=60)
                self.assertLess(run.returncode, 2, run.stderr)
                if target:
                    (self.scratch / target).write_text(run.stdout)
                self.assert_printed(shown, iter(run.stdout.splitlines()))
        self.assertGreaterEqual(examples, least)

    def test_every_line_of_the_planners_examples_is_printed_in_order(self):
        self.write_checkpoint()
        self.follow("planner.md", 6)

    def test_every_line_of_examples_of_planning_backwards_is_printed_in_order(self):
        self.follow("planner_solve.md", 22)


if __name__ == "__main__":
    unittest.main()
