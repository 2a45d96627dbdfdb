#!/usr/bin/env python3
"""A whole Ceph file system on the loopback, in one directory, for tests: monitor, manager, object stores, metadata.

usage: cluster.py DIR [--stores N]     runs it until Ctrl-C; prints the configuration's path when it is ready

Its daemons are children of this process, and end with it. A store's device is a sparse file of 8 GiB. There are two
copies of everything when there are two stores or more, and one is enough to go on.
"""
import argparse
import ctypes
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid

NAME = "lab"  # of the file system, and of its monitor, manager and server of metadata
USER = "nfs"  # what gateways are
READY_S = 60
PORTS = 60

# Beside the defaults, which are for clusters of many machines: what makes small ones quick.
SETTINGS = """
ms_bind_msgr1 = false
auth_allow_insecure_global_id_reclaim = false
osd_pool_default_min_size = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_osd_min_down_reporters = 1
mon_allow_pool_size_one = true
mon_data_avail_crit = 0
paxos_propose_interval = 0.05
bdev_aio_poll_ms = 10
bluestore_block_size = 8G
bluestore_fsck_on_mkfs = false
bluestore_cache_autotune = false
bluestore_cache_size = 64M
objecter_tick_interval = 1
objecter_timeout = 2
"""
# What docs/scale-out.md tells sites to set, for gateways that die and are not started again.
METADATA_SETTINGS = """
mds_tick_interval = 1
mds_cap_revoke_eviction_timeout = 5
mds_reconnect_timeout = 5
"""


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def free_ports(count):
    """The first of so many ports that nobody has."""
    while True:
        first = random.randrange(20000, 32000 - count)
        try:
            for port in range(first, first + count):
                with socket.socket() as attempt:
                    attempt.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue


class Cluster:
    def __init__(self, folder, stores=1, metadata_settings=METADATA_SETTINGS):
        self.folder = pathlib.Path(folder).resolve()
        self.stores = stores
        self.conf = self.folder / "ceph.conf"
        self.processes = {}
        self.names = [f"mon.{NAME}", f"mgr.{NAME}", *(f"osd.{i}" for i in range(stores)), f"mds.{NAME}"]
        for tool in ("ceph-mon", "ceph-mgr", "ceph-osd", "ceph-mds", "ceph", "ceph-authtool"):
            if shutil.which(tool) is None:
                raise RuntimeError(f"{tool} is missing; scripts/setup.sh ceph installs it")
        for each in ("log", "run", "crash", "mon", "modules", *(f"osd.{i}" for i in range(stores))):
            (self.folder / each).mkdir(parents=True, exist_ok=True)
        self.first_port = free_ports(PORTS)
        self._write_configuration(metadata_settings)
        self._make()

    # --- Making it ---

    def _write_configuration(self, metadata_settings):
        daemons = "\n".join(f"[{kind}]\nlog_file = {self.folder}/log/$name.log\n"
                            f"admin_socket = {self.folder}/run/$name.asok" for kind in ("mon", "mgr", "osd", "mds"))
        self.fsid = str(uuid.uuid4())
        self.conf.write_text(
            f"[global]\nfsid = {self.fsid}\nmon_host = [v2:127.0.0.1:{self.first_port}/0]\n"
            f"public_addr = 127.0.0.1\ncluster_addr = 127.0.0.1\n"
            f"ms_bind_port_min = {self.first_port + 1}\nms_bind_port_max = {self.first_port + PORTS - 1}\n"
            f"keyring = {self.folder}/keyring\nosd_pool_default_size = {2 if self.stores > 1 else 1}\n"
            f"mgr_module_path = {self.folder}/modules\ncrash_dir = {self.folder}/crash\n"
            f"mon_data = {self.folder}/mon\nosd_data = {self.folder}/osd.$id\n"
            f"mon_cluster_log_file = {self.folder}/log/cluster.log\n{SETTINGS}{metadata_settings}{daemons}\n")

    def _run(self, *command, text=None):
        done = subprocess.run(list(map(str, command)), input=text, capture_output=True, text=True, timeout=READY_S,
                              check=False, env={**os.environ, "CEPH_ARGS": ""})
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr[-2000:]}")
        return done.stdout

    def ceph(self, *words, text=None):
        return self._run("ceph", "-c", self.conf, "--connect-timeout", 10, *words, text=text)

    def _key(self, name, **rights):
        caps = [word for service, text in rights.items() for word in ("--cap", service, text)]
        keyring = self.folder / "keyring"
        fresh = [] if keyring.exists() else ["--create-keyring"]
        self._run("ceph-authtool", *fresh, keyring, "--gen-key", "-n", name, *caps)

    def _make(self):
        everything = "allow *"
        self._key("mon.", mon=everything)
        self._key("client.admin", mon=everything, mgr=everything, osd=everything, mds=everything)
        self._key(f"client.{USER}", mon="allow r", osd=f"allow rw tag cephfs data={NAME}", mds="allow rwps")
        self._key(f"mgr.{NAME}", mon="allow profile mgr", osd=everything, mds=everything)
        self._key(f"mds.{NAME}", mon="allow profile mds", mgr="allow profile mds", osd="allow rw tag cephfs *=*",
                  mds="allow")
        for i in range(self.stores):
            self._key(f"osd.{i}", mon="allow profile osd", mgr="allow profile osd", osd=everything)
        monmap = self.folder / "monmap"
        self._run("monmaptool", "--create", "--clobber", "--fsid", self.fsid, "--addv", NAME,
                  f"[v2:127.0.0.1:{self.first_port}]", monmap)
        self._run("ceph-mon", "-c", self.conf, "-i", NAME, "--mkfs", "--monmap", monmap, "--keyring",
                  self.folder / "keyring")
        self.start(f"mon.{NAME}")
        commands = []
        for i in range(self.stores):
            store = str(uuid.uuid4())
            self._run("ceph-osd", "-c", self.conf, "-i", i, "--mkfs", "--osd-uuid", store, "--no-mon-config")
            commands.append(f"osd new {store}")
        commands += [f"osd pool create {NAME}.meta 8", f"osd pool create {NAME}.data 8",
                     f"fs new {NAME} {NAME}.meta {NAME}.data"]
        self.ceph(text="".join(f"{line}\n" for line in commands))  # for the price of one client's start
        for name in self.names[1:]:
            self.start(name)
        self.wait_until_ready()

    # --- Its daemons ---

    def start(self, name):
        kind, number = name.split(".")
        log = open(self.folder / "log" / f"{name}.out", "ab")  # pylint: disable=consider-using-with
        self.processes[name] = subprocess.Popen(
            [f"ceph-{kind}", "-f", "-c", self.conf, "-i", number], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            preexec_fn=die_with_parent, env={**os.environ, "CEPH_ARGS": ""})
        log.close()

    def kill(self, name):
        self.processes[name].kill()
        self.processes[name].wait(timeout=READY_S)

    def pause(self, name):
        self.processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name):
        self.processes[name].send_signal(signal.SIGCONT)

    def is_ready(self):
        state = json.loads(self.ceph("-s", "--format", "json"))
        metadata = [each["status"] for each in state["fsmap"]["by_rank"]]
        return (state["osdmap"]["num_up_osds"] == self.stores and metadata == ["up:active"] and
                state["pgmap"]["bytes_total"] > 0)

    def wait_until_ready(self):
        limit = time.monotonic() + READY_S
        pause = threading.Event()
        while not self.is_ready():
            for name, process in self.processes.items():
                # One that is started again may find the lock of the one before.
                if process.poll() is not None:
                    self.start(name)
            if time.monotonic() > limit:
                raise RuntimeError(f"the cluster does not become ready; see {self.folder}/log")
            pause.wait(0.2)

    def stop(self):
        for name in reversed(self.names):
            process = self.processes.get(name)
            if process is None or process.poll() is not None:
                continue
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(timeout=3)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--stores", type=int, default=1)
    options = parser.parse_args()
    started = time.monotonic()
    cluster = Cluster(options.folder, options.stores)
    try:
        print(f"ready {cluster.conf} ({time.monotonic() - started:.1f} s)", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        cluster.stop()


if __name__ == "__main__":
    sys.exit(main())
