"""`rpcrdma mount` in the guest, by root and by a user, over the RDMA device: at our server, and at Linux'."""
import contextlib
import functools
import re
import signal
import time

from machine import Failure
from scenarios.knfsd import start_knfsd
from scenarios.nfs import FILES, KernelLog, wait_until
from scenarios.nfs_client import ALLOW
from scenarios.nfs_client import EXPORT as KNFSD_FILES
from session import scenario

AT = "/mnt/rpcrdma"
USER = 1234
TIMEO = 1200  # tenths of seconds of a request: the guest may be emulated
SHORT_TIMEO = 50
RESTARTS = 2


class Mount:
    """An export in the guest's files by the command, which stays in the foreground."""

    def __init__(self, session, peer, url, options, user=None):
        self.session, self.guest, self.user = session, session.guest, user
        owner = user or 0
        # As udev does on a machine that has it; and fusermount3 asks for the user's name.
        self.guest.shell("place", f"modprobe fuse; chmod 666 /dev/fuse /dev/infiniband/uverbs* /dev/infiniband/rdma_cm\n"
                                  f"grep -q ^lab: /etc/passwd || echo lab:x:{USER}:{USER}::/tmp:/bin/sh >>/etc/passwd\n"
                                  f"mkdir -p {AT}; chown {owner} {AT}")
        words = [session.build / "bin" / "rpcrdma", "mount", "--provider", peer.provider, *peer.options, url, AT, "-f", "--stats",
                 "-o", options]
        self.program = self.guest.start("mount", [*self.as_owner(), *words])
        self.program.wait_for("^ready", 60, in_log=True)

    def as_owner(self):
        return ["setpriv", "--reuid", self.user, "--regid", self.user, "--clear-groups"] if self.user else []

    def start(self, label, text):
        return self.guest.start(label, [*self.as_owner(), "bash", "-ec", f"cd {AT}\n{text}"], {"HOME": "/tmp"})

    def shell(self, label, text, seconds=300):
        return self.start(label, text).expect(seconds)

    def forget_pages(self):
        self.guest.shell("forget", "sync; echo 3 >/proc/sys/vm/drop_caches")

    def end(self):
        """Unmounts, as its owner does. Returns the counts that it says at the end."""
        self.guest.run("umount", [*self.as_owner(), *(["fusermount3", "-u", AT] if self.user else ["umount", AT])])
        self.program.expect(60)
        return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", self.program.err(), re.MULTILINE)}


@contextlib.contextmanager
def mounted(session, url, options="", user=None, peer=None):
    log = KernelLog(session.guest)
    made = Mount(session, peer or session.guest_verbs(), url, ",".join(filter(None, (f"timeo={TIMEO}", options))), user)
    try:
        yield made
    except Failure:
        session.guest.run("umount", ["umount", "-l", AT], status=None)
        raise
    log.check(has_outage=True)


@contextlib.contextmanager
def ours(session, peer):
    """Our server, with a folder of its own; yields it, the folder and what else is to be served like it."""
    session.next_port += 1
    if peer.side is session.guest:
        folder = FILES
        peer.side.shell("files", f"mkdir -p {FILES}; mountpoint -q {FILES} || mount -t tmpfs -o size=800m nfs {FILES}\n"
                                 f"rm -rf {FILES}/*; chmod 777 {FILES}")
    else:
        folder = peer.side.scratch / f"mounted-{session.next_port}"
        peer.side.run("mkdir", ["mkdir", "-p", "-m", "777", folder])
    what = ("--nfs", f"{folder}:rw,no_root_squash", "--export", "/data", "--handle-key", peer.side.scratch / "handle-key")
    with peer.serve(what=what) as server:
        yield server, folder, what


SQLITE = """
import sqlite3
for mode in ("delete", "persist"):
    with sqlite3.connect("db") as database:
        database.execute(f"pragma journal_mode={mode}")
        database.execute("create table if not exists t (a integer primary key, b text)")
    for i in range(30):
        with database:
            database.execute("insert into t (b) values (?)", ("x" * i * 50,))
    assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
    database.close()
assert sqlite3.connect("db").execute("select count(*) from t").fetchone() == (60,)
"""


def programs(mount):
    """What people do in a folder: cp, tar, rsync and git both ways, sqlite with its journal, fio with verify."""
    shared = mount.guest.shared
    mount.shell("bytes", f"""
        cp {shared}/random r; cmp r {shared}/random; echo hello >a; ln -s a l; [ "$(cat l)" = hello ]; ln a h
        [ "$(stat -c %h a)" = 2 ]; mkdir -p d/e; mv a d/e/b; [ "$(cat d/e/b)" = hello ]; df . >/dev/null; ls -la""")
    mount.forget_pages()
    mount.shell("again", f"cmp r {shared}/random; rm -r r d l h")
    mount.shell("trees", """
        lib=/usr/lib/python3.11; own=$(mktemp -d); mkdir t; tar -C $lib -cf - email json | tar -C t -xf -
        diff -r $lib/email t/email; tar -C t -cf - email json | tar -C $own -xf -; diff -r $own t
        rsync -a $lib/email/ r/; rsync -ac --dry-run --itemize-changes $lib/email/ r/ >$own/changes; [ ! -s $own/changes ]
        rsync -ac r/ $own/back/; diff -r $lib/email $own/back; rm -rf t $own""")
    mount.shell("git", """
        git="git -c user.email=a@b -c user.name=n -c safe.directory=*"; $git init -q g; cp -a r g/; cd g; $git add -A
        $git commit -qm one; cd ..; $git clone -q --no-hardlinks g h; echo more >h/more; $git -C h add .
        $git -C h commit -qm two; $git -C h gc -q; $git -C h fsck --strict; diff -r g/r h/r; rm -rf r g h""")
    mount.shell("sqlite", f"python3 - <<'END'\n{SQLITE}END\nrm db*")
    for engine, direct in (("psync", 0), ("psync", 1), ("mmap", 0)):
        mount.shell(f"fio-{engine}-{direct}", f"""
            fio --name=v --rw=randrw --bs=4k --size=1m --verify=crc32c --do_verify=1 --verify_fatal=1 --end_fsync=1 \
                --verify_state_save=0 --ioengine={engine} --direct={direct} --output=/tmp/fio-$UID; rm v.*""")
    mount.shell("left", 'ls -A; [ -z "$(ls -A)" ]')


def note(counts):
    """How much went by RDMA, which has to be something: a mount by another way would pass, too."""
    if not counts.get("read_chunk_count") or not counts.get("write_chunk_count"):
        raise Failure(f"the mount counts {counts}")
    return f"{counts['read_chunk_count']} Read, {counts['write_chunk_count']} Write chunks"


def run_programs(session, user=None, peer=None):
    with ours(session, peer or session.guest_verbs()) as (server, _, _), mounted(session, server.url, user=user) as mount:
        programs(mount)
        return note(mount.end())


def run_programs_at_knfsd(session):
    url = start_knfsd(session).replace("rdma://", "nfs+rdma://") + KNFSD_FILES
    session.guest.shell("export", ALLOW)
    with mounted(session, url) as mount:
        programs(mount)
        return note(mount.end())


def posix(session, url, but=""):
    suite = f"{session.build.parent}/tests/interop/lab/posix_suite.py"
    # Some checks take other users' places. What is left out always is in docs/mount.md under "What is not there".
    with mounted(session, url, "allow_other,dev,suid") as mount:
        text = f"{suite} --verbose --only '^(?!a_folder_that_is_not_searched|{but or '-'})' {AT}"
        said = mount.shell("posix", text, 1800).out().strip().splitlines()[-1]
        mount.end()
        return said


def posix_at_ours(session):
    with ours(session, session.guest_verbs()) as (server, _, _):
        return posix(session, server.url)


def posix_at_knfsd(session):
    url = start_knfsd(session).replace("rdma://", "nfs+rdma://") + KNFSD_FILES
    session.guest.shell("export", ALLOW)
    # tmpfs of Linux 6.1 counts a directory's names from its beginning, so that those behind a removed one get other cookies.
    return posix(session, url, but="removing_while_listing")


# Large files are committed once at their end, small ones each at its own.
LOAD = f"""
rm -f /tmp/big-is-done; head -c 24M /dev/urandom >/dev/shm/big; (cd /dev/shm; sha256sum big) >/tmp/mount-sums
{{ dd if=/dev/shm/big of=big bs=256k conv=fsync 2>/dev/null; touch /tmp/big-is-done; }} &
n=0; until [ -e /tmp/big-is-done ] && [ $n -ge 40 ]; do
  head -c 100000 /dev/urandom >/dev/shm/f$n; cp /dev/shm/f$n f$n; cmp f$n /dev/shm/f$n
  (cd /dev/shm; sha256sum f$n) >>/tmp/mount-sums; rm /dev/shm/f$n; n=$((n + 1)); echo $n
done; wait; rm -f /dev/shm/big; sha256sum --quiet -c /tmp/mount-sums; echo all
"""


class Load:
    """Programs that write and compare, while servers come and go."""

    def __init__(self, mount):
        self.mount, self.program = mount, mount.start("load", LOAD)

    def lines(self):
        return len(self.program.out().splitlines())

    def wait_for_more(self, count):
        end = self.lines() + count
        wait_until(self.program, lambda: self.lines() >= end or "all" in self.program.out(), 120)

    def end(self, folder):
        """All has to have been written, and to be at the server, whatever a client remembers."""
        self.program.expect(300)
        if "all" not in self.program.out().splitlines():
            raise self.program.failure("did not come to its end")
        self.mount.guest.shell("compare", f"cd {folder}; sha256sum --quiet -c /tmp/mount-sums")


def restarted(session):
    with ours(session, session.guest_verbs()) as (server, folder, _), mounted(session, server.url) as mount:
        load, waited = Load(mount), []
        for _ in range(RESTARTS):
            load.wait_for_more(5)
            server.kill()
            start = time.monotonic()
            server.begin_again()
            load.wait_for_more(1)
            waited.append(time.monotonic() - start)
        load.end(folder)
        mount.end()
    return f"{RESTARTS} restarts, on again after {max(waited):.0f} s at most"


def second_host(session):
    peer = session.guest_verbs()
    with ours(session, peer) as (first, folder, what), peer.serve(what=what) as second:
        hosts = ",".join(each.url.split("/")[2] for each in (first, second))
        with mounted(session, f"nfs+rdma://{hosts}/data") as mount:
            load = Load(mount)
            load.wait_for_more(5)
            first.kill()
            start = time.monotonic()
            load.wait_for_more(1)
            waited = time.monotonic() - start
            load.end(folder)
            mount.end()
    return f"on again after {waited:.0f} s"


# Prints how each ends, and after how many seconds.
AFTER = """
import errno, os, time
def tried(name, function):
    begin = time.monotonic()
    try:
        function()
        print(name, "OK", flush=True)
    except OSError as error:
        print(name, errno.errorcode[error.errno], f"{time.monotonic() - begin:.0f}", flush=True)
file = os.open("file", os.O_WRONLY)
print("open", flush=True)
input()
tried("write", lambda: os.write(file, b"x" * 100000))
tried("close", lambda: os.close(file))
tried("stat", lambda: os.stat("nothing"))
tried("create", lambda: os.open("new", os.O_CREAT | os.O_WRONLY))
"""
WAITED_MAX = 4 * SHORT_TIMEO / 10  # seconds of one system call, which may be several requests


def gone(session):
    """The server is gone for good: errors in time, no program that cannot be killed, and the mount goes."""
    with ours(session, session.guest_verbs()) as (server, _, _):
        with mounted(session, server.url, f"timeo={SHORT_TIMEO}") as mount:
            mount.shell("file", "echo hello >file")
            program = mount.start("after", f"mkfifo -m 666 /tmp/go-$$; exec 9<>/tmp/go-$$; echo $$ >/tmp/go\n"
                                           f"exec python3 -c '{AFTER}' <&9")
            program.wait_for("open", 60)
            server.kill()
            mount.guest.shell("go", "echo go >/tmp/go-$(cat /tmp/go)")
            ended = dict(re.findall(r"^(close|stat|create) (\w+)", program.expect(120).out(), re.MULTILINE))
            waited = max(map(int, re.findall(r"^\w+ \w+ (\d+)$", program.out(), re.MULTILINE)))
            if set(ended) != {"close", "stat", "create"} or not set(ended.values()) <= {"EIO", "ETIMEDOUT"}:
                raise program.failure(f"saw {ended}")
            if waited > WAITED_MAX:
                raise program.failure(f"waited {waited} s for a call")
            waiting = mount.start("waiting", "exec stat nothing-else")
            session.guest.shell("seen", f"until grep -q request_wait /proc/$(pidof stat)/wchan; do sleep 0.1; done", 30)
            waiting.signal(signal.SIGKILL)
            waiting.wait(30)
            mount.end()
    return f"errors after {waited} s at most; {', '.join(f'{name} {code}' for name, code in ended.items())}"


for name, peers, devices, function in (
        ("verbs", "guest verbs → guest verbs", ("siw", "rxe"), run_programs),
        ("user-verbs", "guest verbs → guest verbs", ("siw", "rxe"), functools.partial(run_programs, user=USER)),
        ("knfsd-verbs", "guest verbs → knfsd", ("siw", "rxe"), run_programs_at_knfsd),
        ("siwarp", "guest verbs → host siwarp", ("siw",), lambda session: run_programs(session, peer=session.host_siwarp()))):
    by = "a user, by fusermount3" if name.startswith("user") else "root"
    scenario(f"mount-{name}", peers, f"rpcrdma mount by {by}: cp, tar, rsync, git, sqlite, fio with verify", devices)(function)

# Five minutes each where the guest is emulated, so that each has one device.
scenario("mount-posix-verbs", "guest verbs → guest verbs", "rpcrdma mount: our POSIX suite", ("siw",))(posix_at_ours)
scenario("mount-posix-knfsd", "guest verbs → knfsd", "rpcrdma mount: our POSIX suite", ("rxe",))(posix_at_knfsd)
scenario("mount-restarted-verbs", "guest verbs → guest verbs",
         "rpcrdma mount: server killed and started again under load: no byte lost")(restarted)
scenario("mount-second-host-verbs", "guest verbs → guest verbs", "rpcrdma mount: another host takes over under load")(second_host)
scenario("mount-gone-verbs", "guest verbs → guest verbs",
         "rpcrdma mount: server gone for good: errors in time, programs can be killed, umount works")(gone)
