#!/usr/bin/env python3
"""`rpcrdma explain` on what our own client and server say to each other: it finds no violation, in either version, in the profile of
RFC 5666, with and without CRCs, and tells every call."""
import collections
import json
import pathlib
import tempfile
import unittest

from command_fixture import Server, run

SIZE = 3000000
KINDS = {
    "version one": ([], []),
    "version two": (["--rpcrdma-version", "auto"], ["--rpcrdma-version", "2"]),
    "RFC 5666": (["--profile", "rfc5666"], ["--profile", "rfc5666"]),
    "no CRC": (["--crc", "off"], ["--crc", "off"]),
    "small messages": (["--inline", "1024"], ["--inline", "1024"]),
}


class ExplainOwn(unittest.TestCase):
    def explained(self, capture):
        calls = [json.loads(line) for line in run("explain", "calls", "--json", capture).stdout.splitlines()]
        found = [json.loads(line) for line in run("explain", "check", "--json", capture).stdout.splitlines()]
        self.assertEqual(found, [])
        return [each for each in calls if each.get("program")]

    def test_no_rule_is_broken_and_every_call_is_told(self):
        for kind, (of_server, of_client) in KINDS.items():
            with self.subTest(kind), tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                (folder / "files").mkdir()
                (folder / "big").write_bytes(bytes(range(256)) * (SIZE // 256))
                server = Server(folder / "files", *of_server)
                try:
                    for name, words in {"ping": ["ping", server.url, "--count", "50"], "put": ["put", server.url, folder / "big"],
                                        "get": ["get", server.url, "big", folder / "copy"]}.items():
                        result = run(*words, *of_client, "--capture", folder / f"{name}.pcapng")
                        self.assertEqual(result.returncode, 0, result.stderr)
                finally:
                    server.stop()
                pings = [each for each in self.explained(folder / "ping.pcapng") if each["procedure"] == 0]
                self.assertEqual(len(pings), 50)
                self.assertEqual({(each["call_form"], each["reply_form"], each["status"]) for each in pings},
                                 {("short", "short", "SUCCESS")})
                put = self.explained(folder / "put.pcapng")
                size = SIZE // 256 * 256
                self.assertEqual(sum(each["read_bytes"] for each in put), size)
                self.assertEqual(collections.Counter(each["call_form"] for each in put)["chunked"], 3)
                got = self.explained(folder / "get.pcapng")
                by = "read_bytes" if kind == "RFC 5666" else "write_bytes"
                self.assertEqual(sum(each[by] for each in got), size)
                self.assertEqual(collections.Counter(each["reply_form"] for each in got)["chunked"], 3)

    def test_a_change_of_receives_breaks_no_rule(self):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(folder, "--rpcrdma-version", "auto", "--inline", "8192", "--receive-size", "64k")
            capture = pathlib.Path(folder) / "v2.pcapng"
            try:
                result = run("ping", server.url, "--count", "20", "--rpcrdma-version", "2", "--request", "rbsiz=32k", "--capture", capture)
                self.assertEqual(result.returncode, 0, result.stderr)
            finally:
                server.stop()
            self.explained(capture)


if __name__ == "__main__":
    unittest.main()
