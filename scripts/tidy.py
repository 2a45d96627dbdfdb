#!/usr/bin/env python3
"""Checks what the compiler does not: layering, forbidden headers, dead files, sizes, words, format.

It is a test (ctest runs it). Each finding is one line: FILE:LINE: what is wrong.
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts"))
import member_functions  # noqa: E402
import voice  # noqa: E402

# Who may include whom (docs/architecture.md). Every module may include itself.
MODULES = {
    "base": [],
    "xdr": ["base"],
    "posix": ["base"],
    "oncrpc": ["xdr", "base"],
    "gss": ["oncrpc", "posix", "xdr", "base"],
    "gss/krb5": ["gss", "posix", "base"],
    "tcp": ["oncrpc", "posix", "xdr", "base"],
    "wire": ["xdr", "base"],
    "engine": ["wire", "xdr", "base"],
    "iwarp": ["base"],
    "rdma": ["base"],
    "rdma/sim": ["rdma", "base"],
    "rdma/siwarp": ["rdma", "posix", "iwarp", "base"],
    "rdma/verbs": ["rdma", "posix", "base"],
    "transport": ["engine", "rdma", "wire", "base"],
    "rpc": ["transport", "engine", "tcp", "gss", "gss/krb5", "oncrpc", "rdma", "rdma/siwarp", "rdma/verbs",
            "posix", "xdr", "base"],
    "explain": ["wire", "iwarp", "oncrpc", "xdr", "base"],
    "testing": ["rpc", "rdma", "rdma/sim", "base"],
}
# Public headers belong to the lowest module that implements them.
PUBLIC = {
    "types.h": "base", "expected.h": "base", "xdr.h": "xdr", "oncrpc.h": "oncrpc", "message.h": "oncrpc",
    "service.h": "oncrpc", "message_service.h": "oncrpc", "auth.h": "oncrpc", "callback.h": "base", "counters.h": "rpc", "error.h": "oncrpc",
    "options.h": "rpc", "characteristics.h": "base", "terms.h": "rpc", "call.h": "rpc", "client.h": "rpc", "backward.h": "rpc", "short_call.h": "rpc", "take_over.h": "rpc", "version_two.h": "rpc", "server.h": "rpc", "statistics.h": "rpc", "tap.h": "base", "version.h": "base",
    "coroutine.h": "rpc", "function_service.h": "rpc", "registered_memory.h": "base", "providers.h": "rpc",
    "gss.h": "gss", "testing.h": "testing", "export.h": "base", "steering_tag.h": "base", "work.h": "base", "profile.h": "base", "provider.h": "rdma",
    "generated/answer.h": "rpc", "generated/arm.h": "oncrpc", "generated/codec.h": "oncrpc", "generated/compare.h": "oncrpc", "generated/fields.h": "oncrpc",
    "generated/locate.h": "oncrpc", "generated/stub.h": "rpc", "generated/text.h": "oncrpc",
}
SANS_IO = ("engine", "wire", "iwarp", "xdr", "oncrpc", "explain")
FORBIDDEN_IN_SANS_IO = re.compile(
    r"<(thread|mutex|atomic|random|iostream|fstream|sys/.*|infiniband/.*|unistd\.h|netinet/.*)>")
# The interface of src/explain, for apps/explain alone (ADR 43).
EXPLAIN_FOR_EDGES = ("explain/decoder.h", "explain/facts.h", "explain/live.h", "explain/packet.h", "explain/rules.h")
EDGES = ("adapters", "apps", "gen", "tools", "examples")
BANNED = [
    (re.compile(r"\b(TODO|FIXME|XXX|HACK)\b"), "unfinished work belongs into an issue"),
    (re.compile(r"\busing namespace\b"), "no using namespace"),
    (re.compile(r"#\s*pragma once"), "use include guards"),
    (re.compile(r"\bstd::shared_ptr\b"), "no shared ownership"),
    (re.compile(r"\bdelete this\b"), "give the object an owner"),
    (re.compile(r"std::endl"), "no std::endl"),
    (re.compile(r"(sleep_for|usleep\(|[^_]sleep\()"), "no sleeping"),
    (re.compile(r"\bDISABLED_|GTEST_SKIP\(\)\s*;"), "no disabled tests, no skip without a reason"),
]
LINES_MAX = 1000
SOURCE_LINES_MAX = 600  # a .cc of src, but for tests
FUNCTION_LINES_MAX = 70
MEMBER_FUNCTIONS_MAX = 40  # of a class; scripts/member_functions.py says what counts

findings = []


def report(path, line, text):
    findings.append(f"{path.relative_to(ROOT)}:{line}: {text}")


def module_of(path):
    parts = path.relative_to(ROOT / "src").parts[:-1]
    if parts[:1] == ("rdma",) and len(parts) > 1:
        return "/".join(parts[:2])
    return parts[0]


def module_of_include(name):
    if name.startswith("rpcrdma/"):
        return PUBLIC.get(name.removeprefix("rpcrdma/"))
    parts = name.split("/")
    if len(parts) > 2 and parts[0] == "rdma":
        return "/".join(parts[:2])
    return parts[0] if parts[0] in MODULES else None


def check_layers(path, lines):
    is_test = path.name.endswith("_test.cc") or path.name.endswith("for_test.h")
    module = module_of(path)
    if module not in MODULES:
        report(path, 1, f"folder '{module}' is no module; add it to scripts/tidy.py and the docs")
        return
    for number, line in enumerate(lines, 1):
        match = re.match(r'#include ["<]([^">]+)[">]', line)
        if not match:
            continue
        if module in SANS_IO and not is_test and FORBIDDEN_IN_SANS_IO.search(line):
            report(path, number, f"{module} does no I/O: {match.group(1)} is not for it")
        target = module_of_include(match.group(1))
        if match.group(1).startswith("rpcrdma/") and target is None:
            report(path, number, f"{match.group(1)} is not in the list of public headers")
        if target and target != module and target not in MODULES[module]:
            report(path, number, f"{module} must not include {target} ({match.group(1)})")
        versions = {found for text in (str(path), match.group(1)) for found in re.findall(r"wire/(v\d)/", text)}
        if module == "wire" and len(versions) > 1:
            report(path, number, "wire versions never include each other")


# Words that only these files may have: what is special about one version, or one profile, is in one place.
CONFINED = [
    (re.compile(r"wire::v[12]|\bwire/v[12]/"), "src",
     ("src/wire/", "src/engine/dialect", "src/engine/rfc5666/", "src/engine/v2/", "src/explain/")),
    (re.compile(r"\bkRfc5666\b"), "src/engine", ("src/engine/rfc5666/", "src/engine/types.h")),
]
# Headers that take longer to compile than what includes them: the files that may have them.
HEAVY_HEADERS = {"CLI/": ("tools/options.cc",), "nlohmann/": ()}
# The halves of a connection, each over all its files.
HALVES = ("requester", "responder")
HALF_LINES_MAX = 600


def check_confined(path, lines):
    name = str(path.relative_to(ROOT))
    if path.name.endswith("_test.cc") or path.name.endswith("for_test.h"):
        return
    for pattern, where, allowed in CONFINED:
        if not name.startswith(where + "/") or name.startswith(allowed):
            continue
        for number, line in enumerate(lines, 1):
            if pattern.search(line.partition("//")[0]):
                report(path, number, f"{pattern.search(line)[0]} belongs into {', '.join(allowed)}")


def check_heavy_headers(path, lines):
    name = str(path.relative_to(ROOT))
    for number, line in enumerate(lines, 1):
        match = re.match(r'#include [<"]([^>"]+)[>"]', line)
        for prefix, allowed in HEAVY_HEADERS.items():
            if match and match.group(1).startswith(prefix) and name not in allowed:
                report(path, number, f"{match.group(1)} is for {', '.join(allowed) or 'no file'} "
                                     "(tools/options.h and tools/json.h offer what there is to use)")


def check_halves():
    for half in HALVES:
        files = sorted((ROOT / "src" / "engine").glob(f"{half}*"))
        count = sum(len(path.read_text().splitlines()) for path in files if "_test" not in path.name)
        if not files or count > HALF_LINES_MAX:
            report(files[0] if files else ROOT / "src", 1, f"{half} has {count} lines ({HALF_LINES_MAX} at most)")


def check_edges(path, lines):
    for number, line in enumerate(lines, 1):
        match = re.match(r'#include "([^"]+)"', line)
        if match and match.group(1) in EXPLAIN_FOR_EDGES and path.parent.name == "explain":
            continue
        if match and (ROOT / "apps" / match.group(1)).is_file():
            continue
        if match and match.group(1).split("/")[0] in list(MODULES) + ["src"]:
            report(path, number, f"edges use public headers only, not {match.group(1)}")


def check_public_header(path, lines):
    if str(path.relative_to(ROOT / "include" / "rpcrdma")) not in PUBLIC:
        report(path, 1, "a public header that scripts/tidy.py does not know")
    for number, line in enumerate(lines, 1):
        match = re.match(r'#include "([^"]+)"', line)
        if match and not match.group(1).startswith("rpcrdma/"):
            report(path, number, f"public headers include public headers only: {match.group(1)}")


def check_text(path, lines):
    for number, line in enumerate(lines, 1):
        if len(line) > 100 and path.suffix in (".h", ".cc"):
            report(path, number, "longer than 100 columns")
        for pattern, why in BANNED:
            if pattern.search(line) and "tidy: " not in line:
                report(path, number, why)
    is_source = path.suffix == ".cc" and path.is_relative_to(ROOT / "src") and not path.name.endswith("_test.cc")
    lines_max = SOURCE_LINES_MAX if is_source else LINES_MAX
    if len(lines) > lines_max:
        report(path, lines_max, f"{len(lines)} lines ({lines_max} at most); split by responsibility")


def check_functions(path, lines):
    """A function body is a line that ends in '{' at column 0 or 2 and the '}' in its column."""
    start = None
    for number, line in enumerate(lines, 1):
        if start is None:
            opens = re.match(r"( ?)( ?)[A-Za-z~].*\) ?(const|noexcept|override|final| |->.*)*{$", line)
            wrapped = re.match(r" {4,}.*\) ?(const|noexcept|override| )*{$", line)
            if opens and "namespace" not in line and not re.match(r"\s*(if|for|while|switch)", line):
                start = (number, len(line) - len(line.lstrip()))
            elif wrapped and number > 1 and re.match(r"[A-Za-z]", lines[number - 2]):
                start = (number, 0)
        elif line.startswith(" " * start[1] + "}") and len(line) - len(line.lstrip()) == start[1]:
            if number - start[0] > FUNCTION_LINES_MAX:
                report(path, start[0], f"a function of {number - start[0]} lines (70 at most)")
            start = None


def check_classes(path, text):
    if path.name.endswith(("_test.cc", "_for_test.h")):
        return
    for name, line, count in member_functions.classes(text):
        if count > MEMBER_FUNCTIONS_MAX:
            report(path, line, f"{name} has {count} member functions ({MEMBER_FUNCTIONS_MAX} at most); "
                               "split by responsibility")


def check_voice(paths):
    known = voice.Voice()
    for path in paths:
        for line, why in known.check(path.relative_to(ROOT).as_posix(), path.read_text()):
            report(path, line, why)
    for name, words in known.unused():
        report(voice.ALLOWED, 1, f"allows nothing any more: {name}: {words}")


def check_cmake_knows(paths):
    for path in paths:
        if path.suffix != ".cc":
            continue
        folder = path.parent
        while folder != ROOT and not (folder / "CMakeLists.txt").exists():
            folder = folder.parent
        listed = (folder / "CMakeLists.txt").read_text()
        if str(path.relative_to(folder)) not in listed:
            report(path, 1, f"not named in {folder.relative_to(ROOT)}/CMakeLists.txt: dead or untested")


def check_markdown_links(path, text):
    # Code has brackets of its own; its lines stay, so that the numbers are right.
    text = re.sub(r"^```.*?^```", lambda code: "\n" * code.group().count("\n"), text,
                  flags=re.MULTILINE | re.DOTALL)
    for match in re.finditer(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text):
        if not (path.parent / match.group(1)).exists():
            line = text[: match.start()].count("\n") + 1
            report(path, line, f"link to {match.group(1)}, which is not there")


def check_format(paths):
    if shutil.which("clang-format") is None:
        print("tidy: clang-format is not installed: format NOT checked (apt-get install clang-format)")
        return
    sources = [str(path) for path in paths if path.suffix in (".h", ".cc")]
    result = subprocess.run(["clang-format", "--dry-run", "-Werror", *sources],
                            capture_output=True, text=True, check=False)
    for line in result.stderr.splitlines():
        match = re.match(r"(.+?):(\d+):\d+: error: code should be clang-formatted", line)
        if match:
            report(pathlib.Path(match.group(1)), match.group(2), "run make format")


def tracked():
    try:
        names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT,
                               capture_output=True, text=True, check=True).stdout.splitlines()
        return [ROOT / name for name in names if (ROOT / name).is_file()]
    except (OSError, subprocess.CalledProcessError):
        return [path for path in ROOT.rglob("*") if path.is_file()
                and not any(part.startswith(("build", ".git")) for part in
                            path.relative_to(ROOT).parts[:1])]


def main():
    paths = tracked()
    code = [path for path in paths if path.suffix in (".h", ".cc")]
    for path in code:
        lines = path.read_text().splitlines()
        check_text(path, lines)
        check_functions(path, lines)
        check_heavy_headers(path, lines)
        top = path.relative_to(ROOT).parts[0]
        if top == "src":
            check_layers(path, lines)
            check_confined(path, lines)
            check_classes(path, path.read_text())
        elif top == "include":
            check_public_header(path, lines)
        elif top in EDGES:
            check_edges(path, lines)
    check_cmake_knows([path for path in code if path.relative_to(ROOT).parts[0] != "include"])
    check_halves()
    check_voice(code)
    check_format(code)
    for path in paths:
        if path.suffix == ".md":
            check_markdown_links(path, path.read_text())
    for finding in findings:
        print(finding)
    print(f"tidy: {len(code)} source files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
