#!/usr/bin/env python3
"""The options of rpcrdma-gen: which files it reads and writes.

usage: options_test.py RPCRDMA-GEN
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

if len(sys.argv) != 2:
    sys.exit(__doc__)
GENERATOR = sys.argv[1]
ROOT = pathlib.Path(__file__).resolve().parents[2]
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

    def test_tirpc_table_is_written_alone(self):
        self.assertEqual(self.run_with("--tirpc-table"), (0, "", ["a_tirpc.c"]))
        self.assertEqual(self.run_with("--tirpc-table", "--fields")[0], 2)

    def test_extras_only_needs_an_extra(self):
        status, messages, names = self.run_with("--extras-only")
        self.assertEqual((status, names), (2, []))
        self.assertIn("--extras-only needs --fields or --random", messages)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def made(self, name="a.h"):
        return (self.folder / "made" / name).read_text()

    def accepted(self, *options):
        status, messages, _ = self.run_with(*options)
        self.assertEqual((status, messages), (0, ""))

    def refused(self, text, *options, status=1):
        found, messages, names = self.run_with(*options)
        self.assertEqual((found, names), (status, []))
        self.assertIn(text, messages)

    def test_files_are_included_from_beside_the_one_that_names_them(self):
        self.write("a.x", '#include "parts/b.x"\nstruct item { size s; };\n')
        self.write("parts/b.x", '#include "c.x"\n#include "c.x"\ntypedef number size;\n')
        self.write("parts/c.x", "typedef int number;\n")
        self.accepted()
        self.assertIn("using number = ", self.made())

    def test_folders_of_included_files_are_looked_through_in_their_order(self):
        self.write("a.x", "#include <b.x>\nconst A = B;\n")
        for folder, number in (("one", 1), ("two", 2)):
            self.write(f"{folder}/b.x", f"const B = {number};\n")
        self.write("b.x", "const B = 3;\n")
        self.refused("'b.x' cannot be read", "-I", self.folder / "none")
        self.accepted("-I", self.folder / "two", "-I", self.folder / "one")
        self.assertIn("A = 2;", self.made())

    def test_errors_in_included_files_name_them(self):
        self.write("a.x", '#include "b.x"\n')
        included = self.write("b.x", "\nstruct item { none n; };\n")
        self.refused(f"{included}:2:15: error: there is no type 'none'\nstruct item {{ none n; }};\n")
        self.write("b.x", "#ifdef A\n")
        self.refused(f"{included}:1:1: error: this condition has no end")
        self.write("b.x", "#endif\n")
        self.refused(f"{included}:1:1: error: #endif without an #if")

    def test_files_that_include_each_other_are_read_once(self):
        self.write("a.x", '#include "b.x"\nconst A = 1;\n')
        self.write("b.x", '#include "a.x"\nconst B = 2;\n')
        self.accepted()

    def test_definitions_are_constants_and_conditions(self):
        self.write("a.x", "#ifdef WIDE\ntypedef hyper number;\n#endif\nstruct item { number n<LIMIT>; };\n")
        self.accepted("-D", "LIMIT=0x10", "-DWIDE")
        self.assertIn("LIMIT = 16;", self.made())
        for wrong in ("", "=1", "1=1", "A=", "A=x", "A-B=1"):
            with self.subTest(wrong):
                found, messages, _ = self.run_with("-D", wrong)
                self.assertEqual(found, 2)
                self.assertIn("expected NAME or NAME=NUMBER", messages)

    def test_imports_bring_the_types_of_other_files(self):
        self.write("a.x", '%#include "other.h"\nstruct item { name n; };\n')
        other = self.write("other.x", "typedef string name<255>;\n")
        self.refused("if another .x file has it, say --import FILE.x")
        missing = self.folder / "none.x"
        self.refused(f"<options>:1:1: error: '{missing}' cannot be read", "--import", missing)
        found, messages, _ = self.run_with("--import", other)
        self.assertEqual(found, 0, messages)

    def test_one_file_by_several_paths_is_read_once(self):
        self.write("a.x", '#include "b.x" // of both\n')
        self.write("b.x", "const B = 1;\n")
        self.accepted("--import", f"{self.folder}//b.x", "--import", f"{self.folder}/../{self.folder.name}/b.x")

    def test_depfile_names_what_was_read(self):
        self.write("a.x", '#include "with space.x"\n')
        included = self.write("with space.x", "const A = 1;\n")
        self.accepted("--depfile", self.folder / "a.stamp.d")
        escaped = str(included).replace(" ", "\\ ")
        self.assertEqual((self.folder / "a.stamp.d").read_text(),
                         f"{self.folder}/a.stamp: {self.folder}/a.x \\\n  {escaped}\n")

    def test_file_that_is_called_like_a_header_of_c_hides_none(self):
        path = self.write("time.x", INPUT)
        made = self.folder / "made"
        result = subprocess.run([GENERATOR, "-o", made, path], capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual(sorted(each.name for each in made.iterdir()), ["time_.cc", "time_.h"])
        self.assertIn("'time.h' is a header of C; this becomes 'time_.h'", result.stderr)
        self.assertIn("namespace time_ {", self.made("time_.h"))

    def test_cmake_knows_the_headers_of_c(self):
        code = re.search(r"kHeaders = .*?\}\);", (ROOT / "gen/names.cc").read_text(), re.DOTALL)[0]
        cmake = re.search(r"set\(c_headers(.*?)\)", (ROOT / "cmake/RpcrdmaGenerate.cmake").read_text(), re.DOTALL)[1]
        self.assertEqual(cmake.split(), re.findall(r'"(\w+)"', code))

    def test_namespace_is_no_function_of_c(self):
        for wrong in ("rand", "time::a", "EPERM", "a::EPERM"):
            with self.subTest(wrong):
                found, messages, _ = self.run_with("--namespace", wrong)
                self.assertEqual(found, 2)
                self.assertIn(f"'{wrong}' is no name for a namespace", messages)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
