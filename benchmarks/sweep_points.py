#!/usr/bin/env python3
# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""CPU time of a sweep over 10,000 points on one thread, process start included.

    benchmarks/sweep_points.py [--kvplan build/release/bin/kvplan] [--runs 5]

Ends with 1 when the best run of a model takes more than 2 s of CPU time.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[1]
CONFIGS = SOURCE_DIR / "tests" / "data" / "configs"
LIMIT_S = 2.0
OVER = ["--over", "max-model-len=1000:100000:+1000", "--over", "max-num-seqs=1:25:+1"]
SWEEPS = [
    ("Llama-3.1-70B, 44 % of the points do not fit",
     [CONFIGS / "llama-3.1-70b.json", "--gpu", "h200", "--over", "tp=1,2,4,8"]),
    ("Kimi-K3 with DSpark",
     [CONFIGS / "kimi-k3.json", "--drafter", CONFIGS / "dspark-k3-96x16.json", "--gpu", "gb200",
      "--over", "tp=4,8,16,32"]),
]


def seconds(kvplan, arguments):
    """CPU seconds of one run."""
    before = os.times()
    done = subprocess.run([kvplan, "sweep", *map(str, arguments), *OVER, "--jobs", "1", "--format",
                           "csv"], capture_output=True, check=False)
    after = os.times()
    if done.returncode > 1 or done.stdout.count(b"\n") != 10_001:
        sys.exit(f"kvplan sweep ended with {done.returncode}: {done.stderr.decode()}")
    return (after.children_user - before.children_user
            + after.children_system - before.children_system)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kvplan", default=SOURCE_DIR / "build/release/bin/kvplan")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    failed = False
    for name, sweep in SWEEPS:
        times = [seconds(arguments.kvplan, sweep) for _ in range(arguments.runs)]
        failed = failed or min(times) > LIMIT_S
        print(f"{name}: {min(times):.2f} s best, {statistics.median(times):.2f} s median")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
