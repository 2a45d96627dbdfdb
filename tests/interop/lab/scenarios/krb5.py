"""Kerberos between us and Linux, over RDMA: its client at our server, and ours at its server, in a realm on the host."""
import contextlib
import pathlib
import sys

from machine import HOST_ADDRESS, Failure
from scenarios.knfsd import start_knfsd
from scenarios.nfs import MOUNT, KernelLog, mount_of
from session import scenario

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "gss"))
import realm as kerberos  # noqa: E402

FLAVORS = ("krb5", "krb5i", "krb5p")
USER = "alice"
GSSD_PORT = 2049  # where Linux makes its contexts, by TCP, whatever the mount says
EXPORT = "/srv/knfsd-krb5"


@contextlib.contextmanager
def realm_of(session, daemon):
    """The realm, for programs of both sides; the daemon runs in the guest."""
    host, guest = session.host, session.guest
    folder = f"krb5-{daemon}"
    realm = kerberos.Realm(host.run_folder / folder, hosts=("host.lab", "guest.lab"), users=(USER,), address=HOST_ADDRESS)
    before = dict(host.environment)
    try:
        host.environment.update({name: value for name, value in realm.environment(USER).items() if name.startswith("KRB5")})
        keys = guest.shared / folder
        guest.shell("krb5", f"""
            hostname guest.lab
            printf '127.0.0.1 localhost\\n{session.address[guest]} guest.lab\\n{HOST_ADDRESS} host.lab\\n' >/etc/hosts
            install -m 644 {keys}/krb5.conf /etc/krb5.conf
            install -m 600 {keys}/guest.lab.keytab /etc/krb5.keytab
            id {USER} >/dev/null 2>&1 || useradd -m {USER}
            install -m 600 -o {USER} {keys}/{USER}.ccache /tmp/krb5cc_$(id -u {USER})
            modprobe rpcsec_gss_krb5
            mkdir -p /var/lib/nfs/rpc_pipefs
            mountpoint -q /var/lib/nfs/rpc_pipefs || mount -t rpc_pipefs sunrpc /var/lib/nfs/rpc_pipefs""")
        folder_of_pipes = ("-p", "/var/lib/nfs/rpc_pipefs") if daemon == "gssd" else ()
        guest.start(daemon, [f"rpc.{daemon}", "-f", "-vv", *folder_of_pipes])
        yield realm
    finally:
        host.environment.clear()
        host.environment.update(before)
        realm.stop()


def mount_each(session):
    """Files by root and by a user, in each flavor: both are users of the realm alone, and nobody on the server."""
    log = KernelLog(session.guest)
    folder = session.host.scratch / "krb5-export"
    session.host.shell("files", f"mkdir -p {folder}; chmod 777 {folder}")
    notes = []
    with realm_of(session, "gssd") as realm:
        what = ("--nfs", f"{folder}:rw,sec={':'.join(FLAVORS)}", "--export", "/data", "--nfs-tcp-port", GSSD_PORT,
                "--handle-key", session.host.scratch / "krb5.key", "--keytab", realm.folder / "host.lab.keytab")
        with session.host_siwarp().serve(what=what) as server:
            for flavor in FLAVORS:
                with mount_of(session, server, GSSD_PORT, f"soft,sec={flavor}") as mount:
                    if f"sec={flavor}," not in session.guest.shell("mounts", f"grep ' {MOUNT} ' /proc/mounts").out():
                        raise Failure(f"the mount is not by {flavor}")
                    mount.shell(f"files-{flavor}", f"""
                        mkdir {flavor}; cd {flavor}
                        cp {session.guest.shared}/random random; cp -r /usr/lib/python3*/email tree; sync
                        echo 3 >/proc/sys/vm/drop_caches
                        cmp random {session.guest.shared}/random; diff -r tree /usr/lib/python3*/email
                        chmod 777 .
                        runuser -u {USER} -- sh -c 'echo hello >hers; head -c 3000001 /dev/urandom >large; cp large copy'
                        echo 3 >/proc/sys/vm/drop_caches
                        runuser -u {USER} -- sh -c '[ "$(cat hers)" = hello ]; cmp large copy'
                        rm -r tree large copy""", 300)
                    stats = mount.stats()
                    # What is protected as a whole is not placed.
                    if (int(stats["write_chunks"]) > 0) != (flavor == "krb5"):
                        raise Failure(f"{flavor}: {stats['write_chunks']} Write chunks")
                owner = session.host.shell("owner", f"stat -c %u {folder}/{flavor}/hers").out().strip()
                if owner != "65534":
                    raise Failure(f"{flavor}: a principal that is no user here is {owner}")
                notes.append(f"{flavor} {stats['write_chunks']} Write, {stats['reply_chunks']} Reply chunks")
    log.check(has_outage=False)
    return "; ".join(notes)


scenario("nfs-krb5", "Linux → host siwarp", "sec=krb5, krb5i, krb5p: a tree and 16 MiB by root, files by a user, all compared",
         devices=("siw",))(mount_each)


@scenario("knfsd-krb5", "host siwarp → knfsd", "our NFS client with --sec krb5, krb5i, krb5p: cp --verify both ways",
          devices=("siw",))
def client_at_knfsd(session):
    url = start_knfsd(session).replace("rdma://", "nfs+rdma://") + EXPORT
    guest, host = session.guest, session.host
    client = session.host_siwarp()
    work = host.scratch / "krb5-client"
    host.shell("tree", f"rm -rf {work}; mkdir -p {work}; cp -a /usr/lib/python3*/email {work}/tree; "
                       f"cp {host.shared}/random {work}/random")
    refuses_privacy = guest.uname.startswith("6.1.")  # its server answers GARBAGE_ARGS to all of it
    notes = []
    with realm_of(session, "svcgssd"):
        guest.shell("export", f"""
            mkdir -p {EXPORT}; mountpoint -q {EXPORT} || mount -t tmpfs -o size=300m knfsd {EXPORT}; chmod 777 {EXPORT}
            pidof rpc.mountd >/dev/null || rpc.mountd
            exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=8,sec={':'.join(FLAVORS)} '*:{EXPORT}'""")
        for flavor in FLAVORS:
            words = ("--sec", flavor, "--sec-service", "nfs@guest.lab")
            if flavor == "krb5p" and refuses_privacy:
                refused = client.start("ls", *words, url)
                refused.expect(60, status=1)
                if "bad arguments" not in refused.err():
                    raise refused.failure("gave another reason")
                notes.append("krb5p refused, as this kernel does")
                continue
            up = client.run_json("cp", "-r", "--verify", *words, work / "tree", work / "random", f"{url}/")
            client.run("cp", "-r", *words, f"{url}/tree", work / f"back-{flavor}")
            host.shell("compare", f"diff -r --no-dereference {work}/tree {work}/back-{flavor}")
            client.run("rm", "-r", *words, f"{url}/tree")
            notes.append(f"{flavor} {up['gb_per_s'] * 1e3:.0f} MB/s up")
    return "; ".join(notes)
