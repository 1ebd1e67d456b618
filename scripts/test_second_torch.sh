#!/usr/bin/env bash
# Builds the rooms that call LibTorch most with the newest LibTorch that hooked is tested with, in addition to the one it is built
# with, and runs their tests. Usage: scripts/test_second_torch.sh [VERSION]
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:-2.15.0}
root=$(bash scripts/fetch_libtorch.sh "$version")
folder=build/torch-$version
programs=(core_tests hooks_tests models_tests)

printf '[second torch] building %s with LibTorch %s (minutes the first time)\n' "${programs[*]}" "$version"
# Not optimised: the test is that the same code compiles and computes the same.
mkdir -p build
cmake -G Ninja -S . -B "$folder" -DTORCH_ROOT="$root" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 \
  -DHOOKED_BUILD_EXAMPLES=OFF -DHOOKED_BUILD_BENCHMARKS=OFF >"$folder.configure.log" 2>&1 ||
  { cat "$folder.configure.log" >&2; exit 1; }
cmake --build "$folder" --target "${programs[@]}"
# Loops of our own that know no LibTorch take minutes where they are not optimised.
for program in "${programs[@]}"; do
  "$folder/tests/$program" --gtest_brief=1 --gtest_filter='-Kinds/Tiled*:Kernels/*:*ProductSizes*'
done
printf '[second torch] the tests of core, hooks and models pass with LibTorch %s\n' "$version"
