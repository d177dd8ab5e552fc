#!/usr/bin/env python3
# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""Instructions per operation of the block manager, against a golden file.

Usage: block_manager_instructions.py PROGRAM COMPILER [--update] [--large]

PROGRAM is build/release/bin/block_manager_instructions, COMPILER what built it ("GNU 12.2.0").
Runs it under callgrind for every operation and compares with block_manager_instructions.json
beside this file: 0 when each count is within the file's tolerance and those of small and large
pools agree within 2 %, 1 when not, 77 when there is no valgrind or the file is of another
compiler. --update writes the file anew. --large also counts pools of 10^7 pages (minutes, and 3
GiB of memory).
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

GOLDEN = Path(__file__).with_suffix(".json")
SKIPPED = 77
# PrefixFullHit is memcmp, of which the C library has one for every processor.
OPERATIONS = ["DecodeStep/256/1", "DecodeStep/256/6", "DecodeStep/1024/1",
              "DecodeStepSpeculative/256", "PrefixMiss", "PrefixMatch512", "AdmitCold/131072"]
# Work that must not depend on the size of the pool, at two sizes each.
PAIRS = [("AllocatePage/10000", "AllocatePage/1000000"), ("FreePage/10000", "FreePage/1000000"),
         ("EvictPage/10000", "EvictPage/100000")]
LARGE_PAIRS = [(f"{name}/10000", f"{name}/10000000")
               for name in ("AllocatePage", "FreePage", "EvictPage")]
EQUAL_WITHIN = 0.02


def instructions(program: str, operation: str) -> float:
    """Instructions of one operation, as callgrind counts them."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        result = subprocess.run(
            ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--quiet",
             f"--callgrind-out-file={out}", program, operation],
            capture_output=True, text=True, check=False)
        if result.returncode == SKIPPED:
            print(result.stderr, end="")
            sys.exit(SKIPPED)
        if result.returncode != 0:
            sys.exit(f"{operation}: exit status {result.returncode}\n{result.stderr}")
        total = re.search(r"^totals: (\d+)", out.read_text(encoding="utf-8"), re.M)
        return int(total.group(1)) / int(result.stdout)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("compiler")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("skipped: no valgrind")
        return SKIPPED
    golden = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {
        "compiler": options.compiler, "tolerance": 0.05, "instructions": {}}
    if golden["compiler"] != options.compiler and not options.update:
        print(f"skipped: {GOLDEN.name} is of {golden['compiler']}, not {options.compiler}")
        return SKIPPED

    pairs = PAIRS + (LARGE_PAIRS if options.large else [])
    names = list(dict.fromkeys(OPERATIONS + [name for pair in pairs for name in pair]))
    counts = {name: instructions(options.program, name) for name in names}
    failures = []
    for name, count in counts.items():
        expected = golden["instructions"].get(name)
        note = "" if expected is None else f"  golden {expected}"
        print(f"{name:28} {count:12.1f}{note}")
        if not options.update:
            if expected is None:
                failures.append(f"{name} is not in {GOLDEN.name}")
            elif abs(count - expected) > golden["tolerance"] * expected:
                failures.append(f"{name}: {count:.1f} instructions instead of {expected}")
    for small, large in pairs:
        if abs(counts[large] - counts[small]) > EQUAL_WITHIN * counts[small]:
            failures.append(f"{large}: {counts[large]:.1f} instructions, but {small}: "
                            f"{counts[small]:.1f}")
    if options.update:
        golden["compiler"] = options.compiler
        golden["instructions"] |= {name: round(count, 1) for name, count in counts.items()}
        GOLDEN.write_text(json.dumps(golden, indent=2) + "\n", encoding="utf-8")
    for failure in failures:
        print(f"failed: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
