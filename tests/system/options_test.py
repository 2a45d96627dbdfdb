#!/usr/bin/env python3
"""Options of the `rpcrdma` command whose effect no other test shows, and those that are refused where they have none."""
import json
import os
import pathlib
import socket
import subprocess
import unittest

from command_fixture import BOUND_S, COMMAND, CommandFixture, run, wait_until
from trace import Trace

BENCH_PROGRAM = 0x20010020
FILES = 60  # in the export


class OptionsFixture(CommandFixture):
    def setUp(self):
        super().setUp()
        self.exported = self.root / "exported"
        self.exported.mkdir()

    def serve_both(self, *arguments, **keywords):
        """Blobs and an export; URLs by their schemes."""
        server = self.serve("--nfs", f"{self.exported}:no_root_squash,name=/ex", "--nfs-tcp-port", "0", "--provider",
                            "siwarp", "--handle-key", self.root / "key", *arguments, **keywords)
        return server, {url.split(":")[0]: url for url in server.urls}

    def make_exported(self, count=FILES):
        for i in range(count):
            (self.exported / f"file{i}").write_text(f"{i}\n")

    def ok(self, *arguments):
        result = run(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
        return result.stdout

    def refused(self, text, *arguments, code=2):
        result = run(*arguments)
        self.assertEqual((result.returncode, result.stdout), (code, ""), (arguments, result.stderr))
        self.assertIn(text, result.stderr, arguments)

    def traced(self, *arguments):
        """Reads what went over the connections of a command, from its own capture."""
        path = self.root / "trace.pcapng"
        output = self.ok(*arguments, "--capture", path)
        return Trace(path), output

    def descriptors(self, server, begin):
        """How many descriptors of the server are of files whose names begin so."""
        folder = pathlib.Path(f"/proc/{server.process.pid}/fd")
        count = 0
        for each in list(folder.iterdir()):
            try:
                count += os.readlink(each).startswith(begin)
            except FileNotFoundError:  # closed meanwhile
                pass
        return count


class ConnectionOptions(OptionsFixture):
    def test_credits_are_asked_for_and_granted(self):
        server = self.serve("--credits", "33", "--provider", "siwarp")
        trace, _ = self.traced("ping", server.url, "--count", "3", "--credits", "7")
        self.assertEqual(trace.credits_asked(), {7})
        self.assertEqual(trace.credits_granted(), {33})
        shares = self.serve("--credits", "33", "--receives-max", "5", "--provider", "siwarp")
        trace, _ = self.traced("ping", shares.url, "--count", "3")
        self.assertEqual(trace.credits_granted(), {5})

    def test_crc_is_on_when_either_side_wants_it(self):
        wanted = 0x40  # of the flags of MPA's set-up frames (RFC 5044 §7.1)
        for server_crc in ("on", "off"):
            server = self.serve("--crc", server_crc, "--provider", "siwarp")
            for crc in ("on", "off"):
                trace, _ = self.traced("ping", server.url, "--count", "1", "--crc", crc)
                self.assertEqual([flags & wanted != 0 for flags in trace.set_up],
                                 [crc == "on", "on" in (crc, server_crc)])

    def test_inline_is_how_much_a_message_holds(self):
        server = self.serve("--inline", "65536", "--provider", "siwarp")
        path = self.file("file", 16 << 10)
        for inline, long_calls in (("65536", 0), ("4096", 1)):
            counters = json.loads(self.ok("put", server.url, path, "--no-reduce", "--inline", inline, "--json"))["counters"]
            self.assertEqual(counters["long_calls"], long_calls)

    def test_inline_arguments_are_what_a_call_holds_besides(self):
        server = self.serve("--provider", "siwarp")
        path = self.file("file", 40_000)
        for options, chunks in (((), 0), (("--inline-arguments", "32k"), 1), (("--inline-arguments", "0"), 1),
                                (("--inline", "8192"), 1), (("--inline", "8192", "--inline-arguments", "64k"), 0)):
            counters = json.loads(self.ok("put", server.url, path, *options, "--json"))["counters"]
            self.assertEqual(counters["read_chunks"], chunks, options)

    def test_capture_ends_at_its_bound(self):
        server = self.serve("--provider", "siwarp")
        path = self.file("file", 1 << 20)
        self.ok("put", server.url, path, "--capture", self.root / "all")
        self.ok("put", server.url, path, "--capture", self.root / "some", "--capture-max", "20k")
        self.assertGreater((self.root / "all").stat().st_size, 1 << 20)
        self.assertLessEqual((self.root / "some").stat().st_size, 20 << 10)
        self.assertGreaterEqual(len(Trace(self.root / "some").headers), 1)

    def test_provider_is_the_one_that_is_named(self):
        server = self.serve("--provider", "siwarp", "--shared-receives", "always", "--receives-max", "64")
        self.assertEqual(json.loads(self.ok("ping", server.url, "--count", "1", "--json", "--provider", "siwarp"))["provider"],
                         "siwarp")
        errors = server.stop()[2]
        self.assertIn(" by siwarp", errors)
        self.assertIn("--shared-receives is for RDMA devices", errors)

    def test_server_of_version_two_alone_refuses_version_one(self):
        server = self.serve("--rpcrdma-version", "2")
        self.refused("try --rpcrdma-version auto", "ping", server.url, "--count", "1", code=1)
        pinged = json.loads(self.ok("ping", server.url, "--count", "1", "--json", "--rpcrdma-version", "auto"))
        self.assertEqual(pinged["rpcrdma_version"], 2)

    def test_options_that_have_no_effect_beside_others_are_refused(self):
        url = "rdma://127.0.0.1:1"
        for words, text in (("--capture-max 1m", "--capture-max requires --capture"),
                            ("--receive-size 64k", "--receive-size is for version 2"),
                            ("--registration per-call --provider siwarp", "--registration is for RDMA devices"),
                            ("--crc off --provider verbs", "--crc is for software iWARP"),
                            ("--inline-arguments 1k --profile rfc5666", "--inline-arguments is for RFC 8166"),
                            ("--sec-service nfs@elsewhere", "--sec-service is for Kerberos"),
                            ("--rpcbind-port 5", "--rpcbind-port is for a HOST alone"),
                            ("--mount-port 5", "--mount-port is for NFS URLs")):
            self.refused(text, "ping", url, *words.split())
        self.refused("--registration is for RDMA devices", "serve", "--blob", self.served, "--port", "0", "--registration",
                     "windows", "--provider", "siwarp")
        self.refused("--address", "bench", url, "--address", "127.0.0.1")


class BlobOptions(OptionsFixture):
    def test_size_and_depth_are_of_the_calls_with_data(self):
        server = self.serve("--provider", "siwarp")
        path = self.file("file", 256 << 10)
        for size, calls in (("16k", 16), ("64k", 4)):
            put, _ = self.traced("put", server.url, path, "--size", size, "--depth", "1")
            self.assertEqual(put.calls_at_a_time(), 1)
            got = json.loads(self.ok("get", server.url, "file", self.root / "back", "--size", size, "--json"))
            self.assertGreaterEqual(got["calls"], calls)
            self.assertLess(got["calls"], 2 * calls)
        for command, words in (("put", (path,)), ("get", ("file", self.root / "back"))):
            trace, _ = self.traced(command, server.url, *words, "--size", "4k", "--depth", "3")
            self.assertEqual(trace.calls_at_a_time(), 3)

    def test_ls_gives_up_after_entries_max_and_has_sizes_for_people(self):
        server = self.serve("--provider", "siwarp")
        self.served_file("a", 1536)
        self.served_file("b", 5)
        self.assertEqual(self.ok("ls", server.url, "--entries-max", "2").split(), ["1536", "a", "5", "b"])
        self.assertEqual(self.ok("ls", "--human-readable", server.url).split()[:3], ["1.5", "KiB", "a"])
        self.assertEqual(self.ok("ls", "--all", server.url), self.ok("ls", server.url))
        self.refused("127.0.0.1", "ls", server.url, "--entries-max", "1", code=1)

    def test_options_of_nfs_are_refused_for_blobs(self):
        server = self.serve("--provider", "siwarp")
        for words in (("-l",), ("-R",), ("--mount-port", "5"), ("--connections", "2"), ("--no-reconnect",)):
            self.refused("is for NFS URLs, and this is none", "ls", server.url, *words)
        for words in (("-r",), ("--mount-port", "5"), ("--connections", "2"), ("--no-reconnect",)):
            self.refused("is for NFS URLs, and this is none", "rm", server.url, "name", *words)
        self.served_file("file", 10)
        self.refused("--json is for results, and standard output gets the file", "get", server.url, "file", "-", "--json")


class NfsOptions(OptionsFixture):
    def test_connections_are_made_to_the_server(self):
        with open(self.exported / "large", "wb") as file:
            file.truncate(96 << 20)
        server, urls = self.serve_both()
        for scheme in ("nfs+rdma", "nfs+tcp"):  # the others come up while the first one is at work
            self.ok("cp", urls[scheme] + "/large", self.root / "back", "--depth", "1", "--connections", "3")
        self.assertEqual(server.stop()[2].count("connected (3 now)"), 2)

    def test_mount_port_is_where_mount_is_asked(self):
        _, urls = self.serve_both()
        port = urls["nfs+tcp"].split("/")[2].split(":")[1]
        for command in (("ls",), ("df",), ("ping", "--ready")):
            self.ok(*command, urls["nfs+rdma"], "--mount-port", port)
            self.refused("127.0.0.1:1", *command, urls["nfs+rdma"], "--mount-port", "1", code=3)

    def test_cp_has_as_many_files_and_calls_under_way_as_it_is_told(self):
        self.make_exported()
        (self.root / "large").write_bytes(os.urandom(8 << 20))
        _, urls = self.serve_both()
        url = urls["nfs+rdma"]
        one, _ = self.traced("cp", "-r", url, self.root / "one", "--files", "1", "--depth", "1")
        self.assertEqual(one.calls_at_a_time(), 1)
        many, _ = self.traced("cp", "-r", url, self.root / "many", "--files", "4")
        self.assertGreater(many.calls_at_a_time(), 1)
        self.assertLessEqual(many.calls_at_a_time(), 5, "the listing is one beside the files")
        deep, _ = self.traced("cp", self.root / "large", url + "/large", "--depth", "3")
        self.assertEqual(deep.calls_at_a_time(), 3)

    def test_entries_max_bounds_what_a_server_lists(self):
        self.make_exported()
        _, urls = self.serve_both()
        url = urls["nfs+rdma"]
        (self.exported / "tree").mkdir()
        names = len(os.listdir(self.exported))
        for each in os.listdir(self.exported):
            (self.exported / "tree" / each).touch()
        for command in (("ls", url), ("cp", "-r", url + "/tree", self.root / "back"), ("rm", "-r", url + "/tree")):
            done = run(*command, "--entries-max", names - 1)
            self.assertEqual(done.returncode, 1, command)
            self.assertIn(f"the server lists more than {names - 1} names", done.stderr, command)
            self.ok(*command, "--entries-max", names)
        self.assertEqual(len(os.listdir(self.root / "back" / "tree")), names, "the first cp made back")
        self.assertFalse((self.exported / "tree").exists())

    def test_no_reconnect_ends_with_the_connection(self):
        with open(self.exported / "large", "wb") as file:
            file.truncate(4 << 30)
        server, urls = self.serve_both()
        getter = subprocess.Popen([COMMAND, "cp", "--sparse", "never", "--no-reconnect", urls["nfs+rdma"] + "/large",
                                   self.root / "back"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(getter.kill)
        wait_until(lambda: self.receiving(getter))
        server.kill()
        errors = getter.communicate(timeout=BOUND_S)[1]
        self.assertEqual(getter.returncode, 3, errors)
        self.assertIn("connection lost", errors)

    def test_json_is_printed_or_refused(self):
        _, urls = self.serve_both()
        url = urls["nfs+rdma"]
        (self.exported / "file").write_text("abc")
        made = [json.loads(line) for line in self.ok("mkdir", "--json", "-p", url + "/a/b", url + "/a").splitlines()]
        self.assertEqual(made, [{"operation": "mkdir", "name": "/ex/a/b"}, {"operation": "mkdir", "name": "/ex/a"}])
        self.assertEqual(json.loads(self.ok("mv", "--json", url + "/file", url + "/a")),
                         {"operation": "mv", "name": "/ex/a"})
        self.refused("--json is for results", "cat", "--json", url + "/a/file")
        for option in ("-p", "-n", "--sparse=never", "--files=2", "--depth=2", "--json"):
            self.refused("is for copies, and standard output gets", "cp", option, url + "/a/file", "-")

    def test_options_that_have_no_effect_at_an_nfs_server_are_refused(self):
        _, urls = self.serve_both()
        for words in ("--provider siwarp", "--registration per-call", "--crc off", "--inline 4096", "--receive-size 64k",
                      "--credits 5", "--profile rfc5666", "--rpcrdma-version 2"):
            self.refused(f"{words.split()[0]} is for RDMA, and nfs+tcp:// is plain TCP", "df", urls["nfs+tcp"],
                         *words.split())
        self.ok("df", urls["nfs+tcp"], urls["nfs+rdma"], "--crc", "off")
        for words in ("--rpcbind-port 5", "--step-up"):
            self.refused("is for URLs of the blob program, and this is one of NFS", "ls", urls["nfs+rdma"], *words.split())
        for words in ("--program 5", "--version 5"):
            self.refused("is for rdma:// URLs", "ping", "--ready", urls["nfs+rdma"], *words.split())


class ServeOptions(OptionsFixture):
    def test_silent_peers_are_dropped_after_setup_timeout(self):
        patient, quick = (self.serve("--provider", "siwarp", "--setup-timeout", each) for each in ("3600", "0.1"))
        with socket.create_connection(("127.0.0.1", patient.port)) as kept, \
                socket.create_connection(("127.0.0.1", quick.port), BOUND_S) as dropped:
            self.assertEqual(dropped.recv(1), b"")
            self.assertFalse(self.has_data(kept))

    def test_connections_at_rest_are_closed_after_rdma_idle(self):
        server = self.serve("--provider", "siwarp", "--rdma-idle", "0.1", "--log-level", "debug")
        putter = subprocess.Popen([COMMAND, "put", "--no-reconnect", server.url, "-", "slow"], stdin=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(putter.kill)
        log = []

        def says(text):
            while self.has_data(server.process.stderr):
                log.append(os.read(server.process.stderr.fileno(), 1 << 16).decode())
            return text in "".join(log)

        wait_until(lambda: says(" connected ("))
        wait_until(lambda: says(" closed after "))
        _, errors = putter.communicate(b"x", timeout=BOUND_S)
        self.assertEqual(putter.returncode, 3, errors)

    def test_bench_serves_its_program(self):
        with_it, without = self.serve("--bench"), self.serve()
        program = ("--program", BENCH_PROGRAM, "--version", "1", "--count", "1")
        self.ok("ping", with_it.url, *program)
        self.refused("program unavailable", "ping", without.url, *program, code=1)

    def test_files_are_kept_open_up_to_open_files(self):
        self.make_exported()
        for options, is_bounded in ((("--open-files", "16"), True), ((), False)):
            server, urls = self.serve_both(*options)
            self.ok("cat", *(f"{urls['nfs+rdma']}/file{i}" for i in range(FILES)))
            count = self.descriptors(server, f"{self.exported}/")
            self.assertEqual(count < FILES, is_bounded, count)
            server.stop()

    def test_workers_of_nfs_are_threads(self):
        tree = self.root / "many"
        tree.mkdir()
        for i in range(60):
            (tree / str(i)).write_bytes(b"x" * 10000)
        started = {}
        for workers in ("1", "50"):
            server, urls = self.serve_both("--nfs-workers", workers)
            tasks = f"/proc/{server.process.pid}/task"
            before = len(os.listdir(tasks))
            self.ok("cp", "-r", tree, urls["nfs+rdma"] + f"/copy{workers}")
            started[workers] = len(os.listdir(tasks)) - before
        # Chores of the server are a host of their own.
        self.assertLessEqual(started["1"], 2)
        self.assertGreater(started["50"], 2)

    def test_handles_of_a_table_are_beside_the_key(self):
        server, _ = self.serve_both("--handles", "table")
        self.assertTrue(list(self.root.glob("handles-*.db")))
        server.stop()
        for each in self.root.glob("handles-*"):
            each.unlink()
        if os.geteuid() != 0:
            return self.refused("--handles", "serve", "--nfs", self.exported, "--port", "0", "--handle-key",
                                self.root / "key", "--handles", "kernel")
        try:
            self.serve_both("--handles", "kernel")
        except AssertionError as error:
            self.skipTest(f"the file system here has no handles: {error}")
        self.assertEqual(list(self.root.glob("handles-*.db")), [])

    def syncs_of_mkdir(self, *options):
        try:  # a table of handles is a file, too
            _, (url, *_), trace = self.serve_under_strace(
                ["-e", "trace=fsync,fdatasync,syncfs"], "--nfs", f"{self.exported}:no_root_squash,name=/ex", "--port", "0",
                "--nfs-tcp-port", "0", "--provider", "siwarp", "--handles", "kernel", "--handle-key", self.root / "key", *options)
        except AssertionError as error:
            if "handles of the kernel" not in str(error):
                raise
            self.skipTest(f"there are no handles of the kernel here: {error}")
        before = trace.read_text().count("sync(")
        self.ok("mkdir", f"{url}/made{len(options)}")
        return trace.read_text().count("sync(") - before

    def test_changes_are_on_the_disk_unless_nfs_async_is_given(self):
        self.assertGreater(self.syncs_of_mkdir(), 0)
        self.assertEqual(self.syncs_of_mkdir("--nfs-async"), 0)

    def test_bound_of_connections_over_tcp_is_the_one_that_can_be_chosen(self):
        text = " ".join(self.ok("serve", "--help").split())
        self.assertIn("by plain TCP, to --connections at a time", text)
        self.assertIn("--connections UINT=1024", text)

    def test_options_without_what_they_are_for_are_refused(self):
        for words, text in (("--blob {} --export /x", "--export is for exports"),
                            ("--blob {} --handle-key k", "--handle-key is for exports"),
                            ("--blob {} --handles table", "--handles is for exports"),
                            ("--blob {} --nfs-tcp-port 0", "--nfs-tcp-port is for exports"),
                            ("--blob {} --nfs-workers 2", "--nfs-workers is for exports"),
                            ("--blob {} --open-files 20", "--open-files is for exports"),
                            ("--blob {} --nfs-async", "--nfs-async is for exports"),
                            ("--blob {} --tcp-idle 5", "--tcp-idle is for plain TCP"),
                            ("--bench --read-only", "--read-only is for files"),
                            ("--bench --no-sync", "--no-sync is for files of --blob"),
                            ("--nfs {} --upload-idle 5", "--upload-idle is for files of --blob"),
                            ("--blob {} --shared-receives never", "--shared-receives requires --receives-max")):
            self.refused(text, "serve", "--port", "0", *words.format(self.served).split())


class WordsInBrackets(OptionsFixture):
    """The parser of the command line would take them for lists, and "[]" for no word at all."""

    def test_files_keep_their_names(self):
        _, urls = self.serve_both()
        (self.root / "out").write_text("other")
        for name in ("[out]", "[a,b]", "[]"):
            (self.exported / name).write_text(f"content of {name}")
            url = f"{urls['nfs+rdma']}/{name}"
            result = run("cp", url, name, cwd=self.root)
            self.assertEqual((result.returncode, result.stderr), (0, ""), name)
            self.assertEqual((self.root / name).read_text(), f"content of {name}")
        self.assertEqual((self.root / "out").read_text(), "other")
        result = run("cat", "[x]")
        self.assertIn("'[x]'", result.stderr)

    def test_a_capture_keeps_its_name(self):
        _, urls = self.serve_both()
        self.ok("ping", urls["rdma"], "--count", "1", "--capture", self.root / "[k]")
        for words in (["summary"], ["check"], []):
            result = run("explain", *words, "[k]", cwd=self.root)
            self.assertEqual((result.returncode, result.stderr), (0, ""), words)

    def test_a_program_gets_them_as_they_are(self):
        self.refused("cannot start [x]: No such file or directory", "run", "--", "[x]", code=1)
        self.refused("does not expect '[a,b]', '[]', '[::1]'", "run", "--", COMMAND, "info", "[a,b]", "[]", "[::1]")

    def test_an_export_keeps_its_name(self):
        directory = self.root / "[data]"
        directory.mkdir()
        settings = self.root / "serve.toml"
        for value in (json.dumps(str(directory)), json.dumps([str(directory)]), '"[data]"'):
            settings.write_text(f"nfs = {value}\nport = 0\n")
            result = run("serve", "--check", "--config", settings, cwd=self.root)
            self.assertEqual((result.returncode, result.stderr), (0, ""), value)
            self.assertIn("[data], by the name", result.stdout)
        for words in (["--nfs", "[data]"], ["--nfs=[data]"]):
            result = run("serve", "--check", "--port", "0", *words, cwd=self.root)
            self.assertEqual((result.returncode, result.stderr), (0, ""), words)
            self.assertIn("  --nfs=[data]\n", result.stdout)
        self.refused("[none]: No such file or directory", "serve", "--check", "--nfs", "[none]")


if __name__ == "__main__":
    unittest.main()
