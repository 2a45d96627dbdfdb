#!/usr/bin/env python3
"""Compiles each block of code of docs/api.md and docs/event-loops.md, so that the pages show nothing that the library does not
have; and calls in the short form that must not compile.

usage: api_page_test.py C++-COMPILER
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = {"docs/api.md": 6, "docs/event-loops.md": 3}  # with the least number of their blocks
HEADERS = ["short_call.h", "coroutine.h", "function_service.h", "server.h", "testing.h"]
# (arguments of a call, a part of the message)
REFUSED = [
    ("args(nullptr)", "an argument must be a value"),
    ("args(std::array<std::byte, 8>{})", "opaque[n] is for the long form"),
    ("args(raw)", "opaque[n] is for the long form"),
    ("args(buffer)", "an array need not end with a zero"),
    ("args('x')", ""),
    ("args(std::vector<char>(3))", ""),
]


def compiled(compiler, text):
    return subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include",
                           "-x", "c++", "-"], input=text, capture_output=True, text=True, check=False, timeout=120)


def wrongly_accepted(compiler):
    """Says which of REFUSED compile, or fail for another reason."""
    start = ("#include <rpcrdma/coroutine.h>\n#include <rpcrdma/short_call.h>\n"
             "struct named { std::string name; };\nusing rpcrdma::args;\n")
    call = "void f(rpcrdma::Client& client, char (&buffer)[8], std::byte (&raw)[8]) {{ (void)buffer; (void)raw; (void)client.call({{1, 1, 1}}, {}); }}\n"
    if compiled(compiler, start + call.format('args("text")')).returncode:
        yield "not even a call with a text compiles"
    for arguments, words in REFUSED:
        result = compiled(compiler, start + call.format(arguments))
        if result.returncode == 0 or words not in result.stderr:
            yield f"{arguments} is not refused as '{words}':\n{result.stderr[:2000]}"
    awaited = ("void measure(const named&, rpcrdma::SizeCounter&);\nvoid encode(const named&, rpcrdma::MessageWriter&);\n"
               "rpcrdma::Task<void> f(rpcrdma::Client& c) {{ named n; (void)co_await c.call_async({{1, 1, 1}}, {}); }}\n")
    if (result := compiled(compiler, start + awaited.format("args(n)"))).returncode:
        yield f"a named argument is refused: {result.stderr[:2000]}"
    if "GCC 12 destroys it twice" not in compiled(compiler, start + awaited.format('args(named{"x"})')).stderr:
        yield "a temporary aggregate may be awaited"


def texts_of(page):
    """What is to be compiled of a page: each program, and all other blocks together."""
    blocks = re.findall(r"^```cpp\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    if len(blocks) < PAGES[page]:
        sys.exit(f"api_page: {page} has {len(blocks)} blocks of code; is its form another one?")
    programs = [block for block in blocks if "int main()" in block]
    parts = [block for block in blocks if "int main()" not in block]
    # Programs must name the headers that they need themselves.
    return [*programs, "#include <poll.h>\n" + "".join(f"#include <rpcrdma/{each}>\n" for each in HEADERS) + "".join(parts)]


def main():
    failed = 0
    for page, text in [(page, text) for page in PAGES for text in texts_of(page)]:
        result = compiled(sys.argv[1], text)
        if result.returncode:
            failed += 1
            print(f"api_page: a block of {page} does not compile:\n{text}\n{result.stderr}", file=sys.stderr)
    for complaint in wrongly_accepted(sys.argv[1]):
        failed += 1
        print(f"api_page: {complaint}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
