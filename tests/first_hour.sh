#!/usr/bin/env bash
# A newcomer's first hour, run in an empty folder outside the checkout with the results of a build: install, a project and a
# plug-in over the installed package, and the same without the checkout. Fails at the first thing that goes wrong.
# Usage: tests/first_hour.sh BUILD [step]...
# Steps: install documents examples newcomer consumer strings vocabulary plugin reasons deploy
set -euo pipefail

checkout=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
shift
steps=("$@")
((${#steps[@]})) || steps=(install documents examples newcomer consumer strings vocabulary plugin reasons deploy)

title='first hour'
source "$checkout/tests/script_helpers.sh"
prefix=$scratch/prefix

# configure FOLDER PROJECT [cmake argument]...
configure() {
  local folder=$1 project=$2
  shift 2
  quietly cmake -G Ninja -S "$project" -B "$folder" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" "$@"
}

# The program of a prefix: its version, a short run of the toy model next to it.
check_program() {
  expect "^hooked $version \(LibTorch " "$1/bin/hooked" --version
  expect '"rows":' "$1/bin/hooked" run "$1/share/hooked/examples/toy_model" --tokens 1,2,3 --top-k 1 --json
}

step_install() {
  [[ -n $torch ]] || fail "no hookedBuiltWith.cmake in $build/package"
  quietly cmake --install "$build" --prefix "$prefix"
  check_program "$prefix"
  local file
  for file in include/hooked/hooked.h include/hooked/version.h share/doc/hooked/LICENSE \
    share/doc/hooked/THIRD_PARTY_NOTICES.md; do
    [[ -e $prefix/$file ]] || fail "$file was not installed"
  done
  [[ -z $(find "$prefix" -name 'libtorch*') ]] || fail "LibTorch was installed without being asked for"
}

step_documents() { check_documents "$prefix"; }

# Every example of `--help`, as the installed program shows it.
step_examples() { quietly bash "$checkout/tests/cli/help_examples.sh" "$prefix"; }

# A newcomer's first commands: an empty cache, a model in it, a name that is nearly right, the Tab key.
step_newcomer() {
  local hooked=$prefix/bin/hooked model=$scratch/hf/hub/models--someone--toy
  export HF_HOME=$scratch/hf
  unset HF_HUB_CACHE HUGGINGFACE_HUB_CACHE
  expect "No models in the hub cache $scratch/hf/hub" "$hooked" list
  mkdir -p "$model/snapshots" "$model/refs"
  cp -r "$prefix/share/hooked/examples/toy_model" "$model/snapshots/c0ffee"
  printf c0ffee >"$model/refs/main"
  expect 'someone/toy +c0ffee .* yes$' "$hooked" list
  quietly "$hooked" info someone/toy
  if "$hooked" info toy 2>"$scratch/log"; then fail "a model was found under half its name"; fi
  grep -qF "the nearest in the cache is 'someone/toy'" "$scratch/log" || fail "no word about the nearest model"
  # shellcheck disable=SC2016
  expect '^someone/toy$' bash -c 'source <("$1" completion bash) && COMP_WORDS=("$1" run some) COMP_CWORD=2 &&
    _hooked && printf "%s\n" "${COMPREPLY[@]}"' bash "$hooked"
}

# A project as README shows it. Argument: the build folder.
build_consumer() {
  configure "$1" "$checkout/tests/consumer"
  grep -qF -- "-- LibTorch " "$scratch/log" || fail "the package does not say which LibTorch it takes"
  quietly cmake --build "$1"
}

check_consumer() { expect "^hooked $version, LibTorch " "$1/consumer" "$prefix/share/hooked/examples/toy_model"; }

step_consumer() {
  build_consumer "$scratch/consumer"
  check_consumer "$scratch/consumer"
}

step_strings() {
  configure "$scratch/strings" "$checkout/tests/consumer/strings"
  quietly cmake --build "$scratch/strings"
  expect 'names, operators and printing work' "$scratch/strings/strings" "$prefix/share/hooked/examples/toy_model" \
    "$scratch/padded"
}

# A model with more ids than its tokenizer has pieces, which the step `strings` wrote, in every command.
step_vocabulary() {
  local hooked=$prefix/bin/hooked padded=$scratch/padded prompt="When John and Mary"
  [[ -d $padded ]] || fail "the step strings writes the model that the step vocabulary reads; expected both"
  quietly "$hooked" info "$padded"
  quietly "$hooked" names "$padded" --names pattern
  quietly "$hooked" run "$padded" --tokens 1,790,863 --top-k 864
  quietly "$hooked" run "$padded" --text "$prompt" --text "When" --json
  printf '%s' "$prompt" | quietly "$hooked" run "$padded" --text -
  quietly "$hooked" cache "$padded" --tokens 1,790 --out "$scratch/padded.safetensors"
  quietly "$hooked" tokenize "$padded" --text "$prompt"
  quietly "$hooked" bench "$padded" --iterations 1
  expect '"ids":' "$hooked" generate "$padded" --tokens 790,791 --max-new-tokens 12 --seed 3 --json \
    --capture 'blocks.*.hook_resid_post' --out "$scratch/made.safetensors"
  [[ -s $scratch/made.safetensors ]] || fail "what generate captured was not written"
  quietly "$hooked" save "$padded" --out "$scratch/padded_again"
}

step_plugin() {
  configure "$scratch/plugin" "$checkout/tests/consumer/plugin"
  quietly cmake --build "$scratch/plugin"
  local shown
  shown=$(nm -D --defined-only "$scratch/plugin/libplugin.so" | c++filt | sed 's/^[0-9a-f]* //')
  grep -q '^T plugin_layers$' <<<"$shown" || fail "the plug-in does not show its own function"
  if grep -E 'hooked::|fmt::|nlohmann|onig|utf8proc' <<<"$shown" | head -n 5 | grep .; then
    fail "the plug-in shows symbols of hooked or of libraries in it, such as those above"
  fi
}

# find_package(hooked QUIET) fails silently and with a reason. Arguments: REASON, then arguments for cmake.
check_reason() {
  local reason=$1
  shift
  rm -rf "$scratch/reasons"
  cmake -G Ninja -S "$checkout/tests/consumer/reasons" -B "$scratch/reasons" -DCMAKE_PREFIX_PATH="$prefix" -DREASON="$reason" \
    "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "find_package does not say: $reason"; }
  if grep -E 'CMake (Warning|Error)|LibTorch' "$scratch/log"; then fail "find_package(hooked QUIET) is not quiet: $*"; fi
}

step_reasons() {
  check_reason 'LibTorch.* no version header' -DTORCH_ROOT=/nonexistent
  check_reason 'no components.* engine' -DARGUMENTS='COMPONENTS;engine'
  check_reason '^$' -DARGUMENTS=9.0  # CMake itself names the versions that it met
}

# The installed program and the built project without the checkout and its LibTorch.
step_deploy() {
  quietly cmake --install "$build" --prefix "$prefix" --component libtorch
  local program file
  for program in "$prefix/libexec/hooked/hooked-engine" "$scratch/consumer/consumer"; do
    [[ -e $program ]] || continue
    while read -r file; do
      [[ $file == "$prefix"/* || $file != *torch* && $file != *libc10* && $file != *cuda* && $file != *gomp* ]] ||
        fail "$program loads $file; expected LibTorch from $prefix"
    done < <(ldd "$program" | sed -n 's/.* => \([^ ]*\) .*/\1/p')
  done
  if unshare --mount true 2>/dev/null; then
    say "hiding the checkout and LibTorch"
    unshare --mount bash -c '
      set -euo pipefail
      prefix=$1 consumer=$2 empty=$3
      shift 3
      for folder in "$@"; do if [[ -d $folder ]]; then mount --bind "$empty" "$folder"; fi; done
      for folder in "$@"; do [[ -z $(ls -A "$folder") ]] || exit 9; done
      cd /
      model=$prefix/share/hooked/examples/toy_model
      "$prefix/bin/hooked" --version
      "$prefix/bin/hooked" run "$model" --tokens 1,2,3 --top-k 1
      if [[ -e $consumer ]]; then "$consumer" "$model"; fi' \
      bash "$prefix" "$scratch/consumer/consumer" "$(mktemp -d -p "$scratch")" "$(dirname "$torch")" "$checkout" \
      >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "does not run without the checkout"; }
  else
    say "no rights to hide the checkout: what is loaded was looked at, not tried"
  fi
  # The prefix may be moved.
  mv "$prefix" "$scratch/elsewhere"
  check_program "$scratch/elsewhere"
  mv "$scratch/elsewhere" "$prefix"
}

for step in "${steps[@]}"; do
  say "$step"
  "step_$step"
done
say "all passed: ${steps[*]}"
