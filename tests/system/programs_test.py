#!/usr/bin/env python3
"""`rpcrdma programs`: the list of rpcbind, asked over RDMA and TCP; rpcbind_test.py asks a daemon."""
import json
import socket
import struct
import threading
import unittest

from command_fixture import BOUND_S, CommandFixture, receive, run


class Programs(CommandFixture):
    def rows(self, *arguments):
        listed = run("programs", *arguments)
        self.assertEqual((listed.returncode, listed.stderr), (0, ""))
        head, *rows = (line.split() for line in listed.stdout.splitlines())
        self.assertEqual(head, ["PROGRAM", "VERSION", "NETID", "ADDRESS", "OWNER", "NAME"])
        return rows

    def test_server_lists_its_programs_over_rdma_and_tcp(self):
        server = self.serve("--nfs", f"{self.root}:name=/x", "--nfs-tcp-port", "0", "--handle-key", self.root / "key",
                            "--tcp-port", "0", "--provider", "siwarp", "--bench")
        rdma, tcp = server.urls[:2]
        self.assertTrue(tcp.startswith("tcp://"), server.urls)
        for url in (rdma, tcp):
            rows = self.rows(url)
            for program, version, name in (("537002057", "1", "blob"), ("100003", "3", "nfs"), ("100005", "3", "mountd"),
                                           ("100021", "4", "nlockmgr"), ("100000", "4", "portmapper"),
                                           ("100000", "3", "portmapper")):
                self.assertEqual([(row[2], row[3], row[5]) for row in rows if row[:2] == [program, version]],
                                 [("rdma", f"127.0.0.1:{server.port}", name)])
            made = json.loads(run("programs", url, "--json").stdout)
            self.assertEqual((made["rpcbind_version"], made["is_cut"], len(made["programs"])), (4, False, len(rows)))
            self.assertEqual(made["programs"][0]["endpoint"], f"127.0.0.1:{server.port}")
            self.assertEqual(list(made["programs"][0]),
                             ["program", "version", "netid", "address", "endpoint", "owner", "name"])

    def hostile(self, *replies):
        """The URL of a rpcbind that answers each call with one of these results, in turn."""
        listening = socket.create_server(("127.0.0.1", 0))
        listening.settimeout(BOUND_S)

        def answer():
            peer, _ = listening.accept()
            with peer:
                for results in replies:
                    call = receive(peer, struct.unpack(">I", receive(peer, 4))[0] & 0x7fffffff)
                    message = call[:4] + struct.pack(">IIIII", 1, 0, 0, 0, 0) + results
                    peer.sendall(struct.pack(">I", 1 << 31 | len(message)) + message)
                peer.recv(1)

        answering = threading.Thread(target=answer)
        answering.start()
        self.addCleanup(listening.close)
        self.addCleanup(answering.join)
        return f"tcp://127.0.0.1:{listening.getsockname()[1]}"

    @staticmethod
    def entry(netid=b"tcp", address=b"127.0.0.1.0.1", owner=b"me"):
        texts = (struct.pack(">I", len(text)) + text + bytes(-len(text) % 4) for text in (netid, address, owner))
        return struct.pack(">III", 1, 7, 1) + b"".join(texts)

    def test_hostile_lists_are_cut_and_printed_safely(self):
        cut = run("programs", self.hostile(self.entry() * 5000 + bytes(4)))
        self.assertEqual((cut.returncode, len(cut.stdout.splitlines())), (0, 4097))
        self.assertIn("has more than 4096 entries, and the rest is left out", cut.stderr)
        ugly = run("programs", self.hostile(self.entry(b"\x1b[2J", b"a\nb" * 300, b"\xff") + bytes(4)))
        self.assertEqual((ugly.returncode, ugly.stderr), (0, ""))
        self.assertEqual(len(ugly.stdout.splitlines()), 2)
        self.assertNotIn("\x1b", ugly.stdout)
        json.loads(run("programs", "--json", self.hostile(self.entry(b"\x00", b"\xff", b'"') + bytes(4))).stdout)
        for nonsense in (b"\xff" * 8, self.entry(), self.entry(owner=b"x" * 2000) + bytes(4), b""):
            wrong = run("programs", self.hostile(nonsense))
            self.assertEqual((wrong.returncode, wrong.stdout), (1, ""), nonsense[:20])
            self.assertIn("reply", wrong.stderr)

    def test_mistakes_are_named(self):
        for arguments, code, text in ((("tcp://127.0.0.1:1",), 3, "is rpcbind running there?"),
                                      (("rdma://127.0.0.1:1", "--provider", "siwarp"), 3, "127.0.0.1:1"),
                                      (("http://x",), 2, "http://x"), ((), 2, "URL"),
                                      (("tcp://127.0.0.1:1", "--credits", "3"), 2, "--credits is for RDMA"),
                                      (("tcp://127.0.0.1:1", "--capture", "x"), 2, "--capture is for RDMA"),
                                      (("127.0.0.1", "--inline", "4096"), 2, "--inline is for RDMA")):
            result = run("programs", *arguments)
            self.assertEqual((result.returncode, result.stdout), (code, ""), (arguments, result.stderr))
            self.assertIn(text, result.stderr)
        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        late = run("programs", f"tcp://127.0.0.1:{silent.getsockname()[1]}", "--timeout", "0.05")
        self.assertEqual(late.returncode, 1, late.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
