#!/usr/bin/env python3
"""Other people's .x files, those that rpcsvc-proto (Debian) installs for rpcgen, and accepted/*.x.

usage: sweep_test.py RPCRDMA-GEN C++-COMPILER INCLUDE-FOLDER

Each is accepted, and what it becomes compiles with all warnings behind all of POSIX's headers, or it is
refused with a message that names the reason. So does a file with the name of each function of C that
one might give a file. Exits with 77 when other people's are not there.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path("/usr/include/rpcsvc")
OWN = pathlib.Path(__file__).resolve().parent / "accepted"
SKIPPED = 77
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Werror"]

# None: accepted. Else what is said about the file: each of these is a line of it.
EXPECTED = {
    "bootparam_prot": None,
    "key_prot": None,
    "klm_prot": None,
    "mount": None,
    "nfs_prot": None,
    "nis": None,
    "nis_callback": None,
    "nis_object": None,
    "nlm_prot": None,
    "rex": None,
    "rquota": None,
    "rstat": None,
    "rusers": None,
    "sm_inter": None,
    "spray": None,
    "yp": None,
    "yppasswd": None,
}
# What C's headers give rpcgen's output.
OPTIONS = {
    "a_external_const": ["-D", "PATH_LIMIT=1024"],
    "nis_callback": ["--import", FOLDER / "nis.x"],
}
# Functions, types and macros of C, which are namespaces with a '_'; those that are headers too are files with one.
C_NAMES = ["crypt", "div", "errno", "index", "link", "printf", "rand", "read", "remove", "select", "signal", "stat",
           "string", "time", "truncate", "write"]
NO_FUNCTIONS = {"string"}
C_HEADERS = {"crypt", "errno", "link", "signal", "string", "time"}
C_NAMED = "program P { version P_V1 { int NEXT(int) = 1; } = 1; } = 0x20000026;\n"

problems = []


def problem(path, text):
    problems.append(f"{path}: {text}")


def syntax(compiler, include, folder, name, paths):
    """What the compiler says of the functions and the random values of those files, as one."""
    whole = folder / name
    shutil.copy(pathlib.Path(__file__).parent / "posix_headers.h", folder)
    whole.write_text('#include "posix_headers.h"\n' + "".join(f'#include "{path.stem}.cc"\n#include "{path.stem}_random.h"\n' for path in paths))
    result = subprocess.run(
        [compiler, "-std=c++20", *WARNINGS, "-fsyntax-only", "-I", include, "-I", folder, whole],
        capture_output=True, text=True, timeout=300, check=False)
    return result.stderr if result.returncode != 0 else ""


def compile_cpp(compiler, include, folder, paths):
    """All together, which takes a tenth of the time; where that fails, each alone, which says whose fault it is."""
    together = syntax(compiler, include, folder, "whole.cc", paths)
    if not together:
        return
    before = len(problems)
    for path in paths:
        alone = syntax(compiler, include, folder, f"{path.stem}_whole.cc", [path])
        if alone:
            problem(path, f"what was made does not compile\n{alone[:4000]}")
    if len(problems) == before:
        problem("the files together", f"what was made does not compile, though each alone does\n{together[:4000]}")


def sweep(path, generator, folder):
    """Whether it was accepted, as it should be."""
    result = subprocess.run([generator, "--random", "--output", folder, *OPTIONS.get(path.stem, []), path],
                            capture_output=True, text=True, timeout=60, check=False)
    made = [name for name in (f"{path.stem}.h", f"{path.stem}.cc", f"{path.stem}_fields.h", f"{path.stem}_random.h")
            if (folder / name).exists()]
    says_error = f"{path}:" in result.stderr and ": error: " in result.stderr
    wanted = EXPECTED.get(path.stem)
    if path.parent == FOLDER and path.stem not in EXPECTED:
        print(f"sweep: {path} is not in the table; it is held to be accepted or refused, no more")
        wanted = [] if result.returncode == 1 else None
    if result.returncode not in (0, 1):
        problem(path, f"rpcrdma-gen ended with {result.returncode}\n{result.stderr[:4000]}")
    elif wanted is None:
        if result.returncode != 0 or says_error or len(made) != 4:
            problem(path, f"is not accepted\n{result.stderr}")
    else:
        if result.returncode != 1 or not says_error or made:
            problem(path, f"is not refused\n{result.stderr}")
        for text in wanted:
            if text not in result.stderr:
                problem(path, f"nothing says '{text}'\n{result.stderr}")
    print(f"sweep: {path}: {'accepted' if result.returncode == 0 else 'refused'}")
    return wanted is None and len(made) == 4


def c_named(generator, compiler, include, folder):
    """Files that are called like functions of C, in a folder of their own: they hide no header."""
    made = folder / "c-named"
    made.mkdir()
    paths = []
    for name in C_NAMES:
        path = folder / f"{name}.x"
        path.write_text(C_NAMED)
        result = subprocess.run([generator, "--random", "--output", made, path], capture_output=True, text=True,
                                timeout=60, check=False)
        stem = name + ("_" if name in C_HEADERS else "")
        paths.append(made / f"{stem}.x")
        if result.returncode != 0 or not (made / f"{stem}.h").exists():
            problem(path, f"is not accepted as {stem}.h\n{result.stderr}")
        elif f"namespace {name}{'' if name in NO_FUNCTIONS else '_'} {{" not in (made / f"{stem}.h").read_text():
            problem(path, "has another namespace")
    if not problems:
        compile_cpp(compiler, include, made, paths)


def main():
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    generator, compiler, include = sys.argv[1:]
    others = sorted(FOLDER.glob("*.x"))
    paths = sorted(OWN.glob("*.x")) + others
    with tempfile.TemporaryDirectory(prefix="rpcrdma-sweep.") as folder:
        folder = pathlib.Path(folder)
        compile_cpp(compiler, include, folder, [path for path in paths if sweep(path, generator, folder)])
        c_named(generator, compiler, include, folder)
    for each in problems:
        print(each)
    print(f"sweep: {len(paths)} files, {len(problems)} problems")
    if not others:
        print(f"sweep: skipped: no .x files in {FOLDER} (Debian: rpcsvc-proto)")
    return 1 if problems else 0 if others else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
