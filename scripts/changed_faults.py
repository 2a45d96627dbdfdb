"""Tries the faults of what the last commits changed, as far as there is time. See `--changed` of mutants.py."""
import pathlib
import subprocess
import sys
import time

import planted
import test_programs

ROOT = pathlib.Path(__file__).resolve().parent.parent


def git(*command, root, check=False):
    return subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=check)


def changed_files(commits, root=ROOT):
    """Returns the files that the last commits changed, with those that are not committed yet. If there are fewer
    commits, it says so and takes those that there are."""
    counted = git("rev-list", "--count", "--first-parent", "HEAD", root=root)
    known = int(counted.stdout) - 1 if counted.returncode == 0 else 0
    if known < commits:
        print(f"mutants: the history has {known} commits with a parent, not {commits}", flush=True)
    if known < 1:
        return []
    named = git("diff", "--name-only", f"HEAD~{min(known, commits)}", root=root, check=True).stdout
    return [name for name in named.splitlines() if (root / name).is_file()]


def rows_of(faults, names, root=ROOT):
    """Returns the faults of the table that change one of these files."""
    tree = planted.Tree(root)
    chosen = []
    for fault in faults:
        try:
            files = {planted.find(tree, edit).file for edit in fault.edits}
        except planted.NotFound as error:
            sys.exit(f"mutants: {fault.name}: {error}")
        if not files.isdisjoint(names):
            chosen.append(fault)
    return chosen


def cheapest_first(programs, items, first_jobs, files):
    """Sorts the items by what has to be built for their first jobs, so that the time goes into runs. Faults in
    headers come last: each makes many files compile anew."""
    cost = {}  # of the targets: (number of steps, the targets)
    keys = []
    for item in items:
        targets = tuple(test_programs.targets_of(first_jobs(item)))
        if targets not in cost:
            cost[targets] = (programs.steps(first_jobs(item)) if targets else float("inf"), targets)
        keys.append((any(file.endswith(".h") for file in files(item)), *cost[targets]))
    return [items[place] for place in sorted(range(len(items)), key=keys.__getitem__)]


def try_rows(trial, faults):
    """Plants each fault; returns (findings, names of those for which there was no time)."""
    findings, left_out = [], []
    first = {fault.name: trial.programs.of_tests(fault.tests)[:1] for fault in faults}
    for fault in faults:
        started = time.monotonic()
        targets = test_programs.targets_of(first[fault.name])
        try:
            # All at once: each later time, ninja would first build what the fault before it has changed.
            trial.prepare([job for jobs in first.values() for job in jobs if [*job.targets] == targets])
            finding, by = trial.finding_of(fault, list(fault.tests))
        except test_programs.OutOfTime:
            left_out.append(fault.name)
            continue
        print(f"{'FAIL' if finding else 'ok  '} {fault.name} {finding or f'is seen by {by}'} "
              f"({time.monotonic() - started:.0f} s)", flush=True)
        if finding:
            findings.append(f"{fault.name} {finding}")
    return findings, left_out


def try_random(trial, faults, tally):
    """Tries the drawn faults, first all with the unit tests of their folders, then those that these did not see with
    the other programs, one after the other; returns those for which there was no time."""
    programs = trial.programs
    waiting, left_out = [], []
    for where, name, texts in faults:
        started = time.monotonic()
        units = programs.units(name)
        try:
            by = trial.seen_by(texts, [units]) if units else None
        except test_programs.OutOfTime:
            left_out.append(where)
            continue
        if by:
            tally.add(where, by, started)
        else:
            waiting.append((where, name, texts))
            if units:
                print(f"not seen by its unit tests: {where} ({time.monotonic() - started:.0f} s)", flush=True)
    for where, name, texts in waiting:
        started = time.monotonic()
        others = sorted(programs.others(name), key=lambda job: job not in trial.usable)  # those that are built first
        try:
            by = trial.seen_by(texts, [[job] for job in others])
        except test_programs.OutOfTime:
            left_out.append(f"{where} (its unit tests do not see it)")
            continue
        tally.add(where, by, started)
    return left_out


# Random faults that a share is of: of one or two, those tried depend on how busy the machine is.
JUDGED_MIN = 10


def conclude(findings, left_out, not_tried, tally, planted_count, seed, share_min):
    """Prints what was run and what was not, and returns the exit status."""
    planted_run = planted_count - len(left_out)
    for name in left_out:
        print(f"  left out, there was no time: {name}")
    for where in not_tried:
        print(f"  left out, there was no time: {where}")
    tally.show(seed)
    print(f"mutants: {planted_run} planted, {len(findings)} not seen; {len(left_out) + len(not_tried)} left out")
    print("".join(f"  not seen: {finding}\n" for finding in findings), end="")
    if planted_run + tally.total() == 0:
        print("mutants: there was no time for a single fault; give it more --minutes")
        return 1
    if 0 < tally.total() < JUDGED_MIN:
        print(f"mutants: {tally.total()} random faults are too few to judge their share; {JUDGED_MIN} are needed")
    return 1 if findings or (tally.total() >= JUDGED_MIN and tally.share() < share_min) else 0
