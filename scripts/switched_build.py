"""Builds one tree with many faults, each behind its switch, and runs tests with one of them on. See switched.py."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import tempfile
import threading
import time
import typing

import switched
import test_programs

NAMED = re.compile(r"\bplanted-(\d+)\b")
LOCATED = re.compile(r"^(?:In file included from |\s+from )?([^\s:][^:\n]*):(\d+)[:,]", re.M)
ERROR = re.compile(r"^(?=\S.*: (?:fatal )?error: )", re.M)
STEP = re.compile(r"^\[\d+/\d+\] .*\n", re.M)  # ninja's line of one that went well
# From the second number of rounds on a fault whose form does not compile gets no other one.
ROUNDS_MAX, ROUNDS_WITH_FORMS = 40, 8


class Change(typing.NamedTuple):
    """One place that a fault changes."""
    file: str
    first: int  # line, counted from 0
    last: int
    new: str


class Switch:
    """A fault of a build: its number, its changes, and the form that each of them has."""

    def __init__(self, number, fault, changes, lines_of):
        self.number, self.fault, self.changes = number, fault, changes
        self.forms = []  # for each change those that have not failed, the best first
        for change in changes:
            old = "\n".join(lines_of(change.file)[change.first:change.last + 1])
            self.forms.append(list(switched.forms(old, change.new, number)))

    def has_forms(self):
        return all(self.forms)

    def give_up_form(self):
        """Goes on to the next form, of the first change that has another one; returns whether there is any."""
        for forms in self.forms:
            if len(forms) > 1:
                del forms[0]
                return True
        self.forms = [[]]
        return False


class Verdict(typing.NamedTuple):
    switch: Switch
    by: str  # the job that failed, or None
    is_reached: bool  # true if a job came to the fault
    seconds: float


class SwitchedBuild:
    """Builds the tests of a tree with the faults of one wave after the other."""

    def __init__(self, programs, root):
        self.programs, self.root = programs, root
        self.texts = {}  # name: the file as it was, for each that gets a switch

    def lines_of(self, name):
        if name not in self.texts:
            self.texts[name] = (self.root / name).read_text()
        return self.texts[name].splitlines()

    def waves(self, faults, changes_of, jobs_of):
        """Builds the faults and yields (the switches that are in the build, those left to a build of their own) of each
        wave: two faults that change the same line come in different ones. `changes_of` returns a fault's changes,
        `jobs_of` what runs with it."""
        left = [Switch(number, fault, changes_of(fault), self.lines_of) for number, fault in enumerate(faults, 1)]
        while left:
            taken, wave, later = set(), [], []
            for switch in left:
                lines = {(change.file, line) for change in switch.changes for line in range(change.first, change.last + 1)}
                (later if taken & lines else wave).append(switch)
                taken |= lines if switch in wave else set()
            left = later
            built = self.built(wave, jobs_of)
            yield built, [switch for switch in wave if switch not in built]

    def built(self, wave, jobs_of):
        """Builds the wave; returns the switches that compile."""
        usable = [switch for switch in wave if switch.has_forms()]
        jobs = list(dict.fromkeys(job for switch in usable for job in jobs_of(switch.fault)))
        if not jobs:
            return []
        # A form that does not compile in a header makes all be compiled anew, so a few objects try them first.
        first = self.programs.covering(jobs, {change.file for switch in usable for change in switch.changes})
        for turn in range(ROUNDS_MAX):
            self.write(usable)
            succeeds, output = self.programs.build_all([] if first else jobs, "-k", "0", *first)
            if succeeds and not first:
                return usable
            if succeeds:
                first = []
                continue
            guilty = self.guilty(output, usable)
            if not guilty:
                break
            usable = [switch for switch in usable
                      if switch not in guilty or (turn < ROUNDS_WITH_FORMS and switch.give_up_form())]
            print(f"mutants: {len(guilty)} forms did not compile; {len(usable)} faults are in the build", flush=True)
        print(f"mutants: the faults do not compile in one build; each gets its own:\n{STEP.sub('', output)[-4000:]}", flush=True)
        self.restore()
        if not self.programs.build(jobs):
            raise SystemExit("mutants: the tree does not build without a fault either")
        return []

    def write(self, switches):
        """Writes the files as they were, with these switches in them. Files that stay the same keep their time."""
        edits = {name: [] for name in self.texts}
        for switch in switches:
            for change, forms in zip(switch.changes, switch.forms):
                edits[change.file].append((change, switch.number, forms[0]))
        for name, changes in edits.items():
            text = self.with_switches(name, changes) if changes else self.texts[name]
            if (self.root / name).read_text() != text:
                (self.root / name).write_text(text)

    def with_switches(self, name, edits):
        """Returns the file's text. The compiler names the place of an error as planted-N inside of a form, and by the
        file's own lines elsewhere."""
        lines = self.texts[name].splitlines()
        for change, number, form in sorted(edits, key=lambda each: -each[0].first):
            lines[change.first:change.last + 1] = [f'#line 1 "planted-{number}"', form,
                                                   f'#line {change.last + 2} "{self.root / name}"']
        header = [f'#include "{self.root / switched.INCLUDED}"', f'#line 1 "{self.root / name}"']
        return "\n".join(header + lines) + "\n"

    def guilty(self, output, switches):
        """Returns the switches that the compiler's errors are about."""
        by_number = {switch.number: switch for switch in switches}
        found, parts = set(), ERROR.split(output)
        for before, part in zip(parts, parts[1:]):
            line = part.partition("\n")[0]
            # The error names the fault itself, or the lines in front and behind say how the compiler came to it.
            found |= self.named(line, switches) or self.named("\n".join([*before.splitlines()[-20:], part]), switches)
        return {by_number[number] for number in found}

    def named(self, text, switches):
        """Returns the numbers of the switches that these lines of the compiler are about."""
        known = {switch.number for switch in switches}
        found = {int(number) for number in NAMED.findall(text)} & known
        return found or {number for name, line in LOCATED.findall(text)
                         if (number := self.before(name, int(line), switches))}

    def before(self, name, line, switches):
        """Returns the number of the last switch of the file in front of the line; None if there is none."""
        path = pathlib.Path(name)
        if not path.is_relative_to(self.root):
            return None
        name = str(path.relative_to(self.root))
        places = [(change.first, switch.number) for switch in switches for change in switch.changes
                  if change.file == name and change.last + 1 < line]
        return max(places)[1] if places else None

    def restore(self):
        self.write([])


class Runs:
    """Runs the jobs of the faults of one build, several at a time."""

    def __init__(self, programs):
        self.programs = programs
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rpcrdma-mutants."))
        self.without = {}  # job: (lock, whether it passes with all switches off, or None as long as nobody knows)

    def outcome(self, job, number):
        """Runs the job with this switch on; 0 is none. It has a folder of its own, since another one may use the same
        names."""
        own = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        variables = {switched.VARIABLE: str(number), f"{switched.VARIABLE}_REACHED": str(self.mark(number)),
                     "TMPDIR": str(own), "TEST_TMPDIR": f"{own}/"}
        try:
            return self.programs.outcome(job, variables)
        finally:
            shutil.rmtree(own, ignore_errors=True)

    def mark(self, number):
        return self.folder / f"{number}.reached"

    def passes_without(self, job):
        """Returns whether the job passes with all switches off, in the same surroundings."""
        lock, _ = self.without.setdefault(job, (threading.Lock(), []))
        with lock:
            known = self.without[job][1]
            if not known:
                known.append(self.outcome(job, 0) == "pass")
                if not known[0]:
                    print(f"mutants: {job.name} does not pass with all switches off, and does not count in this build: "
                          f"{' '.join(job.command)}", flush=True)
            return known[0]

    def seen_by(self, switch, jobs):
        started = time.monotonic()
        by = next((job.name for job in jobs
                   if self.outcome(job, switch.number) == "fail" and self.passes_without(job)), None)
        return Verdict(switch, by, self.mark(switch.number).exists(), time.monotonic() - started)

    def all(self, switches, jobs_of):
        """Runs the jobs of each switch with its fault on until one fails, and yields the verdicts as they come."""
        pool = concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or 0) or os.cpu_count() or 1)
        try:
            waiting = [pool.submit(self.seen_by, switch, jobs_of(switch.fault)) for switch in switches]
            for done in concurrent.futures.as_completed(waiting):
                yield done.result()
        finally:
            with test_programs.ending():
                pool.shutdown(wait=True, cancel_futures=True)
            shutil.rmtree(self.folder, ignore_errors=True)
