#include "io/pickle/zip_directory.h"

#include <fmt/format.h>

#include "io/pickle/zip_limits.h"
#include "tests/io/file_bytes.h"
#include "tests/support/pickle_writer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/zip_writer.h"

namespace hooked::zip_directory_test {
namespace {

using Limits = ZipCheckpointLimits;

class Zip : public testing::Test {
 protected:
  ZipDirectory read(std::string_view bytes) {
    put_file(path_, bytes);
    return ZipDirectory::read(InputFile::open(path_));
  }

  void refused(std::string_view bytes, std::initializer_list<std::string_view> parts) {
    put_file(path_, bytes);
    expect_refused<CheckpointError>([&] { ZipDirectory::read(InputFile::open(path_)); }, path_.native(),
                                    parts);
  }
  void refused(const std::vector<ZipMember>& members, std::initializer_list<std::string_view> parts) {
    refused(zip_bytes(members), parts);
  }

  TempFolder folder_;
  std::filesystem::path path_ = folder_ / "f.pt";
};

TEST_F(Zip, FindsEveryEntry) {
  for (const bool zip64 : {false, true}) {
    std::vector<ZipMember> members = {{.name = "m/b", .content = "bytes"},
                                      {.name = "m/a", .content = ""},
                                      {.name = "m/c c", .content = "x"}};
    for (auto& member : members) member.zip64 = zip64;
    const auto bytes = zip_bytes(members, {.before = "", .after = "", .zip64 = zip64});
    const auto directory = read(bytes);
    ASSERT_EQ(directory.entries().size(), 3U);
    EXPECT_EQ(directory.entries()[0].name, "m/a");
    EXPECT_TRUE(directory.has_checksums());
    for (const auto& member : members) {
      const auto* entry = directory.find(member.name);
      ASSERT_NE(entry, nullptr);
      EXPECT_EQ(bytes.substr(entry->begin, entry->bytes), member.content);
    }
    EXPECT_EQ(directory.find("m"), nullptr);
  }
}

TEST_F(Zip, SizesMayStandBehindTheData) {
  // As torch and streaming writers do; the descriptor lies between the entries.
  const std::vector<ZipMember> members = {
      {.name = "m/a", .content = "bytes", .flags = 0x0808, .local_crc = 0, .local_size = 0},
      {.name = "m/b", .content = "x"}};
  EXPECT_EQ(read(zip_bytes(members)).find("m/a")->bytes, 5U);
}

TEST_F(Zip, OtherKindsOfFilesAreRefused) {
  refused("", {"not a zip checkpoint", "the file is empty"});
  refused("P", {"something else"});
  refused(
      "\x80\x02\x8A\nl\xFC\x9C"
      "F\xF9 j\xA8P\x19.",
      {"Python pickle", "torch.save(torch.load(f), f)", "safetensors"});
  std::string tar(1024, '\0');
  tar.replace(257, 5, "ustar");
  refused(tar, {"tar archive", "torch.save(torch.load(f), f)"});
  refused("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1234567\n",
          {"Git LFS pointer of 1,234,567 bytes"});
  refused("<!DOCTYPE html>", {"HTML"});
  refused(safetensors_bytes("{}"), {"looks like a safetensors file"});
  refused("PK\x05\x06" + std::string(18, '\0'), {"not a zip checkpoint"});  // an empty archive
  refused({{.name = "m/code/x.py", .content = "x", .method = 8}}, {"TorchScript", "state_dict()"});
}

TEST_F(Zip, ArchivesCutOffOrFollowedByBytesAreRefused) {
  const auto good = zip_bytes({{.name = "m/a", .content = "bytes"}});
  for (std::size_t length = 4; length < good.size(); ++length) {
    refused(good.substr(0, length), {"end record is not at the end", "cut off"});
  }
  refused(good + "x", {"end record is not at the end", "bytes after it"});
  refused(good + good, {"not where its end record says"});
}

TEST_F(Zip, DataBeforeTheFirstHeaderIsRefused) {
  const std::vector<ZipMember> members = {{.name = "m/a", .content = "bytes"}};
  refused(zip_bytes(members, {.before = "MZ program"}), {"not a zip checkpoint", "from its first byte on"});
  refused("x" + zip_bytes(members), {"not a zip checkpoint"});
  // Even if the bytes before look like an entry.
  const std::string hidden = "PK\x03\x04" + std::string(40, 'x');
  refused(zip_bytes(members, {.before = hidden}), {"before the archive's first entry", "got 44"});
  refused(hidden + zip_bytes(members), {"not where its end record says"});
}

TEST_F(Zip, EncryptedAndCompressedEntriesAreRefused) {
  for (const std::uint16_t flag : {0x0001, 0x0040, 0x2000}) {
    refused({{.name = "m/a", .content = "x", .flags = flag}}, {"zip entry 'm/a'", "encrypted"});
  }
  refused({{.name = "m/a", .content = "x", .flags = 0x20}}, {"patch data"});
  refused({{.name = "m/a", .content = "x", .method = 8}}, {"compressed", "method 8", "torch.save"});
  auto bytes = zip_bytes({{.name = "m/a", .content = "x"}});
  bytes[6] = 1;  // only the local header
  refused(bytes, {"local header says encrypted"});
}

TEST_F(Zip, NamesOutsideTheArchiveAreRefused) {
  for (const std::string name : {"../a", "m/../../a", "m/..", "/etc/passwd", "m\\a", "m/a\n", "", "m/\xFF"}) {
    refused({{.name = name, .content = "x"}}, {"the name is not that of a file inside the archive"});
  }
  refused({{.name = "m/a\x1B[2J", .content = "x"}}, {"\\x1b[2J"});
  EXPECT_EQ(read(zip_bytes({{.name = "..m/a..b/...", .content = "x"}})).entries().size(), 1U);
  refused({{.name = "m/a", .content = "x"}, {.name = "m/b", .content = "y"}, {.name = "m/a", .content = "z"}},
          {"'m/a'", "occurs twice"});
  refused({{.name = "m/a", .content = "x", .local_name = "m/b"}}, {"another name", "'m/b'"});
  refused({{.name = "m/a", .content = "x", .local_name = "m/ab"}}, {"another name"});
}

TEST_F(Zip, SizesAndOffsetsThatDisagreeAreRefused) {
  const auto with = [](ZipMember member) {
    member.name = "m/a";
    member.content = "0123456789";
    return std::vector<ZipMember>{member, {.name = "m/b", .content = "x"}};
  };
  refused(with({.bytes = 11}), {"'m/a'", "overlaps what follows"});
  refused(with({.bytes = 0x7FFFFFFF}), {"overlaps what follows"});
  refused(with({.bytes = 0xFFFFFFFF}), {"zip64 field is too short"});
  refused(with({.directory_size = 9}), {"disagree about its size", "expected 9, got 10"});
  refused(with({.local_size = 9}), {"disagree about its size", "expected 10, got 9"});
  refused(with({.local_size = 0}), {"disagree about its size"});
  refused(with({.local_size = 0xFFFFFFFF}), {"another in the zip64 field"});
  refused(with({.local_crc = 1}), {"disagree about its checksum"});
  refused(with({.header = 3}), {"before the archive's first entry"});
  refused(with({.header = 0xFFFFFF00}), {"begins past the data"});
  refused({{.name = "m/a", .content = "x"}, {.name = "m/b", .content = "x", .header = 0}},
          {"overlaps the next entry"});
  refused({{.name = "m/a", .content = "x"}, {.name = "m/b", .content = "x", .header = 31}},
          {"'m/a'", "another name"});
}

TEST_F(Zip, MalformedEndRecordsAreRefused) {
  const std::vector<ZipMember> members = {{.name = "m/a", .content = "x"}};
  refused(zip_bytes({{.name = std::string(100, 'n')}}, {.entries_more = 1}),
          {"directory is malformed at entry 1"});
  refused(zip_bytes(members, {.zip64 = true, .entries_more = std::uint64_t{1} << 40}), {"too many entries"});
  refused(zip_bytes(members, {.zip64 = true, .entries_more = 1000}), {"smaller than its number of entries"});
  refused(zip_bytes({members[0], members[0]}, {.entries_more = 0xFFFF}), {"bytes follow the zip directory"});
  auto one = zip_bytes(members);
  const auto change = [&](std::size_t from_end, std::string_view bytes, std::string base) {
    return base.replace(base.size() - from_end, bytes.size(), bytes);
  };
  refused(change(18, "\1", one), {"split over several files"});
  refused(change(10, "\xFF", one), {"not where its end record says"});
  refused(change(2, "\1", one), {"end record is not at the end"});  // a comment
  const auto wide = zip_bytes(members, {.zip64 = true});
  refused(change(22 + 20 + 56, "PK\6\7", wide), {"zip64 end record is malformed"});
  refused(change(22 + 20 - 8, "\1", wide), {"zip64 end record is not before its locator"});
  refused(change(22 + 20 + 56 - 48, std::string_view("\0\0", 2), wide), {"not where its end record says"});
  refused(change(22 - 8, std::string_view("\5\0\5\0", 4), wide), {"two end records disagree"});
}

TEST_F(Zip, LimitsAreExact) {
  const auto archive = [](std::size_t count) {
    std::vector<ZipMember> members(count);
    for (std::size_t i = 0; i < count; ++i) members[i].name = fmt::format("m/{}", i);
    return zip_bytes(members, {.zip64 = true});
  };
  EXPECT_EQ(read(archive(Limits::kEntries)).entries().size(), Limits::kEntries);
  refused(archive(Limits::kEntries + 1), {"too many entries", "at most 131072"});
  EXPECT_EQ(read(zip_bytes({{.name = std::string(Limits::kNameBytes, 'n')}})).entries().size(), 1U);
  refused({{.name = std::string(Limits::kNameBytes + 1, 'n')}}, {"too long"});
}

TEST_F(Zip, DirectoryOfTheWholeSparseFileIsNotRead) {
  // The end record claims a directory of 4 GiB; the file has it, as a hole.
  auto bytes = zip_bytes({{.name = "m/a", .content = "x"}});
  const auto end = bytes.substr(bytes.size() - 22);
  constexpr std::uint64_t kBytes = 0xFFFFFFFE;
  put_file(path_, bytes.substr(0, bytes.size() - 22));
  const auto begin = std::filesystem::file_size(path_);
  std::filesystem::resize_file(path_, begin + kBytes);
  auto lie = end;
  for (int i = 0; i < 4; ++i) {
    lie[12 + i] = static_cast<char>(kBytes >> (8 * i));
    lie[16 + i] = static_cast<char>(begin >> (8 * i));
  }
  std::ofstream(path_, std::ios::binary | std::ios::app) << lie;
  expect_refused<CheckpointError>([&] { ZipDirectory::read(InputFile::open(path_)); }, path_.native(),
                                  {"the zip directory is too large"});
}

}  // namespace
}  // namespace hooked::zip_directory_test
