"""Linux' NFS client in the guest uses one tree on CephFS through one gateway on the host, then through another one."""
import contextlib
import shutil
import sys

from machine import Absent, Failure
from scenarios.nfs import MOUNT, KernelLog, mount_of
from session import scenario

PLUG_IN = "librpcrdma_nfs_ceph.so"
CLUSTER_SECONDS = 180  # everything is slow beside an emulated machine


class Site:
    """A cluster on the host's loopback, and gateways of the same directory with the same key."""

    def __init__(self, session):
        self.session, self.host = session, session.host
        self.tests = session.build.parent / "tests"
        if not (session.build / "lib" / PLUG_IN).exists():
            raise Absent("no exports on CephFS in this build: libcephfs-dev was not there when it was configured")
        if shutil.which("ceph-mon") is None:
            raise Absent("no ceph-mon here; scripts/setup.sh ceph installs it")
        self.folder = self.host.scratch / "ceph"
        self.conf = self.host.start("ceph", [sys.executable, self.tests / "ceph" / "cluster.py", self.folder]).wait_for(
            r"^ready (\S+)", CLUSTER_SECONDS)[1]

    @contextlib.contextmanager
    def gateway(self):
        """(The server, the port of NFS and MOUNT by TCP.)"""
        tcp_port = self.session.next_port + 1000
        what = ("--nfs", f"ceph:/:conf={self.conf},id=nfs,rw,no_root_squash", "--export", "/data", "--nfs-tcp-port", tcp_port,
                "--handle-key", self.host.scratch / "gateways.key")
        with self.session.host_siwarp().serve(what=what) as server:
            yield server, tcp_port

    def seen(self, mount):
        return mount.session.guest.run("seen", [self.tests / "interop" / "lab" / "tree_seen.py", MOUNT], 120).out()


def expect_same(what, one, other):
    if one == other:
        return
    lines = [f"{a!r} and {b!r}" for a, b in zip(one.splitlines(), other.splitlines()) if a != b]
    raise Failure(f"{what}: {lines[0] if lines else 'one has more files'}")


@scenario("nfs-two-gateways", "Linux → two host gateways on CephFS", "one tree by one gateway, then by the other: same contents, "
          "same handles; one dies", devices=("siw",))
def two_gateways(session):
    site = Site(session)
    log = KernelLog(session.guest)
    with site.gateway() as (first, first_tcp), site.gateway() as (second, second_tcp):
        with mount_of(session, first, first_tcp) as mount:
            mount.shell("write", f"cp -a /usr/lib/python3.11/email tree; cp {session.guest.shared}/random random; "
                                 "ln -s random link; ln random tree/name; mkfifo pipe; sync", 300)
            by_first = site.seen(mount)
        with mount_of(session, second, second_tcp) as mount:
            by_second = site.seen(mount)
            expect_same("the second gateway shows something else", by_first, by_second)
            first.kill()
            mount.shell("change", "cp -a tree/mime moved; rm -r tree/mime; mv moved tree/mime; echo more >>random; "
                                  "chmod 640 random; sync", 300)
            by_second = site.seen(mount)
        if by_first == by_second:
            raise Failure("nothing was changed")
        first.begin_again()
        with mount_of(session, first, first_tcp) as mount:
            expect_same("after its death the first gateway shows something else", by_second, site.seen(mount))
            mount.shell("compare", f"diff -r --no-dereference tree/mime /usr/lib/python3.11/email/mime; "
                                   f"cmp -n {16 << 20} random {session.guest.shared}/random")
    log.check(has_outage=False)
    files = len(by_first.splitlines())
    return f"{files} files with the same handles by both; the first was killed, and serves them again"
