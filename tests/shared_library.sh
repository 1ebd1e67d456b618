#!/usr/bin/env bash
# BUILD_SHARED_LIBS=ON in an existing build: the same objects, linked differently. The program, an installed project and
# the tests of the examples run with libhooked.so, and it exports only hooked. The build is restored at the end; with
# `leave`, if nobody needs it any more, only its configuration. Usage: tests/shared_library.sh BUILD [leave]
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1 leave=${2:-}
say() { printf '[shared library] %s\n' "$*"; }
fail() { printf '[shared library] %s\n' "$*" >&2; exit 1; }
put_back() {
  cmake -DBUILD_SHARED_LIBS=OFF "$build" >/dev/null
  [[ $leave == leave ]] || cmake --build "$build" --target product examples/all examples_tests >/dev/null
}
trap put_back EXIT

say "linking"
cmake -DBUILD_SHARED_LIBS=ON "$build" >/dev/null
cmake --build "$build" --target product examples/all examples_tests

library=$build/libhooked.so
[[ -L $library ]] || fail "$library was not made"
ldd "$build/libexec/hooked/hooked-engine" | grep 'libhooked.so' >/dev/null || fail "the program does not link libhooked.so"
if nm -DC --defined-only "$library" | grep -E ' (fmt|nlohmann|onig)' | head -n 5 | grep .; then
  fail "libhooked.so shows the symbols above"
fi
bash tests/first_hour.sh "$build" install consumer deploy
"$build/tests/examples_tests" --gtest_brief=1
say "all passed"
