"""What a scenario works with: both sides, the RDMA device of this boot, and the rpcrdma command on either side."""
import contextlib
import dataclasses
import signal
import time

from machine import GUEST_ADDRESS, HOST_ADDRESS, Absent, Failure, random_file

MIB = 1 << 20
RANDOM_SIZE = 16 * MIB
DEVICES = {"siw": "siw", "rxe": "rdma_rxe"}  # and their modules
SCENARIOS = []


@dataclasses.dataclass
class Scenario:
    name: str       # what LAB_ONLY looks at, with /DEVICE behind it
    peers: str
    what: str
    devices: tuple
    function: object


def scenario(name, peers, what, devices=("siw", "rxe")):
    """Registers a function of a Session. It returns a short note for the matrix, or raises Failure or Absent."""
    def register(function):
        SCENARIOS.append(Scenario(name, peers, what, devices, function))
        return function
    return register


class Session:
    """One boot with one RDMA device on the guest's eth0. (With two, rdma_cm would have a choice.)"""

    def __init__(self, host, guest, build, device, stand_in):
        self.host, self.guest, self.build, self.device = host, guest, build, device
        self.address = {host: HOST_ADDRESS, guest: GUEST_ADDRESS}
        self.next_port = 20100  # each server its own: the last one's may linger in the kernel
        self.figures = []       # (title, head, rows): tables that are printed below the matrix
        self.stand_in = stand_in
        self.random_sum = random_file(host.run_folder / "random", RANDOM_SIZE)
        guest.environment["RPCRDMA_LAB_ADDRESS"] = GUEST_ADDRESS

    def add_device(self):
        module = DEVICES[self.device]
        if self.guest.run("modinfo", ["modinfo", module], status=None).status() != 0:
            raise Absent(f"no module {module} in {self.guest.uname}")
        self.guest.shell("device", f"modprobe -a {module} rdma_ucm ib_uverbs\n"
                                   f"rdma link add {self.device}0 type {self.device} netdev eth0\n"
                                   "rdma link; ibv_devices")

    def set_siw_option(self, name, value):
        path = f"/sys/module/siw/parameters/{name}"
        if self.guest.run("option", ["bash", "-c", f"echo {value} > {path}"], status=None).status() != 0:
            raise Absent(f"this siw has no option {name}")

    # The three kinds of peers that are ours.
    def host_siwarp(self, *options):
        return Peer(self, self.host, "siwarp", options)

    def guest_verbs(self):
        # A stand-in leaves CRC to the other side, as siw does.
        return Peer(self, self.guest, self.stand_in or "verbs", ("--crc", "off") if self.stand_in else ())

    def guest_siwarp(self):
        return Peer(self, self.guest, "siwarp", ())

    def end(self):
        self.host.end_all()
        self.guest.end_all()


class Server:
    """`rpcrdma serve` on a folder of its own, or `what` else it is to serve."""

    def __init__(self, peer, options, address, what=None):
        session, self.side = peer.session, peer.side
        session.next_port += 1
        self.address = address or session.address[self.side]
        self.folder = self.side.scratch / f"served-{session.next_port}"
        self.side.run("mkdir", ["mkdir", "-p", self.folder])
        self.port = session.next_port
        self.start = lambda: peer.start("serve", *(what or ("--blob", self.folder)), "--listen", self.address, "--port",
                                        self.port, "--json", *options)
        self.counters = {}
        self.begin()

    def begin(self):
        self.program = self.start()
        self.url = self.program.wait_for(r"^ready ((nfs\+)?rdma://\S+)", 30)[1]
        self.killed = False  # or has ended by itself

    def kill(self):
        self.killed = True
        self.program.signal(signal.SIGKILL)
        self.program.wait(10)

    def begin_again(self, seconds=30):
        """After it was killed, at the same address, which the kernel may hold for a while."""
        end = time.monotonic() + seconds
        while True:
            try:
                return self.begin()
            except Failure:
                if self.program.status() is None or time.monotonic() > end:
                    raise
            time.sleep(0.5)

    def expect_failure(self, seconds):
        """It ends by itself; returns what it says."""
        self.program.expect(seconds, status=1)
        self.killed = True
        return self.program.err()

    def stop(self):
        """Ends it as an operator does; its counters are known then."""
        self.program.signal(signal.SIGTERM)
        self.program.expect(20)
        self.counters = self.program.json(line=-1)


class Peer:
    """The rpcrdma command with a provider, on one side."""

    def __init__(self, session, side, provider, options):
        self.session, self.side, self.provider, self.options = session, side, provider, options

    def start(self, subcommand, *arguments):
        return self.side.start(subcommand, [self.session.build / "bin" / "rpcrdma", subcommand, "--provider",
                                            self.provider, *self.options, *arguments])

    def run(self, subcommand, *arguments, seconds=120):
        return self.start(subcommand, *arguments).expect(seconds)

    def run_json(self, subcommand, *arguments, seconds=120):
        """What it prints with --json; it has to have used the provider that it was told to."""
        program = self.run(subcommand, *arguments, "--json", seconds=seconds)
        result = program.json()
        if "provider" in result and self.provider not in result["provider"]:
            raise program.failure(f"used the provider {result['provider']}, not {self.provider}")
        return result

    @contextlib.contextmanager
    def serve(self, *options, address=None, what=None):
        """At the side's own address, or at another one."""
        server = Server(self, options, address, what)
        try:
            yield server
        except Failure as reason:
            if server.program.status() is not None and not server.killed:  # which is why the client failed
                raise server.program.failure(f"ended with {server.program.status()}; {reason}") from None
            raise
        if not server.killed:
            server.stop()

    def put_random(self, server, *options):
        return self.run_json("put", server.url, self.side.shared / "random", "random", *options)

    def get_random(self, server, *options):
        """Fetches what put_random sent and compares; rpcrdma compares too, but is what we test."""
        fetched = self.side.scratch / "fetched"
        result = self.run_json("get", server.url, "random", fetched, *options)
        found = self.side.shell("sum", f"sha256sum {fetched}; rm {fetched}")
        if found.out().split()[0] != self.session.random_sum:
            raise found.failure("found other bytes than were sent")
        return result


def exchange(client, server_peer, *options):
    """put, get, compare. A note for the matrix."""
    with server_peer.serve(*options) as server:
        put, get = client.put_random(server, *options), client.get_random(server, *options)
    return f"put {put['gb_per_s'] * 1e3:.0f}, get {get['gb_per_s'] * 1e3:.0f} MB/s"
