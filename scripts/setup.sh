#!/usr/bin/env bash
# Installs everything that hooked is built with, and does nothing if it is installed already:
#   - compiler, build tools and libraries from the packages of Debian 12 / Ubuntu;
#   - LibTorch from the torch wheel, without torch's Python dependencies, in third_party/libtorch (git-ignored).
# A LibTorch that you already have is used instead if TORCH_ROOT names it.
# With --cuda also the NVIDIA libraries that LibTorch's CUDA half loads, as far as this machine lacks them: the program runs on a
# GPU if they and a driver are installed, and does not need them otherwise.
# Usage: scripts/setup.sh [--cuda] [further Debian package]...
#        scripts/setup.sh --libraries     only names the packages of libraries (for scripts/arm64.sh)
set -euo pipefail
cd "$(dirname "$0")/.."

libraries=(libfmt-dev nlohmann-json3-dev libcli11-dev libonig-dev libutf8proc-dev libdeflate-dev libgtest-dev libgmock-dev
           libbenchmark-dev)
if [[ ${1:-} == --libraries ]]; then
  printf '%s\n' "${libraries[@]}"
  exit
fi
cuda=
if [[ ${1:-} == --cuda ]]; then
  cuda=yes
  shift
fi
packages=(g++ cmake ninja-build python3 ccache mold pkg-config ca-certificates git "${libraries[@]}" "$@")

say() { printf '[setup] %s\n' "$*"; }
fail() { printf '[setup] %s\n' "$*" >&2; exit 1; }

# pip fetches LibTorch.
if [[ -z ${TORCH_ROOT:-} && ! -e third_party/libtorch/torch ]] && ! python3 -m pip --version >/dev/null 2>&1 &&
  ! /usr/bin/python3 -m pip --version >/dev/null 2>&1; then
  packages+=(python3-pip)
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

[[ -n ${TORCH_ROOT:-} ]] || bash scripts/fetch_libtorch.sh >/dev/null
if [[ -n $cuda ]]; then
  [[ -z ${TORCH_ROOT:-} ]] || fail "--cuda fetches libraries for third_party/libtorch, and TORCH_ROOT names another LibTorch"
  bash scripts/fetch_cuda.sh
fi

say "ready"
