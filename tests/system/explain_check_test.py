#!/usr/bin/env python3
"""`rpcrdma explain check` names violations that are planted in captures of real peers, with their sections, and finds none in the
captures as they are. Each plant is a function that edits a connection; planted() says which rule has to be named."""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import command_fixture

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "captures"))
import plant  # noqa: E402
from plant import Connection, header_v1, header_v2, mpa_frame, private_data, rpc_call, rpc_reply  # noqa: E402

SIW, GSS, RXE = "nfs3-siw-crc.pcap.xz", "v3-krb5i.pcap.xz", "nfs3-rxe.pcap.xz"
R8166, R8797, R5044, R5041, R5040 = "RFC 8166", "RFC 8797", "RFC 5044", "RFC 5041", "RFC 5040"
V2 = "draft-cel-nfsv4-rpcrdma-version-two-01"
XCHAR = "draft-dnoveck-nfsv4-rpcrdma-xcharext-02"
LOADED = {}
PLANTS = []


def planted(rule, document, section, severity="error", base=None):
    """Registers a plant. `base`: a capture to edit; without it the function makes the connection."""
    def register(function):
        PLANTS.append((function.__name__, rule, document, section, severity, base, function))
        return function
    return register


def load(name):
    if name not in LOADED:
        LOADED[name] = Connection.load(name)
    return Connection(each.copy() for each in LOADED[name].units)


def words(message, *at):
    return [struct.unpack_from(">I", message.data, 20 + each)[0] for each in at]


def call_with(connection, kind):
    """The first Call with a Read chunk, a Write chunk or a Reply chunk; `plain`: the first without any but NULL."""
    forms = {"read": (0, [1]), "write": (0, [0, 1]), "reply": (0, [0, 0, 1]), "plain": (0, [0, 0, 0])}
    proc, presence = forms[kind]
    for unit in connection.sends(0):
        found = words(unit, 12, *range(16, 16 + 4 * len(presence), 4))
        if found == [proc, *presence] and (kind != "plain" or len(unit.data) > 100):
            return unit
    raise AssertionError(f"no call with {kind}")


def reply_to(connection, call):
    return next(each for each in connection.sends(1) if each.word(0) == call.word(0))


def neighbours(connection, first):
    """The next call and reply behind the reply to `first`."""
    at = connection.index(reply_to(connection, first))
    second = next(each for each in connection.units[at:] if each.is_send and each.side == 0)
    return second, reply_to(connection, second)


def swap(connection, one, other):
    i, j = connection.index(one), connection.index(other)
    connection.units[i], connection.units[j] = connection.units[j], connection.units[i]


def move(connection, unit, before):
    connection.units.remove(unit)
    connection.units.insert(connection.index(before), unit)


# RFC 8166, credits and sizes.
@planted("V1-C1", R8166, "3.3.1", base=SIW)
def grant_of_one_and_two_calls_open(c):
    for each in c.sends(1):
        each.set(8, 1)
    first = c.sends(0)[3]
    second, _ = neighbours(c, first)
    move(c, second, reply_to(c, first))


@planted("V1-C2", R8166, "3.3.1", base=SIW)
def call_asks_for_no_credit(c):
    c.sends(0)[2].set(8, 0)


@planted("V1-C3", R8166, "3.3.1", base=SIW)
def reply_grants_no_credit(c):
    c.sends(1)[2].set(8, 0)


@planted("V1-C6", R8166, "3.3.3", base=SIW)
def second_call_before_the_first_reply(c):
    move(c, c.sends(0)[1], c.sends(1)[0])


@planted("V1-C7", R8166, "3.3.3", base=SIW)
def long_send_without_private_data(c):
    frame = c.units[0]
    frame.data[24:28] = b"\0\0\0\0"


@planted("V1-T4", R8166, "3.3.2", base=SIW)
def send_larger_than_the_receive_that_was_announced(c):
    c.units[1].data[30] = c.units[1].data[31] = 0


@planted("V1-C11", R8166, "3.3.1", "warning")
def error_grants_no_credit():
    c = Connection.made()
    c.send(0, header_v1(7) + rpc_call(7))
    c.send(1, header_v1(7, credits=0, kind=4, lists=struct.pack(">I", 2)))
    return c


# Headers and errors.
@planted("V1-E2", R8166, "4.2.4", base=SIW)
def unknown_type(c):
    c.sends(0)[2].set(12, 6)


@planted("V1-E2", R8166, "4.2.4", base=SIW)
def list_discriminator_of_two(c):
    c.sends(0)[2].set(16, 2)


@planted("V1-E2", R8166, "4.2.4", base=SIW)
def count_of_segments_beyond_the_message(c):
    call_with(c, "write").set(24, 9999)


@planted("V1-E2", R8166, "4.2.1", base=SIW)
def xid_of_the_header_alone_differs(c):
    c.sends(0)[2].set(28, 0x1234)


@planted("V1-E1", R8166, "4.5.1", base=SIW)
def unknown_version_is_answered_as_usual(c):
    c.sends(0)[4].set(4, 7)


@planted("V1-E1", R8166, "4.5.1")
def range_of_err_vers_has_the_version_of_the_call():
    c = Connection.made()
    c.send(0, header_v1(7) + rpc_call(7))
    c.send(1, header_v1(7, kind=4, lists=struct.pack(">III", 1, 1, 2)))
    return c


@planted("V1-E1", R8166, "4.5")
def error_has_another_version_than_the_call():
    c = Connection.made()
    c.send(0, header_v1(7) + rpc_call(7))
    c.send(1, header_v1(7, kind=4, version=9, lists=struct.pack(">I", 2)))
    return c


@planted("V1-E5", R8166, "4.5", base=SIW)
def requester_answers_a_reply_with_an_error(c):
    reply = c.sends(1)[3]
    made = c.sends(0)[0].copy()
    made.data[20:] = header_v1(reply.word(0), kind=4, lists=struct.pack(">I", 2))
    made.fix_length()
    c.units.insert(c.index(reply) + 1, made)
    c.renumber()


@planted("V1-E7", R8166, "4.5", "warning")
def call_is_made_again_after_err_chunk():
    c = Connection.made()
    for _ in range(2):
        c.send(0, header_v1(7) + rpc_call(7))
        c.send(1, header_v1(7, kind=4, lists=struct.pack(">I", 2)))
    return c


@planted("V1-E8", R8166, "4.6.1", "warning")
def msgp_is_sent():
    c = Connection.made()
    c.send(0, header_v1(7, kind=2, lists=struct.pack(">II", 4, 100) + bytes(12)) + rpc_call(7))
    c.send(1, header_v1(7) + rpc_reply(7))
    return c


@planted("V1-E9", R8166, "4.6.2", "warning", base=SIW)
def done_is_sent(c):
    unit = c.sends(0)[3]
    unit.set(12, 3)


@planted("V1-E10", R8166, "4.2", "warning", base=SIW)
def message_of_twelve_bytes(c):
    unit = c.sends(0)[3]
    del unit.data[32:]
    unit.fix_length()


@planted("V1-E11", R8166, "4.2.1", "warning", base=SIW)
def reply_with_the_xid_of_nothing(c):
    unit = c.sends(1)[3]
    unit.set(0, 0xabcdef)
    unit.set(28, 0xabcdef)


@planted("V1-E12", R8166, "4.5", "warning", base=SIW)
def same_call_again_on_the_same_connection(c):
    call = c.sends(0)[3]
    c.units.insert(c.index(call) + 1, call.copy())
    c.renumber()


# Read chunks.
@planted("V1-R2", R8166, "3.4.5", base=SIW)
def position_that_is_no_multiple_of_four(c):
    unit = call_with(c, "read")
    unit.set(20, unit.word(20) + 1)


@planted("V1-E2", R8166, "4.5.2", base=SIW)
def position_beyond_the_message(c):
    call_with(c, "read").set(20, 0x7ffffffc)


@planted("V1-R1", R8166, "3.4.2", base=SIW)
def position_in_the_header_of_the_call(c):
    call_with(c, "read").set(20, 24)


@planted("V1-R7", R8166, "3.4.5.2", base=SIW)
def count_that_differs_from_the_chunk(c):
    unit = call_with(c, "read")
    at = 52 + unit.word(20) - 4
    unit.set(at, unit.word(at) + 8)


@planted("V1-R4", R8166, "3.4.5.2", "warning", base=SIW)
def length_of_a_read_chunk_rounded_up(c):
    unit = next(each for each in c.sends(0) if each.word(12) == 0 and each.word(16) == 1 and each.word(28) % 4)
    unit.set(28, unit.word(28) + -unit.word(28) % 4)


@planted("V1-R10", R8166, "4.3.1", base=SIW)
def read_segment_in_a_reply(c):
    reply = c.sends(1)[3]
    reply.set(16, 1)
    reply.insert(20, struct.pack(">IIIQ", 28, 77, 100, 4096) + bytes(4))


@planted("V1-R8", R8166, "3.4.5.1", base=SIW)
def reply_before_the_reads_are_complete(c):
    call = call_with(c, "read")
    reply = reply_to(c, call)
    response = next(each for each in c.units[c.index(call):] if not each.is_frame and each.opcode == 2)
    move(c, reply, response)


# Long messages.
def long_call(length, kind=1, position=0, payload=b""):
    c = Connection.made()
    lists = struct.pack(">IIIIQI", 1, position, 0x55, length, 0x1000, 0) + bytes(8)
    c.send(0, header_v1(7, kind=kind, lists=lists) + payload)
    return c


@planted("V1-M10", R8166, "3.5.3", base=SIW)
def msg_with_a_chunk_at_position_zero(c):
    call_with(c, "read").set(20, 0)


@planted("V1-M7", R8166, "3.5.3")
def nomsg_whose_chunk_is_not_at_position_zero():
    return long_call(200, position=4)


@planted("V1-M1", R8166, "3.5.3", base=SIW)
def nomsg_with_a_payload(c):
    call_with(c, "plain").set(12, 1)


@planted("V1-M9", R8166, "3.5.3")
def length_of_a_long_call_is_no_multiple_of_four():
    c = long_call(198)
    c.send(1, header_v1(7, kind=4, lists=struct.pack(">I", 2)))
    return c


# Write chunks and Reply chunks.
def returned(c):
    call = next(each for each in c.sends(0) if words(each, 12, 16, 20) == [0, 0, 1] and
                len(c.units[c.index(each) + 1].data) > 20 and reply_to(c, each).word(28) > 100)
    return call, reply_to(c, call)


@planted("V1-W10", R8166, "3.4.6", base=SIW)
def returned_chunk_is_longer_than_the_one_offered(c):
    call, reply = returned(c)
    reply.set(32, call.word(32) + 4096)


@planted("V1-W10", R8166, "3.4.6", base=SIW)
def returned_chunk_has_more_segments(c):
    _, reply = returned(c)
    count = reply.word(24)
    reply.set(24, count + 1)
    reply.insert(28 + 16 * count, bytes(16))


@planted("V1-W10", R8166, "3.4.6", "note", base=SIW)
def returned_handle_differs(c):
    _, reply = returned(c)
    reply.set(28, reply.word(28) + 1)


@planted("V1-W5", R8166, "3.4.6", base=SIW)
def returned_length_is_smaller_than_what_was_written(c):
    _, reply = returned(c)
    reply.set(32, reply.word(32) - 8)


# A note: our own server does so, as drafts of the revision have it.
@planted("V1-W5", R8166, "3.4.6", "note")
def unused_segment_is_left_out():
    return write_connection((1000, 0), (1000,))


@planted("V1-W5", R8166, "3.4.6", "note")
def write_list_is_not_returned():
    c = write_connection((), (0, 0))
    c.units[-1].data[20:] = header_v1(7) + rpc_reply(7)
    c.units[-1].fix_length()
    return c


def write_connection(written, said, lengths=(1000, 1000)):
    c = Connection.made()
    offered = b"".join(struct.pack(">IIQ", 0x60 + i, length, 0x1000) for i, length in enumerate(lengths))
    c.send(0, header_v1(7, lists=struct.pack(">III", 0, 1, len(lengths)) + offered + bytes(8)) + rpc_call(7, 400, 1, 1))
    for i, size in enumerate(written):
        if size:
            ulpdu = struct.pack(">BBIQ", 0xc1, 0x40, 0x60 + i, 0x1000) + bytes(size)
            c.units.append(plant.Unit(1, 0, struct.pack(">H", len(ulpdu)) + ulpdu))
    back = b"".join(struct.pack(">IIQ", 0x60 + i, length, 0x1000) for i, length in enumerate(said))
    c.send(1, header_v1(7, lists=struct.pack(">III", 0, 1, len(said)) + back + bytes(8)) + rpc_reply(7))
    return c


@planted("V1-W4", R8166, "3.4.6")
def second_segment_is_filled_before_the_first():
    return write_connection((10, 1000), (10, 1000))


@planted("V1-W3", R8166, "3.4.6.2")
def padding_is_written():
    return write_connection((104, 0), (101, 0))


@planted("V1-W6", R8166, "4.3.2")
def result_with_a_chunk_is_inline():
    c = Connection.made()
    chunk = struct.pack(">IIIIIQ", 0, 1, 1, 0x60, 100, 0x1000) + bytes(8)
    c.send(0, header_v1(7, lists=chunk) + rpc_call(7, procedure=6, arguments=bytes(12) + struct.pack(">I", 100)))
    back = struct.pack(">IIIIIQ", 0, 1, 1, 0x60, 0, 0x1000) + bytes(8)
    c.send(1, header_v1(7, lists=back) + rpc_reply(7, struct.pack(">IIIII", 0, 0, 100, 1, 100) + bytes(100)))
    return c


@planted("V1-W9", R8166, "3.5.2", base=SIW)
def write_behind_its_reply(c):
    call, reply = returned(c)
    last = max(i for i in range(c.index(reply)) if not c.units[i].is_frame and c.units[i].opcode == 0)
    swap(c, c.units[last], reply)


@planted("V1-P1", R8166, "3.5.3", "warning")
def listing_without_a_reply_chunk():
    c = Connection.made()
    c.send(0, header_v1(7) + rpc_call(7, procedure=16, arguments=bytes(12) + struct.pack(">I", 65536)))
    return c


@planted("V1-P3", R8166, "4.3.3", base=SIW)
def long_reply_to_a_call_without_a_reply_chunk(c):
    call = call_with(c, "reply")
    count = call.word(28)
    call.set(24, 0)
    call.cut(28, 4 + 16 * count)


@planted("V1-P4", R8166, "4.3.3", base=SIW)
def reply_chunk_is_not_returned(c):
    reply = reply_to(c, call_with(c, "reply"))
    reply.set(24, 0)
    reply.cut(28, 4 + 16 * reply.word(28))


@planted("V1-P6", R8166, "4.5.3", base=SIW)
def long_reply_is_longer_than_its_chunk(c):
    call = call_with(c, "reply")
    call.set(36, 16)


@planted("V1-P7", R8166, "4.3.3", base=SIW)
def reply_in_a_reply_chunk_says_msg(c):
    reply_to(c, call_with(c, "reply")).set(12, 0)


# Memory.
@planted("V1-S5", R8166, "4.4", base=SIW)
def write_outside_of_the_segments(c):
    call, _ = returned(c)
    unit = next(each for each in c.units[c.index(call):] if not each.is_frame and each.opcode == 0)
    offset = struct.unpack_from(">Q", unit.data, 8)[0]
    struct.pack_into(">Q", unit.data, 8, offset + (1 << 20))


@planted("V1-S5", R8166, "4.4")
def memory_for_writing_is_read():
    c = write_connection((), (0, 0))
    request = struct.pack(">BBIIII", 0x41, 0x41, 0, 1, 1, 0) + struct.pack(">IQIIQ", 9, 0, 100, 0x60, 0x1000)
    c.units.insert(3, plant.Unit(1, 0, struct.pack(">H", len(request)) + request))
    return c


@planted("V1-S1", R8166, "4.4", "warning")
def handle_of_a_call_that_is_open():
    c = Connection.made()
    c.send(0, header_v1(1) + rpc_call(1))
    c.send(1, header_v1(1) + rpc_reply(1))
    for xid in (7, 8):
        chunk = struct.pack(">IIIIIQ", 0, 1, 1, 0x60, 100, 0x1000) + bytes(8)
        c.send(0, header_v1(xid, lists=chunk) + rpc_call(xid, 400, 1, 1))
    return c


@planted("RPC-XID", "RFC 5531", "9", base=SIW)
def xid_of_an_open_call(c):
    first = c.sends(0)[5]
    second, _ = neighbours(c, first)
    move(c, second, reply_to(c, first))
    for at in (0, 28):
        second.set(at, first.word(0))


# Private data.
@planted("PD-R2", R8797, "4.1", base=SIW)
def invalidation_towards_a_side_without_flag_r(c):
    c.units[0].data[29] = 0


@planted("PD-R3", R8797, "4.1", base=SIW)
def foreign_handle_is_invalidated(c):
    unit = next(each for each in c.sends(1) if each.opcode in (4, 6))
    unit.data[7] ^= 0xff


@planted("PD-R3", R8797, "4.1", base=SIW)
def call_invalidates(c):
    c.sends(0)[3].data[3] = 0x44


@planted("PD-R7", R8797, "4.1")
def error_invalidates():
    c = Connection.made()
    c.send(0, header_v1(7) + rpc_call(7))
    c.send(1, header_v1(7, kind=4, lists=struct.pack(">I", 2)), opcode=4, tag=5)
    return c


@planted("PD-6", R8797, "4", "warning", base=SIW)
def private_data_of_the_server_is_spoilt(c):
    c.units[1].data[24] ^= 0xff


@planted("PD-4", R8797, "4", "note", base=SIW)
def private_data_of_version_two(c):
    c.units[0].data[28] = 2


# MPA.
@planted("MPA-CRC", R5044, "4.4", base=SIW)
def crc_is_wrong(c):
    c.sends(0)[3].flips_crc = True


@planted("MPA-PAD", R5044, "4.1", "warning")
def fill_bytes_are_not_zero():
    c = Connection.made()
    c.send(0, header_v1(7) + rpc_call(7) + b"ab").pad = b"\1\1"
    return c


@planted("MPA-LEN", R5044, "4.1", base=SIW)
def length_is_smaller_than_the_header(c):
    unit = c.sends(0)[3]
    del unit.data[11:]
    unit.fix_length()


@planted("M-1", R5044, "7.1.1", base=SIW)
def fpdus_have_no_crc_although_the_initiator_asked_for_them(c):
    c.units[1].data[16] &= 0xbf
    c.has_crc = False


@planted("M-2", R5044, "7.1.1", base=SIW)
def markers_that_were_asked_for_are_missing(c):
    c.units[0].data[16] |= 0x80


@planted("M-3", R5044, "7.1.2", base=SIW)
def messages_follow_a_reply_that_refuses(c):
    c.units[1].data[16] |= 0x20


@planted("M-4", R5044, "7.1.2")
def responder_sends_first():
    c = Connection.made()
    c.send(1, header_v1(7) + rpc_call(7))
    return c


@planted("M-6", "RFC 6581", "10")
def reply_has_another_revision_than_its_request():
    c = Connection.made(mpa_frame(0, private_data(), revision=2), mpa_frame(1, private_data(), revision=1, flags=0x40))
    c.send(0, header_v1(7) + rpc_call(7))
    return c


@planted("M-7", "RFC 6581", "9.1", base=SIW)
def ord_of_the_reply_is_larger_than_the_ird_of_the_request(c):
    struct.pack_into(">H", c.units[1].data, 22, 200)


@planted("M-9", "RFC 6581", "9.2", base=SIW)
def peer_to_peer_without_a_ready_to_receive_message(c):
    c.units[1].data[20] |= 0x80


@planted("M-6", "RFC 6581", "10")
def reply_to_an_enhanced_request_is_not_enhanced():
    c = Connection.made(None, mpa_frame(1, private_data(), revision=2, flags=0x40))
    c.send(0, header_v1(7) + rpc_call(7))
    return c


@planted("RDMAP-ORD", R5040, "5.2.2")
def read_of_a_peer_that_accepts_none():
    c = long_call(100)
    for unit in c.units[:2]:
        unit.data[20:24] = bytes(4)
    request = struct.pack(">BBIIII", 0x41, 0x41, 0, 1, 1, 0) + struct.pack(">IQIIQ", 9, 0, 100, 0x55, 0x1000)
    c.units.append(plant.Unit(1, 0, struct.pack(">H", len(request)) + request))
    return c


@planted("M-FRAME", R5044, "7.1.1")
def both_sides_send_a_request():
    c = Connection.made(None, mpa_frame(0, private_data()))
    c.units[1].side = 1
    return c


@planted("M-FRAME", R5044, "7.1.1", base=SIW)
def private_data_is_longer_than_allowed(c):
    struct.pack_into(">H", c.units[0].data, 18, 600)


# TCP: segments that come again.
@planted("TCP-AGAIN", "RFC 9293", "3.4", base=SIW)
def retransmission_brings_other_bytes(c):
    unit = c.sends(0)[3]
    again = c.again(unit)
    again[60] ^= 0xff


@planted("TCP-AGAIN", "RFC 9293", "3.4", base=SIW)
def part_of_a_segment_comes_again_with_other_bytes(c):
    again = c.again(c.sends(0)[3], skip=16, size=24)
    again[8] ^= 1


# DDP and RDMAP.
@planted("DDP-DV", R5041, "4.1", base=SIW)
def ddp_version_two(c):
    c.sends(0)[3].data[2] = 0x42


@planted("RDMAP-RV", R5040, "4.1", base=SIW)
def rdmap_version_two(c):
    c.sends(0)[3].data[3] = 0x83


@planted("DDP-RSVD", R5041, "4.1", "warning", base=SIW)
def reserved_bits_are_set(c):
    c.sends(0)[3].data[2] |= 0x04


@planted("RDMAP-OP", R5040, "4.2", base=SIW)
def opcode_nine(c):
    c.sends(0)[3].data[3] = 0x49


@planted("DDP-T", R5041, "4.1", base=SIW)
def flag_t_of_a_send(c):
    c.sends(0)[3].data[2] |= 0x80


@planted("DDP-QN", R5041, "4.3", base=SIW)
def send_on_queue_one(c):
    c.sends(0)[3].data[11] = 1


@planted("DDP-MSN", R5041, "4.3", base=SIW)
def number_is_left_out(c):
    unit = c.sends(0)[3]
    struct.pack_into(">I", unit.data, 12, struct.unpack_from(">I", unit.data, 12)[0] + 1)


@planted("DDP-MO", R5041, "5.2", base=SIW)
def offset_in_a_message_of_one_segment(c):
    c.sends(0)[3].data[19] = 8


@planted("RDMAP-RRQ", R5040, "4.4", base=SIW)
def read_request_of_42_bytes(c):
    unit = next(each for each in c.units if not each.is_frame and each.opcode == 1)
    unit.data += bytes(14)
    unit.fix_length()


@planted("RDMAP-RRS", R5040, "5.2", base=SIW)
def response_without_a_request(c):
    c.units.remove(next(each for each in c.units if not each.is_frame and each.opcode == 1))


@planted("RDMAP-RTO", R5040, "5.2", base=SIW)
def response_jumps(c):
    responses = [each for each in c.units if not each.is_frame and each.opcode == 2]
    offset = struct.unpack_from(">Q", responses[1].data, 8)[0]
    struct.pack_into(">Q", responses[1].data, 8, offset + 64)


@planted("RDMAP-ORD", R5040, "5.2.2")
def more_reads_than_the_peer_accepts():
    c = Connection.made(mpa_frame(0, private_data(), ird=1), mpa_frame(1, private_data(), ord_=1))
    lists = struct.pack(">IIIIQI", 1, 0, 0x55, 4000, 0x1000, 0) + bytes(8)
    c.send(0, header_v1(7, kind=1, lists=lists))
    for i in range(3):
        request = struct.pack(">BBIIII", 0x41, 0x41, 0, 1, i + 1, 0)
        request += struct.pack(">IQIIQ", 9, 4096 * i, 100, 0x55, 0x1000 + 100 * i)
        c.units.append(plant.Unit(1, 0, struct.pack(">H", len(request)) + request))
    return c


@planted("RDMAP-TERM", R5040, "5.4", base=SIW)
def message_behind_a_terminate(c):
    terminate = struct.pack(">BBIIII", 0x41, 0x47, 0, 2, 1, 0) + bytes([0x10, 2, 0, 0])
    at = c.index(c.sends(0)[3])
    c.units.insert(at, plant.Unit(0, 0, struct.pack(">H", len(terminate)) + terminate))


# RFC 8167.
@planted("B-1", "RFC 8167", "6", base=SIW)
def server_calls_a_client_of_nfs_version_3(c):
    made = c.sends(1)[3].copy()
    made.data[20:] = header_v1(0x99) + rpc_call(0x99, 0x40000000, 1, 1)
    made.fix_length()
    c.units.append(made)
    c.renumber()


def backward(*messages):
    c = Connection.made()
    c.send(0, header_v1(1) + rpc_call(1, 100003, 4, 0))
    c.send(1, header_v1(1) + rpc_reply(1))
    for side, message in messages:
        c.send(side, message)
    return c


@planted("B-2", "RFC 8167", "4.1")
def second_backward_call_before_the_first_reply():
    return backward(*[(1, header_v1(xid) + rpc_call(xid, 0x40000000, 1, 1)) for xid in (5, 6)])


@planted("B-4", "RFC 8167", "5.3", "note")
def backward_call_with_a_chunk():
    chunk = struct.pack(">IIIIIQ", 0, 1, 1, 0x60, 100, 0x1000) + bytes(8)
    return backward((1, header_v1(5, lists=chunk) + rpc_call(5, 0x40000000, 1, 1)))


@planted("B-7", "RFC 8167", "4.1")
def backward_reply_grants_nothing():
    return backward((1, header_v1(5) + rpc_call(5, 0x40000000, 1, 1)), (0, header_v1(5, credits=0) + rpc_reply(5)))


# RFC 5666.
def old(*messages):
    c = Connection.made()
    c.send(0, header_v1(1) + rpc_call(1, 100417, 1, 1))
    c.send(1, header_v1(1) + rpc_reply(1))
    for side, message in messages:
        c.send(side, message)
    return c


READ_LIST = struct.pack(">IIIIQI", 1, 24, 0x70, 100, 0x1000, 0) + bytes(8)


@planted("H-D1", "RFC 5666", "3.8")
def reply_with_a_read_list_gets_no_done():
    return old((0, header_v1(7) + rpc_call(7, 400, 1, 1)), (1, header_v1(7, lists=READ_LIST) + rpc_reply(7)))


@planted("H-D2", "RFC 5666", "3.8", "warning")
def done_without_a_read_list():
    return old((0, header_v1(7) + rpc_call(7, 400, 1, 1)), (1, header_v1(7) + rpc_reply(7)), (0, header_v1(7, kind=3)))


@planted("H-D5", "RFC 5666", "3.8", "warning")
def server_with_read_lists_grants_one_credit():
    return old((0, header_v1(7) + rpc_call(7, 400, 1, 1)),
               (1, header_v1(7, credits=1, lists=READ_LIST) + rpc_reply(7)), (0, header_v1(7, kind=3)))


@planted("H-M3", "RFC 5666", "3.9")
def msgp_with_a_chunk():
    return old((0, header_v1(7, kind=2, lists=struct.pack(">II", 4, 100) + READ_LIST) + rpc_call(7, 400, 1, 1)))


# Version two.
def two(*messages, private=b""):
    c = Connection.made(mpa_frame(0, private), mpa_frame(1, private))
    for side, message in messages:
        c.send(side, message)
    return c


@planted("V2-2", V2, "A.2")
def direction_differs_from_the_message():
    return two((0, header_v2(7, 1) + rpc_call(7)))


@planted("V2-7", V2, "A.4")
def reply_of_another_version():
    return two((0, header_v2(7, 0) + rpc_call(7)), (1, header_v1(7) + rpc_reply(7)))


@planted("V2-6", V2, "A.3")
def first_message_is_too_long():
    return two((0, header_v2(7, 0) + rpc_call(7) + bytes(2000)))


@planted("V2-14", V2, "A.5")
def type_of_version_one():
    return two((0, header_v2(7, 0, kind=3)))


@planted("V2-18", V2, "A.5")
def error_answers_an_error():
    error = struct.pack(">5I", 7, 2, 1, 4, 2)
    return two((0, header_v2(7, 0) + rpc_call(7)), (1, error), (0, error))


def option(xid, direction, kind, info):
    return struct.pack(">7I", xid, 2, 32, 5, direction, kind, len(info)) + info + bytes(-len(info) % 4)


@planted("V2-15", V2, "A.5")
def unknown_option():
    return two((0, option(7, 0, 9, b"")))


@planted("X-1", XCHAR, "4")
def characteristic_reaches_beyond_its_message():
    return two((0, option(7, 0, 1, struct.pack(">IIII", 1, 1, 0xffff, 5))))


@planted("X-2", XCHAR, "5")
def characteristic_is_too_short():
    return two((0, option(7, 0, 1, struct.pack(">III", 1, 1, 2) + bytes(4) + bytes(4))))


def asked(*answers):
    request = option(7, 0, 2, struct.pack(">IIII", 1, 1, 4, 8192))
    return two((0, header_v2(1, 0) + rpc_call(1)), (1, header_v2(1, 1) + rpc_reply(1)), (0, request), *answers)


def subset(*words_of):
    return struct.pack(f">{len(words_of) + 1}I", len(words_of), *words_of)


@planted("X-8", XCHAR, "6.3", "warning")
def done_and_rejected_overlap():
    return asked((1, option(7, 1, 3, subset(1) + subset(1) + subset())))


@planted("X-9", XCHAR, "6.3", "warning")
def answer_to_no_request():
    return asked((1, option(8, 1, 3, subset(1) + subset() + subset())))


@planted("X-12", XCHAR, "6.4", "warning")
def pending_request_is_never_cleared():
    return asked((1, option(7, 1, 3, subset() + subset() + subset(1))))


# RPC, RPCSEC_GSS, NFS.
@planted("RPC-TYPE", "RFC 5531", "9", base=SIW)
def message_is_neither_call_nor_reply(c):
    c.sends(0)[3].set(32, 2)


@planted("RPC-VERS", "RFC 5531", "9", base=SIW)
def version_three_of_rpc(c):
    c.sends(0)[3].set(36, 3)


@planted("RPC-CRED", "RFC 5531", "8.2", base=SIW)
def credential_of_404_bytes(c):
    unit = c.sends(0)[3]
    size = unit.word(56)
    unit.set(56, 404)
    unit.insert(60 + size, bytes(404 - size))


@planted("RPC-STAT", "RFC 5531", "9", base=SIW)
def unknown_accept_stat(c):
    c.sends(1)[3].set(48, 77)


@planted("G-30", "RFC 2203", "5.3.3.1", base=GSS)
def sequence_number_again(c):
    calls = [each for each in c.sends(0) if each.word(12) == 0 and words(each, 16, 20, 24) == [0, 0, 0] and each.word(52) == 6]
    for unit in calls[2:4]:
        unit.set(68, 5)
        size = unit.word(56)
        verifier = unit.word(60 + size + 4)
        unit.set(60 + size + 8 + verifier + -verifier % 4 + 4, 5)


@planted("G-26", "RFC 2203", "5.3.2.2", base=GSS)
def sequence_number_of_the_body_differs(c):
    unit = next(each for each in c.sends(0) if words(each, 12, 16, 20, 24) == [0, 0, 0, 0] and each.word(52) == 6 and each.word(72) == 2)
    size = unit.word(56)
    verifier = unit.word(60 + size + 4)
    at = 60 + size + 8 + verifier + -verifier % 4 + 4
    unit.set(at, unit.word(at) + 1)


@planted("G-61", R8166, "8.2.2.3", base=GSS)
def chunk_in_a_protected_call(c):
    unit = next(each for each in c.sends(0) if words(each, 12, 16, 20, 24) == [0, 0, 0, 0] and each.word(52) == 6 and each.word(72) == 2)
    unit.set(20, 1)
    unit.insert(24, struct.pack(">IIIQI", 1, 0x60, 100, 0x1000, 0))


@planted("U-1", "RFC 8267", "4", base=SIW)
def two_write_chunks(c):
    unit = call_with(c, "write")
    count = unit.word(24)
    unit.insert(28 + 16 * count, struct.pack(">IIIIQ", 1, 1, 0x61, 100, 0x9000))


@planted("U-3", "RFC 8267", "4", "warning", base=SIW)
def write_chunk_is_smaller_than_the_count(c):
    unit = next(each for each in c.sends(0) if words(each, 12, 16, 20) == [0, 0, 1] and len(each.data) > 150 and each.word(32) > 30000)
    unit.set(len(unit.data) - 24, 70000)


@planted("U-COUNT", "RFC 1813", "3.3.6", base=SIW)
def read_returns_more_than_asked(c):
    unit = next(each for each in c.sends(0) if words(each, 12, 16, 20) == [0, 0, 1] and len(each.data) > 150 and each.word(32) > 30000)
    unit.set(len(unit.data) - 24, 1000)


@planted("U-STAT", "RFC 1813", "2.6", base=SIW)
def unknown_status_of_nfs(c):
    c.sends(1)[3].set(52, 99)


class ExplainCheck(unittest.TestCase):
    def check(self, path):
        result = command_fixture.run("explain", "check", "--json", path)
        self.assertEqual(result.stderr, "")
        return [json.loads(line) for line in result.stdout.splitlines()], result.returncode

    def test_every_planted_violation_is_named_with_its_section(self):
        self.assertGreaterEqual(len(PLANTS), 60)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "planted.pcap"
            for name, rule, document, section, severity, base, function in PLANTS:
                with self.subTest(name):
                    connection = load(base) if base else function()
                    if base:
                        function(connection)
                    connection.write(path)
                    found, status = self.check(path)
                    wanted = (rule, severity, document, section)
                    named = [(each["rule"], each["severity"], each["document"], each["section"]) for each in found]
                    self.assertIn(wanted, named)
                    self.assertEqual(status, 1 if any(each[1] == "error" for each in named) else 0)

    def test_captures_of_linux_have_no_violation(self):
        for packed in sorted(plant.FOLDER.glob("*.pcap.xz")):
            with self.subTest(packed.name), tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "capture.pcap"
                plant.write_packets(path, plant.packets_of(packed))
                found, status = self.check(path)
                self.assertEqual([each for each in found if each["severity"] == "error"], [])
                self.assertEqual(status, 0)
                known = {"V1-P2", "PD-R2", "V1-W2", "MPA-PAD"}  # what Linux is known for
                self.assertLessEqual({each["rule"] for each in found}, known)
                pairs = [(each["rule"], each["connection"]) for each in found]
                self.assertEqual(len(pairs), len(set(pairs)), "a deviation is reported once")

    def test_losses_and_damage_over_roce_are_named(self):
        packets = list(plant.packets_of(plant.FOLDER / RXE))
        sends = [i for i, (_, each) in enumerate(packets) if each[42] in (0, 4) and each[36:38] == b"\x12\xb7"]
        acknowledgements = [i for i, (_, each) in enumerate(packets) if each[42] == 17]

        def named(edited):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "roce.pcap"
                plant.write_packets(path, edited)
                return {(each["rule"], each["document"], each["section"]) for each in self.check(path)[0]}

        dropped = packets[:sends[5]] + packets[sends[5] + 1:]
        self.assertIn(("IB-PSN", "IBTA", "9.7.1"), named(dropped))
        flipped = [(time, bytearray(each)) for time, each in packets]
        flipped[sends[5]][1][-1] ^= 1
        self.assertIn(("IB-ICRC", "IBTA", "7.8.1"), named(flipped))
        refused = [(time, bytearray(each)) for time, each in packets]
        refused[acknowledgements[5]][1][54] = 0x20
        self.assertIn(("IB-NAK", "IBTA", "9.7.5.2"), named(refused))


if __name__ == "__main__":
    unittest.main()
