#!/usr/bin/env python3
"""The shared library: what it exports, and that installed programs run with it.

BUILD is a build of this tree. Where it is not one with BUILD_SHARED_LIBS, one is made below it.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()
INCLUDE = ROOT / "include" / "rpcrdma"
CACHE = dict(re.findall(r"^(\w+):\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE))
CXX = CACHE["CMAKE_CXX_COMPILER"]
VERSION = CACHE["CMAKE_PROJECT_VERSION"]
SONAME = f"librpcrdma.so.{VERSION.rpartition('.')[0]}"
WORK = BUILD / "shared-library-test"
PREFIX = WORK / "prefix"
BOUND_S = 600


def run(*command, **keywords):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                            timeout=BOUND_S, check=False, **keywords)
    if result.returncode != 0:
        raise AssertionError(f"{command} ended with {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def shared_build():
    """A build with the shared library; without optimisation, so that what is inline is called as well."""
    if CACHE.get("BUILD_SHARED_LIBS") == "ON":
        return BUILD
    build = WORK / "build"
    parts = [f"-DRPCRDMA_BUILD_{part}=OFF" for part in ("TESTS", "TOOLS", "EXAMPLES")]
    same = [f"-D{name}={CACHE[name]}" for name in ("CMAKE_CXX_COMPILER", "CMAKE_CXX_COMPILER_LAUNCHER",
                                                   "RPCRDMA_VERBS", "RPCRDMA_WERROR") if name in CACHE]
    run("cmake", "-S", ROOT, "-B", build, "-G", CACHE["CMAKE_GENERATOR"], "-DBUILD_SHARED_LIBS=ON",
        "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0", *parts, *same)
    run("cmake", "--build", build, "--parallel", os.environ.get("JOBS", "2"))
    return build


def symbols(*arguments):
    """(type, name) of each symbol that nm lists, names as in C++."""
    lines = run("nm", "-C", "--defined-only", *arguments).splitlines()
    return {match.groups() for match in (re.match(r"[0-9a-f]+ (\w) (.*)", line) for line in lines) if match}


class Declared:
    """What the public headers declare in namespaces: names, by the namespace, in the form that `make format` gives."""

    def __init__(self):
        self.classes, self.functions, self.marked = set(), set(), set()
        for header in sorted(INCLUDE.rglob("*.h")):
            self.read(header.read_text())

    def read(self, text):
        text = re.sub(r"//(?! namespace).*", "", text)
        namespaces = []
        for line in re.sub(r"\n {4,}", " ", text).split("\n"):  # a declaration goes on in the next line
            if opened := re.match(r"namespace ([\w:]+) {", line):
                namespaces.append(opened[1])
            elif re.match("}  // namespace", line):
                namespaces.pop()
            elif re.match(r"[\w\[]", line) and namespaces:
                self.take("::".join(namespaces), line)

    def take(self, namespace, line):
        if re.match(r"template|requires|using|#|friend", line):
            return
        is_marked = "RPCRDMA_EXPORT" in line
        line = re.sub(r"RPCRDMA_EXPORT |\[\[\w+\]\] |alignas\(\w+\) ", "", line)
        found = None
        if match := re.match(r"(?:class|struct) (\w+)(?: final)?(?: : .*)? {", line):
            found = f"{namespace}::{match[1]}"
            self.classes.add(found)
        elif not re.match("inline|constexpr|enum", line) and (match := re.match(r"[\w:<>,*& ]+?[ *&](\w+)\(", line)):
            found = f"{namespace}::{match[1]}"
            self.functions.add(found)
        if is_marked:
            if found is None:
                raise AssertionError(f"RPCRDMA_EXPORT on what this test does not understand: {line}")
            self.marked.add(found)

    def owner(self, symbol):
        """The class or free function of a symbol, if the headers declare it."""
        name = re.match(r"(?:typeinfo for |typeinfo name for |vtable for |non-virtual thunk to )?([\w:~]*)", symbol)[1]
        parts = name.split("::")
        for length in range(len(parts), 1, -1):
            candidate = "::".join(parts[:length])
            if candidate in self.classes or (length == len(parts) and candidate in self.functions):
                return candidate
        return None


class SharedLibraryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(PREFIX, ignore_errors=True)
        cls.build = shared_build()
        run("cmake", "--install", cls.build, "--prefix", PREFIX)
        cls.library, = PREFIX.rglob("librpcrdma.so")
        cls.environment = os.environ | {"PKG_CONFIG_PATH": str(cls.library.parent / "pkgconfig")}
        cls.cflags = run("pkg-config", "--cflags", "rpcrdma", env=cls.environment).split()
        cls.exported = {name for _, name in symbols("-D", cls.library)}
        cls.declared = Declared()

    def compile(self, program, *sources, flags=()):
        libs = run("pkg-config", "--libs", "rpcrdma", env=self.environment).split()
        run(CXX, "-std=c++20", *flags, *sources, "-o", program, *self.cflags, *libs, "-pthread",
            "-Wl,--enable-new-dtags", f"-Wl,-rpath,{self.library.parent}")
        self.assertIn(SONAME, run("readelf", "-d", program))

    def greet(self, server, client, *arguments, expected):
        with subprocess.Popen([server, "rdma://127.0.0.1:0", "1"], stdout=subprocess.PIPE, text=True) as process:
            try:
                url = process.stdout.readline().split()[-1]
                self.assertEqual(run(client, url, *arguments), expected)
            finally:
                process.kill()

    def test_the_soname_carries_the_minor_version(self):
        self.assertIn(f"Library soname: [{SONAME}]", run("readelf", "-d", self.library))
        self.assertEqual(self.library.resolve().name, f"librpcrdma.so.{VERSION}")
        self.assertEqual((self.library.parent / SONAME).resolve(), self.library.resolve())
        self.assertEqual(list(PREFIX.rglob("librpcrdma.a")), [])

    def test_it_exports_what_the_headers_mark_and_nothing_else(self):
        self.assertGreater(len(self.exported), 100)
        others = {name for name in self.exported if self.declared.owner(name) not in self.declared.marked}
        self.assertEqual(others, set())

    def test_everything_that_a_public_header_declares_is_there(self):
        """What is defined anywhere in the library, and belongs to what a header declares."""
        self.assertGreater(len(self.declared.marked), 25)
        with_symbols = {self.declared.owner(name) for name in self.exported}
        self.assertEqual(self.declared.marked - with_symbols, set(), "nothing of it is exported")
        modules = sorted((self.build / "src").rglob("*_objects.dir"))
        self.assertGreater(len(modules), 8)
        # One whose source has gone meanwhile may have stayed in a build that was there before.
        objects = [each for module in modules for each in module.rglob("*.o") if self.is_of_a_source(module, each)]
        self.assertGreater(len(objects), 100)
        defined = {name for kind, name in symbols(*objects) if kind in "TDBR"}
        owners = self.declared.classes | self.declared.functions
        missing = {name for name in defined if self.declared.owner(name) in owners} - self.exported
        self.assertEqual({name for name in missing if not name.startswith("rpcrdma::rpc::")}, set())

    @staticmethod
    def is_of_a_source(module, compiled):
        folder = ROOT / "src" / module.parent.parent.relative_to(SharedLibraryTest.build / "src")
        return (folder / compiled.relative_to(module).with_suffix("")).exists()

    def test_headers_compile_by_themselves_where_all_else_is_hidden(self):
        for header in sorted(INCLUDE.rglob("*.h")):
            run(CXX, "-std=c++20", "-fsyntax-only", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", *self.cflags,
                "-x", "c++", "-", input=f"#include <rpcrdma/{header.relative_to(INCLUDE)}>\n")

    def test_hello_runs_by_pkg_config(self):
        for flags in ((), ("-O2", "-fvisibility=hidden", "-fvisibility-inlines-hidden")):
            for name in ("hello_server", "hello_client"):
                self.compile(WORK / name, ROOT / "examples" / f"{name}.cc", flags=flags)
            self.greet(WORK / "hello_server", WORK / "hello_client", "world", expected="hello, world\n")

    def test_examples_run_with_find_package(self):
        build = WORK / "examples"
        shutil.rmtree(build, ignore_errors=True)
        run("cmake", "-S", ROOT / "examples", "-B", build, f"-DCMAKE_PREFIX_PATH={PREFIX}", f"-DCMAKE_CXX_COMPILER={CXX}")
        run("cmake", "--build", build, "--parallel", os.environ.get("JOBS", "2"))
        self.assertIn("100% tests passed", run("ctest", "--test-dir", build, "--output-on-failure"))
        self.assertIn(SONAME, run("readelf", "-d", build / "coroutines"))

    def test_generated_code_runs(self):
        """The program of docs/idl.md, whose code is made by this build's rpcrdma-gen."""
        generator = BUILD / "bin" / "rpcrdma-gen"
        if not generator.exists():
            self.skipTest("this build has no rpcrdma-gen")
        folder = WORK / "generated"
        folder.mkdir(exist_ok=True)
        page = (ROOT / "docs" / "idl.md").read_text()
        for name, text in re.findall(r"^cat > (\S+\.(?:x|cc)) <<'END'\n(.*?)^END$", page, re.DOTALL | re.MULTILINE):
            (folder / name).write_text(text)
        run(generator, folder / "blobs.x", "-o", folder)
        for name in ("server", "client"):
            self.compile(folder / name, folder / f"{name}.cc", folder / "blobs.cc", flags=(f"-I{folder}",))
        self.greet(folder / "server", folder / "client", expected="500000 bytes, in place: 1\n")

    def test_the_provider_for_devices_is_found_beside_it(self):
        """Also when the installation was moved; and it belongs to the same build."""
        source = WORK / "providers.cc"
        source.write_text("#include <rpcrdma/providers.h>\n#include <cstdio>\nint main() {\n"
                          "  for (const auto& each : rpcrdma::providers())\n"
                          "    std::printf(\"%s: %s\\n\", each.name.c_str(), each.problem.c_str());\n}\n")
        program = WORK / "elsewhere" / "in" / "a" / "tree" / "providers"  # which has no lib beside it
        program.parent.mkdir(parents=True, exist_ok=True)
        self.compile(program, source)
        moved = WORK / "moved"
        shutil.rmtree(moved, ignore_errors=True)
        shutil.copytree(self.library.parent, moved, symlinks=True)
        environment = os.environ | {"LD_LIBRARY_PATH": str(moved)}
        environment.pop("RPCRDMA_PROVIDER_DIR", None)
        plugin = moved / "rpcrdma" / "librpcrdma_verbs.so"
        if plugin.exists():
            said = run(program, env=environment)
            self.assertNotRegex(said, "verbs: .*(does not load|another build|is neither)")
        plugin.parent.mkdir(exist_ok=True)
        plugin.write_text("no object\n")
        self.assertRegex(run(program, env=environment), f"verbs: .*does not load: {re.escape(str(plugin))}")


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    unittest.main()
