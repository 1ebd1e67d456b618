#include "hooked/io/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/name_list.h"
#include "core/nearest.h"
#include "hooked/core/error.h"
#include "io/checkpoint/model_files.h"
#include "io/checkpoint/not_found.h"
#include "io/files/hub_name.h"
#include "io/files/path_text.h"
#include "io/files/weight_files.h"

namespace hooked {
namespace {

/// What locate_model was given, for errors.
struct Given {
  std::string where;
  std::string prefix;  ///< with a file's name after it, it names that file of the folder
};

/// The folder, or its only model if that is a GGUF file.
std::filesystem::path model_in(const std::filesystem::path& folder, const Given& given) {
  const auto gguf = gguf_models_in(folder);
  if (gguf.files.empty() || !gguf.only) return folder;
  if (gguf.files.size() > 1) {
    std::vector<std::string> names;
    for (const auto& file : gguf.files) names.push_back(given.prefix + file.native());
    throw CheckpointError(
        given.where, fmt::format("has {} GGUF models; expected the name of one; give one of {}", names.size(),
                                 name_list(names)));
  }
  const auto file = folder / gguf.files.front();
  if (is_there(file)) return file;
  const auto pattern = gguf_pattern(file.filename().native());
  throw CheckpointError(
      path_text(file),
      fmt::format("the first file of the model is missing; expected all of {}; fetch them {}",
                  path_text(pattern), how_to_fetch(file.parent_path(), pattern)));
}

/// The model at a path, or nothing if nothing is there.
std::optional<std::filesystem::path> model_at(const std::filesystem::path& path, const Given& given) {
  if (is_folder(path)) return model_in(path, given);
  // Also a dangling link: opening it says what is wrong with it.
  if (is_there(path) && is_tensor_name(path.native())) return path;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  if (format_of(path)) return path;
  throw CheckpointError(given.where,
                        "is a file; expected a model's folder or a file of tensors (.safetensors, .gguf, "
                        ".pt, .pth, .bin or .ckpt); give the folder it is in");
}

[[noreturn]] void throw_no_file(const std::filesystem::path& snapshot, const HubName& name,
                                const Given& given) {
  std::vector<std::string> names;
  for (const auto& file : gguf_models_in(snapshot).files) names.push_back(file.native());
  for (auto& file : tensor_files(snapshot)) {
    if (!is_gguf_name(file)) names.push_back(std::move(file));
  }
  throw CheckpointError(
      given.where,
      fmt::format("the cache has no such file of '{}'; expected one of its files of tensors, got {}{}; "
                  "nothing is downloaded: fetch it with `{}`",
                  path_text(name.without_file().id()), names.empty() ? "none" : name_list(names),
                  nearest_text("; the nearest is '{}'", name.file, names), download_command(name)));
}

}  // namespace

std::filesystem::path locate_model(std::string_view id) {
  const auto where = path_text(id);
  const std::filesystem::path path(id);
  if (auto found = model_at(path, {.where = where, .prefix = (path / "").native()})) return *std::move(found);
  const auto name = parse_hub_name(id);
  if (!name) throw_no_path(id);
  const auto cache = hub_cache();
  const auto places = places_of(*name, cache);
  if (!is_folder(places.snapshot)) {
    if (name->file.empty() && is_tensor_name(id)) throw_no_path(id);
    throw_not_cached(id, *name, cache, places);
  }
  if (name->file.empty()) return model_in(places.snapshot, {.where = where, .prefix = name->id() + ":"});
  const Given given{.where = where, .prefix = name->id() + "/"};
  auto found = model_at(places.snapshot / name->file, given);
  if (!found) throw_no_file(places.snapshot, *name, given);
  return *std::move(found);
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
