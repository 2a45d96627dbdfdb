#!/usr/bin/env python3
"""Makes the .messages files of this folder (README.txt says what is in them).

usage: make.py NAME LISTING MESSAGES KEYS > NAME.messages

  LISTING   the RPC messages of the capture, one a line, in order, with " | " in it:
            "NUMBER SECONDS DIRECTION ... | ...". Direction is > for a Call and < for a Reply; the
            word TCP before the bar is for messages of TCP, all others are of RDMA
  MESSAGES  a folder with one file a message, 0001-call.bin or 0001-reply.bin, the number being
            that of the line: the message as it was put together from the inline part, or from the
            Read chunk of position zero, or from the Reply chunk
  KEYS      lines of "NAME.pcap HANDLE ENCTYPE KEY", handle and key in hexadecimal digits
"""
import pathlib
import sys

BYTES_A_LINE = 64


def digest(text):
    """FNV-1a of 64 bits."""
    value = 0xcbf29ce484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return value


def lines(name, listing, messages, keys):
    for line in pathlib.Path(keys).read_text().splitlines():
        capture, handle, enctype, key = line.split()
        if capture == name + ".pcap":
            yield "key %s %s %s\n" % (handle, enctype, key)
    count = 0
    for line in pathlib.Path(listing).read_text().splitlines():
        if " | " not in line:
            continue
        count += 1
        words = line.partition(" | ")[0].split()
        direction, transport = words[2], "tcp" if "TCP" in words else "rdma"
        kind = {">": "call", "<": "reply"}[direction]
        message = (pathlib.Path(messages) / ("%04d-%s.bin" % (count, kind))).read_bytes()
        yield "%s %s %s %d\n" % (direction, transport, words[1], len(message))
        for at in range(0, len(message), BYTES_A_LINE):
            yield message[at:at + BYTES_A_LINE].hex() + "\n"


def main():
    text = "".join(lines(*sys.argv[1:]))
    sys.stdout.write("%send %016x\n" % (text, digest(text)))


if __name__ == "__main__":
    main()
