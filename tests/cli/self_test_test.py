#!/usr/bin/env python3
# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""kvplan kernels --self-test: what the helper is asked, and what its exit code becomes."""

import os
import pathlib
import shutil
import unittest

from kvplan_case import HelperCase

ARGUMENTS = ("kernels", "--self-test")


class SelfTest(HelperCase):
    """What kvplan makes of the helper for --self-test."""

    def test_without_the_helper(self):
        for arguments in (ARGUMENTS, (*ARGUMENTS, "--json")):
            outcome = self.kvplan(*arguments)
            self.assertEqual((outcome.code, outcome.out), (4, ""))
            self.assertIn("unsupported", outcome.err)
            self.assertIn("kvplan-gpu-verify", outcome.err)
            self.assertIn("KVPOOL_CUDA=ON", outcome.err)

    def test_the_helper_is_asked_for_it(self):
        self.helper('echo "asked: $*"\n')
        outcome = self.kvplan(*ARGUMENTS)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertEqual(outcome.out, "asked: --self-test\n")
        outcome = self.kvplan(*ARGUMENTS, "--json")
        self.assertEqual(outcome.out, "asked: --self-test --json\n")

    def test_exit_codes(self):
        for code, expected in ((0, 0), (1, 1), (2, 4), (3, 4), (4, 4), (77, 4)):
            self.helper(f"exit {code}\n")
            self.assertEqual(self.kvplan(*ARGUMENTS).code, expected, code)
        self.helper("exit 77\n")
        self.assertIn("unsupported", self.kvplan(*ARGUMENTS).err)
        self.helper("kill -SEGV $$\n")
        outcome = self.kvplan(*ARGUMENTS)
        self.assertEqual(outcome.code, 4)
        self.assertIn("crashed", outcome.err)

    def test_the_built_helper_without_a_gpu(self):
        built = pathlib.Path(os.environ.get("KVPLAN_GPU_VERIFY", ""))
        if not built.is_file() or pathlib.Path("/dev/nvidia0").exists():
            self.skipTest("no helper in this build, or a GPU in this machine")
        shutil.copy(built, self.scratch / "kvplan-gpu-verify")
        for arguments in (ARGUMENTS, (*ARGUMENTS, "--json")):
            outcome = self.kvplan(*arguments)
            self.assertEqual((outcome.code, outcome.out), (4, ""))
            self.assertIn("unsupported", outcome.err)
            self.assertIn("GPU", outcome.err)


if __name__ == "__main__":
    unittest.main()
