#include "text/unicode/letter_case.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "text/unicode/unicode.h"

namespace hooked::text {
namespace {

struct LongCase {
  char32_t character;
  std::u32string_view upper, title;
};

// The characters whose upper or title case is more than one character, in order, without the Greek letters
// with an iota below.
constexpr LongCase kLongCases[] = {
    {0x00DF, U"SS", U"Ss"},
    {0x0149, U"\u02BCN", U"\u02BCN"},
    {0x01F0, U"J\u030C", U"J\u030C"},
    {0x0390, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    {0x03B0, U"\u03A5\u0308\u0301", U"\u03A5\u0308\u0301"},
    {0x0587, U"\u0535\u0552", U"\u0535\u0582"},
    {0x1E96, U"H\u0331", U"H\u0331"},
    {0x1E97, U"T\u0308", U"T\u0308"},
    {0x1E98, U"W\u030A", U"W\u030A"},
    {0x1E99, U"Y\u030A", U"Y\u030A"},
    {0x1E9A, U"A\u02BE", U"A\u02BE"},
    {0x1F50, U"\u03A5\u0313", U"\u03A5\u0313"},
    {0x1F52, U"\u03A5\u0313\u0300", U"\u03A5\u0313\u0300"},
    {0x1F54, U"\u03A5\u0313\u0301", U"\u03A5\u0313\u0301"},
    {0x1F56, U"\u03A5\u0313\u0342", U"\u03A5\u0313\u0342"},
    {0x1FB2, U"\u1FBA\u0399", U"\u1FBA\u0345"},
    {0x1FB3, U"\u0391\u0399", U"\u1FBC"},
    {0x1FB4, U"\u0386\u0399", U"\u0386\u0345"},
    {0x1FB6, U"\u0391\u0342", U"\u0391\u0342"},
    {0x1FB7, U"\u0391\u0342\u0399", U"\u0391\u0342\u0345"},
    {0x1FBC, U"\u0391\u0399", U"\u1FBC"},
    {0x1FC2, U"\u1FCA\u0399", U"\u1FCA\u0345"},
    {0x1FC3, U"\u0397\u0399", U"\u1FCC"},
    {0x1FC4, U"\u0389\u0399", U"\u0389\u0345"},
    {0x1FC6, U"\u0397\u0342", U"\u0397\u0342"},
    {0x1FC7, U"\u0397\u0342\u0399", U"\u0397\u0342\u0345"},
    {0x1FCC, U"\u0397\u0399", U"\u1FCC"},
    {0x1FD2, U"\u0399\u0308\u0300", U"\u0399\u0308\u0300"},
    {0x1FD3, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    {0x1FD6, U"\u0399\u0342", U"\u0399\u0342"},
    {0x1FD7, U"\u0399\u0308\u0342", U"\u0399\u0308\u0342"},
    {0x1FE2, U"\u03A5\u0308\u0300", U"\u03A5\u0308\u0300"},
    {0x1FE3, U"\u03A5\u0308\u0301", U"\u03A5\u0308\u0301"},
    {0x1FE4, U"\u03A1\u0313", U"\u03A1\u0313"},
    {0x1FE6, U"\u03A5\u0342", U"\u03A5\u0342"},
    {0x1FE7, U"\u03A5\u0308\u0342", U"\u03A5\u0308\u0342"},
    {0x1FF2, U"\u1FFA\u0399", U"\u1FFA\u0345"},
    {0x1FF3, U"\u03A9\u0399", U"\u1FFC"},
    {0x1FF4, U"\u038F\u0399", U"\u038F\u0345"},
    {0x1FF6, U"\u03A9\u0342", U"\u03A9\u0342"},
    {0x1FF7, U"\u03A9\u0342\u0399", U"\u03A9\u0342\u0345"},
    {0x1FFC, U"\u03A9\u0399", U"\u1FFC"},
    {0xFB00, U"FF", U"Ff"},
    {0xFB01, U"FI", U"Fi"},
    {0xFB02, U"FL", U"Fl"},
    {0xFB03, U"FFI", U"Ffi"},
    {0xFB04, U"FFL", U"Ffl"},
    {0xFB05, U"ST", U"St"},
    {0xFB06, U"ST", U"St"},
    {0xFB13, U"\u0544\u0546", U"\u0544\u0576"},
    {0xFB14, U"\u0544\u0535", U"\u0544\u0565"},
    {0xFB15, U"\u0544\u053B", U"\u0544\u056B"},
    {0xFB16, U"\u054E\u0546", U"\u054E\u0576"},
    {0xFB17, U"\u0544\u053D", U"\u0544\u056D"},
};

struct Range {
  char32_t first, last;
};

// Other_Lowercase and Other_Uppercase of PropList.txt: what has a case without being a letter of category Ll
// or Lu.
constexpr Range kOtherLower[] = {{0xAA, 0xAA},     {0xBA, 0xBA},     {0x2B0, 0x2B8},   {0x2C0, 0x2C1},
                                 {0x2E0, 0x2E4},   {0x345, 0x345},   {0x37A, 0x37A},   {0x1D2C, 0x1D6A},
                                 {0x1D78, 0x1D78}, {0x1D9B, 0x1DBF}, {0x2071, 0x2071}, {0x207F, 0x207F},
                                 {0x2090, 0x209C}, {0x2170, 0x217F}, {0x24D0, 0x24E9}, {0x2C7C, 0x2C7D},
                                 {0xA69C, 0xA69D}, {0xA770, 0xA770}, {0xA7F8, 0xA7F9}, {0xAB5C, 0xAB5F}};
constexpr Range kOtherUpper[] = {
    {0x2160, 0x216F}, {0x24B6, 0x24CF}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};

bool lies_in(char32_t c, const auto& ranges) noexcept {
  return std::ranges::any_of(ranges, [&](const Range& range) { return range.first <= c && c <= range.last; });
}

utf8proc_category_t category_of(char32_t c) noexcept {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

const LongCase* long_case(char32_t c) noexcept {
  const auto* found = std::ranges::lower_bound(kLongCases, c, {}, &LongCase::character);
  return found != std::end(kLongCases) && found->character == c ? found : nullptr;
}

// Greek letters with breathings and an iota below, U+1F80 to U+1FAF: eight small ones, eight capital ones,
// for alpha, eta and omega.
bool has_iota_below(char32_t c) noexcept { return c >= 0x1F80 && c <= 0x1FAF; }

// The capital letter without the iota.
char32_t above_iota(char32_t c) noexcept {
  constexpr char32_t kCapitals[] = {0x1F08, 0x1F28, 0x1F68};
  return kCapitals[(c - 0x1F80) / 16] + c % 8;
}

std::vector<char32_t> characters(std::u32string_view text) { return {text.begin(), text.end()}; }

// Case_Ignorable: what stands between letters without parting a word.
bool is_case_ignorable(char32_t c) noexcept {
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return std::u32string_view(
                 U"'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A")
                 .find(c) != std::u32string_view::npos;
  }
}

}  // namespace

std::vector<char32_t> upper_case(char32_t c) {
  if (has_iota_below(c)) return {above_iota(c), U'\u0399'};
  if (const auto* row = long_case(c)) return characters(row->upper);
  return {static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)))};
}

std::vector<char32_t> title_case(char32_t c) {
  if (has_iota_below(c)) return {c | 8};
  if (const auto* row = long_case(c)) return characters(row->title);
  return {static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)))};
}

char32_t lower_sigma(std::string_view text, std::size_t at) {
  constexpr char32_t kSigma = U'\u03C3', kFinalSigma = U'\u03C2';
  bool cased_before = false;
  for (auto begin = at; begin > 0;) {
    begin = last_character(text.substr(0, begin));
    const auto c = first_char(text.substr(begin));
    if (!c || is_case_ignorable(c->code_point)) continue;
    cased_before = is_cased(c->code_point);
    break;
  }
  if (!cased_before) return kSigma;
  auto rest = text.substr(at);
  if (const auto sigma = first_char(rest)) rest.remove_prefix(sigma->bytes);
  while (!rest.empty()) {
    const auto c = first_char(rest);
    if (!c) break;
    if (!is_case_ignorable(c->code_point)) return is_cased(c->code_point) ? kSigma : kFinalSigma;
    rest.remove_prefix(c->bytes);
  }
  return kFinalSigma;
}

bool is_cased(char32_t c) noexcept {
  const auto category = category_of(c);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT || lies_in(c, kOtherUpper) || lies_in(c, kOtherLower);
}

bool is_letter(char32_t c) noexcept {
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}

bool is_printable(char32_t c) noexcept {
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return c == U' ';
    default:
      return true;
  }
}

}  // namespace hooked::text
