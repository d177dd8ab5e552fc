# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""Completion scripts, the manual page, and what terminals and pipes see of every command."""

import os
import pty
import re
import shutil
import subprocess
import unittest

from kvplan_case import LLAMA, KvplanCase

COMMANDS = ["plan", "explain", "kernels", "verify", "check", "solve", "sweep", "diff", "lint",
            "models", "gpus", "completion", "man"]


class Completion(KvplanCase):
    def script(self, shell):
        outcome = self.kvplan("completion", shell)
        self.assertEqual((outcome.code, outcome.err), (0, ""))
        return outcome.out

    def complete(self, line):
        """What bash offers for the last word of a line."""
        words = line.split(" ")
        script = self.write("kvplan.bash", self.script("bash"))
        quoted = " ".join("'" + word + "'" for word in words)
        run = subprocess.run(
            ["bash", "-c", f"source {script}; COMP_WORDS=({quoted}); "
             f"COMP_CWORD={len(words) - 1}; _kvplan; printf '%s\\n' \"${{COMPREPLY[@]}}\""],
            capture_output=True, text=True, check=True, cwd=self.scratch)
        return [word for word in run.stdout.split("\n") if word]

    def test_bash_offers_commands_options_and_values(self):
        self.assertEqual(self.complete("kvplan "), [*COMMANDS, "--help", "--version"])
        self.assertEqual(self.complete("kvplan com"), ["completion"])
        self.assertIn("--max-num-seqs", self.complete("kvplan plan x --max"))
        self.assertNotIn("--allocations", self.complete("kvplan plan x --"))
        self.assertIn("--allocations", self.complete("kvplan verify x --"))
        self.assertEqual(self.complete("kvplan plan x --gpu h20"), ["h200"])
        self.assertEqual(self.complete("kvplan plan x --gpu b"), ["b200", "b300"])
        self.assertEqual(self.complete("kvplan plan x --kernel-set e"), ["exact"])
        self.assertIn("fp8_e5m2", self.complete("kvplan plan x --kv-cache-dtype fp8_e5"))
        self.assertIn("Qwen/Qwen3-8B", self.complete("kvplan plan Qwen/Qwen3-8"))
        self.assertEqual(self.complete("kvplan completion z"), ["zsh"])
        self.write("my_file.toml", "")
        self.assertEqual(self.complete("kvplan plan x --deployment my"), ["my_file.toml"])

    def test_scripts_are_sound_for_their_shells(self):
        for shell in ["bash", "zsh", "fish"]:
            script = self.write(f"kvplan.{shell}", self.script(shell))
            if shutil.which(shell) is not None:
                subprocess.run([shell, "-n", script], check=True)

    def test_every_option_and_command_is_in_every_script(self):
        names = set(re.findall(r"^ +--([\w-]+)", self.kvplan("plan", "--help").out, re.MULTILINE))
        self.assertGreater(len(names), 30)
        for shell in ["bash", "zsh", "fish"]:
            script = self.script(shell)
            for name in names:
                self.assertIn(f"-l {name}" if shell == "fish" else f"--{name}", script)
            for command in COMMANDS:
                self.assertIn(command, script)

    def test_an_unknown_shell_is_a_usage_error(self):
        self.assert_usage(self.kvplan("completion", "fihs"), "did you mean 'fish'?")
        self.assert_usage(self.kvplan("completion"), "bash, zsh or fish")
        self.assert_usage(self.kvplan("completion", "bash", "--json"), "does not take")


class Manual(KvplanCase):
    def test_the_page_has_every_command_and_option(self):
        outcome = self.kvplan("man")
        self.assertEqual((outcome.code, outcome.err), (0, ""))
        page = outcome.out.replace("\\-", "-")
        self.assertTrue(page.startswith(".TH KVPLAN 1"))
        for section in ["NAME", "SYNOPSIS", "COMMANDS", "OPTIONS", "ENVIRONMENT"]:
            self.assertIn(f".SH {section}\n", page)
        for command in COMMANDS:
            self.assertIn(f"\\fBkvplan {command}\\fR", page)
        for name in re.findall(r"^ +--([\w-]+)", self.kvplan("plan", "--help").out, re.MULTILINE):
            self.assertIn(f"--{name}", page)
        for line in (r"\fBkvplan diff\fR \fIA\fR \fIB\fR [", r"\fBkvplan gpus\fR [\fITEXT\fR] ["):
            self.assertIn(line, page)

    def test_no_line_is_taken_for_a_request_by_mistake(self):
        for line in self.kvplan("man").out.split("\n"):
            if line.startswith("."):
                self.assertRegex(line, r"^\.(TH|SH|SS|TP|EX|EE|br)\b")
            self.assertFalse(line.startswith("'"), line)

    def test_groff_has_nothing_to_say(self):
        if shutil.which("groff") is None:
            self.skipTest("no groff")
        page = self.write("kvplan.1", self.kvplan("man").out)
        run = subprocess.run(["groff", "-man", "-Tascii", "-ww", page], capture_output=True,
                             text=True, check=True)
        self.assertEqual(run.stderr, "")

    def test_arguments_are_usage_errors(self):
        self.assert_usage(self.kvplan("man", "plan"), "takes no argument")


class Terminals(KvplanCase):
    REPORTS = [["plan", LLAMA, "--gpu", "h200"], ["lint", LLAMA], ["models", "llama"], ["gpus"]]

    def on_a_terminal(self, arguments, **variables):
        """Standard output of a run whose output is a terminal."""
        leader, follower = pty.openpty()
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm", **variables}
        process = subprocess.Popen([os.environ["KVPLAN"], *arguments], stdout=follower,
                                   stderr=subprocess.PIPE, env=environment)
        os.close(follower)
        out = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:
                break
            if not part:
                break
            out += part
        process.communicate(timeout=60)
        os.close(leader)
        return out.decode()

    def test_colours_are_for_terminals_that_want_them(self):
        for arguments in self.REPORTS[:2]:
            self.assertIn("\x1b[", self.on_a_terminal(arguments))
        for arguments in self.REPORTS:
            for variables in [{"NO_COLOR": "1"}, {"TERM": "dumb"}]:
                self.assertNotIn("\x1b[", self.on_a_terminal(arguments, **variables))
            self.assertNotIn("\x1b[", self.kvplan(*arguments).out)

    def test_a_narrow_terminal_gets_the_same_lines(self):
        for arguments in self.REPORTS:
            wide = self.kvplan(*arguments, env={**os.environ, "COLUMNS": "200"}).out
            narrow = self.kvplan(*arguments, env={**os.environ, "COLUMNS": "40"}).out
            self.assertEqual(wide, narrow)
            self.assertLessEqual(max(len(line) for line in wide.split("\n")), 160)

    def test_json_stands_alone_on_standard_output(self):
        for arguments in self.REPORTS:
            outcome = self.kvplan(*arguments, "--json")
            self.assertIn(outcome.code, (0, 1))
            self.assertIn("schema", outcome.document())
            self.assertEqual(outcome.err, "")

    def test_a_closed_pipe_is_no_success(self):
        for arguments in [*self.REPORTS, ["man"], ["completion", "bash"]]:
            with open("/dev/full", "w", encoding="utf-8") as full:
                outcome = self.kvplan(*arguments, stdout=full)
            self.assertEqual(outcome.code, 4, arguments)
            self.assertIn("standard output", outcome.err)

    def test_help_names_every_command(self):
        text = self.kvplan("--help").out
        for command in COMMANDS:
            self.assertRegex(text, rf"(?m)^  {command} ")
            sub = self.kvplan(command, "--help")
            self.assertEqual((sub.code, sub.err), (0, ""))
            self.assertIn(f"kvplan {command}", sub.out)


if __name__ == "__main__":
    unittest.main()
