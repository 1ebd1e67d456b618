# What Doxygen reads of a public header: its declarations in the group of its room, and the rows of a table (.inc)
# where the header includes it, each with a comment made of its words. Lines keep their numbers up to there.
BEGIN {
  n = split(ARGV[1], path, "/")
  room = path[n - 1]
  include_folder = ARGV[1]
  sub(/hooked\/[a-z]+\/[a-z_]+\.h$/, "", include_folder)
}

# The declarations of a header belong to its room; what follows the namespace is for the standard library.
/^namespace HOOKED_EXPORT hooked \{/ { print "namespace hooked { /** @addtogroup " room " */ /** @{ */"; next }
/^}  \/\/ namespace hooked/ { print "/** @} */ }"; exit }

# How a table's rows become declarations, and the kinds of sites by the names that rows have for them.
/^namespace kinds \{/ { in_kinds = 1 }
in_kinds {
  if (/^using /) kinds[$2] = substr($4, 1, length($4) - 1)
  if (/^}/) in_kinds = 0
  print ""
  next
}
/^#define HOOKED_(SITE|AXIS|HEAD_SCORE)\(/ { body = $0; sub(/^#define HOOKED_[A-Z_]+\([^)]*\) /, "", body); print ""; next }
/^#define HOOKED_NORM\(/ { in_norm = 1 }
in_norm { if ($0 !~ /\\$/) in_norm = 0; print ""; next }
/^#include "hooked\/[a-z]+\/[a-z_]+\.inc"$/ {
  split($0, quoted, "\"")
  read_table(include_folder quoted[2])
  next
}

# A class's comment says whether and how it is copied; comparing and destroying need no words.
/^ *~[A-Za-z]+\(\)/ || /^ *[A-Za-z]+& operator=\(/ || / operator(==|<=>)\(const [A-Za-z0-9]+&\) const = default;$/ ||
/^ *[A-Z][A-Za-z]+\((const )?[A-Z][A-Za-z]+&&?( other)?\)( noexcept)?( = (default|delete))?;$/ { print ""; next }

{ print }

function read_table(file,    line, row) {
  while ((getline line < file) > 0) {
    if (line ~ /^HOOKED_/) row = line
    else if (row != "") row = row line
    if (row ~ /"\)$/) {
      declare_row(row)
      row = ""
    }
  }
}

# A row's texts in quotes, its lists of axes in brackets, and the words before them.
function declare_row(row,    words, texts, axes, n, path, rest) {
  split(row, words, /[(,] */)
  split(row, texts, "\"")  # every second part stands between quotes
  if (row ~ /^HOOKED_(AXIS|HEAD_SCORE)/) {
    declare("", words[2], texts[4])
    return
  }
  rest = row
  sub(/^HOOKED_[A-Z]+\(/, "", rest)
  for (n = 0; match(rest, /\([a-z_, ]+\)/); rest = substr(rest, RSTART + RLENGTH))
    axes[++n] = substr(rest, RSTART + 1, RLENGTH - 2)
  path = texts[2]
  if (words[2] == "block") path = "blocks.L." path
  if (words[2] == "cross") path = "decoder.L." path
  if (words[2] == "expert") path = "blocks.L.mlp.experts.E." path
  if (row ~ /^HOOKED_SITE/) {
    declare(words[2], words[3], "`" path "` [" axes[1] "]: " texts[4])
    return
  }
  declare(words[2], words[3] "_scale", "`" path ".hook_scale` [" axes[1] "]: " texts[4])
  declare(words[2], words[3] "_normalized", "`" path ".hook_normalized` [" axes[2] "]: " texts[6])
}

function declare(kind, word, comment,    text) {
  text = body
  sub(/kinds::kind/, kinds[kind], text)
  sub(/\{Site::word\}/, "", text)
  gsub(/word|axis|score/, word, text)
  printf "/** @brief %s */ %s\n", comment, text
}
