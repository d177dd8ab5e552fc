# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""kvplan sweep: points, formats, refusals as rows, progress, time."""

import csv
import fcntl
import io
import os
import pathlib
import pty
import struct
import subprocess
import termios
import time
import unittest
import xml.etree.ElementTree as ET

from kvplan_case import CONFIGS, DSPARK, KIMI, LLAMA, LLAMA_70B, KvplanCase

SVG = "{http://www.w3.org/2000/svg}"


class Sweep(KvplanCase):
    def rows(self, *arguments, code=0):
        outcome = self.kvplan("sweep", *arguments, "--format", "csv")
        self.assertEqual(outcome.code, code, outcome.err)
        self.assertEqual(outcome.err, "")
        return list(csv.DictReader(io.StringIO(outcome.out)))

    def test_each_point_is_the_plan_of_its_options(self):
        base = [LLAMA_70B, "--gpu", "h200", "--max-num-seqs", "4"]
        rows = self.rows(*base, "--over", "tp=1,2,4", "--over", "max-model-len=8k:32k:*2")
        self.assertEqual([(r["tp"], r["max-model-len"]) for r in rows],
                         [(tp, length) for tp in ("1", "2", "4")
                          for length in ("8000", "16000", "32000")])
        for row in rows:
            document = self.plan(*base, "--tp", row["tp"], "--max-model-len", row["max-model-len"])
            budget = next(l["bytes"] for l in document["ledger"] if l["name"] == "kv_budget")
            self.assertEqual(row["fits"], str(document["fits"]).lower())
            self.assertEqual(int(row["kv_budget_bytes"]), budget)
            for key in ("tokens", "sequences", "max_len"):
                self.assertEqual(int(row[key]), document["capacity"][key])
            missing = max([r["missing_bytes"] for r in document["refusals"]], default=0)
            self.assertEqual(int(row["missing_bytes"]), missing)

    def test_kinds_of_values(self):
        rows = self.rows(LLAMA, "--max-model-len", "4096", "--over",
                         "kv-budget=1GiB:4GiB:+1GiB", "--over", "kv_cache_dtype=bf16,fp8")
        self.assertEqual([r["kv-budget"] for r in rows][::2], ["1GiB", "2GiB", "3GiB", "4GiB"])
        rows = self.rows(LLAMA, "--gpu", "h200", "--over", "gpu-memory-utilization=0.8:0.9:+0.05")
        self.assertEqual([r["gpu-memory-utilization"] for r in rows], ["0.8", "0.85", "0.9"])
        rows = self.rows(KIMI, "-tp", "16", "--gpu", "gb200", "--over", f"drafter=none,{DSPARK}",
                         "--over", "attention-dp=false,true")
        self.assertEqual(len(rows), 4)
        self.assertGreater(int(rows[0]["tokens"]), int(rows[2]["tokens"]))
        rows = self.rows("--gpu", "h200", "--over", f"model={LLAMA},{CONFIGS}/qwen3-8b.json")
        self.assertEqual(len({r["bytes_per_token"] for r in rows}), 2)

    def test_points_that_cannot_be_planned_are_rows(self):
        rows = self.rows(KIMI, "-tp", "16", "--gpu", "b200", "--over",
                         "kv-cache-dtype=fp8,fp4_mla,nonsense", "--over", "dcp=1,3")
        found = {(r["kv-cache-dtype"], r["dcp"]): r for r in rows}
        self.assertEqual(found["fp8", "1"]["refusal"], "")
        self.assertEqual(found["fp8", "3"]["refusal"], "input")
        self.assertIn("divide", found["fp8", "3"]["reason"])
        self.assertEqual(found["fp4_mla", "1"]["refusal"], "kv_cache_dtype")
        self.assertEqual(found["nonsense", "1"]["refusal"], "usage")
        self.assertIn("unknown cache format", found["nonsense", "1"]["reason"])
        table = self.kvplan("sweep", KIMI, "-tp", "16", "--gpu", "b200", "--over",
                            "kv-cache-dtype=fp8,fp4_mla")
        self.assertEqual(table.code, 0)
        self.assertIn("kv_cache_dtype: fp4_mla does not support", table.out)

    def test_the_exit_code_says_whether_anything_fits(self):
        self.rows(LLAMA_70B, "--gpu", "h100", "--over", "tp=1,4")
        self.rows(LLAMA_70B, "--gpu", "h100", "--over", "tp=1", code=1)
        self.rows(KIMI, "--gpu", "b200", "--over", "kv-cache-dtype=fp4_mla", code=3)

    def test_the_document(self):
        outcome = self.kvplan("sweep", LLAMA, "--gpu", "h200", "--over", "tp=1,2", "--json")
        document = outcome.document()
        self.assertEqual(document["schema"], "kvpool.sweep/1")
        self.assertEqual(document["over"], [{"option": "tp", "values": ["1", "2"]}])
        self.assertEqual([p["options"] for p in document["points"]], [{"tp": "1"}, {"tp": "2"}])
        same = self.kvplan("sweep", LLAMA, "--gpu", "h200", "--over", "tp=1,2", "--format", "json")
        self.assertEqual(outcome.raw, same.raw)

    def test_the_number_of_threads_does_not_matter(self):
        arguments = ["sweep", LLAMA, "--gpu", "h200", "--over", "max-model-len=1000:60000:+777",
                     "--over", "max-num-seqs=1,5,25", "--format", "csv", "--jobs"]
        first = self.kvplan(*arguments, 1).raw
        self.assertEqual(self.kvplan(*arguments, 7).raw, first)

    def test_mistakes(self):
        base = ["sweep", LLAMA, "--gpu", "h200"]
        self.assert_usage(self.kvplan(*base), "--over is missing")
        for over, text in [("tp", "OPTION=VALUES"), ("tp=", "OPTION=VALUES"),
                           ("tpp=1,2", "did you mean 'tp'"), ("json=true", "no option of a plan"),
                           ("kernels=a,b", "no option of a plan"), ("tp=1:8", "FROM:TO"),
                           ("tp=1:8:*1", "no step"), ("tp=8:1:*2", "no step"),
                           ("tp=1:8:2", "FROM:TO"), ("tp=1,,2", "empty value"),
                           ("attention-dp=maybe", "true or false"),
                           ("max-model-len=1:9999999:+1", "million")]:
            with self.subTest(over=over):
                self.assert_usage(self.kvplan(*base, "--over", over), text)
        self.assert_usage(self.kvplan(*base, "--over", "tp=1,2", "--over", "tp=4"), "swept twice")
        self.assert_usage(self.kvplan(*base, "--over", "tp=1", "--format", "cvs"),
                          "did you mean 'csv'")
        self.assert_usage(self.kvplan(*base, "--over", "tp=1", "--format", "csv", "--json"),
                          "--format")
        self.assert_usage(self.kvplan(*base, "--over", "tp=1", "--format", "svg", "--y", "token"),
                          "did you mean 'tokens'")
        self.assert_usage(self.kvplan(*base, "--over", "tp=1", "--format", "svg", "--x", "pp"),
                          "not swept")
        outcome = self.kvplan("sweep", self.scratch / "none.json", "--over", "tp=1,2", "--json")
        self.assertEqual(outcome.code, 3)
        self.assertEqual(outcome.document()["schema"], "kvpool.sweep/1")

    def test_ten_thousand_points_are_planned_on_one_core(self):
        start = time.perf_counter()
        before = os.times()
        outcome = self.kvplan("sweep", LLAMA_70B, "--gpu", "h200", "--over", "tp=1,2,4,8", "--over",
                              "max-model-len=1000:100000:+1000", "--over",
                              "max-num-seqs=1:25:+1", "--jobs", "1", "--format", "csv")
        after = os.times()
        self.assertEqual(outcome.out.count("\n"), 10_001)
        cpu = after.children_user - before.children_user
        print(f"\n10,000 points: {cpu:.2f} s of one core, {time.perf_counter() - start:.2f} s")


class Chart(KvplanCase):
    def chart(self, *arguments):
        outcome = self.kvplan("sweep", *arguments, "--format", "svg")
        self.assertIn(outcome.code, (0, 1), outcome.err)
        return outcome.out, ET.fromstring(outcome.out)

    def test_lines_and_their_names(self):
        text, root = self.chart(LLAMA_70B, "--gpu", "h200", "--over", "tp=2,4,8", "--over",
                                "max-model-len=8k:128k:*2", "--y", "sequences")
        self.assertEqual(len(root.findall(f"{SVG}polyline")), 3)
        names = [t.text for t in root.iter(f"{SVG}text")]
        for name in ("tp 2", "tp 4", "tp 8", "sequences that fit", "max-model-len", "128k"):
            self.assertIn(name, names)
        self.assertIn("prefers-color-scheme:dark", text)
        self.assertTrue(text.isascii())
        self.assertNotIn("nan", text)
        self.assertNotIn("inf", text)

    def test_categories_refusals_and_odd_names(self):
        path = self.write("a<b>&\"c\".json", pathlib.Path(LLAMA).read_text())
        _, root = self.chart(path, "--over", "gpu=h100,h200,b200,nonsense", "--y", "kv-budget")
        texts = [t.text for t in root.iter(f"{SVG}text")]
        self.assertIn("a<b>&\"c\"", texts)
        self.assertTrue(any("1 refused point left out" in t for t in texts))
        self.assertEqual(len(root.findall(f"{SVG}circle")), 3)

    def test_places_are_inside_the_paper(self):
        for arguments in [["--over", "tp=1"], ["--over", "kv-budget=1MiB,4MiB"],
                          ["--over", "max-num-seqs=1:100:+1"],
                          ["--over", "gpu-memory-utilization=0.2:0.9:+0.1", "--y", "missing"]]:
            _, root = self.chart(LLAMA, "--gpu", "h200", *arguments)
            for circle in root.iter(f"{SVG}circle"):
                self.assertTrue(0 <= float(circle.get("cx")) <= 880)
                self.assertTrue(0 <= float(circle.get("cy")) <= 500)


class Progress(KvplanCase):
    ARGUMENTS = ["sweep", LLAMA_70B, "--gpu", "h100", "--over", "max-num-seqs=1:9000:+1",
                 "--jobs", "1", "--format", "csv"]

    def run_with_terminal(self, columns, env):
        main, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with open(self.scratch / "out.csv", "wb") as out:
            process = subprocess.Popen([os.environ["KVPLAN"], *map(str, self.ARGUMENTS)],
                                       stdout=out, stderr=other, env=env)
            os.close(other)
            text = b""
            try:
                while chunk := os.read(main, 65536):
                    text += chunk
            except OSError:
                pass
            os.close(main)
            process.wait()
        return text.decode(), (self.scratch / "out.csv").read_text()

    def test_a_bar_on_a_terminal_only_and_gone_at_the_end(self):
        text, out = self.run_with_terminal(80, {"TERM": "xterm"})
        self.assertIn("/9,000", text)
        self.assertTrue(text.endswith("\r\x1b[K"))
        self.assertNotIn("\x1b", out)
        self.assertEqual(out.count("\n"), 9_001)
        self.assertEqual(self.run_with_terminal(80, {"TERM": "dumb"})[0], "")
        self.assertEqual(self.kvplan(*self.ARGUMENTS).err, "")

    def test_a_narrow_terminal(self):
        text, _ = self.run_with_terminal(12, {"TERM": "xterm", "NO_COLOR": "1"})
        for line in text.replace("\x1b[K", "").split("\r"):
            self.assertLess(len(line), 12)


if __name__ == "__main__":
    unittest.main()
