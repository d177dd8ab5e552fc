#!/usr/bin/env python3
# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""What kvplan answers to the deployments of this folder, byte for byte as it was reviewed.

Usage: deployments_test.py KVPLAN [--update]

Each `deployments/NAME.toml` has its report in `NAME.txt` and its document in `NAME.json`; the known
GPUs stand in `gpus.txt`. `--update` writes them anew.
"""

import difflib
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent / "deployments"


def answers():
    """Name of the file and the arguments that give it."""
    for deployment in sorted(FOLDER.glob("*.toml")):
        arguments = ["plan", "--deployment", deployment.name]
        yield deployment.with_suffix(".txt"), arguments
        yield deployment.with_suffix(".json"), [*arguments, "--json"]
    yield FOLDER / "gpus.txt", ["gpus"]


def main() -> int:
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    kvplan, update = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:] == ["--update"]
    wrong = seen = 0
    for path, arguments in answers():
        seen += 1
        run = subprocess.run([kvplan, *arguments], capture_output=True, cwd=FOLDER, env={},
                             timeout=60, check=False)
        if run.returncode not in (0, 1):
            print(f"{path.name}: exit code {run.returncode}: {run.stderr.decode()}")
            wrong += 1
        elif update:
            path.write_bytes(run.stdout)
        elif not path.is_file() or path.read_bytes() != run.stdout:
            reviewed = path.read_text().splitlines() if path.is_file() else []
            lines = difflib.unified_diff(reviewed, run.stdout.decode().splitlines(),
                                         f"reviewed {path.name}", "answered", lineterm="", n=1)
            print("\n".join(list(lines)[:40]))
            wrong += 1
    print(f"{seen} answers, {wrong} differ" + (" (--update writes them anew)" if wrong else ""))
    return 1 if wrong or seen < 9 else 0


if __name__ == "__main__":
    sys.exit(main())
