#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/operators.h"
#include "text/jinja/value.h"

namespace hooked::text::jinja {

// The tree of a template. A null expression is one that is not written.

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<const Expression>;
using Block = std::vector<Statement>;

/// The names of a body, which Jinja finds before anything is rendered.
struct BodyNames {
  const BodyNames* around = nullptr;
  std::set<std::string, std::less<>> used = {};
  /// Those that the body gives a value before it reads them and outside an `if`, and that no body around it
  /// uses. They are undefined until then, even if the template is given a variable of that name.
  std::vector<std::string> unset = {};
};

/// Statements with a scope of their own: a template, the body of a loop, of a macro …
struct Body {
  Block statements;
  std::unique_ptr<const BodyNames> names;
};

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr star, star_star;  ///< `*list`, `**dict`
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListLiteral {
  std::vector<ExpressionPtr> items;
  ListKind kind;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> members;
};
struct AttributeOf {
  ExpressionPtr value;
  std::string name;
};
struct ItemOf {
  ExpressionPtr value, index;
};
struct SliceOf {
  ExpressionPtr value, begin, end, step;
};
struct Call {
  ExpressionPtr function;
  CallArguments arguments;
};
/// `value | name`; without a value, the text of the block around it.
struct Filtered {
  ExpressionPtr value;
  std::string name;
  CallArguments arguments;
};
struct Tested {
  ExpressionPtr value;
  std::string name;
  CallArguments arguments;
};
struct Not {
  ExpressionPtr value;
};
struct Sign {
  ExpressionPtr value;
  bool minus;
};
struct Logical {
  ExpressionPtr left, right;
  bool is_or;
};
struct Calculation {
  Arithmetic operation;
  ExpressionPtr left, right;
};
struct Joined {
  std::vector<ExpressionPtr> parts;  ///< by `~`
};
struct Compared {
  ExpressionPtr first;
  std::vector<std::pair<Comparison, ExpressionPtr>> others;
};
struct Conditional {
  ExpressionPtr condition, then, otherwise;
};

struct Expression {
  std::size_t at;  ///< the byte of the template where it begins
  std::variant<Literal, Name, ListLiteral, DictLiteral, AttributeOf, ItemOf, SliceOf, Call, Filtered, Tested,
               Not, Sign, Logical, Calculation, Joined, Compared, Conditional>
      form;
};

/// The target of an assignment: a name, a namespace's member, or several that unpack a list.
struct Target {
  std::size_t at;
  std::string name;
  std::string member = {};         ///< of the namespace `name`
  std::vector<Target> parts = {};  ///< if there are several
  bool takes_apart = false;
};

struct Parameters {
  std::vector<std::pair<std::string, ExpressionPtr>> list;  ///< with their defaults
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

struct Plain {
  Value text;
};
struct Print {
  ExpressionPtr value;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr filter;
  Body body;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  Block otherwise;
};
struct For {
  Target target;
  ExpressionPtr list, condition;
  Body body, otherwise;
};
struct MacroDefinition {
  std::string name;
  Parameters parameters;
  Body body;
};
struct CallBlock {
  Parameters parameters;
  ExpressionPtr call;
  Body body;
};
struct FilterBlock {
  ExpressionPtr filter;
  Body body;
};
/// `{% generation %}`: the assistant's part of a conversation. Only its text matters here.
struct Generation {
  Body body;
};
struct Break {};
struct Continue {};

struct Statement {
  std::size_t at;
  std::variant<Plain, Print, Set, SetBlock, If, For, MacroDefinition, CallBlock, FilterBlock, Generation,
               Break, Continue>
      form;
};

}  // namespace hooked::text::jinja
