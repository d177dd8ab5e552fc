# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""What the architecture checks share: which files there are, and what they include."""

import re
import sys
from pathlib import Path

CXX = {".hpp", ".cpp", ".cuh", ".cu"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
NOT_SOURCE = {"build", ".git", "shared", "third_party"}


def files_under(folder: Path, suffixes):
    """Files below a folder with one of the suffixes, in a fixed order."""
    if not folder.is_dir():
        return []
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and path.suffix in suffixes
        and not NOT_SOURCE.intersection(path.relative_to(folder).parts)
    )


def includes(text: str):
    """(line number, is_angled, path) of each include directive outside block comments."""
    blank = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.DOTALL)
    return [
        (blank.count("\n", 0, match.start(2)) + 1, match.group(1) == "<", match.group(2))
        for match in INCLUDE.finditer(blank)
    ]


def report(name: str, findings, checked: int) -> int:
    """Prints findings; the exit code. Having had nothing to look at is a failure."""
    for finding in findings:
        print(finding)
    if not checked:
        print(f"{name}: no file found to check")
        return 1
    print(f"{name}: {checked} files, {len(findings)} findings")
    return 1 if findings else 0


def expect(condition: bool, what: str) -> None:
    """A self-test step."""
    if not condition:
        sys.exit(f"self-test failed: {what}")
