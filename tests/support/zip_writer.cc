#include "tests/support/zip_writer.h"

namespace hooked {
namespace {

std::string number(std::uint64_t value, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
  return bytes;
}

/// One bit at a time: slow, and unlike the library's.
std::uint32_t plain_crc(std::string_view text) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

constexpr std::uint32_t kIn64 = 0xFFFFFFFF;

std::string local_header(const ZipMember& member, std::uint32_t crc) {
  const auto bytes = member.bytes.value_or(static_cast<std::uint32_t>(member.content.size()));
  const auto size = member.local_size.value_or(member.zip64 ? kIn64 : bytes);
  const auto extra =
      member.zip64 ? number(1, 2) + number(16, 2) + number(bytes, 8) + number(bytes, 8) : std::string();
  const auto& name = member.local_name ? *member.local_name : member.name;
  return "PK\x03\x04" + number(20, 2) + number(member.flags, 2) + number(member.method, 2) + number(0, 4) +
         number(member.local_crc.value_or(crc), 4) + number(size, 4) + number(size, 4) +
         number(name.size(), 2) + number(extra.size(), 2) + name + extra;
}

std::string central_header(const ZipMember& member, std::uint32_t crc, std::uint64_t header) {
  const auto bytes = member.bytes.value_or(static_cast<std::uint32_t>(member.content.size()));
  const auto size = member.directory_size.value_or(member.zip64 ? kIn64 : bytes);
  const auto at = member.header.value_or(static_cast<std::uint32_t>(header));
  const auto extra = member.zip64
                         ? number(1, 2) + number(24, 2) + number(bytes, 8) + number(bytes, 8) + number(at, 8)
                         : std::string();
  return "PK\x01\x02" + number(20, 2) + number(20, 2) + number(member.flags, 2) + number(member.method, 2) +
         number(0, 4) + number(crc, 4) + number(size, 4) + number(size, 4) + number(member.name.size(), 2) +
         number(extra.size(), 2) + number(0, 2) + number(0, 2) + number(0, 2) + number(0, 4) +
         number(member.zip64 ? kIn64 : at, 4) + member.name + extra;
}

}  // namespace

std::string zip_bytes(const std::vector<ZipMember>& members, const ZipShape& shape) {
  auto bytes = shape.before;
  std::string directory;
  for (const auto& member : members) {
    const auto crc = member.crc.value_or(plain_crc(member.content));
    directory += central_header(member, crc, bytes.size());
    bytes += local_header(member, crc) + member.content;
  }
  const auto begin = bytes.size();
  const auto entries = members.size() + shape.entries_more;
  bytes += directory;
  if (shape.zip64) {
    const auto end64 = bytes.size();
    bytes += "PK\x06\x06" + number(44, 8) + number(45, 2) + number(45, 2) + number(0, 8) +
             number(entries, 8) + number(entries, 8) + number(directory.size(), 8) + number(begin, 8);
    bytes += "PK\x06\x07" + number(0, 4) + number(end64, 8) + number(1, 4);
  }
  const auto count = shape.zip64 ? 0xFFFF : entries;
  bytes += "PK\x05\x06" + number(0, 4) + number(count, 2) + number(count, 2) +
           number(shape.zip64 ? kIn64 : directory.size(), 4) + number(shape.zip64 ? kIn64 : begin, 4) +
           number(0, 2);
  return bytes + shape.after;
}

std::vector<ZipMember> checkpoint_members(std::string_view pickle, const std::vector<std::string>& storages) {
  std::vector<ZipMember> members = {{.name = "m/data.pkl", .content = std::string(pickle)}};
  for (std::size_t i = 0; i < storages.size(); ++i) {
    members.push_back({.name = "m/data/" + std::to_string(i), .content = storages[i]});
  }
  return members;
}

std::string checkpoint_bytes(std::string_view pickle, const std::vector<std::string>& storages) {
  return zip_bytes(checkpoint_members(pickle, storages));
}

}  // namespace hooked
