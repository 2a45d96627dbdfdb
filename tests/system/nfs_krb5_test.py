#!/usr/bin/env python3
"""`rpcrdma serve --nfs DIR:sec=...` and clients with --sec, in a realm of the test's own."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from command_fixture import BOUND_S, COMMAND, CommandFixture, run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "gss"))
import realm as kerberos  # noqa: E402

FLAVORS = ("krb5", "krb5i", "krb5p")
USER_OF_THE_MACHINE, STRANGER = "daemon", "alice-of-elsewhere"


class NfsKrb5Test(CommandFixture):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="rpcrdma-nfs-krb5.")
        cls.addClassCleanup(folder.cleanup)
        cls.realm = kerberos.Realm(folder.name, users=(USER_OF_THE_MACHINE, STRANGER))
        cls.addClassCleanup(cls.realm.stop)

    def setUp(self):
        super().setUp()
        self.before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(self.before)))
        self.be(USER_OF_THE_MACHINE)
        self.data = self.root / "data"
        self.data.mkdir()
        self.data.chmod(0o777)

    def be(self, user):
        os.environ.clear()
        os.environ.update(self.realm.environment(user))

    def serve_exports(self, options, *arguments):
        server = self.serve("--nfs", f"{self.data}:name=/data,{options}", "--nfs-tcp-port", "0", "--provider", "siwarp",
                            "--handle-key", str(self.root / "key"), "--keytab", str(self.realm.folder / "localhost.keytab"),
                            *arguments)
        return [re.sub(r"//127\.0\.0\.1", "//localhost", url) for url in server.urls if url.startswith("nfs+")]

    def test_moves_a_tree_by_each_flavor_over_both_transports(self):
        tree = self.root / "tree"
        tree.mkdir()
        (tree / "large").write_bytes(os.urandom(1_500_001))
        for i in range(20):
            (tree / f"small-{i}").write_text(f"{i}\n")
        for url in self.serve_exports("sec=" + ":".join(FLAVORS)):
            for flavor in FLAVORS:
                place = f"{url}/{flavor}-{url[4:7]}"
                up = run("cp", "-r", "--verify", "--sec", flavor, tree, place)
                self.assertEqual(up.returncode, 0, up.stderr)
                back = self.root / f"back-{flavor}-{url[4:7]}"
                down = run("cp", "-r", "--sec", flavor, place, back)
                self.assertEqual(down.returncode, 0, down.stderr)
                for each in tree.iterdir():
                    self.assertEqual((back / each.name).read_bytes(), each.read_bytes(), each.name)

    @unittest.skipIf(os.geteuid() != 0, "only root's server has the rights of others")
    def test_principals_have_the_rights_of_their_users(self):
        url = self.serve_exports("sec=krb5i")[0]
        import pwd
        for user, uid in ((USER_OF_THE_MACHINE, pwd.getpwnam(USER_OF_THE_MACHINE).pw_uid), (STRANGER, 65534)):
            self.be(user)
            made = run("mkdir", "--sec", "krb5i", f"{url}/of-{user}")
            self.assertEqual(made.returncode, 0, made.stderr)
            self.assertEqual((self.data / f"of-{user}").stat().st_uid, uid)
            self.assertEqual(run("ls", "--sec", "krb5i", url).returncode, 0)
        _, _, log = self.servers[0].stop()
        nobodies = [line for line in log.splitlines() if "is mapped to nobody (uid 65534) in /data" in line]
        self.assertEqual(len(nobodies), 1, "a line for each principal, and not for each call")
        self.assertRegex(nobodies[0], f" info security: .* calls as {STRANGER}@")

    def test_command_that_went_well_leaves_no_context_with_the_server(self):
        socket = self.root / "stat.sock"
        for url in self.serve_exports("sec=krb5p", "--stat-socket", str(socket)):
            for words in (("ls", url), ("cp", "--connections", "4", __file__, f"{url}/copy"), ("rm", f"{url}/copy")):
                done = run(words[0], "--sec", "krb5p", *words[1:])
                self.assertEqual(done.returncode, 0, done.stderr)
        counted = json.loads(run("stat", "--json", socket).stdout)
        self.assertEqual(counted["security_contexts"], 0)

    def test_commands_on_blobs_leave_no_context_either(self):
        socket = self.root / "stat.sock"
        self.serve_exports("sec=krb5p", "--stat-socket", str(socket), "--sec", "krb5p")
        url = self.servers[0].url.replace("127.0.0.1", "localhost")
        for words in (("put", url, __file__, "copy"), ("get", url, "copy", self.root / "back"), ("ls", url), ("rm", url, "copy"),
                      ("ping", url, "--count", "2")):
            done = run(words[0], "--sec", "krb5p", *words[1:])
            self.assertEqual(done.returncode, 0, done.stderr)
        counted = json.loads(run("stat", "--json", socket).stdout)
        self.assertEqual(counted["security_contexts"], 0)
        self.assertEqual((self.root / "back").read_bytes(), pathlib.Path(__file__).read_bytes())

    def test_says_which_flavors_an_export_takes(self):
        for url in self.serve_exports("sec=krb5i:krb5p"):
            for flavor in ("sys", "krb5"):
                told = run("ls", "--sec", flavor, url)
                self.assertEqual(told.returncode, 1, told.stdout)
                self.assertIn(f"protected by krb5i, krb5p only, and these are by {flavor}; say --sec", told.stderr)
            self.assertEqual(run("ls", "--sec", "krb5p", url).returncode, 0)

    def test_what_stands_in_sec_is_for_exports_that_say_nothing(self):
        url = self.serve_exports("ro", "--sec", "krb5p")[0]
        self.assertEqual(run("ls", "--sec", "krb5p", url).returncode, 0)
        self.assertIn("krb5p only", run("ls", url).stderr)

    def test_server_may_have_another_name_in_kerberos_than_in_the_url(self):
        url = self.serve_exports("sec=krb5")[0].replace("localhost", "127.0.0.1")
        named = run("ls", "--sec", "krb5", "--sec-service", "nfs@localhost", url)
        self.assertEqual((named.returncode, named.stderr), (0, ""))
        self.assertNotEqual(run("ls", "--sec", "krb5", "--sec-service", "host@127.0.0.1", url).returncode, 0)

    def test_says_what_to_do_without_a_ticket_and_for_another_name(self):
        url = self.serve_exports("sec=krb5")[0]
        other = run("ls", "--sec", "krb5", url.replace("localhost", "127.0.0.1"))
        self.assertEqual(other.returncode, 1)
        self.assertIn("is the host's name right", other.stderr)
        os.environ["KRB5CCNAME"] = f"FILE:{self.root}/no-such-file"
        without = run("ls", "--sec", "krb5", url)
        self.assertEqual(without.returncode, 1)
        self.assertIn("kinit", without.stderr)

    def test_doctor_says_which_protection_an_export_takes(self):
        url = self.serve_exports("sec=krb5i:krb5p")[0]
        told = run("doctor", "--provider", "siwarp", url)
        self.assertEqual(told.returncode, 27, told.stdout + told.stderr)
        self.assertRegex(told.stdout, r"\nFAILED +mount .*protected by krb5i, krb5p only.*\n +to do: kinit, and say --sec")
        good = run("doctor", "--provider", "siwarp", url, "--sec", "krb5p")
        self.assertEqual(good.returncode, 0, good.stdout + good.stderr)
        self.assertIn(",sec=krb5p localhost:/data /mnt\n", good.stdout)
        os.environ["KRB5CCNAME"] = f"FILE:{self.root}/no-such-file"
        without = run("doctor", "--provider", "siwarp", url, "--sec", "krb5p")
        self.assertEqual(without.returncode, 26, without.stdout)
        self.assertRegex(without.stdout, r"FAILED +program .*\n +to do: kinit gets the ticket")

    def test_log_says_why_clients_get_no_context(self):
        keytab = self.root / "empty.keytab"
        keytab.touch()
        server = subprocess.Popen([COMMAND, "serve", "--nfs", f"{self.data}:name=/data,sec=krb5", "--nfs-tcp-port", "0",
                                   "--port", "0", "--provider", "siwarp", "--handle-key", self.root / "key", "--keytab",
                                   keytab], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            url = server.stdout.readline().split()[1].replace("127.0.0.1", "localhost")
            self.assertNotEqual(run("ls", "--sec", "krb5", url).returncode, 0)
        finally:
            server.terminate()
            errors = server.communicate(timeout=BOUND_S)[1]
        self.assertRegex(errors, "no client can use Kerberos here yet: .*key")
        self.assertRegex(errors, "a client gets no context: .*key")

    def test_refuses_options_that_cannot_be_meant(self):
        for words, text in ((("--sec", "krb4"), "'krb4' is no flavor of security"),
                            (("--sec", "krb5", "--keytab", f"{self.root}/none"), "ktadd"),
                            (("--keytab", f"{self.root}/none"), "--keytab is for Kerberos")):
            told = run("serve", "--nfs", self.data, "--port", "0", "--nfs-tcp-port", "0", "--handle-key",
                       self.root / "key", *words)
            self.assertEqual(told.returncode, 2, told.stderr)
            self.assertIn(text, told.stderr)


if __name__ == "__main__":
    unittest.main()
