#!/usr/bin/env python3
"""What `rpcrdma` does with files of an NFS server: ls, cat, stat, df, mkdir, cp, mv, rm, by RDMA and by TCP."""
import json
import os
import pathlib
import re
import resource
import signal
import socket
import stat
import subprocess
import time
import unittest

from command_fixture import BOUND_S, COMMAND, CommandFixture, run, wait_until


class NfsCommandTest(CommandFixture):
    def setUp(self):
        super().setUp()
        self.nfs_servers = []
        urls = self.serve_nfs()
        self.urls = list(urls.values())
        self.url = urls["nfs+rdma"]

    def serve_nfs(self, *prefix):
        """Another server of the directory; its URLs by their schemes."""
        self.nfs_servers.append(subprocess.Popen(
            [*prefix, COMMAND, "serve", "--nfs", f"{self.served}:no_root_squash", "--export", "/data", "--nfs-tcp-port", "0",
             "--port", "0", "--provider", "siwarp", "--handle-key", self.root / "key"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        line = self.nfs_servers[-1].stdout.readline()
        self.assertTrue(line.startswith("ready"), line)
        urls = {url.split(":")[0]: url for url in line.split() if url.startswith("nfs+")}
        self.assertEqual(set(urls), {"nfs+rdma", "nfs+tcp"}, line)
        return urls

    def tearDown(self):
        for server in self.nfs_servers:
            if server.poll() is None:
                server.kill()
            server.communicate(timeout=BOUND_S)
        super().tearDown()

    def test_server_without_rights_changes_what_it_may_not_read(self):
        # The user of the server, whose rights are the mode's alone, may change names in the directory, and not open it.
        without_rights = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
        url = self.serve_nfs(*without_rights)["nfs+rdma"]
        closed = self.served / "closed"
        closed.mkdir()
        (closed / "file").write_text("x")
        closed.chmod(0o300)
        self.ok("rm", f"{url}/closed/file")
        self.ok("mkdir", f"{url}/closed/new")
        closed.chmod(0o700)
        self.assertEqual(os.listdir(closed), ["new"])

    def ok(self, *arguments):
        result = run(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
        return result.stdout

    def said_too(self, *arguments):
        """With --verbose, what was negotiated over RDMA is on stderr."""
        result = run(*arguments)
        self.assertEqual(result.returncode, 0, (arguments, result.stderr))
        for line in result.stderr.splitlines():
            self.assertRegex(line, r"^rpcrdma: \S+: siwarp, RPC-over-RDMA version 1, ")
        return result.stdout

    def failed(self, code, text, *arguments):
        result = run(*arguments)
        self.assertEqual((result.returncode, result.stdout), (code, ""), (arguments, result.stderr))
        self.assertIn(text, result.stderr, arguments)

    def make_tree(self):
        tree = self.root / "tree"
        (tree / "deep" / "er").mkdir(parents=True)
        (tree / "empty").touch()
        (tree / "big").write_bytes(os.urandom((5 << 20) + 3))
        (tree / "deep" / "two\nlines").write_text("odd")
        (tree / "deep" / "er" / "script").write_text("#!/bin/sh\n")
        (tree / "deep" / "er" / "script").chmod(0o755)
        (tree / "deep" / "link").symlink_to("../big")
        for path in (tree / "big", tree / "deep" / "er" / "script", tree / "deep" / "er"):
            os.utime(path, (1_000_000_000, 1_000_000_000))
        return tree

    def seen(self, top):
        all_of_it = {}
        for path in sorted(top.rglob("*")):
            status = path.lstat()
            content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
            kept = None if path.is_symlink() else (stat.S_IMODE(status.st_mode), status.st_mtime_ns)
            all_of_it[str(path.relative_to(top))] = (kept, content)
        return all_of_it

    # --- What is exported ---

    def test_files_of_a_union_of_file_systems_are_told_apart(self):
        """Two lower layers of an overlay, whose inode numbers are the same."""
        script = f"""
            cd {self.root}; mkdir a b u m; for each in a b u; do mount -t tmpfs $each $each; done; mkdir u/up u/work
            echo X >a/x; echo Y >b/y
            mount -t overlay o -o lowerdir=a:b,upperdir=u/up,workdir=u/work m || exit 77
            {COMMAND} serve --provider siwarp --port 0 --nfs-tcp-port 0 --nfs m:no_root_squash,name=/d \
              --handle-key union-key --log-level error >ready & server=$!
            until grep -q nfs+rdma ready; do kill -0 $server || exit 1; done
            url=$(grep -o 'nfs+rdma://[^ ]*' ready | head -1)
            for each in x y x; do {COMMAND} cat $url/$each; done
            kill $server; wait $server"""
        result = subprocess.run(["unshare", "--mount", "bash", "-c", script], capture_output=True, text=True,
                                timeout=BOUND_S, check=False)
        if result.returncode == 77 or os.geteuid() != 0:
            self.skipTest(f"no overlay can be mounted here: {result.stderr}")
        self.assertEqual((result.returncode, result.stdout), (0, "X\nY\nX\n"), result.stderr)

    def test_descriptors_are_left_for_the_workers_of_each_export(self):
        def kept(count):
            made = []
            for i in range(count):
                (self.root / f"export{i}").mkdir(exist_ok=True)
                made += ["--nfs", f"{self.root}/export{i}:no_root_squash"]
            server = subprocess.Popen(
                [COMMAND, "serve", *made, "--port", "0", "--nfs-tcp-port", "0", "--provider", "siwarp", "--connections", "10",
                 "--threads", "1", "--nfs-workers", "16", "--handle-key", self.root / "key-of-many"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (4000, 4000)))
            self.nfs_servers.append(server)
            self.assertTrue(server.stdout.readline().startswith("ready"))
            server.terminate()
            errors = server.communicate(timeout=BOUND_S)[1]
            return int(re.search(r"keeping (\d+) files open", errors).group(1))
        # Four descriptors for each worker, and three for each file.
        self.assertAlmostEqual(kept(1) - kept(10), 9 * 16 * 4 // 3, delta=1)

    def test_room_of_what_others_remove_comes_back_though_nobody_calls(self):
        """The server's tmpfs is full before, and has its room again after."""
        script = f"""
            cd {self.root}; mkdir m; mount -t tmpfs -o size=20m m m || exit 77
            {COMMAND} serve --provider siwarp --port 0 --nfs-tcp-port 0 --nfs m:no_root_squash,name=/d \\
              --handle-key room-key >ready & server=$!
            until grep -q nfs+rdma ready; do kill -0 $server || exit 1; done
            url=$(grep -o 'nfs+rdma://[^ ]*' ready | head -1)
            head -c 18M /dev/zero >big; {COMMAND} cp big $url/ >&2
            {COMMAND} cat $url/big | cmp - big || exit 1
            rm m/big; echo $(stat -f -c %f m) of $(stat -f -c %b m)
            for i in $(seq 200); do
              [ $(stat -f -c %f m) = $(stat -f -c %b m) ] && break; read -t 0.1 <> <(:)
            done
            echo $(stat -f -c %f m) of $(stat -f -c %b m)
            kill $server; wait $server"""
        result = subprocess.run(["unshare", "--mount", "bash", "-c", script], capture_output=True, text=True,
                                timeout=BOUND_S, check=False)
        if result.returncode == 77 or os.geteuid() != 0:
            self.skipTest(f"no tmpfs can be mounted here: {result.stderr}")
        self.assertEqual((result.returncode, result.stdout.split("\n")),
                         (0, ["512 of 5120", "5120 of 5120", ""]), result.stderr)

    # --- Looking ---

    def test_ls_lists_names_and_with_l_what_is_known_of_them(self):
        (self.served / "b\x1b[1m").write_text("abc")
        (self.served / "a").mkdir(mode=0o750)
        (self.served / "c").symlink_to("a")
        for url in self.urls:
            self.assertEqual(self.ok("ls", url), "a\nb\\x1b[1m\nc\n")
            lines = self.ok("ls", "-l", url).splitlines()
            me = f"{os.geteuid()} +{os.getegid()}"
            self.assertRegex(lines[0], rf"^drwxr-x---  *2 +{me} +\d+ \d{{4}}-\d\d-\d\dT[\d:]+Z a$")
            self.assertRegex(lines[1], rf"^-rw-r--r--  *1 +{me} +3 .*Z b\\x1b\[1m$")
            self.assertRegex(lines[2], r"^lrwxrwxrwx .*Z c -> a$")
            self.assertEqual(self.ok("ls", url + "/a"), "")
            self.assertEqual(self.ok("ls", url + "/b%1b[1m"), "b\\x1b[1m\n")
            entries = json.loads(self.ok("ls", "--json", url))["entries"]
            self.assertEqual([(each["name"], each["type"]) for each in entries],
                             [("a", "directory"), ("b\x1b[1m", "file"), ("c", "symbolic link")])

    def test_cat_writes_what_the_files_hold(self):
        data = self.served_file("file", (3 << 20) + 5)
        (self.served / "empty").touch()
        for url in self.urls:
            result = subprocess.run([COMMAND, "cat", url + "/file", url + "/empty", url + "/file"],
                                    capture_output=True, timeout=BOUND_S, check=False)
            self.assertEqual((result.returncode, result.stderr), (0, b""))
            self.assertEqual(result.stdout, data + data)
        self.failed(1, "it is a directory", "cat", self.url)

    def test_ls_lists_recursively_with_capital_r(self):
        (self.served / "a/b").mkdir(parents=True)
        (self.served / "a/b/c").touch()
        (self.served / ".hidden").touch()
        for url in self.urls:
            self.assertEqual(self.ok("ls", "-R", url), ".:\n.hidden\na\n\n./a:\nb\n\n./a/b:\nc\n")
            self.assertEqual(self.ok("ls", "-a", url), self.ok("ls", url))
            self.assertEqual(self.ok("ls", "-R", url + "/a/b/c"), "c\n")
            self.assertRegex(self.ok("ls", "-alhR", url), r"(?m)^\./a/b:\n-rw.* c$")
            entries = json.loads(self.ok("ls", "-R", "--json", url))["entries"]
            self.assertEqual([each["name"] for each in entries], [".hidden", "a", "a/b", "a/b/c"])

    def test_sizes_are_for_people_where_h_is_given(self):
        (self.served / "file").write_bytes(bytes(1536))
        for url in self.urls:
            self.assertRegex(self.ok("ls", "-lh", url), r" 1\.5 KiB .*Z file\n$")
            self.assertRegex(self.ok("ls", "-l", url), r" 1536 .*Z file\n$")
            self.assertEqual(self.ok("ls", "-h", url), "file\n")
            self.assertEqual(self.ok("df", "-h", url).split(" free")[0].split("in all")[0], self.ok("df", url).split("in all")[0])
        for command in ("ls", "df"):
            self.assertIn("--human-readable", self.ok(command, "--help"))

    def test_stat_and_df_say_what_the_server_says(self):
        (self.served / "file").write_text("abc")
        (self.served / "file").chmod(0o640)
        (self.served / "link").symlink_to("file")
        for url in self.urls:
            text = self.ok("stat", url + "/file")
            self.assertIn("file, 3 bytes", text)
            self.assertIn("-rw-r----- (0640)", text)
            self.assertIn("link -> file", self.ok("stat", url + "/link"))
            value = json.loads(self.ok("stat", "--json", url + "/file"))
            self.assertEqual((value["size"], value["mode"], value["type"]), (3, "0640", "file"))
            space = json.loads(self.ok("df", "--json", url))
            self.assertGreaterEqual(space["bytes"], space["free"])
            self.assertIn("in all", self.ok("df", url))

    # --- Changing ---

    def test_mkdir_mv_and_rm(self):
        for url in self.urls:
            self.ok("mkdir", url + "/a")
            self.failed(1, "a: it exists already", "mkdir", url + "/a")
            self.failed(1, "no such file or directory", "mkdir", url + "/x/y")
            self.ok("mkdir", "-p", url + "/x/y/z", url + "/x")
            (self.served / "x/y/file").write_text("abc")
            (self.served / "x/link").symlink_to("../a")
            self.ok("mv", url + "/x/y/file", url + "/a")
            self.ok("mv", url + "/a/file", url + "/a/other")
            self.assertEqual((self.served / "a/other").read_text(), "abc")
            self.failed(1, "none: no such file or directory", "mv", url + "/none", url + "/b")
            self.failed(1, "-r removes it", "rm", url + "/a")
            self.failed(1, "this is an export as a whole", "rm", "-r", url)
            self.ok("rm", "-r", url + "/x")
            self.assertEqual(os.listdir(self.served), ["a"])
            self.ok("rm", url + "/a/other")
            self.failed(1, "no such file or directory", "rm", url + "/a/other")
            self.ok("rm", "-f", url + "/a/other")
            self.ok("rm", "-r", url + "/a")

    def test_cp_takes_trees_up_and_down_again(self):
        tree = self.make_tree()
        expected = self.seen(tree)
        for i, url in enumerate(self.urls):
            text = self.ok("cp", "-a", "--verify", tree, f"{url}/up{i}")
            self.assertIn("cp: 4 files, 3 directories, 1 links, 5.0 MiB", text)
            self.assertIn("verified", text)
            self.assertEqual(self.seen(self.served / f"up{i}"), expected)
            report = json.loads(self.ok("cp", "-rp", "--verify", "--json", "--files", "2", f"{url}/up{i}",
                                        self.root / f"down{i}"))
            self.assertEqual((report["files"], report["failed"], report["verified"]), (4, 0, True))
            self.assertEqual(self.seen(self.root / f"down{i}"), expected)

    def test_cp_keeps_modes_and_times_where_it_is_asked_to(self):
        tree = self.make_tree()
        (tree / "big").chmod(0o666)
        old = 1_000_000_000 * 10**9
        command = f"umask 027; exec {COMMAND} cp"
        for i, url in enumerate(self.urls):
            for how, mode, is_old in (("-r", 0o640, False), ("-rp", 0o666, True), ("-a", 0o666, True)):
                there, back = self.served / f"there{i}{how}", self.root / f"back{i}{how}"
                for source, target in ((tree, f"{url}/{there.name}"), (f"{url}/{there.name}", back)):
                    subprocess.run(["sh", "-c", f"{command} {how} {source} {target}"], check=True, timeout=BOUND_S,
                                   stdout=subprocess.DEVNULL)
                for each in (there, back):
                    status = (each / "big").stat()
                    self.assertEqual((stat.S_IMODE(status.st_mode), status.st_mtime_ns == old), (mode, is_old), how)
                    self.assertEqual((each / "deep/er").stat().st_mtime_ns == old, is_old, how)
                    script = stat.S_IMODE((each / "deep/er/script").stat().st_mode)
                    self.assertEqual(script, 0o755 if is_old else 0o750)

    def test_cp_leaves_what_is_there_with_n_and_says_what_it_copies_with_v(self):
        tree = self.make_tree()
        (tree / "esc\x1b").touch()
        for i, url in enumerate(self.urls):
            target, there, back = f"{url}/there{i}", self.served / f"there{i}", self.root / f"back{i}"
            lines = self.said_too("cp", "-rv", tree, target).splitlines()
            self.assertIn(f"{tree}/deep/er/script -> /data/there{i}/deep/er/script", lines)
            self.assertIn(f"{tree}/esc\\x1b -> /data/there{i}/esc\\x1b", lines)
            self.assertIn(f"{tree} -> /data/there{i}", lines)
            self.assertEqual(len(lines), 5 + 3 + 1 + 1)
            self.assertIn(f"/data/there{i}/big -> {back}/big", self.said_too("cp", "-rv", target, back).splitlines())
            for top in (there, back):
                (top / "big").write_text("other")
                (top / "deep/er/script").unlink()
            self.assertIn("5 files and links were there", self.ok("cp", "-rn", f"{tree}/.", target))
            report = json.loads(self.ok("cp", "-rn", "--json", target + "/big", back))
            self.assertEqual((report["files"], report["stayed"]), (0, 1))
            self.assertEqual((there / "big").read_text(), "other")
            self.assertTrue((there / "deep/er/script").exists())
            self.assertEqual((back / "big").read_text(), "other")
        self.failed(2, "--json", "cp", "-v", "--json", tree, self.url)
        self.failed(2, "-v says", "cp", "-v", self.url + "/there0/big", "-")

    def test_cp_goes_from_one_server_to_another(self):
        self.make_tree()
        expected = self.seen(self.root / "tree")
        self.ok("cp", "-a", self.root / "tree", self.url)
        first = self.served
        self.served = self.root / "second"
        self.served.mkdir()
        others = list(self.serve_nfs().values())
        for i, (one, other) in enumerate(zip(self.urls, reversed(others))):  # from RDMA to TCP, and the other way
            there = self.served / f"there{i}"
            text = self.ok("cp", "-a", "--verify", f"{one}/tree", f"{other}/{there.name}")
            self.assertIn("cp: 4 files, 3 directories, 1 links, 5.0 MiB", text)
            self.assertEqual(self.seen(there), expected)
            lines = self.said_too("cp", "-v", f"{other}/{there.name}/big", f"{other}/{there.name}/empty", one).splitlines()
            self.assertEqual(lines[0], f"/data/{there.name}/big -> /data/big")
            self.assertEqual((first / "big").read_bytes(), (there / "big").read_bytes())
            self.failed(1, "none: no such file or directory", "cp", f"{other}/none/file", f"{one}/none/")
            self.failed(1, "tree/big: it is no directory, which several", "cp", f"{other}/{there.name}/big",
                        f"{other}/{there.name}/empty", f"{one}/tree/big")
        self.assertEqual(sorted(os.listdir(self.root / "second")), ["there0", "there1"])

    def test_cp_to_a_dash_writes_to_standard_output(self):
        data = [self.served_file(name, (1 << 20) + 5) for name in "ab"]
        for url in self.urls:
            result = subprocess.run([COMMAND, "cp", f"{url}/a", f"{url}/b", "-"], capture_output=True, timeout=BOUND_S,
                                    cwd=self.root, check=False)
            self.assertEqual((result.returncode, result.stderr), (0, b""))
            self.assertEqual(result.stdout, b"".join(data))
        self.assertFalse((self.root / "-").exists())
        self.failed(1, "it is a directory", "cp", "-r", self.url, "-")
        self.failed(2, "--verify reads again", "cp", "--verify", self.url + "/a", "-")

    def test_a_directory_does_not_go_into_a_file_or_into_itself(self):
        tree = self.root / "tree"
        tree.mkdir()
        (self.served / "a/b").mkdir(parents=True)
        (self.served / "file").write_text("abc")
        for url in self.urls:
            self.failed_cp(f"file: it is no directory, and {tree} is one", "-r", tree, url + "/file")
            self.failed_cp(f"{self.served}: a directory cannot be copied into itself", "-r", self.root, url)
            self.assertTrue((self.served / self.root.name / "tree").is_dir(), "the rest is copied")
            self.ok("rm", "-r", f"{url}/{self.root.name}")
            self.failed(1, "a: it cannot be moved to a subdirectory of itself, 'a/a'", "mv", url + "/a", url + "/a")
            self.failed(1, "a: it cannot be moved to a subdirectory of itself, 'a/b/c'", "mv", url + "/a", url + "/a/b/c")
            self.assertEqual(sorted(os.listdir(self.served)), ["a", "file"])

    def failed_cp(self, text, *arguments):
        result = run("cp", *arguments)
        self.assertEqual(result.returncode, 1, (arguments, result.stderr))
        self.assertEqual(result.stderr, f"rpcrdma: {text}\n")

    def test_commands_go_on_with_the_servers_that_are_left(self):
        if os.geteuid() != 0:
            self.skipTest("two servers of one directory need handles of the kernel, and so root")
        tree = self.make_tree()
        other = self.serve_nfs()
        for url, second in zip(self.urls, other.values()):
            scheme, first_host = url.split("://")[0], url.split("/")[2]
            both = f"{scheme}://{first_host},{second.split('/')[2]}/data"
            self.ok("cp", "-a", "--verify", "--connections", "2", tree, f"{both}/{scheme}")
            self.assertEqual(self.seen(self.served / scheme), self.seen(tree))
        self.nfs_servers[0].kill()
        self.nfs_servers[0].wait(timeout=BOUND_S)
        for url, second in zip(self.urls, other.values()):
            scheme, first_host = url.split("://")[0], url.split("/")[2]
            both = f"{scheme}://{first_host},{second.split('/')[2]}/data"
            self.ok("cp", "-a", f"{both}/{scheme}", self.root / f"back-{scheme}")
            self.assertEqual(self.seen(self.root / f"back-{scheme}"), self.seen(tree))
            self.ok("rm", "-r", f"{both}/{scheme}")
        self.failed(2, "names no host", "ls", "nfs+rdma://127.0.0.1,/data")

    def test_cp_takes_several_files_into_a_directory(self):
        names = ["a", "b", "c"]
        paths = [self.file(name, 1000) for name in names]
        self.ok("cp", *paths, self.url)
        self.assertEqual(sorted(os.listdir(self.served)), names)
        back = self.root / "back"
        self.failed(1, "no directory", "cp", *[f"{self.url}/{name}" for name in names], back)
        back.mkdir()
        self.ok("cp", *[f"{self.url}/{name}" for name in names], back)
        for path in paths:
            self.assertEqual((back / path.name).read_bytes(), path.read_bytes())

    def test_cp_says_what_failed_and_goes_on(self):
        path = self.file("file", 1000)
        os.mkfifo(self.root / "fifo")
        result = run("cp", self.root / "none", self.root / "fifo", self.served, path, self.url)
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{self.root}/none: it cannot be read: No such file or directory", result.stderr)
        self.assertIn(f"{self.root}/fifo: it is no file, directory or symbolic link", result.stderr)
        self.assertIn(f"{self.served}: it is a directory", result.stderr)
        self.assertEqual((self.served / "file").read_bytes(), path.read_bytes())
        missing = run("cp", self.url + "/none", self.root / "back")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("none: no such file or directory", missing.stderr)
        self.assertFalse((self.root / "back").exists())

    def test_cp_keeps_holes_unless_it_shall_not(self):
        sparse = self.root / "sparse"
        with open(sparse, "wb") as file:
            file.write(b"begin")
            file.seek(20 << 20)
            file.write(b"middle")
            file.truncate(64 << 20)
        if sparse.stat().st_blocks * 512 > 1 << 20:
            self.skipTest("the file system here has no holes")
        for i, url in enumerate(self.urls):
            there, back = self.served / f"there{i}", self.root / f"back{i}"
            for how in ([], ["--sparse", "auto"], ["--sparse=always"]):
                self.ok("cp", "--verify", *how, sparse, f"{url}/{there.name}")
                self.ok("cp", "--verify", *how, f"{url}/{there.name}", back)
                for each in (there, back):
                    self.assertEqual(each.read_bytes(), sparse.read_bytes())
                    self.assertLess(each.stat().st_blocks * 512, 1 << 20, how)
            self.ok("cp", "--sparse", "never", f"{url}/{there.name}", back)
            self.assertGreaterEqual(back.stat().st_blocks * 512, 64 << 20)
        self.failed(2, "sparse", "cp", "--sparse", "perhaps", sparse, self.url)

    # --- Wrong ways ---

    def test_wrong_urls_are_wrong_usage(self):
        for url in ("nfs://127.0.0.1/data", "nfs+udp://127.0.0.1/data", "nfs+tcp:///data", "nfs+rdma://h:0/data",
                    "nfs+tcp://h/%zz", "/data"):
            self.failed(2, "expected nfs+rdma://", "cat", url)
        self.failed(2, "the target is an NFS URL", "cp", self.url, self.root, self.url)
        self.failed(2, "the target is an NFS URL", "cp", self.root, self.root)
        self.failed(2, "one NFS URL", "rm", self.url, "name")
        self.failed(2, "within one export", "mv", self.urls[0] + "/a", self.urls[1] + "/b")

    def test_urls_of_the_blob_program_and_of_nfs_are_told_apart(self):
        nfs_only = "rdma://" + self.url.split("/")[2]
        hint = f"it is an NFS server, whose URLs are nfs+{nfs_only}/EXPORT[/PATH]"
        for arguments in (("ls", nfs_only), ("get", nfs_only, "file", self.root / "back"), ("rm", nfs_only, "file"),
                          ("rm", "-f", nfs_only, "file"), ("put", nfs_only, self.file("file", 10)),
                          ("ping", nfs_only), ("ping", "--ready", nfs_only)):
            self.failed(1, hint, *arguments)
        self.failed(1, "--program 100003 --version 3", "ping", nfs_only, "--count", "1")
        self.ok("ping", nfs_only, "--count", "1", "--program", "100003", "--version", "3")
        for arguments in (("ls", nfs_only + "/data"), ("rm", nfs_only + "/data", "x"), ("ping", nfs_only + "/data")):
            self.failed(2, f"of an NFS server's export it is nfs+{nfs_only}/data", *arguments)
        for command, words in (("ping", ()), ("put", ("/dev/null",)), ("get", ("x", self.root / "x"))):
            self.failed(2, "this is an NFS URL, and rdma://HOST[:PORT] is expected", *command.split(), self.url, *words)
        blobs = self.serve("--provider", "siwarp")
        for command in ("ls", "cat", "df", "ping --ready"):
            self.failed(1, f"nfs+{blobs.url}/x: no NFS is served there, but files of the blob program; its URL is "
                        f"{blobs.url}", *command.split(), f"nfs+{blobs.url}/x")
        self.failed(1, "no such file on the server", "get", blobs.url, "none", self.root / "back")
        self.ok("rm", "-f", blobs.url, "none")

    def test_paths_that_are_not_there_fail(self):
        for url in self.urls:
            self.failed(1, "no such file or directory", "ls", url + "/none")
            self.failed(1, "no such file or directory", "cat", url + "/none")
            self.failed(1, "no such file or directory", "stat", url + "/none")
            self.failed(1, "the server has no export that this begins with; it has /data", "ls",
                        url.removesuffix("/data") + "/elsewhere")

    def test_what_cannot_be_printed_is_an_error_and_no_abort(self):
        def run_to(full, arguments, into):
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, into: full}
            return subprocess.run([COMMAND, *map(str, arguments)], text=True, timeout=BOUND_S, check=False, **streams)

        (self.served / "there").touch()
        with open("/dev/full", "w") as full:
            for arguments in (["ls", self.url], ["ls", "-l", self.url], ["ls", "--json", self.url],
                              ["stat", self.url], ["df", self.url], ["--help"]):
                result = run_to(full, arguments, "stdout")
                self.assertEqual(result.returncode, 1, arguments)
                self.assertIn("standard output: No space left on device", result.stderr, arguments)
            for arguments, code in ((["cat", self.url + "/none"], 1), (["cp", self.root / "none", self.url], 1),
                                    (["nothing"], 2)):
                self.assertEqual(run_to(full, arguments, "stderr").returncode, code, arguments)

    def test_names_that_are_too_long_are_wrong_usage(self):
        for command in ("mkdir", "stat", "cat"):
            self.failed(2, "more than 255 bytes", command, f"{self.url}/{'n' * 256}")

    def test_df_asks_for_what_is_there(self):
        self.failed(1, "no such file or directory", "df", self.url + "/none")

    def test_cp_takes_a_slash_at_the_end_for_a_directory(self):
        self.failed(1, "no such file or directory", "cp", self.file("file", 10), self.url + "/none/")
        self.assertFalse((self.served / "none").exists())

    def test_read_only_is_for_exports_as_well(self):
        server = subprocess.Popen([COMMAND, "serve", "--nfs", f"{self.served}:no_root_squash", "--export", "/data",
                                   "--read-only", "--nfs-tcp-port", "0", "--port", "0", "--provider", "siwarp",
                                   "--handle-key", self.root / "other-key"], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)
        self.nfs_servers.append(server)
        urls = [word for word in server.stdout.readline().split() if word.startswith("nfs+")]
        self.failed(1, "read-only", "mkdir", urls[0] + "/made")
        self.assertFalse((self.served / "made").exists())

    def test_rule_that_is_mistyped_ends_the_server(self):
        for rules, text in (("clinet=192.0.2.0/24", "did you mean client?"), ("", "no option stands behind the colon"),
                            ("client=@trusted", "netgroup")):
            self.failed(2, text, "serve", "--port", "0", "--nfs", f"{self.served}:{rules}")

    def test_file_of_exports_is_read_as_that_of_the_kernels_server(self):
        directory = self.served / "a b"
        directory.mkdir()
        (directory / "file").write_text("abc")
        exports = self.root / "exports"
        unknown = f"{'n' * 64}.invalid"  # no DNS is asked for a label that is too long
        exports.write_text(f'# of a test\n"{directory}" -sync,no_root_squash \\\n'
                           f"  {unknown}(rw) localhost(rw,async,subtree_check,name=/d)\n")
        server = subprocess.Popen([COMMAND, "serve", "--exports", exports, "--nfs-tcp-port", "0", "--port", "0",
                                   "--listen", "127.0.0.1", "--provider", "siwarp", "--handle-key", self.root / "key"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.nfs_servers.append(server)
        urls = [word for word in server.stdout.readline().split() if word.startswith("nfs+")]
        self.assertEqual(self.ok("cat", urls[0] + "/file"), "abc")
        self.ok("mkdir", urls[0] + "/made")
        server.terminate()
        errors = server.communicate(timeout=BOUND_S)[1]
        for text in (f"line 3: the name '{unknown}' does not resolve", "line 3: 'async' is not used",
                     "line 3: 'subtree_check' is not used"):
            self.assertIn(f"--exports {exports}, {text}", errors)

    def test_empty_values_of_what_protects_are_wrong_usage(self):
        for option in ("--sec", "--keytab", "--handle-key"):
            self.failed(2, f"{option}: it is empty", "serve", "--nfs", self.served, "--port", "0", option, "")

    def test_download_that_is_killed_leaves_nothing(self):
        with open(self.served / "large", "wb") as file:
            file.truncate(8 << 30)
        target = self.root / "target"
        target.mkdir()
        copying = subprocess.Popen([COMMAND, "cp", "--sparse", "never", self.url + "/large", target],
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(copying.kill)
        try:
            os.close(os.open(target, os.O_TMPFILE | os.O_RDWR))
            left = 0
        except OSError:  # the file system has no files without a name
            left = 1

        def has_begun():
            for each in pathlib.Path(f"/proc/{copying.pid}/fd").iterdir():
                try:
                    link = os.readlink(each)
                except FileNotFoundError:  # closed meanwhile
                    continue
                if link.startswith(f"{target}/"):
                    return True
            return False

        wait_until(has_begun)
        copying.kill()
        self.assertEqual(copying.wait(timeout=BOUND_S), -signal.SIGKILL)
        self.assertEqual(len(os.listdir(target)), left)

    def test_upload_that_is_interrupted_leaves_what_was_there(self):
        large = self.root / "large"
        with open(large, "wb") as file:
            file.truncate(64 << 30)
        (self.served / "into").mkdir()
        (self.served / "into/large").write_text("what was there")

        def interrupted(number):
            # Its terminal gets the line, and its shell the signal.
            copying = subprocess.Popen([COMMAND, "cp", "--sparse", "never", "--json", large, self.url + "/into"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(copying.kill)

            def has_begun():
                sizes = [each.stat().st_size for each in (self.served / "into").iterdir() if each.name != "large"]
                return sizes and max(sizes) > 0

            wait_until(has_begun)
            copying.send_signal(number)
            output, errors = copying.communicate(timeout=BOUND_S)
            self.assertEqual(copying.returncode, -number)
            return output, errors

        output, errors = interrupted(signal.SIGINT)
        self.assertIn("a second signal ends it at once", errors)
        self.assertEqual([json.loads(line)["files"] for line in output.splitlines()], [0])
        self.assertEqual([each.name for each in (self.served / "into").iterdir()], ["large"])
        interrupted(signal.SIGKILL)
        self.assertEqual((self.served / "into/large").read_text(), "what was there")
        left = [each.name for each in (self.served / "into").iterdir() if each.name != "large"]
        self.assertEqual(len(left), 1)
        self.assertRegex(left[0], r"^\.large\.rpcrdma-[a-z0-9]{12}$")

    def test_cp_says_why_it_gave_up_a_server_that_is_gone(self):
        large = self.root / "large"
        with open(large, "wb") as file:
            file.truncate(64 << 30)
        for scheme in ("nfs+rdma", "nfs+tcp"):
            server_url = self.serve_nfs()[scheme]
            server = self.nfs_servers[-1]
            copying = subprocess.Popen([COMMAND, "cp", "--sparse", "never", "--timeout", "2", large, server_url + "/large"],
                                       stderr=subprocess.PIPE, text=True)
            wait_until(lambda: any(each.stat().st_size > 0 for each in self.served.glob(".large.*")))
            server.kill()
            server.wait(timeout=BOUND_S)
            errors = copying.communicate(timeout=BOUND_S)[1]
            self.assertEqual(copying.returncode, 3, errors)
            said = errors.splitlines()[0]
            self.assertRegex(said, r"^rpcrdma: .*127\.0\.0\.1:\d+.* failed: .*refused", errors)
            for left in self.served.glob(".large.*"):
                left.unlink()

    def test_ls_and_rm_go_on_after_a_restart(self):
        many = self.served / "many"
        many.mkdir()
        for i in range(3000):
            (many / f"file{i}").touch()
        port = self.url.split("/")[2].split(":")[1]
        removing = subprocess.Popen([COMMAND, "rm", "-r", self.url + "/many"], stderr=subprocess.PIPE, text=True)
        wait_until(lambda: len(os.listdir(many)) < 2900)
        self.nfs_servers[0].kill()
        self.nfs_servers[0].wait(timeout=BOUND_S)
        left = len(os.listdir(many))
        self.assertGreater(left, 0)
        self.nfs_servers.append(subprocess.Popen(
            [COMMAND, "serve", "--nfs", f"{self.served}:no_root_squash", "--export", "/data", "--nfs-tcp-port", "0",
             "--port", port, "--provider", "siwarp", "--handle-key", self.root / "key"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        self.assertTrue(self.nfs_servers[-1].stdout.readline().startswith("ready"))
        errors = removing.communicate(timeout=BOUND_S)[1]
        self.assertEqual((removing.returncode, errors), (0, ""))
        self.assertFalse(many.exists())

    def test_no_server_is_no_connection(self):
        self.nfs_servers[0].send_signal(signal.SIGTERM)
        self.nfs_servers[0].wait(timeout=BOUND_S)
        for url in self.urls:
            provider = ("--provider", "siwarp") if "rdma" in url else ()
            for command in ("ls", "cat", "df"):
                result = run(command, url, *provider, "--timeout", "5")
                self.assertEqual(result.returncode, 3, result.stderr)
            self.assertEqual(run("cp", self.file("file", 3), url).returncode, 3)

    # --- Whether it takes work ---

    def test_ping_ready_asks_each_server(self):
        for url in self.urls:
            self.assertEqual(self.ok("ping", "--ready", url), f"ready {url}\n")
        rdma_host = self.url.split("/")[2]
        self.assertEqual(self.ok("ping", "--ready", f"rdma://{rdma_host}", "--program", "100003", "--version", "3"),
                         f"ready rdma://{rdma_host}\n")
        nobody = "127.0.0.1:1"
        both = run("ping", "--ready", f"nfs+rdma://{rdma_host},{nobody}/data")
        self.assertEqual((both.returncode, both.stdout), (3, f"ready {self.url}\n"))
        self.assertIn(nobody, both.stderr)
        self.assertEqual(json.loads(self.ok("ping", "--ready", "--json", self.url)), {"url": self.url, "ready": True})
        both = run("ping", "--ready", "--json", f"nfs+rdma://{rdma_host},{nobody}/data")
        ready, dead = (json.loads(line) for line in both.stdout.splitlines())
        self.assertEqual((both.returncode, ready), (3, {"url": self.url, "ready": True}))
        self.assertEqual((dead["url"], dead["ready"]), (f"nfs+rdma://{nobody}/data", False))
        self.assertIn(dead["error"], both.stderr)
        dead = json.loads(run("ping", "--ready", "--json", f"rdma://{nobody}").stdout)
        self.assertEqual((dead["url"], dead["ready"]), (f"rdma://{nobody}", False))
        self.failed(1, "it has /data", "ping", "--ready", self.url + "x")
        self.failed(2, "--count excludes --ready", "ping", "--ready", self.url, "--count", "3")
        self.failed(2, "nfs+rdma", "ping", "--ready", "nfs+rdma:///data")

    def test_ping_ready_waits_for_some_seconds_only(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            begun = time.monotonic()
            for scheme, provider in (("nfs+tcp", ()), ("nfs+rdma", ("--provider", "siwarp"))):
                self.failed(3, "", "ping", "--ready", f"{scheme}://127.0.0.1:{silent.getsockname()[1]}/data",
                            "--timeout", "0.5", *provider)
            self.assertLess(time.monotonic() - begun, BOUND_S / 2)

    def test_options_without_an_effect_are_wrong_usage(self):
        tcp = next(url for url in self.urls if url.startswith("nfs+tcp"))
        self.failed(2, "--capture is for connections over RDMA", "ls", tcp, "--capture", self.root / "trace")
        self.assertFalse((self.root / "trace").exists())
        self.failed(2, "--show-characteristics is for rdma:// URLs", "ls", self.url, "--show-characteristics")
        self.failed(2, "--request is for rdma:// URLs", "ls", self.url, "--request", "rbsiz=64k")

    # --- Blobs beside it ---

    def test_blob_commands_have_a_group_of_their_own(self):
        (self.root / "blobs").mkdir()
        self.served = self.root / "blobs"
        server = self.serve()
        path = self.file("file", 1000)
        self.ok("blob", "put", server.url, path)
        self.assertEqual(self.ok("blob", "ls", server.url), self.ok("ls", server.url))
        self.ok("blob", "get", server.url, "file", self.root / "back")
        self.assertEqual((self.root / "back").read_bytes(), path.read_bytes())
        self.ok("blob", "rm", server.url, "file")
        self.assertFalse((self.served / "file").exists())
        self.assertIn("NAME is required", run("rm", server.url).stderr)


if __name__ == "__main__":
    unittest.main()
