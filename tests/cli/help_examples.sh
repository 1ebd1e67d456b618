#!/usr/bin/env bash
# Runs every example of `hooked --help` and of every command's help: those of a build in a folder that holds only the shipped
# examples, those of an installed program in an empty folder.
# Usage: help_examples.sh BUILD_FOLDER|PREFIX
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
export PATH=$(cd "$1" && pwd)/bin:$PATH
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HF_HOME=$scratch/hub
mkdir "$scratch/work"
cd "$scratch/work"
prefix=${PATH%%/bin:*}
[[ -d $prefix/share/hooked/examples ]] || ln -s "$source/examples" examples

# The indented lines below `Example:` or `Examples:`; what continues a line is joined to it.
examples_of() { hooked "$@" | sed -n '/^Examples\?:$/,$p' | sed -e '1d' -e '/^$/d' -e ':join; /\\$/{N; s/\\\n//; b join}'; }

mapfile -t commands < <(hooked --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]\+\) .*/\1/p')
((${#commands[@]} > 10)) || { printf 'hooked --help lists only these commands: %s\n' "${commands[*]}" >&2; exit 1; }
ran=0
for command in '' "${commands[@]}"; do
  mapfile -t examples < <(examples_of ${command:+"$command"} --help)
  ((${#examples[@]})) || { printf 'the help of %s has no example\n' "${command:-hooked}" >&2; exit 1; }
  for example in "${examples[@]}"; do
    if ! bash -c "$example" </dev/null >output 2>&1; then
      printf 'FAILED:%s\n' "$example" >&2
      cat output >&2
      exit 1
    fi
    ran=$((ran + 1))
  done
done
printf '%d examples ran\n' "$ran"
