#!/usr/bin/env python3
# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""Makes a catalogue entry from a model's config.json.

Usage: add_entry.py KVPLAN CONFIG NAME SOURCE [FOLDER]

The entry keeps the keys of the config without which `kvplan` would understand the model
differently (layers, weights, formats, where figures come from, findings), and nothing else: keys
and list elements are left out one after the other, and stay out if `kvplan explain`, `kvplan lint`
and the model of `kvplan plan --json` are the same without them. NAME is owner/model; SOURCE says
where the file stands.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

NESTED = ("text_config", "llm_config", "language_config")


class Understanding:
    """What kvplan makes of a config."""

    def __init__(self, kvplan, folder):
        self.kvplan = kvplan
        # Its name decides nothing.
        self.path = pathlib.Path(folder) / "model.json"

    def of(self, config):
        self.path.write_text(json.dumps(config))
        out = []
        for command in (["explain", self.path, "--kv-budget", "4TiB"],
                        ["lint", self.path, "--json"],
                        ["plan", self.path, "--kv-budget", "4TiB", "--json"]):
            run = subprocess.run([self.kvplan, *map(str, command)], capture_output=True, text=True,
                                 check=False)
            if command[0] == "plan":
                document = json.loads(run.stdout)
                if "error" in document and document["error"]:
                    return None
                out.append(document["request"]["target"])
            else:
                out.append(run.stdout)
        return out


def load(path):
    """A config; bare Infinity and NaN are understood by json."""
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def prune_list(holder, key, same):
    """Leaves out elements of a list that decide nothing, the large pieces first."""
    size = len(holder[key]) // 2
    while size > 0:
        start = 0
        while start < len(holder[key]):
            whole = holder[key]
            holder[key] = whole[:start] + whole[start + size:]
            if not same():
                holder[key] = whole
                start += size
        size //= 2


def prune(holder, same, depth=0):
    """Leaves out keys that decide nothing."""
    for key in sorted(holder):
        value = holder.pop(key)
        if same():
            continue
        holder[key] = value
        if isinstance(value, dict) and depth < 4:
            prune(value, same, depth + 1)
        elif isinstance(value, list) and len(value) > 4 and all(isinstance(x, str) for x in value):
            prune_list(holder, key, same)


def ordered(holder):
    """Keys in a fixed order, without the floats that no rule reads."""
    return {key: ordered(value) if isinstance(value, dict) else value
            for key, value in sorted(holder.items())}


def main() -> int:
    if len(sys.argv) not in (5, 6):
        print(__doc__, file=sys.stderr)
        return 2
    kvplan, path, name, source = sys.argv[1:5]
    folder = pathlib.Path(sys.argv[5] if len(sys.argv) == 6 else
                          pathlib.Path(__file__).parent / "entries")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        print(f"{name}: owner/model is expected", file=sys.stderr)
        return 2
    config = load(path)
    with tempfile.TemporaryDirectory() as scratch:
        understanding = Understanding(kvplan, scratch)
        wanted = understanding.of(config)
        if wanted is None:
            print(f"{path}: kvplan does not understand this config", file=sys.stderr)
            return 1
        # The two that people look at first stay, whatever decides.
        kept = {key: config.pop(key) for key in ("model_type", "architectures") if key in config}
        prune(config, lambda: understanding.of({**config, **kept}) == wanted)
    entry = {"name": name, "source": source, "config": ordered({**config, **kept})}
    target = folder / (name.replace("/", "--") + ".json")
    text = json.dumps(entry, indent=1)
    # Lists of numbers and short words on one line.
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]",
                  lambda m: "[" + re.sub(r"\s*\n\s*", " ", m.group(1)) + "]", text)
    target.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
