#!/usr/bin/env python3
"""Builds the tree for other architectures and with other compilers than `make check` does, and runs tests there.

  s390x      big-endian, 64 bits: GCC's cross compiler, tests under qemu-user
  armhf      32 bits, without isa-l and without the optional libraries: the same
  arm64      weak memory order, 64 bits: the same
  clang-new  the newest Clang of Debian, on this machine
  c++23-gcc, c++23-clang   -std=c++23 on this machine, with GCC and with the newest Clang; c++23 is both

Each target has a folder below build-portability. An architecture's libraries are unpacked there from Debian's packages by
mmdebstrap, and nothing of another architecture is installed on this machine; its cross compilers and qemu-user are, by
scripts/setup.sh. docs/trust.md, "Portability", says what was built so and what it found.
"""
import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build-portability"
# GNU name of the architecture, Debian's name of it, what else CMake is given.
CROSS = {
    "s390x": ("s390x-linux-gnu", "s390x", []),
    "armhf": ("arm-linux-gnueabihf", "armhf",
              [f"-DRPCRDMA_{name}=OFF" for name in ("ISAL", "VERBS", "KRB5", "HTTP", "SYSTEMD", "TIRPC", "FUSE", "PROBES")]),
    "arm64": ("aarch64-linux-gnu", "arm64", []),
}
NATIVE = {"clang-new": [], "c++23-gcc": ["-DRPCRDMA_STD_EXPECTED=ON"], "c++23-clang": ["-DRPCRDMA_STD_EXPECTED=ON"]}
GROUPS = {"cross": list(CROSS), "c++23": ["c++23-gcc", "c++23-clang"], "all": [*CROSS, *NATIVE]}
LIBRARIES = """libc6-dev libstdc++-12-dev libfmt-dev libisal-dev libssl-dev libsqlite3-dev libcli11-dev libtomlplusplus-dev
    libgtest-dev libgmock-dev libkrb5-dev libibverbs-dev librdmacm-dev libfuse3-dev libtirpc-dev libmicrohttpd-dev
    libsystemd-dev systemtap-sdt-dev""".split()
# Programs of tests, from the lowest layer up; fuzz_replay replays the stored inputs of the fuzz targets.
LAYERS = """base_test xdr_test posix_test wire_test iwarp_test engine_test oncrpc_test gss_test support_test golden_test
    gen_test generated_test gen_cross_test tcp_test transport_test sim_test siwarp_test rpc_test testing_test
    conformance_test explain_unit_test fuzz_replay""".split()
# These start their own program again. Without binfmt_misc, which scripts do not set up behind anybody's back, the kernel cannot
# execute another architecture's.
NOT_UNDER_QEMU = ["SimulatedNetwork.ReplyThatIsReadAndNotCheckedEndsTheProgram"]
COUNTED = re.compile(r"^\[==========\] (\d+) tests? from .* ran\.", re.M)


class Failure(Exception):
    """Says why a target could not be built or tested."""


def say(target, text):
    print(f"portability: {target}: {text}", flush=True)


def run(target, what, command, log, env=None):
    """Runs a command with its output in a file, of which the end is printed when it fails."""
    say(target, f"{what} ({log.relative_to(ROOT)})")
    with log.open("w") as out:
        out.write("$ " + shlex.join(map(str, command)) + "\n")
        out.flush()
        result = subprocess.run(list(map(str, command)), cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, env=env)
    if result.returncode != 0:
        lines = log.read_text(errors="replace").splitlines()
        notable = [line for line in lines if re.search(r"\berror:|FAILED|CMake Error|^E: ", line)]
        raise Failure("\n    ".join([f"{what} failed:", *(notable[:20] or lines[-20:])]))


def suite():
    for line in pathlib.Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.partition("=")[2].strip('"')
    raise Failure("/etc/os-release does not name a release of Debian, whose packages an architecture's libraries come from")


def source():
    """Returns the line of sources.list that this machine's packages come from. Fixes since are of no use to a build that runs
    only its own tests, and would be a second list that can be out of step."""
    command = ["apt-get", "indextargets", "--format", "deb $(SITE) $(RELEASE) main", "Created-By: Packages", "Label: Debian"]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    found = [line for line in lines if line.endswith(f" {suite()} main")]
    if not found:
        raise Failure(f"apt has no source for Debian's {suite()} main")
    return found[0]


def newest_clang():
    found = subprocess.run(["apt-cache", "search", "--names-only", "^clang-[0-9]+$"], capture_output=True, text=True, check=False)
    versions = [int(number) for number in re.findall(r"^clang-(\d+) ", found.stdout, re.M)]
    if not versions:
        raise Failure("apt-cache knows no clang-NN: run apt-get update")
    return max(versions)


def make_links_relative(sysroot):
    """Lets links like libtirpc.so -> /lib/... lead to the same place below the sysroot, where the linker follows them."""
    for link in (sysroot / "usr/lib").rglob("*"):
        if link.is_symlink() and os.readlink(link).startswith("/"):
            to = sysroot / os.readlink(link).lstrip("/")
            if to.exists() or to.is_symlink():
                way = os.path.relpath(to, link.parent)
                link.unlink()
                link.symlink_to(way)


def make_sysroot(target, architecture):
    """Unpacks the libraries of an architecture, and keeps them while the list of packages is the same."""
    sysroot, stamp = FOLDER / target / "sysroot", FOLDER / target / "sysroot.packages"
    wanted = " ".join([suite(), *LIBRARIES])
    if stamp.exists() and stamp.read_text() == wanted:
        return sysroot
    shutil.rmtree(sysroot, ignore_errors=True)
    sysroot.mkdir(parents=True)
    archive = FOLDER / target / "sysroot.tar"
    proxy = subprocess.run(["apt-config", "dump", "Acquire::http::Proxy"], capture_output=True, text=True, check=True).stdout
    run(target, f"unpacking {len(LIBRARIES)} packages of Debian's {suite()} for {architecture}, and what they depend on",
        ["mmdebstrap", "--quiet", "--variant=extract", f"--architectures={architecture}", "--skip=check/qemu",
         '--aptopt=APT::Sandbox::User "root"', *(f"--aptopt={line}" for line in proxy.splitlines()),
         f"--include={','.join(LIBRARIES)}", suite(), archive, source()], FOLDER / target / "sysroot.log")
    subprocess.run(["tar", "-C", sysroot, "-xf", archive, "--no-same-owner", "--exclude=./dev/*"], check=True)
    archive.unlink()
    make_links_relative(sysroot)
    stamp.write_text(wanted)
    return sysroot


def configure(target):
    """Returns what CMake is given, and what a table says of the compiler."""
    if target in CROSS:
        name, architecture, options = CROSS[target]
        sysroot = make_sysroot(target, architecture)
        given = ["--toolchain", ROOT / "cmake/debian_cross.cmake", f"-DRPCRDMA_CROSS={name}", f"-DCMAKE_SYSROOT={sysroot}"]
        return given + options, f"{name}-g++"
    compiler = "g++"
    if target != "c++23-gcc":
        compiler = f"clang++-{newest_clang()}"
    return [f"-DCMAKE_CXX_COMPILER={compiler}", *NATIVE[target]], compiler


def count(results):
    """Returns how many tests ran, passed and were skipped, and which programs failed."""
    ran = skipped = 0
    failed = []
    for case in xml.etree.ElementTree.parse(results).iter("testcase"):
        output = case.findtext("system-out") or ""
        ran += sum(map(int, COUNTED.findall(output)))
        skipped += len(re.findall(r"^\[  SKIPPED \] .* \(\d+ ms\)$", output, re.M))
        if case.get("status") != "run":
            names = sorted(set(re.findall(r"^\[  FAILED  \] ([\w/.]+)(?:,| \()", output, re.M)))
            failed.append(f"{case.get('name')} ({', '.join(names) or 'no test said so'})")
    return ran, skipped, failed


def portable(target, arguments):
    """Builds and tests one target; returns its row of the table and whether everything passed."""
    began = time.monotonic()
    folder = FOLDER / target
    folder.mkdir(parents=True, exist_ok=True)
    build = folder / "build"
    given, compiler = configure(target)
    version = subprocess.run([compiler, "-dumpfullversion" if "g++" in compiler and "clang" not in compiler else "-dumpversion"],
                             capture_output=True, text=True, check=True).stdout.strip()
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    # With the checks of the standard library. Another architecture's is a little optimised, since aliasing and alignment matter
    # only then, and qemu-user is slow; this one's is optimised by `make build`.
    optimised = "-O1" if target in CROSS else "-O0"
    run(target, f"configuring with {compiler} {version}",
        ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
         f"-DCMAKE_CXX_FLAGS_DEBUG={optimised} -g1 -D_GLIBCXX_ASSERTIONS", "-DRPCRDMA_BATCHES=ON", "-DRPCRDMA_PRECOMPILE=ON",
         "-DRPCRDMA_BUILD_EXAMPLES=OFF", "-DRPCRDMA_CEPH=OFF", *launcher, *given], folder / "configure.log")
    programs = arguments.tests or LAYERS
    env = dict(os.environ, CCACHE_SLOPPINESS=os.environ.get("CCACHE_SLOPPINESS", "pch_defines,time_macros"))
    run(target, "building " + (" ".join(programs) if arguments.only_tests else "everything"),
        ["ninja", "-C", build, "-k", "0", f"-j{arguments.jobs}", *(programs if arguments.only_tests else ["all"])],
        folder / "build.log", env)
    results = folder / "results.xml"
    results.unlink(missing_ok=True)  # an earlier run's
    pattern = "^(" + "|".join(programs).replace("fuzz_replay", "fuzz_[a-z0-9_]+_replay") + ")(_[0-9]+)?$"
    log, passed = folder / "test.log", True
    if target in CROSS:
        env["GTEST_FILTER"] = "-" + ":".join(NOT_UNDER_QEMU)
    try:
        run(target, "running " + " ".join(programs),
            ["ctest", "--test-dir", build, "--label-exclude", "^each$", "-R", pattern, f"-j{arguments.jobs}", "--timeout", "1800",
             "--output-junit", results, "--test-output-size-passed", "10000000", "--test-output-size-failed", "10000000",
             "--no-tests=error"], log, env)
    except Failure:
        passed = False
    ran, skipped, failed = count(results)
    for each in failed:
        say(target, f"FAILED: {each}")
    minutes = (time.monotonic() - began) / 60
    say(target, f"{ran} tests ran, {skipped} of them were skipped, {len(failed)} programs failed; {minutes:.0f} minutes")
    return f"| {target} | {compiler} {version} | {len(programs)} | {ran} | {skipped} | {len(failed)} |", passed and not failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="Exit status: 0 everything passed, 1 something did not, 2 wrong usage.")
    names = [*CROSS, *NATIVE, *GROUPS]
    parser.add_argument("targets", nargs="+", metavar="TARGET", choices=names,
                        help=f"any of {', '.join(names)}; one after the other")
    parser.add_argument("--tests", metavar="PROGRAM", nargs="+",
                        help=f"programs of tests to run instead of {' '.join(LAYERS)}")
    parser.add_argument("--only-tests", action="store_true", help="build these programs alone, and not everything")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N",
                        help="how many compilers and programs of tests run at a time (default: all cores)")
    arguments = parser.parse_args()
    targets = []
    for each in arguments.targets:
        targets += [name for name in GROUPS.get(each, [each]) if name not in targets]
    if subprocess.run([ROOT / "scripts/setup.sh", "portability"], check=False).returncode != 0:
        return 1  # it has said what is missing
    rows, is_good = [], True
    for target in targets:
        try:
            row, passed = portable(target, arguments)
            rows.append(row)
            is_good = is_good and passed
        except Failure as error:
            say(target, str(error))
            rows.append(f"| {target} | not built or not tested | | | | |")
            is_good = False
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    print(f"\nat {commit.stdout.strip() or 'no commit'}, {suite()}:\n| target | compiler | programs | tests | skipped | failed programs |")
    print("|---|---|---|---|---|---|", *rows, sep="\n")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
