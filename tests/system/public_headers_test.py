#!/usr/bin/env python3
"""Compiles each public header by itself, as a file that includes nothing else would, and states the heaviest.

usage: CXX=COMPILER public_headers_test.py [-v]
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"
CXX = os.environ.get("CXX", "g++")
STATED = 5
# Lines after preprocessing that a header may have, so that nobody's files get slower unnoticed. Debian 12's headers of GCC
# 12 make rpcrdma/client.h and those like it 87,900.
LINES_MAX = 92_000


def compiler(*arguments, text):
    done = subprocess.run([CXX, "-std=c++20", f"-I{INCLUDE}", *arguments, "-x", "c++", "-"], input=text,
                          capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


def examine(name):
    """(lines after preprocessing, the compiler's messages if it refuses the header)"""
    text = f"#include <{name}>\n"
    _, preprocessed, _ = compiler("-E", text=text)
    status, _, messages = compiler("-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", text=text)
    return preprocessed.count("\n"), messages if status != 0 else ""


class PublicHeaders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        names = sorted(str(path.relative_to(INCLUDE)) for path in (INCLUDE / "rpcrdma").rglob("*.h"))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            cls.found = dict(zip(names, pool.map(examine, names)))
        print(f"public_headers_test: the heaviest of {len(names)}, in lines after preprocessing:", file=sys.stderr)
        for lines, name in sorted(((lines, name) for name, (lines, _) in cls.found.items()), reverse=True)[:STATED]:
            print(f"  {lines:7,} {name}", file=sys.stderr)

    def test_each_compiles_by_itself(self):
        self.assertGreater(len(self.found), 20)
        self.assertEqual({name: messages for name, (_, messages) in self.found.items() if messages}, {})

    def test_none_is_heavier_than_stated(self):
        self.assertEqual({name: lines for name, (lines, _) in self.found.items() if lines > LINES_MAX}, {})

    def test_a_header_that_needs_another_before_it_is_found(self):
        with tempfile.TemporaryDirectory(prefix="rpcrdma-header.") as folder:
            path = pathlib.Path(folder) / "needs_another.h"
            path.write_text("inline std::string text() { return {}; }\n")
            _, messages = examine(path)
        self.assertIn("string", messages)


if __name__ == "__main__":
    unittest.main()
