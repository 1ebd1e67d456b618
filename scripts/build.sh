#!/usr/bin/env bash
# Builds targets of the release preset (all without arguments), configuring first if necessary.
# TORCH_ROOT names a LibTorch of your own; HOOKED_CMAKE_ARGS holds further arguments for cmake.
# Usage: scripts/build.sh [target]...
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck disable=SC2206  # several arguments in one variable
arguments=(${TORCH_ROOT:+"-DTORCH_ROOT=$TORCH_ROOT"} ${HOOKED_CMAKE_ARGS:-})
if [[ ! -e build/release/build.ninja ]] || ((${#arguments[@]})); then
  printf '[build] configuring build/release\n'
  cmake --preset release "${arguments[@]}"
fi
printf '[build] building %s (minutes the first time)\n' "${*:-everything}"
cmake --build --preset release --target "${@:-all}"
