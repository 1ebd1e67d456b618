#!/usr/bin/env bash
# Builds the libFuzzer targets of tests/fuzz with clang, AddressSanitizer and UBSan, and runs each for a while from a corpus of
# the tests' own files and what earlier runs have found. The corpora grow in build/fuzz/corpus; an input that breaks a target is left in
# build/fuzz/found.
# Usage: scripts/fuzz.sh [SECONDS [TARGET...]]    60 seconds each; a target is gguf, chat_template, …
#        scripts/fuzz.sh --keep [TARGET...]       the smallest part of the corpora with the same coverage: build/fuzz/kept
# HOOKED_SANITIZE_LEVEL=-O0 compiles in half the time, for short runs.
# Needs clang and its runtime (scripts/setup.sh clang libclang-rt-14-dev), and the libraries of build/release, which it builds.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=60 keep=
case ${1:-} in
  --keep) keep=yes; shift ;;
  *) seconds=${1:-60}; shift || true ;;
esac
build=build/fuzz
nice bash scripts/build.sh hooked_report hooked_harvest hooked_options >/dev/null
cmake -S tests/fuzz -B $build -G Ninja -DCMAKE_CXX_COMPILER="${CXX:-clang++}" -DHOOKED_SANITIZE_LEVEL="${HOOKED_SANITIZE_LEVEL:--O1}" \
  ${TORCH_ROOT:+-DTORCH_ROOT="$TORCH_ROOT"} >/dev/null
nice cmake --build $build
targets=("$@")
(($#)) || mapfile -t targets < <($build/fuzz)
python3 tests/fuzz/seeds.py $build/corpus

processors=$(nproc)  # before OMP_NUM_THREADS, which nproc follows
export ASAN_OPTIONS=${ASAN_OPTIONS:-allocator_may_return_null=1} OMP_NUM_THREADS=1
# Properties write their inputs as files: in memory, where there is room.
TMPDIR=$(mktemp -d -p "$([[ -w /dev/shm ]] && echo /dev/shm || echo "${TMPDIR:-/tmp}")" hooked_fuzz.XXXXXX)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
limits=(-max_len=32768 -timeout=20 -rss_limit_mb=3072)

# One target; prints a line, and why it failed.
run() {
  local target=$1 log=$build/$1.log
  export HOOKED_FUZZ_TARGET=$target
  mkdir -p "$build/corpus/$target" "$build/found/$target"
  if [[ -n $keep ]]; then
    rm -rf "$build/kept/$target"
    mkdir -p "$build/kept/$target"
    nice $build/fuzz -merge=1 "${limits[@]}" "$build/kept/$target" "$build/corpus/$target" >"$log" 2>&1
    echo "[fuzz] $target: $(ls "$build/kept/$target" | wc -l) inputs, $(du -sb "$build/kept/$target" | cut -f1) bytes"
  elif nice $build/fuzz "$build/corpus/$target" -artifact_prefix="$build/found/$target/" -max_total_time="$seconds" \
    "${limits[@]}" -print_final_stats=1 >"$log" 2>&1; then
    echo "[fuzz] $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs," \
      "$(sed -n 's/.* ft: \([0-9]*\) .*/\1/p' "$log" | tail -n 1) features"
  else
    echo "[fuzz] $target: FAILED, see $log: $(grep -a -m 1 -E 'ERROR:|runtime error:|what\(\):' "$log" || tail -n 1 "$log")"
    return 1
  fi
}

# As many at a time as there are processors.
failed=0 running=0
for target in "${targets[@]}"; do
  if ((running == processors)); then
    wait -n || failed=1
    running=$((running - 1))
  fi
  run "$target" &
  running=$((running + 1))
done
while ((running > 0)); do
  wait -n || failed=1
  running=$((running - 1))
done
exit $failed
