#include "harvest/share_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "hooked/core/error.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

constexpr std::string_view kLockEnding = ".lock";

// Whether the path still names the file that is open: its last owner removes it.
bool is_still(const std::filesystem::path& file, int descriptor) {
  struct stat opened {
  }, named{};
  return fstat(descriptor, &opened) == 0 && stat(file.c_str(), &named) == 0 && opened.st_ino == named.st_ino;
}

}  // namespace

bool is_share_lock(std::string_view name) {
  return name.starts_with("share-") && name.ends_with(kLockEnding);
}

ShareLock::ShareLock(const std::filesystem::path& folder, const UnitShare& share)
    : file_(folder / fmt::format("share-{}-of-{}{}", share.index, share.of, kLockEnding)) {
  for (;;) {
    descriptor_ = open(file_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    if (descriptor_ < 0)
      throw IoError(path_text(file_),
                    fmt::format("cannot be created: {}", std::generic_category().message(errno)));
    if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      const int problem = errno;
      close(descriptor_);
      if (problem == EWOULDBLOCK) {
        throw IoError(path_text(folder),
                      fmt::format("another process works on share {} of {} of this harvest; expected one "
                                  "process for each share; --units K/N gives another",
                                  share.index, share.of));
      }
      throw IoError(path_text(file_),
                    fmt::format("cannot be locked: {}", std::generic_category().message(problem)));
    }
    if (is_still(file_, descriptor_)) return;
    close(descriptor_);
  }
}

ShareLock::~ShareLock() {
  unlink(file_.c_str());
  close(descriptor_);
}

}  // namespace hooked
