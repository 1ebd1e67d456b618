#pragma once

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>

namespace hooked {

/// Prints the page whose text is docs/generators/NAME.md.in, with each of these values in the place of its
/// `{{key}}`. Lines take the place of the key's own line.
inline void print_page(const std::filesystem::path& repository, const std::string& name,
                       const std::map<std::string, std::string>& values) {
  std::ifstream file(repository / "docs/generators" / (name + ".md.in"));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const auto& [key, value] : values) {
    const std::string mark = "{{" + key + "}}";
    const auto place = text.find(mark);
    if (place == std::string::npos) throw std::logic_error(name + ".md.in has no " + mark);
    text.replace(place, mark.size() + (value.ends_with('\n') ? 1 : 0), value);
  }
  if (text.find("{{") != std::string::npos)
    throw std::logic_error(name + ".md.in has a mark without a value");
  std::cout << text;
}

}  // namespace hooked
