#!/usr/bin/env bash
# Formats our C++ sources in place with clang-format 14; with --check it only names the files that differ and fails.
# Usage: scripts/format.sh [--check]
set -euo pipefail
cd "$(dirname "$0")/.."

mode=(-i)
if [[ ${1:-} == --check ]]; then mode=(--dry-run -Werror); fi
# Tracked files and new ones, but not those that git ignores.
mapfile -d '' files < <(git ls-files -z --cached --others --exclude-standard '*.h' '*.cc' '*.cc.in')
((${#files[@]})) || { printf 'no C++ file found\n' >&2; exit 1; }
printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n 40 clang-format-14 --style=file "${mode[@]}"
printf '%d files follow .clang-format\n' "${#files[@]}"
