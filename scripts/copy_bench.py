#!/usr/bin/env python3
"""CPU seconds per GiB of `rpcrdma cp` in both directions, beside `cp` and beside rsync over the loopback, all in one run.

usage: copy_bench.py BIN_DIRECTORY [--turns N] [--size MIB] [--folder DIR]

A large file is copied from and to `rpcrdma serve --nfs` over siwarp, with and without CRC, by cp on the same file system, and from
and to an rsync daemon, in turns. Counted is the time of both ends, user and system; the kernel's work that no process is charged
for is not. Each copy is made twice and the second one counts, since memory that is new to a virtual machine costs more. Every copy
is compared once. Prints medians with their quartiles, and the ratio to cp.
"""
import argparse
import contextlib
import filecmp
import os
import pathlib
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def seconds_of(pid):
    """CPU time of a process and of its children, for whose end it waits."""
    pause = threading.Event()
    while pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().strip():
        pause.wait(0.005)
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / TICKS


def seconds_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Bench:
    def __init__(self, options, work, stack):
        self.work, self.stack, self.size = work, stack, options.size << 20
        self.command = pathlib.Path(options.binaries).resolve() / "rpcrdma"
        self.local, self.served = work / "local", work / "served"
        for folder in (self.local, self.served):
            folder.mkdir()
        for name in (self.local / "large", self.served / "large"):
            with open(name, "wb") as file:
                block = os.urandom(1 << 20)
                for _ in range(options.size):
                    file.write(block)
        server, line = self.start(self.command, "serve", "--nfs", f"{self.served}:no_root_squash", "--export", "/data", "--port", "0",
                                  "--nfs-tcp-port", "0", "--provider", "siwarp", "--crc", "off", "--handle-key", work / "key")
        url = next(word for word in line.split() if word.startswith("nfs+rdma"))
        # way: (what copies down, what copies up, the server's process)
        self.ways = {"cp": (["cp", "--reflink=never", self.served / "large", self.local / "copy"],
                            ["cp", "--reflink=never", self.local / "large", self.served / "copy"], None)}
        for crc in ("on", "off"):
            copy = [self.command, "cp", "--provider", "siwarp", "--crc", crc]
            self.ways[f"rpcrdma cp, CRC {crc}"] = ([*copy, f"{url}/large", self.local / "copy"],
                                                   [*copy, self.local / "large", f"{url}/copy"], server.pid)
        self.add_rsync()

    def start(self, *words):
        process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.stack.callback(process.wait)
        self.stack.callback(process.terminate)
        line = process.stdout.readline()
        if not line.startswith("ready"):
            sys.exit(f"copy_bench: {' '.join(map(str, words))} did not start")
        return process, line

    def add_rsync(self):
        if not shutil.which("rsync"):
            print("rsync: not measured, for want of it (Debian: rsync)")
            return
        port, configuration = free_port(), self.work / "rsyncd.conf"
        configuration.write_text(f"[data]\npath = {self.served}\nread only = false\nuse chroot = false\nuid = {os.getuid()}\n"
                                 f"gid = {os.getgid()}\n")
        daemon = subprocess.Popen(["rsync", "--daemon", "--no-detach", f"--config={configuration}", f"--port={port}",
                                   "--address=127.0.0.1"])
        self.stack.callback(daemon.wait)
        self.stack.callback(daemon.terminate)
        pause = threading.Event()
        while socket.socket().connect_ex(("127.0.0.1", port)) != 0:
            if daemon.poll() is not None:
                sys.exit(f"copy_bench: rsync --daemon ended with {daemon.returncode}")
            pause.wait(0.02)
        url = f"rsync://127.0.0.1:{port}/data"
        self.ways["rsync -W"] = (["rsync", "-W", "--inplace", f"{url}/large", self.local / "copy"],
                                 ["rsync", "-W", "--inplace", self.local / "large", f"{url}/copy"], daemon.pid)

    def run(self, way, is_up):
        """Returns (CPU seconds per GiB, GB a second) of the second of two copies."""
        words, server = self.ways[way][1 if is_up else 0], self.ways[way][2]
        copy = (self.served if is_up else self.local) / "copy"
        for _ in range(2):
            before = seconds_of_children() + (seconds_of(server) if server else 0)
            began = time.perf_counter()
            subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            took = time.perf_counter() - began
            spent = seconds_of_children() + (seconds_of(server) if server else 0) - before
            if not filecmp.cmp(copy, (self.local if is_up else self.served) / "large", shallow=False):
                sys.exit(f"copy_bench: {way} copied wrongly")
            copy.unlink()
        return spent / self.size * 2**30, self.size / took / 1e9


def spread(values):
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return f"{middle:6.3f} ({low:.3f} to {high:.3f})"


def measure(options, work, stack):
    bench = Bench(options, work, stack)
    for is_up in (False, True):
        print(f"{'to' if is_up else 'from'} the server, {options.size} MiB: CPU seconds per GiB, of cp, GB a second", flush=True)
        figures = {way: [] for way in bench.ways}
        for turn in range(options.turns):
            ways = list(bench.ways)
            for way in ways[turn % len(ways):] + ways[:turn % len(ways)]:
                figures[way].append(bench.run(way, is_up))
        for way, turns in figures.items():
            ratios = [one[0] / other[0] for one, other in zip(turns, figures["cp"])]
            print(f"  {way:22} {spread([cpu for cpu, _ in turns])}  {statistics.median(ratios):5.2f}  "
                  f"{statistics.median(rate for _, rate in turns):5.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", metavar="BIN_DIRECTORY", help="the folder of an optimised rpcrdma, such as build/bin")
    parser.add_argument("--turns", type=int, default=5, help="how often each way runs (default: 5)")
    parser.add_argument("--size", type=int, default=1024, metavar="MIB", help="the size of the file (default: 1024)")
    parser.add_argument("--folder", help="where all files lie; three times the size has to fit (default: the system's for such)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rpcrdma-copy.", dir=options.folder) as folder, contextlib.ExitStack() as stack:
        measure(options, pathlib.Path(folder), stack)


if __name__ == "__main__":
    main()
