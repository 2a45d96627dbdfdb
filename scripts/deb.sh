#!/usr/bin/env bash
# Builds the Debian packages of this tree, as it is, into build-deb/.
#
# usage: deb.sh [--check]     --check: and looks at them with lintian
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=$(dpkg-parsechangelog -S Version)
folder=build-deb/rpcrdma-$version
rm -rf build-deb/rpcrdma-* build-deb/rpcrdma_* build-deb/*.deb
mkdir -p "$folder"
# What git knows and what is new, without what is ignored.
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  [[ ! -e $file ]] || printf '%s\0' "$file"
done | xargs -0 cp -a --parents -t "$folder"
log=build-deb/build.log
echo "deb: building rpcrdma $version; the log is $log"
(cd "$folder" && DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:+$DEB_BUILD_OPTIONS }parallel=${JOBS:-$(nproc)}" \
  dpkg-buildpackage --no-sign >../build.log 2>&1) || { tail -40 "$log" >&2; exit 1; }
rm -rf "$folder"
(cd build-deb && ls -- *.deb *.dsc)
if [[ ${1:-} == --check ]]; then
  lintian --fail-on error --info --display-info build-deb/*.changes
fi
