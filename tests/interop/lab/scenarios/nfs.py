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


for name, peer, devices in (("siwarp", lambda session: session.host_siwarp(), ("siw",)),
                            ("verbs", lambda session: session.guest_verbs(), ("siw", "rxe"))):
    who = "host siwarp" if name == "siwarp" else "guest verbs"
    for function, what in ((basics, "16 MiB both ways, names, attributes"),):
        scenario(f"nfs-{function.__name__.replace('_', '-')}-{name}", f"Linux → {who}", what, devices=devices)(
            functools.partial(lambda session, function, peer: function(session, peer(session)),
                              function=function, peer=peer))
