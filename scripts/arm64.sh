#!/usr/bin/env bash
# Builds hooked for arm64 with Debian's cross compiler, from scratch, and tries it under qemu:
#   - the first commands print what this machine's program prints;
#   - every activation of a tenth of the golden cases equals this machine's;
#   - the tests of hooks, io and weights pass, and a tenth of those of models and goldens, which take hours under qemu. The last
#     line counts them.
# Nothing for arm64 is installed on this machine but the cross compiler and qemu: libraries are unpacked into third_party.
# Usage: scripts/arm64.sh
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '[arm64] %s\n' "$*"; }
fail() { printf '[arm64] %s\n' "$*" >&2; exit 1; }

bash scripts/setup.sh g++-aarch64-linux-gnu qemu-user-static
bash scripts/fetch_libtorch.sh "" aarch64 >/dev/null

# Debian's arm64 libraries with all that they depend on, by an apt that does not use this machine's packages.
sysroot=third_party/sysroot-aarch64
libraries=$(bash scripts/setup.sh --libraries)
if [[ $(cat $sysroot/libraries.txt 2>/dev/null) != "$libraries" ]]; then
  say "fetching arm64 packages of $(tr '\n' ' ' <<<"$libraries")"
  rm -rf $sysroot $sysroot.partial
  mkdir -p $sysroot.partial/apt/{lists,cache/archives}/partial
  touch $sysroot.partial/apt/status
  apt=$PWD/$sysroot.partial/apt
  apt_arm64() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root \
      -o Dir::State::Lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" \
      -o Debug::NoLocking=1 "$@"
  }
  apt_arm64 update
  # shellcheck disable=SC2086  # several packages in one variable
  apt_arm64 install -y --no-install-recommends --download-only $libraries >/dev/null
  for package in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$package" $sysroot.partial; done
  rm -rf "$apt"
  printf '%s\n' "$libraries" >$sysroot.partial/libraries.txt
  mv $sysroot.partial $sysroot
fi

bash scripts/build.sh hooked-cli goldens
say 'building for arm64 (minutes the first time)'
cmake --preset arm64 >/dev/null
nice cmake --build --preset arm64 --target hooked-cli hooks_tests io_tests weights_tests models_tests golden_tests

# The engine is called directly: qemu runs one program, and that program cannot start another one of arm64.
here=build/release/bin/hooked
there="qemu-aarch64-static -L $sysroot build/arm64/libexec/hooked/hooked-engine"
# What this machine and arm64 print must be the same. LibTorch complains on stderr that qemu hides the processor's kind.
same() {
  local expected got
  expected=$($here "$@") || fail "hooked $* fails here"
  # shellcheck disable=SC2086  # a command and its options
  got=$($there "$@" 2>build/arm64/stderr) || fail "hooked $* fails under qemu: $(cat build/arm64/stderr)"
  [[ $got == "$expected" ]] || fail "hooked $* prints under qemu
$got
expected
$expected"
  say "hooked $*: as here"
}
qemu-aarch64-static -L $sysroot build/arm64/bin/hooked --help >/dev/null || fail "bin/hooked --help fails under qemu"
same info examples/toy_model
same names examples/toy_model
same tokenize examples/toy_model --text 'When Mary and John went'
same run examples/toy_model --text 'When John and Mary went to the shop, John gave a bag to' --top-k 3 --dtype float64
same run examples/toy_model --text 'When Mary and John went to' --edit 'blocks.1.attn.hook_z[head=3,pos=-1] zero' --dtype float64
same generate examples/toy_model --text 'When Mary and John went to the store' --max-new-tokens 5 --greedy
same lens examples/toy_model --text 'When Mary and John went to' --dtype float64

python3 scripts/compare_activations.py --every 10 "$here" "$there"

bash scripts/run_tests.sh arm64 -R '^(hooks|io|weights)_tests$|^(models|golden)_tests_tenth$'
