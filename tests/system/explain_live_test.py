#!/usr/bin/env python3
"""`rpcrdma explain --pid`: a running server shows its traffic from inside, with the lines that a capture of it has."""
import array
import collections
import fcntl
import json
import os
import pathlib
import signal
import socket
import subprocess
import termios
import unittest

from command_fixture import BOUND_S, COMMAND, WatchedFixture, run, wait_until

# As the capture has it. Times are others, and so is how often the server wrote: a capture counts FPDUs.
SAME = ("xid", "program", "version", "procedure", "name", "status", "succeeded", "call_form", "call_reason", "call_send", "call_size",
        "credits_asked", "reply_form", "reply_reason", "reply_send", "reply_size", "credits_granted", "reads", "read_bytes",
        "write_bytes", "backward", "uncertain")


F_SETPIPE_SZ = 1031  # <fcntl.h>; Python has it since 3.10


def bytes_in(pipe):
    """How many bytes wait in it."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def calls_of(text):
    found = [json.loads(line) for line in text.splitlines()]
    return [{name: each.get(name) for name in SAME} for each in found if "xid" in each]


def in_order(calls):
    return sorted(calls, key=lambda each: (each["xid"], each["program"] or 0, each["procedure"] or 0))


class LiveTest(WatchedFixture):
    def setUp(self):
        super().setUp()
        self.live = self.root / "stat.live"

    def look(self, *arguments):
        """Begins to look at the server, and waits until it shows what comes from now on."""
        looking = subprocess.Popen([COMMAND, "explain", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, looking)
        looking.greeting = looking.stderr.readline()
        return looking

    @staticmethod
    def end(looking):
        if looking.poll() is None:
            looking.kill()
            looking.wait(timeout=BOUND_S)
        looking.stdout.close()
        looking.stderr.close()

    def ended(self, looking):
        """Ends it as a user does. Returns what it has printed."""
        looking.send_signal(signal.SIGINT)
        output, errors = looking.communicate(timeout=BOUND_S)
        self.assertEqual((looking.returncode, errors), (0, ""))
        return output

    def exchange(self, server):
        """All forms: short, chunked and Long Calls and replies."""
        big = self.file("big", 3000000)
        (self.root / "export" / "names").mkdir()
        for i in range(300):
            (self.root / "export" / "names" / f"a-name-of-some-length-{i}").touch()
        for words in (("ping", server.url, "--count", "20"), ("put", server.url, big), ("get", server.url, "big", self.root / "copy"),
                      ("cp", big, server.nfs + "/big"), ("cp", server.nfs + "/big", self.root / "again"),
                      ("ls", "-l", server.nfs + "/names"), ("ls", server.nfs + "/no-such-name")):
            run(*words)

    def test_lines_are_those_of_a_capture_of_the_same_traffic(self):
        server = self.exported("--capture", self.root / "all.pcapng")
        looking = self.look(self.live, "--json")
        self.assertIn("looking at the server's traffic", looking.greeting)
        self.exchange(server)
        seen = calls_of(self.ended(looking))
        server.stop()
        captured = calls_of(run("explain", self.root / "all.pcapng", "--json").stdout)
        self.assertGreater(len(seen), 60)
        self.assertEqual([each for each in seen if each["reply_form"] is None], [], "each call was answered")
        self.assertEqual({each["call_form"] for each in seen}, {"short", "chunked"})
        self.assertEqual({each["reply_form"] for each in seen}, {"short", "chunked", "long"})
        self.assertEqual(in_order(seen), in_order(captured))

    def test_version_two_is_seen_as_well(self):
        server = self.watched("--rpcrdma-version", "auto", "--capture", self.root / "all.pcapng")
        looking = self.look(self.live, "--json")
        self.assertEqual(run("ping", server.url, "--count", "20", "--rpcrdma-version", "2").returncode, 0)
        seen = calls_of(self.ended(looking))
        server.stop()
        captured = calls_of(run("explain", self.root / "all.pcapng", "--json").stdout)
        self.assertGreaterEqual(len(seen), 20)
        self.assertEqual(in_order(seen), in_order(captured))

    def test_interrupt_loses_no_line_that_waits_for_a_slow_reader(self):
        server = self.watched("--capture", self.root / "all.pcapng")
        self.assertEqual(run("ping", server.url, "--count", "100").returncode, 0)
        server.stop()
        with open(self.root / "all.pcapng", "rb") as capture:
            explaining = subprocess.Popen([COMMAND, "explain", "-", "--json"], stdin=capture, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, explaining)
        room = fcntl.fcntl(explaining.stdout, F_SETPIPE_SZ, 4096)
        status = pathlib.Path(f"/proc/{explaining.pid}/stat")
        # Its input never makes it wait, so that it sleeps in a write.
        wait_until(lambda: bytes_in(explaining.stdout) > room - 1000 and status.read_text().split()[2] == "S")
        explaining.send_signal(signal.SIGINT)
        output, errors = explaining.communicate(timeout=BOUND_S)
        self.assertEqual((explaining.returncode, errors), (0, ""))
        self.assertGreater(len(output), room)
        for line in output.splitlines():
            json.loads(line)

    def test_conforming_traffic_breaks_no_rule(self):
        server = self.exported()
        looking = self.look("check", "--json", self.live)
        self.exchange(server)
        self.assertEqual(self.ended(looking), "")

    def test_calls_over_tcp_are_seen(self):
        server = self.exported()
        looking = self.look(self.live, "--json")
        self.assertEqual(run("cp", self.file("small", 30000), server.nfs_tcp + "/small").returncode, 0)
        lines = [json.loads(line) for line in self.ended(looking).splitlines()]
        self.assertEqual({each["transport"] for each in lines if "xid" in each}, {"TCP"})
        by_name = collections.Counter(each["name"] for each in lines if "xid" in each)
        self.assertEqual(by_name["NFSv3 WRITE"], 1, by_name)

    def test_process_names_its_server(self):
        folder = self.root / "run"
        (folder / "rpcrdma").mkdir(parents=True)
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder), "RUNTIME_DIRECTORY": str(folder / "rpcrdma")}
        server = self.serve("--provider", "siwarp", env=environment)
        sockets = sorted(path.suffix for path in (folder / "rpcrdma").iterdir())
        self.assertEqual(sockets, [".live", ".sock"])
        looking = subprocess.Popen([COMMAND, "explain", "summary", "--pid", str(server.process.pid)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(self.end, looking)
        self.assertIn("looking", looking.stderr.readline())
        self.assertEqual(run("ping", server.url, "--count", "3").returncode, 0)
        self.assertIn("NULL", self.ended(looking))
        server.stop()
        self.assertEqual(list((folder / "rpcrdma").iterdir()), [])

    def test_connection_that_was_there_before_is_seen_from_now_on(self):
        server = self.watched()
        pinging = subprocess.Popen([COMMAND, "ping", server.url, "--interval", "0.01"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, pinging)
        pinging.stdout.readline()
        looking = self.look("check", self.live, "--json")
        wait_until(lambda: self.calls_at(server) > 20)
        self.assertEqual(self.ended(looking), "", "rules that need the beginning are not judged")
        again = self.look(self.live, "--json")
        line = json.loads(again.stdout.readline())
        self.assertEqual((line["procedure"], line["status"]), (0, "SUCCESS"))

    def calls_at(self, server):
        figures = json.loads(run("stat", "--json", self.socket).stdout)
        return sum(each["calls"] for each in figures["procedures"])

    def test_interrupt_shows_all_that_has_happened_before(self):
        server = self.watched()
        for _ in range(20):
            looking = self.look(self.live, "--json")
            run("ping", server.url, "--count", "7")
            self.assertEqual(len([each for each in calls_of(self.ended(looking)) if each["procedure"] == 0]), 7)

    def test_end_of_the_server_ends_it(self):
        server = self.watched()
        looking = self.look(self.live)
        self.assertEqual(run("ping", server.url, "--count", "1").returncode, 0)
        self.assertEqual(server.stop()[0], 0)
        output, errors = looking.communicate(timeout=BOUND_S)
        self.assertEqual((looking.returncode, errors), (0, ""))
        self.assertIn("NULL", output)

    def test_second_reader_is_refused_with_the_reason_and_has_its_turn_later(self):
        self.watched()
        first = self.look(self.live)
        second = run("explain", self.live)
        self.assertEqual((second.returncode, second.stdout), (1, ""))
        self.assertIn("somebody else looks at its traffic", second.stderr)
        self.ended(first)
        self.assertIn("looking", self.look(self.socket).greeting)

    def test_reader_that_does_not_read_costs_the_server_no_call_and_no_memory(self):
        server = self.watched()
        stalled = socket.socket(socket.AF_UNIX)
        stalled.settimeout(BOUND_S)
        self.addCleanup(stalled.close)
        stalled.connect(str(self.live))
        self.assertTrue(stalled.recv(14).startswith(b"rpcrdma tap 1"))
        big = self.file("big", 20000000)
        self.assertEqual(run("put", server.url, big, "--size", "4K").returncode, 0)
        before = self.resident(server)
        self.assertEqual(run("get", server.url, "big", self.root / "copy", "--size", "4K").returncode, 0)
        self.assertLess(self.resident(server) - before, 30 << 20)

    @staticmethod
    def resident(server):
        with open(f"/proc/{server.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def test_wrong_places_are_named(self):
        self.watched()
        self.assertIn("has no socket", run("explain", "--pid", "1").stderr)
        self.assertIn("takes a capture file", run("explain").stderr)
        self.assertIn("stands in place of the file", run("explain", "ladder", "12ab", "x.pcap", "--pid", "1").stderr)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(self.root / "other"))
            other.listen()
            other.settimeout(BOUND_S)
            wrong = subprocess.Popen([COMMAND, "explain", str(self.root / "other")], stderr=subprocess.PIPE, text=True)
            client, _ = other.accept()
            client.sendall(b"hello\n")
            client.close()
            self.assertIn("not one at which a server shows its traffic", wrong.communicate(timeout=BOUND_S)[1])
            self.assertEqual(wrong.returncode, 1)


if __name__ == "__main__":
    unittest.main()
