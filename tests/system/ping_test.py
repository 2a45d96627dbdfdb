#!/usr/bin/env python3
"""`rpcrdma ping` without --count: a line for each call, and a summary when somebody has seen enough."""
import json
import pathlib
import signal
import socket
import subprocess
import threading
import unittest

from command_fixture import BOUND_S, COMMAND, CommandFixture, run, wait_until

LINE = r"^NULL {} from 127\.0\.0\.1:\d+: \d+\.\d us\n$"
FAST = ("--interval", "0.001")


class Ping(CommandFixture):
    def start(self, *arguments):
        process = subprocess.Popen([COMMAND, "ping", *map(str, arguments)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def ended(self, process, number=signal.SIGINT):
        """The exit status, what it printed since the last line that was read, and what it said."""
        process.send_signal(number)
        output, errors = process.stdout.read(), process.stderr.read()  # communicate() loses what readline() has read ahead
        return process.wait(timeout=BOUND_S), output, errors

    def test_goes_on_until_a_signal_and_sums_up(self):
        server = self.serve()
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start(server.url, *FAST)
            for call in (1, 2, 3):
                self.assertRegex(process.stdout.readline(), LINE.format(call))
            code, output, errors = self.ended(process, number)
            self.assertEqual((code, errors), (0, ""))
            *lines, _, summary, latency = output.splitlines()
            self.assertEqual(summary, f"{3 + len(lines)} NULL calls to program 537002057 version 1, 0 lost")
            self.assertRegex(latency, r"^  min [\d.]+  avg [\d.]+  p50 [\d.]+  p99 [\d.]+  max [\d.]+ us$")

    def test_json_has_an_object_for_each_call_and_one_for_the_summary(self):
        process = self.start(self.serve().url, "--json", *FAST)
        first = json.loads(process.stdout.readline())
        self.assertEqual((first["call"]["number"], sorted(first["call"])), (1, ["number", "peer", "us"]))
        code, output, _ = self.ended(process)
        *calls, summary = map(json.loads, output.splitlines())
        self.assertEqual([each["call"]["number"] for each in calls], list(range(2, 2 + len(calls))))
        self.assertEqual((code, summary["count"], summary["lost"]), (0, 1 + len(calls), 0))
        latency = summary["latency"]
        self.assertLessEqual(latency["min_us"], latency["avg_us"])
        self.assertLessEqual(latency["p99_us"], latency["max_us"])

    def test_interrupt_ends_the_pause(self):
        process = self.start(self.serve().url, "--interval", 3600)
        self.assertRegex(process.stdout.readline(), LINE.format(1))
        code, output, _ = self.ended(process)
        self.assertEqual(code, 0)
        self.assertTrue(output.startswith("\n1 NULL calls to program "), output)

    def test_interrupt_ends_connecting(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            silent.settimeout(BOUND_S)
            process = self.start(f"rdma://127.0.0.1:{silent.getsockname()[1]}", "--provider", "siwarp")
            peer, _ = silent.accept()
            with peer:
                peer.recv(1)  # it waits for the answer to this
                code, output, errors = self.ended(process)
        self.assertEqual((code, output), (3, ""))
        self.assertEqual(errors, "rpcrdma: interrupted before there was a connection\n")

    @staticmethod
    def unread(port):
        """Counts the bytes that connections to this port of 127.0.0.1 have received and nobody has read."""
        rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(int(row[4].split(":")[1], 16) for row in rows if row[1] == f"0100007F:{port:04X}" and row[3] == "01")

    def stops_before_a_call(self, server):
        """Stops a server. Returns whether a call comes to it then; one that it had read when it stopped is the last."""
        server.process.send_signal(signal.SIGSTOP)
        try:
            wait_until(lambda: self.unread(server.port) > 0, 2)
        except AssertionError:
            return False
        return True

    def test_interrupt_ends_waiting_for_an_answer(self):
        server = self.serve("--provider", "siwarp")
        process = self.start(server.url, "--provider", "siwarp", "--timeout", 3600, *FAST)
        self.addCleanup(server.process.send_signal, signal.SIGCONT)
        self.read_until(process, " from ")
        while not self.stops_before_a_call(server):
            server.process.send_signal(signal.SIGCONT)
            self.read_until(process, " from ")
        code, output, errors = self.ended(process)
        self.assertEqual((code, errors), (0, ""))
        self.assertRegex(output, r"(?m)^\d+ NULL calls to program 537002057 version 1, 0 lost$")

    def test_calls_without_an_answer_are_shown_and_counted(self):
        """The server is stopped, goes on, dies, and comes back: the calls between are lost, and no other."""
        server = self.serve("--provider", "siwarp")
        process = self.start(server.url, "--provider", "siwarp", "--timeout", 0.3, *FAST)
        self.read_until(process, " from ")
        server.process.send_signal(signal.SIGSTOP)
        self.read_until(process, " lost: ")
        server.process.send_signal(signal.SIGCONT)
        self.read_until(process, " from ")
        server.kill()
        self.read_until(process, " lost: ")
        self.serve("--provider", "siwarp", port=server.port)
        self.read_until(process, " from ")
        code, output, errors = self.ended(process)
        self.assertEqual((code, errors), (0, ""))
        lost = self.lines + output.splitlines()
        self.assertRegex(output, fr"(?m)^\d+ NULL calls to .*, {sum(' lost: ' in line for line in lost)} lost$")

    def test_server_that_moves_is_found_by_its_name(self):
        hosts = self.root / "hosts"
        hosts.write_text("127.0.0.1 moving.test\n")
        old = self.serve("--provider", "siwarp")
        script = f"""mount --bind {hosts} /etc/hosts || exit 77
            exec {COMMAND} ping rdma://moving.test:{old.port} --provider siwarp --timeout 0.3 --interval 0.001"""
        process = subprocess.Popen(["unshare", "--mount", "sh", "-c", script], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        line = process.stdout.readline()
        if not line:
            self.skipTest("no other /etc/hosts can be mounted here")
        self.assertRegex(line, LINE.format(1))
        new = subprocess.Popen([COMMAND, "serve", "--blob", self.served, "--listen", "127.0.0.2", "--port", str(old.port),
                                "--provider", "siwarp"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(new.communicate)
        self.addCleanup(new.kill)
        self.assertTrue(new.stdout.readline().startswith("ready"))
        hosts.write_text("127.0.0.2 moving.test\n")  # the same file, which is mounted
        old.kill()
        self.read_until(process, " from 127.0.0.2:")
        code, _, errors = self.ended(process)
        self.assertEqual((code, errors), (0, ""))

    lines = ()

    def read_until(self, process, text):
        """Reads lines until one has the text; all of them are kept."""
        limit = threading.Timer(BOUND_S, process.kill)
        limit.start()
        try:
            for line in process.stdout:
                self.lines = [*self.lines, line]
                if text in line:
                    return
        finally:
            limit.cancel()
        self.fail(f"no line has '{text}': {''.join(self.lines)}")

    def test_count_ends_it_and_an_interval_shows_each_call(self):
        server = self.serve()
        alone = run("ping", server.url, "--count", 3)
        self.assertNotIn("NULL 1 from", alone.stdout)
        self.assertIn("p99.9", alone.stdout)
        shown = run("ping", server.url, "--count", 3, *FAST)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertEqual([line.split(" from ")[0] for line in shown.stdout.splitlines()[:3]],
                         ["NULL 1", "NULL 2", "NULL 3"])
        self.assertIn("\n\n3 NULL calls to program ", shown.stdout)

    def test_what_time_does_not_mend_ends_it_at_once(self):
        missing = run("ping", self.serve().url, "--program", 100003, "--version", 3)
        self.assertEqual((missing.returncode, missing.stdout), (1, ""))
        self.assertIn("not available", missing.stderr)
        for value in ("0", "-1", "nan"):
            self.assertIn("--interval takes a number from 0.001", run("ping", "rdma://x", "--interval", value).stderr)
        self.assertIn("--interval excludes --ready", run("ping", "rdma://x", "--ready", "--interval", "1").stderr)

    def test_receives_are_asked_for_in_the_middle_of_the_run(self):
        two = ("--rpcrdma-version", "2")
        server = self.serve("--receive-size", "64k", *two)
        process = self.start(server.url, *two, "--request", "rbsiz=64k@0.05", *FAST)
        reading = threading.Thread(target=process.stdout.read)
        reading.start()
        self.assertIn("receive size 65536: granted", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        reading.join()
        self.assertEqual(process.wait(timeout=BOUND_S), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
