"""Plants one fault in a tree, or many behind switches, and tells which test sees it. See mutants.py."""
import contextlib
import signal
import sys
import time

import planted
import switched_build
import test_programs


def stop_at_signal(number, _):
    """Ends the program in a way that takes out the fault first."""
    sys.exit(f"mutants: stopped by {signal.Signals(number).name}; no fault is left in the tree")


@contextlib.contextmanager
def no_signals():
    """Keeps signals from ending the program within this block."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    yield
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, stop_at_signal)


@contextlib.contextmanager
def in_place(root, texts):
    """Replaces the files by these texts until the end of the block."""
    before = {name: (root / name).read_text() for name in texts}
    try:
        for name, text in texts.items():
            (root / name).write_text(text)
        yield
    finally:
        with no_signals():
            for name, text in before.items():
                (root / name).write_text(text)


class Trial:
    """Runs jobs on a tree with and without faults. `programs` has the functions of a TestPrograms. A test that fails
    without a fault ends a strict run; others go on without it."""

    def __init__(self, programs, root, is_strict=True):
        self.programs, self.root, self.is_strict = programs, root, is_strict
        self.usable = {}  # job: whether it passes without a fault; a test that is skipped here shows nothing

    def prepare(self, jobs):
        """Builds what the jobs need, and runs each once without a fault; returns those that pass. Raises OutOfTime
        also when there is not enough time for that."""
        fresh = [job for job in dict.fromkeys(jobs) if job not in self.usable]
        if fresh and not self.programs.has_time_to_build(fresh):
            raise test_programs.OutOfTime
        names = ", ".join(sorted({job.name for job in fresh}))
        started = time.monotonic()
        if fresh and not self.programs.build(fresh):
            sys.exit(f"mutants: the tree does not build: {names}")
        if time.monotonic() - started > 1:
            print(f"mutants: {names} took {time.monotonic() - started:.0f} s to build", flush=True)
        for job in fresh:
            outcome = self.programs.outcome(job)
            if outcome == "fail" and self.is_strict:
                sys.exit(f"mutants: {job.name} fails without any fault: {' '.join(job.command)}")
            if outcome != "pass":
                how = "is skipped here" if outcome == "skip" else "fails without any fault"
                print(f"mutants: {job.name} {how}, and is not used: {' '.join(job.command)}", flush=True)
            self.usable[job] = outcome == "pass"
        return [job for job in jobs if self.usable[job]]

    def seen_by(self, texts, groups):
        """Returns the name of the first job that fails with the texts in place, None if all pass, "build" if they do
        not compile. Each group of jobs is built when the ones before it have passed."""
        for group in groups:
            jobs = self.prepare(group)
            with in_place(self.root, texts):
                if jobs and not self.programs.build(jobs):
                    return "build"
                for job in jobs:
                    if self.programs.outcome(job) != "pass":
                        return job.name
        return None

    def finding_of(self, fault, tests):
        """Returns (what is wrong with a planted fault, or None if a test sees it; the job that sees it)."""
        try:
            texts = planted.texts_with(self.root, fault)
        except planted.NotFound as error:
            return f"cannot be planted: {error}", None
        jobs = self.programs.of_tests(tests)
        if not jobs:
            return "names no test that can be run here", None
        by = self.seen_by(texts, [[job] for job in jobs])
        if by == "build":
            return "does not build", None
        if by is None and not any(self.usable[job] for job in jobs):
            return "names no test that can be run here", None
        return (None, by) if by else (f"is not seen by {', '.join(tests)}", None)


@contextlib.contextmanager
def switched_in(trial):
    """Gives a build with switches, and takes them out of the tree at the end."""
    build = switched_build.SwitchedBuild(trial.programs, trial.root)
    try:
        yield build
    finally:
        with no_signals():
            build.restore()


class Tally:
    """Counts who saw the random faults, and prints each."""

    def __init__(self):
        self.caught, self.survived, self.unbuildable = {}, [], 0

    def add(self, where, by, started):
        seconds = f"({time.monotonic() - started:.0f} s)"
        if by == "build":
            self.unbuildable += 1
            print(f"does not compile: {where} {seconds}", flush=True)
        elif by:
            self.caught[by] = self.caught.get(by, 0) + 1
            print(f"seen by {by}: {where} {seconds}", flush=True)
        else:
            self.survived.append(where)
            print(f"SURVIVES: {where} {seconds}", flush=True)

    def seen(self):
        return sum(self.caught.values())

    def total(self):
        return self.seen() + len(self.survived)

    def share(self):
        return self.seen() / self.total() if self.total() else 0

    def show(self, seed):
        print(f"mutants: seed {seed}: {self.seen()} of {self.total()} seen ({self.share():.0%}); "
              f"{self.unbuildable} did not compile")
        for name, number in sorted(self.caught.items(), key=lambda item: -item[1]):
            print(f"  {number:4} by {name}")
        print("".join(f"  survives: {where}\n" for where in self.survived), end="")
