#!/usr/bin/env python3
"""What programs expect of a file system, asked of any folder by system calls.

usage: posix_suite.py FOLDER [--only REGEX] [--verbose]

Makes a folder of its own in FOLDER and removes it. Prints one line a check that fails and a summary. Run it as root: some
checks take other users' places. Exit status: 0 all passed, 1 some failed.
"""
import argparse
import contextlib
import errno
import fcntl
import mmap
import os
import pathlib
import re
import shutil
import stat
import sys
import tempfile
import time
import traceback

CHECKS = []
USER, GROUP = 1234, 2345


def check(function):
    CHECKS.append((function.__name__, function))
    return function


def each(*values):
    """One check for each value, which it gets as its argument behind the folder."""
    def register(function):
        for value in values:
            label = re.sub(r"\W+", "_", str(value[0] if isinstance(value, tuple) else value)).strip("_")[:24]
            CHECKS.append((f"{function.__name__}[{label}]", lambda folder, value=value: function(folder, value)))
        return function
    return register


@contextlib.contextmanager
def fails(*codes):
    try:
        yield
    except OSError as error:
        if error.errno not in codes:
            raise AssertionError(f"failed with {errno.errorcode[error.errno]}, not "
                                 f"{' or '.join(errno.errorcode[code] for code in codes)}") from None
    else:
        raise AssertionError(f"did not fail with {' or '.join(errno.errorcode[code] for code in codes)}")


def same(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r:.200}, not {wanted!r:.200}")


def write(path, content=b"", mode=0o644):
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view):]
    finally:
        os.close(descriptor)


def read(path):
    with open(path, "rb") as file:
        return file.read()


@contextlib.contextmanager
def opened(path, flags, mode=0o644):
    descriptor = os.open(path, flags, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def as_user(function, uid=USER, gid=GROUP, groups=()):
    """Runs it in a process of that user; what it raises is raised here."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            os.setgroups(groups)
            os.setgid(gid)
            os.setuid(uid)
            function()
        except BaseException:  # pylint: disable=broad-except
            os.write(writer, traceback.format_exc(limit=-2).encode()[-3000:])
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read().decode()
    if os.waitpid(child, 0)[1] != 0:
        raise AssertionError(f"as user {uid}: {text}")


# --- Files and their content

@each(0, 1, 511, 4096, 4097, 65536, 1048575, 1048576, 1048577, 5000000)
def content_of_size(folder, size):
    content = os.urandom(size)
    write(folder / "f", content)
    same(read(folder / "f"), content)
    same((folder / "f").stat().st_size, size)


@each(1, 3, 4095, 4096, 65535, 1048576)
def write_at_offset_leaves_zeros(folder, offset):
    with opened(folder / "f", os.O_RDWR | os.O_CREAT) as file:
        os.pwrite(file, b"x", offset)
        same(os.pread(file, offset + 10, 0), bytes(offset) + b"x")


@each(0, 1, 4095, 4096, 100000)
def truncate_to(folder, size):
    write(folder / "f", b"y" * 50000)
    os.truncate(folder / "f", size)
    same(read(folder / "f"), (b"y" * 50000 + bytes(60000))[:size])


@check
def truncated_tail_comes_back_as_zeros(folder):
    write(folder / "f", b"y" * 10000)
    os.truncate(folder / "f", 5000)
    os.truncate(folder / "f", 10000)
    same(read(folder / "f"), b"y" * 5000 + bytes(5000))


@check
def o_trunc_empties(folder):
    write(folder / "f", b"abc")
    with opened(folder / "f", os.O_WRONLY | os.O_TRUNC):
        same((folder / "f").stat().st_size, 0)


@check
def o_append_writes_at_the_end(folder):
    write(folder / "f", b"abc")
    with opened(folder / "f", os.O_WRONLY | os.O_APPEND) as one:
        os.write(one, b"d")
        os.lseek(one, 0, os.SEEK_SET)
        os.write(one, b"e")
    same(read(folder / "f"), b"abcde")


@check
def two_descriptors_see_one_file(folder):
    with opened(folder / "f", os.O_RDWR | os.O_CREAT) as one, opened(folder / "f", os.O_RDWR) as two:
        os.pwrite(one, b"hello", 0)
        same(os.pread(two, 9, 0), b"hello")
        os.ftruncate(two, 2)
        same(os.pread(one, 9, 0), b"he")


@check
def read_behind_the_end_is_empty(folder):
    write(folder / "f", b"abc")
    with opened(folder / "f", os.O_RDONLY) as file:
        same(os.pread(file, 10, 3), b"")
        same(os.pread(file, 10, 1 << 40), b"")


@check
def large_offset(folder):
    with opened(folder / "f", os.O_RDWR | os.O_CREAT) as file:
        os.pwrite(file, b"end", 1 << 33)
        same(os.fstat(file).st_size, (1 << 33) + 3)
        same(os.pread(file, 3, 1 << 33), b"end")


@check
def mapped_writes_arrive(folder):
    write(folder / "f", bytes(8192))
    with opened(folder / "f", os.O_RDWR) as file, mmap.mmap(file, 8192) as memory:
        memory[4000:4200] = b"z" * 200
        memory.flush()
    same(read(folder / "f"), bytes(4000) + b"z" * 200 + bytes(3992))


@check
def mapped_file_is_read(folder):
    content = os.urandom(100000)
    write(folder / "f", content)
    with opened(folder / "f", os.O_RDONLY) as file, mmap.mmap(file, 0, prot=mmap.PROT_READ) as memory:
        same(memory[:], content)


@each(os.fsync, os.fdatasync)
def syncing(folder, function):
    with opened(folder / "f", os.O_RDWR | os.O_CREAT) as file:
        os.write(file, b"abc")
        function(file)
    same(read(folder / "f"), b"abc")


@check
def o_sync_writes(folder):
    with opened(folder / "f", os.O_WRONLY | os.O_CREAT | os.O_SYNC) as file:
        for _ in range(5):
            os.write(file, b"0123456789")
    same((folder / "f").stat().st_size, 50)


@check
def o_direct_reads_and_writes(folder):
    try:
        os.close(os.open(folder / "f", os.O_RDWR | os.O_CREAT | os.O_DIRECT))
    except OSError as error:
        same(error.errno, errno.EINVAL)  # as tmpfs before Linux 6.6
        return
    with opened(folder / "f", os.O_RDWR | os.O_CREAT | os.O_DIRECT) as file, mmap.mmap(-1, 65536) as memory:
        memory[:] = b"d" * 65536
        same(os.pwritev(file, [memory], 0), 65536)
        memory[:] = bytes(65536)
        same(os.preadv(file, [memory], 0), 65536)
        same(memory[:], b"d" * 65536)


@check
def removed_file_stays_while_open(folder):
    with opened(folder / "f", os.O_RDWR | os.O_CREAT) as file:
        os.write(file, b"abc")
        os.unlink(folder / "f")
        same(os.pread(file, 3, 0), b"abc")
        os.pwrite(file, b"X", 1)
        same(os.pread(file, 3, 0), b"aXc")
    same(os.listdir(folder), [])


@check
def replaced_file_stays_while_open(folder):
    write(folder / "f", b"old")
    write(folder / "g", b"new")
    with opened(folder / "f", os.O_RDONLY) as file:
        os.rename(folder / "g", folder / "f")
        same(os.read(file, 3), b"old")
    same(read(folder / "f"), b"new")


@check
def advisory_locks_do_not_fail(folder):
    with opened(folder / "f", os.O_RDWR | os.O_CREAT) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.flock(file, fcntl.LOCK_UN)


@check
def writing_a_read_only_descriptor(folder):
    write(folder / "f", b"abc")
    with opened(folder / "f", os.O_RDONLY) as file, fails(errno.EBADF):
        os.write(file, b"x")


@check
def blocks_are_counted(folder):
    write(folder / "f", os.urandom(100000))
    os.sync()
    same((folder / "f").stat().st_blocks * 512 >= 100000, True)


# --- Opening

@check
def o_excl_refuses_what_is_there(folder):
    write(folder / "f")
    with fails(errno.EEXIST):
        os.open(folder / "f", os.O_CREAT | os.O_EXCL | os.O_WRONLY)


@check
def o_excl_creates(folder):
    with opened(folder / "f", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640) as file:
        os.write(file, b"abc")
    same(read(folder / "f"), b"abc")
    same(stat.S_IMODE((folder / "f").stat().st_mode), 0o640)


@check
def o_excl_refuses_a_dangling_link(folder):
    os.symlink("none", folder / "l")
    with fails(errno.EEXIST):
        os.open(folder / "l", os.O_CREAT | os.O_EXCL | os.O_WRONLY)


@each((os.O_RDONLY, errno.ENOENT), (os.O_WRONLY, errno.ENOENT), (os.O_RDWR | os.O_TRUNC, errno.ENOENT))
def opening_nothing(folder, case):
    with fails(case[1]):
        os.open(folder / "none", case[0])


@each(os.O_WRONLY, os.O_RDWR)
def opening_a_directory_for_writing(folder, flags):
    with fails(errno.EISDIR):
        os.open(folder, flags)


@check
def o_directory_of_a_file(folder):
    write(folder / "f")
    with fails(errno.ENOTDIR):
        os.open(folder / "f", os.O_RDONLY | os.O_DIRECTORY)


@check
def o_nofollow_of_a_link(folder):
    os.symlink("f", folder / "l")
    with fails(errno.ELOOP):
        os.open(folder / "l", os.O_RDONLY | os.O_NOFOLLOW)


@check
def a_file_is_no_directory(folder):
    write(folder / "f")
    with fails(errno.ENOTDIR):
        os.open(folder / "f" / "x", os.O_RDONLY)
    with fails(errno.ENOTDIR):
        os.mkdir(folder / "f" / "x")


@check
def creating_through_a_link(folder):
    os.symlink("target", folder / "l")
    write(folder / "l", b"abc")
    same(read(folder / "target"), b"abc")


# --- Names

NAMES = ["a", "A", " ", "  leading", "trailing ", ".hidden", "...", "..a", "-rf", "*", "?", "a b\tc", "new\nline", "quo'te\"",
         "back\\slash", "ümläut", "日本語", "😀", "x" * 255, "%s%n", "~", "#", ";ls", "$HOME", "a" * 128 + "é" * 60]


@each(*[(name, index) for index, name in enumerate(NAMES)])
def name_of_a_file(folder, case):
    name = case[0]
    write(folder / name, name.encode())
    same(os.listdir(folder), [name])
    same(read(folder / name), name.encode())
    os.rename(folder / name, folder / "other")
    os.rename(folder / "other", folder / name)
    os.unlink(folder / name)
    same(os.listdir(folder), [])


@check
def names_that_are_no_text(folder):
    name = os.fsencode(folder) + b"/\xff\xfe\x80"
    write(name, b"abc")
    same(os.listdir(os.fsencode(folder)), [b"\xff\xfe\x80"])


@check
def names_differ_by_case(folder):
    write(folder / "name", b"1")
    write(folder / "NAME", b"2")
    same((read(folder / "name"), read(folder / "NAME")), (b"1", b"2"))


@check
def name_too_long(folder):
    with fails(errno.ENAMETOOLONG):
        write(folder / ("x" * 256))
    with fails(errno.ENAMETOOLONG):
        os.mkdir(folder / ("x" * 256))
    with fails(errno.ENAMETOOLONG):
        os.stat(folder / ("x" * 256))


@check
def deep_folders(folder):
    path = folder
    for depth in range(60):
        path = path / f"level{depth}"
        path.mkdir()
    write(path / "f", b"deep")
    same(read(path / "f"), b"deep")


# --- Directories

@check
def mkdir_and_rmdir(folder):
    os.mkdir(folder / "d", 0o750)
    same(stat.S_ISDIR((folder / "d").stat().st_mode), True)
    os.rmdir(folder / "d")
    with fails(errno.ENOENT):
        os.stat(folder / "d")


@check
def mkdir_of_what_is_there(folder):
    os.mkdir(folder / "d")
    write(folder / "f")
    os.symlink("x", folder / "l")
    for name in "dfl":
        with fails(errno.EEXIST):
            os.mkdir(folder / name)


@check
def rmdir_of_what_is_not_empty(folder):
    os.mkdir(folder / "d")
    write(folder / "d" / "f")
    with fails(errno.ENOTEMPTY, errno.EEXIST):
        os.rmdir(folder / "d")


@check
def rmdir_of_a_file(folder):
    write(folder / "f")
    with fails(errno.ENOTDIR):
        os.rmdir(folder / "f")


@check
def rmdir_of_nothing(folder):
    with fails(errno.ENOENT):
        os.rmdir(folder / "none")


@check
def rmdir_of_dot(folder):
    os.mkdir(folder / "d")
    with fails(errno.EINVAL):
        os.rmdir(f"{folder}/d/.")


@check
def unlink_of_a_directory(folder):
    os.mkdir(folder / "d")
    with fails(errno.EISDIR, errno.EPERM):
        os.unlink(folder / "d")


@check
def unlink_of_nothing(folder):
    with fails(errno.ENOENT):
        os.unlink(folder / "none")


@check
def links_of_a_directory_are_counted(folder):
    before = folder.stat().st_nlink
    os.mkdir(folder / "d")
    same(folder.stat().st_nlink, before + 1)
    same((folder / "d").stat().st_nlink, 2)
    os.rmdir(folder / "d")
    same(folder.stat().st_nlink, before)


@each(10, 1000, 5000)
def many_entries(folder, count):
    names = {f"entry-{number:05}-{'x' * (number % 50)}" for number in range(count)}
    for name in names:
        os.close(os.open(folder / name, os.O_CREAT | os.O_WRONLY, 0o600))
    listed = os.listdir(folder)
    same(len(listed), count)
    same(set(listed), names)
    for name in names:
        os.unlink(folder / name)
    same(os.listdir(folder), [])


@check
def removing_while_listing(folder):
    for number in range(3000):
        os.close(os.open(folder / f"f{number}", os.O_CREAT | os.O_WRONLY))
    with os.scandir(folder) as entries:
        for entry in entries:
            os.unlink(entry.path)
    same(os.listdir(folder), [])


@check
def entries_have_types(folder):
    write(folder / "f")
    os.mkdir(folder / "d")
    os.symlink("f", folder / "l")
    with os.scandir(folder) as entries:
        found = {entry.name: (entry.is_file(follow_symlinks=False), entry.is_dir(follow_symlinks=False),
                              entry.is_symlink(), entry.inode()) for entry in entries}
    for name in "fdl":
        same(found[name][3], os.lstat(folder / name).st_ino)
    same([found[name][:3] for name in "fdl"], [(True, False, False), (False, True, False), (False, False, True)])


@check
def dot_and_dot_dot(folder):
    os.makedirs(folder / "d" / "e")
    same(os.stat(f"{folder}/d/e/..").st_ino, (folder / "d").stat().st_ino)
    same(os.stat(f"{folder}/d/.").st_ino, (folder / "d").stat().st_ino)


# --- Rename

@check
def rename_moves(folder):
    write(folder / "a", b"abc")
    inode = (folder / "a").stat().st_ino
    os.rename(folder / "a", folder / "b")
    same((read(folder / "b"), (folder / "b").stat().st_ino), (b"abc", inode))
    with fails(errno.ENOENT):
        os.stat(folder / "a")


@check
def rename_between_folders(folder):
    os.mkdir(folder / "x")
    os.mkdir(folder / "y")
    write(folder / "x" / "a", b"abc")
    os.rename(folder / "x" / "a", folder / "y" / "b")
    same((os.listdir(folder / "x"), os.listdir(folder / "y")), ([], ["b"]))


@check
def rename_replaces_a_file(folder):
    write(folder / "a", b"new")
    write(folder / "b", b"old")
    os.rename(folder / "a", folder / "b")
    same((read(folder / "b"), os.listdir(folder)), (b"new", ["b"]))


@check
def rename_to_itself(folder):
    write(folder / "a", b"abc")
    os.rename(folder / "a", folder / "a")
    same(read(folder / "a"), b"abc")


@check
def rename_between_names_of_one_file(folder):
    write(folder / "a", b"abc")
    os.link(folder / "a", folder / "b")
    os.rename(folder / "a", folder / "b")
    same(sorted(os.listdir(folder)), ["a", "b"])


@check
def rename_of_a_folder_with_content(folder):
    os.mkdir(folder / "d")
    write(folder / "d" / "f", b"abc")
    os.rename(folder / "d", folder / "e")
    same(read(folder / "e" / "f"), b"abc")


@check
def rename_replaces_an_empty_folder(folder):
    os.mkdir(folder / "d")
    write(folder / "d" / "f")
    os.mkdir(folder / "e")
    os.rename(folder / "d", folder / "e")
    same(os.listdir(folder / "e"), ["f"])


@check
def rename_does_not_replace_a_full_folder(folder):
    os.mkdir(folder / "d")
    os.mkdir(folder / "e")
    write(folder / "e" / "f")
    with fails(errno.ENOTEMPTY, errno.EEXIST):
        os.rename(folder / "d", folder / "e")


@check
def rename_of_a_folder_onto_a_file(folder):
    os.mkdir(folder / "d")
    write(folder / "f")
    with fails(errno.ENOTDIR):
        os.rename(folder / "d", folder / "f")


@check
def rename_of_a_file_onto_a_folder(folder):
    os.mkdir(folder / "d")
    write(folder / "f")
    with fails(errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST):
        os.rename(folder / "f", folder / "d")


@check
def rename_into_itself(folder):
    os.mkdir(folder / "d")
    with fails(errno.EINVAL):
        os.rename(folder / "d", folder / "d" / "e")


@check
def rename_of_nothing(folder):
    with fails(errno.ENOENT):
        os.rename(folder / "none", folder / "x")


# --- Links

@check
def hard_links_are_one_file(folder):
    write(folder / "a", b"abc")
    os.link(folder / "a", folder / "b")
    same((folder / "a").stat().st_ino, (folder / "b").stat().st_ino)
    same((folder / "a").stat().st_nlink, 2)
    write(folder / "b", b"xyz")
    same(read(folder / "a"), b"xyz")
    os.unlink(folder / "a")
    same((read(folder / "b"), (folder / "b").stat().st_nlink), (b"xyz", 1))


@check
def hard_link_onto_what_is_there(folder):
    write(folder / "a")
    write(folder / "b")
    with fails(errno.EEXIST):
        os.link(folder / "a", folder / "b")


@check
def hard_link_of_a_folder(folder):
    os.mkdir(folder / "d")
    with fails(errno.EPERM, errno.EISDIR):
        os.link(folder / "d", folder / "e")


@check
def hard_link_of_a_symbolic_link(folder):
    os.symlink("x", folder / "l")
    os.link(folder / "l", folder / "m", follow_symlinks=False)
    same(os.readlink(folder / "m"), "x")


@each("x", "../up", "/absolute/path", "a" * 1000, "with space", "ünï", "a/" * 400 + "b")
def symbolic_link_to(folder, target):
    os.symlink(target, folder / "l")
    same(os.readlink(folder / "l"), target)
    same(os.lstat(folder / "l").st_size, len(target.encode()))


@check
def symbolic_links_lead(folder):
    os.mkdir(folder / "d")
    write(folder / "d" / "f", b"abc")
    os.symlink("d", folder / "l")
    same(read(folder / "l" / "f"), b"abc")


@check
def symbolic_links_in_a_circle(folder):
    os.symlink("b", folder / "a")
    os.symlink("a", folder / "b")
    with fails(errno.ELOOP):
        os.stat(folder / "a")


@check
def dangling_symbolic_link(folder):
    os.symlink("none", folder / "l")
    with fails(errno.ENOENT):
        os.stat(folder / "l")
    same(stat.S_ISLNK(os.lstat(folder / "l").st_mode), True)


@check
def symbolic_link_onto_what_is_there(folder):
    write(folder / "a")
    with fails(errno.EEXIST):
        os.symlink("x", folder / "a")


@check
def readlink_of_a_file(folder):
    write(folder / "a")
    with fails(errno.EINVAL):
        os.readlink(folder / "a")


# --- Other kinds of files

@check
def fifo_is_one(folder):
    os.mkfifo(folder / "p", 0o600)
    same(stat.S_ISFIFO(os.lstat(folder / "p").st_mode), True)
    child = os.fork()
    if child == 0:
        with opened(folder / "p", os.O_WRONLY) as pipe:
            os.write(pipe, b"through")
        os._exit(0)
    same(read(folder / "p"), b"through")
    os.waitpid(child, 0)


@each((stat.S_IFCHR, 1, 3), (stat.S_IFBLK, 7, 200))
def device_nodes(folder, case):
    os.mknod(folder / "n", case[0] | 0o600, os.makedev(case[1], case[2]))
    found = os.lstat(folder / "n")
    same((stat.S_IFMT(found.st_mode), os.major(found.st_rdev), os.minor(found.st_rdev)), case)


@check
def socket_node(folder):
    os.mknod(folder / "s", stat.S_IFSOCK | 0o600)
    same(stat.S_ISSOCK(os.lstat(folder / "s").st_mode), True)


# --- Attributes

@each(0o000, 0o400, 0o644, 0o755, 0o777, 0o1777, 0o2755, 0o4755, 0o6711)
def chmod_to(folder, mode):
    write(folder / "f")
    os.chmod(folder / "f", mode)
    same(stat.S_IMODE((folder / "f").stat().st_mode), mode)


@each(0o600, 0o640, 0o755, 0o444)
def mode_of_a_new_file(folder, mode):
    os.umask(0)
    write(folder / "f", b"abc", mode)
    same(stat.S_IMODE((folder / "f").stat().st_mode), mode)


@each(0o022, 0o077, 0o000)
def umask_counts(folder, mask):
    os.umask(mask)
    write(folder / "f", mode=0o666)
    os.mkdir(folder / "d", 0o777)
    same(stat.S_IMODE((folder / "f").stat().st_mode), 0o666 & ~mask)
    same(stat.S_IMODE((folder / "d").stat().st_mode), 0o777 & ~mask)


@each((USER, GROUP), (USER, -1), (-1, GROUP), (0, 0))
def chown_to(folder, ids):
    write(folder / "f")
    os.chown(folder / "f", *ids)
    found = (folder / "f").stat()
    same((found.st_uid, found.st_gid), tuple(max(each_id, 0) for each_id in ids))


@check
def chown_of_a_symbolic_link(folder):
    write(folder / "f")
    os.symlink("f", folder / "l")
    os.lchown(folder / "l", USER, GROUP)
    same((os.lstat(folder / "l").st_uid, (folder / "f").stat().st_uid), (USER, 0))


# Linux drops the nanoseconds at either end of what a file system's times can be (timestamp_truncate()), which by NFS
# version 3 is 1970.
@check
def times_of_1970_are_kept(folder):
    write(folder / "f")
    os.utime(folder / "f", ns=(0, 0))
    found = (folder / "f").stat()
    same((found.st_atime_ns, found.st_mtime_ns), (0, 0))


@each(1, 1000000000, 2147483647)
def times_are_kept(folder, seconds):
    write(folder / "f")
    os.utime(folder / "f", ns=(seconds * 10**9 + 123456789, seconds * 10**9 + 987654321))
    found = (folder / "f").stat()
    same((found.st_atime_ns, found.st_mtime_ns), (seconds * 10**9 + 123456789, seconds * 10**9 + 987654321))


@check
def writing_changes_mtime_and_ctime(folder):
    write(folder / "f", b"abc")
    os.utime(folder / "f", (1, 1))
    before = (folder / "f").stat()
    time.sleep(0.02)
    with opened(folder / "f", os.O_WRONLY) as file:
        os.write(file, b"x")
    after = (folder / "f").stat()
    same((after.st_mtime > 1, after.st_ctime_ns > before.st_ctime_ns), (True, True))


@check
def chmod_changes_ctime_alone(folder):
    write(folder / "f", b"abc")
    before = (folder / "f").stat()
    time.sleep(0.02)
    os.chmod(folder / "f", 0o600)
    after = (folder / "f").stat()
    same((after.st_mtime_ns == before.st_mtime_ns, after.st_ctime_ns > before.st_ctime_ns), (True, True))


@check
def entries_change_the_folders_mtime(folder):
    os.utime(folder, (1, 1))
    write(folder / "f")
    same(folder.stat().st_mtime > 1, True)
    os.utime(folder, (1, 1))
    os.unlink(folder / "f")
    same(folder.stat().st_mtime > 1, True)


@check
def access_of_root(folder):
    write(folder / "f")
    os.chmod(folder / "f", 0)
    same((os.access(folder / "f", os.R_OK | os.W_OK), os.access(folder / "f", os.X_OK)), (True, False))


@check
def statvfs_says_something(folder):
    found = os.statvfs(folder)
    same((found.f_blocks > 0, found.f_bfree <= found.f_blocks, found.f_namemax), (True, True, 255))


# --- Users

def opened_up(folder):
    os.chmod(folder, 0o777)
    return folder


@check
def a_user_owns_what_it_makes(folder):
    opened_up(folder)
    as_user(lambda: write(folder / "f", b"abc"))
    found = (folder / "f").stat()
    same((found.st_uid, found.st_gid), (USER, GROUP))


@check
def a_group_is_inherited(folder):
    os.chown(folder, 0, 777)
    os.chmod(folder, 0o2777)
    as_user(lambda: (write(folder / "f"), os.mkdir(folder / "d")))
    same(((folder / "f").stat().st_gid, (folder / "d").stat().st_gid), (777, 777))
    same((folder / "d").stat().st_mode & stat.S_ISGID, stat.S_ISGID)


@each((0o600, errno.EACCES), (0o640, errno.EACCES))
def a_strangers_file_is_not_read(folder, case):
    write(folder / "f", b"abc")
    os.chmod(folder / "f", case[0])

    def attempt():
        with fails(case[1]):
            read(folder / "f")
    as_user(attempt)


@check
def a_groups_file_is_read(folder):
    write(folder / "f", b"abc")
    os.chown(folder / "f", 0, 777)
    os.chmod(folder / "f", 0o640)
    as_user(lambda: same(read(folder / "f"), b"abc"), groups=(777,))


@check
def a_strangers_folder_is_not_changed(folder):
    os.chmod(folder, 0o755)
    write(folder / "f")

    def attempt():
        for change in (lambda: write(folder / "n"), lambda: os.mkdir(folder / "d"), lambda: os.unlink(folder / "f"),
                       lambda: os.rename(folder / "f", folder / "g"), lambda: os.symlink("x", folder / "l")):
            with fails(errno.EACCES):
                change()
    as_user(attempt)


@check
def a_strangers_file_keeps_its_attributes(folder):
    write(folder / "f")
    os.chmod(folder / "f", 0o666)

    def attempt():
        with fails(errno.EPERM):
            os.chmod(folder / "f", 0o777)
        with fails(errno.EPERM):
            os.chown(folder / "f", USER, -1)
        with fails(errno.EPERM):
            os.utime(folder / "f", (1, 1))
        os.utime(folder / "f")
    as_user(attempt)


@check
def a_user_gives_nothing_away(folder):
    opened_up(folder)

    def attempt():
        write(folder / "f")
        with fails(errno.EPERM):
            os.chown(folder / "f", 0, -1)
        with fails(errno.EPERM):
            os.chown(folder / "f", -1, 3)
        os.chown(folder / "f", -1, 777)
    as_user(attempt, groups=(777,))


@check
def a_sticky_folder_protects(folder):
    os.chmod(folder, 0o1777)
    write(folder / "f")

    def attempt():
        with fails(errno.EPERM, errno.EACCES):
            os.unlink(folder / "f")
        with fails(errno.EPERM, errno.EACCES):
            os.rename(folder / "f", folder / "g")
    as_user(attempt)


@check
def a_folder_that_is_not_searched(folder):
    os.mkdir(folder / "d")
    write(folder / "d" / "f")
    os.chmod(folder / "d", 0o744)

    def attempt():
        same(os.listdir(folder / "d"), ["f"])
        with fails(errno.EACCES):
            os.stat(folder / "d" / "f")
    as_user(attempt)


@check
def a_folder_that_is_not_listed(folder):
    os.mkdir(folder / "d")
    write(folder / "d" / "f", b"abc")
    os.chmod(folder / "d", 0o711)

    def attempt():
        with fails(errno.EACCES):
            os.listdir(folder / "d")
        same(read(folder / "d" / "f"), b"abc")
    as_user(attempt)


@check
def an_open_file_outlasts_its_mode(folder):
    opened_up(folder)

    def attempt():
        with opened(folder / "f", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o400) as file:
            os.write(file, b"abc")
            os.fsync(file)
            os.chmod(folder / "f", 0)
            os.pwrite(file, b"X", 0)
            os.fsync(file)
            same(os.pread(file, 3, 0), b"Xbc")
    as_user(attempt)


@check
def writing_takes_set_user_id_away(folder):
    write(folder / "f", b"abc")
    os.chmod(folder / "f", 0o4777)

    def attempt():
        with opened(folder / "f", os.O_WRONLY) as file:
            os.write(file, b"x")
            os.fsync(file)
    as_user(attempt)
    same((folder / "f").stat().st_mode & stat.S_ISUID, 0)


@check
def a_program_runs(folder):
    opened_up(folder)
    shutil.copy("/bin/true", folder / "program")
    os.chmod(folder / "program", 0o711)
    same(os.system(f"'{folder}/program'"), 0)


# --- Several at once

@check
def processes_append_each_to_its_own(folder):
    children = []
    for number in range(8):
        child = os.fork()
        if child == 0:
            with open(folder / f"f{number}", "wb") as file:
                for line in range(200):
                    file.write(b"%d:%d\n" % (number, line))
            os._exit(0)
        children.append(child)
    for child in children:
        same(os.waitpid(child, 0)[1], 0)
    for number in range(8):
        same(read(folder / f"f{number}"), b"".join(b"%d:%d\n" % (number, line) for line in range(200)))


@check
def one_of_many_creates_exclusively(folder):
    children = []
    for number in range(8):
        child = os.fork()
        if child == 0:
            try:
                os.close(os.open(folder / "lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            except FileExistsError:
                os._exit(1)
            os._exit(0)
        children.append(child)
    same(sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 for child in children), 1)


@check
def processes_write_their_own_parts(folder):
    write(folder / "f", bytes(8 * 65536))
    children = []
    for number in range(8):
        child = os.fork()
        if child == 0:
            with opened(folder / "f", os.O_WRONLY) as file:
                os.pwrite(file, bytes([number + 1]) * 65536, number * 65536)
            os._exit(0)
        children.append(child)
    for child in children:
        same(os.waitpid(child, 0)[1], 0)
    same(read(folder / "f"), b"".join(bytes([number + 1]) * 65536 for number in range(8)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", metavar="REGEX", default="")
    parser.add_argument("--verbose", action="store_true", help="name each check before it begins")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("posix_suite.py: run it as root: it takes other users' places")
    top = pathlib.Path(tempfile.mkdtemp(prefix="posix-", dir=options.folder))
    os.chmod(top, 0o755)
    wanted = [(name, function) for name, function in CHECKS if re.search(options.only, name)]
    failed = 0
    for number, (name, function) in enumerate(wanted):
        folder = top / str(number)
        if options.verbose:
            print(name, flush=True)
        os.umask(0o022)
        os.mkdir(folder, 0o755)
        try:
            function(folder)
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            print(f"FAIL {name}: {type(error).__name__}: {error} ({where.name}, line {where.lineno})", flush=True)
    shutil.rmtree(top, ignore_errors=True)
    left = " (its folder cannot be removed)" if top.exists() else ""
    print(f"posix_suite: {len(wanted) - failed} passed, {failed} failed{left}")
    sys.exit(1 if failed or left or not wanted else 0)


if __name__ == "__main__":
    main()
