#!/usr/bin/env bash
# The load that docs/reliability.md promises, whole: 8 threads x 10,000 runs, 100,000 cached runs, 20,000 generations, 1,000,000 hooks,
# 1,000 loads, 10 million tokens harvested, a sweep of 32,400 cells. Prints a line of figures for each. The suite runs a hundredth of it.
# Usage: scripts/soak.sh [SCALE [GoogleTest argument]...]    1 is all of it, some ten minutes on two processors; 10 is ten times as much
# It needs SCALE x 600 MB of disk in build/release/soak, which it empties.
set -euo pipefail
cd "$(dirname "$0")/.."

scale=1
if (($#)); then scale=$1; shift; fi
[[ $scale =~ ^[0-9]*\.?[0-9]+$ ]] || { printf 'usage: scripts/soak.sh [SCALE [GoogleTest argument]...]\n' >&2; exit 2; }
cmake --build --preset release --target soak_tests
HOOKED_SOAK=$scale OMP_WAIT_POLICY=passive build/release/tests/soak_tests --gtest_brief=1 "$@"
