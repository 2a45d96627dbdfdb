"""Reads what --capture has recorded: the set-up frames of MPA (RFC 5044), and the RPC-over-RDMA headers in Sends."""
import collections
import struct

Header = collections.namedtuple("Header", "is_call xid credits")
SENDS = (3, 4, 5, 6)  # RDMAP's opcodes (RFC 5040)
SET_UP = 20  # bytes of a frame of MPA's set-up, before its private data


def packets(path):
    """(ports of source and target, data of TCP) of each packet, in their order."""
    data = path.read_bytes()
    while len(data) >= 12:
        kind, size = struct.unpack_from("<II", data)
        if kind == 6:  # an Enhanced Packet Block
            length = struct.unpack_from("<I", data, 20)[0]
            ip = data[28 + 14:28 + length]
            tcp = ip[(ip[0] & 15) * 4:struct.unpack_from(">H", ip, 2)[0]]
            yield struct.unpack_from(">HH", tcp), tcp[(tcp[12] >> 4) * 4:]
        data = data[size:]


class Trace:
    """Counts what a capture shows of the connections to one server."""
    def __init__(self, path):
        self.set_up = []  # the flags of each set-up frame
        self.headers = []
        clients, streams = set(), collections.defaultdict(bytes)
        for ports, data in packets(path):
            if data.startswith(b"MPA ID Req Frame"):
                clients.add(ports)
            streams[ports] = self.read(streams[ports] + data, ports in clients)

    def read(self, data, is_call):
        """Returns what is left: the beginning of a frame."""
        while len(data) >= 2:
            if data.startswith(b"MPA ID Re"):
                size = SET_UP + (struct.unpack_from(">H", data, 18)[0] if len(data) >= SET_UP else 0)
                if len(data) < size:
                    break
                self.set_up.append(data[16])
            else:
                length = struct.unpack_from(">H", data)[0]
                size = (2 + length + 3) // 4 * 4 + 4
                if len(data) < size:
                    break
                self.note(data[2:2 + length], is_call)
            data = data[size:]
        return data

    def note(self, segment, is_call):
        is_tagged = segment[0] & 0x80
        if is_tagged or segment[1] & 15 not in SENDS or struct.unpack_from(">I", segment, 14)[0] != 0:
            return
        xid, _, credit_count = struct.unpack_from(">III", segment, 18)
        self.headers.append(Header(is_call, xid, credit_count))

    def calls_at_a_time(self):
        """The most that were without their reply."""
        open_calls, most = set(), 0
        for header in self.headers:
            if header.is_call:
                open_calls.add(header.xid)
            else:
                open_calls.discard(header.xid)
            most = max(most, len(open_calls))
        return most

    def credits_asked(self):
        return {header.credits for header in self.headers if header.is_call}

    def credits_granted(self):
        return {header.credits for header in self.headers if not header.is_call}
