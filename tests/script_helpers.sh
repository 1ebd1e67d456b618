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

# The links in the pages below a folder lead to files or to the network.
check_links() {
  local page link
  while IFS= read -r page; do
    while IFS= read -r link; do
      link=${link#](}
      [[ $link == http* || -e ${page%/*}/$link ]] || fail "$page links to $link, which was not installed"
    done < <(sed -e '/^```/,/^```/d' -e 's/`[^`]*`//g' "$page" | grep -oE '\]\([^)# ]+' || true)
  done < <(find "$1" -name '*.md')
}

# What a prefix has in addition to programs and library: documents, a manual page for each command, shell completion.
check_documents() {
  local prefix=$1 file command documents=$1/share/doc/hooked
  for file in share/doc/hooked/{README.md,CHANGELOG.md,SECURITY.md,docs/README.md,docs/guide.md,docs/analysis/heads.md} \
    share/doc/hooked/examples/first_steps.cc share/hooked/examples/{pairs.jsonl,toy_model/config.json} \
    share/zsh/site-functions/_hooked; do
    [[ -s $prefix/$file ]] || fail "$file was not installed"
  done
  check_links "$documents"
  # Pages that errors and help name.
  while IFS= read -r file; do
    [[ -s $documents/$file ]] || fail "$file, which the program names, was not installed"
  done < <(strings "$prefix/libexec/hooked/hooked-engine" "$prefix/bin/hooked" | grep -oE '\bdocs/[a-z/-]+\.md' | sort -u)

  local -a commands
  mapfile -t commands < <("$prefix/bin/hooked" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]\+\) .*/\1/p')
  ((${#commands[@]} > 10)) || fail "hooked --help lists only these commands: ${commands[*]}"
  for command in '' "${commands[@]}"; do
    file=$prefix/share/man/man1/hooked${command:+-$command}.1
    [[ -s $file ]] || fail "$file was not installed"
    grep -q '^\.SH EXAMPLES$' "$file" || fail "$file shows no example"
    if command -v man >/dev/null; then
      man --warnings -l -Tutf8 "$file" 2>"$scratch/warnings" >/dev/null || fail "man cannot show $file"
      [[ ! -s $scratch/warnings ]] || { cat "$scratch/warnings" >&2; fail "man warns about $file"; }
    fi
  done
  # shellcheck disable=SC2016
  expect '^info$' bash -c 'source "$1" && COMP_WORDS=(hooked inf) COMP_CWORD=1 && _hooked && printf "%s\n" "${COMPREPLY[@]}"' \
    bash "$prefix/share/bash-completion/completions/hooked"
  if command -v zsh >/dev/null; then
    # shellcheck disable=SC2016
    expect '^_hooked$' zsh -fc 'fpath=($1 $fpath) && autoload -Uz compinit && compinit -D -u && print $_comps[hooked]' \
      zsh "$prefix/share/zsh/site-functions"
  fi
}
