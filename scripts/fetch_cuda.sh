#!/usr/bin/env bash
# Puts the libraries that LibTorch's CUDA half loads next to LibTorch, where it looks for them, at the versions that torch pins
# (cuda_wheels.txt). Only libraries that this machine's loader does not find, or finds too old, are fetched. A GPU's driver is not among
# them. `import torch` needs them too, with or without a GPU.
# Usage: scripts/fetch_cuda.sh [VERSION]     of LibTorch, as for fetch_libtorch.sh
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '[setup] %s\n' "$*" >&2; }
fail() { printf '[setup] %s\n' "$*" >&2; exit 1; }

torch=$(bash scripts/fetch_libtorch.sh "$@")
packages=$(dirname "$torch")
minor=${1:-2.11.0}
minor=${minor%.*}

# `library symbols wheel==version` of this LibTorch.
table=$(awk -v minor="$minor" '
  $2 == "library" { for (i = 1; i <= NF; ++i) if ($i == minor) column = i - 1 }
  !/^#/ { print $1, $2, $3 "==" $column }' scripts/cuda_wheels.txt)

# Libraries that are missing, and functions that those which are there lack.
missing() {
  local library
  for library in libc10_cuda libtorch_cuda libtorch_cuda_linalg libcaffe2_nvrtc; do
    ldd -r "$torch/lib/$library.so" 2>&1 || true
  done | awk '/=> not found/ && !/^\tlibcuda\.so/ {print $1} /undefined symbol: (cu[a-z]|cuFile|nccl|nv)/ {sub(",", "", $3); print $3}' | sort -u
}

# The wheel of a library, or of the function with the longest matching beginning.
wheel_of() {
  awk -v name="$1" '
    name == $1 { found = $3; exit }
    index(name, $2) == 1 && length($2) > longest { longest = length($2); found = $3 }
    END { print found }' <<<"$table"
}

# A wheel may bring libraries that need others.
for _ in 1 2 3; do
  wheels=()
  for name in $(missing); do
    wheel=$(wheel_of "$name")
    [[ -n $wheel ]] || fail "LibTorch's CUDA half needs $name, which no wheel of scripts/cuda_wheels.txt has"
    wheels+=("$wheel")
  done
  ((${#wheels[@]})) || { say "LibTorch's CUDA half has all that it loads, but for a driver where there is none"; exit 0; }
  mapfile -t wheels < <(printf '%s\n' "${wheels[@]}" | sort -u)
  say "fetching for LibTorch's CUDA half: ${wheels[*]}"
  partial=$packages.cuda.partial
  rm -rf "$partial"
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --only-binary :all: --target "$partial" "${wheels[@]}"
  cp -a "$partial/." "$packages/"
  rm -rf "$partial"
done
fail "still missing after fetching: $(missing | tr '\n' ' ')"
