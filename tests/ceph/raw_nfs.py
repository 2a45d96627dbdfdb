"""Single calls of NFS version 3 by TCP, for what no command shows: verifiers, and writes without a COMMIT."""
import itertools
import socket
import struct
import threading
import time

MOUNT, NFS = (100005, 3), (100003, 3)
MNT, LOOKUP, READ, WRITE, MKDIR, COMMIT = 1, 3, 6, 7, 9, 21
UNSTABLE = 0
JUKEBOX = 10008
VERIFIER = 8  # bytes
ATTRIBUTES = 84  # bytes of fattr3
BOUND_S = 60


def opaque(data):
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


class Call:
    """The results, read from the front."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def word(self):
        return struct.unpack(">I", self.fixed(4))[0]

    def fixed(self, size):
        self.at += size
        return self.data[self.at - size:self.at]

    def opaque(self):
        size = self.word()
        data = self.fixed(size)
        self.at += -size % 4
        return data

    def skip_attributes(self):
        """post_op_attr"""
        if self.word():
            self.fixed(ATTRIBUTES)

    def skip_both(self):
        """wcc_data"""
        if self.word():
            self.fixed(24)
        self.skip_attributes()


class Failed(Exception):
    def __init__(self, status):
        super().__init__(f"status {status}")
        self.status = status


class Client:
    """As the superuser, or as (user, group, other groups). A call that is answered with JUKEBOX is made again."""

    def __init__(self, port, export, identity=(0, 0, ())):
        user, group, others = identity
        self.credential = opaque(struct.pack(">I", 0) + opaque(b"test") + struct.pack(">III", user, group, len(others)) +
                                 b"".join(struct.pack(">I", each) for each in others))
        self.xids = itertools.count(1)
        self.socket = socket.create_connection(("127.0.0.1", port), BOUND_S)
        self.root = self.call(MOUNT, MNT, opaque(export.encode())).opaque()

    def close(self):
        self.socket.close()

    def received(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the gateway has closed the connection")
            data += more
        return data

    def call(self, program, procedure, arguments):
        limit, pause = time.monotonic() + BOUND_S, threading.Event()
        while True:
            message = struct.pack(">IIIIII", next(self.xids), 0, 2, *program, procedure)
            message += struct.pack(">I", 1) + self.credential + struct.pack(">II", 0, 0) + arguments
            self.socket.sendall(struct.pack(">I", 0x80000000 | len(message)) + message)
            reply, last = b"", 0
            while not last:
                last, size = divmod(struct.unpack(">I", self.received(4))[0], 0x80000000)
                reply += self.received(size)
            results = Call(reply)
            header = [results.word() for _ in range(6)]  # XID, REPLY, accepted, verifier, accept_stat
            if header[1:] != [1, 0, 0, 0, 0]:
                raise Failed(f"of the call {header}")
            status = results.word()
            if status == 0:
                return results
            if status != JUKEBOX or time.monotonic() > limit:
                raise Failed(status)
            pause.wait(0.1)

    def look_up(self, name):
        return self.call(NFS, LOOKUP, opaque(self.root) + opaque(name.encode())).opaque()

    def make_directory(self, above, name, group):
        attributes = struct.pack(">IIIIIIII", 1, 0o755, 0, 1, group, 0, 0, 0)  # mode and group
        self.call(NFS, MKDIR, opaque(above) + opaque(name.encode()) + attributes)

    def write(self, file, offset, data):
        """Without a COMMIT: the verifier."""
        results = self.call(NFS, WRITE, opaque(file) + struct.pack(">QII", offset, len(data), UNSTABLE) + opaque(data))
        results.skip_both()
        results.fixed(8)
        return results.fixed(VERIFIER)

    def commit(self, file):
        results = self.call(NFS, COMMIT, opaque(file) + struct.pack(">QI", 0, 0))
        results.skip_both()
        return results.fixed(VERIFIER)

    def read(self, file, offset, count):
        results = self.call(NFS, READ, opaque(file) + struct.pack(">QI", offset, count))
        results.skip_attributes()
        results.fixed(8)
        return results.opaque()
