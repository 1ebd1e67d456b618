#!/usr/bin/env bash
# Runs everything that tests/device compares on every golden checkpoint, on the strict device and on the CPU, in both dtypes.
# Takes the arguments of a GoogleTest program. Usage: scripts/strict_device.sh [PRESET] [--gtest_filter=...]
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
if [[ ${1:-} != "" && ${1:-} != -* ]]; then
  preset=$1
  shift
fi
cmake --build --preset "$preset" --target device_tests
HOOKED_ALL_CHECKPOINTS=1 OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" "build/$preset/tests/device_tests" --gtest_brief=1 "$@"
