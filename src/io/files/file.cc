#include "hooked/io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "hooked/core/error.h"
#include "io/files/atomic_file.h"
#include "io/files/foreign_kind.h"
#include "io/files/hub_name.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

// Linux moves at most 0x7ffff000 bytes in one call; a round number below it keeps partial transfers rare.
constexpr std::size_t kLargestTransfer = std::size_t{1} << 30;

// What comes before and after the unique part of a temporary name.
constexpr std::string_view kPartialStart = ".hooked-", kPartialEnd = ".partial";

std::string reason_text(int code) { return std::generic_category().message(code); }

std::string_view kind_text(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "no regular file";
}

FileStamp stamp_of(const struct stat& status) {
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .bytes = static_cast<std::uint64_t>(status.st_size),
          .changed_s = status.st_mtim.tv_sec,
          .changed_ns = status.st_mtim.tv_nsec};
}

[[noreturn]] void throw_not_regular(const std::filesystem::path& path, mode_t mode) {
  throw IoError(path_text(path),
                fmt::format("cannot be read as a file; expected a regular file, got {}", kind_text(mode)));
}

[[noreturn]] void throw_open_failed(const std::filesystem::path& path, int code) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode)) {
    std::error_code ignored;
    const auto target = std::filesystem::read_symlink(path, ignored);
    if (code == ENOENT) {
      const auto folder = path.parent_path();
      throw IoError(
          path_text(path),
          fmt::format("cannot open: the symbolic link leads to '{}', which does not exist{}",
                      path_text(target),
                      name_of_snapshot(folder) ? fmt::format("; fetch it {}", how_to_fetch(folder)) : ""));
    }
    if (code == ELOOP) {
      throw IoError(
          path_text(path),
          fmt::format("cannot open: the symbolic link to '{}' leads back to itself", path_text(target)));
    }
  }
  // open() has its own codes for sockets and for devices without a driver; say what the thing is instead.
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) throw_not_regular(path, status.st_mode);
  throw IoError(path_text(path), fmt::format("cannot open: {}", reason_text(code)));
}

}  // namespace

InputFile InputFile::open(const std::filesystem::path& path) {
  InputFile file;
  file.path_ = path;
  do {  // O_NONBLOCK: a named pipe without a writer would otherwise hang the open
    file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  } while (file.descriptor_ < 0 && errno == EINTR);
  if (file.descriptor_ < 0) throw_open_failed(path, errno);
  struct stat status {};
  if (::fstat(file.descriptor_, &status) != 0) throw_open_failed(path, errno);
  if (!S_ISREG(status.st_mode)) throw_not_regular(path, status.st_mode);
  file.stamp_ = stamp_of(status);
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept { *this = std::move(other); }

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(stamp_, other.stamp_);
  return *this;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> into) const {
  for (std::size_t done = 0; done < into.size();) {
    const auto wanted = std::min(into.size() - done, kLargestTransfer);
    const auto got = ::pread(descriptor_, into.data() + done, wanted, static_cast<off_t>(offset + done));
    if (got < 0) {
      if (errno == EINTR) continue;
      throw IoError(path_text(path_), fmt::format("reading {} bytes at byte {} failed: {}", wanted,
                                                  offset + done, reason_text(errno)));
    }
    if (got == 0) {
      throw IoError(
          path_text(path_),
          fmt::format("the file ends at byte {}; expected {} bytes from byte {} on, as when it was opened "
                      "({} bytes); was it replaced while in use?",
                      offset + done, into.size(), offset, size()));
    }
    done += static_cast<std::size_t>(got);
  }
  check_unchanged();  // afterwards, so that a change before or during the read is seen
}

std::shared_ptr<const std::byte> InputFile::map() const {
  const auto bytes = static_cast<std::size_t>(size());
  if (bytes == 0) return nullptr;
  void* const start = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor_, 0);
  if (start == MAP_FAILED) {
    throw IoError(path_text(path_), fmt::format("mapping {} bytes failed: {}", bytes, reason_text(errno)));
  }
  std::shared_ptr<const std::byte> mapped(static_cast<const std::byte*>(start),
                                          [start, bytes](const std::byte*) { ::munmap(start, bytes); });
  ::madvise(start, bytes, MADV_HUGEPAGE);  // only a hint: some file systems keep files on large pages
  check_unchanged();
  return mapped;
}

void InputFile::check_unchanged() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) {
    throw IoError(path_text(path_), fmt::format("cannot be examined: {}", reason_text(errno)));
  }
  if (stamp_of(status) != stamp_) {
    throw IoError(
        path_text(path_),
        fmt::format("was changed while in use; expected {} bytes as when it was opened, got {} bytes now; "
                    "load it again",
                    size(), status.st_size));
  }
}

std::string read_text_file(const std::filesystem::path& path, std::uint64_t limit) {
  const auto file = InputFile::open(path);
  if (file.size() > limit) {
    throw CheckpointError(
        path_text(path),
        fmt::format("the file is too large; expected at most {} bytes, got {}", limit, file.size()));
  }
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  if (const auto pointer = git_lfs_pointer(text); !pointer.empty())
    throw CheckpointError(path_text(path), pointer);
  return text;
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(bytes)));
  file.commit();
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code ignored;
  if (!path_.has_filename() ||
      std::filesystem::is_directory(std::filesystem::symlink_status(path_, ignored))) {
    throw IoError(path_text(path_), "cannot be written; expected a file's name, got a folder");
  }
  struct stat status {};
  if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    throw IoError(path_text(path_),
                  fmt::format("cannot be replaced; expected a regular file or a new name, got {}",
                              kind_text(status.st_mode)));
  }
  folder_ = path_.has_parent_path() ? path_.parent_path() : std::filesystem::path(".");
  for (unsigned attempt = 0; descriptor_ < 0; ++attempt) {
    // The name does not grow with the destination's, which may be as long as the file system allows.
    partial_ = folder_ / fmt::format("{}{}-{:x}-{}{}", kPartialStart, ::getpid(),
                                     reinterpret_cast<std::uintptr_t>(this), attempt, kPartialEnd);
    descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST && errno != EINTR) {
      const auto code = errno;
      partial_.clear();
      throw IoError(path_text(path_),
                    fmt::format("cannot create a file in '{}': {}", path_text(folder_), reason_text(code)));
    }
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!partial_.empty()) ::unlink(partial_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto wanted = std::min(bytes.size(), kLargestTransfer);
    const auto put = ::write(descriptor_, bytes.data(), wanted);
    if (put < 0) {
      if (errno == EINTR) continue;
      throw IoError(path_text(path_),
                    fmt::format("writing {} bytes at byte {} failed: {}; the destination is unchanged",
                                bytes.size(), written_, reason_text(errno)));
    }
    written_ += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

void AtomicFile::fail(std::string_view step) const {
  throw IoError(path_text(path_),
                fmt::format("{} of {} bytes failed: {}", step, written_, reason_text(errno)));
}

bool AtomicFile::is_partial(std::string_view name) {
  return name.starts_with(kPartialStart) && name.ends_with(kPartialEnd);
}

void AtomicFile::finish() {
  if (descriptor_ < 0) return;
  if (::fsync(descriptor_) != 0) fail("flushing to disk");
  // The descriptor is gone after close() whatever it returns, so it is given up first.
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("closing");
}

void AtomicFile::commit() {
  finish();
  if (::rename(partial_.c_str(), path_.c_str()) != 0) fail("putting the finished file in place");
  partial_.clear();
  const auto folder = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) {
    // A folder that may be written but not read cannot be flushed; the file itself is whole.
    if (errno == EACCES) return;
    fail("opening the folder");
  }
  const auto flushed = ::fsync(folder);
  const auto code = errno;
  ::close(folder);
  errno = code;
  // Some network and FUSE file systems have no fsync for folders and say so with these codes.
  if (flushed != 0 && code != EINVAL && code != ENOTSUP) fail("flushing the folder after writing");
}

}  // namespace hooked
