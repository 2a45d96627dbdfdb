#!/usr/bin/env python3
"""pair.py with programs that print figures instead of measuring. Part of `make check`."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import pair  # noqa: E402

# A stand-in for `rpcrdma bench`. PLAN is a JSON file: {case: [rate of the first run, second, ...]};
# the last rate repeats. The log gets a line for each run.
FAKE = """#!{python}
import argparse, json, os, pathlib, sys
parser = argparse.ArgumentParser()
parser.add_argument("command", choices=["bench"])
parser.add_argument("--list", action="store_true")
parser.add_argument("--json", action="store_true")
for name in ("cases", "seconds", "rounds", "crc", "cpu", "provider"):
    parser.add_argument("--" + name)
options = parser.parse_args()
plan = json.loads(pathlib.Path({plan!r}).read_text())
if options.list:
    print("raw_group")
    for case in plan:
        print("  " + case)
    sys.exit(0)
log = pathlib.Path({log!r})
earlier = log.read_text().split() if log.exists() else []
mine = {name!r} + ":" + options.cases
with log.open("a") as file:
    print(mine, file=file)
pathlib.Path({log!r} + ".arguments").write_text(json.dumps([sys.argv[1:], sorted(os.sched_getaffinity(0))]))
rates = plan[options.cases]
rate = rates[min(earlier.count(mine), len(rates) - 1)]
if isinstance(rate, str):
    print(rate)
    sys.exit(0 if not rate.startswith("rpcrdma:") else print(rate, file=sys.stderr) or 1)
print(json.dumps([{{"case": "raw_group", "crc": False, "ops_per_s": 5e5}},
                  {{"case": options.cases, "crc": False, "ops_per_s": rate}}]))
"""


class Fakes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = self.folder / "log"

    def fake(self, name, plan):
        """A build directory whose command shows these rates."""
        build = self.folder / name
        (build / "bin").mkdir(parents=True)
        (build / "plan.json").write_text(json.dumps(plan))
        command = build / "bin" / "rpcrdma"
        command.write_text(FAKE.format(python=sys.executable, plan=str(build / "plan.json"), name=name,
                                       log=str(self.log)))
        command.chmod(0o755)
        return build

    def pair(self, *arguments, cwd=None):
        return subprocess.run([sys.executable, HERE / "pair.py", *map(str, arguments)], capture_output=True,
                              text=True, timeout=60, check=False, cwd=cwd)

    def refused(self, text, *arguments):
        result = self.pair(*arguments)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertRegex(result.stderr, text)
        self.assertNotIn("Traceback", result.stderr)
        return result


class Measuring(Fakes):
    def test_runs_by_turns_the_other_one_first_each_time(self):
        old, new = self.fake("old", {"a": [100], "b": [9]}), self.fake("new", {"a": [100], "b": [9]})
        result = self.pair(old, new, "--cases", "a,b", "--times", 3)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.log.read_text().split(),
                         ["old:a", "new:a", "old:b", "new:b", "new:a", "old:a", "new:b", "old:b",
                          "old:a", "new:a", "old:b", "new:b"])

    def test_pins_to_one_core_and_hands_its_options_on(self):
        old, new = self.fake("old", {"a": [100]}), self.fake("new", {"a": [100]})
        core = max(os.sched_getaffinity(0))
        self.pair(old, new, "--cases", "a", "--times", 1, "--seconds", 0.25, "--cpu", core, "--crc", "on")
        arguments, cpus = json.loads((self.folder / "log.arguments").read_text())
        self.assertEqual(cpus, [core])
        words = " ".join(arguments)
        for part in ("--seconds 0.25", "--cpu same", "--crc on", "--json"):
            self.assertIn(part, words)

    def test_says_the_median_ratio_of_each_case_and_its_spread(self):
        old = self.fake("old", {"a": [100], "b": [100]})
        new = self.fake("new", {"a": [100, 90, 120], "b": [99]})
        result = self.pair(old, new, "--cases", "a,b", "--times", 3)
        rows = [line.split() for line in result.stdout.splitlines() if line.startswith(("a ", "b "))]
        # case, old, new, ratio, interquartile range, least, most, verdict
        self.assertEqual(rows[0], ["a", "100", "100", "1.000", "0.150", "0.900", "1.200", "ok"])
        self.assertEqual(rows[1], ["b", "100", "99", "0.990", "0.000", "0.990", "0.990", "ok"])
        self.assertEqual(result.returncode, 0)

    def test_a_median_below_the_least_allowed_is_status_one(self):
        old, new = self.fake("old", {"a": [100], "b": [100]}), self.fake("new", {"a": [97], "b": [100]})
        result = self.pair(old, new, "--cases", "a,b", "--times", 3)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"a .* SLOWER")
        self.assertIn("slower than 0.98 of old: a", result.stdout)
        self.assertEqual(self.pair(old, new, "--cases", "a,b", "--times", 3, "--min", 0.97).returncode, 0)

    def test_takes_the_path_of_a_command_as_well_as_a_build(self):
        old, new = self.fake("old", {"a": [100]}), self.fake("new", {"a": [100]})
        result = self.pair(old / "bin" / "rpcrdma", new, "--cases", "a", "--times", 1)
        self.assertEqual(result.returncode, 0, result.stderr)


class WrongInput(Fakes):
    def test_a_build_without_the_command(self):
        new = self.fake("new", {"a": [100]})
        (self.folder / "empty").mkdir()
        self.refused(r"OLD: .*/empty/bin/rpcrdma is not there; build it .*make build", self.folder / "empty", new)

    def test_a_name_that_is_neither_path_nor_revision(self):
        new = self.fake("new", {"a": [100]})
        self.refused(r"OLD: no-such-thing is neither a build directory, .* nor a revision", "no-such-thing", new)

    def test_a_command_that_cannot_be_started(self):
        new = self.fake("new", {"a": [100]})
        text = self.folder / "text"
        text.write_text("no program")
        self.refused(r"OLD: cannot run .*/text: Permission denied", text, new)

    def test_a_case_that_one_of_both_lacks(self):
        old, new = self.fake("old", {"a": [100]}), self.fake("new", {"a": [100], "b": [100]})
        self.refused(r"OLD .*/old/bin/rpcrdma.* has no case b; it has: raw_group a", old, new, "--cases", "a,b")
        self.assertFalse(self.log.exists(), "it measured before it looked")

    def test_a_rate_of_zero(self):
        old, new = self.fake("old", {"a": [100]}), self.fake("new", {"a": [100, 0]})
        self.refused(r"NEW .*/new/bin/rpcrdma.* shows a rate of 0 for a; more --seconds", old, new, "--cases", "a")

    def test_a_result_that_is_not_json_or_lacks_the_case(self):
        old = self.fake("old", {"a": [100]})
        for number, printed in enumerate(("what", "[]", '[{"case": "a", "crc": false}]')):
            self.refused(r"NEW .* printed no rate of a: ", old, self.fake(f"new{number}", {"a": [printed]}),
                         "--cases", "a")

    def test_a_bench_that_fails_is_shown_with_what_it_said(self):
        old, new = self.fake("old", {"a": [100]}), self.fake("new", {"a": ["rpcrdma: out of paper"]})
        self.refused(r"NEW .* ended with 1: rpcrdma: out of paper", old, new, "--cases", "a")

    def test_numbers_out_of_range(self):
        old = self.fake("old", {"a": [100]})
        for option, value in (("--times", 0), ("--seconds", 0), ("--min", -1), ("--cases", ","), ("--cpu", 4095)):
            self.refused(option, old, old, option, value)


class Revisions(unittest.TestCase):
    """Against a repository of its own, whose `cmake` is a stand-in that logs what it is asked."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "file").write_text("content")
        for arguments in (["init", "-q"], ["add", "."],
                          ["-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "-m", "one"]):
            subprocess.run(["git", *arguments], cwd=self.root, check=True)
        self.revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=self.root, capture_output=True, text=True,
                                       check=True).stdout.strip()
        self.tools = self.root / "tools"
        self.tools.mkdir()

    def cmake(self, script):
        program = self.tools / "cmake"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return os.environ | {"PATH": f"{self.tools}:{os.environ['PATH']}"}

    def test_a_revision_is_built_in_a_folder_of_its_own_and_kept(self):
        environment = self.cmake('echo "$PWD $*" >> "$0.log"; mkdir -p build/bin; touch build/bin/rpcrdma')
        for name in ("HEAD", self.revision[:8]):
            command = pair.command_of("OLD", name, root=self.root, environment=environment)
            self.assertEqual(command, self.root / "build-pair" / self.revision[:12] / "build" / "bin" / "rpcrdma")
            self.assertEqual((command.parents[2] / "file").read_text(), "content")
        log = (self.tools / "cmake.log").read_text()
        self.assertIn("--preset release", log)
        self.assertIn("--build --preset release", log)

    def test_a_revision_that_does_not_build_is_said_with_the_end_of_the_log(self):
        environment = self.cmake("echo no compiler; exit 1")
        with self.assertRaisesRegex(pair.Trouble, "OLD: HEAD .* does not build .*\n.*no compiler"):
            pair.command_of("OLD", "HEAD", root=self.root, environment=environment)


if __name__ == "__main__":
    unittest.main(verbosity=1)
