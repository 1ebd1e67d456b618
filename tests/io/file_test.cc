#include "hooked/io/file.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/io/file_bytes.h"
#include "tests/support/temp_folder.h"

namespace hooked::file_test {
namespace {

std::string read_all(const std::filesystem::path& path) { return read_text_file(path, 1000); }

TEST(InputFile, ReadsAnyPart) {
  const TempFolder folder;
  put_file(folder / "a", "0123456789");
  const auto file = InputFile::open(folder / "a");
  EXPECT_EQ(file.size(), 10U);
  std::string part(4, ' ');
  file.read(3, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "3456");
}

TEST(InputFile, EndsBeforeTheBytesWanted) {
  const TempFolder folder;
  const auto path = folder / "a";
  put_file(path, "0123456789");
  const auto file = InputFile::open(path);
  std::string part(4, ' ');
  expect_refused<IoError>([&] { file.read(8, std::as_writable_bytes(std::span(part))); }, path.native(),
                          {"ends at byte 10", "expected 4 bytes from byte 8"});
}

TEST(InputFile, ShortenedOrChangedWhileOpen) {  // S23
  const TempFolder folder;
  const auto path = folder / "a";
  std::string part(10, ' ');
  put_file(path, "0123456789");
  const auto shortened = InputFile::open(path);
  std::filesystem::resize_file(path, 5);
  expect_refused<IoError>([&] { shortened.read(0, std::as_writable_bytes(std::span(part))); }, path.native(),
                          {"ends at byte 5", "10 bytes"});
  const auto grown = InputFile::open(path);
  std::filesystem::resize_file(path, 20);
  expect_refused<IoError>([&] { grown.read(0, std::as_writable_bytes(std::span(part).first(5))); },
                          path.native(), {"was changed", "expected 5 bytes", "got 20 bytes"});
}

TEST(InputFile, ReplacedByNameKeepsTheOldBytes) {  // S23
  const TempFolder folder;
  put_file(folder / "a", "old bytes!");
  const auto file = InputFile::open(folder / "a");
  write_file(folder / "a", "new bytes!");
  std::string part(10, ' ');
  file.read(0, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "old bytes!");
}

TEST(InputFile, MapsTheBytesOfTheFileThatWasOpened) {
  const TempFolder folder;
  put_file(folder / "a", "old bytes!");
  std::shared_ptr<const std::byte> mapped;
  {
    const auto file = InputFile::open(folder / "a");
    mapped = file.map();
    write_file(folder / "a", "new bytes!");
  }
  EXPECT_EQ(std::memcmp(mapped.get(), "old bytes!", 10), 0);
  put_file(folder / "empty", "");
  EXPECT_EQ(InputFile::open(folder / "empty").map(), nullptr);
}

TEST(InputFile, DoesNotMapAFileThatWasChanged) {
  const TempFolder folder;
  const auto path = folder / "a";
  put_file(path, "0123456789");
  const auto file = InputFile::open(path);
  std::filesystem::resize_file(path, 5);
  expect_refused<IoError>([&] { file.map(); }, path.native(), {"was changed", "expected 10 bytes"});
}

TEST(InputFile, FollowsSymbolicLinks) {  // I2
  const TempFolder folder;
  std::filesystem::create_directory(folder / "blobs");
  std::filesystem::create_directory(folder / "snapshot");
  put_file(folder / "blobs/abc", "text");
  std::filesystem::create_symlink("../blobs/abc", folder / "snapshot/link");
  EXPECT_EQ(read_all(folder / "snapshot/link"), "text");
}

TEST(InputFile, RefusesWhatIsNoRegularFile) {  // I3; a pipe or /dev/zero must not hang
  const TempFolder folder;
  const auto refused = [&](const std::filesystem::path& path, std::initializer_list<std::string_view> parts) {
    expect_refused<IoError>([&] { read_all(path); }, path.native(), parts);
  };
  refused(folder / "absent", {"cannot open", "No such file"});
  refused(folder.path(), {"expected a regular file", "a folder"});
  refused("/dev/zero", {"expected a regular file", "a device"});

  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  refused(folder / "pipe", {"expected a regular file", "a named pipe"});

  std::filesystem::create_symlink("nowhere", folder / "dangling");
  refused(folder / "dangling", {"symbolic link leads to 'nowhere'", "does not exist"});
  std::filesystem::create_symlink("loop", folder / "loop");
  refused(folder / "loop", {"symbolic link to 'loop' leads back"});

  const auto previous = std::filesystem::current_path();  // a socket's path is short, the folder's may not be
  std::filesystem::current_path(folder.path());
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, "socket");
  const auto bound = ::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address);
  std::filesystem::current_path(previous);
  ASSERT_EQ(bound, 0);
  refused(folder / "socket", {"expected a regular file", "a socket"});
  ::close(listener);
}

TEST(InputFile, RefusesWhatMayNotBeRead) {  // I3
  const TempFolder folder;
  put_file(folder / "secret", "x");
  ::chmod((folder / "secret").c_str(), 0);
  if (::geteuid() == 0) {  // root may read everything
    EXPECT_EQ(read_all(folder / "secret"), "x");
    return;
  }
  expect_refused<IoError>([&] { read_all(folder / "secret"); }, (folder / "secret").native(),
                          {"Permission denied"});
}

TEST(ReadTextFile, LimitIsExact) {
  const TempFolder folder;
  const auto path = folder / "a";
  for (const std::size_t bytes : {0U, 99U, 100U}) {
    put_file(path, std::string(bytes, 'x'));
    EXPECT_EQ(read_text_file(path, 100), std::string(bytes, 'x'));
  }
  put_file(path, std::string(101, 'x'));
  expect_refused<CheckpointError>([&] { read_text_file(path, 100); }, path.native(),
                                  {"at most 100 bytes", "got 101"});
}

TEST(ReadTextFile, HugeFileIsRefusedWithoutReadingIt) {  // C1: a config of 1 GB
  const TempFolder folder;
  put_file(folder / "a", "");
  std::filesystem::resize_file(folder / "a", 1'000'000'000'000);
  expect_refused<CheckpointError>([&] { read_text_file(folder / "a", 1 << 20); }, (folder / "a").native(),
                                  {"at most 1048576 bytes", "got 1000000000000"});
}

TEST(ReadTextFile, GitLfsPointersAreRefused) {  // S24
  const TempFolder folder;
  const auto path = folder / "chat_template.jinja";
  put_file(path, "version https://git-lfs.github.com/spec/v1\noid sha256:01\nsize 390660192\n");
  expect_refused<CheckpointError>([&] { read_text_file(path, 1000); }, path.native(),
                                  {"this is a Git LFS pointer of 390,660,192 bytes; fetch the real file"});
  put_file(path, "version 2 of https://git-lfs.github.com/spec/v1");
  EXPECT_EQ(read_text_file(path, 1000).substr(0, 9), "version 2");
}

TEST(WriteFile, ReplacesAndLeavesNothingBehind) {
  const TempFolder folder;
  write_file(folder / "a", "first");
  EXPECT_EQ(file_bytes(folder / "a"), "first");
  write_file(folder / "a", "");
  EXPECT_EQ(file_bytes(folder / "a"), "");
  const std::string name(255, 'n');  // as long as a name may be: the temporary file's must not be longer
  write_file(folder / name, "long");
  EXPECT_EQ(names_left_in(folder.path()), (std::set<std::string>{"a", name}));
}

TEST(WriteFile, ReplacesALinkAndNotItsTarget) {
  const TempFolder folder;
  put_file(folder / "blob", "blob");
  std::filesystem::create_symlink("blob", folder / "link");
  write_file(folder / "link", "mine");
  EXPECT_EQ(file_bytes(folder / "blob"), "blob");
  EXPECT_EQ(file_bytes(folder / "link"), "mine");
}

TEST(WriteFile, RefusesBadDestinations) {  // W1
  const TempFolder folder;
  std::filesystem::create_directory(folder / "sub");
  const auto refused = [&](const std::filesystem::path& path, std::initializer_list<std::string_view> parts) {
    expect_refused<IoError>([&] { write_file(path, "x"); }, path.native(), parts);
  };
  refused(folder / "sub", {"expected a file's name, got a folder"});
  ASSERT_EQ(::mkfifo((folder / "sub/pipe").c_str(), 0600), 0);
  refused(folder / "sub/pipe", {"cannot be replaced", "expected a regular file", "got a named pipe"});
  refused(folder / "absent" / "a", {"cannot create", "No such file"});
  refused(folder / std::string(256, 'n'), {"File name too long"});
  EXPECT_EQ(names_left_in(folder.path()), std::set<std::string>{"sub"});
}

TEST(WriteFile, FailedWriteLeavesTheOldFile) {  // a full disk, simulated by a limit on file sizes
  const TempFolder folder;
  const auto path = folder / "a";
  write_file(path, "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_refused<IoError>(
      [&] { write_file(path, std::string(5000, 'x')); }, path.native(),
      {"writing 4000 bytes at byte 1000 failed", "File too large", "destination is unchanged"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(file_bytes(path), "old");
  EXPECT_EQ(names_left_in(folder.path()), std::set<std::string>{"a"});
  write_file(path, "new");
  EXPECT_EQ(file_bytes(path), "new");
}

}  // namespace
}  // namespace hooked::file_test
