#include "io/files/open_files.h"

#include <fmt/format.h>

#include "hooked/core/error.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

constexpr std::size_t kOpenFiles = 16;

}  // namespace

std::shared_ptr<const InputFile> OpenFiles::get(std::size_t index, const ClosedFile& closed) {
  const std::lock_guard lock(mutex_);
  for (const auto& [open_index, file] : open_) {
    if (open_index == index) return file;
  }
  auto file = std::make_shared<const InputFile>(InputFile::open(closed.path));
  if (file->stamp() != closed.stamp) {
    throw IoError(
        path_text(closed.path),
        fmt::format("was changed after its header was read; expected {} bytes as then, got {} bytes "
                    "or a later file; load it again",
                    closed.stamp.bytes, file->size()));
  }
  if (open_.size() == kOpenFiles) open_.erase(open_.begin());
  open_.emplace_back(index, file);
  return file;
}

}  // namespace hooked
