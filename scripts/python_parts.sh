# What scripts/python.sh, python_wheels.sh and test_second_torch.sh share; sourced, from the repository's root.

readonly python_folder=build/python
readonly torch_minors=(2.11.0 2.12.1 2.13.0 2.14.1 2.15.0)  # the newest release of each minor version

python_say() { printf '[python] %s\n' "$*" >&2; }
python_fail() { printf '[python] %s\n' "$*" >&2; exit 1; }

# The folder that holds LibTorch as the package `torch`.
torch_packages() { printf '%s/third_party/libtorch%s' "$PWD" "$([[ $1 == 2.11.0 ]] || printf -- '-%s' "$1")"; }

# A Python of the version that LibTorch's wheel is for, since pip took the wheel for the Python that it ran in.
find_python() {
  local tag candidate
  tag=$(sed -n 's/^Tag: cp\([0-9]*\)-.*/\1/p' "$(torch_packages "$1")"/torch-*.dist-info/WHEEL | head -n 1)
  for candidate in python3 /usr/bin/python3 "python${tag:0:1}.${tag:1}"; do
    if [[ $("$candidate" -c 'import sys; print("%d%d" % sys.version_info[:2])' 2>/dev/null) == "$tag" ]]; then
      command -v "$candidate"
      return
    fi
  done
  python_fail "LibTorch in $(torch_packages "$1") is for Python ${tag:0:1}.${tag:1}, which was not found; install it"
}

# install_packages PYTHON ARGUMENT...: by uv, which takes seconds where pip takes minutes, or by pip where uv cannot, such as with an
# index that only pip is configured for.
install_packages() {
  local python=$1
  local -a pip=("$python" -m pip install --quiet --disable-pip-version-check)
  shift
  "${pip[@]}" uv >&2 && "$python" -m uv pip install --quiet --python "$python" "$@" >&2 || "${pip[@]}" "$@" >&2
}

# A virtual environment whose torch is LibTorch's wheel in third_party, with what builds and tests the package. Prints its Python.
python_environment() {
  local version=$1 environment=$python_folder/venv-$1 python site
  bash scripts/fetch_cuda.sh "$version" >&2  # `import torch` loads the CUDA libraries
  python=$(find_python "$version")
  if [[ ! -e $environment/complete ]] || ! cat tests/python/{requirements,oracles}.txt | cmp -s - "$environment/complete"; then
    if ! "$python" -c 'import ensurepip, os, sysconfig, sys
sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' 2>/dev/null; then
      bash scripts/setup.sh --cuda python3-venv python3-dev >&2
    fi
    python_say "setting up $environment"
    "$python" -m venv --clear "$environment"
    install_packages "$PWD/$environment/bin/python" -r tests/python/requirements.txt
    install_packages "$PWD/$environment/bin/python" --no-deps -r tests/python/oracles.txt
    # Afterwards, since pip would miss what torch's metadata asks for and a CPU does not need.
    site=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    torch_packages "$version" >"$site/torch-of-third_party.pth"
    cat tests/python/{requirements,oracles}.txt >"$environment/complete"
  fi
  printf '%s/%s/bin/python' "$PWD" "$environment"
}

# build_module VERSION PYTHON FOLDER [CMAKE ARGUMENT]...: the module for that LibTorch, in a build folder that other steps use too.
build_module() {
  local version=$1 python=$2 folder=$3
  shift 3
  [[ $version == 2.11.0 ]] || set -- -DTORCH_ROOT="$(torch_packages "$version")/torch" "$@"
  python_say "building the module for LibTorch $version in $folder (minutes the first time)"
  mkdir -p build
  cmake -G Ninja -S . -B "$folder" -DHOOKED_BUILD_PYTHON=ON -DPython_EXECUTABLE="$python" "$@" >"$folder.configure.log" 2>&1 || { cat "$folder.configure.log" >&2; exit 1; }
  cmake --build "$folder" --target hooked_python >&2
}

# make_wheel PYTHON OUT FOLDER...: one wheel of the modules in these build folders. Prints its path.
make_wheel() {
  local python=$1 out=$2 staged=$python_folder/staged api= folder
  shift 2
  rm -rf "$staged" "$out"
  for folder in "$@"; do
    cmake --install "$folder" --component python --prefix "$staged" >/dev/null
  done
  if compgen -G "$staged/hooked/torch-*/*.abi3.so" >/dev/null; then api=cp312; fi
  "$python" -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir "$out" \
    -C cmake.source-dir=wheel -C cmake.version='>=3.22' -C cmake.define.HOOKED_BUILDS="$PWD/$staged" \
    -C wheel.py-api="$api" ./python >&2
  ls "$out"/*.whl
}

# test_wheel PYTHON WHEEL [pytest argument]...: installs the wheel and runs the tests against it.
test_wheel() {
  local python=$1 wheel=$2
  shift 2
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheel"
  # Without the variables with which one develops: the package that is tested is the one that is installed. Files
  # are dealt to processes, since most tests use one thread.
  env -u PYTHONPATH -u HOOKED_PYTHON_BUILD OMP_WAIT_POLICY=passive "$python" -m pytest -p no:cacheprovider -q -rs \
    --numprocesses "$(nproc)" --dist loadfile tests/python "$@"
}
