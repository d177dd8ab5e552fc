#!/usr/bin/env python3
# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""Real plan documents are valid under the published schema, and altered ones are not.

Usage: plan_schema_test.py SAMPLES_PROGRAM SOURCE_TREE. Also: every key of the schema is described
in docs/plan_report.md.
"""

import copy
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import jsonschema

SAMPLES = {
    "detailed", "does_not_fit", "error", "hybrid", "no_room", "refused", "refused_format",
    "refused_page", "separate", "staged", "stored", "windowed",
}
FITS = {"detailed", "hybrid", "separate", "staged", "stored", "windowed"}


def objects(value, path=()):
    """(path, object) of every object and of every list in a document, `request` left out."""
    if isinstance(value, dict):
        yield path, value
        for key, inner in value.items():
            if path or key != "request":
                yield from objects(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from objects(inner, (*path, index))


def at(document, path):
    """The value at a path."""
    for step in path:
        document = document[step]
    return document


def altered(document):
    """(what, document) for every way to break the form: a key more, a key less, another type."""
    for path, value in objects(document):
        more = copy.deepcopy(document)
        at(more, path)["surprise"] = 1
        yield f"{path}: a key more", more
        for key, inner in value.items():
            if (path, key) != ((), "error"):
                less = copy.deepcopy(document)
                del at(less, path)[key]
                yield f"{path}: without {key}", less
            other = copy.deepcopy(document)
            at(other, path)[key] = None if not isinstance(inner, int) else inner + 0.5
            yield f"{path}: {key} of another type", other


def schema_keys(schema):
    """Every property name in a schema."""
    if isinstance(schema, dict):
        properties = schema.get("properties")
        if isinstance(properties, dict):
            yield from properties
        for inner in schema.values():
            yield from schema_keys(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from schema_keys(inner)


def main() -> int:
    program, root = Path(sys.argv[1]), Path(sys.argv[2])
    schema = json.loads(
        (root / "docs/schema/kvpool.plan-1.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    findings, checked = [], 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, folder], check=True)
        documents = {
            path.stem: json.loads(path.read_text(encoding="utf-8"))
            for path in Path(folder).glob("*.json")
        }
    if set(documents) != SAMPLES:
        findings.append(f"samples are {sorted(documents)}")
    for name, document in sorted(documents.items()):
        findings += [f"{name}: {error.json_path}: {error.message[:200]}"
                     for error in validator.iter_errors(document)]
        if document["fits"] != (name in FITS):
            findings.append(f"{name}: fits is {document['fits']}")
        for what, other in altered(document):
            checked += 1
            if validator.is_valid(other):
                findings.append(f"{name}: valid although altered: {what}")
    report = (root / "docs/plan_report.md").read_text(encoding="utf-8")
    findings += [f"docs/plan_report.md does not describe `{key}`"
                 for key in sorted(set(schema_keys(schema))) if f"`{key}`" not in report]
    for finding in findings:
        print(finding)
    print(f"plan schema: {len(documents)} documents, {checked} altered ones, "
          f"{len(findings)} findings")
    return 1 if findings or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
