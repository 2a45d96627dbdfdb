#!/usr/bin/env python3
"""`rpcrdma mount`: programs on a mounted export, a second client, servers that end, and how the mount ends.

A program whose request is never answered cannot be killed, so each mount here has a short deadline, every wait has a bound,
and whatever is left is aborted by the kernel at the end.
"""
import ctypes
import errno
import fcntl
import filecmp
import mmap
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import unittest

from command_fixture import BOUND_S, COMMAND, run, wait_until
from mount_fixture import TIMEO, MountFixture, why_not

MANY = int(os.environ.get("RPCRDMA_MOUNT_NAMES", "2000"))  # in one directory; 20,000 in make check-all


class Files(MountFixture):
    def setUp(self):
        super().setUp()
        self.mounting = self.mount()

    def test_names_are_made_found_and_removed(self):
        at = self.at
        (at / "d").mkdir(mode=0o750)
        (at / "d" / "a").write_text("one")
        os.link(at / "d" / "a", at / "b")
        os.symlink("d/a", at / "link")
        os.mkfifo(at / "fifo", 0o600)
        self.assertEqual((at / "link").read_text(), "one")
        self.assertEqual((at / "b").stat().st_ino, (at / "d" / "a").stat().st_ino)
        self.assertEqual((at / "b").stat().st_nlink, 2)
        self.assertTrue(stat.S_ISFIFO((at / "fifo").stat().st_mode))
        self.assertEqual(stat.S_IMODE((self.served / "d").stat().st_mode), 0o750)
        os.rename(at / "b", at / "d" / "c")
        self.assertEqual(sorted(os.listdir(at / "d")), ["a", "c"])
        self.assertEqual(sorted(os.listdir(at)), ["d", "fifo", "link"])
        self.fails_with(errno.ENOTEMPTY, os.rmdir, at / "d")
        self.fails_with(errno.ENOENT, os.stat, at / "b")
        self.fails_with(errno.EEXIST, os.mkdir, at / "d")
        self.fails_with(errno.ENAMETOOLONG, os.stat, at / ("x" * 256))
        for name in ("d/a", "d/c", "link", "fifo"):
            os.unlink(at / name)
        os.rmdir(at / "d")
        self.assertEqual(os.listdir(self.served), [])

    def test_attributes_are_set_to_the_nanosecond(self):
        path = self.at / "file"
        path.write_text("123456")
        os.chmod(path, 0o640)
        os.chown(path, 12, 34)
        os.utime(path, ns=(1_000_000_000_123_456_789, 987_654_321_012_345_678))
        for seen in (path.stat(), (self.served / "file").stat()):
            self.assertEqual((stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid), (0o640, 12, 34))
            self.assertEqual((seen.st_atime_ns, seen.st_mtime_ns),
                             (1_000_000_000_123_456_789, 987_654_321_012_345_678))
        os.truncate(path, 3)
        self.assertEqual(path.read_text(), "123")
        os.truncate(path, 5)
        self.assertEqual(path.read_bytes(), b"123\0\0")
        self.fails_with(errno.EINVAL, lambda: os.utime(path, (-1, -1)))
        space = os.statvfs(self.at)
        self.assertGreater(space.f_blocks, 0)
        self.fails_with(errno.EOPNOTSUPP, os.getxattr, path, "user.x")

    def test_bytes_come_back_however_they_were_written(self):
        content = os.urandom((3 << 20) + 12345)
        path = self.at / "file"
        with open(path, "wb", buffering=0) as file:
            for begin in range(0, len(content), 100_003):
                file.write(content[begin:begin + 100_003])
            self.assertEqual(os.fstat(file.fileno()).st_size, len(content))
        self.assertEqual((self.served / "file").read_bytes(), content)
        self.assertEqual(path.read_bytes(), content)
        with open(path, "r+b", buffering=0) as file:
            for offset in (1 << 20, 17, (3 << 20) - 5, 99_999, 17):
                file.seek(offset)
                file.write(b"changed")
                file.seek(offset - 3)
                self.assertEqual(file.read(10)[3:], b"changed")
        with open(path, "ab", buffering=0) as file:
            file.write(b"more")
        self.assertEqual(path.read_bytes(), (self.served / "file").read_bytes())
        self.assertTrue(path.read_bytes().endswith(b"more"))
        direct = os.open(path, os.O_RDONLY | os.O_DIRECT)
        try:
            room = mmap.mmap(-1, 1 << 20)
            self.assertEqual(os.preadv(direct, [room], 1 << 20), 1 << 20)
            self.assertEqual(room[:], path.read_bytes()[1 << 20:2 << 20])
        finally:
            os.close(direct)

    def test_mapped_memory_goes_to_the_file(self):
        path = self.at / "file"
        with open(path, "w+b") as file:
            file.truncate(100_000)
            with mmap.mmap(file.fileno(), 100_000) as memory:
                memory[50_000:50_005] = b"hello"
                memory.flush()
                self.assertEqual((self.served / "file").read_bytes()[50_000:50_005], b"hello")

    def test_exclusive_creation_has_one_winner(self):
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        os.close(os.open(self.at / "file", flags, 0o604))
        self.assertEqual(stat.S_IMODE((self.served / "file").stat().st_mode), 0o604)
        self.fails_with(errno.EEXIST, os.open, self.at / "file", flags)
        (self.served / "other").touch()
        self.fails_with(errno.EEXIST, os.open, self.at / "other", flags)

    def test_file_that_is_open_outlives_its_name(self):
        with open(self.at / "file", "w+") as file:
            file.write("kept")
            file.flush()
            os.unlink(self.at / "file")
            os.listdir(self.at)
            file.seek(0)
            self.assertEqual(file.read(), "kept")
            self.assertFalse((self.at / "file").exists())
        wait_until(lambda: os.listdir(self.served) == [])
        (self.at / "old").write_text("old")
        (self.at / "new").write_text("new")
        with open(self.at / "old") as file:
            os.rename(self.at / "new", self.at / "old")
            self.assertEqual(file.read(), "old")
        self.assertEqual((self.at / "old").read_text(), "new")
        wait_until(lambda: os.listdir(self.served) == ["old"])

    def test_exchanging_names_is_refused_and_loses_nothing(self):
        (self.at / "a").write_text("a")
        (self.at / "b").write_text("b")
        libc = ctypes.CDLL(None, use_errno=True)
        no_replace, exchange = 1, 2  # of renameat2(2)
        for flag, target, code in ((no_replace, "b", errno.EEXIST), (no_replace, "c", errno.EINVAL),
                                   (exchange, "b", errno.EINVAL)):
            result = libc.renameat2(-100, bytes(self.at / "a"), -100, bytes(self.at / target), flag)
            self.assertEqual((result, ctypes.get_errno()), (-1, code), (flag, target))
        self.assertEqual(((self.at / "a").read_text(), (self.at / "b").read_text()), ("a", "b"))

    def test_large_directory_is_listed_whole_and_in_any_way(self):
        names = {f"name{i:05}" for i in range(MANY)}
        for name in names:
            (self.served / name).touch()
        self.assertEqual(set(os.listdir(self.at)), names)
        with os.scandir(self.at) as entries:
            self.assertEqual(sum(entry.is_file() for entry in entries), MANY)
        self.assertEqual(set(self.ok("find", self.at, "-type", "f", "-printf", "%f\n").split()), names)
        for name in names:
            os.unlink(self.at / name)
        self.assertEqual(os.listdir(self.at), [])

    def test_fork_does_not_end_the_writing(self):
        with open(self.at / "file", "w") as file:
            file.write("one ")
            file.flush()
            self.ok("true", pass_fds=[file.fileno()])
            file.write("two")
        self.assertEqual((self.served / "file").read_text(), "one two")

    def test_locks_are_of_this_machine(self):
        with open(self.at / "file", "w") as one, open(self.at / "file", "w") as two:
            fcntl.flock(one, fcntl.LOCK_EX)
            self.fails_with(errno.EAGAIN, fcntl.flock, two, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_no_room_is_reported_by_close_or_before(self):
        with open(self.at / "file", "wb", buffering=0) as file:
            limit = 1 << 62
            file.seek(limit)
            with self.assertRaises(OSError):
                file.write(b"x" * 100)
                os.fsync(file.fileno())

    def test_commands_that_fetch_a_file_find_at_its_close_that_there_is_no_room(self):
        full, at = self.root / "full", self.root / "at2"
        full.mkdir()
        at.mkdir()
        self.ok("mount", "-t", "tmpfs", "-o", "size=512k", "none", full)
        (full / "file").write_text("the old one")
        self.mount(at=at, url=self.serve_nfs(folder=full)[1])
        self.served_file("file", 900_000)
        for command in (("get", self.serve().url, "file"), ("cp", self.url + "/file")):
            fetched = run(*command, at / "file")
            self.assertEqual(fetched.returncode, 1, command)
            self.assertIn("No space left on device", fetched.stderr)
            self.assertEqual((at / "file").read_text(), "the old one")
            self.assertEqual(os.listdir(at), ["file"])


class Programs(MountFixture):
    def setUp(self):
        super().setUp()
        self.mounting = self.mount()

    def make_tree(self, top):
        for i in range(40):
            folder = top / f"d{i % 5}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"f{i}").write_bytes(os.urandom(1 + i * 997))
        (top / "link").symlink_to("d1/f1")

    def is_same(self, one, two):
        compared = filecmp.dircmp(one, two)
        self.assertEqual((compared.left_only, compared.right_only, compared.diff_files), ([], [], []))
        for name in compared.common_dirs:
            self.is_same(one / name, two / name)

    def test_git_clones_collects_and_finds_no_fault(self):
        tree = self.root / "tree"
        self.make_tree(tree)
        git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
        environment = {**os.environ, "HOME": str(self.root), "GIT_CONFIG_NOSYSTEM": "1"}
        self.ok(*git, "init", "-q", tree, env=environment)
        self.ok(*git, "-C", tree, "add", ".", env=environment)
        self.ok(*git, "-C", tree, "commit", "-q", "-m", "one", env=environment)
        clone = self.at / "clone"
        self.ok(*git, "clone", "-q", "--no-hardlinks", tree, clone, env=environment)
        self.assertEqual(self.ok(*git, "-C", clone, "status", "--short", env=environment), "")
        (clone / "d1" / "new").write_text("new")
        self.ok(*git, "-C", clone, "add", ".", env=environment)
        self.ok(*git, "-C", clone, "commit", "-q", "-m", "two", env=environment)
        self.ok(*git, "-C", clone, "gc", "-q", env=environment)
        self.ok(*git, "-C", clone, "fsck", "--strict", env=environment)
        self.assertEqual(len(self.ok(*git, "-C", clone, "log", "--oneline", env=environment).splitlines()), 2)

    def test_signals_that_a_program_handles_end_no_request(self):
        # Python begins most calls again by itself, but none of these.
        code = ("import os, signal, sys\n"
                "taken = []\n"
                "signal.signal(signal.SIGALRM, lambda *_: taken.append(1))\n"
                "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n"
                "os.chdir(sys.argv[1])\n"
                "for i in range(200):\n"
                "    os.mkdir(f'd{i}')\n"
                "    os.rename(f'd{i}', f'e{i}')\n"
                "    os.stat(f'e{i}')\n"
                "    os.rmdir(f'e{i}')\n"
                "signal.setitimer(signal.ITIMER_REAL, 0)\n"
                "print(len(taken) > 10)\n")
        self.assertEqual(self.ok(sys.executable, "-c", code, self.at), "True\n")

    def test_tar_goes_both_ways(self):
        tree = self.root / "tree"
        self.make_tree(tree)
        self.ok("tar", "-C", tree, "-cf", self.at / "all.tar", ".")
        (self.at / "tree").mkdir()
        self.ok("tar", "-C", self.at / "tree", "-xf", self.at / "all.tar")
        self.is_same(tree, self.at / "tree")
        back = self.root / "back"
        self.ok("cp", "-a", self.at / "tree", back)
        self.is_same(tree, back)
        self.ok("rm", "-r", self.at / "tree")

    def test_c_project_is_built_there(self):
        compiler = shutil.which("cc")
        if not compiler or not shutil.which("make"):
            self.skipTest("there is no C compiler, or no make")
        (self.at / "part.h").write_text("int part(int);\n")
        for i in range(5):
            (self.at / f"part{i}.c").write_text(f'#include "part.h"\nint part{i}(int a) {{ return a + {i}; }}\n')
        (self.at / "main.c").write_text("int part4(int);\nint main(void) { return part4(1) == 5 ? 0 : 1; }\n")
        (self.at / "Makefile").write_text(
            "OBJECTS := $(patsubst %.c,%.o,$(wildcard *.c))\nprogram: libparts.a main.o\n\tcc -o $@ main.o -L. -lparts\n"
            "libparts.a: $(filter part%,$(OBJECTS))\n\tar rcs $@ $^\n")
        self.ok("make", "-C", self.at, "-j4")
        self.ok(self.at / "program")
        self.assertIn("is up to date", self.ok("make", "-C", self.at))

    def test_rsync_goes_both_ways(self):
        if not shutil.which("rsync"):
            self.skipTest("rsync is not installed")
        tree = self.root / "tree"
        self.make_tree(tree)
        self.ok("rsync", "-a", f"{tree}/", self.at / "there")
        self.assertEqual(self.ok("rsync", "-ai", f"{tree}/", self.at / "there"), "")
        self.ok("rsync", "-a", "--checksum", f"{self.at / 'there'}/", self.root / "back")
        self.is_same(tree, self.root / "back")

    def test_fio_finds_all_that_it_has_written(self):
        if not shutil.which("fio"):
            self.skipTest("fio is not installed")
        for engine, direct in (("psync", 0), ("psync", 1), ("mmap", 0)):
            self.ok("fio", "--name=verify", f"--directory={self.at}", "--rw=randrw", "--bs=4k", "--size=4m", "--verify=crc32c",
                    "--do_verify=1", "--verify_fatal=1", "--verify_state_save=0", f"--ioengine={engine}", f"--direct={direct}")

    def test_sqlite_keeps_its_journal_there(self):
        database = sqlite3.connect(self.at / "db")
        database.execute("create table t (a integer primary key, b text)")
        for i in range(50):
            with database:
                database.execute("insert into t (b) values (?)", ("x" * i * 20,))
        self.assertEqual(database.execute("pragma integrity_check").fetchall(), [("ok",)])
        database.close()
        there = sqlite3.connect(self.served / "db")
        self.assertEqual(there.execute("select count(*) from t").fetchone(), (50,))
        there.close()


class Tree:
    """A folder on which the same steps are made as on another, with files that stay open."""

    def __init__(self, top):
        self.top = top
        self.open = {}

    def attempt(self, step):
        """What a step gives: its value, or errno."""
        name, *arguments = step
        try:
            return "ok", getattr(self, name)(*arguments)
        except OSError as error:
            return "failed", errno.errorcode[error.errno]

    def write(self, name, offset, data):
        descriptor = os.open(self.top / name, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, data, offset)
        finally:
            os.close(descriptor)

    def append(self, name, data):
        with open(self.top / name, "ab") as file:
            file.write(data)

    def read(self, name):
        return (self.top / name).read_bytes()

    def truncate(self, name, size):
        os.truncate(self.top / name, size)

    def rename(self, name, other):
        os.rename(self.top / name, self.top / other)

    def link(self, name, other):
        os.link(self.top / name, self.top / other)

    def symlink(self, name, other):
        os.symlink(pathlib.Path(other).name, self.top / name)

    def unlink(self, name):
        os.unlink(self.top / name)

    def mkdir(self, name):
        os.mkdir(self.top / name)

    def rmdir(self, name):
        # Names of files that are still open would be in the way at a mount alone.
        if not self.open:
            os.rmdir(self.top / name)

    def chmod(self, name, mode):
        os.chmod(self.top / name, mode)

    def look(self, name):
        seen = os.lstat(self.top / name)
        return seen.st_mode, seen.st_size if stat.S_ISREG(seen.st_mode) else None

    def list(self, name):
        return sorted(each for each in os.listdir(self.top / name) if not each.startswith(".nfs"))

    def keep(self, name):
        self.open[len(self.open)] = os.open(self.top / name, os.O_RDWR)

    def write_kept(self, number, offset, data):
        if number in self.open:
            os.pwrite(self.open[number], data, offset)

    def read_kept(self, number):
        return os.pread(self.open[number], 1 << 20, 0) if number in self.open else None

    def close_all(self):
        while self.open:
            os.close(self.open.popitem()[1])


def random_step(choose):
    names = [f"{folder}{name}" for folder in ("", "x/", "y/") for name in ("a", "b", "c", "x", "y")]
    name, other = choose.choice(names), choose.choice(names)
    data = bytes([choose.randrange(256)]) * choose.choice((1, 100, 5000, 200_000))
    offset = choose.choice((0, 1, 4095, 4096, 100_000))
    return choose.choice((
        ("write", name, offset, data), ("write", name, offset, data), ("append", name, data), ("read", name),
        ("read", name), ("truncate", name, offset), ("rename", name, other), ("link", name, other),
        ("symlink", name, other), ("unlink", name), ("mkdir", choose.choice(("x", "y", name))), ("rmdir", name),
        ("chmod", name, choose.choice((0o600, 0o644, 0o755))), ("look", name), ("look", name), ("list", choose.choice(("", "x", "y"))),
        ("keep", name), ("write_kept", choose.randrange(3), offset, data), ("read_kept", choose.randrange(3)),
        ("close_all",)))


class RandomSteps(MountFixture):
    def test_mount_does_what_a_local_file_system_does(self):
        self.mount()
        for seed in range(1, 6):
            (self.root / f"here{seed}").mkdir()
            (self.at / f"there{seed}").mkdir()
            here, there = Tree(self.root / f"here{seed}"), Tree(self.at / f"there{seed}")
            choose = random.Random(seed)
            try:
                for number in range(300):
                    step = random_step(choose)
                    self.assertEqual(here.attempt(step), there.attempt(step),
                                     (seed, number, *(str(each)[:40] for each in step)))
            finally:
                here.close_all()
                there.close_all()
            compared = filecmp.dircmp(here.top, self.served / f"there{seed}")
            self.assertEqual((compared.left_only, compared.diff_files), ([], []))


class TwoClients(MountFixture):
    def setUp(self):
        super().setUp()
        self.mount()
        self.other = self.root / "other"
        self.other.mkdir()
        self.mount(at=self.other)

    def test_file_that_was_closed_there_is_whole_here(self):
        one, two = self.at / "file", self.other / "file"
        for i in range(30):
            content = os.urandom(1 + (i * 7919) % 20_000)
            writer, reader = (one, two) if i % 2 == 0 else (two, one)
            writer.write_bytes(content)
            self.assertEqual(reader.read_bytes(), content, i)
            with open(writer, "ab") as file:
                file.write(b"more")
            self.assertEqual(reader.read_bytes(), content + b"more", i)
            self.assertEqual((self.served / "file").read_bytes(), content + b"more", i)

    def test_append_after_the_other_has_appended_writes_over_nothing(self):
        one, two = self.at / "file", self.other / "file"
        one.write_bytes(b"")
        expected = b""
        for i in range(6):
            path = two if i % 2 == 0 else one
            line = b"line %d\n" % i
            # A shell's >> asks for no attributes in between.
            file = os.open(path, os.O_WRONLY | os.O_APPEND)
            os.write(file, line)
            os.close(file)
            expected += line
            self.assertEqual((self.served / "file").read_bytes(), expected)

    def test_names_of_the_other_are_seen_within_the_time_outs(self):
        third = self.root / "third"
        third.mkdir()
        self.mount(at=third, options=f"timeo={TIMEO},actimeo=0")
        self.assertFalse((third / "file").exists())
        (self.at / "file").write_text("1")
        self.assertTrue((third / "file").exists())
        os.rename(self.at / "file", self.at / "moved")
        self.assertEqual(os.listdir(third), ["moved"])
        self.assertFalse((third / "file").exists())


class Servers(MountFixture):
    def test_server_that_is_killed_under_load_loses_no_byte(self):
        self.mount(options="timeo=600")
        content = os.urandom(256 << 10)
        writer = subprocess.Popen(
            [sys.executable, "-c",
             "import os, sys\n"
             "data = open(sys.argv[2], 'rb').read()\n"
             "for i in range(60):\n"
             "    with open(f'{sys.argv[1]}/f{i}', 'wb', buffering=0) as file:\n"
             "        for at in range(0, len(data), 30000): file.write(data[at:at + 30000])\n"
             "    print(i, flush=True)\n", self.at, self.file_with(content)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(writer)
        for _ in range(2):
            for _ in range(10):
                writer.stdout.readline()
            port = self.port()
            self.server.kill()
            self.server.wait(timeout=BOUND_S)
            self.server, self.url = self.serve_nfs(port)
        _, errors = writer.communicate(timeout=BOUND_S)
        self.assertEqual((writer.returncode, errors), (0, ""))
        for i in range(60):
            self.assertEqual((self.served / f"f{i}").read_bytes(), content, i)

    def in_time(self, function):
        """What a function gives while the server is there; a short time of requests is not for a loaded machine."""
        results = []

        def attempt():
            try:
                results.append(function())
            except OSError as error:
                self.assertIn(error.errno, (errno.EIO, errno.ETIMEDOUT))
            return results

        wait_until(attempt)
        return results[0]

    def mount_briefly(self, options="timeo=15"):
        """Mounts with a short time of requests, which mounting itself may exceed on a loaded machine."""
        made = []

        def attempt():
            try:
                made.append(self.mount(options=options))
            except AssertionError:
                self.assertFalse(self.is_mounted())
            return made

        wait_until(attempt)
        return made[0]

    def create(self):
        return self.in_time(lambda: os.open(self.at / "file", os.O_CREAT | os.O_WRONLY))

    def file_with(self, content):
        path = self.root / "content"
        path.write_bytes(content)
        return path

    def test_second_host_takes_over(self):
        second, url = self.serve_nfs()
        hosts = self.url.split("/")[2], url.split("/")[2]
        self.mount(url=f"nfs+rdma://{hosts[0]},{hosts[1]}/data", options="timeo=300")
        (self.at / "one").write_text("1")
        self.server.kill()
        (self.at / "two").write_text("2")
        self.assertEqual((self.at / "one").read_text(), "1")
        self.assertEqual(sorted(os.listdir(self.served)), ["one", "two"])
        self.assertIsNone(second.poll())

    def test_server_that_is_gone_is_an_error_in_time_and_the_mount_goes(self):
        mounting = self.mount_briefly()
        self.in_time(lambda: (self.at / "file").write_text("x"))
        self.server.kill()
        self.server.wait(timeout=BOUND_S)
        with self.assertRaises(OSError) as raised:
            (self.at / "another").write_text("y")
        self.assertIn(raised.exception.errno, (errno.EIO, errno.ETIMEDOUT))
        self.ok("umount", self.at)
        self.ended(mounting)
        self.assertFalse(self.is_mounted())

    def test_bytes_that_no_server_has_are_an_error_of_close_and_of_the_end(self):
        mounting = self.mount_briefly()
        file = self.create()
        self.server.kill()
        self.server.wait(timeout=BOUND_S)
        os.write(file, b"x" * 100_000)
        with self.assertRaises(OSError) as raised:
            os.close(file)
        self.assertIn(raised.exception.errno, (errno.EIO, errno.ETIMEDOUT))
        mounting.send_signal(signal.SIGTERM)
        self.ended(mounting)
        self.assertFalse(self.is_mounted())

    def test_end_says_that_bytes_are_lost(self):
        mounting = self.mount_briefly()
        file = self.create()
        self.server.kill()
        self.server.wait(timeout=BOUND_S)
        os.write(file, b"x" * 100_000)
        mounting.send_signal(signal.SIGTERM)
        self.assertIn("has not kept all", self.ended(mounting, 1))
        self.assertFalse(self.is_mounted())
        self.fails_with(errno.ENOTCONN, os.close, file)

    def test_end_waits_for_a_silent_server_for_the_time_of_a_request_and_no_longer(self):
        mounting = self.mount_briefly("timeo=15,nconnect=8")  # each time-out ends a connection
        files = []
        for i in range(4):
            # Each has a name that the end removes, by a call of its own.
            files.append(self.in_time(lambda name=f"file{i}": os.open(self.at / name, os.O_CREAT | os.O_WRONLY)))
            self.in_time(lambda name=f"file{i}": (self.at / name).unlink(missing_ok=True) or True)
        os.kill(self.server.pid, signal.SIGSTOP)
        try:
            mounting.send_signal(signal.SIGTERM)
            self.assertIn("has not kept all", self.ended(mounting, 1))
        finally:
            os.kill(self.server.pid, signal.SIGCONT)
        self.assertFalse(self.is_mounted())
        for each in files:
            self.fails_with(errno.ENOTCONN, os.close, each)

    def test_program_of_a_silent_server_can_be_killed(self):
        (self.served / "file").write_text("x")
        self.mount(options="timeo=1200")
        os.kill(self.server.pid, signal.SIGSTOP)
        try:
            for command in (["stat", self.at / "nothing"], ["touch", self.at / "new"], ["cat", self.at / "file"]):
                program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                self.processes.append(program)
                # It waits for an answer of the daemon's.
                wait_until(lambda: "request_wait" in pathlib.Path(f"/proc/{program.pid}/wchan").read_text())
                program.kill()
                program.wait(timeout=BOUND_S)
        finally:
            os.kill(self.server.pid, signal.SIGCONT)

    def test_programs_that_fill_all_memory_of_a_silent_server_can_be_killed(self):
        self.mount(options="timeo=1200,memory=16M")
        programs = [subprocess.Popen(["sh", "-c", "exec head -c 1G /dev/zero > $0", self.at / f"file{i}"])
                    for i in range(20)]
        self.processes += programs
        written = lambda: [pathlib.Path(f"/proc/{each.pid}/io").read_text() for each in programs]
        wait_until(lambda: all(os.path.exists(self.served / f"file{i}") for i in range(20)))
        os.kill(self.server.pid, signal.SIGSTOP)
        try:
            seen = []
            # All memory is taken once no program gets rid of any bytes.
            wait_until(lambda: seen.append(written()) or (len(seen) > 20 and seen[-20] == seen[-1]))
            for each in programs:
                each.kill()
            for each in programs:
                each.wait(timeout=BOUND_S)
        finally:
            os.kill(self.server.pid, signal.SIGCONT)

    def test_silent_server_is_a_time_out(self):
        self.mount_briefly()
        os.kill(self.server.pid, signal.SIGSTOP)
        try:
            self.fails_with(errno.ETIMEDOUT, os.stat, self.at / "nothing")
        finally:
            os.kill(self.server.pid, signal.SIGCONT)


def has_socket(process):
    """Whether a process connects, or has connected."""
    try:
        return any(os.readlink(each).startswith("socket:") for each in pathlib.Path(f"/proc/{process}/fd").iterdir())
    except FileNotFoundError:
        return False  # closed meanwhile


class Ends(MountFixture):
    def test_command_returns_when_the_export_is_mounted(self):
        mounted = run("mount", self.url, self.at, "-o", f"timeo={TIMEO}")
        self.assertEqual((mounted.returncode, mounted.stdout, mounted.stderr), (0, "", ""))
        self.assertTrue(self.is_mounted())
        (self.at / "file").write_text("x")
        self.assertEqual((self.served / "file").read_text(), "x")
        shown = pathlib.Path("/proc/self/mountinfo").read_text()
        self.assertIn(f"- fuse.rpcrdma {self.url} ", shown)
        self.ok("umount", self.at)
        self.assertFalse(self.is_mounted())

    def test_signal_that_comes_before_the_export_is_mounted_leaves_no_mount_and_no_process(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(self.server.pid, signal.SIGSTOP)
            try:
                command = subprocess.Popen([COMMAND, "mount", self.url, self.at], stderr=subprocess.PIPE, text=True)
                self.processes.append(command)
                children = pathlib.Path(f"/proc/{command.pid}/task/{command.pid}/children")
                # The child waits for the server's answer, and the command for the child.
                wait_until(lambda at=children: [each for each in at.read_text().split() if has_socket(each)])
                child = children.read_text().split()[0]
                command.send_signal(number)
                self.assertIn("nothing is mounted", self.ended(command, 1))
            finally:
                os.kill(self.server.pid, signal.SIGCONT)
            wait_until(lambda at=child: not pathlib.Path(f"/proc/{at}").exists())
            self.assertFalse(self.is_mounted())

    def test_mount_goes_when_the_command_is_gone(self):
        os.kill(self.server.pid, signal.SIGSTOP)
        try:
            command = subprocess.Popen([COMMAND, "mount", self.url, self.at], stderr=subprocess.DEVNULL)
            self.processes.append(command)
            children = pathlib.Path(f"/proc/{command.pid}/task/{command.pid}/children")
            wait_until(lambda: [each for each in children.read_text().split() if has_socket(each)])
            child = children.read_text().split()[0]
            command.kill()
            command.wait(timeout=BOUND_S)
        finally:
            os.kill(self.server.pid, signal.SIGCONT)
        wait_until(lambda: not pathlib.Path(f"/proc/{child}").exists())
        self.assertFalse(self.is_mounted())

    def test_verbose_command_says_what_was_negotiated(self):
        mounted = run("mount", self.url, self.at, "-o", f"timeo={TIMEO}", "--verbose", "--provider", "siwarp", "--credits", "20")
        self.assertEqual(mounted.returncode, 0, mounted.stderr)
        self.assertRegex(mounted.stderr, r"^rpcrdma: 127\.0\.0\.1:\d+: siwarp, RPC-over-RDMA version 1, 20 credits, inline up to ")
        self.ok("umount", self.at)

    def test_umount_ends_the_command(self):
        mounting = self.mount()
        (self.at / "file").write_text("x")
        self.ok("umount", self.at)
        self.assertIn("attributes", self.ended(mounting))

    def test_sigterm_keeps_what_was_written_and_unmounts_though_in_use(self):
        mounting = self.mount()
        file = os.open(self.at / "file", os.O_CREAT | os.O_WRONLY)
        os.write(file, b"x" * 1_000_000)
        mounting.send_signal(signal.SIGTERM)
        self.ended(mounting)
        self.assertFalse(self.is_mounted())
        self.assertEqual((self.served / "file").stat().st_size, 1_000_000)
        self.fails_with(errno.ENOTCONN, os.fstat, file)
        self.fails_with(errno.ENOTCONN, os.close, file)

    def test_sigterm_ends_the_command_while_programs_go_on_writing(self):
        mounting = self.mount(options="timeo=150")
        writers = [subprocess.Popen(
            [sys.executable, "-c",
             "import os, sys\n"
             "file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)\n"
             "count = 0\n"
             "try:\n"
             "    while True:\n"
             "        count += os.pwrite(file, b'x' * 4096, count)\n"
             "        if count == 1 << 18: print('on its way', flush=True)\n"
             "except OSError:\n"
             "    print(count)\n"
             "    os._exit(0)\n", self.at / f"file{i}"], stdout=subprocess.PIPE, text=True) for i in range(4)]
        self.processes += writers
        for each in writers:
            self.assertEqual(each.stdout.readline(), "on its way\n")
        mounting.send_signal(signal.SIGTERM)
        self.ended(mounting)
        for i, each in enumerate(writers):
            taken = int(each.communicate(timeout=BOUND_S)[0])
            self.assertEqual((self.served / f"file{i}").stat().st_size, taken)

    def test_mount_of_a_killed_command_goes_and_comes_again(self):
        mounting = self.mount()
        mounting.kill()
        mounting.wait(timeout=BOUND_S)
        self.fails_with(errno.ENOTCONN, os.listdir, self.at)
        self.assertIn("umount -l", run("mount", self.url, self.at).stderr)
        self.ok("umount", "-l", self.at)
        self.mount()
        self.assertEqual(os.listdir(self.at), [])

    def test_read_only_mount_changes_nothing(self):
        (self.served / "file").write_text("x")
        self.mount("--read-only", "--foreground", "--options", "nosuid")
        self.assertEqual((self.at / "file").read_text(), "x")
        self.fails_with(errno.EROFS, (self.at / "file").write_text, "y")
        self.fails_with(errno.EROFS, os.unlink, self.at / "file")

    def test_owners_are_shown_as_the_options_say(self):
        (self.served / "file").write_text("x")
        os.chown(self.served / "file", 12, 34)
        self.mount("--uid", 1234, "--gid", "5678")
        for seen in (self.at.stat(), (self.at / "file").stat()):
            self.assertEqual((seen.st_uid, seen.st_gid), (1234, 5678))
        with os.scandir(self.at) as entries:
            self.assertEqual([entry.stat().st_uid for entry in entries], [1234])
        self.assertEqual((self.served / "file").stat().st_uid, 12)

    def test_descriptor_of_another_user_sets_the_size(self):
        self.mount(options=f"timeo={TIMEO},allow_other")
        (self.at / "file").write_text("some bytes")
        (self.at / "file").chmod(0o600)
        with open(self.at / "file", "r+b") as file:
            child = os.fork()
            if child == 0:
                try:
                    os.setresuid(65534, 65534, 65534)
                    os.ftruncate(file.fileno(), 4)
                    os._exit(0)
                except OSError as error:
                    os._exit(error.errno)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual((self.served / "file").read_text(), "some")

    def test_transfers_are_as_large_as_the_options_say(self):
        (self.served / "file").write_bytes(bytes(1 << 20))
        mounting = self.mount(options="rsize=65536,wsize=131072")
        (self.at / "copy").write_bytes((self.at / "file").read_bytes())
        self.ok("umount", self.at)
        said = self.ended(mounting)
        counts = {words[0]: int(words[-1]) for words in map(str.split, said.splitlines()[1:])}
        self.assertGreaterEqual(counts["write_chunk_count"], 16)
        self.assertGreaterEqual(counts["read_chunk_count"], 8)

    def test_what_cannot_be_mounted_says_why(self):
        (self.served / "file").touch()
        for text, code, arguments in (
                ("there is no such option", 2, (self.url, self.at, "-o", "frobnicate")),
                ("the URL says nfs+rdma", 2, (self.url, self.at, "-o", "proto=tcp")),
                ("uid= takes", 2, (self.url, self.at, "--uid", "somebody")),
                ("unkillable", 2, (self.url, self.at, "-o", "hard")),
                ("--json is for results", 2, (self.url, self.at, "--json")),
                ("No such file", 1, (self.url, self.root / "nothing")),
                ("cannot be read: No such file", 1, (self.url + "/nothing", self.at)),
                ("cannot be read: Not a directory", 1, (self.url + "/file", self.at)),
                ("no export", 1, (self.url.replace("/data", "/other"), self.at)),
                ("", 3, (self.url.replace(str(self.port()), str(free_port())), self.at, "--no-reconnect"))):
            result = run("mount", *arguments)
            self.assertEqual(result.returncode, code, (arguments, result.stderr))
            self.assertIn(text, result.stderr)
        self.assertFalse(self.is_mounted())


class Helper(MountFixture):
    """What mount(8) calls for the type fuse.rpcrdma."""

    def helper(self, *arguments):
        folder = pathlib.Path(os.environ["RPCRDMA_PACKAGING"])
        text = (folder / "mount.fuse.rpcrdma").read_text()
        mine = self.root / "helper"
        mine.write_text(re.sub(r"(?m)^exec \S+/rpcrdma ", f"exec {COMMAND} ", text))
        return subprocess.run(["sh", mine, *arguments], capture_output=True, text=True, timeout=BOUND_S, check=False)

    def test_options_of_mount_reach_the_command(self):
        mounted = self.helper(self.url, self.at, "-s", "-n", "-o", "ro,_netdev", "-o", f"timeo={TIMEO}", "-t", "fuse.rpcrdma")
        self.assertEqual((mounted.returncode, mounted.stderr), (0, ""))
        self.assertTrue(self.is_mounted())
        self.fails_with(errno.EROFS, (self.at / "file").touch)

    def test_fake_mount_is_none(self):
        self.assertEqual(self.helper(self.url, self.at, "-sf").returncode, 0)
        self.assertFalse(self.is_mounted())
        self.assertEqual(self.helper(self.url).returncode, 1)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
