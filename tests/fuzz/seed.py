#!/usr/bin/env python3
"""Writes first inputs for the fuzz targets: the golden vectors, .x files and, if given, captured bytes.

usage: seed.py CORPUS [CAPTURES]
       seed.py --streams CORPUS      only the conversations for iwarp_stream that are made by hand
       seed.py --engine CORPUS       the same for engine
       seed.py --explain CORPUS      captures of connections made by hand, for explain
       seed.py --configuration CORPUS  settings and exports, for configuration

CORPUS gets one folder per target. CAPTURES may hold single MPA frames (*-req.bin, *-rep.bin), single
FPDUs (other *.bin) and whole connections (*.pcap, Ethernet or raw IP, one connection each).
Campaigns start from these; what is committed is the result, minimised (`make fuzz-merge`).
"""
import hashlib
import os
import pathlib
import re
import struct
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = TESTS / "golden"
FPDU_SIZE_MAX = 700  # larger ones teach nothing new


def golden_vectors():
    for path in sorted(GOLDEN.glob("*.hex")):
        lines = (line.split("#")[0] for line in path.read_text().splitlines())
        yield path.stem, bytes.fromhex("".join("".join(line.split()) for line in lines))


def word(data, at):
    return struct.unpack_from(">I", data, at)[0]


def header_size(message):
    """Of a MSG or NOMSG, RFC 8166; 0 for anything else."""
    if len(message) < 28 or word(message, 12) > 1:
        return 0
    at = 16
    while word(message, at) == 1:
        at += 24
    at += 4
    while word(message, at) == 1:
        at += 8 + 16 * word(message, at + 4)
    at += 4
    return at + (8 + 16 * word(message, at + 4) - 4 if word(message, at) == 1 else 4)


class Corpus:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def add(self, target, data):
        folder = self.folder / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)

    def message(self, message):
        """One RPC-over-RDMA message."""
        self.add("wire_v1", bytes(3) + message)
        # Role, options, depths; connect; then the message, on either side of a connection.
        for role in (0, 1):
            start = bytes([role, 3, 200, 200, 9, 30, 3, role + len(message) % 3]) + bytes([11, 7, 200, 200, 2, 1])
            ask = bytes([0, 5] + [0] * 12) if role == 0 else b""
            answer = bytes([0, 0, 7, 60, 0, 0] * 3)
            receive = bytes([9, min(len(message), 255)]) + message[:255] + bytes(2)
            self.add("engine", start + ask + receive + answer + bytes([5, 20]))
            # The same with calls of ours under way in both directions.
            calls = bytes([0, 0, 5] + [0] * 9 + [0, 2, 5] + [0] * 9)
            answers = bytes([0, 0, 0, 7, 60, 0, 0, 0, 0, 2, 0, 7, 60, 0, 0, 0])
            self.add("engine", bytes([6 + role]) + start[1:] + calls + receive + answers + bytes([5, 20]))
        size = header_size(message)
        payload = message[size:] if size else b""
        if len(payload) < 20:
            return
        self.add("rpc_message", bytes([0 if word(payload, 4) == 0 else 1]) + payload)
        if word(payload, 4) == 0 and word(payload, 24) == 1:
            self.add("rpc_message", bytes([2]) + payload[32:32 + word(payload, 28)])
        self.add("xdr", bytes([6] + [0, 0] * 6 + [3, 200]) + payload)

    def both_directions(self):
        """Calls of both directions that want more Receives than there are, with four credits and three backward."""
        def message(xid, kind):
            words = struct.pack(">13I", xid, 1, 60, 0, 0, 0, 0, xid, kind, 0, 0, 0, 0)
            return bytes([9, len(words)]) + words + bytes(2)

        for role in (6, 7):
            start = bytes([role, 31, 200, 200, 9, 39, 7, 0, 11, 7, 200, 200, 2, 1])
            call = bytes([0, 0 if role == 6 else 2, 5, 200] + [0] * 8)
            done = bytes([5, 20])
            first = start + call + done + message(100, 1)  # the reply is not given back
            self.add("engine", first + call * 7 + done + b"".join(message(101 + i, 1) for i in range(6)))
            # Theirs: as many as granted, one more; and in between.
            theirs = [message(100 + i, 0) for i in range(6)]
            self.add("engine", first + call * 2 + b"".join(theirs))
            self.add("engine", start + theirs[0] + first[len(start):] + theirs[1] + call * 3 + theirs[2] + done)
            # A Call larger than a message: that a backward one is not started.
            self.add("engine", first + call[:4] + bytes([255] + [0] * 7) + done * 2)

    def rfc5666(self):
        """Profile::kRfc5666: replies that are read and confirmed, and aligned data."""
        done = bytes([5, 39])
        flags = 31  # four credits, eight calls

        def start(role, ends, profile, reads=3, alignment=0, depth=39):
            return (bytes([16 | role, flags, 255, 255, 9, depth, 7, ends, profile])
                    + bytes([11, 5, 255, 255, reads, 0, 128 + 8 if alignment else 0, 8 if alignment else 0]))

        # A client: a Call with room for so many results, and its answer with Read chunks.
        def call(results):
            return (bytes([0, 3, 200, 0, 60, 0, 0, results] + [0, 255, 0] * results)
                    + bytes([255, 0, 1, 255, 0]))

        def answer(chunks, kind=6):
            reads = b"".join(bytes([position, 9, 140, 8, 0]) for position in chunks)
            aligned = bytes([8, 8]) if kind == 2 else b""
            return (bytes([6, 0, 4, kind]) + aligned + bytes([1, 64, 1, len(chunks)]) + reads
                    + (bytes([0, 40]) if kind else b"") + bytes(2))

        for profile in (1, 0):
            warm = bytes([0, 3, 200, 0, 60] + [0] * 9) + done + answer([]) + done
            for ends in (0, 2, 3):
                begin = start(0, ends, profile) + warm
                self.add("engine", begin + call(1) + done + answer([7]) + done * 3 + call(2) + done
                         + answer([5, 7, 6]) + done * 3)
                self.add("engine", begin + (call(1) + done) * 3 + answer([7]) * 3 + done * 4)
            self.add("engine", start(0, 0, profile) + call(0) + done + answer([0, 5], 0) + done * 3)
            # What becomes of one that is given up, or whose connection ends, while it is read.
            begin = start(0, 0, profile, 1) + warm + (call(2) + done) * 2 + answer([5, 6]) * 2
            for end in ([0, 0, 0], [0, 0, 1], [11, 0], [11, 1], [11, 2, 0], [10, 255, 255] * 4):
                self.add("engine", begin + bytes(end) + done * 3 + call(1) + done * 2)
            late = call(1) + done + bytes([0, 0, 0]) + done + answer([7]) + done * 3
            self.add("engine", start(0, 0, profile) + late + call(1) + done)
        # Its turn to be read comes while the queue is full, and it is canceled before it takes it.
        unused = bytes([6, 0, 4, 6, 1, 64, 1, 1, 7, 9, 140, 8, 0, 0, 0, 0, 40, 0, 0])  # its Reply chunk
        begin = start(0, 0, 0, 1, depth=0) + warm + (call(0) + done) * 3 + unused * 3
        self.add("engine", begin + call(2) + bytes([3, 0, 0, 0, 0]))
        # More Calls than there are credits beside that of an RDMA_DONE.
        small = bytes([0, 3, 200, 0, 60] + [0] * 9)
        begin = start(0, 0, 1) + small + done + answer([]) + done
        self.add("engine", begin + call(1) + done + answer([7]) + done * 3 + small * 5 + done)
        # A reply in its Reply chunk, and an item that would be read over it.
        both = (bytes([6, 0, 4, 0, 1, 64, 1, 1, 7, 9, 140, 8, 0]) + bytes([255, 0, 0, 40]) + bytes(2))
        self.add("engine", start(0, 0, 0) + warm + call(0) + done + both + done * 3)
        # Aligned data in front of its padding.
        for profile in (0, 8, 255):
            item = bytes([0, 3, 200, 0, 60, 0, 1, 0, 137, 8, 0, 1, 0, 0, 0, 8, 0])
            self.add("engine", start(0, 0, profile, alignment=1) + item + done + answer([], 2) + done)

        # A server: Calls, replies that are exposed, and what tells that they were read.
        def ask(xid):
            return bytes([6, xid, 4, 6, 1, 0, 0, 0, 0, 0, 40, 0, 0])

        reply = bytes([0, 0, 7, 0, 20, 0, 1, 0, 255, 0, 0, 1, 0, 1])
        long_reply = bytes([0, 0, 7, 255, 0, 0, 0, 1])
        read = bytes([6, 0, 4, 3, 1, 1, 0, 0, 0, 0, 0])
        for ends in (0, 2, 3):
            for held in (0, 2):
                begin = start(1, ends, held)
                self.add("engine", begin + (ask(7) + reply + done * 2 + read + done) * 2)
                self.add("engine", begin + ask(7) + ask(8) + ask(9) + reply * 2 + long_reply + done * 3
                         + read * 3 + done * 4)
                self.add("engine", begin + ask(7) + long_reply + bytes([3, 0]) + done + bytes([11, 1]))
                self.add("engine", begin + ask(7) + reply + bytes([11, 2, 0]) + done + read)
                self.add("engine", begin + ask(7) + reply + done * 2 + bytes([10, 255, 255]))
        # It is told other sizes meanwhile, and that no Reads are served any more.
        chunk = bytes([6, 7, 4, 6, 1, 0, 1, 1, 10, 9, 0, 50, 0, 0, 0, 0, 40, 0, 0])
        lend = bytes([0, 0, 1])
        again = bytes([11, 5, 9, 9, 0, 0, 0, 0])
        self.add("engine", start(1, 0, 0, 1) + chunk * 2 + lend * 2 + again + done * 3 + reply * 2 + done * 3)
        self.add("engine", start(1, 2, 0, 1) + chunk * 2 + lend * 2 + again + done * 3)
        padded = bytes([6, 7, 4, 2, 16, 9, 1, 0, 0, 0, 0, 0, 40, 0, 0])
        self.add("engine", start(1, 0, 0) + padded + reply + done * 2 + read + done)

    def frame(self, frame):
        """One MPA Request or Reply."""
        reply = frame[:16] == b"MPA ID Rep Frame"
        for wishes in (1, 0x0d):
            self.add("mpa", bytes([16, reply, wishes, 16, 16, 1, 16, 16, 7]) + frame)
        self.add("private_data", bytes([3, 3]) + frame[20:])

    def fpdu(self, fpdu):
        for fault in (1, 20):
            self.add("ddp_rdmap", bytes([fault]) + fpdu)
        if fpdu[3] & 0x0f in (3, 4, 5, 6):
            size = struct.unpack_from(">H", fpdu)[0]
            self.message(fpdu[20:2 + size])

    def conversation(self, fpdus):
        """FPDUs of one side, received by a stream with Receives and exposed memory."""
        said = b"".join(bytes([12]) + struct.pack(">H", len(fpdu)) + fpdu + RECEIVE_ALL
                        for fpdu in fpdus)
        self.add("iwarp_stream", STREAM + RECEIVE * 6 + EXPOSE + said + TRANSMIT)

    def streams(self):
        """Conversations that chance takes long to find: large FPDUs, cut and disturbed."""
        begin = STREAM + RECEIVE + EXPOSE
        for crc in (0, 128):
            self.add("iwarp_stream", begin + hand(3 | crc, SIZE_MAX) + RECEIVE_PART * 12)
            self.add("iwarp_stream", begin + hand(0 | crc, SIZE_16K) + RECEIVE_PART * 5)
            self.add("iwarp_stream", begin + hand(3, SIZE_4K, last=False) + hand(3, SIZE_16K)
                     + hand(0, SIZE_16K) * 2 + RECEIVE_PART * 9 + RECEIVE_ALL)
        self.add("iwarp_stream", begin + hand(0, SIZE_16K) + RECEIVE_PART + bytes([3, 0])
                 + RECEIVE_PART + RECEIVE_ALL + TRANSMIT)
        # Behind an invalidation and a revocation, the tag is tried again.
        for gone in (hand(4, SIZE_SMALL), bytes([3, 0])):
            self.add("iwarp_stream", begin + gone + RECEIVE_ALL + hand(0, SIZE_SMALL) + RECEIVE_ALL
                     + TRANSMIT)
        # Around the end of a place, of each kind.
        for opcode, place in ((0, 0), (0, 1), (1, 1), (1, 0)):
            for where in (200, 199, 201):
                request = bytes([5, 0]) + SIZE_SMALL if opcode == 1 else b""
                self.add("iwarp_stream", begin + bytes([13, place, where, opcode]) + SIZE_SMALL
                         + request + RECEIVE_ALL + TRANSMIT)
        # Responses to our own Read: whole, in parts, too long, twice.
        pull = bytes([1, 8, 15, 7, 0, 0, 0, 3, 7]) + SIZE_16K + TRANSMIT
        for answers in ([(2, SIZE_16K)], [(10, SIZE_4K), (2, SIZE_4K)], [(10, SIZE_MAX)],
                        [(2, SIZE_MAX)], [(2, SIZE_16K)] * 2, [(0, SIZE_4K)], [(4, SIZE_SMALL)]):
            self.add("iwarp_stream", pull + b"".join(hand(flags, size) + RECEIVE_PART
                                                     for flags, size in answers) + RECEIVE_ALL)
        read = bytes([13, 1, 0, 1, 0, 0, 5, 0]) + SIZE_16K + RECEIVE_ALL
        part = bytes([4, 39, 0]) + SIZE_4K
        for then in (hand(4, SIZE_SMALL, place=1) + RECEIVE_ALL, bytes([3, 1, 15, 0]),
                     bytes([3, 1]) + TRANSMIT * 2, TRANSMIT + read + TRANSMIT):
            self.add("iwarp_stream", begin + read + part + then)
        self.add("iwarp_stream", begin + read + bytes([3, 1]) + TRANSMIT)
        self.add("iwarp_stream", begin + bytes([13, 1, 0, 1, 0, 0, 5, 1]) + SIZE_16K + RECEIVE_ALL)
        self.add("iwarp_stream", begin + bytes([13, 1, 0, 1, 0, 0, 5, 0]) + SIZE_SMALL + RECEIVE_ALL
                 + TRANSMIT)
        self.add("iwarp_stream", begin + hand(1, SIZE_16K) + bytes([5, 0]) + SIZE_SMALL
                 + RECEIVE_ALL)
        self.add("iwarp_stream", begin + bytes([13, 0, 250, 3, 0]) + SIZE_4K + RECEIVE_ALL)
        self.add("iwarp_stream", begin + bytes([13, 1, 250, 3, 1, 0, 0, 5, 0]) + SIZE_4K + RECEIVE_ALL)
        self.add("iwarp_stream", begin + hand(0, SIZE_2K) * 60 + bytes([12, 0, 3, 8, 14, 193])
                 + RECEIVE_ALL + hand(0, SIZE_2K) * 20 + RECEIVE_ALL)
        # Our side sends: all kinds of work, with FPDUs of all sizes and segments to keep to.
        for flags in (1, 17, 33, 49, 51):
            options = bytes([flags, 8] + [200] * ((flags >> 4 & 1) + (flags >> 5 & 1)))
            start = options + bytes([15, 7])
            send = bytes([0, 0, 0, 1, 1, 7]) + SIZE_16K + bytes([0])
            write = bytes([0, 0, 0, 2, 1, 7]) + SIZE_16K + bytes([1])
            pull = bytes([0, 1, 0, 3, 7]) + SIZE_16K
            room = bytes([9]) + bytes(12) + SIZE_16K + bytes([0])
            self.add("iwarp_stream", start + room * 3 + send + write + pull + send
                     + (TRANSMIT + bytes([8]) + RECEIVE_PART) * 12)
        # Reads in pieces of 4 KiB, and a short one behind them.
        split = bytes([15, 3]) + SIZE_4K + bytes([1])
        pulls = b"".join(bytes([0, 1, 0, 3, 7]) + size for size in (SIZE_MAX, SIZE_16K, SIZE_SMALL))
        self.add("iwarp_stream", bytes([1, 8, 15, 7]) + split + pulls + (TRANSMIT + bytes([8]) + RECEIVE_ALL) * 20)
        # Bare Receives of 16 KiB: a message in one FPDU, one that fills its Receive, and one that is longer.
        bare = bytes([64, 8, 15, 7]) + (bytes([0, 0, 0, 0]) + SIZE_16K) * 3 + EXPOSE
        part = hand(3, SIZE_4K, last=False)
        for whole in (hand(3, SIZE_2K), hand(3, SIZE_16K), part * 3 + hand(3, SIZE_4K)):
            self.add("iwarp_stream", bare + whole + RECEIVE_ALL + (whole + RECEIVE_PART * 4) * 2)
        for rest in (hand(3, SIZE_SMALL), hand(3, SIZE_16K), part):
            self.add("iwarp_stream", bare + part * 4 + rest + RECEIVE_ALL)


# Pieces of inputs for fuzz_iwarp_stream (see there and Choices::size).
SIZE_SMALL, SIZE_2K, SIZE_4K = bytes([0, 8]), bytes([137, 8]), bytes([138, 8])
SIZE_16K, SIZE_MAX = bytes([140, 8]), bytes([255, 0])
STREAM = bytes([0, 8, 15, 7])
RECEIVE = bytes([0, 0, 0, 0, 2, 7]) + SIZE_16K * 3
EXPOSE = (bytes([0, 0, 0, 4, 7]) + SIZE_MAX + bytes([0, 0, 0, 0, 4, 7]) + SIZE_MAX + bytes([1]))
RECEIVE_ALL = bytes([6, 1]) + SIZE_MAX
RECEIVE_PART = bytes([6, 0]) + SIZE_4K + SIZE_MAX
TRANSMIT = bytes([4, 39, 1])


def hand(flags, size, last=True, place=0):
    """An FPDU made by hand: opcode, size of its payload, which of the exposed places."""
    return bytes([13, place, 0, flags | (0 if last else 8)]) + size


def tcp_streams(path):
    """The bytes of each direction, from a pcap without loss."""
    data = path.read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    link = struct.unpack_from(order + "I", data, 20)[0]
    at = 24
    streams = {}
    while at + 16 <= len(data):
        size = struct.unpack_from(order + "I", data, at + 8)[0]
        packet = data[at + 16:at + 16 + size]
        at += 16 + size
        ip = packet[14:] if link == 1 else packet[16:] if link == 113 else packet
        if len(ip) < 40 or ip[0] >> 4 != 4 or ip[9] != 6:
            continue
        tcp = ip[(ip[0] & 15) * 4:struct.unpack_from(">H", ip, 2)[0]]
        payload = tcp[(tcp[12] >> 4) * 4:]
        if payload:
            streams.setdefault(tcp[:4], {})[word(tcp, 4)] = payload
    for segments in streams.values():
        stream = b""
        base = min(segments)
        for sequence in sorted(segments):
            stream = stream[:sequence - base] + segments[sequence]
        yield stream


def fpdus_of(stream):
    at = 20 + struct.unpack_from(">H", stream, 18)[0]
    while at + 2 <= len(stream):
        ulpdu = struct.unpack_from(">H", stream, at)[0]
        size = 2 + ulpdu + -(2 + ulpdu) % 4 + 4
        if at + size > len(stream):
            break
        yield stream[at:at + size]
        at += size


def add_capture(corpus, path):
    for stream in tcp_streams(path):
        if stream[:6] != b"MPA ID":
            continue
        corpus.frame(stream[:20 + struct.unpack_from(">H", stream, 18)[0]])
        fpdus = list(fpdus_of(stream))
        kinds = set()
        for fpdu in fpdus:
            kind = (fpdu[2:4], len(fpdu) // 32)
            if len(fpdu) <= FPDU_SIZE_MAX and kind not in kinds:
                kinds.add(kind)
                corpus.fpdu(fpdu)
        small = [fpdu for fpdu in fpdus if len(fpdu) <= FPDU_SIZE_MAX]
        corpus.conversation(small[:6])


def texts_of_cases(content):
    """Yields the .x texts of a file of tests/gen/errors (tests/gen/message_cases.h has its form)."""
    for case in re.split(rb"^=== ", content, flags=re.M)[1:]:
        text, sign, _ = re.split(rb"^(---[^\n]*\n)", case.partition(b"\n")[2], maxsplit=1, flags=re.M)
        yield text if sign == b"---\n" else text[:-1]


def rpcbind(corpus):
    """Addresses, and lists that rpcbind sends."""
    for six, text in ((0, b"192.0.2.7.78.81"), (0, b"192.0.2.7:20049"), (1, b"2001:db8::7.78.81"),
                      (1, b"::ffff:192.0.2.7.0.111"), (1, b"[::1]:20049"), (0, b"192.0.2.07.78.256")):
        corpus.add("rpcbind", bytes([0, six]) + text)

    def words(*values):
        return b"".join(struct.pack(">I", value) for value in values)

    def string(text):
        return words(len(text)) + text + bytes(-len(text) % 4)

    entry = words(1, 100003, 3) + string(b"rdma") + string(b"0.0.0.0.78.81") + string(b"superuser")
    for results in (entry + words(0), entry * 2 + words(0), words(0), words(1), entry, entry[:-4] + words(1 << 31)):
        corpus.add("rpcbind", bytes([1]) + results)


def configuration(corpus):
    """Settings, files of exports, and exports of a command line."""
    service = (TESTS.parent / "packaging" / "serve.toml.in").read_text()
    settings = (service, re.sub(r"(?m)^# (?=[a-z-]+ = )", "", service),
                'nfs = ["/a:rw", \'/b\']\ndrain = 2.5\nbench = true\nlog-level = """info"""\n',
                "a = 1\n[nfs]\nport = 1\n", "a = [[1], 2]\n", "[[a]]\nb = 1\n", "a.b = 0x1f\n\"c d\" = 1e3\nd = 2026-11-27\n")
    exports = ("# a comment\n\n/srv/data\t192.0.2.0/24(rw,no_root_squash) *(ro)  # another\r\n/srv/a\\040b *(name=/ab)",
               '"/a b" -rw,all_squash db.example.org 198.51.100.0/255.255.255.0(ro,anonuid=7) 2001:db8::/32\n',
               "/homes *(rw,async,subtree_check,crossmnt,wdelay) \\\n  ::1(ro,nohide,fsid=0)\n/srv 10.0.0.0/8 (rw,secure)\n",
               "ceph:/vol *(rw,id=nfs,fs=a,conf=/c,gateway=g,name=/v,sec=krb5:krb5i:krb5p:sys) trap(ro) @netgroup(rw)\n")
    for text in settings:
        corpus.add("configuration", b"\0" + text.encode())
    for text in exports:
        corpus.add("configuration", b"\1" + text.encode())
    for text in ("/srv/data:rw,client=192.0.2.0/24,client=::1,sec=sys:krb5", "/srv::rw", "./ceph:x:ro,insecure,sync",
                 "ceph:/a:conf=/etc/c,id=u,all_squash,anonuid=1,anongid=2", "/a:rv", "/a:b/c:name=/n,no_root_squash"):
        corpus.add("configuration", b"\2" + text.encode())


def as_pcapng(packets):
    """Two interfaces of different link types, whose times have different units."""
    def block(kind, body):
        size = len(body) + 12
        return struct.pack("<II", kind, size) + body + struct.pack("<I", size)

    nanoseconds = struct.pack("<HHI", 9, 1, 9) + bytes(4)
    out = block(0x0a0d0d0a, struct.pack("<IHHq", 0x1a2b3c4d, 1, 0, -1))
    out += block(1, struct.pack("<HHI", 1, 0, 0)) + block(1, struct.pack("<HHI", 101, 0, 0) + nanoseconds)
    for time, packet in packets:
        head = struct.pack("<IIIII", 1, time >> 32, time & 0xffffffff, len(packet), len(packet))
        out += block(6, head + bytes(packet) + bytes(-len(packet) % 4))
    return out


def small_captures(corpus):
    """Connections with planted violations, and the beginnings of captures of Linux."""
    os.environ.setdefault("RPCRDMA", "")  # the command, which is not run
    sys.path[:0] = [str(TESTS / "system"), str(TESTS / "captures")]
    import explain_check_test as check
    import plant
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "capture"
        for *_, base, function in check.PLANTS:
            if base is None:
                function().write(path)
                corpus.add("explain", path.read_bytes())
        for name in (check.SIW, check.GSS):
            check.load(name).write(path, at_most=16)
            corpus.add("explain", path.read_bytes())
            corpus.add("explain", as_pcapng([(time, packet) for time, packet in raw_packets(path)]))
        roce = [each for each in plant.packets_of(plant.FOLDER / check.RXE) if len(each[1]) < 400]
        plant.write_packets(path, roce[:40])
        corpus.add("explain", path.read_bytes())


def raw_packets(path):
    """(time, bytes) of each packet of a file that plant.py wrote."""
    data, at = path.read_bytes(), 24
    while at < len(data):
        seconds, rest, size, _ = struct.unpack_from("<IIII", data, at)
        yield seconds * 10**9 + rest, data[at + 16:at + 16 + size]
        at += 16 + size


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    if sys.argv[1] == "--streams":
        Corpus(sys.argv[2]).streams()
        return
    if sys.argv[1] == "--engine":
        Corpus(sys.argv[2]).both_directions()
        Corpus(sys.argv[2]).rfc5666()
        return
    if sys.argv[1] == "--explain":
        small_captures(Corpus(sys.argv[2]))
        return
    if sys.argv[1] == "--configuration":
        configuration(Corpus(sys.argv[2]))
        return
    corpus = Corpus(sys.argv[1])
    for name, data in golden_vectors():
        if name.startswith("private-data"):
            corpus.add("private_data", bytes([3, 3]) + data)
        elif name.startswith("v2-"):
            corpus.add("wire_v2", bytes(3) + data)
        else:
            if name == "linux-error-vers":
                corpus.add("wire_v2", bytes(3) + data)
            corpus.message(data)
    corpus.streams()
    corpus.both_directions()
    corpus.rfc5666()
    for folder in (TESTS.parent / "idl", TESTS / "gen"):
        for path in sorted(folder.rglob("*.x")):
            corpus.add("gen", path.read_bytes())
    for path in sorted((TESTS / "gen" / "errors").glob("*.cases")):
        for text in texts_of_cases(path.read_bytes()):
            corpus.add("gen", text)
    rpcbind(corpus)
    configuration(corpus)
    small_captures(corpus)
    captures = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else None
    for path in sorted(captures.rglob("*.bin")) if captures else []:
        data = path.read_bytes()
        if data[:6] == b"MPA ID":
            corpus.frame(data)
        elif len(data) >= 20:
            corpus.fpdu(data)
            corpus.conversation([data])
    for path in sorted(captures.rglob("*.pcap")) if captures else []:
        add_capture(corpus, path)
    for folder in sorted(corpus.folder.iterdir()):
        print(f"{folder.name}: {len(list(folder.iterdir()))} inputs")


if __name__ == "__main__":
    main()
