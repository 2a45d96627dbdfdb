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

from made_capture import Capture, golden

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

    def captured_put_and_get(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.work.name))
        (folder / "served").mkdir()
        (folder / "data").write_bytes(bytes(300000))
        capture = str(folder / "all.pcapng")
        with subprocess.Popen([COMMAND, "serve", "--blob", str(folder / "served"), "--port", "0", "--capture", capture],
                              stdout=subprocess.PIPE, text=True) as server:
            try:
                url = server.stdout.readline().split()[1]
                for words in (["put", url, str(folder / "data")], ["get", url, "data", str(folder / "got")]):
                    subprocess.run([COMMAND, *words], check=True, timeout=300)
            finally:
                server.terminate()
        return capture

    def test_every_kind_of_message_is_seen(self):
        # The capture of the other tests may be full before the first RDMA Write.
        capture = self.captured_put_and_get()
        opcodes = set()
        for line in tshark(capture, "-T", "fields", "-e", "iwarp_rdma.opcode").splitlines():
            opcodes.update(line.split(","))
        opcodes = {int(opcode, 0) for opcode in opcodes if opcode}
        self.assertLessEqual({0, 1, 2, 3}, opcodes, "Write, Read Request, Read Response, Send")
        self.assertTrue({4, 6} & opcodes, "Send with Invalidate")

    def test_port_of_another_protocol_does_not_matter(self):
        # 44321 is pcp's. The second connection is that of `put`, whose Read Responses are most of the capture; it may end
        # in the first RDMA Writes of `get`, by how the data fell into packets.
        capture = pathlib.Path(self.work.name) / "port.pcapng"
        capture.write_bytes(with_port(pathlib.Path(self.capture).read_bytes(), 1, 44321))
        found = tshark(str(capture), "-Y", "tcp.port == 44321 && iwarp_rdma.opcode == 2", "-T", "fields", "-e",
                       "frame.number")
        self.assertGreater(len(found.splitlines()), 10)

    def test_calls_and_replies_match(self):
        types = collections.Counter(
            word for line in tshark(self.capture, "-Y", "rpc", "-T", "fields", "-e", "rpc.msgtyp").splitlines()
            for word in line.split(",") if word)
        self.assertGreater(types["0"], 100)
        self.assertGreater(types["1"], 100)


SEVERITY_ERROR = 0x800000  # of Wireshark's expert items


def messages(capture, *arguments):
    """Returns a Message for each frame with an RPC message, and for each one that tshark calls malformed."""
    names = ("frame.number", "rpc.xid", "rpc.msgtyp", "rpc.repframe", "rpcordma.writes_count",
             "_ws.malformed", "_ws.expert.severity", "_ws.col.Info")
    fields = [word for name in names for word in ("-e", name)]
    lines = tshark(capture, "-Y", f"rpc || _ws.malformed || _ws.expert.severity == {SEVERITY_ERROR}", *arguments,
                   "-T", "fields", *fields)
    found = []
    for line in lines.splitlines():
        *values, info = line.split("\t")
        # tshark reports the fields of a malformed reply twice.
        found.append(Message(*(",".join(dict.fromkeys(value.split(","))) for value in values), info))
    return found


class Message(collections.namedtuple(
        "Message", "frame xid kind call_frame write_chunks malformed severities info")):
    @property
    def name(self):
        """Returns "READ Call", say, for a message of NFS or MOUNT; else the whole text."""
        found = re.match(r"V3 (\w+ (?:Call|Reply))\b", self.info)
        return found[1] if found else self.info

    @property
    def is_bad(self):
        return bool(self.malformed) or str(SEVERITY_ERROR) in self.severities.split(",")

    @property
    def is_reply_with_data_elsewhere(self):
        """Tells replies whose data went by a Write chunk; tshark 4.0 looks for them in the message."""
        return self.name == "READ Reply" and self.write_chunks == "1"


class NfsTest(unittest.TestCase):
    """NFS over RDMA, with many calls in flight: every message is decoded by its own procedure."""

    SMALL = 60
    BIG = (3 << 20) + 5

    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory(prefix="rpcrdma-tshark.")
        work = pathlib.Path(cls.work.name)
        served, tree, back = (work / name for name in ("served", "tree", "back"))
        for directory in (served, tree, back):
            directory.mkdir()
        for number in range(cls.SMALL):
            (tree / f"small-{number}").write_bytes(os.urandom(100 + number))
        (tree / "big").write_bytes(os.urandom(cls.BIG))
        with subprocess.Popen(
                [COMMAND, "serve", "--nfs", f"{served}:no_root_squash", "--export", "/data", "--nfs-tcp-port", "0",
                 "--port", "0", "--provider", "siwarp", "--handle-key", work / "key", "--log-level", "error"],
                stdout=subprocess.PIPE, text=True) as server:
            try:
                url = next(word for word in server.stdout.readline().split() if word.startswith("nfs+rdma"))
                for name, words in (("in", ["cp", "-r", tree, url]), ("list", ["ls", "-l", f"{url}/tree"]),
                                    ("out", ["cp", "-r", f"{url}/tree", back])):
                    subprocess.run([COMMAND, *words, "--provider", "siwarp", "--capture", work / name], check=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
            finally:
                server.terminate()
        cls.seen = {name: messages(work / name) for name in ("in", "list", "out")}

    @classmethod
    def tearDownClass(cls):
        cls.work.cleanup()

    def test_every_call_and_every_reply_has_its_counterpart(self):
        for name, seen in self.seen.items():
            calls = {each.xid: each for each in seen if each.kind == "0"}
            replies = {each.xid: each for each in seen if each.kind == "1"}
            self.assertEqual(len(calls) + len(replies), len(seen), f"{name}: one message in each frame, each once")
            self.assertEqual(set(calls), set(replies), name)
            for xid, reply in replies.items():
                self.assertEqual(reply.call_frame, calls[xid].frame, reply)
                self.assertEqual(reply.name.removesuffix("Reply"), calls[xid].name.removesuffix("Call"))

    def test_procedures_are_those_that_were_called(self):
        counts = {name: collections.Counter(each.name for each in seen) for name, seen in self.seen.items()}
        for name, seen in counts.items():
            for what in ("EXPORT", "MNT", "FSINFO"):
                self.assertEqual((seen[f"{what} Call"], seen[f"{what} Reply"]), (1, 1), (name, seen))
            self.assertFalse([each for each in seen if not re.fullmatch(r"\w+ (Call|Reply)", each)], name)
        pieces = -(-self.BIG // (1 << 20))
        for kind in ("Call", "Reply"):
            self.assertEqual(counts["in"][f"CREATE {kind}"], self.SMALL + 1)
            self.assertEqual(counts["in"][f"WRITE {kind}"], self.SMALL + pieces)
            self.assertEqual(counts["out"][f"READ {kind}"], self.SMALL + pieces)
            for name in ("list", "out"):
                self.assertGreater(counts[name][f"READDIRPLUS {kind}"], 0)

    def test_nothing_is_malformed_but_what_is_of_linux_too(self):
        of_linux = KernelTest.is_read_reply_malformed()
        for name, seen in self.seen.items():
            elsewhere = [each for each in seen if each.is_reply_with_data_elsewhere]
            self.assertEqual(bool(elsewhere), name == "out", "READ replies with a Write chunk")
            self.assertEqual([each for each in seen if each.is_bad], elsewhere if of_linux else [], name)


class KernelTest(unittest.TestCase):
    """The control: the messages of Linux' own NFS client and server, in a made-up connection.

    It shows which faults are tshark's.
    """

    @staticmethod
    def messages(*segments, arguments=()):
        """Decodes a connection with these segments, each a side and its messages."""
        capture = Capture()
        for side, sends in segments:
            capture.send(side, *sends)
        with tempfile.TemporaryDirectory(prefix="rpcrdma-tshark.") as work:
            path = pathlib.Path(work) / "capture.pcap"
            capture.write(path)
            return messages(path, *arguments)

    @classmethod
    def read(cls, name, reply):
        return cls.messages((0, [golden(f"linux-{name}-call")]), (1, [reply]))[1]

    @classmethod
    def is_read_reply_malformed(cls):
        return cls.read("read", golden("linux-read-reply")).is_bad

    def test_read_reply_is_malformed_only_while_a_write_chunk_has_the_data(self):
        reply = golden("linux-read-odd-reply")
        seen = self.read("read-odd", reply)
        self.assertTrue(seen.is_reply_with_data_elsewhere, seen)
        self.assertEqual(seen.is_bad, self.is_read_reply_malformed())
        # The same reply without its Write list, and with the data where tshark looks for them.
        rpc = 28 + 16 * struct.unpack_from(">I", reply, 24)[0] + 8  # behind a Write list of one chunk
        self.assertEqual(reply[rpc:rpc + 8], reply[:4] + struct.pack(">I", 1), "XID and REPLY")
        size = struct.unpack(">I", reply[-4:])[0]
        self.assertEqual(size, 10001)
        inline = reply[:20] + bytes(8) + reply[rpc:] + os.urandom(size) + bytes(-size % 4)
        seen = self.read("read-odd", inline)
        self.assertEqual((seen.name, seen.write_chunks, seen.is_bad), ("READ Reply", "0", False), seen)

    def test_message_that_is_cut_off_is_malformed(self):
        """Any other fault is found, so that the tests of our own messages would not pass."""
        for call in (golden("linux-read-call")[:-4], golden("linux-readdirplus-call")[:-8]):
            seen, = self.messages((0, [call]))
            self.assertTrue(seen.is_bad, seen)

    def test_messages_that_share_a_segment_are_lost_only_while_sends_are_reassembled(self):
        calls = [golden("linux-read-call"), golden("linux-null-call")]
        replies = [golden("linux-read-reply"), golden("linux-null-reply")]
        apart = [(side, [each]) for side, sends in ((0, calls), (1, replies)) for each in sends]
        together = [(0, calls)] + apart[2:]

        def names(segments, reassembles):
            option = f"iwarp_ddp_rdmap.reassemble_iwarp_rdma_send:{reassembles}"
            return [each.name for each in self.messages(*segments, arguments=["-o", option])]

        right = ["READ Call", "NULL Call", "READ Reply", "NULL Reply"]
        self.assertEqual(names(apart, "TRUE"), right)
        self.assertEqual(names(together, "FALSE")[1:], right[2:])
        version = run_tshark("--version").split()[2]
        if not version.startswith("4.0."):
            self.skipTest(f"it is tshark 4.0 that loses them, and this one is {version}")
        self.assertEqual(names(together, "TRUE")[1:], ["READ Reply", "V0 proc-0 Reply"])


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
