#!/usr/bin/env bash
# Adds up the sizes of the files of a checkout, and fails, listing the largest parts, if they exceed a limit.
# Usage, anywhere in the checkout: checkout_size.sh LIMIT [FOLDER]
#   LIMIT   in bytes
#   FOLDER  counts what travels to another machine: the tracked files, those that git neither tracks nor ignores, and the files of
#           FOLDER. Without it only the tracked ones count.
set -euo pipefail
limit=${1:?the limit in bytes is missing}
folder=${2:+$(realpath "$2")}
cd "$(git rev-parse --show-toplevel)"

files() {
  if [[ -z $folder ]]; then
    git ls-files -z
  else
    git ls-files -z --cached --others --exclude-standard
    find "$folder" -type f -print0 | sed -z "s|^$PWD/||"
  fi
}
# Bytes and path of each. A tracked file that was removed counts nothing.
weighed=$(files | sort -zu | xargs -0 -r stat --printf='%s %n\n' 2>/dev/null || true)
sum=$(awk '{sum += $1} END {printf "%.0f", sum}' <<<"$weighed")

shown() { awk '{printf "%.1f MB (%.1f MiB)", $1 / 1e6, $1 / 1048576}' <<<"$1"; }
echo "${folder:+with $folder }the checkout is $(shown "$sum"), at most $(shown "$limit")"
((sum > limit)) || exit 0
echo "the largest parts:"
awk '{split($2, part, "/"); name = part[1] (2 in part ? "/" part[2] : "") (3 in part ? "/" part[3] : ""); bytes[name] += $1}
  END {for (name in bytes) printf "%10.1f MB  %s\n", bytes[name] / 1e6, name}' <<<"$weighed" | sort -rn | sed -n 1,10p
exit 1
