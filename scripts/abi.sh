#!/usr/bin/env bash
# Compares the binary interface of the shared library with that of its minor version, debian/librpcrdma0.1.abi.xz, by
# libabigail. Programs that were linked with one release go on with the next of that minor version.
#
# usage: abi.sh [--write]     --write: replaces the record; for a version that is not released yet
#
# Exit status: 0 nothing that programs use has changed, 1 something has (abidiff says what), 2 it could not be compared.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

record=debian/librpcrdma0.1.abi.xz
build=build-abi
[[ $# -eq 0 || ${1:-} == --write ]] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
command -v abidw >/dev/null || { echo "abi: abidw is missing: apt-get install abigail-tools" >&2; exit 2; }
log=$(mktemp "${TMPDIR:-/tmp}/rpcrdma-abi.XXXXXX")
trap 'rm -f "$log"' EXIT
echo "abi: building the shared library with debug information in $build"
{ cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O0 -g" -DBUILD_SHARED_LIBS=ON \
    -DRPCRDMA_BUILD_TESTS=OFF -DRPCRDMA_BUILD_TOOLS=OFF -DRPCRDMA_BUILD_EXAMPLES=OFF -DRPCRDMA_BATCHES=ON \
    -DRPCRDMA_VERBS=OFF -DRPCRDMA_KRB5=OFF && cmake --build "$build" --target rpcrdma --parallel "${JOBS:-$(nproc)}"; } \
  >"$log" 2>&1 || { tail -30 "$log" >&2; exit 2; }
library=$(find "$build/lib" -name 'librpcrdma.so.*.*.*' -type f | head -1)
[[ -n $library ]] || { echo "abi: there is no shared library in $build/lib" >&2; exit 2; }
# Neither paths nor what only the library itself uses.
abidw --exported-interfaces-only --headers-dir include/rpcrdma --drop-private-types --no-show-locs --no-comp-dir-path \
  --no-corpus-path --no-elf-needed --no-parameter-names --out-file "$build/librpcrdma.abi" "$library"
if [[ ${1:-} == --write ]]; then
  xz -9 --stdout "$build/librpcrdma.abi" >"$record"
  echo "abi: wrote $record"
  exit 0
fi
[[ -e $record ]] || { echo "abi: $record is missing; abi.sh --write makes it" >&2; exit 2; }
xz --decompress --stdout "$record" >"$build/recorded.abi"
status=0
abidiff --no-added-syms "$build/recorded.abi" "$build/librpcrdma.abi" || status=$?
# Bits: 1 an error, 2 wrong usage, 4 a change, 8 one that breaks programs.
if (( status & 3 )); then
  exit 2
elif (( status )); then
  echo "abi: programs that are linked with this minor version may break; see CONTRIBUTING.md, The binary interface" >&2
  exit 1
fi
echo "abi: nothing that programs use has changed"
