"""Numbers, in tables below the matrix. An emulated CPU's say nothing about speed, but ratios and counts do."""
import re
import signal

from machine import Failure, GuestDied
from session import MIB, scenario

BENCH_CASES = {"ib_read_bw": "read_1m_qd8", "ib_write_bw": "write_1m_qd8"}  # perftest's next to ours: get and put
COUNTERS = ("doorbells", "completions_signaled", "registrations")


def perftest(session, tool):
    """MB/s of 1 MiB messages, client and server in the guest; None when it measured nothing, and a note why."""
    command = [tool, "-d", f"{session.device}0", "-R", "-s", MIB, "-n", 200, "-F"]
    server = session.guest.start(tool, command)
    try:
        session.guest.shell("listening", "sleep 2")
        client = session.guest.run(tool, [*command, session.address[session.guest]], 120)
        server.expect(30)
        row = re.search(rf"^\s*{MIB}\s+\d+\s+\S+\s+([\d.]+)", client.out(), re.MULTILINE)
        if not row:
            raise client.failure("printed no rate")
    except GuestDied:
        raise
    except Failure as reason:  # of a program and a device that are not ours
        if server.status() is None:
            server.signal(signal.SIGKILL)  # our own measurement comes next
        return None, str(reason)
    rate = float(row[1]) * MIB / 1e6
    return (rate, None) if rate > 0 else (None, f"{tool} measured nothing ({row[1]} MB/s)")


@scenario("bench", "guest verbs → guest verbs", "rpcrdma bench, 1 MiB, next to perftest")
def bench(session):
    """What perftest cannot measure is noted; a case that our bench cannot is a failure."""
    raw, notes = {}, []
    for tool in BENCH_CASES:
        raw[tool], note = perftest(session, tool)
        notes += [note] if note else []
    ours, trouble = {}, None
    try:
        result = session.guest_verbs().run(
            "bench", "--address", session.address[session.guest], "--cases", ",".join(BENCH_CASES.values()),
            "--rounds", 3, "--seconds", 3, "--crc", "off", "--cpu", "spread", "--json", seconds=300).json()
        ours = {each["case"]: each["gb_per_s"] * 1e3 for each in result if each["gb_per_s"] > 0}
    except Failure as reason:
        trouble = reason  # perftest's rates are shown nevertheless
    rows, ratios = [], []
    for tool, case in BENCH_CASES.items():
        rate, limit = ours.get(case), raw[tool]
        ratio = f"{rate / limit:.2f}" if rate and limit else "?"
        ratios += [f"{case} {ratio} of {tool}"] if limit else []
        rows.append((session.device, tool, f"{limit:.0f}" if limit else "?", case, f"{rate:.0f}" if rate else "?", ratio))
    session.figures.append(("rpcrdma bench next to perftest, 1 MiB, MB/s",
                            ("device", "perftest", "rate", "rpcrdma bench", "rate", "ratio"), rows))
    missing = [case for case in BENCH_CASES.values() if case not in ours]
    if trouble or missing:
        raise trouble or Failure(f"rpcrdma bench shows no rate of {', '.join(missing)}")
    return "; ".join([*([", ".join(ratios)] if ratios else []), *notes])


def system_calls(session, url, count):
    """Of `rpcrdma ping --count COUNT`, by strace; without sched_yield, which only lets others run, and
    clock_gettime, which is one only because the emulated CPU has no clock."""
    summary = session.guest.scratch / "strace"
    session.guest.run("strace", ["strace", "-f", "-c", "-U", "calls,name", "-o", summary,
                                 session.build / "bin" / "rpcrdma", "ping", url, "--provider",
                                 session.stand_in or "verbs", "--count", count], 300)
    rows = [line.split() for line in session.guest.run("calls", ["cat", summary]).out().splitlines()]
    return sum(int(row[0]) for row in rows
               if len(row) == 2 and row[0].isdigit() and row[1] not in ("total", "sched_yield", "clock_gettime"))


@scenario("counters", "guest verbs → guest verbs", "what a call costs each side; no payload is copied")
def counters(session):
    """Counts, which hold on an emulated CPU too: of the time in which calls follow each other, without the set-up.
    The memory of client and server is registered beforehand (RegisteredMemory)."""
    cases = {"NULL": "null_qd1", "read 64 KiB": "read_64k_qd1", "write 64 KiB": "write_64k_qd1",
             "read 1 MiB": "read_1m_qd1", "write 1 MiB": "write_1m_qd1", "NULL, 32 at a time": "null_qd32",
             "read 1 MiB, 8 at a time": "read_1m_qd8", "write 1 MiB, 8 at a time": "write_1m_qd8"}
    peer = session.guest_verbs()
    result = peer.run("bench", "--address", session.address[session.guest], "--cases", ",".join(cases.values()),
                      "--rounds", 1, "--seconds", 2, "--crc", "off", "--cpu", "spread", "--json", seconds=300).json()
    by_case = {each["case"]: each for each in result}
    rows = []
    for label, case in cases.items():
        if case not in by_case:
            raise Failure(f"rpcrdma bench shows no {case}")
        for side in ("client", "server"):
            costs = by_case[case][f"{side}_per_call"]
            rows.append((session.device, label, side, *(f"{costs[name]:.2f}" for name in COUNTERS)))
    session.figures.append(("Per call, at each side", ("device", "call", "side", *COUNTERS), rows))
    with peer.serve() as server:
        few, many = (system_calls(session, server.url, count) for count in (200, 700))
    each = f"{(many - few) / 500:.2f}"
    session.figures.append(("System calls of a NULL call, at the client, by strace (the device's library included, "
                            "sched_yield and clock_gettime not)", ("device", "system calls"), [(session.device, each)]))
    copies = {label: by_case[case]["user_copies_per_byte"] for label, case in cases.items() if "NULL" not in label}
    copied = {label: copy for label, copy in copies.items() if copy > 0.001}
    if copied:
        raise Failure(f"payload is copied: {copied}")
    return f"NULL: {rows[0][3]} doorbells, {each} system calls; no payload is copied"
