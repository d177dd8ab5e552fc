#!/usr/bin/env python3
# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""Every source belongs to the build: a forgotten test would pass for ever.

Usage: test_files_test.py SOURCE_TREE BUILD_TREE. C++ and CUDA sources have
to be compiled by the build (compile_commands.json) or named by a CMake file; *_test.py files
have to be named, or registered by a loop over their stems.
"""

import json
import re
import sys
from pathlib import Path

from source_tree import expect, files_under, report

FOLDERS = ("libkvpool", "kernels", "planner_cli", "tests", "examples", "benchmarks")


def unlisted(files, compiled, cmake_text: str):
    """Files that are neither compiled nor named in CMake."""
    findings = []
    for path in files:
        stem = path.name.removesuffix("_test.py") if path.suffix == ".py" else None
        named = re.search(rf"(?<![\w-]){re.escape(path.name)}(?![\w-])", cmake_text) or (
            stem and re.search(rf"(?<![\w-]){re.escape(stem)}(?![\w-])", cmake_text)
        )
        if str(path) not in compiled and not named:
            findings.append(f"{path}:1: in no target")
    return findings


def self_test():
    """The check finds what it is for."""
    text = "kvpool_test(unit_core a_test.cpp)\nforeach(check IN ITEMS order)"
    paths = [Path("tests/a_test.cpp"), Path("tests/b_test.cpp"), Path("tests/c_test.cpp"),
             Path("tests/order_test.py"), Path("tests/other_test.py"), Path("tests/x_a_test.cpp")]
    found = unlisted(paths, {"tests/b_test.cpp"}, text)
    expect([f.split(":")[0] for f in found] ==
           ["tests/c_test.cpp", "tests/other_test.py", "tests/x_a_test.cpp"], str(found))


def main() -> int:
    self_test()
    root, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    compiled = set()
    for command in commands:
        file = (Path(command["directory"]) / command["file"]).resolve()
        if file.is_relative_to(root):
            compiled.add(str(file.relative_to(root)))
    folders = [root / name for name in FOLDERS]
    files = [path.relative_to(root) for folder in folders
             for path in files_under(folder, {".cpp", ".cu"})]
    files += [path.relative_to(root) for path in files_under(root / "tests", {".py"})
              if path.name.endswith("_test.py")]
    cmake_text = "\n".join(
        re.sub(r"#.*", "", path.read_text(encoding="utf-8"))
        for folder in [*folders, root / "cmake"]
        for path in files_under(folder, {".txt", ".cmake"})
        if path.name == "CMakeLists.txt" or path.suffix == ".cmake"
    )
    return report("test files", unlisted(files, compiled, cmake_text), len(files))


if __name__ == "__main__":
    sys.exit(main())
