#!/usr/bin/env python3
"""Runs the commands that README.md, docs/ and the examples of manual pages show, or says why it does not.

Each line of a shell block that begins with `rpcrdma`, and each command in the text that names an export, is in
the table below. /srv lies in a directory of the test, ports are free ones, and HOST and SERVER are this machine.
"""
import pathlib
import re
import shlex
import subprocess
import unittest

from command_fixture import BOUND_S, COMMAND, CommandFixture

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHOWN = re.compile(r"^(?:sudo )?(?:build/bin/)?rpcrdma [^#]*")
INLINE = re.compile(r"`((?:sudo )?(?:build/bin/)?rpcrdma [^`]*(?:nfs\+|--nfs |--exports )[^`]*)`")

CEPH = "needs a cluster: make ceph does the same"
KERBEROS = "needs a realm: nfs_krb5_test.py does the same"
RPCBIND = "needs an rpcbind of its own: rpcbind_test.py does the same"
INSTALLED = "needs the installed settings: service_settings_test.py does the same"
MACHINE = "looks at the machine that runs the test: doctor_test.py does the same on one that it makes up"
LIVE = "goes on until Ctrl-C, at a server in /run: explain_live_test.py does the same"
CAPTURE = "needs a capture: explain_test.py does the same"
WATCHED = "asks the one server of this user, and tests have many: watch_test.py does the same"
MOUNTED = "mounts, for which it takes root and /dev/fuse: mount_test.py does the same"
BENCH = "takes a minute: bench_test.py does the same for less"
TIRPC = "starts a program of the reader's: tirpc_programs_test.py does the same"
REFUSED = {
    "rpcrdma run --prefer-rdma -- ./sums_server": TIRPC,
    "rpcrdma run --rdma-only -- ./sums_client HOST": TIRPC,
    "rpcrdma run --rdma-only -- ./sums_client HOST tcp 3 4": TIRPC,
    "rpcrdma run -- rpcinfo -T rdma HOST 100005": TIRPC,
    "rpcrdma run --prefer-rdma --table ./blocks_table.so -- ./blocks_server": TIRPC,
    "rpcrdma serve --nfs ceph:/PATH": CEPH,
    "rpcrdma serve --nfs ceph:/projects:id=nfs,rw --export /projects --handle-key /etc/rpcrdma/handles.key "
    "--listen 0.0.0.0": CEPH,
    "rpcrdma serve --nfs … --ready-port 8080": "no whole command: ready_test.py asks for the page",
    "rpcrdma cp -r tree nfs+rdma://gateway1,gateway2/projects/": CEPH,
    "rpcrdma ping --ready nfs+rdma://gateway1,gateway2/projects": CEPH,
    "rpcrdma serve --nfs /srv/data:sec=krb5:krb5i:krb5p --keytab /etc/krb5.keytab --listen 0.0.0.0": KERBEROS,
    "rpcrdma serve --blob /srv/files --sec krb5p": KERBEROS,
    "rpcrdma cp -r --sec krb5p tree nfs+rdma://host.example/srv/data/": KERBEROS,
    "rpcrdma serve --blob files --listen 0.0.0.0 --port 0 --rpcbind &": RPCBIND,
    "rpcrdma programs HOST": RPCBIND,
    "rpcrdma programs rdma://HOST:PORT": "HOST:PORT is no one's: programs_test.py does the same",
    "rpcrdma ls HOST": RPCBIND,
    "rpcrdma ping HOST --program N --version V": RPCBIND,
    "rpcrdma ping rdma://HOST --rpcrdma-version 2 --request rbsiz=64k@5": "goes on until Ctrl-C: ping_test.py does the same",
    "rpcrdma ping rdma://nfs.example --program 100003 --version 3": "needs a Linux kernel: make lab",
    "rpcrdma serve --config /etc/rpcrdma/serve.toml --check": INSTALLED,
    "rpcrdma serve --config /etc/rpcrdma/serve.toml --check --unit "
    "> /etc/systemd/system/rpcrdma.service.d/exports.conf": INSTALLED,
    "rpcrdma explain trace.pcap": CAPTURE,
    "rpcrdma explain summary trace.pcap": CAPTURE,
    "rpcrdma explain check trace.pcap": CAPTURE,
    "rpcrdma explain ladder 2fa1c5d1 trace.pcap": CAPTURE,
    "rpcrdma explain ladder --html trace.html --slower-than 10 trace.pcap": CAPTURE,
    "rpcrdma explain --pid PID": LIVE,
    "rpcrdma explain check /run/rpcrdma/PID.live": LIVE,
    "rpcrdma doctor": MACHINE,
    "rpcrdma doctor --server": MACHINE,
    "rpcrdma top --once": WATCHED,
    "rpcrdma mount nfs+rdma://HOST/srv/data /mnt/data": MOUNTED,
    "rpcrdma mount nfs+rdma://HOST1,HOST2/srv/data /mnt/data -o allow_other,timeo=300": MOUNTED,
    "rpcrdma mount nfs+rdma://HOST/srv/data DIR": MOUNTED,
    "rpcrdma bench": BENCH,
    "rpcrdma bench --json --seconds 2 --cases null_qd32,read_64k_qd8": BENCH,
    "rpcrdma ls|cat|cp -r|stat|mkdir|mv|rm|df nfs+rdma://HOST/srv/data/PATH": "several in one: the others do each",
}


def shown():
    """Each command that is shown, and where."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        in_block = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith("```"):
                in_block = not in_block
            found = [SHOWN.match(line)] if in_block else INLINE.finditer(line)
            for match in found:
                if match:
                    text = match[0] if in_block else match[1]
                    text = re.sub(r"^(sudo )?(build/bin/)?", "", text.strip())
                    yield text, f"{path.relative_to(ROOT)}:{number}"
    yield from shown_in_manual()


def shown_in_manual():
    def page_of(*name):
        return subprocess.run([COMMAND, "manual", *name], capture_output=True, text=True, check=True).stdout

    names = re.findall(r"^\.BR rpcrdma\\-(\S+) \(1\)$", page_of().partition(".SH OPTIONS")[0], re.M)
    for name in [(), *((each,) for each in names), ("serve.toml",)]:
        examples = page_of(*name).partition(".SH EXAMPLES\n")[2].partition(".SH ")[0]
        for text in re.findall(r"^\.B (rpcrdma .*)$", examples, re.M):
            yield text.replace("\\-", "-"), f"manual {' '.join(name)}"


class DocumentedCommands(CommandFixture):
    def setUp(self):
        super().setUp()
        self.srv = self.root / "srv"
        (self.srv / "data/tree").mkdir(parents=True)
        for name in ("notes.txt", "old.txt", "draft.txt"):
            (self.srv / "data" / name).write_text("notes\n")
        (self.srv / "data/tree/leaf").write_text("leaf\n")
        for name in ("tree", "files", "DIR"):
            (self.root / name).mkdir()
        for name in ("tree/leaf", "README.md", "FILE", "big.iso"):
            (self.root / name).write_text(name)
        (self.root / "exports").write_text(f"{self.srv}/data 127.0.0.1(rw,no_root_squash) *(ro)\n")
        self.others = []

    def tearDown(self):
        for process in self.others:
            process.terminate()
            process.communicate(timeout=BOUND_S)
        super().tearDown()

    def words_of(self, text):
        text = text.removesuffix("&").strip()
        words = [word.replace("/srv/", f"{self.srv}/") if word.startswith("/srv/") else word
                 for word in shlex.split(text)[1:]]
        return [str(self.root / "exports") if word == "/etc/rpcrdma.exports" else word for word in words]

    def start(self, text):
        """A server as it is shown, at free ports of the loopback; the URLs that it prints."""
        words = ["127.0.0.1" if word == "0.0.0.0" else word for word in self.words_of(text)]
        for option in ("--port", "--tcp-port"):
            if option in words:
                words[words.index(option) + 1] = "0"
        extra = [] if "--port" in words else ["--port", "0"]
        if "--nfs" in words or "--exports" in words:
            extra += ["--nfs-tcp-port", "0", "--handle-key", str(self.root / "key"), "--provider", "siwarp"]
        process = subprocess.Popen([COMMAND, *words, *extra], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   cwd=self.root)
        self.others.append(process)
        line = process.stdout.readline()
        self.assertTrue(line.startswith("ready "), f"{text}: {line}{'' if line else process.stderr.read()}")
        return line.split()[1:]

    def client(self, text, urls):
        """A client as it is shown, at one of these servers."""
        words = []
        for word in self.words_of(text):
            shown_url = re.match(r"((?:nfs\+)?(?:rdma|tcp))://[^/]*(/srv)?(.*)", word)
            if shown_url:
                at = next(url for url in urls if url.startswith(shown_url[1] + "://")).split("/")[2]
                where = f"{self.srv}{shown_url[3]}" if shown_url[2] else shown_url[3]
                word = f"{shown_url[1]}://{at}{where}"
            words.append(word)
        result = subprocess.run([COMMAND, *words], capture_output=True, text=True, cwd=self.root, timeout=BOUND_S,
                                check=False)
        self.assertEqual(result.returncode, 0, f"{text}: {result.stderr}")

    def test_commands_do_what_they_are_shown_for(self):
        commands = list(shown())
        self.assertGreater(len(commands), 30, "the documents are not where they were")
        known = {text for text, _ in commands}
        self.assertEqual(sorted(set(REFUSED) - known), [], "in the table, and nowhere shown")
        run_here = [(text, at) for text, at in commands if text not in REFUSED]
        servers = [text for text, _ in run_here if text.split()[1] == "serve"]
        blob = self.start("rpcrdma serve --blob files --tcp-port 0 --inline 8192 --receive-size 64k")
        nfs = self.start("rpcrdma serve --nfs /srv/data:no_root_squash")
        for text in servers:
            with self.subTest(text):
                self.start(text)
        for text, at in run_here:
            if text in servers:
                continue
            with self.subTest(text, at=at):
                self.client(text, nfs if "nfs+" in text else blob)


if __name__ == "__main__":
    unittest.main()
