#!/usr/bin/env python3
"""Tests which files batches.py puts together, and which it keeps apart."""
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import batches  # noqa: E402

HELPER = "namespace n { namespace {\nint helper(int x) { return x; }\n} int a() { return helper(1); } }\n"


class Batches(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def files(self, *texts):
        names = [self.folder / f"{index}.cc" for index in range(len(texts))]
        for name, text in zip(names, texts):
            name.write_text(text)
        return [batches.File(name) for name in names]

    def sizes(self, *texts, size=60000):
        return [len(batch) for batch in batches.plan(self.files(*texts), size)]

    def own(self, text):
        return set(self.files(text)[0].own)

    def test_files_without_a_common_name_share_a_batch(self):
        self.assertEqual(self.sizes(HELPER, "namespace n { int b() { return 2; } }", "int c();"), [3])

    def test_a_batch_is_not_larger_than_asked_for(self):
        self.assertEqual(self.sizes("int a;" * 10, "int b;" * 10, size=100), [1, 1])

    def test_the_same_anonymous_name_keeps_files_apart(self):
        self.assertEqual(self.sizes(HELPER, HELPER), [1, 1])

    def test_a_name_that_would_hide_another_files_keeps_them_apart(self):
        # Alone, the second file means ::helper; behind the first it would mean n::helper.
        self.assertEqual(self.sizes(HELPER, "int helper(long); namespace n { int b() { return helper(1L); } }" + HELPER), [1, 1])

    def test_a_file_goes_in_front_where_it_cannot_follow(self):
        first, second = self.files(HELPER, "namespace m { int b(int helper) { return helper; } }")
        self.assertEqual(batches.plan([first, second], 60000), [[second, first]])

    def test_names_behind_a_scope_or_a_point_belong_to_others(self):
        self.assertEqual(self.sizes(HELPER, "int b(T t) { return m::helper(1) + t.helper + t->helper; }" + "int x;"), [2])

    def test_comments_and_literals_have_no_names(self):
        self.assertEqual(self.sizes(HELPER, '// helper\n/* helper */ const char* s() { return "helper" R"(helper)"; } char c = \'h\';'), [2])

    def test_the_bases_of_a_type_are_no_names_of_its_file(self):
        self.assertEqual(self.own("namespace {\nclass Mine final : public Base, a::Other { int x; } mine;\ntemplate <class T>\n"
                                  "struct Box : Shape {};\nenum class Kind : Byte { kOne };\n}"), {"Mine", "mine", "Box", "Kind"})

    def test_a_file_has_the_names_of_its_anonymous_namespaces(self):
        self.assertEqual(self.own("namespace a::b {\nnamespace {\nconstexpr int kOne = 1, kTwo{2};\nstruct Point final { int x; void move(); };\n"
                                  "enum Color : int { kRed, kGreen = kRed + 1 };\nenum class Kind { kNone };\ntemplate <class T>\n"
                                  "T twice(const T& value) { if (value) { return value; } return value + value; }\n"
                                  "std::vector<int> numbers;\nusing Bytes = std::span<char>;\n}\n}"),
                         {"kOne", "kTwo", "Point", "Color", "kRed", "kGreen", "Kind", "twice", "numbers", "Bytes"})

    def test_a_file_has_its_static_and_constant_names_and_its_macros(self):
        self.assertEqual(self.own("#define WIDE 1\n#define GONE 1\n#undef GONE\nstatic int count() { return 0; }\nconst int kMax = 3;\n"
                                  "namespace fs = std::filesystem;\nclass Local;\nint external() { return 0; }\nvoid Class::method() {}"),
                         {"WIDE", "count", "kMax", "fs", "Local"})

    def test_a_name_that_ends_a_namespace_is_not_taken_for_the_next(self):
        self.assertEqual(self.own("namespace n {\nnamespace {\nint inside() { return 1; }\n}  // namespace\nint outside() { return 1; }\n}"), {"inside"})

    def test_what_both_say_in_the_same_words_keeps_no_files_apart(self):
        one = "namespace n { using m::Bytes; using Kind = m::Kind; namespace w = m::w; %s }"
        self.assertEqual(self.sizes(one % "Bytes a();", one % "Kind b(Bytes);"), [2])
        self.assertEqual(self.sizes(one % "Bytes a();", "namespace n { using o::Bytes; Bytes b(); }" * 2), [1, 1])

    def test_nothing_follows_a_using_directive_or_an_operator(self):
        plain = "int b();"
        for text in ("using namespace std::literals;\nint a();",
                     "namespace n { namespace {\nbool operator==(A a, A b) { return true; }\n} }", "#pragma GCC diagnostic ignored \"-Wx\"\n"):
            self.assertEqual([len(batch) for batch in batches.plan(self.files(text, plain), 60000)], [2])
            self.assertEqual([file.path[-4:] for file in batches.plan(self.files(text, plain), 60000)[0]], ["1.cc", "0.cc"])
            self.assertEqual(self.sizes(text, text), [1, 1])

    def test_a_file_that_includes_under_a_condition_has_a_batch_of_its_own(self):
        self.assertEqual(self.sizes("#if X\n#include <odd>\n#endif\nint a();", "int b();"), [1, 1])

    def test_nothing_follows_a_macro(self):
        self.assertEqual([file.path[-4:] for file in batches.plan(self.files("#define size 3\nint a();", "int b(T t) { return t.size(); }"),
                                                                 60000)[0]], ["1.cc", "0.cc"])

    def test_names_are_found_behind_what_ends_in_unusual_ways(self):
        self.assertEqual(self.own("Foo::Foo(int a) : a_{a} {}\nnamespace {\nint one() { return 1; }\n}\nFoo::~Foo() {}\nstatic int two() { return 2; }\n"
                                  "[[gnu::noinline]] static void three(int x) {}\nconstexpr int four = 1 << 2, five = 3;"),
                         {"one", "two", "three", "four", "five"})

    def test_a_new_include_of_a_file_goes_in_front(self):
        self.files("int a();", "int b();")
        made = pathlib.Path(self.plan("0.cc", "1.cc")[0])
        (self.folder / "1.cc").write_text("#include <map>\nint b();")
        batches.check(self.folder / "made")
        self.assertEqual(made.read_text().splitlines()[0], "#include <map>")

    def test_a_macro_for_the_headers_has_a_batch_of_its_own(self):
        self.assertEqual(self.sizes("#define _LARGE 1\n#include <stdio.h>\n", "int b();"), [1, 1])

    def plan(self, *names):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            batches.make_plan(self.folder / "made", 60000, [str(self.folder / name) for name in names])
        return printed.getvalue().split(";")

    def test_all_headers_are_included_in_front_of_the_first_file(self):
        self.files("#include <vector>\nint a;", "#include  <map>\n#include <vector>\nint b;")
        made = self.plan("0.cc", "1.cc")
        self.assertEqual(pathlib.Path(made[0]).read_text().splitlines(),
                         ["#include <vector>", "#include <map>", f'#include "{self.folder}/0.cc"', f'#include "{self.folder}/1.cc"'])
        self.assertEqual(len(made), 1)

    def test_a_plan_that_is_made_again_keeps_the_times_of_its_files(self):
        self.files(HELPER, "int b();")
        made = pathlib.Path(self.plan("0.cc", "1.cc")[0])
        os.utime(made, (1, 1))
        self.plan("0.cc", "1.cc")
        self.assertEqual(made.stat().st_mtime, 1)

    def test_a_plan_stays_while_it_is_good_although_sizes_change(self):
        self.files("int a;", "int b;")
        self.assertEqual(len(self.plan("0.cc", "1.cc")), 1)
        self.files("int a;" * 20000, "int b;")
        self.assertEqual(len(self.plan("0.cc", "1.cc")), 1)
        self.files("int a;" * 20000, "int b;", "int c;")
        self.assertEqual(len(self.plan("0.cc", "1.cc", "2.cc")), 2)

    def test_a_change_that_makes_a_batch_wrong_is_refused_and_planned_anew(self):
        first, second = self.files(HELPER, "int b();")
        self.plan("0.cc", "1.cc")
        batches.check(self.folder / "made")
        self.assertTrue((self.folder / "made" / "checked").is_file())
        pathlib.Path(second.path).write_text(HELPER)
        os.utime(self.folder / "made" / "plan", (1, 1))
        with self.assertRaisesRegex(SystemExit, "both have helper now: run the build once more"):
            batches.check(self.folder / "made")
        self.assertGreater((self.folder / "made" / "plan").stat().st_mtime, 1)
        self.assertEqual(len(self.plan("0.cc", "1.cc")), 2)
        batches.check(self.folder / "made")


if __name__ == "__main__":
    unittest.main()
