#!/usr/bin/env python3
"""Our NFS client and server beside nfs-ganesha with libnfs, on one core: what `make bench-nfs` shows.

usage: nfs_bench.py BIN_DIRECTORY [--turns N] [--seconds S] [--cases NAME:DEPTH,...]

Starts `rpcrdma serve --nfs` (RDMA over siwarp, and TCP) and nfs-ganesha (NFS version 3 over TCP, FSAL_VFS) on the same
directory, in namespaces of their own, since both want rpcbind. Each case runs in turns by every pair of a client and a
server, so that what else the machine does falls on all. Prints the median of each and its ratio to libnfs with
ganesha. Needs root.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

CASES = "read:1,read:8,write:1,write:8,getattr:1,getattr:32,lookup:1,lookup:32"
FILE_SIZE = 64 << 20  # as in bench/nfs/cases.h
CORE = "0"
GANESHA_PORT, GANESHA_MOUNT_PORT = 12049, 12048
CONFIGURATION = """
NFS_CORE_PARAM {{ NFS_Protocols = 3; NFS_Port = {port}; MNT_Port = {mount_port}; Enable_NLM = false; Enable_RQUOTA = false; }}
EXPORT {{ Export_Id = 1; Path = {folder}; Pseudo = /ganesha; Protocols = 3; Transports = TCP; Access_Type = RW;
          Squash = No_Root_Squash; SecType = sys; MaxRead = 1048576; MaxWrite = 1048576; PrefRead = 1048576;
          PrefWrite = 1048576; FSAL {{ Name = VFS; }} }}
LOG {{ Default_Log_Level = WARN; }}
"""


def pinned(*arguments):
    return ["taskset", "-c", CORE, *map(str, arguments)]


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"nfs_bench: {what} did not come up")
        time.sleep(0.1)


def answers(command):
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


class Servers:
    def __init__(self, binaries, work):
        self.folder = work / "served"
        self.folder.mkdir()
        (self.folder / "bench").write_bytes(os.urandom(1 << 20) * (FILE_SIZE >> 20))
        self.processes = []
        self.rpcbind = self.start(work / "rpcbind.log", "rpcbind", "-f", "-w")
        wait_until(lambda: answers(["rpcinfo", "-T", "tcp", "127.0.0.1", "100000"]), "rpcbind")
        # Two of them, since a server that wants CRCs has them.
        self.ours, plain = (self.start(work / f"ours-{crc}.log", *pinned(
            binaries / "rpcrdma", "serve", "--provider", "siwarp", "--listen", "127.0.0.1", "--port", port, "--nfs",
            f"{self.folder}:no_root_squash,name=/ours", "--nfs-tcp-port", tcp_port, "--handle-key", work / "key",
            "--crc", crc, "--log-level", "warning")) for crc, port, tcp_port in (("on", 20049, 2049), ("off", 20050, 2050)))
        configuration = work / "ganesha.conf"
        configuration.write_text(CONFIGURATION.format(port=GANESHA_PORT, mount_port=GANESHA_MOUNT_PORT,
                                                      folder=self.folder))
        self.ganesha = self.start(work / "ganesha.log", *pinned(
            "ganesha.nfsd", "-F", "-f", configuration, "-L", work / "ganesha.text", "-p", work / "ganesha.pid"))
        wait_until(lambda: answers(["nfs-ls", f"nfs://127.0.0.1{self.folder}?version=3&nfsport={GANESHA_PORT}&mountport="
                                              f"{GANESHA_MOUNT_PORT}"]), "nfs-ganesha")
        libnfs, ours = pinned(binaries / "nfs_bench_libnfs"), pinned(binaries / "nfs_bench_ours")
        self.pairs = {
            "ours, siwarp": (self.ours, ours + ["nfs+rdma://127.0.0.1:20049/ours", "crc"]),
            "ours, siwarp without CRC": (plain, ours + ["nfs+rdma://127.0.0.1:20050/ours", "no-crc"]),
            "ours, tcp": (self.ours, ours + ["nfs+tcp://127.0.0.1:2049/ours", "crc"]),
            "libnfs, ours": (self.ours, libnfs + ["2049", "2049", "/ours"]),
            "libnfs, ganesha": (self.ganesha, libnfs + [str(GANESHA_PORT), str(GANESHA_MOUNT_PORT), str(self.folder)]),
        }

    def start(self, log, *command):
        with open(log, "wb") as file:
            process = subprocess.Popen([str(each) for each in command], stdout=file, stderr=file)
        self.processes.append(process)
        return process

    def run(self, pair, case, depth, seconds):
        """Calls per second, and the CPU time of both processes for each, in microseconds."""
        server, command = self.pairs[pair]
        before = cpu_seconds(server.pid)
        result = subprocess.run(command + [case, str(depth), str(seconds)], capture_output=True, text=True, check=False)
        if result.returncode != 0:
            sys.exit(f"nfs_bench: {pair}, {case}: {result.stderr.strip()}")
        figures = json.loads(result.stdout)
        figures["server_us"] = (cpu_seconds(server.pid) - before) * 1e6 / figures["calls"]
        return figures

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in reversed(self.processes):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def print_table(results, last):
    print(f"| case | pair | calls/s | spread | server us | client us | of {last} |\n|---|---|---|---|---|---|---|")
    for (case, depth), by_pair in results.items():
        reference = statistics.median(run["per_s"] for run in by_pair[last])
        for pair, runs in by_pair.items():
            rates = [run["per_s"] for run in runs]
            middle = statistics.median(rates)
            server, client = (statistics.median(run[key] for run in runs) for key in ("server_us", "client_us"))
            print(f"| {case} d{depth} | {pair} | {middle:,.0f} | {min(rates):,.0f} to {max(rates):,.0f} | {server:.1f} | "
                  f"{client:.1f} | {middle / reference:.2f} |")


def inside(options):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of what is undone below
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "run", "/run"], check=True)
    for each in ("rpcbind", "ganesha"):
        pathlib.Path("/run", each).mkdir()
    work = pathlib.Path(tempfile.mkdtemp(prefix="nfs-bench.", dir=options.binaries.parent))
    servers = None
    try:
        servers = Servers(options.binaries, work)
        results = {}
        for text in options.cases.split(","):
            case, depth = text.split(":")
            by_pair = results[(case, int(depth))] = {pair: [] for pair in servers.pairs}
            for turn in range(options.turns + 1):
                for pair, runs in by_pair.items():
                    figures = servers.run(pair, case, depth, options.seconds)
                    if turn > 0:  # the first one warms up
                        runs.append(figures)
            print(f"nfs_bench: {case}, depth {depth}: done", file=sys.stderr, flush=True)
        print_table(results, list(servers.pairs)[-1])
    finally:
        if servers is not None:
            servers.stop()
        shutil.rmtree(work)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binaries", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each run")
    parser.add_argument("--cases", default=CASES)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return inside(options)
    if os.geteuid() != 0:
        sys.exit("nfs_bench: needs root, for namespaces and for the kernel's handles")
    os.execvp("unshare", ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child=TERM", "--mount-proc", sys.executable, __file__, *sys.argv[1:], "--inside"])


if __name__ == "__main__":
    main()
