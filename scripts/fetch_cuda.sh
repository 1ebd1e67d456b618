#!/usr/bin/env bash
# Puts the libraries that LibTorch's CUDA half loads next to LibTorch, where it looks for them, at the versions that torch pins. Only libraries
# that this machine's loader does not find are fetched. A GPU's driver is not among them.
# Usage: scripts/fetch_cuda.sh
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '[setup] %s\n' "$*" >&2; }
fail() { printf '[setup] %s\n' "$*" >&2; exit 1; }

torch=$(bash scripts/fetch_libtorch.sh)
packages=$(dirname "$torch")

# Which wheel has which library. libcuda.so.1 belongs to the driver.
wheel_of() {
  case $1 in
    libcublas.so.13 | libcublasLt.so.13) echo nvidia-cublas==13.1.0.3 ;;
    libcudnn.so.9) echo nvidia-cudnn-cu13==9.19.0.56 ;;
    libcufft.so.12) echo nvidia-cufft==12.0.0.61 ;;
    libcufile.so.0) echo nvidia-cufile==1.15.1.6 ;;
    libcupti.so.13) echo nvidia-cuda-cupti==13.0.85 ;;
    libcurand.so.10) echo nvidia-curand==10.4.0.35 ;;
    libcusolver.so.12) echo nvidia-cusolver==12.0.4.66 ;;
    libcusparse.so.12) echo nvidia-cusparse==12.6.3.3 ;;
    libcusparseLt.so.0) echo nvidia-cusparselt-cu13==0.8.0 ;;
    libnccl.so.2) echo nvidia-nccl-cu13==2.28.9 ;;
    libnvJitLink.so.13) echo nvidia-nvjitlink==13.0.88 ;;
    libnvrtc.so.13) echo nvidia-cuda-nvrtc==13.0.88 ;;
    libnvshmem_host.so.3) echo nvidia-nvshmem-cu13==3.4.5 ;;
    libcuda.so.1) ;;
    *) fail "LibTorch's CUDA half needs $1, which no wheel of this script has" ;;
  esac
}

missing_libraries() {
  local library
  for library in libc10_cuda libtorch_cuda libtorch_cuda_linalg libcaffe2_nvrtc; do
    ldd "$torch/lib/$library.so" 2>/dev/null
  done | awk '/=> not found/ {print $1}' | sort -u
}

# A wheel may bring libraries that need others.
for _ in 1 2 3; do
  wheels=()
  for library in $(missing_libraries); do
    wheel=$(wheel_of "$library")
    [[ -z $wheel ]] || wheels+=("$wheel")
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
fail "still missing after fetching: $(missing_libraries | tr '\n' ' ')"
