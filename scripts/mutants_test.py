#!/usr/bin/env python3
"""Tests where scopes.py and planted.py find a fault. `make check` runs it."""
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import planted  # noqa: E402
import scopes  # noqa: E402

SOURCE = """\
#include "engine/gate.h"

namespace rpcrdma::engine {
namespace {
constexpr int kOpenMax = 3;  // calls
}  // namespace

Gate::Gate(int size) : size_{size}, names_({"a", "b"}) {
  open();
}

bool Gate::pass(int count) {
  if (count > size_) return false;  // too many
  const auto add = [&] { total_ += count; };
  add();
  return true;
}

// Says } and { in a comment.
bool Gate::close() {
  if (count > size_) return false;  // too many
  return true;
}
}  // namespace rpcrdma::engine
"""
HEADER = """\
class RPCRDMA_EXPORT Gate final : public Door<int> {
 public:
  explicit Gate(int size);
  int size() const noexcept { return size_; }

 private:
  struct Slot {
    bool is_free = true;
  };
  int size_ = 0;
  std::array<Slot, 3> slots_{};
};
"""
ENTRY = """\
[[fault]]
name = "F1"
file = "src/engine/gate.cc"
function = "Gate::pass"
old = 'if (count > size_) return false;  // too many'
new = ''
tests = ["Gate.LetsNoMorePass"]
"""


def edit(old, new="", function="Gate::pass", file="src/engine/gate.cc"):
    return planted.Edit(file, function, old, new)


class Scopes(unittest.TestCase):
    def names(self, text):
        return [(scope.name, scope.first + 1, scope.last + 1) for scope in scopes.scopes(text)]

    def test_functions_and_constants_have_their_lines(self):
        self.assertEqual(self.names(SOURCE), [("kOpenMax", 5, 5), ("Gate::Gate", 8, 10), ("Gate::pass", 12, 17),
                                              ("Gate::close", 20, 23)])

    def test_members_have_the_name_of_their_class(self):
        self.assertEqual(self.names(HEADER), [("Gate", 1, 12), ("Gate::size", 4, 4), ("Gate::Slot", 7, 9)])

    def test_operators_templates_and_wrapped_headers_have_names(self):
        for text, name in (("bool operator==(const A& a, const A& b) {\n  return true;\n}\n", "operator=="),
                           ("template <class T>\nstd::map<int, T> make(T value) {\n  return {};\n}\n", "make"),
                           ("Expected<int, Error> Gate::open(\n    int size) const {\n  return 1;\n}\n", "Gate::open"),
                           ("Gate::~Gate() {\n}\n", "Gate::~Gate"),
                           ("[[nodiscard]] auto f(int a = 1) -> int {\n  return a;\n}\n", "f"),
                           ("enum class Kind : int {\n  kOne,\n};\n", "Kind"),
                           ("constexpr std::array<int, 2> kSizes = {\n    1, 2};\n", "kSizes")):
            self.assertEqual([found[0] for found in self.names(text)], [name], text)


class InATree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("src/engine/gate.cc", SOURCE)
        self.write("src/engine/gate.h", HEADER)

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def find(self, *arguments, **names):
        return planted.find(planted.Tree(self.root), edit(*arguments, **names))

    def table(self, text=ENTRY):
        self.write(planted.TABLE, text)
        return planted.read(self.root)


class Lookup(InATree):
    def test_a_line_is_found_in_the_function_that_is_named(self):
        place = self.find("if (count > size_) return false;  // too many")
        self.assertEqual((place.file, place.first, place.last), ("src/engine/gate.cc", 12, 12))
        self.assertEqual(self.find("if (count > size_) return false; // too many", function="Gate::close").first, 20)

    def test_several_lines_are_found_however_they_are_wrapped(self):
        place = self.find("const auto add =\n    [&] { total_ += count; };\nadd();")
        self.assertEqual((place.first, place.last), (13, 14))

    def test_a_part_of_a_line_is_not_found(self):
        with self.assertRaisesRegex(planted.NotFound, "has no such lines: if \\(count > size_\\)"):
            self.find("if (count > size_)")

    def test_a_line_that_is_not_there_is_reported(self):
        with self.assertRaisesRegex(planted.NotFound, "Gate::pass of src/engine/gate.cc has no such lines: count = 1;"):
            self.find("count = 1;")

    def test_a_line_that_is_there_twice_is_ambiguous(self):
        self.write("src/engine/gate.cc", SOURCE.replace("  add();\n", "  add();\n  add();\n"))
        with self.assertRaisesRegex(planted.NotFound, "has its old lines 2 times, in lines 15, 16"):
            self.find("add();")

    def test_a_function_that_moved_is_found_where_it_is(self):
        self.write("src/rpc/door.h", SOURCE)
        self.write("src/engine/gate.cc", "// Empty.\n")
        self.assertEqual(self.find("add();").file, "src/rpc/door.h")

    def test_a_function_that_moved_to_two_files_is_ambiguous(self):
        self.write("src/engine/gate.cc", "// Empty.\n")
        self.write("src/rpc/door.h", SOURCE)
        self.write("apps/door.cc", SOURCE)
        with self.assertRaisesRegex(planted.NotFound, "in several files: apps/door.cc:15, src/rpc/door.h:15"):
            self.find("add();")

    def test_a_function_with_another_name_is_reported_with_what_to_write(self):
        self.write("src/engine/gate.cc", SOURCE.replace("Gate::pass", "Gate::let_through"))
        with self.assertRaisesRegex(planted.NotFound, 'file = "src/engine/gate.cc", function = "Gate::let_through"'):
            self.find("add();")

    def test_a_member_is_found_in_its_class(self):
        self.assertEqual(self.find("bool is_free = true;", function="Slot", file="src/engine/gate.h").first, 7)


class Planting(InATree):
    def after(self, *edits):
        return planted.texts_with(self.root, planted.Fault("F1", edits, ("A.B",)))["src/engine/gate.cc"]

    def test_the_new_lines_are_indented_like_the_old_ones(self):
        text = self.after(edit("add();", "if (count > 0) {\n  add();\n}"))
        self.assertEqual(text, SOURCE.replace("  add();\n", "  if (count > 0) {\n    add();\n  }\n"))

    def test_no_new_line_removes_the_old_one(self):
        self.assertEqual(self.after(edit("add();")), SOURCE.replace("  add();\n", ""))

    def test_a_fault_of_two_places_changes_both(self):
        text = self.after(edit("add();"), edit("open();", "close();", function="Gate::Gate"))
        self.assertEqual(text, SOURCE.replace("  add();\n", "").replace("  open();", "  close();"))


class TheTable(InATree):
    def check(self):
        return planted.check(self.root, planted.read(self.root))

    def test_an_entry_that_is_written_is_read_the_same(self):
        faults = [planted.Fault("F1", (edit("  a('b');\n    c();", "  d();"), edit("e();", "")), ("A.B",) * 40)]
        self.table("".join(planted.entry(fault) for fault in faults))
        read = planted.read(self.root)
        self.assertEqual(read[0].edits, (edit("a('b');\n  c();", "d();"), edit("e();", "")))
        self.assertEqual(read[0].tests, faults[0].tests)

    def test_an_entry_that_lacks_something_is_refused(self):
        for text, why in ((ENTRY.replace('function = "Gate::pass"\n', ""), "F1 lacks function"),
                          (ENTRY.replace('tests = ["Gate.LetsNoMorePass"]\n', ""), "F1 has no tests"),
                          (ENTRY.replace("'if (count > size_) return false;  // too many'", "''"), "changes nothing"),
                          (ENTRY + ENTRY, "F1 is there twice"), ("", "has no faults"),
                          (ENTRY + 'file_name = ""\n', "a key that nobody reads: file_name")):
            with self.assertRaisesRegex(ValueError, why):
                self.table(text)

    def test_a_fault_in_its_place_is_no_finding(self):
        self.table()
        self.assertEqual(self.check(), ([], []))

    def test_a_moved_function_is_corrected_and_nothing_else(self):
        second = ENTRY.replace("F1", "F2").replace("pass", "close")
        self.table("# A comment.\n" + ENTRY + second)
        self.write("src/rpc/door.cc", SOURCE.replace("Gate::close", "Gate::end"))
        self.write("src/engine/gate.cc", SOURCE.replace("Gate::pass", "Gate::begin"))
        findings, moves = self.check()
        self.assertEqual((findings, len(moves)), ([], 1))
        planted.update(self.root, moves)
        self.assertEqual((self.root / planted.TABLE).read_text(),
                         "# A comment.\n" + ENTRY.replace("engine/gate.cc", "rpc/door.cc") + second)
        self.assertEqual(self.check(), ([], []))

    def test_a_renamed_function_is_a_finding_until_the_table_is_corrected(self):
        self.table()
        self.write("src/engine/gate.cc", SOURCE[:SOURCE.index("// Says")].replace("Gate::pass", "Gate::begin"))
        findings, moves = self.check()
        self.assertEqual(len(findings), 1)
        planted.update(self.root, moves)
        self.assertEqual(self.check(), ([], []))


if __name__ == "__main__":
    unittest.main()
