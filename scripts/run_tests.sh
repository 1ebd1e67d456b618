#!/usr/bin/env bash
# Runs the built tests of a preset with ctest, lists what was skipped and why, and closes with one line that counts the
# GoogleTest cases and the other checks. Fails if a test fails or none exists.
# Usage: scripts/run_tests.sh PRESET [ctest argument]...
set -euo pipefail
cd "$(dirname "$0")/.."

preset=$1
shift
results=$PWD/build/$preset/test_results
rm -rf "$results"
mkdir -p "$results"

# Each test of a GoogleTest program leaves an XML file of its name there (tests/CMakeLists.txt).
status=0
# Test programs run in parallel: threads that wait for work must not take a processor from the others. One program more
# than there are processors, since some wait for a browser or a disk.
OMP_WAIT_POLICY=passive ctest --preset "$preset" --no-tests=error --parallel "$(($(nproc) + 1))" \
  --output-junit "$results/ctest.junit" "$@" || status=$?

# The sum of an attribute over the root elements of the result files given.
total() {
  local attribute=$1 element=$2 sum=0 number
  shift 2
  for number in $(grep -hoE -m1 "<$element [^>]*>" "$@" /dev/null | grep -oE " $attribute=\"[0-9]+\"" | grep -oE '[0-9]+'); do
    sum=$((sum + number))
  done
  printf '%d' "$sum"
}

shopt -s nullglob
programs=("$results"/*.xml)
cases=$(total tests testsuites "${programs[@]}")
case_failures=$(total failures testsuites "${programs[@]}")
skipped=$({ cat "${programs[@]}" /dev/null | grep -c 'result="skipped"'; } || true)
failing_programs=$({ grep -lE -m1 '<testsuites [^>]* failures="[1-9]' "${programs[@]}" /dev/null || true; } | wc -l)

# Everything that ctest ran and that left no GoogleTest file: other checks, and programs that crashed.
junit=$results/ctest.junit
tr '\n\t' '  ' <"$junit" >"$junit.line"
# Runs that need kernels which this processor lacks (SKIP_RETURN_CODE in tests/CMakeLists.txt) leave none either.
mapfile -t not_run < <(grep -oE '<testcase name="[^"]*"[^>]* status="notrun"' "$junit.line" | cut -d'"' -f2)
others=$(($(total tests testsuite "$junit.line") - ${#programs[@]} - ${#not_run[@]}))
skipped=$((skipped + ${#not_run[@]}))
other_failures=$(($(total failures testsuite "$junit.line") - failing_programs))

if ((skipped)); then
  printf '\nSkipped, with reasons:\n'
  for name in "${not_run[@]}"; do printf '      1   %s: this processor lacks its kernels\n' "$name"; done
  cat "${programs[@]}" | grep -oE '<skipped message="[^"]*"' | sed -e 's/<skipped message="/  /' -e 's/"$//' \
    -e 's/&#x0A;/ /g' | sort | uniq -c
fi
failed=$((case_failures + other_failures))
if ((status != 0 && failed == 0)); then failed=1; fi
if ((cases == 0)); then
  printf 'No test case ran.\n' >&2
  status=1
fi
if grep -q '<testcase name="golden_tests_plain"' "$junit.line"; then
  lacking=$(printf '%s\n' "${not_run[@]}" | sed -n 's/^golden_tests_//p' | paste -sd' ')
  printf '\nSets of kernels that were not run, as this processor lacks them: %s\n' "${lacking:-none}"
fi
printf '\n%d passed, %d failed, %d skipped\n' \
  $((cases - skipped - case_failures + others - other_failures)) "$failed" "$skipped"
exit "$status"
