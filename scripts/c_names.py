#!/usr/bin/env python3
"""The names that C's headers take: gen/c_macros.cc and gen/c_globals.cc (ADR 37).

usage: c_names.py [--update] [C++-COMPILER]

Macros are asked of the compiler by -dM. Functions, objects, types and enumerators of the global
namespace need Clang, which prints its syntax tree. Without --update, exits with 1 where the headers of
this machine have a name that the lists lack; names that only another libc has stay in them, so that
what rpcrdma-gen makes of a .x file is the same everywhere.
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ROOT / "tests/gen/posix_headers.h"
WIDTH = 100
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
DECLARED = re.compile(r"(?:Function|Var|Typedef|Enum|EnumConstant|CXXRecord)Decl 0x\S+ .*?"
                      r"(?:col|line|[\w/.+-]+:\d+):[\d:]+ (?:implicit |used |referenced |invalid )*"
                      r"(?:struct |union |class )?([A-Za-z][A-Za-z0-9_]*)(?= |$)")


# Words that the tree prints around names.
NO_NAMES = {"class", "constexpr", "definition", "enum", "extern", "implicit", "inline", "invalid", "operator", "referenced",
            "static", "struct", "union", "used"}


def path_of(kind):
    return ROOT / f"gen/c_{kind}.cc"


def listed(kind):
    if not path_of(kind).exists():
        return set()
    return set(path_of(kind).read_text().split('R"(')[1].split(')"')[0].split())


def macros(compiler):
    text = subprocess.run([compiler, "-std=gnu++20", "-x", "c++", "-dM", "-E", HEADERS], check=True, capture_output=True,
                          text=True).stdout
    names = re.findall(r"^#define (\w+)", text, re.MULTILINE)
    return {each for each in names if NAME.fullmatch(each)}



def globals_of(compiler):
    """What is declared at the outermost level, also by extern "C" { }, and the enumerators of what is."""
    tree = subprocess.run([compiler, "-std=gnu++20", "-x", "c++", "-fsyntax-only", "-Xclang", "-ast-dump",
                           "-fno-color-diagnostics", HEADERS], check=True, capture_output=True, text=True).stdout
    names = set()
    open_levels = set()  # depths whose children count
    for line in tree.splitlines():
        match = re.match(r"([ |`-]*)(\w+)", line)
        if match is None:
            continue
        depth = len(match[1]) // 2
        open_levels = {each for each in open_levels if each < depth}
        if depth == 0:
            open_levels = {0}
            continue
        if depth - 1 not in open_levels:
            continue
        if match[2] in ("LinkageSpecDecl", "EnumDecl"):
            open_levels.add(depth)
        found = DECLARED.search(line)
        if found is not None and found[1] not in NO_NAMES:
            names.add(found[1])
    return names


def write(kind, what, names):
    lines, line = [], ""
    for each in sorted(names):
        if line and len(line) + 1 + len(each) > WIDTH:
            lines.append(line)
            line = ""
        line += (" " if line else "") + each
    text = "\n".join(lines + [line])
    path_of(kind).write_text(f"""// {what}
// scripts/c_names.py --update has written this file.
#include "gen/c_names.h"

namespace rpcrdma::gen {{

const char* const kC{kind.capitalize()} = R"(
{text}
)";

}}  // namespace rpcrdma::gen
""")


def main():
    arguments = sys.argv[1:]
    update = "--update" in arguments
    compiler = next((each for each in arguments if not each.startswith("--")), "g++")
    clang = next((each for each in (compiler, "clang++", "clang++-14") if "clang" in each and shutil.which(each)), None)
    found = {"macros": macros(compiler)}
    if clang is None:
        print("c_names: the names of functions and types were not compared: there is no clang++")
    else:
        found["macros"] |= macros(clang)
        found["globals"] = globals_of(clang)
    whats = {"macros": "Macros of POSIX's headers.",
             "globals": "Functions, objects, types and enumerators of POSIX's headers."}
    status = 0
    for kind, names in found.items():
        missing = names - listed(kind)
        if update:
            write(kind, whats[kind], names | listed(kind))
        elif missing:
            status = 1
            print(f"{path_of(kind).relative_to(ROOT)}: {len(missing)} names are missing, such as "
                  f"{', '.join(sorted(missing)[:10])}; scripts/c_names.py --update adds them")
        print(f"c_names: {len(names)} {kind} of this machine, {len(listed(kind))} in the list")
    sys.exit(status)


main()
