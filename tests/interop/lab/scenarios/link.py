"""The lab itself: what no device has a part in. When this fails, look here first."""
from scenarios.transfers import exchange
from session import scenario


@scenario("link", "host siwarp → guest siwarp", "put, get, compare over the tap: the lab itself works",
          devices=("siw",))
def link(session):
    return exchange(session, session.host_siwarp(), session.guest_siwarp())
