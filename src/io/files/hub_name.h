#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/io/hub_cache.h"

namespace hooked {

// The layout of the Hugging Face cache, https://huggingface.co/docs/huggingface_hub/guides/manage-cache: only
// this and hub_cache.cc know it. Nothing in them needs LibTorch, because the program's launcher lists names.

/// The revision of a name that states none.
inline constexpr std::string_view kMainRevision = "main";

/// The prefix of models' folders in the cache.
inline constexpr std::string_view kModelPrefix = "models--";

/// A model's name on the hub, in its parts.
struct HubName {
  std::string organisation;  ///< empty for the models without one
  std::string name;
  std::string revision{kMainRevision};
  std::string file;  ///< the path of one of the revision's files; empty for the model of all

  /// `org/name`, or `name`.
  std::string model() const;
  /// `model()`, `@revision` unless that is main, and `:file` if there is one: as locate_model takes it.
  std::string id() const;
  /// The same name without a file.
  HubName without_file() const { return {organisation, name, revision, {}}; }
};

/// `name` or `org/name`, with `@revision` and `:file` if wanted; nothing for what the hub's rules do not
/// allow. Those rules also keep a name from leading out of the cache.
std::optional<HubName> parse_hub_name(std::string_view id);

/// A name in lower case. The hub has no two names that differ in case alone.
std::string in_lower_case(std::string_view name);

/// The model whose folder has that name, or nothing if it is not the name of a model's folder.
std::optional<HubName> name_of_folder(std::string_view folder);

/// Whether a text is a relative path of at most 255 bytes with no part that leads out of its folder: only
/// such names do branches, tags, commits and files have here.
bool is_path_below(std::string_view revision);

/// Where the files of a name are, if they are in the cache.
struct CachePlaces {
  std::filesystem::path model;      ///< all revisions
  std::filesystem::path reference;  ///< the file that names the revision's commit, for branches and tags
  std::filesystem::path snapshot;   ///< the revision's files
};

/// A commit may be shortened to seven or more letters if the cache has one that begins with them. Throws
/// CheckpointError for a reference that is damaged.
CachePlaces places_of(const HubName& name, const HubCache& cache);

/// The folder of all revisions of a model.
std::filesystem::path model_place(const HubName& name, const HubCache& cache);

/// The model whose snapshot `folder` is (`models--org--name/snapshots/COMMIT`). Its revision is `main` if the
/// cache says that main is this commit, else the commit. Nothing for a folder elsewhere.
std::optional<HubName> name_of_snapshot(const std::filesystem::path& folder);

/// Throws IoError about `where` if `folder`, which need not exist yet, is a hub cache or leads into one,
/// through whatever links: the cache that models are looked up in, or a `models--org--name` elsewhere with
/// the layout of a cache.
void require_outside_hub_cache(const std::filesystem::path& folder, std::string_view where);

/// What a user types to download the model, or its file: `hf download org/name --revision v1.0`.
std::string download_command(const HubName& name);

/// What a user types to download what belongs in `folder`, which is a snapshot or is inside one; with a
/// pattern of that folder's files, only those. Empty for a folder elsewhere.
std::string fetch_command(const std::filesystem::path& folder, std::string_view files = {});

/// `with` and that command; `again` if there is none. Both continue a message that ends in `fetch it`.
std::string how_to_fetch(const std::filesystem::path& folder, std::string_view files = {});

/// Whether that is a folder, or a link to one.
bool is_folder(const std::filesystem::path& path);

/// Sorted names of a folder's entries; none if it cannot be read.
std::vector<std::string> names_in(const std::filesystem::path& folder);

}  // namespace hooked
