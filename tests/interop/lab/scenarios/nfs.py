"""Linux' NFS client in the guest mounts our server by RDMA: siwarp on the host, or verbs in the guest."""
import contextlib
import functools
import re

from machine import Failure
from session import MIB, scenario

MOUNT = "/mnt/nfs"
FILES = "/srv/nfs"  # in the guest: on tmpfs, since the root's overlay gives no handles


class Mounted:
    """The export, mounted by the guest's kernel."""

    def __init__(self, session, server, files, folder):
        self.session, self.server, self.files, self.folder = session, server, files, folder

    def shell(self, label, text, seconds=120):
        return self.session.guest.shell(label, f"cd {MOUNT}\n{text}", seconds)

    def stats(self):
        """What the kernel counted: of the mount, the line xprt of RDMA."""
        text = self.session.guest.shell("mountstats", f"cat /proc/self/mountstats").out()
        section = text[text.index(f"mounted on {MOUNT} "):]
        found = re.search(r"xprt:\s+rdma (.*)", section)
        if not found:
            raise Failure("the mount is not by RDMA")
        names = ("port bind_count connect_count connect_time idle_time sends recvs bad_xids req_u bklog_u read_chunks "
                 "write_chunks reply_chunks total_rdma_request total_rdma_reply pullup_copy_count "
                 "fixup_copy_count hardway_register_count failed_marshal_count bad_reply_count nomsg_call_count "
                 "mrs_recycled mrs_orphaned mrs_allocated local_inv_needed empty_sendctx_q reply_waits_for_send")
        return dict(zip(names.split(), map(int, found[1].split())))


@contextlib.contextmanager
def mounted(session, server_peer, options="", serve_options=(), folder=None):
    files = server_peer.side
    if files is session.guest:
        folder = FILES
        files.shell("files", f"mkdir -p {FILES}; mountpoint -q {FILES} || mount -t tmpfs -o size=1200m nfs {FILES}")
    else:
        session.next_port += 1
        folder = files.scratch / f"nfs-{session.next_port}"
        files.run("mkdir", ["mkdir", "-p", folder])
    tcp_port = session.next_port + 1000
    what = ("--nfs", f"{folder}:rw,no_root_squash", "--export", "/data", "--nfs-tcp-port", tcp_port,
            "--handle-key", files.scratch / "handle-key", *serve_options)
    with server_peer.serve(what=what) as server:
        # As somebody types it who reads what the server prints; and soft, so that no fault of ours stops the guest.
        session.guest.shell("mount", f"modprobe -a nfs rpcrdma; mkdir -p {MOUNT}; mount -v -t nfs -o vers=3,rdma,"
                            f"port={server.port},mountport={tcp_port},mountproto=tcp,nolock,{options or 'soft'} "
                            f"{server.address}:/data {MOUNT}", 60)
        made = Mounted(session, server, files, folder)
        try:
            yield made
        finally:
            session.guest.run("umount", ["bash", "-c", f"umount {MOUNT} || umount -f -l {MOUNT}"], status=None)
    if files is session.guest:
        files.shell("files", f"umount {FILES}")


def basics(session, server_peer):
    """16 MiB both ways and compared, names of all kinds, attributes."""
    with mounted(session, server_peer) as mount:
        mount.shell("basics", f"""
            echo hello >a; [ "$(cat a)" = hello ]
            cp {session.guest.shared}/random r; sync
            echo 3 >/proc/sys/vm/drop_caches
            cmp r {session.guest.shared}/random
            ln -s a l; [ "$(cat l)" = hello ]; ln a h; [ "$(stat -c %h a)" = 2 ]
            mkdir -p d/e; mv a d/e/b; [ "$(cat d/e/b)" = hello ]; rm -r d l h
            mkfifo f; rm f; df . >/dev/null; ls -la
            """)
        stats = mount.stats()
        if stats["bad_reply_count"] or stats["bad_xids"] or not stats["read_chunks"] or not stats["write_chunks"]:
            raise Failure(f"the kernel counts {stats}")
    return f"{stats['read_chunks']} Read chunks, {stats['write_chunks']} Write chunks"


def posix(session, server_peer):
    """What programs expect of a file system; the same suite passes on tmpfs first."""
    suite = f"{session.build.parent}/tests/interop/lab/posix_suite.py"
    session.guest.shell("tmpfs", f"mkdir -p /tmp/own; mountpoint -q /tmp/own || mount -t tmpfs own /tmp/own; {suite} /tmp/own",
                        180)
    with mounted(session, server_peer) as mount:
        return mount.shell("posix", f"{suite} --verbose {MOUNT}", 400).out().strip().splitlines()[-1]


def trees(session, server_peer):
    """tar, cp, rsync and git, of what the guest has: some thousand small files."""
    with mounted(session, server_peer) as mount:
        mount.shell("trees", """
            lib=/usr/lib/python3.11; mkdir t; tar -C /usr/lib -cf - python3.11 | tar -C t -xf -
            diff -r --no-dereference $lib t/python3.11
            tar -C t -cf - python3.11 | tar -C /usr/lib -df -
            cp -a t/python3.11/encodings c; diff -r --no-dereference c $lib/encodings
            rsync -a $lib/email/ r/; rsync -ac --dry-run --itemize-changes $lib/email/ r/ >/tmp/i; [ ! -s /tmp/i ]
            export HOME=/tmp; git config --global user.email a@b; git config --global user.name n
            git init -q g; cp -a r g/; cd g; git add -A; git commit -qm one; cd ..; git clone -q g h
            git -C h fsck --strict; diff -r g/r h/r; rm -rf t c r g h; [ -z "$(ls -A)" ]""", 900)
        stats = mount.stats()
    return f"{stats['sends']} requests, {stats['bad_reply_count']} bad replies"


def large(session, server_peer):
    """dd of 256 MiB both ways, compared; the reader reads from the server again."""
    with mounted(session, server_peer) as mount:
        text = mount.shell("large", """
            dd if=/dev/urandom of=/dev/shm/big bs=1M count=128 2>/dev/null
            cat /dev/shm/big /dev/shm/big | dd of=big bs=1M iflag=fullblock conv=fsync 2>&1 | tail -1
            echo 3 >/proc/sys/vm/drop_caches
            cat /dev/shm/big /dev/shm/big | cmp - big
            echo 3 >/proc/sys/vm/drop_caches
            dd if=big of=/dev/null bs=1M 2>&1 | tail -1; rm big /dev/shm/big""", 600).out()
        rates = re.findall(r"([\d.]+ [kMG]B/s)", text)
        stats = mount.stats()
    if stats["bad_reply_count"]:
        raise Failure(f"the kernel counts {stats}")
    return f"write {rates[0]}, read {rates[1]}; {stats['read_chunks']} Read, {stats['write_chunks']} Write chunks"


def many(session, server_peer):
    """A folder of 20,000 entries, listed and removed."""
    with mounted(session, server_peer) as mount:
        mount.shell("many", """
            mkdir d; python3 -c 'for i in range(20000): open(f"d/file-{i:05}-with-a-name-of-some-length", "w").close()'
            echo 3 >/proc/sys/vm/drop_caches
            [ "$(ls -f d | wc -l)" = 20002 ]; [ "$(ls -l d | wc -l)" = 20001 ]
            rm -r d; [ -z "$(ls -A)" ]""", 600)
        stats = mount.stats()
    if not stats["reply_chunks"]:
        raise Failure("no Reply chunk was used")
    return f"{stats['reply_chunks']} Reply chunks"


def loads(session, server_peer):
    """fio with its own checks, four writers at once, and stress-ng's tests of files."""
    with mounted(session, server_peer) as mount:
        mount.shell("fio", """
            fio --name=v --rw=randwrite --bs=4k-64k --size=24m --numjobs=4 --verify=crc32c --verify_fatal=1 --end_fsync=1 \
                --group_reporting --output=/tmp/fio; rm -f v.*""", 600)
        mount.shell("stress", """
            stress-ng --temp-path . --timeout 8 --dentry 1 --dir 1 --fallocate 0 --link 1 --rename 1 --seek 1 --symlink 1 \
                --utime 1 --hdd 1 --hdd-bytes 16m --verify --oom-avoid; ls -A""", 300)
        stats = mount.stats()
    return f"{stats['sends']} requests, {stats['bad_reply_count']} bad replies"


for name, peer, devices in (("siwarp", lambda session: session.host_siwarp(), ("siw",)),
                            ("verbs", lambda session: session.guest_verbs(), ("siw", "rxe"))):
    who = "host siwarp" if name == "siwarp" else "guest verbs"
    for function, what in ((basics, "16 MiB both ways, names, attributes"),
                           (posix, "our POSIX suite, which passes on tmpfs first"),
                           (trees, "tar, cp, rsync, git of some thousand files"),
                           (large, "dd of 256 MiB both ways"),
                           (many, "20,000 entries in a folder"),
                           (loads, "fio with verify, stress-ng")):
        scenario(f"nfs-{function.__name__}-{name}", f"Linux → {who}", what, devices=devices)(
            functools.partial(lambda session, function, peer: function(session, peer(session)),
                              function=function, peer=peer))
