#!/usr/bin/env python3
"""member_functions.py, and the rule of tidy.py that counts with it. Part of `make check`."""
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import member_functions  # noqa: E402
import tidy  # noqa: E402


def counts(text):
    return {name: count for name, _, count in member_functions.classes(text)}


def class_with(functions, name="Large"):
    lines = "".join(f"  void step_{number}(int value);\n" for number in range(functions))
    return f"class {name} {{\n public:\n{lines} private:\n  int value_ = 0;\n}};\n"


class Counted(unittest.TestCase):
    def one(self, member):
        return counts("class Thing {\n public:\n  " + member + "\n};\n")["Thing"]

    def test_functions_of_every_kind_that_a_reader_has_to_know(self):
        for member in ("void begin();", "static Thing make(int value);", "bool is_open() const noexcept;",
                       "virtual void told() = 0;", "[[nodiscard]] int size() const;",
                       "template <class Take>\n  bool poll(Take take);",
                       "Expected<std::unique_ptr<Thing>, Error> open(Bytes data);",
                       "void add(std::function<int(int)> function, int count = 1);",
                       "void begin() {\n    value_ = 1;\n  }", "int next() { return ++value_; }",
                       "int size() const {\n    if (value_ > 1) return 1;\n    return value_;\n  }"):
            self.assertEqual(self.one(member), 1, member)

    def test_overrides_and_accessors(self):
        for member in ("void told(Event event) override;", "void told() final { count(); }",
                       "int size() const noexcept { return size_; }", "static constexpr int limit() { return 3; }",
                       "bool is_open() const {\n    return state_ == State::kOpen ||\n           is_late_;\n  }"):
            self.assertEqual(self.one(member), 1, member)

    def test_not_what_makes_a_thing(self):
        for member in ("explicit Thing(int value);", "Thing(int value) : value_(value) { start(); }", "~Thing();",
                       "Thing(const Thing&) = delete;", "Thing& operator=(const Thing&) = delete;",
                       "bool operator==(const Thing&) const = default;", "friend void swap(Thing& a, Thing& b);"):
            self.assertEqual(self.one(member), 0, member)

    def test_not_data_types_comments_and_macros(self):
        for member in ("int value_ = next();", "std::array<int, 3> values_{};", "enum class Kind { kOne, kTwo };",
                       "using Function = void (*)(int);", "// void once();", "/* void\n  once(); */",
                       'static constexpr char kText[] = "void once();";', "#define ONCE() void once();",
                       "static_assert(sizeof(int) == 4);"):
            self.assertEqual(self.one(member), 0, member)

    def test_a_nested_class_has_its_own(self):
        text = ("class Outer {\n  struct Inner {\n    void one();\n    void two();\n  };\n  void three();\n};\n")
        self.assertEqual(counts(text), {"Outer": 1, "Inner": 2})

    def test_names_the_line_where_the_class_begins(self):
        found = list(member_functions.classes("// A comment.\n\nstruct First {\n  void one();\n};\n" + class_with(2)))
        self.assertEqual(found, [("First", 3, 1), ("Large", 6, 2)])

    def test_a_declaration_of_a_class_defines_none(self):
        self.assertEqual(counts("class Later;\nenum class Kind : int { kOne };\n"), {})


class Rule(unittest.TestCase):
    def setUp(self):
        tidy.findings.clear()
        self.addCleanup(tidy.findings.clear)

    def findings(self, name, text):
        tidy.findings.clear()
        tidy.check_classes(tidy.ROOT / name, text)
        return list(tidy.findings)

    def test_sees_a_class_with_too_many(self):
        most = tidy.MEMBER_FUNCTIONS_MAX
        self.assertEqual(self.findings("src/engine/large.h", class_with(most)), [])
        found = self.findings("src/rdma/verbs/large.h", "\n" + class_with(most + 1))
        self.assertEqual(len(found), 1)
        self.assertRegex(found[0], rf"^src/rdma/verbs/large\.h:2: Large has {most + 1} member functions")

    def test_leaves_out_tests(self):
        text = class_with(tidy.MEMBER_FUNCTIONS_MAX + 1)
        for name in ("src/engine/large_for_test.h", "src/engine/large_test.cc"):
            self.assertEqual(self.findings(name, text), [], name)


if __name__ == "__main__":
    unittest.main()
