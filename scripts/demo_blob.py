"""The blob part of the demonstration: two files put and got, in every form that RPC-over-RDMA has."""
import tarfile

import demo_common as common

FORMS = ["short_calls", "read_chunks", "write_chunks", "long_calls", "long_replies"]


def make_tar(path):
    """The project's own sources, without what was built."""
    with tarfile.open(path, "w") as tar:
        for entry in sorted(common.ROOT.iterdir()):
            if not entry.name.startswith("build") and entry.name != ".git":
                tar.add(entry, arcname=f"rpcrdma/{entry.name}")


def print_table(rows, server):
    print(f"\n{'blob':24}{'bytes':>12}{'calls':>7}{'Short':>7}{'Read':>7}{'Write':>7}{'Long':>7}{'Long':>7}"
          f"{'GB/s':>7}{'p50':>8}{'p99':>8}{'p99.9':>8}")
    print(f"{'':24}{'':12}{'':7}{'':7}{'chunk':>7}{'chunk':>7}{'Call':>7}{'Reply':>7}"
          f"{'':7}{'us':>8}{'us':>8}{'us':>8}")
    for name, row in rows:
        counters = row["counters"]
        forms = "".join(f"{counters[form]:7}" for form in FORMS)
        if "latency" in row:
            latency = row["latency"]
            rate = f"{row['gb_per_s']:7.2f}" if "gb_per_s" in row else f"{'':7}"
            tail = rate + "".join(f"{latency[key]:8.0f}" for key in ("p50_us", "p99_us", "p999_us"))
        else:
            tail = ""
        print(f"{name:24}{row.get('bytes', 0):12}{counters['calls']:7}{forms}{tail}")
    forms = "".join(f"{server[form]:7}" for form in FORMS)
    print(f"{'server, in all':24}{server['payload_bytes']:12}{server['calls']:7}{forms}")


def show(command, work, big, capture):
    """`big` is a file; `capture` becomes a pcapng of the first 16 MiB. Prints the table."""
    (work / "blobs").mkdir()
    make_tar(work / "source.tar")
    server = common.Server(command, "--blob", work / "blobs", "--capture", capture, "--capture-max", 16 << 20)
    rows = []
    try:
        rows.append(("ping, 1000 NULL calls", common.run(command, "ping", server.url, "--count", 1000)))
        for source in (work / "source.tar", big):
            name = source.name
            back = work / f"{name}.back"
            put = common.run(command, "put", server.url, source)
            got = common.run(command, "get", server.url, name, back)
            if not common.sha256(source) == put["sha256"] == got["sha256"] == common.sha256(back):
                common.fail(f"{name} came back different")
            common.say(f"put and get {name}: SHA-256 {put['sha256'][:16]}... is the same at both ends, both ways")
            rows += [(f"put {name}", put), (f"get {name}", got)]
        back = work / "long.back"
        rows.append(("put, nothing reduced",
                     common.run(command, "put", server.url, work / "source.tar", "long", "--no-reduce")))
        rows.append(("get, nothing reduced",
                     common.run(command, "get", server.url, "long", back, "--no-reduce")))
        if common.sha256(back) != common.sha256(work / "source.tar"):
            common.fail("the file that went in Long Calls came back different")
        rows.append(("ls", common.run(command, "ls", server.url)))
    finally:
        counters = server.stop()
    print_table(rows, counters)
    copied = sum(row["counters"]["bytes_copied"] for name, row in rows if big.name in name)
    payload = sum(row["bytes"] for name, row in rows if big.name in name)
    print(f"\nbytes that our code copied per byte of {big.name}: {copied / payload:.4f}")
