#include "io/files/replaceable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "io/files/hub_name.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

void require_ending(const std::filesystem::path& file, const FileKind& kind) {
  const std::string ending = file.extension().native();
  if (std::ranges::find(kind.endings, ending) != kind.endings.end()) return;
  const std::span all_but_last(kind.endings.data(), kind.endings.size() - 1);
  throw IoError(path_text(file),
                fmt::format("{} cannot be written as '{}'; expected a name that ends in {}{}{}", kind.name,
                            printable(ending), fmt::join(all_but_last, ", "),
                            all_but_last.empty() ? "" : " or ", kind.endings.back()));
}

void require_folder_of(const std::filesystem::path& file) {
  const auto folder = std::filesystem::absolute(file).parent_path();
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw IoError(path_text(file),
                  "the folder of the file is not there; expected an existing one; make it first");
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    throw IoError(path_text(file), fmt::format("cannot create a file in '{}': {}", path_text(folder),
                                               std::generic_category().message(errno)));
  }
  require_outside_hub_cache(folder, path_text(file));
}

bool is_ours(const std::filesystem::path& file, const FileKind& kind) {
  if (kind.is_ours == nullptr) return false;
  try {
    return kind.is_ours(file);
  } catch (const Error&) {
    return false;
  }
}

// The one of `paths` that is the same file or folder, or null.
const std::filesystem::path* same_among(const std::filesystem::path& path,
                                        const std::vector<std::filesystem::path>& paths) {
  const auto found = std::ranges::find_if(paths, [&](const std::filesystem::path& one) {
    std::error_code is_absent;
    return std::filesystem::equivalent(path, one, is_absent) && !is_absent;
  });
  return found == paths.end() ? nullptr : &*found;
}

constexpr std::uint64_t kConfigBytes = std::uint64_t{64} << 20;

[[noreturn]] void throw_not_made(const std::filesystem::path& folder, std::string_view reason) {
  throw IoError(path_text(folder), fmt::format("the folder could not be made ({})", reason));
}

// Whether a config.json has the record that only saving a model writes.
bool is_own_config(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(file, ignored))) return false;
  try {
    const Json config = parse_json(read_text_file(file, kConfigBytes), {.bytes = kConfigBytes});
    if (!config.is_object() || config.value("model_type", Json()) != "hooked_transformer") return false;
    const Json record = config.value("hooked", Json());
    return record.is_object() && record.contains("processing");
  } catch (const std::invalid_argument&) {
    return false;
  } catch (const Error&) {
    return false;
  }
}

void require_not_read_from(const std::filesystem::path& folder, const std::set<std::string>& holds,
                           const ReadFrom& from, std::string_view what) {
  if (const auto* read = same_among(folder, from.folders)) {
    throw IoError(path_text(folder),
                  fmt::format("this is the folder '{}', from which the {} was read; expected another one; "
                              "choose another",
                              path_text(*read), what));
  }
  for (const auto& name : holds) require_not_read(folder / name, from.files);
}

// The nearest existing folder above must allow new entries.
void require_can_be_made(const std::filesystem::path& folder) {
  std::error_code ignored, failed;
  auto above = std::filesystem::absolute(folder, failed);
  if (failed) throw_not_made(folder, failed.message());
  while (!std::filesystem::exists(std::filesystem::symlink_status(above, ignored)) &&
         above != above.parent_path())
    above = above.parent_path();
  if (!std::filesystem::is_directory(above, ignored)) throw_not_made(folder, "Not a directory");
  if (::access(above.c_str(), W_OK | X_OK) != 0)
    throw_not_made(folder, std::generic_category().message(errno));
}

}  // namespace

void require_replaceable(const std::filesystem::path& file, const FileKind& kind, Overwrite overwrite) {
  require_ending(file, kind);
  require_folder_of(file);
  std::error_code ignored;
  const auto there = std::filesystem::status(file, ignored);
  if (!std::filesystem::exists(there)) return;
  if (!std::filesystem::is_regular_file(there)) {
    throw IoError(path_text(file),
                  fmt::format("cannot be replaced; expected a regular file or a new name, got {}",
                              std::filesystem::is_directory(there) ? "a folder" : "a device or a pipe"));
  }
  if (overwrite == Overwrite::any || is_ours(file, kind)) return;
  throw IoError(path_text(file),
                kind.is_ours == nullptr
                    ? fmt::format("there is a file of this name already, and {} does not say who wrote it; "
                                  "expected a new name; choose another or allow any file to be replaced "
                                  "(--force)",
                                  kind.name)
                    : fmt::format("there is a file of this name that is not {} written by hooked; expected a "
                                  "new name or such a file; choose another name or allow any file to be "
                                  "replaced (--force)",
                                  kind.name));
}

void require_not_read(const std::filesystem::path& file, const std::vector<std::filesystem::path>& read) {
  if (const auto* same = same_among(file, read)) {
    throw IoError(
        path_text(file),
        fmt::format("this is the file '{}', which is read; expected another one; choose another name",
                    path_text(*same)));
  }
}

FolderKind native_folder(std::set<std::string> names) {
  return {.holds = "model", .config = kConfigFile, .names = std::move(names), .is_ours = is_own_config};
}

std::set<std::string> require_own_folder(const std::filesystem::path& folder, const FolderKind& kind,
                                         const ReadFrom& from) {
  require_outside_hub_cache(folder, path_text(folder));
  require_can_be_made(folder);
  std::set<std::string> holds;
  std::error_code failed;
  if (std::filesystem::exists(folder, failed)) {
    for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end;
         at.increment(failed))
      holds.insert(at->path().filename().native());
  }
  if (failed) throw IoError(path_text(folder), fmt::format("cannot be listed: {}", failed.message()));
  require_not_read_from(folder, holds, from, kind.holds);
  const std::string config(kind.config);
  const bool own = kind.is_ours(folder / config);
  for (const auto& name : holds) {
    if (AtomicFile::is_partial(name)) continue;
    std::error_code ignored;
    const auto status = std::filesystem::symlink_status(folder / name, ignored);
    if (own && std::filesystem::is_regular_file(status) && (kind.names.contains(name) || name == config))
      continue;
    if (!own && name != config && holds.contains(config)) continue;  // names the most telling file
    throw IoError(path_text(folder),
                  fmt::format("the folder holds '{}', which hooked did not write; expected a new or empty "
                              "folder, or one with nothing but a {} that hooked saved; choose another, or "
                              "move that file",
                              printable(name), kind.holds));
  }
  return holds;
}

OwnFolder::OwnFolder(std::filesystem::path folder, const FolderKind& kind, const ReadFrom& from)
    : folder_(std::move(folder)), config_(kind.config), before_(require_own_folder(folder_, kind, from)) {
  std::error_code failed;
  for (auto above = std::filesystem::absolute(folder_, failed);
       !failed && !std::filesystem::exists(above) && above != above.parent_path();
       above = above.parent_path())
    made_.push_back(above);
  if (!failed) std::filesystem::create_directories(folder_, failed);
  if (failed) throw_not_made(folder_, failed.message());
}

OwnFolder::~OwnFolder() {
  files_.clear();
  std::error_code ignored;
  for (const auto& folder : made_) std::filesystem::remove(folder, ignored);  // if it is empty
}

AtomicFile& OwnFolder::add(const std::string& name) { return files_.emplace_back(folder_ / name); }

void OwnFolder::add(const std::string& name, std::string_view bytes) {
  add(name).write(std::as_bytes(std::span(bytes)));
}

void OwnFolder::commit() {
  for (AtomicFile& file : files_) file.finish();
  const auto remove = [&](const std::string& name) {
    std::error_code failed;
    std::filesystem::remove(folder_ / name, failed);
    if (failed) {
      throw IoError(path_text(folder_ / name),
                    fmt::format("cannot be removed: {}; the folder is not complete", failed.message()));
    }
  };
  if (before_.contains(config_)) remove(config_);
  AtomicFile* config = nullptr;
  for (AtomicFile& file : files_) {
    before_.erase(file.path().filename().native());
    if (file.path().filename() == config_) {
      config = &file;
    } else {
      file.commit();
    }
  }
  before_.erase(config_);
  for (const auto& name : before_) remove(name);
  if (config != nullptr) config->commit();
  made_.clear();
}

}  // namespace hooked
