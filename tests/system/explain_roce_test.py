#!/usr/bin/env python3
"""`rpcrdma explain` on RoCE version 2: over IPv6, and without the messages of the connection manager. The packets are those of
Linux' rxe, put behind other headers; their invariant CRCs are computed here, from the layout alone."""
import json
import pathlib
import struct
import sys
import tempfile
import unittest
import zlib

import command_fixture

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "captures"))
import plant  # noqa: E402

CAPTURE = plant.FOLDER / "nfs3-rxe.pcap.xz"
ETHERNET, CM = 14, 0x64


def by_connection(told):
    """The calls of each connection, whatever its number."""
    out = {}
    for number, *call in told:
        out.setdefault(number, []).append(call)
    return sorted(out.values())


def is_roce(packet):
    return packet[12:14] == b"\x08\x00" and packet[23] == 17 and packet[36:38] == b"\x12\xb7"


def with_icrc(packet, ip_size):
    """The packet with its invariant CRC: of what no router changes, as RoCE version 2 has it (IBTA A17.3.3)."""
    ip, udp = bytearray(packet[ETHERNET:ETHERNET + ip_size]), bytearray(packet[ETHERNET + ip_size:])
    if ip_size == 20:
        ip[1] = ip[8] = ip[10] = ip[11] = 0xff
    else:
        ip[0] |= 0x0f
        ip[1:4] = b"\xff\xff\xff"
        ip[7] = 0xff
    udp[6:8] = b"\xff\xff"
    udp[8 + 4] = 0xff
    crc = zlib.crc32(bytes(8 * [0xff]) + ip + udp[:-4])
    return bytes(packet[:-4]) + struct.pack("<I", crc)


def over_ipv6(packet, traffic_class=0, label=0, hops=64):
    udp = packet[ETHERNET + 20:]
    source, target = (bytes([0xfd] + 14 * [0]) + packet[ETHERNET + at + 3:ETHERNET + at + 4] for at in (12, 16))
    ip = struct.pack(">IHBB", 6 << 28 | traffic_class << 20 | label, len(udp), 17, hops) + source + target
    return with_icrc(bytes(12) + b"\x86\xdd" + ip + udp, 40)


class ExplainRoce(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.packets = [(time, bytes(packet)) for time, packet in plant.packets_of(CAPTURE) if is_roce(packet)]
        with tempfile.TemporaryDirectory() as folder:
            cls.wanted = cls.read(cls.packets, folder)

    @staticmethod
    def read(packets, folder):
        path = pathlib.Path(folder) / "roce.pcap"
        plant.write_packets(path, packets)
        out = []
        for view in ("calls", "check"):
            result = command_fixture.run("explain", view, "--json", path)
            assert result.stderr == "", result.stderr
            out.append([json.loads(line) for line in result.stdout.splitlines()])
        calls, found = out
        told = [(each["connection"], each["xid"], each["status"], each.get("call_form"), each.get("reply_form"),
                 each["read_bytes"], each["write_bytes"]) for each in calls]
        return told, [each for each in found if each["severity"] != "note"]

    def told(self, packets):
        with tempfile.TemporaryDirectory() as folder:
            return self.read(packets, folder)

    def test_icrc_that_this_test_computes_is_that_of_rxe(self):
        for _, packet in self.packets:
            self.assertEqual(with_icrc(packet, 20), packet)

    def test_ipv6_gives_the_same_calls_and_good_crcs(self):
        told, found = self.told([(time, over_ipv6(packet)) for time, packet in self.packets])
        self.assertEqual((told, found), self.wanted)

    def test_fields_that_routers_change_are_not_under_the_crc(self):
        packets = [(time, bytearray(over_ipv6(packet, 0x12, 0x34567, 63))) for time, packet in self.packets]
        for _, packet in packets:
            packet[ETHERNET + 1] ^= 0xf0  # traffic class
            packet[ETHERNET + 3] ^= 0xff  # flow label
            packet[ETHERNET + 7] -= 1  # hop limit
            packet[ETHERNET + 40 + 6] ^= 0xff  # checksum of UDP
        self.assertEqual(self.told(packets), self.wanted)

    def test_each_other_byte_is_under_the_crc(self):
        at = next(i for i, (_, each) in enumerate(self.packets) if each[42] == 4)
        size = len(self.packets[at][1]) + 20
        for place in (ETHERNET + 23, ETHERNET + 39, ETHERNET + 41, ETHERNET + 48 + 2, ETHERNET + 48 + 40, size - 1):
            with self.subTest(place):
                packets = [(time, bytearray(over_ipv6(packet))) for time, packet in self.packets]
                packets[at][1][place] ^= 1
                self.assertIn("IB-ICRC", [each["rule"] for each in self.told(packets)[1]])

    def without_setup(self, ports=None):
        """Without messages of the connection manager; `ports`: the UDP source port of each direction."""
        sides = sorted({packet[26:30] for _, packet in self.packets})
        out = []
        for time, packet in self.packets:
            if packet[42] == CM:
                continue
            if ports:
                changed = bytearray(packet)
                changed[34:36] = struct.pack(">H", ports[sides.index(packet[26:30])])
                packet = with_icrc(changed, 20)
            out.append((time, packet))
        return out

    def judged_without_setup(self, packets):
        told, found = self.told(packets)
        self.assertEqual([each for each in found if each["severity"] == "error"], [])
        return told

    def test_directions_of_a_connection_find_each_other_without_its_setup(self):
        self.assertTrue(any(packet[42] == CM for _, packet in self.packets))
        self.assertEqual(self.judged_without_setup(self.without_setup()), self.wanted[0])

    def test_directions_with_ports_of_their_own_find_each_other_by_what_they_say(self):
        self.assertEqual(self.judged_without_setup(self.without_setup((50001, 50002))), self.wanted[0])

    def test_directions_find_each_other_by_xids_where_no_acknowledgement_was_captured(self):
        sends = [each for each in self.without_setup((50001, 50002)) if each[1][42] not in (13, 14, 15, 16, 17)]
        told, _ = self.told(sends)
        wanted = self.wanted[0]
        self.assertEqual(len({each[0] for each in told}), len({each[0] for each in wanted}))
        self.assertEqual({each[1:3] for each in told}, {each[1:3] for each in wanted})

    def test_connections_of_the_same_hosts_and_ports_are_kept_apart(self):
        # The same once more, between other queue pairs and with other numbers, a packet behind each.
        twice = []
        for time, packet in self.without_setup((50001, 50001)):
            other = bytearray(packet)
            queue_pair, psn = struct.unpack_from(">I", other, 46)[0], struct.unpack_from(">I", other, 50)[0]
            struct.pack_into(">I", other, 46, queue_pair + 0x100)
            struct.pack_into(">I", other, 50, psn & 0xff000000 | (psn + 0x345678) & 0xffffff)
            twice += [(time, packet), (time + 1, with_icrc(other, 20))]
        told = by_connection(self.judged_without_setup(twice))
        self.assertEqual(told, sorted(2 * by_connection(self.wanted[0])))

    def test_capture_may_begin_anywhere(self):
        packets = self.without_setup()
        wanted = {each[1]: each[2] for each in self.wanted[0]}
        for begin in (1, 50, 333, 900):
            with self.subTest(begin):
                told = self.judged_without_setup(packets[begin:])
                self.assertLessEqual(len({each[0] for each in told}), 3)
                self.assertLessEqual({each[1] for each in told}, set(wanted))
                # The status needs the program, which the Call says.
                self.assertEqual([each for each in told if each[3] and each[2] != wanted[each[1]]], [])
                last = [each[1] for each in self.wanted[0]][-100:]
                self.assertLessEqual(set(last), {each[1] for each in told})

    def test_loss_of_a_packet_is_no_violation(self):
        kinds = {}
        for i, (_, packet) in enumerate(self.packets):
            kinds.setdefault(packet[42], []).append(i)
        self.assertLessEqual({0, 2, 4, 12, 13, 15, 17}, set(kinds))
        for kind, places in sorted(kinds.items()):
            for lost in {places[0], places[len(places) // 2], places[-1]} if kind != CM else set():
                with self.subTest(f"opcode {kind}, packet {lost + 1}"):
                    _, found = self.told(self.packets[:lost] + self.packets[lost + 1:])
                    self.assertEqual([each for each in found if each["severity"] == "error"], [])

    def test_setup_that_comes_twice_makes_no_second_connection(self):
        setup = [each for each in self.packets if each[1][42] == CM]
        twice = setup[:2] + self.packets
        self.assertEqual(self.told(twice), self.wanted)

    def test_reads_of_which_the_responses_are_lost_do_not_disturb_later_ones(self):
        reads = [i for i, (_, packet) in enumerate(self.packets) if packet[42] == 12]
        lost = reads[0]
        responses = [i for i, (_, packet) in enumerate(self.packets) if packet[42] in (13, 14, 15, 16) and i > lost]
        gone = {i for i in responses if i < reads[1]} if len(reads) > 1 else set(responses)
        told, _ = self.told([each for i, each in enumerate(self.packets) if i not in gone])
        self.assertEqual([each[:3] for each in told], [each[:3] for each in self.wanted[0]])


if __name__ == "__main__":
    unittest.main()
