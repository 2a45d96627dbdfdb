"""Peers that are killed in the middle of a transfer. The other one notices, says so, and goes on if it can."""
import functools
import signal
import time

from machine import Failure
from session import MIB, scenario

BIG = 512 * MIB   # a hole: it costs memory only where it arrives, and lasts long enough to be interrupted
MOVED = 8         # MiB that must have arrived before the kill
NOTICE_SECONDS = 15
CONNECTION_LOST = 3  # exit status of the command


def start_big(session, client, server, operation):
    """A transfer that is under way: data has arrived and it still runs."""
    side = client.side
    # In blocks of 512 bytes. A get writes into a file without a name where there are such (O_TMPFILE), which is found
    # where the process has it open, else into a hidden one. The guest has no find and no awk.
    arrived = ("{ "
               f"for p in /proc/[0-9]*; do [ \"$(cat $p/comm 2>/dev/null)\" = rpcrdma ] || continue; "
               f"for f in $p/fd/*; do case \"$(readlink $f)\" in {side.scratch}/'#'*) stat -Lc %b $f;; esac; done; done; "
               f"du --block-size=512 {side.scratch}/.rpcrdma-* 2>/dev/null; }}")
    if operation == "put":
        side.run("hole", ["truncate", "-s", BIG, side.scratch / "hole"])
        transfer = client.start("put", server.url, side.scratch / "hole", "big", "--no-reconnect")
        side, arrived = server.side, f"du -s --block-size=512 {server.folder} 2>/dev/null"
    else:
        server.side.run("hole", ["truncate", "-s", BIG, server.folder / "big"])
        transfer = client.start("get", server.url, "big", side.scratch / "big", "--no-reconnect")
    enough = f"{{ left=1; while read -r n _; do [ $n -ge {MOVED * 2048} ] && left=0; done; exit $left; }}"
    watch = side.start("watch", ["bash", "-c", f"until {arrived} | {enough}; do sleep 0.1; done"])
    while watch.status() is None:
        if transfer.status() is not None:
            raise transfer.failure(f"({operation}) ended with {transfer.status()} before the kill")
        if time.monotonic() - watch.started > 60:
            raise transfer.failure(f"({operation}) moved less than {MOVED} MiB in 60 s")
        time.sleep(0.02)
    return transfer


def kill_server(session, client, server_peer):
    waited = []
    for operation in ("put", "get"):
        with server_peer.serve() as server:
            transfer = start_big(session, client, server, operation)
            start = time.monotonic()
            server.kill()
            transfer.expect(NOTICE_SECONDS, status=CONNECTION_LOST)
            waited.append(f"{operation} {time.monotonic() - start:.1f} s")
            if not transfer.err().strip():
                raise Failure(f"the client of the killed server gave no reason ({operation})")
        client.side.shell("clean", f"rm -rf {client.side.scratch}/big*")
        server.side.run("clean", ["rm", "-rf", server.folder])
    return "error after: " + ", ".join(waited)


def kill_client(session, client, server_peer):
    with server_peer.serve() as server:
        for operation in ("put", "get"):
            transfer = start_big(session, client, server, operation)
            transfer.signal(signal.SIGKILL)
            transfer.wait(10)
            client.put_random(server)
            client.get_random(server)
        client.side.shell("clean", f"rm -rf {client.side.scratch}/big*")
    server.side.run("clean", ["rm", "-rf", server.folder])
    return "the next put and get are right"


def verbs(session):
    return session.guest_verbs(), session.guest_verbs()


def host_client(session):
    return session.host_siwarp(), session.guest_verbs()


def host_server(session):
    return session.guest_verbs(), session.host_siwarp()


def run(session, kill, peers):
    return kill(session, *peers(session))


for name, label, peers, devices in (("verbs", "guest verbs → guest verbs", verbs, ("siw", "rxe")),
                                    ("siwarp-to-verbs", "host siwarp → guest verbs", host_client, ("siw",)),
                                    ("verbs-to-siwarp", "guest verbs → host siwarp", host_server, ("siw",))):
    scenario(f"killed-server-{name}", label, "server killed in mid put and get: the client fails soon, exit 3",
             devices=devices)(functools.partial(run, kill=kill_server, peers=peers))
    scenario(f"killed-client-{name}", label, "client killed in mid put and get: the server serves the next",
             devices=devices)(functools.partial(run, kill=kill_client, peers=peers))
