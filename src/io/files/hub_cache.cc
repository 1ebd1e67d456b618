#include "hooked/io/hub_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <system_error>
#include <utility>

#include "core/json.h"
#include "hooked/core/error.h"
#include "io/files/hub_name.h"
#include "io/files/weight_files.h"

namespace hooked {
namespace {

constexpr auto kSkipUnreadable = std::filesystem::directory_options::skip_permission_denied;

/// Branches and tags, whose names may have slashes, sorted.
std::vector<std::string> references_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code stopped;
  for (std::filesystem::recursive_directory_iterator at(folder, kSkipUnreadable, stopped), end;
       !stopped && at != end; at.increment(stopped)) {
    std::error_code ignored;
    if (!at->is_directory(ignored)) names.push_back(at->path().lexically_relative(folder).native());
  }
  std::sort(names.begin(), names.end());
  return names;
}

CachedModel referenced(const HubName& name, const HubCache& cache) {
  CachedModel model{.id = name.id(), .commit = {}, .folder = {}, .file = {}, .problem = {}};
  try {
    const auto places = places_of(name, cache);
    const bool there = is_folder(places.snapshot);
    model.commit = places.snapshot.filename().native();
    model.folder = there ? places.snapshot : places.model;
    if (!there) model.problem = fmt::format("the files of commit {} are not in the cache", model.commit);
  } catch (const Error& error) {
    model.folder = model_place(name, cache);
    model.problem = fmt::format("refs/{}: {}", printable(name.revision), error.message());
  }
  return model;
}

/// Adds the models of a revision. One without other weights and with one GGUF model needs no file's name.
void add_models(const CachedModel& revision, std::vector<CachedModel>& models) {
  const auto gguf = revision.problem.empty() ? gguf_models_in(revision.folder) : GgufModels{};
  const bool several = gguf.files.size() > 1;
  if (!gguf.only || !several) models.push_back(revision);
  if (gguf.only && !several) return;
  for (const auto& file : gguf.files) {
    models.push_back(revision);
    models.back().id += ":" + file.native();
    models.back().file = file;
  }
}

void add_revisions(const HubName& name, const HubCache& cache, std::vector<CachedModel>& models) {
  const auto folder = model_place(name, cache);
  const auto first = models.size();
  const auto revision = [&](std::string_view text) {
    HubName named = name;
    named.revision = text;
    return named;
  };
  std::set<std::string> named_commits;
  for (const auto& reference : references_in(folder / "refs")) {
    if (!is_path_below(reference)) continue;
    const auto named = referenced(revision(reference), cache);
    add_models(named, models);
    named_commits.insert(named.commit);
  }
  for (const auto& commit : names_in(folder / "snapshots")) {
    const auto snapshot = folder / "snapshots" / commit;
    if (named_commits.contains(commit) || !is_path_below(commit) || !is_folder(snapshot)) continue;
    add_models({.id = revision(commit).id(), .commit = commit, .folder = snapshot, .file = {}, .problem = {}},
               models);
  }
  if (models.size() > first) return;
  models.push_back({.id = name.id(),
                    .commit = {},
                    .folder = folder,
                    .file = {},
                    .problem = "no revision of it is in the cache; its download was not finished"});
}

}  // namespace

HubCache hub_cache() {
  const auto setting = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    const char* home = std::getenv("HOME");
    const std::string text = value == nullptr ? "" : value;
    // A quoted `~` reaches the program as it is; huggingface_hub reads it as the home folder, too.
    const bool from_home = text == "~" || text.starts_with("~/");
    return from_home && home != nullptr ? home + text.substr(1) : text;
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

std::vector<CachedModel> cached_models(const HubCache& cache) {
  std::vector<CachedModel> models;
  for (const auto& folder : names_in(cache.path)) {
    if (!folder.starts_with(kModelPrefix)) continue;
    if (const auto name = name_of_folder(folder)) {
      add_revisions(*name, cache, models);
    } else {
      models.push_back({.id = printable(folder),
                        .commit = {},
                        .folder = cache.path / folder,
                        .file = {},
                        .problem = "no model of the hub has such a name"});
    }
  }
  std::ranges::stable_sort(models, {}, &CachedModel::id);
  return models;
}

std::uint64_t stored_bytes(const CachedModel& model) {
  std::set<std::filesystem::path> counted;
  std::uint64_t bytes = 0;
  const auto count = [&](const std::filesystem::path& link) {
    std::error_code problem;
    const auto file = std::filesystem::canonical(link, problem);
    if (problem || !std::filesystem::is_regular_file(file, problem) || !counted.insert(file).second) return;
    const auto size = std::filesystem::file_size(file, problem);
    if (!problem) bytes += size;
  };
  if (!model.file.empty()) {
    for (const auto& file : gguf_files_of(model.path())) count(file);
    return bytes;
  }
  std::error_code stopped;
  for (std::filesystem::recursive_directory_iterator at(model.folder, kSkipUnreadable, stopped), end;
       !stopped && at != end; at.increment(stopped)) {
    count(at->path());
  }
  return bytes;
}

}  // namespace hooked
