"""Clients that are there no more, or do nothing, without a word: over RC nothing tells of them but --rdma-idle."""
import signal
import time

from machine import Failure
from session import scenario

IDLE_SECONDS = 2
# A reply that was under way when the link went has the server's peer timeout, 30 s.
NOTICE_SECONDS = 60


def connection_ends(session, client, server_peer, silence, noise):
    """A client that makes calls falls silent, and its connection ends; the next one is served."""
    with server_peer.serve("--rdma-idle", IDLE_SECONDS, "--log-level", "debug") as server:
        ping = client.start("ping", server.url, "--count", 100_000_000)
        server.program.wait_for("negotiated", 30, in_log=True)
        start = time.monotonic()
        silence(ping)
        try:
            server.program.wait_for(r"(closed|was lost) after \d+ calls", NOTICE_SECONDS, in_log=True)
            waited = time.monotonic() - start
        finally:
            noise(ping)
        if waited < IDLE_SECONDS / 2:
            raise Failure(f"the connection ended after {waited:.1f} s, before its time")
        ping.signal(signal.SIGKILL)
        ping.wait(10)
        client.put_random(server)
        client.get_random(server)
    return f"after {waited:.1f} s"


@scenario("idle-link-dropped", "host siwarp → guest verbs", "the link goes: the connection ends with --rdma-idle", devices=("siw",))
def link_dropped(session):
    def set_link(state):
        session.host.run("link", ["ip", "link", "set", "lab0", state])
    return connection_ends(session, session.host_siwarp(), session.guest_verbs(),
                           lambda _: set_link("down"), lambda _: set_link("up"))


@scenario("idle-frozen", "guest verbs → guest verbs", "a client stands still: its connection ends with --rdma-idle")
def frozen(session):
    return connection_ends(session, session.guest_verbs(), session.guest_verbs(),
                           lambda ping: ping.signal(signal.SIGSTOP), lambda ping: ping.signal(signal.SIGCONT))
