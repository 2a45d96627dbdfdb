#!/usr/bin/env python3
"""Tests where scopes.py and planted.py find a fault, and what mutants.py reports. `make check` runs it."""
import contextlib
import io
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import changed_faults  # noqa: E402
import drawn  # noqa: E402
import mutants  # noqa: E402
import planted  # noqa: E402
import scopes  # noqa: E402
import test_programs  # noqa: E402
import trials  # noqa: E402

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


SWITCH = re.compile(r"if \(::rpcrdma_planted\((\d+)\)\) \{ (.*?) ?\} else \{\n(.*?)\n\}", re.S)


class FakePrograms:
    """Stands in for TestPrograms: a job fails when the file no longer has the text that it looks for."""

    def __init__(self, root, looks_for):
        self.root, self.looks_for, self.builds = root, looks_for, []
        self.too_large = []  # names of jobs for whose building there is no time
        self.time = None  # OutOfTime is raised after so many outcomes

    def text(self):
        return (self.root / "src/engine/gate.cc").read_text()

    def job(self, name):
        return test_programs.Job(name, (name,), (name,))

    def of_tests(self, tests):
        return [self.job(test) for test in tests if test in self.looks_for]

    def units(self, name):
        return self.of_tests(["unit"])

    def others(self, name):
        return self.of_tests(["system"])

    def steps(self, jobs):
        return sum(len(job.name) for job in jobs)

    def has_time_to_build(self, jobs):
        return all(job.name not in self.too_large for job in jobs)

    def build(self, jobs):
        self.builds.append([job.name for job in jobs])
        return "syntax error" not in self.text()

    def covering(self, jobs, names):
        return []

    def build_all(self, jobs, *_):
        return self.build(jobs), ""

    def outcome(self, job, variables=None):
        if self.time is not None:
            self.time -= 1
            if self.time < 0:
                raise test_programs.OutOfTime
        number = (variables or {}).get("RPCRDMA_PLANTED")
        if number and f"planted({number})" in self.text():
            pathlib.Path(variables["RPCRDMA_PLANTED_REACHED"]).touch()
        runs = SWITCH.sub(lambda form: form[2] if form[1] == number else form[3], self.text())
        return "pass" if self.looks_for[job.name] in runs else "fail"


class Trials(InATree):
    FAULT = planted.Fault("F1", (edit("add();"),), ("unit", "system"))

    def trial(self, **looks_for):
        self.programs = FakePrograms(self.root, looks_for)
        return trials.Trial(self.programs, self.root)

    def drawn(self, name, old, new):
        return name, "src/engine/gate.cc", {"src/engine/gate.cc": SOURCE.replace(old, new)}

    def quietly(self, function, *arguments):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            result = function(*arguments)
        return result, output.getvalue()

    def test_a_fault_that_a_test_sees_is_no_finding_and_leaves_the_tree_as_it_was(self):
        trial = self.trial(unit="add();", system="open();")
        self.assertEqual(trial.finding_of(self.FAULT, self.FAULT.tests), (None, "unit"))
        self.assertEqual(self.programs.text(), SOURCE)

    def test_a_fault_that_no_test_sees_is_a_finding(self):
        trial = self.trial(unit="open();", system="open();")
        finding, _ = trial.finding_of(self.FAULT, self.FAULT.tests)
        self.assertEqual(finding, "is not seen by unit, system")

    def test_a_row_that_no_test_sees_fails_the_run(self):
        trial = self.trial(unit="open();")
        (findings, left_out), output = self.quietly(changed_faults.try_rows, trial, [self.FAULT])
        self.assertEqual((findings, left_out), (["F1 is not seen by unit, system"], []))
        self.assertIn("FAIL F1", output)
        status, _ = self.quietly(changed_faults.conclude, findings, left_out, [], trials.Tally(), 1, 1, 0.6)
        self.assertEqual(status, 1)

    def test_a_fault_whose_tests_cannot_be_run_is_a_finding(self):
        finding, _ = self.trial(unit="open();").finding_of(self.FAULT, ["another"])
        self.assertEqual(finding, "names no test that can be run here")

    def test_a_fault_that_does_not_compile_is_a_finding(self):
        broken = planted.Fault("F1", (edit("add();", "syntax error"),), ("unit",))
        self.assertEqual(self.trial(unit="open();").finding_of(broken, broken.tests), ("does not build", None))

    def test_a_test_that_fails_without_a_fault_ends_the_run(self):
        with self.assertRaisesRegex(SystemExit, "unit fails without any fault"):
            self.trial(unit="no such text").finding_of(self.FAULT, self.FAULT.tests)

    def test_a_test_that_fails_without_a_fault_is_not_used_where_the_run_goes_on(self):
        trial = trials.Trial(FakePrograms(self.root, {"unit": "no such text", "system": "add();"}), self.root, False)
        (finding, by), output = self.quietly(trial.finding_of, self.FAULT, self.FAULT.tests)
        self.assertEqual((finding, by), (None, "system"))
        self.assertIn("unit fails without any fault, and is not used", output)

    def test_a_program_is_built_only_when_the_ones_before_it_have_passed(self):
        self.trial(unit="add();", system="add();").finding_of(self.FAULT, self.FAULT.tests)
        self.assertEqual(self.programs.builds, [["unit"], ["unit"]])

    def test_rows_are_left_out_when_the_time_is_over(self):
        trial = self.trial(unit="add();")
        self.programs.time = 2
        faults = [self.FAULT, self.FAULT._replace(name="F2")]
        (findings, left_out), _ = self.quietly(changed_faults.try_rows, trial, faults)
        self.assertEqual((findings, left_out), ([], ["F2"]))
        self.assertEqual(self.programs.text(), SOURCE)
        status, output = self.quietly(changed_faults.conclude, findings, left_out, ["a draw"], trials.Tally(), 2, 1, 0.6)
        self.assertEqual(status, 0)
        self.assertIn("left out, there was no time: F2", output)
        self.assertIn("left out, there was no time: a draw", output)

    def test_a_run_that_had_no_time_for_any_fault_fails(self):
        status, output = self.quietly(changed_faults.conclude, [], ["F1"], [], trials.Tally(), 1, 1, 0.6)
        self.assertEqual(status, 1)
        self.assertIn("no time for a single fault", output)

    def test_random_faults_go_to_other_programs_when_the_unit_tests_do_not_see_them(self):
        trial, tally = self.trial(unit="open();", system="add();"), trials.Tally()
        faults = [self.drawn("add", "add();", ""), self.drawn("open", "open();", ""),
                  self.drawn("neither", "return true", "return 1")]
        not_tried, _ = self.quietly(changed_faults.try_random, trial, faults, tally)
        self.assertEqual((not_tried, tally.caught, tally.survived), ([], {"system": 1, "unit": 1}, ["neither"]))

    def test_share_of_random_faults_is_judged_when_there_are_enough(self):
        tally = trials.Tally()
        for seen in 6 * [True] + 3 * [False]:
            tally.add("a fault", "unit" if seen else None, 0)
        status, output = self.quietly(changed_faults.conclude, [], [], [], tally, 0, 1, 0.9)
        self.assertEqual(status, 0)
        self.assertIn("too few to judge", output)
        tally.add("a fault", None, 0)
        self.assertEqual(self.quietly(changed_faults.conclude, [], [], [], tally, 0, 1, 0.6)[0], 0)
        self.assertEqual(self.quietly(changed_faults.conclude, [], [], [], tally, 0, 1, 0.7)[0], 1)

    def test_random_faults_are_undecided_when_the_time_is_over(self):
        trial, tally = self.trial(unit="open();", system="add();"), trials.Tally()
        self.programs.time = 3
        faults = [self.drawn("one", "add();", ""), self.drawn("two", "add();", "")]
        not_tried, _ = self.quietly(changed_faults.try_random, trial, faults, tally)
        self.assertEqual(not_tried, ["one (its unit tests do not see it)", "two (its unit tests do not see it)"])
        self.assertEqual(tally.total(), 0)

    def test_what_takes_too_long_to_build_is_left_out_and_the_others_are_tried(self):
        trial, tally = self.trial(unit="open();", system="add();", another="add();"), trials.Tally()
        self.programs.too_large = ["system"]
        faults = [self.FAULT._replace(tests=("system",)), self.FAULT._replace(name="F2", tests=("another",))]
        (findings, left_out), _ = self.quietly(changed_faults.try_rows, trial, faults)
        self.assertEqual((findings, left_out), ([], ["F1"]))
        faults = [self.drawn("one", "add();", ""), self.drawn("two", "open();", "")]
        not_tried, _ = self.quietly(changed_faults.try_random, trial, faults, tally)
        self.assertEqual((not_tried, tally.caught), (["one (its unit tests do not see it)"], {"unit": 1}))

    def test_faults_whose_first_program_needs_little_to_be_built_come_first(self):
        self.trial(unit="", system="")
        jobs = {"a.cc": ["system"], "b.h": ["unit"], "c.cc": ["none"], "d.cc": ["unit"]}
        order = changed_faults.cheapest_first(self.programs, list(jobs), lambda item: self.programs.of_tests(jobs[item]),
                                       lambda item: [item])
        self.assertEqual(order, ["d.cc", "a.cc", "c.cc", "b.h"])


class Stopping(InATree):
    def test_a_signal_takes_the_fault_out(self):
        for name in ("SIGTERM", "SIGHUP", "SIGINT"):
            program = (f"import os, pathlib, signal, sys\nsys.path.insert(0, {str(HERE)!r})\nimport trials\n"
                       "for each in (signal.SIGTERM, signal.SIGHUP):\n    signal.signal(each, trials.stop_at_signal)\n"
                       f"with trials.in_place(pathlib.Path({str(self.root)!r}), {{'src/engine/gate.h': 'a fault'}}):\n"
                       f"    print(open({str(self.root / 'src/engine/gate.h')!r}).read(), flush=True)\n"
                       f"    os.kill(os.getpid(), signal.{name})\n    signal.pause()\n")
            ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
            self.assertEqual(ended.stdout, "a fault\n", ended.stderr)
            self.assertNotEqual(ended.returncode, 0)
            self.assertEqual((self.root / "src/engine/gate.h").read_text(), HEADER)


class FilesOfABuild(InATree):
    def test_a_batch_has_the_tests_of_its_files(self):
        programs = test_programs.TestPrograms.__new__(test_programs.TestPrograms)
        programs.tree, programs.build_folder = self.root, self.root / "build"
        batch = self.root / "build" / "unit.batches" / "batch_1.cc"
        batch.parent.mkdir(parents=True)
        batch.write_text(f'#include <vector>\n#include "engine/gate.h"\n#include "{self.root}/a.cc"\n#include "{self.root}/b.cc"\n')
        self.assertEqual(programs._files_of(str(batch)), [f"{self.root}/a.cc", f"{self.root}/b.cc"])
        self.assertEqual(programs._files_of(f"{self.root}/c.cc"), [f"{self.root}/c.cc"])
        self.assertEqual(programs._files_of(f"{self.root}/build/made.cc"), [])


class Warnings(InATree):
    def test_a_fault_that_leaves_a_variable_unused_builds_where_warnings_are_errors(self):
        compiler = shutil.which("clang++")
        if not compiler:
            self.skipTest("there is no clang++")
        (self.root / "unused.cc").write_text("void f() { int unused = 1; }\n")
        (self.root / "build.ninja").write_text(
            f"rule compile\n  command = {compiler} -Werror -Wall -c $in -o $out\nbuild unused.o: compile unused.cc\n")
        programs = test_programs.TestPrograms.__new__(test_programs.TestPrograms)
        programs.build_folder, programs.clock = self.root, test_programs.Clock()
        job = test_programs.Job("unused", (), ("unused.o",))
        self.assertTrue(programs.build([job]))


class Changed(InATree):
    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *arguments], cwd=self.root, check=True,
                       capture_output=True)

    def changed(self, commits):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            return changed_faults.changed_files(commits, self.root), output.getvalue()

    def test_files_of_the_last_commits_are_named_and_a_short_history_is_said(self):
        self.assertEqual(self.changed(2)[0], [])
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-qm", "one")
        self.assertEqual(self.changed(2), ([], "mutants: the history has 0 commits with a parent, not 2\n"))
        self.write("src/engine/gate.h", HEADER + "\n")
        self.git("commit", "-qam", "two")
        self.assertEqual(self.changed(1), (["src/engine/gate.h"], ""))
        names, output = self.changed(10)
        self.assertEqual(names, ["src/engine/gate.h"])
        self.assertIn("has 1 commits with a parent, not 10", output)

    def test_rows_of_the_changed_files_are_chosen_wherever_their_function_is_now(self):
        faults = self.table()
        self.assertEqual(changed_faults.rows_of(faults, ["src/engine/gate.cc"], self.root), faults)
        self.assertEqual(changed_faults.rows_of(faults, ["src/engine/gate.h"], self.root), [])


class Resumed(InATree):
    SEEN = "src/engine/gate.cc:14: constant: count = 1;  ->  count = 2;"
    SURVIVOR = "src/engine/gate.cc:15: bound: a + b;  ->  a - b;"

    def journal(self, state, wants_old=True):
        return drawn.Journal(self.root / "random-1.tried", state, wants_old)

    def test_fault_that_was_seen_is_not_tried_again_wherever_its_line_is_now(self):
        self.journal("old").add(self.SEEN, "engine_test")
        moved = self.SEEN.replace(":14:", ":99:")
        self.assertEqual(self.journal("new").verdict(moved), "engine_test")
        self.assertIsNone(self.journal("new").verdict(moved.replace("count = 2", "count = 3")))

    def test_survivor_is_tried_again_with_other_code_or_tests_only(self):
        self.journal("old").add(self.SURVIVOR, None)
        self.assertEqual(self.journal("old").verdict(self.SURVIVOR), "")
        self.assertIsNone(self.journal("new").verdict(self.SURVIVOR))
        self.journal("old").add(self.SURVIVOR, "build")
        self.assertEqual(self.journal("old").verdict(self.SURVIVOR), "build")
        self.assertIsNone(self.journal("new").verdict(self.SURVIVOR))

    def test_lines_that_read_the_same_have_a_verdict_each(self):
        lines = ["  if (a < b) return;", "  if (a < b) return;"]
        (self.root / "same.cc").write_text("\n".join(lines) + "\n")
        faults = [fault for fault in drawn.faults_of("same.cc", enumerate(lines)) if fault[0] == "comparison"]
        with unittest.mock.patch.object(drawn, "ROOT", self.root):
            first, second = (drawn.random_fault((operator, "same.cc", *rest))[0] for operator, *rest in faults)
        self.journal("old").add(first, "engine_test")
        self.assertEqual(self.journal("old").verdict(first), "engine_test")
        self.assertIsNone(self.journal("old").verdict(second))

    def test_half_a_line_of_a_run_that_was_killed_does_not_count(self):
        self.journal("old").add(self.SEEN, "engine_test")
        with open(self.root / "random-1.tried", "a") as file:
            file.write("old\tengine")
        self.assertEqual(len(self.journal("old").known), 1)

    def test_run_that_does_not_resume_begins_anew(self):
        self.journal("old").add(self.SEEN, "engine_test")
        self.assertIsNone(self.journal("old", wants_old=False).verdict(self.SEEN))
        self.assertIsNone(self.journal("old").verdict(self.SEEN))


class ResumedTable(InATree):
    FAULT = planted.Fault("F1", (edit("add();"),), ("unit",))

    def run_rows(self, looks_for, wants_old, fault=FAULT):
        programs = FakePrograms(self.root, {"unit": looks_for})
        output = io.StringIO()
        with unittest.mock.patch.multiple(mutants, HOME=self.root, TREE=self.root, rows=lambda: [("R1", fault, fault.tests)]), \
             unittest.mock.patch.object(test_programs, "TestPrograms", lambda *_: programs), \
             unittest.mock.patch.object(drawn, "state_of_tree", lambda: "state"), contextlib.redirect_stdout(output):
            status = mutants.check_planted(None, True, wants_old)
        return status, output.getvalue()

    def test_row_that_was_seen_is_not_planted_again(self):
        self.assertEqual(self.run_rows("add();", wants_old=False)[0], 0)
        status, output = self.run_rows("open();", wants_old=True)  # a second try would find that nobody sees it
        self.assertEqual(status, 0)
        self.assertIn("1 of 1 rows were seen before", output)
        self.assertEqual(self.run_rows("open();", wants_old=False)[0], 1)

    def test_row_that_was_not_seen_is_planted_again(self):
        self.assertEqual(self.run_rows("open();", wants_old=False)[0], 1)
        self.assertEqual(self.run_rows("open();", wants_old=True)[0], 1)
        self.assertEqual(self.run_rows("add();", wants_old=True)[0], 0)

    def test_row_whose_test_fails_without_a_fault_is_a_finding(self):
        status, output = self.run_rows("something else", wants_old=False)
        self.assertEqual(status, 1)
        self.assertIn("fails without any fault", output)
        self.assertIn("FAIL R1 F1 names no test that can be run here", output)

    def test_row_that_one_build_cannot_show_gets_a_build_of_its_own(self):
        constant = edit("constexpr int kOpenMax = 3;  // calls", "constexpr int kOpenMax = 4;  // calls", "kOpenMax")
        status, output = self.run_rows("kOpenMax = 3", wants_old=False, fault=planted.Fault("F1", (constant,), ("unit",)))
        self.assertEqual(status, 0)
        self.assertIn("0 of 1 rows are seen in one build; 1 get builds of their own", output)
        self.assertIn("1 of 1 rows are seen in one build", self.run_rows("add();", wants_old=False)[1])
        self.assertEqual((self.root / "src/engine/gate.cc").read_text(), SOURCE)

    def test_row_that_has_changed_is_planted_again(self):
        self.run_rows("add();", wants_old=False)
        changed = self.FAULT._replace(edits=(edit("add();", "subtract();"),))
        self.assertIn("0 of 1 rows were seen before", self.run_rows("add();", wants_old=True, fault=changed)[1])


class DrawnFaults(InATree):
    FAULTS = ("add();", "open();", "if (count > size_) return false;  // too many", "return true;", "constexpr int kOpenMax = 3;  // calls")

    def run_drawn(self, **looks_for):
        """Drops each of these lines; returns (exit status, output)."""
        programs, lines = FakePrograms(self.root, looks_for), SOURCE.splitlines()
        faults = [("dropped statement", "src/engine/gate.cc", number, lines[number], "  ;", 0)
                  for number in (next(place for place, line in enumerate(lines) if line.strip() == fault) for fault in self.FAULTS)]
        output = io.StringIO()
        with unittest.mock.patch.multiple(mutants, HOME=self.root, TREE=self.root, refuse_stale_reasons=lambda: None), \
             unittest.mock.patch.multiple(drawn, ROOT=self.root, state_of_tree=lambda: "state", draw=lambda *_: faults,
                                          files_to_draw_from=lambda: []), \
             unittest.mock.patch.object(test_programs, "TestPrograms", lambda *_: programs), contextlib.redirect_stdout(output):
            status = mutants.check_random(len(faults), 1, None, 0.9, False, False)
        self.builds = programs.builds
        return status, output.getvalue()

    def test_each_is_counted_once(self):
        status, output = self.run_drawn(unit="add();", system="kOpenMax = 3")
        self.assertEqual(status, 1)
        self.assertIn("2 of 5 seen (40%)", output)
        for fault in self.FAULTS:
            self.assertEqual(output.count(f"{fault}  ->  ;"), 1 if fault in ("add();", self.FAULTS[-1]) else 2, fault)  # survivors twice

    def test_those_without_a_switch_get_builds_of_their_own_and_no_other(self):
        self.run_drawn(unit="add();", system="kOpenMax = 3")
        switched, *solo = self.builds
        self.assertEqual(switched, ["unit", "system"])
        self.assertEqual(solo.count(["unit"]), 2)  # without the fault, and with it

    def test_survivors_that_the_compiler_may_compute_get_builds_of_their_own(self):
        with unittest.mock.patch.object(mutants, "may_be_computed", lambda *_: True):
            self.run_drawn(unit="add();", system="kOpenMax = 3")
        self.assertEqual(self.builds.count(["unit"]), 1 + 4)  # without a fault, and with each but add();

    def test_lines_of_constexpr_functions_may_be_computed(self):
        tree = planted.Tree(self.root)
        text = "constexpr int half(int a) {\n  return a / 2;\n}\n\nint twice(int a) {\n  return 2 * a;\n}\n"
        (self.root / "src/engine/half.h").write_text(text)
        self.assertTrue(mutants.may_be_computed(tree, "src/engine/half.h", 1))
        self.assertFalse(mutants.may_be_computed(tree, "src/engine/half.h", 5))


class ProgramsOfAFile(unittest.TestCase):
    def test_script_that_starts_the_command_is_run_with_the_plug_ins_of_the_same_build(self):
        programs = object.__new__(test_programs.TestPrograms)
        programs.build_folder, programs.by_name, programs.programs = pathlib.Path("/build"), {}, {}
        outputs = {"bin/rpcrdma", "lib/librpcrdma_verbs.so", "src/rdma/librpcrdma_rdma.so"}
        programs._add("doctor_test", ["env", "RPCRDMA=/build/bin/rpcrdma", "python3", "doctor_test.py"], {}, outputs)
        self.assertEqual(programs.by_name["doctor_test"].targets, ("bin/rpcrdma", "lib/librpcrdma_verbs.so"))

    def test_fault_of_explain_is_tried_with_the_scripts_that_read_captures(self):
        programs = object.__new__(test_programs.TestPrograms)
        programs.by_name = {"explain_check_test": "check", "explain_test": "explain", "system_test": "system"}
        self.assertEqual(programs.others("src/explain/conversation.cc"), ["check", "explain"])


if __name__ == "__main__":
    unittest.main()
