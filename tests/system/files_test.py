#!/usr/bin/env python3
"""What `rpcrdma` does with files: where they come from and go to, what their names are, and what serve keeps and says."""
import fcntl
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import unittest

from command_fixture import BOUND_S, COMMAND, CommandFixture, digest, run, wait_until


class FilesTest(CommandFixture):
    # --- Where a sent file comes from ---

    def test_put_reads_what_has_no_size_to_its_end(self):
        server = self.serve()
        path = self.file("file", (3 << 20) + 5)
        with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as cat:
            self.put(server, "-", "minus", stdin=cat.stdout)
        with open(path, "rb") as file:
            self.put(server, "/dev/stdin", "stdin", stdin=file)
        fifo = self.root / "fifo"
        os.mkfifo(fifo)
        with subprocess.Popen(["cp", path, fifo]):
            self.put(server, fifo)
        subprocess.run(["bash", "-c", f"'{COMMAND}' put {server.url} <(cat {path}) substituted"],
                       check=True, timeout=BOUND_S, stdout=subprocess.DEVNULL)
        for name in ("minus", "stdin", "fifo", "substituted"):
            self.assertEqual(digest(self.served / name), digest(path), name)
        self.put(server, "-", "empty", stdin=subprocess.DEVNULL)
        self.assertEqual((self.served / "empty").read_bytes(), b"")
        # Regular files whose size says nothing.
        for path in ("/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled", "/proc/cpuinfo"):
            if not os.path.exists(path):
                print(f"put of {path} NOT tested: it is not there")
                continue
            put = self.put(server, path, "--json")
            self.assertEqual(json.loads(put.stdout)["sha256"], digest(self.served / os.path.basename(path)))
            self.assertGreater((self.served / os.path.basename(path)).stat().st_size, 0, path)
        self.assertEqual((self.served / "version").read_bytes(), pathlib.Path("/proc/version").read_bytes())

    def test_put_of_standard_input_needs_a_name(self):
        result = run("put", "rdma://127.0.0.1:1", "-", stdin=subprocess.DEVNULL)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("put URL - NAME", result.stderr)
        folder = run("put", "rdma://127.0.0.1:1", self.root)
        self.assertEqual(folder.returncode, 2)
        self.assertIn("directory", folder.stderr)

    def test_put_waits_for_its_input_and_keeps_its_connection(self):
        server = self.serve()
        putter = subprocess.Popen([COMMAND, "put", "--no-reconnect", server.url, "-", "slow"],
                                  stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        data = os.urandom(1 << 20)
        for _ in range(3):
            putter.stdin.write(data)
            putter.stdin.flush()
            # All of it is on the server's disk, although nothing follows: the put is not stuck in a read.
            wait_until(lambda: self.uploading())
        _, errors = putter.communicate(timeout=BOUND_S)
        self.assertEqual((putter.returncode, errors), (0, b""))
        self.assertEqual((self.served / "slow").read_bytes(), 3 * data)
        lost = subprocess.Popen([COMMAND, "put", "--no-reconnect", server.url, "-", "slow"],
                                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        lost.stdin.write(data)
        lost.stdin.flush()
        wait_until(self.uploading)
        server.kill()
        self.assertEqual(lost.wait(timeout=BOUND_S), 3, "also while it waits for its input")
        self.assertIn(b"connection lost", lost.stderr.read())
        lost.stdin.close()
        lost.stderr.close()

    # --- Where a fetched file goes ---

    def test_get_writes_through_what_is_no_regular_file(self):
        server = self.serve()
        data = self.served_file("file", (3 << 20) + 5)
        fifo = self.root / "fifo"
        os.mkfifo(fifo)
        with subprocess.Popen([COMMAND, "get", server.url, "file", str(fifo)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as getter:
            reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
            os.set_blocking(reader, True)
            wait_until(lambda: getter.poll() is not None or self.has_data(reader))
            with open(reader, "rb") as file:
                self.assertEqual(file.read(), data)
            self.assertEqual((getter.wait(timeout=BOUND_S), getter.stderr.read()), (0, ""))
        self.assertTrue(fifo.is_fifo())
        device = self.device()
        link = self.root / "link"
        link.symlink_to(device)
        for path in (device, link):
            self.get(server, "file", path)
        self.assertTrue(link.is_symlink())
        self.assertTrue(device.is_char_device())
        self.assertEqual(set(self.in_root()) - {"device"}, {"fifo", "link"})

    def test_get_to_descriptors_keeps_them_and_what_they_hold(self):
        server = self.serve()
        data = self.served_file("file", 100_000)
        link = self.root / "link"  # as /dev/stdout is one, which root could destroy
        link.symlink_to("/proc/self/fd/1")
        for path in ("/dev/fd/1", "/proc/self/fd/1", str(link), "-"):
            got = subprocess.run([COMMAND, "get", server.url, "file", path], capture_output=True,
                                 timeout=BOUND_S, check=False)
            self.assertEqual((got.returncode, got.stderr, got.stdout), (0, b"", data), path)
            target = self.root / "target"
            target.write_bytes(b"begin")
            with open(target, "ab") as file:
                subprocess.run([COMMAND, "get", server.url, "file", path], stdout=file, timeout=BOUND_S,
                               check=True)
            self.assertEqual(target.read_bytes(), b"begin" + data, path)

    def test_get_follows_symlinks_and_leaves_them(self):
        server = self.serve()
        data = self.served_file("file", 1000)
        folder = self.root / "folder"
        folder.mkdir()
        (folder / "old").write_bytes(b"old")
        for name, target in (("link", "folder/old"), ("twice", "link"), ("dangling", "folder/new"),
                             ("absolute", folder / "other")):
            link = self.root / name
            link.symlink_to(target)
            self.get(server, "file", link)
            self.assertTrue(link.is_symlink(), name)
            self.assertEqual(link.read_bytes(), data, name)
        self.assertEqual(sorted(os.listdir(folder)), ["new", "old", "other"])
        (self.root / "loop").symlink_to("loop")
        looped = run("get", server.url, "file", self.root / "loop")
        self.assertEqual(looped.returncode, 1)
        self.assertIn("Too many levels of symbolic links", looped.stderr)

    def test_get_leaves_files_of_the_user_and_takes_long_names(self):
        server = self.serve()
        data = self.served_file("file", 1000)
        part = self.root / "back.part"
        part.write_bytes(b"mine")
        self.get(server, "file", self.root / "back")
        self.assertEqual(part.read_bytes(), b"mine")
        long = self.root / ("x" * 255)
        self.get(server, "file", long)
        self.assertEqual(long.read_bytes(), data)
        self.get(server, "file", self.root / "folder-to-be", cwd=self.root)
        folder = self.root / "folder"
        folder.mkdir()
        self.get(server, "file", folder)
        self.assertEqual((folder / "file").read_bytes(), data)
        nowhere = run("get", server.url, "file", self.root / "none" / "file")
        self.assertEqual(nowhere.returncode, 1)
        self.assertIn(f"{self.root}/none: No such file or directory", nowhere.stderr)

    def test_get_keeps_the_mode_of_what_it_replaces_and_else_follows_the_umask(self):
        server = self.serve()
        self.served_file("file", 1000)
        old = self.root / "old"
        old.write_bytes(b"")
        old.chmod(0o600)
        self.get(server, "file", old, umask=0o022)
        self.assertEqual(old.stat().st_mode & 0o777, 0o600)
        for mask in (0o022, 0o077, 0o002):
            new = self.root / f"new{mask}"
            self.get(server, "file", new, umask=mask)
            self.assertEqual(new.stat().st_mode & 0o777, 0o666 & ~mask)

    def test_two_gets_into_one_file_end_with_a_whole_one(self):
        server = self.serve()
        sizes = (8 << 20, 5 << 20)
        for i, size in enumerate(sizes):
            self.served_file(f"file{i}", size)
        back = self.root / "back"
        getters = [subprocess.Popen([COMMAND, "get", server.url, f"file{i % 2}", str(back), "--size", "16k"],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                   for i in range(4)]
        for getter in getters:
            _, errors = getter.communicate(timeout=BOUND_S)
            self.assertEqual((getter.returncode, errors), (0, ""))
        self.assertIn(digest(back), [digest(self.served / f"file{i}") for i in range(2)])
        self.assertEqual(self.in_root(), ["back"])

    def test_get_that_fails_or_is_interrupted_leaves_nothing(self):
        server = self.serve()
        with open(self.served / "big", "wb") as file:
            file.truncate(4 << 30)
        back = self.root / "back"
        for number in (signal.SIGINT, signal.SIGTERM):
            getter = subprocess.Popen([COMMAND, "get", server.url, "big", str(back)])
            wait_until(lambda: self.receiving(getter))
            getter.send_signal(number)
            getter.wait(timeout=BOUND_S)
            self.assertEqual(self.in_root(), [])
        self.assertEqual(run("get", server.url, "none", back).returncode, 1)
        self.assertEqual(self.in_root(), [])

    def test_get_writes_nothing_of_its_own_into_the_file_though_streams_are_closed(self):
        server = self.serve()
        data = self.served_file("file", 100_000)
        back = self.root / "back"
        for closed in ("0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"):
            result = subprocess.run(["sh", "-c", f'"$0" get -v "$1" file "$2" {closed}', COMMAND, server.url, back],
                                    capture_output=True, timeout=BOUND_S, check=False)
            # A command that has to print, and cannot, fails.
            self.assertEqual(result.returncode, 1 if "1>" in closed else 0, (closed, result.stderr))
            self.assertEqual(back.read_bytes(), data, closed)
            back.unlink()

    def test_rm_says_what_it_did(self):
        server = self.serve()
        for arguments, removed in ((["--json"], True), (["--json", "--force"], False), (["-f"], None)):
            if removed:
                (self.served / "file").write_bytes(b"abc")
            result = run("rm", server.url, "file", *arguments)
            self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
            self.assertFalse((self.served / "file").exists())
            if removed is not None:
                self.assertEqual(json.loads(result.stdout), {"operation": "rm", "name": "file", "removed": removed})
        missing = run("rm", server.url, "nosuch")
        self.assertEqual((missing.returncode, missing.stdout), (1, ""))
        self.assertIn("nosuch", missing.stderr)
        self.assertIn("no such file on the server", missing.stderr)
        (self.served / "folder").mkdir()
        self.assertEqual(run("rm", server.url, "folder").returncode, 1)
        self.assertTrue((self.served / "folder").exists())

    # --- Names that terminals and JSON do not like ---

    def test_names_are_printed_so_that_they_harm_no_terminal_and_can_be_made_again(self):
        names = {b"bold\x1b[1m": "bold\\x1b[1m", b"two\nlines": "two\\x0alines", b"latin\xe9": "latin\\xe9",
                 b"back\\slash": "back\\\\slash", "gr\u00fc\u00df".encode(): "gr\u00fc\u00df"}
        for name in names:
            (self.served / os.fsdecode(name)).write_bytes(b"abc")
        server = self.serve()
        listed = run("ls", server.url)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertEqual(sorted(line[15:] for line in listed.stdout.splitlines()), sorted(names.values()))
        result = run("ls", server.url, "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        entries = json.loads(result.stdout)["entries"]
        self.assertEqual({self.name_of(entry) for entry in entries}, set(names))
        path = self.file("file", 100)
        for name, shown in names.items():
            put = run("put", server.url, path, os.fsdecode(name), "--json")
            self.assertEqual((put.returncode, put.stderr), (0, ""), name)
            self.assertEqual(self.name_of(json.loads(put.stdout)), name)
            put = run("put", server.url, path, os.fsdecode(name))
            self.assertIn(f"put {shown}: ", put.stdout)
            self.assertEqual(run("get", server.url, os.fsdecode(name), self.root / "back").returncode, 0)
            removed = run("rm", server.url, os.fsdecode(name), "--json")
            self.assertEqual(self.name_of(json.loads(removed.stdout)), name)
            missing = run("rm", server.url, os.fsdecode(name))
            self.assertIn(shown.replace("\\\\", "\\"), missing.stderr)

    @staticmethod
    def name_of(entry):
        """By what `rpcrdma ls --help` says."""
        name = entry["name"]
        if not entry.get("escaped"):
            return name.encode()
        return re.sub(rb"\\(\\|x..)", lambda found: b"\\" if found[1] == b"\\" else bytes([int(found[1][1:], 16)]),
                      name.encode())

    # --- What else may lie in a directory ---

    def test_put_onto_something_else_than_a_file_says_so(self):
        (self.served / "folder").mkdir()
        os.mkfifo(self.served / "fifo")
        server = self.serve()
        for name in ("folder", "fifo"):
            result = run("put", server.url, self.file("file", 10), name)
            self.assertEqual(result.returncode, 1)
            self.assertIn("a directory or a device has this name", result.stderr)
            self.assertNotIn("disk", result.stderr)
        self.assertTrue((self.served / "fifo").is_fifo())

    def test_files_that_are_no_regular_ones_of_the_directory_are_not_served(self):
        """A FIFO used to stop the server, and links led out of the directory."""
        secret = self.file("secret", 100)
        os.mkfifo(self.served / "fifo")
        (self.served / "absolute").symlink_to(secret)
        (self.served / "relative").symlink_to("../secret")
        (self.served / "file").write_bytes(b"abc")
        (self.served / "inside").symlink_to("file")
        server = self.serve()
        for name in ("fifo", "absolute", "relative"):
            result = run("get", server.url, name, "-", "--timeout", 20)
            self.assertEqual((result.returncode, result.stdout), (1, ""), name)
            self.assertIn("no such file on the server", result.stderr)
        self.assertEqual(run("get", server.url, "inside", "-").stdout, "abc")
        self.assertEqual([line[15:] for line in run("ls", server.url).stdout.splitlines()], ["file", "inside"])

    # --- What a server does with its directory ---

    def test_uploads_are_forgotten_while_the_server_runs(self):
        server = self.serve("--upload-idle", "0.5")
        path = self.file("file", 5 << 20)
        self.cut_off_put(server, path)
        self.put(server, path, "whole")
        wait_until(lambda: os.listdir(self.served) == ["whole"])
        self.put(server, path, "again")
        wait_until(lambda: sorted(os.listdir(self.served)) == ["again", "whole"])

    def test_read_only_server_changes_nothing(self):
        (self.served / "file").write_bytes(b"abc")
        server = self.serve("--read-only")
        for arguments in (["put", server.url, self.file("new", 10)], ["rm", server.url, "file"]):
            result = run(*arguments)
            self.assertEqual(result.returncode, 1)
            self.assertIn("the server is read-only", result.stderr)
        self.assertEqual(run("get", server.url, "file", "-").stdout, "abc")
        self.assertEqual(os.listdir(self.served), ["file"])

    def synced(self, *arguments):
        """What a server brings to the disk while a file is put."""
        _, (url, *_), trace = self.serve_under_strace(["-e", "trace=fsync,fdatasync"], "--blob", self.served, "--port", "0",
                                                      *arguments)
        put = run("put", url, self.file("file", 1000))
        self.assertEqual(put.returncode, 0, put.stderr)
        return trace.read_text().count("fsync(")

    def test_put_is_on_the_disk_when_it_is_answered(self):
        self.assertEqual(self.synced(), 2, "the file and its directory")

    def test_no_sync_does_without_the_disk(self):
        self.assertEqual(self.synced("--no-sync"), 0)

    # --- What a server says ---

    def log_of(self, *arguments):
        """What a server writes while one client comes, does a few things, and one is killed."""
        server = self.serve(*arguments)
        self.put(server, self.file("file", 100_000))
        run("put", server.url, self.root / "file", "a/b")
        run("rm", server.url, "file")
        client = subprocess.Popen([COMMAND, "put", server.url, "-", "slow"], stdin=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
        client.stdin.write(b"x" * (1 << 20))
        client.stdin.flush()
        wait_until(self.uploading)
        client.kill()
        client.communicate(timeout=BOUND_S)
        code, _, errors = server.stop()
        self.assertEqual(code, 0)
        return errors

    def test_log_has_a_line_for_each_connection_and_change(self):
        log = self.log_of()
        lines = log.splitlines()
        for line in lines:
            self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (error|warning|info) ")
        self.assertIn("readable and writable for whoever reaches it; this machine only (--listen", lines[0])
        self.assertEqual(len([line for line in lines if re.search(r"127\.0\.0\.1:\d+ connected", line)]), 3)
        self.assertEqual(len(re.findall(r"127\.0\.0\.1:\d+ put file$", log, re.MULTILINE)), 1)
        self.assertEqual(len(re.findall(r"127\.0\.0\.1:\d+ rm file$", log, re.MULTILINE)), 1)

    def test_log_level_is_obeyed(self):
        self.assertEqual(self.log_of("--log-level", "none"), "")
        self.assertIn(" debug connections: 127.0.0.1:", self.log_of("--log-level", "debug"))
        self.assertNotIn(" info ", self.log_of("--log-level", "warning"))

    def test_log_says_what_went_wrong(self):
        def limit_file_size():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        server = self.serve("--log-level", "warning", preexec_fn=limit_file_size)
        self.assertEqual(run("put", server.url, self.file("big", 2 << 20)).returncode, 1)
        _, _, errors = server.stop()
        self.assertRegex(errors, r"error blob: writing the upload of big: File too large")
        self.assertRegex(errors, r"warning blob: 127\.0\.0\.1:\d+ sending data failed: no space left")

    def test_server_lives_when_nobody_reads_its_log(self):
        ours, theirs = os.pipe()
        fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
        server = subprocess.Popen([COMMAND, "serve", "--blob", self.served, "--port", "0", "--log-level", "debug"],
                                  stdout=subprocess.PIPE, stderr=theirs, text=True)
        os.close(theirs)
        try:
            url = server.stdout.readline().split()[1]
            for _ in range(30):
                self.assertEqual(run("ls", url).returncode, 0)
        finally:
            server.terminate()
            self.assertEqual(server.wait(timeout=BOUND_S), 0)
            server.stdout.close()
            os.close(ours)

    def test_serve_listens_on_loopback_unless_told_otherwise(self):
        with subprocess.Popen([COMMAND, "serve", "--blob", self.served, "--port", "0"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as server:
            line = server.stdout.readline()
            server.terminate()
            server.communicate(timeout=BOUND_S)
        self.assertRegex(line, r"^ready rdma://127\.0\.0\.1:\d+$")
        self.assertIn("127.0.0.1", run("serve", "--help").stdout)


if __name__ == "__main__":
    unittest.main()
