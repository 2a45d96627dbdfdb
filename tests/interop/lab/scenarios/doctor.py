"""`rpcrdma doctor` on real devices and at Linux' NFS server: all is well, then faults that are planted, each of which
it names by the status of its step (docs/doctor.md)."""
from machine import Failure
from scenarios.knfsd import PORT, start_knfsd
from scenarios.nfs_client import ALLOW, EXPORT
from scenarios.preflight import NOBODY, expect_text
from session import scenario

FILES = "/srv/nfs"
STEPS = {"ok": 0, "link": 13, "memlock": 16, "route": 22, "port": 23, "connect": 24, "program": 26, "mount": 27}
FILE = f"echo to be read > {EXPORT}/file"


def diagnose(session, client, status, *arguments):
    """Runs doctor there, which has to end with one of these statuses; returns its steps by their names."""
    program = client.start("doctor", *arguments, "--json", "--timeout", 10)
    program.wait(90)
    if program.status() not in status:
        failed = [step for step in program.json()["steps"] if step["state"] == "FAILED"]
        raise program.failure(f"ended with {program.status()}, not one of {status}: {failed}")
    return {step["name"]: step for step in program.json()["steps"]}


def expect_step(steps, name, state, *texts):
    found = steps.get(name)
    said = "" if found is None else f"{found['state']}: {found['text']} {found['remedy']}"
    if found is None or found["state"] != state or any(text not in said for text in texts):
        raise Failure(f"the step {name} is not {state} with {texts}, but {said!r}")


def knfsd(session, allow=ALLOW):
    url = start_knfsd(session).replace("rdma://", "nfs+rdma://")
    session.guest.shell("export", f"{allow}\n{FILE}")
    return url


def well(session, client):
    """No step fails from that client, and the way over a device is one."""
    url = knfsd(session)
    steps = diagnose(session, client, (0,), f"{url}{EXPORT}")
    for name in ("connect", "setup", "program", "mount", "read"):
        expect_step(steps, name, "ok")
    if client.provider == "verbs":
        for name in ("devices", "link", "memlock"):
            expect_step(steps, name, "ok")
    return f"{len(steps)} steps, none fails"


def planted(session, client):
    """Faults at the peer: a wrong port, an export that is not there, one that another client may mount."""
    url = knfsd(session)
    steps = diagnose(session, client, (STEPS["port"], STEPS["connect"]), url.replace(f":{PORT}", ":20999") + EXPORT)
    if "20999" not in str(steps):
        raise Failure("the wrong port is not named")
    expect_step(diagnose(session, client, (STEPS["mount"],), f"{url}/srv/none"), "mount", "FAILED")
    session.guest.shell("allow", f"exportfs -u '*:{EXPORT}'; exportfs -o rw,insecure,fsid=7 '192.0.2.9:{EXPORT}'")
    try:
        expect_step(diagnose(session, client, (STEPS["mount"],), f"{url}{EXPORT}"), "mount", "FAILED")
    finally:
        session.guest.shell("allow again", f"exportfs -u '192.0.2.9:{EXPORT}'; {ALLOW}")
    return "wrong port, no such export, export not allowed"


for name, peers, devices, client_of in (
        ("siwarp", "host siwarp → knfsd", ("siw",), lambda session: session.host_siwarp()),
        ("verbs", "guest verbs → knfsd", ("siw", "rxe"), lambda session: session.guest_verbs())):
    scenario(f"doctor-knfsd-{name}", peers, "doctor finds nothing wrong on the way to an export", devices=devices)(
        lambda session, client_of=client_of: well(session, client_of(session)))
    scenario(f"doctor-knfsd-{name}-faults", peers, "doctor names a wrong port, and exports that are not there",
             devices=devices)(lambda session, client_of=client_of: planted(session, client_of(session)))


@scenario("doctor-ours", "guest verbs → guest verbs", "doctor finds nothing wrong on the way to an export of ours")
def ours(session):
    peer = session.guest_verbs()
    session.guest.shell("files", f"mkdir -p {FILES}/doctor; echo to be read > {FILES}/doctor/file")
    with peer.serve("--nfs-tcp-port", "0", what=("--nfs", f"{FILES}/doctor")) as server:
        steps = diagnose(session, peer, (0,), server.url)
    for name in ("devices", "link", "memlock", "connect", "setup", "program", "read"):
        expect_step(steps, name, "ok")
    return f"{len(steps)} steps, none fails"


@scenario("doctor-module", "guest verbs → guest", "doctor names a peer without NFS on RDMA: its module is not loaded")
def module(session):
    """As where nobody wrote the port into nfsd's portlist, and svcrdma is not there."""
    start_knfsd(session)
    address = session.address[session.guest]
    steps = diagnose(session, session.guest_verbs(), (STEPS["port"], STEPS["connect"]),
                     f"nfs+rdma://{address}:20048{EXPORT}")
    failed = [name for name, step in steps.items() if step["state"] == "FAILED"]
    remedy = " ".join(step.get("remedy", "") for step in steps.values())
    if "portlist" not in remedy:
        raise Failure(f"the remedy names neither the module nor the port list: {remedy}")
    return f"{', '.join(failed)}"


@scenario("doctor-memlock", "guest verbs", "doctor names the limit of locked memory that is too small")
def memlock(session):
    command = session.build / "bin" / "rpcrdma"
    said = session.guest.shell("doctor", f"{NOBODY} bash -c 'ulimit -l 64; {command} doctor --provider verbs' || "
                                         "echo ended with $?")
    expect_text(said, f"ended with {STEPS['memlock']}", "64 KiB", "memlock")


@scenario("doctor-link", "guest verbs", "doctor names a device without link")
def link(session):
    command, device = session.build / "bin" / "rpcrdma", session.device
    said = session.guest.shell("doctor", f"""ip link set eth0 down
        {command} doctor --provider verbs || echo ended with $?
        ip link set eth0 up""")
    expect_text(said, f"ended with {STEPS['link']}", f"{device}0", "ip link set")
