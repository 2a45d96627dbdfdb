#!/usr/bin/env python3
"""Compares what `rpcrdma explain` decodes with what Wireshark does, packet by packet, over captures of Linux.

The options of tshark are those under which it decodes all of version 1: with its dissector of NFS it takes READ replies for
malformed whose data went by a Write chunk, and with reassembly of Sends it shows the first header of a segment alone."""
import collections
import json
import lzma
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COMMAND = os.environ["RPCRDMA"]
CAPTURES = sorted((ROOT / "tests" / "captures").glob("*.pcap.xz"))
OPTIONS = ["--disable-protocol", "nfs", "--disable-protocol", "nfsacl",
           "-o", "iwarp_ddp_rdmap.reassemble_iwarp_rdma_send:FALSE", "-o", "tcp.reassemble_out_of_order:TRUE"]
FIELDS = ["frame.number", "iwarp_mpa.ulpdulength", "iwarp_rdma.opcode", "iwarp_ddp.msn", "iwarp_ddp.mo", "iwarp_ddp.stag",
          "iwarp_rdma.rdmardsz", "rpcordma.xid", "rpcordma.version", "rpcordma.flow_control", "rpcordma.msg_type",
          "rpcordma.rdma_handle", "rpcordma.rdma_length", "rpcordma.rdma_offset", "rpcordma.position", "rpcordma.errcode",
          "infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn"]
# Packets where tshark is wrong, by capture, each with the reason.
FAULTS_OF_TSHARK = {}


def unpacked(path, folder):
    target = pathlib.Path(folder) / path.stem
    with lzma.open(path) as packed, open(target, "wb") as plain:
        shutil.copyfileobj(packed, plain)
    return target


def number(text):
    return int(text, 0)


def rows_of_tshark(capture):
    """Packet number: {field: [values]} of each packet with one of the fields."""
    command = ["tshark", "-n", "-r", str(capture), *OPTIONS, "-T", "fields", "-E", "occurrence=a", "-E", "separator=/t"]
    for field in FIELDS:
        command += ["-e", field]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = {}
    for line in printed.splitlines():
        cells = line.split("\t")
        row = {field: [number(each) for each in cell.split(",")] if cell else []
               for field, cell in zip(FIELDS[1:], cells[1:])}
        if any(row.values()):
            rows[int(cells[0])] = row
    return rows


def rows_of_explain(capture):
    """The same, as far as `rpcrdma explain frames` says it."""
    printed = subprocess.run([COMMAND, "explain", "frames", str(capture)], capture_output=True, text=True, check=True)
    rows = collections.defaultdict(lambda: collections.defaultdict(list))
    for line in printed.stdout.splitlines():
        fact = json.loads(line)
        if fact["kind"] == "frame":
            rows[fact["packet"]]["frames"].append(fact)
        else:
            rows[fact["message"]["packet"]]["messages"].append(fact["message"])
    return rows


def segments(message):
    """Handles, lengths and offsets in the order of the header."""
    out = list(message["reads"])
    for chunk in message["writes"]:
        out += chunk
    return out + message.get("reply_chunk", [])


class ExplainAndTshark(unittest.TestCase):
    maxDiff = None

    def compare(self, packet, row, mine):
        """Returns what differs in one packet, in words; empty: nothing."""
        frames, messages = mine["frames"], mine["messages"]
        is_roce = bool(row["infiniband.bth.opcode"])
        pairs = []
        if is_roce:
            if not frames:  # the connection manager's
                return [] if row["infiniband.bth.destqp"] == [1] else ["no frame"]
            pairs += [("opcode", [f["opcode"] for f in frames], row["infiniband.bth.opcode"]),
                      ("psn", [f["sequence"] for f in frames], row["infiniband.bth.psn"]),
                      ("queue pair", [f["queue"] for f in frames], row["infiniband.bth.destqp"])]
        else:
            untagged = [f for f in frames if f["opcode"] not in (0, 2)]
            pairs += [("ULPDU", [f["size"] for f in frames], row["iwarp_mpa.ulpdulength"]),
                      ("opcode", [f["opcode"] for f in frames], row["iwarp_rdma.opcode"]),
                      ("MSN", [f["sequence"] for f in untagged], row["iwarp_ddp.msn"]),
                      ("MO", [f["offset"] for f in untagged], row["iwarp_ddp.mo"]),
                      ("STag", [f["tag"] for f in frames if f["opcode"] in (0, 2)], row["iwarp_ddp.stag"]),
                      ("read size", [f["read_size"] for f in frames if f["opcode"] == 1], row["iwarp_rdma.rdmardsz"])]
        all_segments = [s for m in messages for s in segments(m)]
        pairs += [("XID", [m["xid"] for m in messages], row["rpcordma.xid"]),
                  ("version", [m["version"] for m in messages], row["rpcordma.version"]),
                  ("credits", [m["credits"] for m in messages], row["rpcordma.flow_control"]),
                  ("type", [m["type"] for m in messages], row["rpcordma.msg_type"]),
                  ("handles", [s["handle"] for s in all_segments], row["rpcordma.rdma_handle"]),
                  ("lengths", [s["length"] for s in all_segments], row["rpcordma.rdma_length"]),
                  ("offsets", [s["offset"] for s in all_segments], row["rpcordma.rdma_offset"]),
                  ("positions", [s["position"] for m in messages for s in m["reads"]], row["rpcordma.position"]),
                  ("error", [m["error_code"] for m in messages if "error_code" in m], row["rpcordma.errcode"])]
        return [f"packet {packet}, {name}: explain has {a}, tshark {b}" for name, a, b in pairs if a != b]

    def test_agree_on_every_packet_of_every_capture(self):
        self.assertGreaterEqual(len(CAPTURES), 12)
        for packed in CAPTURES:
            with self.subTest(packed.name), tempfile.TemporaryDirectory() as folder:
                capture = unpacked(packed, folder)
                theirs, mine = rows_of_tshark(capture), rows_of_explain(capture)
                differences = []
                for packet in sorted(set(theirs) | set(mine)):
                    row = theirs.get(packet, collections.defaultdict(list))
                    differences += self.compare(packet, row, mine[packet])
                known = FAULTS_OF_TSHARK.get(packed.name, {})
                differences = [each for each in differences if int(each.split()[1].rstrip(",")) not in known]
                self.assertEqual(differences[:20], [], f"{len(differences)} differences")
                self.assertGreater(sum(len(each["messages"]) for each in mine.values()), 10)


if __name__ == "__main__":
    if shutil.which("tshark") is None:
        print("tshark is not installed")
        sys.exit(77)
    unittest.main()
