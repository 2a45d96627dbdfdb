#!/usr/bin/env python3
"""cmake/RpcrdmaOneObject.cmake, by which a release makes librpcrdma.a: on two small files."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "cmake" / "RpcrdmaOneObject.cmake"
CXX = os.environ.get("CXX", "g++")
HEADER = """#include <coroutine>
// In every file that uses it, as some of the standard library are.
template <class T> [[gnu::visibility("default")]] inline T shared = 2;
namespace rpcrdma {
int answer(int);
struct Service { virtual ~Service() = default; virtual int call(); };  // its vtable is where call() is
namespace engine { int work(int); struct Base { virtual ~Base(); }; }
}
"""
PUBLIC = """#include "a.h"
int rpcrdma::answer(int x) try { return engine::work(x) + 1; } catch (...) { return 0; }
int rpcrdma::Service::call() { return std::noop_coroutine() ? shared<int> : 0; }
"""
INTERNAL = '#include "a.h"\nint rpcrdma::engine::work(int x) { if (x < 0) throw x; return x * 3; }\nrpcrdma::engine::Base::~Base() = default;\n'
USER = """#include "a.h"
struct Derived : rpcrdma::Service { int call() override { return Service::call() - 2; } };
int main() try { return rpcrdma::answer(13) == 40 ? !std::noop_coroutine() + Derived().call() + rpcrdma::Service().call() - shared<int> : 1; } catch (...) { return 2; }
"""


def run(*command, status=0):
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)
    if (result.returncode == 0) != (status == 0):
        raise AssertionError(f"{command} ended with {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout + result.stderr


def is_gcc():
    return "Free Software Foundation" in run(CXX, "--version")


@unittest.skipUnless(is_gcc(), f"{CXX} is not GCC: its libraries are archives of what each file became")
class OneObject(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="rpcrdma-one-object.")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        for name, text in (("a.h", HEADER), ("public.cc", PUBLIC), ("internal.cc", INTERNAL), ("user.cc", USER)):
            (cls.folder / name).write_text(text)
        objects = []
        for name in ("public", "internal"):
            objects.append(cls.folder / f"{name}.o")
            run(CXX, "-c", "-std=c++20", "-O2", "-g", "-fPIC", "-fvisibility=hidden", "-flto", "-ffat-lto-objects",
                cls.folder / f"{name}.cc", "-o", objects[-1])
        (cls.folder / "objects").write_text("".join(f"{each}\n" for each in objects))
        cls.whole = cls.folder / "whole.o"
        cls.make("objects")

    @classmethod
    def make(cls, objects, status=0):
        return run("cmake", "-D", f"COMPILER={CXX}", "-D", "FLAGS=-O2 -fPIC", "-D", "NM=nm", "-D", "OBJCOPY=objcopy", "-D",
                   f"OBJECTS={cls.folder / objects}", "-D", f"OUTPUT={cls.whole}", "-P", SCRIPT, status=status)

    def test_has_neither_bytecode_nor_what_debuggers_want(self):
        sections = run("readelf", "-SW", self.whole)
        self.assertIn(".text", sections)
        self.assertEqual(re.findall(r"\.gnu\.(?:lto|debuglto)\S*|\.debug\S*", sections), [])

    def test_what_users_call_is_there_and_what_is_internal_is_gone(self):
        symbols = run("nm", "-C", "--defined-only", self.whole)
        self.assertIn(" T rpcrdma::answer(int)", symbols)
        self.assertNotRegex(symbols, r" [A-Z] .*engine")

    def test_is_linked_by_every_compiler(self):
        compilers = [CXX, *([shutil.which("clang++")] if shutil.which("clang++") else [])]
        if len(compilers) == 1:
            print("one_object_test: NOT linked with Clang: it is not installed")
        for number, compiler in enumerate(compilers):
            program = self.folder / f"user{number}"
            run(compiler, "-std=c++20", self.folder / "user.cc", self.whole, "-o", program)
            run(program)

    def test_leaves_nothing_else(self):
        self.assertEqual([path.name for path in self.folder.glob("whole*")], ["whole.o"])

    def test_objects_that_cannot_be_linked_are_an_error_that_shows_why(self):
        (self.folder / "broken.o").write_text("no object")
        (self.folder / "wrong").write_text(f"{self.folder / 'broken.o'}\n")
        self.assertIn("broken.o", self.make("wrong", status=1))


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    unittest.main()
