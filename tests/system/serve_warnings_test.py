#!/usr/bin/env python3
"""Each warning and each error that `rpcrdma serve` can write comes when its reason does, with what to do about it.

serve_log_test.py has a full disk, service_settings_test.py mistakes in settings, nfs_krb5_test.py keys and contexts, rpcbind_test.py
registrations and a taken port, watch_test.py the socket of figures, and `make lab` connections that cannot step up over a device.
"""
import os
import signal
import socket
import struct
import unittest

from command_fixture import BOUND_S, COMMAND, run, wait_until
from service_settings_test import ServiceFixture

NFS = 'nfs = ["{other}:no_root_squash"]\nnfs-tcp-port = 0\nhandle-key = "{key}2"\n'
BLOB = 'blob = "{served}"\n'


class ServeWarnings(ServiceFixture):
    def expect_line(self, log, pattern):
        wait_until(lambda: log)
        wait_until(lambda: [line for line in log if pattern in line])
        return next(line for line in log if pattern in line)

    def failing(self, call, error, path=None):
        """Starts a server of blobs and NFS whose system calls of this name, on this file, fail. Returns its URLs and a
        function that ends it and returns its log."""
        process, urls, _ = self.serve_under_strace(
            ["-e", f"trace={call}", "-e", f"inject={call}:error={error}", *(["-P", path] if path else [])],
            "--blob", self.served, "--nfs", f"{self.other}:no_root_squash,name=/a", "--provider", "siwarp", "--port", "0",
            "--nfs-tcp-port", "0", "--handle-key", self.root / "key2")

        def ended():
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=BOUND_S)
            return errors

        return urls[0], next(url for url in urls if url.startswith("nfs+rdma")), ended

    # --- Peers ---

    def test_peer_that_is_one_too_many_is_refused(self):
        process, (url, *_), log = self.started(BLOB + "connections = 1\n")
        with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), timeout=BOUND_S) as first:
            first.sendall(b"MPA ID Req Frame" + bytes([0x40, 1]) + struct.pack("!H", 0))
            self.assertTrue(first.recv(20))
            self.assertEqual(run("ping", url, "--count", "1").returncode, 3)
            line = self.expect_line(log, " was refused: ")
        self.assertRegex(line, r" warning connections: 127\.0\.0\.1:\d+ was refused: \S")

    def test_peer_that_breaks_the_protocol_is_named_with_how(self):
        process, urls, log = self.started(NFS)
        port = int(next(url for url in urls if url.startswith("nfs+tcp")).split(":")[-1].split("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=BOUND_S) as peer:
            peer.sendall(struct.pack("!I", 0xffffffff) + b"\xff" * 100)
            self.assertEqual(peer.recv(1), b"")
        self.assertRegex(self.expect_line(log, " was lost "),
                         r" warning connections: 127\.0\.0\.1:\d+ was lost after 0 calls: the peer announced a record of more than ")
        self.assertRegex(self.expect_line(log, " broke the protocol"),
                         r" warning connections: \S+ broke the protocol: 0 RDMA_ERRORs sent, 1 messages dropped, 0 calls beyond its "
                         "credits$")

    def test_version_that_is_not_served_is_in_the_log(self):
        process, (url, *_), log = self.started(BLOB + 'rpcrdma-version = "1"\n')
        self.assertNotEqual(run("ping", url, "--count", "1", "--rpcrdma-version", "2").returncode, 0)
        self.assertRegex(self.expect_line(log, "asked for a version"),
                         r" info connections: \S+ asked for a version of RPC-over-RDMA that is not served \(--rpcrdma-version\)$")

    # --- The storage ---

    def test_quota_and_an_error_of_the_disk_are_named_with_their_export(self):
        for error, line in (("EDQUOT", "the quota of its user is used up"), ("EIO", "its storage reports an error")):
            with self.subTest(error):
                _, nfs, ended = self.failing("pwritev2", error)
                self.assertEqual(run("cp", self.file("sent", 1 << 16), f"{nfs}/sent").returncode, 1)
                self.assertRegex(ended(), rf"(?m) error nfs: /a: {line} \(procedure \d+ of 127\.0\.0\.1:\d+\)$")

    def test_storage_of_blobs_that_fails_is_an_error(self):
        (self.served / "kept").write_bytes(bytes(1 << 16))
        url, _, ended = self.failing("unlinkat,?unlink", "EIO")
        self.assertEqual(run("rm", url, "kept").returncode, 1)
        errors = ended()
        self.assertRegex(errors, r"(?m) error blob: removing kept: Input/output error$")
        self.assertRegex(errors, r"(?m) warning blob: 127\.0\.0\.1:\d+ rm kept failed: \S")
        url, _, ended = self.failing("pread64", "EIO", self.served / "kept")
        self.assertEqual(run("get", url, "kept", self.root / "got").returncode, 1)
        self.assertRegex(ended(), r"(?m) error blob: reading kept: Input/output error$")

    def test_directory_of_blobs_is_made_where_that_can_be(self):
        process, _, log = self.started(f'blob = "{self.root}/new"\n')
        self.assertTrue((self.root / "new").is_dir())
        self.expect_line(log, f"info serve: made the directory {self.root}/new")
        self.end(process)
        for directory, more, reason in (("/proc/none", [], "cannot be made: No such file or directory"),
                                        (self.root / "none", ["--read-only"], "is not made by --read-only")):
            result = run("serve", "--blob", directory, "--port", "0", *more)
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"--blob {directory}: there is no such directory, and it {reason}", result.stderr)

    def test_file_in_place_of_the_folder_of_uploads_keeps_blobs_from_being_served(self):
        (self.served / ".uploads").write_text("")
        result = run("serve", "--blob", self.served, "--port", "0")
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"(?m) error blob: opening the directory of uploads \.uploads: Not a directory$")

    # --- Its own place ---

    def test_key_of_handles_without_a_place_is_reported_with_the_option(self):
        process, _, log = self.started(NFS.replace('handle-key = "{key}2"\n', ""),
                                       env={**os.environ, "STATE_DIRECTORY": "/proc/no-such-folder"})
        self.assertRegex(self.expect_line(log, "no place for the key"),
                         r" warning serve: no place for the key of file handles \(/proc/no-such-folder\): after a restart clients have "
                         "to mount anew; name a file with --handle-key$")

    def test_socket_for_explain_that_cannot_be_made_is_reported(self):
        (self.root / "stat.live").mkdir()
        process, _, log = self.started(BLOB + f'stat-socket = "{self.root}/stat.sock"\n')
        self.assertRegex(self.expect_line(log, "cannot listen at"),
                         rf" warning serve: cannot listen at {self.root}/stat\.live for `rpcrdma explain --pid`: \S")

    # --- Settings that take a restart ---

    def test_exports_that_take_a_restart_leave_the_settings_as_they_were(self):
        for before, after, why in (
                (BLOB, BLOB + NFS, "exports where there were none take a restart"),
                (BLOB + NFS, BLOB, "no exports where there were some take a restart"),
                (NFS, NFS.replace("no_root_squash", "sec=krb5"),
                 "an export wants Kerberos, which no export wanted at the start: that takes a restart")):
            with self.subTest(why):
                process, _, log = self.started(before)
                self.assertRegex(self.reload(process, log, after),
                                 rf" error serve: the settings were read again, and stay as they were: {why}$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
