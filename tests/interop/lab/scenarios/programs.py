"""Programs of libtirpc's, unchanged, by `rpcrdma run` over the RDMA device: rpcgen's and Debian's."""
import contextlib
import time

from machine import GUEST_ADDRESS, Failure
from session import scenario

SIZES = (0, 1, 2000, 4001, 300_000)
BLOCKS, FORKED, MOUNT, RUSERS, RQUOTA = 0x20010101, 0x20010109, 100005, 100002, 100011
EXPORT = "/srv/programs"
SECONDS = 120  # a guest may be emulated


class Programs:
    """The guest's rpcbind, and how programs are started beside it."""

    def __init__(self, session):
        self.session, self.guest = session, session.guest
        self.command = session.build / "bin" / "rpcrdma"
        self.folder = session.build / "tests" / "programs"
        self.guest.shell("rpcbind", "pidof rpcbind >/dev/null || rpcbind -w")
        # Debian's programs that the guest has not, unpacked by `scripts/setup.sh check`.
        unpacked = self.guest.tree / "build-programs" / "usr"
        self.path = {"PATH": f"/usr/sbin:/usr/bin:/sbin:/bin:{unpacked}/sbin:{unpacked}/bin"}

    def run_words(self, *options):
        return [self.command, "run", "--provider", self.session.stand_in or "verbs", *options, "--"]

    def start(self, label, words, *options):
        return self.guest.start(label, [*self.run_words(*options), *words], self.path)

    def run(self, label, words, *options, status=0):
        return self.start(label, words, *options).expect(SECONDS, status)

    def registered(self, program):
        listed = self.guest.run("rpcinfo", ["rpcinfo"]).out().splitlines()
        return {line.split()[2] for line in listed if line.split()[:1] == [str(program)]}

    @contextlib.contextmanager
    def served(self, label, words, program, *options):
        """A daemon, from when it is registered over RDMA."""
        daemon = self.start(label, words, *options)
        end = time.monotonic() + SECONDS
        while "rdma" not in self.registered(program):
            if daemon.status() is not None or time.monotonic() > end:
                raise daemon.failure("did not register under rdma")
        yield daemon
        if daemon.status() is not None:
            raise daemon.failure(f"has ended with {daemon.status()}")
        daemon.signal(9)
        daemon.wait(20)
        self.guest.shell("unregister", "".join(f"rpcinfo -d {program} {version} || true; " for version in range(1, 5)))

    def expect_printed(self, program, text):
        if program.out() != text:
            raise program.failure(f"printed {program.out()!r}, not {text!r}")


@scenario("programs-rpcgen", "guest verbs → guest verbs", "rpcgen's client and server, 300 KB both ways, with a table and without")
def rpcgen(session):
    programs, notes = Programs(session), []
    client, server, bench = (programs.folder / f"tirpc_blocks_{name}" for name in ("client", "server", "bench"))
    for name, table in (("no table", ()), ("table", ("--table", programs.folder / "tirpc_blocks_table.so"))):
        rdma = ("--rdma-only", *table)
        with programs.served("server", [server], BLOCKS, "--prefer-rdma", *table):
            asked = programs.run("client", [client, GUEST_ADDRESS, "tcp", *SIZES], *rdma)
            programs.expect_printed(asked, "rdma\n")
            rate = float(programs.run("bench", [bench, GUEST_ADDRESS, "tcp", "make", 300_000, 2], *rdma).out())
            notes.append(f"{name} {rate * 0.3:.0f} MB/s")
    return ", ".join(notes)


@scenario("programs-rpcgen-host", "host siwarp → guest verbs", "the same between two machines", devices=("siw",))
def rpcgen_host(session):
    programs = Programs(session)
    with programs.served("server", [programs.folder / "tirpc_blocks_server"], BLOCKS, "--prefer-rdma"):
        asked = session.host.run("client", [programs.command, "run", "--provider", "siwarp", "--rdma-only", "--",
                                            programs.folder / "tirpc_blocks_client", GUEST_ADDRESS, "tcp", *SIZES])
        programs.expect_printed(asked, "rdma\n")


@scenario("programs-debian", "guest verbs → guest verbs", "rpcinfo, showmount and mountd, rquotad, rusers and rusersd")
def debian(session):
    programs = Programs(session)
    with programs.served("server", [programs.folder / "tirpc_blocks_server"], BLOCKS, "--prefer-rdma"):
        ready = programs.run("rpcinfo", ["rpcinfo", "-T", "rdma", GUEST_ADDRESS, BLOCKS, 1])
        programs.expect_printed(ready, f"program {BLOCKS} version 1 ready and waiting\n")
    session.guest.shell("export", f"mkdir -p {EXPORT} /var/lib/nfs\n"
                                  f"echo '{EXPORT}\t*(ro,sync,insecure,no_subtree_check)' > /var/lib/nfs/etab")
    with programs.served("mountd", ["rpc.mountd", "-F"], MOUNT, "--rdma-only"):
        listed = programs.run("showmount", ["showmount", "-e", GUEST_ADDRESS], "--rdma-only")
        programs.expect_printed(listed, f"Export list for {GUEST_ADDRESS}:\n{EXPORT} *\n")
    with programs.served("rquotad", ["rpc.rquotad", "-F"], RQUOTA, "--rdma-only"):
        session.guest_verbs().run("ping", GUEST_ADDRESS, "--program", RQUOTA, "--version", 1, "--count", 2)
    # It goes into the background before it registers.
    programs.run("rusersd", ["rpc.rusersd"], "--rdma-only")
    end = time.monotonic() + SECONDS
    while "rdma" not in programs.registered(RUSERS):
        if time.monotonic() > end:
            raise Failure("rusersd is not registered under rdma")
    programs.run("rusers", ["rusers", "-a", GUEST_ADDRESS], "--rdma-only")
    session.guest.shell("end", f"pkill -x rpc.rusersd; rpcinfo -d {RUSERS} 3 || true; rpcinfo -d {RUSERS} 2 || true")
    return "each answered over the device"


# Forks after it has registered, as daemons do that were not written with RDMA in mind.
FORKS = f"""
import ctypes, os
libtirpc = ctypes.CDLL(None)
dispatch = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(lambda request, transport: None)
assert libtirpc.svc_create(dispatch, {FORKED}, 1, b"tcp") > 0
if os.fork() == 0:
    libtirpc.svc_run()
os._exit(0)
"""


@scenario("programs-fork", "guest verbs", "a daemon that forks after it has registered says what to do, and so does its child")
def forks(session):
    programs = Programs(session)
    daemon = programs.run("daemon", ["python3", "-c", FORKS], "--prefer-rdma")
    try:
        for text in ("this process forks while it listens on an RDMA device", "this process is a child of the one"):
            daemon.wait_for(text, 20, in_log=True, by_child=True)
    finally:
        session.guest.shell("end", f"pkill -f '[s]vc_create' || true; rpcinfo -d {FORKED} 1 || true")
