#include "io/files/replaceable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <system_error>

#include "core/json.h"
#include "hooked/core/error.h"
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
                                  "(Overwrite::any)",
                                  kind.name)
                    : fmt::format("there is a file of this name that is not {} written by hooked; expected a "
                                  "new name or such a file; choose another name or allow any file to be "
                                  "replaced (--force, Overwrite::any)",
                                  kind.name));
}

void require_not_read(const std::filesystem::path& file, const std::vector<std::filesystem::path>& read) {
  for (const auto& one : read) {
    std::error_code is_absent;
    if (!std::filesystem::equivalent(file, one, is_absent) || is_absent) continue;
    throw IoError(
        path_text(file),
        fmt::format("this is the file '{}', which is read; expected another one; choose another name",
                    path_text(one)));
  }
}

}  // namespace hooked
