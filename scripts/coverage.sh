#!/usr/bin/env bash
# Line coverage of src/ by the tests, per folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v gcovr >/dev/null || { echo "coverage: apt-get install gcovr" >&2; exit 1; }
scripts/build.sh coverage test
gcovr --root . --filter 'src/' --filter 'include/' --exclude '.*_test\.cc' --print-summary build-coverage
