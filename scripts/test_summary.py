#!/usr/bin/env python3
"""Says what a run of CTest consisted of: how many tests its programs ran, and which were skipped, with their reasons.

usage: test_summary.py RESULTS    what `ctest --output-junit RESULTS` wrote, with the whole output of tests that passed
"""
import re
import sys
import xml.etree.ElementTree

RAN = re.compile(r"^\[==========\] (\d+) tests? from .* ran\.", re.M)
SKIPPED = re.compile(r": Skipped\n(.*)\n+\[  SKIPPED \] ([^ ,]+)")


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        cases = list(xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase"))
    except (OSError, xml.etree.ElementTree.ParseError) as error:  # the tests have passed or failed without this
        print(f"test_summary: {sys.argv[1]}: {error}; which tests were skipped is not known", file=sys.stderr)
        return 0
    ran, others, skipped = 0, 0, []
    for case in cases:
        output = case.findtext("system-out") or ""
        whole = RAN.findall(output)
        ran += sum(map(int, whole))
        others += not whole
        skipped += [(name, reason) for reason, name in SKIPPED.findall(output)]
    for name, reason in skipped:
        print(f"skipped: {name}: {reason}")
    print(f"{ran} tests of programs, of which {len(skipped)} were skipped, and {others} tests that are commands")
    return 0


if __name__ == "__main__":
    sys.exit(main())
