"""Takes captures of iWARP apart into MPA frames and FPDUs, lets tests edit these, and writes them anew.

A unit of a connection is an MPA frame or an FPDU without fill bytes and CRC, which are computed when it is written, so that an edit
breaks the rule that it is meant to break and no checksum."""
import lzma
import pathlib
import struct

FOLDER = pathlib.Path(__file__).resolve().parent
SEND = (3, 4, 5, 6)


def _table():
    out = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82f63b78 if value & 1 else 0)
        out.append(value)
    return out


TABLE = _table()
KNOWN = {}


def crc32c(data):
    data = bytes(data)
    if data not in KNOWN:
        value = 0xffffffff
        for each in data:
            value = TABLE[(value ^ each) & 255] ^ value >> 8
        KNOWN[data] = value ^ 0xffffffff
    return KNOWN[data]


def packets_of(path):
    """(time in ns, bytes) of each packet of a pcap file in microseconds."""
    data = lzma.open(path).read() if str(path).endswith(".xz") else pathlib.Path(path).read_bytes()
    at = 24
    while at < len(data):
        seconds, micros, size, _ = struct.unpack_from("<IIII", data, at)
        yield seconds * 10**9 + micros * 1000, bytearray(data[at + 16:at + 16 + size])
        at += 16 + size


def write_packets(path, packets, link=1):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, 262144, link))
        for time, packet in packets:
            file.write(struct.pack("<IIII", time // 10**9, time % 10**9, len(packet), len(packet)) + packet)


class Unit:
    def __init__(self, side, time, data, is_frame=False):
        self.side, self.time, self.data, self.is_frame = side, time, bytearray(data), is_frame
        self.pad, self.flips_crc = None, False
        self.repeats = []  # (offset, bytes) of the unit on the wire that come again behind it

    @property
    def opcode(self):
        return self.data[3] & 15

    @property
    def is_send(self):
        return not self.is_frame and self.opcode in SEND

    def word(self, at):
        """A word of the message that a Send carries."""
        return struct.unpack_from(">I", self.data, 20 + at)[0]

    def set(self, at, value):
        struct.pack_into(">I", self.data, 20 + at, value & 0xffffffff)

    def insert(self, at, data):
        """Puts bytes into the message of a Send."""
        self.data[20 + at:20 + at] = data
        self.fix_length()

    def cut(self, at, size):
        del self.data[20 + at:20 + at + size]
        self.fix_length()

    def fix_length(self):
        struct.pack_into(">H", self.data, 0, len(self.data) - 2)

    def copy(self):
        made = Unit(self.side, self.time, self.data, self.is_frame)
        made.pad, made.flips_crc, made.repeats = self.pad, self.flips_crc, list(self.repeats)
        return made

    def on_wire(self, has_crc):
        if self.is_frame:
            return bytes(self.data)
        pad = bytes(-len(self.data) % 4) if self.pad is None else self.pad
        whole = bytes(self.data) + pad
        crc = crc32c(whole) if has_crc else 0
        return whole + struct.pack("<I", crc ^ (1 if self.flips_crc else 0))


def mpa_frame(side, private=b"", flags=0x50, ird=16, ord_=16, revision=2):
    key = b"MPA ID Rep Frame" if side else b"MPA ID Req Frame"
    body = struct.pack(">HH", ird, ord_) + private
    return Unit(side, 0, key + bytes([flags, revision]) + struct.pack(">H", len(body)) + body, True)


def private_data(flags=1, send=3, receive=3):
    return struct.pack(">IBBBB", 0xf6ab0e18, 1, flags, send, receive)


class Connection:
    """The units of a connection, in the order in which they were captured."""

    def __init__(self, units=()):
        self.units = list(units)
        self.has_crc = True
        self.counts = [0, 0]

    @classmethod
    def load(cls, name):
        streams, keys, made = {}, [], []
        for time, packet in packets_of(FOLDER / name):
            if packet[12:14] != b"\x08\x00" or packet[23] != 6:
                continue
            ip = packet[14:]
            size = struct.unpack_from(">H", ip, 2)[0]
            tcp = ip[20:size]
            source, target, sequence = struct.unpack_from(">HHI", tcp)
            if 20049 not in (source, target):
                continue
            data = tcp[(tcp[12] >> 4) * 4:]
            key = (source, target)
            if tcp[13] & 2:
                streams[key] = {"next": sequence + 1, "rest": bytearray(), "side": 1 if tcp[13] & 16 else 0}
                keys.append(key)
                continue
            stream = streams.get(key)
            if not data or key not in keys[:2] or stream is None or sequence != stream["next"]:
                continue
            stream["next"] += len(data)
            stream["rest"] += data
            made += cls._units(stream, time)
        return cls(made)

    @staticmethod
    def _units(stream, time):
        rest = stream["rest"]
        while True:
            if rest[:7] == b"MPA ID ":
                if len(rest) < 20 or len(rest) < 20 + struct.unpack_from(">H", rest, 18)[0]:
                    return
                size = 20 + struct.unpack_from(">H", rest, 18)[0]
                yield Unit(stream["side"], time, rest[:size], True)
                del rest[:size]
                continue
            if len(rest) < 2:
                return
            length = struct.unpack_from(">H", rest)[0] + 2
            whole = length + -length % 4 + 4
            if len(rest) < whole:
                return
            unit = Unit(stream["side"], time, rest[:length])
            unit.pad = bytes(rest[length:length + -length % 4])
            yield unit
            del rest[:whole]

    @classmethod
    def made(cls, request=None, reply=None):
        """A connection with its set-up, and nothing behind it."""
        return cls([request or mpa_frame(0, private_data()), reply or mpa_frame(1, private_data())])

    def send(self, side, message, opcode=3, tag=0):
        self.counts[side] += 1
        ulpdu = struct.pack(">BBIIII", 0x41, 0x40 | opcode, tag, 0, self.counts[side], 0) + message
        unit = Unit(side, 0, struct.pack(">H", len(ulpdu)) + ulpdu)
        self.units.append(unit)
        return unit

    def again(self, unit, skip=0, size=None):
        """Bytes of a unit that TCP sends once more behind it; they are to be edited."""
        data = bytearray(unit.on_wire(self.has_crc)[skip:][:size])
        unit.repeats.append((skip, data))
        return data

    def sends(self, side=None):
        return [each for each in self.units if each.is_send and side in (None, each.side)]

    def index(self, unit):
        return next(i for i, each in enumerate(self.units) if each is unit)

    def renumber(self):
        """Gives the MSNs of Sends and Read Requests anew, behind an edit that is not about them."""
        counts = {}
        for unit in self.units:
            if unit.is_frame or unit.opcode in (0, 2):
                continue
            key = unit.side, struct.unpack_from(">I", unit.data, 8)[0]
            if unit.data[16:20] == bytes(4):
                counts[key] = counts.get(key, 0) + 1
            struct.pack_into(">I", unit.data, 12, counts.get(key, 1))

    def write(self, path, at_most=None):
        """Writes raw IPv4 packets; each unit is a segment of TCP."""
        ports, sequences, packets = (40000, 20049), [1000, 5000], []

        def tcp(side, flags, data=b"", back=0):
            sequences[side] -= back
            header = struct.pack(">HHIIBBHHH", ports[side], ports[1 - side], sequences[side] & 0xffffffff,
                                 sequences[1 - side] & 0xffffffff if flags != 2 else 0, 0x50, flags, 0xffff, 0, 0)
            sequences[side] += len(data) + (1 if flags & 2 else 0)
            ip = struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(data), len(packets) & 0xffff, 0, 64, 6, 0)
            ip += bytes([192, 0, 2, 1 + side, 192, 0, 2, 2 - side])
            packets.append((10**18 + len(packets) * 100000, ip + header + data))

        for side, flags in ((0, 2), (1, 18), (0, 16)):
            tcp(side, flags)
        for unit in self.units[:at_most]:
            wire = unit.on_wire(self.has_crc)
            tcp(unit.side, 0x18, wire)
            for skip, data in unit.repeats:
                tcp(unit.side, 0x18, data, back=len(wire) - skip)
                sequences[unit.side] += len(wire) - skip - len(data)
        write_packets(path, packets, 101)


def rpc_call(xid, program=100003, version=3, procedure=0, arguments=b"", rpc_version=2, kind=0):
    return struct.pack(">10I", xid, kind, rpc_version, program, version, procedure, 0, 0, 0, 0) + arguments


def rpc_reply(xid, results=b"", kind=1, status=0):
    return struct.pack(">6I", xid, kind, 0, 0, 0, status) + results


def header_v1(xid, credits=32, kind=0, lists=bytes(12), version=1):
    return struct.pack(">4I", xid, version, credits, kind) + lists


def header_v2(xid, direction, credits=32, kind=0, lists=bytes(12)):
    return struct.pack(">5I", xid, 2, credits, kind, direction) + lists
