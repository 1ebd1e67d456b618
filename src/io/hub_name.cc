#include "io/hub_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <system_error>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "io/path_text.h"

namespace hooked {
namespace {

constexpr std::uint64_t kLongestReference = 4096;

/// The hub's own rule for organisation and model names.
bool is_hub_word(std::string_view word) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !word.empty() && word.size() <= 96 && std::all_of(word.begin(), word.end(), allowed) &&
         word.front() != '.' && word.front() != '-' && word.find("..") == std::string_view::npos &&
         word.find("--") == std::string_view::npos;
}

/// The commit that a branch or tag stands for, or nothing when the cache has no such reference.
std::optional<std::string> referenced_commit(const std::filesystem::path& reference) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(reference, ignored)) return std::nullopt;
  auto commit = read_text_file(reference, kLongestReference);
  while (!commit.empty() && (commit.back() == '\n' || commit.back() == '\r' || commit.back() == ' '))
    commit.pop_back();
  const bool plain = !commit.empty() && std::all_of(commit.begin(), commit.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
  });
  if (!plain) {
    throw CheckpointError(
        path_text(reference),
        fmt::format("the reference is not a commit; expected lower-case letters and digits, got '{}'",
                    printable(commit)));
  }
  return commit;
}

}  // namespace

/// Branches may have slashes (`refs/pr/1`); no part may step out of the folder.
bool is_revision(std::string_view revision) {
  const std::filesystem::path path(revision);
  if (revision.empty() || revision.size() > 255 || path.is_absolute()) return false;
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '\\'; };
  return std::none_of(revision.begin(), revision.end(), control) &&
         std::none_of(path.begin(), path.end(),
                      [](const auto& part) { return part.empty() || part == ".." || part == "."; });
}

std::string HubName::model() const {
  return organisation.empty() ? name : fmt::format("{}/{}", organisation, name);
}

std::string HubName::id() const {
  return revision == kMainRevision ? model() : fmt::format("{}@{}", model(), revision);
}

std::optional<HubName> parse_hub_name(std::string_view id) {
  HubName parsed{.organisation = {}, .name = {}};
  if (const auto at = id.find('@'); at != std::string_view::npos) {
    parsed.revision = id.substr(at + 1);
    id = id.substr(0, at);
  }
  if (const auto slash = id.find('/'); slash != std::string_view::npos) {
    parsed.organisation = id.substr(0, slash);
    id = id.substr(slash + 1);
    if (!is_hub_word(parsed.organisation)) return std::nullopt;
  }
  parsed.name = id;
  if (!is_hub_word(parsed.name) || !is_revision(parsed.revision)) return std::nullopt;
  return parsed;
}

std::optional<HubName> name_of_folder(std::string_view folder) {
  if (!folder.starts_with(kModelPrefix)) return std::nullopt;
  std::string id(folder.substr(kModelPrefix.size()));
  if (const auto dashes = id.find("--"); dashes != std::string::npos) id.replace(dashes, 2, "/");
  return id.find('@') == std::string::npos ? parse_hub_name(id) : std::nullopt;
}

std::filesystem::path model_place(const HubName& name, const HubCache& cache) {
  return cache.path / (name.organisation.empty()
                           ? fmt::format("{}{}", kModelPrefix, name.name)
                           : fmt::format("{}{}--{}", kModelPrefix, name.organisation, name.name));
}

CachePlaces places_of(const HubName& name, const HubCache& cache) {
  CachePlaces places;
  places.model = model_place(name, cache);
  places.reference = places.model / "refs" / name.revision;
  const auto commit = referenced_commit(places.reference);
  places.snapshot = places.model / "snapshots" / commit.value_or(name.revision);
  return places;
}

}  // namespace hooked
