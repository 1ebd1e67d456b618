#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "hooked/io/hub_cache.h"

namespace hooked {

// The layout of the Hugging Face cache, https://huggingface.co/docs/huggingface_hub/guides/manage-cache: only
// this and hub_cache.cc know it. Nothing in them needs LibTorch, because the program's launcher lists names.

/// The revision that a name without one means.
inline constexpr std::string_view kMainRevision = "main";

/// What the folders of models in the cache begin with.
inline constexpr std::string_view kModelPrefix = "models--";

/// A model's name on the hub, taken apart.
struct HubName {
  std::string organisation;  ///< empty for the models without one
  std::string name;
  std::string revision{kMainRevision};

  /// `org/name`, or `name`.
  std::string model() const;
  /// `model()`, and `@revision` unless that is main: as locate_model takes it.
  std::string id() const;
};

/// `name`, `org/name` or either with `@revision`; nothing for what the hub's rules do not allow, which also
/// keep a name from leading out of the cache.
std::optional<HubName> parse_hub_name(std::string_view id);

/// The model whose folder has that name, or nothing where no model is kept under it.
std::optional<HubName> name_of_folder(std::string_view folder);

/// Whether a branch, tag or commit can have that name.
bool is_revision(std::string_view revision);

/// Where the files of a name are, if the cache has them.
struct CachePlaces {
  std::filesystem::path model;      ///< all revisions
  std::filesystem::path reference;  ///< the file that names the revision's commit, for branches and tags
  std::filesystem::path snapshot;   ///< the revision's files
};

/// A commit may be shortened, to seven letters or more, where the cache has one that begins so.
/// Throws CheckpointError for a reference that is damaged.
CachePlaces places_of(const HubName& name, const HubCache& cache);

/// The folder of all revisions of a model.
std::filesystem::path model_place(const HubName& name, const HubCache& cache);

/// The model whose snapshot `folder` is (`models--org--name/snapshots/COMMIT`), with `main` for its revision
/// where the cache says that main is this commit, else the commit; nothing for a folder elsewhere.
std::optional<HubName> name_of_snapshot(const std::filesystem::path& folder);

/// Throws IoError about `where` if `folder`, which need not be there yet, is a hub cache or leads into one,
/// through whatever links: the cache that models are looked up in, or a `models--org--name` with the layout
/// of one elsewhere.
void require_outside_hub_cache(const std::filesystem::path& folder, std::string_view where);

/// What a user types to download the model: `hf download org/name --revision v1.0`.
std::string download_command(const HubName& name);

/// What a user types to download what belongs into `folder`, which is a snapshot or lies in one; with a
/// pattern of files of that folder, those only. Empty for a folder elsewhere.
std::string fetch_command(const std::filesystem::path& folder, std::string_view files = {});

/// `with` and that command; `again` where there is none. Both go on from `fetch it`.
std::string how_to_fetch(const std::filesystem::path& folder, std::string_view files = {});

}  // namespace hooked
