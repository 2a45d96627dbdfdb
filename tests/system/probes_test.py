#!/usr/bin/env python3
"""The probes of the command (src/base/probes.h) are there, as the scripts of packaging/bpftrace/ use them."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from command_fixture import BOUND_S, COMMAND, run

SCRIPTS = pathlib.Path(os.environ["RPCRDMA_PACKAGING"]) / "bpftrace"
NOT_RUN = 77


# The points in the life of calls and connections, with the number of their arguments (src/base/probes.h).
PROBES = {
    "client_call_prepared": 5, "client_call_sent": 2, "client_call_reply": 2, "client_call_ended": 3,
    "server_call_received": 5, "server_call_executed": 2, "server_call_answered": 3,
    "client_connection_opened": 3, "client_connection_ready": 3, "client_connection_lost": 3,
    "server_connection_opened": 2, "server_connection_ready": 2, "server_connection_refused": 2,
    "server_connection_ended": 4,
}


def built():
    """{name: {numbers of arguments}} of the probes of provider rpcrdma in the command."""
    notes = subprocess.run(["readelf", "--wide", "--notes", COMMAND], capture_output=True, text=True, timeout=BOUND_S,
                           check=True).stdout
    found = {}
    for name, arguments in re.findall(r"Provider: rpcrdma\n\s*Name: (\w+)\n.*\n\s*Arguments:(.*)\n", notes):
        found.setdefault(name, set()).add(len(arguments.split()))
    return found


class Probes(unittest.TestCase):
    def test_each_probe_is_built_with_its_arguments(self):
        self.assertEqual(built(), {name: {count} for name, count in PROBES.items()})

    def test_scripts_use_probes_and_arguments_that_there_are(self):
        known, used = built(), set()
        for path in sorted(SCRIPTS.glob("*.bt")):
            text = re.sub(r"//.*", "", path.read_text())
            self.assertNotIn("@RPCRDMA", text, "configure_file() has left it")
            for probe, block in re.findall(r"^usdt:\S+:rpcrdma:(\w+)\n((?:/[^\n]*/\n)?\{.*?^\})", text, re.MULTILINE | re.DOTALL):
                self.assertIn(probe, known, path.name)
                used.add(probe)
                for argument in re.findall(r"\barg(\d+)\b", block):
                    self.assertLess(int(argument), min(known[probe]), f"{path.name}: {probe}")
        self.assertLessEqual({"client_call_prepared", "client_call_ended", "server_call_received", "server_call_answered",
                              "server_connection_opened", "server_connection_ended"}, used)

    def test_bpftrace_takes_the_scripts(self):
        if shutil.which("bpftrace") is None:
            self.skipTest("bpftrace is not installed, which parses them")
        for path in sorted(SCRIPTS.glob("*.bt")):
            with tempfile.NamedTemporaryFile("w", suffix=".bt") as own:
                own.write(re.sub(r"^usdt:[^:]+:", f"usdt:{COMMAND}:", path.read_text(), flags=re.MULTILINE))
                own.flush()
                # -d ends in front of what takes a kernel.
                parsed = subprocess.run(["bpftrace", "-d", own.name], capture_output=True, text=True, timeout=BOUND_S,
                                        check=False)
            if "root" in parsed.stderr:
                self.skipTest(f"bpftrace cannot be used here: {parsed.stderr.strip()}")
            # Errors of the script have its name in front; others are of the machine.
            mistakes = [line for line in parsed.stderr.splitlines() if own.name in line]
            self.assertEqual((parsed.returncode, mistakes), (0, []), f"{path.name}: {parsed.stderr}")


if __name__ == "__main__":
    if not json.loads(run("info", "--json").stdout)["features"]["probes"]["built"]:
        print("probes_test is NOT run: this build has no probes (Debian: systemtap-sdt-dev)")
        sys.exit(NOT_RUN)
    if shutil.which("readelf") is None:
        print("probes_test is NOT run: there is no readelf (Debian: binutils)")
        sys.exit(NOT_RUN)
    unittest.main(verbosity=2)
