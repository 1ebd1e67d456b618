#include "io/files/hub_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <system_error>
#include <utility>

#include "core/json.h"
#include "core/shell_word.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "io/files/path_text.h"
#include "io/files/weight_files.h"

namespace hooked {
namespace {

constexpr std::uint64_t kLongestReference = 4096;
constexpr std::size_t kShortestCommit = 7;  // letters; git and the hub shorten commits to this
constexpr std::string_view kSnapshots = "snapshots";

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

/// The commit that a branch or tag refers to, or nothing if the cache has no such reference.
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

/// Whether `folder` has the revisions of a model, a data set or a space in a hub cache's layout.
bool is_cached_repository(const std::filesystem::path& folder) {
  const std::string name = folder.filename().native();
  const bool named = std::ranges::any_of(
      std::array{kModelPrefix, std::string_view("datasets--"), std::string_view("spaces--")},
      [&](std::string_view prefix) { return name.starts_with(prefix); });
  return named &&
         (is_folder(folder / kSnapshots) || is_folder(folder / "blobs") || is_folder(folder / "refs"));
}

/// The snapshot of the one commit that begins with `start`, or nothing.
std::optional<std::filesystem::path> snapshot_that_begins(const std::filesystem::path& snapshots,
                                                          std::string_view start) {
  if (start.size() < kShortestCommit) return std::nullopt;
  std::optional<std::filesystem::path> found;
  for (const auto& name : names_in(snapshots)) {
    if (!name.starts_with(start) || !is_folder(snapshots / name)) continue;
    if (found) return std::nullopt;
    found = snapshots / name;
  }
  return found;
}

}  // namespace

bool is_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code stopped;
  for (std::filesystem::directory_iterator at(folder, stopped), end; !stopped && at != end;
       at.increment(stopped)) {
    names.push_back(at->path().filename().native());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_path_below(std::string_view text) {
  const std::filesystem::path path(text);
  if (text.empty() || text.size() > 255 || path.is_absolute()) return false;
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '\\'; };
  return std::none_of(text.begin(), text.end(), control) &&
         std::none_of(path.begin(), path.end(),
                      [](const auto& part) { return part.empty() || part == ".." || part == "."; });
}

std::string HubName::model() const {
  return organisation.empty() ? name : fmt::format("{}/{}", organisation, name);
}

std::string HubName::id() const {
  const auto part = [](char mark, const std::string& text) {
    return text.empty() ? std::string() : fmt::format("{}{}", mark, text);
  };
  return fmt::format("{}{}{}", model(), revision == kMainRevision ? "" : part('@', revision),
                     part(':', file));
}

std::optional<HubName> parse_hub_name(std::string_view id) {
  HubName parsed{.organisation = {}, .name = {}, .file = {}};
  // No name and no revision has a colon: Git allows none.
  if (const auto colon = id.find(':'); colon != std::string_view::npos) {
    parsed.file = id.substr(colon + 1);
    id = id.substr(0, colon);
    if (!is_path_below(parsed.file)) return std::nullopt;
  }
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
  if (!is_hub_word(parsed.name) || !is_path_below(parsed.revision)) return std::nullopt;
  return parsed;
}

std::string in_lower_case(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lower;
}

std::optional<HubName> name_of_folder(std::string_view folder) {
  if (!folder.starts_with(kModelPrefix)) return std::nullopt;
  std::string id(folder.substr(kModelPrefix.size()));
  if (const auto dashes = id.find("--"); dashes != std::string::npos) id.replace(dashes, 2, "/");
  return id.find_first_of("@:") == std::string::npos ? parse_hub_name(id) : std::nullopt;
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
  const auto snapshots = places.model / kSnapshots;
  places.snapshot = snapshots / commit.value_or(name.revision);
  if (!commit && !is_folder(places.snapshot)) {
    if (auto whole = snapshot_that_begins(snapshots, name.revision)) places.snapshot = *std::move(whole);
  }
  return places;
}

std::optional<HubName> name_of_snapshot(const std::filesystem::path& folder) {
  std::error_code ignored;
  const auto whole = std::filesystem::weakly_canonical(folder, ignored);
  const auto model = whole.parent_path().parent_path();
  if (whole.parent_path().filename() != kSnapshots) return std::nullopt;
  auto name = name_of_folder(model.filename().native());
  if (!name) return std::nullopt;
  const auto commit = whole.filename().native();
  try {
    if (referenced_commit(model / "refs" / kMainRevision) != commit) name->revision = commit;
  } catch (const Error&) {  // a damaged reference does not refer to this commit
    name->revision = commit;
  }
  return name;
}

void require_outside_hub_cache(const std::filesystem::path& folder, std::string_view where) {
  std::error_code ignored;
  const auto whole = [&](const std::filesystem::path& path) {
    auto made = std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored);
    return made.has_filename() ? made : made.parent_path();  // without a trailing slash
  };
  const auto cache = whole(hub_cache().path);
  for (auto above = whole(folder); above != above.parent_path(); above = above.parent_path()) {
    if (above != cache && !is_cached_repository(above)) continue;
    throw IoError(where,
                  fmt::format("this is inside the Hugging Face cache '{}', which other programs rely on; "
                              "expected a place outside it; choose another",
                              path_text(above == cache ? above : above.parent_path())));
  }
}

std::string download_command(const HubName& name) {
  std::string command = fmt::format("hf download {}", name.model());
  if (name.revision != kMainRevision) command += fmt::format(" --revision {}", shell_word(name.revision));
  if (!name.file.empty()) {
    const std::filesystem::path file(name.file);
    const auto pattern = file.parent_path() / gguf_pattern(file.filename().native());
    command += fmt::format(" --include {}", shell_quoted(path_text(pattern)));
  }
  return command;
}

std::string fetch_command(const std::filesystem::path& folder, std::string_view files) {
  std::error_code ignored;
  const auto whole = std::filesystem::weakly_canonical(folder, ignored);
  for (auto above = whole; above != above.parent_path(); above = above.parent_path()) {
    auto name = name_of_snapshot(above);
    if (!name) continue;
    if (!files.empty())
      name->file = whole == above ? std::string(files) : (whole.lexically_relative(above) / files).native();
    return download_command(*name);
  }
  return {};
}

std::string how_to_fetch(const std::filesystem::path& folder, std::string_view files) {
  const auto command = fetch_command(folder, files);
  return command.empty() ? std::string("again") : fmt::format("with `{}`", command);
}

}  // namespace hooked
