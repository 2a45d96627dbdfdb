#!/usr/bin/env python3
"""A .x file may use every name that rpcrdma-gen itself writes into the C++ that it makes.

usage: own_names_test.py RPCRDMA-GEN C++-COMPILER INCLUDE-FOLDER

Takes the identifiers of what SAMPLE becomes, and lets each be a structure, an enumeration, a typedef or a union that is an
argument, a result, a member, an arm and a discriminant; then a procedure, an arm, a discriminant, a member, an enumerator
and a constant. rpcrdma-gen accepts all of them, as rpcgen does, and what it makes compiles.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

# Every construct that is emitted in a way of its own. All names begin with q_ or Q_.
SAMPLE = """
const Q_MAX = 5;
enum q_enum { Q_A, Q_B = 7 };
struct q_node { int q_x; q_node *q_next; };
struct q_empty { q_node q_one; q_node *q_all; };
typedef q_node *q_list;
typedef q_enum q_enums<3>;
struct q_all {
  bool q_b; char q_c; short q_s; unsigned hyper q_h; float q_f; double q_d; opaque q_o[3]; opaque q_p<4>; string q_t<>;
  opaque q_data<>; /* ddp */
  string q_text<9>; /* ddp */
  q_enum q_e[2]; q_enums q_v<2>; q_list q_l<>; q_all *q_again; bool q_flags<>;
};
union q_union switch (int q_which) {
case 0: void;
case 1: q_all q_large;
case 2: int q_number;
case 3: q_list q_several<>;
default: opaque q_rest<>; /* ddp */
};
union q_by_enum switch (q_enum q_kind) { case Q_A: int q_a; default: q_by_enum *q_d; };
program Q_PROGRAM {
  version Q_V {
    void Q_NULL(void) = 0;
    q_all Q_SHORT(q_all, q_union) = 1; /* unbounded <= 77 + arg1.q_h, non-idempotent, results-by-read */
    string Q_LONG(string, opaque<>, int, q_enum, q_list) = 2;
    void Q_NOTHING(q_by_enum) = 3;
    q_list Q_LIST(void) = 4;
  } = 1;
} = 0x20000041;
"""
KEYWORDS = {"bool", "case", "const", "default", "double", "quadruple", "enum", "float", "hyper", "int", "opaque", "program",
            "string", "struct", "switch", "typedef", "union", "unsigned", "version", "void", "char", "short", "long"}
# A name behind "." or "::" is looked up in a class or a namespace of its own.
IDENTIFIER = re.compile(r"(?<![\w.:>])[A-Za-z_]\w*")
# The class that services derive from is always called rpcrdma::Service, and its name is inherited nevertheless.
INHERITED = {"Service", "check_credential"}
IGNORED = re.compile(r'//[^\n]*|"(?:[^"\\]|\\.)*"|^ *#[^\n]*|\'.\'|\b0x[0-9a-fA-F]+', re.MULTILINE)


def generate(generator, folder, stem, text):
    """The files that are made of the text."""
    path = folder / f"{stem}.x"
    path.write_text(text)
    result = subprocess.run([generator, "--random", "--output", folder, path], capture_output=True, text=True, timeout=120,
                            check=False)
    if result.returncode != 0:
        raise SystemExit(f"{stem}: rpcrdma-gen refuses it\n{result.stderr[:6000]}")
    return [folder / f"{stem}{ending}" for ending in (".h", ".cc", "_fields.h", "_random.h")]


def own_names(generator, folder):
    names = set()
    for path in generate(generator, folder, "q_sample", SAMPLE):
        names |= set(IDENTIFIER.findall(IGNORED.sub(" ", path.read_text())))
    names = {name for name in names | INHERITED if "q_" not in name.lower()} - KEYWORDS
    return sorted(names)


def service(results, arguments):
    """A program whose procedures have each of the types as an argument and as a result, alone and among others."""
    procedures = []
    for each in results:
        procedures.append(f"{each} Q_P{len(procedures) + 1}({each})")
        procedures.append(f"{each} Q_P{len(procedures) + 1}(string, {each}, int)")
    procedures.append(f"void Q_P{len(procedures) + 1}(string, {', '.join(arguments)})")
    lines = "".join(f"    {each} = {i + 1};\n" for i, each in enumerate(procedures))
    return f"program Q_PROGRAM {{\n  version Q_V {{\n{lines}  }} = 1;\n}} = 0x20000042;\n"


def members(names):
    """Each of the types in the places that a type can have inside of others, as a member of its own name too."""
    text = "struct Q_ALL {\n" + "".join(f"  {each} {each};\n" for each in names) + "};\n"
    text += "struct Q_MANY {\n" + "".join(
        f"  {each} q_f{i}[2]; {each} q_v{i}<>; {each} *q_o{i};\n" for i, each in enumerate(names)) + "};\n"
    return text + "union Q_ARMS switch (int q_which) {\n" + "".join(
        f"case {i}: {each} {each};\n" for i, each in enumerate(names)) + "default: void;\n};\n"


def files(names):
    """The sources, by their stems."""
    structs = "".join(f"struct {each} {{ int q_x; string q_s<>; }};\n" for each in names)
    enums = "".join(f"enum {each} {{ Q_A{i} = 1, Q_B{i} = 2 }};\n" for i, each in enumerate(names))
    typedefs = "".join(f"typedef opaque {each}<64>;\n" for each in names)
    unions = "".join(f"union {each} switch (int q_d) {{ case 0: int q_x; case 1: hyper q_y; default: void; }};\n"
                     for each in names)
    by_enum = "".join(f"union q_u{i} switch ({each} {each}) {{ case Q_A{i}: {each} q_a; case Q_B{i}: int q_b; }};\n"
                      for i, each in enumerate(names))
    every = service(names, names)
    yield "q_structs", structs + members(names) + every
    yield "q_enums", enums + by_enum + members(names) + every
    yield "q_typedefs", typedefs + members(names) + every
    yield "q_unions", unions + members(names) + every
    text = "struct q_struct { int q_x; };\n"
    text += "union q_arms switch (int q_d) {\n" + "".join(
        f"case {2 * i}: case {2 * i + 1}: q_struct {each};\n" for i, each in enumerate(names)) + "default: void;\n};\n"
    text += "".join(f"union q_which{i} switch (int {each}) {{ case 0: int {each}; case 1: int q_a; default: void; }};\n"
                    for i, each in enumerate(names))
    text += "program Q_PROGRAM { version Q_V {\n" + "".join(
        f"  {'q_struct' if i % 2 else 'string'} {each}({'string, ' if i % 3 else ''}q_struct, q_struct) = {i + 1};\n"
        for i, each in enumerate(names)) + "} = 1; } = 0x20000043;\n"
    yield "q_procedures", text
    yield "q_constants", "".join(f"const {each} = {i};\n" for i, each in enumerate(names)) + SAMPLE
    yield "q_enumerators", "enum q_them {\n" + ",\n".join(f"  {each} = {i}" for i, each in enumerate(names)) + "\n};\n" + SAMPLE


def main():
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    generator, compiler, include = sys.argv[1:]
    problems = 0
    with tempfile.TemporaryDirectory(prefix="rpcrdma-own-names.") as folder:
        folder = pathlib.Path(folder)
        names = own_names(generator, folder)
        print(f"{len(names)} names: {' '.join(names)}")
        for stem, text in files(names):
            made = generate(generator, folder, stem, text)
            whole = folder / f"{stem}_whole.cc"
            whole.write_text(f'#include "{made[1].name}"\n#include "{made[3].name}"\n')
            result = subprocess.run([compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", include,
                                     "-I", folder, whole], capture_output=True, text=True, timeout=300, check=False)
            print(f"{stem}: {'compiles' if result.returncode == 0 else 'does not compile'}")
            if result.returncode != 0:
                problems += 1
                print("\n".join(line for line in result.stderr.splitlines() if "error:" in line)[:6000])
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
