#!/usr/bin/env bash
# Builds everything with AddressSanitizer and UndefinedBehaviorSanitizer and runs the tests that are meaningful there. Without arguments
# the whole suite, an hour or two on two cores; CI runs `scripts/sanitize.sh short`, which builds all rooms and runs the suites labelled
# `sanitized` (tests/CMakeLists.txt).
# Usage: scripts/sanitize.sh [short] [ctest argument]...
set -euo pipefail
cd "$(dirname "$0")/.."

targets=(all) arguments=() level=-O1
if [[ ${1:-} == short ]]; then
  shift
  targets=(room_tests_core room_tests_hooks room_tests_io room_tests_dictionaries room_tests_weights room_tests_models room_tests_golden hooked-cli)
  arguments=(-L '^sanitized$') level=-O0
fi
# Without -Werror: the sanitizers' instrumentation makes GCC warn about code that is fine.
cmake --preset asan -DHOOKED_WERROR=OFF -DHOOKED_SANITIZE_LEVEL=$level
cmake --build --preset asan --target "${targets[@]}"
bash scripts/run_tests.sh asan "${arguments[@]}" "$@"
