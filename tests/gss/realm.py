#!/usr/bin/env python3
"""A Kerberos realm of its own for tests: MIT's KDC on the loopback, keytabs, users with tickets; root or not.

usage: realm.py [--life 10h] [--hosts localhost] [--users alice,bob] DIR|--temporary [COMMAND…]

Makes the realm in the empty or missing DIR and runs the COMMAND in its environment, or waits for Ctrl-C. The KDC is a child
of this process and ends with it. Everything lies below DIR, and no file of the system is read or written:

  krb5.conf        HOST.keytab: keys of nfs/HOST and host/HOST        USER.keytab, USER.ccache: key and tickets of USER
"""
import argparse
import contextlib
import ctypes
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

REALM = "LAB.TEST"
READY_S = 30
SYSTEM_PATH = "/usr/sbin:/sbin"  # where Debian keeps a KDC's tools
# With the first the Linux of the lab works; SHA-2 ones from 6.3 on.
ENCTYPES = "aes256-cts-hmac-sha1-96 aes128-cts-hmac-sha1-96"


class Missing(Exception):
    """Of MIT's programs."""


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def free_port():
    """One that nobody has, for TCP or UDP."""
    while True:
        port = random.randrange(20000, 32000)
        try:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(socket.AF_INET, kind) as attempt:
                    attempt.bind(("127.0.0.1", port))
            return port
        except OSError:
            continue


class Realm:
    def __init__(self, folder, hosts=("localhost",), users=("alice", "bob"), life="10h", address="127.0.0.1",
                 enctypes=ENCTYPES):
        self.folder = pathlib.Path(folder).resolve()
        self.hosts, self.users, self.life = hosts, users, life
        self.path = os.environ.get("PATH", "") + ":" + SYSTEM_PATH
        for tool in ("krb5kdc", "kdb5_util", "kadmin.local", "kinit"):
            if shutil.which(tool, path=self.path) is None:
                raise Missing(f"{tool} is missing; scripts/setup.sh check installs it")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.address = (address, free_port())
        self.kdc = None
        self._write(enctypes)
        self._make()
        self.start()
        self.tickets()

    def environment(self, user=None):
        """What a program needs in it; with a user, also their tickets."""
        made = {name: value for name, value in os.environ.items() if not name.startswith(("KRB5", "RPCRDMA_TEST_REALM"))}
        made.update(PATH=self.path, KRB5_CONFIG=str(self.folder / "krb5.conf"), RPCRDMA_TEST_REALM=str(self.folder),
                    KRB5_KTNAME=f"FILE:{self.folder}/{self.hosts[0]}.keytab",
                    KRB5RCACHENAME=f"file2:{self.folder}/rcache", KRB5CCNAME=f"FILE:{self.folder}/{user or 'nobody'}.ccache")
        return made

    def _write(self, enctypes):
        where = f"{self.address[0]}:{self.address[1]}"
        domains = "\n".join(f"{host} = {REALM}" for host in self.hosts)
        (self.folder / "krb5.conf").write_text(f"""[libdefaults]
default_realm = {REALM}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
qualify_shortname = ""
permitted_enctypes = {enctypes}
ticket_lifetime = {self.life}
[realms]
{REALM} = {{
kdc = {where}
}}
[domain_realm]
{domains}
""")
        kinds = " ".join(f"{each}:normal" for each in enctypes.split())
        (self.folder / "kdc.conf").write_text(f"""[kdcdefaults]
kdc_listen = {where}
kdc_tcp_listen = {where}
[realms]
{REALM} = {{
database_name = {self.folder}/principal
key_stash_file = {self.folder}/stash
supported_enctypes = {kinds}
master_key_type = aes128-cts
max_life = {self.life}
max_renewable_life = 0
}}
[logging]
kdc = FILE:{self.folder}/kdc.log
""")

    def _run(self, *command, text=None, environment=None):
        done = subprocess.run(list(map(str, command)), input=text, capture_output=True, text=True, timeout=READY_S,
                              check=False, env=environment or self._kdc_environment())
        if done.returncode != 0 or "while" in done.stderr:
            raise RuntimeError(f"{command[0]}: {done.stderr.strip()}")

    def _kdc_environment(self):
        return {**self.environment(), "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf")}

    def _make(self):
        self._run("kdb5_util", "create", "-s", "-P", random.randbytes(8).hex())
        keytabs = {f"{host}.keytab": [f"nfs/{host}", f"host/{host}"] for host in self.hosts}
        keytabs.update({f"{user}.keytab": [user] for user in self.users})
        lines = []
        for keytab, principals in keytabs.items():
            for each in principals:
                lines += [f"addprinc -randkey {each}", f"ktadd -norandkey -k {self.folder / keytab} {each}"]
        self._run("kadmin.local", text="".join(f"{line}\n" for line in lines))  # for the price of one start

    def start(self):
        with open(self.folder / "kdc.out", "ab") as log:
            self.kdc = subprocess.Popen(["krb5kdc", "-n"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                        env=self._kdc_environment(), preexec_fn=die_with_parent)
        limit, pause = time.monotonic() + READY_S, threading.Event()
        while True:
            try:
                socket.create_connection(self.address, READY_S).close()
                return
            except OSError:
                if self.kdc.poll() is not None or time.monotonic() > limit:
                    raise RuntimeError(f"the KDC does not start; see {self.folder}/kdc.out") from None
            pause.wait(0.01)

    def tickets(self, life=None):
        """New ones for the users; those of before last as long as the realm says."""
        for user in self.users:
            self._run("kinit", *(("-l", life) if life else ()), "-k", "-t", self.folder / f"{user}.keytab", user,
                      environment=self.environment(user))

    def pause(self):
        """It says nothing any more."""
        self.kdc.send_signal(signal.SIGSTOP)

    def resume(self):
        self.kdc.send_signal(signal.SIGCONT)

    def stop(self):
        if self.kdc.poll() is None:
            self.resume()
            self.kdc.terminate()
        self.kdc.wait(timeout=READY_S)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--life", default="10h")
    parser.add_argument("--hosts", default="localhost")
    parser.add_argument("--users", default="alice,bob")
    parser.add_argument("--temporary", action="store_true", help="in a folder that goes with it, not in DIR")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="DIR COMMAND")
    options = parser.parse_args()
    if not options.temporary and not options.words:
        parser.error("DIR is missing, or --temporary")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rpcrdma-realm.")) if options.temporary else \
            options.words.pop(0)
        return run(options, folder)


def run(options, folder):
    try:
        realm = Realm(folder, options.hosts.split(","), options.users.split(","), options.life)
    except Missing as error:
        sys.exit(f"realm: {error}")
    try:
        if options.words:
            return subprocess.run(options.words, env=realm.environment(realm.users[0]), check=False).returncode
        print(f"ready {realm.folder}", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        realm.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
