#!/usr/bin/env bash
# Builds hooked and its Python module with the newest LibTorch that it is tested with, in addition to the one it is built with, and runs the
# tests of the rooms that call LibTorch most, and the Python package's next to that torch. Usage: scripts/test_second_torch.sh [VERSION]
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/python_parts.sh
source scripts/python_parts.sh

version=${1:-${torch_minors[-1]}}
bash scripts/fetch_libtorch.sh "$version" >/dev/null
python=$(python_environment "$version")
folder=build/torch-$version
programs=(core_tests hooks_tests models_tests)

printf '[second torch] building %s with LibTorch %s (minutes the first time)\n' "${programs[*]}" "$version"
# Not optimised: the test is that the same code compiles and computes the same.
build_module "$version" "$python" "$folder" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 \
  -DHOOKED_BUILD_EXAMPLES=OFF -DHOOKED_BUILD_BENCHMARKS=OFF
cmake --build "$folder" --target "${programs[@]}"
# Loops of our own that know no LibTorch take minutes where they are not optimised.
for program in "${programs[@]}"; do
  "$folder/tests/$program" --gtest_brief=1 --gtest_filter='-Kinds/Tiled*:Kernels/*:*ProductSizes*'
done
test_wheel "$python" "$(make_wheel "$python" "$python_folder/wheel-$version" "$folder")"
printf '[second torch] the tests of core, hooks and models, and of the Python package, pass with LibTorch %s\n' "$version"
