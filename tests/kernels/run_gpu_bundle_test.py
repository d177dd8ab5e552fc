#!/usr/bin/env python3
# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""run_gpu_bundle.sh: what it makes of programs that pass, fail, crash, skip and test nothing."""

import csv
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

SCRIPT = pathlib.Path(__file__).resolve().parent / "run_gpu_bundle.sh"

# As Catch2 writes it.
DOCUMENT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="gpu_x" errors="0" failures="{failures}" tests="1">
    <testcase classname="gpu_x.global" name="a case" time="0.1">{inside}</testcase>
  </testsuite>
</testsuites>
"""


def test_program(code, inside="", failures=0, document=None):
    """A program that writes a JUnit document and ends with a code, or a signal."""
    text = DOCUMENT.format(failures=failures, inside=inside) if document is None else document
    end = f"exit {code}" if code >= 0 else f"kill -{-code} $$"
    return f"""
case "$1" in
  --list-test-names-only) echo "a case"; exit 0 ;;
  '[sanitize]') exit 0 ;;
esac
while [ $# -gt 1 ]; do
  [ "$1" = -o ] && file=$2
  shift
done
cat >"$file" <<'END'
{text}END
{end}
"""


class RunGpuBundle(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.bundle = pathlib.Path(scratch.name) / "bundle"
        self.out = pathlib.Path(scratch.name) / "out"
        (self.bundle / "bin").mkdir(parents=True)
        (self.bundle / "plans").mkdir()
        (self.bundle / "plans" / "small.json").write_text("{}")
        (self.bundle / "commit.txt").write_text("0123456789ab\n")
        shutil.copy(SCRIPT, self.bundle)
        self.tools = pathlib.Path(scratch.name) / "tools"
        self.tools.mkdir()
        self.program("gpu_memory", test_program(0))
        self.program("gpu_kernels", test_program(0))
        self.verifier(0)

    def verifier(self, code, self_test=None):
        """The verifier of plans, which tests the kernels too and then ends with 77 without a GPU."""
        if self_test is None:
            self_test = 0 if code == 0 else 77
        self.program("kvplan-gpu-verify",
                     f'[ "$1" = --self-test ] && echo "{{}}" && exit {self_test}; exit {code}')

    def program(self, name, script, folder=None):
        path = (folder or self.bundle / "bin") / name
        path.write_text("#!/bin/sh\n" + script + "\n")
        path.chmod(0o755)

    def run_bundle(self, *arguments):
        """Exit code, results by program, and those of the JUnit document by program."""
        environment = dict(os.environ, PATH=f"{self.tools}:/usr/bin:/bin")
        run = subprocess.run(["bash", self.bundle / "run_gpu_bundle.sh", self.out, *arguments],
                             capture_output=True, timeout=60, check=False, env=environment)
        self.text = run.stdout.decode() + run.stderr.decode()
        with open(self.out / "summary.csv", encoding="utf-8") as file:
            results = {row["program"]: row["result"] for row in csv.DictReader(file)}
        entries = {}
        self.cases = 0
        for case in xml.etree.ElementTree.parse(self.out / "junit.xml").iter("testcase"):
            if case.get("classname") != "program":
                self.cases += 1
                continue
            kinds = [child.tag for child in case]
            entries[case.get("name")] = kinds[0] if kinds else "passed"
        return run.returncode, results, entries

    def test_all_pass(self):
        code, results, entries = self.run_bundle()
        self.assertEqual(code, 0, self.text)
        self.assertEqual(set(results.values()), {"passed"})
        self.assertEqual(entries, {"gpu_memory": "passed", "gpu_kernels": "passed",
                                   "self_test": "passed", "verify_small": "passed"})
        self.assertEqual(self.cases, 2)
        self.assertEqual((self.out / "self_test.json").read_text(), "{}\n")

    def test_a_self_test_that_fails_or_cannot_run_beside_a_gpu(self):
        self.verifier(0, self_test=1)
        code, results, entries = self.run_bundle()
        self.assertEqual((code, results["self_test"]), (1, "failed (1)"))
        self.assertEqual(entries["self_test"], "failure")
        self.verifier(0, self_test=77)
        code, results, _ = self.run_bundle()
        self.assertEqual((code, results["self_test"]), (1, "failed (1)"))

    def test_a_failure(self):
        self.program("gpu_kernels", test_program(1, '<failure message="no"/>', 1))
        code, results, entries = self.run_bundle()
        self.assertEqual(code, 1)
        self.assertEqual(results["gpu_kernels"], "failed (1)")
        self.assertEqual(entries["gpu_kernels"], "failure")

    def test_a_crash_is_a_failure_in_every_document(self):
        cut = DOCUMENT.format(failures=0, inside="")[:150]
        for document in ("", cut + "\n"):
            self.program("gpu_kernels", test_program(-11, document=document))
            code, results, entries = self.run_bundle()
            self.assertEqual(code, 1)
            self.assertEqual(results["gpu_kernels"], "failed (139)")
            self.assertEqual(entries["gpu_kernels"], "failure")
            self.assertEqual(self.cases, 1, "those of the other program")

    def test_a_program_that_tested_nothing_did_not_pass(self):
        for document in ("", "<testsuites>\n</testsuites>\n"):
            self.program("gpu_memory", test_program(0, document=document))
            code, results, entries = self.run_bundle()
            self.assertEqual(code, 1)
            self.assertEqual(results["gpu_memory"], "failed (1)")
            self.assertEqual(entries["gpu_memory"], "failure")

    def test_without_a_gpu(self):
        self.program("gpu_memory", "exit 77")
        self.program("gpu_kernels", "exit 77")
        self.verifier(4)
        code, results, entries = self.run_bundle()
        self.assertEqual(code, 77)
        self.assertEqual(set(results.values()), {"skipped"})
        self.assertEqual(set(entries.values()), {"skipped"})

    def test_77_of_some_is_not_77_of_all(self):
        self.program("gpu_memory", "exit 77")
        self.verifier(4)
        code, results, entries = self.run_bundle()
        self.assertEqual(code, 1, "there is a GPU, and a plan could not be verified")
        self.assertEqual(results["verify_small"], "failed (4)")
        self.assertEqual(entries["gpu_memory"], "skipped")

    def sanitizer(self, text, code):
        """A compute-sanitizer that prints a summary."""
        self.program("compute-sanitizer", f"echo '========= {text}'; exit {code}", self.tools)

    def test_sanitizers(self):
        self.sanitizer("ERROR SUMMARY: 0 errors", 0)
        code, results, _ = self.run_bundle("--sanitize")
        self.assertEqual(code, 0, self.text)
        self.assertEqual(results["memcheck_gpu_kernels"], "passed")
        self.sanitizer("RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", 0)
        self.assertEqual(self.run_bundle("--sanitize")[0], 0, self.text)
        self.sanitizer("ERROR SUMMARY: 3 errors", 9)
        code, results, entries = self.run_bundle("--sanitize")
        self.assertEqual(code, 1)
        self.assertEqual(results["racecheck_gpu_memory"], "failed (9)")
        self.assertEqual(entries["racecheck_gpu_memory"], "failure")
        # It ran the program and looked at nothing.
        self.sanitizer("Warning: device not supported", 0)
        code, results, _ = self.run_bundle("--sanitize")
        self.assertEqual(code, 1)
        self.assertEqual(results["memcheck_gpu_kernels"], "failed (1)")

    def test_sanitizers_that_were_asked_for_and_are_not_there(self):
        if shutil.which("compute-sanitizer", path="/usr/bin:/bin"):
            self.skipTest("compute-sanitizer is in /usr/bin")
        code, results, entries = self.run_bundle("--sanitize")
        self.assertEqual(code, 1)
        self.assertEqual(results["sanitize"], "failed (1)")
        self.assertEqual(entries["sanitize"], "failure")
        self.assertIn("compute-sanitizer is not in PATH", self.text)
        self.assertEqual(self.run_bundle()[0], 0, "nobody asked")
        for name in ("gpu_memory", "gpu_kernels"):
            self.program(name, test_program(77))
        self.verifier(4)
        self.assertEqual(self.run_bundle("--sanitize")[0], 77, "there is no GPU to ask it of")

    def test_a_test_case_that_was_skipped_did_not_pass(self):
        name = "more than 100 GiB (a+b) <c> & [d]"
        case = name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        document = DOCUMENT.format(failures=0, inside="").replace(
            "  </testsuite>", f'    <testcase classname="gpu_x.global" name="{case}" time="0"/>\n'
            "  </testsuite>")
        self.program("gpu_memory", f"[ $1 = -o ] || echo 'skipped test case: {name}: too small' >&2"
                     + test_program(0, document=document))
        code, _, _ = self.run_bundle()
        self.assertEqual(code, 0, self.text)
        self.assertIn("and 1 test cases", self.text)
        tree = xml.etree.ElementTree.parse(self.out / "junit.xml")
        skipped = [c.get("name") for c in tree.iter("testcase") if c.find("skipped") is not None]
        self.assertEqual(skipped, [name])

    def test_wrong_command_lines(self):
        for arguments in ([], ["--sanitize"], [self.out, "--other"]):
            run = subprocess.run(["bash", self.bundle / "run_gpu_bundle.sh", *arguments],
                                 capture_output=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 2, arguments)


if __name__ == "__main__":
    unittest.main()
