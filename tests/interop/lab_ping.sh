#!/usr/bin/env bash
# Pings the NULL procedure of a Linux kernel's NFS server over siw, in a QEMU guest.
#
# usage: RPCRDMA_LAB=DIR lab_ping.sh
#
# DIR is a lab with build.sh and run.sh (docs/interop.md says what it must offer). Needs root and is not
# part of `make check`. Prints the transcript; exits 0 only when every call was answered.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=${RPCRDMA_LAB:?set RPCRDMA_LAB to the folder of a lab (docs/interop.md)}
command=$(realpath "$here/../../build/bin/rpcrdma")
[[ -x $command ]] || { echo "lab_ping: run make build first" >&2; exit 1; }

export RPCRDMA_COMMAND=$command LAB_PING_HOST="$here/lab_ping.host.sh"
"$lab/build.sh" --install-deps >/dev/null
exec "$lab/run.sh" -H '. "$LAB_PING_HOST"' "$here/lab_ping.guest.sh"
