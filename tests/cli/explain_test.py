# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""Every line of arithmetic that `kvplan explain` prints is calculated again."""

import math
import re
import unittest
from fractions import Fraction

from kvplan_case import CONFIGS, DSPARK, KIMI, LLAMA, KvplanCase

TOKEN = re.compile(r"\s*([\d,]*\d|ceil|floor|min|x(?![a-z])|[-+/(),])")
WORD = re.compile(r"\s*[A-Za-z_][\w/]*")
# A label, an expression that begins with a number, a bracket or a function, and a number.
LINE = re.compile(r"^[^=]*?: ((?:\d|\(|ceil|floor|min)[^=]*) = (-?[\d,]*\d)(?= |$)")


def tokens_of(text):
    """Numbers, operators and functions; words are units and are left out, and so are formats in
    brackets such as (bf16)."""
    text = re.sub(r"\([a-z][\w.]*\)", "", text)
    tokens, at = [], 0
    while at < len(text.rstrip()):
        if token := TOKEN.match(text, at):
            tokens.append(token.group(1))
            at = token.end()
        elif word := WORD.match(text, at):
            at = word.end()
        else:
            raise ValueError(f"cannot read {text[at:]!r}")
    return tokens


class Calculator:
    """A recursive-descent reader of such expressions, exact."""

    def __init__(self, tokens):
        self.tokens = tokens

    def peek(self):
        return self.tokens[0] if self.tokens else ""

    def take(self):
        return self.tokens.pop(0)

    def sum(self):
        value = self.product()
        while self.peek() in ("+", "-"):
            value = value + self.product() if self.take() == "+" else value - self.product()
        return value

    def product(self):
        value = self.atom()
        while self.peek() in ("x", "/"):
            value = value * self.atom() if self.take() == "x" else value / self.atom()
        return value

    def atom(self):
        token = self.take()
        if token in ("ceil", "floor", "min"):
            arguments = self.arguments()
            return {"ceil": lambda v: Fraction(math.ceil(v[0])),
                    "floor": lambda v: Fraction(math.floor(v[0])), "min": min}[token](arguments)
        if token == "(":
            value = self.sum()
            assert self.take() == ")"
            return value
        if token == "-":
            return -self.atom()
        return Fraction(int(token.replace(",", "")))

    def arguments(self):
        assert self.take() == "("
        values = [self.sum()]
        while self.peek() == ",":
            self.take()
            values.append(self.sum())
        assert self.take() == ")"
        return values


def paragraphs(text):
    """Lines with their continuations joined: a continuation is indented deeper and has no label."""
    joined = []
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if joined and line.strip() and indent > joined[-1][0] and joined[-1][2] and \
                not re.match(r"^[A-Za-z][^=]*: ", line.strip()):
            joined[-1][1] += " " + line.strip()
        else:
            joined.append([indent, line.strip(), ":" in line])
    return [line for _, line, _ in joined]


class Explain(KvplanCase):
    def explained(self, *arguments):
        outcome = self.kvplan("explain", *arguments)
        self.assertEqual(outcome.code, 0, outcome.err)
        return outcome.out

    def check_arithmetic(self, text):
        """Number of lines that were calculated again."""
        count = 0
        for line in paragraphs(text):
            found = LINE.match(line)
            if not found:
                continue
            calculator = Calculator(tokens_of(found.group(1)))
            value = calculator.sum()
            self.assertEqual(calculator.tokens, [], line)
            self.assertEqual(value, int(found.group(2).replace(",", "")), line)
            count += 1
        return count

    def test_every_product_and_sum_is_right(self):
        for arguments, least in [
                ([KIMI, "--drafter", DSPARK, "-tp", "16", "--gpu", "gb200"], 30),
                ([LLAMA, "--gpu", "h200", "-tp", "2", "--page-size", "32"], 12),
                ([LLAMA, "--gpu", "h200", "--kv-cache-dtype", "nvfp4"], 12),
                ([LLAMA, "--gpu", "h200", "--kv-cache-dtype", "int8_per_token_head",
                  "--page-size", "1"], 12),
                ([LLAMA, "--kv-budget", "40GiB", "--layout", "page_major_nhd"], 10),
                ([str(CONFIGS / "gemma-3-27b.json"), "--gpu", "b200", "--max-num-seqs", "4"], 12),
                ([str(CONFIGS / "gpt-oss-20b.json"), "--gpu", "b200"], 12),
                ([str(CONFIGS / "llama-4-scout.json"), "-tp", "8", "--gpu", "b200"], 12),
                ([str(CONFIGS / "deepseek-v3.2.json"), "-tp", "8", "--gpu", "b200",
                  "--kv-cache-dtype", "fp8_ds_mla"], 12),
                ([str(CONFIGS / "qwen3-next-80b.json"), "-tp", "4", "-dcp", "2", "--gpu", "b200"],
                 12),
                ([str(CONFIGS / "whisper-large-v3.json"), "--gpu", "h100"], 12),
                ([LLAMA, "-pp", "4", "--gpu", "h200", "--gpu-memory-utilization", "0.87"], 12)]:
            with self.subTest(arguments=arguments):
                self.assertGreaterEqual(self.check_arithmetic(self.explained(*arguments)), least)

    def test_the_checker_sees_a_wrong_product(self):
        with self.assertRaises(AssertionError):
            self.check_arithmetic("  key plane: 2 heads x 64 slots x 128 B = 16,383 B")
        self.assertEqual(self.check_arithmetic("  key plane: 2 heads x 64 slots x 128 B = 16,384 B"),
                         1)

    def test_config_keys_lead_to_figures(self):
        text = self.explained(LLAMA, "--gpu", "h200")
        self.assertRegex(text, r"num_key_value_heads +8 +kv heads")
        self.assertIn("KV heads on a rank: ceil(8 / 1 ranks) = 8", text)

    def test_it_does_not_reprint_the_plan(self):
        arguments = [LLAMA, "--gpu", "h200"]
        plan = {line.strip() for line in self.kvplan("plan", *arguments).out.splitlines()
                if len(line.strip()) > 30}
        explained = {line.strip() for line in self.explained(*arguments).splitlines()}
        self.assertEqual(plan & explained, set())

    def test_figures_are_those_of_the_plan(self):
        arguments = [KIMI, "--drafter", DSPARK, "-tp", "16", "--gpu", "gb200"]
        text = self.explained(*arguments)
        for pool in self.plan(*arguments)["pools"]:
            for figure in (pool["page_bytes"], pool["bytes"], pool["num_pages"], pool["loss"]):
                self.assertIn(f"{figure:,}", text)


if __name__ == "__main__":
    unittest.main()
