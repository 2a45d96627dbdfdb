#!/usr/bin/env python3
"""What we send, read by somebody else: tshark decodes a capture that the command wrote.

No frame may be malformed, no CRC bad, and every layer must be there: MPA, DDP/RDMAP, RPC-over-RDMA.
"""
import collections
import functools
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

COMMAND = os.environ["RPCRDMA"]
DEMO = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts" / "demo.py"


def run_tshark(*arguments):
    result = subprocess.run(["tshark", *arguments], capture_output=True, text=True, timeout=300, check=False,
                            env={**os.environ, "LC_ALL": "C"})
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return result.stdout


@functools.cache
def only_iwarp():
    """Options by which tshark takes a TCP connection for iWARP and for nothing else.

    It asks the protocol that owns one of the two ports first, and then whoever finds its own in the bytes. The system
    chooses our ports, and our data is random.
    """
    options = ["-o", "tcp.try_heuristic_first:TRUE"]
    for line in run_tshark("-G", "heuristic-decodes").splitlines():
        parent, protocol, _ = line.split("\t")
        if parent == "tcp" and protocol not in ("iwarp_mpa", "rpc"):
            options += ["--disable-protocol", protocol]
    return options


def tshark(capture, *arguments):
    # Our program is unknown to tshark; without this it takes no call for a call.
    return run_tshark("-r", capture, *only_iwarp(), "-o", "rpc.dissect_unknown_programs:TRUE", *arguments)


def with_port(capture, number, port):
    """The packets of a capture in which connection `number` has another port at its initiator."""
    ends, packets, at = [], bytearray(capture), 0
    while at < len(packets):
        kind, size = struct.unpack_from("<II", packets, at)
        if kind == 6:  # Enhanced Packet Block: Ethernet and IPv4 begin 28 bytes into it
            tcp = at + 28 + 14 + 20
            source, destination = struct.unpack_from(">HH", packets, tcp)
            if packets[tcp + 13] & 0x12 == 0x02:  # the SYN
                ends.append((source, destination))
            if len(ends) > number and ends[number] in ((source, destination), (destination, source)):
                struct.pack_into(">H", packets, tcp + (0 if source == ends[number][0] else 2), port)
        at += size
    return bytes(packets)


class TsharkTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if shutil.which("tshark") is None:
            raise AssertionError("tshark is missing: apt-get install --no-install-recommends tshark")
        cls.work = tempfile.TemporaryDirectory(prefix="rpcrdma-tshark.")
        cls.capture = str(pathlib.Path(cls.work.name) / "demo.pcapng")
        subprocess.run([sys.executable, str(DEMO), COMMAND, "--size", str(20 << 20), "--files", "50",
                        "--capture", cls.capture],
                       check=True, stdout=subprocess.DEVNULL, timeout=300)

    @classmethod
    def tearDownClass(cls):
        cls.work.cleanup()

    def test_capture_holds_its_first_16_mib(self):
        size = os.path.getsize(self.capture)
        self.assertGreater(size, 12 << 20)
        self.assertLessEqual(size, 17 << 20)

    def test_every_layer_is_decoded(self):
        protocols = collections.Counter()
        for line in tshark(self.capture, "-T", "fields", "-e", "frame.protocols").splitlines():
            protocols.update(set(line.replace(",", ":").split(":")))
        for layer in ("tcp", "iwarp_mpa", "iwarp_ddp_rdmap", "rpcordma", "rpc"):
            self.assertGreater(protocols[layer], 0, f"{layer}: {protocols}")

    def test_nothing_is_malformed(self):
        bad = tshark(self.capture, "-Y", "_ws.malformed || _ws.expert.severity == error", "-T", "fields", "-e",
                     "frame.number", "-e", "_ws.col.Info", "-e", "_ws.expert.message")
        self.assertEqual(bad, "")

    def test_no_crc_and_no_checksum_is_bad(self):
        bad = tshark(self.capture, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-Y",
                     'tcp.checksum.status == "Bad" || ip.checksum.status == "Bad"')
        self.assertEqual(bad, "")
        checks = re.findall(r"CRC check: 0x[0-9a-f]+ \((\w+)", tshark(self.capture, "-O", "iwarp_mpa"))
        self.assertGreater(len(checks), 1000)
        if set(checks) != {"Good"}:
            kept = shutil.copy(self.capture, "tshark-failed.pcapng")
            self.fail(f"{collections.Counter(checks)}; the capture is {os.path.abspath(kept)}")

    def test_every_kind_of_message_is_seen(self):
        opcodes = set()
        for line in tshark(self.capture, "-T", "fields", "-e", "iwarp_rdma.opcode").splitlines():
            opcodes.update(line.split(","))
        opcodes = {int(opcode, 0) for opcode in opcodes if opcode}
        self.assertLessEqual({0, 1, 2, 3}, opcodes, "Write, Read Request, Read Response, Send")
        self.assertTrue({4, 6} & opcodes, "Send with Invalidate")

    def test_port_of_another_protocol_does_not_matter(self):
        # 44321 is pcp's. The third connection is that of `get`, which has the RDMA Writes.
        capture = pathlib.Path(self.work.name) / "port.pcapng"
        capture.write_bytes(with_port(pathlib.Path(self.capture).read_bytes(), 2, 44321))
        writes = tshark(str(capture), "-Y", "tcp.port == 44321 && iwarp_rdma.opcode == 0", "-T", "fields", "-e",
                        "frame.number")
        self.assertGreater(len(writes.splitlines()), 10)

    def test_calls_and_replies_match(self):
        types = collections.Counter(
            word for line in tshark(self.capture, "-Y", "rpc", "-T", "fields", "-e", "rpc.msgtyp").splitlines()
            for word in line.split(",") if word)
        self.assertGreater(types["0"], 100)
        self.assertGreater(types["1"], 100)


class Rfc5666Test(unittest.TestCase):
    """The forms of the old text: RDMA_MSGP, a reply with a Read list, RDMA_DONE."""

    def test_forms_are_decoded(self):
        with tempfile.TemporaryDirectory(prefix="rpcrdma-tshark.") as work:
            served, capture, data = (pathlib.Path(work) / name for name in ("served", "capture", "data"))
            served.mkdir()
            data.write_bytes(os.urandom((1 << 20) + 2000))  # the second piece fits a message
            profile = ["--profile", "rfc5666"]
            with subprocess.Popen([COMMAND, "serve", "--blob", served, "--listen", "127.0.0.1", "--port", "0",
                                   *profile], stdout=subprocess.PIPE, text=True) as server:
                try:
                    url = server.stdout.readline().split()[1]
                    for name, words in (("put", ["put", url, data]), ("get", ["get", url, "data", served / "back"])):
                        subprocess.run([COMMAND, *words, *profile, "--capture", f"{capture}.{name}"], check=True,
                                       stdout=subprocess.DEVNULL, timeout=60)
                finally:
                    server.terminate()
            seen = set()
            for name in ("put", "get"):
                lines = tshark(f"{capture}.{name}", "-Y", "rpcordma", "-T", "fields", "-e", "rpcordma.msg_type", "-e",
                               "rpcordma.reads_count", "-e", "_ws.malformed")
                seen.update(line.rstrip() for line in lines.splitlines())
            self.assertIn("2", {line.split("\t")[0] for line in seen}, f"RDMA_MSGP: {seen}")
            self.assertIn("3", seen, "RDMA_DONE")
            self.assertIn("0\t1", seen, "a reply with a Read list")
            self.assertFalse([line for line in seen if line.count("\t") > 1 and line.split("\t")[2]], "malformed")


if __name__ == "__main__":
    unittest.main()
