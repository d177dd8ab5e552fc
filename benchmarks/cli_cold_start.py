#!/usr/bin/env python3
# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""Time of `kvplan plan --json` from starting the process to its end, per config.

    benchmarks/cli_cold_start.py [--kvplan build/release/bin/kvplan] [--runs 20] [CONFIG ...]

Without configs: all of tests/data/configs, and one generated config of 4 MiB. Ends with 1 when the
median of a config exceeds its limit: 50 ms up to 128 KiB, 150 ms above.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[1]
KIB = 1024
SMALL, SMALL_LIMIT_MS, LARGE_LIMIT_MS = 128 * KIB, 50, 150


def write_large_config(folder):
    """A config of 4 MiB, as quantised checkpoints have them: a list of modules to leave alone."""
    config = json.loads((SOURCE_DIR / "tests/data/configs/llama-3.1-70b.json").read_text())
    modules = [f"model.layers.{i % 80}.mlp.experts.{i}.down_proj" for i in range(88_000)]
    config["modules_to_leave_alone"] = modules
    path = folder / "generated-4MiB.json"
    path.write_text(json.dumps(config, indent=1))
    return path


def measure(kvplan, config, runs):
    """Milliseconds of each run, and the exit code."""
    command = [kvplan, "plan", str(config), "--gpu", "b200", "--tp", "8", "--json"]
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        code = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              check=False).returncode
        times.append((time.perf_counter() - start) * 1e3)
    return times[1:], code


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvplan", default=str(SOURCE_DIR / "build/release/bin/kvplan"))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("configs", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    too_slow = 0
    with tempfile.TemporaryDirectory() as scratch:
        configs = arguments.configs or sorted((SOURCE_DIR / "tests/data/configs").glob("*.json"))
        configs.append(write_large_config(pathlib.Path(scratch)))
        print(f"{'config':40} {'KiB':>7} {'exit':>4} {'best ms':>8} {'median':>8} {'worst':>8}"
              f" {'limit':>6}")
        for config in configs:
            size = config.stat().st_size
            limit = SMALL_LIMIT_MS if size <= SMALL else LARGE_LIMIT_MS
            times, code = measure(arguments.kvplan, config, arguments.runs)
            median = statistics.median(times)
            too_slow += median > limit
            print(f"{config.stem[:40]:40} {size / KIB:7.0f} {code:4} {min(times):8.1f}"
                  f" {median:8.1f} {max(times):8.1f} {limit:6}{'  too slow' if median > limit else ''}")
    return 1 if too_slow else 0


if __name__ == "__main__":
    sys.exit(main())
