#include "python/src/declared.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>

#include "python/src/bind.h"

namespace hooked::python {
namespace {

struct Entry {
  std::string_view name;
  const char* text;
};

constexpr Entry kDocumentation[] = {
#include "python/documentation.inc"
};

}  // namespace

const char* documentation(std::string_view name) {
  const auto* found = std::lower_bound(std::begin(kDocumentation), std::end(kDocumentation), name,
                                       [](const Entry& entry, std::string_view n) { return entry.name < n; });
  if (found == std::end(kDocumentation) || found->name != name)
    throw Error("documentation", fmt::format("no public header declares '{}'", name));
  return found->text;
}

const char* documentation_with_options(std::string_view name, std::string_view options) {
  static auto* made = new std::map<std::string, std::string>();
  std::string text = documentation(name);
  text += "\n\nOptions:\n";
  const std::string prefix = std::string(options) + "::";
  // Entries are sorted, so that the order of the declaration is not theirs; signatures have it.
  for (const Entry& entry : kDocumentation) {
    if (!entry.name.starts_with(prefix) || entry.name.find("::", prefix.size()) != std::string_view::npos)
      continue;
    std::string about = entry.text;
    std::replace(about.begin(), about.end(), '\n', ' ');
    text += fmt::format("  {}: {}\n", entry.name.substr(prefix.size()), about);
  }
  return (*made)[std::string(name) + prefix].assign(text).c_str();
}

void refuse_type(const char* of, const char* option, const std::string& expected, nb::handle got) {
  throw nb::type_error(fmt::format("[{}] a value of another type was given to {}; expected {}, got {}",
                                   option, of, expected, python_type(got))
                           .c_str());
}

void refuse_unknown(const char* of, nb::handle given, const std::vector<const char*>& known) {
  const nb::object names = nb::cast(known);
  for (const auto& [key, value] : nb::borrow<nb::dict>(given)) {
    if (nb::cast<bool>(names.attr("__contains__")(key))) continue;
    const nb::object near = nb::module_::import_("difflib").attr("get_close_matches")(key, names, 1);
    const std::string hint =
        nb::len(near) > 0 ? fmt::format("; did you mean {}?", nb::str(near[0]).c_str()) : "";
    throw nb::type_error(fmt::format("[{}] {} has no such option; expected one of {}{}", nb::str(key).c_str(),
                                     of, fmt::join(known, ", "), hint)
                             .c_str());
  }
  std::abort();  // there is one
}

nb::dict by_name(nb::handle positional, nb::handle named, const std::vector<const char*>& required,
                 const char* of) {
  nb::dict all;
  all.update(nb::borrow<nb::dict>(named));
  const std::size_t given = nb::len(positional);
  if (given > required.size()) {
    throw nb::type_error(fmt::format("[{}] too many values are given by position; expected at most {}, got "
                                     "{}; give the others by name",
                                     of, required.size(), given)
                             .c_str());
  }
  for (std::size_t i = 0; i < required.size(); ++i) {
    const bool is_named = all.contains(required[i]);
    if (i < given && !is_named) {
      all[required[i]] = positional[i];
    } else if (i < given || !is_named || all[required[i]].is_none()) {
      throw nb::type_error(fmt::format("[{}] {} is {}; expected it once", required[i], of,
                                       i < given ? "given it twice" : "not given it")
                               .c_str());
    }
  }
  return all;
}

void remember_owner(nb::handle object, nb::handle owner, const char* member) {
  if (nb::hasattr(object, "__dict__")) nb::setattr(object, "_member_of", nb::make_tuple(owner, member));
}

void write_through(nb::handle object) {
  const nb::object owner = nb::getattr(object, "_member_of", nb::none());
  if (!owner.is_none()) nb::setattr(owner[0], nb::str(owner[1]), object);
}

nb::object reduced(nb::handle object, const std::vector<const char*>& members) {
  nb::dict values;
  for (const char* member : members) values[member] = object.attr(member);
  const nb::object make = nb::module_::import_("functools").attr("partial")(object.type(), **values);
  return nb::make_tuple(make, nb::tuple());
}

std::string repr_of(nb::handle object, const std::vector<const char*>& members) {
  std::string text;
  for (const char* member : members) {
    const nb::object value = object.attr(member);
    if (value.is_none()) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", member, nb::repr(value).c_str());
  }
  return fmt::format("{}({})", python_type(object), text);
}

}  // namespace hooked::python
