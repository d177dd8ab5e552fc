# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""Runs kvplan for the tests of this folder. KVPLAN names the program."""

import json
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile
import unittest

SOURCE_DIR = pathlib.Path(os.environ.get("KVPOOL_SOURCE_DIR",
                                         pathlib.Path(__file__).resolve().parents[2]))
CONFIGS = SOURCE_DIR / "tests" / "data" / "configs"
LLAMA = str(CONFIGS / "llama-3.1-8b.json")
LLAMA_70B = str(CONFIGS / "llama-3.1-70b.json")
KIMI = str(CONFIGS / "kimi-k3.json")
DSPARK = str(CONFIGS / "dspark-k3-96x16.json")


class Outcome:
    """What a run of kvplan left behind."""

    def __init__(self, run):
        self.code = run.returncode
        self.raw = run.stdout
        self.out = run.stdout.decode()
        self.err = run.stderr.decode()

    def document(self):
        """The only JSON document on standard output."""
        decoder = json.JSONDecoder()
        document, end = decoder.raw_decode(self.out)
        assert self.out[end:].strip() == "", "more than one document on standard output"
        return document


class KvplanCase(unittest.TestCase):
    """A test case with a scratch folder and kvplan."""

    maxDiff = None

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)

    def kvplan(self, *arguments, env=None, stdout=subprocess.PIPE, cwd=None):
        """Runs kvplan; no run takes longer than a few seconds."""
        run = subprocess.run([os.environ["KVPLAN"], *map(str, arguments)], stdout=stdout,
                             stderr=subprocess.PIPE, env=env, cwd=cwd, timeout=60, check=False)
        if run.stdout is None:
            run.stdout = b""
        return Outcome(run)

    def plan(self, *arguments, **keywords):
        """The document of `kvplan plan`."""
        outcome = self.kvplan("plan", *arguments, "--json", **keywords)
        self.assertIn(outcome.code, (0, 1, 3), outcome.err)
        return outcome.document()

    def write(self, name, text):
        """A file in the scratch folder."""
        path = self.scratch / name
        if isinstance(text, bytes):
            path.write_bytes(text)
        else:
            path.write_text(text)
        return str(path)

    def assert_usage(self, outcome, *parts):
        """Exit code 2, nothing on standard output, and a message with `parts`."""
        self.assertEqual(outcome.code, 2, outcome.err)
        self.assertEqual(outcome.out, "")
        for part in parts:
            self.assertIn(part, outcome.err)


class HelperCase(KvplanCase):
    """A copy of kvplan, with a GPU helper of the test's own beside it."""

    def setUp(self):
        super().setUp()
        original = os.environ["KVPLAN"]
        self.program = self.scratch / "kvplan"
        shutil.copy(original, self.program)
        self.addCleanup(os.environ.__setitem__, "KVPLAN", original)
        os.environ["KVPLAN"] = str(self.program)

    def helper(self, script):
        """Puts a helper beside kvplan."""
        path = pathlib.Path(self.write("kvplan-gpu-verify", "#!/bin/sh\n" + script))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
