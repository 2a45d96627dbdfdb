"""Linux' NFS client in the guest mounts our server by RDMA: siwarp on the host, or verbs in the guest."""
import contextlib
import functools
import re
import signal
import time

from machine import Failure
from session import MIB, scenario

MOUNT = "/mnt/nfs"
RESTARTS = 3
FILES = "/srv/nfs"  # in the guest: on tmpfs, since the root's overlay gives no handles


class Mounted:
    """The export, mounted by the guest's kernel by `command`; `folder` is what is exported, on the server's side."""

    def __init__(self, session, server, folder, command):
        self.session, self.server, self.folder, self.command = session, server, folder, command

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

    def operations(self, name):
        """How many of one procedure the kernel has sent."""
        text = self.session.guest.shell("mountstats", "cat /proc/self/mountstats").out()
        section = text[text.index(f"mounted on {MOUNT} "):]
        return int(re.search(rf"^\s*{name}: (\d+)", section, re.MULTILINE)[1])


# What the kernel says of these is a complaint, but for what it says when modules are loaded.
COMPLAINT = re.compile(r"rpcrdma|rpc|nfs|siw|rxe|WARNING|BUG|Call Trace", re.IGNORECASE)
HARMLESS = re.compile(r"Registered|Registering|NFSD: |loaded|out-of-tree|module verification|FS-Cache|Key type|set active|"
                      r"added eth0")
# And of these where the server goes, or the mount: calls that were killed are told of, too. Linux takes their places
# for new ones before the answers have come, so that once (6.12) a Send found no Receive, and ended its connection; and
# their memory back before the server has read it, so that once (6.1) a Read found no such steering tag.
OUTAGE = re.compile(r"not responding|server \S+ OK|connection to \S+ (closed|via)|RPC call returned error 512|"
                    r"siw: got TERMINATE. layer (1, type 2, code 2|0, type 1, code 0)$")


class KernelLog:
    def __init__(self, guest):
        self.guest, self.mark = guest, f"lab: {guest.scenario}"
        guest.shell("mark", f"echo '{self.mark}' >/dev/kmsg")

    def check(self, has_outage):
        lines = self.guest.shell("dmesg", "dmesg").out().split(self.mark)[-1].splitlines()[1:]
        bad = [line for line in lines if COMPLAINT.search(line) and not HARMLESS.search(line) and
               not (has_outage and OUTAGE.search(line))]
        if bad:
            raise Failure(f"the kernel complains: {bad[0]} ({len(bad)} lines)")


@contextlib.contextmanager
def mount_of(session, server, tcp_port, options="", folder=None):
    """Of its export /data."""
    # As somebody types it who reads what the server prints; and soft, so that no fault of ours stops the guest.
    command = (f"modprobe -a nfs rpcrdma; mkdir -p {MOUNT}; mount -v -t nfs -o vers=3,rdma,"
               f"port={server.port},mountport={tcp_port},mountproto=tcp,nolock,{options or 'soft'} "
               f"{server.address}:/data {MOUNT}")
    session.guest.shell("mount", command, 60)
    try:
        yield Mounted(session, server, folder, command)
    finally:
        session.guest.run("umount", ["bash", "-c", f"umount {MOUNT} || umount -f -l {MOUNT}"], status=None)


@contextlib.contextmanager
def mounted(session, server_peer, options="", serve_options=(), folder=None, has_outage=False):
    files = server_peer.side
    if files is session.guest:
        folder = FILES
        files.shell("files", f"mkdir -p {FILES}; mountpoint -q {FILES} || mount -t tmpfs -o size=1200m nfs {FILES}")
    else:
        session.next_port += 1
        folder = files.scratch / f"nfs-{session.next_port}"
        files.run("mkdir", ["mkdir", "-p", folder])
    tcp_port = session.next_port + 1000
    log = KernelLog(session.guest)
    what = ("--nfs", f"{folder}:rw,no_root_squash", "--export", "/data", "--nfs-tcp-port", tcp_port,
            "--handle-key", files.scratch / "handle-key", *serve_options)
    with server_peer.serve(what=what) as server, mount_of(session, server, tcp_port, options, folder) as made:
        yield made
    if files is session.guest:
        files.shell("files", f"umount {FILES}")
    log.check(has_outage)


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
        # 186 to 432 s were seen, more beside other work; the limit is for a suite that hangs.
        return mount.shell("posix", f"{suite} --verbose {MOUNT}", 1200).out().strip().splitlines()[-1]


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


def restarted(session, server_peer):
    """The server is killed and started again under load, and the mount is hard: what was written is there."""
    with mounted(session, server_peer, "hard,timeo=100,retrans=3", has_outage=True) as mount:
        # The large file is written unstable, and committed once at its end; the small ones each at its own.
        load = session.guest.start("load", ["bash", "-ec", f"""
            cd {MOUNT}; head -c 64M /dev/urandom >/dev/shm/big; (cd /dev/shm; sha256sum big) >/tmp/sums
            {{ dd if=/dev/shm/big of=big bs=256k conv=fsync 2>/dev/null; touch /tmp/big-is-done; }} &
            n=0; until [ -e /tmp/big-is-done ] && [ $n -ge 60 ]; do
              head -c 200000 /dev/urandom >/dev/shm/f$n; dd if=/dev/shm/f$n of=f$n bs=64k conv=fsync 2>/dev/null
              (cd /dev/shm; sha256sum f$n) >>/tmp/sums; cmp f$n /dev/shm/f$n; rm /dev/shm/f$n; n=$((n + 1)); echo $n
            done; wait
            echo 3 >/proc/sys/vm/drop_caches; sha256sum --quiet -c /tmp/sums; rm /tmp/big-is-done /dev/shm/big; echo all"""])
        waited = []
        for _ in range(RESTARTS):
            before = len(load.out().splitlines())
            wait_until(load, lambda: len(load.out().splitlines()) >= before + 5, 120)
            mount.server.kill()
            start = time.monotonic()
            mount.server.begin_again()
            after = len(load.out().splitlines())
            wait_until(load, lambda: len(load.out().splitlines()) > after, 120)
            waited.append(time.monotonic() - start)
        load.expect(300)
        if "all" not in load.out().splitlines():
            raise load.failure("did not come to its end")
        # What the server has, not what a client remembers.
        sums = f"{session.guest.shared}/sums"
        session.guest.shell("sums", f"cp /tmp/sums {sums}")
        server_peer.side.shell("compare", f"cd {mount.folder}; sha256sum --quiet -c {server_peer.side.shared}/sums")
        stats = mount.stats()
    return f"{RESTARTS} restarts, on again after {max(waited):.0f} s at most; {stats['connect_count']} connections"


def wait_until(program, condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if program.status() is not None:
            raise program.failure(f"ended with {program.status()} too early")
        if time.monotonic() > end:
            raise program.failure(f"did not go on for {seconds} s")
        time.sleep(0.05)


def torn_down(session, server_peer):
    """A mount that is torn down under load, by force: the server goes on, and what was synced is there."""
    with mounted(session, server_peer, has_outage=True) as mount:
        mount.shell("first", f"cp {session.guest.shared}/random first; sync first")
        load = session.guest.start("load", ["bash", "-c", f"cd {MOUNT}; while :; do cat /dev/zero >more; done"])
        wait_until(load, lambda: mount.stats()["read_chunks"] > 40, 60)
        session.guest.run("umount", ["bash", "-c", f"umount -f {MOUNT}; umount -l {MOUNT}"], status=None)
        load.signal(signal.SIGKILL)
        load.wait(60)
        session.guest.shell("mount", mount.command, 60)
        mount.shell("again", f"cmp first {session.guest.shared}/random; rm -f more; echo on >second; sync second")
    return "the next mount finds what was synced"


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
                           (loads, "fio with verify, stress-ng"),
                           (restarted, "server killed and started again under load, hard mount: no byte lost"),
                           (torn_down, "a mount torn down by force under load; the next one")):
        scenario(f"nfs-{function.__name__.replace('_', '-')}-{name}", f"Linux → {who}", what, devices=devices)(
            functools.partial(lambda session, function, peer: function(session, peer(session)),
                              function=function, peer=peer))
