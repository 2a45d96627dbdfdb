#!/usr/bin/env python3
"""Tests how switched.py writes a fault beside what it replaces, and which faults switched_build.py puts into one build. `make
check` runs it."""
import os
import pathlib
import re
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import switched  # noqa: E402
import switched_build  # noqa: E402
import test_programs  # noqa: E402


TYPED = re.compile(r"::rpcrdma_planted<decltype\(.*\)>(?=\()")  # a switch that wants the old type


class Forms(unittest.TestCase):
    def first(self, old, new):
        forms = list(switched.forms(old, new, 7))
        return TYPED.sub("PLANTED", " ".join(forms[0].split())) if forms else None

    def test_a_statement_becomes_a_branch(self):
        self.assertEqual(self.first("  open(a);  // at once", "  close(a);"),
                         "if (::rpcrdma_planted(7)) { close(a); } else { open(a); // at once }")

    def test_a_statement_that_goes_leaves_an_empty_branch(self):
        self.assertEqual(self.first("if (is_full()) return false;", ""),
                         "if (::rpcrdma_planted(7)) { } else { if (is_full()) return false; }")

    def test_a_comment_gets_a_statement(self):
        self.assertEqual(self.first("// The end.", "// The end.\nstop();"), "if (::rpcrdma_planted(7)) { stop(); } // The end.")

    def test_an_open_condition_chooses_between_both(self):
        self.assertEqual(self.first("if (a && b) {", "if (a) {"),
                         "if ((::rpcrdma_planted(7) ? (static_cast<bool>(a)) : (static_cast<bool>(a && b)))) {")

    def test_a_declaration_keeps_its_scope(self):
        self.assertEqual(self.first("const int room = size(a) - 1;", "const int room = size(a);"),
                         "const int room = (PLANTED(7) ? (size(a)) : (size(a) - 1));")
        for form in switched.forms("Guard guard(a, b);", "Guard guard(a);", 7):
            self.assertNotIn("else", form)

    def test_a_lock_that_goes_has_no_form(self):
        self.assertIsNone(self.first("const std::lock_guard guard(mutex_);", ""))

    def test_a_declaration_in_a_block_has_no_form_wherever_it_is(self):
        for guard in ("const std::lock_guard guard(mutex_);", "[[maybe_unused]] const auto kept = hold(a);", "char text[16];",
                      "std::list<int>::iterator kept(a);", "// Both are locked.\nGuard guard{a};"):
            for old, new in ((f"count();\n{guard}", "count();"), (guard, ""), ("count();", f"{guard}\ncount();")):
                for form in switched.forms(old, new, 7):
                    self.assertNotIn("else", form)

    def test_a_call_is_no_declaration(self):
        for call in ("co_await open(a);", "return open(a);", "a.b = c;", "++count;", "open(a, b);", "if (a) open(b);", "delete a;"):
            self.assertFalse(switched.declares(call), call)

    def test_a_case_stays_in_its_switch(self):
        self.assertIsNone(self.first("f(); break;\ncase 2: g(); break;", "f(); break;"))

    def test_a_head_that_changes_has_no_form(self):
        old, new = ("explicit Step(Serving& s) : serving_(s), step_(s, *this) { begin(); }",
                    "explicit Step(Serving& s) : serving_(s), step_(*this, s) { begin(); }")
        self.assertIsNone(self.first(old, new))
        self.assertIsNone(self.first("inline int f(int a = 1) { return a; }", "inline int f(int a = 2) { return a; }"))

    def test_the_end_of_a_loop_is_no_condition(self):
        for form in switched.forms("for (; i < n; ++i) {", "for (; i < n; --i) {", 7):
            self.assertNotIn("static_cast", form)

    def test_a_literal_keeps_its_spaces_and_its_suffix(self):
        self.assertEqual(switched.spelled('put("a  b"sv,  1.0e-5);  // x'), 'put("a  b"sv, 1.0e-5);')

    def test_a_function_on_one_line_keeps_its_head(self):
        forms = [" ".join(form.split()) for form in switched.forms("void begin(int now) { now_ = now; }", "void begin(int) {}", 7)]
        self.assertIn("void begin(int now) { if (::rpcrdma_planted(7)) { } else { now_ = now; } }", forms)

    def test_a_branch_gets_a_condition(self):
        self.assertEqual(self.first("} else {", "} else if (!is_last) {"),
                         "} else if (::rpcrdma_planted(7) ? static_cast<bool>(!is_last) : static_cast<bool>(true)) {")

    def test_a_list_keeps_all_its_parts(self):
        for form in switched.forms("const int most = std::max(a, b);", "const int most = std::max(b, a);", 7):
            self.assertNotIn("? (b, a)", form)
        self.assertEqual(self.first("const int most = std::max(a, b);", "const int most = std::max(b, a);"),
                         "const int most = (PLANTED(7) ? (std::max(b, a)) : (std::max(a, b)));")

    def test_constants_that_the_compiler_computes_have_no_switch(self):
        self.assertIsNone(self.first("constexpr int kMax = 3;", "constexpr int kMax = 4;"))
        self.assertIsNone(self.first("static int made = 3;", "static int made = 4;"))

    def test_what_differs_in_white_space_and_comments_alone_has_no_form(self):
        self.assertIsNone(self.first("open( a );", "open(a);  // now"))

    def test_a_comment_at_the_end_of_an_operand_hides_nothing(self):
        form = list(switched.forms("const bool is = a ||  // one\n  b;", "const bool is = a;", 7))[0]
        self.assertEqual(form.split("\n")[1:], ["  b", "));"])

    def test_strings_are_no_code(self):
        self.assertEqual([token.text for token in switched.tokens('a("// }", \'"\', R"(x)")  // b')],
                         ["a", "(", '"// }"', ",", "'\"'", ",", 'R"(x)"', ")"])


SOURCE = """\
int f(int a) {
  if (a > 3) return 1;
  const int b = a + 1;
  return b;
}
"""


class FakePrograms:
    """Compiles nothing, and says what a compiler would."""

    def __init__(self, outputs=()):
        self.outputs, self.built, self.objects = list(outputs), [], []
        self.failure, self.broken = "fail", None

    def covering(self, jobs, names):
        return self.objects

    def build_all(self, jobs, *options):
        self.built.append((jobs, options))
        output = self.outputs.pop(0) if self.outputs else ""
        return not output, output

    def build(self, jobs):
        return self.build_all(jobs)[0]

    def outcome(self, job, variables):
        assert pathlib.Path(variables["TMPDIR"]).is_dir()
        number = variables["RPCRDMA_PLANTED"]
        if number == job.command[0]:
            pathlib.Path(variables["RPCRDMA_PLANTED_REACHED"]).touch()
        return self.failure if number == job.command[0] or self.broken == job.command[0] else "pass"


class Builds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "a.cc").write_text(SOURCE)

    def changed(self, line, new):
        return (switched_build.Change("a.cc", line, line, new),)

    def waves(self, faults, outputs=()):
        """Returns (numbers of the switches in the build, of those left out, the file) of each wave."""
        self.programs, before = FakePrograms(outputs), (self.root / "a.cc").read_text()
        build = switched_build.SwitchedBuild(self.programs, self.root)
        found = [([each.number for each in wave], [each.number for each in others], (self.root / "a.cc").read_text())
                 for wave, others in build.waves(faults, lambda fault: fault, lambda fault: ["job"])]
        build.restore()
        self.assertEqual((self.root / "a.cc").read_text(), before)
        return found

    def test_all_faults_are_in_one_build_with_the_lines_of_the_file_kept(self):
        [(inside, left, text)] = self.waves([self.changed(1, "  if (a > 4) return 1;"), self.changed(3, "  return 0;")])
        self.assertEqual((inside, left), ([1, 2], []))
        self.assertIn(f'#line 3 "{self.root}/a.cc"\n  const int b', text)
        self.assertIn('#line 1 "planted-2"\nif (::rpcrdma_planted(2)) { return 0; }', text)
        self.assertEqual(self.programs.built, [(["job"], ("-k", "0"))])

    def test_two_faults_of_a_line_are_in_two_builds(self):
        waves = self.waves([self.changed(3, "  return 0;"), self.changed(3, "  return 1;")])
        self.assertEqual([wave[:2] for wave in waves], [([1], []), ([2], [])])

    def test_a_form_that_does_not_compile_gives_way_to_the_next(self):
        [(inside, _, text)] = self.waves([self.changed(3, "  return a;"), self.changed(1, "  ;")],
                                         ["planted-1:1:9: error: expected an expression\n"])
        self.assertEqual(inside, [1, 2])
        self.assertIn("return (PLANTED(1) ? (a) : (b));", TYPED.sub("PLANTED", text))

    def test_a_fault_without_a_form_is_left_to_a_build_of_its_own(self):
        error = "planted-2:1:1: error: no\n"
        [(inside, left, text)] = self.waves([self.changed(3, "  return 0;"), self.changed(1, "")], [error])
        self.assertEqual((inside, left), ([1], [2]))
        self.assertNotIn("planted(2)", text)

    def test_an_error_behind_a_fault_is_blamed_on_it(self):
        [(inside, left, _)] = self.waves([self.changed(1, "  ;"), self.changed(3, "  return 0;")],
                                         [f"{self.root}/a.cc:3:10: error: c was not declared\n"])
        self.assertEqual((inside, left), ([2], [1]))

    def test_an_error_elsewhere_is_blamed_on_what_it_was_instantiated_for(self):
        output = f"FAILED: a.o\n{self.root}/b.h: In instantiation of f:\nplanted-1:1:4:   required from here\n/usr/x.h:3:1: error: no\n"
        [(inside, left, _)] = self.waves([self.changed(1, "  ;"), self.changed(3, "  return 0;")], [output])
        self.assertEqual((inside, left), ([2], [1]))

    def test_forms_are_tried_in_a_few_objects_first(self):
        programs = FakePrograms(["planted-1:1:1: error: no\n"])
        programs.objects = ["a.o"]
        build = switched_build.SwitchedBuild(programs, self.root)
        [(wave, _)] = build.waves([self.changed(3, "  return 0;")], lambda fault: fault, lambda fault: ["job"])
        self.assertEqual(len(wave), 1)
        self.assertEqual(programs.built, [([], ("-k", "0", "a.o"))] * 2 + [(["job"], ("-k", "0"))])

    def test_faults_that_no_compiler_names_get_builds_of_their_own(self):
        [(inside, left, text)] = self.waves([self.changed(3, "  return 0;")], ["ld: undefined reference to f\n"])
        self.assertEqual((inside, left, text), ([], [1], SOURCE))

    def test_a_tree_that_does_not_build_by_itself_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "does not build without a fault"):
            self.waves([self.changed(3, "  return 0;")], ["ld: no\n", "ld: no\n"])

    def test_where_no_fault_has_a_form_nothing_is_built(self):
        [(inside, left, _)] = self.waves([self.changed(4, "} // the end")])
        self.assertEqual((inside, left, self.programs.built), ([], [1], []))

    def verdicts(self, programs, jobs):
        (self.root / "a.cc").write_text(SOURCE.replace("}", "  f(1);\n}"))
        build = switched_build.SwitchedBuild(programs, self.root)
        faults = [self.changed(line, "  f(0);") for line in (1, 3, 4)]
        [(wave, _)] = build.waves(faults, lambda fault: fault, lambda fault: jobs)
        before = set(os.listdir(tempfile.gettempdir()))
        found = {verdict.switch.number: (verdict.by, verdict.is_reached)
                 for verdict in switched_build.Runs(programs).all(wave, lambda fault: jobs)}
        self.assertEqual({name for name in set(os.listdir(tempfile.gettempdir())) - before if "mutants." in name}, set())
        return found

    JOBS = [test_programs.Job("one", ("1",)), test_programs.Job("two", ("2",))]

    def test_each_fault_runs_by_itself(self):
        self.assertEqual(self.verdicts(FakePrograms(), self.JOBS), {1: ("one", True), 2: ("two", True), 3: (None, False)})

    def test_a_job_that_fails_with_all_switches_off_sees_nothing(self):
        programs = FakePrograms()
        programs.broken = "1"
        self.assertEqual(self.verdicts(programs, self.JOBS), {1: (None, True), 2: ("two", True), 3: (None, False)})

    def test_a_job_that_is_skipped_sees_nothing(self):
        programs = FakePrograms()
        programs.failure = "skip"
        self.assertEqual({by for by, _ in self.verdicts(programs, self.JOBS).values()}, {None})


if __name__ == "__main__":
    unittest.main()
