#!/usr/bin/env python3
"""The command next to Debian's rpcbind: what is registered, what is found, and what is told when not.

rpcbind wants port 111 and /run/rpcbind.sock, so that it is started in a network and a mount namespace of
its own. Where those are not allowed, or rpcbind is not installed, this exits with 77 and says why.
"""
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

COMMAND = os.environ["RPCRDMA"]
BOUND_S = 60  # nothing here takes long; what does is a hang
BLOB_PROGRAM = None  # what `ping --json` says
ADDRESS = "192.0.2.7"  # of this host in its namespace, besides the loopback
NOBODY = 65534
NOT_RUN = 77
SBIN = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
RPCBIND = shutil.which("rpcbind", path=SBIN)
RPCINFO = shutil.which("rpcinfo", path=SBIN)


def wait_until(condition, what, seconds=BOUND_S):
    limit = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError(f"never: {what}")
        pause.wait(0.01)


def run(*arguments):
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=BOUND_S,
                          check=False)


def answers(address):
    """Whether somebody listens on this Unix socket."""
    with socket.socket(socket.AF_UNIX) as attempt:
        return attempt.connect_ex(address) == 0


class RpcbindTest(unittest.TestCase):
    def setUp(self):
        self.daemon = None
        self.servers = []
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="rpcrdma-rpcbind."))
        self.root.chmod(0o755)
        self.start_rpcbind()

    def tearDown(self):
        for server in self.servers:
            if server.poll() is None:
                server.kill()
            server.communicate(timeout=BOUND_S)
        self.stop_rpcbind()
        shutil.rmtree(self.root)

    def start_rpcbind(self):
        self.daemon = subprocess.Popen([RPCBIND, "-f"], stdin=subprocess.DEVNULL)
        wait_until(lambda: self.daemon.poll() is not None or answers("/run/rpcbind.sock"), "rpcbind answers")
        self.assertIsNone(self.daemon.poll(), "rpcbind has ended at once")

    def stop_rpcbind(self):
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait(timeout=BOUND_S)
            self.daemon = None
        for name in ("rpcbind.sock", "rpcbind.lock"):
            pathlib.Path("/run", name).unlink(missing_ok=True)

    def start(self, *arguments, command=COMMAND, **keywords):
        directory = pathlib.Path(tempfile.mkdtemp(dir=self.root))
        directory.chmod(0o777)
        server = subprocess.Popen([command, "serve", "--blob", directory, "--port", "0", "--log-level", "error",
                                   *arguments],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **keywords)
        self.servers.append(server)
        return server

    def serve(self, *arguments, **keywords):
        """A server that is ready, and its port."""
        server = self.start(*arguments, **keywords)
        line = server.stdout.readline()
        self.assertTrue(line.startswith("ready rdma://"), line)
        return server, int(line.rsplit(":", 1)[1])

    def stop(self, server):
        """By SIGTERM; what it wrote to stderr."""
        server.send_signal(signal.SIGTERM)
        _, errors = server.communicate(timeout=BOUND_S)
        self.assertEqual(server.returncode, 0, errors)
        return errors

    def registered(self):
        """{netid: (address, owner)} of what is registered over RDMA, as rpcinfo has it."""
        listed = subprocess.run([RPCINFO], capture_output=True, text=True, timeout=BOUND_S, check=True).stdout
        found = {}
        for line in listed.splitlines()[1:]:
            program, version, netid, address, *_, owner = line.split()
            if netid.startswith("rdma"):
                self.assertEqual((int(program), int(version)), BLOB_PROGRAM)
                found[netid] = (address, owner)
        return found

    def pinged(self, *arguments):
        result = run("ping", *arguments, "--count", 3, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["peer"]

    def refused(self, code, *arguments):
        result = run(*arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stderr

    # --- What is registered ---

    def test_server_is_registered_while_it_runs_and_found_by_its_host(self):
        server, port = self.serve("--rpcbind", "--listen", "127.0.0.1")
        self.assertEqual(self.registered(),
                         {"rdma": (f"127.0.0.1.{port // 256}.{port % 256}", "superuser")})
        self.assertEqual(self.pinged("127.0.0.1"), f"127.0.0.1:{port}")
        self.assertEqual(self.stop(server), "")
        self.assertEqual(self.registered(), {})
        self.assertIn("is the server running, and registered?", self.refused(1, "ping", "127.0.0.1"))

    def test_programs_lists_what_rpcinfo_lists(self):
        _, port = self.serve("--rpcbind", "--listen", "127.0.0.1")
        listed = subprocess.run([RPCINFO], capture_output=True, text=True, timeout=BOUND_S, check=True).stdout
        expected = sorted(tuple(line.split()[:4]) for line in listed.splitlines()[1:])
        for host in ("127.0.0.1", "tcp://127.0.0.1:111", "tcp://127.0.0.1", "unix:///run/rpcbind.sock"):
            result = run("programs", host, "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            programs = json.loads(result.stdout)["programs"]
            self.assertEqual(sorted((str(each["program"]), str(each["version"]), each["netid"], each["address"])
                                    for each in programs), expected)
            self.assertIn(("blob", f"127.0.0.1:{port}", "superuser"),
                          [(each["name"], each["endpoint"], each["owner"]) for each in programs])
        self.stop_rpcbind()
        self.assertIn("is rpcbind running there", self.refused(3, "programs", "127.0.0.1"))

    def test_files_move_with_a_host_alone(self):
        self.serve("--rpcbind", "--listen", "127.0.0.1")
        path = self.root / "file"
        path.write_bytes(os.urandom(3 << 20))
        for arguments in (("put", "127.0.0.1", path), ("get", "127.0.0.1", "file", self.root / "back")):
            result = run(*arguments)
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.root / "back").read_bytes(), path.read_bytes())
        self.assertIn("file", run("ls", "127.0.0.1").stdout)

    def test_server_on_every_address_is_found_at_each(self):
        _, port = self.serve("--rpcbind", "--listen", "0.0.0.0")
        self.assertEqual(self.registered()["rdma"][0], f"0.0.0.0.{port // 256}.{port % 256}")
        for host in ("127.0.0.1", ADDRESS, "localhost"):
            self.assertTrue(self.pinged(host).endswith(f":{port}"))
        self.assertEqual(self.pinged(ADDRESS), f"{ADDRESS}:{port}")

    def test_nfs_is_registered_over_rdma_and_with_mount_over_tcp(self):
        exported = self.root / "exported"
        exported.mkdir()
        server = self.start("--nfs", exported, "--nfs-tcp-port", "0", "--rpcbind", "--listen", "127.0.0.1",
                            "--handle-key", self.root / "key", "--provider", "siwarp")
        urls = server.stdout.readline().split()
        ports = [int(url.split(":")[2].split("/")[0]) for url in urls if url.startswith("nfs+")]
        self.assertEqual(len(ports), 2, urls)
        rdma, tcp = (f"127.0.0.1.{port // 256}.{port % 256}" for port in ports)
        nfs, mount, locks = (100003, 3), (100005, 3), (100021, 4)
        found = {(int(program), int(version), netid): address for program, version, netid, address, *_ in
                 (line.split() for line in subprocess.run([RPCINFO], capture_output=True, text=True, timeout=BOUND_S,
                                                          check=True).stdout.splitlines()[1:])
                 if int(program) in (nfs[0], mount[0], locks[0])}
        self.assertEqual(found, {(*nfs, "rdma"): rdma, (*nfs, "tcp"): tcp, (*mount, "tcp"): tcp, (*locks, "tcp"): tcp})
        # A second one leaves the first one's as they are.
        second = self.start("--nfs", exported, "--nfs-tcp-port", "0", "--rpcbind", "--listen", "127.0.0.1",
                            "--handle-key", self.root / "other-key", "--provider", "siwarp")
        _, errors = second.communicate(timeout=BOUND_S)
        self.assertEqual(second.returncode, 1, errors)
        self.assertIn("another server has registered, which listens there", errors)
        listed = subprocess.run([RPCINFO], capture_output=True, text=True, timeout=BOUND_S, check=True).stdout
        for address in (rdma, tcp):
            self.assertIn(f" {address} ", listed)
        self.stop(server)
        listed = subprocess.run([RPCINFO], capture_output=True, text=True, timeout=BOUND_S, check=True).stdout
        self.assertNotIn("100003", listed)
        self.assertNotIn("100021", listed)

    @staticmethod
    def register_lock_manager(port):
        """Sets (100021, 4, TCP, port) by version 2 of the port mapper, as the kernel's lock manager does (RFC 1833 §3)."""
        call = struct.pack(">10I", 1, 0, 2, 100000, 2, 1, 0, 0, 0, 0) + struct.pack(">4I", 100021, 4, socket.IPPROTO_TCP, port)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.bind(("127.0.0.1", 1023))  # one of root's
            asking.connect(("127.0.0.1", 111))
            asking.settimeout(1)
            reply = None

            def is_answered():
                nonlocal reply
                try:  # rpcbind may not have this socket yet, and datagrams get lost
                    asking.send(call)
                    reply = asking.recv(100)
                except (TimeoutError, ConnectionRefusedError):
                    return False
                return True

            wait_until(is_answered, "the answer of rpcbind")
        assert reply == struct.pack(">7I", 1, 1, 0, 0, 0, 0, 1), reply

    def test_lock_manager_and_nfs_server_of_this_machine_stay(self):
        exported = self.root / "exported"
        exported.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as locks, socket.create_server(("127.0.0.1", 2049)):
            self.register_lock_manager(locks.getsockname()[1])
            for more, line in ((["--nfs-tcp-port", "0"], "; clients have to mount with nolock"),
                               ([], "; Linux cannot mount without MOUNT by TCP: name another port with --nfs-tcp-port")):
                server = subprocess.Popen([COMMAND, "serve", "--nfs", exported, "--port", "0", "--listen", "127.0.0.1", "--rpcbind",
                                           "--handle-key", self.root / "key", "--provider", "siwarp", "--log-level", "warning", *more],
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.servers.append(server)
                self.assertTrue(server.stdout.readline().startswith("ready"))
                self.assertRegex(self.stop(server), f"(?m)^\\S+ warning (serve|rpcbind): .*{line}$")

    def test_server_on_the_loopback_is_not_found_from_outside(self):
        self.serve("--rpcbind", "--listen", "127.0.0.1")
        self.assertIn("loopback", self.refused(1, "ping", ADDRESS))

    def test_ipv6_with_netid_rdma6(self):
        self.need_ipv6()
        server, port = self.serve("--rpcbind", "--listen", "::1")
        self.assertEqual(self.registered(), {"rdma6": (f"::1.{port // 256}.{port % 256}", "superuser")})
        self.assertEqual(self.pinged(f"rdma://[::1]:{port}"), f"[::1]:{port}")
        for host in ("::1", "[::1]", "127.0.0.1"):  # the last one: rpcbind is asked over IPv4
            self.assertEqual(self.pinged(host), f"[::1]:{port}")
        self.stop(server)
        self.assertEqual(self.registered(), {})

    def test_every_ipv6_address_takes_ipv4_too(self):
        self.need_ipv6()
        server, port = self.serve("--rpcbind", "--listen", "::")
        low = f"{port // 256}.{port % 256}"
        self.assertEqual({netid: address for netid, (address, _) in self.registered().items()},
                         {"rdma": f"0.0.0.0.{low}", "rdma6": f"::.{low}"})
        self.assertEqual(self.pinged("::1"), f"[::1]:{port}")
        self.assertEqual(self.pinged("127.0.0.1"), f"127.0.0.1:{port}")
        self.stop(server)
        self.assertEqual(self.registered(), {})

    def need_ipv6(self):
        try:
            with socket.socket(socket.AF_INET6) as attempt:
                attempt.bind(("::1", 0))
        except OSError as error:
            self.skipTest(f"no IPv6 here: {error}")

    def test_daemon_may_be_asked_over_tcp(self):
        server, port = self.serve("--rpcbind", "--rpcbind-daemon", "127.0.0.1:111", "--listen", "127.0.0.1")
        self.assertEqual(self.pinged("127.0.0.1"), f"127.0.0.1:{port}")
        self.stop(server)
        self.assertEqual(self.registered(), {})

    # --- Several servers ---

    def test_what_a_killed_server_left_is_replaced(self):
        server, _ = self.serve("--rpcbind", "--listen", "127.0.0.1")
        server.kill()
        server.wait(timeout=BOUND_S)
        self.assertEqual(list(self.registered()), ["rdma"])
        self.assertIn("is a server running there", self.refused(3, "ping", "127.0.0.1"))
        _, port = self.serve("--rpcbind", "--listen", "127.0.0.1")
        self.assertEqual(self.pinged("127.0.0.1"), f"127.0.0.1:{port}")

    def test_end_of_one_server_leaves_the_registration_of_the_next(self):
        first, _ = self.serve("--rpcbind", "--listen", "127.0.0.1")
        second, port = self.serve("--rpcbind", "--listen", "127.0.0.1")
        self.stop(first)
        self.assertEqual(self.pinged("127.0.0.1"), f"127.0.0.1:{port}")
        self.stop(second)
        self.assertEqual(self.registered(), {})

    def test_another_users_registration_is_left(self):
        command = shutil.copy(COMMAND, self.root)  # where that user may go
        _, port = self.serve("--rpcbind", "--listen", "127.0.0.1")
        other = self.start("--rpcbind", "--listen", "127.0.0.1", command=command, user=NOBODY)
        output, errors = other.communicate(timeout=BOUND_S)
        self.assertEqual((other.returncode, output), (1, ""), errors)
        self.assertIn("which another user has registered", errors)
        self.assertEqual(self.pinged("127.0.0.1"), f"127.0.0.1:{port}")

    def test_owner_is_who_runs_the_server(self):
        command = shutil.copy(COMMAND, self.root)
        server, _ = self.serve("--rpcbind", "--listen", "127.0.0.1", command=command, user=NOBODY)
        self.assertIn(self.registered()["rdma"][1], (str(NOBODY), "nobody"))
        self.assertEqual(self.stop(server), "")
        self.assertEqual(self.registered(), {})

    # --- Without rpcbind, and with one that was started anew ---

    def test_without_rpcbind_is_told(self):
        self.stop_rpcbind()
        self.assertIn("is rpcbind running there", self.refused(3, "ping", "127.0.0.1"))
        server = self.start("--rpcbind")
        output, errors = server.communicate(timeout=BOUND_S)
        self.assertEqual((server.returncode, output), (1, ""))
        self.assertIn("start rpcbind", errors)
        self.serve()  # without the option it does not matter

    def test_rpcbind_that_forgot_or_is_gone_does_not_keep_the_server_from_its_end(self):
        server, _ = self.serve("--rpcbind")
        self.stop_rpcbind()
        self.start_rpcbind()
        self.assertEqual(self.stop(server), "")
        server, _ = self.serve("--rpcbind")
        self.stop_rpcbind()
        self.assertIn("rpcbind", self.stop(server))

    def test_port_of_rpcbind_and_its_daemon_can_be_said(self):
        self.serve("--rpcbind", "--listen", "127.0.0.1")
        self.assertIn("127.0.0.1:1)", self.refused(3, "ping", "127.0.0.1", "--rpcbind-port", 1))
        self.assertIn("/nowhere.sock", self.refused(
            1, "serve", "--blob", self.root, "--port", 0, "--rpcbind", "--rpcbind-daemon", "/nowhere.sock"))
        self.refused(2, "serve", "--blob", self.root, "--port", 0, "--rpcbind", "--rpcbind-daemon", "nonsense")
        self.refused(2, "serve", "--blob", self.root, "--port", 0, "--rpcbind-daemon", "127.0.0.1:111")

    def test_host_with_a_port_is_a_url(self):
        for host in ("127.0.0.1:20049", "[::1]:20049"):
            self.assertIn(f"rdma://{host}", self.refused(2, "ping", host))

    # --- Over RDMA ---

    def test_server_serves_rpcbind_over_rdma_always(self):
        _, port = self.serve("--listen", "127.0.0.1")
        for version in (3, 4):
            self.pinged(f"rdma://127.0.0.1:{port}", "--program", 100000, "--version", version)
        self.assertEqual(self.registered(), {})


def not_run(why):
    print(f"rpcbind_test is NOT run: {why}")
    sys.exit(NOT_RUN)


def enter_namespaces():
    """Runs this file again where rpcbind does not disturb anybody."""
    if RPCBIND is None or RPCINFO is None:
        not_run("rpcbind is not installed (Debian: rpcbind)")
    if shutil.which("unshare") is None or shutil.which("ip", path=SBIN) is None:
        not_run("unshare or ip is not installed (Debian: util-linux, iproute2)")
    allowed = subprocess.run(["unshare", "-n", "-m", "true"], capture_output=True, text=True, check=False)
    if allowed.returncode != 0:
        not_run(f"no network and mount namespaces here, which take root: {allowed.stderr.strip()}")
    os.execvp("unshare", ["unshare", "-n", "-m", sys.executable, os.path.abspath(__file__), "--inside",
                          *sys.argv[1:]])


def prepare():
    for command in (["mount", "-t", "tmpfs", "tmpfs", "/run"], ["ip", "link", "set", "lo", "up"],
                    ["ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": SBIN})
        if done.returncode != 0:
            not_run(f"{' '.join(command)}: {done.stderr.strip()}")
    os.mkdir("/run/rpcbind")


def blob_program():
    """Program and version, as the command has them."""
    with tempfile.TemporaryDirectory(prefix="rpcrdma-rpcbind.") as directory:
        with subprocess.Popen([COMMAND, "serve", "--blob", directory, "--listen", "127.0.0.1", "--port", "0"],
                              stdout=subprocess.PIPE, text=True) as server:
            url = server.stdout.readline().split()[1]
            said = json.loads(run("ping", url, "--count", 1, "--json").stdout)
            server.terminate()
    return said["program"], said["version"]


if __name__ == "__main__":
    if "--inside" not in sys.argv:
        enter_namespaces()
    sys.argv.remove("--inside")
    prepare()
    BLOB_PROGRAM = blob_program()
    unittest.main()
