#include "core/json.h"

#include <fmt/format.h>

#include <random>
#include <stdexcept>

#include "tests/support/processor_time.h"
#include "tests/support/test.h"

namespace hooked::json_test {
namespace {

std::string refusal(std::string_view text, JsonLimits limits = {}) {
  return text_thrown_by<std::invalid_argument>([&] { parse_json(text, limits); });
}

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(ParseJson, KeepsValuesAndTheOrderOfKeys) {
  const auto json = parse_json(R"( {"b": [1, -2, 2.5, true, null], "a": {"ü": "\u00e9\n"}} )", {});
  EXPECT_EQ(json.dump(), R"({"b":[1,-2,2.5,true,null],"a":{"ü":"é\n"}})");
  EXPECT_TRUE(json["b"][0].is_number_integer());
  EXPECT_FALSE(json["b"][2].is_number_integer());
}

TEST(ParseJson, NumbersKeepWhatTheyAre) {
  const auto json = parse_json("[0, -0, 18446744073709551615, -9223372036854775808, 5e-324, 1E+2, 0.1]", {});
  EXPECT_EQ(json.dump(), "[0,0,18446744073709551615,-9223372036854775808,5e-324,100.0,0.1]");
  // Beyond 64 bits an integer is a double, as in every reader without larger integers.
  const auto large = parse_json("[18446744073709551616, -9223372036854775809]", {});
  EXPECT_EQ(large[0].get<double>(), 18446744073709551616.0);
  EXPECT_EQ(large[1].get<double>(), -9223372036854775808.0);
  EXPECT_TRUE(large[0].is_number_float());
}

TEST(ParseJson, TakesAnyValueAtTheTop) {
  EXPECT_EQ(parse_json("3", {}), 3);
  EXPECT_EQ(parse_json("\"x\"", {}), "x");
  EXPECT_EQ(parse_json("[]", {}), Json::array());
}

struct BadJson {
  std::string_view text;
  std::string_view reason;
};

class RefusedJson : public testing::TestWithParam<BadJson> {};

TEST_P(RefusedJson, NamesPlaceAndReason) {
  const auto& [text, reason] = GetParam();
  EXPECT_NE(refusal(text).find(reason), std::string::npos) << refusal(text);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, RefusedJson,
    testing::Values(BadJson{"", "byte 0"}, BadJson{"   ", "byte 3"}, BadJson{"{\"a\":1", "byte 6"},
                    BadJson{"[1,]", "byte 3"}, BadJson{"{} x", "byte 3"}, BadJson{"{}{}", "byte 2"},
                    BadJson{"[01]", "byte 2"}, BadJson{"[-]", "byte 2; expected a digit, got ']'"},
                    BadJson{"[1.]", "byte 3; expected a digit"}, BadJson{"[1e]", "byte 3; expected a digit"},
                    BadJson{"[1 2]", "byte 3; expected ',' or ']', got '2'"},
                    BadJson{R"({"a":1 "b"})", "byte 7; expected ',' or '}', got a string"},
                    BadJson{"[tru]", "byte 1; expected a value, got 'tru'"}, BadJson{"[1e999]", "1e999"},
                    BadJson{"[1e-999]", "a double can hold, got '1e-999'"}, BadJson{"[NaN]", "byte 1"},
                    BadJson{"{'a':1}", "byte 1"}, BadJson{"// c\n{}", "byte 0"},
                    BadJson{"\xEF\xBB\xBF{}", "byte order mark"},
                    BadJson{"{\"a\":\"\xFF\"}", "ill-formed UTF-8"}, BadJson{"[\"\xC0\xAF\"]", "byte 2"},
                    BadJson{"[\"\xED\xA0\x80\"]", "ill-formed UTF-8"}, BadJson{"[\"\\ud800\"]", "surrogate"},
                    BadJson{std::string_view("{}\0x", 4), "byte 2; expected nothing more, got '\\x00'"},
                    BadJson{"[\"\x01\"]", "control character"},
                    BadJson{R"({"a":1,"b":2,"a":3})", "the key \"a\" twice"},
                    BadJson{R"({"o":{"x":{},"x":{}}})", "the key \"x\" twice"},
                    BadJson{R"({"a":1,"\u0061":2})", "\"a\" twice"}));

TEST(ParsePythonJson, KnowsTheNumbersThatAreNotFinite) {
  const Json json =
      parse_python_json(R"({"a": [0.0, Infinity], "b": -Infinity, "c": {"d": NaN}, "e": -1})", {});
  EXPECT_EQ(not_finite(json["a"][1]), "Infinity");
  EXPECT_EQ(not_finite(json["b"]), "-Infinity");
  EXPECT_EQ(not_finite(json["c"]["d"]), "NaN");
  EXPECT_EQ(not_finite(json["e"]), std::nullopt);
  EXPECT_EQ(not_finite(json["c"]), std::nullopt);
  // Written back they are JSON, in the form that transformers writes.
  EXPECT_EQ(parse_json(json_text(json), {}), json);
  EXPECT_EQ(json_text(json["b"]), R"({"__float__":"-Infinity"})");
}

TEST(ParsePythonJson, IsAsStrictOtherwise) {
  for (const char* text :
       {"[nan]", "[infinity]", "[+Infinity]", "[Inf]", "[-NaN]", "[NaN1]", "[Infinity", "[\"NaN]", "[1,]"}) {
    EXPECT_THROW(parse_python_json(text, {}), std::invalid_argument) << text;
  }
  EXPECT_EQ(parse_python_json(R"(["NaN"])", {})[0], "NaN");
  for (const char* text : {"NaN", "[Infinity]", "{\"a\":-Infinity}"}) {
    EXPECT_THROW(parse_json(text, {}), std::invalid_argument) << text;
  }
}

TEST(ParseJson, KeysMayRepeatAtOnePathOnly) {
  const JsonLimits limits{.repeating = {{"m", "v"}}};
  EXPECT_EQ(parse_json(R"({"m":{"v":{"a":1,"b":2,"a":3}}})", limits).dump(),
            R"({"m":{"v":{"a":1,"b":2,"a":3}}})");
  for (const auto* text : {R"({"a":1,"a":2})", R"({"m":{"a":1,"a":2}})", R"({"v":{"a":1,"a":2}})",
                           R"({"m":{"v":{"x":{"a":1,"a":2}}}})", R"({"m":{"v":[{"a":1,"a":2}]}})",
                           R"({"m":[{"a":1,"a":2}]})", R"({"v":{"m":{"a":1,"a":2}}})"}) {
    EXPECT_NE(refusal(text, limits).find("the key \"a\" twice"), std::string::npos) << text;
  }
  const JsonLimits root{.repeating = std::vector<std::string_view>{}};
  EXPECT_EQ(parse_json(R"({"a":1,"a":2})", root).size(), 2u);
  EXPECT_NE(refusal(R"({"m":{"a":1,"a":2}})", root).find("twice"), std::string::npos);
}

TEST(ParseJson, DuplicateKeyNamesTheObjectsEnd) {
  EXPECT_NE(refusal(R"({"a":1,"a":3})").find("ends at byte 12"), std::string::npos)
      << refusal(R"({"a":1,"a":3})");
}

TEST(ParseJson, DepthLimitOnBothSides) {
  EXPECT_NO_THROW(parse_json(nested(63), {}));
  EXPECT_NO_THROW(parse_json(nested(64), {}));
  EXPECT_NE(refusal(nested(65)).find("at byte 64; expected at most 64 levels"), std::string::npos);
}

TEST(ParseJson, HostileDepthNeitherCrashesNorTakesTime) {
  EXPECT_NE(refusal(std::string(100'000, '[')).find("nested too deep"), std::string::npos);
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_NE(refusal(objects, {.bytes = 10'000'000}).find("nested too deep"), std::string::npos);
}

TEST(ParseJson, ByteLimitOnBothSides) {
  EXPECT_NO_THROW(parse_json("[ ]", {.bytes = 4}));
  EXPECT_NO_THROW(parse_json("[  ]", {.bytes = 4}));
  EXPECT_EQ(refusal("[   ]", {.bytes = 4}), "the JSON text is 5 bytes long; expected at most 4");
}

// Quadratic work on this many keys would take minutes.
TEST(ParseJson, ManyKeysAreFast) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += fmt::format("{}\"key{}\":[{}]", i == 0 ? "" : ",", i, i);
  text += "}";
  const double start = processor_seconds();
  const auto json = parse_json(text, {.bytes = 64 << 20});
  EXPECT_EQ(json.size(), 200'000u);
  EXPECT_LT(processor_seconds() - start, 20.0);
}

// A value equal to that of the JSON library's own parser, or a refusal if it refuses too. That parser
// skips a byte order mark, takes a NUL for the end and keeps both of two equal keys. Says whether it
// was a value.
bool agrees_with_another_parser(const std::string& text) {
  const bool lenient = text.find('\0') != std::string::npos || text.starts_with("\xEF");
  try {
    const auto json = parse_json(text, {});
    EXPECT_EQ(json, Json::parse(text, nullptr, false)) << text;
    return true;
  } catch (const std::invalid_argument& error) {
    const std::string_view reason = error.what();
    EXPECT_NE(reason.find("expected"), std::string_view::npos) << reason;
    const bool stricter = reason.find("twice") != std::string_view::npos ||
                          reason.find("a double can hold") != std::string_view::npos;
    EXPECT_TRUE(lenient || stricter || !Json::accept(text)) << text << ": " << reason;
    return false;
  }
}

const std::vector<std::string> kGoodJson = {
    R"({"a":[1,2.5,"x\u00e9"],"b":{"c":null,"d":true}})",
    R"( [ -0, -12e-3, 18446744073709551615, 0.1e+2 , {} , [] , "\ud83d\ude00\"\\\/\b\f\n\r\t" , false ] )",
    "{\"\u4e2d\":\"\U0001f600\",\"\":[[[]],{\"k\":{\"k\":1}}]}",
};

TEST(ParseJson, EveryCutAndEveryChangedByteIsHandled) {
  for (const auto& good : kGoodJson) {
    EXPECT_TRUE(agrees_with_another_parser(good));
    const auto last = good.find_last_not_of(' ');
    for (std::size_t cut = 0; cut <= last; ++cut)
      EXPECT_FALSE(agrees_with_another_parser(good.substr(0, cut)));
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (int byte = 0; byte < 256; ++byte) {
        auto changed = good;
        changed[at] = static_cast<char>(byte);
        agrees_with_another_parser(changed);
      }
    }
  }
}

TEST(ParseJson, RandomEditsAreHandled) {
  std::mt19937 random(1);
  const std::string tokens = "{}[]:,\"\\u0 19.-+eEtfn\n\xE2\x80";
  std::size_t accepted = 0;
  for (int run = 0; run < 20'000; ++run) {
    auto text = kGoodJson[random() % kGoodJson.size()];
    for (auto edits = random() % 3 + 1; edits > 0; --edits) {
      const auto at = random() % (text.size() + 1);
      if (random() % 2 == 0) {
        text.insert(at, 1, tokens[random() % tokens.size()]);
      } else {
        text.erase(at, random() % 3);
      }
    }
    accepted += agrees_with_another_parser(text) ? 1 : 0;
  }
  EXPECT_GT(accepted, 1000U);
  EXPECT_LT(accepted, 15'000U);
}

TEST(JsonText, WhatIsNotUtf8IsReplaced) {
  EXPECT_EQ(json_text({{"a", {1, "b\n"}}}), R"({"a":[1,"b\n"]})");
  EXPECT_EQ(json_text("x\xFF"), "\"x\xEF\xBF\xBD\"");
}

TEST(Printable, EscapesControlsAndInvalidBytes) {
  EXPECT_EQ(printable("plain é 😀"), "plain é 😀");
  EXPECT_EQ(printable("a\nb\x1b[0m\x7f"), "a\\x0ab\\x1b[0m\\x7f");
  EXPECT_EQ(printable("\xFF\xC3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xC2\x85"), "\\xc2\\x85");           // a C1 control
  EXPECT_EQ(printable("\xED\xA0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
}

TEST(Printable, CutsWhatIsLong) {
  const auto shown = printable(std::string(1000, 'x'));
  EXPECT_LT(shown.size(), 200u);
  EXPECT_NE(shown.find("(1000 bytes)"), std::string::npos);
}

}  // namespace
}  // namespace hooked::json_test
