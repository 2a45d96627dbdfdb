#!/usr/bin/env python3
"""Malformed calls of NFS and MOUNT to a server under strace: no request opens a file outside the export.

    nfs_wire_fuzz.py RPCRDMA NFS_WIRE_FUZZ [--seconds N] [--seed S] [--modes kernel,table,user]

Makes an export with files beside it that are not exported, symbolic links that lead there, a second export that is
read-only and one that is for another client. Starts the server under `strace -y`, lets nfs_wire_fuzz send calls for N
seconds in all, and judges each line of the trace from `ready` on while it comes (Judge says what is allowed, and why).
Afterwards nothing but the export may have changed, and the server, whose memory and descriptors are bounded, ends in
order.

Modes: `kernel`, as root with handles of the kernel; `table`, as root with those of the table; `user`, as user 65534.
Without strace, ptrace(2) or the rights for any of the modes: exits with 77.

The server runs as root, and the calls are those that would remove /etc if it had the fault that is looked for. So root
has all this in a mount namespace of its own, in which everything but the directory of the exports is read-only; where
there can be none, nothing is run.
"""
import argparse
import collections
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

NOT_RUN = 77
BOUND_S = 60  # nothing beside the fuzzing takes long
NOBODY = 65534
SECRET = "what-is-not-exported-4711"  # in names and in files: no answer may hold it
AS_NOBODY = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
OPENING = ("open", "openat", "openat2", "creat", "open_by_handle_at")


class Judge:
    """Takes the lines of a trace; `findings` are those that should not be there.

    Allowed from `ready` on:
    - what an open returns, by strace's annotation of the descriptor, lies in an export; what open_by_handle_at(2)
      returns has none before strace 6.2: then by that of its next use, or of another descriptor of the same handle (of
      two threads that open a file at a time, one closes it again), or of the one that the handle was made from;
    - names are relative to a descriptor in an export, and have one component (openat2(2), whose flags keep it beneath,
      may have several; its result counts);
    - /proc/self/fd/N, by which the server opens anew, links, or changes what it has open already. What is opened this
      way is judged as everything else; N itself was;
    - the table of handles beside the key: SQLite opens it, its journal and its directory;
    - files that libraries read once, when they come to it: /etc/localtime for the log, /dev/urandom for keys, the
      number of processors for malloc's arenas, and what a sanitizer reads about its own process in /proc/self.
    """
    BY_LIBRARIES = re.compile(r"/etc/localtime|/usr/share/zoneinfo/[\w/]+|/dev/urandom|/sys/devices/system/cpu/online"
                              r"|/proc/(self|\d+)/(maps|cmdline|environ|status|task|task/\d+(/\w+)?)")
    ANEW = re.compile(r"/proc/self/fd/\d+")
    CALL = re.compile(r"(\w+)\((.*)\)\s+= (-?\d+|\?)(?:<([^<>]*)>)?")
    QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
    MADE = re.compile(r"\{handle_bytes=\d+ => (\d+), (handle_type=[^{}]*)\}")
    AT = re.compile(r"\b(AT_FDCWD|\d+)<([^<>]*)>(?:\(deleted\))?(?:, \"((?:[^\"\\]|\\.)*)\")?")

    def __init__(self, exports, state):
        self.exports = [str(path) for path in exports]
        self.state = str(state)
        self.is_ready = threading.Event()
        self.lines = 0
        self.opens = collections.Counter()
        self.findings = []
        self.unfinished = {}
        self.by_handle = {}  # descriptor -> handle: where it leads is not known yet
        self.known_handles = set()  # that led into an export, or were made from a file there
        self.unseen = set()  # handles whose descriptor was closed before it was seen

    def take(self, line):
        self.lines += 1
        thread, _, text = line.partition(" ")
        text = text.lstrip()
        if text.startswith("--- SIGCONT"):
            self.is_ready.set()
        if text.endswith("<unfinished ...>"):
            self.unfinished[thread] = text.removesuffix("<unfinished ...>").rstrip()
            return
        if text.startswith("<... "):
            text = self.unfinished.pop(thread, "") + text.partition("resumed>")[2]
        if not self.is_ready.is_set():
            return
        why = self.wrong_with(text)
        if why:
            self.findings.append(f"{why}: {thread} {text}")

    def wrong_with(self, text):
        found = self.CALL.match(text)
        if not found:
            return None if text.startswith(("---", "+++")) else "this is no call"
        name, arguments, result, path = found.groups()
        if name == "execve":
            return "a program is run"
        is_done = not result.startswith(("-", "?"))
        if name == "symlinkat":  # whatever it says, nothing follows it
            arguments = self.QUOTED.sub("", arguments, count=1)
        why = self.wrong_with_names(name, arguments)
        if is_done and not why and name == "name_to_handle_at":
            self.known_handles.update(f"handle_bytes={size}, {rest}" for size, rest in self.MADE.findall(arguments))
        if is_done and name in OPENING:
            self.opens[name] += 1
            self.unseen.add(self.by_handle.pop(result, None))
            if name == "open_by_handle_at" and not path:
                self.by_handle[result] = arguments.partition("{")[2].partition("}")[0]
            elif not self.is_allowed(path or "nowhere"):
                return "this is outside"
        return why

    def wrong_with_names(self, name, arguments):
        if arguments.startswith('"') and not self.is_allowed_name(self.QUOTED.match(arguments).group(1)):
            return "this name is outside"
        for descriptor, directory, entry in self.AT.findall(arguments):
            if descriptor == "AT_FDCWD" or entry.startswith("/"):
                if not self.is_allowed_name(entry):
                    return "this name is outside"
                continue
            if not self.is_allowed(directory):
                return "this descriptor is outside"
            self.known_handles.add(self.by_handle.pop(descriptor, None))
            if name != "openat2" and ("/" in entry or entry == ".."):
                return "this leads elsewhere"
        return None

    def is_allowed(self, path):
        return self.is_exported(path) or self.is_of_table(path) or bool(self.BY_LIBRARIES.fullmatch(path))

    def is_allowed_name(self, path):
        return bool(self.ANEW.fullmatch(path) or self.BY_LIBRARIES.fullmatch(path)) or self.is_of_table(path)

    def is_exported(self, path):
        return any(path == top or path.startswith(top + "/") for top in self.exports)

    def is_of_table(self, path):
        return path == self.state or bool(re.fullmatch(re.escape(self.state) + r"/handles-\w+\.db(-\w+)?", path))

    def end(self):
        unknown = (self.unseen | set(self.by_handle.values())) - self.known_handles - {None}
        self.findings += [f"where this handle led was not seen: {handle}" for handle in sorted(unknown)]


def snapshot(tops):
    """All that is known of the files below, but for when they were read."""
    seen = {}
    for top in tops:
        for path in [top, *sorted(top.rglob("*"))]:
            status = path.lstat()
            content = None
            if path.is_symlink():
                content = os.readlink(path)
            elif path.is_file():
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            seen[str(path)] = (status.st_mode, status.st_uid, status.st_gid, status.st_nlink, status.st_size,
                               status.st_mtime_ns, status.st_ctime_ns, content)
    return seen


class Place:
    """The exports and what is beside them, in a directory of its own."""

    def __init__(self, root, owner):
        self.root = root
        root.chmod(0o755)
        self.data, self.read_only, self.elsewhere = root / "data", root / "ro", root / "elsewhere"
        self.beside, self.state = root / "beside", root / "state"
        for path in (self.data, self.read_only, self.elsewhere, self.beside, self.state):
            path.mkdir()
        (self.data / "may-be-destroyed").touch()
        (self.read_only / "below").mkdir()
        (self.read_only / "below" / "file").write_text("may be read\n")
        (self.read_only / "out").symlink_to("../beside")
        for path in (self.elsewhere, self.beside, self.beside / "deep"):
            path.mkdir(exist_ok=True)
            (path / SECRET).write_text("a name\n")
            (path / "note").write_text(SECRET + "\n")
        self.beside.chmod(0o777)
        if owner:
            for path in (self.data, self.state, self.read_only, self.elsewhere):
                os.chown(path, owner, owner)

    def kept(self):
        return [self.read_only, self.elsewhere, self.beside]

    def tries(self):
        # The first four stand behind symbolic links that calls name. All is the harness's own: a server that is at fault
        # does what they say.
        return [str(self.beside), str(self.beside / "note"), "../beside", str(self.beside / "new"), "/", "..",
                "../beside/note", "../elsewhere", "beside", "note", SECRET.upper()]


class NotRun(Exception):
    """This mode cannot be here, and why."""


def fail(text):
    sys.exit(f"nfs_wire_fuzz.py: {text}")


class Server:
    def __init__(self, command, place, mode, judge):
        self.fifo = place.root / "trace"
        os.mkfifo(self.fifo)
        self.judge = judge
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        options = ["--handles", {"kernel": "kernel", "table": "table", "user": "any"}[mode]]
        user = AS_NOBODY if mode == "user" and os.geteuid() == 0 else []
        # LeakSanitizer cannot work beside strace.
        environment = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
        self.errors = (place.root / "errors").open("w+")
        self.process = subprocess.Popen(
            ["strace", "-D", "-f", "-y", "--seccomp-bpf", "-e", "trace=%file,openat2,open_by_handle_at", "-o", self.fifo,
             *user, command, "serve", "--provider", "siwarp", "--port", "0", "--nfs-tcp-port", "0",
             # Few files stay open, so that most calls open theirs.
             "--open-files", "48", "--handle-key", place.state / "key", "--nfs", f"{place.data}:no_root_squash,name=/data",
             "--nfs", f"{place.read_only}:ro,no_root_squash,name=/ro",
             "--nfs", f"{place.elsewhere}:no_root_squash,name=/elsewhere,client=192.0.2.1",
             *options],
            stdout=subprocess.PIPE, stderr=self.errors, text=True, cwd=place.root, env=environment)
        line = self.process.stdout.readline()
        if not line.startswith("ready"):
            self.process.wait(BOUND_S)
            if mode == "kernel" and "handles of the kernel" in self.said():
                raise NotRun(self.said().strip())
            fail(f"the server did not start: {line}{self.said()}")
        self.urls = line.split()[1:3]
        # A signal that does nothing, but is in the trace: from there on all lines count.
        self.process.send_signal(signal.SIGCONT)
        if not judge.is_ready.wait(BOUND_S):
            fail("the trace does not say that the server is ready")

    def read(self):
        with open(self.fifo, encoding="utf-8", errors="replace") as trace:
            for line in trace:
                self.judge.take(line.rstrip("\n"))

    def said(self):
        self.errors.flush()
        return pathlib.Path(self.errors.name).read_text(errors="replace")

    def memory_mb(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) >> 10

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.stdout.close()
        code = self.process.wait(BOUND_S)
        self.reader.join(BOUND_S)
        self.judge.end()
        return code


def why_not(mode, server):
    if mode != "user" and os.geteuid() != 0:
        return "this takes root"
    if mode == "user" and os.geteuid() == 0:
        if not shutil.which("setpriv"):
            return "there is no setpriv"
        if subprocess.run([*AS_NOBODY, "test", "-x", server], check=False).returncode != 0:
            return f"user {NOBODY} cannot run {server}"
    return None


def contain(folder):
    """In a mount namespace of its own: nothing but the folder can be changed any more."""
    def mount(*words):
        return subprocess.run(["mount", *words], capture_output=True, text=True, check=False)

    mount("--make-rprivate", "/")
    bound = mount("--bind", folder, folder)
    if bound.returncode != 0:
        fail(f"{folder}: {bound.stderr}")
    points = [line.split()[1].encode().decode("unicode_escape") for line in open("/proc/self/mounts", encoding="utf-8")]
    for point in points:
        if point != folder:
            mount("-o", "remount,bind,ro", point)
    for path in ("/", "/etc", "/tmp", "/root", "/var", "/run", "/dev/shm", str(pathlib.Path(folder).parent)):
        if os.path.isdir(path) and not os.statvfs(path).f_flag & os.ST_RDONLY:
            fail(f"{path} can be changed in the namespace")


def contained():
    """The code of this program in a namespace; None: this is the program there, or one without the rights of root."""
    if os.geteuid() != 0:
        return None
    if "NFS_WIRE_FUZZ_FOLDER" in os.environ:
        contain(os.environ["NFS_WIRE_FUZZ_FOLDER"])
        return None
    within = ["unshare", "--mount", "--propagation", "private"]
    if subprocess.run([*within, "true"], capture_output=True, check=False).returncode != 0:
        print("not run: as root this takes a mount namespace, and there can be none")
        return NOT_RUN
    with tempfile.TemporaryDirectory(prefix="nfs-fuzz.", dir=os.environ.get("NFS_WIRE_FUZZ_DIRECTORY")) as folder:
        folder = os.path.realpath(folder)
        os.chmod(folder, 0o755)
        return subprocess.run([*within, sys.executable, *sys.argv], check=False,
                              env=dict(os.environ, NFS_WIRE_FUZZ_FOLDER=folder, PYTHONDONTWRITEBYTECODE="1")).returncode


def run(mode, seconds, arguments):
    """What is wrong, a line each."""
    parent = os.environ.get("NFS_WIRE_FUZZ_FOLDER", arguments.directory)
    with tempfile.TemporaryDirectory(prefix=f"{mode}.", dir=parent) as folder:
        place = Place(pathlib.Path(folder).resolve(), NOBODY if mode == "user" and os.geteuid() == 0 else None)
        judge = Judge([place.data, place.read_only], place.state)
        before = snapshot(place.kept())
        server = Server(arguments.server, place, mode, judge)
        try:
            tries = [text for path in place.tries() for text in ("--try", path)]
            code = subprocess.run([arguments.fuzzer, *server.urls, "--seconds", str(seconds), "--seed",
                                   str(arguments.seed), "--secret", SECRET, *tries], timeout=seconds + 300,
                                  check=False).returncode
            wrong = [] if code == 0 else [f"nfs_wire_fuzz ended with {code}"]
            if server.process.poll() is None:
                memory, descriptors = server.memory_mb(), server.descriptors()
                print(f"{mode}: the server has {memory} MiB and {descriptors} descriptors; {judge.lines} lines of trace, "
                      f"opened {dict(judge.opens)}")
                if memory > arguments.memory_max:
                    wrong.append(f"the server has {memory} MiB, more than {arguments.memory_max}")
                if descriptors > 500:
                    wrong.append(f"the server has {descriptors} descriptors")
        finally:
            code = server.stop()
        if code != 0:
            wrong.append(f"the server ended with {code}: {server.said()[-3000:]}")
        if not judge.opens:
            wrong.append("the trace has no open in it, so that it shows nothing")
        wrong += judge.findings[:20]
        after = snapshot(place.kept())
        wrong += [f"{path} was changed: {before.get(path)} -> {after.get(path)}"
                  for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path)]
        wrong += [f"{path} was left" for path in place.root.glob("core*")]
        left = sorted(path.name for path in place.data.iterdir())
        if left:
            wrong.append(f"the fuzzer left {left[:5]}")
        return wrong


def main():
    sys.stdout.reconfigure(errors="backslashreplace")  # names of any bytes
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", type=pathlib.Path)
    parser.add_argument("fuzzer", type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=60, help="of all modes together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--modes", default="kernel,table,user")
    parser.add_argument("--memory-max", type=int, default=1200, help="MiB that the server may have at the end")
    parser.add_argument("--directory", help="where the exports are made, on a file system with handles (default: /tmp)")
    arguments = parser.parse_args()
    if arguments.directory:
        os.environ["NFS_WIRE_FUZZ_DIRECTORY"] = arguments.directory
    code = contained()
    if code is not None:
        return code
    arguments.server, arguments.fuzzer = arguments.server.resolve(), arguments.fuzzer.resolve()
    traced = subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, text=True,
                            check=False) if shutil.which("strace") else None
    if traced is None or traced.returncode != 0:
        print("not run: there is no strace, or it may not trace here", traced.stderr if traced else "")
        return NOT_RUN
    modes = []
    for mode in arguments.modes.split(","):
        reason = why_not(mode, arguments.server)
        print(f"{mode}: " + (f"not run: {reason}" if reason else "run"))
        if not reason:
            modes.append(mode)
    if not modes:
        return NOT_RUN
    is_good = True
    for mode in modes:
        try:
            wrong = run(mode, max(arguments.seconds // len(modes), 1), arguments)
        except NotRun as reason:
            print(f"{mode}: not run: {reason}")
            continue
        print(f"{mode}: " + ("nothing outside the export was opened or changed" if not wrong else "WRONG"), flush=True)
        for line in wrong:
            print(f"  {line}", flush=True)
        is_good = is_good and not wrong
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
