#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/syntax.h"
#include "text/jinja/token_stream.h"

namespace hooked::text::jinja {

/// Parses a template. Throws TokenizerError with the line and column of what is wrong or unsupported.
Body parse(const Source& source, const Limits& limits);

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
  /// Of the body that is being read.
  BodyNames* names = nullptr;

 private:
  using Read = ExpressionPtr (ExpressionParser::*)();
  /// Operands that `word` joins, from the left.
  ExpressionPtr logical(Read operand, std::string_view word);
  using Operators = std::span<const std::pair<std::string_view, Arithmetic>>;
  ExpressionPtr calculation(Read operand, Operators operators);

  ExpressionPtr conditional();
  ExpressionPtr disjunction();
  ExpressionPtr conjunction();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr joined();
  ExpressionPtr product();
  ExpressionPtr signed_value();
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
