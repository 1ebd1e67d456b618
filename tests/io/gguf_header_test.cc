// GGUF headers, and what may not be in one: the rules of safetensors' headers (S) in their GGUF form.
#include "io/gguf/gguf_header.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "tests/io/file_bytes.h"
#include "tests/io/gguf_bytes.h"
#include "tests/support/processor_time.h"

namespace hooked::gguf_header_test {
namespace {

constexpr const char* kFile = "m.gguf";

GgufHeader parse(const std::string& bytes, std::uint64_t size) {
  return read_gguf_header(
      size,
      [&](std::uint64_t offset, std::span<std::byte> into) {
        ASSERT_LE(offset + into.size(), bytes.size()) << "reads what is not there";
        std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()) + offset, into.size(), into.begin());
      },
      kFile);
}
GgufHeader parse(const std::string& bytes) { return parse(bytes, bytes.size()); }
GgufHeader parse(const GgufBytes& file) { return parse(file.bytes()); }

void refused(const std::string& bytes, std::initializer_list<std::string_view> parts) {
  expect_refused<CheckpointError>([&] { parse(bytes); }, kFile, parts);
}
void refused(const GgufBytes& file, std::initializer_list<std::string_view> parts) {
  refused(file.bytes(), parts);
}

// Two tensors: F32 [2, 3], and Q8_0 [1, 64] after the padding.
GgufBytes two_tensors() {
  GgufBytes file;
  file.tensor("a", {3, 2}, 0, 0).tensor("b", {64, 1}, 8, 32);
  file.data = std::string(32 + 68, '\1');
  return file;
}

TEST(GgufHeader, DescribesTensorsAsTheyLie) {
  GgufBytes file = two_tensors();
  std::swap(file.tensors[0], file.tensors[1]);  // the order of descriptions does not matter
  const GgufHeader header = parse(file);
  EXPECT_EQ(header.version, 3U);
  ASSERT_EQ(header.tensors.size(), 2U);
  const TensorInfo &a = header.tensors[0].info, &b = header.tensors[1].info;
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(a.dtype, at::kFloat);
  EXPECT_EQ(a.bytes(), 24U);
  EXPECT_EQ(b.dtype_name, "Q8_0");
  EXPECT_EQ(b.dtype, at::kFloat);
  EXPECT_EQ(b.shape, (std::vector<std::int64_t>{1, 64}));
  EXPECT_EQ(b.begin, a.begin + 32);
  EXPECT_EQ(b.end, file.bytes().size());
}

TEST(GgufHeader, ReadsMetadataOfEveryType) {
  GgufBytes file;
  file.number("u8", GgufType::uint8, 255, 1).number("i8", GgufType::int8, 255, 1);
  file.number("u16", GgufType::uint16, 65535, 2).number("i16", GgufType::int16, 65535, 2);
  file.uint32("u32", 4294967295U).number("i32", GgufType::int32, 4294967295U, 4);
  file.number("u64", GgufType::uint64, std::uint64_t{1} << 63U, 8);
  file.number("i64", GgufType::int64, ~std::uint64_t{0}, 8);
  file.float32("f32", 1e-5F).float32("inf", std::numeric_limits<float>::infinity());
  file.number("f64", GgufType::float64, std::bit_cast<std::uint64_t>(0.1), 8);
  file.boolean("yes", 1).boolean("no", 0).text("text", "h\xC3\xA9").text("empty", "");
  file.array("numbers", GgufType::int16, 3, little(1, 2) + little(65534, 2) + little(3, 2));
  file.array("texts", GgufType::text, 3, gguf_text("a") + gguf_text("") + gguf_text("\xFF"));
  file.array("flags", GgufType::boolean, 2, std::string("\1\0", 2)).array("none", GgufType::text, 0, "");
  const GgufMetadata all = parse(file).metadata;
  EXPECT_EQ(all.at("u8").integer(), 255);
  EXPECT_EQ(all.at("i8").integer(), -1);
  EXPECT_EQ(all.at("u16").integer(), 65535);
  EXPECT_EQ(all.at("i16").integer(), -1);
  EXPECT_EQ(all.at("u32").integer(), 4294967295);
  EXPECT_EQ(all.at("i32").integer(), -1);
  EXPECT_EQ(all.at("u64").integer(), std::nullopt);
  EXPECT_EQ(all.at("i64").integer(), -1);
  EXPECT_EQ(all.at("f32").real(), 1e-5) << "the decimal that was written, not 9.9999997e-06";
  EXPECT_EQ(all.at("inf").real(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(all.at("f64").real(), 0.1);
  EXPECT_EQ(all.at("u32").real(), 4294967295.0);
  EXPECT_EQ(all.at("yes").boolean(), true);
  EXPECT_EQ(all.at("no").boolean(), false);
  EXPECT_EQ(all.at("yes").integer(), std::nullopt);
  EXPECT_EQ(all.at("text").text(), "h\xC3\xA9");
  EXPECT_EQ(all.at("empty").text(), "");
  EXPECT_EQ(all.at("text").real(), std::nullopt);
  EXPECT_EQ(all.at("numbers").size(), 3U);
  EXPECT_EQ(all.at("numbers").integer(1), -2);
  EXPECT_EQ(all.at("numbers").integer(3), std::nullopt);
  EXPECT_EQ(all.at("numbers").type_text(), "array of int16");
  EXPECT_EQ(all.at("texts").text(1), "");
  EXPECT_EQ(all.at("texts").text(2), "\xFF");
  EXPECT_EQ(all.at("flags").boolean(1), false);
  EXPECT_EQ(all.at("none").size(), 0U);
  EXPECT_EQ(find_value(all, "other"), nullptr);
  EXPECT_EQ(all.size(), file.entries.size());
}

TEST(GgufHeader, S1TooShort) {
  for (std::size_t bytes = 0; bytes < 24; ++bytes)
    refused(std::string("GGUF").append(20, '\0').substr(0, bytes),
            {"too short", fmt::format("got {}", bytes)});
  EXPECT_TRUE(parse(GgufBytes()).tensors.empty()) << "an empty header is one";
}

TEST(GgufHeader, S24OtherFiles) {
  GgufBytes file = two_tensors();
  file.magic = "GGML";
  refused(file, {"expected 'GGUF', got 'GGML'"});
  refused("version https://git-lfs.github.com/spec/v1\noid x\nsize 390660192\n",
          {"this is a Git LFS pointer of 390,660,192 bytes"});
  refused("<!DOCTYPE html><html><body>503</body></html>", {"HTML"});
  refused(std::string("PK\x03\x04") + std::string(100, 'x'), {"zip archive"});
}

TEST(GgufHeader, Versions) {
  GgufBytes file = two_tensors();
  file.version = 2;
  EXPECT_EQ(parse(file).version, 2U);
  for (const std::uint32_t other : {0U, 1U, 4U}) {
    file.version = other;
    refused(file, {fmt::format("version {}", other), "expected 2 or 3"});
  }
  for (const std::uint32_t turned : {0x02000000U, 0x03000000U}) {
    file.version = turned;
    refused(file, {"big-endian", "gguf_convert_endian.py"});
  }
}

TEST(GgufHeader, CountsAboveTheLimitsOrTheFile) {
  for (const std::uint64_t wrong : {std::uint64_t{100'001}, std::uint64_t{1} << 63U, ~std::uint64_t{0}}) {
    GgufBytes file;
    file.tensor_count = wrong;
    refused(file, {"the number of tensors is too large", "at most 100000"});
    file = {};
    file.entry_count = wrong;
    refused(file, {"the number of metadata values is too large", "at most 100000"});
  }
  GgufBytes file;
  file.entry_count = 100'000;  // at the limit, without data
  refused(file, {"a metadata key points past the end of the file"});
  file = {};
  file.tensor_count = 100'000;
  refused(file, {"a tensor's name points past the end of the file"});
}

TEST(GgufHeader, S3LengthsPastTheEnd) {
  for (const std::uint64_t length : {std::uint64_t{100}, std::uint64_t{1} << 40U, ~std::uint64_t{0}}) {
    GgufBytes file;
    file.entries = {gguf_text("k") + gguf_type(GgufType::text) + little(length, 8) + "abc"};
    refused(file, {"metadata 'k' points past the end of the file", fmt::format("got {}", length)});
    file.entries = {gguf_text("k") + gguf_type(GgufType::array) + gguf_type(GgufType::uint64) +
                    little(length, 8)};
    refused(file, {"metadata 'k' points past the end of the file", fmt::format("got {}", length)});
    file.entries = {gguf_text("k") + gguf_type(GgufType::array) + gguf_type(GgufType::text) +
                    little(length, 8)};
    refused(file, {"metadata 'k' points past the end of the file", fmt::format("got {}", length)});
  }
  // 2^61 numbers of 8 bytes are 0 bytes if the product wraps.
  GgufBytes wrapping;
  wrapping.array("k", GgufType::float64, std::uint64_t{1} << 61U, "");
  refused(wrapping, {"metadata 'k' points past the end"});
}

TEST(GgufHeader, S5Names) {
  for (const std::string& bad :
       {std::string("a\0b", 3), std::string("\xC0\xAF"), std::string("\xED\xA0\x80")}) {
    GgufBytes file;
    file.uint32(bad, 1);
    refused(file, {"a metadata key at byte 24 is not a name", "UTF-8"});
    file = {};
    file.tensor(bad, {1}, 0, 0);
    refused(file, {"a tensor's name at byte 24 is not a name"});
  }
  GgufBytes file;
  refused(file.uint32("", 1), {"a metadata key at byte 24 is empty"});
  file = {};
  file.tensor("../x\n\xF0\x9F\x98\x80", {1}, 0, 0).data = std::string(4, '\0');
  EXPECT_EQ(parse(file).tensors[0].info.name, "../x\n\xF0\x9F\x98\x80") << "odd, and a name";
  for (const std::size_t length : {4096U, 4097U}) {
    file = {};
    file.uint32(std::string(length, 'k'), 1);
    if (length == 4096) {
      EXPECT_EQ(parse(file).metadata.size(), 1U);
    } else {
      refused(file, {"too long", "at most 4096", "got 4097"});
    }
  }
}

TEST(GgufHeader, S8NothingTwice) {
  GgufBytes file = two_tensors();
  file.uint32("k", 1).uint32("k", 1);
  refused(file, {"metadata 'k' occurs twice"});
  file = {};
  file.tensor("a", {8}, 0, 0).tensor("a", {8}, 0, 32).data = std::string(64, '\0');
  refused(file, {"tensor 'a': the name occurs twice"});
}

TEST(GgufHeader, S9TypesOfMetadata) {
  GgufBytes file;
  for (const std::uint32_t bad : {13U, 255U, 0xFFFFFFFFU}) {
    file.entries = {gguf_text("k") + little(bad, 4) + little(0, 8)};
    refused(file, {"metadata 'k' has an unknown type", "0 to 12", std::to_string(bad)});
    file.entries = {gguf_text("k") + gguf_type(GgufType::array) + little(bad, 4) + little(0, 8)};
    refused(file, {"metadata 'k' has an unknown type"});
  }
  // Arrays in arrays, as deep as a file can be.
  std::string nested = gguf_text("k") + gguf_type(GgufType::array);
  for (int depth = 0; depth < 100'000; ++depth) nested += gguf_type(GgufType::array) + little(1, 8);
  file.entries = {nested};
  refused(file, {"metadata 'k' is an array of arrays"});
  for (const std::uint8_t bad : {2, 255}) {
    file.entries.clear();
    refused(file.boolean("k", bad), {"metadata 'k' is not a bool", fmt::format("got {}", bad)});
  }
  file.entries.clear();
  refused(file.array("k", GgufType::boolean, 3, std::string("\1\0\3", 3)),
          {"metadata 'k' is not a bool", "got 3"});
}

TEST(GgufHeader, Alignments) {
  for (const std::uint32_t good : {1U, 8U, 64U, 4096U}) {
    GgufBytes file;
    file.uint32("general.alignment", good).tensor("a", {1}, 24, 0).tensor("b", {4}, 0, good);
    file.alignment = good;
    file.data = std::string(good + 16, '\0');
    const GgufHeader header = parse(file);
    EXPECT_EQ(header.tensors[0].info.begin % good, 0U);
    EXPECT_EQ(header.tensors[1].info.begin, header.tensors[0].info.begin + good);
  }
  for (const std::uint32_t bad : {0U, 3U, 24U, (1U << 20U) + 1, 1U << 21U, 0xFFFFFFFFU}) {
    GgufBytes file = two_tensors();
    refused(file.uint32("general.alignment", bad),
            {"'general.alignment' is not an alignment", std::to_string(bad)});
  }
  GgufBytes file = two_tensors();
  refused(file.text("general.alignment", "32"), {"'general.alignment' is not an alignment", "got string"});
  file = {};
  file.tensor("a", {1}, 24, 0).tensor("b", {1}, 24, 31).data = std::string(64, '\0');
  refused(file, {"tensor 'b' is not aligned", "multiple of 32", "got 31"});
}

TEST(GgufHeader, S10Types) {
  GgufBytes file;
  for (const std::uint32_t bad : {4U, 5U, 31U, 36U, 99U, 0xFFFFFFFFU}) {
    file.tensors.clear();
    refused(file.tensor("a", {32}, bad, 0), {fmt::format("tensor 'a' is of type {}", bad), "Q4_K"});
  }
  for (const GgmlType& type : ggml_types()) {  // those that are not read are described as well
    file = {};
    file.tensor("a", {static_cast<std::uint64_t>(type.elements), 2}, type.number, 0);
    file.data = std::string(2 * type.bytes, '\0');
    const GgufHeader header = parse(file);
    EXPECT_EQ(header.tensors[0].info.dtype_name, type.name);
    EXPECT_EQ(header.tensors[0].info.dtype, type.dtype);
    if (type.elements == 1) continue;
    file.tensors.clear();
    file.tensor("a", {static_cast<std::uint64_t>(type.elements) + 1, 2}, type.number, 0);
    refused(file, {"tensor 'a' has rows that are not whole blocks", std::string(type.name)});
  }
}

TEST(GgufHeader, S11SizesThatOverflow) {
  GgufBytes file;
  const std::uint64_t half = std::uint64_t{1} << 32U;
  for (const std::vector<std::uint64_t>& sizes : std::vector<std::vector<std::uint64_t>>{
           {half, half}, {std::uint64_t{1} << 62U}, {4194305, 4194305, 211106198978564}, {half, 0, half}}) {
    for (const std::uint32_t type : {0U, 28U}) {
      file.tensors.clear();
      refused(file.tensor("a", sizes, type, 0), {"tensor 'a'", "overflows"});
    }
  }
  for (const std::uint64_t size : {std::uint64_t{1} << 63U, ~std::uint64_t{0}}) {
    file.tensors.clear();
    refused(file.tensor("a", {size}, 0, 0), {"tensor 'a' has a dimension of", "below 2^63"});
  }
  file.tensors.clear();
  refused(file.tensor("a", {std::uint64_t{1} << 40U}, 0, 0), {"tensor 'a' points past the end of the file"});
}

TEST(GgufHeader, S12S13RanksAndEmptyTensors) {
  GgufBytes file;
  file.tensor("scalar", {}, 0, 0).tensor("empty", {0, 4}, 0, 32).tensor("cube", {2, 1, 1, 1}, 0, 32);
  file.data = std::string(32 + 8, '\0');
  const GgufHeader header = parse(file);
  ASSERT_EQ(header.tensors.size(), 3U);
  EXPECT_TRUE(header.tensors[0].info.shape.empty());
  EXPECT_EQ(header.tensors[0].info.bytes(), 4U);
  EXPECT_EQ(header.tensors[1].info.bytes(), 0U);
  EXPECT_EQ(header.tensors[2].info.shape, (std::vector<std::int64_t>{1, 1, 1, 2}));
  file.tensors.clear();
  refused(file.tensor("a", {1, 1, 1, 1, 1}, 0, 0),
          {"tensor 'a' has too many dimensions", "at most 4", "got 5"});
}

TEST(GgufHeader, S14S15Offsets) {
  GgufBytes file;
  file.data = std::string(96, '\0');
  const auto with = [&](std::uint64_t a, std::uint64_t b) {
    file.tensors.clear();
    return file.tensor("a", {8}, 0, a).tensor("b", {8}, 0, b);
  };
  refused(with(0, 0), {"the data overlaps that of tensor", "expected it to begin at data offset 32, got 0"});
  refused(with(0, 64), {"tensor 'b': the data leaves a hole after tensor 'a'", "data offset 32, got 64"});
  refused(with(32, 64), {"tensor 'a': the data leaves a hole after the header"});
  refused(with(0, std::uint64_t{1} << 62U), {"tensor 'b' points past the end of the file"});
  refused(with(0, ~std::uint64_t{0} - 31), {"tensor 'b' points past the end of the file"});
  file.tensors.clear();  // a thousand over the same bytes
  for (int i = 0; i < 1000; ++i) file.tensor(std::to_string(i), {8}, 0, 0);
  refused(file, {"overlaps"});
}

TEST(GgufHeader, S17SizesOfTheFile) {
  const std::string good = two_tensors().bytes();
  EXPECT_EQ(parse(good).tensors.size(), 2U);
  const std::string padded = good + std::string(32 - good.size() % 32, '\0');
  EXPECT_EQ(parse(padded).tensors.size(), 2U) << "writers may pad the last tensor";
  refused(padded + "x", {"does not have the size", "too many"});
  refused(padded + std::string(1000, 'P'), {"does not have the size", "too many"});
  for (const std::size_t missing : {1U, 30U, 68U}) {
    refused(good.substr(0, good.size() - missing),
            {"does not have the size", "tensor 'b' ends past the end"});
  }
  for (std::size_t length = 0; length < good.size(); ++length) {
    expect_refused<CheckpointError>([&] { parse(good.substr(0, length)); }, kFile, {"; "});
  }
}

// Nothing that a header announces is read into memory before it is known to exist.
TEST(GgufHeader, NothingIsReadPastTheHeader) {
  const GgufBytes file = two_tensors();
  const std::string bytes = file.bytes();
  std::uint64_t furthest = 0;
  read_gguf_header(
      bytes.size(),
      [&](std::uint64_t offset, std::span<std::byte> into) {
        furthest = std::max<std::uint64_t>(furthest, offset + into.size());
        std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()) + offset, into.size(), into.begin());
      },
      kFile);
  EXPECT_LE(furthest, bytes.size());
  EXPECT_GE(furthest, file.header().size());
}

TEST(GgufHeader, S20ManyTensorsInLinearTime) {
  const auto seconds = [](std::uint64_t count) {
    GgufBytes file;
    file.uint32("general.alignment", 1);
    file.alignment = 1;
    for (std::uint64_t i = 0; i < count; ++i) file.tensor(fmt::format("t{}", i), {1}, 24, i);
    file.data = std::string(count, '\0');
    const std::string bytes = file.bytes();
    const double start = processor_seconds();
    EXPECT_EQ(parse(bytes).tensors.size(), count);
    return processor_seconds() - start;
  };
  seconds(10'000);
  const double tenth = seconds(10'000), all = seconds(100'000);
  EXPECT_LT(all, 5.0);
  EXPECT_LT(all, 40 * tenth + 0.05);
}

}  // namespace
}  // namespace hooked::gguf_header_test
