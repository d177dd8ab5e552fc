#!/usr/bin/env python3
# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""kvplan plan --verify-on-gpu: where the helper is, and what its exit code becomes."""

import os
import pathlib
import shutil
import signal
import subprocess
import unittest

from kvplan_case import LLAMA, HelperCase

ARGUMENTS = ("plan", LLAMA, "--kv-budget", "4GiB", "--max-model-len", "4k", "--verify-on-gpu")


def ignore_children():
    """Makes exit codes of children be thrown away; programs that are executed inherit it."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


class VerifyOnGpu(HelperCase):
    """What kvplan makes of the helper for --verify-on-gpu."""

    def test_without_the_helper(self):
        outcome = self.kvplan(*ARGUMENTS)
        self.assertEqual(outcome.code, 4)
        self.assertIn("kvplan-gpu-verify", outcome.err)
        self.assertIn("KVPOOL_CUDA=ON", outcome.err)
        self.assertIn("pools", outcome.out.lower(), "the plan is printed first")

    def test_the_helper_gets_the_plan_by_file(self):
        seen = self.scratch / "seen.json"
        self.helper(f'echo "verified: $#"; cp "$1" {seen}; echo "$1" > {seen}.path\n')
        outcome = self.kvplan(*ARGUMENTS)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertIn("verified: 1", outcome.out)
        self.assertIn('"kvpool.plan/1"', seen.read_text())
        given = pathlib.Path(str(seen) + ".path").read_text().strip()
        self.assertFalse(os.path.exists(given), "the file is gone afterwards")

    def test_exit_codes(self):
        for code, expected in ((0, 0), (1, 1), (2, 4), (3, 4), (4, 4), (77, 4)):
            self.helper(f"exit {code}\n")
            self.assertEqual(self.kvplan(*ARGUMENTS).code, expected, code)
        self.helper("kill -SEGV $$\n")
        outcome = self.kvplan(*ARGUMENTS)
        self.assertEqual(outcome.code, 4)
        self.assertIn("crashed", outcome.err)

    def test_exit_codes_under_a_caller_that_ignores_its_children(self):
        for code, expected in ((0, 0), (1, 1), (4, 4)):
            self.helper(f"exit {code}\n")
            run = subprocess.run([self.program, *ARGUMENTS], capture_output=True, timeout=60,
                                 check=False, preexec_fn=ignore_children)
            self.assertEqual(run.returncode, expected, run.stderr)

    def test_json_stays_one_document(self):
        self.helper("echo not json\n")
        outcome = self.kvplan(*ARGUMENTS, "--json")
        self.assertEqual(outcome.code, 0)
        self.assertEqual(outcome.document()["schema"], "kvpool.plan/1")
        self.assertIn("not json", outcome.err)

    def test_what_does_not_fit_is_not_allocated(self):
        self.helper("exit 0\n")
        outcome = self.kvplan("plan", LLAMA, "--kv-budget", "16MiB", "--verify-on-gpu")
        self.assertEqual(outcome.code, 1, outcome.err)

    def test_the_built_helper_without_a_gpu(self):
        built = pathlib.Path(os.environ.get("KVPLAN_GPU_VERIFY", ""))
        if not built.is_file() or pathlib.Path("/dev/nvidia0").exists():
            self.skipTest("no helper in this build, or a GPU in this machine")
        shutil.copy(built, self.scratch / "kvplan-gpu-verify")
        outcome = self.kvplan(*ARGUMENTS)
        self.assertEqual(outcome.code, 4)
        self.assertIn("GPU", outcome.err)


if __name__ == "__main__":
    unittest.main()
