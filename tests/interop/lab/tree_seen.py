#!/usr/bin/env python3
"""Prints what a client of NFS sees of a tree: of each file its name, kind, size, time of change, number, handle and contents.

usage: tree_seen.py FOLDER
"""
import ctypes
import hashlib
import os
import pathlib
import sys

HANDLE_MAX = 128  # bytes
AT_FDCWD = -100


class FileHandle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * HANDLE_MAX)]


def handle_of(path):
    """What the kernel's client makes of a file's handle: the server's is in it."""
    library = ctypes.CDLL(None, use_errno=True)
    handle, mount = FileHandle(bytes=HANDLE_MAX), ctypes.c_int()
    if library.name_to_handle_at(AT_FDCWD, os.fsencode(path), ctypes.byref(handle), ctypes.byref(mount), 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
    return bytes(handle.data[:handle.bytes]).hex()


def contents_of(path):
    if path.is_symlink():
        return os.readlink(path)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "-"


def main():
    top = pathlib.Path(sys.argv[1])
    for path in [top, *sorted(top.rglob("*"))]:
        status = path.lstat()
        print(path.relative_to(top), f"{status.st_mode:o}", status.st_nlink, status.st_uid, status.st_size,
              status.st_mtime_ns, status.st_ino, handle_of(path), contents_of(path))


if __name__ == "__main__":
    main()
