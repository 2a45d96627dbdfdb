#!/usr/bin/env python3
"""`rpcrdma explain check` finds nothing where nothing is wrong, and names the side that is: verdicts that it got wrong once."""
import json
import pathlib
import struct
import sys
import tempfile
import unittest

import command_fixture

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "captures"))
import plant  # noqa: E402
from plant import Connection, header_v1, mpa_frame, private_data, rpc_call, rpc_reply  # noqa: E402

SIW = "nfs3-siw-crc.pcap.xz"
CHUNK = struct.pack(">IIIIIQ", 0, 1, 1, 0x60, 20000, 0x1000) + bytes(8)


class ExplainVerdicts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "capture.pcap"

    def explain(self, *words):
        result = command_fixture.run("explain", *words, "--json", self.path)
        self.assertEqual(result.stderr, "")
        return [json.loads(line) for line in result.stdout.splitlines()]

    def found(self, connection):
        connection.write(self.path)
        return [(each["rule"], each["side"]) for each in self.explain("check")]

    def test_reply_may_leave_crcs_to_the_flag_of_the_request(self):
        c = Connection.made(mpa_frame(0, private_data(), flags=0x50), mpa_frame(1, private_data(), flags=0x10))
        c.send(0, header_v1(7) + rpc_call(7))
        c.send(1, header_v1(7) + rpc_reply(7))
        self.assertEqual(self.found(c), [])

    def test_segments_of_a_send_may_have_a_write_between_them(self):
        c = Connection.made()
        c.send(0, header_v1(7, lists=CHUNK) + rpc_call(7, 400, 1, 1))
        back = struct.pack(">IIIIIQ", 0, 1, 1, 0x60, 50, 0x1000) + bytes(8)
        reply = c.send(1, header_v1(7, lists=back) + rpc_reply(7))
        first, second = reply.copy(), reply.copy()
        del first.data[20 + 40:]
        first.data[2] &= 0xbf  # not the last
        del second.data[20:20 + 40]
        struct.pack_into(">I", second.data, 16, 40)
        ulpdu = struct.pack(">BBIQ", 0xc1, 0x40, 0x60, 0x1000) + bytes(50)
        write = plant.Unit(1, 0, struct.pack(">H", len(ulpdu)) + ulpdu)
        c.units[-1:] = [first, write, second]
        for unit in (first, second):
            unit.fix_length()
        self.assertEqual(self.found(c), [])
        self.assertEqual([each["status"] for each in self.explain("calls")], ["SUCCESS"])

    def test_missing_done_is_the_fault_of_the_client(self):
        c = Connection.made()
        c.send(0, header_v1(1) + rpc_call(1, 100417, 1, 1))
        c.send(1, header_v1(1) + rpc_reply(1))
        c.send(0, header_v1(7) + rpc_call(7, 400, 1, 1))
        lists = struct.pack(">IIIIQI", 1, 24, 0x70, 100, 0x1000, 0) + bytes(8)
        c.send(1, header_v1(7, lists=lists) + rpc_reply(7))
        self.assertEqual(self.found(c), [("H-D1", "192.0.2.1:40000")])

    def test_version_zero_is_unknown(self):
        c = Connection.made()
        c.send(0, header_v1(7, version=0) + rpc_call(7))
        c.send(1, header_v1(7) + rpc_reply(7))
        self.assertIn(("V1-E1", "192.0.2.2:20049"), self.found(c))

    def test_long_result_that_is_inline_is_no_wrong_length(self):
        size = 9000
        c = Connection.made(mpa_frame(0, private_data(receive=255)), mpa_frame(1, private_data(send=255)))
        c.send(0, header_v1(7, lists=CHUNK) + rpc_call(7, procedure=6, arguments=bytes(12) + struct.pack(">I", size)))
        back = struct.pack(">IIIIIQ", 0, 1, 1, 0x60, 0, 0x1000) + bytes(8)
        c.send(1, header_v1(7, lists=back) + rpc_reply(7, struct.pack(">IIIII", 0, 0, size, 1, size) + bytes(size)))
        found = [rule for rule, _ in self.found(c)]
        self.assertIn("V1-W6", found)
        self.assertNotIn("V1-W5", found)

    def records(self, *messages, steps_up=None):
        """A connection of ONC RPC over TCP, which may step up to RDMA."""
        c = Connection(plant.Unit(side, 0, struct.pack(">I", len(data) | 1 << 31) + data, True) for side, data in messages)
        if steps_up:
            c.units += steps_up.units
        return c

    def test_rules_of_rdma_are_not_for_tcp(self):
        call = (0, rpc_call(1, arguments=bytes(8)))
        self.assertEqual(self.found(self.records(call, (1, rpc_reply(1)), (1, rpc_reply(9)))), [])
        back = (1, rpc_call(5, 0x40000000, 1, 1))
        self.assertEqual(self.found(self.records(call, (1, rpc_reply(1)), back, (0, rpc_reply(5)))), [])

    def test_rules_hold_behind_a_step_up_from_tcp(self):
        rdma = Connection.made()
        rdma.send(0, header_v1(7, credits=0) + rpc_call(7))
        rdma.send(1, header_v1(7, credits=0) + rpc_reply(7))
        c = self.records((0, rpc_call(1, arguments=bytes(8))), (1, rpc_reply(1)), steps_up=rdma)
        self.assertEqual(self.found(c), [("V1-C2", "192.0.2.1:40000"), ("V1-C3", "192.0.2.2:20049")])
        self.assertEqual([each.get("call_form") for each in self.explain("calls")], ["record", "short"])

    def test_syn_that_comes_twice_begins_nothing(self):
        c = Connection.load(SIW)
        c.write(self.path)
        packets = self.packets()
        plant.write_packets(self.path, packets, 101)
        wanted = self.explain("calls")
        late = packets[:40] + [packets[0], packets[1]] + packets[40:]
        plant.write_packets(self.path, late, 101)
        told = self.explain("calls")
        self.assertEqual([(each["connection"], each["xid"], each["status"]) for each in told],
                         [(each["connection"], each["xid"], each["status"]) for each in wanted])
        self.assertEqual([each for each in self.explain("check") if each["severity"] == "error"], [])

    def packets(self):
        """Of the capture that was written: raw IPv4 with TCP."""
        out, data, at = [], self.path.read_bytes(), 24
        while at < len(data):
            seconds, rest, size, _ = struct.unpack_from("<IIII", data, at)
            out.append((seconds * 10**9 + rest, data[at + 16:at + 16 + size]))
            at += 16 + size
        return out

    def cut(self, size):
        """Cuts each segment into smaller ones."""
        out = []
        for time, packet in self.packets():
            sequence, payload = struct.unpack_from(">I", packet, 24)[0], packet[40:]
            for at in range(0, max(len(payload), 1), size):
                piece = bytearray(packet[:40] + payload[at:at + size])
                struct.pack_into(">H", piece, 2, len(piece))
                struct.pack_into(">I", piece, 24, (sequence + at) & 0xffffffff)
                out.append((time + at, bytes(piece)))
        return out

    def test_a_lost_piece_of_any_message_breaks_no_rule(self):
        c = Connection.made(mpa_frame(0, private_data(receive=15)), mpa_frame(1, private_data(send=15)))
        for xid in (1, 2):
            c.send(0, header_v1(xid) + rpc_call(xid, 400, 1, 1, bytes(range(256)) * 8))
            c.send(1, header_v1(xid) + rpc_reply(xid, bytes(range(256)) * 8))
        chunk = struct.pack(">IIII", 0, 0, 1, 1) + struct.pack(">IIQ", 0x60, 3000, 0x1000)
        c.send(0, header_v1(3, lists=chunk) + rpc_call(3, 400, 1, 1, bytes(8)))
        reply = rpc_reply(3, bytes(2000))
        for at in range(0, len(reply), 600):
            piece = reply[at:at + 600]
            ulpdu = struct.pack(">BBIQ", 0xc1, 0x40, 0x60, 0x1000 + at) + piece
            c.units.append(plant.Unit(1, 0, struct.pack(">H", len(ulpdu)) + ulpdu))
        back = struct.pack(">IIII", 0, 0, 1, 1) + struct.pack(">IIQ", 0x60, len(reply), 0x1000)
        c.send(1, header_v1(3, kind=1, lists=back))
        self.assertEqual([rule for rule, _ in self.found(c)], ["V1-P2"])
        pieces = self.cut(300)
        for lost in range(4, len(pieces)):
            with self.subTest(lost):
                plant.write_packets(self.path, pieces[:lost] + pieces[lost + 1:], 101)
                found = [each for each in self.explain("check") if each["severity"] == "error"]
                self.assertEqual(found, [])
                self.assertLessEqual({each["xid"] for each in self.explain("calls")}, {1, 2, 3})

    def test_packets_of_two_directions_may_change_places(self):
        connection = Connection.load(SIW)
        connection.write(self.path)
        packets = self.packets()
        swaps = [i for i in range(60, len(packets) - 1) if packets[i][1][20:24] != packets[i + 1][1][20:24]]
        wanted = {each["xid"]: (each["status"], each["write_bytes"]) for each in self.explain("calls")}
        for i in swaps[::9]:
            with self.subTest(i):
                plant.write_packets(self.path, packets[:i] + [packets[i + 1], packets[i]] + packets[i + 2:], 101)
                self.assertEqual([each for each in self.explain("check") if each["severity"] == "error"], [])
                told = {each["xid"]: (each["status"], each["write_bytes"]) for each in self.explain("calls")}
                self.assertEqual(told, wanted)

    def test_loss_of_the_first_message_breaks_no_rule(self):
        Connection.load(SIW).write(self.path)
        packets = self.packets()
        for lost in (5, 6):
            with self.subTest(lost):
                plant.write_packets(self.path, packets[:lost] + packets[lost + 1:], 101)
                self.assertEqual([each for each in self.explain("check") if each["severity"] == "error"], [])

    def test_retransmission_of_the_same_bytes_is_none(self):
        c = Connection.load(SIW)
        for unit in c.sends():
            c.again(unit)
            c.again(unit, 4, 20)
        whole = Connection.load(SIW)
        whole.write(self.path)
        wanted = [(each["xid"], each["status"]) for each in self.explain("calls")]
        self.assertNotIn("TCP-AGAIN", [rule for rule, _ in self.found(c)])
        self.assertEqual([(each["xid"], each["status"]) for each in self.explain("calls")], wanted)

    def test_first_bytes_count_where_a_retransmission_has_others(self):
        c = Connection.made()
        unit = c.send(0, header_v1(7) + rpc_call(7))
        c.again(unit)[20 + 28 + 20] ^= 0xff  # its procedure
        c.send(1, header_v1(7) + rpc_reply(7))
        self.assertEqual(self.found(c), [("TCP-AGAIN", "192.0.2.1:40000")])
        self.assertEqual([each["name"] for each in self.explain("calls")], ["NFSv3 NULL"])


if __name__ == "__main__":
    unittest.main()
