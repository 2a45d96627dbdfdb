#!/usr/bin/env python3
"""The dissector of version two, over a capture that holds every golden vector of it.

The capture is made here: one iWARP connection over IPv4, without CRCs, whose Sends carry the vectors.
"""
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "tools" / "wireshark" / "rpcrdma2.lua"
GOLDEN = ROOT / "tests" / "golden"


def golden(name):
    return bytes.fromhex("".join((GOLDEN / f"{name}.hex").read_text().split()))


def vectors():
    return sorted(path.stem for path in GOLDEN.glob("v2-*.hex"))


class Capture:
    """A TCP connection with MPA and DDP/RDMAP in it, as a pcap file of raw IPv4 packets."""

    def __init__(self):
        self.packets = []
        self.sequence = [1000, 5000]  # of the client, of the server
        self.messages = [0, 0]
        self._tcp(0, 0x02, b"")
        self._tcp(1, 0x12, b"")
        self._tcp(0, 0x10, b"")
        key = b"MPA ID Req Frame", b"MPA ID Rep Frame"
        for side in (0, 1):
            self._tcp(side, 0x18, key[side] + bytes([0x00, 1]) + struct.pack(">H", 0))

    def _tcp(self, side, flags, data):
        ports = (40000, 20049)
        header = struct.pack(">HHIIBBHHH", ports[side], ports[1 - side], self.sequence[side],
                             self.sequence[1 - side] if flags != 0x02 else 0, 0x50, flags, 0xffff, 0, 0)
        self.sequence[side] += len(data) + (1 if flags & 0x02 else 0)
        total = 20 + len(header) + len(data)
        addresses = bytes([192, 0, 2, 1 + side, 192, 0, 2, 2 - side])
        ip = struct.pack(">BBHHHBBH", 0x45, 0, total, len(self.packets), 0, 64, 6, 0) + addresses
        self.packets.append(ip + header + data)

    def send(self, side, message):
        self.messages[side] += 1
        # DDP: untagged, last, version 1; RDMAP: version 1, Send; queue 0.
        ulpdu = struct.pack(">BBIIII", 0x41, 0x43, 0, 0, self.messages[side], 0) + message
        pad = -(len(ulpdu) + 2) % 4
        self._tcp(side, 0x18, struct.pack(">H", len(ulpdu)) + ulpdu + bytes(pad) + bytes(4))

    def write(self, path):
        with open(path, "wb") as file:
            file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101))
            for i, packet in enumerate(self.packets):
                file.write(struct.pack("<IIII", 1, i, len(packet), len(packet)) + packet)


class DissectorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if shutil.which("tshark") is None:
            raise AssertionError("tshark is missing: apt-get install --no-install-recommends tshark")
        cls.work = tempfile.TemporaryDirectory(prefix="rpcrdma-dissector.")

    @classmethod
    def tearDownClass(cls):
        cls.work.cleanup()

    def read(self, messages, *arguments):
        """What tshark says of each of the messages: one line each."""
        capture = Capture()
        for message in messages:
            capture.send(0, message)
        path = pathlib.Path(self.work.name) / "capture.pcap"
        capture.write(path)
        result = subprocess.run(["tshark", "-r", path, "-X", f"lua_script:{SCRIPT}", "-Y", "rpcrdma2", *arguments],
                                capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("Lua", result.stderr)
        return result.stdout.splitlines()

    def fields(self, messages, *names):
        words = [word for name in names for word in ("-e", f"rpcrdma2.{name}")]
        return [tuple(line.split("\t")) for line in self.read(messages, "-T", "fields", *words)]

    def test_every_message_of_version_two_is_decoded(self):
        names = [name for name in vectors() if name != "v2-error-vers"]  # it says another version
        lines = self.read([golden(name) for name in names], "-T", "fields", "-e", "_ws.col.Info", "-e",
                          "_ws.expert.message")
        said = dict(zip(names, lines))
        self.assertEqual(len(lines), len(names))
        self.assertEqual(said["v2-error-bad-header"].split("\t")[0], "RDMA2_ERROR RDMA2_ERR_BAD_HEADER")
        self.assertEqual(said["v2-error-inval-option"].split("\t")[0], "RDMA2_ERROR RDMA2_ERR_INVAL_OPTION")
        self.assertEqual(said["v2-initxch"].split("\t")[0],
                         "RDMA2_OPTIONAL INITXCH CALL XCHAR_RBSIZ=4096, XCHAR_REQREMINV=true, XCHAR_BRS=INLINE")
        self.assertEqual(said["v2-reqxch"].split("\t")[0], "RDMA2_OPTIONAL REQXCH CALL XCHAR_RBSIZ=16384")
        self.assertEqual(said["v2-respxch"].split("\t")[0],
                         "RDMA2_OPTIONAL RESPXCH REPLY done none, rejected none, pending 0")
        self.assertEqual(said["v2-updxch"].split("\t")[0],
                         "RDMA2_OPTIONAL UPDXCH REPLY XCHAR_RBSIZ=16384, no longer pending")
        for name, line in said.items():
            self.assertNotIn("breaks a rule", line, name)

    def test_err_vers_names_the_range(self):
        message = bytearray(golden("v2-error-vers"))
        message[4:8] = struct.pack(">I", 2)
        self.assertEqual(self.fields([bytes(message)], "err", "vers_low", "vers_high"), [("1", "1", "2")])

    def test_chunk_lists(self):
        rows = self.fields([golden("v2-nomsg-long-call"), golden("v2-msg-reply")], "proc", "direction", "reads", "writes",
                           "handle", "length", "offset", "position")
        self.assertEqual(rows[0], ("1", "0", "1", "0", "0x00004001", "9000", "0x0000000000050000", "0"))
        self.assertEqual(rows[1][:7], ("0", "1", "0", "1", "0x00002001", "5000", "0x0000000000010000"))

    def test_rpc_message_behind_the_header_is_decoded(self):
        lines = self.read([golden("v2-msg-short-call")], "-T", "fields", "-e", "rpc.msgtyp", "-e", "rpc.program")
        self.assertEqual(lines, ["0\t100003"])

    def test_subset_and_values(self):
        self.assertEqual(self.fields([golden("v2-initxch")], "xid", "credit", "xchar", "value", "nochg"),
                         [("0x11223344", "32", "1,2,3", "4096,1,1", "1,2")])

    def test_cut_off_messages_are_malformed_and_nothing_worse(self):
        for name in ("v2-initxch", "v2-respxch", "v2-nomsg-long-call", "v2-msg-reply"):
            whole = golden(name)
            cuts = [whole[:size] for size in range(20, len(whole), 4)]
            lines = self.read(cuts, "-T", "fields", "-e", "_ws.expert.message", "-e", "_ws.col.Info")
            self.assertEqual(len(lines), len(cuts), name)
            for line in lines:
                self.assertIn("breaks a rule at byte", line, name)

    def test_version_one_is_left_to_its_own_dissector(self):
        self.assertEqual(self.read([golden("msg-short-call")]), [])


if __name__ == "__main__":
    unittest.main()
