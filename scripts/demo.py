#!/usr/bin/env python3
"""Moves real files between processes and checks them: what `make demo` shows.

usage: demo.py PATH_OF_RPCRDMA [--size BYTES] [--files N] [--capture FILE]

First NFS: `rpcrdma serve --nfs` exports a directory, and `rpcrdma cp` copies a tree of small files and a
large one in and out, over RDMA and over TCP. Then `rpcrdma put` and `get`, with each form of a message.
Everything is compared, and tables are printed. Exits 0 only when everything is equal.
"""
import argparse
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import demo_blob  # noqa: E402
import demo_common as common  # noqa: E402
import demo_nfs  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command")
    parser.add_argument("--size", type=int, default=256 << 20, help="bytes of the large file")
    parser.add_argument("--files", type=int, default=4000, help="small files in the tree")
    parser.add_argument("--capture", help="pcapng of the first 16 MiB of blobs (default: beside the command)")
    options = parser.parse_args()
    command = str(pathlib.Path(options.command).resolve())
    capture = options.capture or str(pathlib.Path(command).parent.parent / "demo.pcapng")
    with tempfile.TemporaryDirectory(prefix="rpcrdma-demo.") as name:
        work = pathlib.Path(name)
        common.say("both ends are on this machine, over software iWARP unless it has an RDMA device")
        common.make_big(work / "big", options.size)
        demo_nfs.show(command, work, work / "big", options.files)
        demo_blob.show(command, work, work / "big", capture)
        print(f"the first 16 MiB of it as pcapng, for Wireshark: {os.path.relpath(capture)}")


if __name__ == "__main__":
    main()
