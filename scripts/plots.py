#!/usr/bin/env python3
"""Measures calls over depth, payload and number of connections, and writes tables and plots.

usage: plots.py COMMAND [--seconds 0.5] [--rounds 3] [--connections-max 10000] [--only SWEEP] [--out docs]
       plots.py --redraw [--out docs]

COMMAND is a release build of `rpcrdma` (`make bench` gives it). Each point is one run of `rpcrdma bench`, client and
server on one CPU, next to bare TCP. Writes OUT/benchmarks.md and OUT/benchmarks-*.svg. A point that cannot be measured
here (descriptors, memory) is left out and named.
"""
import argparse
import json
import pathlib
import platform
import re
import subprocess
import sys

import svg_plot

DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SIZES = ("512", "1k", "2k", "4k", "8k", "16k", "32k", "64k", "128k", "256k", "512k", "1m", "2m", "4m", "8m", "16m")
CONNECTIONS = (1, 10, 100, 1000, 10000)
BOUND_S = 900
# A contender has one colour in all plots (Okabe and Ito's, which colour-blind people tell apart).
COLOURS = {"NULL": "#0072b2", "bare TCP": "#555555", "read": "#009e73", "write": "#d55e00"}
COLUMNS = ("ops_per_s", "p50_us", "p99_us", "cpu_ns_per_call", "server_cpu_ns_per_call")


class Trouble(Exception):
    """Why nothing can be measured."""


def bytes_of(text):
    scale = {"k": 1 << 10, "m": 1 << 20}.get(text[-1])
    return int(text[:-1]) * scale if scale else int(text)


class Bench:
    def __init__(self, options):
        self.options = options
        self.missing = []

    def run(self, case, *words):
        """{name of the case: figures}; empty when it cannot be measured."""
        command = [self.options.command, "bench", "--json", "--crc", "off", "--cpu", "same", "--provider", "siwarp",
                   "--rounds", self.options.rounds, "--cases", case, *words]
        if "--seconds" not in words:
            command += ["--seconds", self.options.seconds]
        print(f"plots: {case} {' '.join(map(str, words))}", file=sys.stderr, flush=True)
        try:
            result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False,
                                    timeout=BOUND_S)
        except OSError as error:
            raise Trouble(f"cannot run {self.options.command}: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            result = subprocess.CompletedProcess(command, 1, "", f"not done after {BOUND_S} s")
        if result.returncode != 0:
            said = (result.stderr.strip().splitlines() or ["it said nothing"])[-1]
            self.missing.append(f"{case} {' '.join(map(str, words))}: {said}".replace("  ", " "))
            return {}
        return {each["case"]: each for each in json.loads(result.stdout)}

    def sweep(self, points, series):
        """Rows of (x, {series: figures}); `series`: {name: (case of x, its name in the results, further words)}."""
        rows = []
        for x in points:
            row, runs = {}, {}
            for name, describe in series.items():
                case, found_as, words = describe(x)
                if (case, words) not in runs:
                    runs[case, words] = self.run(case, *words)
                if found_as in runs[case, words]:
                    row[name] = runs[case, words][found_as]
            rows.append((x, row))
        return rows


def table(rows, first, names):
    lines = [f"| {first} |" + "".join(f" {name}: calls/s | p50 us | p99 us | CPU ns | server CPU ns |" for name in names),
             "|---|" + "---|" * (len(COLUMNS) * len(names))]
    for x, row in rows:
        cells = []
        for name in names:
            figures = row.get(name)
            cells += [f"{figures[key]:,.1f}" if key.endswith("_us") else f"{figures[key]:,.0f}" for key in COLUMNS] \
                if figures else ["-"] * len(COLUMNS)
        lines.append(f"| {x} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def rows_of(text):
    """Returns the rows of a table that table() wrote, as sweep() had them but for the digits that it left out."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    names = [heading.split(":")[0] for heading in lines[0][1::len(COLUMNS)]]
    rows = []
    for x, *cells in lines[1:]:
        figures = [cells[i:i + len(COLUMNS)] for i in range(0, len(cells), len(COLUMNS))]
        rows.append((x, {name: {key: float(cell.replace(",", "")) for key, cell in zip(COLUMNS, each)}
                         for name, each in zip(names, figures) if each[0] != "-"}))
    return rows


def names_of(rows):
    return list(dict.fromkeys(key for _, row in rows for key in row))


def plot(path, sweep, rows):
    """Draws three panels: rate, median latency and CPU time of a call."""
    panels = []
    for title, key, scale, form in (("Calls per second", "ops_per_s", 1, svg_plot.count_text),
                                    ("Median latency of a call", "p50_us", 1000, svg_plot.time_text),
                                    ("CPU time of a call", "cpu_ns_per_call", 1, svg_plot.time_text)):
        curves = {name: [(sweep.number(x), row[name][key] * scale) for x, row in rows
                         if name in row and row[name][key] > 0] for name in names_of(rows)}
        curves = {name: points for name, points in curves.items() if points}
        if curves:
            panels.append((title, form, curves))
    places = [sweep.number(x) for x, _ in rows]
    if panels:
        marks = places[::sweep.mark_each]
        svg_plot.draw(path, panels, sweep.x_label, svg_plot.Axis(places, sweep.form, marks), COLOURS)


def processor():
    found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def one_case(name):
    return lambda x: (f"{name}_qd{x}", f"{name}_qd{x}", ())


class Sweep:
    """One section of benchmarks.md: a table, and its plot."""

    def __init__(self, name, title, x_label, points, number, form, mark_each, series):
        self.name, self.title, self.x_label, self.points = name, title, x_label, points
        self.number, self.form, self.mark_each, self.series = number, form, mark_each, series


def sweeps(options):
    counts = [count for count in CONNECTIONS if count <= options.connections_max]

    def of_connections(count):  # long enough that each has its turn several times
        return ("--connections", count - 1, "--seconds", max(float(options.seconds), count / 800))

    return (
        Sweep("depth", "Depth", "Calls in flight on one connection", DEPTHS, int, svg_plot.count_text, 1, {
            "NULL": one_case("null"), "bare TCP": lambda x: (f"null_qd{x}", f"raw_null_qd{x}", ()),
            "read 4 KiB": one_case("read_4k"), "write 4 KiB": one_case("write_4k")}),
        Sweep("payload", "Payload", "Data in a call, 8 calls in flight", SIZES, bytes_of, svg_plot.bytes_text, 3, {
            "read": lambda x: (f"read_{x}_qd8,write_{x}_qd8", f"read_{x}_qd8", ()),
            "write": lambda x: (f"read_{x}_qd8,write_{x}_qd8", f"write_{x}_qd8", ()),
            "bare TCP": lambda x: (f"read_{x}_qd8,write_{x}_qd8", f"raw_{x}_qd8", ())}),
        Sweep("connections", "Connections", "Connections, 8 calls in flight on each", counts, int, svg_plot.count_text, 1, {
            "NULL": lambda x: ("null_qd8", "null_qd8", of_connections(x)),
            "bare TCP": lambda x: ("null_qd8", "raw_null_qd8", of_connections(x))}))


def sections_of(path):
    """Returns {title: text} of a file that main() wrote; the text before the first section has the title ""."""
    try:
        parts = re.split(r"^## (.*)\n", path.read_text(), flags=re.MULTILINE)
    except OSError as error:
        raise Trouble(f"cannot read {path}: {error.strerror}") from None
    return {"": parts[0], **dict(zip(parts[1::2], (part.strip("\n") for part in parts[2::2])))}


def section(sweep, rows, options):
    return f"""{sweep.x_label}. {processor()}, {platform.system()} {platform.release()}, \
{options.rounds} rounds, {options.seconds:g} s together{", or more" if sweep.name == "connections" else ""}.

![{sweep.title}](benchmarks-{sweep.name}.svg)

{table(rows, sweep.name, names_of(rows))}"""


HEADER = """# Benchmarks

Written by `make bench` ([scripts/plots.py](../scripts/plots.py)). Client and server are two processes on one CPU, over
software iWARP without CRC; each point is the median of the rounds, next to bare TCP with the same payload and depth.
Latencies are those of all calls of all connections, CPU is that of all processes, for each call. Shared machines are
noisy: compare within a row ([performance.md](performance.md)).
"""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", type=pathlib.Path, nargs="?")
    parser.add_argument("--seconds", type=float, default=0.5, help="of measuring for each point (0.5)")
    parser.add_argument("--rounds", type=int, default=3, help="that these are split into (3)")
    parser.add_argument("--connections-max", type=int, default=CONNECTIONS[-1], help="leave out points with more")
    parser.add_argument("--points", type=int, default=0, help="only the first so many of each sweep, for a try; 0: all")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("docs"))
    parser.add_argument("--only", action="append", choices=("depth", "payload", "connections"),
                        help="measure this sweep, and leave the others in OUT as they are; may be repeated")
    parser.add_argument("--redraw", action="store_true", help="measure nothing: draw what OUT/benchmarks.md has")
    options = parser.parse_args()
    if options.command is None and not options.redraw:
        parser.error("the command to measure is missing")
    return options


def main():
    options = parse_arguments()
    path = options.out / "benchmarks.md"
    all_of_them = sweeps(options)
    if options.redraw:
        sections = sections_of(path)
        for sweep in all_of_them:
            if sweep.title not in sections:
                raise Trouble(f"{path} has no section '{sweep.title}' to draw; measure it, with --only {sweep.name}")
            plot(options.out / f"benchmarks-{sweep.name}.svg", sweep, rows_of(sections[sweep.title]))
        return
    bench = Bench(options)
    sections = sections_of(path) if options.only else {}
    for sweep in all_of_them:
        if options.only and sweep.name not in options.only:
            continue
        rows = bench.sweep(sweep.points[:options.points or None], sweep.series)
        plot(options.out / f"benchmarks-{sweep.name}.svg", sweep, rows)
        sections[sweep.title] = section(sweep, rows, options)
    if bench.missing:
        sections["Not measured"] = "\n".join(f"- {each}" for each in bench.missing)
    sections.pop("", None)
    path.write_text("\n".join([HEADER] + [f"## {title}\n\n{text.strip()}\n" for title, text in sections.items()]))


if __name__ == "__main__":
    try:
        main()
    except Trouble as trouble:
        print(f"plots: {trouble}", file=sys.stderr)
        sys.exit(2)
