#!/usr/bin/env bash
# Makes the .deb and the .tar.gz of a build, unpacks each into an empty folder outside the checkout, and checks there that
# it runs, that it says what it needs, and that no file names a folder of the machine that made it.
# Usage: tests/packages.sh BUILD
set -euo pipefail

checkout=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
title='packages'
source "$checkout/tests/script_helpers.sh"

# Programs and shared libraries below a folder.
binaries() { find "$1" -type f \( -path '*/bin/*' -o -path '*/libexec/*' -o -name '*.so*' \); }

# The sonames that a folder's binaries ask for and that it does not hold.
needed_from_the_system() {
  local file
  binaries "$1" | while read -r file; do objdump -p "$file" | sed -n 's/^ *NEEDED *//p'; done | sort -u |
    while read -r file; do [[ -n $(find "$1" -name "$file" -print -quit) ]] || printf '%s\n' "$file"; done
}

# The prefix of an unpacked package: it runs, it is whole, and it names no folder of this machine.
check_prefix() {
  local prefix=$1 file
  expect "^hooked $version \(LibTorch " "$prefix/bin/hooked" --version
  expect '"rows":' "$prefix/bin/hooked" run "$prefix/share/hooked/examples/toy_model" --text "When Mary and John went to" --json
  for file in LICENSE THIRD_PARTY_NOTICES.md system-libraries.txt; do
    [[ -e $prefix/share/doc/hooked/$file ]] || fail "share/doc/hooked/$file is missing"
  done
  check_documents "$prefix"
  [[ -n $(ls "$prefix/share/doc/hooked/libtorch") ]] || fail "LibTorch's licences are missing"
  binaries "$prefix" | while read -r file; do
    if ldd "$file" | grep 'not found'; then fail "$file lacks the library above"; fi
    if ldd "$file" | grep -E "=> ($checkout|$torch|$build)/"; then fail "$file loads the library above"; fi
  done
  # In every file: run-time paths, package configs, text in the program and in the archive.
  local words=(-e "$checkout" -e "$build" -e "$(dirname "$torch")")
  if grep -rlaF "${words[@]}" "$prefix" | grep .; then fail "the files above name the checkout or its LibTorch"; fi
  # Only the LibTorch libraries that a CPU program needs.
  find "$prefix/lib/hooked/torch/lib" -type f -printf '%f\n' | sort >"$scratch/carried"
  if grep -vE '^lib(torch_cpu|c10|gomp|cudart|cupti)[-.]' "$scratch/carried" | grep .; then
    fail "the libraries above are not needed"
  fi
  say "carries $(tr '\n' ' ' <"$scratch/carried")"
}

check_deb() {
  quietly dpkg-deb -x "$1" "$scratch/deb"
  local depends soname path package
  depends=$(dpkg-deb -f "$1" Depends)
  needed_from_the_system "$scratch/deb" >"$scratch/needed"
  while read -r soname; do
    path=$(ldconfig -p | sed -n "s|.*$soname .*=> ||p" | head -n 1)
    [[ -n $path ]] || path=$(find /lib /usr/lib /lib64 -name "$soname" -print -quit)
    package=$(dpkg -S "$path" "$(realpath "$path")" "/usr$path" 2>/dev/null | head -n 1 | cut -d: -f1) || true
    [[ -n $package ]] || fail "no package of the system holds $soname ($path)"
    tr ',|' '\n\n' <<<"$depends" | sed 's/^ *//; s/[ (].*//' | grep -qxF "$package" ||
      fail "$soname comes from $package, which is not in Depends: $depends"
  done <"$scratch/needed"
  say "Depends: $depends"
  check_prefix "$scratch/deb/usr"
  quietly bash "$checkout/tests/cli/help_examples.sh" "$scratch/deb/usr"
}

check_archive() {
  mkdir "$scratch/archive"
  quietly tar -xzf "$1" -C "$scratch/archive" --strip-components=1
  needed_from_the_system "$scratch/archive" | while read -r soname; do
    grep -qxF "$soname" "$scratch/archive/share/doc/hooked/system-libraries.txt" ||
      fail "system-libraries.txt does not name $soname"
  done
  check_prefix "$scratch/archive"
  # Then the examples of the help, which ran in the other package, run in this one.
  diff -rq "$scratch/deb/usr" "$scratch/archive" || fail "the two packages differ in the files above"
}

say "packing"
quietly cpack --config "$build/CPackConfig.cmake" -B "$scratch/packed"
for package in "$scratch"/packed/*.deb "$scratch"/packed/*.tar.gz; do
  [[ -e $package ]] || fail "no $(basename "$package") was made"
  say "$(basename "$package"), $(du -h "$package" | cut -f1)"
done
check_deb "$scratch"/packed/*.deb
check_archive "$scratch"/packed/*.tar.gz

# A project configured against the unpacked archive gets a message about what is missing, and finds it once named.
quietly cmake -G Ninja -S "$checkout/tests/consumer/reasons" -B "$scratch/reasons" -DCMAKE_PREFIX_PATH="$scratch/archive" \
  -DREASON='holds the libraries without the headers'
quietly cmake -G Ninja -S "$checkout/tests/consumer" -B "$scratch/consumer" -DCMAKE_PREFIX_PATH="$scratch/archive" -DTORCH_ROOT="$torch"
say "all passed"
