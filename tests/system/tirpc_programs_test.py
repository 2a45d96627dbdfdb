#!/usr/bin/env python3
"""Programs of rpcgen's and of Debian's over RDMA, started unchanged by `rpcrdma run`, beside Debian's rpcbind.

rpcbind wants port 111 and /run/rpcbind.sock, so that all of it runs in a network and a mount namespace of its own. Where
those are not allowed, or rpcbind is not installed, this exits with 77 and says why.
"""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

COMMAND = os.environ["RPCRDMA"]
PROGRAMS = pathlib.Path(os.environ["PROGRAMS"])
BOUND_S = 60  # nothing here takes long; what does is a hang
ADDRESS = "192.0.2.7"  # of this host in its namespace, besides the loopback
NOT_RUN = 77
# `scripts/setup.sh check` unpacks programs of Debian's there.
UNPACKED = pathlib.Path(__file__).resolve().parents[2] / "build-programs"
PATH = ":".join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin",
                 *(str(UNPACKED / folder) for folder in ("usr/bin", "usr/sbin", "sbin"))])
BLOCKS, NAMES, SUMS = 0x20010101, 0x20010102, 0x20010103
# libtirpc leaks when it looks programs up; that the adapter does not is a matter of tirpc_adapter_test.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
SANITIZER_RUNTIME = os.environ.get("SANITIZER_RUNTIME", "")


def wait_until(condition, what, seconds=BOUND_S):
    limit = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError(f"never: {what}")
        pause.wait(0.02)


def found(name):
    return shutil.which(name, path=PATH)


def installed(name, package):
    """The path of a program of Debian's; else the test is skipped, with the reason."""
    path = found(name)
    if path is None:
        raise unittest.SkipTest(f"{name} is not there (Debian: {package}; scripts/setup.sh check unpacks it)")
    if os.environ.get("SANITIZER") and not os.path.exists(SANITIZER_RUNTIME):
        raise unittest.SkipTest("there is no shared runtime of this sanitizer for programs without it")
    return path


def answers(address):
    """Whether somebody listens on this Unix socket."""
    with socket.socket(socket.AF_UNIX) as attempt:
        return attempt.connect_ex(address) == 0


# Some daemons first take away the registrations that a former one has left.
REGISTERS_AGAIN = """
import ctypes, signal, sys
libtirpc = ctypes.CDLL(None)
dispatch = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(lambda request, transport: None)
program, last = map(int, sys.argv[1:])
for each in (program, program, last):
    libtirpc.svc_unreg(each, 1)
    assert libtirpc.svc_create(dispatch, each, 1, b"tcp") > 0
signal.pause()
"""


# Registers one program for a transport of RDMA, and again.
REGISTERS_TWICE = """
import ctypes, signal, sys
libtirpc = ctypes.CDLL(None)
libtirpc.getnetconfigent.restype = libtirpc.svc_rdma_create.restype = ctypes.c_void_p
dispatch = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(lambda request, transport: None)
transport, entry = map(ctypes.c_void_p, (libtirpc.svc_rdma_create(None), libtirpc.getnetconfigent(b"rdma")))
program, last = map(int, sys.argv[1:])
for each in (program, program, last):
    assert libtirpc.svc_reg(transport, each, 1, dispatch, entry)
signal.pause()
"""


# Prints the netid of a client that is made at a port of the program's own, by each of two functions.
ASKS_AT_A_PORT = """
import ctypes, socket, struct, sys
libtirpc = ctypes.CDLL(None)
host, program, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
class Netbuf(ctypes.Structure):
    _fields_ = [("maxlen", ctypes.c_uint), ("len", ctypes.c_uint), ("buf", ctypes.c_char_p)]
address = struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(host) + bytes(8)
number = ctypes.c_int(-1)
libtirpc.clnttcp_create.restype = libtirpc.clnt_tli_create.restype = libtirpc.getnetconfigent.restype = ctypes.c_void_p
clients = [libtirpc.clnttcp_create(address, ctypes.c_ulong(program), ctypes.c_ulong(1), ctypes.byref(number), 0, 0)]
if port:
    clients.append(libtirpc.clnt_tli_create(-1, ctypes.c_void_p(libtirpc.getnetconfigent(b"tcp")),
                                            ctypes.byref(Netbuf(16, 16, address)), program, 1, 0, 0))
for client in clients:
    print(ctypes.cast(client, ctypes.POINTER(ctypes.c_char_p))[3].decode() if client else None)
"""


def variables_of(*options):
    """The environment in which `rpcrdma run` starts programs, with the sanitizer's runtime in front."""
    printed = subprocess.run([COMMAND, "run", *options, "--print"], capture_output=True, text=True, timeout=BOUND_S,
                             check=True).stdout
    variables = dict(line.split("=", 1) for line in printed.splitlines())
    if SANITIZER_RUNTIME:
        variables["LD_PRELOAD"] = SANITIZER_RUNTIME + ":" + variables["LD_PRELOAD"]
    return {**os.environ, "PATH": PATH, **variables}


def end_daemons(program):
    """Ends what runs this program in the network namespace of this test."""
    own = os.readlink("/proc/self/ns/net")
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "exe") == program and os.readlink(process / "ns/net") == own:
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            continue  # it has ended, or is another user's


class Programs(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="rpcrdma-tirpc."))
        self.addCleanup(shutil.rmtree, self.root)
        self.processes = []
        self.addCleanup(self.end_all)
        daemon = self.start([found("rpcbind"), "-f"])
        wait_until(lambda: daemon.poll() is not None or answers("/run/rpcbind.sock"), "rpcbind answers")
        self.assertIsNone(daemon.poll(), "rpcbind has ended at once")

    def end_all(self):
        for process in reversed(self.processes):
            process.kill()
            process.communicate(timeout=BOUND_S)
        for name in ("rpcbind.sock", "rpcbind.lock"):
            pathlib.Path("/run", name).unlink(missing_ok=True)

    def start(self, words, **keywords):
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True, **keywords)
        self.processes.append(process)
        return process

    def registered(self):
        """{(program, version): {netid: address}} as rpcinfo has it."""
        listed = subprocess.run([found("rpcinfo")], capture_output=True, text=True, timeout=BOUND_S, check=False).stdout
        known = {}
        for line in listed.splitlines()[1:]:
            program, version, netid, address, *_ = line.split()
            known.setdefault((int(program), int(version)), {})[netid] = address
        return known

    def serve(self, name, program, *options, netids=("rdma", "tcp", "udp")):
        server = self.start([COMMAND, "run", *options, "--", PROGRAMS / f"tirpc_{name}_server"])
        self.await_netids(server, program, netids)
        return server

    def await_netids(self, server, program, netids, version=1):
        def has_ended():
            return server is not None and server.poll() is not None
        wait_until(lambda: has_ended() or set(netids) <= set(self.registered().get((program, version), ())),
                   f"{program} is registered under {netids}")
        if has_ended():
            self.fail(f"the server has ended: {server.communicate(timeout=BOUND_S)[1]}")

    def call(self, name, *words, options=("--rdma-only",)):
        return subprocess.run([COMMAND, "run", *options, "--", PROGRAMS / f"tirpc_{name}_client", *map(str, words)],
                              capture_output=True, text=True, timeout=BOUND_S, check=False)

    def called(self, name, *words, **keywords):
        done = self.call(name, *words, **keywords)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def debian(self, words, options=("--rdma-only",), code=0):
        """What a program of Debian's prints that is a client."""
        done = subprocess.run(words, env=variables_of(*options), capture_output=True, text=True, timeout=BOUND_S,
                              check=False)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done.stdout + done.stderr


class RpcgenTest(Programs):
    SIZES = (0, 1, 2000, 4001, 300_000)

    def test_bytes_go_both_ways_by_each_name_of_the_transport(self):
        self.serve("blocks", BLOCKS, "--prefer-rdma")
        for host in ("localhost", ADDRESS):
            for nettype, options in (("rdma", ()), ("tcp", ("--rdma-only",)), ("udp", ("--prefer-rdma",)),
                                     ("netpath", ("--prefer-rdma",))):
                with self.subTest(host=host, nettype=nettype):
                    self.assertEqual(self.called("blocks", host, nettype, *self.SIZES, options=options), "rdma\n")
        self.assertEqual(self.called("blocks", ADDRESS, "tcp", *self.SIZES, options=()), "tcp\n")

    def test_lists_unions_and_versions_are_the_same(self):
        self.serve("names", NAMES, "--prefer-rdma")
        names = [f"name {number * 7919 % 1009}" for number in range(900)]
        self.assertEqual(self.called("names", ADDRESS, "tcp", *names).splitlines(), sorted(names))
        self.assertEqual(self.called("names", ADDRESS, "tcp", *names, *names), "more than 1000\n")
        self.serve("sums", SUMS, "--prefer-rdma")
        self.assertEqual(self.called("sums", ADDRESS, "tcp", 3, -4, 7), "version 2: -1 2.000\n")

    def test_registration_and_listener_are_those_that_were_asked_for(self):
        self.serve("blocks", BLOCKS, "--rdma-only", "--listen", "127.0.0.1:0", netids=("rdma",))
        self.assertEqual(set(self.registered()[BLOCKS, 1]), {"rdma"})
        self.assertTrue(self.registered()[BLOCKS, 1]["rdma"].startswith("127.0.0.1."))
        self.called("blocks", "localhost", "rdma", 100)
        refused = self.call("blocks", "localhost", "tcp", 100, options=())
        self.assertEqual(refused.returncode, 3)
        self.assertIn("RPC: Program not registered", refused.stderr)

    def test_without_a_mode_only_the_netids_are_there(self):
        self.serve("blocks", BLOCKS, netids=("tcp", "udp"))
        self.assertNotIn("rdma", self.registered()[BLOCKS, 1])
        for options in ((), ("--rdma-only",)):
            refused = self.call("blocks", ADDRESS, "rdma", 1, options=options)
            self.assertEqual(refused.returncode, 3)
            self.assertIn(f"{ADDRESS}: RPC: Program not registered", refused.stderr)
        self.assertEqual(self.called("blocks", ADDRESS, "tcp", 1, options=("--prefer-rdma",)), "tcp\n")

    def test_killed_server_is_an_error_and_the_next_one_takes_its_place(self):
        server = self.serve("blocks", BLOCKS, "--prefer-rdma")
        address = self.registered()[BLOCKS, 1]["rdma"]
        server.kill()
        server.communicate(timeout=BOUND_S)
        refused = self.call("blocks", ADDRESS, "rdma", 1)
        self.assertEqual(refused.returncode, 3)
        self.assertIn("Connection refused", refused.stderr)
        again = self.start([COMMAND, "run", "--prefer-rdma", "--", PROGRAMS / "tirpc_blocks_server"])
        wait_until(lambda: again.poll() is not None or
                   self.registered().get((BLOCKS, 1), {}).get("rdma", address) != address, "it is registered again")
        self.assertEqual(self.called("blocks", ADDRESS, "rdma", 5000), "rdma\n")

    def test_bounds_are_refused_with_a_sentence(self):
        self.serve("blocks", BLOCKS, "--prefer-rdma")
        short = self.call("blocks", ADDRESS, "rdma", 200_000, options=("--reply-max", "64k"))
        self.assertEqual(short.returncode, 1)
        self.assertIn("Set RPCRDMA_TIRPC_REPLY_MAX to more", short.stderr)
        self.assertIn("reverse: RPC: Can't decode result", short.stderr)
        long = self.call("blocks", ADDRESS, "rdma", 200_000, options=("--call-max", "64k"))
        self.assertIn("reverse: RPC: Can't encode arguments", long.stderr)
        self.called("blocks", ADDRESS, "rdma", 1_000_000, options=("--call-max", "2M", "--reply-max", "2M"))

    def test_table_has_data_placed_apart_from_the_message(self):
        table = ("--table", PROGRAMS / "tirpc_blocks_table.so")
        self.serve("blocks", BLOCKS, "--prefer-rdma", *table)
        # The bound is one on messages, and the data is in none.
        for options in (("--call-max", "64k"), ("--reply-max", "256k", "--call-max", "64k")):
            self.assertEqual(self.called("blocks", ADDRESS, "rdma", *self.SIZES[:-1], 200_000, options=(*options, *table)),
                             "rdma\n")
        # Each side has its own.
        self.called("blocks", ADDRESS, "rdma", *self.SIZES)
        self.called("blocks", ADDRESS, "tcp", *self.SIZES, options=())

    def test_settings_reach_the_program(self):
        self.serve("blocks", BLOCKS, "--prefer-rdma", "--provider", "siwarp", "--crc", "off", "--memory-max", "64M",
                   "--connections-max", "1", "--rpcbind-daemon", "127.0.0.1:111")
        self.called("blocks", ADDRESS, "rdma", 300_000, options=("--provider", "siwarp", "--crc", "off"))
        for words in (("--provider", "tcp"), ("--crc", "maybe"), ("--call-max", "5"), ("--reply-max", "1G"),
                      ("--rdma-only", "--prefer-rdma"), ("--memory-max", "1"), ("--connections-max", "0")):
            with self.subTest(words=words):
                self.assertEqual(self.call("blocks", ADDRESS, "rdma", options=words).returncode, 2)
        ignored = subprocess.run([PROGRAMS / "tirpc_blocks_client", ADDRESS, "rdma", "1"],
                                 env={**variables_of(), "LD_PRELOAD": variables_of()["LD_PRELOAD"].split(":")[-1],
                                      "RPCRDMA_TIRPC_MODE": "x", "RPCRDMA_TIRPC_CALL_MAX": "1"},
                                 capture_output=True, text=True, timeout=BOUND_S, check=False)
        self.assertEqual(ignored.returncode, 0, ignored.stderr)
        self.assertIn("RPCRDMA_TIRPC_MODE=x is ignored; it has to be named, prefer-rdma or rdma-only", ignored.stderr)
        self.assertIn("RPCRDMA_TIRPC_CALL_MAX=1 is ignored", ignored.stderr)

    def test_server_without_rpcbind_says_so_and_serves(self):
        # The port is that of a network of this test's own.
        os.environ["RPCRDMA_TIRPC_RPCBIND"] = str(self.root / "nobody")
        self.addCleanup(os.environ.pop, "RPCRDMA_TIRPC_RPCBIND")
        server = self.start([COMMAND, "run", "--prefer-rdma", "--listen", "127.0.0.1:20077", "--",
                             PROGRAMS / "tirpc_sums_server"])
        self.await_netids(server, SUMS, ("tcp", "udp"))
        wait_until(lambda: self.ping("rdma://127.0.0.1:20077", SUMS).returncode == 0, "it answers")
        server.send_signal(signal.SIGTERM)
        self.assertIn("is served on rdma://127.0.0.1:20077, and is not registered", server.communicate(timeout=BOUND_S)[1])

    @staticmethod
    def ping(where, program, version=1):
        return subprocess.run([COMMAND, "ping", where, "--program", str(program), "--version", str(version), "--count", "2"],
                              capture_output=True, text=True, timeout=BOUND_S, check=False)

    def test_our_own_client_calls_them(self):
        self.serve("sums", SUMS, "--prefer-rdma")
        for version in (1, 2):
            pinged = self.ping(ADDRESS, SUMS, version)
            self.assertEqual(pinged.returncode, 0, pinged.stderr)

    def test_run_prints_what_it_sets(self):
        printed = subprocess.run([COMMAND, "run", "--rdma-only", "--listen", "192.0.2.1:0", "--reply-max", "2M", "--print"],
                                 env={**os.environ, "LD_PRELOAD": "libc.so.6"}, capture_output=True, text=True,
                                 timeout=BOUND_S, check=True).stdout.splitlines()
        self.assertRegex(printed[0], r"^LD_PRELOAD=/.*/librpcrdma-tirpc\.so\.0:libc\.so\.6$")
        self.assertEqual(printed[1:], ["RPCRDMA_TIRPC_MODE=rdma-only", "RPCRDMA_TIRPC_LISTEN=192.0.2.1:0",
                                       "RPCRDMA_TIRPC_REPLY_MAX=2097152"])

    def test_run_says_what_is_wrong(self):
        nothing = subprocess.run([COMMAND, "run", "--prefer-rdma"], capture_output=True, text=True, timeout=BOUND_S,
                                 check=False)
        self.assertEqual(nothing.returncode, 2)
        self.assertIn("run takes a program", nothing.stderr)
        unknown = subprocess.run([COMMAND, "run", "--", "/no/such/program"], capture_output=True, text=True,
                                 timeout=BOUND_S, check=False)
        self.assertEqual(unknown.returncode, 1)
        self.assertIn("cannot start /no/such/program: No such file or directory", unknown.stderr)
        # ld.so(8) would pass over each, and the program would run without.
        for table, why in (("no/such/table.so", "No such file or directory"), ("my tables/a.so", "a space or a colon"),
                           ("a:b.so", "a space or a colon")):
            with self.subTest(table=table):
                path = self.root / table
                if "such" not in table:
                    path.parent.mkdir(exist_ok=True)
                    path.touch()
                refused = subprocess.run([COMMAND, "run", "--table", path, "--", "true"], capture_output=True, text=True,
                                         timeout=BOUND_S, check=False)
                self.assertEqual(refused.returncode, 1, refused.stderr)
                self.assertIn(why, refused.stderr)

    def test_port_that_a_program_names_is_the_one_that_it_gets(self):
        self.serve("sums", SUMS, "--prefer-rdma")
        ports = {netid: int(address.split(".")[-2]) * 256 + int(address.split(".")[-1])
                 for netid, address in self.registered()[SUMS, 1].items()}
        for port, netids in ((0, ["rdma"]), (ports["tcp"], ["tcp", "tcp"]), (ports["rdma"], ["rdma", "rdma"])):
            with self.subTest(port=port):
                printed = subprocess.run([sys.executable, "-c", ASKS_AT_A_PORT, ADDRESS, str(SUMS), str(port)],
                                         env=variables_of("--prefer-rdma"), capture_output=True, text=True, timeout=BOUND_S,
                                         check=True).stdout
                self.assertEqual(printed.split(), netids)

    def test_program_of_another_library_is_left_alone(self):
        done = subprocess.run([COMMAND, "run", "--prefer-rdma", "--", PROGRAMS / "tirpc_other_program"], capture_output=True,
                              text=True, timeout=BOUND_S, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "its own 7 8\n"))
        self.assertIn("this program uses libntirpc, which is not libtirpc", done.stderr)

    def test_program_that_registers_again_is_found_again(self):
        # Each program of its own, in one process: the second says that the first is done.
        server = self.start([sys.executable, "-c", REGISTERS_AGAIN, str(SUMS), str(BLOCKS)], env=variables_of("--prefer-rdma"))
        self.await_netids(server, BLOCKS, ("rdma", "tcp"))
        self.assertLessEqual({"rdma", "tcp"}, set(self.registered()[SUMS, 1]))

    def test_program_that_registers_twice_stays_registered(self):
        server = self.start([sys.executable, "-c", REGISTERS_TWICE, str(SUMS), str(BLOCKS)], env=variables_of("--rdma-only"))
        self.await_netids(server, BLOCKS, ("rdma",))
        self.assertIn("rdma", self.registered().get((SUMS, 1), ()))


class DebianTest(Programs):
    """Binaries of Debian's, which were built without a thought of RDMA."""

    def test_rpcinfo_asks_over_rdma(self):
        self.serve("sums", SUMS, "--prefer-rdma")
        rpcinfo = installed("rpcinfo", "rpcbind")
        self.assertEqual(self.debian([rpcinfo, "-T", "rdma", ADDRESS, str(SUMS), "2"], options=()),
                         f"program {SUMS} version 2 ready and waiting\n")
        self.assertIn(f"program {SUMS} version 1 ready and waiting",
                      self.debian([rpcinfo, "-T", "rdma", ADDRESS, str(SUMS)], options=()))
        self.debian([rpcinfo, "-T", "rdma", ADDRESS, str(SUMS + 9), "1"], options=(), code=1)

    def test_rusers_asks_rusersd(self):
        rusersd = installed("rpc.rusersd", "rusersd")
        parent = self.start([rusersd], env=variables_of("--rdma-only"))
        self.addCleanup(end_daemons, rusersd)
        # It goes on in a child, which has what the parent has registered.
        self.assertEqual(parent.wait(timeout=BOUND_S), 0)
        self.await_netids(None, 100002, ("rdma",), version=3)
        self.debian([installed("rusers", "rusers"), "-a", ADDRESS])

    def test_showmount_asks_mountd(self):
        mountd = installed("rpc.mountd", "nfs-kernel-server")
        showmount = installed("showmount", "nfs-common")
        state = "/var/lib/nfs" if os.path.isdir("/var/lib/nfs") else "/var/lib"
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", state], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", state], check=True)
        os.makedirs("/var/lib/nfs", exist_ok=True)
        pathlib.Path("/var/lib/nfs/etab").write_text(f"{self.root}\t*(ro,sync,insecure,no_subtree_check)\n", encoding="utf-8")
        server = self.start([mountd, "-F"], env=variables_of("--rdma-only"))
        self.await_netids(server, 100005, ("rdma",), version=3)
        listed = self.debian([showmount, "-e", ADDRESS])
        self.assertEqual(listed.split(), ["Export", "list", "for", f"{ADDRESS}:", str(self.root), "*"])

    def test_rquotad_answers_our_client(self):
        server = self.start([installed("rpc.rquotad", "quota"), "-F"], env=variables_of("--rdma-only"))
        self.await_netids(server, 100011, ("rdma",))
        self.assertEqual(RpcgenTest.ping(ADDRESS, 100011).returncode, 0)


def not_run(reason):
    print(f"tirpc_programs_test is NOT run: {reason}", file=sys.stderr)
    sys.exit(NOT_RUN)


def enter_namespaces():
    for name, package in (("rpcbind", "rpcbind"), ("rpcinfo", "rpcbind"), ("unshare", "util-linux"), ("ip", "iproute2")):
        if found(name) is None:
            not_run(f"{name} is not installed (Debian: {package})")
    allowed = subprocess.run(["unshare", "-n", "-m", "true"], capture_output=True, text=True, check=False)
    if allowed.returncode != 0:
        not_run(f"no network and mount namespaces here, which take root: {allowed.stderr.strip()}")
    os.execvp("unshare", ["unshare", "-n", "-m", sys.executable, os.path.abspath(__file__), "--inside", *sys.argv[1:]])


def prepare():
    for command in (["mount", "-t", "tmpfs", "tmpfs", "/run"], ["ip", "link", "set", "lo", "up"],
                    ["ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": PATH})
        if done.returncode != 0:
            not_run(f"{' '.join(command)}: {done.stderr.strip()}")


if __name__ == "__main__":
    if "--inside" not in sys.argv:
        enter_namespaces()
    sys.argv.remove("--inside")
    prepare()
    unittest.main()
