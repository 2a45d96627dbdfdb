#!/usr/bin/env python3
"""Checks docs/conformance.md: each row names tests that exist, or says why it has none. A test runs it.

usage: conformance.py BUILD    where `ctest -N` lists the tests
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "conformance.md"
ROW = re.compile(r"^\| ((?:V1|PD|H|B)-[A-Z]*\d+) \|")
WITHOUT_A_TEST = ("**upper layer**", "**not ours**", "**open**")
# How many rules of each kind the documents have; a row that vanishes is found.
RULES = {"V1-C": 12, "V1-T": 5, "V1-R": 11, "V1-W": 10, "V1-P": 7, "V1-M": 10, "V1-E": 14, "V1-S": 9, "V1-D": 7,
         "PD-": 9, "PD-R": 9, "H-D": 10, "H-M": 4, "H-C": 4, "H-S": 4, "B-": 14}


def test_names(build):
    """`Prefix/Suite.Test/Instance` is known as it is, without its instance, and without both."""
    listed = subprocess.run(["ctest", "-N", "--test-dir", build], capture_output=True, text=True, check=True).stdout
    names = set()
    for name in re.findall(r"^\s*Test\s+#\d+: (\S+)", listed, re.M):
        names.add(name)
        parts = name.split("/")
        for i, part in enumerate(parts):
            if "." in part:
                names.add("/".join(parts[:i + 1]))
                names.add(part)
    return names


def main():
    known = test_names(sys.argv[1])
    findings, seen, opened = [], {}, []
    for number, line in enumerate(TABLE.read_text().splitlines(), 1):
        row = ROW.match(line)
        if not row:
            continue
        rule, proof = row[1], line.split("|")[4].strip()
        if rule in seen:
            findings.append(f"{TABLE.name}:{number}: {rule} is there already, in line {seen[rule]}")
        seen[rule] = number
        tests = [name for name in re.findall(r"`([^`]+)`", proof) if not name.startswith("Profile::")]
        for name in tests:
            if name not in known:
                findings.append(f"{TABLE.name}:{number}: {rule}: there is no test {name}")
        if proof.startswith("**open**"):
            opened.append(rule)
        elif not tests and not proof.startswith(WITHOUT_A_TEST):
            findings.append(f"{TABLE.name}:{number}: {rule} names no test and no reason")
    for kind, count in RULES.items():
        found = sum(re.fullmatch(re.escape(kind) + r"\d+", rule) is not None for rule in seen)
        if found != count:
            findings.append(f"{TABLE.name}: {found} rules {kind}*, there are {count}")
    print("\n".join(findings))
    print(f"conformance: {len(seen)} rules, {len(opened)} open ({' '.join(opened) or 'none'}), {len(findings)} findings")
    return 1 if findings or not known else 0


if __name__ == "__main__":
    sys.exit(main())
