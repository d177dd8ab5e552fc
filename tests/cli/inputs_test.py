# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""What kvplan reads: models, deployment files, kernel files, and hostile ones among them."""

import json
import os
import pathlib
import re
import shutil
import time
import unittest

from kvplan_case import DSPARK, KIMI, LLAMA, KvplanCase


class Models(KvplanCase):
    def test_a_checkpoint_directory_is_a_model(self):
        folder = self.scratch / "checkpoint"
        folder.mkdir()
        shutil.copy(LLAMA, folder / "config.json")
        by_folder = self.plan(folder, "--gpu", "h200")
        self.assertEqual(by_folder["pools"], self.plan(LLAMA, "--gpu", "h200")["pools"])

    def test_a_name_that_is_no_path_is_refused_with_the_nearest_config(self):
        shutil.copy(LLAMA, self.scratch / "llama-3.1-8b.json")
        outcome = self.kvplan("plan", "Llama_3.1_8b", "--gpu", "h200", cwd=self.scratch)
        self.assertEqual((outcome.code, outcome.out), (3, ""))
        self.assertIn("did you mean 'llama-3.1-8b.json'?", outcome.err)
        outcome = self.kvplan("plan", "meta-llama/Llama-3.1-8B", "--gpu", "h200", "--json",
                              cwd=self.scratch)
        self.assertEqual(outcome.code, 3)
        self.assertIn("catalogue", outcome.document()["error"]["message"])

    def test_the_kind_of_a_drafter_comes_from_its_config(self):
        document = self.plan(KIMI, "--drafter", DSPARK, "-tp", "16", "--gpu", "gb200")
        self.assertIn("draft", [pool["role"] for pool in document["pools"]])
        self.assert_usage(self.kvplan("plan", KIMI, "--drafter", LLAMA, "-tp", "16", "--gpu",
                                      "gb200"), "--drafter-kind", "eagle3", "dspark")

    def test_a_type_of_model_that_is_not_known_is_said_beside_every_answer(self):
        config = json.loads(pathlib.Path(LLAMA).read_text(encoding="utf-8"))
        config["model_type"] = "zebra"
        path = self.write("zebra.json", json.dumps(config))
        note = "model_type 'zebra' of zebra is not known here"
        options = (path, "--gpu", "h200", "--max-model-len", "8192")
        for command in (("plan",), ("explain",)):
            outcome = self.kvplan(*command, *options)
            self.assertEqual((outcome.code, outcome.err), (0, ""))
            self.assertEqual(" ".join(outcome.out.split()).count(note), 1)
        for more in ((), ("--engine", "vllm"), ("--compare-engines",)):
            outcome = self.kvplan("plan", *options, *more, "--json")
            self.assertEqual(outcome.code, 0)
            outcome.document()
            self.assertIn(note, outcome.err)
            self.assertIn(note, " ".join(self.kvplan("plan", *options, *more).out.split()))
        self.assertEqual(self.kvplan("plan", LLAMA, "--gpu", "h200", "--json").err, "")

    def test_hostile_files_end_in_an_error_quickly(self):
        deep = '{"a":' * 20000 + "1" + "}" * 20000
        hostile = {
            "empty.json": b"", "null.json": b"null", "array.json": b"[]", "text.json": b"\xff\xfe{",
            "zero.json": b"\0" * 1000, "deep.json": deep.encode(),
            "huge.json": json.dumps({"model_type": "llama", "num_hidden_layers": 10**30}).encode(),
            "many.json": json.dumps({"model_type": "llama", "num_hidden_layers": 2**62,
                                     "num_attention_heads": 32, "hidden_size": 4096}).encode(),
            "negative.json": pathlib.Path(LLAMA).read_bytes().replace(
                b'"num_hidden_layers": 32', b'"num_hidden_layers": -32'),
            "escape.json": b'{"model_type": "\\u001b[31mred", "num_hidden_layers": "\\u001b[2J"}',
            "cut.json": pathlib.Path(LLAMA).read_bytes()[:-20],
        }
        for name, text in hostile.items():
            with self.subTest(name=name):
                path = self.write(name, text)
                start = time.perf_counter()
                outcome = self.kvplan("plan", path, "--gpu", "h200", "--json")
                self.assertLess(time.perf_counter() - start, 5)
                self.assertEqual(outcome.code, 3, outcome.err)
                self.assertEqual(outcome.document()["fits"], False)
                self.assertNotIn("\x1b", outcome.err)
                report = self.kvplan("plan", path, "--gpu", "h200")
                self.assertEqual((report.code, report.out), (3, ""))

    def test_unreadable_things_are_errors(self):
        os.mkfifo(self.scratch / "pipe.json")
        for path in [self.scratch, self.scratch / "pipe.json", "/dev/null", "/", "x" * 5000]:
            outcome = self.kvplan("plan", path, "--gpu", "h200")
            self.assertIn(outcome.code, (3, 4), outcome.err)
            self.assertEqual(outcome.out, "")

    def test_a_pipe_is_refused_and_not_waited_for(self):
        pipe = self.scratch / "pipe"
        os.mkfifo(pipe)
        for arguments in [["plan", pipe, "--gpu", "h200"],
                          ["plan", LLAMA, "--gpu", "h200", "--kernels", pipe],
                          ["plan", LLAMA, "--gpu", "h200", "--deployment", pipe],
                          ["verify", pipe, "--allocations", pipe]]:
            with self.subTest(arguments=arguments):
                outcome = self.kvplan(*arguments)
                self.assertIn(outcome.code, (3, 4), outcome.err)
                self.assertIn(str(pipe), outcome.err)

    def test_a_value_is_told_unless_the_message_has_it_as_a_word(self):
        text = pathlib.Path(LLAMA).read_text().replace('"num_hidden_layers": 32',
                                                       '"num_hidden_layers": 0')
        outcome = self.kvplan("plan", self.write("zero.json", text), "--gpu", "h200")
        self.assertEqual(outcome.code, 3)
        self.assertIn("(value: 0)", outcome.err)

    def test_absurd_requests_end_in_an_answer(self):
        for arguments in [["--max-model-len", "1000000000000000000"],
                          ["--max-num-seqs", "1000000000000000000"],
                          ["--kv-budget", "8191PiB"], ["--page-size", "1000000000"],
                          ["--tp", "4611686018427387904"], ["--pp", "1000"],
                          ["--reserved-pages", "9223372036854775807"],
                          ["--max-model-len", "1000000000000", "--max-num-seqs", "2000000000"]]:
            with self.subTest(arguments=arguments):
                outcome = self.kvplan("plan", LLAMA, "--gpu", "h200", *arguments, "--json")
                self.assertIn(outcome.code, (1, 2, 3), outcome.err)


class DeploymentFiles(KvplanCase):
    def test_keys_are_the_options_in_either_case(self):
        first = self.kvplan("plan", LLAMA, "--gpu", "h200", "-tp", "2", "--kv-cache-dtype", "fp8",
                            "--max-model-len", "32K", "--gpu-memory-utilization", "0.85",
                            "--max-num-seqs", "8", "--attention-dp", "--json").raw
        for text in [
                'gpu = "h200"\ntp = 2\nkv_cache_dtype = "fp8"\nmax_model_len = "32K"\n'
                'gpu_memory_utilization = 0.85\nmax_num_seqs = 8\nattention_dp = true\n',
                'gpu = "h200"\ntensor-parallel-size = 2\nkv-cache-dtype = "fp8"\n'
                'context_length = 32768\ngpu-memory-utilization = "0.85"\nmax_batch_size = 8\n'
                'enable_attention_dp = true\n']:
            file = self.write("deploy.toml", text)
            outcome = self.kvplan("plan", LLAMA, "--deployment", file, "--json")
            self.assertEqual(outcome.raw, first, outcome.err)

    def test_the_command_line_wins(self):
        file = self.write("deploy.toml", 'gpu = "h100"\ntp = 8\n')
        outcome = self.kvplan("plan", LLAMA, "--deployment", file, "-tp", "2", "--gpu", "h200",
                              "--json")
        self.assertEqual(outcome.raw,
                         self.kvplan("plan", LLAMA, "--gpu", "h200", "-tp", "2", "--json").raw)

    def test_model_and_paths_start_at_the_file(self):
        shutil.copy(KIMI, self.scratch / "target.json")
        shutil.copy(DSPARK, self.scratch / "draft.json")
        file = self.write("deploy.toml", 'model = "target.json"\ndrafter = "draft.json"\n'
                                         'tp = 16\ngpu = "gb200"\n')
        outcome = self.kvplan("plan", "--deployment", file, "--json")
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertEqual(len(outcome.document()["pools"]), 3)

    def test_mistakes_are_reported_with_line_and_column(self):
        for text, place, message in [
                ('gpu = "h200"\ntensor_paralel_size = 2\n', ":2:1",
                 "did you mean 'tensor-parallel-size'?"),
                ('gpu = "h200"\ntp = "many"\n', ":2:6", "whole number"),
                ('gpu = "h200"\n\n  tp = 2\ntp_size = 2\n', ":", "the same option"),
                ('gpu = \n', ":1:", ""), ('[\n', ":", ""), ('[[[', ":", ""),
                ('tp = [1, 2]\n', ":1:6", "text"), ('attention_dp = 1\n', ":1:", "true or false"),
                ('tp = true\n', ":1:", ""), ('[memory]\nx = 1\n', ":1:", "unknown key"),
                ('mem_fraction_static = 0.9\n', ":1:1", "SGLang"),
                ('gpu = "h20"\n', ":1:7", "did you mean 'h200'?"),
                ('gpu_memory_utilization = 1.5\n', ":1:", "1.5"),
                ('json = true\n', ":1:1", "stands on the command line alone: --json"),
                ('deployment = "x"\n', ":1:1", "command line alone")]:
            with self.subTest(text=text):
                file = self.write("deploy.toml", text)
                outcome = self.kvplan("plan", LLAMA, "--deployment", file, "--json")
                self.assertEqual(outcome.code, 3, outcome.err)
                self.assertIn(message, outcome.err)
                error = outcome.document()["error"]
                self.assertEqual(error["file"], file)
                where = re.match(r"line (\d+), column (\d+): ", error["message"])
                self.assertTrue((":%s:%s" % where.groups()).startswith(place), error["message"])

    def test_a_missing_file_is_an_input_error(self):
        self.assertEqual(self.kvplan("plan", LLAMA, "--deployment", self.scratch / "no.toml").code,
                         3)
        self.assertEqual(self.kvplan("plan", LLAMA, "--deployment", self.scratch).code, 3)


class KernelFiles(KvplanCase):
    def test_a_missing_or_broken_kernel_file_is_an_input_error(self):
        for path in [self.scratch / "no.toml", self.write("broken.toml", "[[kernel]\n"),
                     self.write("unknown.toml", '[[kernel]]\nnmae = "x"\n')]:
            outcome = self.kvplan("plan", LLAMA, "--gpu", "h200", "--kernels", path, "--json")
            self.assertEqual(outcome.code, 3, outcome.err)
            self.assertIn(str(path), outcome.document()["error"]["file"])


if __name__ == "__main__":
    unittest.main()
