#!/usr/bin/env bash
# Installs what is missing from Debian's packages; does and asks nothing when all is there.
#
# usage: setup.sh base|check|deb|abi|mutants|fuzz|bench|bench-nfs|instructions|lab|ceph|site|portability
set -euo pipefail

case ${1:-base} in
  # Not required to build: RDMA devices, Kerberos and FUSE, which a build without them leaves out and says so.
  base)  packages=(g++ cmake ninja-build pkg-config libfmt-dev libcli11-dev libisal-dev libssl-dev libsqlite3-dev
                   libgtest-dev libgmock-dev libtomlplusplus-dev python3 libibverbs-dev librdmacm-dev libkrb5-dev libfuse3-dev fuse3) ;;
  check) packages=(clang libclang-rt-dev llvm lld tshark clang-format git libasio-dev doxygen mandoc zsh libtirpc-dev rpcsvc-proto
                   rpcbind iproute2 strace krb5-kdc krb5-admin-server krb5-user
                   libmicrohttpd-dev libsystemd-dev systemd systemtap-sdt-dev prometheus rsync fio) ;;
  # What debian/control builds with, and lintian.
  deb) packages=(debhelper lintian fakeroot dpkg-dev devscripts libcephfs-dev libmicrohttpd-dev libsystemd-dev libtirpc-dev
                  systemtap-sdt-dev) ;;
  abi) packages=(abigail-tools xz-utils) ;;
  # Each fault is taken out again, which without it builds hundreds of objects once more.
  mutants) packages=(ccache) ;;
  fuzz)  packages=(clang libclang-rt-dev llvm) ;;
  instructions) packages=(valgrind) ;;
  bench-nfs) packages=(libbenchmark-dev libtirpc-dev rpcsvc-proto libnfs-dev libnfs-utils nfs-ganesha
                       nfs-ganesha-vfs rpcbind iproute2 util-linux) ;;
  # A cluster of its own, and what gateways need.
  ceph)  packages=(ceph-mon ceph-mgr ceph-osd ceph-mds ceph-common ceph-fuse fuse3 libcephfs-dev libmicrohttpd-dev) ;;
  site)  packages=(mkdocs libjs-jquery doxygen mandoc) ;;
  bench) packages=(libbenchmark-dev libtirpc-dev rpcsvc-proto) ;;
  # Cross compilers, what runs their programs, what unpacks their libraries, and the newest Clang (scripts/portability.py).
  portability)
    mapfile -t clangs < <(apt-cache search --names-only '^clang-[0-9]+$' | cut -d' ' -f1 | sort -V)
    packages=(g++-s390x-linux-gnu g++-aarch64-linux-gnu g++-arm-linux-gnueabihf qemu-user mmdebstrap "${clangs[-1]:-clang}") ;;
  # The guest and what makes it; gcc-12 made Debian's kernels; a realm.
  lab)   packages=(qemu-system-x86 seabios mmdebstrap cpio kmod busybox-static e2fsprogs xz-utils zstd make
                   gcc-12 libelf-dev iproute2 util-linux git krb5-kdc krb5-admin-server krb5-user libtirpc-dev rpcsvc-proto) ;;
  *) echo "usage: setup.sh base|check|deb|abi|mutants|fuzz|bench|bench-nfs|instructions|lab|ceph|site|portability" >&2; exit 2 ;;
esac

# Programs of Debian's that tests start, unpacked and not installed: some would be started with the machine.
if [[ ${1:-} == check || ${1:-} == lab ]]; then
  programs=(rusers rusersd quota nfs-common nfs-kernel-server)
  unpacked=$(dirname "${BASH_SOURCE[0]}")/../build-programs
  if [[ ! -e $unpacked/complete ]] && mkdir -p "$unpacked/packages"; then
    echo "setup: unpacking from Debian's packages into build-programs: ${programs[*]}"
    if (cd "$unpacked/packages" && apt-get download -qq "${programs[@]}" >/dev/null 2>&1 &&
        for package in *.deb; do dpkg-deb -x "$package" ..; done); then
      touch "$unpacked/complete"
    else
      echo "setup: they could not be had; tirpc_programs_test leaves them out"
    fi
    rm -rf "$unpacked/packages"
  fi
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  # Also where somebody has put a package on hold.
  [[ $status == *' ok installed' ]] || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

echo "setup: installing from Debian's packages: ${missing[*]}"
become=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo >/dev/null || {
    echo "setup: these packages are missing and this is not root; as root, run:" >&2
    echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  }
  become=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
"${become[@]}" apt-get update -qq
"${become[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
