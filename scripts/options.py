#!/usr/bin/env python3
"""Checks docs/options.md against the options that the command has: each option of each of its commands has one row, each row
is of an option, and names tests that exist and mention the option, or the setting behind `by`, themselves or in a function
that they call. A test runs it.

usage: options.py COMMAND    the `rpcrdma` command; COMMAND options prints what it has
"""
import ast
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "options.md"
PYTHON_TESTS = ROOT / "tests" / "system"
DEPTH = 3  # of calls that are followed
GTEST = re.compile(r"^TEST(?:_F|_P)?\((\w+), (\w+)\) \{\n(.*?)^\}", re.M | re.S)
CITED = re.compile(r"`([^`]+)`(?: by `([^`]+)`)?")


def options_of(command):
    """Pairs of a command, such as "blob put", and the names of an option of it."""
    printed = subprocess.run([command, "options"], capture_output=True, text=True, check=True).stdout
    return [tuple(line.split("\t")) for line in printed.splitlines()]


def rows_of(text):
    """(line number, commands, names, what stands in the column of tests) of each row."""
    commands = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            commands = re.findall(r"`([^`]+)`", line)
        elif line.startswith("| `-"):
            cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
            yield number, commands, ",".join(re.findall(r"`([^`]+)`", cells[0])), cells[2] if len(cells) == 3 else ""


class Tests:
    def __init__(self):
        self.texts = {}  # of tests by their names
        self.functions = collections.defaultdict(list)  # texts of functions of Python by their names
        for path in sorted(PYTHON_TESTS.glob("*.py")):
            self.read_python(path)
        for folder in ("apps", "src", "tests", "tools"):
            for path in sorted((ROOT / folder).rglob("*_test.cc")):
                for suite, name, body in GTEST.findall(path.read_text(encoding="utf-8")):
                    self.texts[f"{suite}.{name}"] = body

    def read_python(self, path):
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for outer in ast.parse(text).body:
            for inner in getattr(outer, "body", [outer]) if isinstance(outer, ast.ClassDef) else [outer]:
                if isinstance(inner, ast.FunctionDef):
                    body = "\n".join(lines[inner.lineno - 1:inner.end_lineno])
                    self.functions[inner.name].append(body)
                    if inner is not outer:
                        self.texts[f"{path.name}::{outer.name}.{inner.name}"] = body

    def mentions(self, name, words, depth=DEPTH, text=None):
        text = self.texts[name] if text is None else text
        if any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) for word in words):
            return True
        called = set(re.findall(r"\b(\w+)\(", text)) & set(self.functions) if ".py::" in name and depth > 0 else ()
        return any(self.mentions(name, words, depth - 1, body) for each in called for body in self.functions[each])


def main():
    findings, rows = [], {}
    known, tests = options_of(sys.argv[1]), Tests()
    names_of = dict.fromkeys(command for command, _ in known)
    for number, commands, names, proof in rows_of(TABLE.read_text(encoding="utf-8")):
        where = f"{TABLE.name}:{number}: {names}"
        for command in commands or [""]:
            if (command, names) not in known:
                findings.append(f"{where} is no option of '{command}'" if command in names_of else
                                f"{where} stands below no command, or below '{command}', which there is not")
            elif (command, names) in rows:
                findings.append(f"{where} of '{command}' has a row already, in line {rows[command, names]}")
            rows[command, names] = number
        cited = CITED.findall(proof)
        if not cited:
            findings.append(f"{where} names no test")
        for test, setting in cited:
            words = [setting] if setting else names.split(",")
            if test not in tests.texts:
                findings.append(f"{where}: there is no test {test}")
            elif not tests.mentions(test, words):
                findings.append(f"{where}: {test} does not mention {' or '.join(words)}")
    findings += [f"{TABLE.name}: '{command}' has {names}, which has no row" for command, names in known
                 if (command, names) not in rows]
    print("\n".join(findings))
    print(f"options: {len(known)} options of {len(names_of)} commands, {len(set(rows.values()))} rows, {len(findings)} findings")
    return 1 if findings or not known else 0


if __name__ == "__main__":
    sys.exit(main())
