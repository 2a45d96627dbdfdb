#!/usr/bin/env python3
"""Compiles each block of code of docs/api.md, so that the page shows nothing that the library does not have.

usage: api_page_test.py C++-COMPILER
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = ["short_call.h", "coroutine.h", "function_service.h", "server.h", "testing.h"]


def main():
    page = (ROOT / "docs/api.md").read_text()
    blocks = re.findall(r"^```cpp\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    if len(blocks) < 6:
        sys.exit(f"api_page: docs/api.md has {len(blocks)} blocks of code; is its form another one?")
    programs = [block for block in blocks if "int main()" in block]
    parts = [block for block in blocks if "int main()" not in block]
    # Programs must name the headers that they need themselves.
    texts = [*programs, "#include <poll.h>\n" + "".join(f"#include <rpcrdma/{each}>\n" for each in HEADERS) + "".join(parts)]
    failed = 0
    for text in texts:
        result = subprocess.run([sys.argv[1], "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
                                 f"-I{ROOT}/include", "-x", "c++", "-"],
                                input=text, capture_output=True, text=True, check=False, timeout=120)
        if result.returncode:
            failed += 1
            print(f"api_page: a block of docs/api.md does not compile:\n{text}\n{result.stderr}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
