"""Our NFS server beside the kernel's, for the same client in the same boot. An emulated CPU's numbers say nothing about
speed, but ratios and counts do."""
import json
import signal
import statistics

from machine import Failure
from scenarios.knfsd import PORT, start_knfsd
from scenarios.nfs import MOUNT, mounted
from scenarios.nfs_client import ALLOW, EXPORT
from session import scenario

TURNS = 3
SIZE = 256  # MiB

# Throughput in bytes/s, and the CPU seconds of the whole guest, in which client and server are, for each GiB.
MEASURE = """
import json, os, subprocess, time
def busy():
    fields = [int(each) for each in open("/proc/stat").readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")
def run(name, *options):
    open("/proc/sys/vm/drop_caches", "w").write("3")
    before = busy()
    out = subprocess.run(["fio", f"--name={name}", f"--directory=%s", "--filename=fio", "--size=%dm", "--output-format=json",
                          "--direct=0", "--fallocate=none", *options], capture_output=True, check=True).stdout
    job = json.loads(out[out.index(b"{"):])["jobs"][0]
    side = job["write" if "write" in name else "read"]
    return {"rate": side["io_bytes"] / (side["runtime"] / 1000), "cpu": (busy() - before) / side["io_bytes"] * 2**30}
print(json.dumps({"write 1 MiB": run("write", "--rw=write", "--bs=1m", "--end_fsync=1"),
                  "read 1 MiB": run("read", "--rw=read", "--bs=1m"),
                  "random read 4 KiB": run("random", "--rw=randread", "--bs=4k", "--numjobs=4", "--group_reporting",
                                           "--runtime=8", "--time_based")}))
os.unlink("%s/fio")
""" % (MOUNT, SIZE, MOUNT)


def measure(session):
    return json.loads(session.guest.run("fio", ["python3", "-c", MEASURE], 300).out())


def of_knfsd(session):
    address = session.address[session.guest]
    session.guest.shell("mount", f"mkdir -p {MOUNT}; mount -t nfs -o vers=3,rdma,port={PORT},nolock,soft "
                                 f"{address}:{EXPORT} {MOUNT}", 60)
    try:
        return measure(session)
    finally:
        session.guest.run("umount", ["umount", "-f", MOUNT], status=None)


def of_ours(session):
    with mounted(session, session.guest_verbs()):
        return measure(session)


@scenario("nfs-beside-knfsd", "Linux → guest verbs, Linux → knfsd", "figures by fio: 256 MiB written, read, 4 KiB random reads",
          devices=("siw",))
def beside_knfsd(session):
    start_knfsd(session)
    session.guest.shell("export", ALLOW)
    runs = {"ours": [], "knfsd": []}
    for _ in range(TURNS):
        runs["ours"].append(of_ours(session))
        runs["knfsd"].append(of_knfsd(session))
    rows, ratios = [], []
    for case in runs["ours"][0]:
        middle = {who: {key: statistics.median(run[case][key] for run in all_of_it) for key in ("rate", "cpu")}
                  for who, all_of_it in runs.items()}
        ours, theirs = middle["ours"], middle["knfsd"]
        ratios.append((case, ours["rate"] / theirs["rate"]))
        rows.append((case, f"{ours['rate'] / 1e6:.1f}", f"{theirs['rate'] / 1e6:.1f}", f"{ratios[-1][1]:.2f}",
                     f"{ours['cpu']:.1f}", f"{theirs['cpu']:.1f}"))
    session.figures.append((f"our NFS server beside knfsd, median of {TURNS}, MB/s and CPU seconds of the guest for each GiB",
                            ("case", "ours", "knfsd", "ratio", "CPU ours", "CPU knfsd"), rows))
    return "of knfsd's: " + ", ".join(f"{case} {ratio:.2f}" for case, ratio in ratios)


@scenario("nfs-one-pread", "Linux → guest verbs", "64 MiB read: one pread and one post for each READ, nothing copied")
def one_pread(session):
    guest = session.guest
    with mounted(session, session.guest_verbs(), serve_options=("--log-level", "warning")) as mount:
        mount.shell("write", "dd if=/dev/urandom of=file bs=1M count=64 conv=fsync 2>/dev/null")
        guest.shell("forget", "echo 3 >/proc/sys/vm/drop_caches")
        calls = ("pread64", "preadv", "preadv2", "read", "readv")
        trace = guest.start("strace", ["bash", "-c", f"exec strace -f -y -e trace={','.join(calls)} -o /tmp/preads "
                                                     "-p $(pidof rpcrdma)"])
        guest.shell("attached", "while grep -q '^TracerPid:[[:space:]]*0$' /proc/$(pidof rpcrdma)/task/*/status; do sleep 0.1; done")
        before = mount.operations("READ")
        mount.shell("read", "dd if=file of=/dev/null bs=1M 2>/dev/null", 120)
        reads = mount.operations("READ") - before
        trace.signal(signal.SIGINT)
        trace.wait(30)
        lines = guest.shell("preads", f"grep -c '<{mount.folder}/file>' /tmp/preads; grep -vc '{mount.folder}/' /tmp/preads || true")
        of_file = int(lines.out().split()[0])
    counters = mount.server.counters
    if of_file != reads or reads == 0:
        raise Failure(f"{of_file} preads for {reads} READs")
    copied = counters["bytes_copied"] / counters["payload_bytes"]
    if copied > 0.01:
        raise Failure(f"{copied:.3f} bytes were copied for each byte of data")
    return (f"{of_file} preads for {reads} READs, {counters['doorbells'] / counters['calls']:.2f} posts for each call, "
            f"{copied:.4f} bytes copied for each byte")
