#!/usr/bin/env bash
# Sets everything up, builds what `cmake --install` installs and the demo, and shows on the shipped model what the engine
# is for.
set -euo pipefail
cd "$(dirname "$0")/.."

bash scripts/setup.sh
bash scripts/build.sh product demo
build/release/bin/demo examples/toy_model build/demo
