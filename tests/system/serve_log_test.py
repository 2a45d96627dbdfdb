#!/usr/bin/env python3
"""The log of `rpcrdma serve`: its formats, its levels, and its bounds while peers do as they like."""
import collections
import datetime
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import unittest

from command_fixture import BOUND_S, COMMAND, receive, run, wait_until
from service_settings_test import ServiceFixture

MOUNT, NFS = (100005, 3), (100003, 3)
MNT, UMNT, GETATTR = 1, 3, 1
LINES_A_MINUTE = 200


def opaque(data):
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


def call(connection, program, procedure, arguments, behind=b""):
    """The results of a call over plain TCP, as AUTH_SYS root (RFC 5531); what is `behind` it goes with it."""
    credential = struct.pack(">I", 0) + opaque(b"test") + struct.pack(">III", 0, 0, 0)
    message = struct.pack(">IIIIII", 7, 0, 2, *program, procedure) + struct.pack(">I", 1) + opaque(credential) \
        + struct.pack(">II", 0, 0) + arguments
    connection.sendall(struct.pack(">I", 1 << 31 | len(message)) + message + behind)
    reply = receive(connection, struct.unpack(">I", receive(connection, 4))[0] & 0x7fffffff)
    assert struct.unpack(">IIIIII", reply[:24]) == (7, 1, 0, 0, 0, 0), reply
    return reply[24:]


class ServeLog(ServiceFixture):
    def exporting(self, *rules, level="info", more=()):
        """A server of these exports; its process, how to connect to it by TCP, and its log."""
        self.own = 'handle-key = "{key}2"\nnfs-tcp-port = 0\n' + f'log-level = "{level}"\n'
        process, urls, log = self.started(self.text_of(*rules), *more)
        port = int(next(re.search(r":(\d+)/", url)[1] for url in urls if url.startswith("nfs+tcp")))
        return process, lambda: socket.create_connection(("127.0.0.1", port), timeout=BOUND_S), log

    def text_of(self, *rules):
        return self.own + "nfs = [" + ", ".join(f'"{each}"' for each in rules) + "]\n"

    def ended(self, process, log):
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=BOUND_S), 0)
        wait_until(lambda: [line for line in log if "drained" in line])
        return process

    def lines_of_ended(self, process, log):
        """All that it has written: its end of the pipe is closed with it."""
        self.ended(process, log)
        for thread in threading.enumerate():
            if thread is not threading.current_thread():
                thread.join()
        return log

    def test_peers_that_do_as_they_like_cause_few_lines_and_exact_counts(self):
        process, connect, log = self.exporting("{served}:rw,name=/a", more=("--log-format", "json"))
        with connect() as first:
            mounted = call(first, MOUNT, MNT, opaque(b"/a"))
            self.assertEqual(mounted[:4], bytes(4))
            handle = mounted[4:8 + (struct.unpack(">I", mounted[4:8])[0] + 3) // 4 * 4]
        for _ in range(1000):
            with connect() as each:
                self.assertEqual(call(each, MOUNT, MNT, opaque(b"/none"))[:4], struct.pack(">I", 2))
        self.reload(process, log, self.text_of("{served}:rw,name=/a,client=192.0.2.1"))
        with connect() as denied:
            for _ in range(2000):
                self.assertEqual(call(denied, NFS, GETATTR, handle)[:4], struct.pack(">I", 13))
            for _ in range(500):
                call(denied, MOUNT, UMNT, opaque(b"/a"))
        lines = [json.loads(line) for line in self.lines_of_ended(process, log)]
        times = [datetime.datetime.fromisoformat(line["time"]) for line in lines]
        for begin in times:
            minute = [time for time in times if begin <= time < begin + datetime.timedelta(minutes=1)]
            self.assertLessEqual(len(minute), LINES_A_MINUTE)
        count = collections.Counter()
        for line in lines:
            count[line["kind"]] += line.get("left_out", 1)
        self.assertEqual({kind: count[kind] for kind in ("new connections", "refused mounts", "denied calls",
                                                         "mounts and unmounts")},
                         {"new connections": 1002, "refused mounts": 1000, "denied calls": 2000,
                          "mounts and unmounts": 501})
        written = {line["text"] for line in lines if "left_out" not in line}
        for text in ("read the settings again", "drained: every connection is closed"):
            self.assertIn(text, written, "a peer has hidden it")
        self.assertTrue(any(text.startswith("stopping: calls in service have 10") for text in written), written)
        self.assertTrue(any("may not use /a: its rules have no such client" in text for text in written), written)

    def test_json_is_valid_whatever_peers_send(self):
        process, connect, log = self.exporting("{served}:rw,name=/a", more=("--log-format", "json"))
        paths = [b'/"\\', b"/\n\r\t", b"/\xff\xfe\xed\xa0\x80\xc3", "/é☃𝄞".encode(), b"/" + b"\x01" * 1000,
                 b"/" + b"\xff" * 1000, b"/\x1b[2J\x7f"]
        with connect() as peer:
            for each in paths:
                call(peer, MOUNT, MNT, opaque(each))
        lines = self.lines_of_ended(process, log)
        refused = [line for line in map(json.loads, lines) if line["kind"] == "refused mounts"]
        texts = [line["text"].split(" may not mount ")[1] for line in refused]
        for path, text in zip(paths, texts):
            if b"\xff" not in path:
                self.assertTrue(text.startswith(path[:200].decode()), text)
        self.assertEqual(len(refused), len(paths))
        self.assertTrue(texts[2].startswith("/\ufffd"), texts[2])
        for line in refused:
            self.assertEqual(list(line), ["time", "level", "subsystem", "kind", "text"])
            self.assertEqual((line["level"], line["subsystem"]), ("info", "nfs"))
            self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")

    def test_reset_with_no_call_under_way_is_no_loss(self):
        """A client that is killed, or a health check, ends so; a reset in the middle of a call is a warning."""
        process, connect, log = self.exporting("{served}:rw,name=/a")
        with connect() as at_rest:
            call(at_rest, MOUNT, MNT, opaque(b"/none"))
            at_rest.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with connect() as within:
            begun = struct.pack(">I", 1 << 31 | 100) + bytes(20)  # which comes together with the call before it
            call(within, MOUNT, MNT, opaque(b"/none"), behind=begun)
            within.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wait_until(lambda: [line for line in log if " was lost after " in line])
        lines = self.lines_of_ended(process, log)
        self.assertRegex(next(line for line in lines if "reset after" in line),
                         r" info connections: 127\.0\.0\.1:\d+ was closed by a reset after 1 calls, with none under way$")
        self.assertRegex(next(line for line in lines if " was lost " in line),
                         r" warning connections: 127\.0\.0\.1:\d+ was lost after 1 calls: \S")

    def test_journal_gets_priorities_in_place_of_times(self):
        def lines_by(log_format, stream):
            reading, writing = os.pipe()
            status = os.fstat(writing)
            stream = stream.format(dev=status.st_dev, ino=status.st_ino)
            process = subprocess.Popen([COMMAND, "serve", "--blob", self.served, "--port", "0", "--log-format", log_format],
                                       stdout=subprocess.PIPE, stderr=writing, text=True,
                                       env={**os.environ, "JOURNAL_STREAM": stream})
            os.close(writing)
            self.assertTrue(process.stdout.readline().startswith("ready"))
            process.terminate()
            process.wait(timeout=BOUND_S)
            process.stdout.close()
            with open(reading, encoding="utf-8") as log:
                return log.read().splitlines()

        for line in lines_by("auto", "{dev}:{ino}") + lines_by("journal", "8:1"):
            self.assertRegex(line, r"^<6>serve: \w")
        for line in lines_by("auto", "8:1") + lines_by("text", "{dev}:{ino}"):
            self.assertRegex(line, r"^\d{4}-\S+Z info serve: \w")

    def test_journal_takes_what_ends_the_command_for_an_error(self):
        def lines_by(stream, *words):
            reading, writing = os.pipe()
            status = os.fstat(writing)
            result = subprocess.run([COMMAND, *map(str, words)], stdout=subprocess.DEVNULL, stderr=writing, check=False,
                                    timeout=BOUND_S,
                                    env={**os.environ, "JOURNAL_STREAM": stream.format(dev=status.st_dev, ino=status.st_ino)})
            os.close(writing)
            self.assertEqual(result.returncode, 2)
            with open(reading, encoding="utf-8") as errors:
                return errors.read().splitlines()

        for words in (("serve", "--blob", COMMAND), ("serve", "--blob", self.served, "--prot", "1"), ("srve",)):
            for stream, begin in (("{dev}:{ino}", "<3>rpcrdma: "), ("8:1", "rpcrdma: ")):
                lines = lines_by(stream, *words)
                self.assertEqual([line[:len(begin)] for line in lines], [begin], lines)

    def test_subsystems_have_levels_that_a_reload_changes(self):
        process, connect, log = self.exporting("{served}:rw,name=/a", level="error,nfs=info")
        with connect() as peer:
            call(peer, MOUNT, MNT, opaque(b"/a"))
        wait_until(lambda: log)
        self.assertRegex("".join(log), r"^\S+ info nfs: 127\.0\.0\.1:\d+ mounts /a\n$")
        self.own = self.own.replace("error,nfs=info", "none,serve=info,connections=debug")
        self.reload(process, log, self.text_of("{served}:rw,name=/a"))
        with connect() as peer:
            call(peer, MOUNT, MNT, opaque(b"/a"))
        wait_until(lambda: [line for line in log if " debug connections: " in line])
        self.assertEqual(len([line for line in log if " nfs: " in line]), 1)
        line = self.reload(process, log, self.text_of("{served}:rw,name=/a").replace("connections=debug", "conections=debug"))
        self.assertIn("did you mean 'connections'?", line)

    def test_levels_that_cannot_be_meant_are_refused(self):
        for level, text in (("loud", "--log-level takes none, error, warning, info or debug"),
                            ("info,nfss=debug", "--log-level takes SUBSYSTEM=LEVEL for serve, connections, nfs, blob, "
                             "security, rpcbind, calls, not 'nfss=debug' (did you mean 'nfs'?)"),
                            ("info,debug", "--log-level takes one level for the subsystems not named")):
            self.refused(text, "--blob={served}", f"--log-level={level}")
        self.refused("--log-format takes auto, text, json or journal, not 'yaml'", "--blob={served}", "--log-format=yaml")

    def test_full_disk_is_an_error_with_its_export(self):
        script = f"""mount -t tmpfs -o size=1m full {self.other} || exit 77
            exec {COMMAND} serve --provider siwarp --port 0 --nfs-tcp-port 0 --handle-key {self.root}/full-key \\
              --nfs {self.other}:no_root_squash,name=/full --log-level error"""
        process = subprocess.Popen(["unshare", "--mount", "sh", "-c", script], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        line = process.stdout.readline()
        if not line.startswith("ready"):
            self.skipTest("no tmpfs can be mounted here")
        copied = run("cp", self.file("big", 4 << 20), line.split()[1] + "/big")
        self.assertEqual(copied.returncode, 1)
        process.terminate()
        _, errors = process.communicate(timeout=BOUND_S)
        self.assertRegex(errors, r"(?m)^\S+ error nfs: /full: there is no space left \(procedure \d+ of 127\.0\.0\.1:\d+\)$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
