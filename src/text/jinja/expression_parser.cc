#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

#include "text/jinja/parser.h"

namespace hooked::text::jinja {
namespace {

template <class Form>
ExpressionPtr make(std::size_t at, Form form) {
  return std::make_unique<const Expression>(Expression{at, std::move(form)});
}

// Chains of operators are trees that lean to the left. Each level is counted, because recursive functions
// walk them.
using ChainLevels = std::vector<std::unique_ptr<TokenStream::Level>>;

Value text_value(std::string text) { return Text(std::make_shared<const std::string>(std::move(text))); }

}  // namespace

ExpressionPtr ExpressionParser::expression(Conditionals conditionals) {
  const TokenStream::Level level(tokens_);
  return conditionals == Conditionals::yes ? conditional() : disjunction();
}

ExpressionPtr ExpressionParser::conditional() {
  auto at = tokens_.here().at;
  auto value = disjunction();
  for (int chained = 0; tokens_.skip_name("if"); ++chained) {
    if (chained > 50) tokens_.fail("at most 50 conditions of one expression");
    auto condition = disjunction();
    auto otherwise = tokens_.skip_name("else") ? expression() : nullptr;
    value = make(at, Conditional{std::move(condition), std::move(value), std::move(otherwise)});
    at = tokens_.here().at;
  }
  return value;
}

ExpressionPtr ExpressionParser::logical(Read operand, std::string_view word) {
  auto left = (this->*operand)();
  ChainLevels levels;
  while (tokens_.is_name(word)) {
    levels.push_back(std::make_unique<TokenStream::Level>(tokens_));
    const auto at = tokens_.take().at;
    auto right = (this->*operand)();
    left = make(at, Logical{std::move(left), std::move(right), word == "or"});
  }
  return left;
}

ExpressionPtr ExpressionParser::disjunction() { return logical(&ExpressionParser::conjunction, "or"); }

ExpressionPtr ExpressionParser::conjunction() { return logical(&ExpressionParser::negation, "and"); }

ExpressionPtr ExpressionParser::negation() {
  if (!tokens_.is_name("not")) return comparison();
  const TokenStream::Level level(tokens_);
  const auto at = tokens_.take().at;
  return make(at, Not{negation()});
}

ExpressionPtr ExpressionParser::comparison() {
  constexpr std::pair<std::string_view, Comparison> kComparisons[] = {
      {"==", Comparison::equal},      {"!=", Comparison::not_equal}, {"<", Comparison::less},
      {"<=", Comparison::less_equal}, {">", Comparison::greater},    {">=", Comparison::greater_equal}};
  const auto at = tokens_.here().at;
  auto first = sum();
  std::vector<std::pair<Comparison, ExpressionPtr>> others;
  while (true) {
    std::optional<Comparison> found;
    for (const auto& [symbol, comparison] : kComparisons) {
      if (tokens_.is_symbol(symbol)) found = comparison;
    }
    if (tokens_.is_name("in")) found = Comparison::in;
    if (tokens_.is_name("not") && tokens_.ahead().kind == TokenKind::name && tokens_.ahead().text == "in") {
      tokens_.take();
      found = Comparison::not_in;
    }
    if (!found) break;
    tokens_.take();
    others.emplace_back(*found, sum());
  }
  return others.empty() ? std::move(first) : make(at, Compared{std::move(first), std::move(others)});
}

ExpressionPtr ExpressionParser::calculation(Read operand, Operators operators) {
  auto left = (this->*operand)();
  ChainLevels levels;
  while (true) {
    const auto found =
        std::ranges::find_if(operators, [&](const auto& row) { return tokens_.is_symbol(row.first); });
    if (found == operators.end()) return left;
    levels.push_back(std::make_unique<TokenStream::Level>(tokens_));
    const auto at = tokens_.take().at;
    auto right = (this->*operand)();
    left = make(at, Calculation{found->second, std::move(left), std::move(right)});
  }
}

ExpressionPtr ExpressionParser::sum() {
  constexpr std::pair<std::string_view, Arithmetic> kSums[] = {{"+", Arithmetic::add},
                                                               {"-", Arithmetic::subtract}};
  return calculation(&ExpressionParser::joined, kSums);
}

ExpressionPtr ExpressionParser::joined() {
  const auto at = tokens_.here().at;
  auto first = product();
  if (!tokens_.is_symbol("~")) return first;
  std::vector<ExpressionPtr> parts;
  parts.push_back(std::move(first));
  while (tokens_.skip_symbol("~")) parts.push_back(product());
  return make(at, Joined{std::move(parts)});
}

ExpressionPtr ExpressionParser::product() {
  constexpr std::pair<std::string_view, Arithmetic> kProducts[] = {{"*", Arithmetic::multiply},
                                                                   {"/", Arithmetic::divide},
                                                                   {"//", Arithmetic::floor_divide},
                                                                   {"%", Arithmetic::modulo}};
  return calculation(&ExpressionParser::signed_value, kProducts);
}

ExpressionPtr ExpressionParser::signed_value() {
  auto value = sign(true);
  if (tokens_.is_symbol("**")) tokens_.unsupported(tokens_.here().at, "the operator '**'");
  return value;
}

ExpressionPtr ExpressionParser::sign(bool filters) {
  ExpressionPtr value;
  if (tokens_.is_symbol("-") || tokens_.is_symbol("+")) {
    const TokenStream::Level level(tokens_);
    const auto token = tokens_.take();
    value = make(token.at, Sign{sign(false), token.text == "-"});
  } else {
    value = primary();
  }
  value = postfixed(std::move(value));
  return filters ? filtered(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::primary() {
  if (tokens_.is(TokenKind::name)) return name();
  if (tokens_.is(TokenKind::string)) {
    auto first = tokens_.take();
    while (tokens_.is(TokenKind::string)) first.text += tokens_.take().text;
    return make(first.at, Literal{text_value(std::move(first.text))});
  }
  if (tokens_.is(TokenKind::integer) || tokens_.is(TokenKind::real)) return number();
  if (tokens_.is_symbol("(")) return parenthesised();
  if (tokens_.is_symbol("[")) return list();
  if (tokens_.is_symbol("{")) return dict();
  tokens_.fail("a name, a value or a bracket");
}

ExpressionPtr ExpressionParser::name() {
  auto token = tokens_.take();
  if (token.text == "true" || token.text == "True") return make(token.at, Literal{true});
  if (token.text == "false" || token.text == "False") return make(token.at, Literal{false});
  if (token.text == "none" || token.text == "None") return make(token.at, Literal{None{}});
  note_use(token.text);
  return make(token.at, Name{std::move(token.text)});
}

void ExpressionParser::note_use(std::string_view name) {
  names->used.emplace(name);
  for (auto* macro : macros) {
    macro->uses_varargs |= name == "varargs";
    macro->uses_kwargs |= name == "kwargs";
    macro->uses_caller |= name == "caller";
  }
}

ExpressionPtr ExpressionParser::number() {
  const auto token = tokens_.take();
  const auto* begin = token.text.data();
  const auto* end = begin + token.text.size();
  if (token.kind == TokenKind::real) {
    double number = 0;
    if (std::from_chars(begin, end, number).ec != std::errc())
      tokens_.fail_at(token.at, "a number is out of range; expected one of 64 bits");
    return make(token.at, Literal{number});
  }
  std::int64_t number = 0;
  if (std::from_chars(begin, end, number).ec != std::errc())
    tokens_.fail_at(token.at, "a number is out of range; expected an integer of 64 bits");
  return make(token.at, Literal{number});
}

ExpressionPtr ExpressionParser::parenthesised() {
  const auto at = tokens_.take().at;
  if (tokens_.skip_symbol(")")) return make(at, ListLiteral{{}, ListKind::tuple});
  auto value = tuple();
  tokens_.expect_symbol(")");
  return value;
}

bool ExpressionParser::tuple_ends() const {
  return tokens_.is(TokenKind::print_end) || tokens_.is(TokenKind::statement_end) || tokens_.is_symbol(")") ||
         tokens_.is_name("in");
}

ExpressionPtr ExpressionParser::tuple(Conditionals conditionals) {
  const auto at = tokens_.here().at;
  auto first = expression(conditionals);
  if (!tokens_.is_symbol(",")) return first;
  std::vector<ExpressionPtr> items;
  items.push_back(std::move(first));
  while (tokens_.skip_symbol(",") && !tuple_ends()) items.push_back(expression(conditionals));
  return make(at, ListLiteral{std::move(items), ListKind::tuple});
}

ExpressionPtr ExpressionParser::list() {
  const auto at = tokens_.take().at;
  std::vector<ExpressionPtr> items;
  while (!tokens_.is_symbol("]")) {
    if (!items.empty()) tokens_.expect_symbol(",");
    if (tokens_.is_symbol("]")) break;
    items.push_back(expression());
  }
  tokens_.expect_symbol("]");
  return make(at, ListLiteral{std::move(items), ListKind::list});
}

ExpressionPtr ExpressionParser::dict() {
  const auto at = tokens_.take().at;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> members;
  while (!tokens_.is_symbol("}")) {
    if (!members.empty()) tokens_.expect_symbol(",");
    if (tokens_.is_symbol("}")) break;
    auto key = expression();
    tokens_.expect_symbol(":");
    members.emplace_back(std::move(key), expression());
  }
  tokens_.expect_symbol("}");
  return make(at, DictLiteral{std::move(members)});
}

ExpressionPtr ExpressionParser::postfixed(ExpressionPtr value) {
  ChainLevels levels;
  while (true) {
    if (!tokens_.is_symbol(".") && !tokens_.is_symbol("[") && !tokens_.is_symbol("(")) return value;
    levels.push_back(std::make_unique<TokenStream::Level>(tokens_));
    if (tokens_.is_symbol("(")) {
      auto given = arguments();
      const auto callee = value->at;
      value = make(callee, Call{std::move(value), std::move(given)});
    } else {
      value = subscript(std::move(value));
    }
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr value) {
  const auto token = tokens_.take();
  if (token.text == ".") {
    if (tokens_.is(TokenKind::integer)) {
      auto index = number();
      return make(token.at, ItemOf{std::move(value), std::move(index)});
    }
    auto member = tokens_.expect(TokenKind::name, "the name of a member");
    return make(member.at, AttributeOf{std::move(value), std::move(member.text)});
  }
  const auto bound = [&]() -> ExpressionPtr {
    const bool none = tokens_.is_symbol(":") || tokens_.is_symbol("]");
    return none ? nullptr : expression();
  };
  if (tokens_.is_symbol("]")) tokens_.fail("an index");
  auto begin = bound();
  if (tokens_.skip_symbol("]")) return make(token.at, ItemOf{std::move(value), std::move(begin)});
  if (tokens_.is_symbol(",")) tokens_.unsupported(tokens_.here().at, "an index of several values");
  tokens_.expect_symbol(":");
  auto end = bound();
  auto step = tokens_.skip_symbol(":") ? bound() : nullptr;
  tokens_.expect_symbol("]");
  return make(token.at, SliceOf{std::move(value), std::move(begin), std::move(end), std::move(step)});
}

CallArguments ExpressionParser::arguments() {
  CallArguments given;
  tokens_.expect_symbol("(");
  for (bool first = true; !tokens_.is_symbol(")"); first = false) {
    if (!first) tokens_.expect_symbol(",");
    if (tokens_.is_symbol(")")) break;
    const bool is_named = tokens_.is(TokenKind::name) && tokens_.ahead().kind == TokenKind::symbol &&
                          tokens_.ahead().text == "=";
    if (tokens_.is_symbol("*") && !given.star && !given.star_star) {
      tokens_.take();
      given.star = expression();
    } else if (tokens_.is_symbol("**") && !given.star_star) {
      tokens_.take();
      given.star_star = expression();
    } else if (is_named && !given.star_star) {
      auto parameter = tokens_.take().text;
      tokens_.take();
      given.named.emplace_back(std::move(parameter), expression());
    } else if (given.star || given.star_star || !given.named.empty()) {
      tokens_.fail("arguments by place before those by name");
    } else {
      given.positional.push_back(expression());
    }
  }
  tokens_.expect_symbol(")");
  return given;
}

ExpressionPtr ExpressionParser::filtered(ExpressionPtr value) {
  ChainLevels levels;
  while (true) {
    const bool calls = tokens_.is_symbol("(");
    if (!calls && !tokens_.is_symbol("|") && !tokens_.is_name("is")) return value;
    levels.push_back(std::make_unique<TokenStream::Level>(tokens_));
    if (calls) {
      auto given = arguments();
      const auto callee = value->at;
      value = make(callee, Call{std::move(value), std::move(given)});
    } else {
      value = tokens_.skip_symbol("|") ? filter(std::move(value)) : test(std::move(value));
    }
  }
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr value) {
  auto name = tokens_.expect(TokenKind::name, "the name of a filter");
  if (tokens_.is_symbol(".")) tokens_.unsupported(name.at, "a filter with a dot in its name");
  CallArguments given;
  if (tokens_.is_symbol("(")) given = arguments();
  return make(name.at, Filtered{std::move(value), std::move(name.text), std::move(given)});
}

ExpressionPtr ExpressionParser::filters_of_block(bool first_bar) {
  ExpressionPtr value;
  ChainLevels levels;
  for (bool first = !first_bar; first || tokens_.skip_symbol("|"); first = false) {
    levels.push_back(std::make_unique<TokenStream::Level>(tokens_));
    value = filter(std::move(value));
  }
  return value;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr value) {
  const auto at = tokens_.take().at;
  const bool negated = tokens_.skip_name("not");
  auto name = tokens_.expect(TokenKind::name, "the name of a test");
  CallArguments given;
  const bool value_follows = tokens_.is(TokenKind::string) || tokens_.is(TokenKind::integer) ||
                             tokens_.is(TokenKind::real) || tokens_.is_symbol("[") ||
                             tokens_.is_symbol("{") ||
                             (tokens_.is(TokenKind::name) && !tokens_.is_name("else") &&
                              !tokens_.is_name("or") && !tokens_.is_name("and"));
  if (tokens_.is_symbol("(")) {
    given = arguments();
  } else if (value_follows) {
    if (tokens_.is_name("is")) tokens_.fail("one test, not a chain of them");
    given.positional.push_back(postfixed(primary()));
  }
  auto tested = make(at, Tested{std::move(value), std::move(name.text), std::move(given)});
  return negated ? make(at, Not{std::move(tested)}) : std::move(tested);
}

}  // namespace hooked::text::jinja
