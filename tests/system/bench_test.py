#!/usr/bin/env python3
"""`rpcrdma bench`, which is a program of its own, and what the command is because of that."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from command_fixture import wait_until

COMMAND = pathlib.Path(os.environ["RPCRDMA"]).resolve()
HELPER = pathlib.Path(os.environ["BENCH_HELPER"]) if os.environ.get("BENCH_HELPER") else None
BOUND_S = 60  # nothing here takes long; what does is a hang


def run(*arguments, command=COMMAND, **keywords):
    return subprocess.run([command, *map(str, arguments)], capture_output=True, text=True, timeout=BOUND_S,
                          check=False, **keywords)


def tool(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=BOUND_S, check=True).stdout


class Command(unittest.TestCase):
    """A replaced operator new hides small overruns from ASan, and libtirpc brings Kerberos along."""

    def test_the_command_does_not_replace_operator_new(self):
        # A weak one is ASan's own, or places a value where it is told.
        replaced = re.findall(r" T (operator new.*)", tool("nm", "-C", "--defined-only", COMMAND))
        self.assertEqual(replaced, [])

    def test_the_command_needs_neither_libtirpc_nor_kerberos(self):
        needed = re.findall(r"Shared library: \[(.*)\]", tool("readelf", "-d", COMMAND))
        self.assertIn("libstdc++.so.6", needed)
        self.assertEqual([name for name in needed if re.match("libtirpc|libgssapi|libkrb5", name)], [])

    def test_bench_without_its_program_says_what_to_do(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = pathlib.Path(folder, "bin", "rpcrdma")
            alone.parent.mkdir()
            shutil.copy(COMMAND, alone)
            result = run("bench", "--list", command=alone)
            self.assertEqual(result.returncode, 1)
            if HELPER:
                self.assertIn(f"cannot start {folder}/", result.stderr)
                self.assertIn("build it (make build), or install rpcrdma again", result.stderr)

    def test_bench_has_its_help_and_its_usage_errors_without_the_program(self):
        self.assertIn("--rounds", run("bench", "--help").stdout)
        self.assertEqual(run("bench", "--rounds", 0).returncode, 2)


@unittest.skipIf(HELPER, "the bench is there: this build has no sanitizer")
class Sanitized(unittest.TestCase):
    def test_bench_says_that_this_build_has_none(self):
        result = run("bench")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("no benchmark", result.stderr)
        self.assertIn("make build", result.stderr)


@unittest.skipUnless(HELPER, "a build with a sanitizer has no bench")
class Bench(unittest.TestCase):
    def test_measures_a_server_that_is_there_already(self):
        server = subprocess.Popen([COMMAND, "serve", "--bench", "--port", "0", "--threads", "2"], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            url = server.stdout.readline().split()[1]
            result = run("bench", url, "--json", "--seconds", 0.02, "--rounds", 2, "--cases", "read_64k_qd8", "--crc",
                         "off", "--idle", 3)
            self.assertEqual(result.returncode, 0, result.stderr)
            figures = json.loads(result.stdout)
            self.assertEqual([each["case"] for each in figures], ["read_64k_qd8"], "bare TCP is not there")
            self.assertIsNone(figures[0]["ratio_to_raw"])
            self.assertEqual(figures[0]["idle"], 3)
            for key in ("ops_per_s", "cpu_ns_per_call", "server_cpu_ns_per_call", "server_rss_kib"):
                self.assertGreater(figures[0][key], 0, key)
            shown = run("bench", url, "--seconds", 0.02, "--rounds", 1, "--cases", "null_qd1", "--crc", "off").stdout
            self.assertIn(f"the client is a process here, and the server at {url}.", shown)
            self.assertNotIn("raw", shown)
        finally:
            server.terminate()
            server.communicate(timeout=BOUND_S)
        gone = run("bench", url, "--cases", "null_qd1", "--seconds", 0.01)
        self.assertEqual((gone.returncode, gone.stdout), (3, ""))
        self.assertIn(url.removeprefix("rdma://"), gone.stderr)

    def test_measures_calls_over_tcp(self):
        result = run("bench", "--transport", "tcp", "--cases", "read_64k_qd4", "--crc", "off", "--seconds", 0.02,
                     "--rounds", 1, "--idle", 2, "--json", "--verbose")
        self.assertEqual(result.returncode, 0, result.stderr)
        raw, over_tcp = json.loads(result.stdout)
        self.assertEqual((raw["case"], over_tcp["case"]), ("raw_64k_qd4", "read_64k_qd4"))
        self.assertEqual(over_tcp["transport"], "tcp")
        self.assertGreater(over_tcp["ops_per_s"], 0)
        self.assertIn("over TCP", result.stderr)

    def test_all_cases_go_with_any_number_of_calls(self):
        result = run("bench", "--cases", "null_qd200,read_512_qd3", "--crc", "off", "--seconds", 0.02, "--rounds", 1,
                     "--connections", 1, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        figures = {each["case"]: each for each in json.loads(result.stdout)}
        self.assertEqual(set(figures), {"null_qd200", "raw_null_qd200", "read_512_qd3", "raw_512_qd3"})
        self.assertEqual(figures["null_qd200"]["connections"], 1)

    def test_what_cannot_be_measured_is_refused(self):
        for words, said in (("--beside nonsense", "nonsense"), ("--cases tirpc_null_qd1 --connections 2", "libtirpc"), ("--cases read_16m_qd1024", "read_16m_qd1024"),
                            ("--beside null_qd1 --connections 2", "--connections"), ("--threads 0", "--threads"),
                            ("rdma://127.0.0.1 --threads 2", "url"),
                            ("rdma://127.0.0.1 --beside null_qd1", "url"),
                            ("rdma://127.0.0.1 --transport tcp", "url"), ("--transport udp", "--transport")):
            result = run("bench", *words.split(), "--seconds", 0.01)
            self.assertNotEqual(result.returncode, 0, words)
            self.assertIn(said, result.stderr, words)

    def test_gives_its_figures_for_each_case(self):
        cases = ["null_qd32", "write_64k_qd1", "read_64k_qd8"]
        result = run("bench", "--json", "--seconds", 0.02, "--rounds", 2, "--cases", ",".join(cases))
        self.assertEqual(result.returncode, 0, result.stderr)
        figures = json.loads(result.stdout)
        ours = [(each["case"], each["crc"]) for each in figures if not each["case"].startswith("raw")]
        self.assertEqual(ours, [(case, crc) for case in cases for crc in (False, True)])
        raw = {each["case"] for each in figures} - set(cases)
        self.assertEqual(raw, {"raw_null_qd32", "raw_64k_qd8", "raw_64k_qd1"})
        for each in figures:
            self.assertGreater(each["ops_per_s"], 0, each)
            self.assertGreater(each["ratio_to_raw"], 0, each)
            self.assertLessEqual(each["p50_us"], each["p99_us"], each)
            self.assertEqual(each["allocations_per_call"], 0, each)
            if not each["case"].startswith("null") and each["case"] != "raw_null_qd32":
                self.assertGreater(each["gb_per_s"], 0, each)
                self.assertGreater(each["cpu_s_per_gib"], 0, each)
                self.assertLessEqual(each["user_copies_per_byte"], 0.03, each)

    def test_calls_go_on_next_to_a_busy_process_on_the_same_cpu(self):
        cpu = min(os.sched_getaffinity(0))
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"],
                                preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
        try:
            result = run("bench", "--json", "--seconds", 1, "--rounds", 2, "--crc", "off",
                         "--cases", "null_qd1")
        finally:
            busy.kill()
            busy.wait()
        self.assertEqual(result.returncode, 0, result.stderr)
        ours = [each for each in json.loads(result.stdout) if each["case"] == "null_qd1"]
        # Yielding to the busy process for each call gave 0.005.
        self.assertGreater(ours[0]["ratio_to_raw"], 0.05)

    def test_says_what_it_measured(self):
        shown = run("bench", "--cases", "null_qd1", "--crc", "on", "--seconds", 0.02, "--rounds", 2, "--cpu", "same").stdout
        self.assertIn("Medians of 2 rounds, 0.02 s a case; client and server are two processes on one CPU.", shown)
        figures = json.loads(run("bench", "--cases", "null_qd1", "--crc", "off", "--seconds", 0.02, "--rounds", 3, "--json").stdout)
        self.assertEqual([(each["crc"], each["rounds"]) for each in figures if each["case"] == "null_qd1"], [(False, 3)])
        refused = run("bench", "--cases", "null_qd1", "--seconds", 0.02, "--provider", "verbs")
        self.assertNotEqual(refused.returncode, 0, "no RDMA device leads to the loopback")
        self.assertIn("verbs", refused.stderr)

    def test_server_has_its_threads_its_address_and_its_cpu(self):
        def children(pid):
            return [int(each) for each in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

        def threads(pid):
            try:
                return {pathlib.Path(each, "comm").read_text().strip() for each in pathlib.Path(f"/proc/{pid}/task").iterdir()}
            except OSError:  # it has ended
                return set()

        cpu_count = len(os.sched_getaffinity(0))
        process = subprocess.Popen(
            [COMMAND, "bench", "--cases", "null_qd1", "--crc", "off", "--seconds", "3600", "--rounds", "1", "--threads",
             "3", "--address", "127.0.0.2", "--cpu", "spread" if cpu_count > 1 else "same"], stdout=subprocess.DEVNULL)
        try:
            wait_until(lambda: any({"rpcrdma-1", "rpcrdma-2"} <= threads(child) for child in children(process.pid)))
            self.assertRegex(pathlib.Path(f"/proc/{process.pid}/net/tcp").read_text(), r": 0200007F:[0-9A-F]{4} 00000000:0000 0A")
            server = next(child for child in children(process.pid) if "rpcrdma-1" in threads(child))
            if cpu_count > 1:
                self.assertNotEqual(os.sched_getaffinity(server), os.sched_getaffinity(process.pid))
        finally:
            process.kill()
            process.wait()

    def test_refuses_unknown_cases(self):
        result = run("bench", "--cases", "null_qd2000")
        self.assertEqual(result.returncode, 2)
        self.assertIn("null_qd2000", result.stderr)

    def test_lists_its_cases(self):
        listed = run("bench", "--list").stdout
        self.assertIn("\n  read_64k_qd8\n", listed)

    def test_is_found_through_a_link_to_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            link = pathlib.Path(folder, "link")
            link.symlink_to(COMMAND)
            self.assertIn("null_qd1", run("bench", "--list", command=link).stdout)

    def test_replaces_operator_new_to_count(self):
        self.assertIn(" T operator new(unsigned long)", tool("nm", "-C", "--defined-only", HELPER))


if __name__ == "__main__":
    unittest.main()
