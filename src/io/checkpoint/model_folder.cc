#include "hooked/io/model_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/json.h"
#include "core/nearest.h"
#include "hooked/core/error.h"
#include "io/checkpoint/model_files.h"
#include "io/files/hub_name.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

constexpr std::size_t kSuggested = 3;

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

/// How far a cached name is from the wanted one: the smaller distance with or without the organisation.
struct Distance {
  bool far;  ///< nobody would mistake one for the other
  std::size_t edits;

  auto operator<=>(const Distance&) const = default;
};

Distance distance(const HubName& wanted, const HubName& cached) {
  const auto name = lower_case(wanted.name);
  const auto other = lower_case(cached.name);
  const auto edits = std::min(edit_distance(name, other),
                              edit_distance(lower_case(wanted.model()), lower_case(cached.model())));
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
    ranked.emplace_back(distance(wanted, *name), model.id);
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

/// Revisions of one model that can be loaded.
std::vector<std::string> revisions(const HubName& wanted, const std::vector<CachedModel>& models) {
  std::vector<std::string> names;
  for (const auto& model : models) {
    const auto name = parse_hub_name(model.id);
    if (name && name->model() == wanted.model() && model.problem.empty())
      names.push_back(printable(name->revision));
  }
  return names;
}

/// What the message says about a folder next to the missing `wanted` whose name is nearly the same.
std::string folder_suggestion(const std::filesystem::path& wanted) {
  const auto name = wanted.filename().string();
  const auto parent = wanted.parent_path();
  std::error_code ignored;
  std::size_t least = std::max<std::size_t>(2, name.size() / 4) + 1;
  std::filesystem::path nearest;
  for (const auto& entry : std::filesystem::directory_iterator(parent.empty() ? "." : parent, ignored)) {
    const auto other = entry.path().filename();
    const auto edits = edit_distance(name, other.string());
    if (edits >= least || !is_folder(entry.path())) continue;
    least = edits;
    nearest = parent / other;
  }
  return nearest.empty() ? std::string() : fmt::format("did you mean the folder '{}'? ", path_text(nearest));
}

[[noreturn]] void throw_not_found(std::string_view where, std::string_view wanted, const HubName& name,
                                  const HubCache& cache, const CachePlaces& places) {
  const auto models = cached_models(cache);
  const auto known = revisions(name, models);
  const auto near = known.empty() ? suggestion(name, models) : std::string();
  throw CheckpointError(
      where,
      fmt::format(
          "the model was not found; {}{}{}expected a folder of that name, or '{}' or '{}' (hub cache of "
          "{}), got {}; nothing is downloaded: fetch it with `{}`",
          folder_suggestion(std::filesystem::path(wanted)), near, near.empty() ? "" : "; ",
          path_text(places.reference), path_text(places.snapshot), cache.chosen_by,
          !is_folder(cache.path)     ? "no cache there"
          : !is_folder(places.model) ? "no such model in the cache"
          : known.empty()            ? "no revision of the model"
                                     : fmt::format("only revisions {}", fmt::join(known, ", ")),
          download_command(name)));
}

}  // namespace

std::filesystem::path locate_model(std::string_view id) {
  const auto where = path_text(id);
  const std::filesystem::path folder(id);
  if (is_folder(folder)) return folder;
  // Also a dangling link: opening it says what is wrong with it.
  if (is_there(folder) && is_tensor_name(folder.filename().native())) return folder;
  std::error_code ignored;
  if (std::filesystem::exists(folder, ignored)) {
    throw CheckpointError(where,
                          "is a file; expected a model's folder or a file of tensors (.safetensors, .gguf, "
                          ".pt, .pth, .bin or .ckpt); give the folder it is in");
  }
  const auto hub_name = parse_hub_name(id);
  if (!hub_name) {
    throw CheckpointError(where,
                          fmt::format("no such folder; {}expected a folder, or a model of the hub cache as "
                                      "name, org/name or org/name@revision, got '{}'",
                                      folder_suggestion(folder), where));
  }
  const auto cache = hub_cache();
  const auto places = places_of(*hub_name, cache);
  if (is_folder(places.snapshot)) return places.snapshot;
  throw_not_found(where, id, *hub_name, cache, places);
}

std::filesystem::path folder_of_model(const std::filesystem::path& model) {
  if (is_folder(model)) return model;
  const auto or_here = [](const std::filesystem::path& place) { return place.empty() ? "." : place; };
  const auto has_config = [](const std::filesystem::path& place) { return is_there(place / "config.json"); };
  const auto folder = or_here(model.parent_path());
  const auto above = or_here(folder.parent_path());
  return folder.filename() == kCheckpointsFolder && !has_config(folder) && has_config(above) ? above : folder;
}

std::string revision_of_model(const std::filesystem::path& model) {
  std::error_code ignored;
  const auto whole = std::filesystem::weakly_canonical(folder_of_model(model), ignored);
  std::string above, before;  // the two names before the one at hand
  for (const auto& part : whole) {
    if (before == "snapshots" && above.starts_with(kModelPrefix) && !part.empty()) return part;
    above = std::exchange(before, part.native());
  }
  return {};
}

}  // namespace hooked
