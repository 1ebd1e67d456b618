// Functions that templates call by name.
#include <fmt/format.h>

#include <array>

#include "core/utf8.h"
#include "text/jinja/library.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace hooked::text::jinja {
namespace {

constexpr std::size_t kLongestDate = 4096;

Value range_function(Machine& machine, const Value& /*self*/, const Arguments& arguments) {
  const Bound given(machine, "range", arguments, {"start", "stop", "step"});
  for (const auto& argument : arguments.positional) {
    require_defined(machine, argument);
    if (!integer_of(argument))
      machine.fail(fmt::format("range is given {}; expected integers", type_name(argument)));
  }
  given.required(0);
  const bool only_stop = given[1] == nullptr;
  const auto start = only_stop ? 0 : given.integer(0, 0), stop = given.integer(only_stop ? 0 : 1, 0),
             step = given.integer(2, 1);
  if (step == 0) machine.fail("range has the step 0; expected another");
  // Sizes as unsigned numbers, which do not overflow.
  const auto distance = static_cast<std::uint64_t>(step > 0 ? stop : start) -
                        static_cast<std::uint64_t>(step > 0 ? start : stop);
  const auto stride = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  const bool empty = step > 0 ? start >= stop : start <= stop;
  const auto size = empty ? 0 : (distance - 1) / stride + 1;
  if (size > static_cast<std::uint64_t>(machine.limits().range)) {
    machine.fail(fmt::format("range has {} items; expected at most {}", size, machine.limits().range));
  }
  machine.charge(size * sizeof(Value));
  List list{.items = {}, .kind = ListKind::range, .range = {start, stop, step}};
  for (std::uint64_t i = 0; i < size; ++i)
    list.items.emplace_back(start + static_cast<std::int64_t>(i) * step);
  return std::make_shared<const List>(std::move(list));
}

// The members given by a dict or pairs, and by named arguments.
std::vector<std::pair<Value, Value>> members_of(Machine& machine, std::string_view what,
                                                const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> members;
  if (arguments.positional.size() > 1) machine.fail(fmt::format("{} takes one dict, got more", what));
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional.front();
    require_defined(machine, source);
    if (const auto* dict = source.dict()) {
      machine.charge(dict->members.size() * 2 * sizeof(Value));
      members = dict->members;
    } else {
      for (const auto& pair : items_of(machine, source)) {
        const auto parts = items_of(machine, pair);
        if (parts.size() != 2) machine.fail(fmt::format("{} is given items that are not pairs", what));
        put(machine, members, parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) put(machine, members, machine.text(name), value);
  return members;
}

Value dict_function(Machine& machine, const Value& /*self*/, const Arguments& arguments) {
  return machine.dict(members_of(machine, "dict", arguments));
}

Value namespace_function(Machine& machine, const Value& /*self*/, const Arguments& arguments) {
  auto* space = machine.new_namespace();
  for (auto& [key, value] : members_of(machine, "namespace", arguments)) {
    if (!key.text() || key.text()->starts_with('_'))
      machine.fail(
          "a namespace has a member that is not a name, or begins with an underscore; expected names");
    space->members.emplace_back(*key.text(), std::move(value));
  }
  return space;
}

Value raise_function(Machine& machine, const Value& /*self*/, const Arguments& arguments) {
  const Bound given(machine, "raise_exception", arguments, {"message"});
  machine.fail(
      fmt::format("the chat template refuses these messages: {}", text_of(machine, given.required(0))));
}

Value strftime_function(Machine& machine, const Value& /*self*/, const Arguments& arguments) {
  const Bound given(machine, "strftime_now", arguments, {"format"});
  const auto format = given.required_text(0);
  if (format.empty()) return machine.text("");
  const auto now = machine.now();
  std::tm parts{};
  if (localtime_r(&now, &parts) == nullptr) machine.fail("the clock has a time that no calendar has");
  std::array<char, kLongestDate> room{};
  // A format may expand to nothing; the added mark tells that from too little room.
  const auto size = std::strftime(room.data(), room.size(), (format + ".").c_str(), &parts);
  if (size == 0 || format.find('\0') != format.npos)
    machine.fail(fmt::format("strftime_now makes more than {} bytes; expected a date", kLongestDate));
  std::string date(room.data(), size - 1);
  if (first_invalid_byte(date)) machine.fail("strftime_now makes a text that is not UTF-8");
  return machine.text(std::move(date));
}

constexpr MethodRow kFunctions[] = {
    {"cycler", nullptr},
    {"dict", dict_function},
    {"joiner", nullptr},
    {"lipsum", nullptr},
    {"namespace", namespace_function},
    {"raise_exception", raise_function},
    {"range", range_function},
    {"self", nullptr},
    {"strftime_now", strftime_function},
};

}  // namespace

const MethodRow* find_function(std::string_view name) { return find_row(kFunctions, name); }

}  // namespace hooked::text::jinja
