#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/lexer.h"
#include "text/jinja/machine.h"

namespace hooked::text::jinja {

/// The tokens of a template, read in order.
class TokenStream {
 public:
  TokenStream(const Source& source, int most_levels)
      : source_(source), tokens_(tokens_of(source)), most_levels_(most_levels) {}

  const Token& here() const noexcept { return tokens_[at_]; }
  const Token& ahead() const noexcept { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }

  bool is(TokenKind kind) const noexcept { return here().kind == kind; }
  bool is_symbol(std::string_view symbol) const noexcept {
    return is(TokenKind::symbol) && here().text == symbol;
  }
  bool is_name(std::string_view name) const noexcept { return is(TokenKind::name) && here().text == name; }
  bool skip_symbol(std::string_view symbol);
  bool skip_name(std::string_view name);

  void expect_symbol(std::string_view symbol);
  void expect_name(std::string_view name);
  Token expect(TokenKind kind, std::string_view what);

  /// Fails at the next token: says what was expected, and what is there instead.
  [[noreturn]] void fail(std::string_view expected) const;
  [[noreturn]] void fail_at(std::size_t at, std::string_view what) const { source_.fail(at, what); }
  [[noreturn]] void unsupported(std::size_t at, std::string_view what) const;

  /// Holds one level of nesting.
  class [[nodiscard]] Level {
   public:
    explicit Level(TokenStream& stream) : stream_(stream) {
      if (stream_.levels_ >= stream_.most_levels_) stream_.fail_too_deep();
      ++stream_.levels_;
    }
    ~Level() { --stream_.levels_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    TokenStream& stream_;
  };

 private:
  [[noreturn]] void fail_too_deep() const;

  const Source& source_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int levels_ = 0;
  int most_levels_;
};

}  // namespace hooked::text::jinja
