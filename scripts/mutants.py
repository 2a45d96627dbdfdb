#!/usr/bin/env python3
"""Plants faults and looks whether a test sees them.

usage: mutants.py [--only REGEX] [--keep-going]            the faults of tests/mutants/faults.toml
       mutants.py --random N [--seed S] [--sample M]       N faults drawn by a seed, or M of them
       mutants.py --list
       mutants.py --check [--update]                       every fault, and every line of no-effect.txt, has its place

The first form plants each fault that docs/conformance.md names for a rule, builds, runs the tests that the fault and
the row name, and fails where all of them pass: then the row proves nothing. The second draws faults by general
operators over all lines of engine, wire, iwarp, transport, rpc, siwarp and tcp, and runs the unit, golden, conformance,
system and seed tests until one fails. Faults that survive are listed: each wants a test, or a line with its reason in
tests/mutants/no-effect.txt, after which it is drawn no more.

It works on a copy of the tree in build-mutants, so that nothing happens to yours.
"""
import argparse
import fcntl
import hashlib
import itertools
import json
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts"))
import planted  # noqa: E402

HOME = ROOT / "build-mutants"
TREE = HOME / "tree"
BUILD = TREE / "build-mutants"
NO_EFFECT = ROOT / "tests" / "mutants" / "no-effect.txt"
RULE_ROW = re.compile(r"^\| ((?:V1|V2|PD|H|B|X|G)-[A-Z]*\d+) \|")
DRAWN_FROM = ("src/engine", "src/wire", "src/iwarp", "src/transport", "src/rpc", "src/rdma/siwarp", "src/tcp")
# The quickest first: most faults are seen by the unit tests of their module.
PROGRAMS = ("engine_test", "wire_test", "iwarp_test", "transport_test", "xdr_test", "oncrpc_test",
            "region_table_test", "reply_cache_test", "provider_choice_test", "golden_test",
            "configuration_test", "siwarp_test", "sim_test", "tcp_test", "testing_test",
            "rpc_system_test", "many_connections_test", "rfc5666_test", "backward_test", "chunks_test", "registered_memory_test",
            "reconnect_test", "version_test", "credits_test", "service_test", "coroutine_test", "adopt_test", "whole_message_test", "auth_test",
            "conformance_test",
            "gss_test", "gss_server_test", "gss_client_test", "secure_test", "hostile_gss_test", "krb5_mechanism_test",
            "steady_state_test", "hostile_test", "tcp_system_test", "process_test")
SEEDS = "1..150"
SIM = "bin/rpcrdma-sim"
TARGETS = {"rpcrdma-sim": "rpcrdma_sim_command"}  # of programs that have another name
# The unit tests of a folder are built and run before anything else is: a fault in a header reaches hundreds of objects.
UNIT_TESTS = {"src/engine": ["engine_test"], "src/wire": ["wire_test"],
              "src/iwarp": ["iwarp_test"], "src/transport": ["transport_test"], "src/rdma/siwarp": ["siwarp_test"],
              "src/rpc": ["reply_cache_test", "region_table_test", "provider_choice_test", "configuration_test"]}
# For one program; a fault that makes it hang or grow is seen.
TIME_MAX = 60  # seconds
MEMORY_MAX = 4 << 30  # bytes of address space


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


def copy_tree():
    """Brings the copy up to date; files that stay the same keep their time."""
    names = run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True).stdout.splitlines()
    wanted = {name for name in names if (ROOT / name).is_file()}
    for name in wanted:
        source, copy = ROOT / name, TREE / name
        if copy.is_file() and copy.read_bytes() == source.read_bytes():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)
    for copy in TREE.rglob("*"):
        name = copy.relative_to(TREE)
        if copy.is_file() and name.parts[0] != BUILD.name and str(name) not in wanted:
            copy.unlink()


def configure():
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    done = run(["cmake", "--preset", "mutants", *launcher], cwd=TREE)
    if done.returncode != 0:
        sys.exit(f"mutants: the copy in {TREE} does not configure:\n{done.stdout}{done.stderr}")


def ninja(targets):
    return run(["ninja", "-C", str(BUILD), *targets])


class Programs:
    """The test programs of the copy, and which of them has a test."""

    def __init__(self):
        known = set(re.findall(r"^(\S+): phony", ninja(["-t", "targets", "all"]).stdout, re.M))
        if missing := set(PROGRAMS) - known:
            sys.exit(f"mutants: no such test programs: {', '.join(sorted(missing))}")
        self.names = list(PROGRAMS)
        self.targets = [*self.names, "rpcrdma_sim_command"]
        print(f"mutants: building {len(self.names)} test programs", flush=True)
        built = ninja(self.targets)
        if built.returncode != 0:
            sys.exit(f"mutants: the tree does not build:\n{built.stdout[-4000:]}")
        listed = json.loads(run(["ctest", "--show-only=json-v1", "--test-dir", str(BUILD)]).stdout)
        self.of_test = {}
        self.surroundings = {}  # program: the command that runs it in them, such as a realm of its own
        for test in listed["tests"]:
            command = test.get("command", [""])
            program = pathlib.Path(command[0])
            if program.name not in self.names and pathlib.Path(command[-1]).name in self.names:
                program = pathlib.Path(command[-1])
                self.surroundings[program] = command[:-1]
                self.of_test[test["name"]] = {program}
            parts = test["name"].split("/")
            for i, part in enumerate(parts):
                if "." in part:
                    self.of_test.setdefault("/".join(parts[:i + 1]), set()).add(program)
                    self.of_test.setdefault(part, set()).add(program)
        self.paths = {path.name: path for paths in self.of_test.values() for path in paths}

    def build(self, names=None):
        return ninja(names or self.targets)

    def pass_of(self, program, *options):
        return passes([*self.surroundings.get(program, []), str(program), *options])


def passes(command):
    try:
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=TIME_MAX, cwd=BUILD,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
                              ).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def filter_of(names):
    return "--gtest_filter=" + ":".join(f"{name}:*/{name}:{name}/*:*/{name}/*" for name in names)


def rows():
    """Yields (rule, fault, the tests that both name) for each row of docs/conformance.md that names a fault."""
    faults = {fault.name: fault for fault in planted.read(ROOT)}
    for line in (ROOT / "docs" / "conformance.md").read_text().splitlines():
        row = RULE_ROW.match(line)
        if not row:
            continue
        cells = [cell.strip() for cell in line.split("|")]
        for name in re.findall(r"`([^`]+)`", cells[5]) if len(cells) > 6 else []:
            if name not in faults:
                sys.exit(f"mutants: {row[1]} names {name}, which is not in {planted.TABLE}")
            proving = re.findall(r"`([^`]+)`", cells[4])
            yield row[1], faults[name], [test for test in faults[name].tests if test in proving]


def programs_of(programs, tests):
    """(program, its tests or None for all) of the tests that a row names; what cannot be run here is left out."""
    by_program = {}
    for test in tests:
        if test.startswith("sim_seeds"):
            by_program[BUILD / SIM] = None
        for program in programs.of_test.get(test, ()):
            if program in programs.surroundings:
                by_program[program] = None
            elif program.name in programs.names:
                by_program.setdefault(program, []).append(test)
    return by_program


def survives_planted(programs, by_program):
    """Whether every test passes."""
    for program, names in by_program.items():
        options = ["--seeds", SEEDS] if program.name == "rpcrdma-sim" else [filter_of(names)] if names else []
        if not programs.pass_of(program, *options):
            return False
    return True


def check_planted(only, keep_going):
    programs = Programs()
    findings, count = [], 0
    for rule, fault, tests in rows():
        name = fault.name
        if only and not re.search(only, f"{rule} {name}"):
            continue
        count += 1
        started = time.monotonic()
        finding = None
        try:
            texts = planted.texts_with(TREE, fault)
        except planted.NotFound as error:
            texts, finding = {}, f"cannot be planted: {error}"
        before = {each: (TREE / each).read_text() for each in texts}
        for each, text in texts.items():
            (TREE / each).write_text(text)
        if finding:
            pass
        elif not (by_program := programs_of(programs, tests)):
            finding = "names no test that can be run here"
        elif programs.build([TARGETS.get(program.name, program.name) for program in by_program]).returncode != 0:
            finding = "does not build"
        elif survives_planted(programs, by_program):
            finding = f"is not seen by {', '.join(tests)}"
        for each, text in before.items():
            (TREE / each).write_text(text)
        print(f"{'FAIL' if finding else 'ok  '} {rule} {name} {finding or ''} ({time.monotonic() - started:.0f} s)",
              flush=True)
        if finding:
            findings.append(f"{rule}: {name} {finding}")
            if not keep_going:
                break
    print(f"mutants: {count} planted, {len(findings)} not seen")
    return 1 if findings or count == 0 else 0


# --- Faults that nobody chose ---------------------------------------------------------------------

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


def lines_to_draw_from():
    for folder in DRAWN_FROM:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT)
            if path.suffix not in (".cc", ".h") or "_test" in path.name or "for_test" in path.name:
                continue
            inside_assert = False
            for number, line in enumerate(path.read_text().splitlines()):
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
    """(operator, line number, old line, new line, how many times the same fault came before) of a file."""
    times = {}
    for number, line in lines:
        code, _, comment = line.partition("  // ")
        for operator in sorted(OPERATORS):
            for new in (new for mutate in OPERATORS[operator] for new in mutate(code) if new != code):
                key = (operator, line.strip(), new.strip())
                times[key] = times.get(key, -1) + 1
                yield operator, number, line, new, times[key]


def draw(count, seed):
    """The faults, all operators in turn. Each has its place by a hash of its own text and the seed: a change of the
    code changes the faults of the lines it touches, and leaves the others where they are."""
    lines = {}
    for name, number, line in lines_to_draw_from():
        lines.setdefault(name, []).append((number, line))
    left_out = without_effect()
    by_operator = {operator: [] for operator in sorted(OPERATORS)}
    for name in lines:
        for operator, number, line, new, times in faults_of(name, lines[name]):
            if (str(name), words(line), words(new)) in left_out:
                continue
            text = "\0".join((str(seed), str(name), operator, line.strip(), new.strip(), str(times)))
            place = hashlib.blake2b(text.encode()).digest()
            by_operator[operator].append((place, (operator, name, number, line, new)))
    ordered = [[fault for _, fault in sorted(faults)] for faults in by_operator.values()]
    drawn = [fault for turn in itertools.zip_longest(*ordered) for fault in turn if fault]
    return drawn[:3 * count]  # some will not compile


def first_to_fail(programs, names):
    for name in names:
        if name in programs.paths and not programs.pass_of(programs.paths[name]):
            return name
    return None


def seen_by(programs, changed=None):
    """The first program that fails with the fault in `changed`, None if all pass; "build" if it does not compile."""
    units = next((tests for folder, tests in UNIT_TESTS.items() if str(changed).startswith(folder + "/")), [])
    for names in (units, [name for name in programs.names if name not in units]):
        if names and programs.build([*names, *([] if names is units else ["rpcrdma_sim_command"])]).returncode != 0:
            return "build"
        if by := first_to_fail(programs, names):
            return by
    if not passes([str(BUILD / SIM), "--seeds", SEEDS]):
        return "rpcrdma-sim"
    return None


def check_random(count, seed, sample, share_min):
    if gone := list(gone_without_effect()):
        sys.exit("mutants: " + "\n".join(gone))
    programs = Programs()
    by = seen_by(programs)
    if by:
        sys.exit(f"mutants: {by} fails without any fault")
    caught, survived, unbuildable = {}, [], 0
    wanted = sample or count
    faults = draw(count, seed)
    for operator, name, number, old, new in faults:
        if sum(caught.values()) + len(survived) == wanted:
            break
        path = TREE / name
        text = path.read_text()
        changed = text.splitlines()
        changed[number] = new
        path.write_text("\n".join(changed) + "\n")
        started = time.monotonic()
        where = f"{name}:{number + 1}: {operator}: {old.strip()}  ->  {new.strip()}"
        by = seen_by(programs, name)
        if by == "build":
            unbuildable += 1
        elif by:
            caught[by] = caught.get(by, 0) + 1
            print(f"seen by {by}: {where} ({time.monotonic() - started:.0f} s)", flush=True)
        else:
            survived.append(where)
            print(f"SURVIVES: {where} ({time.monotonic() - started:.0f} s)", flush=True)
        path.write_text(text)
    seen = sum(caught.values())
    total = seen + len(survived)
    share = seen / total if total else 0
    print(f"mutants: seed {seed}: {seen} of {total} seen ({share:.0%}); {unbuildable} did not compile")
    for name, number in sorted(caught.items(), key=lambda item: -item[1]):
        print(f"  {number:4} by {name}")
    print("".join(f"  survives: {where}\n" for where in survived), end="")
    return 0 if share >= share_min else 1


def check_lists(wants_update):
    """Finds the code of each fault and of each line of no-effect.txt, so that a change of it shows at once."""
    try:
        faults = planted.read(ROOT)
        findings, moves = planted.check(ROOT, faults)
    except ValueError as error:
        faults, findings, moves = [], [str(error)], []
    for fault, _, place, is_only_moved in moves:
        if is_only_moved:
            print(f"mutants: {fault.name} has moved: {planted.to_write(place)} (or --update)")
    if wants_update and moves:
        planted.update(ROOT, moves)
        print(f"mutants: {len(moves)} places are corrected in {planted.TABLE}")
        findings, _ = planted.check(ROOT, planted.read(ROOT))
    findings += gone_without_effect()
    print("".join(f"mutants: {finding}\n" for finding in findings), end="")
    print(f"mutants: {len(faults)} planted faults, {len(findings)} findings")
    return 1 if findings else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="REGEX", help="plant only faults whose rule or name matches")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first that is not seen")
    parser.add_argument("--random", type=int, metavar="N", help="draw N faults instead")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--sample", type=int, metavar="M", help="try the first M of the N only")
    parser.add_argument("--share", type=float, default=0.85, help="of random faults that must be seen (default: .85)")
    parser.add_argument("--list", action="store_true", help="list the planted faults and their tests")
    parser.add_argument("--check", action="store_true", help="find the lines of all of them; builds nothing")
    parser.add_argument("--update", action="store_true", help="with --check: correct the places of what has moved")
    options = parser.parse_args()
    if options.check or options.update:
        return check_lists(options.update)
    if options.list:
        for rule, fault, tests in rows():
            print(rule, fault.name, *tests)
        return 0
    TREE.mkdir(parents=True, exist_ok=True)
    lock = open(HOME / "lock", "w")  # held until the end
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"mutants: another run works in {HOME.relative_to(ROOT)}; wait for its end")
    copy_tree()
    configure()
    if options.random:
        return check_random(options.random, options.seed, options.sample, options.share)
    return check_planted(options.only, options.keep_going)


if __name__ == "__main__":
    sys.exit(main())
