#!/usr/bin/env bash
# Builds the libFuzzer targets of tests/fuzz with clang, AddressSanitizer and UBSan, and runs each for a while from a corpus of
# the tests' own files. The corpora grow in build/fuzz/corpus; an input that breaks a target is left in build/fuzz/found.
# Usage: scripts/fuzz.sh [SECONDS [TARGET...]]    60 seconds each; a target is gguf, chat_template, …
# Needs clang and its runtime (Debian: apt-get install clang libclang-rt-14-dev) and LibTorch (TORCH_ROOT, else third_party/libtorch).
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
build=build/fuzz
cmake -S tests/fuzz -B $build -G Ninja -DCMAKE_CXX_COMPILER="${CXX:-clang++}" ${TORCH_ROOT:+-DTORCH_ROOT="$TORCH_ROOT"} >/dev/null
mapfile -t all < <(cd tests/fuzz && printf '%s\n' *_fuzz.cc | sed 's/_fuzz\.cc$//')
targets=("$@")
((${#targets[@]})) || targets=("${all[@]}")
nice cmake --build $build --target "${targets[@]/%/_fuzz}"
python3 tests/fuzz/seeds.py $build/corpus

export ASAN_OPTIONS=${ASAN_OPTIONS:-allocator_may_return_null=1}
failed=()
for target in "${targets[@]}"; do
  mkdir -p "$build/corpus/$target" "$build/found/$target"
  log=$build/$target.log
  printf '[fuzz] %s: ' "$target"
  if nice "$build/${target}_fuzz" "$build/corpus/$target" -artifact_prefix="$build/found/$target/" -max_total_time="$seconds" \
    -max_len=32768 -timeout=20 -rss_limit_mb=3072 -print_final_stats=1 >"$log" 2>&1; then
    printf '%s inputs\n' "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
  else
    printf 'FAILED, see %s\n' "$log"
    failed+=("$target")
  fi
done
((${#failed[@]} == 0))
