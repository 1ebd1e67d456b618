#include "text/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>

#include "core/json.h"
#include "text/jinja/token_stream.h"

namespace hooked::text::jinja {
namespace {

class Parser {
 public:
  Parser(const Source& source, const Limits& limits)
      : tokens_(source, limits.syntax_depth), expressions_(tokens_) {}

  Body whole() {
    Body body = scoped({}, [&] { return until({}); });
    for (auto* names : bodies_) {
      std::erase_if(names->unset, [&](const std::string& name) {
        for (const auto* around = names->around; around != nullptr; around = around->around) {
          if (around->used.contains(name)) return true;
        }
        return false;
      });
    }
    return body;
  }

 private:
  using Words = std::initializer_list<std::string_view>;
  using Conditionals = ExpressionParser::Conditionals;

  // The statements up to a tag that begins with one of `ends`, which comes next; up to the end of the
  // template if `ends` is empty.
  Block until(Words ends) {
    const TokenStream::Level level(tokens_);
    Block block;
    while (!tokens_.is(TokenKind::end)) {
      auto token = tokens_.take();
      if (token.kind == TokenKind::text) {
        Value text = Text(std::make_shared<const std::string>(std::move(token.text)));
        block.push_back({token.at, Plain{std::move(text)}});
      } else if (token.kind == TokenKind::print_begin) {
        auto value = expressions_.tuple();
        tokens_.expect(TokenKind::print_end, "'}}'");
        block.push_back({token.at, Print{std::move(value)}});
      } else {
        if (std::ranges::any_of(ends, [&](std::string_view end) { return tokens_.is_name(end); }))
          return block;
        block.push_back(statement());
        tokens_.expect(TokenKind::statement_end, "'%}'");
      }
    }
    if (ends.size() > 0) tokens_.fail(fmt::format("{{% {} %}}", *ends.begin()));
    return block;
  }

  // The rest of a tag and the statements after it, up to one of `ends`.
  Block body(Words ends) {
    tokens_.skip_symbol(":");
    tokens_.expect(TokenKind::statement_end, "'%}'");
    return until(ends);
  }
  Block body_to(std::string_view end) {
    Block block = body({end});
    tokens_.take();
    return block;
  }

  Statement statement() {
    using Read = Statement (Parser::*)(std::size_t);
    struct Row {
      std::string_view name;
      Read read;  // null: Jinja's, but not supported here
    };
    static constexpr Row kRows[] = {
        {"if", &Parser::read_if},
        {"for", &Parser::read_for},
        {"set", &Parser::read_set},
        {"macro", &Parser::read_macro},
        {"call", &Parser::read_call},
        {"filter", &Parser::read_filter},
        {"generation", &Parser::read_generation},
        {"break", &Parser::read_break},
        {"continue", &Parser::read_continue},
        {"autoescape", nullptr},
        {"block", nullptr},
        {"extends", nullptr},
        {"from", nullptr},
        {"import", nullptr},
        {"include", nullptr},
        {"print", nullptr},
        {"with", nullptr},
    };
    const auto word = tokens_.expect(TokenKind::name, "the name of a statement");
    const auto* row = std::ranges::find(kRows, word.text, &Row::name);
    if (row == std::end(kRows)) {
      tokens_.fail_at(word.at,
                      fmt::format("'{}' is not a statement that begins here; expected one of Jinja's",
                                  printable(word.text)));
    }
    if (!row->read) tokens_.unsupported(word.at, fmt::format("the statement '{}'", word.text));
    return (this->*row->read)(word.at);
  }

  enum class Members { allowed, refused };

  Target one_target(Members members) {
    const TokenStream::Level level(tokens_);
    const auto at = tokens_.here().at;
    if (tokens_.skip_symbol("(")) {
      auto inner = target(Members::refused);
      tokens_.expect_symbol(")");
      return inner;
    }
    auto name = tokens_.expect(TokenKind::name, "a name");
    for (const std::string_view reserved : {"true", "false", "none", "True", "False", "None"}) {
      if (name.text == reserved) tokens_.fail_at(at, fmt::format("'{}' cannot be given a value", reserved));
    }
    if (loops_ > 0 && name.text == "loop")
      tokens_.fail_at(at, "'loop' is given a value inside of a for; expected another name");
    Target single{.at = at, .name = std::move(name.text)};
    if (members == Members::allowed && tokens_.skip_symbol("."))
      single.member = tokens_.expect(TokenKind::name, "the name of a member").text;
    return single;
  }

  Target target(Members members) {
    const auto at = tokens_.here().at;
    auto first = one_target(members);
    if (!tokens_.is_symbol(",")) return first;
    Target several{.at = at, .name = {}, .takes_apart = true};
    several.parts.push_back(std::move(first));
    while (tokens_.skip_symbol(",") && tokens_.is(TokenKind::name) && !tokens_.is_name("in"))
      several.parts.push_back(one_target(members));
    return several;
  }

  // What `read` reads, whose names are `names` and not those of the body around it.
  template <class Read>
  auto with_names(BodyNames& names, const Read& read) {
    auto* const around = std::exchange(expressions_.names, &names);
    auto result = read();
    expressions_.names = around;
    return result;
  }

  // A body that uses `parameters` in addition to what `read` reads, and in which no loop and no `if` around
  // it counts.
  template <class Read>
  Body scoped(BodyNames parameters, const Read& read) {
    auto names = std::make_unique<BodyNames>(std::move(parameters));
    names->around = expressions_.names;
    bodies_.push_back(names.get());
    const int loops = std::exchange(loops_, 0), ifs = std::exchange(ifs_, 0);
    Block statements = with_names(*names, read);
    loops_ = loops;
    ifs_ = ifs;
    return {std::move(statements), std::move(names)};
  }
  Body inner_body(std::string_view end) {
    return scoped({}, [&] { return body_to(end); });
  }

  // Notes that the body that is being read gives `target` a value.
  void note_set(const Target& target) {
    for (const auto& part : target.parts) note_set(part);
    if (target.takes_apart) return;
    auto& names = *expressions_.names;
    const bool first = names.used.insert(target.name).second;
    if (first && ifs_ == 0 && target.member.empty()) names.unset.push_back(target.name);
  }
  static void note_parameter(BodyNames& names, const Target& target) {
    for (const auto& part : target.parts) note_parameter(names, part);
    if (!target.takes_apart) names.used.insert(target.name);
  }

  Statement read_if(std::size_t at) {
    If statement;
    ++ifs_;
    while (true) {
      auto condition = expressions_.tuple(Conditionals::no);
      auto block = body({"elif", "else", "endif"});
      statement.branches.emplace_back(std::move(condition), std::move(block));
      const auto word = tokens_.take().text;
      if (word == "elif") continue;
      if (word == "else") statement.otherwise = body_to("endif");
      --ifs_;
      return {at, std::move(statement)};
    }
  }

  Statement read_for(std::size_t at) {
    auto each = target(Members::refused);
    BodyNames parameters{.used = {"loop"}}, of_condition;
    note_parameter(parameters, each);
    tokens_.expect_name("in");
    auto list = expressions_.tuple(Conditionals::no);
    auto condition = with_names(
        of_condition, [&] { return tokens_.skip_name("if") ? expressions_.expression() : nullptr; });
    if (tokens_.is_name("recursive")) tokens_.unsupported(tokens_.here().at, "a recursive for");
    auto repeated = scoped(std::move(parameters), [&] {
      ++loops_;
      return body({"endfor", "else"});
    });
    const bool has_else = tokens_.take().text == "else";
    auto otherwise = scoped({}, [&] { return has_else ? body_to("endfor") : Block{}; });
    return {at, For{std::move(each), std::move(list), std::move(condition), std::move(repeated),
                    std::move(otherwise)}};
  }

  Statement read_set(std::size_t at) {
    auto place = target(Members::allowed);
    if (tokens_.skip_symbol("=")) {
      auto value = expressions_.tuple();
      note_set(place);
      return {at, Set{std::move(place), std::move(value)}};
    }
    note_set(place);
    auto filter = tokens_.is_symbol("|") ? expressions_.filters_of_block(true) : nullptr;
    return {at, SetBlock{std::move(place), std::move(filter), inner_body("endset")}};
  }

  Parameters read_parameters() {
    Parameters parameters;
    tokens_.expect_symbol("(");
    bool with_default = false;
    while (!tokens_.is_symbol(")")) {
      if (!parameters.list.empty()) tokens_.expect_symbol(",");
      auto name = tokens_.expect(TokenKind::name, "the name of a parameter");
      ExpressionPtr otherwise;
      if (tokens_.skip_symbol("=")) {
        otherwise = expressions_.expression();
        with_default = true;
      } else if (with_default) {
        tokens_.fail_at(name.at, "a parameter without a default comes after one that has one");
      }
      parameters.list.emplace_back(std::move(name.text), std::move(otherwise));
    }
    tokens_.take();
    return parameters;
  }

  Body macro_body(Parameters& parameters, BodyNames names, std::string_view end) {
    for (const auto& [name, otherwise] : parameters.list) names.used.insert(name);
    expressions_.macros.push_back(&parameters);
    Body body = scoped(std::move(names), [&] { return body_to(end); });
    expressions_.macros.pop_back();
    return body;
  }

  Statement read_macro(std::size_t at) {
    auto name = tokens_.expect(TokenKind::name, "the name of the macro");
    note_set({.at = name.at, .name = name.text});
    BodyNames names;
    auto parameters = with_names(names, [&] { return read_parameters(); });
    auto body = macro_body(parameters, std::move(names), "endmacro");
    return {at, MacroDefinition{std::move(name.text), std::move(parameters), std::move(body)}};
  }

  Statement read_call(std::size_t at) {
    BodyNames names;
    auto parameters =
        with_names(names, [&] { return tokens_.is_symbol("(") ? read_parameters() : Parameters{}; });
    const auto place = tokens_.here().at;
    auto call = expressions_.expression();
    if (!std::holds_alternative<Call>(call->form))
      tokens_.fail_at(place, "a call block calls nothing; expected a call");
    auto body = macro_body(parameters, std::move(names), "endcall");
    return {at, CallBlock{std::move(parameters), std::move(call), std::move(body)}};
  }

  Statement read_filter(std::size_t at) {
    auto filter = expressions_.filters_of_block(false);
    return {at, FilterBlock{std::move(filter), inner_body("endfilter")}};
  }

  Statement read_generation(std::size_t at) { return {at, Generation{inner_body("endgeneration")}}; }

  Statement read_break(std::size_t at) {
    if (loops_ == 0) tokens_.fail_at(at, "break leaves no loop; expected it inside a for");
    return {at, Break{}};
  }

  Statement read_continue(std::size_t at) {
    if (loops_ == 0) tokens_.fail_at(at, "continue is outside a loop; expected it inside a for");
    return {at, Continue{}};
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int loops_ = 0, ifs_ = 0;           // around what is being read, within its body
  std::vector<BodyNames*> bodies_{};  // all that have been read
};

}  // namespace

Body parse(const Source& source, const Limits& limits) { return Parser(source, limits).whole(); }

}  // namespace hooked::text::jinja
