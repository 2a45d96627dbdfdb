"""Draws faults that nobody chose: general operators over the lines of the code, in an order that a seed decides."""
import hashlib
import itertools
import pathlib
import re
import subprocess

import planted

ROOT = pathlib.Path(__file__).resolve().parent.parent
NO_EFFECT = ROOT / "tests" / "mutants" / "no-effect.txt"
DRAWN_FROM = ("src/engine", "src/wire", "src/iwarp", "src/transport", "src/rpc", "src/gss", "src/rdma/siwarp", "src/tcp",
              "apps/nfs", "include")
# Only scripts that take minutes test the command; only the lab has RDMA devices, and only a cluster of Ceph its files.
NOT_DRAWN_FROM = ("tools/", "gen/main.cc", "src/rdma/verbs/", "apps/nfs/ceph/")


def each_match(pattern, replacement):
    def mutate(line):
        for match in re.finditer(pattern, line):
            yield line[:match.start()] + match.expand(replacement) + line[match.end():]
    return mutate


def changed_constant(line):
    for match in re.finditer(r"(?<![\w.\"'])(\d+)(?=[Uu]?\b)(?![\w.]*\")", line):
        yield line[:match.start()] + str(int(match[1]) + 1) + line[match.end():]


def swapped_arguments(line):
    for match in re.finditer(r"(\w\()([\w.\->*&]+), ([\w.\->*&]+)\)", line):
        yield line[:match.start()] + f"{match[1]}{match[3]}, {match[2]})" + line[match.end():]


def dropped_statement(line):
    if re.match(r"^\s+(?!return|break|continue|case|using|const |static |auto |goto )[\w.\->\[\]():*&+]+.*;\s*(//.*)?$",
                line) and not re.match(r"^\s*[\w:<>]+[&*]? [\w]+(\{.*\}|;| = |\()", line):
        yield re.match(r"^\s*", line)[0] + ";"


OPERATORS = {
    "comparison": [each_match(r" < ", " <= "), each_match(r" <= ", " < "), each_match(r" > ", " >= "),
                   each_match(r" >= ", " > "), each_match(r" == ", " != "), each_match(r" != ", " == "),
                   each_match(r" && ", " || "), each_match(r" \|\| ", " && "), each_match(r"\(!(\w)", r"(\1")],
    "bound": [each_match(r"std::min\b", "std::max"), each_match(r"std::max\b", "std::min"),
              each_match(r" \+ ", " - "), each_match(r" - ", " + "), each_match(r"\+\+(\w)", r"--\1")],
    "constant": [changed_constant, each_match(r"\btrue\b", "false"), each_match(r"\bfalse\b", "true")],
    "dropped statement": [dropped_statement],
    "swapped argument": [swapped_arguments],
}
SKIPPED = re.compile(r"^\s*(//|#|$|\}|namespace|using|template|class|struct|enum|static_assert|RPCRDMA_ASSERT|case |"
                     r"default:|public:|private:|protected:|friend|\[\[)|^\s*\"|to_string|return \"")


def files_to_draw_from():
    """Returns the names of the files below DRAWN_FROM."""
    paths = [path for folder in DRAWN_FROM for path in sorted((ROOT / folder).rglob("*"))]
    return [name for name in (str(path.relative_to(ROOT)) for path in paths) if is_drawn_from(name)]


def is_drawn_from(name):
    """Returns whether the file is code of the library or of a program, and not of a test."""
    path = pathlib.PurePath(name)
    return (path.suffix in (".cc", ".h") and path.parts[0] in planted.FOLDERS and "_test" not in path.name
            and "for_test" not in path.name and not name.startswith(NOT_DRAWN_FROM))


def lines_to_draw_from(names):
    for name in names:
        inside_assert = False
        for number, line in enumerate((ROOT / name).read_text().splitlines()):
            starts = "RPCRDMA_ASSERT" in line
            if not (starts or inside_assert or SKIPPED.search(line)):
                yield name, number, line
            inside_assert = (starts or inside_assert) and not line.rstrip().endswith(";")


def words(line):
    """The line without the spaces that align it with its neighbours."""
    return " ".join(line.split())


def without_effect():
    """The faults of tests/mutants/no-effect.txt, each with a reason there: (file, old line, new line)."""
    known = set()
    for line in NO_EFFECT.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, fault = line.partition(": ")
            old, _, new = fault.partition("  ->  ")
            known.add((name, words(old), words(new)))
    return known


def gone_without_effect():
    """The lines of tests/mutants/no-effect.txt whose code has changed since."""
    for name, old, _ in sorted(without_effect()):
        path = ROOT / name
        if not path.is_file() or old not in map(words, path.read_text().splitlines()):
            yield f"{NO_EFFECT.relative_to(ROOT)}: {name} no longer has the line: {old}"


def faults_of(name, lines):
    """Yields (operator, line number, old line, new line, how many times the same fault came before) for a file."""
    times = {}
    for number, line in lines:
        code, _, comment = line.partition("  // ")
        for operator in sorted(OPERATORS):
            for new in (new for mutate in OPERATORS[operator] for new in mutate(code) if new != code):
                key = (operator, line.strip(), new.strip())
                times[key] = times.get(key, -1) + 1
                yield operator, number, line, new, times[key]


def draw(count, seed, names):
    """Returns faults of these files, all operators in turn. Each has its place by a hash of its own text and the seed:
    a change of the code changes the faults of the lines it touches, and leaves the others where they are."""
    lines = {}
    for name, number, line in lines_to_draw_from(names):
        lines.setdefault(name, []).append((number, line))
    left_out = without_effect()
    by_operator = {operator: [] for operator in sorted(OPERATORS)}
    for name in lines:
        for operator, number, line, new, times in faults_of(name, lines[name]):
            if (str(name), words(line), words(new)) in left_out:
                continue
            text = "\0".join((str(seed), str(name), operator, line.strip(), new.strip(), str(times)))
            place = hashlib.blake2b(text.encode()).digest()
            by_operator[operator].append((place, (operator, name, number, line, new, times)))
    ordered = [[fault for _, fault in sorted(faults)] for faults in by_operator.values()]
    drawn = [fault for turn in itertools.zip_longest(*ordered) for fault in turn if fault]
    return drawn[:3 * count]  # some will not compile


def random_fault(fault):
    """Returns (the line that is printed for a drawn fault, its file, {file: its text with the fault})."""
    operator, name, number, old, new, times = fault
    lines = (ROOT / name).read_text().splitlines()
    lines[number] = new
    which = f" (number {times + 1})" if times > 0 else ""  # of those that read the same
    where = f"{name}:{number + 1}: {operator}{which}: {old.strip()}  ->  {new.strip()}"
    return where, name, {name: "\n".join(lines) + "\n"}


# --- What became of them --------------------------------------------------------------------------

class Journal:
    """Keeps what became of the faults of one draw, a line for each, so that a later run need not try them again."""

    def __init__(self, path, state, wants_old):
        """`state` names the code and the tests of this run; with `wants_old` the lines of earlier runs count."""
        self.path, self.state, self.known = path, state, {}
        if wants_old and path.is_file():
            for line in path.read_text().splitlines():
                if len(fields := line.split("\t")) == 3:  # the last line of a run that was killed may be half a line
                    self.known[fields[2]] = (fields[0], fields[1])
        elif path.is_file():
            path.unlink()

    def verdict(self, where):
        """Returns the test that saw the fault, "build", "" if it survived these tests, or None if it is to be tried. What did
        not compile may do so when the lines around it have changed."""
        state, by = self.known.get(self.without_line(where), ("", None))
        return None if by in ("", "build") and state != self.state else by

    def add(self, where, by):
        with open(self.path, "a") as file:
            file.write(f"{self.state}\t{by or ''}\t{self.without_line(where)}\n")

    @staticmethod
    def without_line(where):
        """The lines above a fault change its number, and nothing else of it."""
        return re.sub(r"^([^:]+):\d+:", r"\1:", where).replace("\t", " ")


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def state_of_tree():
    """Returns a name of what the tree has below the folders of code and tests; a document changes no verdict."""
    named = git("ls-tree", "HEAD", *planted.FOLDERS, "tests", "CMakeLists.txt", "cmake")
    changed = git("diff", "HEAD", "--", *planted.FOLDERS, "tests")
    return hashlib.blake2b((named + changed).encode(), digest_size=8).hexdigest()
