#!/usr/bin/env python3
# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""Documents point at what exists, and show code that is compiled.

Usage: docs_links_test.py SOURCE_TREE. In Markdown files, relative links (and their #anchors) lead
somewhere, files named in `backticks` with a folder exist, and each ```cpp block stands, up to
white space, in a file under examples/ or tests/; a line `// ...` in it stands for left-out lines.
"""

import re
import sys
from pathlib import Path

from source_tree import NOT_SOURCE, expect, files_under, report

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
PATH = re.compile(
    r"`((?:docs|tests|examples|cmake|libkvpool|planner_cli|kernels|benchmarks|\.ci)/"
    r"[\w./-]*\w\.(?:md|cpp|hpp|cu|cuh|py|sh|json|toml|txt|cmake|in))`"
)


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    text = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return text.replace(" ", "-")


def anchors(text: str):
    """Anchors of a Markdown text."""
    return {slug(h) for h in re.findall(r"^#+\s+(.*)$", FENCE.sub("", text), re.MULTILINE)}


def squeeze(text: str) -> str:
    """Text without white space."""
    return re.sub(r"\s+", "", text)


def check(name: str, text: str, exists, read, code: str):
    """Findings for one document; `exists` and `read` look up paths relative to the root."""
    findings = []
    prose = FENCE.sub(lambda m: "\n" * m.group().count("\n"), text)

    def add(position: int, where: str, what: str):
        findings.append(f"{name}:{where.count(chr(10), 0, position) + 1}: {what}")

    for match in LINK.finditer(prose):
        target = match.group(1)
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        relative = (Path(name).parent / path).as_posix() if path else name
        parts = []
        for part in Path(relative).parts:
            if part == ".." and parts:
                parts.pop()
            else:
                parts.append(part)
        relative = "/".join(parts)
        if path and not exists(relative):
            add(match.start(), prose, f"link to nothing: {target}")
        elif anchor and relative.endswith(".md"):
            if anchor not in anchors(text if relative == name else read(relative)):
                add(match.start(), prose, f"no such heading: {target}")
    for match in PATH.finditer(prose):
        if not exists(match.group(1)):
            add(match.start(), prose, f"no such file: {match.group(1)}")
    for match in FENCE.finditer(text):
        if match.group(1) not in ("cpp", "c++", "cuda"):
            continue
        pieces = re.split(r"^\s*// \.\.\.\s*$", match.group(2), flags=re.MULTILINE)
        if any(squeeze(piece) not in code for piece in pieces):
            add(match.start(), text, "code that is in no example and no test")
    return findings


def self_test():
    """The check finds what it is for."""
    files = {"docs/a.md": "# One thing\n", "README.md": "", "examples/x.cpp": ""}

    def found(text: str) -> int:
        return len(check("docs/b.md", text, lambda p: p in files or p == "docs",
                         lambda p: files[p], squeeze("int main() {\n  f();\n  g();\n}\n")))

    for text in ("[x](c.md)", "[x](../LICENSE)", "[x](a.md#two)", "[x](#no)", "`docs/c.md`",
                 "```cpp\nint other();\n```\n"):
        expect(found(text) == 1, text)
    for text in ("[x](a.md)", "[x](../README.md)", "[x](a.md#one-thing)", "# Me\n[x](#me)",
                 "`docs/a.md`", "https://x.y/z", "[x](https://x.y/z)", "```sh\nls docs/no.md\n```\n",
                 "```cpp\nint main() { f();\n// ...\n}\n```\n", "`docs/<name>.md`"):
        expect(found(text) == 0, text)


def main() -> int:
    self_test()
    root = Path(sys.argv[1]).resolve()
    code = squeeze("\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("examples", "tests")
        for path in files_under(root / folder, {".cpp", ".hpp", ".cu", ".cuh"})
    ))
    documents = [path.relative_to(root) for path in sorted(root.rglob("*.md"))
                 if not NOT_SOURCE.intersection(path.relative_to(root).parts)]
    findings = []
    for document in documents:
        findings += check(
            document.as_posix(), (root / document).read_text(encoding="utf-8"),
            lambda path: (root / path).exists(),
            lambda path: (root / path).read_text(encoding="utf-8"), code)
    return report("documents", findings, len(documents))


if __name__ == "__main__":
    sys.exit(main())
