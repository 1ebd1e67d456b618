#include "io/pickle/zip_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "core/json.h"
#include "core/utf8.h"
#include "hooked/core/error.h"
#include "io/files/foreign_kind.h"
#include "io/files/number_codes.h"
#include "io/files/path_text.h"
#include "io/pickle/zip_limits.h"

namespace hooked {
namespace {

// Sizes in bytes of the archive's structures without their names, extra fields and comments.
constexpr std::uint64_t kLocalBytes = 30;
constexpr std::uint64_t kCentralBytes = 46;
constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint64_t kEnd64Bytes = 56;
constexpr std::uint64_t kLocatorBytes = 20;

constexpr std::string_view kLocalMark = "PK\x03\x04";
constexpr std::string_view kCentralMark = "PK\x01\x02";
constexpr std::string_view kEndMark = "PK\x05\x06";
constexpr std::string_view kEnd64Mark = "PK\x06\x06";
constexpr std::string_view kLocatorMark = "PK\x06\x07";

constexpr std::uint64_t kIn64 = 0xFFFFFFFF;  // value of a 32-bit field that means: see the zip64 record
constexpr std::uint64_t kIn64Short = 0xFFFF;

constexpr std::uint64_t kEncryptedFlags = 0x0001 | 0x0040 | 0x2000;
constexpr std::uint64_t kPatchFlag = 0x0020;
/// Then local headers have no sizes: these are after the data, and in the directory.
constexpr std::uint64_t kSizesLaterFlag = 0x0008;

/// Why a name is not one of a file inside the archive, or empty.
std::string_view bad_entry_name(std::string_view name) {
  if (name.empty()) return "it is empty";
  if (name.size() > ZipCheckpointLimits::kNameBytes) return "it is too long";
  if (name.front() == '/') return "it is absolute";
  if (name.find('\\') != std::string_view::npos) return "it has a backslash";
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::any_of(name.begin(), name.end(), control)) return "it has a control character";
  if (first_invalid_byte(name)) return "it is not UTF-8";
  for (std::size_t from = 0; from <= name.size();) {
    const auto to = std::min(name.find('/', from), name.size());
    if (name.substr(from, to - from) == "..") return "it leads out of the archive";
    from = to + 1;
  }
  return {};
}

/// Of all archives that torch writes, only those of torch.jit have compressed entries: their code.
[[noreturn]] void throw_torch_script(std::string_view where) {
  throw CheckpointError(where,
                        "this is a TorchScript archive, which holds code; expected a state dict; save it as "
                        "torch.save(torch.jit.load(f).state_dict(), f)");
}

/// The zip64 field's content among `extra` fields; empty when there is none.
std::string_view zip64_field(std::string_view extra) {
  while (extra.size() >= 4) {
    const auto kind = little_endian(extra, 0, 2);
    const auto bytes = little_endian(extra, 2, 2);
    if (bytes > extra.size() - 4) break;
    if (kind == 1) return extra.substr(4, bytes);
    extra.remove_prefix(4 + bytes);
  }
  return {};
}

class DirectoryReader {
 public:
  explicit DirectoryReader(const InputFile& file) : file_(file), where_(path_text(file.path())) {}

  struct Result {
    std::vector<char> text;
    std::vector<ZipEntry> entries;
  };

  Result read() {
    check_start();
    const auto end = find_end();
    if (end.entries > ZipCheckpointLimits::kEntries) {
      fail("the zip directory has too many entries", fmt::format("at most {}", ZipCheckpointLimits::kEntries),
           end.entries);
    }
    if (end.bytes > ZipCheckpointLimits::kDirectoryBytes) {
      fail("the zip directory is too large",
           fmt::format("at most {} bytes", ZipCheckpointLimits::kDirectoryBytes), end.bytes);
    }
    // Every entry needs its fixed part: the number is checked before anything is allocated for it.
    if (end.entries > end.bytes / kCentralBytes) {
      fail("the zip directory is smaller than its number of entries needs",
           fmt::format("at least {} bytes", end.entries * kCentralBytes), end.bytes);
    }
    directory_begin_ = end.begin;
    result_.text.resize(end.bytes);
    file_.read(end.begin, std::as_writable_bytes(std::span(result_.text)));
    read_entries(end.entries);
    check_local_headers();
    check_names();
    return std::move(result_);
  }

 private:
  struct End {
    std::uint64_t entries;
    std::uint64_t bytes;
    std::uint64_t begin;
  };

  template <class Got>
  [[noreturn]] void fail(std::string_view what, std::string_view wanted, const Got& got) const {
    throw CheckpointError(
        where_, fmt::format("{}; expected {}, got {}; fetch or save the file again", what, wanted, got));
  }

  template <class Got>
  [[noreturn]] void refuse(const ZipEntry& entry, std::string_view what, std::string_view wanted,
                           const Got& got) const {
    fail(fmt::format("zip entry '{}': {}", printable(entry.name), what), wanted, got);
  }

  /// `bytes` bytes from `offset` on as text.
  std::string bytes_at(std::uint64_t offset, std::uint64_t bytes) const {
    std::string text(bytes, '\0');
    file_.read(offset, std::as_writable_bytes(std::span(text)));
    return text;
  }

  void check_start() const {
    const auto start = bytes_at(0, std::min<std::uint64_t>(kForeignKindBytes, file_.size()));
    if (start.starts_with(kLocalMark)) return;
    auto kind = foreign_kind(start);
    if (start.size() > 8 && start[8] == '{') kind = "this looks like a safetensors file";
    if (kind.empty()) kind = "this is something else";
    if (start.empty()) kind = "the file is empty";
    const auto legacy = kind.find("pickle") != std::string::npos || kind.find("tar") != std::string::npos;
    throw CheckpointError(
        where_, fmt::format("this is not a zip checkpoint; expected a zip archive from its first byte on, as "
                            "torch.save writes it since 1.6; {}{}",
                            kind,
                            legacy ? "; PyTorch's formats before that are not read: in a recent torch "
                                     "torch.save(torch.load(f), f) writes a zip file, or convert it to "
                                     "safetensors"
                                   : ""));
  }

  /// What the record at the very end of the file says.
  End find_end() const {
    const auto size = file_.size();
    const auto text = size < kEndBytes ? std::string() : bytes_at(size - kEndBytes, kEndBytes);
    if (!text.starts_with(kEndMark) || little_endian(text, 20, 2) != 0) {
      throw CheckpointError(where_,
                            fmt::format("the zip directory's end record is not at the end of the file; "
                                        "expected it in the last {} bytes of {}; the file was cut off or has "
                                        "bytes after it; fetch it again",
                                        kEndBytes, size));
    }
    const auto end_at = size - kEndBytes;
    if (little_endian(text, 4, 4) != 0 || little_endian(text, 8, 2) != little_endian(text, 10, 2)) {
      fail("the zip archive is split over several files", "one file", "a part");
    }
    const End end{little_endian(text, 10, 2), little_endian(text, 12, 4), little_endian(text, 16, 4)};
    const auto has64 = end_at >= kLocatorBytes + kEnd64Bytes &&
                       bytes_at(end_at - kLocatorBytes, kLocatorBytes).starts_with(kLocatorMark);
    if (has64) return find_end64(end, end_at - kLocatorBytes);
    if (end.begin > end_at || end.bytes != end_at - end.begin) {
      fail("the zip directory is not where its end record says", fmt::format("it to end at byte {}", end_at),
           fmt::format("{} bytes from byte {} on", end.bytes, end.begin));
    }
    return end;
  }

  End find_end64(const End& small, std::uint64_t locator_at) const {
    const auto locator = bytes_at(locator_at, kLocatorBytes);
    const auto at = little_endian(locator, 8, 8);
    if (little_endian(locator, 4, 4) != 0 || little_endian(locator, 16, 4) != 1) {
      fail("the zip archive is split over several files", "one file", "a part");
    }
    if (at > locator_at || locator_at - at != kEnd64Bytes) {
      fail("the zip64 end record is not before its locator",
           fmt::format("it at byte {}", locator_at - kEnd64Bytes), at);
    }
    const auto text = bytes_at(at, kEnd64Bytes);
    const End end{little_endian(text, 32, 8), little_endian(text, 40, 8), little_endian(text, 48, 8)};
    if (!text.starts_with(kEnd64Mark) || little_endian(text, 4, 8) != kEnd64Bytes - 12 ||
        little_endian(text, 16, 8) != 0 || little_endian(text, 24, 8) != end.entries) {
      fail("the zip64 end record is malformed", "that of one file without extensions", "another");
    }
    const auto agree = [](std::uint64_t narrow, std::uint64_t wide, std::uint64_t in64) {
      return narrow == wide || narrow == in64;
    };
    if (!agree(small.entries, end.entries, kIn64Short) || !agree(small.bytes, end.bytes, kIn64) ||
        !agree(small.begin, end.begin, kIn64)) {
      fail("the zip archive's two end records disagree",
           fmt::format("{} entries in {} bytes from byte {} on", end.entries, end.bytes, end.begin),
           fmt::format("{} in {} from {}", small.entries, small.bytes, small.begin));
    }
    if (end.begin > at || end.bytes != at - end.begin) {
      fail("the zip directory is not where its end record says", fmt::format("it to end at byte {}", at),
           fmt::format("{} bytes from byte {} on", end.bytes, end.begin));
    }
    return end;
  }

  void read_entries(std::uint64_t count) {
    std::string_view rest(result_.text.data(), result_.text.size());
    result_.entries.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (rest.size() < kCentralBytes || !rest.starts_with(kCentralMark)) {
        fail(fmt::format("the zip directory is malformed at entry {}", i), "an entry", "something else");
      }
      const auto name_bytes = little_endian(rest, 28, 2);
      const auto extra_bytes = little_endian(rest, 30, 2);
      const auto all = kCentralBytes + name_bytes + extra_bytes + little_endian(rest, 32, 2);
      if (all > rest.size()) {
        fail(fmt::format("the zip directory ends inside entry {}", i), fmt::format("{} bytes more", all),
             rest.size());
      }
      add_entry(rest.substr(0, kCentralBytes), rest.substr(kCentralBytes, name_bytes),
                rest.substr(kCentralBytes + name_bytes, extra_bytes));
      rest.remove_prefix(all);
    }
    if (!rest.empty()) fail("bytes follow the zip directory's last entry", "none", rest.size());
  }

  void add_entry(std::string_view fixed, std::string_view name, std::string_view extra) {
    ZipEntry entry{.name = name};
    if (const auto reason = bad_entry_name(name); !reason.empty()) {
      refuse(entry, "the name is not that of a file inside the archive", "a relative path", reason);
    }
    const auto flags = little_endian(fixed, 8, 2);
    if ((flags & kEncryptedFlags) != 0) refuse(entry, "it is encrypted", "plain data", "the flag");
    if ((flags & kPatchFlag) != 0) refuse(entry, "it is patch data", "plain data", "the flag");
    if (const auto method = little_endian(fixed, 10, 2); method != 0) {
      if (name.find("/code/") != std::string_view::npos) throw_torch_script(where_);
      refuse(entry, "it is compressed", "stored data, as torch.save writes it",
             fmt::format("method {}", method));
    }
    if (little_endian(fixed, 34, 2) != 0) refuse(entry, "it is in another file", "one file", "a part");

    // The zip64 field has only those values that did not fit, in this order.
    auto wide = zip64_field(extra);
    const auto field = [&](std::size_t at) {
      auto value = little_endian(fixed, at, 4);
      if (value != kIn64) return value;
      if (wide.size() < 8) refuse(entry, "the zip64 field is too short", "8 bytes more", wide.size());
      value = little_endian(wide, 0, 8);
      wide.remove_prefix(8);
      return value;
    };
    entry.bytes = field(24);
    const auto packed = field(20);
    entry.header = field(42);
    entry.crc = static_cast<std::uint32_t>(little_endian(fixed, 16, 4));
    if (packed != entry.bytes)
      refuse(entry, "stored data has two sizes", fmt::format("{}", entry.bytes), packed);
    if (entry.header >= directory_begin_ || directory_begin_ - entry.header < kLocalBytes) {
      refuse(entry, "it begins past the data", fmt::format("a byte below {}", directory_begin_),
             entry.header);
    }
    result_.entries.push_back(entry);
  }

  /// Finds where each entry's data begins, and checks that no two overlap.
  void check_local_headers() {
    auto& entries = result_.entries;
    std::ranges::sort(entries, {}, &ZipEntry::header);
    if (!entries.empty() && entries.front().header != 0) {
      refuse(entries.front(), "there are bytes before the archive's first entry", "it at byte 0",
             entries.front().header);
    }
    for (std::size_t i = 0; i < entries.size(); ++i) {
      auto& entry = entries[i];
      const auto end = i + 1 < entries.size() ? entries[i + 1].header : directory_begin_;
      if (end - entry.header < kLocalBytes) {
        refuse(entry, "it overlaps the next entry", fmt::format("{} bytes", kLocalBytes), end - entry.header);
      }
      check_local_header(entry, end);
    }
  }

  void check_local_header(ZipEntry& entry, std::uint64_t end) const {
    // Usually the name follows at once: one read for both.
    const auto first = std::min(kLocalBytes + entry.name.size(), end - entry.header);
    const auto text = bytes_at(entry.header, first);
    if (!text.starts_with(kLocalMark)) refuse(entry, "its local header is missing", "PK 3 4", "other bytes");
    const auto name_bytes = little_endian(text, 26, 2);
    const auto extra_bytes = little_endian(text, 28, 2);
    if (std::string_view(text).substr(kLocalBytes) != entry.name || name_bytes != entry.name.size()) {
      refuse(entry, "its local header has another name", "the directory's",
             fmt::format("'{}'", printable(std::string_view(text).substr(kLocalBytes))));
    }
    const auto flags = little_endian(text, 6, 2);
    if ((flags & (kEncryptedFlags | kPatchFlag)) != 0 || little_endian(text, 8, 2) != 0) {
      refuse(entry, "its local header says encrypted or compressed", "plain stored data",
             fmt::format("flags {:#x}, method {}", flags, little_endian(text, 8, 2)));
    }
    const auto data = kLocalBytes + name_bytes + extra_bytes;
    if (end - entry.header < data || end - entry.header - data < entry.bytes) {
      refuse(entry, "its data overlaps what follows", fmt::format("at most {} bytes", end - entry.header),
             fmt::format("{} of header and {} of data", data, entry.bytes));
    }
    entry.begin = entry.header + data;

    const auto extra = bytes_at(entry.header + kLocalBytes + name_bytes, extra_bytes);
    const auto wide = zip64_field(extra);
    const auto sizes_later = (flags & kSizesLaterFlag) != 0;
    const auto check = [&](std::size_t at, std::uint64_t wanted, std::string_view what) {
      const auto got = little_endian(text, at, 4);
      if (got == wanted || (sizes_later && got == 0)) return;
      refuse(entry, fmt::format("directory and local header disagree about its {}", what),
             fmt::format("{}", wanted), got);
    };
    check(14, entry.crc, "checksum");
    // Where the two sizes are in the header, and in the zip64 field.
    for (const auto& [at, wide_at] : {std::pair<std::size_t, std::size_t>{18, 8}, {22, 0}}) {
      if (little_endian(text, at, 4) != kIn64) {
        check(at, entry.bytes, "size");
      } else if (wide.size() < 16 || (little_endian(wide, wide_at, 8) != entry.bytes &&
                                      !(sizes_later && little_endian(wide, wide_at, 8) == 0))) {
        refuse(entry, "directory and local header disagree about its size", fmt::format("{}", entry.bytes),
               "another in the zip64 field");
      }
    }
  }

  void check_names() {
    auto& entries = result_.entries;
    std::ranges::sort(entries, {}, &ZipEntry::name);
    const auto twice = std::ranges::adjacent_find(entries, {}, &ZipEntry::name);
    if (twice != entries.end()) refuse(*twice, "the name occurs twice in the archive", "it once", "two");
  }

  const InputFile& file_;
  std::string where_;
  std::uint64_t directory_begin_ = 0;
  Result result_;
};

}  // namespace

ZipDirectory ZipDirectory::read(const InputFile& file) {
  auto [text, entries] = DirectoryReader(file).read();
  ZipDirectory directory;
  directory.text_ = std::move(text);
  directory.entries_ = std::move(entries);
  directory.has_checksums_ =
      std::ranges::any_of(directory.entries_, [](const ZipEntry& entry) { return entry.crc != 0; });
  return directory;
}

const ZipEntry* ZipDirectory::find(std::string_view name) const noexcept {
  const auto place = std::ranges::lower_bound(entries_, name, {}, &ZipEntry::name);
  return place == entries_.end() || place->name != name ? nullptr : &*place;
}

}  // namespace hooked
