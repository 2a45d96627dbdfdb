"""Linux' NFS server calls its client back over the client's RDMA connection (RFC 8167). The client is our
back_channel_probe: NFSv4.1 has the only back channel over RDMA that there is."""
from machine import Failure
from scenarios.knfsd import start_knfsd
from session import scenario

FILES = "/srv/knfsd"  # on tmpfs, since the root's overlay gives no handles
COUNT = 3             # callbacks in one session, each with the next number of CB_SEQUENCE

# The server's root is one export. Who asks which that is, is mountd.
EXPORT = f"""
mkdir -p {FILES}
mountpoint -q {FILES} || mount -t tmpfs -o size=16m knfsd {FILES}
exportfs -o rw,insecure,no_root_squash,no_subtree_check,fsid=0 '*:{FILES}'
pidof rpc.mountd >/dev/null || rpc.mountd --port 20048
"""


def recalls(session, side, provider, *options):
    """New files for each run: after a recall, knfsd gives no delegation of a file for some time."""
    url = start_knfsd(session)
    names = [f"{session.guest.scenario}-{number}" for number in range(COUNT)]
    session.guest.shell("export", EXPORT + "".join(f"echo data > {FILES}/{name}\n" for name in names))
    probe = session.build / "tests" / "interop" / "nfs41" / "back_channel_probe"
    program = side.start("probe", [probe, url, *names, "--provider", provider, *options],
                         {"RPCRDMA_PROVIDER_DIR": str(session.build / "lib")})
    result = program.expect(120).json()
    if provider not in result["provider"]:
        raise Failure(f"used the provider {result['provider']}, not {provider}")
    counts = result["callbacks"]
    return (f"{counts['CB_RECALL']} delegations recalled by {counts['CB_COMPOUND']} CB_COMPOUND, at most "
            f"{result['recalled_ms']:.0f} ms after the conflict")


WHAT = "NFSv4.1: delegations are recalled by CB_SEQUENCE and CB_RECALL, answered, and returned"


@scenario("back-channel", "host siwarp → knfsd", WHAT, devices=("siw",))
def from_host(session):
    return recalls(session, session.host, "siwarp", "--capture", session.host.shared / "back-channel.pcapng")


@scenario("back-channel-verbs", "guest verbs → knfsd", WHAT)
def from_guest(session):
    return recalls(session, session.guest, session.stand_in or "verbs")
