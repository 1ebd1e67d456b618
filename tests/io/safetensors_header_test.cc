// Rules S5 to S16, S18, S20 and S22 of safetensors headers, on text in memory.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "hooked/io/safetensors.h"
#include "tests/io/file_bytes.h"

namespace hooked::safetensors_header_test {
namespace {

constexpr const char* kFile = "m.safetensors";

SafetensorsHeader parse(std::string_view header, std::uint64_t data_bytes = 0) {
  return parse_safetensors_header(header, 8 + header.size() + data_bytes, kFile);
}

void refused(std::string_view header, std::uint64_t data_bytes,
             std::initializer_list<std::string_view> parts) {
  SCOPED_TRACE(std::string(header.substr(0, 200)));
  expect_refused<CheckpointError>([&] { parse(header, data_bytes); }, kFile, parts);
}

std::string tensor(std::string_view name, std::string_view dtype, std::string_view shape,
                   std::string_view offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape, offsets);
}

std::string object(std::string_view members) { return fmt::format("{{{}}}", members); }

// One float32 tensor of 24 bytes whose field `field` is replaced by the JSON text `value`.
std::string with_field(std::string_view field, std::string_view value) {
  std::string fields;
  for (const auto& [name, good] :
       {std::pair("dtype", "\"F32\""), std::pair("shape", "[2,3]"), std::pair("data_offsets", "[0,24]")}) {
    fields += fmt::format("{}\"{}\":{}", fields.empty() ? "" : ",", name, field == name ? value : good);
  }
  return fmt::format("{{\"w\":{{{}}}}}", fields);
}

TEST(SafetensorsHeader, DescribesTensorsInFileOrder) {
  const auto header =
      parse(object(tensor("b", "F32", "[2,3]", "[4,28]") + "," + tensor("a", "I8", "[4]", "[0,4]") +
                   R"(,"__metadata__":{"format":"pt","":"x"})"),
            28);
  ASSERT_EQ(header.tensors.size(), 2U);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype, at::kChar);
  EXPECT_EQ(header.tensors[0].bytes(), 4U);
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_EQ(header.tensors[1].dtype_name, "F32");
  EXPECT_EQ(header.tensors[1].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(header.tensors[1].begin, header.tensors[0].end);
  EXPECT_EQ(header.metadata, (std::map<std::string, std::string>{{"", "x"}, {"format", "pt"}}));
}

TEST(SafetensorsHeader, S2NoObject) {
  refused("", 0, {"not a JSON object", "byte 8", "expected '{'", "the end of the text"});
  refused("{", 0, {"byte 9", "expected a string", "the end of the text"});
  refused("7", 0, {"not a JSON object", "byte 8", "'7'"});
}

TEST(SafetensorsHeader, S5BadText) {
  refused("{\"\xFF\":1}", 0, {"byte 10", "UTF-8", "0xff"});
  refused("{\"\xC0\xAF\":1}", 0, {"byte 10", "0xc0"});          // overlong
  refused("{\"a\xE0\x80\xAF\":1}", 0, {"byte 11", "0xe0"});     // overlong
  refused("{\"\xED\xA0\x80\":1}", 0, {"byte 10", "0xed"});      // a surrogate in UTF-8
  refused("{\"\xF5\x80\x80\x80\":1}", 0, {"byte 10", "0xf5"});  // above U+10FFFF
  refused("{\"\xE2\x82", 0, {"byte 10", "0xe2"});               // cut short
  refused("\xEF\xBB\xBF{}", 0, {"byte 8", "byte order mark"});
  refused(object(tensor(R"(a\u0000b)", "F32", "[]", "[0,4]")), 4, {"NUL"});
  refused(object(tensor(R"(a\ud800)", "F32", "[]", "[0,4]")), 4, {"byte 11", "half a surrogate pair"});
  refused(object(tensor(R"(\udc00)", "F32", "[]", "[0,4]")), 4, {"byte 10", "half a surrogate pair"});
  refused(object(tensor(R"(\ud800\u0041)", "F32", "[]", "[0,4]")), 4, {"half a surrogate pair"});
  refused("{\"a\nb\":1}", 0, {"byte 11", "control character"});
}

TEST(SafetensorsHeader, S5OddNamesAreNames) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {R"(a\nb)", "a\nb"},
      {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
      {R"(\ud83d\ude00)", "\xF0\x9F\x98\x80"},
      {"../../x", "../../x"},
      {"/etc/passwd", "/etc/passwd"},
      {R"(\u00e9\u20AC)", "\xC3\xA9\xE2\x82\xAC"},
      {R"(\"\\\/\b\f\r\t)", "\"\\/\b\f\r\t"},
      {"", ""},
  };
  for (const auto& [text, name] : names) {
    const auto header = parse(object(tensor(text, "F32", "[]", "[0,4]")), 4);
    ASSERT_EQ(header.tensors.size(), 1U);
    EXPECT_EQ(header.tensors[0].name, name);
  }
  refused(object(tensor(R"(a\nb)", "F32", "[2]", "[0,4]")), 4, {"tensor 'a\\x0ab'"});  // escaped in messages
}

TEST(SafetensorsHeader, NameLengthLimitIsExact) {
  for (const std::size_t bytes : {4095U, 4096U}) {
    EXPECT_EQ(parse(object(tensor(std::string(bytes, 'n'), "U8", "[]", "[0,1]")), 1).tensors[0].name.size(),
              bytes);
  }
  refused(object(tensor(std::string(4097, 'n'), "U8", "[]", "[0,1]")), 1, {"at most 4096 bytes", "byte 9"});
}

// Texts that RFC 8259 refuses, one for each rule of its grammar.
const std::vector<std::string> kNotJson = {
    "",
    " ",
    "{",
    "}",
    "[",
    "]",
    "[1",
    "[1,",
    "[1,]",
    "[,1]",
    "[1,,2]",
    "[1 2]",
    "[1}",
    "{]",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{,\"a\":1}",
    "{\"a\" 1}",
    "{\"a\"::1}",
    "{a:1}",
    "{'a':1}",
    "{1:1}",
    "{\"a\":1 \"b\":2}",
    "{\"a\":1,,}",
    "{\"a\":1}}",
    "{}{}",
    "{} 1",
    "{}#",
    "{}//c",
    "/**/{}",
    "{\"a\":/**/1}",
    "nul",
    "True",
    "NaN",
    "Infinity",
    "-",
    "+1",
    "01",
    "-01",
    "1.",
    ".5",
    "1e",
    "1e+",
    "1.e3",
    "0x1F",
    "1_000",
    "2..3",
    "--1",
    "1a",
    "\"",
    "\"a",
    "\"\\",
    "\"\\x\"",
    "\"\\u12\"",
    "\"\\u12G4\"",
    "\"\\",
    "\"a\tb\"",
    "\"\x01\"",
    "\"\\'\"",
    "{\"a\":\"b\"c}",
    "\xEF\xBB\xBF{}",
    "{\"a\":1\f}",
    "\xA0{}",
    "{\"a\":tru}",
    "[\"a\",\n4\n,1,",
    "<.>",
    "*",
    "{\"\\uD800\\\":1}",
    std::string("{\0}", 3),
    std::string("{\"a\":\0}", 7),
    std::string("{}\0", 3),
};

TEST(SafetensorsHeader, S6WhatIsNotJsonIsRefusedEverywhere) {
  for (const auto& text : kNotJson) {
    // The list itself is right by another parser, which passes over byte order marks and NULs.
    const bool lenient = text.starts_with("\xEF") || text.ends_with('\0');
    ASSERT_TRUE(lenient || !nlohmann::json::accept(text)) << text;
    refused(text, 0, {"expected", "byte"});
    refused(fmt::format("{{\"w\":{}}}", text), 0, {"expected"});
    refused(fmt::format("{{\"__metadata__\":{}}}", text), 0, {"expected"});
    refused(with_field("shape", text), 24, {"expected"});
    refused(with_field("dtype", text), 24, {"expected"});
    refused(fmt::format("{{\"__metadata__\":{{\"a\":{}}}}}", text), 0, {"expected"});
  }
}

TEST(SafetensorsHeader, S6DeepNestingIsRefusedAtItsFirstStep) {
  const std::string deep(100'000, '[');
  refused(deep, 0, {"not a JSON object", "byte 8", "an array"});
  refused(with_field("shape", deep), 24, {"tensor 'w'", "shape", "an array"});
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  refused(objects, 0, {"unknown field 'a'"});
}

TEST(SafetensorsHeader, S6NothingMayFollow) {
  refused("{}x", 0, {"byte 10", "expected nothing more", "'x'"});
  refused("{} {}", 0, {"byte 11", "an object"});
}

TEST(SafetensorsHeader, S7BlanksAroundTheObject) {
  const auto header = parse(" \n\t\r" + object(tensor("w", "F32", "[ 2 , 3 ]", "[ 0 ,24 ]")) + " \n   ", 24);
  EXPECT_EQ(header.tensors[0].bytes(), 24U);
}

TEST(SafetensorsHeader, S8NothingTwice) {
  const auto a = tensor("a", "F32", "[]", "[0,4]");
  refused(object(a + "," + tensor("b", "F32", "[]", "[4,8]") + "," + tensor("a", "F32", "[]", "[8,12]")), 12,
          {"tensor 'a'", "twice"});
  refused(object(a + "," + tensor(R"(\u0061)", "F32", "[]", "[4,8]")), 8, {"tensor 'a'", "twice"});
  refused(R"({"w":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4,
          {"tensor 'w'", "'dtype'", "twice"});
  refused(R"({"w":{"dtype":"F32","shape":[],"shape":[],"data_offsets":[0,4]}})", 4, {"'shape'", "twice"});
  refused(R"({"w":{"dtype":"F32","shape":[],"data_offsets":[0,4],"data_offsets":[0,4]}})", 4,
          {"'data_offsets'", "twice"});
  refused(R"({"__metadata__":{},"__metadata__":{}})", 0, {"'__metadata__'", "twice"});
  refused(R"({"__metadata__":{"a":"1","a":"2"}})", 0, {"__metadata__ 'a'", "twice"});
}

TEST(SafetensorsHeader, S9Fields) {
  refused(R"({"w":{"shape":[],"data_offsets":[0,4]}})", 4, {"tensor 'w'", "'dtype' is missing"});
  refused(R"({"w":{"dtype":"F32","data_offsets":[0,4]}})", 4, {"tensor 'w'", "'shape' is missing"});
  refused(R"({"w":{"dtype":"F32","shape":[]}})", 4, {"tensor 'w'", "'data_offsets' is missing"});
  refused(R"({"w":{}})", 4, {"tensor 'w'", "'dtype' is missing"});
  refused(R"({"w":{"dtype":"F32","shape":[],"data_offsets":[0,4],"strides":[1]}})", 4,
          {"tensor 'w'", "'strides'"});
  for (const auto* value : {"1", "null", "true", "[]", "{}", "[\"F32\"]"}) {
    refused(with_field("dtype", value), 24, {"tensor 'w'", "dtype", "expected a string"});
  }
  for (const auto* value : {"6", "null", "true", "\"[2,3]\"", "{}", "{\"0\":2}"}) {
    refused(with_field("shape", value), 24, {"tensor 'w'", "shape", "expected '['"});
    refused(with_field("data_offsets", value), 24, {"tensor 'w'", "data_offsets", "expected '['"});
  }
  for (const auto* value : {"2.0", "2.5", "1e3", "-1", "-0", "null", "true", "02"}) {
    const auto got = fmt::format("got '{}'", value);
    refused(with_field("shape", fmt::format("[{},3]", value)), 24,
            {"tensor 'w'", "shape", "whole number", got});
    refused(with_field("data_offsets", fmt::format("[0,{}]", value)), 24,
            {"data_offsets", "whole number", got});
  }
  refused(with_field("shape", "[\"2\",3]"), 24, {"shape", "whole number", "got a string"});
  refused(with_field("shape", "[[2],3]"), 24, {"shape", "whole number", "got an array"});
  for (const auto* value : {"1", "null", "[]", "\"x\""}) {
    refused(fmt::format("{{\"w\":{}}}", value), 0, {"tensor 'w'", "description", "expected '{'"});
  }
}

TEST(SafetensorsHeader, S10UnknownDtypesOpen) {
  for (const auto* dtype : {"f32", "F33", "", "float32", "F128"}) {
    const auto header = parse(with_field("dtype", fmt::format("\"{}\"", dtype)), 24);
    EXPECT_EQ(header.tensors[0].dtype, at::ScalarType::Undefined);
    EXPECT_EQ(header.tensors[0].dtype_name, dtype);
  }
  // Kinds of the format that this engine has not still have a size.
  EXPECT_EQ(parse(object(tensor("w", "F8_E4M3", "[3]", "[0,3]")), 3).tensors[0].dtype,
            at::ScalarType::Undefined);
  EXPECT_EQ(parse(object(tensor("w", "F4", "[4]", "[0,2]")), 2).tensors[0].bytes(), 2U);
  refused(object(tensor("w", "U16", "[3]", "[0,3]")), 3, {"tensor 'w'", "expected 6 bytes, got 3"});
  refused(object(tensor("w", "F4", "[3]", "[0,2]")), 2, {"tensor 'w'", "whole number of bytes"});
}

TEST(SafetensorsHeader, S11Overflow) {
  const auto overflows = [](std::string_view shape, std::string_view offsets, std::uint64_t bytes) {
    refused(object(tensor("w", "F32", shape, offsets)), bytes, {"tensor 'w'", "overflow"});
  };
  overflows("[4194305,4194305,211106198978564]", "[0,16]", 16);  // wraps to 4 elements
  overflows("[4611686018427387905]", "[0,4]", 4);                // times 4 bytes wraps to 4
  overflows("[2,18446744073709551614]", "[0,0]", 0);
  overflows("[9223372036854775808]", "[0,0]", 0);
  overflows("[0,9223372036854775808]", "[0,0]", 0);
  overflows("[99999999999999999999999999999]", "[0,0]", 0);
  overflows("[0,4611686018427387904,4611686018427387904]", "[0,0]", 0);  // strides would wrap
  refused(object(tensor("w", "F32", "[1]", "[0,18446744073709551616]")), 4,
          {"tensor 'w'", "data_offsets", "overflow"});
  refused(object(tensor("w", "F32", "[1]", "[18446744073709551612,4]")), 4, {"tensor 'w'", "data_offsets"});
  refused(object(tensor("w", "F32", "[288230376151711743]", "[0,4]")), 4,
          {"expected 1152921504606846972 bytes, got 4"});
}

TEST(SafetensorsHeader, S12S13ScalarsAndEmptyTensors) {
  const auto header = parse(
      object(tensor("none", "F32", "[2,0]", "[0,0]") + "," + tensor("s", "F32", "[]", "[0,4]") + "," +
             tensor("none too", "F64", "[0]", "[4,4]") + "," + tensor("none either", "I8", "[0,7]", "[4,4]")),
      4);
  EXPECT_EQ(header.tensors.size(), 4U);
  refused(object(tensor("w", "F32", "[2,0]", "[0,4]")), 4, {"tensor 'w'", "expected 0 bytes, got 4"});
}

TEST(SafetensorsHeader, RankLimitIsExact) {
  EXPECT_EQ(parse(object(tensor("w", "U8", "[1,1,1,1,1,1,1]", "[0,1]")), 1).tensors[0].shape.size(), 7U);
  EXPECT_EQ(parse(object(tensor("w", "U8", "[1,1,1,1,1,1,1,1]", "[0,1]")), 1).tensors[0].shape.size(), 8U);
  refused(object(tensor("w", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]")), 1,
          {"tensor 'w'", "shape", "at most 8 entries"});
}

TEST(SafetensorsHeader, S14Offsets) {
  refused(with_field("data_offsets", "[24,0]"), 24, {"tensor 'w'", "begin <= end", "[24, 0]"});
  refused(with_field("data_offsets", "[0,24]"), 20, {"tensor 'w' ends past the end", "4 missing"});
  refused(with_field("data_offsets", "[]"), 24, {"tensor 'w'", "two entries, got 0"});
  refused(with_field("data_offsets", "[24]"), 24, {"tensor 'w'", "two entries, got 1"});
  refused(with_field("data_offsets", "[0,24,24]"), 24, {"tensor 'w'", "at most 2 entries"});
  refused(with_field("data_offsets", "[-24,0]"), 24, {"tensor 'w'", "'-24'"});
}

TEST(SafetensorsHeader, S15OverlapsAndHoles) {
  const auto a = tensor("a", "U8", "[8]", "[0,8]");
  refused(object(a + "," + tensor("b", "U8", "[8]", "[7,15]")), 15,
          {"tensor 'b'", "overlaps that of tensor 'a'", "data offset 8, got 7"});
  refused(object(a + "," + tensor("b", "U8", "[8]", "[9,17]")), 17,
          {"tensor 'b'", "leaves a hole after tensor 'a'", "data offset 8, got 9"});
  refused(object(tensor("a", "U8", "[8]", "[1,9]")), 9,
          {"tensor 'a'", "hole after the header", "offset 0, got 1"});
  refused(object(a + "," + tensor("b", "U8", "[2]", "[3,5]")), 8, {"tensor 'b'", "overlaps"});
  refused(object(a + "," + tensor("b", "U8", "[0]", "[4,4]")), 8, {"tensor 'b'", "overlaps"});
  std::string same;
  for (int i = 0; i < 1000; ++i)
    same += tensor(fmt::format("t{}", i), "U8", "[8]", "[0,8]") + (i < 999 ? "," : "");
  refused(object(same), 8, {"overlaps"});
}

TEST(SafetensorsHeader, S16SizeAndShapeDisagree) {
  refused(with_field("data_offsets", "[0,16]"), 16,
          {"tensor 'w'", "data_offsets [0, 16]", "F32 [2, 3]", "expected 24 bytes, got 16"});
  refused(with_field("data_offsets", "[0,28]"), 28, {"tensor 'w'", "expected 24 bytes, got 28"});
}

TEST(SafetensorsHeader, S18Metadata) {
  for (const auto* value : {"1", "null", "true", "[]", "{}", "1.5"}) {
    refused(fmt::format(R"({{"__metadata__":{{"step":{}}}}})", value), 0,
            {"__metadata__ 'step'", "expected a string"});
  }
  for (const auto* value : {"1", "null", "[]", "\"x\""}) {
    refused(fmt::format(R"({{"__metadata__":{}}})", value), 0, {"__metadata__", "expected '{'"});
  }
  const auto header =
      parse(fmt::format(R"({{"__metadata__":{{"big":"{}"}}}})", std::string(50'000'000, 'x')));
  EXPECT_EQ(header.metadata.at("big").size(), 50'000'000U);
}

TEST(SafetensorsHeader, MetadataBytesLimitIsExact) {
  const auto of_bytes = [](std::size_t bytes) {
    return fmt::format(R"({{"__metadata__":{{"a":"{}","b":"{}"}}}})", std::string(1'000'000, 'x'),
                       std::string(bytes - 1'000'000, 'x'));
  };
  EXPECT_EQ(parse(of_bytes(59'999'999)).metadata.at("b").size(), 58'999'999U);
  EXPECT_EQ(parse(of_bytes(60'000'000)).metadata.at("b").size(), 59'000'000U);
  refused(of_bytes(60'000'001), 0, {"__metadata__ 'b'", "at most 59000000 bytes"});
}

TEST(SafetensorsHeader, MetadataEntriesLimitIsExact) {
  const auto entries = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += fmt::format("{}\"{}\":\"\"", i == 0 ? "" : ",", i);
    return fmt::format(R"({{"__metadata__":{{{}}}}})", text);
  };
  EXPECT_EQ(parse(entries(100'000)).metadata.size(), 100'000U);
  refused(entries(100'001), 0, {"__metadata__", "at most 100000", "got more"});
}

TEST(SafetensorsHeader, S20TensorsLimitIsExact) {
  const auto tensors = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text +=
          (i == 0 ? "" : ",") + tensor(fmt::format("t{}", i), "U8", "[1]", fmt::format("[{},{}]", i, i + 1));
    }
    return object(text);
  };
  EXPECT_EQ(parse(tensors(99'999), 99'999).tensors.size(), 99'999U);
  const auto header = parse(tensors(100'000), 100'000);
  ASSERT_EQ(header.tensors.size(), 100'000U);
  EXPECT_EQ(header.tensors[99'999].name, "t99999");
  refused(tensors(100'001), 100'001, {"at most 100000", "got more"});
}

TEST(SafetensorsHeader, S22EmptyHeaders) {
  EXPECT_TRUE(parse("{}").tensors.empty());
  EXPECT_EQ(parse(R"({"__metadata__":{"a":"b"}})").metadata.at("a"), "b");
  refused("{}", 3, {"expected 10 bytes, got 13", "3 too many"});
}

}  // namespace
}  // namespace hooked::safetensors_header_test
