"""Remote invalidation: who takes handles back by Send with Invalidate, by the counters of the client."""
from machine import Failure
from session import scenario


def counters_of(client, server_peer):
    with server_peer.serve() as server:
        results = client.put_random(server), client.get_random(server)
    return [{key: result["counters"][key] for key in ("handles_invalidated_remotely", "handles_revoked")}
            for result in results]


def expect(counters, remotely):
    texts = []
    for operation, each in zip(("put", "get"), counters):
        there, here = each["handles_invalidated_remotely"], each["handles_revoked"]
        texts.append(f"{operation}: {there} by the peer, {here} by us")
        if (there > 0) != remotely:
            raise Failure(f"expected {'some' if remotely else 'none'} by the peer; {texts[-1]}")
    return ", ".join(texts)


@scenario("invalidation-siwarp", "host siwarp → guest verbs", "the server invalidates remotely", devices=("siw",))
def from_siwarp(session):
    return expect(counters_of(session.host_siwarp(), session.guest_verbs()), remotely=True)


@scenario("invalidation-verbs", "guest verbs → guest verbs",
          "the server invalidates remotely on rxe; not on siw, where the client does not ask for it")
def from_verbs(session):
    return expect(counters_of(session.guest_verbs(), session.guest_verbs()), remotely=session.device == "rxe")
