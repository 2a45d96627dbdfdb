#!/usr/bin/env python3
"""What of the lab needs neither root nor a guest. Part of `make check`."""
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import contained  # noqa: E402
import matrix  # noqa: E402
import scenarios  # noqa: E402,F401
import session  # noqa: E402
from machine import Failure, Host  # noqa: E402


def lab(*arguments):
    return subprocess.run([sys.executable, HERE / "lab.py", *arguments], capture_output=True, text=True, check=False)


class CommandLine(unittest.TestCase):
    def test_lists_what_it_would_run(self):
        self.assertEqual(lab("--list", "--only", "^link/").stdout.count("\n"), 1)

    def test_help_names_every_option(self):
        text = lab("--help").stdout
        for option in ("--only", "--list", "--kernel", "--write-docs", "--rebuild", "--no-build", "--stand-in"):
            self.assertIn(option, text)


class Scenarios(unittest.TestCase):
    def test_names_are_unique_and_devices_known(self):
        names = [each.name for each in session.SCENARIOS]
        self.assertEqual(len(names), len(set(names)))
        for each in session.SCENARIOS:
            self.assertLessEqual(set(each.devices), set(session.DEVICES))


class Matrix(unittest.TestCase):
    one, two = (session.Scenario(name, "a → b", "what", ("siw",), None) for name in ("one", "two"))

    def result(self, scenario, verdict, note=""):
        return matrix.Result(scenario, "siw", verdict, note)

    def test_says_what_passed_failed_and_was_not_run(self):
        results = [self.result(self.one, matrix.FAIL, "why")]
        text = matrix.matrix([self.one, self.two], ["siw", "rxe"], results)
        self.assertIn("| one | a → b | what | **FAIL** | - |", text)
        self.assertIn("| two | a → b | what | not run | - |", text)
        self.assertEqual(matrix.failures(results, HERE), ["FAIL one/siw: why"])

    def test_nothing_run_is_a_failure(self):
        self.assertEqual(matrix.exit_status([]), 1)
        self.assertEqual(matrix.exit_status([self.result(self.one, matrix.FAIL)]), 1)
        self.assertEqual(matrix.exit_status([self.result(self.one, matrix.PASS)]), 0)
        self.assertEqual(matrix.exit_status([self.result(self.one, matrix.ABSENT)]), 1)

    def test_replaces_what_stands_between_the_markers(self):
        begin, end = matrix.markers("6.1")
        with tempfile.TemporaryDirectory() as folder:
            document = pathlib.Path(folder, "x.md")
            document.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
            matrix.write_into(document, "6.1", "new")
            self.assertEqual(document.read_text(), f"before\n{begin}\nnew\n{end}\nafter\n")
            with self.assertRaises(ValueError):
                matrix.write_into(document, "6.12", "new")

    def test_the_document_has_markers_for_both_kernels(self):
        text = (HERE.parents[2] / "docs" / "interop.md").read_text()
        for series in ("6.1", "6.12"):
            begin, end = matrix.markers(series)
            self.assertLess(text.index(begin), text.index(end))


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        pathlib.Path(folder.name, "logs").mkdir()
        self.host = Host(pathlib.Path(folder.name))
        self.addCleanup(self.host.end_all)

    def test_the_reason_of_a_failure_is_what_the_program_said_last(self):
        with self.assertRaisesRegex(Failure, "talk on the host ended with 3, not 0: second"):
            self.host.shell("talk", "echo first >&2; echo second >&2; exit 3")

    def test_one_that_hangs_fails_and_is_ended(self):
        program = self.host.start("hang", ["sleep", "60"])
        with self.assertRaisesRegex(Failure, "still runs after"):
            program.wait(0.05)
        self.assertEqual(program.process.wait(10), -9)

    def test_one_that_is_not_there_fails(self):
        with self.assertRaisesRegex(Failure, "cannot start nothing"):
            self.host.start("nothing", ["/no/such/program"])

    def test_what_it_prints_while_it_ends_is_found(self):
        program = self.host.start("last", ["true"])
        program.wait(10)
        program.status = lambda: program.out_path.write_text("last\n") and 0
        self.assertTrue(program.wait_for("last", 10))

    def test_what_its_child_prints_later_is_found_where_that_is_wanted(self):
        # The process is gone, for its child, when its status has been taken.
        late = "(while kill -0 $$; do :; done; echo late) 2>/dev/null &"
        with self.assertRaisesRegex(Failure, "ended with 0 at once"):
            self.host.start("alone", ["sh", "-c", "true"]).wait_for("late", 10)
        self.assertTrue(self.host.start("parent", ["sh", "-c", late]).wait_for("late", 10, by_child=True))

    def test_the_end_of_a_scenario_ends_its_programs_and_their_children(self):
        program = self.host.start("group", ["bash", "-c", "sleep 60 & echo up; wait"])
        program.wait_for("up", 10)
        self.host.end_all()
        self.assertEqual(program.status(), -9)


# What perftest prints (its columns: bytes, iterations, peak, average, messages), and what our bench does.
PERFTEST = """ #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 1048576    200              {rate}               {rate}\t\t     0.000020
"""
BENCH = '[{"case": "read_1m_qd8", "gb_per_s": 0.03}, {"case": "write_1m_qd8", "gb_per_s": 0.04}]'


class NextToPerftest(unittest.TestCase):
    """The scenario bench with programs on this host that print what those in a guest printed."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("logs", "bin"):
            (self.folder / name).mkdir()
        self.host = Host(self.folder)
        self.host.environment["PATH"] = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        self.addCleanup(self.host.end_all)
        self.program("sleep", "exit 0")
        self.program("rpcrdma", f"echo '{BENCH}'")

    def program(self, name, script):
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def perftest(self, tool, rate):
        self.program(tool, f"cat <<'END'\n{PERFTEST.format(rate=rate)}END")

    def bench(self):
        """The note, and the rows of the table."""
        lab_session = session.Session.__new__(session.Session)
        lab_session.guest, lab_session.device, lab_session.build = self.host, "rxe", self.folder
        lab_session.address, lab_session.figures, lab_session.stand_in = {self.host: "127.0.0.1"}, [], None
        note = next(each for each in session.SCENARIOS if each.name == "bench").function(lab_session)
        return note, lab_session.figures[0][2]

    def test_shows_both_rates_and_their_ratio(self):
        self.perftest("ib_read_bw", "20.00")
        self.perftest("ib_write_bw", "20.00")
        note, rows = self.bench()
        self.assertEqual(note, "read_1m_qd8 1.43 of ib_read_bw, write_1m_qd8 1.91 of ib_write_bw")
        self.assertEqual(rows[0], ("rxe", "ib_read_bw", "21", "read_1m_qd8", "30", "1.43"))

    def test_what_perftest_cannot_measure_is_a_note(self):
        self.perftest("ib_read_bw", "20.00")
        self.perftest("ib_write_bw", "0.00")
        note, rows = self.bench()
        self.assertEqual(note, "read_1m_qd8 1.43 of ib_read_bw; ib_write_bw measured nothing (0.00 MB/s)")
        self.assertEqual(rows[1], ("rxe", "ib_write_bw", "?", "write_1m_qd8", "40", "?"))

    def test_a_perftest_that_fails_is_a_note(self):
        self.program("ib_read_bw", "echo Completion with error >&2; exit 1")
        self.program("ib_write_bw", "echo no table")
        note, rows = self.bench()
        self.assertRegex(note, "ib_read_bw on the host ended with 1, not 0: Completion with error; "
                               "ib_write_bw on the host printed no rate: no table")
        self.assertEqual([row[2] for row in rows], ["?", "?"])

    def test_a_bench_of_ours_that_fails_is_a_failure(self):
        self.perftest("ib_read_bw", "20.00")
        self.perftest("ib_write_bw", "0.00")
        self.program("rpcrdma", "echo broken >&2; exit 1")
        with self.assertRaisesRegex(Failure, "bench on the host ended with 1, not 0: broken"):
            self.bench()


STARTER = """
import subprocess, sys
sys.path.insert(0, sys.argv[1])
import contained
subprocess.run(contained.contained(["bash", "-c", "(echo up; sleep 60) & wait"], network=True))
"""


class Containment(unittest.TestCase):
    @unittest.skipUnless(os.geteuid() == 0 and subprocess.run(contained.contained(["true"], network=True),
                                                              check=False).returncode == 0,
                         "namespaces are not allowed here")
    def test_a_starter_that_is_killed_takes_all_along(self):
        starter = subprocess.Popen([sys.executable, "-c", STARTER, HERE], stdout=subprocess.PIPE)
        with starter.stdout as output:
            self.assertEqual(output.readline(), b"up\n")
            starter.kill()
            starter.wait()
            # Whoever is left holds the pipe open.
            self.assertTrue(select.select([output], [], [], 10)[0])
            self.assertEqual(output.read(), b"")


if __name__ == "__main__":
    unittest.main(verbosity=1)
