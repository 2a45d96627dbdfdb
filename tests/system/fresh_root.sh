#!/usr/bin/env bash
# Runs, in a fresh Debian 12 root, the README's two commands, twice, on a clean clone; or what the packages that `make deb`
# has built promise: the first hour (first_hour.sh), their own tests (debian/tests, by autopkgtest), and that all of them
# can be installed together and purged (by piuparts, in a root of its own).
#
# usage: fresh_root.sh [packages FOLDER] [--keep]     (root; installs Debian's tools that are missing)
#
# The root is made in a temporary folder and removed at the end. The clone is what is committed.
set -euo pipefail
packages=
if [[ ${1:-} == packages ]]; then
  packages=$(realpath "$2")
  shift 2
fi
keep=${1:-}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[[ $(id -u) -eq 0 ]] || { echo "fresh_root: a chroot needs root" >&2; exit 1; }
tools=(debootstrap)
[[ -z $packages ]] || tools+=(autopkgtest piuparts)
for tool in "${tools[@]}"; do
  command -v "$tool" >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$tool"
done

root=$(mktemp -d "${TMPDIR:-/tmp}/rpcrdma-fresh.XXXXXX")
chmod 755 "$root" # it is / for users that are not root
cleanup() {
  umount -l "$root/proc" "$root/sys" "$root/dev" 2>/dev/null || true
  [[ $keep == --keep ]] || rm -rf --one-file-system "$root"
}
trap 'cleanup' EXIT

# The mirror that this machine uses for Debian, so that no address stands here.
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null |
         grep -m1 -E '/debian/?$' || true)
include=ca-certificates,git,make
[[ -z $packages ]] || include=ca-certificates
echo "fresh_root: making a Debian 12 root ($include, nothing else)"
debootstrap --variant=minbase --include="$include" bookworm "$root" ${mirror:+"$mirror"} >"$root.log" 2>&1 ||
  { tail -20 "$root.log" >&2; exit 1; }
rm -f "$root.log"
[[ -f /etc/apt/apt.conf.d/80proxy ]] && cp /etc/apt/apt.conf.d/80proxy "$root/etc/apt/apt.conf.d/"
cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
if [[ -n $packages ]]; then
  mkdir "$root/packages"
  cp "$packages"/*.deb tests/system/first_hour.sh "$root/packages"
  chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin bash /packages/first_hour.sh /packages
  echo "fresh_root: the first hour with the packages passed"
  # It has purged them, and has shown that nothing was left.
  mapfile -t all < <(find "$packages" -name '*.deb' ! -name '*dbgsym*')
  autopkgtest --no-built-binaries "${all[@]}" "$packages"/*.dsc -- chroot "$root" >"$root/log" 2>&1 || { tail -60 "$root/log" >&2; exit 1; }
  sed -n '/@@@ summary/,/^autopkgtest.*Binaries/p' "$root/log" | grep -v '^autopkgtest'
  echo "fresh_root: the packages' own tests passed"
  # systemd comes with its folders and leaves them, whoever installs it. No version is in an archive to upgrade from;
  # first_hour.sh upgrades.
  piuparts -d bookworm ${mirror:+--mirror "$mirror main"} --no-eatmydata --no-upgrade-test \
    --fake-essential-packages systemd "${all[@]}" >"$root/log" 2>&1 || { grep -A30 'ERROR: FAIL' "$root/log" >&2; exit 1; }
  grep -o 'PASS: .*' "$root/log"
  echo "fresh_root: all packages were installed together and purged, and left nothing"
  exit 0
fi
git clone --quiet . "$root/rpcrdma"

in_root() { chroot "$root" /usr/bin/env -i HOME=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
              bash -c "cd /rpcrdma && $1"; }
for round in first second; do
  for target in demo check; do
    echo "fresh_root: make $target, $round time"
    start=$SECONDS
    in_root "make $target" >"$root/log" 2>&1 || { tail -60 "$root/log" >&2; exit 1; }
    tail -3 "$root/log"
    echo "fresh_root: make $target, $round time: ok in $((SECONDS - start)) s"
  done
done
in_root 'git status --porcelain' | grep . && { echo "fresh_root: the commands changed the tree" >&2; exit 1; }
echo "fresh_root: all four runs passed"
