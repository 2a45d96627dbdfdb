"""Our NFS client, without a mount, at Linux' NFS server in the guest, by RDMA."""
from machine import Failure
from scenarios.knfsd import start_knfsd
from session import scenario

EXPORT = "/srv/knfsd-files"  # on tmpfs, since the root's overlay gives no handles

# Ports above 1023 are what a user has, which Linux calls insecure.
ALLOW = f"""
mkdir -p {EXPORT}; mountpoint -q {EXPORT} || mount -t tmpfs -o size=600m knfsd {EXPORT}
pidof rpc.mountd >/dev/null || rpc.mountd
exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=7 '*:{EXPORT}'
rm -rf {EXPORT}/*
"""


def files(session, client):
    """A tree and a large file up, compared on the server, down again and compared; then each of the commands."""
    url = start_knfsd(session).replace("rdma://", "nfs+rdma://") + EXPORT
    guest, side = session.guest, client.side
    guest.shell("export", ALLOW)
    work = side.scratch / "client"
    side.shell("tree", f"rm -rf {work}; mkdir -p {work}; cp -a /usr/lib/python3*/email {work}/tree; ln -s a {work}/tree/l; "
                       f"cp {side.shared}/random {work}/random")
    up = client.run_json("cp", "-r", "--verify", work / "tree", work / "random", f"{url}/")
    if up["failed"] or not up["links"]:
        raise Failure(f"cp says {up}")
    # The guest sees what is on its server; the host has the tree, and shows it in the shared folder.
    side.shell("show", f"rm -rf {side.shared}/tree; cp -a {work}/tree {side.shared}/tree")
    guest.shell("compare", f"diff -r --no-dereference {guest.shared}/tree {EXPORT}/tree; "
                           f"cmp {guest.shared}/random {EXPORT}/random")
    client.run("cp", "-r", "--verify", f"{url}/tree", work / "back")
    side.shell("compare", f"diff -r --no-dereference {work}/tree {work}/back; rm -rf {side.shared}/tree")
    client.run("mkdir", f"{url}/d")
    client.run("mv", f"{url}/random", f"{url}/d/moved")
    cat = client.run("cat", f"{url}/tree/__init__.py").out()
    listed = client.run("ls", "-l", f"{url}/d").out()
    client.run("stat", f"{url}/d/moved")
    client.run("df", url)
    client.run("rm", "-r", f"{url}/tree")
    if "email" not in cat or "moved" not in listed:
        raise Failure("cat or ls show something else")
    left = guest.shell("left", f"cd {EXPORT}; ls -A; cmp d/moved {guest.shared}/random").out().split()
    if left != ["d"]:
        raise Failure(f"the server has {left} at the end")
    return f"{up['files']} files, {up['bytes'] >> 20} MiB, {up['gb_per_s'] * 1e3:.0f} MB/s up"


scenario("knfsd-files-siwarp", "host siwarp → knfsd", "our NFS client: cp -r --verify both ways, mkdir, mv, cat, ls, rm",
         devices=("siw",))(lambda session: files(session, session.host_siwarp()))
scenario("knfsd-files-verbs", "guest verbs → knfsd", "our NFS client: cp -r --verify both ways, mkdir, mv, cat, ls, rm")(
    lambda session: files(session, session.guest_verbs()))
