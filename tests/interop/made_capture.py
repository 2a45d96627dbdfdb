"""Captures of made-up iWARP connections whose Sends carry golden vectors, for tests of dissectors."""
import pathlib
import struct

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests" / "golden"


def golden(name):
    return bytes.fromhex("".join((GOLDEN / f"{name}.hex").read_text().split()))


class Capture:
    """A TCP connection with MPA and DDP/RDMAP in it, without CRCs, as a pcap file of raw IPv4 packets."""

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

    def send(self, side, *messages):
        """Adds a TCP segment with a Send for each of the messages."""
        segment = b""
        for message in messages:
            self.messages[side] += 1
            # DDP: untagged, last, version 1; RDMAP: version 1, Send; queue 0.
            ulpdu = struct.pack(">BBIIII", 0x41, 0x43, 0, 0, self.messages[side], 0) + message
            pad = -(len(ulpdu) + 2) % 4
            segment += struct.pack(">H", len(ulpdu)) + ulpdu + bytes(pad) + bytes(4)
        self._tcp(side, 0x18, segment)

    def write(self, path):
        with open(path, "wb") as file:
            file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101))
            for i, packet in enumerate(self.packets):
                file.write(struct.pack("<IIII", 1, i, len(packet), len(packet)) + packet)
