#!/usr/bin/env bash
# Puts a LibTorch of the torch wheel, without torch's Python dependencies, into a folder of third_party (git-ignored), and
# prints the folder that holds its include/ and lib/. Does nothing if it exists already.
# Usage: scripts/fetch_libtorch.sh [VERSION [ARCHITECTURE]]
#   VERSION        the one that hooked is built with, or another of the table below
#   ARCHITECTURE   that of this machine, or aarch64 for a cross build (scripts/arm64.sh)
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '[setup] %s\n' "$*" >&2; }
fail() { printf '[setup] %s\n' "$*" >&2; exit 1; }

# LibTorch's CPU library links the CUDA runtime and CUPTI of the release that torch was built with.
version=${1:-2.11.0}
case $version in
  2.11.0 | 2.12.1 | 2.13.0 | 2.14.1) cuda=(nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85) ;;
  2.15.0) cuda=(nvidia-cuda-runtime==13.2.86 nvidia-cuda-cupti==13.2.86) ;;
  *) fail "LibTorch $version is not one that this script knows; expected 2.11.0, 2.12.1, 2.13.0, 2.14.1 or 2.15.0" ;;
esac
folder=third_party/libtorch
[[ $version == 2.11.0 ]] || folder+=-$version
wheels=("torch==$version" "${cuda[@]}")
platforms=()
case ${2:-} in
  "") ;;
  aarch64)
    folder+=-aarch64
    platforms=(--platform manylinux_2_28_aarch64 --platform manylinux_2_25_aarch64 --platform manylinux_2_17_aarch64)
    ;;
  *) fail "LibTorch for $2 is not one that this script knows; expected aarch64" ;;
esac

# The wheels unpack to <name>-<version>.dist-info next to the package; the folder is put in place only when complete.
is_complete() {
  [[ -e $folder/torch/lib/libtorch_cpu.so ]] || return 1
  local wheel name
  for wheel in "${wheels[@]}"; do
    name=${wheel%%==*}
    [[ -d $folder/${name//-/_}-${wheel##*==}.dist-info ]] || return 1
  done
}

# The first Python that has pip.
python_with_pip() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    if command -v "$candidate" >/dev/null && "$candidate" -m pip --version >/dev/null 2>&1; then
      printf '%s' "$candidate"
      return
    fi
  done
  return 1
}

if ! is_complete; then
  say "fetching LibTorch into $folder: ${wheels[*]} (about 550 MB, once)"
  python=$(python_with_pip) || fail "no Python with pip was found; install the package python3-pip"
  rm -rf "$folder.partial"
  PIP_ROOT_USER_ACTION=ignore "$python" -m pip install --quiet --disable-pip-version-check --no-deps \
    --no-compile --only-binary :all: "${platforms[@]}" --target "$folder.partial" "${wheels[@]}"
  rm -rf "$folder"
  mv "$folder.partial" "$folder"
  is_complete || fail "LibTorch in $folder is incomplete after installing ${wheels[*]}"
fi
printf '%s\n' "$PWD/$folder/torch"
