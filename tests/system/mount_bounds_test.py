#!/usr/bin/env python3
"""Bounds of `rpcrdma mount`: the number of files that it has in mind, the time of a request, and what it says of both."""
import concurrent.futures
import errno
import json
import os
import re
import signal
import subprocess
import sys
import unittest

from command_fixture import run, wait_until
from mount_fixture import MountFixture, why_not

NODES = 256  # the least bound that there may be


class Nodes(MountFixture):
    by_name = False  # as with kernels before 6.18

    def mount_few(self):
        self.environment = {"RPCRDMA_MOUNT_FORGETS_BY_NAME": "1"} if self.by_name else {}
        return self.mount(options=f"timeo=600,nodes={NODES}")

    def stop_and_count(self, mounting):
        """The files and directories in mind at the most, and the names that the kernel was asked to forget."""
        self.ok("umount", self.at)
        said = self.ended(mounting)
        found = re.search(r"files and directories in mind, (\d+) at most, (\d+) names forgotten", said)
        self.assertIsNotNone(found, said)
        return int(found[1]), int(found[2])

    def test_files_beyond_the_bound_are_forgotten_and_found_again(self):
        mounting = self.mount_few()
        names = [f"name{i:05}" for i in range(4 * NODES)]
        for name in names:
            (self.served / name).write_text(name)
        for _ in range(2):
            self.assertEqual(sorted(os.listdir(self.at)), names)
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                self.assertEqual(list(pool.map(lambda name: (self.at / name).read_text(), names)), names)
        most, forgotten = self.stop_and_count(mounting)
        self.assertLessEqual(most, NODES)
        self.assertGreater(forgotten, 3 * NODES)

    def test_files_are_made_and_removed_while_names_are_forgotten(self):
        mounting = self.mount_few()

        def work(number):
            folder = self.at / f"d{number}"
            folder.mkdir()
            for i in range(150):
                (folder / f"f{i}").write_text(f"{number} {i}")
            for i in range(0, 150, 2):
                os.rename(folder / f"f{i}", folder / f"g{i}")
            for i in range(150):
                name = f"g{i}" if i % 2 == 0 else f"f{i}"
                self.assertEqual((folder / name).read_text(), f"{number} {i}")
                os.unlink(folder / name)
            folder.rmdir()
            return number

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.assertEqual(sorted(pool.map(work, range(4))), [0, 1, 2, 3])
        self.assertEqual(os.listdir(self.served), [])
        most, forgotten = self.stop_and_count(mounting)
        self.assertLessEqual(most, NODES)
        self.assertGreater(forgotten, 100)

    def test_directory_that_a_program_is_in_keeps_its_path(self):
        mounting = self.mount_few()
        for i in range(3 * NODES):
            (self.served / f"d{i:05}").mkdir()
        inside = subprocess.Popen(["sh", "-c", "read -r line; exec /bin/pwd -P"], cwd=self.at / "d00000", stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        self.processes.append(inside)
        for i in range(3 * NODES):
            os.stat(self.at / f"d{i:05}")
        output, _ = inside.communicate("go\n", timeout=60)
        self.assertEqual((inside.returncode, output.strip()), (0, str(self.at / "d00000")))
        most, _ = self.stop_and_count(mounting)
        self.assertLessEqual(most, NODES)

    def test_files_with_many_names_are_forgotten(self):
        mounting = self.mount_few()
        for i in range(NODES):
            (self.served / f"a{i:04}").touch()
            for letter in "bcdefg":
                os.link(self.served / f"a{i:04}", self.served / f"{letter}{i:04}")
        for i in range(NODES):
            for letter in "abcdefg":
                self.assertEqual(os.stat(self.at / f"{letter}{i:04}").st_nlink, 7)
        most, _ = self.stop_and_count(mounting)
        self.assertLessEqual(most, NODES)


@unittest.skipUnless(os.environ.get("RPCRDMA_TEST_FORGETS_BY_NAME", "1") == "1", "make check-release runs them")
class NodesByName(Nodes):
    by_name = True


class Time(MountFixture):
    def test_request_that_nobody_answers_is_ended_by_the_session(self):
        mounting = self.mount(options="timeo=30")
        os.kill(self.server.pid, signal.SIGSTOP)
        try:
            with self.assertRaises(OSError) as raised:
                os.stat(self.at / "nothing")
            self.assertEqual(raised.exception.errno, errno.ETIMEDOUT)
        finally:
            os.kill(self.server.pid, signal.SIGCONT)
        self.ok("umount", self.at)
        self.assertRegex(self.ended(mounting), r"[1-9]\d* requests timed out")


class Watched(MountFixture):
    def top(self, *arguments):
        result = run("top", *arguments, "--json", "--interval", "0.2")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["mount"]

    def test_top_shows_what_a_mount_does(self):
        mounting = self.mount()
        (self.at / "file").write_bytes(bytes(3 << 20))
        with open(self.at / "file", "rb") as file:
            file.read(1 << 20)
            # The loop takes its figures when it has nothing to do.
            wait_until(lambda: self.top(mounting.pid)["open_files"] == 1)
            seen = self.top(self.at)
        self.assertEqual((seen["directory"], seen["url"]), (str(self.at), self.url))
        self.assertEqual((seen["connections"], seen["connections_up"], seen["written_bytes_total"]), (1, 1, 3 << 20))
        self.assertGreaterEqual(seen["read_bytes_total"], 1 << 20)
        self.assertEqual((seen["nodes_limit"], seen["requests_timed_out_total"]), (100_000, 0))
        self.assertIn(seen["state"], ("idle", "at work"))
        table = run("top", self.at, "--once", "--interval", "0.1").stdout
        self.assertIn(f"mount of {self.url} at {self.at}", table)
        self.assertIn("1 of 1 up", table)
        self.ok("umount", self.at)
        self.ended(mounting)
        self.assertEqual(run("top", mounting.pid, "--json").returncode, 1)

    def test_socket_of_a_mount_is_where_the_option_says(self):
        path = self.root / "socket"
        self.mount("--stat-socket", path)
        self.assertEqual(self.top(path)["directory"], str(self.at))
        self.ok("umount", self.at)
        wait_until(lambda: not path.exists())
        mounting = self.mount("--stat-socket", "none")
        self.assertEqual(run("top", mounting.pid, "--json").returncode, 1)

    def test_socket_that_cannot_be_made_leaves_nothing_mounted(self):
        path = self.root / "no" / "socket"
        refused = run("mount", self.url, self.at, "--stat-socket", path)
        self.assertEqual(refused.returncode, 1)
        self.assertIn(f"cannot listen at {path} for `rpcrdma top`: No such file", refused.stderr)
        self.assertFalse(self.is_mounted())

    def test_path_of_the_socket_is_relative_to_where_the_command_was_called(self):
        folder = self.root / "folder"
        folder.mkdir()
        mounted = run("mount", self.url, self.at, "--stat-socket", "socket", cwd=folder)
        self.assertEqual((mounted.returncode, mounted.stderr), (0, ""))
        self.assertEqual(self.top(folder / "socket")["directory"], str(self.at))
        self.ok("umount", self.at)
        wait_until(lambda: os.listdir(folder) == [])


class Messages(MountFixture):
    def test_directory_that_the_server_does_not_have_is_named_by_its_url(self):
        refused = run("mount", self.url + "/nothing", self.at)
        self.assertEqual(refused.returncode, 1)
        self.assertIn(f"{self.url}/nothing: the export's directory cannot be read: No such file", refused.stderr)
        self.assertNotIn(str(self.at), refused.stderr)


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
