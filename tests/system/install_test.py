#!/usr/bin/env python3
"""Installs this build into a clean prefix and uses it as somebody does who has nothing else of it.

Without BUILD in the environment that of `make build`: what users get.
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
EXAMPLES = ROOT / "examples"
INCLUDE = ROOT / "include"
CACHE = dict(re.findall(r"^(\w+):\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE))
CXX = CACHE["CMAKE_CXX_COMPILER"]
VERSION = CACHE["CMAKE_PROJECT_VERSION"]
HAS_LTO = CACHE.get("RPCRDMA_LTO") == "ON" and "clang" not in pathlib.Path(CXX).name
WORK = BUILD / "install-test"
PREFIX = WORK / "prefix"
BOUND_S = 300


def run(*command, **keywords):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                            timeout=BOUND_S, check=False, **keywords)
    if result.returncode != 0:
        raise AssertionError(f"{command} ended with {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def compilers():
    """The one of this build, and Clang: the archive is for every compiler."""
    found = [CXX]
    clang = shutil.which("clang++")
    if clang is None:
        print("install_test: NOT linked with Clang: it is not installed")
    elif "clang" not in pathlib.Path(CXX).name:
        found.append(clang)
    return found


def pkg_config(*arguments):
    folders = ":".join(str(path.parent) for path in PREFIX.rglob("rpcrdma.pc"))
    return run("pkg-config", *arguments, "rpcrdma",
               env=os.environ | {"PKG_CONFIG_PATH": folders}).split()


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        run("cmake", "--install", BUILD, "--prefix", PREFIX)

    def greet(self, server, client, url="rdma://127.0.0.1:0"):
        """Runs a server for one call and a client against it."""
        with subprocess.Popen([server, url, "1"], stdout=subprocess.PIPE, text=True) as process:
            try:
                ready = process.stdout.readline().split()
                self.assertEqual(ready[0], "ready")
                self.assertEqual(run(client, ready[1], "world"), "hello, world\n")
                self.assertEqual(process.wait(timeout=BOUND_S), 0)
            finally:
                process.kill()

    def configure(self, source, build, *definitions):
        return run("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={PREFIX}",
                   *definitions)

    def test_every_public_header_is_there_and_compiles_by_itself(self):
        def headers(include):
            return {str(path.relative_to(include)) for path in (include / "rpcrdma").rglob("*.h")}
        names = headers(INCLUDE)
        installed = headers(PREFIX / "include")
        self.assertEqual(names, installed)
        for compiler in compilers():
            for name in sorted(installed):
                run(compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
                    *pkg_config("--cflags"), "-x", "c++", "-", input=f"#include <{name}>\n")

    def test_examples_are_built_and_run_with_find_package(self):
        build = WORK / "examples"
        self.configure(EXAMPLES, build, f"-DCMAKE_CXX_COMPILER={CXX}")
        run("cmake", "--build", build, "--parallel", "2")
        listed = run("ctest", "--test-dir", build, "--output-on-failure")
        self.assertIn("100% tests passed", listed)
        self.greet(build / "hello_server", build / "hello_client")

    def test_hello_is_built_with_pkg_config_alone_by_every_compiler(self):
        programs = []
        for number, compiler in enumerate(compilers()):
            for name in ("hello_server", "hello_client"):
                program = WORK / f"{name}.{number}"
                run(compiler, "-std=c++20", EXAMPLES / f"{name}.cc", "-o", program,
                    *pkg_config("--cflags", "--libs"))
                programs.append(program)
        self.greet(programs[0], programs[-1])
        self.greet(programs[-2], programs[1])

    def test_pkg_config_knows_what_the_archive_needs(self):
        """Also beside a shared library, as in Debian's package."""
        libraries = pkg_config("--static", "--libs")
        self.assertIn("-lfmt", libraries)
        if CACHE.get("ISAL_FOUND") == "1":
            self.assertIn("-lisal", libraries)

    def test_the_five_minutes_of_docs_idl_work(self):
        """A newcomer's way from a .x file to a client and a server, by the page alone."""
        page = (EXAMPLES.parent / "docs" / "idl.md").read_text()
        block = re.search(r"## Five minutes.*?```sh\n(.*?)```", page, re.DOTALL).group(1)
        self.assertIn("$HOME/rpcrdma", block)
        block = block.replace("$HOME/rpcrdma", str(PREFIX)).replace(
            "sleep 1", "until [ -s url ] || ! kill -0 $!; do :; done")
        folder = WORK / "idl"
        folder.mkdir()
        printed = run("bash", "-c", "set -eu\n" + block, cwd=folder,
                      env=os.environ | {"CXX": CXX})
        self.assertEqual(printed.splitlines()[-1], "500000 bytes, in place: 1")

    @unittest.skipUnless(HAS_LTO, "this build is not optimised across files: `make check-release` tests the one that is")
    def test_the_archive_is_one_object_of_plain_machine_code(self):
        archive, = PREFIX.rglob("librpcrdma.a")
        self.assertEqual(run("ar", "t", archive).splitlines(), ["rpcrdma.o"])
        sections = run("readelf", "-SW", archive)
        self.assertIn(".text", sections)
        self.assertEqual(set(re.findall(r"\.gnu\.(?:lto|debuglto)|\.debug", sections)), set())
        self.assertLess(archive.stat().st_size, 4 << 20)

    @unittest.skipIf(CACHE.get("RPCRDMA_SHARED_MODULES") == "ON", "this build shows its modules everything")
    def test_a_shared_object_around_the_archive_exports_none_of_it(self):
        if CACHE.get("BUILD_SHARED_LIBS") == "ON":
            self.skipTest("this build has no archive: see shared_library_test")
        source, made = WORK / "around.cc", WORK / "around.so"
        source.write_text("#include <rpcrdma/server.h>\n#include <rpcrdma/testing.h>\n"
                          "[[gnu::visibility(\"default\")]] bool around() {\n"
                          "  rpcrdma::testing::Network network(1);\n"
                          "  return rpcrdma::Server::listen(\"rdma://127.0.0.1:0\") && network.listen(\"x\");\n}\n")
        run(CXX, "-std=c++20", "-fPIC", "-shared", "-fvisibility=hidden", "-fvisibility-inlines-hidden", source,
            "-o", made, *pkg_config("--cflags", "--libs"))
        names = [line.split()[-1] for line in run("nm", "-D", "--defined-only", made).splitlines()]
        self.assertIn("_Z6aroundv", names)
        self.assertEqual([name for name in names if name.startswith(("_ZN7rpcrdma", "_ZNK7rpcrdma"))], [])

    def test_the_bench_is_found_by_the_installed_command(self):
        command = PREFIX / "bin" / "rpcrdma"
        if not command.exists():
            self.skipTest("this build has no command")
        self.assertIn("null_qd1", run(command, "bench", "--list"))

    def test_what_is_installed_names_the_prefix_that_it_was_given(self):
        """And no other one, say that of `cmake -B`: the unit would begin another program, or none."""
        if not (PREFIX / "bin" / "rpcrdma").exists():
            self.skipTest("this build has no command")
        named = {"lib/systemd/system/rpcrdma.service": (f"ExecStart={PREFIX}/bin/rpcrdma serve ",
                                                        f"--config {PREFIX}/etc/rpcrdma/serve.toml"),
                 "sbin/mount.fuse.rpcrdma": (f"exec {PREFIX}/bin/rpcrdma mount ",),
                 "share/rpcrdma/bpftrace/latency.bt": (f"usdt:{PREFIX}/",),
                 "share/rpcrdma/bpftrace/connections.bt": (f"usdt:{PREFIX}/",),
                 "etc/rpcrdma/serve.toml": (f"--config {PREFIX}/etc/rpcrdma/serve.toml",)}
        for name, texts in named.items():
            path = PREFIX / name
            if not path.exists():
                print(f"install_test: this build has no {name}")
                continue
            for text in texts:
                self.assertIn(text, path.read_text(), name)
            self.assertNotIn("@CMAKE_", path.read_text(), name)
            self.assertEqual(os.access(path, os.X_OK), name.endswith((".bt", ".rpcrdma")), name)

    def test_settings_of_a_system_are_where_the_unit_looks_for_them(self):
        """`make install PREFIX=/usr`, into another root."""
        if not (PREFIX / "lib" / "systemd" / "system" / "rpcrdma.service").exists():
            self.skipTest("this build has no unit")
        if CACHE["CMAKE_INSTALL_SYSCONFDIR"] != "etc":
            self.skipTest("this build has another folder of settings")
        root = WORK / "root"
        run("cmake", "--install", BUILD, "--prefix", "/usr", env=os.environ | {"DESTDIR": str(root)})
        unit = (root / "usr" / "lib" / "systemd" / "system" / "rpcrdma.service").read_text()
        self.assertIn("ExecStart=/usr/bin/rpcrdma serve --config /etc/rpcrdma/serve.toml\n", unit)
        self.assertTrue((root / "etc" / "rpcrdma" / "serve.toml").exists())

    def test_settings_that_somebody_has_written_stay(self):
        settings = PREFIX / "etc" / "rpcrdma" / "serve.toml"
        if not settings.exists():
            self.skipTest("this build has no command")
        before = settings.read_text()
        settings.write_text("mine\n")
        try:
            run("cmake", "--install", BUILD, "--prefix", PREFIX)
            self.assertEqual(settings.read_text(), "mine\n")
        finally:
            settings.write_text(before)

    GREETING = {"greeting.x": "struct name { string first<20>; };\n"
                              "program P { version V { name F(name) = 1; } = 1; } = 0x20000042;\n",
                "main.cc": "#include \"greeting.h\"\nint main() { return rpcrdma::to_bytes(greeting::name{}).size() == 4 ? 0 : 1; }\n"}

    def project(self, name, files):
        folder = WORK / name
        for path, text in {**self.GREETING, **files}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES CXX)\n" + text
                                       if path == "CMakeLists.txt" else text)
        return folder

    def test_rpcrdma_generate_goes_with_both_ways_to_link_libraries(self):
        for way in ("", "PRIVATE "):
            lines = ["find_package(rpcrdma REQUIRED)", "add_executable(main main.cc)", "add_library(other INTERFACE)",
                     f"target_link_libraries(main {way}other)", "rpcrdma_generate(TARGET main FILES greeting.x)",
                     f"target_link_libraries(main {way}other)"]
            folder = self.project(f"link.{way.strip() or 'plain'}", {"CMakeLists.txt": "\n".join(lines)})
            self.configure(folder, folder / "build", f"-DCMAKE_CXX_COMPILER={CXX}")
            run("cmake", "--build", folder / "build")
            run(folder / "build" / "main")

    def test_rpcrdma_generate_works_for_the_target_of_another_directory(self):
        folder = self.project("elsewhere", {
            "CMakeLists.txt": "find_package(rpcrdma REQUIRED)\nadd_executable(main main.cc)\nadd_subdirectory(idl)\n",
            "idl/CMakeLists.txt": "rpcrdma_generate(TARGET main FILES greeting.x)\n",
            "idl/greeting.x": self.GREETING["greeting.x"]})
        for generator in ("Ninja", "Unix Makefiles"):
            build = folder / f"build.{generator.split()[0]}"
            self.configure(folder, build, f"-DCMAKE_CXX_COMPILER={CXX}", "-G", generator)
            run("cmake", "--build", build)
            run(build / "main")

    def test_the_sources_are_used_by_add_subdirectory(self):
        """What is left out there for others' sake is not what rpcrdma_generate needs. Nothing is compiled: make would."""
        folder = self.project("subdirectory", {
            "CMakeLists.txt": f"add_subdirectory({INCLUDE.parent} rpcrdma)\nadd_executable(main main.cc)\n"
                              "rpcrdma_generate(TARGET main FILES greeting.x)\n"})
        self.configure(folder, folder / "build", f"-DCMAKE_CXX_COMPILER={CXX}", "-G", "Ninja")
        wanted = run("cmake", "--build", folder / "build", "--target", "main", "--", "-n")
        for step in ("rpcrdma-gen greeting.x", "librpcrdma.a", "Linking CXX executable main"):
            self.assertIn(step, wanted)

    def test_versions_are_told_and_checked(self):
        self.assertEqual(pkg_config("--modversion"), [VERSION])
        source = WORK / "newer"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(newer LANGUAGES CXX)\n"
            "find_package(rpcrdma ${WANTED} REQUIRED)\n")
        self.configure(source, WORK / "newer.same", f"-DWANTED={VERSION}")
        with self.assertRaisesRegex(AssertionError, "compatible with requested version"):
            self.configure(source, WORK / "newer.newer", "-DWANTED=99.0")

    def test_nothing_installed_names_the_place_where_it_was_built(self):
        texts = [path for path in PREFIX.rglob("*") if path.is_file() and
                 path.suffix in (".cmake", ".pc", ".h", ".1", ".bash") or path.name == "_rpcrdma"]
        self.assertTrue(texts)
        for path in texts:
            for place in (INCLUDE.parent, BUILD):
                # From the root on: a checkout may lie at a place as short as /rpcrdma.
                named = re.search(rf"(?:-[IL]|(?<![\w/.}}-])){re.escape(str(place))}(?![\w-])", path.read_text())
                self.assertIsNone(named, path)


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    unittest.main()
