"""Writes src/text/unicode/unicode_differences.cc and docs/unicode-differences.md: where the PyPI package `tokenizers` and the
libraries that hooked is built on (utf8proc, Oniguruma) know different versions of Unicode.

The package is asked about every code point through its own normalizers and pre-tokenizers, utf8proc and Oniguruma through
the shared libraries that the system has (Debian 12: utf8proc 2.8.0, Oniguruma 6.9.8). What utf8proc says differently is
corrected by the table; what Oniguruma says differently is documented only.
"""

import ctypes

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

from .case_files import kRoot

kCodePoints = [c for c in range(1, 0x110000) if not 0xD800 <= c <= 0xDFFF]
kOnigClasses = [r"\p{L}", r"\p{N}", r"\p{M}", r"\p{P}", r"\p{S}", r"\p{Z}", r"\p{C}", r"\p{Lu}", r"\p{Ll}", r"\p{Lt}", r"\p{Lm}",
                r"\p{Lo}", r"\p{Han}", r"\s", r"\w", r"\d", r"[[:punct:]]"]
kCompat, kDecompose = 1 << 2, 1 << 4


def ranges(code_points) -> list:
    found = []
    for c in sorted(code_points):
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


class Utf8proc:
    def __init__(self):
        self.library = ctypes.CDLL("libutf8proc.so.2")
        self.library.utf8proc_category_string.restype = ctypes.c_char_p
        self.library.utf8proc_version.restype = ctypes.c_char_p
        self.library.utf8proc_unicode_version.restype = ctypes.c_char_p
        self.library.utf8proc_get_property.restype = ctypes.POINTER(ctypes.c_int16)
        self.category = {c: self.library.utf8proc_category_string(c).decode() for c in kCodePoints}
        self.buffer = (ctypes.c_int32 * 64)()

    def version(self) -> str:
        return (f"{self.library.utf8proc_version().decode()} (Unicode "
                f"{self.library.utf8proc_unicode_version().decode()})")

    def combining_class(self, c: int) -> int:
        return self.library.utf8proc_get_property(c)[1]

    def lower(self, c: int) -> str:
        return chr(self.library.utf8proc_tolower(c))

    def decomposed(self, c: int, options: int) -> str:
        bound = ctypes.c_int(0)
        length = self.library.utf8proc_decompose_char(c, self.buffer, 64, options, ctypes.byref(bound))
        return "".join(chr(self.buffer[i]) for i in range(length))


class Oniguruma:
    def __init__(self):
        self.library = ctypes.CDLL("libonig.so.5")
        self.library.onig_version.restype = ctypes.c_char_p
        self.library.onig_region_new.restype = ctypes.c_void_p
        self.library.onig_search.restype = ctypes.c_int
        self.utf8 = ctypes.addressof(ctypes.c_char.in_dll(self.library, "OnigEncodingUTF8"))
        self.syntax = ctypes.c_void_p.in_dll(self.library, "OnigDefaultSyntax")

    def version(self) -> str:
        return self.library.onig_version().decode()

    def matching(self, expression: str) -> set:
        regex, info = ctypes.c_void_p(), (ctypes.c_char * 64)()
        pattern = ctypes.create_string_buffer(expression.encode())
        start = ctypes.addressof(pattern)
        code = self.library.onig_new(ctypes.byref(regex), ctypes.c_void_p(start),
                                     ctypes.c_void_p(start + len(expression.encode())), 0, ctypes.c_void_p(self.utf8),
                                     self.syntax, info)
        assert code == 0, (expression, code)
        found = set()
        for c in kCodePoints:
            text = ctypes.create_string_buffer(chr(c).encode())
            at = ctypes.addressof(text)
            end = ctypes.c_void_p(at + len(text) - 1)
            if self.library.onig_search(regex, ctypes.c_void_p(at), end, ctypes.c_void_p(at), end, None, 0) >= 0:
                found.add(c)
        return found


def package_matching(expression: str) -> set:
    """The code points that the package's regular expressions match."""
    replace = normalizers.Replace(Regex(expression), "")
    text = "".join(map(chr, kCodePoints))
    left = set(map(ord, replace.normalize_str(text)))
    return {c for c in kCodePoints if c not in left}


def between_letters(removes) -> set:
    return {c for c in kCodePoints if removes("a" + chr(c) + "a")}


def properties(utf8proc: Utf8proc) -> dict:
    """Per property: what the package says and what utf8proc says, as sets of code points."""
    category = utf8proc.category
    digits = pre_tokenizers.Digits(individual_digits=False).pre_tokenize_str
    punctuation = pre_tokenizers.Punctuation().pre_tokenize_str
    accents = normalizers.StripAccents().normalize_str
    clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False,
                                       lowercase=False).normalize_str
    bert_accents = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True,
                                              lowercase=False).normalize_str
    whitespace = pre_tokenizers.Whitespace().pre_tokenize_str

    def of(*names):
        return {c for c in kCodePoints if category[c] in names}

    enclosed = {c for a, b in ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))
                for c in range(a, b + 1)}
    return {
        "number": (between_letters(lambda s: len(digits(s)) == 3), of("Nd", "Nl", "No")),
        "punctuation": (between_letters(lambda s: len(punctuation(s)) == 3),
                        of("Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps") | set(map(ord, "$+<=>^`|~"))),
        "mark": (between_letters(lambda s: accents(s) == "aa"), of("Mn", "Mc", "Me")),
        "nonspacing_mark": (between_letters(lambda s: bert_accents(s) == "aa"), of("Mn")),
        "control_or_format": (between_letters(lambda s: clean(s) == "aa") - {0xFFFD} | {9, 10, 13}, of("Cc", "Cf", "Co")),
        "word": (between_letters(lambda s: len(whitespace(s)) == 1),
                 of("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "Pc") | {0x200C, 0x200D} | enclosed),
    }


def uncombining(utf8proc: Utf8proc) -> set:
    """Code points that have a combining class in utf8proc and none in the package."""
    nfd = normalizers.NFD().normalize_str
    probes = [(1, 0x334), (220, 0x323), (240, 0x345)]
    found = set()
    for c in kCodePoints:
        own = utf8proc.combining_class(c)
        if own == 0 or nfd(chr(c)) != chr(c):
            continue
        for other, probe in probes:
            expected = chr(c) + chr(probe) if own < other else chr(probe) + chr(c)
            if own != other and nfd("a" + (chr(probe) + chr(c) if own < other else chr(c) + chr(probe))) != "a" + expected:
                found.add(c)
    return found


def table(name: str, rows: list) -> str:
    text = f"constexpr auto {name} = std::to_array<{'CasePair' if rows and len(rows[0]) == 4 else 'DifferingRange'}>({{\n"
    line = "   "
    for row in rows:
        cell = " {" + ", ".join(f"0x{v:X}" if isinstance(v, int) and not isinstance(v, bool) else str(v).lower()
                                for v in row[:3]) + "},"
        if len(line) + len(cell) > 108:
            text += line + "\n"
            line = "   "
        line += cell
    return text + line + "\n});\n\n"


def main(_arguments: list) -> None:
    utf8proc, oniguruma = Utf8proc(), Oniguruma()
    lists, rows = {}, {}
    for name, (package, ours) in properties(utf8proc).items():
        rows[name] = sorted([(a, b, True) for a, b in ranges(package - ours)] +
                            [(a, b, False) for a, b in ranges(ours - package)])
        lists[f"`{name}`: yes for the package only"] = ranges(package - ours)
        lists[f"`{name}`: no for the package only"] = ranges(ours - package)

    lower = normalizers.Lowercase().normalize_str
    cases = [c for c in kCodePoints if c != 0x130 and lower(chr(c)) != utf8proc.lower(c)]
    assert all(len(lower(chr(c))) == 1 for c in cases)
    lists["lower case known to the package only"] = ranges(cases)
    decompositions = {}
    for name, normalizer, options in (("canonical", normalizers.NFD(), kDecompose),
                                      ("compatible", normalizers.NFKD(), kDecompose | kCompat)):
        differing = [c for c in kCodePoints if normalizer.normalize_str(chr(c)) != utf8proc.decomposed(c, options)]
        assert all(normalizer.normalize_str(chr(c)) == chr(c) for c in differing), name
        decompositions[name] = ranges(differing)
        lists[f"{name} decomposition unknown to the package"] = ranges(differing)
    combining = ranges(uncombining(utf8proc))
    lists["combining class unknown to the package"] = combining

    write_source(rows, cases, lower, decompositions, combining)
    classes = {e: (package_matching(e), oniguruma.matching(e)) for e in kOnigClasses}
    write_document(lists, classes, utf8proc.version(), oniguruma.version())


def write_source(rows, cases, lower, decompositions, combining) -> None:
    text = (f"// Written by tests/golden/make.py unicode-differences from tokenizers {tokenizers.__version__}: do not edit.\n"
            '#include "text/unicode/unicode_differences.h"\n\n#include <algorithm>\n#include <array>\n#include <span>\n\n'
            "namespace hooked::text {\nnamespace {\n\n"
            "// Characters first to last, all of which have the property or not.\n"
            "struct DifferingRange {\n  char32_t first;\n  char32_t last;\n  bool value;\n};\n\n"
            "struct CasePair {\n  char32_t first;\n  char32_t last;\n  char32_t lower;\n};\n\n")
    names = {name: "k" + "".join(part.capitalize() for part in name.split("_")) for name in rows}
    for name in rows:
        text += table(names[name], rows[name])
    text += table("kUndecomposedCanonical", [(a, b, False) for a, b in decompositions["canonical"]])
    text += table("kUndecomposedCompatible", [(a, b, False) for a, b in decompositions["compatible"]])
    text += table("kUncombining", [(a, b, False) for a, b in combining])
    pairs = []
    for c in cases:
        to = ord(lower(chr(c)))
        if pairs and pairs[-1][1] == c - 1 and to - pairs[-1][2] == c - pairs[-1][0]:
            pairs[-1][1] = c
        else:
            pairs.append([c, c, to, None])
    text += "// Lower case of the first; the others follow.\n" + table("kLower", pairs)
    text += """// The range of `table` (sorted, apart) that holds a character, or null.
template <class Row>
const Row* row_of(std::span<const Row> table, char32_t c) noexcept {
  const auto after = std::upper_bound(table.begin(), table.end(), c,
                                      [](char32_t value, const Row& row) { return value < row.first; });
  if (after == table.begin() || (after - 1)->last < c) return nullptr;
  return &*(after - 1);
}

std::span<const DifferingRange> table_of(UnicodeProperty property) noexcept {
  switch (property) {
"""
    for name in rows:
        text += f"    case UnicodeProperty::{name}:\n      return {names[name]};\n"
    text += """    case UnicodeProperty::canonical_decomposition:
      return kUndecomposedCanonical;
    case UnicodeProperty::compatible_decomposition:
      return kUndecomposedCompatible;
    case UnicodeProperty::combining_class:
      return kUncombining;
  }
  return {};
}

}  // namespace

std::optional<bool> differing(UnicodeProperty property, char32_t code_point) noexcept {
  const auto* row = row_of(table_of(property), code_point);
  if (!row) return std::nullopt;
  return row->value;
}

std::optional<char32_t> differing_lower_case(char32_t code_point) noexcept {
  const auto* row = row_of(std::span<const CasePair>(kLower), code_point);
  if (!row) return std::nullopt;
  return row->lower + (code_point - row->first);
}

}  // namespace hooked::text
"""
    (kRoot / "src" / "text" / "unicode" / "unicode_differences.cc").write_text(text)


def shown(found: list) -> str:
    return " ".join(f"{a:04X}" if a == b else f"{a:04X}-{b:04X}" for a, b in found) or "none"


def count(found: list) -> int:
    return sum(b - a + 1 for a, b in found)


def write_document(lists, classes, utf8proc: str, oniguruma: str) -> None:
    text = (f"# Differences of Unicode versions\n\n<!-- written by tests/golden/make.py unicode-differences -->\n\n"
            f"What the package `tokenizers` {tokenizers.__version__} and the libraries of Debian 12 say differently about\n"
            f"characters: utf8proc {utf8proc} and Oniguruma {oniguruma}. Code points are hexadecimal.\n\n"
            "## Corrected\n\nThe package's answer is used (`src/text/unicode/unicode_differences.cc`), so these make no difference to ids.\n"
            "The table corrects the version of utf8proc above; a newer one may know further characters.\n\n")
    for name, found in lists.items():
        if found:
            text += f"- {name} ({count(found)}): {shown(found)}\n"
    text += ("\n## Not corrected\n\nRegular expressions of a file (`Split`, `Replace`, `ByteLevel`) are matched by Oniguruma as it is. "
             "Its\nclasses lack these characters or have them in excess; a text with one of them may be cut elsewhere than by the\n"
             "package. This is the only known exception to equal ids.\n\n")
    for name, (package, ours) in classes.items():
        more, less = ranges(package - ours), ranges(ours - package)
        if more:
            text += f"- `{name}` lacks ({count(more)}): {shown(more)}\n"
        if less:
            text += f"- `{name}` has in excess ({count(less)}): {shown(less)}\n"
        if not more and not less:
            text += f"- `{name}`: equal\n"
    (kRoot / "docs" / "unicode-differences.md").write_text(text)
