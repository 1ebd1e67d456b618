#!/usr/bin/env bash
# Reads the symbols of the objects that are compiled for one set of kernels (Note [Kernel sets], models/kernels/kernels.cc). Each may
# define one exported function, and use nothing of the standard library except what is in the C library. An inline function
# of a header would be compiled for that set, and the linker might give it to programs on processors that lack it.
# Usage: kernel_symbols.sh ARCHIVE SET...
set -euo pipefail

archive=$1
shift
for set in "$@"; do
  symbols=$(nm -C "$archive" 2>/dev/null | awk -v member="$set.cc.o:" '$0 == member {inside = 1; next} /\.o:$/ {inside = 0} inside && NF')
  defined=$(awk '$1 != "U" && $2 ~ /^[A-Zuvw]$/' <<<"$symbols" | cut -d' ' -f3-)
  if [[ ! $defined =~ ^hooked::kernels::${set}_kernels\([^$'\n']*\)$ ]]; then
    printf '%s.cc defines for others: %s\nexpected %s_kernels alone\n' "$set" "$defined" "$set" >&2
    exit 1
  fi
  if used=$(awk '$1 == "U" {print $2}' <<<"$symbols" | grep -vxE 'memcpy|memset|_GLOBAL_OFFSET_TABLE_'); then
    printf '%s.cc uses: %s\nexpected memcpy and memset alone\n' "$set" "$used" >&2
    exit 1
  fi
done
printf 'Symbols of %s: as expected\n' "$*"
