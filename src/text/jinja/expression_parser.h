#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/syntax.h"
#include "text/jinja/token_stream.h"

namespace hooked::text::jinja {

/// Reads expressions, each as far as it extends.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  enum class Conditionals { yes, no };  ///< whether `a if b else c` may follow

  ExpressionPtr expression(Conditionals conditionals = Conditionals::yes);
  /// An expression, or a tuple of several with commas between them.
  ExpressionPtr tuple(Conditionals conditionals = Conditionals::yes);
  /// `name(arguments) | name ...`, the filters of a block.
  ExpressionPtr filters_of_block(bool first_bar);
  ExpressionPtr primary();
  CallArguments arguments();

  /// For each macro being read, which of the names `varargs`, `kwargs`, `caller` its body uses.
  std::vector<Parameters*> macros;

 private:
  ExpressionPtr conditional();
  ExpressionPtr disjunction();
  ExpressionPtr conjunction();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr joined();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr sign(bool filters);
  ExpressionPtr postfixed(ExpressionPtr value);
  ExpressionPtr filtered(ExpressionPtr value);
  ExpressionPtr filter(ExpressionPtr value);
  ExpressionPtr test(ExpressionPtr value);
  ExpressionPtr subscript(ExpressionPtr value);
  ExpressionPtr name();
  ExpressionPtr number();
  ExpressionPtr parenthesised();
  ExpressionPtr list();
  ExpressionPtr dict();
  bool tuple_ends() const;
  void note_use(std::string_view name);

  TokenStream& tokens_;
};

}  // namespace hooked::text::jinja
