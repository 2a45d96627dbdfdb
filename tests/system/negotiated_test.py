#!/usr/bin/env python3
"""The line that says what was negotiated: each client command prints it with --verbose, the server at debug."""
import os
import pathlib
import re
import signal
import subprocess
import unittest

from command_fixture import BOUND_S, COMMAND, CommandFixture, run

# The server's --ird is the client's ORD.
LINE = ("siwarp, RPC-over-RDMA version 1, {credits}, inline up to 4096 bytes out and 4096 in, remote invalidation, MPA "
        "CRC, RDMA Reads at a time: 6 of the peer (IRD), 3 of this side (ORD)")
# Subcommands that speak to no server.
LOCAL = {"top", "serve", "info", "explain", "completion", "help", "blob", "run"}
# mount_test has it: a mount takes FUSE.
ELSEWHERE = {"mount"}
# It says the terms without --verbose, on standard output.
ALWAYS = {"doctor"}


class NegotiatedTest(CommandFixture):
    def setUp(self):
        super().setUp()
        (self.served / "file").write_text("text")
        (self.root / "blobs").mkdir()
        (self.root / "sent").write_text("sent")
        self.server = subprocess.Popen(
            [COMMAND, "serve", "--blob", self.root / "blobs", "--nfs", f"{self.served}:no_root_squash", "--export", "/data",
             "--bench", "--nfs-tcp-port", "0", "--port", "0", "--listen", "127.0.0.1", "--provider", "siwarp", "--ird", "3",
             "--ord", "200", "--credits", "9", "--inline", "4096", "--handle-key", self.root / "key", "--log-level", "debug"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ready = self.server.stdout.readline().split()
        urls = {url.split(":")[0]: url for url in ready[1:]}
        self.blob, self.nfs, self.nfs_tcp = urls["rdma"], urls["nfs+rdma"], urls["nfs+tcp"]

    def tearDown(self):
        if self.server.poll() is None:
            self.server.kill()
        self.server.communicate(timeout=BOUND_S)
        super().tearDown()

    def said(self, *words):
        result = run(*words)
        self.assertEqual(result.returncode, 0, (words, result.stderr))
        return result.stderr

    def commands(self):
        """The words of each client command that speaks to the server, by its name."""
        blob, nfs, sent = self.blob, self.nfs, self.root / "sent"
        return {
            "ping": ["ping", blob, "--count", "1"], "put": ["put", blob, sent, "name"],
            "get": ["get", blob, "name", self.root / "got"], "ls": ["ls", blob], "rm": ["rm", blob, "name"],
            "cat": ["cat", f"{nfs}/file"], "cp": ["cp", f"{nfs}/file", self.root / "copied"],
            "stat": ["stat", f"{nfs}/file"], "mkdir": ["mkdir", f"{nfs}/made"], "mv": ["mv", f"{nfs}/file", f"{nfs}/moved"],
            "df": ["df", nfs], "programs": ["programs", blob],
            "bench": ["bench", blob, "--cases", "null_qd1", "--seconds", ".01", "--rounds", "1"],
        }

    def test_each_client_command_says_it(self):
        listed = re.search(r"Subcommands:\n(.*?)\n\n", run("--help").stdout, re.DOTALL).group(1)
        names = set(re.findall(r"^  (\w+)", listed, re.MULTILINE))
        self.assertEqual(names - LOCAL - ALWAYS - ELSEWHERE, set(self.commands()), "a subcommand is missing here")
        for name, words in self.commands().items():
            with self.subTest(name):
                depth = [] if name == "bench" else ["--ird", "6", "--ord", "8", "--credits", "20"]
                expected = LINE.format(credits="1 credit" if name == "bench" else "9 credits")  # of its case
                if name == "bench":
                    expected = expected.replace("6 of the peer", "16 of the peer")
                if name == "bench" and "has no benchmark" in run(*words).stderr:
                    print("bench is left out: this build has none, since it has a sanitizer")
                    continue
                said = self.said(*words, "--verbose", *depth)
                self.assertEqual(said.count(expected), 1, said)
                if name != "bench":
                    host = self.blob.removeprefix("rdma://")
                    self.assertTrue(said.startswith(f"rpcrdma: {host}: "), said)

    def test_doctor_says_it_always(self):
        result = run("doctor", "--provider", "siwarp", self.nfs, "--ird", "6", "--ord", "8", "--credits", "20")
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        self.assertEqual(result.stdout.count(LINE.format(credits="9 credits")), 1, result.stdout)

    def test_nothing_is_said_without_it(self):
        self.assertEqual(self.said("ls", self.blob), "")
        self.assertEqual(self.said("ls", self.nfs), "")

    def test_terms_follow_the_options(self):
        said = self.said("ls", self.blob, "-v", "--inline", "1024", "--crc", "off", "--rpcrdma-version", "2")
        for each in ("RPC-over-RDMA version 2", "MPA CRC", "16 of the peer (IRD)"):
            self.assertIn(each, said)
        self.assertIn("inline up to 1024 bytes out and 1024 in", self.said("ls", self.blob, "-v", "--inline", "1024"))
        self.assertIn("no RDMA, and nothing is negotiated", self.said("ls", self.nfs_tcp, "-v"))

    def test_server_says_it_at_debug(self):
        self.said("ls", self.blob, "--ird", "6")
        self.server.send_signal(signal.SIGTERM)
        _, log = self.server.communicate(timeout=BOUND_S)
        self.assertRegex(log, r"debug connections: 127\.0\.0\.1:\d+ negotiated: siwarp, 9 credits, inline up to 4096 bytes out and 4096 in, "
                              r"remote invalidation, MPA CRC, RDMA Reads at a time: 3 of the peer \(IRD\), 6 of this side")

    def test_depths_out_of_range_are_refused(self):
        for word in ("--ird", "--ord"):
            result = run("ls", self.blob, word, "256")
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(word, result.stderr)

    def test_put_without_reads_fails_and_says_why(self):
        big = self.root / "big"
        big.write_bytes(os.urandom(200_000))
        result = run("put", self.blob, big, "name", "--ird", "0")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("RDMA Reads", result.stderr)
        self.assertEqual(list(pathlib.Path(self.root / "blobs").glob("name")), [])


if __name__ == "__main__":
    unittest.main()
