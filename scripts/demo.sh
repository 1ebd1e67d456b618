#!/usr/bin/env bash
# Sets everything up, builds the program and the demo, and shows on the shipped model what the engine is for.
set -euo pipefail
cd "$(dirname "$0")/.."

bash scripts/setup.sh
bash scripts/build.sh hooked-cli demo
build/release/bin/demo examples/toy_model build/demo
