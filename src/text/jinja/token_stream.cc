#include "text/jinja/token_stream.h"

#include <fmt/format.h>

#include "core/json.h"

namespace hooked::text::jinja {
namespace {

std::string spelled(const Token& token) {
  switch (token.kind) {
    case TokenKind::text:
      return "text";
    case TokenKind::print_begin:
      return "{{";
    case TokenKind::print_end:
      return "}}";
    case TokenKind::statement_begin:
      return "{%";
    case TokenKind::statement_end:
      return "%}";
    case TokenKind::string:
      return fmt::format("the text '{}'", printable(token.text));
    case TokenKind::end:
      return "the end of the template";
    default:
      return fmt::format("'{}'", printable(token.text));
  }
}

}  // namespace

bool TokenStream::skip_symbol(std::string_view symbol) {
  if (!is_symbol(symbol)) return false;
  take();
  return true;
}

bool TokenStream::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  take();
  return true;
}

void TokenStream::expect_symbol(std::string_view symbol) {
  if (!skip_symbol(symbol)) fail(fmt::format("'{}'", symbol));
}

void TokenStream::expect_name(std::string_view name) {
  if (!skip_name(name)) fail(fmt::format("'{}'", name));
}

Token TokenStream::expect(TokenKind kind, std::string_view what) {
  if (!is(kind)) fail(what);
  return take();
}

void TokenStream::fail(std::string_view expected) const {
  fail_at(here().at,
          fmt::format("the chat template cannot be read; expected {}, got {}", expected, spelled(here())));
}

void TokenStream::unsupported(std::size_t at, std::string_view what) const {
  fail_at(at,
          fmt::format("{} is not read here; expected the constructs of Jinja that docs/tokenizers.md lists; "
                      "render the conversation in Python (apply_chat_template) and pass its text",
                      what));
}

void TokenStream::fail_too_deep() const {
  fail_at(
      here().at,
      fmt::format("the chat template's tags and expressions are nested too deep; expected at most {} levels",
                  most_levels_));
}

}  // namespace hooked::text::jinja
