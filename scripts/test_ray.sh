#!/usr/bin/env bash
# Installs Ray (250 MB) into the virtual environment of scripts/python.sh and runs the tests of hooked.ray there, on clusters of this
# machine. For before a release: everything else runs without Ray.
# Usage: scripts/test_ray.sh [pytest argument]...
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/python_parts.sh
source scripts/python_parts.sh

python=$(python_environment "${torch_minors[0]}")
install_packages "$python" --no-deps ray==2.60.0 attrs==26.1.0 click==8.5.1 jsonschema==4.26.0 \
  jsonschema-specifications==2025.9.1 msgpack==1.2.4 packaging==26.4 referencing==0.37.0 rpds-py==2026.9.1
bash scripts/python.sh tests/python/test_ray.py "$@"
