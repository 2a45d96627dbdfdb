#!/usr/bin/env python3
"""A capture does not make `rpcrdma explain` work or remember without bound. Each of these took minutes, or hundreds of megabytes,
once; the bound of command_fixture.run() is what fails."""
import pathlib
import resource
import struct
import sys
import tempfile
import unittest

import command_fixture

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "captures"))
import plant  # noqa: E402
from plant import Connection, header_v1, mpa_frame, private_data, rpc_call  # noqa: E402


def without_crc():
    c = Connection.made(mpa_frame(0, private_data(), flags=0x10), mpa_frame(1, private_data(), flags=0x10))
    c.has_crc = False
    return c


class ExplainHostile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "capture.pcap"

    def summary(self):
        result = command_fixture.run("explain", "summary", self.path)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_one_handle_for_all_memory(self):
        c = without_crc()
        segments = b"".join(struct.pack(">IIIIQ", 1, 44, 7, 16, 0x1000) for _ in range(120))
        for xid in range(1500):
            c.send(0, header_v1(xid, lists=segments + bytes(12)) + rpc_call(xid, 400, 1, 1, bytes(8)))
        c.write(self.path)
        self.assertIn("1,500 calls, 0 answered", self.summary())

    def test_calls_without_replies_and_resets_again_and_again(self):
        c = without_crc()
        for xid in range(8000):
            c.send(0, header_v1(xid) + rpc_call(xid))
        c.write(self.path)
        data = self.path.read_bytes()
        last = bytearray(data[24 + 16:24 + 16 + 40])  # the SYN, as a reset
        last[33] = 4
        more = b"".join(struct.pack("<IIII", 10**9 + 9, i * 1000, 40, 40) + last for i in range(150000))
        self.path.write_bytes(data + more)
        self.assertIn("8,000 calls, 0 answered", self.summary())

    def test_resets_behind_each_of_many_calls_without_replies(self):
        c = without_crc()
        for xid in range(24000):
            c.send(0, header_v1(xid) + rpc_call(xid))
        c.write(self.path)
        packets = list(plant.packets_of(self.path))
        reset = bytearray(packets[0][1])  # the SYN
        reset[33] = 4
        mixed = packets[:4000]
        for each in packets[4000:]:
            mixed += [each, (each[0], reset)]
        plant.write_packets(self.path, mixed, 101)
        self.assertIn("24,000 calls, 0 answered", self.summary())

    def test_endpoints_whose_addresses_and_ports_have_one_sum(self):
        packets = []
        for port in range(65536):
            ip = struct.pack(">BBHHHBBH", 0x45, 0, 40, 0, 0, 64, 6, 0) + struct.pack("<H", 65535 - port) \
                + bytes([0, 1, 192, 0, 2, 1])
            packets.append((10**18 + port * 1000, ip + struct.pack(">HHIIBBHHH", port, 20049, port, 0, 0x50, 2, 0xffff, 0, 0)))
        plant.write_packets(self.path, packets, 101)
        self.assertIn("65,536 packets, 0 connections", self.summary())

    def test_connections_without_payload_take_next_to_no_memory(self):
        packets = []
        for i in range(20000):
            ip = struct.pack(">BBHHHBBH", 0x45, 0, 40, 0, 0, 64, 6, 0) + bytes([10, 0, i >> 8 & 255, i & 255, 192, 0, 2, 1])
            packets.append((10**18 + i * 1000, ip + struct.pack(">HHIIBBHHH", 40000, 20049, i, 0, 0x50, 2, 0xffff, 0, 0)))
        plant.write_packets(self.path, packets, 101)
        self.assertIn("20,000 packets, 0 connections", self.summary())
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 250000)


if __name__ == "__main__":
    unittest.main()
