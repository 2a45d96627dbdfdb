"""Files between our own peers: on one device, and between siwarp on the host and the kernel's siw."""
import functools

from machine import Failure
from session import MIB, exchange, scenario


@scenario("info", "guest verbs", "rpcrdma info has the provider, and names the device")
def info(session):
    program = session.guest.run("info", [session.build / "bin" / "rpcrdma", "info", "--json"])
    found = [each for each in program.json()["providers"] if each["name"] == "verbs"]
    if not found or not found[0]["available"]:
        raise Failure(f"verbs is not available: {found[0]['what'] if found else 'unknown'}", program.out_path)
    if f"{session.device}0" not in program.out():
        raise Failure(f"no device {session.device}0 is named", program.out_path)
    return f"{session.device}0"


@scenario("verbs-files", "guest verbs → guest verbs", "put, get, compare 16 MiB; ls; rm")
def files(session):
    peer = session.guest_verbs()
    with peer.serve() as server:
        put, get = peer.put_random(server), peer.get_random(server)
        if "random" not in peer.run("ls", server.url).out():
            raise Failure("ls does not show the file")
        peer.run("rm", server.url, "random")
        if "random" in peer.run("ls", server.url).out():
            raise Failure("ls shows the file after rm")
    return f"put {put['gb_per_s'] * 1e3:.0f}, get {get['gb_per_s'] * 1e3:.0f} MB/s"


@scenario("verbs-rfc5666", "guest verbs → guest verbs", "put, get, compare with --profile rfc5666")
def old_profile(session):
    peer = session.guest_verbs()
    return exchange(peer, peer, "--profile", "rfc5666")


VERSION_TWO = ("--rpcrdma-version", "2", "--inline", 65536)


@scenario("verbs-version-two", "guest verbs → guest verbs", "put, get, compare in version 2, with Receives of 64 KiB")
def version_two(session):
    peer = session.guest_verbs()
    return exchange(peer, peer, *VERSION_TWO)


@scenario("siwarp-to-verbs-version-two", "host siwarp → guest verbs", "put, get in version 2", devices=("siw",))
def version_two_from_host(session):
    return exchange(session.host_siwarp(), session.guest_verbs(), *VERSION_TWO)


def raised_receives(session, client):
    """The server's Receives grow at the start, and again a second into the run; no call is lost."""
    with session.guest_verbs().serve("--receive-size", 65536) as server:
        ping = client.run("ping", server.url, "--rpcrdma-version", 2, "--request", "rbsiz=64k", "--count", 100,
                          "--show-characteristics")
        if "receive size 65536: granted" not in ping.err():
            raise ping.failure("was not granted larger Receives")
        late = client.run("put", server.url, client.side.shared / "random", "random", "--rpcrdma-version", 2,
                          "--request", "rbsiz=16k@0.2")
    told = [line for line in late.err().splitlines() if "receive size" in line]
    return "64 KiB; under load: " + (told[0].split("receive size ")[1] if told else "the file was there first")


scenario("verbs-receive-size", "guest verbs → guest verbs", "version 2: the server's Receives grow on request")(
    lambda session: raised_receives(session, session.guest_verbs()))
scenario("siwarp-to-verbs-receive-size", "host siwarp → guest verbs",
         "version 2: the server's Receives grow on request", devices=("siw",))(
    lambda session: raised_receives(session, session.host_siwarp()))


@scenario("verbs-ping", "guest verbs → guest verbs", "200 NULL calls")
def ping(session):
    peer = session.guest_verbs()
    return ping_of(peer, peer, 200)


@scenario("verbs-shared", "guest verbs → guest verbs", "three clients at once, by the Receives of one queue")
def shared(session):
    """On RoCE there are fewer Receives than wishes. On iWARP a message that finds none costs its connection."""
    peer = session.guest_verbs()
    receives = 48 if session.device == "siw" else 16
    with peer.serve("--receives-max", receives, "--credits", 16, "--shared-receives", "always") as server:
        peer.put_random(server)
        pings = [peer.start("ping", server.url, "--count", 100, "--json") for _ in range(2)]
        peer.get_random(server)
        for program in pings:
            program.expect(60)
    return f"{receives} Receives: put, get, 2 x ping"


@scenario("verbs-threads", "guest verbs → guest verbs", "four clients at once, dealt among two threads of the server")
def threads(session):
    """Requests arrive at the first thread's channel and move to the other's (rdma_migrate_id)."""
    return dealt(session, session.guest_verbs())


@scenario("siwarp-to-verbs-threads", "host siwarp → guest verbs", "four clients at once, dealt among two threads",
          devices=("siw",))
def threads_from_host(session):
    return dealt(session, session.host_siwarp())


def dealt(session, client):
    with session.guest_verbs().serve("--threads", 2) as server:
        client.put_random(server)
        pings = [client.start("ping", server.url, "--count", 100, "--json") for _ in range(3)]
        client.get_random(server)
        for program in pings:
            program.expect(60)
    calls = server.counters["calls"]
    if calls < 300:
        raise Failure(f"the server counts {calls} calls of both threads together, not 300 and those of the files")
    return f"{calls} calls"


def ping_of(client, server_peer, count):
    with server_peer.serve() as server:
        result = client.run_json("ping", server.url, "--count", count)
    return f"p50 {result['latency']['p50_us']:.0f} us"


# siw as responder does what the initiator asks for. As initiator it asks when mpa_crc_required is set; the responder
# may still switch CRC on. Which it was is looked up in what siwarp captured.
CAPTURE_SIZE = MIB


def check_crc(capture, wanted):
    """CRC is used when the C bit is set in the Request or the Reply of MPA (RFC 5044)."""
    data, asked = capture.read_bytes(), []
    for frame in (b"MPA ID Req Frame", b"MPA ID Rep Frame"):
        at = data.find(frame)
        if at < 0:
            raise Failure(f"no {frame.decode()} in what siwarp captured", capture)
        asked.append(data[at + len(frame)] & 0x40 != 0)
    if any(asked) != wanted:
        raise Failure(f"CRC is {'on' if any(asked) else 'off'}, not {'on' if wanted else 'off'}", capture)


def from_host(session, crc):
    client, server = session.host_siwarp("--crc", crc), session.guest_verbs()
    note = exchange(client, server)
    capture = session.host.run_folder / "logs" / "crc.pcapng"
    seen = session.host_siwarp("--crc", crc, "--capture", capture, "--capture-max", CAPTURE_SIZE)
    note += ", " + ping_of(seen, server, 200)
    check_crc(capture, crc == "on")
    return note


def to_host(session, crc):
    session.set_siw_option("mpa_crc_required", "Y" if crc == "required" else "N")
    try:
        capture = session.host.run_folder / "logs" / "crc.pcapng"
        on = "on" if crc == "on" else "off"
        client, server = session.guest_verbs(), session.host_siwarp("--crc", on)
        note = exchange(client, server)
        seen = session.host_siwarp("--crc", on, "--capture", capture, "--capture-max", CAPTURE_SIZE)
        note += ", " + ping_of(client, seen, 200)
        check_crc(capture, crc != "off")
        return note
    finally:
        session.set_siw_option("mpa_crc_required", "N")


for crc in ("on", "off"):
    scenario(f"siwarp-to-verbs-crc-{crc}", "host siwarp → guest verbs", f"put, get, ping; CRC {crc}",
             devices=("siw",))(functools.partial(from_host, crc=crc))
for crc, meaning in (("required", "siw asks for CRC"), ("on", "siwarp wants CRC"), ("off", "CRC off")):
    scenario(f"verbs-to-siwarp-crc-{crc}", "guest verbs → host siwarp", f"put, get, ping; {meaning}",
             devices=("siw",))(functools.partial(to_host, crc=crc))
