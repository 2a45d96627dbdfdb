#!/usr/bin/env python3
"""Runs rpcrdma against real RDMA devices: boots a QEMU guest with a stock Debian kernel and the devices siw (software
iWARP) and rxe (RoCE v2), one after the other, and runs the scenarios between this machine and the guest, and inside
the guest. Needs root. `make lab` installs the packages that this needs, and runs it. It builds the
programs, in build-bench, and the guest first, where they are not up to date.

Prints one line a scenario as they end, then a matrix, figures, and one line a failure with the path of its log.
Exit status: 0 all passed (or the kernel lacks what a scenario is about), 1 something failed or nothing was run,
2 wrong usage, 3 the lab itself could not be set up, 130 interrupted.

All that it writes besides is below build-lab: the guest in guest/ (made again when it is missing or its scripts changed), the
last run in lab-run/ with logs/ of each program and console. However it ends, also killed, no process, network device,
namespace or mount is left."""
import argparse
import datetime
import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parents[2]
BUILD = TREE / "build-lab"
PROGRAMS = TREE / "build-bench"
RUN = BUILD / "lab-run"
BOOTS_MAX = 4  # of one device, because the guest died
DOCUMENT = TREE / "docs" / "interop.md"
LIMIT_SECONDS = 100 * 60  # then everything is ended; those of NFS and of mounts take some 25 minutes each
BEGIN_SECONDS = 85 * 60   # from then on no scenario begins, so that the matrix is always printed

sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import contained  # noqa: E402
import guest_files  # noqa: E402
import machine  # noqa: E402
import matrix  # noqa: E402
import scenarios  # noqa: E402,F401
import session as sessions  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="REGEX", default=os.environ.get("LAB_ONLY", ""),
                        help="run scenarios whose NAME/DEVICE has a match (default: $LAB_ONLY, else all)")
    parser.add_argument("--list", action="store_true", help="list NAME/DEVICE of the scenarios that would run, and end")
    parser.add_argument("--kernel", metavar="SERIES", default=os.environ.get("LAB_KERNEL", "6.1"),
                        help="Debian kernel: 6.1, or one that Debian has as linux-image-SERIES-amd64, as 6.12 "
                             "(default: $LAB_KERNEL, else 6.1)")
    parser.add_argument("--write-docs", action="store_true",
                        help="write the matrix into docs/interop.md, between the markers of this kernel; only "
                             "with all scenarios")
    parser.add_argument("--rebuild", action="store_true", help="make the guest anew, say for a newer kernel package")
    parser.add_argument("--no-build", action="store_true", help="take what is built in build-bench as it is")
    parser.add_argument("--guest-only", action="store_true", help="make the guest if need be, and end")
    parser.add_argument("--stand-in", metavar="PROVIDER",
                        help="use this provider where scenarios say verbs, as siwarp: tries the lab, not the provider")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)  # process 1 of the namespaces
    return parser.parse_args()


def chosen(pattern):
    """(device, its scenarios), in order."""
    for device in sessions.DEVICES:
        found = [each for each in sessions.SCENARIOS
                 if device in each.devices and re.search(pattern, f"{each.name}/{device}")]
        if found:
            yield device, found


# --- inside the namespaces -------------------------------------------------------------------------

def run_one(scenario, device, session, trouble):
    """The verdict on one scenario; trouble is why it cannot even begin."""
    start = time.monotonic()
    verdict, note, log = matrix.PASS, "", None
    try:
        if trouble:
            raise trouble
        session.host.scenario = session.guest.scenario = scenario.name
        note = scenario.function(session) or ""
    except machine.Absent as reason:
        verdict, note = matrix.ABSENT, str(reason)
    except machine.Failure as reason:
        verdict, note, log = matrix.FAIL, str(reason), reason.log
    except Exception as error:  # a mistake of the scenario's: it fails, the others go on
        traceback.print_exc()
        verdict, note = matrix.FAIL, f"{type(error).__name__}: {error}"
    note = " ".join(note.replace(f"{TREE}/", "").split())
    result = matrix.Result(scenario, device, verdict, note, log, time.monotonic() - start)
    print(f"{device}  {verdict:6}  {scenario.name}  ({result.seconds:.1f} s)  {result.note}", flush=True)
    return result


def start_device(session, boot_name):
    """Boots and adds the device; returns what stands in the way of that, or nothing."""
    try:
        session.guest.scenario = session.host.scenario = f"{boot_name}-setup"
        start = time.monotonic()
        session.guest.boot(boot_name)
        session.add_device()
        print(f"{session.device}  ready on {session.guest.uname} after {time.monotonic() - start:.1f} s", flush=True)
    except (machine.Failure, machine.Absent) as reason:
        return reason
    return None


def kernel_warnings(boot_names):
    """What the guest's kernel complained about: no failure by itself, but the reader wants to know."""
    for name in boot_names:
        log = RUN / "logs" / f"dmesg-{name}.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        found = [line for line in lines if re.search(r"WARNING:|BUG:|Oops|refcount_t|blocked for more than", line)]
        if found:
            print(f"lab: the kernel complained {len(found)} times, first: {found[0].strip()}; "
                  f"log: {log.relative_to(TREE)}", flush=True)


def run_device(session, wanted, deadline):
    results, boots = [], 1
    trouble = start_device(session, session.device)
    for scenario in wanted:
        if time.monotonic() > deadline:
            trouble = machine.Failure(f"not begun: the {BEGIN_SECONDS // 60} minutes of the lab were over")
        if session.guest.is_dead() and not trouble and boots < BOOTS_MAX:
            boots += 1
            trouble = start_device(session, f"{session.device}-{boots}")
        results.append(run_one(scenario, session.device, session, trouble))
        try:
            session.end()
        except machine.Failure as reason:
            print(f"{session.device}  {reason}; booting again", flush=True)
            session.guest.power_off()
    session.guest.power_off()
    kernel_warnings([session.device, *(f"{session.device}-{number}" for number in range(2, boots + 1))])
    return results


def versions(files):
    def first_line(*command):
        lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
        return lines[0] if lines else "unknown"

    rdma_core = first_line("dpkg-query", "-W", "-f=${Version}\n", "libibverbs1")
    qemu = first_line("dpkg-query", "-W", "-f=${source:Upstream-Version}\n", "qemu-system-x86")
    commit = first_line("git", "-C", TREE, "describe", "--always", "--dirty")
    return (f"{datetime.date.today()}, rpcrdma {commit}, Linux {files.version}, rdma-core {rdma_core}, QEMU {qemu} "
            f"({files.accelerator.split(',')[0]}), {os.cpu_count()} CPUs")


def report(options, files, results, figures, seconds):
    heads = {}
    for title, head, rows in figures:
        heads.setdefault((title, head), []).extend(rows)
    stand_in = f" With {options.stand_in} in the place of verbs." if options.stand_in else ""
    shown = {result.scenario.name for result in results}
    what = f"{versions(files)}: {matrix.summary(results)} in {seconds / 60:.1f} minutes.{stand_in}"
    text = [*textwrap.wrap(what, 118), "",
            matrix.matrix([each for each in sessions.SCENARIOS if each.name in shown], list(sessions.DEVICES), results)]
    for (title, head), rows in heads.items():
        text += ["", f"{title}:", "", matrix.table(head, rows)]
    failed = matrix.failures(results, TREE)
    print("\n" + "\n".join(text) + "\n")
    print(*failed, f"lab: {matrix.summary(results)}, logs in {(RUN / 'logs').relative_to(TREE)}", sep="\n", flush=True)
    if failed:
        text += ["", *(textwrap.fill(f"- {line}", 118, subsequent_indent="  ", break_on_hyphens=False)
                       for line in matrix.failures(results))]
    (RUN / "matrix.md").write_text("\n".join(text) + "\n")


def inside(options):
    start = time.monotonic()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process outside ends us
    files = guest_files.prepare(BUILD / "guest", options.kernel, rebuild=False)
    machine.make_link()
    results, figures = [], []
    for device, wanted in chosen(options.only):
        host, guest = machine.Host(RUN), machine.Guest(RUN, TREE, files)
        session = sessions.Session(host, guest, PROGRAMS, device, options.stand_in)
        results += run_device(session, wanted, start + BEGIN_SECONDS)
        figures += session.figures
        shutil.rmtree(RUN / "scratch")
        (RUN / "scratch").mkdir()
    report(options, files, results, figures, time.monotonic() - start)
    return matrix.exit_status(results)


# --- outside ---------------------------------------------------------------------------------------

def stop(text, status):
    print(f"lab: {text}", file=sys.stderr)
    sys.exit(status)


def build():
    temporary = BUILD / "tmp"  # a compiler that is killed leaves its files there
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        contained.run_contained([TREE / "scripts" / "build.sh", "bench", "lab"], env={**os.environ, "TMPDIR": str(temporary)})
    except subprocess.CalledProcessError:
        stop("the build failed", 3)


def run_inside():
    command = contained.contained([sys.executable, __file__, "--inside", *sys.argv[1:]], network=True)
    # A session of its own: Ctrl-C reaches this process only, and it ends that one in one blow.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)

    def interrupted(number, _):
        process.kill()
        process.wait()
        stop(f"stopped by {signal.Signals(number).name}", 130)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    try:
        return process.wait(LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        stop(f"took longer than {LIMIT_SECONDS // 60} minutes", 1)


def outside(options):
    if os.geteuid() != 0:
        stop("needs root, for namespaces, a tap and the owners of the guest's files", 3)
    if not any(chosen(options.only)):
        stop(f"no scenario is named {options.only}; --list shows what there is", 2)
    if options.write_docs and (options.only or options.stand_in):
        stop("--write-docs is for a whole run, of verbs itself", 2)
    BUILD.mkdir(exist_ok=True)
    lock = open(BUILD / "lab.lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stop("another make lab runs in this tree", 3)
    shutil.rmtree(RUN, ignore_errors=True)
    for folder in ("logs", "scratch"):
        (RUN / folder).mkdir(parents=True)
    try:
        guest_files.prepare(BUILD / "guest", options.kernel, options.rebuild)
    except subprocess.CalledProcessError:
        stop("the guest could not be made; its script said why", 3)
    if options.guest_only:
        return 0
    if not options.no_build:
        build()
    status = run_inside()
    shutil.rmtree(RUN / "scratch", ignore_errors=True)
    if options.write_docs and (RUN / "matrix.md").exists():
        try:
            matrix.write_into(DOCUMENT, options.kernel, (RUN / "matrix.md").read_text())
        except ValueError as reason:
            stop(str(reason), 1)
        print(f"lab: wrote {DOCUMENT.relative_to(TREE)}")
    return status


def main():
    options = arguments()
    if options.list:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # for `| head`
        for device, wanted in chosen(options.only):
            for each in wanted:
                print(f"{each.name}/{device}: {each.peers}: {each.what}")
        return 0
    return inside(options) if options.inside else outside(options)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        stop("interrupted", 130)
