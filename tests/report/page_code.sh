#!/usr/bin/env bash
# Runs the program of tests/report/page_code.cc in a folder of its own: page_code.sh PROGRAM CHECKOUT
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ln -s "$2/examples" "$folder/examples"
cd "$folder"
"$1" >/dev/null
for picture in heads.svg scores.svg; do
  [[ -s $picture ]] || { printf 'page_code: %s was not written\n' "$picture" >&2; exit 1; }
done
