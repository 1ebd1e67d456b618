#!/usr/bin/env bash
# Sets everything up, builds the Python package's wheel, installs it into a virtual environment (build/python/venv-2.11.0, whose torch is
# LibTorch's wheel in third_party) and runs the Python tests there. The last line is pytest's summary.
# The engine's objects are those of the release preset.
# Usage: scripts/python.sh [pytest argument]...
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/python_parts.sh
source scripts/python_parts.sh

[[ -z ${TORCH_ROOT:-} ]] ||
  python_fail "TORCH_ROOT names a LibTorch of your own; build the package for it in the environment of that torch: pip install ./python"
version=${torch_minors[0]}
bash scripts/setup.sh --cuda
python=$(python_environment "$version")
# shellcheck disable=SC2086  # several arguments in one variable
build_module "$version" "$python" build/release -DCMAKE_BUILD_TYPE=Release ${HOOKED_CMAKE_ARGS:-}
wheel=$(make_wheel "$python" "$python_folder/wheel" build/release)
python_say "testing $wheel with torch $version"
test_wheel "$python" "$wheel" "$@"
