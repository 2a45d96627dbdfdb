#!/usr/bin/env python3
"""What may stand in `co_await client.P_async(...)`: compiles lines with what rpcrdma-gen makes of every.x.

usage: await_test.py RPCRDMA-GEN C++-COMPILER INCLUDE-FOLDER

GCC 12 destroys an aggregate twice when it is made within the expression that is awaited, whatever takes it. A value with
a destructor is therefore refused there, by every compiler.
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
if len(sys.argv) != 4:
    sys.exit(__doc__)
GENERATOR, COMPILER, INCLUDE = sys.argv[1:]
REFUSED = r"NamedArgument"  # what the message is about; the header says there what to do

PROGRAM = """
#include <rpcrdma/coroutine.h>
#include "every.h"
every::placed make();
rpcrdma::Task<void> test(every::EVERY_V1_Client& client, every::placed value, every::by_enum choice,
                         const every::any_bytes& bytes, rpcrdma::MutableBytes room) {{
{lines}  co_return;
}}
"""


class Await(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="rpcrdma-await.")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run([GENERATOR, "--output", cls.folder, HERE / "every.x"], check=True, timeout=60)

    def compile(self, lines, more=""):
        statements = more + "".join(f"  static_cast<void>({line});\n" for line in lines)
        return subprocess.run([COMPILER, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-I", INCLUDE, "-I",
                               self.folder, "-x", "c++", "-"],
                              input=PROGRAM.format(lines=statements), capture_output=True, text=True,
                              timeout=300, check=False)

    def accepted(self, *lines):
        result = self.compile(lines)
        self.assertEqual(result.returncode, 0, result.stderr[:4000])

    def refused(self, line):
        result = self.compile([line])
        self.assertNotEqual(result.returncode, 0, f"{line} compiles, and crashes with GCC 12")
        self.assertRegex(result.stderr, REFUSED)

    def test_values_that_have_a_name_and_what_needs_none(self):
        self.accepted("co_await client.EVERY_PLACED_async(value, 5, room)",
                      "co_await client.EVERY_PLACED_async(value, 5, {room, room})",
                      "co_await client.EVERY_MIXED_async(\"text\", 5, choice)",
                      "co_await client.EVERY_MIXED_async(std::string(3, 'x') + \"y\", 5, choice)",
                      "co_await client.EVERY_ADD_async(1, 2)",
                      "co_await client.EVERY_BYTES_async(bytes, {}, {.timeout = std::chrono::seconds(1)})")

    def test_calls_that_are_not_awaited_take_braces(self):
        self.accepted("client.EVERY_PLACED({1, {}, \"b\", {}, 0}, 5, room)",
                      "client.EVERY_PLACED_start({1, {}, \"b\", {}, 0}, 5, room, [](auto) {})")

    def test_results_that_are_dropped_are_warned_about(self):
        for line in ("client.EVERY_ADD(1, 2)", "client.EVERY_ADD_start(1, 2, [](auto) {})", "client.EVERY_ADD_async(1, 2)"):
            result = self.compile([], f"  {line};\n")
            self.assertRegex(result.stderr, "warning: ignoring return", line)

    def test_braces(self):
        self.refused("co_await client.EVERY_PLACED_async({.count = 1, .data = {}, .between = \"b\", .text = {}, "
                     ".behind = 0}, 5, room)")
        self.refused("co_await client.EVERY_PLACED_async({}, 5)")

    def test_temporaries(self):
        self.refused("co_await client.EVERY_PLACED_async(every::placed{.count = 1, .data = {}, .between = \"b\", "
                     ".text = {}, .behind = 0}, 5)")
        self.refused("co_await client.EVERY_PLACED_async(make(), 5)")
        self.refused("co_await client.EVERY_MIXED_async(\"text\", 5, {})")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
