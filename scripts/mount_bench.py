#!/usr/bin/env python3
"""`rpcrdma mount` beside `rpcrdma cp`, and beside sshfs where it is installed: all figures in one run.

usage: mount_bench.py BIN_DIRECTORY [--turns N] [--size MIB] [--files N] [--folder DIR]

Starts `rpcrdma serve --nfs` over siwarp and mounts it; for sshfs, an sshd of its own on the loopback. Each case runs in turns
by every way, so that what else the machine does falls on all of them. Prints the median of each and its ratio. Needs root.
"""
import argparse
import contextlib
import json
import mmap
import os
import pathlib
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

BLOCK = 1 << 20
PAGE = 4096
RANDOM_READS = 4000


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def timed(function, *arguments):
    begun = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - begun


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def switches(pid):
    """Context switches of a process, those that it wanted and those that it did not."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


class Bench:
    def __init__(self, arguments, work, stack):
        self.size, self.files = arguments.size << 20, arguments.files
        self.command = pathlib.Path(arguments.binaries) / "rpcrdma"
        self.work, self.stack = work, stack
        self.served = pathlib.Path(tempfile.mkdtemp(dir=arguments.folder))
        stack.callback(shutil.rmtree, self.served, True)
        self.block = os.urandom(BLOCK)
        with open(self.served / "large", "wb") as file:
            for _ in range(self.size // BLOCK):
                file.write(self.block)
        self.server = self.start(self.command, "serve", "--nfs", f"{self.served}:no_root_squash", "--export", "/data", "--port",
                                 "0", "--provider", "siwarp", stdout=subprocess.PIPE)
        self.url = next(word for word in self.server.stdout.readline().split() if word.startswith("nfs+rdma"))
        self.ways = {}
        self.mount_rpcrdma()
        self.mount_sshfs()

    def start(self, *command, **keywords):
        process = subprocess.Popen([str(each) for each in command], text=True, stderr=subprocess.PIPE, **keywords)
        self.stack.callback(self.stop, process)
        return process

    @staticmethod
    def stop(process):
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    def mount_rpcrdma(self):
        at = self.work / "rpcrdma"
        at.mkdir()
        process = self.start(self.command, "mount", self.url, at, "-f", "--provider", "siwarp", "--stat-socket", self.work / "socket")
        line = process.stderr.readline()
        if not line.startswith("ready"):
            sys.exit(f"mount_bench: {line}")
        self.stack.callback(subprocess.run, ["umount", "-l", at], check=False)
        self.ways["mount"] = (at, process.pid)

    def mount_sshfs(self):
        sshd = shutil.which("sshd") or "/usr/sbin/sshd"
        if not shutil.which("sshfs") or not os.path.exists(sshd):
            print("sshfs: not measured, for want of sshfs and sshd (Debian: sshfs, openssh-server)")
            return
        port, key = free_port(), self.work / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        (self.work / "authorized").write_text((self.work / "key.pub").read_text())
        os.makedirs("/run/sshd", exist_ok=True)
        self.start(sshd, "-D", "-f", "/dev/null", "-p", port, "-h", key, "-o", "ListenAddress=127.0.0.1", "-o", "UsePAM=no", "-o",
                   f"AuthorizedKeysFile={self.work / 'authorized'}", "-o", "StrictModes=no", "-o", "PermitRootLogin=yes", "-o",
                   f"PidFile={self.work / 'sshd.pid'}", "-o", "Subsystem=sftp internal-sftp")
        at = self.work / "sshfs"
        at.mkdir()
        command = ["sshfs", f"root@127.0.0.1:{self.served}", str(at), "-p", str(port), "-o",
                   f"IdentityFile={key},StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null"]
        for _ in range(50):
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                self.stack.callback(subprocess.run, ["umount", "-l", at], check=False)
                self.ways["sshfs"] = (at, None)
                return
            time.sleep(0.1)
        print("sshfs: not measured, since it does not mount here")

    # --- Cases: each returns a figure, the more the better
    #
    # Large files are moved twice, and the second time counts: a virtual machine takes back memory that nobody has used for a
    # moment, and the first writer would pay for all ways.

    def drop(self, at):
        """Drops the pages of the large file, so that the next read comes from the server."""
        with open(at / "large", "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def read(self, at):
        def work():
            with open(at / "large", "rb", buffering=0) as file:
                while file.read(BLOCK):
                    pass
        for _ in range(2):
            self.drop(at)
            took = timed(work)
        return self.size / took / 1e9

    def write(self, at):
        def work():
            with open(at / "written", "wb", buffering=0) as file:
                for _ in range(self.size // BLOCK):
                    file.write(self.block)
        for _ in range(2):
            took = timed(work)
            os.unlink(at / "written")
        return self.size / took / 1e9

    def random_reads(self, at):
        choose = random.Random(1)
        file = os.open(at / "large", os.O_RDONLY | os.O_DIRECT)
        page = mmap.mmap(-1, PAGE)
        offsets = [choose.randrange(self.size // PAGE) * PAGE for _ in range(RANDOM_READS)]
        try:
            return RANDOM_READS / timed(lambda: [os.preadv(file, [page], offset) for offset in offsets])
        finally:
            os.close(file)

    def creations(self, at, flag=os.O_TRUNC):
        folder = at / "created"
        folder.mkdir()

        def work():
            for i in range(self.files):
                os.close(os.open(folder / f"f{i}", os.O_CREAT | flag | os.O_WRONLY, 0o644))
        figure = self.files / timed(work)
        shutil.rmtree(folder)
        return figure

    def stats(self, at):
        """Of names that the kernel does not know yet."""
        folder = self.served / f"stats{random.random()}"
        folder.mkdir()
        names = [f"f{i}" for i in range(self.files)]
        for name in names:
            (folder / name).touch()
        there = at / folder.name
        figure = self.files / timed(lambda: [os.stat(there / name) for name in names])
        shutil.rmtree(folder)
        return figure

    def copy(self, down):
        target = self.work / "copied"
        for _ in range(2):
            if down:
                took = timed(lambda: self.copied(f"{self.url}/large", target))
                target.unlink()
            else:
                took = timed(lambda: self.copied(self.served / "large", f"{self.url}/written"))
                (self.served / "written").unlink()
        return self.size / took / 1e9

    def copied(self, source, target):
        subprocess.run([str(self.command), "cp", "--provider", "siwarp", str(source), str(target)], check=True, capture_output=True)

    def cost(self, case, pid):
        """Figure, and for each thing that was done: calls on the wire's behalf, time of the daemon, its context switches."""
        at = self.ways["mount"][0]
        before = cpu_seconds(pid), switches(pid), self.figures()
        figure = case(at)
        after = cpu_seconds(pid), switches(pid), self.figures()
        return figure, after[0] - before[0], after[1] - before[1], after[2] - before[2]

    def figures(self):
        """Requests of the kernel that the mount has had."""
        shown = subprocess.run([str(self.command), "top", str(self.work / "socket"), "--json", "--interval", "0.1"], check=True,
                               capture_output=True, text=True)
        return json.loads(shown.stdout)["mount"]["requests_total"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binaries")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--size", type=int, default=1024, help="MiB of the large file")
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--folder", default="/dev/shm", help="where the served files lie")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        work = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.folder)))
        bench = Bench(arguments, work, stack)
        cases = {"read, GB/s": bench.read, "write, GB/s": bench.write, "4 KiB random reads/s": bench.random_reads,
                 "creations/s": bench.creations, "creations by O_EXCL/s": lambda at: bench.creations(at, os.O_EXCL),
                 "stats/s": bench.stats}
        copies = {"read, GB/s": True, "write, GB/s": False}
        results = {name: {} for name in cases}
        ways = {way: at for way, (at, _) in bench.ways.items()}
        for turn in range(arguments.turns):
            for name, case in cases.items():
                of_case = {way: lambda at=at, case=case: case(at) for way, at in ways.items()}
                if name in copies:
                    of_case["cp"] = lambda down=copies[name]: bench.copy(down)
                names = list(of_case)
                for place in range(len(names)):
                    way = names[(turn + place) % len(names)]
                    results[name].setdefault(way, []).append(of_case[way]())
        print("| case | way | median | lowest to highest | of the other, median of the turns |\n|---|---|---|---|---|")
        for name, by_way in results.items():
            for way in sorted(by_way, key=lambda way: way != "mount"):
                figures = by_way[way]
                ratio = statistics.median(one / other for one, other in zip(by_way["mount"], figures))
                print(f"| {name} | {way} | {statistics.median(figures):,.2f} | {min(figures):,.2f} to {max(figures):,.2f} | "
                      f"{'' if way == 'mount' else f'{ratio:.2f}'} |")
        print("\n| case | per thing: requests of the kernel | CPU of the mount, us | context switches |\n|---|---|---|---|")
        for name, case, count in (("random read", bench.random_reads, RANDOM_READS), ("creation and removal", bench.creations, arguments.files),
                                  ("stat", bench.stats, arguments.files)):
            _, cpu, switched, requests = bench.cost(case, bench.ways["mount"][1])
            print(f"| {name} | {requests / count:.2f} | {cpu / count * 1e6:.0f} | {switched / count:.2f} |")


if __name__ == "__main__":
    main()
