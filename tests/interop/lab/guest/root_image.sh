#!/usr/bin/env bash
# Makes OUTPUT, an ext4 image with the user space of the guest, in the current folder.
#
# usage: root_image.sh OUTPUT
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
output=$1

packages=(
  # what boots and what scenarios use
  kmod iproute2 procps python3 strace tcpdump iputils-ping ethtool
  # RDMA
  rdma-core ibverbs-utils rdmacm-utils perftest ibverbs-providers libibverbs1 librdmacm1
  # NFS
  nfs-kernel-server nfs-common rpcbind
  # what goes to and fro on a mounted file system
  git rsync fio stress-ng bzip2
  # our own mount, for users
  fuse3
  # libraries of the host's binaries, which the guest runs
  libstdc++6 libfmt9 libisal2 libssl3 libsqlite3-0 libmicrohttpd12 libtomlplusplus3 libsystemd0 libtirpc3 libnsl2 libfuse3-3 libatomic1
  libasan8 libubsan1 libtsan2
)

say "user space: mmdebstrap $suite"
debian_sources >sources.list
proxy=()
while read -r line; do proxy+=("--aptopt=$line"); done < <(apt-config dump Acquire::http::Proxy)
mmdebstrap --quiet --variant=minbase --mode=root --aptopt='APT::Sandbox::User "root"' "${proxy[@]}" \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  --include="$(IFS=,; echo "${packages[*]}")" "$suite" root.tar - <sources.list >&2

mkdir root
tar -C root -xf root.tar
rm -rf root/var/cache/apt/* root/var/lib/apt/lists/* root/dev/*
mkdir -p root/lab root/export root/lib/modules
# Written anew by second_stage.sh, or wrong in a guest.
: >root/etc/fstab
: >root/etc/exports
size_mib=$(($(du -sm --apparent-size root | cut -f1) * 5 / 4 + 64))
# No journal: the guest mounts it read-only.
mke2fs -q -F -t ext4 -m 0 -O ^has_journal -d root image "${size_mib}M" >&2
mv image "$output"
