#!/usr/bin/env python3
"""Other people's .x files, those that rpcsvc-proto (Debian) installs for rpcgen, and accepted/*.x.

usage: sweep_test.py RPCRDMA-GEN C++-COMPILER INCLUDE-FOLDER

Each is accepted, and what it becomes compiles with all warnings, or it is refused with a message that
names the reason. Exits with 77 when other people's are not there.
"""
import pathlib
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path("/usr/include/rpcsvc")
OWN = pathlib.Path(__file__).resolve().parent / "accepted"
SKIPPED = 77
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Werror"]

NETOBJ = "error: there is no type 'netobj'"  # from C: %#include <rpc/auth.h>
# None: accepted. Else what is said about the file: each of these is a line of it.
EXPECTED = {
    "bootparam_prot": None,
    "mount": None,
    "nfs_prot": None,
    "rex": None,
    "rquota": None,
    "rstat": None,
    "rusers": None,
    "sm_inter": None,
    "spray": None,
    "yp": None,
    "yppasswd": None,
    "key_prot": ["error: text in quotes has no meaning in the XDR language"],  # a constant of text
    "klm_prot": [NETOBJ],
    "nlm_prot": [NETOBJ, "error: there is no constant 'LM_MAXSTRLEN'",
                 "error: there is no constant 'MAXNAMELEN'"],
    "nis_object": [NETOBJ],
    "nis": ["error: #include is not followed"],
    "nis_callback": ["error: there is no type 'nis_object'"],
}

problems = []


def problem(path, text):
    problems.append(f"{path}: {text}")


def syntax(compiler, include, folder, name, paths):
    """What the compiler says of the functions and the random values of those files, as one."""
    whole = folder / name
    whole.write_text("".join(f'#include "{path.stem}.cc"\n#include "{path.stem}_random.h"\n' for path in paths))
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
    result = subprocess.run([generator, "--random", "--output", folder, path], capture_output=True,
                            text=True, timeout=60, check=False)
    made = [name for name in (f"{path.stem}.h", f"{path.stem}.cc", f"{path.stem}_fields.h", f"{path.stem}_random.h")
            if (folder / name).exists()]
    says_error = f"{path}:" in result.stderr and ": error: " in result.stderr
    wanted = EXPECTED.get(path.stem)
    if path.parent != OWN and path.stem not in EXPECTED:
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
    for each in problems:
        print(each)
    print(f"sweep: {len(paths)} files, {len(problems)} problems")
    if not others:
        print(f"sweep: skipped: no .x files in {FOLDER} (Debian: rpcsvc-proto)")
    return 1 if problems else 0 if others else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
