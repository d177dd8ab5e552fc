#!/usr/bin/env python3
# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""A header or source includes only its own folder or an earlier one of the chain.

Usage: include_order_test.py SOURCE_TREE. The chain is the one of docs/architecture.md. Files of
`testing` come after `plan` and see nothing of `io` and later folders; only tests and
`planner_cli` (for `kvplan verify`) see `testing`. Files of `cuda` come after `pool`; only tests
`kernels` and `planner_cli/gpu_verify` (a program of its own) see `cuda`.
"""

import sys
from pathlib import Path

from source_tree import CXX, expect, files_under, includes, report

CHAIN = [
    "core", "memory", "model", "layout", "capability", "pool", "plan", "engine", "solve", "io", "block",
    "kernels", "planner_cli",
]
TESTING_SEES = CHAIN[: CHAIN.index("plan") + 1] + ["testing"]
CUDA_SEES = CHAIN[: CHAIN.index("pool") + 1] + ["cuda"]
APART = {"testing": TESTING_SEES, "cuda": CUDA_SEES, "gpu_verify": [*CHAIN, "cuda"]}


def folder_of(path: str):
    """The chain's folder that a file (relative to the source tree) belongs to, or None."""
    parts = Path(path).parts
    for prefix in (("libkvpool", "include", "kvpool"), ("libkvpool", "src")):
        if parts[: len(prefix)] == prefix and len(parts) > len(prefix) + 1:
            return parts[len(prefix)]
    if parts[:2] == ("planner_cli", "gpu_verify"):
        return "gpu_verify"
    if parts[0] in ("kernels", "planner_cli"):
        return parts[0]
    return None


def included_folder(target: str, angled: bool):
    """The chain's folder that an include names, or None if it is not one of ours."""
    parts = Path(target).parts
    if parts[0] == "kvpool" and len(parts) > 2:
        return parts[1]
    if not angled and len(parts) > 1 and (parts[0] in CHAIN or parts[0] in ("testing", "cuda")):
        return parts[0]
    return None


def check_file(path: str, text: str):
    """Findings for one file."""
    folder = folder_of(path)
    if folder is None:
        return []
    if folder not in CHAIN and folder not in APART:
        return [f"{path}:1: folder '{folder}' has no place in the include order"]
    allowed = APART[folder] if folder in APART else CHAIN[: CHAIN.index(folder) + 1]
    if folder in ("planner_cli", "kernels"):
        allowed = [*allowed, "testing" if folder == "planner_cli" else "cuda"]
    findings = []
    for line, angled, target in includes(text):
        other = included_folder(target, angled)
        if ".." in Path(target).parts:
            findings.append(f"{path}:{line}: includes by a relative path: {target}")
        elif other is not None and other not in allowed:
            findings.append(f"{path}:{line}: '{folder}' may not include '{other}' ({target})")
    return findings


def self_test():
    """The check finds what it is for."""
    header = "libkvpool/include/kvpool/{}/x.hpp"
    bad = [
        (header.format("core"), "#include <kvpool/memory/y.hpp>"),
        (header.format("memory"), "\n#include <kvpool/model/y.hpp>\n"),
        (header.format("plan"), "#  include <kvpool/io/y.hpp>"),
        (header.format("plan"), "#include <kvpool/engine/y.hpp>"),
        (header.format("pool"), "#include <kvpool/testing/y.hpp>"),
        (header.format("testing"), "#include <kvpool/io/y.hpp>"),
        (header.format("cuda"), "#include <kvpool/plan/y.hpp>"),
        (header.format("plan"), "#include <kvpool/cuda/y.hpp>"),
        ("planner_cli/main.cpp", "#include <kvpool/cuda/y.hpp>"),
        (header.format("surprise"), ""),
        ("libkvpool/src/layout/x.cpp", '#include "capability/y.hpp"'),
        ("libkvpool/src/layout/x.cpp", '#include "../core/y.hpp"'),
        ("kernels/src/a.cpp", '#include "planner_cli/options.hpp"'),
    ]
    good = [
        (header.format("plan"), "#include <kvpool/pool/y.hpp>\n#include <vector>"),
        (header.format("engine"), "#include <kvpool/plan/y.hpp>"),
        (header.format("testing"), "#include <kvpool/plan/y.hpp>"),
        (header.format("cuda"), "#include <kvpool/pool/y.hpp>\n#include <cuda.h>"),
        ("kernels/src/a.cpp", "#include <kvpool/cuda/y.hpp>"),
        (header.format("core"), "/* #include <kvpool/memory/y.hpp> */\n// #include <kvpool/io/y>"),
        ("libkvpool/src/io/x.cpp", '#include "io/y.hpp"\n#include <nlohmann/json.hpp>'),
        ("planner_cli/commands/verify.cpp", "#include <kvpool/testing/y.hpp>"),
        ("planner_cli/v.cpp", "#include <kvpool/testing/y.hpp>"),
        ("planner_cli/gpu_verify/main.cpp", "#include <kvpool/cuda/y.hpp>"),
        ("planner_cli/main.cpp", '#include <kvpool/io/y.hpp>\n#include "options.hpp"'),
        ("tests/unit/core/x_test.cpp", "#include <kvpool/plan/y.hpp>"),
    ]
    for path, text in bad:
        expect(len(check_file(path, text)) == 1, f"{path}: {text!r} is a finding")
    for path, text in good:
        expect(not check_file(path, text), f"{path}: {text!r} is fine")


def main() -> int:
    self_test()
    root = Path(sys.argv[1])
    findings, checked = [], 0
    for top in ("libkvpool", "kernels", "planner_cli"):
        for path in files_under(root / top, CXX):
            checked += 1
            findings += check_file(str(path.relative_to(root)), path.read_text(encoding="utf-8"))
    return report("include order", findings, checked)


if __name__ == "__main__":
    sys.exit(main())
