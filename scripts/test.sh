#!/usr/bin/env bash
# Sets everything up, builds everything and runs all tests. The last line counts the tests: `N passed, N failed, N skipped`.
# Usage: scripts/test.sh [ctest argument]...
set -euo pipefail
cd "$(dirname "$0")/.."

bash scripts/setup.sh
bash scripts/build.sh
bash scripts/run_tests.sh release "$@"
