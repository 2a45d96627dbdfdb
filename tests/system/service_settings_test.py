#!/usr/bin/env python3
"""`rpcrdma serve` as a service: its settings in a file, --check, reloads, and what systemd hears of it."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from command_fixture import BOUND_S, COMMAND, CommandFixture, run, wait_until

UNITS = pathlib.Path(os.environ["RPCRDMA_PACKAGING"])

# Maps each option of `rpcrdma serve` to a value in TOML and to the words that mean the same. Another option that it needs
# stands behind.
SAMPLES = {
    "blob": ('"{served}"', ["--blob={served}"]),
    "nfs": ('["{served}:ro,name=/x", "{other}:name=/y"]', ["--nfs={served}:ro,name=/x", "--nfs={other}:name=/y"]),
    "export": ('["/z"]', ["--export=/z", "--nfs={served}"]),
    "exports": ('"{exports}"', ["--exports={exports}"]),
    "handle-key": ('"{key}"', ["--handle-key={key}", "--nfs={served}"]),
    "handles": ('"table"', ["--handles=table", "--nfs={served}"]),
    "nfs-tcp-port": ("0", ["--nfs-tcp-port=0", "--nfs={served}"]),
    "nfs-workers": ("3", ["--nfs-workers=3", "--nfs={served}"]),
    "open-files": ("17", ["--open-files=17", "--nfs={served}"]),
    "nfs-async": ("true", ["--nfs-async", "--nfs={served}"]),
    "listen": ('"::1"', ["--listen=::1"]),
    "port": ("0", ["--port=0"]),
    "tcp-port": ("0", ["--tcp-port=0"]),
    "ready-port": ("0", ["--ready-port=0"]),
    "metrics": ('"127.0.0.1:0"', ["--metrics=127.0.0.1:0"]),
    "stat-socket": ('"{other}/stat.sock"', ["--stat-socket={other}/stat.sock"]),
    "setup-timeout": ("2.5", ["--setup-timeout=2.5"]),
    "tcp-idle": ("3", ["--tcp-idle=3", "--tcp-port=0"]),
    "rdma-idle": ("3", ["--rdma-idle=3"]),
    "drain": ("0.5", ["--drain=0.5"]),
    "connections": ("7", ["--connections=7"]),
    "threads": ("2", ["--threads=2"]),
    "receives-max": ("9", ["--receives-max=9"]),
    "shared-receives": ('"never"', ["--shared-receives=never", "--receives-max=9"]),
    "bench": ("true", ["--bench"]),
    "rpcbind": ("true", ["--rpcbind"]),
    "rpcbind-daemon": ('"/run/other.sock"', ["--rpcbind-daemon=/run/other.sock", "--rpcbind"]),
    "read-only": ("true", ["--read-only"]),
    "no-sync": ("true", ["--no-sync"]),
    "upload-idle": ("8", ["--upload-idle=8"]),
    "sec": ('"sys:krb5"', ["--sec=sys:krb5"]),
    "keytab": ('"{key}"', ["--keytab={key}", "--sec=krb5"]),
    "log-level": ('"debug"', ["--log-level=debug"]),
    "log-format": ('"json"', ["--log-format=json"]),
    "provider": ('"siwarp"', ["--provider=siwarp"]),
    "registration": ('"per-call"', ["--registration=per-call", "--provider=auto"]),
    "crc": ('"off"', ["--crc=off"]),
    "capture": ('"{key}"', ["--capture={key}"]),
    "capture-max": ('"1m"', ["--capture-max=1m", "--capture={key}"]),
    "inline": ("8192", ["--inline=8192"]),
    "inline-arguments": ('"32k"', ["--inline-arguments=32k"]),
    "ird": ("4", ["--ird=4"]),
    "ord": ("4", ["--ord=4"]),
    "receive-size": ("8192", ["--receive-size=8192", "--rpcrdma-version=auto"]),
    "credits": ("5", ["--credits=5"]),
    "profile": ('"rfc5666"', ["--profile=rfc5666"]),
    "rpcrdma-version": ('"2"', ["--rpcrdma-version=2"]),
    "json": ("true", ["--json"]),
}
FOR_THE_COMMAND_LINE = {"config", "check", "unit", "help"}


def waits_for_delivery(pid, number):
    """Whether the kernel has a signal of a process that no thread has taken yet."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        pending = [int(line.split()[1], 16) for line in status if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> (number - 1) & 1 for mask in pending)


class ServiceFixture(CommandFixture):
    def setUp(self):
        super().setUp()
        self.other = self.root / "other"
        self.other.mkdir()
        self.settings = self.root / "serve.toml"
        (self.root / "exports").write_text(f"{self.other} *(rw)\n")
        key = self.root / "key"
        key.write_bytes(bytes(16))
        key.chmod(0o600)

    def filled(self, text):
        text = str(text)
        for name, value in (("served", self.served), ("other", self.other), ("exports", self.root / "exports"),
                            ("key", self.root / "key")):
            text = text.replace("{%s}" % name, str(value))
        return text

    def write(self, text):
        self.settings.write_text(self.filled(text))

    def check(self, *words):
        result = run("serve", "--check", *map(self.filled, words))
        self.assertEqual(result.returncode, 0, (words, result.stderr))
        return result.stdout

    def refused(self, text, *words):
        result = run("serve", *map(self.filled, words))
        self.assertEqual((result.returncode, result.stdout), (2, ""), (words, result.stderr))
        self.assertIn(self.filled(text), result.stderr)

    def started(self, text, *words, **keywords):
        """Starts a server with these settings alone; its line `ready`."""
        self.write('listen = "127.0.0.1"\nport = 0\nprovider = "siwarp"\n' + text)
        process = subprocess.Popen([COMMAND, "serve", "--config", self.settings, *words], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, **keywords)
        log = []
        reader = threading.Thread(target=lambda: log.extend(process.stderr))
        reader.start()
        self.addCleanup(process.stderr.close)
        self.addCleanup(reader.join)
        self.addCleanup(self.end, process)  # before these
        line = process.stdout.readline()
        self.assertTrue(line.startswith("ready "), (line, log))
        return process, line.split()[1:], log

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait(timeout=BOUND_S)
        process.stdout.close()

    def hold_reload(self, process):
        """Has the settings read again from a pipe; returns its other end, where the server waits."""
        self.settings.unlink()
        os.mkfifo(self.settings)
        process.send_signal(signal.SIGHUP)
        return open(self.settings, "w", encoding="utf-8")  # as soon as the server has it open

    def reload(self, process, log, text=None):
        """Has the settings read again, and returns the line of the log that says what came of it."""
        before = len(log)
        if text is not None:
            self.write('listen = "127.0.0.1"\nport = 0\nprovider = "siwarp"\n' + text)
        process.send_signal(signal.SIGHUP)
        ends = lambda: [line for line in log[before:] if "settings" in line]  # noqa: E731
        wait_until(ends)
        return ends()[0]


class SettingsFile(ServiceFixture):
    def options(self):
        names = set()
        for line in run("options").stdout.splitlines():
            command, options = line.split("\t")
            if command == "serve":
                names |= {each[2:] for each in options.split(",") if each.startswith("--")}
        return names

    def test_each_option_is_a_setting_with_the_same_effect(self):
        self.assertEqual(self.options() - FOR_THE_COMMAND_LINE, set(SAMPLES))
        blob = f"--blob={self.served}"
        has_kerberos = json.loads(run("info", "--json").stdout)["features"]["kerberos"]["built"]
        for name, (value, words) in SAMPLES.items():
            if name in ("sec", "keytab") and not has_kerberos:
                continue  # a check refuses them, as serving does
            own = [blob] if name != "blob" else []
            needed = [word for word in words if not word.startswith(f"--{name}=") and word != f"--{name}"]
            self.write(f"{name} = {value}\n")
            by_file = self.check(*own, *needed, "--config", self.settings, "--json")
            by_words = self.check(*own, *words, "--json")
            without = self.check(*own, *needed, "--json") if name not in ("blob", "nfs", "exports", "json") else None
            self.assertEqual(self.effect(by_file), self.effect(by_words), name)
            if without is not None:
                self.assertNotEqual(self.effect(by_file), self.effect(without), name)

    @staticmethod
    def effect(output):
        made = json.loads(output)
        made["settings"] = sorted(word for word in made["settings"] if not re.match("--(config|check|json)", word))
        return made

    def test_command_line_has_the_last_word(self):
        self.write('port = 1\nnfs = ["{other}:name=/of-file"]\n')
        made = json.loads(self.check("--config", self.settings, "--port", "2", "--nfs={served}:name=/of-line", "--json"))
        self.assertIn("--port=2", made["settings"])
        self.assertEqual([each["name"] for each in made["exports"]], ["/of-line"])

    def test_mistakes_are_named_with_their_line(self):
        for text, problem in (("prot = 1\n", "serve.toml, line 1: there is no setting 'prot' (did you mean 'port'?)"),
                              ("\nport = \"x\"\n", "serve.toml, line 2: --port takes a whole number from 0 to 65535"),
                              ("port = 70000\n", "line 1: --port takes a whole number from 0 to 65535, not '70000'"),
                              ("log-level = \"loud\"\n", "line 1: --log-level takes none, error, warning, info or debug"),
                              ("check = true\n", "line 1: 'check' is for the command line"),
                              ("help = true\n", "line 1: there is no setting 'help'"),
                              ("[nfs]\na = 1\n", "line 1: 'nfs' is a table"),
                              ("port = 1\nport = 2\n", "line 2: "),
                              ("port = [1, 2]\n", "line 1: --port has 2 values, and takes one"),
                              ("read-only = 7\n", "line 1: --read-only takes no value but true and false"),
                              ("shared-receives = \"never\"\n", "--shared-receives requires --receives-max")):
            self.write(text)
            self.refused(problem, "--check", "--blob={served}", "--config", self.settings)
        self.refused("--config {served}/none: No such file or directory", "--config={served}/none")
        self.refused("--config {served}: Is a directory", "--config={served}")
        self.refused("--config", "--config")

    def test_installed_file_can_be_served_as_it_is(self):
        text = (UNITS / "serve.toml").read_text().replace("/var/lib/rpcrdma/export", str(self.other))
        self.write(text)
        made = json.loads(self.check("--config", self.settings, "--json"))
        self.assertEqual(made["exports"], [{"name": "/export", "directory": str(self.other),
                                            "clients": [{"client": "*", "options": "rw,root_squash"}]}])
        commented = re.sub(r"^# ([a-z-]+ = )", r"\1", text, flags=re.MULTILINE)  # each example, too
        self.assertGreater(commented.count("\n"), 20)
        self.write(re.sub(r"^(exports|sec|blob) = .*\n", "", commented, flags=re.MULTILINE))
        self.check("--config", self.settings)


class Values(ServiceFixture):
    def test_setting_that_is_empty_is_refused_and_takes_no_other(self):
        for name in ("keytab", "blob", "sec", "log-level"):
            self.write(f'nfs = ["{{served}}"]\n{name} = ""\nlisten = "0.0.0.0"\n')
            self.refused(f"line 2: '{name}' is empty", "--check", "--config", self.settings)

    def test_address_to_listen_on_has_no_scheme_and_no_port(self):
        for address in ("rdma://127.0.0.1", "rdma://127.0.0.1:99", "127.0.0.1:99", "localhost:99", "[::1]:99", "/run/socket"):
            self.refused(f"--listen takes an address alone, as 0.0.0.0 or ::, and not '{address}'; its port is --port",
                         "--check", "--blob={served}", f"--listen={address}")
        for address in ("127.0.0.1", "localhost", "::1", "[::1]", "::"):
            self.check("--blob={served}", f"--listen={address}")

    def test_flag_that_is_false_is_as_if_it_were_not_there(self):
        self.write('nfs = ["{served}"]\n')
        plain = self.check("--config", self.settings)
        self.write('nfs = ["{served}"]\nread-only = false\nno-sync = false\nrpcbind = false\n')
        self.assertEqual(self.check("--config", self.settings), plain)
        self.write('nfs = ["{served}"]\nrpcbind = false\nrpcbind-daemon = "/run/x"\n')
        self.refused("--rpcbind", "--check", "--config", self.settings)

    def test_key_of_handles_is_that_of_the_service_whoever_its_user_is(self):
        state = self.root / "state"
        state.mkdir()
        self.started('nfs = ["{served}"]\nnfs-tcp-port = 0\n', env={**os.environ, "STATE_DIRECTORY": f"{state}:/nowhere"})
        self.assertTrue((state / "handle-key").exists())


class Check(ServiceFixture):
    def test_says_what_would_be_served_and_changes_nothing(self):
        words = ("--nfs={served}:ro,all_squash,name=/x,client=192.0.2.0/24", "--blob={other}/blobs")
        text = self.check(*words)
        self.assertIn(f"for NFS of {self.served}, by the name /x\n    192.0.2.0/24(ro,all_squash", text)
        self.assertIn(f"for blobs of {self.other}/blobs", text)
        self.assertFalse((self.other / "blobs").exists(), "a check made it")

    def test_names_what_could_not_be_served(self):
        self.refused("--nfs {served}/none: No such file or directory", "--check", "--nfs={served}/none")
        self.refused("--nfs {exports}: this is no directory", "--check", "--nfs={exports}")
        self.refused("--exports {served}: Is a directory", "--check", "--exports={served}")
        self.refused("--exports {served}/none: No such file", "--check", "--exports={served}/none")
        self.refused("--blob {served}/none: No such file or directory", "--check", "--blob={served}/none/blobs")
        key = self.root / "key-of-a-crash"
        self.check("--nfs={served}", "--handle-key", key)
        self.assertFalse(key.exists(), "a check made it")
        key.touch(0o600)
        self.refused(f"{key}: it has not 16 bytes", "--check", "--nfs={served}", "--handle-key", key)
        self.refused("there is nothing to serve", "--check")
        self.refused("--unit requires --check", "--blob={served}", "--unit")

    def test_names_what_serving_would_refuse_at_its_start(self):
        features = json.loads(run("info", "--json").stdout)["features"]
        self.refused("--keytab is for Kerberos", "--check", "--blob={served}", "--keytab={served}/none")
        if features["kerberos"]["built"]:
            self.refused("--keytab {served}/none: No such file or directory", "--check", "--blob={served}", "--sec=krb5",
                         "--keytab={served}/none")
            self.refused("--keytab {served}/none: No such file or directory", "--check", "--nfs={served}:sec=krb5",
                         "--keytab={served}/none")
        self.refused("--connections 100000000 needs as many descriptors", "--check", "--blob={served}",
                     "--connections=100000000")
        # The service has a limit of its own (LimitNOFILE=), whatever that of this shell is.
        for words, status in ((["--connections=15000"], 0), (["--connections=15000", "--unit"], 0),
                              (["--connections=300000", "--tcp-port=0", "--unit"], 2)):
            checked = subprocess.run(["prlimit", "--nofile=4096:4096", COMMAND, "serve", "--check", f"--blob={self.served}", *words],
                                     capture_output=True, text=True)
            self.assertEqual(checked.returncode, status, (words, checked.stderr))
        files = {"kerberos": ("--nfs={served}:sec=krb5", "librpcrdma_krb5.so"),
                 "cephfs": ("--nfs=ceph:/a", "librpcrdma_nfs_ceph.so")}
        for feature, (word, file) in files.items():
            if not features[feature]["built"]:
                continue
            (self.root / file).write_bytes(b"no object")
            folders = {"RPCRDMA_PROVIDER_DIR": str(self.root), "RPCRDMA_BACK_END_DIR": str(self.root)}
            result = run("serve", "--check", self.filled(word), env=os.environ | folders)
            self.assertEqual((result.returncode, result.stdout), (2, ""), word)
            self.assertIn(f"{self.root}/{file}", result.stderr)

    def test_two_exports_of_one_name_cannot_be_served(self):
        self.refused("'/x'", "--check", "--nfs={served}:name=/x", "--nfs={other}:name=/x")

    def test_unit_has_the_directories_and_the_user(self):
        text = self.check("--unit", "--nfs={served}:ro", "--nfs={other}", "--blob={other}/b%")
        self.assertIn(f'ReadOnlyPaths=-"{self.served}"\n', text)
        self.assertIn(f'ReadWritePaths=-"{self.other}"\n', text)
        self.assertIn(f'ReadWritePaths=-"{self.other}/b%%"\n', text)
        self.assertNotIn("User=", text)
        self.assertNotIn("User=", self.check("--unit", "--nfs={served}:all_squash,anonuid=1000"))
        self.assertNotIn("User=", self.check("--unit", "--nfs={served}:all_squash", "--handles=kernel"))

    USER = 64321  # the number of the user rpcrdma in these tests

    def unit(self, *words, has_user=True):
        """Returns what --unit prints on a machine that has the user of the service, or has not."""
        others = [line for line in pathlib.Path("/etc/passwd").read_text().splitlines() if not line.startswith("rpcrdma:")]
        own = [f"rpcrdma:x:{self.USER}:{self.USER}::/nonexistent:/usr/sbin/nologin"] if has_user else []
        (self.root / "passwd").write_text("\n".join(others + own) + "\n")
        result = subprocess.run(
            ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/passwd || exit 77; exec "$@"', self.root / "passwd",
             COMMAND, "serve", "--check", "--unit", *map(self.filled, words)],
            capture_output=True, text=True, timeout=BOUND_S, check=False)
        if result.returncode == 77 or "unshare" in result.stderr:
            self.skipTest(f"no namespace can be made here: {result.stderr}")
        self.assertEqual(result.returncode, 0, (words, result.stderr))
        return result.stdout

    def give(self, path, user, group):
        if os.geteuid() != 0:
            self.skipTest("only root gives files away")
        os.chown(path, user, group)

    def runs_as_user(self, *words, **keywords):
        text = self.unit(*words, **keywords)
        self.assertEqual(re.findall("^(User|Group)=rpcrdma$", text, re.MULTILINE), ["User", "Group"], text)
        return text

    def stays_root(self, why, *words, **keywords):
        """The unit keeps root, and a comment says why, and how that would change."""
        text = self.unit(*words, **keywords)
        self.assertEqual(re.findall("^(?:User|Group|Ambient).*", text, re.MULTILINE), [], text)
        self.assertEqual(re.findall("^# (User|Group)=rpcrdma$", text, re.MULTILINE), ["User", "Group"], text)
        self.assertRegex(" ".join(line[2:] for line in text.splitlines() if line.startswith("# ")), self.filled(why))
        return text

    OWN = f"anonuid={USER},anongid={USER}"

    def test_unit_has_a_user_that_may_write_to_what_is_served(self):
        words = (f"--nfs={{served}}:all_squash,{self.OWN}", "--blob={other}")
        self.root.chmod(0o755)
        self.give(self.served, self.USER, self.USER)
        self.stays_root('may not use "{other}": chown -R rpcrdma: "{other}"', *words)
        self.give(self.other, 0, self.USER)
        self.stays_root('may not use "{other}"', *words)
        self.other.chmod(0o770)
        self.runs_as_user(*words)
        self.give(self.served, 65534, 65534)
        self.stays_root('may not use "{served}": chown -R rpcrdma: "{served}"', *words)
        self.runs_as_user("--nfs={served}:all_squash,ro")
        self.served.chmod(0o700)
        self.stays_root('may not use "{served}": chmod -R o\\+rX "{served}"', "--nfs={served}:all_squash,ro")
        self.runs_as_user("--blob={other}")
        self.root.chmod(0o700)
        self.stays_root(f'may not use "{self.root}": chmod o\\+x "{self.root}"', "--blob={other}")

    def test_unit_has_no_user_as_whom_clients_do_not_write(self):
        self.root.chmod(0o755)
        self.give(self.served, self.USER, self.USER)
        # The service owns the files that it makes, and the server denies nobody the next write to them.
        self.stays_root(f'Clients write to "{{served}}" as user 65534.*{self.OWN}', "--nfs={served}:all_squash")
        self.assertNotIn("User=", self.unit("--nfs={served}:all_squash,anonuid=1000"))
        self.assertNotIn("User=", self.unit(f"--nfs={{served}}:{self.OWN}"))

    def test_user_of_the_unit_serves_what_clients_write(self):
        self.root.chmod(0o755)
        self.give(self.served, self.USER, self.USER)
        export = f"--nfs={{served}}:all_squash,{self.OWN},name=/a"
        self.runs_as_user(export)
        (self.root / "state").mkdir()
        self.give(self.root / "state", self.USER, self.USER)
        try:
            process, urls, _ = self.started("", self.filled(export), "--nfs-tcp-port=0", "--stat-socket=none", user=self.USER,
                                            group=self.USER, extra_groups=[],
                                            env={**os.environ, "STATE_DIRECTORY": str(self.root / "state")})
        except PermissionError:
            self.skipTest("another user may not start the command where it lies here")
        for size in (1000, 2000):  # makes the file, and writes it again
            wrote = run("cp", self.file("file", size), f"{urls[0]}/file")
            self.assertEqual((wrote.returncode, (self.served / "file").stat().st_size), (0, size), wrote.stderr)
        del process

    def test_unit_has_a_user_that_may_make_sockets_and_captures(self):
        self.root.chmod(0o755)
        self.give(self.served, self.USER, self.USER)
        for word, name in (("--capture={other}/trace", "trace"), ("--stat-socket={other}/stat.sock", "stat.sock")):
            text = self.stays_root('may not use "{other}": give "{other}/' + name + '" another place', "--blob={served}", word)
            self.assertNotIn("chown", text)  # of a folder that may be /etc
        self.stays_root('may not use "{other}": install -d -o rpcrdma -g rpcrdma "{other}/new"', "--blob={other}/new")
        self.runs_as_user("--blob={served}", "--capture={served}/trace", "--stat-socket=/run/rpcrdma/own.sock")

    def test_unit_refuses_names_that_it_could_not_have(self):
        self.refused("a unit has no way to name it", "--check", "--unit", "--blob={served}", "--stat-socket={other}/\nUser=root/stat")

    def test_unit_has_no_user_that_is_not_there(self):
        self.root.chmod(0o755)
        self.give(self.served, self.USER, self.USER)
        self.stays_root("there is no user rpcrdma", "--blob={served}", has_user=False)

    def test_unit_has_no_user_who_could_not_read_keys(self):
        self.root.chmod(0o755)
        self.give(self.served, self.USER, self.USER)
        export = "--nfs={served}:all_squash,ro"
        features = json.loads(run("info", "--json").stdout)["features"]
        self.stays_root('may not use "{key}": chown rpcrdma: "{key}"', export, "--handle-key={key}")
        self.give(self.root / "key", self.USER, self.USER)
        self.runs_as_user(export, "--handle-key={key}")
        if features["kerberos"]["built"]:
            self.stays_root("keytab", export + ",sec=krb5")
            self.stays_root("keytab", export, "--sec=krb5")
            keys = self.root / "keys"
            keys.write_bytes(b"")
            keys.chmod(0o600)
            words = (export, "--sec=krb5", f"--keytab={keys}")
            self.stays_root(f'may not use "{keys}": chown rpcrdma: "{keys}"', *words)
            self.give(keys, self.USER, self.USER)
            self.runs_as_user(*words)
        if features["cephfs"]["built"]:
            self.stays_root("keyring", "--nfs=ceph:/a:all_squash,ro")

    def test_unit_lets_its_user_listen_at_each_privileged_port(self):
        self.root.chmod(0o755)
        self.give(self.served, self.USER, self.USER)
        for words in (["--port=80"], ["--tcp-port=80"], ["--metrics=127.0.0.1:80"], ["--metrics=80"], ["--ready-port=81"]):
            self.assertIn("\nAmbientCapabilities=CAP_NET_BIND_SERVICE\n", self.runs_as_user("--blob={served}", *words), words)
        self.assertNotIn("Ambient", self.runs_as_user("--blob={served}", "--metrics=9100", "--ready-port=0"))
        self.assertIn("\n# AmbientCapabilities=CAP_NET_BIND_SERVICE\n",
                      self.stays_root("{other}", "--blob={other}", "--ready-port=81"))

    def paths_of_unit(self, *words):
        lines = self.check("--unit", *words).splitlines()
        return [line for line in lines if line.startswith("Read")]

    def test_unit_lets_write_where_one_of_the_exports_is_writable(self):
        (self.served / "below").mkdir()
        (self.root / "link").symlink_to(self.served)
        writable = f'ReadWritePaths=-"{self.served}"'
        networks = ("{served}:ro,name=/x,client=192.0.2.0/24", "{served}:rw,name=/y,client=198.51.100.0/24")
        self.assertEqual(self.paths_of_unit(*(f"--nfs={each}" for each in networks)), [writable])
        self.assertEqual(self.paths_of_unit(*(f"--nfs={each}" for each in reversed(networks))), [writable])
        self.assertEqual(self.paths_of_unit("--nfs={served}/:ro,name=/x", "--blob={served}"), [writable])
        # The parent's clients write below it as well; that the other export is read-only is for the server to see.
        self.assertEqual(self.paths_of_unit("--nfs={served}/below:ro", "--nfs={served}:rw"), [writable])
        # In the mount namespace of the service the path that is nested wins.
        self.assertEqual(self.paths_of_unit("--nfs={served}/below:rw", "--nfs={served}:ro"),
                         [f'ReadOnlyPaths=-"{self.served}"', f'ReadWritePaths=-"{self.served}/below"'])
        link = f"{self.root}/link"
        self.assertEqual(self.paths_of_unit(f"--nfs={link}:ro", "--nfs={served}:rw"), [writable])
        self.assertEqual(self.paths_of_unit("--nfs={served}:ro", f"--nfs={link}/below:rw"),
                         [f'ReadOnlyPaths=-"{self.served}"', f'ReadWritePaths=-"{link}/below"'])

    def test_unit_lets_write_where_sockets_and_captures_come(self):
        for words in (["--stat-socket={other}/stat.sock"], ["--capture={other}/trace"], ["--handle-key={other}/key"]):
            self.assertEqual(self.paths_of_unit("--nfs={served}:ro", *words),
                             [f'ReadOnlyPaths=-"{self.served}"', f'ReadWritePaths=-"{self.other}"'], words)
        # That folder is the unit's own, by RuntimeDirectory=.
        for words in (["--stat-socket=none"], ["--stat-socket=/run/rpcrdma/own.sock"]):
            self.assertEqual(self.paths_of_unit("--nfs={served}:ro", *words), [f'ReadOnlyPaths=-"{self.served}"'])

    def test_unit_sees_what_lies_in_the_folders_for_temporary_files(self):
        for folder in ("/tmp", "/var/tmp"):
            with tempfile.TemporaryDirectory(prefix="rpcrdma-test.", dir=folder) as made:
                self.assertIn("\nPrivateTmp=no\n", self.check("--unit", f"--nfs={made}"))
        self.assertNotIn("PrivateTmp", self.check("--unit", "--nfs=/usr:ro"))

    def test_unit_has_time_for_the_drain(self):
        self.assertIn("\nTimeoutStopSec=390\n", self.check("--unit", "--blob={served}", "--drain=300"))
        self.assertIn("\nTimeoutStopSec=121\n", self.check("--unit", "--blob={served}", "--drain=30.5"))
        for drain in (0, 10, 30):
            self.assertNotIn("TimeoutStopSec", self.check("--unit", "--blob={served}", f"--drain={drain}"))

    def test_units_are_ones_that_systemd_takes(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("there is no systemd-analyze here")
        units = self.root / "units"
        (units / "rpcrdma.service.d").mkdir(parents=True)
        for name in ("rpcrdma.service", "rpcrdma.socket"):
            text = (UNITS / name).read_text()
            # The command is where the package will have it, and not here yet.
            (units / name).write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={COMMAND}", text, flags=re.MULTILINE))
        (units / "rpcrdma.service.d" / "exports.conf").write_text(self.check("--unit", "--nfs={other}", "--blob={served}"))
        verified = subprocess.run(["systemd-analyze", "verify", "--man=no", units / "rpcrdma.service",
                                   units / "rpcrdma.socket"], capture_output=True, text=True, check=False,
                                  timeout=BOUND_S)
        self.assertEqual((verified.returncode, [line for line in verified.stderr.splitlines() if "rpcrdma" in line]),
                         (0, []), verified.stderr)


class Reload(ServiceFixture):
    def exports(self, *rules):
        return "nfs-tcp-port = 0\nnfs = [" + ", ".join(f'"{each}"' for each in rules) + "]\n"

    def start(self, *rules):
        process, urls, log = self.started(self.exports(*rules) + 'handle-key = "{key}2"\n')
        self.own = 'handle-key = "{key}2"\n'
        return process, urls[0].rsplit("/", 1)[0], log

    def test_exports_come_change_and_go_without_a_lost_call(self):
        process, base, log = self.start("{served}:rw,no_root_squash,name=/a")
        source = self.file("file", 8 << 20)
        results, ends = [], threading.Event()

        def copy():
            while not ends.is_set():
                results.append(run("cp", source, f"{base}/a/copy{len(results)}"))

        copying = threading.Thread(target=copy)
        copying.start()
        try:
            for i in range(10):
                line = self.reload(process, log, self.own + self.exports(
                    "{served}:rw,no_root_squash,name=/a", *(["{other}:ro,name=/b"] if i % 2 == 0 else [])))
                self.assertIn("read the settings again", line)
                self.assertEqual(run("ls", f"{base}/b").returncode == 0, i % 2 == 0)
        finally:
            ends.set()
            copying.join()
        self.assertGreater(len(results), 1)
        self.assertEqual([(each.returncode, each.stderr) for each in results if each.returncode != 0], [])

    def test_rules_hold_for_the_next_call(self):
        process, base, log = self.start("{served}:rw,no_root_squash,name=/a")
        self.reload(process, log, self.own + self.exports("{served}:ro,name=/a"))
        refused = run("mkdir", f"{base}/a/folder")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("read-only", refused.stderr.lower())

    def test_mistake_is_logged_and_changes_nothing(self):
        process, base, log = self.start("{served}:rw,no_root_squash,name=/a")
        for text, problem in (("prot = 1\n", "there is no setting 'prot'"),
                              (self.exports("{served}/none:name=/c"), "none"),
                              ("", "no exports where there were some"),
                              (self.exports("{other}:name=/a"), "change with a restart"),
                              (self.exports("{served}:name=/a,sec=krb5"), "Kerberos")):
            line = self.reload(process, log, self.own + text if text else text)
            self.assertIn("stay as they were", line)
            self.assertIn(problem, line)
            self.assertEqual(run("ls", f"{base}/a").returncode, 0)

    def test_exports_of_a_file_that_cannot_be_served_do_not_come(self):
        process, base, log = self.start("{served}:rw,no_root_squash,name=/a")
        more = self.own + self.exports("{served}:rw,no_root_squash,name=/a", "{other}:name=/b")
        for text, problem in (('sec = "krb6"\n', "--sec: "),
                              ('registration = "cache"\n', "--registration is for RDMA devices"),
                              ('capture = "{served}/none/trace"\n', "--capture {served}/none/trace: No such file or directory"),
                              ('profile = "rfc5666"\nrpcrdma-version = "2"\n', "--profile rfc5666 is version 1"),
                              ("no-sync = true\n", "--no-sync is for files of --blob")):
            before = len(log)
            line = self.reload(process, log, more + text)
            self.assertIn("stay as they were", line)
            self.assertIn(self.filled(problem), line)
            self.assertNotEqual(run("ls", f"{base}/b").returncode, 0, text)
            self.assertEqual([line for line in log[before:] if "taken with the next restart" in line], [])
        self.assertIn("read the settings again", self.reload(process, log, more))
        self.assertEqual(run("ls", f"{base}/b").returncode, 0)

    def test_mistake_is_written_once(self):
        process, _, log = self.start("{served}:rw,no_root_squash,name=/a")
        for text, problem in ((self.exports("{served}:name=/c,client=192.0.2.300"), "192.0.2.300"),
                              ("exports = \"{served}/none\"\n" + self.exports("{served}:name=/a"), "No such file"),
                              ("prot = 1\n", "prot")):
            before = len(log)
            self.reload(process, log, self.own + text)
            self.assertEqual(sum(problem in line for line in log[before:]), 1, log[before:])

    def test_requests_to_reload_that_come_during_one_are_one(self):
        process, _, log = self.start("{served}:name=/a")
        text = self.settings.read_text()
        first = self.hold_reload(process)
        for _ in range(50):
            process.send_signal(signal.SIGHUP)
        # One that a busy machine delivers behind the first reload asks for a third one, rightly.
        wait_until(lambda: not waits_for_delivery(process.pid, signal.SIGHUP))
        with first:
            first.write(text)
        wait_until(lambda: [line for line in log if "read the settings again" in line])
        with open(self.settings, "w", encoding="utf-8") as second:
            self.settings.unlink()
            self.write(text)  # for a third one, which must not come
            second.write(text)
        wait_until(lambda: sum("read the settings again" in line for line in log) == 2)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=BOUND_S), 0)
        self.assertEqual(sum("settings" in line for line in log), 2, log)

    def test_server_that_ends_reads_no_settings(self):
        process, _, log = self.started(self.exports("{served}:name=/a") + f'handle-key = "{{key}}2"\ndrain = {10 * BOUND_S}\n')
        text = self.settings.read_text()
        with self.hold_reload(process) as held:
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGTERM)
            wait_until(lambda: [line for line in log if "drain" in line or "stop" in line])
            self.settings.unlink()
            self.write(text)
            held.write(text)
        self.assertEqual(process.wait(timeout=BOUND_S), 0)
        self.assertEqual(sum("settings" in line for line in log), 1, log)

    # ThreadSanitizer reports threads that nobody has joined, as a server leaves them with the reload.
    LEFT_THREADS = dict(os.environ, TSAN_OPTIONS="report_thread_leaks=0")

    def test_end_waits_for_a_reload_no_longer_than_for_calls(self):
        process, urls, log = self.started(self.exports("{served}:name=/a") + 'handle-key = "{key}2"\ndrain = 0.1\n',
                                          env=self.LEFT_THREADS)
        with self.hold_reload(process):
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=BOUND_S), 0)
        wait_until(lambda: [line for line in log if "exiting without the reload" in line])
        self.assertEqual(sum("drained: every connection is closed" in line for line in log), 1, log)
        self.assertNotEqual(run("ls", urls[0]).returncode, 0)

    def test_figures_are_printed_though_a_reload_is_left_behind(self):
        process, _, log = self.started(self.exports("{served}:name=/a") + 'handle-key = "{key}2"\n', "--json", "--drain", "0.1",
                                       env=self.LEFT_THREADS)
        with self.hold_reload(process):
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=BOUND_S), 0)
            self.assertIn("calls", json.loads(process.stdout.read().splitlines()[-1]))
        del log

    def test_level_of_the_log_follows_and_the_rest_is_named(self):
        process, urls, log = self.started('blob = "{served}"\n')
        run("ping", urls[0], "--count", "1")
        self.assertEqual([line for line in log if " debug " in line], [])
        self.reload(process, log, 'blob = "{served}"\nlog-level = "debug"\ncredits = 3\n')
        wait_until(lambda: [line for line in log if "taken with the next restart: --credits" in line])
        run("ping", urls[0], "--count", "1")
        wait_until(lambda: [line for line in log if " debug " in line])

    def test_mounts_and_refused_mounts_are_in_the_log(self):
        process, base, log = self.start("{served}:name=/a", "{other}:name=/b,client=192.0.2.1")
        self.assertEqual(run("ls", f"{base}/a").returncode, 0)
        self.assertEqual(run("ls", f"{base}/b").returncode, 1)
        for text in ("mounts /a", "may not mount /b: the rules of the export have no such client"):
            wait_until(lambda: [line for line in log if text in line])
        del process


class Systemd(ServiceFixture):
    def setUp(self):
        super().setUp()
        features = json.loads(run("info", "--json").stdout)["features"]
        if not features["systemd"]["built"]:
            self.skipTest("this build is without libsystemd")
        self.notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.notices.close)
        self.notices.settimeout(BOUND_S)
        self.notices.bind(str(self.root / "notify"))
        self.environment = {**os.environ, "NOTIFY_SOCKET": str(self.root / "notify")}

    def state(self):
        return self.notices.recv(4096).decode().split("\n")[0]

    def test_hears_of_each_state(self):
        process, _, log = self.started('blob = "{served}"\n', env=self.environment)
        self.assertEqual(self.state(), "READY=1")
        self.reload(process, log)
        self.assertEqual([self.state(), self.state()], ["RELOADING=1", "READY=1"])
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.state(), "STOPPING=1")
        self.assertEqual(process.wait(timeout=BOUND_S), 0)

    def test_hears_of_the_end_while_a_reload_is_under_way(self):
        process, _, _ = self.started(f'blob = "{{served}}"\ndrain = {10 * BOUND_S}\n', env=self.environment)
        self.assertEqual(self.state(), "READY=1")
        text = self.settings.read_text()
        with self.hold_reload(process) as held:
            self.assertEqual(self.state(), "RELOADING=1")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(self.state(), "STOPPING=1")
            held.write(text)
        self.assertEqual(process.wait(timeout=BOUND_S), 0)
        self.notices.settimeout(0)
        self.assertRaises(BlockingIOError, self.state)  # and not that it was ready again

    def given(self, name, text):
        """Starts a server as systemd does, with a socket that listens; its process, its socket."""
        listening = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listening.close)
        self.write('listen = "127.0.0.1"\nport = 0\nprovider = "siwarp"\n' + text)
        # The process number has to be the server's own.
        process = subprocess.Popen(
            ["sh", "-c", 'exec 3<&"$0"; LISTEN_PID=$$ exec "$@"', str(listening.fileno()), COMMAND, "serve", "--config",
             str(self.settings)], pass_fds=[listening.fileno()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "LISTEN_FDS": "1", "LISTEN_FDNAMES": name})
        self.addCleanup(process.stderr.close)
        self.addCleanup(self.end, process)
        return process, listening.getsockname()[1]

    def test_tcp_side_listens_on_the_socket_of_the_unit(self):
        process, port = self.given("nfs", 'nfs = ["{served}:name=/a"]\nhandle-key = "{key}2"\n')
        self.assertIn(f"nfs+tcp://127.0.0.1:{port}/a", process.stdout.readline())
        self.assertEqual(run("ls", f"nfs+tcp://127.0.0.1:{port}/a").returncode, 0)

    def test_socket_without_a_use_is_refused(self):
        process, _ = self.given("other", 'blob = "{served}"\n')
        self.assertEqual(process.wait(timeout=BOUND_S), 2)
        self.assertIn("the socket 'other' of the service has no use", process.stderr.read())


if __name__ == "__main__":
    unittest.main(verbosity=2)
