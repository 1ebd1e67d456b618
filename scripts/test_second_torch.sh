#!/usr/bin/env bash
# Builds hooked and its Python module with the newest LibTorch that it is tested with, in addition to the one it is built with, and runs
# the tests of the Python package next to that torch. Usage: scripts/test_second_torch.sh [VERSION]
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/python_parts.sh
source scripts/python_parts.sh

version=${1:-${torch_minors[-1]}}
bash scripts/fetch_libtorch.sh "$version" >/dev/null
python=$(python_environment "$version")
folder=build/torch-$version

# Not optimised: the test is that the same code compiles and computes the same.
build_module "$version" "$python" "$folder" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 \
  -DHOOKED_BUILD_TESTS=OFF -DHOOKED_BUILD_EXAMPLES=OFF -DHOOKED_BUILD_BENCHMARKS=OFF
test_wheel "$python" "$(make_wheel "$python" "$python_folder/wheel-$version" "$folder")"
printf '[second torch] the tests of the Python package pass with LibTorch %s\n' "$version"
