#!/usr/bin/env python3
"""The options of rpcrdma-gen that choose which files it writes.

usage: options_test.py RPCRDMA-GEN
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

if len(sys.argv) != 2:
    sys.exit(__doc__)
GENERATOR = sys.argv[1]
INPUT = "enum color { RED }; struct point { color shade; };\n"


class Options(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rpcrdma-options.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "a.x").write_text(INPUT)

    def run_with(self, *options):
        """Returns the exit status, the messages and the names of the files that were written."""
        made = self.folder / "made"
        result = subprocess.run([GENERATOR, *options, "-o", made, self.folder / "a.x"], capture_output=True, text=True,
                                timeout=60, check=False)
        names = sorted(path.name for path in made.iterdir()) if made.exists() else []
        return result.returncode, result.stderr, names

    def test_code_alone_is_written_without_options(self):
        self.assertEqual(self.run_with(), (0, "", ["a.cc", "a.h"]))

    def test_fields_adds_one_header(self):
        self.assertEqual(self.run_with("--fields"), (0, "", ["a.cc", "a.h", "a_fields.h"]))

    def test_random_implies_fields(self):
        self.assertEqual(self.run_with("--random"), (0, "", ["a.cc", "a.h", "a_fields.h", "a_random.h"]))

    def test_extras_only_leaves_out_the_code(self):
        self.assertEqual(self.run_with("--extras-only", "--fields"), (0, "", ["a_fields.h"]))
        self.assertEqual(self.run_with("--extras-only", "--random"), (0, "", ["a_fields.h", "a_random.h"]))

    def test_extras_only_needs_an_extra(self):
        status, messages, names = self.run_with("--extras-only")
        self.assertEqual((status, names), (2, []))
        self.assertIn("--extras-only needs --fields or --random", messages)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
