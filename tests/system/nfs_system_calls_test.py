#!/usr/bin/env python3
"""A call of NFS costs the server the system calls that it needs, and no more."""
import unittest

from command_fixture import CommandFixture, run


class NfsSystemCalls(CommandFixture):
    def test_name_that_does_not_exist_is_looked_for_once_in_memory_and_once_on_the_disk(self):
        _, urls, trace = self.serve_under_strace(
            ["-e", "trace=openat2"], "--nfs", f"{self.served}:no_root_squash,name=/a", "--port", "0", "--nfs-tcp-port", "0",
            "--provider", "siwarp", "--handle-key", self.root / "key")
        done = run("stat", f"{urls[0]}/missing")
        self.assertIn("no such file or directory", done.stderr.lower())
        calls = [line for line in trace.read_text().splitlines() if '"missing"' in line]
        if any("ENOSYS" in line or "EPERM" in line for line in calls):
            self.skipTest("the kernel here has no openat2(), or does not allow it")
        self.assertIn(len(calls), (1, 2), calls)


if __name__ == "__main__":
    unittest.main(verbosity=2)
