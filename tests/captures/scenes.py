"""The captures of docs/explain.md: of Linux as they are, and two that are made from them."""
import struct

import plant

SIW = "nfs3-siw-crc.pcap.xz"


def refused():
    """A server answers ERR_CHUNK to a Call whose Read chunk has no room in its message, and the connection lives."""
    c = plant.Connection.made()
    c.send(0, plant.header_v1(0x2a000001, 128) + plant.rpc_call(0x2a000001))
    c.send(1, plant.header_v1(0x2a000001, 64) + plant.rpc_reply(0x2a000001))
    lists = struct.pack(">IIIIQI", 1, 40000, 0x2600e502, 65536, 0x7f0000000000, 0) + bytes(8)
    c.send(0, plant.header_v1(0x2a000002, 128, lists=lists) + plant.rpc_call(0x2a000002, procedure=7))
    c.send(1, plant.header_v1(0x2a000002, 64, kind=4, lists=struct.pack(">I", 2)))
    return c


def hangs():
    """A mount that hangs: the server is silent from the first Call on that offers a Reply chunk."""
    c = plant.Connection.load(SIW)
    call = next(each for each in c.sends(0) if [each.word(12), each.word(16), each.word(20), each.word(24)] == [0, 0, 0, 1])
    c.units = c.units[:c.index(call) + 1]
    return c


def write_all(folder):
    """Writes each capture that the page names into the folder."""
    plant.write_packets(folder / "nfs3-siw-crc.pcap", plant.packets_of(plant.FOLDER / SIW))
    refused().write(folder / "refused.pcap")
    hangs().write(folder / "hangs.pcap")
