// Limits on the memory and time of a GGUF header: the rules S4 and S18 of safetensors' headers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "io/gguf/gguf_header.h"
#include "tests/io/file_bytes.h"
#include "tests/io/gguf_bytes.h"
#include "tests/support/process_memory.h"
#include "tests/support/processor_time.h"

namespace hooked::gguf_limits_test {
namespace {

constexpr const char* kFile = "m.gguf";
constexpr std::uint64_t kMost = std::uint64_t{1} << 30;

// The header of a file of `size` bytes that begins with these, and then holds zeros.
GgufHeader parse(const std::string& bytes, std::uint64_t size) {
  const auto read = [&](std::uint64_t offset, std::span<std::byte> into) {
    ASSERT_LE(offset + into.size(), size) << "reads what is not there";
    const auto here = offset < bytes.size() ? std::min<std::uint64_t>(into.size(), bytes.size() - offset) : 0;
    std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()) + offset, here, into.begin());
    std::fill(into.begin() + static_cast<std::ptrdiff_t>(here), into.end(), std::byte{0});
  };
  return read_gguf_header(size, read, kFile);
}

// A header of `bytes` bytes; most of it is an array of that many numbers.
std::string header_of(std::uint64_t bytes) {
  GgufBytes file;
  file.array("k", GgufType::uint8, 0, "");
  std::string start = file.bytes();
  start.replace(start.size() - 8, 8, little(bytes - start.size(), 8));
  return start;
}

TEST(GgufLimits, S4HeaderLimitIsExact) {
  for (const std::uint64_t bytes : {kMost - 1, kMost}) {
    const std::string start = header_of(bytes);
    EXPECT_EQ(parse(start, bytes).metadata.at("k").size(), bytes - start.size());
  }
  const auto refused = [](const std::string& start, std::initializer_list<std::string_view> parts) {
    expect_refused<CheckpointError>([&] { parse(start, kMost * 16); }, kFile, parts);
  };
  refused(header_of(kMost + 1), {"metadata 'k' makes the header too large", "at most 1073741824 bytes"});
  GgufBytes file;
  file.entries = {gguf_text("t") + gguf_type(GgufType::text) + little(kMost, 8)};
  refused(file.bytes(), {"metadata 't' makes the header too large", "got 1073741824 bytes"});
  // Texts take at least their lengths' 8 bytes each.
  for (const GgufType type : {GgufType::text, GgufType::float64}) {
    file.entries = {gguf_text("l") + gguf_type(GgufType::array) + gguf_type(type) + little(kMost / 8, 8)};
    refused(file.bytes(), {"metadata 'l' makes the header too large", "got 134217728 elements"});
  }
}

TEST(GgufLimits, S4AlignmentLimitIsExact) {
  for (const std::uint32_t alignment : {1U << 19U, 1U << 20U}) {
    GgufBytes file;
    file.uint32("general.alignment", alignment).tensor("a", {1}, 24, 0).tensor("b", {1}, 24, alignment);
    file.alignment = alignment;
    file.data = std::string(alignment + 1, '\0');
    const std::string bytes = file.bytes();
    const GgufHeader header = parse(bytes, bytes.size());
    EXPECT_EQ(header.tensors[0].info.begin, alignment) << "the first multiple after the header";
    EXPECT_EQ(header.tensors[1].info.begin, 2 * std::uint64_t{alignment});
  }
  GgufBytes file;
  const std::string bytes = file.uint32("general.alignment", 1U << 21U).bytes();
  expect_refused<CheckpointError>([&] { parse(bytes, bytes.size()); }, kFile,
                                  {"'general.alignment' is not an alignment", "up to 1048576, got 2097152"});
}

std::string texts(std::size_t count, std::size_t bytes_each) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += gguf_text(std::string(bytes_each, 'x'));
  return all;
}

// 50 MB in every form of metadata: in memory no more than twice as much, and in a time that grows with
// their size.
TEST(GgufLimits, S18FiftyMegabytesOfMetadata) {
  constexpr std::size_t kAll = 50'000'000;
  const std::pair<const char*, std::string (*)(std::size_t)> forms[] = {
      {"one text", [](std::size_t bytes) { return GgufBytes().text("k", std::string(bytes, 'x')).bytes(); }},
      {"numbers",
       [](std::size_t bytes) {
         return GgufBytes().array("k", GgufType::int32, bytes / 4, std::string(bytes / 4 * 4, '\7')).bytes();
       }},
      {"bools",
       [](std::size_t bytes) {
         return GgufBytes().array("k", GgufType::boolean, bytes, std::string(bytes, '\1')).bytes();
       }},
      {"long texts",
       [](std::size_t bytes) {
         return GgufBytes().array("k", GgufType::text, bytes / 108, texts(bytes / 108, 100)).bytes();
       }},
      {"empty texts",
       [](std::size_t bytes) {
         return GgufBytes().array("k", GgufType::text, bytes / 8, std::string(bytes / 8 * 8, '\0')).bytes();
       }},
  };
  for (const auto& [name, make] : forms) {
    SCOPED_TRACE(name);
    const auto seconds = [&](std::size_t bytes) {
      const std::string file = make(bytes);
      const bool peak_is_told = why_no_peaks().empty();
      const PeakMemory held;
      const double start = processor_seconds();
      EXPECT_EQ(parse(file, file.size()).metadata.size(), 1U);
      const double taken = processor_seconds() - start;
      if (peak_is_told) {
        EXPECT_LE(held.bytes(), static_cast<std::int64_t>(2 * bytes) + (std::int64_t{64} << 20));
      }
      return taken;
    };
    seconds(kAll / 10);
    const double tenth = seconds(kAll / 10), all = seconds(kAll);
    EXPECT_LT(all, 40 * tenth + 0.05);
  }
}

// Data that is only announced costs nothing.
TEST(GgufLimits, S18RefusingIsCheap) {
  if (const std::string why = why_no_peaks(); !why.empty()) GTEST_SKIP() << why;
  const PeakMemory held;
  for (const GgufType type : {GgufType::text, GgufType::uint8, GgufType::float64}) {
    for (const std::uint64_t count : {kMost - 1, std::uint64_t{1} << 40U, ~std::uint64_t{0}}) {
      GgufBytes file;
      file.entries = {gguf_text("k") + gguf_type(GgufType::array) + gguf_type(type) + little(count, 8)};
      const std::string bytes = file.bytes();
      EXPECT_THROW(parse(bytes, bytes.size()), CheckpointError);
    }
  }
  EXPECT_LE(held.bytes(), std::int64_t{8} << 20);
}

}  // namespace
}  // namespace hooked::gguf_limits_test
