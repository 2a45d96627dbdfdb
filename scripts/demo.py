#!/usr/bin/env python3
"""Moves real files through a server and checks them: what `make demo` shows.

usage: demo.py PATH_OF_RPCRDMA [--size BYTES] [--capture FILE]

Starts `rpcrdma serve` on loopback and `rpcrdma put`, `get` and `ls` as processes of their own, compares
SHA-256 of what went in and what came out, and prints a table. Exits 0 only when everything is equal.
"""
import argparse
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FORMS = ["short_calls", "read_chunks", "write_chunks", "long_calls", "long_replies"]


def fail(text):
    sys.exit(f"demo: {text}")


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def make_tar(path):
    """The project's own sources, without what was built."""
    with tarfile.open(path, "w") as tar:
        for entry in sorted(ROOT.iterdir()):
            if not entry.name.startswith("build") and entry.name != ".git":
                tar.add(entry, arcname=f"rpcrdma/{entry.name}")


def make_big(path, size):
    block = os.urandom(1 << 20)
    with open(path, "wb") as file:
        left = size
        while left > 0:
            # Each block differs, so that one that lands in the wrong place is noticed.
            piece = left.to_bytes(8, "big") + block[8:]
            file.write(piece[:left])
            left -= min(left, len(piece))


class Server:
    def __init__(self, command, directory, capture):
        arguments = [command, "serve", "--blob", directory, "--listen", "127.0.0.1", "--port", "0", "--json",
                     "--log-level", "warning"]
        if capture:
            arguments += ["--capture", capture, "--capture-max", str(16 << 20)]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        ready = self.process.stdout.readline().split()
        if ready[:1] != ["ready"]:
            fail("the server did not start")
        self.url = ready[1]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        output, _ = self.process.communicate(timeout=60)
        if self.process.returncode != 0:
            fail(f"the server ended with status {self.process.returncode}")
        return json.loads(output)


def run(command, *arguments):
    result = subprocess.run([command, *map(str, arguments), "--json"], stdout=subprocess.PIPE, text=True,
                            check=False)
    if result.returncode != 0:
        fail(f"rpcrdma {arguments[0]} ended with status {result.returncode}")
    return json.loads(result.stdout)


def print_table(rows, server):
    print(f"\n{'':24}{'bytes':>12}{'calls':>7}{'Short':>7}{'Read':>7}{'Write':>7}{'Long':>7}{'Long':>7}"
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command")
    parser.add_argument("--size", type=int, default=256 << 20, help="bytes of the generated file")
    parser.add_argument("--capture", help="pcapng of the first 16 MiB (default: beside the command)")
    options = parser.parse_args()
    command = str(pathlib.Path(options.command).resolve())
    capture = options.capture or str(pathlib.Path(command).parent.parent / "demo.pcapng")
    with tempfile.TemporaryDirectory(prefix="rpcrdma-demo.") as work_name:
        work = pathlib.Path(work_name)
        (work / "served").mkdir()
        print("demo: packing the source tree, generating a file ...", flush=True)
        make_tar(work / "source.tar")
        make_big(work / "big", options.size)
        server = Server(command, str(work / "served"), capture)
        print(f"demo: server is {server.url}, RPC-over-RDMA version 1 over software iWARP", flush=True)
        rows = []
        try:
            rows.append(("ping, 1000 NULL calls", run(command, "ping", server.url, "--count", 1000)))
            for name, extra in (("source.tar", []), ("big", [])):
                source, back = work / name, work / f"{name}.back"
                put = run(command, "put", server.url, source, *extra)
                got = run(command, "get", server.url, name, back, *extra)
                if not sha256(source) == put["sha256"] == got["sha256"] == sha256(back):
                    fail(f"{name} came back different")
                print(f"demo: {name}: SHA-256 {put['sha256'][:16]}... is the same at both ends, both ways",
                      flush=True)
                rows += [(f"put {name}", put), (f"get {name}", got)]
            back = work / "long.back"
            rows.append(("put, nothing reduced",
                         run(command, "put", server.url, work / "source.tar", "long", "--no-reduce")))
            rows.append(("get, nothing reduced",
                         run(command, "get", server.url, "long", back, "--no-reduce")))
            if sha256(back) != sha256(work / "source.tar"):
                fail("the file that went in Long Calls came back different")
            rows.append(("ls", run(command, "ls", server.url)))
        finally:
            counters = server.stop()
        print_table(rows, counters)
        copied = sum(row["counters"]["bytes_copied"] for name, row in rows if "big" in name)
        payload = sum(row["bytes"] for name, row in rows if "big" in name)
        print(f"\nbytes that our code copied per byte of the big file: {copied / payload:.4f}")
        print(f"the first 16 MiB as pcapng, for Wireshark: {os.path.relpath(capture)}")


if __name__ == "__main__":
    main()
