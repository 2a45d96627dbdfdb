"""What stands against using a device is said, with the remedy; and what happens when a device goes."""
import time

from scenarios.killed import CONNECTION_LOST, NOTICE_SECONDS, start_big
from machine import Failure
from session import scenario

FOLDER = "/tmp/served"
GONE = ("the RDMA device was removed", "rdma link")
NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all"


def expect_text(program, *texts):
    said = program.out() + program.err()
    for text in texts:
        if text not in said:
            raise program.failure(f"did not say {text!r}")


@scenario("preflight-memory", "guest verbs", "the limit of locked memory is too small")
def memory(session):
    command = session.build / "bin" / "rpcrdma"
    info = session.guest.shell("info", f"{NOBODY} bash -c 'ulimit -l 64; {command} info'")
    expect_text(info, "the limit of locked memory is 64 KiB here", "ulimit -l 65536", "LimitMEMLOCK=")
    for address in (session.address[session.guest], "0.0.0.0"):
        serve = session.guest.shell("serve", f"mkdir -p {FOLDER}; chmod 777 {FOLDER}; {NOBODY} bash -c 'ulimit -l 64; "
                                             f"{command} serve --provider verbs --blob {FOLDER} --port 20999 --listen "
                                             f"{address}' || echo ended with $?")
        expect_text(serve, "ended with 1", "the limit of locked memory is 64 KiB here")


@scenario("preflight-auto", "guest, auto → guest, auto", "a device that cannot register memory is passed over, and an "
          "error says so")
def auto(session):
    command, address = session.build / "bin" / "rpcrdma", session.address[session.guest]
    small = f"{NOBODY} bash -c 'ulimit -l 64; exec \"$@\"' -"
    for port, listen in ((20997, address), (20998, "0.0.0.0")):
        ping = session.guest.shell("ping", f"""mkdir -p {FOLDER}; chmod 777 {FOLDER}; rm -f {FOLDER}.ready
            {small} {command} serve --blob {FOLDER} --listen {listen} --port {port} >{FOLDER}.ready &
            for i in $(seq 100); do grep -qs ready {FOLDER}.ready && break; sleep 0.1; done
            {small} {command} ping --count 1 --json rdma://{address}:{port}; kill $!; wait $!""")
        expect_text(ping, '"provider":"siwarp"')
    alone = session.guest.shell("alone", f"{small} {command} ping rdma://{address}:1 || echo ended with $?")
    expect_text(alone, "ended with 3", "by TCP, since the RDMA device", "the limit of locked memory is 64 KiB here")


@scenario("preflight-call", "guest verbs → guest verbs", "the limit of locked memory has room for a connection, but not "
          "for what a call moves")
def call(session):
    command, peer = session.build / "bin" / "rpcrdma", session.guest_verbs()
    with peer.serve() as server:
        put = session.guest.shell("put", f"""mkdir -p {FOLDER}; head -c 1M /dev/urandom >{FOLDER}/much
            {NOBODY} bash -c 'ulimit -l 800; exec {command} put --provider verbs {server.url} {FOLDER}/much much' ||
            echo ended with $?""")
        expect_text(put, "ended with 1", "registering memory",
                    "the limit of locked memory is 800 KiB here")
        peer.put_random(server)


@scenario("preflight-permission", "guest verbs", "the user may not open the device")
def permission(session):
    command = session.build / "bin" / "rpcrdma"
    ping = session.guest.shell("ping", "chmod 600 /dev/infiniband/rdma_cm; "
                                       f"{NOBODY} {command} ping --provider verbs rdma://{session.address[session.guest]}"
                                       " || true; chmod 666 /dev/infiniband/rdma_cm")
    expect_text(ping, "may not open /dev/infiniband/rdma_cm")


@scenario("preflight-address", "guest verbs", "no address on the device; a way that goes over none")
def address(session):
    command = session.build / "bin" / "rpcrdma"
    info = session.guest.shell("info", "ip link add bare0 type dummy; ip link set bare0 up; sleep 0.1; "
                                       "ip addr flush dev bare0\n"
                                       f"rdma link add spare0 type {session.device} netdev bare0; {command} info; "
                                       "rdma link delete spare0; ip link delete bare0")
    expect_text(info, "ip addr add ADDR/PREFIX dev")
    ping = session.guest.shell("ping", f"{command} ping --provider verbs rdma://127.0.0.1 || true")
    expect_text(ping, session.address[session.guest])
    auto = session.guest.shell("auto", f"{command} ping rdma://127.0.0.1:1 || true")
    expect_text(auto, "Connection refused")


@scenario("device-removed", "guest verbs → guest verbs", "the device goes in mid put: both sides say so and end",
          devices=("rxe",))
def removed(session):
    """Not siw: the kernel waits for its users to go before it tells them."""
    peer = session.guest_verbs()
    with peer.serve() as server:
        transfer = start_big(session, peer, server, "put")
        start = time.monotonic()
        # The kernel waits until nobody has the device open any more, librdmacm for as long as a process lives.
        remove = session.guest.start("remove", ["rdma", "link", "delete", f"{session.device}0"])
        transfer.expect(NOTICE_SECONDS, status=CONNECTION_LOST)
        waited = time.monotonic() - start
        server.expect_failure(NOTICE_SECONDS)
        expect_text(server.program, *GONE)
    remove.expect(30)
    session.add_device()
    with peer.serve() as server:
        peer.put_random(server)
        peer.get_random(server)
    session.guest.shell("clean", f"rm -rf {session.guest.scratch}/hole")
    if not transfer.err().strip():
        raise Failure("the client gave no reason")
    return f"error after {waited:.1f} s; a new server works on the device that came back"


@scenario("device-removed-idle", "guest verbs", "the device goes while servers wait at its address and at 0.0.0.0: they "
          "say so, exit 1", devices=("rxe",))
def removed_idle(session):
    peer = session.guest_verbs()
    with peer.serve() as one, peer.serve(address="0.0.0.0") as any_device:
        start = time.monotonic()
        remove = session.guest.start("remove", ["rdma", "link", "delete", f"{session.device}0"])
        for server in (one, any_device):
            server.expect_failure(NOTICE_SECONDS)
            expect_text(server.program, *GONE)
        waited = time.monotonic() - start
    remove.expect(30)
    session.add_device()
    return f"both after {waited:.1f} s"
