#include "hooked/io/model_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "io/model_files.h"
#include "io/path_text.h"

namespace hooked {
namespace {

constexpr std::uint64_t kLongestReference = 4096;

struct HubName {
  std::string organisation;  ///< empty for the models without one
  std::string name;
  std::string revision;

  std::string cache_folder() const {
    return organisation.empty() ? fmt::format("models--{}", name)
                                : fmt::format("models--{}--{}", organisation, name);
  }
};

/// The hub's own rule for organisation and model names, which also keeps them from leading out of the cache.
bool is_hub_word(std::string_view word) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !word.empty() && word.size() <= 96 && std::all_of(word.begin(), word.end(), allowed) &&
         word.front() != '.' && word.front() != '-' && word.find("..") == std::string_view::npos &&
         word.find("--") == std::string_view::npos;
}

/// Branches may have slashes (`refs/pr/1`); no part may step out of the folder.
bool is_revision(std::string_view revision) {
  const std::filesystem::path path(revision);
  if (revision.empty() || revision.size() > 255 || path.is_absolute()) return false;
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '\\'; };
  return std::none_of(revision.begin(), revision.end(), control) &&
         std::none_of(path.begin(), path.end(),
                      [](const auto& part) { return part.empty() || part == ".." || part == "."; });
}

std::optional<HubName> parse_hub_name(std::string_view id) {
  HubName parsed{.organisation = {}, .name = {}, .revision = "main"};
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

/// The cache folder and the setting that chose it.
struct HubCache {
  std::filesystem::path path;
  std::string chosen_by;
};

HubCache hub_cache() {
  const auto setting = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  for (const auto* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (auto value = setting(name); !value.empty()) return {value, name};
  }
  if (const auto home = setting("HF_HOME"); !home.empty())
    return {std::filesystem::path(home) / "hub", "HF_HOME"};
  if (const auto cache = setting("XDG_CACHE_HOME"); !cache.empty()) {
    return {std::filesystem::path(cache) / "huggingface" / "hub", "XDG_CACHE_HOME"};
  }
  return {std::filesystem::path(setting("HOME")) / ".cache" / "huggingface" / "hub", "HOME"};
}

bool is_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

/// Revisions of a cached model that `@revision` could name: branches and tags, then commits.
std::vector<std::string> cached_revisions(const std::filesystem::path& model) {
  std::vector<std::string> names;
  for (const auto* kind : {"refs", "snapshots"}) {
    std::vector<std::string> found;
    std::error_code stopped;
    for (std::filesystem::directory_iterator at(model / kind, stopped), end; !stopped && at != end;
         at.increment(stopped)) {
      found.push_back(printable(at->path().filename().native()));
    }
    std::sort(found.begin(), found.end());
    names.insert(names.end(), found.begin(), found.end());
  }
  return names;
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

std::filesystem::path locate_model(std::string_view id) {
  const auto where = path_text(id);
  const std::filesystem::path folder(id);
  if (is_folder(folder)) return folder;
  std::error_code ignored;
  if (std::filesystem::exists(folder, ignored)) {
    if (is_tensor_name(folder.filename().native())) return folder;
    throw CheckpointError(where,
                          "is a file; expected a model's folder or a file of tensors (.safetensors, .pt, "
                          ".pth, .bin or .ckpt); give the folder it is in");
  }
  const auto hub_name = parse_hub_name(id);
  if (!hub_name) {
    throw CheckpointError(where,
                          fmt::format("no such folder; expected a folder, or a model of the hub cache as "
                                      "name, org/name or org/name@revision, got '{}'",
                                      where));
  }
  const auto cache = hub_cache();
  const auto model = cache.path / hub_name->cache_folder();
  const auto reference = model / "refs" / hub_name->revision;
  const auto commit = referenced_commit(reference);
  const auto snapshot = model / "snapshots" / commit.value_or(hub_name->revision);
  if (is_folder(snapshot)) return snapshot;

  const auto revisions = cached_revisions(model);
  throw CheckpointError(
      where,
      fmt::format(
          "the model was not found; expected a folder of that name, or '{}' or '{}' (hub cache of {}), got "
          "{}; nothing is downloaded: fetch it first",
          path_text(reference), path_text(snapshot), cache.chosen_by,
          !is_folder(cache.path) ? "no cache there"
          : !is_folder(model)    ? "no such model in the cache"
          : revisions.empty()    ? "no revision of the model"
                                 : fmt::format("only revisions {}", fmt::join(revisions, ", "))));
}

std::filesystem::path folder_of_model(const std::filesystem::path& model) {
  if (is_folder(model)) return model;
  const auto or_here = [](const std::filesystem::path& place) { return place.empty() ? "." : place; };
  const auto has_config = [](const std::filesystem::path& place) { return is_there(place / "config.json"); };
  const auto folder = or_here(model.parent_path());
  const auto above = or_here(folder.parent_path());
  return folder.filename() == kCheckpointsFolder && !has_config(folder) && has_config(above) ? above : folder;
}

}  // namespace hooked
