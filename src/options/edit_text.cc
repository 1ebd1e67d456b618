#include "options/edit_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/json.h"
#include "options/command.h"

namespace hooked::cli {
namespace {

constexpr std::string_view kForm =
    "expected \"ADDRESS OP VALUE\" with OP zero, set X, add X, scale X, replace FILE#KEY or project_out "
    "FILE#KEY, "
    "such as \"blocks.0.attn.hook_z[head=1] scale 0.5\"";

struct OperationRow {
  std::string_view name;
  EditOperation operation;
  bool takes_value;
};

constexpr std::array kOperations = {
    OperationRow{"zero", EditOperation::zero, false},
    OperationRow{"set", EditOperation::set, true},
    OperationRow{"add", EditOperation::add, true},
    OperationRow{"scale", EditOperation::scale, true},
    OperationRow{"replace", EditOperation::replace, true},
    OperationRow{"project_out", EditOperation::project_out, true},
};

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// The first blank outside the address's brackets ends it.
std::size_t address_end(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') ++depth;
    if (text[i] == ']') --depth;
    if (depth <= 0 && (text[i] == ' ' || text[i] == '\t')) return i;
  }
  return text.size();
}

}  // namespace

std::vector<std::string> edit_operations() {
  std::vector<std::string> names;
  for (const OperationRow& row : kOperations) names.emplace_back(row.name);
  return names;
}

void refuse_edit(std::string_view text, std::string_view what) {
  throw UsageError(fmt::format("--edit \"{}\": {}; {}", printable(text), what, kForm));
}

EditText read_edit_text(std::string_view text) {
  EditText edit{.all = text, .address = {}, .operation = {}, .value = {}};
  text = trimmed(text);
  const auto end = address_end(text);
  edit.address = text.substr(0, end);
  text = trimmed(text.substr(end));
  const auto blank = std::min(text.find_first_of(" \t"), text.size());
  const std::string_view word = text.substr(0, blank);
  edit.value = trimmed(text.substr(blank));
  if (edit.address.empty()) refuse_edit(edit.all, "it is empty");
  if (word.empty()) refuse_edit(edit.all, "it has no operation");
  const auto row = std::find_if(kOperations.begin(), kOperations.end(),
                                [&](const OperationRow& candidate) { return candidate.name == word; });
  if (row == kOperations.end()) {
    refuse_edit(edit.all, fmt::format("there is no operation '{}'", printable(word)));
  }
  if (row->takes_value == edit.value.empty()) {
    refuse_edit(edit.all, row->takes_value ? fmt::format("{} needs a value", word)
                                           : fmt::format("{} takes no value", word));
  }
  edit.operation = row->operation;
  return edit;
}

}  // namespace hooked::cli
