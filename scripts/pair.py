#!/usr/bin/env python3
"""Measures two builds of rpcrdma by turns and prints how fast NEW is next to OLD.

usage: pair.py OLD NEW [--cases null_qd32,read_4k_qd8,...] [--times 9] [--seconds 0.3] [--min 0.98]

OLD and NEW are build directories, `rpcrdma` commands, or git revisions. A revision is built with the release preset
in build-pair/REVISION, and kept there. In each turn every case is measured with both commands, one right after the
other, and the order is reversed from turn to turn, so that what the machine does meanwhile hits both alike. All
processes share one core. A turn gives one ratio; the table shows the median of the ratios and how far they lie apart.

Exit status: 0 no case is slower, 1 the median ratio of a case is below --min, 2 it could not be measured.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = "null_qd32,null_qd1,read_4k_qd8,write_4k_qd8,read_64k_qd8,write_64k_qd8,read_1m_qd1,write_1m_qd1"


class Trouble(Exception):
    """Why nothing can be measured. The text says what to do."""


def run(label, command, bound_s, **keywords):
    try:
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace",
                              timeout=bound_s, check=False, **keywords)
    except OSError as error:
        raise Trouble(f"{label}: cannot run {command[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise Trouble(f"{label}: {' '.join(map(str, command))} still ran after {bound_s:.0f} s") from None


def last_words(result):
    return (result.stderr.strip() or result.stdout.strip() or "it said nothing").splitlines()[-1]


def build_revision(label, name, revision, root, environment):
    """Its sources, unpacked once, and built; a build that is complete already costs a second."""
    folder = root / "build-pair" / revision[:12]
    if not folder.is_dir():
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        archive = subprocess.run(["git", "archive", revision], cwd=root, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", partial], input=archive, check=True)
        partial.rename(folder)
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    for step in (["--preset", "release", "-DRPCRDMA_BUILD_EXAMPLES=OFF", *launcher],
                 ["--build", "--preset", "release", "--parallel", os.cpu_count() or 1]):
        print(f"pair: {name}: cmake {step[0]} …", file=sys.stderr)
        # So that cmake, too, is looked up where the environment says.
        program = shutil.which("cmake", path=environment.get("PATH")) or "cmake"
        result = run(label, [program, *step], 3600, cwd=folder, env=environment)
        if result.returncode != 0:
            end = "\n".join((result.stdout + result.stderr).splitlines()[-20:])
            raise Trouble(f"{label}: {name} ({revision[:12]}) does not build in {folder}:\n{end}")
    return folder / "build" / "bin" / "rpcrdma"


def command_of(label, name, root=ROOT, environment=None):
    """The `rpcrdma` command that OLD or NEW means."""
    path = pathlib.Path(name)
    if path.is_dir():
        command = path.resolve() / "bin" / "rpcrdma"
        if not command.is_file():
            raise Trouble(f"{label}: {command} is not there; build it with `make build`, or name another directory")
        return command
    if path.is_file():
        return path.resolve()
    found = subprocess.run(["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"],
                           cwd=root, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise Trouble(f"{label}: {name} is neither a build directory, nor an rpcrdma command, nor a revision")
    return build_revision(label, name, found.stdout.strip(), root, environment or dict(os.environ))


class Contender:
    def __init__(self, label, command, options):
        self.label, self.command, self.options = label, command, options

    def complaint(self, text):
        return Trouble(f"{self.label} ({self.command}) {text}")

    def bench(self, *arguments):
        core = self.options.cpu
        result = run(self.label, [self.command, "bench", *arguments], 60 + 20 * self.options.seconds,
                     preexec_fn=lambda: os.sched_setaffinity(0, {core}))  # the children inherit it
        if result.returncode != 0:
            raise self.complaint(f"`bench {' '.join(map(str, arguments))}` ended with {result.returncode}: "
                                 f"{last_words(result)}")
        return result.stdout

    def check_cases(self):
        known = self.bench("--list").split()
        for case in self.options.cases:
            if case not in known:
                raise self.complaint(f"has no case {case}; it has: {' '.join(known)}")

    def rate(self, case):
        """Calls per second."""
        printed = self.bench("--json", "--cases", case, "--seconds", self.options.seconds, "--rounds", 1, "--crc",
                             self.options.crc, "--cpu", "same", "--provider", "siwarp")
        try:
            rate = next(float(each["ops_per_s"]) for each in json.loads(printed) if each["case"] == case)
        except (ValueError, KeyError, TypeError, StopIteration):
            raise self.complaint(f"printed no rate of {case}: {printed[:200]!r}") from None
        if rate <= 0:
            raise self.complaint(f"shows a rate of 0 for {case}; more --seconds may help, now {self.options.seconds}")
        return rate


def spread(values):
    """Between the quartiles; the same as in `rpcrdma bench`."""
    if len(values) < 2:
        return 0.0
    quartiles = statistics.quantiles(values, n=4, method="inclusive")
    return quartiles[2] - quartiles[0]


def measure(old, new, options):
    """{case: [(rate of old, rate of new) of each turn]}"""
    rates = {case: [] for case in options.cases}
    for turn in range(options.times):
        for case in options.cases:
            order = (old, new) if turn % 2 == 0 else (new, old)
            found = {contender: contender.rate(case) for contender in order}
            rates[case].append((found[old], found[new]))
        if sys.stderr.isatty():
            print(f"\r{turn + 1}/{options.times} ", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r        \r", end="", file=sys.stderr)
    return rates


def show(rates, options):
    """Prints the table; returns the cases that are slower."""
    print(f"{'case':<20} {'old':>10} {'new':>10} {'new/old':>8} {'iqr':>6} {'least':>6} {'most':>6}")
    slower = []
    for case, turns in rates.items():
        ratios = [new / old for old, new in turns]
        ratio = statistics.median(ratios)
        if ratio < options.min:
            slower.append(case)
        old, new = (statistics.median(side) for side in zip(*turns))
        print(f"{case:<20} {old:>10.0f} {new:>10.0f} {ratio:>8.3f} {spread(ratios):>6.3f} {min(ratios):>6.3f} "
              f"{max(ratios):>6.3f} {'SLOWER' if ratio < options.min else 'ok'}")
    print(f"\nMedians of {options.times} turns, {options.seconds} s each, CPU {options.cpu}, CRC {options.crc}; old and "
          "new in calls/s.")
    if slower:
        print(f"slower than {options.min} of old: {', '.join(slower)}")
    return slower


def number(kind, least, most):
    def parse(text):
        value = kind(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not within {least} … {most}")
        return value
    parse.__name__ = kind.__name__  # argparse names it where the text is no number
    return parse


def cases(text):
    names = [name for name in text.split(",") if name]
    if not names:
        raise argparse.ArgumentTypeError("names no case; `rpcrdma bench --list` shows them")
    return list(dict.fromkeys(names))


def parse_arguments():
    allowed = sorted(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD", help="build directory, command, or git revision")
    parser.add_argument("new", metavar="NEW", help="the same")
    parser.add_argument("--cases", type=cases, default=cases(CASES), help=f"with commas between; default: {CASES}")
    parser.add_argument("--times", type=number(int, 1, 1000), default=9, help="turns (9)")
    parser.add_argument("--seconds", type=number(float, 0.001, 3600), default=0.3, help="of one run (0.3)")
    parser.add_argument("--min", type=number(float, 0, 10), default=0.98, help="least median ratio (0.98)")
    parser.add_argument("--cpu", type=int, choices=allowed, default=allowed[-1], help="the one core that is used")
    parser.add_argument("--crc", choices=("on", "off"), default="off", help="iWARP CRC (off)")
    return parser.parse_args()


def main():
    options = parse_arguments()
    try:
        old, new = (Contender(label, command_of(label, name), options)
                    for label, name in (("OLD", options.old), ("NEW", options.new)))
        for contender in (old, new):
            contender.check_cases()
        return 1 if show(measure(old, new, options), options) else 0
    except Trouble as trouble:
        print(f"pair: {trouble}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
