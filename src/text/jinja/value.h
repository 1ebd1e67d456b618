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

/// The kind of a list. Kinds differ in how they print, compare and can be read; type_name() names them in
/// this order.
enum class ListKind : std::uint8_t {
  list,
  tuple,
  range,      ///< the result of range()
  keys,       ///< the result of a dict's keys()
  values,     ///< as above
  items,      ///< as above
  generator,  ///< the result of filters such as map: can be iterated once
};

/// Python's list and similar types. It never changes, except that a generator is used up.
struct List {
  /// Python's range(start, stop, step).
  struct Range {
    std::int64_t start, stop, step;
  };

  std::vector<Value> items;
  ListKind kind = ListKind::list;
  int depth = 1;     ///< how deeply lists and dicts are nested in it
  Range range = {};  ///< of a list of that kind
  mutable std::size_t used = 0;
};

/// Python's dict, in insertion order. It never changes.
struct Dict {
  std::vector<std::pair<Value, Value>> members;
  int depth = 1;

  /// The member of that name, or null.
  const Value* find(std::string_view name) const;
};

/// A value that cannot be read: an unknown name, a missing member. Any use but printing it or testing whether
/// it is defined is an error.
struct Undefined {
  std::shared_ptr<const std::string> why = {};
};

/// The result of `namespace()`, the only value that a template can change.
struct Namespace {
  std::vector<std::pair<std::string, Value>> members;

  Value* find(std::string_view name);
};

/// Something that a template can call. A machine owns it while a template is rendered.
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

/// The arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Python's bool().
bool is_true(const Value& value);

/// Python's name of the type: `str`, `NoneType`.
std::string_view type_name(const Value& value);

/// Jinja's name for it in messages: `dict object`, `None`.
std::string described(const Value& value);

/// Whether it is a list, a tuple or a range: its items have numbers.
bool has_places(const List& list);

/// Whether it is a bool, an integer or a float.
bool is_number(const Value& value);
double number_of(const Value& value);

/// The value of a bool or an integer, or nothing.
std::optional<std::int64_t> integer_of(const Value& value);

}  // namespace hooked::text::jinja
