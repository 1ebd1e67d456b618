#!/usr/bin/env bash
# Puts in place everything that hooked is built with, and does nothing when it is there already:
#   - compiler, build tools and libraries from the packages of Debian 12 / Ubuntu;
#   - LibTorch from the torch wheel, without torch's Python dependencies, in third_party/libtorch (git-ignored).
# A LibTorch that you already have is used instead where TORCH_ROOT names it.
# Usage: scripts/setup.sh [further Debian package]...
set -euo pipefail
cd "$(dirname "$0")/.."

readonly libtorch=third_party/libtorch
readonly wheels=(torch==2.11.0 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)
packages=(g++ cmake ninja-build ccache mold pkg-config ca-certificates git
          libfmt-dev nlohmann-json3-dev libcli11-dev libonig-dev libutf8proc-dev libgtest-dev libbenchmark-dev "$@")

say() { printf '[setup] %s\n' "$*"; }
fail() { printf '[setup] %s\n' "$*" >&2; exit 1; }

# The wheels unpack to <name>-<version>.dist-info beside the package; the folder is put in place only when complete.
libtorch_is_complete() {
  [[ -e $libtorch/torch/lib/libtorch_cpu.so ]] || return 1
  local wheel folder
  for wheel in "${wheels[@]}"; do
    folder=${wheel/==/-}
    folder=${folder%-*}
    [[ -d $libtorch/${folder//-/_}-${wheel##*==}.dist-info ]] || return 1
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

want_libtorch=no
if [[ -z ${TORCH_ROOT:-} ]] && ! libtorch_is_complete; then
  want_libtorch=yes
  python_with_pip >/dev/null || packages+=(python3-pip)
fi

command -v dpkg-query >/dev/null ||
  fail "this script knows Debian and Ubuntu; install the equivalents of: ${packages[*]}"
installed=" $(dpkg-query -W -f='${db:Status-Status}=${Package} ' "${packages[@]}" 2>/dev/null || true) "
missing=()
for package in "${packages[@]}"; do
  [[ $installed == *" installed=$package "* ]] || missing+=("$package")
done

if ((${#missing[@]})); then
  as_root=()
  if ((EUID != 0)); then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
      as_root=(sudo)
    else
      fail "these packages are missing and there are no root rights to install them. Run as root:
  apt-get install ${missing[*]}"
    fi
  fi
  say "installing packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends \
    "${missing[@]}" >/dev/null
fi

if [[ $want_libtorch == yes ]]; then
  say "fetching LibTorch into $libtorch: ${wheels[*]} (about 550 MB, once)"
  python=$(python_with_pip) || fail "no Python with pip found after installing python3-pip"
  rm -rf "$libtorch.partial"
  PIP_ROOT_USER_ACTION=ignore "$python" -m pip install --quiet --disable-pip-version-check --no-deps \
    --no-compile --only-binary :all: --target "$libtorch.partial" "${wheels[@]}"
  rm -rf "$libtorch"
  mv "$libtorch.partial" "$libtorch"
  libtorch_is_complete || fail "LibTorch in $libtorch is incomplete after installing ${wheels[*]}"
fi

say "ready"
