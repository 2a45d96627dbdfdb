#!/usr/bin/env python3
"""The .x files of Debian's packages: whether rpcrdma-gen takes what rpcgen takes, and makes the same bytes of it.

usage: others_test.py BUILD-FOLDER C++-COMPILER [FOLDER-WITH-SOURCES]

Looks at what is installed (rpcsvc-proto, libtirpc-dev) and at the sources of libvirt, glusterfs, nfs-ganesha, libnfs
and nfs-utils, which apt-get source fetches, unless they lie in the folder already. What cannot be fetched is
named. Of each file that rpcgen accepts, the constants that C's headers would give get a number, and the files
that it uses are imported. At least 95 of 100 must be accepted, and are compiled; for each of these, random
values go from our encoding through rpcgen's C code and back (tests/gen/cross_test.h). Ends with 77 without rpcgen.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests/gen"
PACKAGES = ["libvirt", "glusterfs", "nfs-ganesha", "libnfs", "nfs-utils"]
INSTALLED = [pathlib.Path("/usr/include/rpcsvc"), pathlib.Path("/usr/include/tirpc/rpc")]
SHARE = 0.95
SKIPPED = 77
# The files that rpcgen's output finds through C's headers: beside the file, or of this project.
IMPORTS = {
    "acl3-xdr.x": [ROOT / "idl/nfs3.x"],
    "flex_files_prot.x": ["nfsv41.x"],
    "glusterfs4-xdr.x": ["glusterfs3-xdr.x"],
    "lxc_protocol.x": ["remote_protocol.x"],
    "mount.x": ["nfs23.x"],
    "mount3udp.x": [ROOT / "idl/mount3.x"],
    "nfsacl.x": ["nfs23.x"],
    "nis_callback.x": ["nis.x"],
    "nfsv41.x": [TESTS / "authsys.x"],
    "qemu_protocol.x": ["remote_protocol.x"],
    "rpcb_prot.x": [TESTS / "netbuf.x"],
}
MISSING = re.compile(r"error: there is no constant '(\w+)'")
REFUSED = re.compile(r"^[^\n]*: error: ([^\n]*)", re.MULTILINE)


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, **options)


def fetched(folder):
    """The .x files of the packages, in a folder for each."""
    for package in PACKAGES:
        at = folder / package
        if at.exists():
            continue
        at.mkdir(parents=True)
        # The list of sources of its own: a machine's list has packages alone, as a rule.
        (at / "list").write_text("deb-src http://deb.debian.org/debian bookworm main\n")
        options = ["-o", f"Dir::Etc::sourcelist={at}/list", "-o", "Dir::Etc::sourceparts=-",
                   "-o", f"Dir::State::lists={folder}/lists", "-o", "APT::Sandbox::User=root"]
        (folder / "lists/partial").mkdir(parents=True, exist_ok=True)
        if run(["apt-get", *options, "update"]).returncode == 0:
            run(["apt-get", *options, "source", "--download-only", package], cwd=at)
        for archive in at.glob("*.orig.tar.*z*"):
            run(["tar", "-xf", archive, "--wildcards", "*.x"], cwd=at)
    for package in PACKAGES:
        files = sorted((folder / package).rglob("*.x"))
        if not files:
            print(f"others: {package}: NOT compared, its sources cannot be fetched here")
        yield from files


class File:
    """One .x file and what goes with it."""

    def __init__(self, path, generator):
        self.path = path
        self.generator = generator
        self.definitions = {}
        self.imports = []
        for each in IMPORTS.get(path.name, []):
            if isinstance(each, pathlib.Path):
                self.imports.append(each)
            elif (path.parent / each).exists() and not self.defines_itself():
                self.imports += self.imports_of(path.parent / each)
        self.reason = ""

    def imports_of(self, path):
        return [*(each for each in IMPORTS.get(path.name, []) if isinstance(each, pathlib.Path)), path]

    def defines_itself(self):
        """The mount.x of others has no other file behind it."""
        return self.path.name == "mount.x" and "FHSIZE3 =" in self.path.read_text(errors="replace")

    def options(self):
        return [*(f"-D{name}={number}" for name, number in self.definitions.items()),
                *(word for each in self.imports for word in ("--import", each))]

    def is_accepted(self, folder):
        """Gives constants of C's headers numbers until all are known."""
        for _ in range(300):
            result = run([self.generator, "--random", *self.options(), "-o", folder, self.path])
            if result.returncode == 0:
                return True
            names = MISSING.findall(result.stderr)
            if not names:
                self.reason = REFUSED.search(result.stderr)[1] if REFUSED.search(result.stderr) else result.stderr
                return False
            for name in names:
                self.definitions[name] = 16 + len(self.definitions)
        return False

    def merged(self):
        """All of it as one text without C, which both compilers read."""
        parts = [f"#define {name} {number}" for name, number in self.definitions.items()]
        for each in [*self.imports, self.path]:
            text = each.read_text(errors="replace")
            for included in re.findall(r'^#include "(.*)"', text, re.MULTILINE):
                inner = (each.parent / included).read_text(errors="replace")
                text = text.replace(f'#include "{included}"', inner)
            parts.append(text)
        whole = re.sub(r"\\\n", " ", "\n".join(parts))
        return "\n".join(line for line in whole.split("\n")
                         if not line.startswith("%") or re.match(r"%\s*#\s*define\s+\w+\s", line)) + "\n"


def compared(file, number, folder, build, compiler):
    """Says what is wrong: '' if all values agree."""
    stem = f"x{number}"
    path = folder / f"{stem}.x"
    path.write_text(file.merged())
    made = run(["rpcgen", "-M", "-N", "-c", "-o", f"{stem}_xdr.c", path.name], cwd=folder)
    header = run(["rpcgen", "-M", "-N", "-h", "-o", f"{stem}.h", path.name], cwd=folder)
    library = folder / f"lib{stem}.so"
    tirpc = run(["pkg-config", "--cflags", "--libs", "libtirpc"]).stdout.split()
    shared = run(["cc", "-w", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-include", TESTS / "rpcgen_shim.h", "-o", library,
                  f"{stem}_xdr.c", *tirpc], cwd=folder)
    if made.returncode or header.returncode or shared.returncode:
        return f"NOT compared, rpcgen's output does not compile: {(made.stderr + shared.stderr)[:200]!r}"
    (folder / f"{stem}.h").unlink()
    ours = run([build / "bin/rpcrdma-gen", "--random", "-o", folder, path])
    if ours.returncode:
        return f"as one text it is refused: {ours.stderr[:400]}"
    comparison = (TESTS / "comparison.cc.in").read_text().replace("@library@", str(library))
    types = (TESTS / "types.cc.in").read_text()
    test = (TESTS / "cross_test.cc.in").read_text().replace("@types@", types).replace("@comparison@", comparison)
    source = folder / f"{stem}_test.cc"
    source.write_text('#include "tests/gen/posix_headers.h"\n' + test.replace("@stem@", stem) + f'#include "{stem}.cc"\n')
    objects = build / "tests/gen/CMakeFiles/gen_cross_test.dir"
    linked = run([compiler, "-std=c++20", "-w", *os.environ.get("CXXFLAGS", "").split(), f"-I{ROOT}", f"-I{ROOT}/include", f"-I{ROOT}/tests", f"-I{folder}", source,
                  objects / "c_codec.cc.o", objects / "cross_test.cc.o", objects / "live_memory.cc.o",
                  build / "tests/support/librpcrdma_generated_values.a", build / "lib/librpcrdma.a", *tirpc,
                  "-lgmock", "-lgtest_main", "-lgtest", "-ldl", "-lfmt", "-lisal", "-lpthread",
                  "-o", folder / f"{stem}_test"])
    if linked.returncode:
        return f"what was made does not compile\n{linked.stderr[:3000]}"
    ran = run([folder / f"{stem}_test", "--gtest_brief=1"])
    return "" if ran.returncode == 0 else f"values differ\n{ran.stdout[:3000]}"


def main():
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    build, compiler = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    if not shutil.which("rpcgen"):
        print("others: skipped: rpcgen is not installed (Debian: rpcsvc-proto)")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="rpcrdma-others.") as folder:
        folder = pathlib.Path(folder)
        sources = pathlib.Path(sys.argv[3]) if len(sys.argv) == 4 else folder / "sources"
        paths = [path for each in INSTALLED for path in sorted(each.glob("*.x"))] + list(fetched(sources))
        taken, refused, problems = [], [], []
        for path in paths:
            if run(["rpcgen", "-h", path.name], cwd=path.parent).returncode != 0:
                print(f"others: {path}: rpcgen refuses it")
                continue
            file = File(path, build / "bin/rpcrdma-gen")
            (taken if file.is_accepted(folder / "out") else refused).append(file)
        for each in refused:
            print(f"others: {each.path}: refused: {each.reason}")
        for number, file in enumerate(taken):
            wrong = compared(file, number, folder, build, compiler)
            print(f"others: {file.path}: accepted{', with ' + str(len(file.definitions)) + ' numbers of C' if file.definitions else ''}: "
                  f"{wrong or 'the values agree'}", flush=True)
            if wrong and not wrong.startswith("NOT compared"):
                problems.append(f"{file.path}: {wrong}")
    share = len(taken) / max(len(taken) + len(refused), 1)
    print(f"others: {len(taken)} of {len(taken) + len(refused)} files that rpcgen accepts are accepted")
    if share < SHARE:
        problems.append(f"only {share:.2f} are accepted, of {SHARE} at least")
    for each in problems:
        print(f"others: problem: {each}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
