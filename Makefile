# The front door. `make help` lists what there is; README.md says more.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
.DEFAULT_GOAL := help

.PHONY: help setup build demo bench bench-nfs micro-bench instructions check check-all check-tsan check-release \
        sim coverage mutants format tidy doc site install deb abi fresh-root lab ceph clean fuzz fuzz-merge fuzz-coverage \
        fuzz-targets fuzz-nfs portability

help:
	@echo 'make demo        build, then move real files between two processes and check them'
	@echo 'make check       build with ASan and UBSan and run every test'
	@echo 'make check-all   check, and every test with TSan and in a release build, which also builds as users do; and abi'
	@echo 'make build       release build: build/bin/rpcrdma and build/lib/librpcrdma.a'
	@echo 'make bench       rates, latencies and CPU time over depth, payload and connections: docs/benchmarks.md'
	@echo 'make bench-nfs   our NFS client and server beside nfs-ganesha with libnfs (needs root)'
	@echo 'make micro-bench what the pieces cost, by Google Benchmark'
	@echo 'make instructions  count the instructions of calls, and hold them against the recorded ones'
	@echo 'make install     install the release build (DESTDIR and PREFIX are honoured)'
	@echo 'make deb         Debian packages of the library, the command and its plug-ins: build-deb/*.deb'
	@echo 'make abi         compare the shared library with the record of its minor version: debian/librpcrdma0.1.abi.xz'
	@echo 'make format      format the sources; make tidy checks layering, names and format'
	@echo 'make doc         pages of the public headers: build/doc/html/index.html'
	@echo 'make site        the documentation as a site that needs no network: OUT=build/site'
	@echo 'make sim         the simulation runner: build/bin/rpcrdma-sim --help'
	@echo 'make coverage    line coverage of the tests'
	@echo 'make mutants     plant the fault of each rule in docs/conformance.md, and see a test fail (hours);'
	@echo '                 scripts/mutants.py --help: to go on later, some of them, or faults drawn at random'
	@echo 'make fuzz        fuzz decoders, both machines and rpcrdma-gen, FUZZ_MINUTES=1 each'
	@echo 'make fuzz-targets  the fuzz targets with their inputs for OSS-Fuzz, AFL++ and others: OUT=DIR; scripts/fuzz.sh --help'
	@echo 'make fuzz-nfs    malformed calls to a server of NFS under strace: it opens nothing outside its exports, SECONDS=1800'
	@echo 'make fresh-root  demo and check from a clean clone in a fresh Debian 12, and the first hour with the packages (needs root)'
	@echo 'make lab         real RDMA devices and the Linux kernel, in QEMU (needs root and 80 minutes);'
	@echo '                 LAB_ONLY=regex LAB_KERNEL=6.12 LAB_FLAGS="--list | --write-docs | --help"'
	@echo 'make portability  build and test for s390x, armhf and arm64 under qemu-user, with the newest Clang, and as C++23 (hours);'
	@echo '                 PORTABILITY="s390x clang-new", scripts/portability.py --help'
	@echo 'make ceph        several gateways of one CephFS, which die and are drained (needs root and 10 minutes)'

setup:
	@scripts/setup.sh base

build: setup
	@scripts/build.sh release

demo: setup
	@scripts/build.sh release demo
	@scripts/demo.py build/bin/rpcrdma

bench: setup
	@scripts/setup.sh bench
	@scripts/build.sh release
	@scripts/plots.py build/bin/rpcrdma

# Beside nfs-ganesha with libnfs; needs root.
bench-nfs: setup
	@scripts/setup.sh bench-nfs
	@scripts/build.sh bench bench-nfs
	@scripts/nfs_bench.py build-bench/bin

micro-bench: setup
	@scripts/setup.sh bench
	@scripts/build.sh bench micro-bench
	@build-bench/bin/micro_bench

instructions: setup
	@scripts/setup.sh instructions
	@scripts/build.sh release instructions
	@scripts/instructions.py build/bin/one_thread

check: setup
	@scripts/setup.sh check
	@scripts/build.sh asan-ubsan test
	@echo 'lab: NOT run (needs root and 80 minutes: make lab); last matrix: docs/interop.md'
	@echo 'ceph: NOT run (needs root and 10 minutes: make ceph); last figures: docs/scale-out.md'

check-tsan: setup
	@scripts/build.sh tsan test

check-release: setup
	@scripts/setup.sh check
	@scripts/build.sh bench test
	@scripts/build.sh release
	@tests/system/install_test.py

# Whether programs that are linked with the shared library go on with this one.
abi: setup
	@scripts/setup.sh abi
	@scripts/abi.sh

# Commands look for leaks here, too: tools/leak_check.cc.
check-all: export ASAN_OPTIONS := $(ASAN_OPTIONS):detect_leaks=1
check-all: check check-tsan check-release abi

# The simulation runner, optimised: a campaign, or the seed of a failure step by step (docs/testing.md).
sim: setup
	@scripts/build.sh release sim

coverage: setup
	@scripts/coverage.sh

deb: setup
	@scripts/setup.sh deb
	@scripts/deb.sh --check

mutants: setup
	@scripts/setup.sh check
	@scripts/setup.sh mutants
	@scripts/mutants.py --keep-going

fuzz: setup
	@scripts/setup.sh fuzz
	@scripts/fuzz.sh run

fuzz-merge: setup
	@scripts/setup.sh fuzz
	@scripts/fuzz.sh merge

fuzz-coverage: setup
	@scripts/setup.sh fuzz
	@scripts/fuzz.sh coverage

fuzz-targets: setup
	@scripts/setup.sh fuzz
	@OUT="$(or $(OUT),build/fuzz-targets)" scripts/fuzz.sh targets

# Two thirds of the time with the sanitizers, one without; SEED=N begins elsewhere.
fuzz-nfs: setup
	@scripts/setup.sh check
	@scripts/build.sh asan-ubsan
	@scripts/build.sh bench
	@seconds=$(or $(SECONDS),1800); for build in build-asan-ubsan:$$((seconds * 2 / 3)) build-bench:$$((seconds / 3)); do \
	  folder=$${build%:*}; nice -n 5 tests/fuzz/nfs_wire_fuzz.py $$folder/bin/rpcrdma $$folder/tests/fuzz/nfs_wire_fuzz \
	    --seconds $${build#*:} --seed $(or $(SEED),1) || exit; done

format:
	@scripts/setup.sh check
	@git ls-files '*.h' '*.cc' | xargs clang-format -i

tidy:
	@scripts/setup.sh check
	@python3 scripts/tidy.py

doc:
	@scripts/setup.sh check
	@mkdir -p build
	@doxygen docs/Doxyfile

# Pages of docs/, of the manual and of the headers; every link is checked.
site: build
	@scripts/setup.sh site
	@scripts/site_pages.py --out '$(or $(OUT),build/site)' --command build/bin/rpcrdma

install: build
	@cmake --install build --strip --prefix "$(or $(PREFIX),/usr/local)"

fresh-root: deb
	@tests/system/fresh_root.sh
	@tests/system/fresh_root.sh packages build-deb

# Builds what the guest needs, and the guest, and ends with make, however that ends.
lab: setup
	@scripts/setup.sh lab
	@scripts/setup.sh ceph
	@LAB_ONLY='$(LAB_ONLY)' LAB_KERNEL='$(or $(LAB_KERNEL),6.1)' \
	  setpriv --pdeathsig TERM tests/interop/lab/lab.py $(LAB_FLAGS)

# A cluster in a temporary directory, on the loopback; CEPH_ONLY=GatewaysTest runs those alone.
ceph: setup
	@scripts/setup.sh ceph
	@scripts/build.sh bench ceph
	@python3 -W ignore tests/ceph/gateways_test.py build-bench $(CEPH_ONLY)

# Nothing of another architecture is installed: its libraries are unpacked below build-portability.
portability: setup
	@scripts/portability.py $(or $(PORTABILITY),all)

clean:
	@rm -rf build build-*
