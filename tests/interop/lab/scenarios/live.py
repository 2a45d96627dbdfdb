"""`rpcrdma explain` at a running server, whose traffic over an RDMA device no capture has."""
import collections
import contextlib
import json
import signal

from machine import Failure
from scenarios.nfs import mounted
from session import MIB, scenario

STAT = "/tmp/rpcrdma-live.sock"  # of the guest's own memory: the shared folder has no sockets
LIVE = "/tmp/rpcrdma-live.live"


@contextlib.contextmanager
def looking(session, *view):
    """Looks at the server of the guest; the list that it yields has the objects that it printed, in the end."""
    command = session.build / "bin" / "rpcrdma"
    program = session.guest.start("explain", [command, "explain", *view, "--json", LIVE])
    program.wait_for("looking at", 20, in_log=True)
    found = []
    yield found
    program.signal(signal.SIGINT)
    program.expect(20)
    found += [json.loads(line) for line in program.out().splitlines()]


def expect_whole(calls):
    """Each call has its reply, and nothing was left out."""
    open_calls = [call for call in calls if "reply_form" not in call or call["uncertain"]]
    if open_calls or not calls:
        raise Failure(f"{len(open_calls)} of {len(calls)} calls are not whole: {open_calls[:1]}")
    if {call["transport"] for call in calls} != {"RDMA"}:
        raise Failure(f"calls came over {set(call['transport'] for call in calls)}")


@scenario("explain-live", "guest verbs → guest verbs", "explain sees each call of a server from inside")
def blobs(session):
    peer = session.guest_verbs()
    with peer.serve("--stat-socket", STAT) as server, looking(session) as calls:
        peer.put_random(server)
        peer.get_random(server)
    calls = [call for call in calls if "xid" in call]
    expect_whole(calls)
    read, written = (sum(call[name] for call in calls) for name in ("read_bytes", "write_bytes"))
    if read != 16 * MIB or written != 16 * MIB:
        raise Failure(f"{read} bytes were read and {written} written, not {16 * MIB}")
    return f"{len(calls)} calls; {read} bytes by RDMA Read, {written} by RDMA Write"


@scenario("explain-live-nfs", "kernel NFS → guest verbs", "explain sees Linux' calls, and breaks of rules that are known alone")
def kernel(session):
    script = "dd if=/dev/urandom of=file bs=64k count=16 2>/dev/null; cat file > /dev/null; ls -l > /dev/null; rm file"
    with mounted(session, session.guest_verbs(), serve_options=("--stat-socket", STAT)) as mount:
        with looking(session) as calls:
            mount.shell("work", script)
        with looking(session, "check") as broken:
            mount.shell("work again", script)
    calls = [call for call in calls if "xid" in call and call["transport"] == "RDMA"]
    expect_whole(calls)
    by_name = collections.Counter(call["name"] for call in calls)
    if not by_name["NFSv3 WRITE"] or not by_name["NFSv3 REMOVE"]:
        raise Failure(f"these calls were seen: {by_name}")
    errors = [f"{each['rule']} {each['text']}" for each in broken if each["severity"] == "error"]
    if errors:
        raise Failure(f"rules are broken: {errors}")
    return ", ".join(f"{count} {name.removeprefix('NFSv3 ')}" for name, count in by_name.most_common(4))
