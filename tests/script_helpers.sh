# For scripts that use a build outside the checkout. Sourced with `title`, the word at the beginning of lines, and
# `build`, the build's folder. Goes to an empty folder, `scratch`, that is removed at the end.

version=$(head -n 1 "$checkout/VERSION")
torch=$(sed -n 's/^set(HOOKED_TORCH_FALLBACK "\(.*\)")$/\1/p' "$build/package/hookedBuiltWith.cmake")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/hooked_${title// /_}.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
unset LD_LIBRARY_PATH HOOKED_CMAKE_ARGS TORCH_ROOT

say() { printf '[%s] %s\n' "$title" "$*"; }
fail() { say "$@" >&2; exit 1; }
# Runs a command; its output is shown only if it fails.
quietly() { "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "failed: $*"; }; }
# Runs a command whose output must match a regular expression.
expect() {
  local wanted=$1
  shift
  quietly "$@"
  grep -qE -- "$wanted" "$scratch/log" || { cat "$scratch/log" >&2; fail "$* did not print '$wanted'"; }
}
