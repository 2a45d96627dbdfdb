"""Numbers, in tables below the matrix. An emulated CPU's say nothing about speed, but ratios and counts do."""
import re

from machine import Failure
from session import MIB, scenario

BENCH_CASES = {"ib_read_bw": "read_1m_qd8", "ib_write_bw": "write_1m_qd8"}  # perftest's next to ours: get and put
COUNTERS = ("doorbells", "completions_signaled", "registrations", "system_calls", "bytes_copied")


def perftest(session, tool):
    """MB/s of 1 MiB messages, client and server in the guest."""
    command = [tool, "-d", f"{session.device}0", "-R", "-s", MIB, "-n", 200, "-F"]
    server = session.guest.start(tool, command)
    session.guest.shell("listening", "sleep 2")
    client = session.guest.run(tool, [*command, session.address[session.guest]], 120)
    server.expect(30)
    row = re.search(rf"^\s*{MIB}\s+\d+\s+\S+\s+(\S+)", client.out(), re.MULTILINE)
    if not row:
        raise client.failure("printed no rate")
    return float(row[1]) * MIB / 1e6


@scenario("bench", "guest verbs → guest verbs", "rpcrdma bench, 1 MiB, next to perftest")
def bench(session):
    raw = {tool: perftest(session, tool) for tool in BENCH_CASES}
    ours, trouble = {}, None
    try:
        result = session.guest_verbs().run(
            "bench", "--address", session.address[session.guest], "--cases", ",".join(BENCH_CASES.values()),
            "--rounds", 1, "--seconds", 2, "--json", seconds=300).json()
        ours = {each["case"]: each["gb_per_s"] * 1e3 for each in result}
    except Failure as reason:
        trouble = reason  # perftest's rates are shown nevertheless
    rows = []
    for tool, case in BENCH_CASES.items():
        rate, ratio = ((f"{ours[case]:.0f}", f"{ours[case] / raw[tool]:.2f}") if case in ours else ("?", "?"))
        rows.append((session.device, tool, f"{raw[tool]:.0f}", case, rate, ratio))
    session.figures.append(("rpcrdma bench next to perftest, 1 MiB, MB/s",
                            ("device", "perftest", "rate", "rpcrdma bench", "rate", "ratio"), rows))
    if trouble or len(ours) < len(BENCH_CASES):
        raise trouble or Failure(f"rpcrdma bench shows {', '.join(ours) or 'no case'}")
    return ", ".join(f"{row[3]} {row[5]} of {row[1]}" for row in rows)


def per_call(result, calls):
    return [f"{result['counters'][name] / calls:.2f}" if name in result["counters"] else "?" for name in COUNTERS]


@scenario("counters", "guest verbs → guest verbs", "what a call costs the client, by its own counters")
def counters(session):
    """Of the whole connection, its set-up included: hence many calls."""
    peer = session.guest_verbs()
    rows = []
    with peer.serve() as server:
        ping = peer.run_json("ping", server.url, "--count", 1000)
        rows.append((session.device, "NULL", ping["count"], *per_call(ping, ping["count"])))
        for size in ("64KiB", "1MiB"):
            for operation, transfer in (("put", peer.put_random), ("get", peer.get_random)):
                result = transfer(server, "--size", size)
                calls = result["calls"]
                rows.append((session.device, f"{operation} {size}", calls, *per_call(result, calls)))
    session.figures.append(("Per call, at the client", ("device", "call", "calls", *COUNTERS), rows))
    missing = [name for name in COUNTERS if name not in ping["counters"]]
    if missing:
        raise Failure(f"--json has no {', '.join(missing)}")
    return f"NULL: {rows[0][3]} doorbells, {rows[0][6]} system calls"
