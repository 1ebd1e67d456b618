#include "python/src/declared.h"

#include <fmt/format.h>

#include <algorithm>
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
  return (*made)[std::string(name)].append(text).c_str();
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
