#!/usr/bin/env python3
"""Plants faults and looks whether a test sees them.

usage: mutants.py [--only REGEX] [--keep-going] [--resume] the faults of tests/mutants/faults.toml
       mutants.py --random N [--seed S] [--sample M] [--resume]
                                                           N faults drawn by a seed, or M of them
       mutants.py --changed N [--minutes M] [--random R] [--in-place BUILD]
                                                           both, in the files that the last N commits changed
       mutants.py --list
       mutants.py --check [--update]                       every fault, and every line of no-effect.txt, has its place

The first form plants each fault that docs/conformance.md names for a rule, runs the tests that the fault and the row
name, and fails where all of them pass: then the row proves nothing. The second draws faults by general operators over all
lines of engine, wire, iwarp, transport, rpc, gss, siwarp, tcp, apps/nfs and the public headers, and runs the unit, golden,
conformance, system and seed tests until one fails. Faults that survive are listed: each wants a test, or a line with its
reason in tests/mutants/no-effect.txt, after which it is drawn no more. Both note in build-mutants how each fault ended;
--resume goes on from there, and tries one again only if it survived, or did not compile, in another state of the tree.
Both write all faults into one build, each behind a switch (docs/adr/0046), and run the tests of several at a time; what
has no switch, or may have had no effect behind it, gets a build of its own. The third is for CI: it plants the faults of
the table first, draws random ones then, ends when its time is over, and lists what it had no time for.

It works on a copy of the tree in build-mutants, so that nothing happens to yours. With --in-place the third form plants
its faults in this tree and builds in a folder that is there already, as make check leaves it: the time goes into faults
instead of a second build. It refuses a tree with changes that are not committed. JOBS limits how many commands ninja
runs, and how many tests this script runs, at a time.
"""
import argparse
import contextlib
import fcntl
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts"))
import changed_faults  # noqa: E402
import conformance  # noqa: E402
import drawn  # noqa: E402
import planted  # noqa: E402
import switched_build  # noqa: E402
import test_programs  # noqa: E402
import trials  # noqa: E402

HOME = ROOT / "build-mutants"
TREE = HOME / "tree"
BUILD = TREE / "build-mutants"
RANDOM_OF_CHANGED = 20


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


def configure(clock):
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    status, output = test_programs.run(["cmake", "--preset", "mutants", *launcher], clock, cwd=TREE)
    if status != 0:
        sys.exit(f"mutants: the copy in {TREE} does not configure:\n{output}")


# --- Faults of the table --------------------------------------------------------------------------

def rows():
    """Yields (rule, fault, the tests that both name) for each row of docs/conformance.md that names a fault."""
    faults = {fault.name: fault for fault in planted.read(ROOT)}
    for line in (ROOT / "docs" / "conformance.md").read_text().splitlines():
        row = conformance.RULE_ROW.match(line)
        if not row:
            continue
        cells = [cell.strip() for cell in line.split("|")]
        for name in re.findall(r"`([^`]+)`", cells[5]) if len(cells) > 6 else []:
            if name not in faults:
                sys.exit(f"mutants: {row[1]} names {name}, which is not in {planted.TABLE}")
            proving = re.findall(r"`([^`]+)`", cells[4])
            yield row[1], faults[name], [test for test in faults[name].tests if test in proving]


def place_of_row(rule, fault, tests):
    """Names a row together with its edits and tests, so that a row that changes is tried again."""
    edits = "; ".join(f"{edit.file} {edit.old!r} {edit.new!r}" for edit in fault.edits)
    return f"{rule} {fault.name}: {edits}: {' '.join(tests)}"


def seen_with_switches(trial, rows_left, journal):
    """Tries the rows with all their faults in one build; returns those that no test saw so, or that do not compile."""
    programs, tree = trial.programs, planted.Tree(trial.root)
    jobs_of = {id(row): programs.of_tests(row[2]) for row in rows_left}

    def changes_of(row):
        places = [(planted.find(tree, edit), edit) for edit in row[1].edits]
        return [switched_build.Change(place.file, place.first, place.last, edit.new) for place, edit in places]

    def is_found(row):
        with contextlib.suppress(planted.NotFound):
            return bool(changes_of(row))
        return False

    left = [row for row in rows_left if not is_found(row)]
    with trials.switched_in(trial) as build:
        there = [row for row in rows_left if row not in left]
        for wave, others in build.waves(there, changes_of, lambda row: jobs_of[id(row)]):
            left += [switch.fault for switch in others]
            for verdict in switched_build.Runs(programs).all(wave, lambda row: jobs_of[id(row)]):
                rule, fault, tests = row = verdict.switch.fault
                if verdict.by:
                    journal.add(place_of_row(rule, fault, tests), verdict.by)
                    print(f"ok   {rule} {fault.name} ({verdict.seconds:.0f} s)", flush=True)
                else:
                    left.append(row)
    print(f"mutants: {len(rows_left) - len(left)} of {len(rows_left)} rows are seen in one build; {len(left)} get builds of "
          "their own", flush=True)
    return left


def check_planted(only, keep_going, wants_old):
    chosen = [row for row in rows() if not only or re.search(only, f"{row[0]} {row[1].name}")]
    journal = drawn.Journal(HOME / "table.tried", drawn.state_of_tree(), wants_old)
    left = [(rule, fault, tests) for rule, fault, tests in chosen if not journal.verdict(place_of_row(rule, fault, tests))]
    if wants_old:
        print(f"mutants: {len(chosen) - len(left)} of {len(chosen)} rows were seen before", flush=True)
    programs = test_programs.TestPrograms(TREE, BUILD)
    wanted = [job for _, _, tests in left for job in programs.of_tests(tests)]
    print(f"mutants: {len(test_programs.targets_of(wanted))} programs are built", flush=True)
    trial = trials.Trial(programs, TREE, is_strict=not keep_going)  # a row without a test that passes is a finding then
    findings = []
    for rule, fault, tests in seen_with_switches(trial, left, journal):
        started = time.monotonic()
        finding, by = trial.finding_of(fault, tests)
        journal.add(place_of_row(rule, fault, tests), by)
        seconds = f"({time.monotonic() - started:.0f} s)"
        print(f"{'FAIL' if finding else 'ok  '} {rule} {fault.name} {finding or ''} {seconds}", flush=True)
        if finding:
            findings.append(f"{rule}: {fault.name} {finding}")
            if not keep_going:
                break
    print(f"mutants: {len(chosen)} planted, {len(findings)} not seen")
    return 1 if findings or not chosen else 0


# --- Faults that nobody chose ---------------------------------------------------------------------

def refuse_stale_reasons():
    if gone := list(drawn.gone_without_effect()):
        sys.exit("mutants: " + "\n".join(gone))


SWITCHED_MIN = 5  # for fewer a build with switches, and one without behind it, costs more than theirs


def check_random(count, seed, sample, share_min, keep_going, wants_old):
    refuse_stale_reasons()
    journal = drawn.Journal(HOME / f"random-{seed}.tried", drawn.state_of_tree(), wants_old)
    programs = test_programs.TestPrograms(TREE, BUILD)
    faults = [(*drawn.random_fault(fault), fault) for fault in drawn.draw(count, seed, drawn.files_to_draw_from())]
    # The unit tests of a folder come first: they take the least time.
    groups = {name: [programs.units(name), programs.others(name)] for _, name, _, _ in faults}
    if wants_old:
        known = sum(journal.verdict(where) is not None for where, *_ in faults)
        print(f"mutants: {known} of {len(faults)} drawn faults were tried before", flush=True)
    jobs = list(dict.fromkeys(job for both in groups.values() for group in both for job in group))
    print(f"mutants: {len(jobs)} test programs are built", flush=True)
    trial, tally = trials.Trial(programs, TREE, is_strict=not keep_going), trials.Tally()
    wanted, next_one = sample or count, 0
    while tally.total() < wanted and next_one < len(faults):
        some = faults[next_one:next_one + wanted - tally.total()]  # others take the place of what does not compile
        next_one += len(some)
        left = [fault for fault in some if journal.verdict(fault[0]) is None]
        fresh = try_with_switches(trial, left, groups, journal, tally) if len(left) >= SWITCHED_MIN else set()
        for where, name, texts, _ in some:
            started = time.monotonic()
            if where in fresh:
                continue
            by = journal.verdict(where)
            if by is None:
                by = trial.seen_by(texts, groups[name])
                journal.add(where, by)
            tally.add(where, by, started)
    tally.show(seed)
    return 0 if tally.share() >= share_min else 1


def try_with_switches(trial, faults, groups, journal, tally):
    """Tries drawn faults in one build; returns the names of those whose end is known by it. A fault that no test sees or
    comes to may be in what the compiler computes, and wants a build of its own."""
    ended, tree = set(), planted.Tree(trial.root)
    computed = {fault[0] for fault in faults if may_be_computed(tree, fault[1], fault[3][2])}  # as the lines are now

    def changes_of(fault):
        _, name, number, _, new, _ = fault[3]
        return [switched_build.Change(name, number, number, new)]

    def jobs_of(fault):
        return [job for group in groups[fault[1]] for job in group]

    with trials.switched_in(trial) as build:
        for wave, _ in build.waves(faults, changes_of, jobs_of):
            for verdict in switched_build.Runs(trial.programs).all(wave, jobs_of):
                where = verdict.switch.fault[0]
                if verdict.by or (verdict.is_reached and where not in computed):
                    ended.add(where)
                    journal.add(where, verdict.by)
                    tally.add(where, verdict.by, time.monotonic() - verdict.seconds)
    return ended


def may_be_computed(tree, name, line):
    """Returns whether the line is in a function that the compiler may run, too: there the switch is off."""
    scope = tree.innermost(name, line, line)
    lines = (tree.root / name).read_text().splitlines() if scope else []
    return "constexpr" in " ".join(lines[scope.first:line + 1]) if scope else True


# --- Faults of what has changed -------------------------------------------------------------------

def refuse_changes():
    changed = run(["git", "status", "--porcelain", "--untracked-files=no"], cwd=ROOT, check=True).stdout
    if changed:
        sys.exit(f"mutants: --in-place needs a tree without changes, which it could lose; commit these first:\n{changed}")


def programs_of_changed(clock, build):
    """Returns (the test programs, the tree that they are built of). `build` is None for those of the copy."""
    if build is not None:
        return test_programs.TestPrograms(ROOT, build, clock), ROOT
    copy_tree()
    configure(clock)
    return test_programs.TestPrograms(TREE, BUILD, clock), TREE


def check_changed(clock, commits, count, seed, share_min, build=None):
    refuse_stale_reasons()
    if build is not None:
        refuse_changes()
    names = changed_faults.changed_files(commits)
    table = planted.read(ROOT)
    faults = changed_faults.rows_of(table, names)
    named = [name for name in names if drawn.is_drawn_from(name)]
    random = drawn.draw(count, seed, named)
    if not faults and not random:
        print("mutants: no changed file has faults; random ones of the whole tree are tried", flush=True)
        random = drawn.draw(count, seed, drawn.files_to_draw_from())
    print(f"mutants: {len(names)} files changed: {len(faults)} planted faults, {min(len(random), count)} random ones",
          flush=True)
    findings, left_out, tally = [], [fault.name for fault in faults], trials.Tally()
    not_tried = [drawn.random_fault(fault)[0] for fault in random[:count]]
    try:
        programs, tree = programs_of_changed(clock, build)
        trial = trials.Trial(programs, tree, is_strict=False)  # make check has the last word on tests that fail
        faults = changed_faults.cheapest_first(programs, faults, lambda fault: programs.of_tests(fault.tests)[:1],
                                lambda fault: [edit.file for edit in fault.edits])
        findings, left_out = changed_faults.try_rows(trial, faults)
        random = [fault for fault in random if programs.compiles(fault[1])][:count]
        random = changed_faults.cheapest_first(programs, random, lambda fault: programs.units(fault[1]), lambda fault: [fault[1]])
        not_tried = changed_faults.try_random(trial, [drawn.random_fault(fault) for fault in random], tally)
    except test_programs.OutOfTime:
        pass
    return changed_faults.conclude(findings, left_out, not_tried, tally, len(faults), seed, share_min)


# --- Without building anything --------------------------------------------------------------------

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
    planted_by_a_row = {fault.name for _, fault, _ in rows()}
    findings += [f"{planted.TABLE}: no row of docs/conformance.md plants {fault.name}"
                 for fault in faults if fault.name not in planted_by_a_row]
    findings += drawn.gone_without_effect()
    print("".join(f"mutants: {finding}\n" for finding in findings), end="")
    print(f"mutants: {len(faults)} planted faults, {len(findings)} findings")
    return 1 if findings else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="REGEX", help="plant only faults whose rule or name matches")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first that is not seen, nor at a test that fails without a fault")
    parser.add_argument("--random", type=int, metavar="N", help="draw N faults")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--sample", type=int, metavar="M", help="try the first M of the N only")
    parser.add_argument("--resume", action="store_true", help="go on from what earlier runs with this seed have tried")
    parser.add_argument("--share", type=float, default=0.85, help="of random faults that must be seen (default: .85)")
    parser.add_argument("--changed", type=int, metavar="N", help="try faults of files that the last N commits changed")
    parser.add_argument("--minutes", type=float, default=5, help="that --changed takes, with building (default: 5)")
    parser.add_argument("--in-place", type=pathlib.Path, metavar="BUILD", help="with --changed: plant the faults in this tree, and "
                        "build in this folder, which is configured already")
    parser.add_argument("--list", action="store_true", help="list the planted faults and their tests")
    parser.add_argument("--check", action="store_true", help="find the lines of all of them; builds nothing")
    parser.add_argument("--update", action="store_true", help="with --check: correct the places of what has moved")
    options = parser.parse_args()
    clock = test_programs.Clock(options.minutes * 60 if options.changed else None)
    if options.check or options.update:
        return check_lists(options.update)
    if options.list:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader like head(1) may leave early
        for rule, fault, tests in rows():
            print(rule, fault.name, *tests)
        return 0
    TREE.mkdir(parents=True, exist_ok=True)
    lock = open(HOME / "lock", "w")  # held until the end
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"mutants: another run works in {HOME.relative_to(ROOT)}; wait for its end")
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, trials.stop_at_signal)
    if options.changed:
        return check_changed(clock, options.changed, options.random or RANDOM_OF_CHANGED, options.seed, options.share,
                             options.in_place and options.in_place.resolve())
    copy_tree()
    configure(clock)
    if options.random:
        return check_random(options.random, options.seed, options.sample, options.share, options.keep_going, options.resume)
    return check_planted(options.only, options.keep_going, options.resume)


if __name__ == "__main__":
    sys.exit(main())
