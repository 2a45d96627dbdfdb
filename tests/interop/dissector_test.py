#!/usr/bin/env python3
"""The dissector of version two, over a capture that holds every golden vector of it.

The capture is made up: one iWARP connection over IPv4, without CRCs, whose Sends carry the vectors.
"""
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

from made_capture import GOLDEN, ROOT, Capture, golden

SCRIPT = ROOT / "tools" / "wireshark" / "rpcrdma2.lua"


def vectors():
    return sorted(path.stem for path in GOLDEN.glob("v2-*.hex"))


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
        return self.read_segments([(message,) for message in messages], *arguments)

    def read_segments(self, segments, *arguments):
        """Returns tshark's line for each TCP segment, which holds several messages."""
        capture = Capture()
        for messages in segments:
            capture.send(0, *messages)
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
        info = {name: line.split("\t")[0].rstrip(" ") for name, line in said.items()}
        self.assertEqual(len(lines), len(names))
        self.assertEqual(info["v2-error-bad-header"], "RDMA2_ERROR RDMA2_ERR_BAD_HEADER")
        self.assertEqual(info["v2-error-inval-option"], "RDMA2_ERROR RDMA2_ERR_INVAL_OPTION")
        self.assertEqual(info["v2-initxch"],
                         "RDMA2_OPTIONAL INITXCH CALL XCHAR_RBSIZ=4096, XCHAR_REQREMINV=true, XCHAR_BRS=INLINE")
        self.assertEqual(info["v2-reqxch"], "RDMA2_OPTIONAL REQXCH CALL XCHAR_RBSIZ=16384")
        self.assertEqual(info["v2-respxch"],
                         "RDMA2_OPTIONAL RESPXCH REPLY done none, rejected none, pending 0")
        self.assertEqual(info["v2-updxch"],
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

    def test_info_is_apart_from_that_of_the_next_dissector(self):
        info = ("-T", "fields", "-e", "_ws.col.Info")
        call, exchange, request = (golden(f"v2-{name}") for name in ("msg-short-call", "initxch", "reqxch"))
        self.assertEqual(self.read([call], *info), ["RDMA2_MSG CALL V3 NULL Call"])
        # While it reassembles Sends, tshark 4.0 hands on the first message of a segment only.
        first = "RDMA2_OPTIONAL INITXCH CALL XCHAR_RBSIZ=4096, XCHAR_REQREMINV=true, XCHAR_BRS=INLINE "
        second = "RDMA2_OPTIONAL REQXCH CALL XCHAR_RBSIZ=16384 "
        self.assertEqual(self.read_segments([(exchange, request)], *info),
                         [first + "40000 > 20049 Send [last DDP segment]"])
        each = ("-o", "iwarp_ddp_rdmap.reassemble_iwarp_rdma_send:FALSE")
        self.assertEqual(self.read_segments([(exchange, request)], *each, *info), [first + second])
        self.assertEqual(self.read_segments([(request, call)], *each, *info),
                         [second + "RDMA2_MSG CALL V3 NULL Call"])
        # A message of version one follows, which Wireshark's own dissector reads.
        self.assertEqual(self.read_segments([(request, golden("linux-null-call"))], *each, *info),
                         [second + "V3 NULL Call"])

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
