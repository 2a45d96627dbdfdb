"""The lab itself: what no device has a part in. When this fails, look here first."""
from session import exchange, scenario


@scenario("link", "host siwarp → guest siwarp", "put, get, compare over the tap: the lab itself works",
          devices=("siw",))
def link(session):
    return exchange(session.host_siwarp(), session.guest_siwarp())
