#!/usr/bin/env python3
"""Counts the instructions of a call on each side, and holds them against the recorded ones.

usage: instructions.py PROGRAM [--write]

PROGRAM is bench/one_thread.cc, built (`make instructions` does that): a client and a server on one thread. Callgrind
counts what runs inside Server::progress() and inside Client::progress(), once with few calls and once with many; the
difference is that of the calls, without the set-up. The record is bench/instructions.json: a count that is more than
its tolerance above is an error, and so is one as far below, which is to be recorded by --write. The counts are those of
Debian 12's compiler; another one has others.

Exit status: 0 as recorded, 1 not, 2 it could not be measured.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

RECORD = pathlib.Path(__file__).resolve().parent.parent / "bench" / "instructions.json"
CASES = {"null_qd32": ("null", 0, 32), "read_64k_qd8": ("read", 65536, 8)}
MEASURED = "null_qd32"  # the case that ServerOptions::measures_calls may make longer
MEASURED_MAX = 0.03  # by so much at most, of both sides
TAPPED_MAX = 10  # instructions that ServerOptions::tap may cost while nobody looks
SIDES = {"client": "rpcrdma::Client::progress()", "server": "rpcrdma::Server::progress()"}
FEW, MANY = 1000, 6000  # calls
BOUND_S = 600


class Trouble(Exception):
    """Why nothing can be counted."""


def count(program, case, side, calls, *options):
    """What the side executes in all."""
    kind, size, depth = CASES[case]
    with tempfile.TemporaryDirectory(prefix="rpcrdma-instructions.") as folder:
        result = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", f"--toggle-collect={SIDES[side]}",
             str(program), kind, str(size), str(depth), str(calls), *options],
            capture_output=True, text=True, check=False, timeout=BOUND_S)
    found = re.search(r"Collected : (\d+)", result.stderr)
    if result.returncode != 0 or not found or int(found[1]) == 0:
        raise Trouble(f"{program} {kind} under valgrind: {result.stderr.strip()[-2000:]}")
    return int(found[1])


def measure(program):
    """{case: {side: instructions of a call}}"""
    wanted = [(case, side, calls) for case in CASES for side in SIDES for calls in (FEW, MANY)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = dict(zip(wanted, pool.map(lambda each: count(program, *each), wanted)))
    return {case: {side: round((counts[case, side, MANY] - counts[case, side, FEW]) / (MANY - FEW)) for side in SIDES}
            for case in CASES}


def compare_measured(program, plain):
    """Prints what it costs when the server measures its calls; returns what is too much."""
    calls = [count(program, MEASURED, "server", each, "measured") for each in (FEW, MANY)]
    measured = round((calls[1] - calls[0]) / (MANY - FEW))
    change = (measured - plain["server"]) / sum(plain.values())
    is_right = change <= MEASURED_MAX
    print(f"{MEASURED:<14} server  {measured:>7} measured, {plain['server']} not: {change:+.1%} of both sides "
          f"{'ok' if is_right else 'MORE'}")
    return [] if is_right else [f"{MEASURED} where calls are measured"]


def compare_tapped(program, plain):
    """Prints what a tap costs a server at which nobody looks; returns what is too much."""
    calls = [count(program, MEASURED, "server", each, "tapped") for each in (FEW, MANY)]
    more = round((calls[1] - calls[0]) / (MANY - FEW)) - plain["server"]
    is_right = more <= TAPPED_MAX
    print(f"{MEASURED:<14} server  {plain['server'] + more:>7} with a tap that is off, {plain['server']} without: {more:+d} "
          f"{'ok' if is_right else 'MORE'}")
    return [] if is_right else [f"{MEASURED} where a tap is off"]


def compare(found, record):
    """Prints a line for each; returns what is not as recorded."""
    wrong = []
    for case, sides in found.items():
        for side, instructions in sides.items():
            recorded = record["counts"][case][side]
            change = instructions / recorded - 1
            is_right = abs(change) <= record["tolerance"]
            print(f"{case:<14} {side:<7} {instructions:>7} recorded {recorded:>7} {change:+7.1%} "
                  f"{'ok' if is_right else 'MORE' if change > 0 else 'LESS'}")
            if not is_right:
                wrong.append(f"{case} {side}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--write", action="store_true", help="record what is found")
    options = parser.parse_args()
    try:
        if shutil.which("valgrind") is None:
            raise Trouble("valgrind is missing: apt-get install valgrind")
        found = measure(options.program)
    except (Trouble, OSError, subprocess.TimeoutExpired) as trouble:
        print(f"instructions: {trouble}", file=sys.stderr)
        return 2
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"tolerance": 0.03, "counts": found}
    if options.write:
        RECORD.write_text(json.dumps({**record, "counts": found}, indent=1) + "\n")
        record["counts"] = found
    wrong = compare(found, record)
    try:
        wrong += compare_measured(options.program, found[MEASURED])
        wrong += compare_tapped(options.program, found[MEASURED])
    except (Trouble, OSError, subprocess.TimeoutExpired) as trouble:
        print(f"instructions: {trouble}", file=sys.stderr)
        return 2
    if wrong:
        print(f"instructions: not as recorded in {RECORD.name}: {', '.join(wrong)}. If the change is worth it, record it: "
              "scripts/instructions.py build-instructions/bin/one_thread --write", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
