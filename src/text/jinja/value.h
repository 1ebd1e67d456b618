#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace hooked::text::jinja {

class Machine;
struct Value;
struct Arguments;

/// What kind of list a list is. They differ in how they print, compare and can be read.
enum class ListKind : std::uint8_t {
  list,
  tuple,
  range,      ///< what range() gives
  keys,       ///< what a dict's keys() gives, and its like
  values,     ///< as above
  items,      ///< as above
  generator,  ///< what filters such as map give: can be gone through once
};

/// Python's list and its like. It never changes, but that a generator is used up.
struct List {
  std::vector<Value> items;
  ListKind kind = ListKind::list;
  int depth = 1;             ///< how deep lists and dicts are nested in it
  std::string printed = {};  ///< of a range: how it prints
  mutable std::size_t used = 0;
};

/// Python's dict, in the order of insertion. It never changes.
struct Dict {
  std::vector<std::pair<Value, Value>> members;
  int depth = 1;

  /// The member of that name, or null.
  const Value* find(std::string_view name) const;
};

/// What cannot be read: a name that nothing has, a member that is not there. Using it for more than printing
/// or asking whether it is there is an error.
struct Undefined {
  std::shared_ptr<const std::string> why = {};
};

/// What `namespace()` makes, the one thing that a template can change.
struct Namespace {
  std::vector<std::pair<std::string, Value>> members;

  Value* find(std::string_view name);
};

/// What a template can call. A machine owns it while a template is rendered.
class Callable {
 public:
  virtual ~Callable() = default;
  virtual Value call(Machine& machine, const Arguments& arguments) = 0;
  /// A member such as `index` of a loop, or nothing.
  virtual Value member(Machine& machine, std::string_view name);
  virtual std::size_t length() const { return 1; }  ///< 0 makes it false
};

/// A method of a value, not yet called: `text.strip`.
struct Method;

struct None {};

/// A text is valid UTF-8; its characters are code points, as in Python.
using Text = std::shared_ptr<const std::string>;

/// A value of a template.
struct Value
    : std::variant<Undefined, None, bool, std::int64_t, double, Text, std::shared_ptr<const List>,
                   std::shared_ptr<const Dict>, std::shared_ptr<const Method>, Namespace*, Callable*> {
  using variant::variant;

  template <class T>
  const T* as() const noexcept {
    return std::get_if<T>(static_cast<const variant*>(this));
  }
  template <class T>
  bool is() const noexcept {
    return as<T>() != nullptr;
  }
  const std::string* text() const noexcept {
    const auto* found = as<Text>();
    return found ? found->get() : nullptr;
  }
  const List* list() const noexcept {
    const auto* found = as<std::shared_ptr<const List>>();
    return found ? found->get() : nullptr;
  }
  const List* list(ListKind kind) const noexcept {
    const auto* found = list();
    return found && found->kind == kind ? found : nullptr;
  }
  const Dict* dict() const noexcept {
    const auto* found = as<std::shared_ptr<const Dict>>();
    return found ? found->get() : nullptr;
  }
};

/// A method's function; `self` is what it is called on.
using MethodFunction = Value (*)(Machine& machine, const Value& self, const Arguments& arguments);

struct Method {
  Value self;
  MethodFunction function;
};

/// What something is called with.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// What Python's bool() says.
bool is_true(const Value& value);

/// Python's name of the type: `str`, `NoneType`.
std::string_view type_name(const Value& value);

/// What Jinja calls it in messages: `dict object`, `None`.
std::string described(const Value& value);

/// The number that a bool, an integer or a float is.
bool is_number(const Value& value);
double number_of(const Value& value);

/// The integer that a bool or an integer is, or nothing.
std::optional<std::int64_t> integer_of(const Value& value);

}  // namespace hooked::text::jinja
