#!/usr/bin/env bash
# Draws combinations of features at random and compares each with single, unpadded, whole runs of the plain model (tests/combinations).
# Usage: scripts/combinations.sh [--minutes N] [--seed S]    10 minutes, and a seed of the clock, which is printed.
# A failure prints the smallest combination that still fails, and its number: HOOKED_COMBINATIONS_SEED=S HOOKED_COMBINATIONS_NUMBER=K
# build/release/tests/combinations_tests draws it again.
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=10
seed=$(date +%s)
while (($#)); do
  case $1 in
    --minutes) minutes=$2 ;;
    --seed) seed=$2 ;;
    *)
      echo "usage: scripts/combinations.sh [--minutes N] [--seed S]" >&2
      exit 2
      ;;
  esac
  shift 2
done
cmake --build --preset release --target combinations_tests
echo "[combinations] seed $seed, $minutes minutes"
HOOKED_COMBINATIONS_MINUTES=$minutes HOOKED_COMBINATIONS_SEED=$seed build/release/tests/combinations_tests --gtest_brief=1
