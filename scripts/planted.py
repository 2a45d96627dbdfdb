"""Reads the planted faults of tests/mutants/faults.toml, finds their lines in the tree, and plants them.

A fault names the function (or the class, or the constant) whose lines it changes. Its old lines are looked for within
that function, without regard to white space and to where lines are wrapped, first in the file that the fault names,
then in every other file: so the table survives a move. A fault that cannot be found, or that is found twice, is a
finding.
"""
import pathlib
import re
import textwrap
import tomllib
import typing

import scopes

TABLE = pathlib.Path("tests") / "mutants" / "faults.toml"
FOLDERS = ("adapters", "src", "gen", "apps", "tools", "include")


class NotFound(Exception):
    """Says why the lines of a fault are not in the tree, or where they are in its place."""


class Edit(typing.NamedTuple):
    file: str
    function: str
    old: str
    new: str


class Fault(typing.NamedTuple):
    name: str
    edits: tuple  # of Edit
    tests: tuple  # of names, as docs/conformance.md writes them


class Place(typing.NamedTuple):
    file: str
    function: str
    first: int  # line, counted from 0
    last: int


def read(root):
    """Returns the faults of the table, in its order; raises ValueError for an entry that lacks something."""
    table = tomllib.loads((root / TABLE).read_text())
    faults, names = [], set()
    for entry in table.get("fault", []):
        name = entry.get("name", "")
        where = f"{TABLE}: {name or 'an entry without a name'}"
        edits = []
        for part in (entry, *entry.get("also", [])):
            if missing := [key for key in ("file", "function", "old", "new") if key not in part]:
                raise ValueError(f"{where} lacks {', '.join(missing)}")
            edits.append(Edit(part["file"], part["function"], lines_of(part["old"]), lines_of(part["new"])))
        if not name or not entry.get("tests"):
            raise ValueError(f"{where} has no {'tests' if name else 'name'}")
        if name in names:
            raise ValueError(f"{where} is there twice")
        if unknown := set(entry) - {"name", "file", "function", "old", "new", "also", "tests"}:
            raise ValueError(f"{where} has a key that nobody reads: {', '.join(sorted(unknown))}")
        if any(not key(edit.old) or edit.old == edit.new for edit in edits):
            raise ValueError(f"{where} changes nothing")
        names.add(name)
        faults.append(Fault(name, tuple(edits), tuple(entry["tests"])))
    if not faults:
        raise ValueError(f"{TABLE} has no faults")
    return faults


def lines_of(text):
    """Returns the text without the line break in front of the closing quotes."""
    return text[:-1] if text.endswith("\n") else text


def key(text):
    return "".join(text.split())


class Tree:
    """Reads the sources below `root`, each file once."""

    def __init__(self, root):
        self.root = root
        self.files = {}  # name: (key of each line, its text or its scopes)

    def keys(self, name):
        if name not in self.files:
            path = self.root / name
            text = path.read_text() if path.is_file() else ""
            self.files[name] = ([key(line) for line in text.splitlines()], text)
        return self.files[name][0]

    def scopes(self, name):
        self.keys(name)
        lines, known = self.files[name]
        if isinstance(known, str):
            known = scopes.scopes(known)
            self.files[name] = (lines, known)
        return known

    def names(self):
        paths = [path for folder in FOLDERS for path in (self.root / folder).rglob("*") if path.suffix in (".cc", ".h")]
        return sorted(str(path.relative_to(self.root)) for path in paths)

    def matches(self, name, old):
        """Returns (first, last) of each run of whole lines of the file that says `old`."""
        wanted = key(old)
        lines = self.keys(name)
        found = []
        for first, line in enumerate(lines):
            if not line or not wanted.startswith(line):
                continue
            last, size = first, len(line)
            while size < len(wanted) and last + 1 < len(lines) and wanted.startswith(lines[last + 1], size):
                last += 1
                size += len(lines[last])
            if size == len(wanted):
                found.append((first, last))
        return found

    def places(self, name, edit):
        """Returns the places of the file where a function of that name has the old lines."""
        found = self.matches(name, edit.old)
        around = [scope for scope in self.scopes(name) if is_named(scope, edit.function)] if found else []
        return [Place(name, edit.function, first, last) for first, last in found
                if any(scope.first <= first and last <= scope.last for scope in around)]

    def innermost(self, name, first, last):
        """Returns the smallest scope that holds these lines, or None."""
        around = [scope for scope in self.scopes(name) if scope.first <= first and last <= scope.last]
        return min(around, key=lambda scope: scope.last - scope.first, default=None)


def is_named(scope, function):
    return scope.name == function or scope.name.endswith("::" + function)


def find(tree, edit):
    """Returns the only place of the edit's old lines, in its file or in another one; raises NotFound."""
    here = tree.places(edit.file, edit)
    if len(here) == 1:
        return here[0]
    if here:
        raise NotFound(f"{edit.function} of {edit.file} has its old lines {len(here)} times, in lines "
                       f"{', '.join(str(place.first + 1) for place in here)}: add a line in front or behind")
    others = [place for name in tree.names() if name != edit.file for place in tree.places(name, edit)]
    if len(others) == 1:
        return others[0]
    if others:
        raise NotFound(f"{edit.function} has its old lines in several files: "
                       f"{', '.join(f'{place.file}:{place.first + 1}' for place in others)}")
    raise NotFound(f"{edit.function} of {edit.file} has no such lines: {edit.old.strip()}{hint(renamed(tree, edit))}")


def renamed(tree, edit):
    """Returns the places where functions of other names have the old lines."""
    found = []
    for name in (edit.file, *(each for each in tree.names() if each != edit.file)):
        for first, last in tree.matches(name, edit.old):
            if scope := tree.innermost(name, first, last):
                found.append(Place(name, scope.name, first, last))
        if found and name == edit.file:
            break
    return found


def hint(places):
    if len(places) != 1:
        return ""
    return f"; they are in {places[0].function} of {places[0].file}, line {places[0].first + 1}: {to_write(places[0])}"


def to_write(place):
    return f'write file = "{place.file}", function = "{place.function}"'


def planted(text, edit, place):
    """Returns the text of the file with the edit's new lines in place of the old ones, indented like them."""
    lines = text.splitlines(keepends=True)
    old_lines = edit.old.splitlines()
    depth = indentation(lines[place.first]) - indentation(old_lines[0])
    new = [" " * (indentation(line) + depth) + line.lstrip(" ") if line.strip() else line
           for line in edit.new.splitlines()]
    return "".join(lines[:place.first] + [line + "\n" for line in new] + lines[place.last + 1:])


def indentation(line):
    return len(line) - len(line.lstrip(" "))


def texts_with(root, fault):
    """Returns {file: its text with the fault} for the tree below `root`. Raises NotFound."""
    tree = Tree(root)
    places = [(edit, find(tree, edit)) for edit in fault.edits]
    texts = {place.file: (root / place.file).read_text() for _, place in places}
    # From the end of a file, so that lines keep their numbers.
    for edit, place in sorted(places, key=lambda each: -each[1].first):
        texts[place.file] = planted(texts[place.file], edit, place)
    return texts


def check(root, faults):
    """Returns (findings, moves) of all faults. A move is (fault, number of its edit, the place to write, whether its
    function has the same name there)."""
    tree = Tree(root)
    findings, moves = [], []
    for fault in faults:
        for number, edit in enumerate(fault.edits):
            try:
                place = find(tree, edit)
            except NotFound as error:
                findings.append(f"{TABLE}: {fault.name}: {error}")
                found = renamed(tree, edit)
                if len(found) == 1:
                    moves.append((fault, number, found[0], False))
                continue
            if place.file != edit.file:
                moves.append((fault, number, place, True))
    return findings, moves


def update(root, moves):
    """Writes the places of what was moved or renamed into the table; the rest of the table stays as it is."""
    path = root / TABLE
    lines = path.read_text().splitlines(keepends=True)
    for fault, number, place, _ in moves:
        at = next(i for i, line in enumerate(lines) if line.strip() == f'name = "{fault.name}"')
        files = [i for i in range(at, len(lines)) if re.match(r'file = "', lines[i])]
        functions = [i for i in range(at, len(lines)) if re.match(r'function = "', lines[i])]
        lines[files[number]] = f'file = "{place.file}"\n'
        lines[functions[number]] = f'function = "{place.function}"\n'
    path.write_text("".join(lines))


# --- Writing an entry ------------------------------------------------------------------------------

def quoted(text):
    """Returns lines of code as a string of TOML."""
    if "\n" not in text:
        return f"'{text}'" if "'" not in text else f"'''{text}'''"
    return f"'''\n{text}'''"


def entry(fault):
    """Returns the entry of a fault as the table has it."""
    parts = []
    for number, edit in enumerate(fault.edits):
        parts.append(f'[[fault]]\nname = "{fault.name}"\n' if number == 0 else "[[fault.also]]\n")
        old_count = edit.old.count("\n") + 1
        both = textwrap.dedent(f"{edit.old}\n{edit.new}").split("\n")
        old, new = "\n".join(both[:old_count]), "\n".join(both[old_count:])
        parts.append(f'file = "{edit.file}"\nfunction = "{edit.function}"\nold = {quoted(old)}\nnew = {quoted(new)}\n')
        if number == 0:
            tests = "tests = [" + ", ".join(f'"{test}"' for test in fault.tests) + "]\n"
            if len(tests) > 121:
                tests = "tests = [\n" + "".join(f'  "{test}",\n' for test in fault.tests) + "]\n"
            parts.append(tests)
    return "".join(parts)
