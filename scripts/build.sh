#!/usr/bin/env bash
# Configures and builds one preset, and with `test` runs its tests.
#
# usage: build.sh PRESET [test | BUILD-PRESET]     BUILD-PRESET: another one of its folder, with fewer targets
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=$1
build=${2:-$preset}
[[ $build != test ]] || build=$preset
jobs=${JOBS:-$(nproc)}
launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}  # without these it keeps no file with common headers

log=$(mktemp "${TMPDIR:-/tmp}/rpcrdma-configure.XXXXXX")
trap 'rm -f "$log"' EXIT
configure() { cmake --preset "$preset" "${launcher[@]}" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }; }
configure
# With another compiler than the folder had, CMake deletes its cache, and forgets what else the preset says until next time.
if grep -q 'variables that require your cache to be deleted' "$log"; then configure; fi
grep -E '^-- (rpcrdma|  )' "$log" || true
cmake --build --preset "$build" --parallel "$jobs"
if [[ ${2:-} == test ]]; then
  # Times in tests are bounds on waiting, so two at a time on two cores is fine. Programs run whole, not each test of them.
  results=$(mktemp "${TMPDIR:-/tmp}/rpcrdma-results.XXXXXX")
  trap 'rm -f "$log" "$results"' EXIT
  status=0
  ctest --preset "$preset" --label-exclude '^each$' --parallel "$jobs" --timeout 300 --output-junit "$results" \
        --test-output-size-passed 1000000 || status=$?
  python3 scripts/test_summary.py "$results" || status=1
  exit "$status"
fi
