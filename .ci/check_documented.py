#!/usr/bin/env python3
# SPDX-FileCopyrightText: The kvpool authors
# SPDX-License-Identifier: Apache-2.0
"""Every public symbol of the public headers has documentation.

Usage: check_documented.py XML_FOLDER HEADER_FOLDER, with Doxygen's XML (EXTRACT_ALL). Destructors
and copy and move operations need none: the type says what they do.
"""

import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

SELF_TEST_HEADER = """
#pragma once
namespace kvpool {
int free_function(int a);
constexpr int kConstant = 3;
using Alias = int;
enum class Undocumented { kA };
/// Documented.
enum class Documented { kB, kC };
template <typename T> concept Concept = requires(T t) { t + t; };
struct Plain { int field; };
/// Documented.
struct Type {
  int member;
  void method();
  struct Inner {};
  friend bool operator==(const Type&, const Type&) = default;
  Type(int x);
  Type(Type&&) noexcept;
  Type& operator=(const Type&);
  ~Type();
 private:
  int hidden_;
};
namespace inner { int nested(); }
template <typename T> inline constexpr bool kTrait = false;
/// Documented.
int fine();
}
#define KVPOOL_MACRO 1
"""
SELF_TEST_FINDS = {
    "free_function", "kConstant", "Alias", "Undocumented", "kA", "kB", "kC", "Concept", "Plain",
    "field", "member", "method", "Inner", "operator==", "Type", "nested", "kTrait",
    "KVPOOL_MACRO",
}


def documented(node) -> bool:
    """Whether a definition has a brief or detailed description."""
    return any(
        "".join(part.itertext()).strip()
        for tag in ("briefdescription", "detaileddescription", "inbodydescription")
        for part in node.findall(tag)
    )


def needs_none(member, owner: str) -> bool:
    """Destructors, copy and move operations, friend classes, and what is deleted."""
    name = member.findtext("name", "")
    args = member.findtext("argsstring", "")
    if name.startswith("~") or re.search(r"=\s*delete\s*$", args):
        return True
    if member.get("kind") == "friend" and member.findtext("type", "") in ("class", "struct"):
        return True
    own = re.sub(r"<.*", "", owner.rsplit("::", 1)[-1])
    one_of_own = re.fullmatch(rf"\(\s*(const\s+)?{own}(<.*>)?\s*&&?\s*\w*\s*\)(?!\s*&).*", args)
    return name in (own, "operator=") and one_of_own is not None


def findings(folder: Path):
    """(file, line, kind, name) of what is undocumented, and how many symbols there were."""
    found, seen = set(), set()
    for path in sorted(folder.glob("*.xml")):
        for compound in xml.parse(path).getroot().iter("compounddef"):
            kind = compound.get("kind")
            owner = compound.findtext("compoundname", "")
            if kind in ("dir", "page") or "@" in owner:
                continue
            if kind in ("class", "struct", "union", "concept"):
                if compound.get("prot", "public") != "public":
                    continue
                where = compound.find("location")
                seen.add(owner)
                if not documented(compound):
                    found.add((where.get("file"), int(where.get("line")), kind, owner))
            for member in compound.iter("memberdef"):
                if member.get("prot") != "public" or needs_none(member, owner):
                    continue
                where = member.find("location")
                name = member.findtext("name", "")
                spot = (where.get("file"), int(where.get("line")))
                seen.add((spot, name))
                if not documented(member):
                    found.add((*spot, member.get("kind"), name))
                for value in member.findall("enumvalue"):
                    seen.add((spot, value.findtext("name")))
                    if not documented(value):
                        found.add((*spot, "enumerator", value.findtext("name")))
    return sorted(found), len(seen)


def self_test(doxyfile: str) -> None:
    """A header with one undocumented symbol of each kind gives a finding for each."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "x.hpp").write_text(SELF_TEST_HEADER, encoding="utf-8")
        settings = Path(doxyfile).read_text(encoding="utf-8")
        settings += f"\nINPUT={folder}\nOUTPUT_DIRECTORY={folder}/out\nGENERATE_HTML=NO\nSTRIP_FROM_PATH={folder}\n"
        subprocess.run(["doxygen", "-"], input=settings, text=True, check=True)
        found, _ = findings(folder / "out" / "xml")
        names = {re.sub(r".*::", "", entry[3]) for entry in found}
        if names != SELF_TEST_FINDS:
            sys.exit(f"self-test failed: missed {SELF_TEST_FINDS - names}, "
                     f"reported {names - SELF_TEST_FINDS}")


def main() -> int:
    self_test("docs/Doxyfile")
    xml_folder, headers = Path(sys.argv[1]), Path(sys.argv[2])
    found, symbols = findings(xml_folder)
    for file, line, kind, name in found:
        print(f"{file}:{line}: {kind} {name} is not documented")
    covered = {Path(node.get("file")).as_posix()
               for path in xml_folder.glob("*_8hpp.xml")
               for node in xml.parse(path).getroot().iter("location") if node.get("file")}
    absent = [path for path in sorted(headers.rglob("*.hpp"))
              if not any(str(path).endswith(name) for name in covered)]
    for path in absent:
        print(f"{path}: Doxygen did not read it")
    print(f"documentation: {symbols} public symbols, {len(found)} undocumented")
    return 1 if found or absent or not symbols else 0


if __name__ == "__main__":
    sys.exit(main())
