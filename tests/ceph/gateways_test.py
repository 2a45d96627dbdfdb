#!/usr/bin/env python3
"""Several gateways of one tree on CephFS, and what dies around them: what `make ceph` runs.

usage: gateways_test.py BUILD_FOLDER [unittest's options]
"""
import contextlib
import filecmp
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cluster as clusters  # noqa: E402
import raw_nfs  # noqa: E402

BUILD = pathlib.Path()
COMMAND = ""
BOUND_S = 180
SUITE_S = 600
FIGURES = []


def figure(text):
    FIGURES.append(text)
    print(f"  {text}", flush=True)


def wait_until(condition, seconds=BOUND_S):
    limit = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError("the condition never held")
        pause.wait(0.01)


class Gateway:
    """One server, at a port that it keeps over restarts."""

    def __init__(self, conf, key, more=(), options=""):
        self.arguments = ["--nfs", f"ceph:/:conf={conf},id={clusters.USER},no_root_squash{options}", "--export", "/tree",
                          "--handle-key", key, "--provider", "siwarp", "--log-level", "warning", "--threads", 1, *more]
        self.ports = [0, 0]
        self.page = ""
        self.log = pathlib.Path(f"{key}.{id(self)}.log")
        self.process = None
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [COMMAND, "serve", *map(str, self.arguments), "--port", str(self.ports[0]), "--nfs-tcp-port",
                 str(self.ports[1])], stdout=subprocess.PIPE, stderr=log, text=True)
        readable, _, _ = select.select([self.process.stdout], [], [], BOUND_S)
        line = self.process.stdout.readline() if readable else ""
        if not line.startswith("ready"):
            self.process.kill()
            raise AssertionError(f"{line}{self.said()}")
        self.page = next((word for word in line.split() if word.startswith("http:")), "")
        self.ports = [int(word.split(":")[2].split("/")[0]) for word in line.split() if word.startswith("nfs+")]

    def raw(self, **keywords):
        return raw_nfs.Client(self.ports[1], "/tree", **keywords)

    @property
    def host(self):
        return f"127.0.0.1:{self.ports[0]}"

    def said(self):
        """What is in its log."""
        return self.log.read_text()

    def ask_page(self):
        """Whether it takes work, as it says itself: (status, text)."""
        try:
            with urllib.request.urlopen(self.page, timeout=BOUND_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def end(self):
        """Its exit code."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=BOUND_S)
        return self.process.returncode

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.communicate(timeout=15)
            except subprocess.TimeoutExpired:
                self.kill()


def url(*gateways, path="", scheme="nfs+rdma"):
    return f"{scheme}://{','.join(each.host for each in gateways)}/tree{path}"


def begin(*words):
    return subprocess.Popen([COMMAND, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def same(left, right):
    """Names and contents of two trees."""
    compared = filecmp.dircmp(left, right)
    if compared.left_only or compared.right_only or compared.funny_files:
        return False
    _, different, errors = filecmp.cmpfiles(left, right, compared.common_files, shallow=False)
    return not different and not errors and all(
        same(os.path.join(left, each), os.path.join(right, each)) for each in compared.common_dirs)


class Fixture(unittest.TestCase):
    stores = 1

    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory(prefix="rpcrdma-ceph.")  # pylint: disable=consider-using-with
        cls.root = pathlib.Path(cls.work.name)
        begun = time.monotonic()
        cls.cluster = clusters.Cluster(cls.root / "cluster", cls.stores)
        print(f"a cluster with {cls.stores} object stores: {time.monotonic() - begun:.1f} s", flush=True)
        cls.gateways = [Gateway(cls.cluster.conf, cls.root / "key") for _ in range(2)]
        cls.tree = cls.root / "source"
        for i in range(200):
            folder = cls.tree / f"d{i % 10}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"f{i}").write_bytes(os.urandom(1000 + 700 * i))
        (cls.tree / "large").write_bytes(os.urandom(32 << 20))

    @classmethod
    def tearDownClass(cls):
        for each in cls.gateways:
            each.stop()
        cls.cluster.stop()
        cls.work.cleanup()

    def ok(self, *words, **keywords):
        done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, timeout=BOUND_S,
                              check=False, **keywords)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stderr}{self.logs()}")
        return done.stdout

    def logs(self):
        """Of the gateways, for who asks why."""
        return "".join(f"\n{each.host} says:\n{each.said()}" for each in self.gateways)

    def ended(self, process):
        output, errors = process.communicate(timeout=BOUND_S)
        self.assertEqual(process.returncode, 0, errors)
        return output

    def fetched(self, *gateways, path):
        """The tree below the path, as it is seen through these."""
        back = self.root / "back"
        shutil.rmtree(back, ignore_errors=True)
        self.ok("cp", "-r", url(*gateways, path=path), back)
        return back


    @contextlib.contextmanager
    def mounted(self):
        """The file system itself, by Ceph's own client."""
        folder = self.root / "mounted"
        folder.mkdir(exist_ok=True)
        subprocess.run(["ceph-fuse", "-c", self.cluster.conf, "--id", clusters.USER, "--client_oc=false", folder],
                       check=True, capture_output=True, timeout=BOUND_S)
        try:
            yield folder
        finally:
            subprocess.run(["umount", folder], check=True)
            folder.rmdir()

    def metadata(self, *words):
        """What the server of metadata answers."""
        return json.loads(self.cluster.ceph("tell", f"mds.{clusters.NAME}", *words, "--format", "json"))

    def shut_out_everybody(self):
        for each in self.metadata("client", "ls"):
            self.cluster.ceph("tell", f"mds.{clusters.NAME}", "client", "evict", f"id={each['id']}")


class GatewaysTest(Fixture):
    def test_a_tree_goes_in_through_one_and_comes_out_of_the_other(self):
        one, other = self.gateways
        self.ok("cp", "-r", "--verify", self.tree, url(one, path="/both"))
        self.assertTrue(same(self.tree, self.fetched(other, path="/both")))
        self.ok("mv", url(other, path="/both"), url(other, path="/moved"))
        self.assertTrue(same(self.tree, self.fetched(one, path="/moved")))
        self.ok("rm", "-r", url(other, path="/moved"))
        self.assertNotIn("moved", self.ok("ls", url(one)))

    def test_they_check_what_callers_may_do(self):
        one, other = self.gateways
        (self.root / "note").write_text("x")
        self.ok("mkdir", url(one, path="/private"))
        self.ok("cp", self.root / "note", url(one, path="/private/note"))
        stranger = {"user": 1234, "group": 1234}
        for gateway in (one, other):
            done = subprocess.run([COMMAND, "cp", "/etc/hostname", url(gateway, path="/private/more")], text=True,
                                  capture_output=True, timeout=BOUND_S, check=False, **stranger)
            self.assertEqual(done.returncode, 1)
            self.assertIn("permission denied", done.stderr)
        self.ok("cat", url(other, path="/private/note"), **stranger)

    def test_a_gateway_is_killed_ten_times_while_a_tree_is_copied_each_way(self):
        slowest = 0
        self.ok("cp", "-r", self.tree, url(self.gateways[0], path="/kept"))
        for i in range(20):
            victim, is_up = self.gateways[i % 2], i < 10
            target = self.root / "down"
            shutil.rmtree(target, ignore_errors=True)
            if is_up:
                process = begin("cp", "-r", self.tree, url(*self.gateways, path=f"/up{i}"))
            else:
                process = begin("cp", "-r", url(*self.gateways, path="/kept"), target)
            begun = time.monotonic()
            # In the middle: a part is there.
            if is_up:
                other = self.gateways[1 - i % 2]
                wait_until(lambda at=other, name=f"/up{i}/d5": subprocess.run(
                    [COMMAND, "stat", url(at, path=name)], capture_output=True, check=False).returncode == 0)
            else:
                wait_until(lambda to=target: (to / "d5").exists())
            self.assertIsNone(process.poll(), "it was copied before the gateway was killed")
            victim.kill()
            self.ended(process)
            slowest = max(slowest, time.monotonic() - begun)
            if is_up:
                self.assertTrue(same(self.tree, self.fetched(other, path=f"/up{i}")), i)
                self.ok("rm", "-r", url(other, path=f"/up{i}"))
            else:
                self.assertTrue(same(self.tree, target), i)
            victim.start()
        figure(f"a gateway killed in the middle of cp -r, 10 times each way: every byte right, the slowest {slowest:.1f} s")

    def test_a_gateway_that_is_drained_is_left_without_an_error(self):
        one, other = self.gateways
        process = begin("cp", "-r", "--verify", self.tree, url(one, other, path="/drained"))
        wait_until(lambda: "d5" in subprocess.run([COMMAND, "ls", url(other, path="/drained")], capture_output=True,
                                                  text=True, check=False).stdout)
        self.assertEqual(one.end(), 0)
        self.ended(process)
        self.assertTrue(same(self.tree, self.fetched(other, path="/drained")))
        one.start()

    def test_a_gateway_that_says_nothing_any_more_is_left(self):
        one, other = self.gateways
        process = begin("cp", "-r", "--timeout", "12", self.tree, url(one, other, path="/silent"))
        wait_until(lambda: "d5" in subprocess.run([COMMAND, "ls", url(other, path="/silent")], capture_output=True,
                                                  text=True, check=False).stdout)
        one.process.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        try:
            self.ended(process)
            figure(f"a gateway that hangs is left, with --timeout 12, after {time.monotonic() - begun:.1f} s")
        finally:
            one.process.send_signal(signal.SIGCONT)
        self.assertTrue(same(self.tree, self.fetched(other, path="/silent")))

    def test_a_store_is_killed_under_load(self):
        process = begin("cp", "-r", "--verify", self.tree, url(*self.gateways, path="/stored"))
        wait_until(lambda: "d3" in subprocess.run([COMMAND, "ls", url(self.gateways[1], path="/stored")],
                                                  capture_output=True, text=True, check=False).stdout)
        begun = time.monotonic()
        self.cluster.kill("osd.0")
        self.cluster.start("osd.0")
        self.ended(process)
        figure(f"an object store killed and started again under load: {time.monotonic() - begun:.1f} s to the end")
        self.assertTrue(same(self.tree, self.fetched(self.gateways[0], path="/stored")))
        self.cluster.wait_until_ready()

    def test_a_store_that_hangs_stops_no_look_at_names(self):
        one = self.gateways[0]
        self.ok("cp", "-r", self.tree, url(one, path="/hung"))
        one.end()
        one.start()  # it knows nothing any more
        self.ok("ls", "-l", url(one, path="/hung/d1"))
        self.cluster.pause("osd.0")
        try:
            # More than it has threads for data.
            readers = [begin("cp", url(one, path=f"/hung/d1/f{i}"), self.root / f"hung{i}{each}")
                       for i in range(1, 200, 10) for each in "ab"]
            longest = 0
            for _ in range(20):
                begun = time.monotonic()
                self.ok("stat", url(one, path="/hung/d1"))
                longest = max(longest, time.monotonic() - begun)
            self.assertTrue(all(each.poll() is None for each in readers), "reads do not hang")
            self.assertLess(longest, 2)
            figure(f"40 reads hang on a store: stat of a directory takes at most {longest * 1e3:.0f} ms")
        finally:
            self.cluster.resume("osd.0")
        for each in readers:
            self.ended(each)

    def test_a_dead_gateway_holds_up_the_other_for_some_seconds_and_its_successor_for_less(self):
        one, other = self.gateways
        for is_restarted in (True, False):
            name = f"/held{is_restarted}"
            self.ok("mkdir", url(one, path=name))
            self.ok("cp", "/etc/hostname", url(one, path=f"{name}/file"))
            self.ok("ls", "-l", url(one, path=name))
            one.kill()
            begun = time.monotonic()
            if is_restarted:
                one.start()
            self.ok("cp", "/etc/hostname", url(other, path=f"{name}/file"))
            self.ok("cp", "/etc/hostname", url(other, path=f"{name}/another"))
            held = time.monotonic() - begun
            self.assertLess(held, 30)
            how = "started again" if is_restarted else "left dead"
            figure(f"a gateway killed and {how}: the other one changes what it held {held:.1f} s later")
            if not is_restarted:
                one.start()

    def test_a_gateway_that_the_cluster_shuts_out_mounts_anew(self):
        one = self.gateways[0]
        self.ok("cp", "/etc/hostname", url(one, path="/before"))
        self.shut_out_everybody()
        begun = time.monotonic()
        self.ok("cp", "/etc/hostname", url(one, path="/after"))
        self.ok("cat", url(one, path="/before"))
        figure(f"a gateway that was shut out serves again after {time.monotonic() - begun:.1f} s")
        self.assertIn("/tree: the cluster had shut this gateway out; it has mounted anew", one.said())
        self.assertEqual(one.end(), 0, one.said())  # what is left of the lost session included
        one.start()

    def test_what_was_written_before_it_was_shut_out_is_there_and_the_verifier_is_another(self):
        one, other = self.gateways
        self.ok("cp", "/etc/hostname", url(one, path="/unsynced"))
        data = os.urandom(1 << 20)
        client = one.raw()
        file = client.look_up("unsynced")
        verifier = client.write(file, 0, data)
        self.assertEqual(client.commit(file), verifier)
        self.assertEqual(client.write(file, 0, data[::-1]), verifier)
        self.shut_out_everybody()
        # It finds out with a call that asks the cluster.
        wait_until(lambda: client.commit(file) != verifier)
        self.assertEqual(client.commit(file), client.commit(file))
        client.close()
        elsewhere = other.raw()
        self.assertEqual(elsewhere.read(elsewhere.look_up("unsynced"), 0, 1 << 20), data[::-1])
        elsewhere.close()

    def test_groups_beyond_the_first_count(self):
        one, other = self.gateways
        with self.mounted() as folder:
            (folder / "of-a-group").write_text("for members")
            os.chown(folder / "of-a-group", 0, 777)
            os.chmod(folder / "of-a-group", 0o640)
        for gateway in (one, other):
            words = [COMMAND, "cat", url(gateway, path="/of-a-group")]
            member = subprocess.run(words, capture_output=True, text=True, timeout=BOUND_S, check=False, user=1234,
                                    group=1234, extra_groups=[5, 777])
            self.assertEqual((member.returncode, member.stdout), (0, "for members"), member.stderr)
            other_user = subprocess.run(words, capture_output=True, text=True, timeout=BOUND_S, check=False, user=1234,
                                        group=1234, extra_groups=[5])
            self.assertIn("permission denied", other_user.stderr)

    def test_member_may_name_the_group_of_what_it_makes(self):
        one = self.gateways[0]
        with self.mounted() as folder:
            (folder / "open").mkdir()
            (folder / "open").chmod(0o777)
        client = one.raw(identity=(1234, 1234, (777,)))
        above = client.look_up("open")
        for name, group in (("own", 777), ("others", 778)):
            client.make_directory(above, name, group)
        client.close()
        with self.mounted() as folder:
            self.assertEqual((folder / "open" / "own").stat().st_gid, 777)
            self.assertEqual((folder / "open" / "others").stat().st_gid, 1234)

    def test_snapshots_are_not_exported(self):
        one = self.gateways[0]
        with self.mounted() as folder:
            (folder / "old").mkdir()
            (folder / "old" / "file").write_text("old")
            (folder / "old" / ".snap" / "one").mkdir()
            self.assertEqual((folder / "old" / ".snap" / "one" / "file").read_text(), "old")
            for path in ("/old/.snap", "/old/.snap/one", "/old/.snap/one/file"):
                done = subprocess.run([COMMAND, "stat", url(one, path=path)], capture_output=True, text=True,
                                      timeout=BOUND_S, check=False)
                self.assertIn("no such file or directory", done.stderr, path)
            self.assertEqual(self.ok("ls", url(one, path="/old")), "file\n")
            (folder / "old" / ".snap" / "one").rmdir()

    def test_a_file_is_closed_when_nobody_uses_it(self):
        one = self.gateways[0]
        self.ok("cp", "/etc/hostname", url(one, path="/open"))
        number = json.loads(self.ok("stat", "--json", url(one, path="/open")))["fileid"]

        def is_wanted():
            """Some client has it open for writing, as far as the server of metadata knows."""
            return any("w" in each["wanted"].lower() for each in self.metadata("dump", "inode", number)["client_caps"])
        # While somebody writes it is wanted.
        wait_until(lambda: self.ok("cp", "/etc/hostname", url(one, path="/open")) is not None and is_wanted())
        begun = time.monotonic()
        wait_until(lambda: not is_wanted())
        figure(f"a file that nobody uses is free for the other gateways after {time.monotonic() - begun:.1f} s")

    def test_two_exports_under_one_gateway_name_live_side_by_side(self):
        conf = self.cluster.conf
        named = Gateway(conf, self.root / "key", options=",gateway=rack7", more=(
            "--nfs", f"ceph:/:conf={conf},id={clusters.USER},no_root_squash,gateway=rack7", "--export", "/again"))
        try:
            for _ in range(3):
                for export in ("tree", "again"):
                    self.ok("cp", "/etc/hostname", f"nfs+rdma://{named.host}/{export}/{export}")
            self.assertNotIn("shut this gateway out", named.said())
        finally:
            named.stop()

    def test_a_gateway_that_ends_leaves_nothing(self):
        one, other = self.gateways
        self.ok("cp", "/etc/hostname", url(one, path="/left"))
        before = {each["id"] for each in self.metadata("client", "ls")}
        self.assertEqual(one.end(), 0)
        self.assertLess({each["id"] for each in self.metadata("client", "ls")}, before, "it has not unmounted")
        begun = time.monotonic()
        self.ok("cp", "/etc/hostname", url(other, path="/left"))
        self.assertLess(time.monotonic() - begun, 5, "it is waited for")
        one.start()

    def test_files_are_removed_while_they_are_read(self):
        one = self.gateways[0]
        for i in range(20):
            (self.root / "short").write_bytes(os.urandom(3 << 20))
            self.ok("cp", self.root / "short", url(one, path="/gone"))
            readers = [begin("cp", url(one, path="/gone"), self.root / f"gone{each}") for each in range(3)]
            self.ok("rm", url(one, path="/gone"))
            for each in readers:
                _, errors = each.communicate(timeout=BOUND_S)
                if each.returncode != 0:
                    self.assertRegex(errors, "no such file|removed meanwhile", i)
        self.assertIsNone(one.process.poll(), "the gateway has ended")

    def test_what_takes_work_says_so(self):
        one, other = self.gateways
        page = Gateway(self.cluster.conf, self.root / "key", more=("--ready-port", "0"))
        try:
            self.assertEqual(self.ok("ping", "--ready", url(one, other)),
                             f"ready {url(one)}\nready {url(other)}\n")
            self.assertEqual(page.ask_page(), (200, "ready\n"))
            self.cluster.pause(f"mds.{clusters.NAME}")
            try:
                wait_until(lambda: page.ask_page()[0] == 503)
                self.assertIn("the storage of /tree has not answered", page.ask_page()[1])
                done = subprocess.run([COMMAND, "ping", "--ready", url(one), "--timeout", "3"], capture_output=True,
                                      text=True, timeout=BOUND_S, check=False)
                self.assertIn(done.returncode, (1, 3), done.stderr)
            finally:
                self.cluster.resume(f"mds.{clusters.NAME}")
            wait_until(lambda: page.ask_page()[0] == 200)
            self.cluster.wait_until_ready()  # it may have been given up meanwhile
        finally:
            page.stop()

    def test_what_is_wrong_with_an_export_is_said(self):
        conf = self.cluster.conf
        for options, text in ((f"ceph:/none:conf={conf},id=nfs", "No such file or directory"),
                              (f"ceph:/:conf={conf},id=nobody", "asking the cluster"),
                              ("ceph:/:conf=/none", "reading the cluster's configuration"),
                              (f"ceph:/:conf={conf},id=nfs,fs=none", "mounting"),
                              ("ceph:none", "begins with '/'")):
            done = subprocess.run([COMMAND, "serve", "--provider", "siwarp", "--port", "0", "--nfs", options],
                                  capture_output=True, text=True, timeout=BOUND_S, check=False)
            self.assertIn(done.returncode, (1, 2), done.stdout)
            self.assertIn(text, done.stderr)


class ThroughputTest(Fixture):
    def test_of_one_and_two_gateways_and_of_several_connections(self):
        size = 64 << 20
        files = self.root / "files"
        files.mkdir()
        for i in range(4):
            (files / str(i)).write_bytes(os.urandom(size // 4))
        for count, connections in ((1, 1), (1, 4), (2, 1), (2, 4)):
            at = self.gateways[:count]
            rates = []
            for words in (("cp", "-r", "--connections", connections, files, url(*at, path="/rate")),
                          ("cp", "-r", "--connections", connections, url(*at, path="/rate"), self.root / "rate")):
                begun = time.monotonic()
                self.ok(*words)
                rates.append(size / (time.monotonic() - begun) / 1e6)
            self.ok("rm", "-r", url(*at, path="/rate"))
            shutil.rmtree(self.root / "rate")
            figure(f"{count} gateways, {connections} connections to each: {rates[0]:.0f} MB/s in, {rates[1]:.0f} MB/s out")
        figure("(clients, gateways and the cluster share this machine's processors)")


class SeamTest(Fixture):
    """The tests of the server and of the client, with their files on CephFS; what they do there without the server goes
    through a mount of the cluster's own."""

    def run_suite(self, name, which):
        with self.mounted() as folder:
            environment = {**os.environ, "RPCRDMA_TEST_CEPH_CONF": str(self.cluster.conf),
                           "RPCRDMA_BACK_END_DIR": str(BUILD / "lib"), "RPCRDMA_TEST_CEPH_MOUNTED": str(folder)}
            done = subprocess.run([BUILD / "apps" / "nfs" / name, f"--gtest_filter={which}"], env=environment, text=True,
                                  capture_output=True, timeout=SUITE_S, check=False)
        self.assertEqual(done.returncode, 0, "\n".join(
            line for line in done.stdout.splitlines() if "OK ]" not in line and "RUN  " not in line)[-4000:] + done.stderr)
        figure(f"{name} on CephFS: " + "; ".join(line for line in done.stdout.splitlines() if "tests." in line))

    def test_the_server(self):
        self.run_suite("nfs_service_test", "-*table*")

    def test_the_client(self):
        self.run_suite("nfs_client_test", "*")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    COMMAND = str(BUILD / "bin" / "rpcrdma")
    if not list((BUILD / "lib").glob("librpcrdma_nfs_ceph.so")):
        sys.exit(f"{BUILD} has no exports on CephFS: libcephfs-dev was not there when it was configured")
    unittest.main(verbosity=2)
