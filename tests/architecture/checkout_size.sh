#!/usr/bin/env bash
# Checks that the tracked files stay small enough to travel, and that scripts/checkout_size.sh counts correctly.
# Usage: checkout_size.sh CHECKOUT
set -euo pipefail
script=$1/scripts/checkout_size.sh
cd "$1"
if ! git rev-parse --git-dir >/dev/null 2>&1; then
  echo "skipped: $1 is not a git checkout, so no file is tracked"
  exit 77
fi
bash "$script" 26800000

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
git init -q
mkdir kept prepared
truncate -s 1000000 kept/tracked
truncate -s 200000 untracked
truncate -s 30000 ignored prepared/program
printf 'ignored\n' >.gitignore
truncate -s 4000 removed
git add kept removed .gitignore
rm removed

# expect STATUS TEXT ARGUMENT...
expect() {
  local status=0 output
  output=$(bash "$script" "${@:3}") || status=$?
  if [[ $status != "$1" || $output != *"$2"* ]]; then
    echo "checkout_size.sh ${*:3}: expected status $1 and '$2', got $status and '$output'"
    exit 1
  fi
}
expect 0 "is 1.0 MB" 1000008
expect 1 "1.0 MB  kept/tracked" 1000007
expect 0 "is 1.2 MB" 1230008 prepared
expect 1 "0.2 MB  untracked" 1230007 prepared
