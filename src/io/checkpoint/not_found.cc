#include "io/checkpoint/not_found.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/json.h"
#include "core/nearest.h"
#include "hooked/core/error.h"
#include "io/files/path_text.h"
#include "io/files/short_names.h"
#include "io/files/weight_files.h"

namespace hooked {
namespace {

constexpr std::size_t kSuggested = 3;

/// How far a cached name is from the wanted one: the smaller distance with or without the organisation.
struct Distance {
  bool far;  ///< nobody would mistake one for the other
  std::size_t edits;

  auto operator<=>(const Distance&) const = default;
};

Distance distance(const HubName& wanted, const HubName& cached) {
  const auto name = in_lower_case(wanted.name);
  const auto other = in_lower_case(cached.name);
  const auto edits = std::min(edit_distance(name, other),
                              edit_distance(in_lower_case(wanted.model()), in_lower_case(cached.model())));
  const bool part = other.find(name) != std::string::npos || name.find(other) != std::string::npos;
  return {.far = !part && edits > std::max<std::size_t>(2, name.size() / 3), .edits = edits};
}

/// What the message says about the models that the cache has, nearest first; empty if it has none.
std::string suggestion(const HubName& wanted, const std::vector<CachedModel>& models) {
  std::vector<std::pair<Distance, std::string>> ranked;
  std::set<std::string> seen;
  for (const auto& model : models) {
    const auto name = parse_hub_name(model.id);
    if (!name || !model.problem.empty() || !seen.insert(name->model()).second) continue;
    ranked.emplace_back(distance(wanted, *name), name->without_file().id());
  }
  if (ranked.empty()) return {};
  std::ranges::stable_sort(ranked, {}, &std::pair<Distance, std::string>::first);
  const bool far = ranked.front().first.far;
  std::vector<std::string> shown;
  for (const auto& [distance, id] : ranked) {
    if (shown.size() < kSuggested && distance.far == far) shown.push_back(fmt::format("'{}'", id));
  }
  if (!far) {
    return fmt::format("the nearest in the cache {} {}", shown.size() == 1 ? "is" : "are",
                       fmt::join(shown, ", "));
  }
  const auto others = ranked.size() - shown.size();
  return fmt::format("the cache holds {}{}", fmt::join(shown, ", "),
                     others > 0 ? fmt::format(" and {} more (`hooked list` shows them)", others) : "");
}

/// Revisions of one model that can be loaded, each once.
std::vector<std::string> revisions(const HubName& wanted, const std::vector<CachedModel>& models) {
  std::vector<std::string> names;
  for (const auto& model : models) {
    const auto name = parse_hub_name(model.id);
    if (!name || name->model() != wanted.model() || !model.problem.empty()) continue;
    const auto revision = printable(name->revision);
    if (std::ranges::find(names, revision) == names.end()) names.push_back(revision);
  }
  return names;
}

/// What the message says about a folder or a file of weights next to the missing `wanted` whose name is
/// nearly the same.
std::string path_suggestion(const std::filesystem::path& wanted) {
  const auto name = wanted.filename().string();
  const auto parent = wanted.parent_path();
  std::size_t least = std::max<std::size_t>(2, name.size() / 4) + 1;
  std::filesystem::path nearest;
  for (const auto& other : names_in(parent.empty() ? "." : parent)) {
    const auto edits = edit_distance(name, other);
    if (edits >= least || !(is_folder(parent / other) || is_tensor_name(other))) continue;
    least = edits;
    nearest = parent / other;
  }
  return nearest.empty() ? std::string()
                         : fmt::format("did you mean the {} '{}'? ", is_folder(nearest) ? "folder" : "file",
                                       path_text(nearest));
}

/// What the message says about a path `org/name/file` if the cache has that model.
std::string file_suggestion(std::string_view path) {
  auto slash = path.find('/');
  if (slash != std::string_view::npos) slash = path.find('/', slash + 1);
  if (slash == std::string_view::npos) return {};
  const auto name = parse_hub_name(fmt::format("{}:{}", path.substr(0, slash), path.substr(slash + 1)));
  return name && is_folder(places_of(*name, hub_cache()).snapshot)
             ? fmt::format("did you mean '{}'? ", path_text(name->id()))
             : std::string();
}

/// The model of the cache that has this whole name, or a short one of it, in that revision.
std::optional<HubName> cached_as(const HubName& whole, const std::vector<CachedModel>& models) {
  for (const auto& model : models) {
    auto name = parse_hub_name(model.id);
    if (!name || !model.problem.empty() || name->revision != whole.revision) continue;
    if (name->model() != whole.model() && whole_name(*name).value_or(*name).model() != whole.model())
      continue;
    name->file = whole.file;
    return name;
  }
  return std::nullopt;
}

[[noreturn]] void throw_short_name(std::string_view id, const HubName& whole,
                                   const std::vector<CachedModel>& models, const HubCache& cache) {
  const auto there = cached_as(whole, models);
  throw CheckpointError(
      path_text(id),
      fmt::format("is a short name as in TransformerLens; {}expected '{}', {}",
                  there ? std::string() : path_suggestion(std::filesystem::path(id)),
                  path_text(there.value_or(whole).id()),
                  there
                      ? std::string("which is in the cache; give that name")
                      : fmt::format("which is not in the hub cache '{}' of {}; nothing is downloaded: fetch "
                                    "it with `{}` and give that name",
                                    path_text(cache.path), cache.chosen_by, download_command(whole))));
}

}  // namespace

void throw_no_path(std::string_view id) {
  const std::filesystem::path path(id);
  const auto near = path_suggestion(path);
  throw CheckpointError(
      path_text(id),
      fmt::format(
          "no such {}; {}expected a folder or a file of a model, or a model of the hub cache as name, "
          "org/name, org/name@revision or org/name:file.gguf",
          is_tensor_name(path.native()) ? "file" : "file or folder",
          near.empty() ? file_suggestion(id) : near));
}

void throw_not_cached(std::string_view id, const HubName& name, const HubCache& cache,
                      const CachePlaces& places) {
  const auto models = cached_models(cache);
  if (const auto whole = whole_name(name)) throw_short_name(id, *whole, models, cache);
  const auto known = revisions(name, models);
  const auto near = known.empty() ? suggestion(name, models) : std::string();
  HubName on_hub = name;
  if (name.organisation.empty()) on_hub.organisation = "ORG";
  throw CheckpointError(
      path_text(id),
      fmt::format(
          "the model was not found; {}{}{}expected a folder of that name, or '{}' or '{}' (hub cache of "
          "{}), got {}; nothing is downloaded: {}fetch it with `{}`",
          path_suggestion(std::filesystem::path(id)), near, near.empty() ? "" : "; ",
          path_text(places.reference), path_text(places.snapshot), cache.chosen_by,
          !is_folder(cache.path)     ? "no cache there"
          : !is_folder(places.model) ? "no such model in the cache"
          : known.empty()            ? "no revision of the model"
                                     : fmt::format("only revisions {}", fmt::join(known, ", ")),
          name.organisation.empty() ? "names on the hub begin with an organisation; " : "",
          download_command(on_hub)));
}

}  // namespace hooked
