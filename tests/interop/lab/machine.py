"""The guest, the link to it, and programs that run on either side of that link."""
import hashlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

HOST_ADDRESS, GUEST_ADDRESS = "10.213.77.1", "10.213.77.2"
BOOT_SECONDS = 120
ENDING_SECONDS = 10


class Failure(Exception):
    """What a scenario expected did not happen. The text is the reason in the matrix, in one line."""

    def __init__(self, reason, log=None):
        super().__init__(reason)
        self.log = log


class Absent(Exception):
    """This kernel or device does not have what the scenario is about."""


class GuestDied(Failure):
    pass


class Program:
    """A program that was started on one side. What it prints is in two files, which both sides can read."""

    def __init__(self, side, label, argv, log):
        self.side, self.label, self.argv = side, label, list(argv)
        self.out_path, self.err_path = pathlib.Path(f"{log}.out"), pathlib.Path(f"{log}.err")
        self.started = time.monotonic()

    def status(self):
        """None while it runs, then its exit status; negative for the signal that ended it."""
        raise NotImplementedError

    def signal(self, number):
        raise NotImplementedError

    def out(self):
        return self.out_path.read_text(errors="replace") if self.out_path.exists() else ""

    def err(self):
        return self.err_path.read_text(errors="replace") if self.err_path.exists() else ""

    def json(self, line=None):
        """What it printed, or that line of it, as JSON."""
        try:
            return json.loads(self.out() if line is None else self.out().splitlines()[line])
        except (ValueError, IndexError):
            raise self.failure("printed no JSON") from None

    def failure(self, what):
        text = self.err() or self.out()
        said = [line for line in text.splitlines() if line.strip() and not line.startswith("Run with --help")]
        said = f": {said[-1].strip()}" if said else ""
        where = self.err_path if self.err() else self.out_path
        return Failure(f"{self.label} on the {self.side.name} {what}{said}", where)

    def wait(self, seconds):
        end = time.monotonic() + seconds
        while self.status() is None:
            if time.monotonic() > end:
                failure = self.failure(f"still runs after {seconds} s")
                self.signal(signal.SIGKILL)
                raise failure
            time.sleep(0.02)
        return self.status()

    def expect(self, seconds, status=0):
        """Waits for its end, and for that status unless it is None."""
        if self.wait(seconds) != status and status is not None:
            raise self.failure(f"ended with {self.status()}, not {status}")
        return self

    def wait_for(self, pattern, seconds, in_log=False, by_child=False):
        """The first match of the pattern in what it prints to standard output, or to its log on standard error; `by_child`: also
        when it has ended, since a child of its writes to the same files."""
        end = time.monotonic() + seconds
        while True:
            status = self.status()  # first, so that what it printed just before it ended is read, too
            if match := re.search(pattern, self.err() if in_log else self.out()):
                break
            if status is not None and not by_child:
                raise self.failure(f"ended with {status} at once")
            if time.monotonic() > end:
                raise self.failure(f"did not print {pattern!r} in {seconds} s")
            time.sleep(0.05)
        return match


class Side:
    """Where programs run. A path of the project's tree is the same on both sides."""
    name = ""

    def __init__(self, run_folder, shared):
        self.run_folder = run_folder  # as the host sees it
        self.shared = shared          # the same, as this side sees it
        self.programs = []
        self.environment = {}         # of all programs, besides what the side has
        self.scenario = "setup"

    def start(self, label, argv, environment=None):
        count = len(list((self.run_folder / "logs").glob("*.out")))
        log = f"logs/{count:03d}-{self.scenario}-{self.name}-{label}"
        argv = list(map(str, argv))
        (self.run_folder / f"{log}.argv").write_text(" ".join(argv) + "\n")
        program = self.launch(label, argv, log, {**self.environment, **(environment or {})})
        self.programs.append(program)
        return program

    def run(self, label, argv, seconds=60, status=0, environment=None):
        return self.start(label, argv, environment).expect(seconds, status)

    def shell(self, label, text, seconds=60):
        return self.run(label, ["bash", "-ec", text], seconds)

    def launch(self, label, argv, log, environment):
        raise NotImplementedError

    def end_all(self):
        """At the end of a scenario: none of its programs goes on into the next one."""
        for program in self.programs:
            if program.status() is None:
                program.signal(signal.SIGKILL)
                program.wait(ENDING_SECONDS)
        self.programs.clear()


class HostProgram(Program):
    process = None

    def status(self):
        return self.process.poll()

    def signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass


class Host(Side):
    """This machine, in a network namespace whose only link is the one to the guest."""
    name = "host"

    def __init__(self, run_folder):
        super().__init__(run_folder, run_folder)
        self.scratch = run_folder / "scratch"

    def launch(self, label, argv, log, environment):
        program = HostProgram(self, label, argv, self.run_folder / log)
        with open(program.out_path, "wb") as out, open(program.err_path, "wb") as err:
            try:
                program.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                                   env={**os.environ, **environment}, start_new_session=True)
            except OSError as error:
                raise Failure(f"cannot start {label} on the host: {error}") from None
        return program


class GuestProgram(Program):
    number = 0
    ended = None  # the status, from the agent

    def status(self):
        if self.ended is None and self.side.is_dead():
            raise self.side.death()
        return self.ended

    def signal(self, number):
        self.side.tell({"do": "signal", "id": self.number, "signal": int(number)})


class Guest(Side):
    """A virtual machine. Programs are started by guest/agent.py over a virtio port; files go by a shared folder."""
    name = "guest"

    def __init__(self, run_folder, tree, files):
        super().__init__(run_folder, pathlib.PurePosixPath("/lab"))
        self.tree, self.files = tree, files
        self.scratch = pathlib.PurePosixPath("/srv")  # in memory, as all that the guest writes
        self.uname = ""
        self.qemu = self.channel = None
        self.by_number = {}
        self.dead = threading.Event()
        self.up = threading.Event()

    def boot(self, boot_name):
        (self.run_folder / "network").write_text(f"HOST_ADDRESS={HOST_ADDRESS}\nGUEST_ADDRESS={GUEST_ADDRESS}\n")
        self.console = self.run_folder / "logs" / f"console-{boot_name}.log"
        ours, theirs = socket.socketpair()
        with theirs, open(self.run_folder / "logs" / f"qemu-{boot_name}.log", "wb") as log:
            self.qemu = subprocess.Popen(self.qemu_command(theirs.fileno()), stdin=subprocess.DEVNULL, stdout=log,
                                         stderr=log, pass_fds=[theirs.fileno()], start_new_session=True)
        self.channel = ours
        self.by_number, self.programs = {}, []
        self.dead.clear()
        self.up.clear()
        threading.Thread(target=self.listen, args=(ours,), daemon=True).start()
        end = time.monotonic() + BOOT_SECONDS
        while not self.up.wait(0.1):
            if self.is_dead() or time.monotonic() > end:
                raise GuestDied(f"the guest did not come up: {self.last_words()}", self.console)

    def qemu_command(self, agent):
        kvm = self.files.accelerator == "kvm"
        run, tree = map(self.quoted, (self.run_folder, self.tree))
        return [
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
            "-accel", self.files.accelerator, "-cpu", "host" if kvm else "max", "-m", "2048",
            "-smp", str(min(max(os.cpu_count(), 2), 4)),
            "-kernel", self.files.kernel, "-initrd", self.files.initrd,
            # A kernel that is in trouble ends, and with it the scenario; it is never a silent pass.
            "-append", f"console=ttyS0 quiet panic=-1 oops=panic mitigations=off lab.tree={self.tree}",
            "-serial", f"file:{self.console}",
            "-device", "virtio-rng-pci",
            "-drive", f"if=none,id=root,format=raw,readonly=on,file={self.quoted(self.files.root_image)}",
            "-device", "virtio-blk-pci,drive=root",
            "-netdev", "tap,id=link,ifname=lab0,script=no,downscript=no",
            "-device", "virtio-net-pci,netdev=link,romfile=",
            "-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,fd={agent}",
            "-device", "virtserialport,chardev=agent,name=lab.agent",
            "-virtfs", f"local,id=tree,path={tree},mount_tag=tree,security_model=none,multidevs=remap,readonly=on",
            "-virtfs", f"local,id=run,path={run},mount_tag=run,security_model=none,multidevs=remap",
        ]

    @staticmethod
    def quoted(path):
        return str(path).replace(",", ",,")  # as QEMU wants commas in its lists

    def listen(self, channel):
        rest = b""
        try:
            while data := channel.recv(65536):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self.heard(json.loads(line))
        except OSError:
            pass
        finally:
            if channel is self.channel:  # and not that of an earlier boot
                self.dead.set()

    def heard(self, message):
        if message["id"] == 0:
            self.uname = message["uname"]
            self.up.set()
        elif "status" in message:
            self.by_number[message["id"]].ended = message["status"]

    def tell(self, message):
        try:
            self.channel.sendall((json.dumps(message) + "\n").encode())
        except OSError:
            raise self.death() from None

    def launch(self, label, argv, log, environment):
        program = GuestProgram(self, label, argv, self.run_folder / log)
        program.number = len(self.by_number) + 1
        self.by_number[program.number] = program
        self.tell({"do": "start", "id": program.number, "argv": argv, "env": environment, "cwd": "/", "log": log})
        return program

    def is_dead(self):
        return self.qemu is None or self.dead.is_set() or self.qemu.poll() is not None

    def last_words(self):
        lines = self.console.read_text(errors="replace").splitlines() if self.console.exists() else []
        telling = [line for line in lines if re.search(r"BUG|Oops|panic|RIP:|first stage:|agent:", line)]
        return (telling or lines or ["nothing on the console"])[0 if telling else -1].strip()

    def death(self):
        return GuestDied(f"the guest died: {self.last_words()}", self.console)

    def power_off(self):
        if self.qemu is None:
            return
        try:
            self.tell({"do": "power off"})
            self.qemu.wait(ENDING_SECONDS)
        except (Failure, subprocess.TimeoutExpired):
            self.qemu.kill()
            self.qemu.wait()
        self.channel.close()
        self.qemu = None
        dmesg = self.run_folder / "dmesg.log"
        if dmesg.exists():
            dmesg.rename(self.console.with_name(self.console.name.replace("console", "dmesg")))


def make_link():
    """The tap, in the network namespace that this process has to itself."""
    for command in ("link set lo up", "tuntap add dev lab0 mode tap", f"addr add {HOST_ADDRESS}/24 dev lab0",
                    "link set lab0 up"):
        subprocess.run(["ip", *command.split()], check=True)


def random_file(path, size):
    """A file of random bytes; returns its SHA-256."""
    data = os.urandom(size)
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()
