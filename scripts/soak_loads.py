"""The loads of scripts/soak.py: each has turns, and says what went wrong in one. A turn is bounded in time."""
import contextlib
import ctypes
import filecmp
import os
import pathlib
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import threading

TURN_S = 180  # the longest that a command may take, on a machine that is busy with everything else
START_S = 60  # until a program says that it is ready


class Wrong(Exception):
    """Says what a turn found."""


class CannotStart(Exception):
    """Says why there is nothing to try."""


def first_line(stream):
    """Returns the first line of what a program prints, or raises CannotStart if it prints none for long."""
    if not select.select([stream], [], [], START_S)[0]:
        raise CannotStart(f"a program has said nothing for {START_S} s, not even that it is ready")
    return stream.readline()


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Load:
    """Has turns until the end. A subclass says what a turn does, and counts bytes that it has compared."""
    name = "load"
    pause_s = 0.2

    def __init__(self, place, seed):
        self.place, self.random = place, random.Random(f"{seed} {self.name}")
        self.folder = place.root / self.name
        self.turns = self.bytes = 0
        self.findings, self.told = [], 0  # those that were printed already

    def run(self, end):
        """Has turns until the event `end`; a turn that fails is noted, and the next one begins."""
        while not end.wait(self.pause_s):
            try:
                shutil.rmtree(self.folder, ignore_errors=True)
                self.folder.mkdir(parents=True)
                self.turn()
            except Exception as error:  # of any kind: a load that ends early would count as good
                if not end.is_set():
                    self.findings.append(f"{self.name}, turn {self.turns}: {error!r}" if not isinstance(error, Wrong)
                                         else f"{self.name}, turn {self.turns}: {error}")
                    end.wait(1)
            self.turns += 1
        self.finish()

    def turn(self):
        raise NotImplementedError

    def finish(self):
        """Ends what turns have left behind."""

    # --- For turns

    def command(self, *arguments, environment=None, is_ok=True):
        words = [self.place.command, *map(str, arguments)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=TURN_S, check=False, preexec_fn=die_with_parent,
                              env={**os.environ, **(environment or {})})
        if is_ok and done.returncode != 0:
            raise Wrong(f"`rpcrdma {' '.join(words[1:])}` ended with {done.returncode}: {(done.stderr or done.stdout)[-1500:]}")
        return done

    def size(self, most):
        """Sizes of all orders of magnitude alike."""
        return int(2 ** self.random.uniform(0, most.bit_length() - 1))

    def file(self, name, most=16 << 20):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.random.randbytes(self.size(most)))
        return path

    def tree(self):
        root = self.folder / "tree"
        for number in range(self.random.randrange(1, 12)):
            self.file(f"tree/{'sub/' * (number % 3)}file-{number}", 2 << 20)
        (root / "link").symlink_to("file-0")
        return root

    def expect_same(self, one, other):
        if not filecmp.cmp(one, other, shallow=False):
            raise Wrong(f"{other} differs from {one}")
        self.bytes += os.path.getsize(one)

    def expect_same_tree(self, one, other):
        for path in sorted(one.rglob("*")):
            if path.is_file() and not path.is_symlink():
                self.expect_same(path, other / path.relative_to(one))


class Blob(Load):
    name = "blob"

    def url(self):
        return [self.place.urls["rdma"]]

    def turn(self):
        file, name = self.file("sent"), f"{self.name}-{self.turns % 5}"
        self.command("put", *self.url(), file, name)
        self.command("get", *self.url(), name, self.folder / "got")
        self.expect_same(file, self.folder / "got")
        if self.random.random() < 0.5:
            self.command("rm", *self.url(), name)


class StepUp(Blob):
    name = "step-up"

    def url(self):
        return ["--step-up", self.place.urls["tcp"]]


class Version2(Blob):
    name = "version-2"

    def url(self):
        return ["--rpcrdma-version", "2", self.place.urls["rdma"]]


class Nfs(Load):
    """Copies trees to and fro, over RDMA and TCP by turns, and removes them."""
    name = "nfs"

    def turn(self):
        self.copy(f"{self.place.urls[('nfs+rdma', 'nfs+tcp')[self.turns % 2]]}/{self.name}")

    def copy(self, to, *options, environment=None):
        tree = self.tree()
        # A turn that did not end well leaves its copy there, and to copy a folder onto one puts it inside.
        to = f"{to}-{self.turns}"
        self.command("cp", "-r", *options, tree, to, environment=environment)
        self.command("cp", "-r", *options, to, self.folder / "back", environment=environment)
        self.expect_same_tree(tree, self.folder / "back")
        self.command("rm", "-r", *options, to, environment=environment)


class Kerberos(Nfs):
    name = "kerberos"

    def turn(self):
        flavor = ("krb5", "krb5i", "krb5p")[self.turns % 3]
        url = self.place.urls["secure"].replace("127.0.0.1", "localhost")
        self.copy(f"{url}/{self.name}", "--sec", flavor, environment=self.place.realm.environment(self.place.user))


class Cuts(Nfs):
    """Copies through a relay that cuts connections: the client makes new ones and goes on."""
    name = "cuts"

    def __init__(self, place, seed):
        super().__init__(place, seed)
        self.relay = Relay(int(place.urls["nfs+rdma"].split(":")[-1].split("/")[0]), self.random)

    def turn(self):
        url = self.place.urls["nfs+rdma"]
        port = url.split(":")[-1].split("/")[0]
        self.copy(f"{url.replace(port, str(self.relay.port))}/{self.name}", "--mount-port",
                  self.place.urls["nfs+tcp"].split(":")[-1].split("/")[0])

    def finish(self):
        self.relay.close()


class Relay:
    """Passes bytes on between clients and a port, and cuts each connection after a while."""

    def __init__(self, port, chance):
        self.target, self.chance = port, chance
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.socket.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.socket.accept()
                server = socket.create_connection(("127.0.0.1", self.target))
                # One connection in three lasts: else a large file would never be whole. None is cut while it is made:
                # a command says so and ends, when it happens to its first one.
                left = [self.chance.randrange(4 << 10, 4 << 20) if self.chance.random() < 0.66 else 1 << 40]
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=(one, other, left), daemon=True).start()

    @staticmethod
    def _pass(source, sink, left):
        with contextlib.suppress(OSError):
            while left[0] > 0 and (data := source.recv(1 << 16)):
                sink.sendall(data)
                left[0] -= len(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            # The other direction's thread still reads it: the descriptor goes when both have ended.


class Kills(Load):
    """Clients that are killed in the middle, or stand still before: nothing of them stays with the server."""
    name = "kills"

    def turn(self):
        file = self.folder / "large"
        with open(file, "wb") as out:
            out.truncate(256 << 20)
        words = self.random.choice((["put", self.place.urls["rdma"], file, "killed"],
                                    ["cp", file, f"{self.place.urls['nfs+rdma']}/killed"],
                                    ["cp", file, f"{self.place.urls['nfs+tcp']}/killed"]))
        client = subprocess.Popen([self.place.command, *map(str, words)], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)
        pause = threading.Event()
        pause.wait(self.random.uniform(0, 1.5))
        if self.random.random() < 0.3:
            client.send_signal(signal.SIGSTOP)
            pause.wait(self.random.uniform(0, 10))
        client.kill()
        client.wait()
        # Its file would fill the disk with the files of all turns.
        self.command("rm", f"{self.place.urls['nfs+rdma']}/killed", is_ok=False)
        # So would what it had not given its name yet; and the server keeps files open that are there.
        for left in (self.place.root / "data").glob(".killed.rpcrdma-*"):
            self.command("rm", f"{self.place.urls['nfs+rdma']}/{left.name}", is_ok=False)


class Mount(Load):
    """Works with files below a mount that stays, as programs do."""
    name = "mount"

    def __init__(self, place, seed):
        super().__init__(place, seed)
        self.at = place.root / "mounted"
        self.at.mkdir()
        self.process = subprocess.Popen([place.command, "mount", place.urls["nfs+rdma"], self.at, "-f"],
                                        stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        if not (line := first_line(self.process.stderr)).startswith("ready"):
            raise CannotStart(f"`rpcrdma mount` says: {line}")
        place.watched["mount"] = self.process.pid
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def turn(self):
        # A name of its own: what one turn cannot remove is not in the way of others.
        tree, there = self.tree(), self.at / f"mounted-{self.turns}"
        shutil.copytree(tree, there, symlinks=True)
        moved = there / "moved"
        (there / "file-0").rename(moved)
        with open(moved, "r+b") as file:
            file.seek(0, os.SEEK_END)
            file.write(self.random.randbytes(3000))
            file.truncate(max(file.tell() - 3000, 0))
        self.expect_same(tree / "file-0", moved)
        moved.rename(there / "file-0")
        self.expect_same_tree(tree, there)
        shutil.rmtree(there)

    def finish(self):
        subprocess.run(["umount", "-l", self.at], check=False)
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.findings.append("mount: it did not end behind umount")
            return
        if self.process.returncode != 0:
            self.findings.append(f"mount: it ended with {self.process.returncode}")


class Programs(Load):
    """Programs of libtirpc, unchanged: one of rpcgen's at its own server, and Debian's showmount at ours."""
    name = "programs"

    def __init__(self, place, seed):
        super().__init__(place, seed)
        words = [place.command, "run", "--prefer-rdma", "--listen", "127.0.0.1:0", "--", place.programs / "tirpc_blocks_server"]
        self.server = subprocess.Popen(list(map(str, words)), preexec_fn=die_with_parent)
        place.watched["adapter"] = self.server.pid

    def turn(self):
        netid = ("rdma", "tcp")[self.turns % 2]
        words = [self.place.command, "run", "--", self.place.programs / "tirpc_blocks_client", "127.0.0.1", netid,
                 str(self.size(300_000)), "300000"]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=TURN_S, check=False)
        if done.returncode != 0 and self.turns > 3:  # the first ones may come before the server has registered
            raise Wrong(f"tirpc_blocks_client {netid} ended with {done.returncode}: {done.stdout[-300:]} {done.stderr[-500:]}")
        self.bytes += 300_000 if done.returncode == 0 else 0
        if self.server.poll() is not None:
            raise Wrong(f"tirpc_blocks_server ended with {self.server.returncode}")
        if shows := shutil.which("showmount", path=self.place.path):
            done = subprocess.run([shows, "-e", "127.0.0.1"], capture_output=True, text=True, timeout=TURN_S, check=False)
            if done.returncode != 0 or "/data" not in done.stdout:
                raise Wrong(f"showmount ended with {done.returncode}: {done.stdout[-300:]} {done.stderr[-300:]}")

    def finish(self):
        self.server.kill()
        self.server.wait()


def mpa_request(flags=0x40):
    return b"MPA ID Req Frame" + bytes([flags, 1]) + struct.pack("!H", 0)


class Hostile(Load):
    """Peers that speak nothing, something else, the beginning of iWARP and garbage behind it, or too much."""
    name = "hostile"
    pause_s = 0.02

    def turn(self):
        port = int(self.place.urls["rdma"].rsplit(":", 1)[1])
        tcp_port = int(self.place.urls["nfs+tcp"].split(":")[-1].split("/")[0])
        garbage = self.random.randbytes(self.size(1 << 16))
        record = struct.pack("!I", 0x80000000 | self.random.randrange(1 << 31))
        call = struct.pack("!10I", self.random.randrange(1 << 32), 0, 2, 100003, 3, self.random.randrange(30), 0, 0, 0, 0)
        ways = ((port, b""), (port, garbage), (port, mpa_request()), (port, mpa_request() + garbage),
                (port, mpa_request(0x10) + garbage), (tcp_port, garbage), (tcp_port, record + garbage),
                (tcp_port, struct.pack("!I", 0x80000000 | (len(call) + len(garbage))) + call + garbage),
                (tcp_port, (struct.pack("!I", 0x80000000 | len(call)) + call) * 200))
        number, data = self.random.choice(ways)
        with socket.create_connection(("127.0.0.1", number), timeout=10) as peer, contextlib.suppress(OSError):
            peer.sendall(data)
            if self.random.random() < 0.3:
                peer.shutdown(socket.SHUT_WR)
            peer.settimeout(self.random.choice((0.001, 0.1, 1)))
            peer.recv(1 << 16)
            if self.random.random() < 0.3:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Reloads(Load):
    """Changes exports and the level of the log of the server that all others use."""
    name = "reloads"
    pause_s = 5

    def turn(self):
        self.place.write_configuration(extra=self.turns % 3, level=("info", "error", "warning")[self.turns % 3])
        os.kill(self.place.watched["server"], signal.SIGHUP)
        done = self.command("ls", self.place.urls["nfs+rdma"], is_ok=False)
        if done.returncode != 0:
            raise Wrong(f"an export is gone after a reload: {done.stderr[-500:]}")


class Nulls(Load):
    """Makes many calls on one connection: what grows with each call shows soonest here."""
    name = "nulls"

    def turn(self):
        self.command("ping", self.place.urls["rdma"], "--rpcrdma-version", self.random.choice((1, 2, "auto")), "--count",
                     self.random.choice((1, 500, 20_000)))


ALL = (Blob, StepUp, Version2, Nfs, Kerberos, Cuts, Kills, Mount, Programs, Hostile, Reloads, Nulls)


def can_run(kind, place):
    """Returns why a load cannot run here, or None."""
    if kind is Kerberos and place.realm is None:
        return place.no_realm
    if kind is Mount and not pathlib.Path("/dev/fuse").exists():
        return "there is no /dev/fuse"
    if kind is Programs and not (place.programs and (place.programs / "tirpc_blocks_server").is_file()):
        return "--programs names no folder with tirpc_blocks_server"
    return None
