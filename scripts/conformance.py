#!/usr/bin/env python3
"""Checks docs/conformance.md: each row names tests that exist, or says why it has none, and a planted fault or a dash;
tests/mutants/faults.toml: each fault has a row, shares a test with it, and has no test that its rows do not name;
and docs/invariants.md: each row of what a peer does (P1 to P30, T1 to T9) names tests that exist and have a hostile peer. A test
runs it; `make mutants` plants the faults.

usage: conformance.py BUILD    where `ctest -N` lists the tests
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts"))
import planted  # noqa: E402

CONFORMANCE = ROOT / "docs" / "conformance.md"
INVARIANTS = ROOT / "docs" / "invariants.md"
RULE_ROW = re.compile(r"^\| ((?:V1|V2|PD|H|B|X|G|N|W|D|L|E|S|LT|M)-[A-Z]*\d+) \|")
PEER_ROW = re.compile(r"^\| ([PT]\d+) \|")
WITHOUT_A_TEST = ("**upper layer**", "**not ours**", "**open**")
# How many rules of each kind the documents have; a row that vanishes is found.
RULES = {"V1-C": 12, "V1-T": 8, "V1-R": 11, "V1-W": 10, "V1-P": 7, "V1-M": 10, "V1-E": 20, "V1-S": 43, "V1-D": 8,
         "PD-": 9, "PD-R": 9, "H-D": 10, "H-M": 4, "H-C": 4, "H-S": 4, "H-E": 1, "B-": 16,
         "V2-": 25, "X-": 20, "G-": 63, "N-": 33, "W-": 9, "D-": 15, "L-": 10, "E-": 27, "S-": 11,
         "LT-": 28, "M-": 44}
PEER_ROWS = {"P": 30, "T": 9}


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


def rows_of(table, pattern, counts, findings):
    """(where, row, what stands in its column of tests); says which rows are there twice, or are missing."""
    seen = {}
    for number, line in enumerate(table.read_text().splitlines(), 1):
        row = pattern.match(line)
        if not row:
            continue
        where = f"{table.name}:{number}: {row[1]}"
        if row[1] in seen:
            findings.append(f"{where} is there already, in line {seen[row[1]]}")
        seen[row[1]] = number
        cells = line.split("|")
        yield where, row[1], cells[4].strip() if len(cells) in (6, 7) else "", cells[5] if len(cells) == 7 else ""
    for kind, count in counts.items():
        found = sum(re.fullmatch(re.escape(kind) + r"\d+", row) is not None for row in seen)
        if found != count:
            findings.append(f"{table.name}: {found} rows {kind}*, there are {count}")


def tests_of(where, proof, known, findings):
    tests = [name for name in re.findall(r"`([^`]+)`", proof) if not name.startswith("Profile::")]
    findings.extend(f"{where}: there is no test {name}" for name in tests if name not in known)
    return tests


def main():
    known = test_names(sys.argv[1])
    findings, opened, rules, peers = [], [], 0, 0
    faults = {fault.name: fault for fault in planted.read(ROOT)}
    proving = {}  # name of a fault: the tests of its rows
    for where, rule, proof, broken_by in rows_of(CONFORMANCE, RULE_ROW, RULES, findings):
        rules += 1
        named = set(re.findall(r"`([^`]+)`", broken_by))
        if not named and broken_by.strip() != "–":
            findings.append(f"{where} names no planted fault, and has no dash")
        tests = tests_of(where, proof, known, findings)
        for name in sorted(named):
            proving.setdefault(name, set()).update(tests)
            if name not in faults:
                findings.append(f"{where}: {planted.TABLE} has no fault {name}")
            elif not set(tests) & set(faults[name].tests):
                findings.append(f"{where} shares no test with its fault {name} of {planted.TABLE}")
        if proof.startswith("**open**"):
            opened.append(rule)
        elif not tests and not proof.startswith(WITHOUT_A_TEST):
            findings.append(f"{where} names no test and no reason")
    for name, fault in faults.items():
        if name not in proving:
            findings.append(f"{planted.TABLE}: {name} is named by no rule")
        elif others := [test for test in fault.tests if test not in proving[name]]:
            findings.append(f"{planted.TABLE}: {name} has tests that no row of it names: {', '.join(others)}")
    for where, _, proof, _ in rows_of(INVARIANTS, PEER_ROW, PEER_ROWS, findings):
        peers += 1
        if not any("Hostile" in name for name in tests_of(where, proof, known, findings)):
            findings.append(f"{where} names no test with a hostile peer")
    print("\n".join(findings))
    print(f"conformance: {rules} rules, {len(proving)} planted faults, {len(opened)} open ({' '.join(opened) or 'none'}), {peers} rows of what a peer does, "
          f"{len(findings)} findings")
    return 1 if findings or not known else 0


if __name__ == "__main__":
    sys.exit(main())
