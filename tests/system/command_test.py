#!/usr/bin/env python3
"""The `rpcrdma` command as a user has it: processes, files, signals, exit codes, messages."""
import contextlib
import hashlib
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

from command_fixture import BOUND_S, COMMAND, CommandFixture, digest, run, wait_until

BLOB_PROGRAM = 0x20020049


class CuttingProxy:
    """Passes TCP on to a port of this machine, and cuts all its connections when it is told."""
    def __init__(self, port, cut_after=None):
        self.target = port
        self.cut_after = cut_after  # bytes of one connection, both ways
        self.connections = 0
        self.pairs = []  # of connections, whole ones and cut ones
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.accept)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()
        self.cut()
        for pair in self.pairs:
            for thread in pair["threads"]:
                thread.join()
            for each in pair["sockets"]:
                each.close()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            with self.lock:
                self.connections += 1
                pair = {"sockets": (near, far), "bytes": 0}
                pair["threads"] = [threading.Thread(target=self.copy, args=(pair, *ends))
                                   for ends in ((near, far), (far, near))]
                self.pairs.append(pair)
            for thread in pair["threads"]:
                thread.start()

    def copy(self, pair, source, sink):
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
                pair["bytes"] += len(data)
                if self.cut_after and pair["bytes"] > self.cut_after:
                    break
        except OSError:
            pass
        self.close(pair)

    @staticmethod
    def close(pair):
        for each in pair["sockets"]:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        with self.lock:
            pairs = list(self.pairs)
        for pair in pairs:
            self.close(pair)


class CommandTest(CommandFixture):
    # --- Files go there and back ---

    def test_put_and_get_of_many_sizes(self):
        server = self.serve()
        for crc in ("on", "off"):
            for size in (0, 1, 3, 1000, 4096, 65536, (1 << 20) - 1, 1 << 20, (3 << 20) + 17):
                path = self.file("file", size)
                put = run("put", server.url, path, f"n{size}", "--crc", crc, "--json")
                self.assertEqual(put.returncode, 0, put.stderr)
                self.assertEqual(json.loads(put.stdout)["sha256"],
                                 hashlib.sha256(path.read_bytes()).hexdigest())
                got = run("get", server.url, f"n{size}", self.root / "back", "--crc", crc)
                self.assertEqual(got.returncode, 0, got.stderr)
                self.assertEqual((self.root / "back").read_bytes(), path.read_bytes())
                self.assertEqual((self.served / f"n{size}").read_bytes(), path.read_bytes())

    def test_profile_of_rfc_5666(self):
        server = self.serve("--profile", "rfc5666")
        profile = ("--profile", "rfc5666")
        self.assertEqual(run("ping", server.url, "--count", 5, *profile).returncode, 0)
        for size in (0, 700, 2000, (3 << 20) + 2001):
            path = self.file("file", size)
            put = run("put", server.url, path, f"n{size}", *profile, "--json")
            self.assertEqual(put.returncode, 0, put.stderr)
            counters = json.loads(put.stdout)["counters"]
            self.assertEqual(counters["padded_calls"], 1 if size else 0, "the last piece fits a message")
            self.assertEqual(counters["read_chunks"], 3 if size > 1 << 20 else 0)
            got = run("get", server.url, f"n{size}", self.root / "back", *profile)
            self.assertEqual(got.returncode, 0, got.stderr)
            self.assertEqual((self.root / "back").read_bytes(), path.read_bytes())
            self.assertEqual("RDMA_DONE" in got.stdout, size > 1 << 20)

    def test_version_two_asks_for_larger_receives(self):
        server = self.serve("--inline", "8192", "--receive-size", "64k")
        two = ("--rpcrdma-version", "2")
        asked = run("ping", server.url, "--count", 1, *two, "--request", "rbsiz=64k", "--show-characteristics")
        self.assertEqual(asked.returncode, 0)
        self.assertIn("receive size 65536: granted", asked.stderr)
        self.assertRegex(asked.stderr, "the server: receive size 65536, ")
        later = run("ping", server.url, "--count", 1, *two, "--request", "rbsiz=64k@60")
        self.assertIn("not asked, the work was done before", later.stderr)
        old = run("ping", server.url, "--count", 1, "--request", "rbsiz=64k")
        self.assertEqual(old.returncode, 2)
        self.assertIn("version two", old.stderr)
        for wrong in ("rbsiz=1", "rbsiz=64k@", "rbsiz=64k@-1", "rbsiz=", "size=4096"):
            self.assertIn("rbsiz=SIZE@SECONDS", run("ping", server.url, *two, "--request", wrong).stderr)
        small = self.serve("--inline", "8192")
        rejected = run("ping", small.url, "--count", 1, *two, "--request", "rbsiz=64k")
        self.assertIn("receive size 65536: rejected", rejected.stderr)

    def test_get_to_standard_output(self):
        server = self.serve()
        path = self.file("file", 100000)
        run("put", server.url, path)
        got = subprocess.run([COMMAND, "get", server.url, "file", "-"], capture_output=True, timeout=BOUND_S,
                             check=False)
        self.assertEqual(got.returncode, 0)
        self.assertEqual(got.stdout, path.read_bytes())

    def test_ls_lists_more_than_fits_a_message_by_long_replies(self):
        names = [f"{i:04}-" + "x" * 200 for i in range(700)]
        for name in names:
            (self.served / name).write_bytes(b"abc")
        server = self.serve()
        listed = run("ls", server.url, "--json")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        result = json.loads(listed.stdout)
        self.assertEqual([entry["name"] for entry in result["entries"]], names)
        self.assertGreaterEqual(result["counters"]["long_replies"], 3)

    def test_ping_shows_percentiles(self):
        server = self.serve()
        result = run("ping", server.url, "--count", 50, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual((report["count"], report["counters"]["calls"]), (50, 50))
        latency = report["latency"]
        self.assertEqual(list(latency), sorted(latency))
        self.assertLessEqual(latency["min_us"], latency["p50_us"])
        self.assertLessEqual(latency["p50_us"], latency["p99_us"])
        self.assertLessEqual(latency["p99_us"], latency["max_us"])
        missing = run("ping", server.url, "--program", 100003, "--version", 3)
        self.assertEqual(missing.returncode, 1)
        self.assertIn("not available", missing.stderr)

    def test_transfer_forms_follow_the_options(self):
        server = self.serve()
        path = self.file("file", 3 << 20)
        reduced = json.loads(run("put", server.url, path, "--json").stdout)["counters"]
        self.assertEqual((reduced["read_chunks"], reduced["long_calls"]), (3, 0))
        whole = json.loads(run("put", server.url, path, "--no-reduce", "--json").stdout)["counters"]
        self.assertEqual((whole["read_chunks"], whole["long_calls"]), (0, 3))
        back = json.loads(run("get", server.url, "file", self.root / "b", "--no-reduce", "--json").stdout)
        self.assertEqual(back["counters"]["write_chunks"], 0)
        self.assertGreaterEqual(back["counters"]["long_replies"], 3)

    def test_upload_survives_a_restart_of_the_server(self):
        """Begin and data before, commit after: by records that a server started anew reads."""
        server = self.serve()
        path = self.file("file", 5 << 20)
        self.cut_off_put(server, path)
        self.assertEqual(server.stop()[0], 0)
        before = sorted(path.name for path in (self.served / ".uploads").iterdir())
        self.serve()
        self.assertEqual(sorted(path.name for path in (self.served / ".uploads").iterdir()), before)

    # --- Connections that begin as plain TCP ---

    def test_put_and_get_step_up(self):
        server = self.serve("--tcp-port", "0")
        _, plain = server.urls
        path = self.file("file", (5 << 20) + 17)
        put = run("put", "--step-up", plain, path, "--json")
        self.assertEqual((put.returncode, put.stderr), (0, ""))
        result = json.loads(put.stdout)
        self.assertEqual(result["sha256"], digest(path))
        self.assertEqual(result["counters"]["read_chunks"], 5, "the data went by RDMA")
        self.assertEqual(digest(self.served / "file"), digest(path))
        got = run("get", "--step-up", plain, "file", self.root / "back", "--json")
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        self.assertEqual(json.loads(got.stdout)["sha256"], digest(path))
        self.assertEqual(digest(self.root / "back"), digest(path))
        listed = run("ls", "--step-up", plain, "--json")
        self.assertEqual([each["name"] for each in json.loads(listed.stdout)["entries"]], ["file"])
        # Beside it the RDMA port is there for everybody else.
        self.assertEqual(run("get", server.url, "file", self.root / "other").returncode, 0)
        self.assertEqual(digest(self.root / "other"), digest(path))
        self.assertEqual(run("rm", "--step-up", plain, "file").returncode, 0)
        self.assertFalse((self.served / "file").exists())
        self.assertEqual(server.stop()[0], 0)

    def test_transfers_that_step_up_go_beside_each_other_and_beside_silent_peers(self):
        server = self.serve("--tcp-port", "0", "--tcp-idle", "1")
        _, plain = server.urls
        port = int(plain.rsplit(":", 1)[1])
        path = self.file("file", 32 << 20)
        with socket.create_connection(("127.0.0.1", port)) as silent:
            putters = [subprocess.Popen([COMMAND, "put", "--step-up", plain, str(path), f"copy{i}"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                       for i in range(3)]
            for i, putter in enumerate(putters):
                _, errors = putter.communicate(timeout=BOUND_S)
                self.assertEqual((putter.returncode, errors), (0, ""))
                self.assertEqual(digest(self.served / f"copy{i}"), digest(path))
            silent.settimeout(BOUND_S)
            self.assertEqual(silent.recv(1), b"", "closed when its time is over")
        self.assertEqual(run("ping", server.url, "--count", 10).returncode, 0)

    def test_connections_is_a_bound_for_tcp_as_well(self):
        server = self.serve("--tcp-port", "0", "--connections", "70")
        address = ("127.0.0.1", int(server.urls[1].rsplit(":", 1)[1]))
        call = struct.pack(">11I", 0x80000000 | 40, 7, 0, 2, BLOB_PROGRAM, 1, 1, 0, 0, 0, 0)
        with contextlib.ExitStack() as stack:
            peers = [stack.enter_context(socket.create_connection(address)) for _ in range(66)]
            for peer in peers:
                peer.settimeout(BOUND_S)
                peer.sendall(call)
                self.assertEqual(struct.unpack(">7I", peer.recv(28))[1:3], (7, 1), "a reply, if to no arguments")
            for peer in peers:
                peer.sendall(call)
                self.assertEqual(len(peer.recv(28)), 28, "none has made room for another")

    def test_sigterm_ends_transfers_that_stepped_up_as_others(self):
        server = self.serve("--tcp-port", "0", "--drain", "1", "--json")
        path = self.root / "big"
        with open(path, "wb") as file:
            file.truncate(4 << 30)
        putter = subprocess.Popen([COMMAND, "put", "--step-up", server.urls[1], str(path)],
                                  stderr=subprocess.PIPE, text=True)
        wait_until(self.uploading)
        with socket.create_connection(("127.0.0.1", int(server.urls[1].rsplit(":", 1)[1]))):
            code, output, errors = server.stop()
        self.assertEqual(code, 0, errors)
        self.assertGreater(json.loads(output)["calls"], 0)
        _, errors = putter.communicate(timeout=BOUND_S)
        self.assertEqual(putter.returncode, 3, errors)

    def test_step_up_says_what_to_do_when_it_cannot_be(self):
        server = self.serve()
        there = server.url.replace("rdma:", "tcp:")
        refused = run("ls", "--step-up", there)
        self.assertEqual(refused.returncode, 3)
        self.assertIn(there, refused.stderr)
        self.assertIn("start it by `rpcrdma serve --tcp-port`", refused.stderr)
        for arguments, text in ((["ls", "--step-up", server.url], "the URL is tcp://HOST:PORT"),
                                (["ls", there], "--step-up"), (["ping", there], "--step-up"),
                                (["ls", "--step-up", "127.0.0.1"], "tcp://HOST:PORT"),
                                (["ls", "--step-up", "tcp://127.0.0.1"], "tcp://HOST:PORT")):
            result = run(*arguments)
            self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
            self.assertIn(text, result.stderr)
        server.stop()
        nobody = run("ls", "--step-up", there)
        self.assertEqual(nobody.returncode, 3)
        self.assertIn("is the server running there, with --tcp-port?", nobody.stderr)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            result = run("serve", "--blob", self.served, "--listen", "127.0.0.1", "--port", 0,
                         "--tcp-port", taken.getsockname()[1])
        self.assertEqual(result.returncode, 1)
        self.assertIn("listening on plain TCP (127.0.0.1:", result.stderr)

    # --- Signals and deaths ---

    def test_other_signals_leave_the_server_alone(self):
        server = self.serve()
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            server.process.send_signal(number)
        self.assertEqual(run("ls", server.url).returncode, 0)
        self.assertEqual(server.stop()[0], 0)

    def test_reader_of_the_log_may_go_away(self):
        server = self.serve()
        server.process.stderr.close()
        self.put(server, self.file("file", 1000), "--no-reconnect")
        self.assertEqual(run("ls", server.url).returncode, 0)
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(timeout=BOUND_S), 0)

    def test_sigterm_drains_and_exits_0(self):
        server = self.serve("--json")
        path = self.file("file", 64 << 20)
        putter = subprocess.Popen([COMMAND, "put", "--no-reconnect", server.url, str(path)],
                                  stderr=subprocess.PIPE, text=True)
        wait_until(self.uploading)
        code, output, errors = server.stop()
        self.assertEqual(code, 0, errors)
        counters = json.loads(output)
        self.assertGreater(counters["calls"], 0)
        _, put_errors = putter.communicate(timeout=BOUND_S)
        # The client either was through or is told; it never hangs.
        self.assertIn(putter.returncode, (0, 3), put_errors)

    def test_server_killed_in_mid_transfer(self):
        server = self.serve()
        path = self.root / "big"
        with open(path, "wb") as file:
            file.truncate(4 << 30)
        putter = subprocess.Popen([COMMAND, "put", "--no-reconnect", server.url, str(path)],
                                  stderr=subprocess.PIPE, text=True)
        wait_until(self.uploading)
        server.kill()
        killed = time.monotonic()
        _, errors = putter.communicate(timeout=BOUND_S)
        self.assertLess(time.monotonic() - killed, 10)
        self.assertEqual(putter.returncode, 3, errors)
        self.assertIn("connection lost", errors)
        self.assertFalse((self.served / "big").exists(), "no half file under the final name")

    def uploaded(self):
        sizes = [path.stat().st_blocks for path in (self.served / ".uploads").glob("*.data")]
        return 512 * max(sizes, default=0)

    def put_through(self, url, path, disturb, times):
        """A put that is disturbed again and again on its way, and ends as if nothing had been."""
        putter = subprocess.Popen([COMMAND, "put", url, str(path)], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        step = path.stat().st_size // (times + 1)
        for number in range(times):
            wait_until(lambda: putter.poll() is not None or self.uploaded() >= step * (number + 1))
            self.assertIsNone(putter.poll(), "it has ended before the last disturbance")
            disturb()
        output, errors = putter.communicate(timeout=BOUND_S)
        self.assertEqual((putter.returncode, errors), (0, ""), output)
        self.assertEqual(digest(self.served / path.name), digest(path))

    def test_put_survives_a_server_that_is_killed_and_restarted_ten_times(self):
        server = self.serve()
        port = server.port

        def restart():
            self.servers[-1].kill()
            self.serve(port=port)

        self.put_through(server.url, self.file("big", 256 << 20), restart, 10)

    def test_put_survives_connections_that_are_cut_ten_times(self):
        server = self.serve()
        with CuttingProxy(server.port) as proxy:
            self.put_through(f"rdma://127.0.0.1:{proxy.port}", self.file("big", 256 << 20), proxy.cut, 10)
            self.assertGreater(proxy.connections, 10)

    def test_get_survives_connections_that_are_cut(self):
        server = self.serve()
        path = self.file("big", 64 << 20)
        os.rename(path, self.served / "big")
        with CuttingProxy(server.port, cut_after=9 << 20) as proxy:
            back = self.root / "back"
            got = run("get", f"rdma://127.0.0.1:{proxy.port}", "big", back)
            self.assertEqual((got.returncode, got.stderr), (0, ""))
            self.assertEqual(digest(back), digest(self.served / "big"))
            self.assertGreater(proxy.connections, 5)

    def test_a_server_that_does_not_come_back_is_told_when_the_time_is_over(self):
        server = self.serve()
        path = self.root / "big"
        with open(path, "wb") as file:
            file.truncate(4 << 30)
        putter = subprocess.Popen([COMMAND, "put", "--timeout", "1", server.url, str(path)],
                                  stderr=subprocess.PIPE, text=True)
        wait_until(self.uploading)
        server.kill()
        _, errors = putter.communicate(timeout=BOUND_S)
        self.assertEqual(putter.returncode, 3, errors)
        self.assertIn("no connection to the server within the call's time", errors)

    def test_client_killed_in_mid_transfer(self):
        server = self.serve("--json")
        path = self.root / "big"
        with open(path, "wb") as file:
            file.truncate(4 << 30)
        for operation in ("put", "get"):
            if operation == "get":
                os.rename(path, self.served / "big")
                arguments = ["get", server.url, "big", str(self.root / "back")]
                moving = lambda: self.receiving(client)
            else:
                arguments = ["put", server.url, str(path)]
                moving = self.uploading
            client = subprocess.Popen([COMMAND, *arguments])
            wait_until(moving)
            client.kill()
            client.wait(timeout=BOUND_S)
            self.assertEqual(run("ping", server.url, "--count", 10).returncode, 0, "the server lives")
        small = self.file("small", 100000)
        self.assertEqual(run("put", server.url, small).returncode, 0)
        self.assertEqual(server.stop()[0], 0)

    # --- Errors ---

    def test_disk_full_on_put_is_a_clear_error_and_leaves_no_half_file(self):
        def limit_file_size():
            resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20))
        server = self.serve(preexec_fn=limit_file_size)
        result = run("put", server.url, self.file("file", 8 << 20))
        self.assertEqual(result.returncode, 1)
        self.assertIn("no space left on the server's disk", result.stderr)
        self.assertFalse((self.served / "file").exists())
        self.assertEqual(run("put", server.url, self.file("small", 1000)).returncode, 0)

    def test_full_file_system_on_put(self):
        """The same with a real file system of 4 MiB, where namespaces are allowed."""
        script = (f"mount -t tmpfs -o size=4m tmpfs {self.served} && "
                  f"exec {COMMAND} serve --blob {self.served} --listen 127.0.0.1 --port 0")
        process = subprocess.Popen(["unshare", "-rm", "sh", "-c", script], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        if not line.startswith("ready"):
            _, errors = process.communicate()
            self.skipTest(f"no mount namespace here: {errors.strip()}")
        try:
            result = run("put", line.split()[1], self.file("file", 8 << 20))
            self.assertEqual(result.returncode, 1)
            self.assertIn("no space left on the server's disk", result.stderr)
            listed = run("ls", line.split()[1])
            self.assertEqual(listed.stdout, "")
            # The disk has its room back.
            for i in range(3):
                again = run("put", line.split()[1], self.file("small", 3 << 19))
                self.assertEqual((again.returncode, again.stderr), (0, ""))
        finally:
            process.terminate()
            process.communicate(timeout=BOUND_S)

    def test_threads_share_the_connections(self):
        server = self.serve("--threads", "3", "--tcp-port", "0", "--capture", self.root / "threads.pcapng")
        self.assertEqual(run("ping", server.url, "--count", 10).returncode, 0)  # it serves, and not only listens
        threads = {pathlib.Path(f"/proc/{server.process.pid}/task/{task}/comm").read_text().strip()
                   for task in os.listdir(f"/proc/{server.process.pid}/task")}
        self.assertLessEqual({"rpcrdma-1", "rpcrdma-2"}, threads)
        source = self.file("threads", 5 << 20)
        for i in range(3):
            put = run("put", server.url, source, f"threads{i}")
            self.assertEqual((put.returncode, put.stderr), (0, ""))
        # Files of one connection are seen by the others, and all connections are in the counters.
        self.assertEqual(run("ls", server.url).stdout.count("threads"), 3)
        status, output, _ = server.stop()
        self.assertEqual(status, 0)
        for words in (("--threads", "0"), ("--threads", "257"), ("--threads", "two")):
            refused = run("serve", "--blob", self.served, "--port", 0, *words)
            self.assertEqual(refused.returncode, 2)
            self.assertIn("--threads", refused.stderr)

    def test_descriptors_limit_connections_and_say_so(self):
        def allow(soft, hard):
            return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        refused = run("serve", "--blob", self.served, "--port", 0, "--connections", 1000, preexec_fn=allow(64, 256))
        self.assertEqual(refused.returncode, 2)
        self.assertIn("RLIMIT_NOFILE", refused.stderr)
        no_limit = run("serve", "--blob", self.served, "--port", 0, "--connections", (1 << 64) - 1)
        self.assertEqual(no_limit.returncode, 2)
        self.assertIn("RLIMIT_NOFILE", no_limit.stderr)
        raised = self.serve("--connections", "100", preexec_fn=allow(64, 1000))
        limits = pathlib.Path(f"/proc/{raised.process.pid}/limits").read_text().splitlines()
        files = next(line.split() for line in limits if line.startswith("Max open files"))
        self.assertGreaterEqual(int(files[3]), 200, files)
        few = self.serve("--connections", "30", "--provider", "siwarp", preexec_fn=allow(32, 32))
        # The sanitizer for virtual calls needs descriptors of its own the first time it sees a class.
        self.assertEqual(run("ping", few.url, "--count", 10).returncode, 0)
        silent = [socket.create_connection(("127.0.0.1", few.port)) for _ in range(40)]
        wait_until(lambda: len(os.listdir(f"/proc/{few.process.pid}/fd")) == 32)
        for each in silent:
            each.close()
        self.assertEqual(run("ping", few.url, "--count", 10).returncode, 0, "there is room again")
        self.assertIn("RLIMIT_NOFILE", few.stop()[2])

    def test_missing_file_and_bad_names(self):
        server = self.serve()
        missing = run("get", server.url, "nothing", self.root / "back")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("no such file on the server", missing.stderr)
        self.assertFalse((self.root / "back").exists())
        self.assertFalse((self.root / "back.part").exists())
        for name, text in (("a/b", "no '/'"), (".", "reserved"), ("..", "reserved"), (".uploads", "reserved"),
                           ("x" * 256, "at most 255 bytes, this one has 256")):
            for arguments in (["put", server.url, self.file("file", 10), name],
                              ["get", server.url, name, self.root / "back"], ["rm", server.url, name]):
                result = run(*arguments)
                self.assertEqual(result.returncode, 1, arguments)
                self.assertIn(text, result.stderr)
                self.assertNotIn("server fault", result.stderr)

    def test_nobody_listens(self):
        server = self.serve()
        server.stop()
        result = run("ping", server.url)
        self.assertEqual(result.returncode, 3)
        self.assertIn("is a server running there", result.stderr)

    def test_unknown_host_is_no_connection(self):
        for arguments in (["ping", "rdma://no.such.host.invalid"], ["ls", "no.such.host.invalid"],
                          ["ls", "--step-up", "tcp://no.such.host.invalid:20050"]):
            result = run(*arguments)
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertIn("no.such.host.invalid", result.stderr)

    def test_port_in_use(self):
        server = self.serve()
        key = ("--handle-key", self.root / "key")
        for arguments, text in (
                (("--port", server.port), f"cannot listen on rdma://127.0.0.1:{server.port}: another program listens"),
                (("--port", 0, "--tcp-port", server.port),
                 f"listening on plain TCP (127.0.0.1:{server.port}) failed: another program listens"),
                (("--port", 0, "--nfs", self.served, "--nfs-tcp-port", server.port, *key),
                 f"listening for NFS and MOUNT by TCP (127.0.0.1:{server.port}) failed: another program listens")):
            result = run("serve", "--blob", self.served, "--listen", "127.0.0.1", "--log-level", "error", *arguments)
            self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
            self.assertIn(text, result.stderr)
            self.assertIn("at this address and port (bind: Address already in use): end that program, or choose "
                          "another port, 0 for any free one", result.stderr)
            self.assertNotRegex(result.stderr, "bad address|out of resources")

    def test_capture_file_that_cannot_be_written_is_wrong_usage(self):
        server = self.serve()
        nowhere = self.root / "none" / "trace"
        for path, why in ((nowhere, "No such file or directory"), (self.root, "Is a directory"),
                          (self.file("file", 10) / "trace", "Not a directory")):
            for arguments in (("ping", server.url), ("get", server.url, "x", self.root / "x"),
                              ("ls", "nfs+" + server.url + "/x"), ("serve", "--blob", self.served, "--port", 0)):
                result = run(*arguments, "--capture", path)
                self.assertEqual((result.returncode, result.stdout, result.stderr),
                                 (2, "", f"rpcrdma: --capture {path}: {why}\n"), arguments)
        self.assertEqual(self.in_root(), ["file"])

    def test_capture_goes_through_a_fifo(self):
        fifo = self.root / "fifo"
        os.mkfifo(fifo)
        with subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE) as reader:
            pinged = run("ping", self.serve().url, "--count", 5, "--capture", fifo)
            data = reader.communicate(timeout=BOUND_S)[0]
        self.assertEqual(pinged.returncode, 0, pinged.stderr)
        self.assertEqual(data[:4], bytes.fromhex("0a0d0d0a"))
        self.assertGreater(len(data), 1000)

    def test_usage_errors_exit_with_2(self):
        for arguments in ([], ["put"], ["frobnicate"], ["ping", "http://x"], ["ping", "rdma://x:y"],
                          ["serve", "--blob", "/nonexistent/files"],
                          ["serve", "--blob", "/nonexistent", "--read-only"], ["serve", "--blob", "/dev/null"],
                          ["put", "rdma://127.0.0.1", "/nonexistent"]):
            result = run(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertTrue(result.stderr or result.stdout)

    def test_wrong_usage_is_said_in_a_sentence_about_the_option(self):
        for arguments, text in (
                ("serve --port 70000", "--port takes a whole number from 0 to 65535, not '70000'; `rpcrdma serve --help`"),
                ("serve --tcp-port x", "--tcp-port takes a whole number from 0 to 65535, not 'x'"),
                ("serve --connections abc", "--connections takes a whole number of at least 0, not 'abc'"),
                ("ping x --program -5", "--program takes a whole number from 0 to 4294967295, not '-5'"),
                ("ping x --timeout nan", "--timeout takes a number from 0.001 to 86400, not 'nan'"),
                ("ping x --capture-max 5q", "--capture-max takes a size of at least 0 bytes"),
                ("blob put x /dev/null --depth 65", "`rpcrdma blob put --help`"),
                ("ping x --crc perhaps", "--crc takes on or off, not 'perhaps'"),
                ("ping x --sec", "--sec needs a value"), ("ping x y z", "`rpcrdma ping` does not expect 'y', 'z'"),
                ("ls x --long-listing --bar", "`rpcrdma ls` has no options '--long-listing', '--bar'"),
                ("get x --no-reconect", "has no option '--no-reconect' (did you mean '--no-reconnect'?)"),
                ("blob lst", "`rpcrdma blob` has no command 'lst' (did you mean 'ls'?)"), ("", "needs a command")):
            result = run(*arguments.split())
            self.assertEqual((result.returncode, result.stdout, result.stderr.count("\n")), (2, "", 1), arguments)
            self.assertTrue(result.stderr.startswith("rpcrdma: "), result.stderr)
            self.assertIn(text, result.stderr)

    def test_help_and_version_and_info(self):
        self.assertIn("Exit status", run("--help").stdout)
        self.assertIn("rpcrdma ", run("--version").stdout)
        for command in ("serve", "put", "get", "ls", "rm", "ping", "doctor", "info"):
            result = run(command, "--help")
            self.assertEqual(result.returncode, 0)
            self.assertIn("--json", result.stdout)
        info = json.loads(run("info", "--json").stdout)
        self.assertEqual(set(info["features"]),
                         {"verbs", "kerberos", "libtirpc", "cephfs", "http", "systemd", "mount", "metrics", "probes"})
        self.assertEqual(["version 1", "version 2"], [line.split(" (")[0].removeprefix("RPC-over-RDMA ")
                                                      for line in info["protocols"]])
        shown = run("info").stdout
        for name, feature in info["features"].items():
            self.assertRegex(shown, rf"(?m)^  {name} +{'yes' if feature['installed'] else 'no'} ")
            self.assertIn(feature["remedy"], shown)
            self.assertEqual(feature["remedy"] == "", feature["installed"])
            self.assertLessEqual(feature["installed"], feature["built"])
        self.assertEqual([provider["name"] for provider in info["providers"]], ["siwarp", "verbs"])

    PACKAGES = {"verbs": "rpcrdma-verbs", "kerberos": "rpcrdma-krb5", "libtirpc": "librpcrdma-tirpc", "cephfs": "rpcrdma-cephfs"}

    def run_alone(self, *arguments, **environment):
        """Runs a copy of the command that has no plug-ins beside it, as the package rpcrdma installs it."""
        alone = self.root / "alone" / "bin" / "rpcrdma"
        if "librpcrdma.so" in subprocess.run(["ldd", COMMAND], capture_output=True, text=True, check=True).stdout:
            self.skipTest("this build is linked with librpcrdma.so, and finds the plug-ins beside that")
        if not alone.exists():
            alone.parent.mkdir(parents=True)
            shutil.copy2(COMMAND, alone)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RPCRDMA_")}
        return subprocess.run([alone, *map(str, arguments)], capture_output=True, text=True, timeout=BOUND_S, check=False,
                              env=kept | environment)

    def test_info_names_the_packages_that_are_not_installed(self):
        features = json.loads(self.run_alone("info", "--json").stdout)["features"]
        shown = self.run_alone("info").stdout
        for name, package in self.PACKAGES.items():
            feature = features[name]
            if not feature["built"]:
                continue
            self.assertIs(feature["installed"], False, name)
            self.assertIn(f"install the package {package}", feature["remedy"])
            self.assertRegex(shown, rf"(?m)^  {name} +no +.*install the package {package}$")
        if features["cephfs"]["built"]:
            refused = self.run_alone("serve", "--check", "--nfs=ceph:/a")
            self.assertEqual(refused.returncode, 2)
            self.assertIn("install the package rpcrdma-cephfs", refused.stderr)
        if features["kerberos"]["built"]:
            refused = self.run_alone("serve", "--check", f"--nfs={self.served}:sec=krb5")
            self.assertEqual(refused.returncode, 2)
            self.assertIn("the package is rpcrdma-krb5", refused.stderr)
        self.assertEqual([each["installed"] for name, each in features.items() if name not in self.PACKAGES],
                         [each["built"] for name, each in features.items() if name not in self.PACKAGES])

    def test_info_says_why_a_plug_in_does_not_load(self):
        files = {"kerberos": "librpcrdma_krb5.so", "cephfs": "librpcrdma_nfs_ceph.so", "verbs": "librpcrdma_verbs.so"}
        for file in files.values():
            (self.root / file).write_bytes(b"no object")
        folders = {"RPCRDMA_PROVIDER_DIR": str(self.root), "RPCRDMA_BACK_END_DIR": str(self.root)}
        features = json.loads(self.run_alone("info", "--json", **folders).stdout)["features"]
        for name, file in files.items():
            if features[name]["built"]:
                self.assertIs(features[name]["installed"], False, name)
                self.assertIn(f"{self.root}/{file}", features[name]["remedy"])

    def test_server_whose_line_was_lost_says_so_at_its_end(self):
        with (open("/dev/full", "w", encoding="utf-8") as full,
              subprocess.Popen([COMMAND, "serve", "--blob", self.served, "--port", "0", "--provider", "siwarp", "--stat-socket",
                                "none"], stdout=full, stderr=subprocess.PIPE, text=True) as server):
            self.assertIn("serving ", server.stderr.readline())
            server.terminate()
            errors = server.communicate(timeout=BOUND_S)[1]
        self.assertEqual(server.returncode, 1)
        self.assertIn("rpcrdma: standard output: some of it could not be written\n", errors)

    def test_unknown_provider_is_named(self):
        result = run("ping", "rdma://127.0.0.1:1", "--provider", "nonsense")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--provider takes auto, siwarp or verbs, not 'nonsense'", result.stderr)

    def test_verbs_is_there_or_said_to_be_missing(self):
        verbs = json.loads(run("info", "--json").stdout)["providers"][1]
        self.assertNotEqual(verbs["available"], bool(verbs["problem"]), verbs)
        if not verbs["available"]:
            self.assertIn(verbs["problem"], run("info").stdout)

    def test_named_provider_is_not_replaced_by_another(self):
        # The server can be reached by siwarp; no RDMA device leads to it.
        result = run("ping", self.serve().url, "--provider", "verbs")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("verbs", result.stderr)

    # --- Comfort ---

    def on_a_terminal(self, *arguments):
        """Runs the command with a terminal as its stderr; what was written there."""
        ours, theirs = pty.openpty()
        with subprocess.Popen([COMMAND, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=theirs) as process:
            os.close(theirs)
            seen = b""
            try:
                while data := os.read(ours, 4096):
                    seen += data
            except OSError:  # EIO: the other end is closed
                pass
            os.close(ours)
            self.assertEqual(process.wait(timeout=BOUND_S), 0, seen)
        return seen.decode()

    def test_help_takes_the_forms_that_people_try(self):
        whole = run("--help").stdout
        self.assertEqual((run("help").returncode, run("help").stdout), (0, whole))
        self.assertEqual(run("help", "put").stdout, run("put", "--help").stdout)
        self.assertEqual(run("-V").stdout, run("--version").stdout)
        self.assertNotIn("{false}", run("put", "--help").stdout)
        for typed, meant in (("serv", "serve"), ("pign", "ping"), ("Put", "put"), ("list", "ls")):
            result = run(typed, "rdma://127.0.0.1")
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            if typed != "list":
                self.assertIn(f"there is no command '{typed}' (did you mean '{meant}'?)", result.stderr)
        odd = run("frobnicate")
        self.assertEqual(odd.returncode, 2)
        self.assertNotIn("did you mean", odd.stderr)
        self.assertEqual(run("help", "serv").returncode, 2)
        self.assertIn("did you mean 'serve'?", run("help", "serv").stderr)

    def test_the_first_lines_of_the_readme_work_on_a_fresh_system(self):
        """Word by word, in an empty directory, but for the port, since that may be in use."""
        readme = (pathlib.Path(__file__).parents[2] / "README.md").read_text()
        block = re.search(r"## Use it\n\n```sh\n(.*?)```", readme, re.DOTALL)[1]
        serve, *others = [line.split("#")[0].strip() for line in block.splitlines() if "127.0.0.1" in line
                          or " serve " in line]
        self.assertTrue(serve.endswith("&"))
        (self.root / "build" / "bin").mkdir(parents=True)
        (self.root / "build" / "bin" / "rpcrdma").symlink_to(os.path.abspath(COMMAND))
        (self.root / "README.md").write_text(readme)
        script = (f"{serve.removesuffix('&')} --port 0 >ready & trap 'kill $!' EXIT\n"
                  "until [ -s ready ] || ! kill -0 $!; do :; done\n"
                  "url=$(sed 's/ready //' ready)\n" +
                  "".join(line.replace("rdma://127.0.0.1", "$url") + "\n" for line in others))
        self.assertGreaterEqual(len(others), 2)
        done = subprocess.run(["bash", "-euc", script], cwd=self.root, capture_output=True, text=True,
                              timeout=BOUND_S, check=False)
        self.assertEqual(done.returncode, 0, script + done.stdout + done.stderr)
        self.assertEqual((self.root / "copy.md").read_text(), readme)

    SMALL_CALLS = ("--size", "16k", "--depth", "1")

    def put_that_takes_seconds(self, server):
        """A file whose upload takes long enough here for progress to be shown, and what its upload said to a pipe."""
        path, size, wanted = self.root / "long", 32 << 20, 3  # seconds; progress begins after one
        while True:
            with open(path, "wb") as file:
                file.truncate(size)
            started = time.monotonic()
            piped = run("put", server.url, path, *self.SMALL_CALLS)
            took = time.monotonic() - started
            if piped.returncode != 0 or took > wanted:
                return path, piped
            size = int(size * max(1.2, 1.2 * wanted / took))

    def test_progress_is_shown_of_long_transfers_on_a_terminal_alone(self):
        server = self.serve()
        path, piped = self.put_that_takes_seconds(server)
        self.assertEqual((piped.returncode, piped.stderr), (0, ""))
        seen = self.on_a_terminal("put", server.url, path, *self.SMALL_CALLS)
        self.assertRegex(
            seen, r"put long \[[#.]{16}\] +\d+% [0-9.]+ [MG]iB of [0-9.]+ [MG]iB, [0-9.]+ [KMG]iB/s, \d+:\d\d left")
        self.assertTrue(seen.endswith("\r\x1b[K"), "the line is wiped away")

    def test_progress_says_that_it_waits_for_a_server_that_hangs(self):
        server = self.serve()
        path = self.root / "long"
        with open(path, "wb") as file:
            file.truncate(64 << 30)
        ours, theirs = pty.openpty()
        putting = subprocess.Popen([COMMAND, "put", server.url, path], stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        self.addCleanup(os.close, ours)
        self.addCleanup(putting.wait, BOUND_S)
        self.addCleanup(putting.kill)
        wait_until(self.uploading)
        server.process.send_signal(signal.SIGSTOP)
        self.addCleanup(server.process.send_signal, signal.SIGCONT)
        seen = ""
        while "waiting for" not in seen or not seen.endswith("..."):
            seen += os.read(ours, 4096).decode()
        self.assertRegex(seen, rf"put long waiting for 127\.0\.0\.1:{server.port} \([3-9] s\) \.\.\.$")

    def test_progress_is_not_shown_of_short_transfers(self):
        server = self.serve()
        path = self.file("short", 100_000)
        self.assertEqual(self.on_a_terminal("put", server.url, path), "")
        self.assertEqual(self.on_a_terminal("get", server.url, "short", self.root / "back"), "")

    def complete(self, *words):
        """What bash offers for the last word."""
        line = " ".join(f"'{word}'" for word in words)
        script = (f"source <('{COMMAND}' completion bash); COMP_WORDS=({line}); "
                  f"COMP_CWORD={len(words) - 1}; _rpcrdma; echo \"${{COMPREPLY[*]}}\"")
        result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=BOUND_S,
                                check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout.split()

    def test_bash_completes_subcommands_options_and_choices(self):
        self.assertEqual(self.complete("rpcrdma", "pu"), ["put"])
        commands = self.complete("rpcrdma", "")
        for command in commands:
            self.assertEqual(run(command, "--help").returncode, 0, command)
        self.assertIn("serve", commands)
        self.assertNotIn("manual", commands)
        self.assertEqual(self.complete("rpcrdma", "put", "--cap"), ["--capture", "--capture-max"])
        self.assertEqual(self.complete("rpcrdma", "put", "--crc", "o"), ["on", "off"])
        self.assertEqual(self.complete("rpcrdma", "put", "x"), [])

    def test_zsh_takes_its_completion(self):
        script = run("completion", "zsh").stdout
        self.assertIn("'put:send a file to a server'", script)
        self.assertIn("'--crc[MPA CRC32C; it is on when either side wants it]:value:(on off)'", script)
        if shutil.which("zsh") is None:
            self.skipTest("zsh is not installed, so its syntax is not checked")
        checked = subprocess.run(["zsh", "-n"], input=script, capture_output=True, text=True, check=False)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))

    def test_manual_pages_say_what_the_help_says_and_have_no_faults(self):
        pages = {"": run("manual").stdout}
        for command in self.complete("rpcrdma", ""):
            pages[command] = run("manual", command).stdout
            for word in run(command, "--help").stdout.split():
                if word.startswith("--") and word.isascii() and word.strip("-").replace("-", "").isalpha():
                    self.assertIn(word.replace("-", "\\-"), pages[command])
        pages["serve.toml"] = run("manual", "serve.toml").stdout
        self.assertIn("rpcrdma\\-put", pages[""])
        self.assertEqual(run("manual", "nonsense").returncode, 2)
        tools = (["mandoc", "-T", "lint", "-W", "warning"], ["groff", "-man", "-ww", "-Tutf8", "-z"],
                 ["man", "--warnings=w", "-E", "UTF-8", "-l", "-"])
        for tool in tools:
            if shutil.which(tool[0]) is None:
                print(f"manual pages NOT checked by {tool[0]}: it is not installed")
                continue
            for name, page in pages.items():
                result = subprocess.run(tool, input=page, capture_output=True, text=True, check=False)
                said = result.stdout if tool[0] != "man" else ""
                self.assertEqual((result.returncode, said, result.stderr), (0, "", ""), f"{tool[0]}: {name}")

    def test_manual_pages_have_their_sections_in_order(self):
        order = ["NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "ARGUMENTS", "OPTIONS", "SETTINGS", "EXIT STATUS",
                 "ENVIRONMENT", "FILES", "SIGNALS", "NOTES", "SECURITY", "EXAMPLES", "SEE ALSO"]
        needed = {command: {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"}
                  for command in ["", *self.complete("rpcrdma", "")]}
        needed["serve"] |= {"ENVIRONMENT", "FILES", "SIGNALS", "SECURITY"}
        needed["serve.toml"] = {"NAME", "SYNOPSIS", "DESCRIPTION", "SETTINGS", "FILES", "SIGNALS", "SECURITY", "EXAMPLES", "SEE ALSO"}
        for name, sections in needed.items():
            found = re.findall(r"^\.SH (.+)$", run("manual", name).stdout if name else run("manual").stdout, re.M)
            self.assertEqual(found, [each for each in order if each in found], name)
            self.assertEqual(sections - set(found), set(), name)

    def test_manual_page_of_top_has_the_status_without_a_server(self):
        self.assertEqual(run("top", self.root / "none.sock", "--once").returncode, 3)
        section = run("manual", "top").stdout.partition(".SH EXIT STATUS\n")[2].partition(".SH ")[0]
        self.assertEqual(re.findall(r"^\.B (\d)", section, re.M), ["0", "1", "2", "3"], section)

    def test_manual_pages_have_each_option_and_the_page_of_the_file_each_setting(self):
        options = {}
        for line in run("options").stdout.splitlines():
            command, names = line.split("\t")
            options.setdefault(command, []).append(names.split(","))
        for command in self.complete("rpcrdma", ""):
            section = run("manual", command).stdout.partition(".SH OPTIONS\n")[2].partition(".SH ")[0]
            described = re.findall(r"^\.B ([^\s,]+(?:, [^\s,]+)*)", section.replace("\\-", "-"), re.M)
            self.assertEqual(described, [", ".join(names) for names in options[command]], command)
        settings = re.findall(r"^\.B (\S+) = ", run("manual", "serve.toml").stdout, re.M)
        taken = [names[-1].removeprefix("--") for names in options["serve"]]
        self.assertEqual([each.replace("\\-", "-") for each in settings],
                         [each for each in taken if each not in ("help", "config", "check", "unit")])


if __name__ == "__main__":
    unittest.main()
