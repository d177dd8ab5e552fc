#!/usr/bin/env python3
# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""docs/errors.md explains every error code, refusal and decision that the library has.

Usage: docs_errors_test.py SOURCE_TREE. Ids are found in the sources by the ways in which they are
given; each stands in the first column of a table of its section, and nothing else does.
"""

import re
import sys
from pathlib import Path

from source_tree import expect, files_under, report

DOCUMENT = "docs/errors.md"
# A refusal or decision written out: `{.id = "x", ...}`.
WRITTEN = re.compile(r'\{\s*\.id = "(\w+)"')
# The planner's helpers, and the names of ids that several places use.
REFUSED = re.compile(r'\brefuse\(\s*"(\w+)"')
DECIDED = re.compile(r'\bdecide\(\s*"(\w+)"')
NAMED = re.compile(r'string_view k\w*Id = "(\w+)"')
# The key of a layout's error becomes the id of the planner's refusal.
LAYOUT = re.compile(r'\bfail\(\s*ErrorCode::\w+,\s*"(\w+)"')
# Ids of `solve`: what it advises, and what stops an answer.
ADVISED = re.compile(r'(?:\.id = |offer_spread\(\s*)"(\w+)"')
LIMIT = re.compile(r'\.id = "(\w+)"')
SOLVE = "libkvpool/src/solve/"
CODE = re.compile(r'case ErrorCode::\w+: return "(\w+)"')


def ids_in(path: str, text: str):
    """Ids of refusals and decisions that a source gives."""
    if path.startswith(SOLVE):
        return set()
    found = set(WRITTEN.findall(text)) | set(NAMED.findall(text))
    if path.startswith("libkvpool/src/plan/"):
        found |= set(REFUSED.findall(text)) | set(DECIDED.findall(text))
    if path.startswith("libkvpool/src/layout/"):
        found |= set(LAYOUT.findall(text))
    return found


def solve_ids(path: str, text: str):
    """Ids of advice, and of limits of answers, that a source of `solve` gives."""
    if path in (SOLVE + "advice.cpp", SOLVE + "engine_advice.cpp"):
        return set(ADVISED.findall(text)), set()
    return set(), set(LIMIT.findall(text)) if path.startswith(SOLVE) else set()


def first_column(document: str, heading: str):
    """Names in `backticks` in the first column of the tables below a heading."""
    section = re.split(r"^## ", document, flags=re.MULTILINE)
    text = "".join(part for part in section if part.startswith(heading + "\n"))
    text = text.split("\n### ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))


def differences(what: str, expected, explained):
    """Findings: what is not explained, and what is explained and does not exist."""
    return ([f"{DOCUMENT}:1: {what} {name} is not explained" for name in sorted(expected - explained)]
            + [f"{DOCUMENT}:1: there is no {what} {name}" for name in sorted(explained - expected)])


def self_test():
    """The check finds what it is for."""
    plan, layout = "libkvpool/src/plan/a.cpp", "libkvpool/src/layout/a.cpp"
    expect(ids_in(plan, 'refuse("a",\n x); decide(\n "b"); r = {.id = "c", .what = ""};') ==
           {"a", "b", "c"}, "ids of the planner")
    expect(ids_in(layout, 'fail(ErrorCode::kX, "d", f()); refuse("e")') == {"d"}, "ids of layout")
    expect(ids_in("x.hpp", 'inline constexpr std::string_view kKernelSetId = "f";') == {"f"}, "names")
    expect(solve_ids(SOLVE + "advice.cpp", 'x{.id = "g"}; offer_spread("h",') == ({"g", "h"}, set()),
           "advice")
    expect(solve_ids(SOLVE + "b.cpp", 'x = {.id = "i"}') == (set(), {"i"}), "limits")
    text = "## Refusals\n\n| id |\n|---|\n| `a` | x |\n## Decisions\n| `b` | y |\n"
    expect(first_column(text, "Refusals") == {"a"}, "first column")
    expect(len(differences("id", {"a", "b"}, {"b", "c"})) == 2, "differences")


def main() -> int:
    self_test()
    root = Path(sys.argv[1]).resolve()
    document = (root / DOCUMENT).read_text(encoding="utf-8")
    sources = files_under(root / "libkvpool" / "src", {".cpp", ".hpp"})
    ids, advised, limits = set(), set(), set()
    for path in sources:
        name, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        ids |= ids_in(name, text)
        advised |= solve_ids(name, text)[0]
        limits |= solve_ids(name, text)[1]
    result = root / "libkvpool/include/kvpool/core/result.hpp"
    codes = set(CODE.findall(result.read_text(encoding="utf-8")))
    findings = differences(
        "id", ids, first_column(document, "Refusals") | first_column(document, "Decisions"))
    findings += differences("advice", advised, first_column(document, "Advice"))
    # A refusal may stop an answer, too; it is explained above.
    findings += differences("limit", limits - ids, first_column(document, "Limits of answers"))
    findings += differences("error code", codes, first_column(document, "Error codes"))
    if not ids or not codes:
        findings.append(f"{DOCUMENT}:1: no ids or codes found in the sources")
    return report("errors", findings, len(sources))


if __name__ == "__main__":
    sys.exit(main())
