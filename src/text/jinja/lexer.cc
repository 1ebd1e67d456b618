#include "text/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/json.h"
#include "core/utf8.h"
#include "text/jinja/python_text.h"
#include "text/unicode/letter_case.h"
#include "text/unicode/unicode.h"

namespace hooked::text::jinja {
namespace {

// Longer ones first.
constexpr std::string_view kSymbols[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                         ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

class Lexer {
 public:
  explicit Lexer(const Source& source) : source_(source), text_(source.text()) {}

  std::vector<Token> read() {
    while (at_ < text_.size()) read_text_and_tag();
    add(TokenKind::end, at_, "");
    return std::move(tokens_);
  }

 private:
  struct Tag {
    std::size_t at;
    char kind;  // % { #
  };

  [[noreturn]] void fail(std::size_t at, std::string_view what) const { source_.fail(at, what); }

  void add(TokenKind kind, std::size_t at, std::string text) {
    tokens_.push_back({kind, at, std::move(text)});
  }

  char peek(std::size_t at) const { return at < text_.size() ? text_[at] : '\0'; }
  std::string_view rest(std::size_t at) const { return text_.substr(std::min(at, text_.size())); }

  std::size_t behind_space(std::size_t at) const {
    return text_.size() - stripped(rest(at), Side::left).size();
  }

  // The next place where a tag begins.
  std::optional<Tag> next_tag() const {
    for (auto at = text_.find('{', at_); at != text_.npos; at = text_.find('{', at + 1)) {
      const char kind = peek(at + 1);
      if (kind == '%' || kind == '{' || kind == '#') return Tag{at, kind};
    }
    return std::nullopt;
  }

  // The text before a tag, without what the tag's sign and the rules for white space remove.
  void add_text(std::size_t begin, std::size_t end, char sign, bool variable) {
    auto text = text_.substr(begin, end - begin);
    if (sign == '-') {
      text = stripped(text, Side::right);
    } else if (sign != '+' && !variable) {
      const auto line = text.rfind('\n') + 1;  // 0 if there is none
      if ((line > 0 || at_line_start_) && stripped(text.substr(line), Side::left).empty())
        text = text.substr(0, line);
    }
    if (!text.empty()) add(TokenKind::text, begin, std::string(text));
  }

  void read_text_and_tag() {
    const auto begin = at_;
    const auto tag = next_tag();
    if (!tag) {
      add(TokenKind::text, begin, std::string(rest(begin)));
      at_ = text_.size();
      return;
    }
    const char after = peek(tag->at + 2);
    const char sign = after == '-' || after == '+' ? after : '\0';
    add_text(begin, tag->at, sign, tag->kind == '{');
    at_ = tag->at + (sign ? 3 : 2);
    if (tag->kind == '#') return read_comment(tag->at);
    if (tag->kind == '%') {
      if (const auto body = raw_body(at_)) return read_raw(tag->at, *body);
    }
    add(tag->kind == '{' ? TokenKind::print_begin : TokenKind::statement_begin, tag->at, "");
    read_tag(tag->at, tag->kind == '{');
  }

  // Where the text of `raw %}` begins, if this is one.
  std::optional<std::size_t> raw_body(std::size_t at) const {
    at = behind_space(at);
    if (!rest(at).starts_with("raw")) return std::nullopt;
    at = behind_space(at + 3);
    if (rest(at).starts_with("%}")) return at + 2;
    if (rest(at).starts_with("-%}")) return behind_space(at + 3);
    return std::nullopt;
  }

  // The byte after a tag's end at `at`, which is `+%}`, `-%}` with white space, or `%}` with a newline.
  std::optional<std::size_t> behind_end(std::size_t at, std::string_view end, bool plus, bool newline) const {
    const auto here = rest(at);
    if (plus && here.starts_with('+') && here.substr(1).starts_with(end)) return at + 1 + end.size();
    if (here.starts_with('-') && here.substr(1).starts_with(end)) return behind_space(at + 1 + end.size());
    if (!here.starts_with(end)) return std::nullopt;
    at += end.size();
    return newline && peek(at) == '\n' ? at + 1 : at;
  }

  void leave_tag(std::size_t behind) {
    at_ = behind;
    at_line_start_ = text_[behind - 1] == '\n';
  }

  void read_comment(std::size_t begin) {
    if (at_ == text_.size()) return;  // Jinja requires the end of a comment only if the comment has text
    for (auto at = at_; at < text_.size(); ++at) {
      if (text_[at] != '#' && text_[at] != '+' && text_[at] != '-') continue;
      if (const auto behind = behind_end(at, "#}", true, true)) return leave_tag(*behind);
    }
    fail(begin, "a comment does not end; expected #}");
  }

  void read_raw(std::size_t begin, std::size_t body) {
    at_ = body;
    if (at_ == text_.size()) return;
    for (auto at = text_.find("{%", body); at != text_.npos; at = text_.find("{%", at + 1)) {
      const char sign = peek(at + 2) == '-' || peek(at + 2) == '+' ? peek(at + 2) : '\0';
      auto word = behind_space(at + (sign ? 3 : 2));
      if (!rest(word).starts_with("endraw")) continue;
      const auto behind = behind_end(behind_space(word + 6), "%}", true, true);
      if (!behind) continue;
      at_line_start_ = text_[body - 1] == '\n';
      add_text(body, at, sign, false);
      return leave_tag(*behind);
    }
    fail(begin, "a raw block does not end; expected {% endraw %}");
  }

  void read_tag(std::size_t begin, bool variable) {
    std::vector<std::pair<char, std::size_t>> open;
    while (true) {
      if (open.empty()) {
        const auto behind =
            variable ? behind_end(at_, "}}", false, false) : behind_end(at_, "%}", true, true);
        if (behind) {
          add(variable ? TokenKind::print_end : TokenKind::statement_end, at_, "");
          return leave_tag(*behind);
        }
      }
      if (at_ >= text_.size())
        fail(begin, variable ? "a tag does not end; expected }}" : "a tag does not end; expected %}");
      if (const auto next = behind_space(at_); next != at_) {
        at_ = next;
        continue;
      }
      read_token(open);
    }
  }

  void read_token(std::vector<std::pair<char, std::size_t>>& open) {
    const char c = text_[at_];
    if (c >= '0' && c <= '9') return read_number();
    if (c == '\'' || c == '"') return read_string();
    if (const auto end = end_of_name(at_); end != at_) {
      add(TokenKind::name, at_, std::string(text_.substr(at_, end - at_)));
      at_ = end;
      return;
    }
    for (const auto symbol : kSymbols) {
      if (!rest(at_).starts_with(symbol)) continue;
      if (c == '(' || c == '[' || c == '{') {
        open.emplace_back(c == '(' ? ')' : c == '[' ? ']' : '}', at_);
      } else if (c == ')' || c == ']' || c == '}') {
        if (open.empty())
          fail(at_, fmt::format("a '{}' closes nothing; expected what it closes before it", c));
        if (open.back().first != c)
          fail(at_, fmt::format("'{}' closes a bracket; expected '{}'", c, open.back().first));
        open.pop_back();
      }
      add(TokenKind::symbol, at_, std::string(symbol));
      at_ += symbol.size();
      return;
    }
    fail(at_, fmt::format("'{}' is not part of an expression; expected a name, a value or an operator",
                          printable(rest(at_).substr(0, std::max<std::size_t>(1, utf8_length(rest(at_)))))));
  }

  std::size_t end_of_name(std::size_t at) const {
    const auto first = at;
    while (at < text_.size()) {
      const auto c = *first_char(rest(at));
      const bool letter = c.code_point == U'_' || is_letter(c.code_point);
      if (!letter && (at == first || !text::is_number(c.code_point))) break;
      at += c.bytes;
    }
    return at;
  }

  std::size_t end_of_digits(std::size_t at) const {
    const auto digit = [&](std::size_t i) { return peek(i) >= '0' && peek(i) <= '9'; };
    while (digit(at) || (peek(at) == '_' && digit(at + 1))) ++at;
    return at;
  }

  void read_number() {
    const auto begin = at_;
    const char base = static_cast<char>(peek(begin + 1) | 0x20);
    if (text_[begin] == '0' && (base == 'x' || base == 'o' || base == 'b'))
      fail(begin, "numbers of other bases than 10 are not read here; expected decimal digits");
    auto end = end_of_digits(begin);
    bool real = false;
    // `.5` after digits is a fraction; after a dot (x.0.5) it is not.
    if (peek(end) == '.' && end_of_digits(end + 1) != end + 1 && (begin == 0 || text_[begin - 1] != '.')) {
      real = true;
      end = end_of_digits(end + 1);
    }
    if ((peek(end) | 0x20) == 'e') {
      const auto digits = end + (peek(end + 1) == '+' || peek(end + 1) == '-' ? 2 : 1);
      if (end_of_digits(digits) != digits) {
        real = true;
        end = end_of_digits(digits);
      }
    }
    std::string number;
    for (const char c : text_.substr(begin, end - begin)) {
      if (c != '_') number += c;
    }
    add(real ? TokenKind::real : TokenKind::integer, begin, std::move(number));
    at_ = end;
  }

  void read_string() {
    const auto begin = at_;
    const char quote = text_[at_++];
    std::string value;
    while (true) {
      if (at_ >= text_.size()) fail(begin, "a text does not end; expected the quote that it begins with");
      const char c = text_[at_++];
      if (c == quote) break;
      if (c == '\\') {
        read_escape(begin, value);
      } else {
        value += c;
      }
    }
    add(TokenKind::string, begin, std::move(value));
  }

  // The escape after a backslash, as in Python.
  void read_escape(std::size_t begin, std::string& value) {
    constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeant = "\\'\"\a\b\f\n\r\t\v";
    if (at_ >= text_.size()) fail(begin, "a text does not end; expected the quote that it begins with");
    const char c = text_[at_];
    if (const auto found = kLetters.find(c); found != kLetters.npos) {
      value += kMeant[found];
      ++at_;
    } else if (c == '\n') {
      ++at_;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      read_code_point(c == 'x' ? 2 : c == 'u' ? 4 : 8, value);
    } else if (c == 'N' || (c >= '0' && c <= '7') || static_cast<unsigned char>(c) >= 0x80) {
      fail(at_ - 1, "this escape in a text is not read here; expected \\u and a character's number");
    } else {
      value += '\\';
    }
  }

  void read_code_point(int digits, std::string& value) {
    const auto begin = at_++ - 1;
    std::uint32_t code = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = peek(at_), lower = static_cast<char>(c | 0x20);
      const bool letter = lower >= 'a' && lower <= 'f';
      if (!letter && (c < '0' || c > '9'))
        fail(begin, "an escape in a text lacks digits; expected hexadecimal ones");
      code = code * 16 + static_cast<std::uint32_t>(letter ? lower - 'a' + 10 : c - '0');
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
      fail(begin, "an escape in a text is not a character; expected a code point of Unicode");
    append_utf8(value, code);
  }

  const Source& source_;
  std::string_view text_;
  std::size_t at_ = 0;
  bool at_line_start_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(const Source& source) { return Lexer(source).read(); }

}  // namespace hooked::text::jinja
