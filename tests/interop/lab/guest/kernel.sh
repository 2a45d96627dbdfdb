#!/usr/bin/env bash
# Makes in OUTPUT, a folder: `kernel` and `initrd` of a stock Debian kernel, with the module siw, which Debian does
# not build, compiled from the same version's sources; and `version`.
#
# usage: kernel.sh SERIES OUTPUT      SERIES: 6.1, or one that Debian has as linux-image-SERIES-amd64
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/common.sh"
series=$1 output=$2

# What first_stage.sh needs to get at the images and shares ...
boot_modules=(virtio_pci virtio_blk 9pnet_virtio 9p crc32c_generic ext4 overlay)
# ... and what the lab is about. What they depend on comes by itself.
lab_modules=(virtio_net virtio_console virtio_rng ib_uverbs rdma_cm rdma_ucm rdma_rxe siw
  dummy fuse sunrpc rpcrdma auth_rpcgss nfsd nfs nfsv3 nfsv4 crc32c_intel crc32_pclmul crc32_generic
  rpcsec_gss_krb5 cts cbc ecb hmac cmac aes_generic aesni_intel sha1_generic sha1_ssse3 sha256_generic sha512_generic)

find_version() { # sets image, release and version
  local meta=linux-image-$series-amd64
  [[ $series == 6.1 ]] && meta=linux-image-amd64
  image=$(apt-cache -q depends "$meta" 2>/dev/null | sed -n 's/^ *Depends: *\(linux-image-[0-9].*\)/\1/p' |
    head -n1) || true
  [[ -n $image ]] || die "Debian $suite has no $meta"
  release=${image#linux-image-}
  version=$(apt-cache show --no-all-versions "$image" | sed -n 's/^Version: //p' | head -n1)
}

unpack_kernel_package() { # the modules uncompressed: unpacking is slow in an emulated CPU
  fetch "$image=$version"
  dpkg-deb -x "$image"_*.deb package
  rm "$image"_*.deb
  find package/lib/modules -name '*.ko.xz' -print0 | xargs -0 -r -P "$(nproc)" -n 64 xz -d
}

# siw's tunables are constants. As module parameters, with the same defaults, they can be set without a compiler:
# mpa_crc_required, for one, says whether siw asks for CRC when it connects.
make_tunables_parameters() { # FOLDER
  sed -i -E 's/^extern const bool /extern bool /' "$1/siw.h"
  sed -i -E 's/^const bool ([a-z_]+)( = [a-z]+)?;/bool \1\2;\nmodule_param(\1, bool, 0644);/' "$1/siw_main.c"
  grep -q '^module_param(mpa_crc_required' "$1/siw_main.c" || die "siw_main.c looks different in $version"
}

build_siw() {
  local kbuild headers=$PWD/headers source=linux-source-$series
  kbuild=$(apt-cache depends "linux-headers-$release" | sed -n 's/^ *Depends: *\(linux-kbuild-.*\)/\1/p' | head -n1)
  fetch "linux-headers-$release=$version" "linux-headers-${release%-amd64}-common" "$kbuild" "$source=$version"
  local package
  for package in linux-headers-*.deb linux-kbuild-*.deb; do dpkg-deb -x "$package" "$headers"; done
  # The packages' Makefile has the path of an installed one.
  sed -i "s#/usr/src/#$headers/usr/src/#g" "$headers/usr/src/linux-headers-$release/Makefile"
  dpkg-deb --fsys-tarfile "$source"_*.deb | tar -xO "./usr/src/$source.tar.xz" | xz -dc |
    tar -x --strip-components=5 --one-top-level=siw "$source/drivers/infiniband/sw/siw"
  rm ./*.deb
  make_tunables_parameters siw
  make -s -j "$(nproc)" -C "$headers/usr/src/linux-headers-$release" M="$PWD/siw" CONFIG_RDMA_SIW=m \
    CONFIG_DEBUG_INFO_BTF_MODULES= modules >siw.log 2>&1 || { cat siw.log >&2; die "siw does not compile"; }
  strip --strip-debug siw/siw.ko
  install -D -m 644 siw/siw.ko "package/lib/modules/$release/updates/siw.ko"
}

# The modules that the guest may load, in the folder of the initrd; first_stage.sh takes them along to the root.
collect_modules() {
  local from=package/lib/modules/$release to=initrd/lib/modules/$release name
  depmod -b package "$release"
  mkdir -p "$to"
  for name in "${boot_modules[@]}" "${lab_modules[@]}"; do
    modprobe -d package -S "$release" --show-depends --ignore-install "$name" 2>/dev/null ||
      say "no module $name in $release"
  done | sed -n "s#^insmod .*/lib/modules/$release/\([^ ]*\).*#\1#p" | sort -u >modules
  (cd "$from" && cpio -pdm --quiet "$OLDPWD/$to" <"$OLDPWD/modules")
  cp "$from"/modules.{builtin,builtin.modinfo,order} "$to"
  depmod -b initrd "$release"
}

make_initrd() {
  mkdir -p initrd/{bin,dev,proc,sys,lower,upper,target}
  cp "$(command -v busybox)" initrd/bin/busybox
  sed "s/@BOOT_MODULES@/${boot_modules[*]}/" "$here/first_stage.sh" >initrd/init
  chmod 755 initrd/init
  (cd initrd && find . | LC_ALL=C sort | cpio -o -H newc --quiet -R 0:0) >initrd.cpio
}

# An ELF kernel starts by QEMU's PVH entry, without the seconds that an emulated CPU takes to decompress itself.
unpack_kernel() { # VMLINUZ OUTPUT
  local tool magic at
  for tool in xz zstd gzip; do
    case $tool in
      xz) magic=$'\xfd7zXZ' ;;
      zstd) magic=$'\x28\xb5\x2f\xfd' ;;
      gzip) magic=$'\x1f\x8b\x08' ;;
    esac
    for at in $(LC_ALL=C grep -aboF "$magic" "$1" | cut -d: -f1); do
      tail -c "+$((at + 1))" "$1" | "$tool" -dc >"$2" 2>/dev/null || true # what follows the kernel is no error
      [[ $(head -c 4 "$2" | tr -d '\0') == $'\x7fELF' ]] && return
    done
  done
  say "kernel stays compressed: no ELF found in it"
  cp "$1" "$2"
}

use_own_apt
find_version
say "kernel $release ($version), siw from linux-source-$series"
unpack_kernel_package
build_siw
collect_modules
make_initrd
mkdir -p "$output"
unpack_kernel "package/boot/vmlinuz-$release" kernel
mv kernel "$output/kernel"
mv initrd.cpio "$output/initrd"
echo "$release ($version)" >"$output/version"
