#!/usr/bin/env bash
# Measures hooked on a machine with an NVIDIA GPU and a torch for CUDA, which needs neither a network nor a compiler: the device
# suite on the card, the program, and compare_rivals.py with transformers, TransformerLens and nnsight (docs/gpu.md, "Measuring").
#
#   scripts/measure_gpu.sh --prepare DIR             where hooked is built: programs, libraries and wheels to take along; fails if
#                                                    they and the checkout are more than 64 MiB
#   scripts/measure_gpu.sh [option]... DIR           in a checkout on the machine with the card; DIR is what was prepared
#     --device cuda|strict   strict is a try-out without a card: the suite on the strict test device, the rivals on the CPU
#     --out DIR              where everything is written (default: gpu_measured)
#     --parts LIST           of suite,program,rivals (default: all of them)
#     --minutes N            for everything together (default: 9); what does not fit is left out by name
#   scripts/measure_gpu.sh --docs OUT                puts the tables that such a run left in OUT into docs/gpu.md
#
# PYTHON names the Python that has torch (default: python3). Every part runs, even if others fail; the exit status is 1
# if one failed.
set -euo pipefail
cd "$(dirname "$0")/.."

programs=(bin/hooked libexec/hooked/hooked-engine bin/bench_rival_runner tests/device_tests tests/hooked-draw-goldens)
# Wheels that a machine with torch, transformers and the usual packages may lack, one line for each rival with its imports.
wheels=("transformer-lens==3.9.0 better-abc==0.0.3 datasets==5.2.0 dill==0.4.1 multiprocess==0.70.19"
        "nnsight==0.8.1 greenlet==3.5.6 pydantic==2.14.3 pydantic-core==2.50.4 annotated-types==0.8.0 typing-inspection==0.4.5 typing-extensions==4.16.0")
limit=$((16 * 1024 * 1024))        # bytes of DIR
travel_limit=$((64 * 1024 * 1024)) # bytes of DIR and of the checkout that goes with it

python=${PYTHON:-python3}
say() { printf '[measure] %s\n' "$*"; }
fail() { printf '[measure] %s\n' "$*" >&2; exit 1; }
bytes_of() { du -sb --apparent-size "$@" | awk '{sum += $1} END {print sum + 0}'; }

prepare() {
  local folder=$1 build=build/release program library group travels
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$folder" "$work/tree/lib"
  rm -rf "$folder/programs.tar.xz" "$folder/wheels"
  for program in "${programs[@]}"; do
    [[ -x $build/$program ]] || fail "$build/$program is missing; build it: cmake --build --preset release --target ${program##*/}"
    mkdir -p "$work/tree/${program%/*}"
    strip -o "$work/tree/$program" "$build/$program"
  done
  # The recorder of runs; loaded by its name.
  if [[ -e $build/libhooked_cuda.so ]]; then
    strip -o "$work/tree/lib/libhooked_cuda.so" "$build/libhooked_cuda.so"
  else
    say "LEFT OUT, was not built: libhooked_cuda.so; runs will not be recorded"
  fi
  # All shared libraries except those of the C and C++ runtime, of LibTorch and of CUDA.
  for library in $(for program in "${programs[@]}"; do ldd "$build/$program"; done | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u); do
    case ${library##*/} in
      libc.so* | libm.so* | libgcc_s.so* | libstdc++.so* | librt.so* | libdl.so* | libpthread.so* | libutil.so* | libgomp.so* | \
        libtorch* | libc10* | libcu*) ;;
      *) strip -o "$work/tree/lib/${library##*/}" "$library" ;;
    esac
  done
  # Tests read the checkout, and checkpoints written on that machine, at the paths of the build.
  sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt" >"$work/tree/source_dir"
  tar -C "$work/tree" -cf - . | xz -6 >"$folder/programs.tar.xz"
  say "programs: ${programs[*]}; libraries: $(cd "$work/tree/lib" && echo *) ($(bytes_of "$folder") bytes)"

  mkdir -p "$folder/wheels"
  for group in "${wheels[@]}"; do
    # shellcheck disable=SC2086  # several words
    if ! "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
      --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_24_x86_64 --platform manylinux_2_17_x86_64 \
      --platform manylinux2014_x86_64 --platform manylinux1_x86_64 -d "$work/wheels" $group; then
      say "LEFT OUT, could not be fetched: $group"
    elif (($(bytes_of "$folder" "$work/wheels") > limit)); then
      say "LEFT OUT, does not fit into $limit bytes: $group ($(bytes_of "$work/wheels") bytes)"
    else
      mv "$work"/wheels/*.whl "$folder/wheels/"
      say "wheels: $group"
    fi
    rm -rf "$work/wheels"
  done
  say "$folder holds $(bytes_of "$folder") bytes"
  travels=$(bash scripts/checkout_size.sh "$travel_limit" "$folder") || fail "too much to take along: $travels"
  say "$travels"
}

# What a run writes goes to a file and, its end, to the terminal.
part() {
  local name=$1 seconds=$2
  shift 2
  say "$name (at most $seconds s)"
  local began=$SECONDS status=0
  timeout -k 10 "$seconds" "$@" 2>&1 | tee "$out/$name.log" | stdbuf -oL cut -c1-300 || status=$?
  if ((status == 0)); then
    results+=("$name: done in $((SECONDS - began)) s")
  else
    results+=("$name: FAILED, exit status $status after $((SECONDS - began)) s")
    failed=1
  fi
}

remaining() { echo $((minutes * 60 - SECONDS)); }
least() { echo $(($1 < $2 ? $1 : $2)); }

# The cases are spread over some processes, which have that many seconds. Prints their failures, and one line that counts.
suite() {
  local shards index
  shards=$((processors / 2))
  shards=$((shards < 1 ? 1 : shards > 8 ? 8 : shards))
  # One case reads the program's own symbols, which were stripped; it has nothing to do with a card.
  local left_out=StrictDevice.SaysWhereAWaitComesFrom
  export GTEST_FILTER=${GTEST_FILTER:--$left_out}
  printf 'Cases: %s\n' "$GTEST_FILTER"
  for ((index = 0; index < shards; ++index)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$index GTEST_OUTPUT="json:$work/suite/$index.json" OMP_NUM_THREADS=1 \
      timeout "$1" "$work/tests/device_tests" --gtest_brief=1 >"$work/suite/$index.log" 2>&1 &
  done
  wait
  cat "$work"/suite/*.log
  "$python" - "$work/suite" "$shards" <<'END'
import json, pathlib, sys
folder, shards = pathlib.Path(sys.argv[1]), int(sys.argv[2])
passed, skipped, wrong = 0, 0, []
for index in range(shards):
    file = folder / f"{index}.json"
    if not file.exists():
        wrong.append(f"process {index} ended before its tests did: " + (folder / f"{index}.log").read_text(errors="replace")[-300:])
        continue
    for case in (case for suite in json.loads(file.read_text())["testsuites"] for case in suite["testsuite"]):
        if case["result"] == "SKIPPED":
            skipped += 1
        elif case.get("failures"):
            wrong.append(f"{case['classname']}.{case['name']}")
        elif case["status"] == "RUN":
            passed += 1
print("\n".join("FAILED: " + text for text in wrong))
print(f"The device suite: {passed} passed, {len(wrong)} failed, {skipped} skipped.")
sys.exit(1 if wrong or not passed else 0)
END
}

program() {
  local device=$1 text="When John and Mary went to the shop, John gave a bag to" status=0
  "$work/bin/hooked" run examples/toy_model --text "$text" --device "$device" || status=1
  "$work/bin/hooked" generate examples/toy_model --text "$text" --device "$device" || status=1
  "$work/bin/hooked" bench examples/toy_model --device "$device" || status=1
  return "$status"
}

rivals() {
  local asked
  if [[ $device == strict ]]; then
    asked=(--device cpu --rounds 2 --only gpt2-small --dtypes float32 --questions forward_1x16,forward_1x128,cache_1x128,decode)
  else
    asked=(--device cuda --rounds 3)
  fi
  "$python" benchmarks/compare_rivals.py "${asked[@]}" --runner "$work/bin/bench_rival_runner" --seconds "$1" \
    --text "$out/rivals.md" --json "$out/rivals.json"
}

measure() {
  local folder=$1 torch_lib wheel source_dir seconds
  [[ -e $folder/programs.tar.xz ]] || fail "$folder holds no programs.tar.xz; expected a folder that --prepare wrote"
  mkdir -p "$out"
  out=$(cd "$out" && pwd)
  work=$(mktemp -d)
  link=
  trap 'rm -rf "$work"; [[ -z $link ]] || rm -f "$link"' EXIT
  results=() failed=0
  processors=$(env -u OMP_NUM_THREADS nproc) # not what nproc makes of that variable
  export PYTHONUNBUFFERED=1 PIP_ROOT_USER_ACTION=ignore work out device python processors

  # Python unpacks: the machine may lack xz.
  "$python" -m tarfile -e "$folder/programs.tar.xz" "$work"
  mkdir "$work/suite" "$work/site"
  for wheel in "$folder"/wheels/*.whl; do
    [[ -e $wheel ]] || continue
    "$python" -m pip install -q --disable-pip-version-check --no-index --no-deps --no-compile --no-cache-dir --target "$work/site" "$wheel" ||
      results+=("wheels: ${wheel##*/} is not for this Python")
  done
  export PYTHONPATH=$work/site
  torch_lib=$("$python" -c 'import os, torch; print(os.path.join(os.path.dirname(torch.__file__), "lib"))')
  export LD_LIBRARY_PATH=$work/lib:$torch_lib
  source_dir=$(cat "$work/source_dir")
  if [[ ! -e $source_dir ]]; then
    if mkdir -p "${source_dir%/*}" && ln -s "$PWD" "$source_dir"; then
      link=$source_dir
    else
      results+=("suite: the checkout could not be linked to $source_dir, where its tests look for checkpoints")
    fi
  fi
  "$work/tests/hooked-draw-goldens" tests/golden "$source_dir/build/release/goldens" || results+=("suite: no checkpoints could be written")

  card="no card: the strict test device"
  if [[ $device == cuda ]]; then
    export HOOKED_TEST_DEVICE=cuda
    card=$(nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader | head -1) || card="an unknown card"
  fi
  say "$card; $("$python" -c 'import torch; print("torch", torch.__version__)'); $processors processors"

  export -f suite program rivals
  if [[ ,$parts, == *,suite,* ]]; then part suite 260 bash -c "suite $(least 240 "$(remaining)")"; fi
  if [[ ,$parts, == *,program,* ]]; then
    part program 60 bash -c "program $([[ $device == cuda ]] && echo cuda || echo cpu)"
  fi
  if [[ ,$parts, == *,rivals,* ]]; then
    # It stops asking on its own, then the machine's floor is taken once more.
    seconds=$(remaining)
    part rivals "$((seconds - 5))" bash -c "rivals $((seconds > 60 ? seconds - 50 : 10))"
  fi

  {
    printf 'Measured on %s: %s. %s\n\n' "$(date +%F)" "$card" "$(grep -h '^The device suite:' "$out/suite.log" 2>/dev/null || echo 'The device suite was not run.')"
    cat "$out/rivals.md" 2>/dev/null || echo "Nothing was compared with the rivals."
  } >"$out/table.md"
  [[ $device != cuda ]] || (cd benchmarks && "$python" -m rivals.page ../docs/gpu.md "$out/table.md")
  printf '\n'
  cat "$out/table.md"
  printf '\n'
  grep -h 'FAILED\|DISAGREES' "$out"/*.log | sort | uniq -c | cut -c1-300 | tail -20 || true
  printf '%s\n' "${results[@]}" | tee "$out/summary.txt"
  exit "$failed"
}

device=cuda out=gpu_measured parts=suite,program,rivals minutes=9
while (($# > 1)); do
  case $1 in
    --prepare) [[ $# == 2 ]] || fail "expected --prepare DIR"; prepare "$2"; exit ;;
    --docs) cd benchmarks; exec "$python" -m rivals.page ../docs/gpu.md "$(cd .. && realpath "$2")/table.md" ;;
    --device) [[ $2 == cuda || $2 == strict ]] || fail "--device: expected cuda or strict, got $2"; device=$2 ;;
    --out) out=$2 ;;
    --parts)
      for name in ${2//,/ }; do [[ ,$parts, == *,$name,* ]] || fail "--parts: expected some of $parts, got $name"; done
      parts=$2
      ;;
    --minutes) [[ $2 =~ ^[1-9][0-9]*$ ]] || fail "--minutes: expected a whole number, got $2"; minutes=$2 ;;
    *) fail "there is no option $1; the head of this script names them" ;;
  esac
  shift 2
done
[[ $# == 1 && $1 != -* ]] || fail "expected the folder that --prepare wrote; the head of this script has the usage"
measure "$1"
