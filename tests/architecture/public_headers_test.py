#!/usr/bin/env python3
# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""Rules for headers, and for sources as far as text can tell.

Usage: public_headers_test.py SOURCE_TREE. Public headers include the standard library and
<kvpool/...> only, and start with the licence and `#pragma once`. Every header has at most 300
lines. No file has TODO or FIXME, absl::Mutex or an absolute path of some machine. Every public
header is listed in a CMake target.
"""

import re
import sys
from pathlib import Path

from source_tree import CXX, NOT_SOURCE, expect, files_under, includes, report

MAX_LINES = 300
STANDARD = set(
    """
    algorithm any array atomic barrier bit bitset charconv chrono codecvt compare complex concepts
    condition_variable coroutine deque exception execution filesystem format forward_list fstream
    functional future initializer_list iomanip ios iosfwd iostream istream iterator latch limits
    list locale map memory memory_resource mutex new numbers numeric optional ostream queue random
    ranges ratio regex scoped_allocator semaphore set shared_mutex source_location span sstream
    stack stdexcept stop_token streambuf string string_view system_error thread tuple type_traits
    typeindex typeinfo unordered_map unordered_set utility valarray variant vector version cassert
    cctype cerrno cfenv cfloat cinttypes climits clocale cmath csetjmp csignal cstdarg cstddef
    cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype
    """.split()
)
# The matchers of kvpool::testing are headers for a framework that the includer already uses.
FRAMEWORK_HEADERS = {
    "testing/catch2_matchers.hpp": re.compile(r"^catch2/"),
    "testing/gtest_matchers.hpp": re.compile(r"^(gtest|gmock)/"),
}
TEXT_RULES = [
    (re.compile(r"\b(TODO|FIXME|XXX)\b"), "unfinished work: finish it or write it down elsewhere"),
    (re.compile(r"\babsl::Mutex\b|absl/synchronization/"), "use std::mutex: the packaged Abseil "
     "is not instrumented for the thread sanitizer"),
    (re.compile(r"(?<![\w./$}])/(work|root|home|Users)/\w"), "an absolute path of some machine"),
]
# Documents may name what code may not use.
PROSE_RULES = [rule for rule in TEXT_RULES if "std::mutex" not in rule[1]]
# The rules' own texts.
NOT_TEXT_CHECKED = {"tests/architecture/public_headers_test.py"}
TEXT_SUFFIXES = CXX | {".py", ".sh", ".cmake", ".txt", ".md", ".in", ".json", ".toml"}
PUBLIC = ("libkvpool/include/kvpool/", "kernels/include/kvpool/")


def check_text(path: str, text: str):
    """Findings for any text file."""
    if path in NOT_TEXT_CHECKED:
        return []
    return [
        f"{path}:{number}: {why}: {line.strip()[:80]}"
        for number, line in enumerate(text.splitlines(), 1)
        for pattern, why in (TEXT_RULES if Path(path).suffix in CXX else PROSE_RULES)
        if pattern.search(line)
    ]


def check_header(path: str, text: str):
    """Findings for a header; the stricter rules where it is public."""
    findings = []
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        findings.append(f"{path}:{MAX_LINES + 1}: {len(lines)} lines; at most {MAX_LINES}")
    if "#pragma once" not in lines:
        findings.append(f"{path}:1: no `#pragma once`")
    if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(lines[:2]):
        findings.append(f"{path}:1: no licence line")
    if not path.startswith(PUBLIC):
        return findings
    framework = next((p for end, p in FRAMEWORK_HEADERS.items() if path.endswith(end)), None)
    for line, angled, target in includes(text):
        if not angled:
            findings.append(f"{path}:{line}: public headers include <kvpool/...>, not \"{target}\"")
        elif not (
            target in STANDARD
            or target.startswith("kvpool/")
            or (framework and framework.match(target))
        ):
            findings.append(f"{path}:{line}: not the standard library and not kvpool: <{target}>")
    return findings


def unlisted_headers(headers, cmake_text: str):
    """Public headers that no CMakeLists.txt of their folder lists."""
    return [
        f"{path}:1: in no CMake target (of the folder {Path(path).parts[3]})"
        for path in headers
        if not re.search(rf"(?<![\w.-]){re.escape(Path(path).name)}(?![\w.])",
                         cmake_text.get(Path(path).parts[3], ""))
    ]


def self_test():
    """The check finds what it is for."""
    head = "// SPDX-FileCopyrightText: x\n// SPDX-License-Identifier: Apache-2.0\n#pragma once\n"
    public = "libkvpool/include/kvpool/core/x.hpp"
    for include in ("<absl/a.h>", "<fmt/core.h>", "<cuda_runtime.h>", "<toml++/toml.h>",
                    "<nlohmann/json.hpp>", "<sys/mman.h>", '"core/y.hpp"', "<gtest/gtest.h>"):
        text = head + f"#include {include}\n"
        expect(len(check_header(public, text)) == 1, f"{include} in a public header")
        expect(not check_header("libkvpool/src/core/x.hpp", text), f"{include} in a private one")
    matchers = "libkvpool/include/kvpool/testing/gtest_matchers.hpp"
    expect(not check_header(matchers, head + "#include <gtest/gtest.h>\n"), "matchers")
    expect(not check_header(public, head + "#include <vector>\n#include <kvpool/core/y.hpp>\n"),
           "std and kvpool")
    expect(not check_header(public, head + "\n" * 297), "300 lines")
    expect(len(check_header(public, head + "\n" * 298)) == 1, "301 lines")
    expect(len(check_header(public, head.replace("#pragma once", ""))) == 1, "pragma")
    expect(len(check_header(public, "#pragma once\n")) == 1, "licence")
    for line in ("// TODO: x", "// FIXME", "absl::Mutex m;", 'open("/work/x")', "cd /root/y",
                 "#include <absl/synchronization/mutex.h>", "see /home/me"):
        expect(len(check_text("a.cpp", line)) == 1, line)
    for line in ("todos", "std::mutex m;", "docs/work/x", "$PREFIX/work/y", "https://a.b/c/home/d"):
        expect(not check_text("a.cpp", line), line)
    headers = ["libkvpool/include/kvpool/core/ids.hpp"]
    expect(not unlisted_headers(headers, {"core": "HEADERS\n  ids.hpp)"}), "listed")
    kernels = ["kernels/include/kvpool/kernels/params.hpp"]
    expect(not unlisted_headers(kernels, {"kernels": "include/kvpool/kernels/params.hpp"}), "kernels")
    expect(len(unlisted_headers(kernels, {"core": "params.hpp"})) == 1, "kernels, elsewhere")
    expect(len(unlisted_headers(headers, {"core": "HEADERS page_ids.hpp"})) == 1, "not listed")
    expect(len(unlisted_headers(headers, {"memory": "ids.hpp"})) == 1, "listed elsewhere")


def main() -> int:
    self_test()
    root = Path(sys.argv[1])
    findings, checked, public = [], 0, []
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        relative = path.relative_to(root)
        if NOT_SOURCE.intersection(relative.parts) or path.suffix not in TEXT_SUFFIXES:
            continue
        if relative.parts[:3] == ("tests", "fuzz", "corpus"):
            continue
        name = str(relative)
        text = path.read_text(encoding="utf-8")
        checked += 1
        findings += check_text(name, text)
        if path.suffix in (".hpp", ".cuh"):
            findings += check_header(name, text)
        if path.suffix == ".hpp" and name.startswith(PUBLIC):
            public.append(name)
    cmake_text = {
        path.parent.name: path.read_text(encoding="utf-8")
        for path in files_under(root / "libkvpool" / "src", {".txt"})
        if path.name == "CMakeLists.txt"
    }
    cmake_text["kernels"] = "\n".join(path.read_text(encoding="utf-8")
                                      for path in files_under(root / "kernels", {".txt"}))
    findings += unlisted_headers(public, cmake_text)
    return report("headers and text", findings, checked)


if __name__ == "__main__":
    sys.exit(main())
