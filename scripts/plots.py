#!/usr/bin/env python3
"""Measures calls over depth, payload and number of connections, and writes tables and plots.

usage: plots.py COMMAND [--seconds 0.5] [--rounds 3] [--connections-max 10000] [--out docs]

COMMAND is a release build of `rpcrdma` (`make bench` gives it). Each point is one run of `rpcrdma bench`, client and
server on one CPU, next to bare TCP. Writes OUT/benchmarks.md and, by gnuplot, OUT/benchmarks-*.svg. A point that cannot
be measured here (descriptors, memory) is left out and named.
"""
import argparse
import json
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SIZES = ("512", "1k", "2k", "4k", "8k", "16k", "32k", "64k", "128k", "256k", "512k", "1m", "2m", "4m", "8m", "16m")
CONNECTIONS = (1, 10, 100, 1000, 10000)
BOUND_S = 900
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


def plot(path, title, label, rows, names, number):
    """Three panels: rate, p50 and CPU time of a call."""
    panels = (("ops_per_s", "calls/s"), ("p50_us", "p50, us"), ("cpu_ns_per_call", "CPU of a call, ns"))
    with tempfile.TemporaryDirectory(prefix="rpcrdma-plots.") as folder:
        script = [f'set terminal svg size 1200,420 font "sans,12" background "white"', f'set output "{path}"',
                  "set multiplot layout 1,3", "set logscale xy", "set grid", f'set xlabel "{label}"', "set key bottom right"]
        for key, panel in panels:
            curves = []
            for i, name in enumerate(names):
                data = pathlib.Path(folder, f"{key}-{i}")
                data.write_text("".join(f"{number(x)} {row[name][key]}\n" for x, row in rows
                                        if name in row and row[name][key] > 0))
                if data.stat().st_size > 0:
                    curves.append(f'"{data}" using 1:2 with linespoints title "{name}"')
            script += [f'set title "{title}: {panel}"', "plot " + ", ".join(curves)] if curves else []
        result = subprocess.run(["gnuplot"], input="\n".join(script), capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise Trouble(f"gnuplot: {result.stderr.strip()}")


def processor():
    found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def one_case(name):
    return lambda x: (f"{name}_qd{x}", f"{name}_qd{x}", ())


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=0.5, help="of measuring for each point (0.5)")
    parser.add_argument("--rounds", type=int, default=3, help="that these are split into (3)")
    parser.add_argument("--connections-max", type=int, default=CONNECTIONS[-1], help="leave out points with more")
    parser.add_argument("--points", type=int, default=0, help="only the first so many of each sweep, for a try; 0: all")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("docs"))
    return parser.parse_args()


def main():
    options = parse_arguments()
    if shutil.which("gnuplot") is None:
        raise Trouble("gnuplot is missing: apt-get install --no-install-recommends gnuplot-nox")
    bench = Bench(options)
    few = options.points or None
    depth = bench.sweep(DEPTHS[:few], {
        "NULL": one_case("null"), "bare TCP": lambda x: (f"null_qd{x}", f"raw_null_qd{x}", ()),
        "read 4 KiB": one_case("read_4k"), "write 4 KiB": one_case("write_4k")})
    payload = bench.sweep(SIZES[:few], {
        "read": lambda x: (f"read_{x}_qd8,write_{x}_qd8", f"read_{x}_qd8", ()),
        "write": lambda x: (f"read_{x}_qd8,write_{x}_qd8", f"write_{x}_qd8", ()),
        "bare TCP": lambda x: (f"read_{x}_qd8,write_{x}_qd8", f"raw_{x}_qd8", ())})
    counts = [count for count in CONNECTIONS if count <= options.connections_max][:few]

    def of_connections(count):  # long enough that each has its turn several times
        return ("--connections", count - 1, "--seconds", max(float(options.seconds), count / 800))

    connections = bench.sweep(counts, {
        "NULL": lambda x: ("null_qd8", "null_qd8", of_connections(x)),
        "bare TCP": lambda x: ("null_qd8", "raw_null_qd8", of_connections(x))})
    sweeps = (("depth", "Depth", "Calls in flight on one connection", depth, int),
              ("payload", "Payload", "Bytes of data in a call, depth 8", payload, bytes_of),
              ("connections", "Connections", "Connections with NULL calls at depth 8 each; latencies are those of one",
               connections, int))
    parts = [f"""# Benchmarks

Written by `make bench` ([scripts/plots.py](../scripts/plots.py)): {processor()}, {platform.system()} {platform.release()}.
Client and server are two processes on one CPU, over software iWARP without CRC; each point is the median of
{options.rounds} rounds, {options.seconds} s together (more with many connections), next to bare TCP with the same payload and depth. CPU is that of all
processes, for each call. Shared machines are noisy: compare within a row ([performance.md](performance.md)).
"""]
    for name, title, label, rows, number in sweeps:
        names = list(dict.fromkeys(key for _, row in rows for key in row))
        plot(options.out / f"benchmarks-{name}.svg", title, label, rows, names, number)
        parts.append(f"## {title}\n\n{label}.\n\n![{title}](benchmarks-{name}.svg)\n\n{table(rows, name, names)}\n")
    if bench.missing:
        parts.append("## Not measured\n\n" + "\n".join(f"- {each}" for each in bench.missing) + "\n")
    (options.out / "benchmarks.md").write_text("\n".join(parts))


if __name__ == "__main__":
    try:
        main()
    except Trouble as trouble:
        print(f"plots: {trouble}", file=sys.stderr)
        sys.exit(2)
