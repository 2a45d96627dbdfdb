#!/usr/bin/env python3
"""Tests which archives, folders and files a replay of fuzz inputs takes, and that it refuses damaged ones.

usage: replay_test.py FUZZ_REPLAY [-v]
"""
import io
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else ""
TARGET = "private_data"
INPUTS = {"one": b"\1" * 40, "three": b"", "two": b"\2" * 512}


def archive_of(inputs, kind=tarfile.REGTYPE):
    """Returns a tar archive as scripts/fuzz.sh packs one."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in inputs.items():
            member = tarfile.TarInfo(name)
            member.size, member.type = len(data), kind
            archive.addfile(member, io.BytesIO(data))
        size = archive.offset
    return file.getvalue()[:size] + bytes(1024)


class Replay(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def replay(self, data, *options):
        path = self.folder / "inputs.tar"
        path.write_bytes(data)
        return subprocess.run([PROGRAM, TARGET, *options, str(path)], capture_output=True, text=True, check=False)

    def refuse(self, data, why):
        done = self.replay(data)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, why)

    def test_every_member_of_an_archive_is_an_input(self):
        done = self.replay(archive_of(INPUTS))
        self.assertEqual((done.returncode, done.stdout), (0, "replay: 3 inputs, no finding\n"), done.stderr)

    def test_members_are_named_before_they_are_run(self):
        path = self.folder / "inputs.tar"
        self.assertEqual(self.replay(archive_of(INPUTS), "-v").stderr,
                         "".join(f"replay: {path}/{name}\n" for name in INPUTS))

    def test_folders_and_files_are_inputs_too(self):
        for name, data in INPUTS.items():
            (self.folder / name).write_bytes(data)
        done = subprocess.run([PROGRAM, TARGET, str(self.folder), str(self.folder / "one")], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.stdout, "replay: 4 inputs, no finding\n", done.stderr)

    def test_an_archive_that_was_cut_anywhere_is_refused(self):
        whole = archive_of(INPUTS)
        for size in [*range(0, len(whole), 256), *(len(whole) - cut for cut in (1, 511, 512, 513, 1023, 1024))]:
            self.refuse(whole[:size], "it is empty|it ends|does not end in two empty blocks")

    def test_an_archive_without_members_is_refused(self):
        self.refuse(b"", "it is empty")
        self.refuse(bytes(1024), "it has no members")

    def test_a_damaged_header_is_refused(self):
        for at in (0, 124, 130, 148, 156, 300):
            data = bytearray(archive_of(INPUTS))
            data[at] ^= 1
            self.refuse(bytes(data), "a header is damaged")

    def test_what_is_not_a_regular_file_is_refused(self):
        self.refuse(archive_of({"folder": b""}, tarfile.DIRTYPE), "a member is not a regular file")

    def test_what_is_not_there_and_no_inputs_at_all_are_refused(self):
        for arguments, why in (([str(self.folder / "lost")], "is not there"), ([str(self.folder)], "no inputs"),
                               ([], "no inputs")):
            done = subprocess.run([PROGRAM, TARGET, *arguments], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(why, done.stderr)

    def test_a_target_that_is_not_there_is_refused_with_those_that_are(self):
        for arguments in ([], ["lost"], ["-v"]):
            done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, "targets: .*private_data")


if __name__ == "__main__":
    unittest.main()
