#include "python/src/signatures.h"

#include <c10/util/Type.h>

namespace hooked::python {
namespace {

// What Python calls a type; one that is bound later has its own name. Those of act are in a module of their
// own.
std::string name_of_type(const std::type_info& type) {
  const std::string name = c10::demangle(type.name());
  const std::string module = name.find("::act::") == std::string::npos ? "" : "act.";
  const nb::handle bound = NB_CALL(nb_type_lookup)(NB_CTX, &type);
  if (bound.is_valid()) return module + nb::cast<std::string>(bound.attr("__qualname__"));
  return module + name.substr(name.rfind(':') + 1);
}

}  // namespace

void SignatureText::append(std::string_view part) {
  if (text_.back() != '(') text_ += ", ";
  text_ += part;
}

void SignatureText::keywords_follow() { keywords_ = true; }

void SignatureText::add(std::string_view name, std::string type, const std::optional<std::string>& fallback) {
  if (keywords_ && text_.find('*') == std::string::npos) append("*");
  if (fallback == "None" && !type.ends_with(" | None")) type += " | None";
  append(std::string(name) + ": " + type + (fallback ? " = " + *fallback : ""));
}

std::string described(std::string_view description, const std::type_info** types, bool returned) {
  std::string text;
  for (std::size_t at = 0; at < description.size(); ++at) {
    if (description[at] == '@') {
      const std::size_t middle = description.find('@', at + 1);
      const std::size_t end = description.find('@', middle + 1);
      text += returned ? description.substr(middle + 1, end - middle - 1)
                       : description.substr(at + 1, middle - at - 1);
      at = end;
    } else if (description[at] == '%') {
      text += name_of_type(**types++);
    } else {
      text += description[at];
    }
  }
  return text;
}

std::string member_signature(std::string_view name, const std::string& returned, const std::string& value) {
  SignatureText text(std::string(name).c_str());
  text.add_self();
  if (!value.empty()) text.add("value", value, {});
  return text.returning(returned);
}

}  // namespace hooked::python
