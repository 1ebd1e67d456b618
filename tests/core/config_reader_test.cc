#include "core/config_reader.h"

#include <fmt/format.h>

#include "core/json.h"
#include "tests/support/test.h"

namespace hooked::config_reader_test {
namespace {

using Strings = std::vector<std::string>;

TEST(ConfigReader, ReadsEveryKind) {
  const ConfigReader reader(
      R"({"i": -3, "n": 2, "x": 1.5e3, "b": true, "t": "gelu", "is": [1, 2], "xs": [1, 0.5],
                                "bs": [true, false], "ts": ["a", "b"], "o": {"k": 7}, "nothing": null})",
      "config.json");
  EXPECT_EQ(reader.integer("i"), -3);
  EXPECT_EQ(reader.number("n"), 2.0);
  EXPECT_EQ(reader.number("x"), 1500.0);
  EXPECT_TRUE(reader.boolean("b"));
  EXPECT_EQ(reader.text("t"), "gelu");
  EXPECT_EQ(reader.integers("is"), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(reader.numbers("xs"), (std::vector<double>{1.0, 0.5}));
  EXPECT_EQ(reader.booleans("bs"), (std::vector<bool>{true, false}));
  EXPECT_EQ(reader.texts("ts"), (Strings{"a", "b"}));
  EXPECT_EQ(reader.object("o").integer("k"), 7);
  EXPECT_FALSE(reader.object_if("nothing"));
  EXPECT_TRUE(reader.is_null("nothing"));
  EXPECT_FALSE(reader.is_null("absent"));
  EXPECT_FALSE(reader.has("nothing"));
  EXPECT_FALSE(reader.has("absent"));
}

TEST(ConfigReader, AbsentAndNullTakeTheFallback) {
  const ConfigReader reader(R"({"a": null})", "config.json");
  for (const auto* key : {"a", "absent"}) {
    EXPECT_EQ(reader.integer_or(key, 4), 4);
    EXPECT_EQ(reader.number_or(key, 0.5), 0.5);
    EXPECT_TRUE(reader.boolean_or(key, true));
    EXPECT_EQ(reader.text_or(key, "x"), "x");
  }
}

TEST(ConfigReader, ABadValueIsRefusedEvenWithAFallback) {
  const ConfigReader reader(R"({"a": "4"})", "config.json");
  EXPECT_THROW(reader.integer_or("a", 4), ConfigError);
  EXPECT_THROW(reader.number_or("a", 4), ConfigError);
  EXPECT_THROW(reader.boolean_or("a", true), ConfigError);
}

TEST(ConfigReader, MissingFieldIsNamed) {
  const ConfigReader reader(R"({"rope": {"factor": null}})", "m/config.json");
  auto error = thrown_by<ConfigError>([&] { reader.integer("n_layers"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), "m/config.json: n_layers");
  error = thrown_by<ConfigError>([&] { reader.object("rope").number("factor"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), "m/config.json: rope.factor");
  EXPECT_NE(std::string(error->what()).find("null"), std::string::npos);
}

struct WrongType {
  const char* value;
  std::function<void(const ConfigReader&)> read;
  const char* expected;
};

TEST(ConfigReader, WrongTypesNamePathValueAndExpectation) {
  const auto integer = [](const ConfigReader& r) { r.integer("f"); };
  const auto number = [](const ConfigReader& r) { r.number("f"); };
  const auto boolean = [](const ConfigReader& r) { r.boolean("f"); };
  const auto text = [](const ConfigReader& r) { r.text("f"); };
  const auto object = [](const ConfigReader& r) { r.object("f"); };
  const auto texts = [](const ConfigReader& r) { r.texts("f"); };
  const std::vector<WrongType> cases = {
      {"\"12\"", integer, "an integer"},
      {"12.0", integer, "an integer"},
      {"true", integer, "an integer"},
      {"1e3", integer, "an integer"},
      {"[1]", integer, "an integer"},
      {"{}", integer, "an integer"},
      {"\"1\"", number, "a number"},
      {"\"NaN\"", number, "a number"},
      {"true", number, "a number"},
      {"1", boolean, "true or false"},
      {"\"true\"", boolean, "true or false"},
      {"1", text, "a string"},
      {"[]", object, "an object"},
      {"\"a\"", texts, "an array"},
  };
  for (const auto& wrong : cases) {
    const ConfigReader reader(std::string("{\"g\":{\"f\":") + wrong.value + "}}", "config.json");
    const auto group = reader.object("g");
    const auto error = thrown_by<ConfigError>([&] { wrong.read(group); });
    ASSERT_TRUE(error) << wrong.value;
    EXPECT_EQ(error->where(), "config.json: g.f");
    const std::string what = error->what();
    EXPECT_NE(what.find(wrong.expected), std::string::npos) << what;
    EXPECT_NE(what.find(wrong.value[0] == '1' && wrong.value[1] == 'e' ? "1000" : wrong.value),
              std::string::npos)
        << what;
  }
}

TEST(ConfigReader, ListElementsAreNamedByPlace) {
  const ConfigReader reader(R"({"types": ["local", 3]})", "config.json");
  EXPECT_TRUE(throws<ConfigError>([&] { reader.texts("types"); }, "config.json: types[1]"));
}

TEST(ConfigReader, IntegersHave64Bits) {
  const ConfigReader reader(R"({"most": 9223372036854775807, "over": 9223372036854775808, "far": 1e300,
                                "huge": 184467440737095516160})",
                            "config.json");
  EXPECT_EQ(reader.integer("most"), INT64_MAX);
  const auto what = text_thrown_by<ConfigError>([&] { reader.integer("over"); });
  EXPECT_NE(what.find("9223372036854775808"), std::string::npos) << what;
  EXPECT_THROW(reader.integer("far"), ConfigError);
  EXPECT_THROW(reader.integer("huge"), ConfigError);
}

TEST(ConfigReader, WhatIsNotAnObjectIsRefused) {
  for (const auto* text : {"", "[]", "3", "null", "{", "{}x", "\xEF\xBB\xBF{}", R"({"a":1,"a":1})"}) {
    EXPECT_TRUE(throws<ConfigError>([&] { ConfigReader(text, "config.json"); }, "config.json")) << text;
  }
}

TEST(ConfigReader, OneMebibyteIsTheLimit) {
  const auto padded = [](std::size_t bytes) { return "{" + std::string(bytes - 2, ' ') + "}"; };
  EXPECT_NO_THROW(ConfigReader(padded((1 << 20) - 1), "config.json"));
  EXPECT_NO_THROW(ConfigReader(padded(1 << 20), "config.json"));
  const auto what = text_thrown_by<ConfigError>([&] { ConfigReader(padded((1 << 20) + 1), "config.json"); });
  EXPECT_NE(what.find("1048577"), std::string::npos) << what;
}

TEST(ConfigReader, UnreadListsKeysInDocumentOrder) {
  const ConfigReader reader(R"({"z": 1, "a": {"x": 1, "y": 2}, "m": {"q": 1}, "b": 2, "c": null})",
                            "config.json");
  EXPECT_EQ(reader.unread(), (Strings{"z", "a", "m", "b", "c"}));
  reader.integer("z");
  reader.object("a").integer("y");
  reader.ignore({"b", "absent"});
  EXPECT_EQ(reader.unread(), (Strings{"a.x", "m", "c"}));
  EXPECT_EQ(reader.object("a").unread(), (Strings{"x"})) << "children see what is theirs";
}

TEST(ConfigReader, RefuseUnreadNamesTheKey) {
  const ConfigReader reader(R"({"other": 1, "rope": {"factor": 2, "magic": 3}})", "config.json");
  const auto rope = reader.object("rope");
  rope.number("factor");
  EXPECT_TRUE(throws<ConfigError>([&] { rope.refuse_unread(); }, "config.json: rope.magic"));
  rope.ignore({"magic"});
  EXPECT_NO_THROW(rope.refuse_unread());
}

TEST(ConfigReader, FirstOfTakesThePresentName) {
  const ConfigReader reader(R"({"n_layer": 2, "layers": null})", "config.json");
  EXPECT_EQ(reader.first_of({"layers", "n_layer"}), "n_layer");
  EXPECT_EQ(reader.first_of({"x", "y"}), "x");
  EXPECT_EQ(reader.unread(), (Strings{"n_layer", "layers"}));
}

TEST(ConfigReader, RefuseShowsTheValue) {
  const ConfigReader reader("{\"act_fn\": \"mi\\nsh\"}", "config.json");
  const auto what = text_thrown_by<ConfigError>([&] { reader.refuse("act_fn", "is not supported"); });
  EXPECT_EQ(what, "[config.json: act_fn] \"mi\\nsh\" is not supported");
}

TEST(ConfigReader, HostileKeysAreEscapedInMessages) {
  const ConfigReader reader("{\"a\\u001b[31m\": 1}", "config.json");
  EXPECT_TRUE(throws<ConfigError>([&] { reader.refuse_unread(); }, "config.json: a\\x1b[31m"));
}

TEST(ConfigReader, ReadsADocumentOfAnotherClassOfErrors) {
  const ConfigReader reader(parse_json(R"({"o": {"n": 12, "list": [{"k": 1}, {"k": "x"}]}})", {}), "t.json",
                            make_error<TokenizerError>);
  const auto inner = reader.object("o");
  EXPECT_EQ(inner.count("n", 12), 12);
  auto error = thrown_by<TokenizerError>([&] { (void)inner.count("n", 11); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), "t.json: o.n");
  EXPECT_NE(std::string(error->what()).find("12 is out of range; expected 0 to 11"), std::string::npos);
  const auto objects = inner.objects("list");
  ASSERT_EQ(objects.size(), 2u);
  EXPECT_EQ(objects[0].integer("k"), 1);
  EXPECT_EQ(objects[1].where(), "t.json: o.list[1]");
  error = thrown_by<TokenizerError>([&] { objects[1].integer("k"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), "t.json: o.list[1].k");
  error = thrown_by<TokenizerError>(
      [&] { ConfigReader(parse_json("3", {}), "t.json", make_error<TokenizerError>); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), "t.json");
}

TEST(ConfigReader, WordsStandForTheRowsOfATable) {
  static constexpr Named<int> kTable[] = {{"one", 1}, {"two", 2}};
  const ConfigReader reader(R"({"a": "two", "b": "three"})", "config.json");
  EXPECT_EQ(reader.one_of("a", kTable), 2);
  EXPECT_EQ(text_thrown_by<ConfigError>([&] { (void)reader.one_of("b", kTable); }),
            "[config.json: b] \"three\" is not supported; expected one or two");
}

TEST(ConfigReader, NamedIntegersKeepTheirOrderAndRepetitions) {
  const ConfigReader reader(parse_json(R"({"v": {"b": 2, "a": 0, "b": 1}})", {.repeating = {{"v"}}}),
                            "t.json", make_error<TokenizerError>);
  using Entries = std::vector<std::pair<std::string_view, std::int64_t>>;
  EXPECT_EQ(reader.named_integers("v"), (Entries{{"b", 2}, {"a", 0}, {"b", 1}}));
  const ConfigReader wrong(R"({"v": {"a": 1.5}})", "config.json");
  EXPECT_TRUE(throws<ConfigError>([&] { (void)wrong.named_integers("v"); }, "config.json: v.a"));
}

// Python writes them, in either form.
TEST(ConfigReader, ANumberThatIsNotFiniteIsRefusedWhereItIsRead) {
  for (const char* value : {"Infinity", "-Infinity", "NaN", R"({"__float__": "Infinity"})"}) {
    const ConfigReader reader(fmt::format(R"({{"a": {0}, "b": [1.0, {0}], "c": 1}})", value), "config.json");
    EXPECT_EQ(reader.integer("c"), 1);
    EXPECT_TRUE(reader.has("a"));
    EXPECT_FALSE(reader.is_unset("a"));
    for (const auto& read :
         std::vector<std::function<void()>>{[&] { reader.number("a"); }, [&] { reader.integer("a"); },
                                            [&] { reader.boolean("a"); }, [&] { reader.text("a"); }}) {
      EXPECT_TRUE(throws<ConfigError>(read, "config.json: a", {"a number that is not finite"})) << value;
    }
    EXPECT_TRUE(throws<ConfigError>([&] { reader.numbers("b"); }, "config.json: b[1]"));
  }
}

TEST(ConfigReader, AChildOutlivesItsParent) {
  std::optional<ConfigReader> child;
  {
    const ConfigReader reader(R"({"o": {"k": 5}})", "config.json");
    child = reader.object("o");
  }
  EXPECT_EQ(child->integer("k"), 5);
}

}  // namespace
}  // namespace hooked::config_reader_test
