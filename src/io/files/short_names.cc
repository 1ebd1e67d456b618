#include "io/files/short_names.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

namespace hooked {
namespace {

/// Its models, separated by blanks: each one's name, then its short names after equals signs.
struct Organisation {
  std::string_view name, models;
};

#include "io/files/short_names.inc"

struct Repository {
  std::string_view organisation, name;
};

/// Takes what comes before the first `mark` off the text, and the mark; or all of it.
std::string_view take(std::string_view& text, char mark) {
  const auto end = std::min(text.find(mark), text.size());
  const auto part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

/// Every short name, in lower case.
std::unordered_map<std::string, Repository> short_names() {
  std::unordered_map<std::string, Repository> names;
  for (auto [organisation, models] : kOrganisations) {
    while (!models.empty()) {
      auto words = take(models, ' ');
      const Repository repository{organisation, words.substr(0, words.find('='))};
      while (!words.empty()) names.emplace(in_lower_case(take(words, '=')), repository);
    }
  }
  return names;
}

}  // namespace

std::optional<HubName> whole_name(const HubName& name) {
  static const auto kNames = short_names();
  const auto found = kNames.find(in_lower_case(name.name));
  if (found == kNames.end()) return std::nullopt;
  const auto& [organisation, own] = found->second;
  HubName whole{std::string(organisation), std::string(own), name.revision, name.file};
  const bool stands_for_it = name.organisation.empty() || name.organisation == organisation;
  return stands_for_it && whole.model() != name.model() ? std::optional(whole) : std::nullopt;
}

}  // namespace hooked
