#!/usr/bin/env python3
"""Measures how much of the life of a call rpcrdma-sim reaches: the places that set a call's state, and branches.

usage: sim_states.py [--seeds 1..2000] [--calls-factor 3]

Builds rpcrdma-sim with GCC's coverage in build-coverage, runs the seeds, and prints each place of src/engine, src/rpc/call and
src/rpc/serve that sets the state of a call, an exposure or a peer and was not reached; then the shares of such places, of lines
and of branches for each folder. A place behind a condition on its line counts when all branches of the line were taken; a branch
towards an exception does not count. What is compiled and not linked is not reached. Exit status: 0, or that of the seeds.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-coverage"
FOLDERS = ("src/engine", "src/rpc/call", "src/rpc/serve")
SETS_STATE = re.compile(r"\b(?:state|stage)_? = (?:[^;]*\b\w*(?:State|Stage)::k|state;|waits_for)|exchange\([^;]*\b(?:state|stage)_?, "
                        r"| = \{[^;]*\b\w*(?:State|Stage)::k")
DECLARES = re.compile(r"^\s*(?:const )?(?:\w+::)*(?:Call)?(?:State|Stage) (?:state|stage)_? = \w+::k")  # where it begins


def run_seeds(options):
    subprocess.run(["cmake", "--preset", "coverage"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", BUILD, "--parallel", "2", "--target", "rpcrdma_sim_command"], check=True, stdout=sys.stderr)
    for old in BUILD.rglob("*.gcda"):
        old.unlink()
    words = [BUILD / "bin" / "rpcrdma-sim", "--seeds", options.seeds, "--calls-factor", str(options.calls_factor), "--keep-going"]
    return subprocess.run(words, check=False).returncode


def counts():
    """For each file: its lines' counts, and for each line how often each of its branches was taken."""
    lines = collections.defaultdict(collections.Counter)
    branches = collections.defaultdict(dict)
    data = [each for each in BUILD.rglob("*.gcno") if "_objects.dir" in str(each)]
    for first in range(0, len(data), 20):
        words = ["gcov", "--json-format", "--stdout", "--branch-probabilities", *data[first:first + 20]]
        text = subprocess.run(words, cwd=BUILD, capture_output=True, text=True, check=True).stdout
        for document in text.splitlines():
            for file in json.loads(document)["files"]:
                add_file(file, lines, branches)
    return lines, branches


def add_file(file, lines, branches):
    path = pathlib.Path(file["file"])
    name = str(path.relative_to(ROOT)) if path.is_absolute() and path.is_relative_to(ROOT) else str(path)
    if not name.startswith(FOLDERS) or name.endswith("_test.cc"):
        return
    for line in file["lines"]:
        number = line["line_number"]
        lines[name][number] += line["count"]
        taken = [each["count"] for each in line["branches"] if not each["throw"]]
        key = (number, line.get("function_name"), len(taken))  # templates have branches of their own
        branches[name][key] = [one + other for one, other in zip(branches[name].get(key, [0] * len(taken)), taken)]


def state_places(name):
    text = (ROOT / name).read_text().splitlines()
    return [(number, line.strip()) for number, line in enumerate(text, 1) if SETS_STATE.search(line) and not DECLARES.match(line)]


def is_reached(name, number, line, lines, branches):
    if lines[name][number] == 0:
        return False
    if "if (" not in line and " ? " not in line:
        return True
    return all(all(taken) for (where, _, _), taken in branches[name].items() if where == number)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1..2000", help="A..B")
    parser.add_argument("--calls-factor", type=int, default=3, help="as of rpcrdma-sim")
    status = run_seeds(parser.parse_args())
    lines, branches = counts()
    for folder in FOLDERS:
        names = sorted(name for name in lines if name.startswith(folder + "/"))
        places = [(name, *each) for name in names for each in state_places(name)]
        missed = [place for place in places if not is_reached(*place, lines, branches)]
        for name, number, line in missed:
            print(f"not reached: {name}:{number}: {line}" + ("" if number in lines[name] else " (gcov does not know it)"))
        runs = [count for name in names for count in lines[name].values()]
        ways = [count for name in names for each in branches[name].values() for count in each]
        if not places or not runs or not ways:
            sys.exit(f"sim_states: gcov says nothing of {folder}")
        print(f"{folder}: {len(places) - len(missed)} of {len(places)} places that set a state, {share(runs)} of {len(runs)} lines, "
              f"{share(ways)} of {len(ways)} branches")
    return status


def share(numbers):
    return f"{100 * sum(each > 0 for each in numbers) / len(numbers):.1f} %"


if __name__ == "__main__":
    sys.exit(main())
