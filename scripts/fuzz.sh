#!/usr/bin/env bash
# Fuzz campaigns (tests/fuzz): libFuzzer, ASan and UBSan over every decoder, both machines and the
# compiler for .x files.
#
# usage: fuzz.sh run [TARGET...]     FUZZ_MINUTES (1) for each target, FUZZ_JOBS (all processors) at a time
#        fuzz.sh merge [TARGET...]   keeps of the inputs found so far what adds coverage, in the tree
#        fuzz.sh coverage            lines and branches of src/ and gen/ that the committed inputs reach
#        fuzz.sh unpack [TARGET...]  writes the committed inputs into corpus/TARGET/ of the build folder
#        fuzz.sh pack [TARGET...]    commits the inputs of that folder: tests/fuzz/corpus/TARGET.tar
#        fuzz.sh targets [TARGET...] writes them into the folder OUT for another fuzzer's infrastructure: fuzz_TARGET,
#                                    fuzz_TARGET_seed_corpus.zip, .options and .dict
#
# `targets` takes what OSS-Fuzz sets: CXX, CXXFLAGS with its sanitizer, LIB_FUZZING_ENGINE. Without CXXFLAGS it builds with
# libFuzzer, ASan and UBSan; CC=afl-clang-fast CXX=afl-clang-fast++ builds for AFL++.
#
# FUZZ_BUILD: build folder (build-fuzz, for `targets` build-fuzz-targets). What a campaign found lies in its findings/, its inputs in
# inputs/, its output in logs/, and campaign.tsv has a line for each run of a target: when, commit, target, runs, seconds of CPU
# time (machines are shared), edges, inputs, status. `run` begins with the inputs that earlier ones left.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${FUZZ_BUILD:-build-fuzz}
minutes=${FUZZ_MINUTES:-1}
jobs=${FUZZ_JOBS:-$(nproc)}
corpus=tests/fuzz/corpus
all=(xdr wire_v1 wire_v2 private_data mpa ddp_rdmap rpc_message gss_message record iwarp_stream engine rpcbind gen nfs3 every explain configuration)

launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)

configure() {  # FOLDER OPTION...
  local folder=$1
  shift
  cmake --preset fuzz -B "$folder" "${launcher[@]}" "$@" >/dev/null
}

unpack_target() {
  rm -rf "${build:?}/corpus/$1"
  mkdir -p "$build/corpus/$1"
  tar -xf "$corpus/$1.tar" -C "$build/corpus/$1"
}

# The archive depends only on the names and the bytes of the inputs.
pack_target() {
  find "$build/corpus/$1" -maxdepth 1 -type f -printf '%f\n' | LC_ALL=C sort |
    tar --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=0644 --blocking-factor=1 \
      -C "$build/corpus/$1" --verbatim-files-from -T - -cf "$corpus/$1.tar"
  echo "fuzz: $1: $(find "$build/corpus/$1" -type f | wc -l) inputs," \
    "$(find "$build/corpus/$1" -type f -exec cat {} + | wc -c) bytes"
}

unpack() {
  local target
  for target in "${targets[@]}"; do
    unpack_target "$target"
    echo "fuzz: $build/corpus/$target has $(find "$build/corpus/$target" -type f | wc -l) inputs"
  done
}

pack() {
  local target
  for target in "${targets[@]}"; do
    [[ -n $(find "$build/corpus/$target" -type f -print -quit) ]] || {
      echo "fuzz: $build/corpus/$target has no inputs" >&2; exit 1; }
    pack_target "$target"
  done
}

build_targets() {
  configure "$build"
  cmake --build "$build" --parallel "${JOBS:-$(nproc)}" --target "${targets[@]/#/fuzz_}"
  mkdir -p "$build/findings" "$build/inputs" "$build/logs"
}

# Sequences of operations may be long from the start; decoders grow their inputs step by step. For
# text there is a dictionary.
length_options() {
  [[ ! -f tests/fuzz/$1.dict ]] || echo "-dict=tests/fuzz/$1.dict"
  case $1 in
    iwarp_stream|engine) echo -len_control=0 -max_len=700 ;;
    gen) echo -max_len=2048 ;;
    configuration) echo -max_len=1024 ;;
    *) echo -max_len=4096 ;;
  esac
}

# A merge keeps of decoders also how often a place is reached (a list of one, of many); of the two
# machines and of text, where that would be a thousand inputs, only that it is.
merge_options() {
  case $1 in
    iwarp_stream|engine|gen) echo -use_counters=0 ;;
  esac
}

run_target() {
  local target=$1 inputs=$build/inputs/$1
  mkdir -p "$inputs"
  local status=0 TIMEFORMAT='%0U'
  # shellcheck disable=SC2046
  { time "$build/tests/fuzz/fuzz_$target" $(length_options "$target") -max_total_time=$((minutes * 60)) \
    -timeout=20 -rss_limit_mb=3000 -print_final_stats=1 \
    -artifact_prefix="$build/findings/$target-" "$inputs" "$build/corpus/$target" \
    >"$build/logs/$target.log" 2>&1; } 2>"$build/logs/$target.cpu" || status=$?
  echo "$status" >"$build/logs/$target.status"
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$(date -u +%FT%TZ)" "$(git describe --always --dirty 2>/dev/null || echo -)" \
    "$target" "$(runs_of "$target")" "$(<"$build/logs/$target.cpu")" "$(edges_of "$target")" "$(inputs_of "$target")" \
    "$status" >>"$build/campaign.tsv"
  if [[ $status -ne 0 ]]; then
    echo "fuzz: $target: FINDING after $(runs_of "$target") runs" >&2
  else
    echo "fuzz: $target: $(runs_of "$target") runs, no finding"
  fi
}

runs_of() { sed -n 's/^stat::number_of_executed_units: *//p' "$build/logs/$1.log"; }
edges_of() { sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$build/logs/$1.log" | tail -1; }

inputs_of() { find "$build/inputs/$1" "$build/corpus/$1" -type f | wc -l; }

show_table() {
  printf '\n%-14s %12s %8s %8s %7s %7s %9s\n' target runs 'CPU s' exec/s edges inputs findings
  local target log status found=0
  for target in "${targets[@]}"; do
    log=$build/logs/$target.log
    status=$(<"$build/logs/$target.status")
    [[ $status -eq 0 ]] || found=1
    printf '%-14s %12s %8s %8s %7s %7s %9s\n' "$target" "$(runs_of "$target")" "$(<"$build/logs/$target.cpu")" \
      "$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")" "$(edges_of "$target")" "$(inputs_of "$target")" \
      "$([[ $status -eq 0 ]] && echo 0 || echo 'SEE LOG')"
  done
  [[ $found -eq 0 ]] && return 0
  echo
  echo "To repeat a finding:  $build/tests/fuzz/fuzz_TARGET $build/findings/FILE"
  find "$build/findings" -type f | sort
  return 1
}

run() {
  build_targets
  local target
  for target in "${targets[@]}"; do
    unpack_target "$target"
    while [[ $(jobs -rp | wc -l) -ge $jobs ]]; do wait -n || true; done
    echo "fuzz: $target: $minutes min"
    run_target "$target" &
  done
  wait
  show_table
}

merge() {
  build_targets
  local target fresh
  for target in "${targets[@]}"; do
    fresh=$(mktemp -d)
    unpack_target "$target"
    mkdir -p "$build/inputs/$target"
    # shellcheck disable=SC2046
    "$build/tests/fuzz/fuzz_$target" -set_cover_merge=1 $(length_options "$target") \
      $(merge_options "$target") "$fresh" "$build/corpus/$target" \
      "$build/inputs/$target" >"$build/logs/$target.merge.log" 2>&1
    rm -rf "${build:?}/corpus/$target"
    mkdir -p "$build/corpus/$target"
    find "$fresh" -type f -exec mv -t "$build/corpus/$target" {} +
    rmdir "$fresh"
    # Conversations made by hand stay: what they try shows in values, not in places that are reached.
    case $target in
      iwarp_stream) tests/fuzz/seed.py --streams "$build/corpus" ;;
      engine) tests/fuzz/seed.py --engine "$build/corpus" ;;
    esac
    pack_target "$target"
  done
}

# Names and layout are those that OSS-Fuzz expects of a project's build script.
targets() {
  local out=${OUT:?is the folder that the targets go into} folder=${FUZZ_BUILD:-build-fuzz-targets} target option
  local options=(-DRPCRDMA_FUZZING_ENGINE="${LIB_FUZZING_ENGINE:--fsanitize=fuzzer}")
  [[ -z ${CC:-} ]] || options+=(-DCMAKE_C_COMPILER="$CC")
  [[ -z ${CXX:-} ]] || options+=(-DCMAKE_CXX_COMPILER="$CXX")
  # The flags of the environment name the sanitizer and its coverage.
  [[ -z ${CXXFLAGS:-} && ${CXX:-} != *afl-* ]] || options+=(-DRPCRDMA_SANITIZE=)
  configure "$folder" --fresh "${options[@]}"  # CMake would keep the flags and the compiler of the last time
  cmake --build "$folder" --parallel "${JOBS:-$(nproc)}" --target "${targets[@]/#/fuzz_}"
  mkdir -p "$out"
  for target in "${targets[@]}"; do
    cp "$folder/tests/fuzz/fuzz_$target" "$out/"
    python3 -c 'import sys, tarfile, zipfile
with tarfile.open(sys.argv[1]) as inputs, zipfile.ZipFile(sys.argv[2], "w", zipfile.ZIP_DEFLATED) as archive:
    for member in inputs:
        archive.writestr(zipfile.ZipInfo(member.name), inputs.extractfile(member).read())
' "$corpus/$target.tar" "$out/fuzz_${target}_seed_corpus.zip"
    echo '[libfuzzer]' >"$out/fuzz_$target.options"
    for option in $(length_options "$target"); do
      case $option in
        -dict=*) cp "${option#*=}" "$out/fuzz_$target.dict" ;;
        *) echo "${option#-}" | sed 's/=/ = /' >>"$out/fuzz_$target.options" ;;
      esac
    done
  done
  echo "fuzz: ${#targets[@]} targets in $out"
}

coverage() {
  local folder=$build-coverage target profiles=() replay
  replay=$folder/tests/fuzz/fuzz_replay
  configure "$folder" -DRPCRDMA_SANITIZE= \
    -DCMAKE_CXX_FLAGS="-fprofile-instr-generate -fcoverage-mapping"
  cmake --build "$folder" --parallel "${JOBS:-$(nproc)}" --target fuzz_replay
  for target in "${all[@]}"; do
    LLVM_PROFILE_FILE=$folder/$target.profraw \
      "$replay" "$target" "$corpus/$target.tar"
    profiles+=("$folder/$target.profraw")
  done
  llvm-profdata merge -o "$folder/all.profdata" "${profiles[@]}"
  llvm-cov report "$replay" -instr-profile="$folder/all.profdata" \
    -ignore-filename-regex='tests/|apps/|_for_test|/usr/' >"$folder/report.txt"
  # File, lines, lines missed, share; branches, missed, share.
  awk '/\.(cc|h) /{printf "%-28s lines %5d  %7s   branches %5d  %7s\n", $1, $8, $10, $11, $13}
       /^TOTAL/{printf "%-28s lines %5d  %7s   branches %5d  %7s\n", $1, $8, $10, $11, $13}' \
    "$folder/report.txt"
}

command=${1:-run}
[[ $# -gt 0 ]] && shift
targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || targets=("${all[@]}")
case $command in
  run|merge|coverage|unpack|pack|targets) "$command" ;;
  *) sed -n '2,20s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
