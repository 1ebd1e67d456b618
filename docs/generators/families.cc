// Prints docs/families.md from the table of families and the index of golden checkpoints.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "families/composite.h"
#include "families/family.h"
#include "families/unsupported.h"
#include "page.h"

namespace {

std::string code_list(std::span<const std::string_view> names) {
  std::vector<std::string> quoted;
  for (const std::string_view name : names) quoted.push_back(fmt::format("`{}`", name));
  return fmt::format("{}", fmt::join(quoted, ", "));
}

}  // namespace

int main(int, char** argv) {
  const auto index =
      nlohmann::json::parse(std::ifstream(std::filesystem::path(argv[1]) / "tests/golden/index.json"));
  std::map<std::string, std::map<std::string, std::string>, std::less<>> by_family;  // case -> variant
  std::set<std::string> oracles;
  for (const auto& row : index.at("cases")) {
    const std::string family = row.at("family"), name = row.at("case");
    if (family == "hooked_transformer") continue;  // described in coverage.md, option by option
    oracles.insert(row.at("oracle").get<std::string>());
    const bool base = name.size() == family.size();  // a case's name has _ where a family's has -
    by_family[family][name] = fmt::format("`{}`", base ? "base" : name.substr(family.size() + 1));
  }
  std::string families;
  for (const hooked::Family& family : hooked::all_families()) {
    const auto cases = by_family.find(family.model_type);
    if (cases == by_family.end()) {
      families += fmt::format(
          "| `{}` | | the native folder: see [architecture.md](architecture.md#a-native-folder) |\n",
          family.model_type);
      continue;
    }
    families += fmt::format("| `{}` | {} | {} |\n", family.model_type, cases->second.size(),
                            fmt::join(std::views::values(cases->second), ", "));
  }
  std::string recognised;
  for (const hooked::Family& family : hooked::all_families()) {
    if (family.recognise == nullptr) continue;
    recognised += fmt::format("| `{}` | {} |\n", family.model_type, family.recognised_by);
  }
  std::string composites, notes;
  for (const hooked::Composite& composite : hooked::all_composites()) {
    composites += fmt::format("| `{}` | `{}`{} | {} | {} |\n", composite.model_type, composite.text_type,
                              composite.flat ? ", perhaps without a group" : "",
                              code_list(composite.prefixes), code_list(composite.others));
    if (!composite.note.empty()) notes += fmt::format("{}.\n", composite.note);
  }
  std::string formats;
  for (const hooked::StorageMethod& method : hooked::storage_methods()) {
    for (const hooked::StorageForm& form : method.forms) {
      std::vector<std::string> factors, beside;
      for (const std::string_view ending : form.factors) factors.push_back(fmt::format("`*{}`", ending));
      for (const std::string_view ending : form.beside) beside.push_back(fmt::format("`*{}`", ending));
      formats += fmt::format("| `{}` | {} | `*{}` ({}) with {}{}{} |\n", method.method, form.name,
                             form.ending, form.dtype, fmt::join(factors, " or "),
                             beside.empty() ? "" : "; perhaps ", fmt::join(beside, ", "));
    }
  }
  std::vector<std::pair<std::string_view, std::vector<std::string_view>>> lacking;  // what, and which kinds
  for (const hooked::UnsupportedKind& kind : hooked::unsupported_kinds()) {
    auto row = std::ranges::find(lacking, kind.lacking, [](const auto& known) { return known.first; });
    if (row == lacking.end()) row = lacking.insert(row, {kind.lacking, {}});
    row->second.push_back(kind.model_type);
  }
  std::string unsupported;
  for (const auto& [what, kinds] : lacking)
    unsupported += fmt::format("| {} | {} |\n", code_list(kinds), what);
  hooked::print_page(argv[1], "families",
                     {{"oracle", fmt::format("{}", fmt::join(oracles, " and "))},
                      {"families", families},
                      {"composites", composites},
                      {"composite_notes", notes},
                      {"formats", formats},
                      {"unsupported", unsupported},
                      {"recognised", recognised}});
}
