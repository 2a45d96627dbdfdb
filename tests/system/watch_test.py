#!/usr/bin/env python3
"""How a running server is watched: the page /metrics, `rpcrdma top` and `rpcrdma stat`."""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import subprocess
import threading
import unittest
import urllib.error
import urllib.parse
import urllib.request

from command_fixture import BOUND_S, COMMAND, WatchedFixture, run, wait_until

BOARD = pathlib.Path(__file__).resolve().parents[2] / "packaging" / "grafana" / "rpcrdma-servers.json"
SAMPLE = re.compile(r'^([a-z_]+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def samples(text):
    """All figures of a page: (name, labels, value)."""
    found = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = SAMPLE.match(line).groups()
        found.append((name, dict(LABEL.findall(labels or "")), float(value)))
    return found


FIGURES = 'rpcrdma_uptime_seconds {uptime}\nrpcrdma_calls_total{{program="1"}} {calls}\n'


class StatServer:
    """A server's socket that gives one of these texts to each that asks, in turn; None: it says nothing for ever."""
    def __init__(self, path, texts):
        self.path, self.texts, self.is_silent = str(path), texts, threading.Event()
        self.clients = []

    def __enter__(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()
        return self

    def serve(self):
        for text in self.texts:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            self.clients.append(client)  # those that hear nothing wait on
            if text is None:
                self.is_silent.set()
                continue
            client.sendall(text.encode())
            client.close()

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()
        for each in self.clients:
            each.close()


def waits_in_poll(pid):
    """Whether a process is inside poll(), by the number of the call."""
    try:
        return pathlib.Path(f"/proc/{pid}/syscall").read_text().split()[0] in ("7", "73", "271")
    except (OSError, IndexError):
        return True  # this kernel does not say


class WatchFixture(WatchedFixture):
    def calls(self, procedure):
        figures = json.loads(run("stat", "--json", self.socket).stdout)
        return sum(each["calls"] for each in figures["procedures"] if each["procedure"] == procedure)


class MetricsTest(WatchFixture):
    def with_page(self, *arguments):
        return self.started_with_page(self.exported, "--metrics", "0", *arguments)

    def started_with_page(self, start, *arguments):
        try:
            server = start(*arguments)
        except AssertionError as error:
            if "built without HTTP" not in str(error):
                raise
            self.skipTest("this rpcrdma was built without libmicrohttpd")
        server.page = next(url for url in server.urls if url.startswith("http:"))
        return server

    @staticmethod
    def scrape(page):
        with urllib.request.urlopen(page, timeout=BOUND_S) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    def value(self, page, name, **labels):
        return sum(value for each, has, value in samples(self.scrape(page)[1])
                   if each == name and labels.items() <= has.items())

    def copy(self, server, size=300_000):
        path = self.file("file", size)
        self.assertEqual(run("cp", path, server.nfs + "/file").returncode, 0)
        self.assertEqual(run("cp", server.nfs + "/file", self.root / "back").returncode, 0)

    def test_counts_calls_by_program_and_procedure(self):
        server = self.with_page()
        self.copy(server)
        nfs = {"program": "100003", "version": "3"}
        wait_until(lambda: self.value(server.page, "rpcrdma_calls_total", procedure="READ", **nfs) > 0)
        kind, text = self.scrape(server.page)
        self.assertTrue(kind.startswith("text/plain; version=0.0.4"), kind)
        calls = {labels["procedure"]: value for name, labels, value in samples(text)
                 if name == "rpcrdma_calls_total" and labels["program"] == "100003"}
        for procedure in ("CREATE", "WRITE", "COMMIT", "READ", "GETATTR"):
            self.assertGreater(calls[procedure], 0, procedure)
        for procedure, count in calls.items():
            counted = [value for name, labels, value in samples(text)
                       if name == "rpcrdma_call_duration_seconds_count" and labels["procedure"] == procedure]
            self.assertEqual(counted, [count], procedure)
        self.assertGreater(self.value(server.page, "rpcrdma_read_chunk_count_total"), 0)
        self.assertGreater(self.value(server.page, "rpcrdma_read_chunk_seconds_count"), 0)
        self.assertGreater(self.value(server.page, "rpcrdma_rdma_stat_read_total"), 0)
        self.assertGreaterEqual(self.value(server.page, "rpcrdma_total_rdma_request_bytes_total"), 300_000)
        self.assertGreaterEqual(self.value(server.page, "rpcrdma_total_rdma_reply_bytes_total"), 300_000)
        self.assertEqual(self.value(server.page, "rpcrdma_call_errors_total"), 0)

    def test_counts_errors_of_nfs_by_procedure_and_status(self):
        (self.root / "fixed").mkdir()
        server = self.with_page("--nfs", f"{self.root}/fixed:ro,name=/fixed")
        errors = lambda **labels: self.value(server.page, "rpcrdma_nfs_errors_total", **labels)  # noqa: E731
        self.assertEqual(errors(), 0)
        self.assertEqual(run("stat", server.nfs + "/none").returncode, 1)
        self.assertEqual(run("mkdir", "-p", server.nfs + "/folder/below").returncode, 0)
        for _ in range(3):  # the storage refuses it
            self.assertEqual(run("mv", server.nfs + "/folder", server.nfs + "/folder/below/again").returncode, 1)
        self.assertEqual(run("mkdir", server.nfs.removesuffix("/data") + "/fixed/new").returncode, 1)  # the rules do
        wait_until(lambda: errors(procedure="RENAME", status="INVAL") == 3)
        wait_until(lambda: errors(procedure="MKDIR", status="ROFS") == 1)
        self.assertGreaterEqual(errors(procedure="LOOKUP", status="NOENT"), 1)
        self.assertEqual(errors(procedure="RENAME"), 3)
        self.assertEqual(self.value(server.page, "rpcrdma_call_errors_total"), 0)  # RPC has seen none
        self.assertRegex(run("stat", self.socket).stdout, r"(?m)^Errors of NFS:\n(  .*\n)*  RENAME +INVAL +3$")
        self.assertIn({"procedure": "RENAME", "status": "INVAL", "calls": 3},
                      json.loads(run("stat", "--json", self.socket).stdout)["nfs_errors"])

    def test_has_no_figures_of_single_peers(self):
        server = self.with_page()
        with socket.create_connection(("127.0.0.1", urllib.parse.urlsplit(server.nfs_tcp).port), BOUND_S):
            wait_until(lambda: self.value(server.page, "rpcrdma_connections", transport="tcp") == 1)
            self.assertNotIn("peer=", self.scrape(server.page)[1])

    def test_counts_refused_calls(self):
        server = self.with_page()
        self.assertNotEqual(run("ping", server.url, "--program", "200000", "--version", "3", "--count", "1").returncode, 0)
        self.assertNotEqual(run("ping", server.url, "--program", "100003", "--version", "9", "--count", "1").returncode, 0)
        for reason in ("no_program", "wrong_version"):
            wait_until(lambda of=reason: self.value(server.page, "rpcrdma_calls_refused_total", reason=of) == 1)

    def test_is_ready_there_as_well_and_on_this_machine_only(self):
        server = self.with_page()
        self.assertTrue(server.page.startswith("http://127.0.0.1:"), server.page)
        ready = server.page.removesuffix("/metrics") + "/ready"
        self.assertEqual(self.scrape(ready)[1], "ready\n")
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.scrape(server.page + "x")
        self.assertIn("/metrics", refused.exception.read().decode())

    def test_takes_an_address(self):
        server = self.started_with_page(self.serve, "--stat-socket", "none", "--metrics", "[::1]:0")
        self.assertTrue(server.page.startswith("http://[::1]:"))
        for wrong in ("host:9100", "1.2.3.4:70000", "x", ""):
            done = run("serve", "--blob", self.served, "--port", "0", "--metrics", wrong)
            self.assertEqual(done.returncode, 2, wrong)
            self.assertIn("--metrics", done.stderr)

    def test_scrapers_that_stall_and_a_thousand_of_them_cost_no_call(self):
        server = self.with_page()
        address = ("127.0.0.1", urllib.parse.urlsplit(server.page).port)
        stalled = []
        for _ in range(40):
            one = socket.create_connection(address, BOUND_S)
            one.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")  # and no more
            stalled.append(one)
        self.copy(server)

        def ask(_):
            try:
                return self.scrape(server.page)[1].startswith("# HELP")
            except OSError:
                return False  # those who stall have all the places of their machine
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            asked = pool.map(ask, range(1000))
            self.copy(server)
            list(asked)
        for one in stalled:
            one.close()
        wait_until(lambda: ask(None))
        self.assertEqual(server.stop()[0], 0)

    def test_prometheus_scrapes_it_and_answers_the_board(self):
        if shutil.which("prometheus") is None:
            self.skipTest("Debian's prometheus is not installed")
        server = self.with_page()
        self.copy(server)
        text = self.scrape(server.page)[1]
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        self.assertEqual((checked.returncode, checked.stdout, checked.stderr), (0, "", ""))
        address = urllib.parse.urlsplit(server.page).netloc
        config = self.root / "prometheus.yml"
        config.write_text("global: {scrape_interval: 200ms, scrape_timeout: 200ms}\nscrape_configs:\n"
                          f"- job_name: rpcrdma\n  static_configs: [{{targets: ['{address}']}}]\n")
        prometheus = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.root}/tsdb",
             "--web.listen-address=127.0.0.1:0"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        try:
            api = None
            while api is None:
                line = prometheus.stderr.readline()
                self.assertNotEqual(line, "", "prometheus has ended")
                found = re.search(r'msg="Listening on" address=(\S+)', line)
                api = found and f"http://{found.group(1)}/api/v1/query?query="

            def ask(query):
                try:
                    with urllib.request.urlopen(api + urllib.parse.quote(query), timeout=BOUND_S) as answer:
                        return json.load(answer)["data"]["result"]
                except urllib.error.HTTPError as error:
                    if error.code == 503:  # it starts still
                        return []
                    self.fail(f"{query}: {error.read().decode()}")
            # A rate takes two scrapes.
            wait_until(lambda: ask("rate(rpcrdma_uptime_seconds[1m])"))
            board = json.loads(BOARD.read_text())
            queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
            self.assertGreater(len(queries), 20)
            for query in queries:
                query = query.replace("$__rate_interval", "1m").replace("$instance", ".*")
                if query.endswith(" > 0"):  # failed calls: there are none
                    query = query.removesuffix(" > 0")
                wait_until(lambda of=query: ask(of))
        finally:
            prometheus.kill()
            prometheus.communicate(timeout=BOUND_S)


class TopTest(WatchFixture):
    def loaded(self, server):
        """A client that makes calls until the test ends."""
        client = subprocess.Popen([COMMAND, "ping", server.url, "--count", "100000000"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (client.kill(), client.wait(timeout=BOUND_S)))
        wait_until(lambda: self.calls("NULL") > 100)
        return client

    def test_shows_each_connection_and_its_rates(self):
        server = self.watched("--tcp-port", "0")
        self.loaded(server)
        tcp = next(url for url in server.urls if url.startswith("tcp:"))
        with socket.create_connection(("127.0.0.1", urllib.parse.urlsplit(tcp).port), BOUND_S) as silent:
            peer = "{}:{}".format(*silent.getsockname())
            wait_until(lambda: peer in run("top", self.socket, "--once", "--interval", "0.05").stdout)
            top = json.loads(run("top", self.socket, "--json", "--interval", "0.3").stdout)
            shown = run("top", self.socket, "--once", "--sort", "peer", "--interval", "0.05").stdout
        self.assertEqual(top["server"]["connections"], 2)
        self.assertGreater(top["server"]["calls_per_s"], 0)
        busy, quiet = top["connections"]
        self.assertEqual((quiet["peer"], quiet["transport"], quiet["calls_per_s"]), (peer, "tcp", 0))
        self.assertEqual((busy["transport"], busy["rpcrdma_version"]), ("rdma", 1))
        self.assertGreater(busy["calls_per_s"], 0)
        self.assertGreater(busy["bytes_per_s"], 0)
        self.assertGreater(busy["p99_us"], 0)
        self.assertGreaterEqual(busy["p99_us"], busy["p50_us"])
        self.assertGreater(busy["credits"], 0)
        rows = [line.split()[0] for line in shown.splitlines() if line.startswith("127.0.0.1:")]
        self.assertEqual(rows, sorted(rows))
        self.assertEqual(len(rows), 2)

    def test_names_what_is_wrong(self):
        self.watched()
        for arguments, status, text in (
                (["top", self.root / "none"], 3, "No such file or directory"),
                (["top", "999999999"], 1, "has no socket"),
                (["top", self.socket], 2, "--once"),
                (["stat", self.served / "x"], 2, ""),
        ):
            done = run(*arguments, *(["--once"] if status in (1, 3) else []))
            self.assertEqual(done.returncode, status, (arguments, done.stderr))
            self.assertIn(text, done.stderr)

    def test_stat_counts_as_nfsstat_and_mountstats_do(self):
        server = self.exported()
        path = self.file("file", 300_000)
        self.assertEqual(run("cp", path, server.nfs + "/file").returncode, 0)
        wait_until(lambda: self.calls("COMMIT") > 0)
        shown = run("stat", self.socket).stdout
        self.assertRegex(shown, r"NFS version 3 \(program 100003\): \d+ calls")
        self.assertRegex(shown, r"(?m)^  WRITE +\d+ +\d+\.\d%  errors 0 ")
        self.assertRegex(shown, r"(?m)^  read_chunk_count +[1-9]")
        figures = json.loads(run("stat", "--json", self.socket).stdout)
        self.assertGreaterEqual(figures["total_rdma_request_bytes"], 300_000)
        self.assertEqual(figures["connections_lost"], 0)
        self.assertIsInstance(figures["rdma_stat_recv"], int)

    def test_only_its_user_and_root_may_ask(self):
        self.watched()
        self.assertEqual(stat.S_IMODE(self.socket.stat().st_mode), 0o600)
        if os.geteuid() != 0:
            self.skipTest("another user takes root")
        self.root.chmod(0o755)
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", COMMAND, "stat",
                               str(self.socket)], capture_output=True, text=True, timeout=BOUND_S, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("only the server's user and root may ask", done.stderr)
        # The server also refuses a client that gets past the mode of the file.
        self.socket.chmod(0o666)
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", COMMAND, "stat",
                               str(self.socket)], capture_output=True, text=True, timeout=BOUND_S, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertNotIn("rdma_stat", done.stdout)

    def test_socket_of_a_killed_server_is_replaced_and_that_of_another_is_not(self):
        first = self.watched()
        second = run("serve", "--blob", self.served, "--port", "0", "--stat-socket", self.socket)
        self.assertEqual(second.returncode, 1)
        self.assertIn(f"cannot listen at {self.socket}", second.stderr)
        first.kill()
        self.assertIn("its server has ended", run("stat", self.socket).stderr)
        again = self.watched()
        self.assertEqual(run("stat", self.socket).returncode, 0)
        again.stop()
        self.assertFalse(self.socket.exists())

    def test_who_does_not_read_holds_up_no_call_nor_the_end(self):
        server = self.watched()
        silent = [socket.socket(socket.AF_UNIX) for _ in range(4)]
        for each in silent:
            each.connect(str(self.socket))
        self.put(server, self.file("file", 100_000))
        self.assertEqual(server.stop()[0], 0)
        for each in silent:
            each.close()

    def test_finds_the_server_by_its_process(self):
        folder = self.root / "run"
        folder.mkdir()
        (folder / "1.sock").touch()  # no socket
        with socket.socket(socket.AF_UNIX) as gone:
            gone.bind(str(folder / "2.sock"))  # of a server that was killed
        server = self.serve("--provider", "siwarp", env={**os.environ, "RUNTIME_DIRECTORY": f"{folder}:/nowhere"})
        self.assertEqual(sorted(path.name for path in folder.iterdir()), 
                         sorted(["1.sock", f"{server.process.pid}.live", f"{server.process.pid}.sock"]))
        # The folder of a user is the one that `top` looks into.
        user = self.root / "user"
        user.mkdir()
        folder.rename(user / "rpcrdma")
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(user)}
        done = run("stat", server.process.pid, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("RPC over RDMA", done.stdout)

    def test_live_table_ends_by_a_key(self):
        server = self.watched()
        self.loaded(server)
        master, slave = os.openpty()
        self.addCleanup(os.close, master)
        top = subprocess.Popen([COMMAND, "top", str(self.socket), "--interval", "0.05"], stdin=slave, stdout=slave,
                               stderr=subprocess.PIPE, text=True)
        os.close(slave)
        text = ""

        def read_until(pattern):
            nonlocal text
            text = ""
            while not re.search(pattern, text):
                text += os.read(master, 65536).decode(errors="replace")
        read_until("sorted by calls")
        os.write(master, b"9")
        read_until("sorted by p99")
        os.write(master, b"q")
        errors = top.communicate(timeout=BOUND_S)[1]
        self.assertEqual((top.returncode, errors), (0, ""))

    def test_live_table_ends_with_its_server_and_gives_the_terminal_back(self):
        server = self.watched()
        master, slave = os.openpty()
        self.addCleanup(os.close, master)
        top = subprocess.Popen([COMMAND, "top", str(self.socket), "--interval", "0.05"], stdin=slave, stdout=slave,
                               stderr=subprocess.PIPE, text=True)
        before = subprocess.run(["stty", "-a"], stdin=slave, capture_output=True, text=True, check=True).stdout
        text = ""
        while "sorted by" not in text:
            text += os.read(master, 65536).decode(errors="replace")
        server.process.send_signal(signal.SIGTERM)
        errors = top.communicate(timeout=BOUND_S)[1]
        self.assertEqual(top.returncode, 3, errors)
        after = subprocess.run(["stty", "-a"], stdin=slave, capture_output=True, text=True, check=True).stdout
        os.close(slave)
        self.assertIn(" icanon", after)
        self.assertTrue(before)


    def test_signal_ends_the_live_table_and_gives_the_terminal_back(self):
        self.watched()
        for number in (signal.SIGINT, signal.SIGTERM):
            master, slave = os.openpty()
            self.addCleanup(os.close, master)
            self.addCleanup(os.close, slave)
            top = subprocess.Popen([COMMAND, "top", str(self.socket), "--interval", "0.05"], stdin=slave, stdout=slave,
                                   stderr=subprocess.PIPE, text=True)
            text = ""
            while "sorted by" not in text:
                text += os.read(master, 65536).decode(errors="replace")
            top.send_signal(number)
            errors = top.communicate(timeout=BOUND_S)[1]
            self.assertEqual((top.returncode, errors), (0, ""))
            after = subprocess.run(["stty", "-a"], stdin=slave, capture_output=True, text=True, check=True).stdout
            self.assertRegex(after, r" icanon(.|\n)* echo ")

    def test_signals_end_the_live_table_of_a_server_that_says_nothing(self):
        for number, status in ((signal.SIGINT, 0), (signal.SIGQUIT, -signal.SIGQUIT)):
            with StatServer(self.root / f"{number}.sock", [FIGURES.format(uptime=1, calls=1), None]) as silent:
                master, slave = os.openpty()
                self.addCleanup(os.close, master)
                self.addCleanup(os.close, slave)
                top = subprocess.Popen([COMMAND, "top", silent.path, "--interval", "0.05"], stdin=slave, stdout=slave,
                                       stderr=subprocess.PIPE, text=True)
                silent.is_silent.wait(BOUND_S)
                wait_until(lambda: waits_in_poll(top.pid))
                top.send_signal(number)
                # Less than the time for which top bears a server that says nothing.
                errors = top.communicate(timeout=6)[1]
                self.assertEqual((top.returncode, errors), (status, ""))
                after = subprocess.run(["stty", "-a"], stdin=slave, capture_output=True, text=True, check=True).stdout
                self.assertRegex(after, r" icanon(.|\n)* echo ")

    def test_server_that_was_started_anew_is_counted_from_its_start(self):
        readings = [FIGURES.format(uptime=100, calls=5_000_000), FIGURES.format(uptime=1, calls=10)]
        with StatServer(self.root / "anew.sock", readings) as server:
            top = json.loads(run("top", server.path, "--json", "--interval", "0.05").stdout)
        self.assertGreater(top["server"]["calls_per_s"], 0)
        self.assertLess(top["server"]["calls_per_s"], 1000)

    def test_finds_a_mount_by_its_directory_however_that_is_written_and_whatever_others_say(self):
        folder = self.root / "rpcrdma"
        folder.mkdir()
        figures = 'rpcrdma_mount_info{directory="/mnt/of the test"} 1\n'
        with StatServer(folder / "0.mount.sock", [""] * 9), StatServer(folder / "1.mount.sock", [figures] * 9):
            for name in ("/mnt/of the test", "/mnt/of the test/", "/mnt/../mnt/of the test"):
                shown = run("top", name, "--once", "--interval", "0.05", 
                            env={**os.environ, "XDG_RUNTIME_DIR": str(self.root)})
                self.assertEqual((shown.returncode, shown.stderr), (0, ""), name)


class CallLogTest(WatchFixture):
    def test_each_call_has_a_line_where_calls_are_at_debug(self):
        server = self.exported("--log-level", "warning,calls=debug")
        path = self.file("file", 300_000)
        self.assertEqual(run("cp", path, server.nfs + "/file").returncode, 0)
        self.assertEqual(run("cp", server.nfs_tcp + "/file", self.root / "back").returncode, 0)
        status, _, errors = server.stop()
        self.assertEqual(status, 0)
        lines = [line for line in errors.splitlines() if " calls: " in line]
        write = next(line for line in lines if "NFSPROC3_WRITE" in line)
        self.assertRegex(write, r" debug calls: 127\.0\.0\.1:\d+ XID 0x[0-9a-f]{8} NFSPROC3_WRITE of program 100003 version 3: "
                                r"1 Read chunks, 300\d{3} bytes of arguments, \d+ of results, \d+\.\d us \(\d+\.\d in the service")
        read = next(line for line in lines if "NFSPROC3_READ " in line)
        self.assertRegex(read, r"no Read chunk, \d+ bytes of arguments, 300\d{3} of results")

    def test_calls_have_no_lines_at_info(self):
        server = self.exported()
        self.assertEqual(run("ls", server.nfs).returncode, 0)
        self.assertNotIn(" calls: ", server.stop()[2])


class ClientStatsTest(WatchFixture):
    def stats(self, *arguments, status=0):
        done = run(*arguments, "--stats")
        self.assertEqual(done.returncode, status, done.stderr)
        return {line.split()[0]: int(line.split()[1]) for line in done.stderr.splitlines()
                if re.fullmatch(r"[a-z_]+ +\d+", line)}

    def test_clients_count_under_the_same_names(self):
        server = self.exported()
        path = self.file("file", 300_000)
        counted = self.stats("cp", path, server.nfs + "/file")
        self.assertGreaterEqual(counted["total_rdma_request_bytes"], 300_000)
        self.assertGreater(counted["read_chunk_count"], 0)
        self.assertGreater(counted["calls"], 3)
        self.assertEqual(self.stats("ping", server.url, "--count", "7")["calls"], 7)
        self.assertGreater(self.stats("ls", server.nfs_tcp)["calls"], 0)
        self.assertEqual(self.stats("put", server.url, path)["calls"], self.stats("put", server.url, path)["calls"])
        self.assertNotIn("calls", run("ls", server.nfs).stderr)

    def test_clients_time_their_waits_for_credit(self):
        server = self.watched("--credits", "1")
        path = self.file("file", 3 << 20)
        starved = self.stats("put", server.url, path, "--size", "64K", "--depth", "8", "--credits", "8")
        self.assertGreater(starved["credit_waits"], 0)
        self.assertGreater(starved["credit_wait_ns"], starved["credit_waits"])
        alone = self.stats("ping", server.url, "--count", "7")
        self.assertEqual((alone["credit_waits"], alone["credit_wait_ns"]), (0, 0))

    def test_clients_count_also_where_they_fail(self):
        server = self.exported()
        self.assertGreater(self.stats("cat", server.nfs + "/none", status=1)["calls"], 0)


if __name__ == "__main__":
    unittest.main()
