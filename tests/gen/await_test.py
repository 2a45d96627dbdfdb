#!/usr/bin/env python3
"""What may stand in `co_await client.P_async(...)`: compiles lines with what rpcrdma-gen makes of every.x.

usage: await_test.py RPCRDMA-GEN C++-COMPILER INCLUDE-FOLDER

GCC 12 destroys an aggregate twice when it is made within the expression that is awaited, whatever takes it. A value with
a destructor is therefore refused there, by every compiler.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
if len(sys.argv) != 4:
    sys.exit(__doc__)
GENERATOR, COMPILER, INCLUDE = sys.argv[1:]
REFUSED = r"NamedArgument"  # what the message is about; the header says there what to do

PROLOGUE = """
#include <rpcrdma/coroutine.h>
#include "every.h"
every::placed make();
"""
# Each is a function of its own, so that an error in one hides none in another, and has a file of its own in messages.
FUNCTION = """
#line 1 "case {number}"
rpcrdma::Task<void> test{number}(every::EVERY_V1_Client& client, every::placed value, every::by_enum choice,
                                 const every::any_bytes& bytes, rpcrdma::MutableBytes room) {{
  {line};
  co_return;
}}
"""


class Await(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="rpcrdma-await.")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run([GENERATOR, "--output", cls.folder, HERE / "every.x"], check=True, timeout=60)

    def compile(self, lines):
        """Compiles all of them in one run, and returns what is said of each."""
        source = PROLOGUE + "".join(FUNCTION.format(number=n, line=line) for n, line in enumerate(lines))
        result = subprocess.run([COMPILER, "-std=c++20", "-fsyntax-only", "-Wall", "-I", INCLUDE, "-I",
                                 self.folder, "-x", "c++", "-"],
                                input=source, capture_output=True, text=True, timeout=300, check=False)
        said = [""] * len(lines)
        case = None
        for line in result.stderr.splitlines(keepends=True):
            named = re.search(r"\bcase (\d+):", line)
            case = int(named.group(1)) if named else case
            if case is not None:
                said[case] += line
        return result, said

    def accepted(self, *lines):
        result, _ = self.compile([f"static_cast<void>({line})" for line in lines])
        self.assertEqual(result.returncode, 0, result.stderr[:4000])

    def refused(self, *lines):
        result, said = self.compile([f"static_cast<void>({line})" for line in lines])
        self.assertNotEqual(result.returncode, 0, "all of it compiles, and crashes with GCC 12")
        for line, text in zip(lines, said):
            self.assertRegex(text, r"case \d+:\d+:\d+: error", f"{line} compiles, and crashes with GCC 12")
            self.assertRegex(text, REFUSED, line)

    def test_what_is_awaited_or_not_awaited(self):
        self.accepted(
            # Values that have a name, and what needs none.
            "co_await client.EVERY_PLACED_async(value, 5, room)",
            "co_await client.EVERY_PLACED_async(value, 5, {room, room})",
            "co_await client.EVERY_MIXED_async(\"text\", 5, choice)",
            "co_await client.EVERY_MIXED_async(std::string(3, 'x') + \"y\", 5, choice)",
            "co_await client.EVERY_ADD_async(1, 2)",
            "co_await client.EVERY_BYTES_async(bytes, {}, {.timeout = std::chrono::seconds(1)})",
            # Calls that are not awaited take braces.
            "client.EVERY_PLACED({1, {}, \"b\", {}, 0}, 5, room)",
            "client.EVERY_PLACED_start({1, {}, \"b\", {}, 0}, 5, room, [](auto) {})")

    def test_results_that_are_dropped_are_warned_about(self):
        lines = ("client.EVERY_ADD(1, 2)", "client.EVERY_ADD_start(1, 2, [](auto) {})", "client.EVERY_ADD_async(1, 2)")
        result, said = self.compile(lines)
        self.assertEqual(result.returncode, 0, result.stderr[:4000])
        for line, text in zip(lines, said):
            self.assertRegex(text, "warning: ignoring return", line)

    def test_braces_and_temporaries_in_what_is_awaited(self):
        self.refused(
            "co_await client.EVERY_PLACED_async({.count = 1, .data = {}, .between = \"b\", .text = {}, .behind = 0}, 5, room)",
            "co_await client.EVERY_PLACED_async({}, 5)",
            "co_await client.EVERY_PLACED_async(every::placed{.count = 1, .data = {}, .between = \"b\", .text = {}, .behind = 0}, 5)",
            "co_await client.EVERY_PLACED_async(make(), 5)",
            "co_await client.EVERY_MIXED_async(\"text\", 5, {})")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
