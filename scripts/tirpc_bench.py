#!/usr/bin/env python3
"""Measures an unchanged pair of rpcgen's over RDMA beside itself over TCP and beside a native pair, in turn in one run.

usage: tirpc_bench.py COMMAND PROGRAMS [--rounds 5] [--seconds 1] [--cpu same|spread] [--only NULL|results|arguments]
           COMMAND: an optimised rpcrdma; PROGRAMS: the folder of tirpc_blocks_server and tirpc_blocks_bench

Runs in a network and a mount namespace of its own, which takes root. Each row has the medians of calls a second, and the medians
of the rounds' ratios with their lower and upper quartiles. All processes are on one core, as those of `rpcrdma bench` and
scripts/pair.py are, unless --cpu is "spread". "native" is a client and a server of rpcrdma-gen's for the same .x file.
"""
import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading

BLOCKS = "536936705"
SBIN = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
CASES = (("NULL", "null", 0), ("64 KiB of results", "make", 65536), ("1 MiB of results", "make", 1048576),
         ("64 KiB of arguments", "length", 65536), ("1 MiB of arguments", "length", 1048576))


def inside(options):
    for words in (["mount", "-t", "tmpfs", "tmpfs", "/run"], ["ip", "link", "set", "lo", "up"]):
        subprocess.run(words, check=True)
    daemon = subprocess.Popen([shutil.which("rpcbind", path=SBIN), "-f"])
    pause = threading.Event()
    while not os.path.exists("/run/rpcbind.sock"):
        pause.wait(0.05)
    try:
        for crc in ("off", "on"):
            for table in (False, True):
                measure(options, crc, table)
    finally:
        daemon.kill()


def measure(options, crc, table):
    programs = pathlib.Path(options.programs)
    run = [options.command, "run", "--crc", crc]
    if table:
        run += ["--table", str(programs / "tirpc_blocks_table.so")]
    server = subprocess.Popen([*run, "--prefer-rdma", "--listen", "127.0.0.1:0", "--", programs / "tirpc_blocks_server"])
    pause = threading.Event()

    def registered():
        listed = subprocess.run(["rpcinfo"], capture_output=True, text=True, check=False, env={**os.environ, "PATH": SBIN}).stdout
        netids = [line.split()[2] for line in listed.splitlines() if line.split()[:1] == [BLOCKS]]
        return {"rdma", "tcp"} <= set(netids)
    while not registered():
        pause.wait(0.05)

    native = subprocess.Popen([programs / "tirpc_blocks_native", "serve", crc], stdout=subprocess.PIPE, text=True)
    url = native.stdout.readline().strip()

    def rate(way, procedure, size):
        words = {"rdma": [*run, "--", programs / "tirpc_blocks_bench", "127.0.0.1", "rdma"],
                 "tcp": [programs / "tirpc_blocks_bench", "127.0.0.1", "tcp"],
                 "native": [programs / "tirpc_blocks_native", url, crc]}[way]
        words = [*words, procedure, str(size), str(options.seconds)]
        return float(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)
    try:
        print(f"CRC {crc}, {'with the table' if table else 'without a table'}")
        for name, procedure, size in [each for each in CASES if options.only in each[0]]:
            ways = ["rdma", "tcp"] if procedure == "null" else ["rdma", "tcp", "native"]
            turns = []
            for number in range(options.rounds):
                order = [ways[(number + place) % len(ways)] for place in range(len(ways))]
                turns.append({way: rate(way, procedure, size) for way in order})
            line = "".join(f"  {way} {statistics.median(turn[way] for turn in turns):8.0f}/s" for way in ways)
            for way in ways[1:]:
                ratios = [turn["rdma"] / turn[way] for turn in turns]
                low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
                line += f"   of {way} {middle:.2f} ({low:.2f} to {high:.2f})"
            print(f"  {name:20}{line}", flush=True)
    finally:
        for process in (server, native):
            process.kill()
            process.wait()
        subprocess.run(["rpcinfo", "-d", BLOCKS, "1"], check=False, env={**os.environ, "PATH": SBIN}, capture_output=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command")
    parser.add_argument("programs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--only", choices=("NULL", "results", "arguments"), default="", help="the cases with this word in their names")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--cpu", choices=("same", "spread"), default="same", help="one core for all processes, or all cores")
    options = parser.parse_args()
    if options.cpu == "same":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # the children inherit it
    if options.inside:
        return inside(options)
    return subprocess.run(["unshare", "-n", "-m", sys.executable, __file__, "--inside", *sys.argv[1:]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
