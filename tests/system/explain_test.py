#!/usr/bin/env python3
"""`rpcrdma explain` on captures of Linux: calls and forms, views, filters, files that are cut, shuffled or begin in the middle."""
import bz2
import collections
import fcntl
import gzip
import json
import lzma
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

import command_fixture

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "captures"))
import plant  # noqa: E402
import scenes  # noqa: E402

SIW, CRC, RXE = "nfs3-siw.pcap.xz", "nfs3-siw-crc.pcap.xz", "nfs3-rxe.pcap.xz"
# Calls over RDMA and TCP of each capture, and the forms of Calls and replies. tshark counts the same messages
# (explain_tshark_test.py), and the summaries that came with the captures of Kerberos name the same forms.
EXPECTED = {
    "events.pcap.xz":
        {"long/short": 5, "record/record": 4, "short/long": 1, "short/short": 144},
    "k61-v3-krb5i.pcap.xz":
        {"long/short": 2, "record/record": 2, "short/long": 6, "short/short": 68},
    "k61-v3-krb5p-refused.pcap.xz":
        {"record/record": 1, "short/short": 11},
    "nfs3-rxe.pcap.xz":
        {"chunked/short": 3, "short/chunked": 4, "short/long": 110, "short/short": 344},
    "nfs3-siw-crc.pcap.xz":
        {"chunked/short": 2, "short/chunked": 3, "short/long": 3, "short/short": 117},
    "nfs3-siw.pcap.xz":
        {"chunked/short": 2, "short/chunked": 3, "short/long": 3, "short/short": 117},
    "v3-krb5.pcap.xz":
        {"chunked/short": 2, "record/record": 2, "short/chunked": 2, "short/long": 2, "short/short": 67},
    "v3-krb5i.pcap.xz":
        {"long/short": 2, "record/record": 2, "short/long": 6, "short/short": 64},
    "v3-krb5p.pcap.xz":
        {"long/short": 2, "record/record": 2, "short/long": 6, "short/short": 64},
    "v4.1-krb5.pcap.xz":
        {"chunked/short": 2, "record/record": 3, "short/chunked": 2, "short/long": 9, "short/short": 65},
    "v4.1-krb5i.pcap.xz":
        {"long/short": 2, "record/record": 3, "short/long": 13, "short/short": 63},
    "v4.1-krb5p.pcap.xz":
        {"long/short": 2, "record/record": 3, "short/long": 14, "short/short": 64},
}


def explain(*arguments):
    return command_fixture.run("explain", *arguments)


def calls_of(path, *options):
    result = explain("calls", "--json", *options, path)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def forms_of(calls):
    return dict(sorted(collections.Counter(f"{each.get('call_form', '-')}/{each.get('reply_form', '-')}"
                                           for each in calls).items()))


class ExplainTest(unittest.TestCase):
    maxDiff = None

    def test_interrupt_ends_a_live_capture_with_what_stands_at_its_end(self):
        data = self.capture("nfs3-siw.pcap.xz").read_bytes()
        with subprocess.Popen([command_fixture.COMMAND, "explain", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as live:
            live.stdin.write(data[:-20])  # the last packet is incomplete
            live.stdin.flush()
            self.assertIn(b"Call short", live.stdout.readline())
            live.send_signal(signal.SIGINT)
            rest, errors = live.stdout.read(), live.stderr.read()
            self.assertEqual((live.wait(timeout=command_fixture.BOUND_S), errors), (0, b""))
        self.assertRegex(rest.splitlines()[-1], rb"^#\d+ .* calls, \d+ answered")
        with subprocess.Popen([command_fixture.COMMAND, "explain", "check", "-"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as live:
            live.stdin.write(data[:-20])
            live.stdin.flush()
            command_fixture.wait_until(
                lambda: struct.unpack("i", fcntl.ioctl(live.stdin, termios.FIONREAD, bytes(4)))[0] == 0)
            live.send_signal(signal.SIGINT)
            last = live.stdout.read().splitlines()[-1]
            self.assertEqual((live.wait(timeout=command_fixture.BOUND_S), live.stderr.read()), (0, b""))
        self.assertTrue(last.endswith(b" 0 violations"), last)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def capture(self, name):
        path = self.folder / name.removesuffix(".xz")
        if not path.exists():
            plant.write_packets(path, plant.packets_of(plant.FOLDER / name))
        return path

    def written(self, packets, link=1):
        path = self.folder / "edited.pcap"
        plant.write_packets(path, packets, link)
        return path

    def test_calls_and_forms_are_those_of_the_summaries(self):
        for name, forms in EXPECTED.items():
            with self.subTest(name):
                calls = calls_of(self.capture(name))
                self.assertEqual(forms_of(calls), forms)
                self.assertEqual([each for each in calls if each["uncertain"]], [])

    def test_a_line_says_names_forms_reasons_phases_and_status(self):
        lines = explain(self.capture(CRC)).stdout.splitlines()
        read = next(line for line in lines if "NFSv3 READ " in line)
        self.assertRegex(read, r"0\.491007  #1 10\.213\.77\.2:57327  2fa1c5d1  NFSv3 READ  Call short 160 B  reply chunked "
                               r"180 B \+ 65,536 B in 48 RDMA Write segments \(the Call offered a Write chunk; the item has "
                               r"65,536 bytes\)  credits 128/64  20\.30 ms \(server .*, Writes .*, reply .*\)  NFS3_OK")
        write = next(line for line in lines if "NFSv3 WRITE" in line)
        self.assertIn("65,536 B in 1 RDMA Read (an item of 65,536 bytes; inline it would be 65,704 bytes against a threshold "
                      "of 4,096)", write)
        self.assertTrue(any("NFS3ERR_NOENT" in line for line in lines))
        self.assertRegex(lines[-1], r"^#1 .*, iWARP: 125 calls, 125 answered; ended by FIN")

    def test_filters_choose_calls_and_say_how_many_they_leave_out(self):
        path = self.capture(CRC)
        every = calls_of(path)
        reads = calls_of(path, "--procedure", "read")
        self.assertEqual({each["name"] for each in reads}, {"NFSv3 READ"})
        one = calls_of(path, "--xid", "2fa1c5d1")
        self.assertEqual([each["xid"] for each in one], [0x2fa1c5d1])
        self.assertEqual(calls_of(path, "--peer", "10.213.77.9"), [])
        self.assertEqual(len(calls_of(path, "--peer", "10.213.77.2:20049")), len(every))
        failed = calls_of(path, "--status", "failed")
        self.assertEqual([each["xid"] for each in failed], [each["xid"] for each in every if not each["succeeded"]])
        self.assertTrue(calls_of(path, "--status", "NFS3ERR_NOENT"))
        slow = calls_of(path, "--slower-than", "10")
        self.assertEqual([each["xid"] for each in slow], [each["xid"] for each in every if each.get("duration", 0) > 0.010])
        early = calls_of(path, "--until", "0.3")
        late = calls_of(path, "--since", "0.3")
        self.assertEqual(len(early) + len(late), len(every))
        self.assertIn(f"{len(every) - 1} calls are left out by the filters", explain("--xid", "2fa1c5d1", path).stdout)

    def test_reads_the_standard_input_as_it_comes(self):
        data = self.capture(CRC).read_bytes()
        piped = subprocess.run([command_fixture.COMMAND, "explain", "-"], input=data, capture_output=True, check=True)
        self.assertEqual(piped.stdout.decode(), explain(self.capture(CRC)).stdout)

    def test_formats_of_files_give_the_same(self):
        packets = list(plant.packets_of(plant.FOLDER / CRC))
        wanted = [each["xid"] for each in calls_of(self.capture(CRC))]
        path = self.folder / "other"
        big = struct.pack(">IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1)
        for time, packet in packets:
            big += struct.pack(">IIII", time // 10**9, time % 10**9 // 1000, len(packet), len(packet)) + packet
        path.write_bytes(big)
        self.assertEqual([each["xid"] for each in calls_of(path)], wanted)

        def block(kind, body):
            return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

        # Two interfaces in turn: Ethernet, and raw IP with nanoseconds.
        blocks = block(0x0a0d0d0a, struct.pack("<IHHq", 0x1a2b3c4d, 1, 0, -1)) + block(1, struct.pack("<HHI", 1, 0, 0))
        blocks += block(1, struct.pack("<HHI", 101, 0, 0) + struct.pack("<HHI", 9, 1, 9) + bytes(4))
        for i, (time, packet) in enumerate(packets):
            data = packet[14:] if i % 2 else packet
            units = time if i % 2 else time // 1000
            head = struct.pack("<IIIII", i % 2, units >> 32, units & 0xffffffff, len(data), len(data))
            blocks += block(6, head + bytes(data) + bytes(-len(data) % 4))
        path.write_bytes(blocks)
        self.assertEqual([each["xid"] for each in calls_of(path)], wanted)

    def test_links_and_ipv6_give_the_same(self):
        connection = plant.Connection.load(CRC)
        path = self.folder / "raw.pcap"
        connection.write(path)
        wanted = [each["xid"] for each in calls_of(path)]
        self.assertGreater(len(wanted), 100)
        data, packets, at = path.read_bytes(), [], 24
        while at < len(data):
            seconds, rest, size, _ = struct.unpack_from("<IIII", data, at)
            packets.append((seconds * 10**9 + rest, data[at + 16:at + 16 + size]))
            at += 16 + size

        def six(packet):
            source, target = (bytes(15) + packet[15:16]), (bytes(15) + packet[19:20])
            hop_by_hop = bytes([6, 0, 1, 4, 0, 0, 0, 0])
            body = hop_by_hop + packet[20:]
            return struct.pack(">IHBB", 6 << 28, len(body), 0, 64) + source + target + body

        forms = {"VLAN": (1, lambda p: bytes(12) + b"\x81\0\0\5\x08\0" + p), "SLL": (113, lambda p: bytes(14) + b"\x08\0" + p),
                 "SLL2": (276, lambda p: b"\x08\0" + bytes(18) + p), "NULL": (0, lambda p: b"\2\0\0\0" + p),
                 "LOOP": (108, lambda p: b"\0\0\0\2" + p), "IPv6": (101, six),
                 "IPv6 in Ethernet": (1, lambda p: bytes(12) + b"\x86\xdd" + six(p))}
        for name, (link, wrap) in forms.items():
            with self.subTest(name):
                made = self.written([(time, wrap(packet)) for time, packet in packets], link)
                self.assertEqual([each["xid"] for each in calls_of(made)], wanted)

    def test_cut_file_gives_its_whole_packets_and_says_so(self):
        path = self.capture(CRC)
        data = path.read_bytes()
        cut = self.folder / "cut.pcap"
        cut.write_bytes(data[:len(data) // 2])
        result = explain("calls", "--json", cut)
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"is cut behind packet \d+: a packet is incomplete")
        self.assertGreater(len(result.stdout.splitlines()), 20)
        nothing = self.folder / "nothing"
        nothing.write_bytes(b"x" * 100)
        result = explain(nothing)
        self.assertEqual(result.returncode, 1)
        self.assertIn("is no capture", result.stderr)
        self.assertEqual(explain(self.folder / "none").returncode, 1)

    def test_section_header_at_the_end_of_the_buffer_is_read_whole(self):
        def block(kind, body):
            size = struct.pack("<I", 12 + len(body))
            return struct.pack("<I", kind) + size + body + size

        section = block(0x0a0d0d0a, struct.pack("<IHHq", 0x1a2b3c4d, 1, 0, -1)) + block(1, struct.pack("<HHI", 101, 0, 0))
        packets = [block(6, struct.pack("<IIIII", 0, 0, i, 40, 40) + bytes(40)) for i in range(20000)]
        path = self.folder / "sections.pcapng"
        for at in (len(section) + 12, (1 << 20) - 8):  # the latter: the buffer ends behind type and length
            padding = block(0xbad, bytes(at - len(section) - 12))
            path.write_bytes(section + padding + section + b"".join(packets))
            result = explain("summary", path)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("20,000 packets", result.stdout)

    def test_files_that_are_no_capture_are_refused_with_the_reason(self):
        data = self.capture(SIW).read_bytes()
        files = {
            "empty": (b"", "is empty$"),
            "text": (b"a text\n", "is no capture: it begins neither as pcap nor as pcapng$"),
            "a.gz": (gzip.compress(data), "a.gz is compressed: gzip -dc .*a.gz | rpcrdma explain -$"),
            "a.xz": (lzma.compress(data), "a.xz is compressed: xz -dc .*a.xz | rpcrdma explain -$"),
            "a.bz2": (bz2.compress(data), "a.bz2 is compressed: bzip2 -dc .*a.bz2 | rpcrdma explain -$"),
            "a.zst": (b"\x28\xb5\x2f\xfd" + bytes(100), "a.zst is compressed: zstd -dc .*a.zst | rpcrdma explain -$"),
        }
        for name, (content, why) in files.items():
            with self.subTest(name):
                path = self.folder / name
                path.write_bytes(content)
                result = explain(path)
                self.assertEqual((result.returncode, result.stdout), (1, ""))
                self.assertRegex(result.stderr.rstrip(), "^rpcrdma: .*" + why.replace("|", r"\|"))
        for name, why in {self.folder: "Is a directory", self.folder / "none": "No such file", "/dev/zero": "is no capture",
                          "/dev/null": "is empty"}.items():
            with self.subTest(name):
                result = explain(name)
                self.assertEqual((result.returncode, result.stdout), (1, ""))
                self.assertIn(why, result.stderr)

    def test_capture_without_rpc_says_so(self):
        path = self.written([(0, bytes(60))])
        self.assertEqual(explain(path).stdout, "1 packets, and no connection with RPC among them\n")
        path = self.written([(0, bytes(60))], 105)
        self.assertEqual(explain(path).stdout, "1 packets, and no connection with RPC among them; "
                                               "1 have a link type that explain does not read\n")
        path = self.written([])
        self.assertEqual(explain(path).stdout, "0 packets, and no connection with RPC among them\n")
        self.assertEqual(explain("--json", path).stdout, "")

    def test_output_that_nobody_takes_ends_the_command(self):
        with open("/dev/full", "w") as full:
            for view in ("calls", "frames", "check", "summary", "ladder"):
                with self.subTest(view):
                    result = subprocess.run([command_fixture.COMMAND, "explain", view, self.capture(CRC)], stdout=full,
                                            stderr=subprocess.PIPE, text=True, check=False)
                    self.assertEqual(result.returncode, 1)
                    self.assertRegex(result.stderr, "^rpcrdma: standard output: .+")
        with subprocess.Popen([command_fixture.COMMAND, "explain", "frames", self.capture(CRC)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as piped:
            piped.stdout.readline()
            piped.stdout.close()
            self.assertEqual(piped.stderr.read(), b"")
            self.assertEqual(piped.wait(timeout=command_fixture.BOUND_S), -signal.SIGPIPE)

    def test_interrupted_file_says_how_far_it_was_read(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        for view, status in (("calls", 0), ("check", 1)):
            with subprocess.Popen([command_fixture.COMMAND, "explain", view, fifo], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as running:
                with open(fifo, "wb") as writer:
                    writer.write(self.capture(CRC).read_bytes()[:40000])
                    writer.flush()
                    command_fixture.wait_until(
                        lambda: struct.unpack("i", fcntl.ioctl(writer, termios.FIONREAD, bytes(4)))[0] == 0)
                    running.send_signal(signal.SIGINT)
                    _, errors = running.communicate(timeout=command_fixture.BOUND_S)
            self.assertRegex(errors.decode(), r"fifo was read up to packet \d+: interrupted\n$")
            self.assertEqual(running.returncode, status, view)

    def refused_as_not_whole(self, path, why, packets):
        """Checks a capture without violations of which a part cannot be read."""
        result = explain("check", path)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, f"^rpcrdma: {why}\n$")
        self.assertRegex(result.stdout.splitlines()[-1],
                         rf"^{packets} packets, .* 0 violations; the capture was not read whole$")
        result = explain("check", "--json", path)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, f"^rpcrdma: {why}\n$")
        self.assertEqual(json.loads(result.stdout.splitlines()[-1]), {"whole": False, "left_out": 0})
        self.assertEqual(explain("calls", path).returncode, 0)

    def test_check_fails_where_it_has_not_read_the_capture_whole(self):
        data = bytearray(self.capture(CRC).read_bytes())
        at = 24
        for _ in range(40):
            at += 16 + struct.unpack_from("<I", data, at + 8)[0]
        path = self.folder / "part.pcap"
        path.write_bytes(data[:at - 1])
        self.refused_as_not_whole(path, ".*part.pcap is cut behind packet 39: a packet is incomplete", 39)
        struct.pack_into("<I", data, at + 8, 0x7fffffff)
        path.write_bytes(data)
        self.refused_as_not_whole(path, ".*part.pcap is cut behind packet 40: the length of a packet is impossible", 40)

    def test_a_name_in_a_reason_cannot_write_lines_of_its_own(self):
        path = self.folder / "part\n\033[2J.pcap"
        path.write_bytes(self.capture(CRC).read_bytes()[:-1])
        result = explain("calls", path)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertNotIn("\033", result.stderr)

    def test_check_fails_where_a_packet_of_pcapng_cannot_be_read(self):
        def block(kind, body):
            size = struct.pack("<I", 12 + len(body))
            return struct.pack("<I", kind) + size + body + size

        def packet(interface=0, captured=40, size=40):
            return block(6, struct.pack("<IIIII", interface, 0, 0, captured, 40) + bytes(size))

        section = block(0x0a0d0d0a, struct.pack("<IHHq", 0x1a2b3c4d, 1, 0, -1)) + block(1, struct.pack("<HHI", 101, 0, 0))
        path = self.folder / "part.pcapng"
        for bad in (packet(captured=44), packet(interface=1), packet(captured=2 << 20, size=2 << 20), block(6, bytes(8)),
                    block(3, b"")):
            path.write_bytes(section + packet() + bad + packet())
            self.refused_as_not_whole(path, ".*part.pcapng: 1 packet was left out: its block is damaged, or longer than 1 MiB", 2)
        path.write_bytes(section + packet())
        self.assertEqual(explain("check", path).returncode, 0)
        self.assertEqual(explain("check", "--json", path).stdout, "")

    def test_check_counts_findings_that_it_leaves_out(self):
        made = plant.Connection.made()
        made.send(0, plant.header_v1(1, credits=0) + plant.rpc_call(1))
        one = self.folder / "one.pcap"
        made.write(one)
        packets = [bytes(packet) for _, packet in plant.packets_of(one)]
        many = 10003
        server = bytes([192, 0, 2, 2])
        addresses = [{True: struct.pack(">I", 0x0a000000 + i) + server, False: server + struct.pack(">I", 0x0a000000 + i)}
                     for i in range(many)]
        path = self.written([(i, packet[:12] + addresses[i][packet[15] == 1] + packet[20:])
                             for i in range(many) for packet in packets], 101)
        result = explain("check", "--json", path)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(json.loads(result.stdout.splitlines()[-1]), {"whole": True, "left_out": many - 10000})

    def test_packets_out_of_order_give_the_same_calls(self):
        packets = list(plant.packets_of(plant.FOLDER / CRC))
        chance = random.Random(44)
        for i in range(20, len(packets) - 4):
            if chance.random() < 0.3:
                packets[i], packets[i + 1] = packets[i + 1], packets[i]
        calls = calls_of(self.written(packets))
        wanted = {each["xid"]: each["status"] for each in calls_of(self.capture(CRC))}
        self.assertEqual({each["xid"]: each["status"] for each in calls if "call_form" in each}, wanted)
        found = [json.loads(line) for line in explain("check", "--json", self.folder / "edited.pcap").stdout.splitlines()]
        self.assertEqual([each for each in found if each["severity"] == "error"], [])

    def test_lost_packets_are_gaps_and_the_rest_is_told(self):
        packets = list(plant.packets_of(plant.FOLDER / CRC))
        del packets[100:130]
        path = self.written(packets)
        lines = explain(path).stdout.splitlines()
        self.assertRegex(lines[-1], r"gap: [\d,]+ B of .* are not in the capture")
        wanted = {each["xid"] for each in calls_of(self.capture(CRC))}
        told = {each["xid"] for each in calls_of(path)}
        self.assertLessEqual(told, wanted)
        self.assertGreater(len(told), len(wanted) - 5)
        violations = [json.loads(line) for line in explain("check", "--json", path).stdout.splitlines()]
        self.assertEqual([each for each in violations if each["severity"] == "error"], [])

    def test_loss_of_one_packet_breaks_no_rule(self):
        packets = list(plant.packets_of(plant.FOLDER / CRC))
        # The Calls of a READ and a WRITE, an RDMA Write, a Read Request, a Read Response, and two replies.
        for lost in (60, 408, 61, 409, 410, 218, 510):
            with self.subTest(lost):
                path = self.written(packets[:lost - 1] + packets[lost:])
                found = [json.loads(line) for line in explain("check", "--json", path).stdout.splitlines()]
                self.assertEqual([each for each in found if each["severity"] == "error"], [])

    def test_capture_may_begin_anywhere(self):
        packets = list(plant.packets_of(plant.FOLDER / CRC))
        whole = {each["xid"]: each for each in calls_of(self.capture(CRC))}
        for begin in (5, 40, 120, 399, 408, 700):
            with self.subTest(begin):
                later = {xid for xid, each in whole.items() if each["call_packet"] > begin + 2}
                told = {each["xid"]: each for each in calls_of(self.written(packets[begin:]))}
                self.assertEqual(later - set(told), set())
                for xid in later:
                    self.assertEqual(told[xid]["status"], whole[xid]["status"])
                found = [json.loads(line) for line in explain("check", "--json", self.folder / "edited.pcap").stdout.splitlines()]
                self.assertEqual([each for each in found if each["severity"] == "error"], [])
        lines = explain(self.written(packets[40:])).stdout.splitlines()
        self.assertIn("the capture begins in its middle", lines[-1])

    def test_snapshot_length_keeps_headers_told(self):
        packets = [(time, bytes(packet)) for time, packet in plant.packets_of(plant.FOLDER / CRC)]
        path = self.folder / "snap.pcap"
        with open(path, "wb") as file:
            file.write(struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, 200, 1))
            for time, packet in packets:
                kept = packet[:200]
                file.write(struct.pack("<IIII", time // 10**9, time % 10**9, len(kept), len(packet)) + kept)
        wanted = {each["xid"]: each["name"] for each in calls_of(self.capture(CRC))}
        told = {each["xid"]: each["name"] for each in calls_of(path)}
        self.assertEqual(told, wanted)

    def test_snapshot_length_breaks_no_rule(self):
        path = self.folder / "snap.pcap"

        def broken(packets, link, length):
            with open(path, "wb") as file:
                file.write(struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, length, link))
                for time, packet in packets:
                    kept = packet[:length]
                    file.write(struct.pack("<IIII", time // 10**9, time % 10**9, len(kept), len(packet)) + kept)
            return {json.loads(line)["rule"] for line in explain("check", "--json", path).stdout.splitlines()}

        cooked = struct.pack(">HHIHBB8x", 0x0800, 0, 1, 1, 0, 6)
        for name in (CRC, RXE):
            ethernet = [(time, bytes(packet)) for time, packet in plant.packets_of(plant.FOLDER / name)]
            whole = broken(ethernet, 1, 262144)
            # Behind headers of 14, 0 and 20 bytes a packet is cut within a word, or between two.
            for link, head in ((1, None), (101, b""), (276, cooked)):
                packets = ethernet if head is None else [(time, head + packet[14:]) for time, packet in ethernet]
                for length in range(100, 260, 20):
                    with self.subTest(name=name, link=link, length=length):
                        self.assertEqual(broken(packets, link, length) - whole, set())

    def test_ladder_draws_steps_with_packets_and_reasons(self):
        result = explain("ladder", "2fa1c5d1", self.capture(CRC))
        lines = result.stdout.splitlines()
        self.assertEqual(lines[0], "2fa1c5d1 NFSv3 READ: NFS3_OK")
        self.assertRegex(result.stdout, r"\|- Call short, 160 B, asks 128 credits -+>\|  packet 60")
        self.assertRegex(result.stdout, r"\|<-+ RDMA Write x48, 65,536 B -\|  packets \d+-\d+")
        self.assertRegex(result.stdout, r"The reply is chunked: the Call offered a Write chunk")
        self.assertLess(max(map(len, lines)), 110)
        self.assertEqual(explain("ladder", "#2", self.capture(CRC)).stdout, "")
        self.assertEqual(explain("ladder", "#1", "--xid", "1", self.capture(CRC)).stdout,
                         "125 calls are left out by the filters\n")
        self.assertEqual(explain("ladder", "xyz", self.capture(CRC)).returncode, 2)

    def test_ladder_writes_a_drawing_and_a_page(self):
        svg, page = self.folder / "a.svg", self.folder / "a.html"
        self.assertEqual(explain("ladder", "--procedure", "READ", "--svg", svg, self.capture(CRC)).returncode, 0)
        import xml.etree.ElementTree
        root = xml.etree.ElementTree.parse(svg).getroot()
        self.assertEqual(root.get("width"), "900")
        self.assertIn("NFSv3 READ", svg.read_text())
        result = explain("ladder", "--html", page, "--procedure", "WRITE", self.capture(CRC))
        self.assertRegex(result.stdout, r"\d+ calls are left out by the filters")
        text = page.read_text()
        self.assertEqual(re.findall(r"(?:src|href)=", text), [], "the page needs nothing else")
        self.assertIn("the filters left", text)
        calls = json.loads(re.search(r"const calls=(\[.*?\]);\nconst rules=", text, re.S)[1].replace("<\\/", "</"))
        self.assertEqual({each["n"] for each in calls}, {"NFSv3 WRITE"})
        durations = [each["d"] for each in calls]
        self.assertEqual(durations, sorted(durations, reverse=True))
        self.assertEqual(explain("calls", "--html", page, self.capture(CRC)).returncode, 2)

    @unittest.skipUnless(shutil.which("node"), "node is not installed")
    def test_script_of_the_page_draws_ladders(self):
        page = self.folder / "a.html"
        explain("ladder", "--html", page, self.capture(CRC))
        script = pathlib.Path(__file__).with_name("explain_page.js")
        printed = subprocess.run(["node", script, page], capture_output=True, text=True, check=True).stdout
        shown = json.loads(printed)
        self.assertEqual(shown["rows"], 125)
        self.assertIn("Call short, 120 B, asks 128 credits", shown["texts"])  # of a LOOKUP that failed, which comes first
        self.assertEqual(shown["lines"], 4, "two steps, and two lifelines")
        self.assertTrue(shown["closed"])
        self.assertEqual(shown["filtered"], 1)
        self.assertGreater(shown["rules"], 0)

    def test_summary_counts_and_gives_advice(self):
        path = self.capture(CRC)
        summary = json.loads(explain("summary", "--json", path).stdout)
        calls = calls_of(path)
        by_name = collections.Counter(each["name"] for each in calls)
        self.assertEqual({each["name"]: each["calls"] for each in summary["procedures"]}, dict(by_name))
        self.assertEqual(len(summary["slowest"]), 5)
        slowest = sorted((each["duration"] for each in calls if "duration" in each), reverse=True)[:5]
        self.assertEqual([each["duration"] for each in summary["slowest"]], slowest)
        for each in summary["procedures"]:
            self.assertEqual(sum(each["durations"]) + each["unanswered"], each["calls"])
        text = explain("summary", path).stdout
        self.assertIn("slowest calls:", text)
        self.assertIn("NFSv3 READ: ", text)

    def test_starved_credits_and_small_reads_by_chunk_get_advice(self):
        made = plant.Connection.made()
        made.send(0, plant.header_v1(1) + plant.rpc_call(1))
        made.send(1, plant.header_v1(1, credits=1) + plant.rpc_reply(1))
        for xid in range(2, 30):
            lists = struct.pack(">IIIIQI", 1, 44, 0x55, 4096, 0x1000, 0) + bytes(8)
            made.send(0, plant.header_v1(xid, lists=lists) + plant.rpc_call(xid, 400, 1, 1, struct.pack(">I", 4096)))
            made.send(1, plant.header_v1(xid, credits=1) + plant.rpc_reply(xid))
        path = self.folder / "made.pcap"
        made.write(path)
        text = explain("summary", path).stdout
        self.assertRegex(text, r"advice: #1: 28 of 29 calls took the last credit")
        self.assertRegex(text, r"advice: 100 % of 400v1 procedure 1 of 1 to 8 KiB went by Read chunk")

    def test_plain_tcp_and_calls_made_again_are_told(self):
        events = calls_of(self.capture("events.pcap.xz"))
        again = [each for each in events if "again_of" in each]
        self.assertEqual(len(again), 3)
        self.assertTrue(any(each["transport"] == "TCP" for each in events))
        self.assertTrue(any("GSS_INIT" in each["name"] for each in events))

    def test_interface_file_names_procedures_and_shows_values(self):
        idl = pathlib.Path(__file__).resolve().parents[2] / "idl"
        path = self.capture(CRC)
        calls = {each["xid"]: each for each in calls_of(path, "--x", idl / "nfs3.x")}
        read = calls[0x2fa1c5d1]
        self.assertEqual(read["name"], "NFS_PROGRAM NFSPROC3_READ")
        self.assertRegex(read["arguments"], r"file: \{data: <\d+ bytes: .*>\}, offset: 0, count: 65536\}")
        self.assertRegex(read["results"], r"status: NFS3_OK, .*count: 65536, eof: \w+, data: <65536 bytes, not in the message>")
        for each in calls.values():
            self.assertNotIn("the input ends", each.get("results", ""), each)
            self.assertNotIn("bytes more", each.get("arguments", ""), each)
        ladder = explain("ladder", "2fa1c5d1", "--x", idl / "nfs3.x", path).stdout
        self.assertIn("Arguments: {", ladder)
        self.assertIn("Results: {", ladder)
        bad = self.folder / "bad.x"
        bad.write_text("struct a { nothing b; };")
        result = explain("--x", bad, path)
        self.assertEqual(result.returncode, 2)
        self.assertIn("bad.x:1:", result.stderr)

    def values_shown(self, interface, *calls):
        """The arguments and results of calls of program 400, each (procedure, words of its arguments, of its results)."""
        made, path, file = plant.Connection.made(), self.folder / "values.pcap", self.folder / "values.x"
        for xid, (procedure, arguments, results) in enumerate(calls, 1):
            words = [b"".join(struct.pack(">i", word) for word in each) for each in (arguments, results)]
            made.send(0, plant.header_v1(xid) + plant.rpc_call(xid, 400, 1, procedure, words[0]))
            made.send(1, plant.header_v1(xid) + plant.rpc_reply(xid, words[1]))
        made.write(path)
        file.write_text(interface)
        return [(each["arguments"], each["results"]) for each in calls_of(path, "--x", file)]

    def test_a_list_by_value_is_read_to_its_end(self):
        shown = self.values_shown(
            "struct node { int value; node *next; };\n"
            "typedef node chain;\n"
            "struct holder { node first; int behind; };\n"
            "union either switch (int which) { case 1: node those; default: void; };\n"
            "struct chains { chain all<3>; either last; };\n"
            "program P { version V { holder ONE(node, int) = 1; node TWO(chain) = 2; chains THREE(holder) = 3; } = 1; } = 400;\n",
            (1, [1, 1, 2, 0, 7], [3, 0, 8]),
            (2, [1, 1, 2, 1, 3, 0], [4, 1, 5, 0]),
            (3, [6, 0, 9], [2, 1, 1, 2, 0, 3, 0, 1, 4, 1, 5, 0]))
        self.assertEqual(shown, [
            ("{[{value: 1}, {value: 2}], 7}", "{first: [{value: 3}], behind: 8}"),
            ("{[{value: 1}, {value: 2}, {value: 3}]}", "[{value: 4}, {value: 5}]"),
            ("{{first: [{value: 6}], behind: 9}}",
             "{all: [[{value: 1}, {value: 2}], [{value: 3}]], last: {which: 1, those: [{value: 4}, {value: 5}]}}")])

    def test_a_discriminant_of_any_size_chooses_its_arm(self):
        def arms(of, *cases):
            return f"union u switch ({of} which) {{ " + "".join(
                f"case {case}: int arm{i}; " for i, case in enumerate(cases)) + "default: int other; };\n"

        colors = "enum color { RED = 1, BLUE = -2, NONE = 0 };\n"
        program = "program P { version V { u ONE(u) = 1; } = 1; } = 400;\n"
        for of, cases, words in (
                ("hyper", (2, -2, 4294967298, -9223372036854775808),
                 ([0, 2], [-1, -2], [1, 2], [-0x80000000, 0], [2, 0])),
                ("unsigned hyper", (2, 4294967298, 18446744073709551615), ([0, 2], [1, 2], [-1, -1], [2, 2])),
                ("int", (2, -2), ([2], [-2], [0])),
                ("unsigned", (2, 4294967295), ([2], [-1], [-2])),
                ("short", (2, -2), ([2], [-2], [0])),
                ("unsigned short", (2, 65535), ([2], [65535], [-1])),
                ("char", (2, -56), ([2], [-56], [200 + 256])),
                ("color", ("RED", "BLUE"), ([1], [-2], [0])),
                ("bool", ("TRUE",), ([1], [0]))):
            with self.subTest(of):
                shown = self.values_shown(colors + arms(of, *cases) + program,
                                          *((1, [*each, i], [*each, i + 100]) for i, each in enumerate(words)))
                for i, texts in enumerate(shown):
                    arm = f"arm{i}" if i < len(cases) else "other"
                    self.assertRegex(texts[0], rf"^\{{\{{which: [^,]+, {arm}: {i}\}}\}}$")
                    self.assertRegex(texts[1], rf"^\{{which: [^,]+, {arm}: {i + 100}\}}$")

    def test_a_char_may_come_without_its_sign(self):
        shown = self.values_shown(
            "union u switch (char which) { case -56: int arm; default: int other; };\n"
            "program P { version V { u ONE(u, char) = 1; } = 1; } = 400;\n",
            (1, [200, 1, 255], [-56, 2]), (1, [127, 1, 128], [456, 2]))
        self.assertEqual(shown, [("{{which: -56, arm: 1}, -1}", "{which: -56, arm: 2}"),
                                 ("{{which: 127, other: 1}, -128}", "{which: 456, other: 2}")])

    def test_page_shows_what_the_command_prints(self):
        scenes.write_all(self.folder)
        page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "explain.md").read_text()
        shown = re.findall(r"^```text\n\$ rpcrdma (explain .*?)\n(.*?)\n```$", page, re.S | re.M)
        self.assertGreaterEqual(len(shown), 8)
        for command, wanted in shown:
            with self.subTest(command):
                printed = subprocess.run(["bash", "-c", f'"{command_fixture.COMMAND}" {command}'], cwd=self.folder,
                                         capture_output=True, text=True, check=False)
                self.assertEqual(printed.stdout.rstrip("\n"), wanted)

    def test_words_and_options_that_cannot_be_meant_are_refused(self):
        path = self.capture(CRC)
        for words in (["story", path], ["calls", "x", path], ["--xid", "zz", path], ["--since", "x", path]):
            with self.subTest(words):
                self.assertEqual(explain(*words).returncode, 2)


if __name__ == "__main__":
    unittest.main()
