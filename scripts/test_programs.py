"""Finds, builds and runs the tests of a build folder, for scripts/mutants.py.

Nobody has to keep a list of them: CTest names the programs, lowest layer first; ninja names their objects;
compile_commands.json names the sources of the objects; and the sources name the tests. So a program may be renamed,
split or merged. It need not be built before.
"""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import typing

# The limits of one program: a fault that makes it hang or grow is seen.
TIME_MAX = 150  # seconds; under AddressSanitizer system_test takes 90
MEMORY_MAX = 4 << 30  # bytes: of address space, or with AddressSanitizer of memory in use
# The simulator runs these, without the recorded behaviour: any change makes that differ, also one that is no fault.
SEEDS = "1..150"
# The tests in these folders may see a fault in a file of the folder.
SEEN_BY = {"src": ("src", "tests/golden", "tests/conformance", "tests/system"),
           "include": ("src", "tests/golden", "tests/conformance", "tests/system", "tests/gen"),
           "gen": ("gen", "tests/gen"), "apps": ("apps",), "tools": ("tools",)}
# These are tested on captures, by scripts, and by no program of another folder.
SEEN_BY_SCRIPTS = {"src/explain/": ("explain_check_test", "explain_verdict_test", "explain_test")}
# An argument of CMake: in brackets, in quotes, or bare.
ARGUMENT = re.compile(r'\[(?:=*)\[(.*?)\](?:=*)\]|"((?:[^"\\]|\\.)*)"|([^\s"]+)')
PLUG_IN = re.compile(r"(?:lib|tests/system/stand-in)/librpcrdma_\w+\.so")
TEST = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", re.M)


class OutOfTime(Exception):
    """The time that a run may take is over."""


class Job(typing.NamedTuple):
    """A command whose failure shows a fault."""
    name: str
    command: tuple
    targets: tuple = ()  # of ninja
    environment: tuple = ()  # of NAME=VALUE
    skip_code: int = -1  # the exit status with which the test says that it cannot be run here


class Clock:
    """Measures the time that is left; without `seconds` it is unlimited."""

    def __init__(self, seconds=None):
        self.end = None if seconds is None else time.monotonic() + seconds

    def left(self):
        return None if self.end is None else self.end - time.monotonic()


running = set()  # process groups, each led by the process of that number
is_ending = False


@contextlib.contextmanager
def ending():
    """Within this block nothing runs: what does is killed, and what another thread starts is, too."""
    global is_ending
    is_ending = True
    for number in list(running):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(number, signal.SIGKILL)
    try:
        yield
    finally:
        is_ending = False


def run(command, clock=None, time_max=None, memory_max=None, **options):
    """Returns (exit status, output), with None as the status if the command took `time_max`. `memory_max` limits its
    address space, in bytes. Raises OutOfTime when the clock's time is over."""
    left = clock.left() if clock else None
    if left is not None and left <= 0:
        raise OutOfTime
    limits = [limit for limit in (left, time_max) if limit is not None]
    if memory_max is not None:
        command = ["prlimit", f"--as={memory_max}", "--", *command]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                               start_new_session=True, **options)
    running.add(process.pid)
    try:
        if is_ending:
            os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate(timeout=min(limits, default=None))
        return process.returncode, output.decode(errors="replace")
    except subprocess.TimeoutExpired:
        if left is not None and clock.left() <= 0:
            raise OutOfTime from None
        return None, ""
    finally:
        # This also ends what the command started and left behind.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        running.discard(process.pid)


def listed_tests(folder):
    """Yields (name, command, properties) of CTest's tests, in the order of the CMakeLists.txt. It reads the files that
    CMake has written: `ctest --show-only` gives no command for a program that is not built."""
    tests, folders = {}, []
    for line in (folder / "CTestTestfile.cmake").read_text().splitlines():
        called = re.match(r"(add_test|set_tests_properties|subdirs)\((.*)\)$", line)
        if not called:
            continue
        words = [re.sub(r"\\(.)", r"\1", quoted) if not bracketed and not bare else bracketed or bare
                 for bracketed, quoted, bare in ARGUMENT.findall(called[2])]
        if called[1] == "add_test":
            tests[words[0]] = (words[1:], {})
        elif called[1] == "set_tests_properties":
            tests[words[0]][1].update(zip(words[2::2], words[3::2]))
        else:
            folders.append(folder / words[0])
    for name, (command, properties) in tests.items():
        yield name, command, properties
    for each in folders:
        yield from listed_tests(each)


class TestPrograms:
    """Builds and runs the tests of `build`, whose sources are in `tree`."""

    def __init__(self, tree, build, clock=None):
        self.tree, self.build_folder, self.clock = tree, build, clock or Clock()
        self.built_steps, self.built_seconds = 1, 4 / (os.cpu_count() or 1)  # a guess, until something has been built
        self.programs = {}  # job of a whole GoogleTest program, in CTest's order: names of its sources
        self.by_name = {}  # name of a CTest test: its job
        self.of_test = {}  # Suite.Test: jobs of the programs that have it
        self.simulation = None
        self.compiled = set()  # names of sources
        # AddressSanitizer reserves terabytes of address space, and counts the memory in use by itself.
        self.has_asan = "address" in re.search(r"^RPCRDMA_SANITIZE:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)[1]
        outputs = self._outputs()
        for name, command, properties in listed_tests(build):
            self._add(name, command, properties, outputs)
        self._find_sources()

    def _command(self, *command):
        status, output = run(command, self.clock, cwd=self.build_folder)
        if status != 0:
            raise SystemExit(f"mutants: {' '.join(command)} fails:\n{output[-4000:]}")
        return output

    def _outputs(self):
        return set(re.findall(r"^(.+?): (?!phony)", self._command("ninja", "-t", "targets", "all"), re.M))

    def _add(self, name, command, properties, outputs):
        targets = [str(path.relative_to(self.build_folder)) for path in map(pathlib.Path, command)
                   if path.is_relative_to(self.build_folder)]
        targets = tuple(target for target in targets if target in outputs)
        # The tests of the command are scripts, which run where a fault names them: all of them would take minutes.
        built = f"{self.build_folder}/"
        named = [word.removeprefix(f"RPCRDMA={built}") for word in command if word.startswith(f"RPCRDMA={built}")]
        if not targets and named and set(named) <= outputs:
            # The command loads these while it runs, so that none of its own targets names them.
            plug_ins = sorted(filter(PLUG_IN.fullmatch, outputs))
            self.by_name[name] = Job(name, tuple(command), (*named, *plug_ins), (), -1)
            return
        # The test is a program, or a script that runs one in surroundings of its own. Other scripts take minutes.
        if str(self.build_folder / (targets or ("none",))[-1]) not in (command[0], command[-1]):
            return
        if "PASS_REGULAR_EXPRESSION" in properties:  # its exit status says nothing
            return
        # A part of a program stands for the whole.
        environment = [each for each in properties.get("ENVIRONMENT", "").split(";") if each and not each.startswith("GTEST_")]
        job = Job(name, tuple(command), targets, tuple(environment),
                  int(properties.get("SKIP_RETURN_CODE", -1)))
        if "simulation" in properties.get("LABELS", "").split(";") and "--behaviour" in command:
            job = job._replace(command=(command[0], "--seeds", SEEDS))
            self.simulation = self.simulation or job
        self.by_name[job.name] = job
        if job.targets not in [each.targets for each in self.programs]:
            self.programs[job] = set()

    def _find_sources(self):
        """Keeps those of the programs that have tests of GoogleTest, and notes which program has which test."""
        commands = json.loads((self.build_folder / "compile_commands.json").read_text())
        sources_of = {re.search(r" -o (\S+)", each["command"])[1]: self._files_of(each["file"]) for each in commands}
        self.compiled = {os.path.relpath(source, self.tree) for sources in sources_of.values() for source in sources}
        tests_of = {}
        listed = self._command("ninja", "-t", "query", *(job.targets[0] for job in self.programs))
        objects = {}
        for line in listed.splitlines():
            if not line.startswith(" "):
                inputs = objects.setdefault(line.rstrip(":"), [])
            elif line.startswith("    "):
                inputs.append(line.strip())
        for job in list(self.programs):
            sources = {source for each in objects.get(job.targets[0], []) for source in sources_of.get(each, ())}
            for source in sources:
                if source not in tests_of:
                    tests_of[source] = [".".join(names) for names in TEST.findall(pathlib.Path(source).read_text())]
            names = {name for source in sources for name in tests_of[source]}
            if not names:
                del self.programs[job]
                continue
            self.programs[job] = {os.path.relpath(source, self.tree) for source in sources if tests_of[source]}
            for name in names:
                self.of_test.setdefault(name, []).append(job)

    def _files_of(self, source):
        """Returns the files of the tree that the compiler reads as this source: itself, or those of a batch. Files that
        are generated may not be there yet, and have no tests."""
        path = pathlib.Path(source)
        if not path.is_relative_to(self.build_folder):
            return [source]
        if not path.parent.name.endswith(".batches"):
            return []
        return [name for name in re.findall(r'^#include "(.+\.cc)"$', path.read_text(), re.M) if pathlib.Path(name).is_absolute()]

    def compiles(self, name):
        """Returns whether this build has the file; any header counts as part of it."""
        return name.endswith(".h") or name in self.compiled

    def of_tests(self, tests):
        """Returns the jobs that run these tests: programs with a filter, lowest layer first, then tests of CTest."""
        wanted, others = {}, []
        for test in tests:
            if test in self.by_name:
                others.append(self.by_name[test])
            name = next((part for part in test.split("/") if "." in part), None)  # as the source has it
            for job in self.of_test.get(name, ()):
                wanted.setdefault(job, []).append(test)
        order = list(self.programs)
        return [job._replace(command=(*job.command, filter_of(wanted[job]))) if len(job.command) == 1 else job
                for job in sorted(wanted, key=order.index)] + others

    def units(self, name):
        """Returns the programs with tests beside the file: in its folder, or in the next one above that has any."""
        folder = pathlib.PurePath(name).parent
        while folder.parts:
            found = [job for job, sources in self.programs.items()
                     if any(pathlib.PurePath(source).parent == folder for source in sources)]
            if found:
                return found
            folder = folder.parent
        return []

    def others(self, name):
        """Returns the other programs that may see a fault in this file, and the simulator."""
        for folder, scripts in SEEN_BY_SCRIPTS.items():
            if name.startswith(folder):
                return [self.by_name[script] for script in scripts if script in self.by_name]
        units = self.units(name)
        folders = tuple(folder + "/" for folder in SEEN_BY.get(pathlib.PurePath(name).parts[0], ()))
        found = [job for job, sources in self.programs.items()
                 if job not in units and any(source.startswith(folders) for source in sources)]
        in_library = name.startswith(("src/", "include/")) and self.simulation
        return found + ([self.simulation] if in_library else [])

    def steps(self, jobs):
        """Returns how many commands ninja would run to build what the jobs need."""
        _, output = run(["ninja", "-n", *targets_of(jobs)], self.clock, cwd=self.build_folder)
        counted = re.search(r"^\[\d+/(\d+)\]", output, re.M)
        return int(counted[1]) if counted else 0

    def has_time_to_build(self, jobs):
        """Returns whether the time that is left is enough for that, as far as the builds before it tell."""
        left = self.clock.left()
        return left is None or self.steps(jobs) * self.built_seconds / self.built_steps <= left

    def covering(self, jobs, names):
        """Returns objects of what the jobs need that together read these files of the tree, few of them: those that were
        compiled before, since only of these ninja knows what they read."""
        needed = set(re.findall(r" -o (\S+\.o)\b", self._command("ninja", "-t", "commands", *targets_of(jobs))))
        reads, read_by = {}, None  # object: the files of `names` that it reads
        for line in self._command("ninja", "-t", "deps").splitlines():
            if not line.startswith(" "):
                read_by = line.partition(": #deps")[0]
            elif line.strip() and read_by in needed:
                path = os.path.relpath(os.path.join(self.build_folder, line.strip()), self.tree)
                if path in names:
                    reads.setdefault(read_by, set()).add(path)
        left, found = set(names), []
        while reads:
            best = max(reads, key=lambda name: (len(reads[name] & left), -len(reads[name])))
            if not reads[best] & left:
                break
            left -= reads.pop(best)
            found.append(best)
        return found

    def build(self, jobs):
        """Builds what the jobs need; returns whether that succeeded."""
        return self.build_all(jobs)[0]

    def build_all(self, jobs, *options):
        """Builds what the jobs need, with options and further targets for ninja; returns (whether that succeeded, the
        output)."""
        steps = self.steps(jobs) if self.clock.left() is not None else 0
        started = time.monotonic()
        parallel = ["-j", os.environ["JOBS"]] if "JOBS" in os.environ else []
        # Without the first ccache keeps no file with precompiled headers, as in scripts/build.sh. The second lets Clang
        # only warn where a fault leaves a variable without a use; a folder of make check has warnings as errors.
        environment = {"CCACHE_SLOPPINESS": "pch_defines,time_macros", "CCC_OVERRIDE_OPTIONS": "# +-Wno-error",
                       **os.environ}
        status, output = run(["ninja", *parallel, *options, *targets_of(jobs)], self.clock, cwd=self.build_folder,
                             env=environment)
        if status == 0 and steps >= 5:
            self.built_steps += steps
            self.built_seconds += time.monotonic() - started
        return status == 0, output

    def outcome(self, job, variables=None):
        """Runs the job, with these variables in its environment; returns "pass", "fail" or "skip"."""
        environment = {**os.environ, **dict(each.split("=", 1) for each in job.environment), **(variables or {})}
        if self.has_asan:
            limit = f"hard_rss_limit_mb={MEMORY_MAX >> 20}"
            environment["ASAN_OPTIONS"] = ":".join(filter(None, [environment.get("ASAN_OPTIONS"), limit]))
        status, _ = run(job.command, self.clock, TIME_MAX, None if self.has_asan else MEMORY_MAX,
                        cwd=self.build_folder, env=environment)
        return "pass" if status == 0 else "skip" if status == job.skip_code else "fail"


def targets_of(jobs):
    return sorted({target for job in jobs for target in job.targets})


def filter_of(names):
    return "--gtest_filter=" + ":".join(f"{name}:*/{name}:{name}/*:*/{name}/*" for name in names)
