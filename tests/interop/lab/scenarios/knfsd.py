"""Linux' NFS server in the guest, on RDMA: NULL calls, which say that set-up, headers and credits are understood."""
import functools

from machine import Failure
from session import scenario

NFS = ("--program", 100003, "--version", 3)
PORT = 20049
FRESH_CONNECTIONS = 20

# Once per boot. Version 4 (scenarios/back_channel.py) begins with a grace period for the clients of the boot before, and
# gives no delegations before that of lockd is over too. There are no such clients: both are ended at once. mountd reads
# its file when it starts, so that it has to say before that the groups of a user are those of the call.
START = f"""
[ -e /run/knfsd ] && exit
sed -i 's/^manage-gids=y/manage-gids=n/' /etc/nfs.conf || true
modprobe -a nfsd rpcrdma
mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
pidof rpcbind >/dev/null || rpcbind -w
rpc.nfsd --grace-time 10 --lease-time 30 8
echo rdma {PORT} > /proc/fs/nfsd/portlist
cat /proc/fs/nfsd/portlist
echo Y > /proc/fs/nfsd/v4_end_grace
echo Y > /proc/fs/lockd/nlm_end_grace
touch /run/knfsd
"""


def start_knfsd(session):
    session.guest.shell("knfsd", START)
    return f"rdma://{session.address[session.guest]}:{PORT}"


def null_calls(session, client, count):
    url = start_knfsd(session)
    result = client.run_json("ping", url, *NFS, "--count", count)
    if result["counters"]["calls"] != count:
        raise Failure(f"{result['counters']['calls']} of {count} calls were answered")
    return f"{count} calls, p50 {result['latency']['p50_us']:.0f} us"


def from_host(session, crc):
    return null_calls(session, session.host_siwarp("--crc", crc), 1000)


def fresh_connections(session, crc):
    """One call each: siw's responder overlooks an FPDU that comes right behind its MPA Reply (docs/interop.md)."""
    url = start_knfsd(session)
    client = session.host_siwarp("--crc", crc)
    for _ in range(FRESH_CONNECTIONS):
        client.run("ping", url, *NFS, "--count", 1, "--timeout", 20)
    return f"{FRESH_CONNECTIONS} of {FRESH_CONNECTIONS}"


for crc in ("on", "off"):
    scenario(f"knfsd-null-crc-{crc}", "host siwarp → knfsd", f"1,000 NULL calls, CRC {crc}",
             devices=("siw",))(functools.partial(from_host, crc=crc))
    scenario(f"knfsd-fresh-crc-{crc}", "host siwarp → knfsd", f"20 fresh connections, one call each, CRC {crc}",
             devices=("siw",))(functools.partial(fresh_connections, crc=crc))


@scenario("knfsd-unknown-program", "host siwarp → knfsd", "a program that it does not have is an error, not a hang",
          devices=("siw",))
def unknown_program(session):
    url = start_knfsd(session)
    ping = session.host_siwarp().start("ping", url, "--program", 99, "--count", 1)
    ping.expect(30, status=1)
    if "program unavailable" not in ping.err():
        raise ping.failure("gave another reason")
    return "program unavailable"


def offered_version_two(session, client, *options):
    """knfsd has version 1 only, and says so: the client goes on in it, on the same connection."""
    url = start_knfsd(session)
    result = client.run_json("ping", url, *NFS, "--count", 50, "--rpcrdma-version", "auto", *options)
    if result["rpcrdma_version"] != 1 or result["counters"]["errors_received"] != 1:
        raise Failure(f"version {result['rpcrdma_version']}, {result['counters']['errors_received']} ERR_VERS")
    return "ERR_VERS, then version 1"


scenario("knfsd-version-auto", "host siwarp → knfsd", "version 2 is offered, and refused by ERR_VERS",
         devices=("siw",))(lambda session: offered_version_two(
             session, session.host_siwarp(), "--capture", session.host.shared / "knfsd-version.pcapng"))
scenario("knfsd-version-auto-verbs", "guest verbs → knfsd", "version 2 is offered, and refused by ERR_VERS")(
    lambda session: offered_version_two(session, session.guest_verbs()))


@scenario("knfsd-null-verbs", "guest verbs → knfsd", "200 NULL calls")
def from_guest(session):
    return null_calls(session, session.guest_verbs(), 200)
