#!/usr/bin/env bash
# Builds with a sanitizer and runs the tests that are meaningful there (docs/reliability.md has what was found).
# Usage: scripts/sanitize.sh [ctest argument]...         AddressSanitizer, LeakSanitizer and UBSan over the whole suite: an hour or two
#        scripts/sanitize.sh short [ctest argument]...   the same over the suites labelled `sanitized` (tests/CMakeLists.txt), as CI does
#        scripts/sanitize.sh thread [test argument]...   ThreadSanitizer over threads, generations, sweeps and a harvest
#        scripts/sanitize.sh valgrind                    memcheck over the parsers of the release build
# ThreadSanitizer and memcheck see our code alone: LibTorch is not built for them. What they say of it is in
# tests/support/thread_suppressions.txt, and is left out by memcheck's own list of errors that come from its libraries.
set -euo pipefail
cd "$(dirname "$0")/.."

sanitize_addresses() {
  local targets=(all) arguments=() level=-O1
  if [[ ${1:-} == short ]]; then
    shift
    targets=(room_tests_core room_tests_hooks room_tests_io room_tests_dictionaries room_tests_weights room_tests_models room_tests_golden)
    arguments=(-L '^sanitized$') level=-O0
  fi
  # Without -Werror: the sanitizers' instrumentation makes GCC warn about code that is fine.
  cmake --preset asan -DHOOKED_WERROR=OFF -DHOOKED_SANITIZE_LEVEL=$level
  cmake --build --preset asan --target "${targets[@]}"
  bash scripts/run_tests.sh asan "${arguments[@]}" "$@"
}

# One OpenMP thread: the teams of LibTorch's operators would be seen as races, and have no code of ours but loops over own numbers.
sanitize_threads() {
  local -x OMP_NUM_THREADS=1 TSAN_OPTIONS
  TSAN_OPTIONS="suppressions=$PWD/tests/support/thread_suppressions.txt halt_on_error=0 exitcode=66 second_deadlock_stack=1"
  cmake --preset tsan -DHOOKED_WERROR=OFF
  cmake --build --preset tsan --target soak_tests engine_tests
  build/tsan/tests/soak_tests --gtest_brief=1 "$@"
  build/tsan/tests/engine_tests --gtest_brief=1 --gtest_filter='Threads.*:Generate*:ModelIdentity*:HookHandle*' "$@"
}

check_with_valgrind() {
  command -v valgrind >/dev/null || { printf '[valgrind] missing; bash scripts/setup.sh valgrind installs it\n' >&2; exit 1; }
  cmake --build --preset release --target io_tests text_tests core_tests
  local -A filters=(
    [core]='*Json*:*Utf8*:ParseInteger*:ConfigReader*:IndexText*'
    [io]='SafetensorsHeader.*-*Limit*:*EveryByte*:*Random*:*Memory*'
    [text]='Jinja.*:Pattern*:Regex.*:ChatFiles.*-*Limits*:*Linear*:*Hostile*'
  )
  local room
  for room in core io text; do
    OMP_NUM_THREADS=1 valgrind --quiet --error-exitcode=66 --leak-check=full --errors-for-leak-kinds=definite --show-leak-kinds=definite \
      --undef-value-errors=yes build/release/tests/${room}_tests --gtest_brief=1 --gtest_filter="${filters[$room]}"
  done
}

case ${1:-} in
  thread) shift; sanitize_threads "$@" ;;
  valgrind) shift; check_with_valgrind "$@" ;;
  *) sanitize_addresses "$@" ;;
esac
