#!/usr/bin/env python3
"""Loads one server in every way at once for hours, and says whether it stays as it is.

usage: soak.py --minutes N --out DIR [--command build-bench/bin/rpcrdma] [--programs build-bench/tests/programs]

The server has RDMA (siwarp), TCP, NFS exports with and without Kerberos, and blobs. Its loads put and get blobs in both versions
of the protocol and by stepping up from TCP, copy trees to and fro over both transports and by krb5, krb5i and krb5p, work below
a mount, call by unchanged programs of libtirpc (at a server of rpcgen's, which is watched as well), and make many calls of NULL.
Meanwhile connections are cut, clients killed or stopped in the middle, peers speak garbage, and the server reads its
configuration again with other exports. Each byte that comes back is compared.

Every 5 seconds it notes resident memory, descriptors, threads, security contexts and handles. It exits 1 if a load found anything
wrong, a process ended, the server's own errors say so (the build may have a sanitizer), or a figure grows behind the warm-up of
a quarter of the run: from the half in which it warmed up to the last one, memory by 5 % and 8 MiB at most, the others by a few.
It exits 2 if its server, rpcbind or a load could not start.

DIR keeps samples.csv, soak.svg (all runs in a row), soak.json (what all runs have done) and the server's log; another run in the
same DIR goes on from them. It takes root, a network and a mount namespace of its own, rpcbind (scripts/setup.sh check) and,
for Kerberos, MIT's KDC; it says what it leaves out. Ctrl-C and SIGTERM end it early, with a verdict on what there is; the second
one ends it at once.
"""
import argparse
import json
import os
import pathlib
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "gss")]
import realm as kerberos  # noqa: E402
import soak_judge  # noqa: E402
import soak_loads  # noqa: E402

SAMPLE_S = 5
END_S = 120
PATH = ":".join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin",
                 *(str(ROOT / "build-programs" / folder) for folder in ("usr/sbin", "sbin"))])
# A full quarantine of 256 MiB would look like growth for hours.
os.environ.setdefault("ASAN_OPTIONS", "quarantine_size_mb=16:detect_leaks=1")


class Place:
    """The server and what all loads know of it."""
    user = "daemon"

    def __init__(self, options, root):
        self.command, self.programs, self.root, self.out = options.command, options.programs, root, options.out
        self.path, self.watched, self.urls, self.realm, self.no_realm = PATH, {}, {}, None, ""
        for name in ("blobs", "data", "secure", "extra"):
            (root / name).mkdir()
            (root / name).chmod(0o777)
        self.make_realm()
        self.configuration = root / "serve.toml"
        self.write_configuration()
        self.log = open(self.out / "server.log", "a")
        environment = {**os.environ, **(self.realm.environment() if self.realm else {})}
        self.server = subprocess.Popen([self.command, "serve", "--config", self.configuration, "--json"], stdout=subprocess.PIPE,
                                       stderr=self.log, text=True, env=environment, preexec_fn=soak_loads.die_with_parent)
        self.watched["server"] = self.server.pid
        line = soak_loads.first_line(self.server.stdout)
        if not line.startswith("ready"):
            raise soak_loads.CannotStart(f"the server did not start; see {self.out}/server.log")
        for url in line.split()[1:]:
            name = "secure" if url.endswith("/secure") else url.split(":")[0]
            self.urls.setdefault(name, url)

    def make_realm(self):
        try:
            (self.root / "realm").mkdir()
            self.realm = kerberos.Realm(self.root / "realm", users=(self.user,))
        except kerberos.Missing as missing:
            self.no_realm = f"no Kerberos: {missing}"

    def write_configuration(self, extra=0, level="info"):
        exports = {"/data": f"{self.root}/data:no_root_squash"}
        if self.realm:
            exports["/secure"] = f"{self.root}/secure:sec=krb5:krb5i:krb5p"
        exports.update({f"/extra-{number}": f"{self.root}/extra:ro" for number in range(extra)})
        lines = {"blob": f"{self.root}/blobs", "nfs": list(exports.values()), "export": list(exports), "nfs-tcp-port": 0, "port": 0,
                 "tcp-port": 0, "provider": "siwarp", "handle-key": f"{self.root}/key", "stat-socket": f"{self.root}/stat",
                 # A command says so and ends when its first connection is not set up: relays, too, wait for a busy machine.
                 "setup-timeout": 15, "tcp-idle": 20, "rdma-idle": 30, "rpcbind": True, "log-level": level}
        if self.realm:
            lines["keytab"] = f"{self.realm.folder}/localhost.keytab"
        fresh = self.configuration.with_suffix(".new")
        fresh.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items()))
        fresh.replace(self.configuration)

    def stats(self):
        """Returns what the server has counted, or {} if it is too busy to say."""
        try:
            asked = subprocess.run([self.command, "stat", f"{self.root}/stat", "--json"], capture_output=True, text=True,
                                   timeout=30, check=True)
            return json.loads(asked.stdout)
        except (subprocess.SubprocessError, json.JSONDecodeError):
            return {}

    def sample(self, book, seconds):
        """Notes how all processes are; returns findings."""
        findings = []
        for name, pid in list(self.watched.items()):
            try:
                values = soak_judge.status_of(pid)
            except ProcessLookupError:
                findings.append(f"{name}: its process has ended")
                del self.watched[name]
                continue
            if name == "server" and (stats := self.stats()):
                values |= {"contexts": stats["security_contexts"], "memory_lent": stats["memory_in_use_bytes"] // 1024,
                           "handles": handles_of(pid, self.root)}
            try:
                book.add(name, seconds, values)
            except OSError as error:
                findings.append(f"samples.csv: {error}")
        return findings

    def stop(self):
        """Ends the server as a service does; returns (findings, its own counters)."""
        self.server.send_signal(signal.SIGTERM)
        try:
            output, _ = self.server.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            self.server.kill()
            return [f"the server did not end within {END_S} s of SIGTERM"], {}
        finally:
            if self.realm:
                self.realm.stop()
            self.log.close()
        if self.server.returncode != 0:
            return [f"the server ended with {self.server.returncode}; see {self.out}/server.log"], {}
        return [], json.loads(output.splitlines()[-1]) if output.strip() else {}


def handles_of(pid, root):
    """Returns how many files below the exports a server has open."""
    count = 0
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            count += os.readlink(link).startswith(str(root))
        except FileNotFoundError:
            continue
    return count


def is_sanitized(command):
    words = subprocess.run(["grep", "-aclE", "__(asan|tsan)_init", command], capture_output=True, text=True, check=False).stdout
    return bool(words.strip())


def start_rpcbind():
    """Returns Debian's rpcbind, which has this namespace for itself, when it answers."""
    program = shutil.which("rpcbind", path=PATH)
    if program is None:
        raise soak_loads.CannotStart("rpcbind is not there: apt-get install rpcbind, or scripts/setup.sh check")
    daemon = subprocess.Popen([program, "-f"], preexec_fn=soak_loads.die_with_parent)
    pause, started = threading.Event(), time.monotonic()
    while not os.path.exists("/run/rpcbind.sock"):
        if daemon.poll() is not None:
            raise soak_loads.CannotStart(f"rpcbind ended with {daemon.returncode}")
        if time.monotonic() - started > soak_loads.START_S:
            raise soak_loads.CannotStart(f"rpcbind has made no socket within {soak_loads.START_S} s")
        pause.wait(0.05)
    return daemon


def start_loads(place, chosen, seed):
    """Returns (the loads that can run here, the event that ends them, their threads)."""
    end, loads = threading.Event(), []
    for kind in soak_loads.ALL:
        if chosen and kind.name not in chosen:
            continue
        if reason := soak_loads.can_run(kind, place):
            print(f"soak: {kind.name} is left out: {reason}", flush=True)
            continue
        loads.append(kind(place, seed))
    threads = [threading.Thread(target=load.run, args=(end,), daemon=True) for load in loads]
    for thread in threads:
        thread.start()
    return loads, end, threads


def tell_news(loads):
    """Prints what the loads have found since the last time; returns how many that is."""
    news = []
    for load in loads:
        news += load.findings[load.told:]
        load.told = len(load.findings)
    print("".join(f"soak: {finding}\n" for finding in news), end="", flush=True)
    return len(news)


def watch(place, book, loads, seconds, interruption):
    """Samples until the time is over, `interruption` can be read, or the server has gone; returns findings."""
    started = time.monotonic()
    findings, spoken, told = [], 0.0, 0
    while (passed := time.monotonic() - started) < seconds:
        fresh = place.sample(book, passed)
        print("".join(f"soak: {finding}\n" for finding in fresh), end="", flush=True)
        findings += fresh
        if "server" not in place.watched:
            break
        told += len(fresh) + tell_news(loads)
        if passed - spoken >= 60 or spoken == 0:
            spoken = max(passed, 0.001)
            turns = " ".join(f"{load.name} {load.turns}" for load in loads)
            resident = book.samples("server")[-1]["resident"] // 1024 if book.samples("server") else 0
            print(f"soak: {passed / 60:.0f} of {seconds / 60:.0f} minutes, server {resident:.0f} MiB, {told} wrong; {turns}",
                  flush=True)
        pause = max(0.0, SAMPLE_S - (time.monotonic() - started - passed))
        if select.select([interruption], [], [], pause)[0]:
            print("soak: interrupted; the verdict is on what there is", flush=True)
            break
    return findings


def add_to_record(path, run):
    """Adds a run to soak.json, and returns the sums of all."""
    record = json.loads(path.read_text()) if path.is_file() else {"runs": []}
    record["runs"].append(run)
    sums = {}
    for each in record["runs"]:
        for name, load in each["loads"].items():
            of_load = sums.setdefault(name, {"turns": 0, "bytes_compared": 0})
            for figure in of_load:
                of_load[figure] += load[figure]
    record["all_runs"] = {"minutes": round(sum(each["minutes"] for each in record["runs"]), 1), "loads": sums}
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(record, indent=1) + "\n")
    fresh.replace(path)
    return record["all_runs"]


def soak(options, interruption):
    book = soak_judge.Book(options.out / "samples.csv")
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    print(f"soak: run {book.run} in {options.out}, seed {seed}", flush=True)
    daemon = start_rpcbind()
    with tempfile.TemporaryDirectory(prefix="rpcrdma-soak.", dir=options.files) as folder:
        place = Place(options, pathlib.Path(folder))
        loads, end, threads = start_loads(place, options.only, seed)
        started = time.monotonic()
        findings = watch(place, book, loads, options.minutes * 60, interruption)
        minutes = (time.monotonic() - started) / 60
        end.set()
        for load, thread in zip(loads, threads):
            thread.join(timeout=soak_loads.TURN_S)
            if thread.is_alive():
                findings.append(f"{load.name}: its last turn does not end")
        ended, counters = place.stop()
    daemon.kill()
    findings += [finding for load in loads for finding in load.findings] + ended
    findings += [f"{load.name} had no turn" for load in loads if load.turns == 0]
    sanitized = is_sanitized(options.command)
    for process in book.processes():
        if not (samples := book.samples(process)):
            continue
        lines, grown = soak_judge.judge(samples, sanitized)
        print("".join(f"  {process}: {line}\n" for line in lines), end="")
        findings += [f"{process}: {finding}" for finding in grown]
    soak_judge.draw(book, options.out / "soak.svg")
    run = {"run": book.run, "seed": seed, "minutes": round(minutes, 1), "is_sanitized": sanitized, "findings": findings,
           "loads": {load.name: {"turns": load.turns, "bytes_compared": load.bytes} for load in loads}, "counters": counters}
    sums = add_to_record(options.out / "soak.json", run)
    for name, load in run["loads"].items():
        print(f"  {name}: {load['turns']:,} turns, {load['bytes_compared'] / 2**30:.2f} GiB compared")
    print(f"soak: {minutes:.0f} minutes, {len(findings)} findings; all runs here: {sums['minutes']:.0f} minutes")
    print("".join(f"  {finding}\n" for finding in findings), end="")
    return 1 if findings else 0


def run_apart():
    """Runs this program once more, in namespaces of its own; returns its exit code. unshare takes no notice of signals: the end
    of a pipe tells the one inside to finish, also where this process is killed."""
    apart = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    try:
        subprocess.run([*apart, "true"], stderr=subprocess.PIPE, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"soak: this system gives no namespaces: {(getattr(error, 'stderr', None) or str(error)).strip()}", file=sys.stderr)
        return 2
    told, end = os.pipe()
    inside = [*apart, "sh", "-c",
              'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"', "soak", sys.executable, *sys.argv]
    process = subprocess.Popen(inside, env={**os.environ, "RPCRDMA_SOAK_INSIDE": str(told)}, pass_fds=[told],
                               start_new_session=True)
    os.close(told)
    ends = [end]

    def interrupt(_number, _frame):
        if ends:
            os.close(ends.pop())
        else:
            process.kill()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    return process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, required=True, help="how long the loads run")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR", help="where figures and logs are kept")
    parser.add_argument("--command", default=ROOT / "build-bench/bin/rpcrdma", help="the rpcrdma to try (default: build-bench's)")
    parser.add_argument("--programs", type=pathlib.Path, help="the folder of tirpc_blocks_server (default: that of the same build)")
    parser.add_argument("--files", metavar="DIR", help="where the served files lie (default: the system's folder for such)")
    parser.add_argument("--only", action="append", metavar="LOAD", choices=[kind.name for kind in soak_loads.ALL],
                        help="this load alone; several times for several: %(choices)s")
    parser.add_argument("--seed", type=int, help="decides sizes and times (default: drawn, and printed)")
    options = parser.parse_args()
    options.command = str(pathlib.Path(options.command).resolve())
    if not os.access(options.command, os.X_OK):
        parser.error(f"{options.command} is not there: make check-release builds it, or say --command")
    if options.programs is None:
        options.programs = pathlib.Path(options.command).parent.parent / "tests" / "programs"
    options.programs, options.out = options.programs.resolve(), options.out.resolve()
    if os.geteuid() != 0:
        parser.error("it takes root, for namespaces and mounts of its own")
    interruption = os.environ.pop("RPCRDMA_SOAK_INSIDE", None)
    if interruption is None:
        options.out.mkdir(parents=True, exist_ok=True)
        return run_apart()
    try:
        return soak(options, int(interruption))
    except soak_loads.CannotStart as reason:
        print(f"soak: {reason}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
