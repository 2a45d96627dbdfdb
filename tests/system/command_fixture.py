#!/usr/bin/env python3
"""What tests of the `rpcrdma` command share: a server on a directory, files, ways to wait."""
import hashlib
import os
import pathlib
import select
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
import unittest

COMMAND = os.environ["RPCRDMA"]
BOUND_S = 60  # nothing here takes long; what does is a hang


def wait_until(condition, seconds=BOUND_S):
    """Polls a condition that another process makes true."""
    limit = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError("the condition never held")
        pause.wait(0.005)


def run(*arguments, **keywords):
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=BOUND_S,
                          check=False, **keywords)


def receive(connection, size):
    """Returns so many bytes of a connection that stays open."""
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise AssertionError("the peer has closed the connection")
        data += piece
    return data


class Server:
    def __init__(self, directory, *arguments, port=0, **keywords):
        self.process = subprocess.Popen(
            [COMMAND, "serve", "--blob", directory, "--listen", "127.0.0.1", "--port", str(port), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **keywords)
        line = self.process.stdout.readline()
        assert line.startswith("ready rdma://127.0.0.1:"), line + self.process.stderr.read()
        self.urls = line.split()[1:]
        self.url = self.urls[0]
        self.port = int(self.url.rsplit(":", 1)[1])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        output, errors = self.process.communicate(timeout=BOUND_S)
        return self.process.returncode, output, errors

    def kill(self):
        self.process.kill()
        self.process.communicate(timeout=BOUND_S)


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class CommandFixture(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.TemporaryDirectory(prefix="rpcrdma-test.")
        self.root = pathlib.Path(self.work.name)
        self.served = self.root / "served"
        self.served.mkdir()
        self.servers = []

    def tearDown(self):
        for server in self.servers:
            if server.process.poll() is None:
                server.kill()
            server.process.stdout.close()
            server.process.stderr.close()
        self.work.cleanup()

    def serve(self, *arguments, **keywords):
        server = Server(str(self.served), *arguments, **keywords)
        self.servers.append(server)
        return server

    def serve_under_strace(self, strace, *arguments):
        """Starts a server under strace, whose options select system calls, or make them fail. Returns its process, its URLs
        and the file of the trace."""
        if shutil.which("strace") is None:
            self.skipTest("strace is not installed, which sees system calls")
        trace = self.root / f"strace{len(list(self.root.glob('strace*')))}"  # an earlier server of the test may still write
        # By -D the process is the server, which takes SIGTERM, and strace a child of it.
        process = subprocess.Popen(["strace", "-D", "-f", "-qq", "-o", trace, *strace, COMMAND, "serve", *arguments],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=os.environ | {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"})
        self.addCleanup(process.communicate, timeout=BOUND_S)
        self.addCleanup(process.kill)
        line = process.stdout.readline()
        if not line.startswith("ready"):
            errors = process.stderr.read()
            if "ptrace" in errors:
                self.skipTest(f"strace cannot trace here: {errors}")
            self.fail(errors)
        return process, line.split()[1:], trace

    def file(self, name, size):
        path = self.root / name
        path.write_bytes(os.urandom(size))
        return path

    def uploading(self):
        """Whether data of an upload has arrived on the server's disk."""
        uploads = self.served / ".uploads"
        return any(path.stat().st_size > 0 for path in uploads.glob("*.data"))

    def cut_off_put(self, server, path):
        """Leaves an upload behind of which some data has arrived."""
        putter = subprocess.Popen([COMMAND, "put", server.url, str(path), "--size", "64K", "--depth", "1"],
                                  stderr=subprocess.DEVNULL)
        wait_until(self.uploading)
        putter.kill()
        putter.wait(timeout=BOUND_S)

    def put(self, server, *arguments, **keywords):
        put = run("put", server.url, *arguments, **keywords)
        self.assertEqual((put.returncode, put.stderr), (0, ""), arguments)
        return put

    def served_file(self, name, size):
        data = os.urandom(size)
        (self.served / name).write_bytes(data)
        return data

    def in_root(self):
        """All that lies beside the served directory."""
        return sorted(path.name for path in self.root.iterdir() if path != self.served)

    def get(self, server, name, *arguments, **keywords):
        got = run("get", server.url, name, *arguments, **keywords)
        self.assertEqual((got.returncode, got.stderr), (0, ""), arguments)
        return got

    @staticmethod
    def has_data(descriptor):
        return bool(select.select([descriptor], [], [], 0)[0])

    def device(self):
        """One like /dev/null; as root, who could destroy that, one of our own."""
        if os.geteuid() != 0:
            return pathlib.Path("/dev/null")
        device = self.root / "device"
        os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        return device

    def receiving(self, getter):
        """Whether a get has written something to a file below the test's directory."""
        folder = pathlib.Path(f"/proc/{getter.pid}/fd")
        try:
            return any(os.readlink(each).startswith(str(self.root)) and each.stat().st_size > 0
                       for each in folder.iterdir())
        except FileNotFoundError:
            return False


class WatchedFixture(CommandFixture):
    """A server that shows its figures at `socket`."""

    def watched(self, *arguments):
        self.socket = self.root / "stat.sock"
        return self.serve("--stat-socket", self.socket, "--provider", "siwarp", *arguments)

    def exported(self, *arguments):
        (self.root / "export").mkdir()
        server = self.watched("--nfs", f"{self.root}/export:no_root_squash", "--export", "/data", "--nfs-tcp-port", "0",
                              "--handle-key", self.root / "key", *arguments)
        server.nfs = next(url for url in server.urls if url.startswith("nfs+rdma:"))
        server.nfs_tcp = next(url for url in server.urls if url.startswith("nfs+tcp:"))
        return server
