#!/usr/bin/env python3
"""rpcrdma_generate() runs an rpcrdma-gen of this library's version that this machine can run, for whatever machine the build is.

usage: generate_test.py RPCRDMA-GEN

Each test configures a project whose .x file is idl/blob.x, and reads in its build.ninja what would run.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATOR = None  # the first argument
ELSEWHERE = ["-DCMAKE_SYSTEM_NAME=Linux"]  # which makes it a build for another architecture
EMULATOR = "/usr/bin/qemu-other-static"
PROJECT = """
cmake_minimum_required(VERSION 3.25)
set(CMAKE_CXX_COMPILER_FORCED TRUE)  # it compiles nothing
project(outside LANGUAGES CXX)
set(rpcrdma_VERSION {version})
include({root}/cmake/RpcrdmaGenerate.cmake)
unset(rpcrdma_VERSION)
if(IS_INSTALLED)
  add_executable(rpcrdma::gen IMPORTED)
  set_target_properties(rpcrdma::gen PROPERTIES IMPORTED_LOCATION /installed/rpcrdma-gen)
endif()
add_library(rpcrdma::rpcrdma INTERFACE IMPORTED)
add_library(made STATIC)
rpcrdma_generate(TARGET made FILES {root}/idl/blob.x)
"""


class Generate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rpcrdma-generate.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.version = subprocess.run([GENERATOR, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]

    def configure(self, *options, version=None):
        (self.folder / "CMakeLists.txt").write_text(PROJECT.format(root=ROOT, version=version or self.version))
        return subprocess.run(["cmake", "-G", "Ninja", "-S", self.folder, "-B", self.folder / "build", *options], cwd=self.folder,
                              capture_output=True, text=True, check=False, timeout=60)

    def runs(self, *options):
        """Returns what runs for the file, up to its name."""
        done = self.configure(*options)
        self.assertEqual(done.returncode, 0, done.stderr)
        rules = (self.folder / "build" / "build.ninja").read_text()
        return re.search(r"COMMAND = cd \S+ && (.*) \S+/idl/blob\.x ", rules)[1]

    def refused(self, text, *options, **keywords):
        done = self.configure(*options, **keywords)
        self.assertEqual(done.returncode, 1)
        self.assertIn(text, " ".join(done.stderr.split()))

    def test_installed_one_runs_in_a_build_for_this_machine(self):
        self.assertEqual(self.runs("-DIS_INSTALLED=1"), "/installed/rpcrdma-gen")

    def test_installed_one_of_another_architecture_runs_in_the_emulator(self):
        self.assertEqual(self.runs("-DIS_INSTALLED=1", f"-DCMAKE_CROSSCOMPILING_EMULATOR={EMULATOR}", *ELSEWHERE),
                         f"{EMULATOR} /installed/rpcrdma-gen")

    def test_one_that_the_builder_names_comes_first(self):
        named = f"-DRPCRDMA_GEN={os.path.relpath(GENERATOR, self.folder)}"  # from where cmake runs
        self.assertEqual(self.runs("-DIS_INSTALLED=1", named, f"-DCMAKE_CROSSCOMPILING_EMULATOR={EMULATOR}", *ELSEWHERE),
                         str(GENERATOR))

    def test_one_that_does_not_run_here_or_is_of_another_version_is_refused(self):
        self.refused("RPCRDMA_GEN is /nowhere/rpcrdma-gen, which should be", "-DRPCRDMA_GEN=/nowhere/rpcrdma-gen")
        (self.folder / "other").write_text("no program")
        for path in ("/nowhere/rpcrdma-gen", self.folder / "other"):
            self.refused("asked for its version: it does not run here", f"-DRPCRDMA_GEN={path}")
        self.refused(f"should be the rpcrdma-gen 9.9.9 of this machine; asked for its version: rpcrdma-gen {self.version}",
                     f"-DRPCRDMA_GEN={GENERATOR}", version="9.9.9")

    def test_build_for_another_architecture_without_any_says_what_it_takes(self):
        self.refused("set RPCRDMA_GEN to the path of its rpcrdma-gen; or install qemu-user", "-DIS_INSTALLED=1",
                     "-DRPCRDMA_GEN=RPCRDMA_GEN-NOTFOUND", "-DCMAKE_IGNORE_PATH=" + os.environ["PATH"].replace(":", ";"),
                     "-DCMAKE_MAKE_PROGRAM=" + shutil.which("ninja"), "-DCMAKE_CXX_COMPILER=" + shutil.which("c++"), *ELSEWHERE)


if __name__ == "__main__":
    GENERATOR = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
