#!/usr/bin/env python3
"""Reports on a run of CTest: how many tests its programs ran, which were skipped and why, the twenty slowest, and last,
where logs are read first, which failed and what they said.

Fails when a program of tests passed by its exit status and did not come to its last test.

usage: test_summary.py RESULTS    what `ctest --output-junit RESULTS` wrote, with the whole output of tests that passed
"""
import re
import sys
import xml.etree.ElementTree

BEGUN = re.compile(r"^\[==========\] Running \d+ tests? ", re.M)
ENDED = re.compile(r"^\[       OK \] (\S+) \((\d+) ms\)$", re.M)
RAN = re.compile(r"^\[==========\] (\d+) tests? from .* ran\.", re.M)
SKIPPED = re.compile(r"^(?:\S+: Skipped\n(.*)\n(?:(?!\[).*\n)*)?\[  SKIPPED \] ([^ ,]+).* \(\d+ ms\)$", re.M)
FAILED = re.compile(r"^\[ RUN      \] (\S+)\n((?:(?!\[ RUN  ).*\n)*?)\[  FAILED  \] \1", re.M)
SLOWEST = 20
FAILURE_LINES = 40  # of one test
SKIPPED_BY_PYTHON = re.compile(r"^(\w+) \(.*\.\.\. skipped ['\"](.*)['\"]$", re.M)


def failures_of(case):
    """Returns the tests of this program that failed, and what each said: without such a test, the end of its output."""
    if case.get("status") != "fail":
        return []
    output = case.findtext("system-out") or ""
    return FAILED.findall(output) or [(case.get("name"), "\n".join(output.splitlines()[-FAILURE_LINES:]))]


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        cases = list(xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase"))
    except (OSError, xml.etree.ElementTree.ParseError) as error:  # the tests have passed or failed without this
        print(f"test_summary: {sys.argv[1]}: {error}; which tests were skipped is not known", file=sys.stderr)
        return 0
    ran, others, skipped, by_commands, cut_off, times, failed = 0, 0, [], [], [], [], []
    for case in cases:
        output = case.findtext("system-out") or ""
        whole = RAN.findall(output)
        ran += sum(map(int, whole))
        others += not whole
        ended = [(int(ms) / 1000, name) for name, ms in ENDED.findall(output)]
        times += ended or [(float(case.get("time") or 0), case.get("name"))]
        if len(BEGUN.findall(output)) != len(whole):
            cut_off.append(case.get("name"))
        skipped += [(name, reason or "no reason") for reason, name in SKIPPED.findall(output)]
        failed += failures_of(case)
        by_commands += SKIPPED_BY_PYTHON.findall(output)
    for seconds, name in sorted(times, reverse=True)[:SLOWEST]:
        print(f"{seconds:7.1f} s: {name}")
    for name, reason in skipped + by_commands:
        print(f"skipped: {name}: {reason}")
    print(f"{ran} tests of programs, of which {len(skipped)} were skipped, and {others} tests that are commands, "
          f"of whose parts {len(by_commands)} were skipped")
    for name in cut_off:
        print(f"test_summary: {name} ended before its last test, whatever its exit status says", file=sys.stderr)
    for name, text in failed:
        print(f"test_summary: {name} FAILED", *text.splitlines()[:FAILURE_LINES], sep="\n    ", file=sys.stderr)
    return 1 if cut_off else 0


if __name__ == "__main__":
    sys.exit(main())
