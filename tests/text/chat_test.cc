// Conversations against transformers' apply_chat_template, for templates in the style of published families
// (tests/golden/make.py chat), and where templates are read from.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "hooked/text/tokenizer.h"
#include "tests/support/processor_time.h"
#include "tests/support/temp_folder.h"
#include "tests/text/golden_time.h"

namespace hooked::text::chat_test {
namespace {

const std::filesystem::path kFiles = std::filesystem::path(HOOKED_SOURCE_DIR) / "tests/text/chat";

std::string read(const std::filesystem::path& file) { return read_text_file(file, 1 << 24); }
Json read_json(const std::filesystem::path& file) { return parse_json(read(file), {.bytes = 1 << 24}); }
void write(const std::filesystem::path& file, std::string_view text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFiles / "templates"))
    names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

struct Conversation {
  std::vector<ChatMessage> messages;
  ChatOptions options;
};

Conversation conversation_of(const Json& json) {
  Conversation conversation;
  for (const auto& message : json["messages"]) {
    const auto& content = message["content"];
    ChatMessage each{message["role"].get<std::string>(),
                     content.is_string() ? content.get<std::string>() : ""};
    Json members = message;
    members.erase("role");
    if (content.is_string()) members.erase("content");
    if (!members.empty()) each.members = members.dump();
    conversation.messages.push_back(std::move(each));
  }
  auto& options = conversation.options;
  options.time = golden_time();
  for (const auto& [key, value] : json["options"].items()) {
    if (key == "add_generation_prompt") {
      options.add_generation_prompt = value.get<bool>();
    } else if (key == "tools") {
      options.tools = value.dump();
    } else if (key == "documents") {
      options.documents = value.dump();
    } else {
      options.variables.emplace_back(key, value.dump());
    }
  }
  return conversation;
}

class GoldenChat : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenChat, TextAndTokensAreThoseOfTransformers) {
  static const auto conversations = read_json(kFiles / "conversations.json");
  static const auto golden = read_json(kFiles / "families.json");
  const auto& family = golden.at(GetParam());
  const TempFolder folder;
  std::filesystem::copy_file(kFiles / "tokenizer.json", folder / "tokenizer.json");
  std::filesystem::copy_file(kFiles / "templates" / (GetParam() + ".jinja"), folder / "chat_template.jinja");
  const Json config = {{"bos_token", family["bos_token"]}, {"eos_token", family["eos_token"]}};
  write(folder / "tokenizer_config.json", config.dump());
  const auto tokenizer = Tokenizer::load(folder.path());
  ASSERT_EQ(tokenizer.chat_template(), (folder / "chat_template.jinja").string());
  std::size_t with_tokens = 0;
  for (const auto& [name, expected] : family["cases"].items()) {
    const auto [messages, options] = conversation_of(conversations.at(name));
    if (!expected.contains("text")) {
      try {
        ADD_FAILURE() << name << " gives " << tokenizer.chat_text(messages, options);
      } catch (const TokenizerError& error) {
        const std::string message = error.what();
        EXPECT_EQ(message.find("is not read here"), std::string::npos) << message;
        if (expected.contains("raised")) {
          EXPECT_NE(message.find("chat_template.jinja:"), std::string::npos) << message;
          EXPECT_TRUE(message.ends_with("refuses these messages: " + expected["raised"].get<std::string>()))
              << message;
        }
      }
      continue;
    }
    const auto text = expected["text"].get<std::string>();
    EXPECT_EQ(tokenizer.chat_text(messages, options), text) << name;
    if (!expected.contains("ids")) continue;
    EXPECT_EQ(tokenizer.to_chat_tokens(messages, options).ids,
              expected["ids"].get<std::vector<std::int64_t>>())
        << name;
    ++with_tokens;
  }
  EXPECT_GT(with_tokens, 0U);
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenChat, ::testing::ValuesIn(families()),
                         [](const auto& test) { return test.param; });

constexpr const char* kTokenizer =
    R"({"model": {"type": "WordLevel", "vocab": {"<s>": 0, "hi": 1, "</s>": 2}, "unk_token": "hi"},
    "added_tokens": [{"id": 0, "content": "<s>", "special": true}], "pre_tokenizer": {"type": "Whitespace"}})";

class ChatFiles : public ::testing::Test {
 protected:
  ChatFiles() { write(folder_ / "tokenizer.json", kTokenizer); }

  Tokenizer load() const { return Tokenizer::load(folder_.path()); }
  std::string text(const ChatOptions& options = {}) const {
    return load().chat_text({{"user", "hi"}}, options);
  }
  std::string refusal(const ChatOptions& options = {}) const {
    try {
      return "gives " + text(options);
    } catch (const TokenizerError& error) {
      return error.what();
    }
  }

  TempFolder folder_;
};

TEST_F(ChatFiles, WithoutATemplateNothingIsGuessed) {
  EXPECT_FALSE(load().chat_template());
  EXPECT_NE(refusal().find("has no chat template"), std::string::npos);
}

TEST_F(ChatFiles, AFileOfItsOwnComesBeforeTheConfigAndThatBeforeTheOlderFile) {
  write(folder_ / "chat_template.json", R"({"chat_template": "old {{ messages[0].content }}"})");
  EXPECT_EQ(text(), "old hi");
  write(folder_ / "tokenizer_config.json",
        R"({"chat_template": "config {{ bos_token }}", "bos_token": {"content": "<s>"}})");
  EXPECT_EQ(text(), "config <s>");
  write(folder_ / "chat_template.jinja", "file {{ bos_token }}");
  EXPECT_EQ(text(), "file <s>");
  EXPECT_EQ(Tokenizer::files_in(folder_.path()),
            (std::vector<std::string>{"tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                                      "chat_template.json"}));
}

// Equal to transformers 5.23 on these files.
TEST_F(ChatFiles, TheMapOfSpecialTokensCountsWhereTheConfigListsNoAddedTokens) {
  write(folder_ / "chat_template.jinja", "{{ bos_token }}|{{ eos_token }}|{{ pad_token }}");
  write(folder_ / "special_tokens_map.json",
        R"({"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "</s>"})");
  EXPECT_EQ(text(), "<s>|</s>|");
  write(folder_ / "tokenizer_config.json", R"({"bos_token": "hi", "pad_token": "hi"})");
  EXPECT_EQ(text(), "<s>|</s>|hi");
  write(folder_ / "tokenizer_config.json",
        R"({"bos_token": "hi", "added_tokens_decoder": {"0": {"content": "<s>", "special": true}}})");
  EXPECT_EQ(text(), "hi||");
  std::filesystem::remove(folder_ / "tokenizer_config.json");
  EXPECT_EQ(Tokenizer::files_in(folder_.path()),
            (std::vector<std::string>{"tokenizer.json", "special_tokens_map.json", "chat_template.jinja"}));
  write(folder_ / "special_tokens_map.json", "[");
  EXPECT_NE(refusal().find("special_tokens_map.json"), std::string::npos) << refusal();
}

TEST_F(ChatFiles, OneOfSeveralIsChosenByNameOrByTools) {
  write(
      folder_ / "tokenizer_config.json",
      R"({"chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T{{ tools|length }}"},
                              {"name": "rag", "template": "R{{ documents[0].text }}"}]})");
  EXPECT_EQ(text(), "D");
  EXPECT_EQ(text({.tools = R"([{"a": 1}])"}), "T1");
  EXPECT_EQ(text({.documents = R"([{"text": "x"}])", .template_name = "rag"}), "Rx");
  EXPECT_NE(refusal({.template_name = "nope"}).find("expected one of default, tool_use, rag"),
            std::string::npos);
  write(folder_ / "additional_chat_templates/other.jinja", "O");
  EXPECT_NE(refusal({.template_name = "other"}).find("additional_chat_templates"), std::string::npos);
  write(folder_ / "chat_template.jinja", "F");
  write(folder_ / "additional_chat_templates/tool_use.jinja", "O");
  EXPECT_EQ(text(), "F");
  EXPECT_NE(refusal({.tools = "[{}]"}).find("'tool_use' is in additional_chat_templates"), std::string::npos);
}

TEST_F(ChatFiles, WhatIsDamagedIsToldWhereItIsUsed) {
  write(folder_ / "tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_NE(refusal().find("tokenizer_config.json: chat_template] is an integer"), std::string::npos)
      << refusal();
  write(folder_ / "tokenizer_config.json", R"({"chat_template": [{"name": "default"}]})");
  EXPECT_NE(refusal().find("chat_template[0]]"), std::string::npos) << refusal();
  write(folder_ / "tokenizer_config.json", R"({"chat_template": "a\n{{ b"})");
  EXPECT_NE(refusal().find("chat_template:2:1] a tag does not end"), std::string::npos) << refusal();
  write(folder_ / "chat_template.jinja", "{{ \xff }}");
  EXPECT_NE(refusal().find("chat_template.jinja] byte 3 is not valid UTF-8"), std::string::npos) << refusal();
  EXPECT_EQ(load().encode("hi").ids, std::vector<std::int64_t>{1});
  write(folder_ / "tokenizer_config.json", R"({"chat_template": 5})");
  std::filesystem::remove(folder_ / "chat_template.jinja");
  ASSERT_EQ(load().notes().size(), 1U);
  EXPECT_NE(load().notes()[0].find("the chat template cannot be used: "), std::string::npos);
}

// S24
TEST_F(ChatFiles, APointerInThePlaceOfATemplateIsNotRendered) {
  const std::string_view pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:01\nsize 4321\n";
  for (const char* name : {"chat_template.jinja", "tokenizer_config.json", "special_tokens_map.json"}) {
    TempFolder folder;
    write(folder / "tokenizer.json", kTokenizer);
    write(folder / "chat_template.jinja", "{{ bos_token }}");
    write(folder / name, pointer);
    try {
      const auto tokenizer = Tokenizer::load(folder.path());
      ADD_FAILURE() << name << " gives " << tokenizer.chat_text({{"user", "hi"}});
    } catch (const TokenizerError& error) {
      EXPECT_EQ(error.where(), (folder / name).native());
      EXPECT_EQ(error.message(), "this is a Git LFS pointer of 4,321 bytes; fetch the real file") << name;
    }
  }
}

// I2, I3
TEST_F(ChatFiles, TemplatesThatAreNoRegularFiles) {
  const auto path = folder_ / "chat_template.jinja";
  write(folder_ / "blob", "linked {{ messages[0].content }}");
  std::filesystem::create_symlink("blob", path);
  EXPECT_EQ(text(), "linked hi");
  const auto refused = [&](const std::filesystem::path& file, std::string_view what) {
    const Tokenizer tokenizer = load();
    EXPECT_EQ(tokenizer.encode("hi").ids, std::vector<std::int64_t>{1});
    EXPECT_FALSE(tokenizer.chat_template());
    const std::string said = refusal();
    EXPECT_EQ(said.find("[" + file.native() + "] "), 0u) << said;
    EXPECT_NE(said.find(what), std::string::npos) << said;
    EXPECT_EQ(tokenizer.notes(), std::vector<std::string>{"the chat template cannot be used: " + said});
    // What can be read is saved into another folder.
    const auto files = Tokenizer::read_files(folder_.path());
    EXPECT_TRUE(files.contains("tokenizer.json"));
    EXPECT_FALSE(files.contains(file.filename().native()));
    EXPECT_EQ(tokenizer.with_chat_template("mine").chat_text({{"user", "hi"}}), "mine");
    std::filesystem::remove(file);
  };
  std::filesystem::remove(path);
  std::filesystem::create_symlink("gone", path);
  refused(path, "'gone', which does not exist");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  refused(path, "a named pipe");
  std::filesystem::create_directory(path);
  refused(path, "a folder");
  std::filesystem::create_directory(folder_ / "chat_template.json");
  refused(folder_ / "chat_template.json", "a folder");
  // A damaged file that is needed for more than chats stops the tokenizer.
  for (const char* name : {"special_tokens_map.json", "tokenizer_config.json"}) {
    std::filesystem::create_directory(folder_ / name);
    EXPECT_THROW(load(), IoError);
    EXPECT_THROW(Tokenizer::read_files(folder_.path()), IoError);
  }
}

// C2
TEST_F(ChatFiles, SpecialTokensOfAWrongType) {
  write(folder_ / "chat_template.jinja", "{{ pad_token }}");
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    for (const auto& [value, kind] :
         {std::pair{"5", "an integer"}, std::pair{"true", "a boolean"}, std::pair{"[\"<s>\"]", "an array"},
          std::pair{"{\"text\": \"<s>\"}", "an object"}, std::pair{"{\"content\": 5}", "an object"}}) {
      write(folder_ / file, std::string("{\"pad_token\": ") + value + "}");
      const std::string said = refusal();
      EXPECT_NE(said.find(std::string(file) + ": pad_token] is " + kind + "; expected a token's spelling"),
                std::string::npos)
          << said;
    }
    write(folder_ / file, R"({"pad_token": null})");
    EXPECT_EQ(text(), "") << "no token";
    std::filesystem::remove(folder_ / file);
  }
}

// T5: ten million bytes of one message, by templates that trim, cut and join it.
TEST_F(ChatFiles, LongMessagesTakeLinearTime) {
  const std::string_view line = "It is a word. ";
  const auto message = [&](std::size_t bytes) {
    std::string content;
    while (content.size() < bytes) content += line;
    return content;
  };
  const std::string longest = message(10'000'000);
  for (const char* name : {"llama31", "qwen25", "mistral_v1", "gemma", "deepseek_r1"}) {
    const auto file = kFiles / "templates" / (std::string(name) + ".jinja");
    ASSERT_TRUE(std::filesystem::exists(file)) << name;
    const auto tokenizer = load().with_chat_template(read(file));
    const auto seconds = [&](const std::string& content) {
      const double start = processor_seconds();
      const std::string rendered = tokenizer.chat_text({{"user", content}}, {.time = golden_time()});
      EXPECT_GE(rendered.size(), content.size() - 1) << name;
      return processor_seconds() - start;
    };
    seconds(message(1'250'000));
    const double eighth = seconds(message(1'250'000)), all = seconds(longest);
    EXPECT_LT(all, 30 * eighth + 0.5) << name;
  }
}

TEST_F(ChatFiles, OptionsAreChecked) {
  write(folder_ / "chat_template.jinja", "{{ x }}{{ bos_token }}");
  EXPECT_EQ(text({.variables = {{"x", "[1, \"a\"]"}, {"bos_token", "\"B\""}}}), "[1, 'a']B");
  EXPECT_NE(refusal({.variables = {{"x", "[1"}}}).find("[variables.x]"), std::string::npos);
  EXPECT_NE(refusal({.variables = {{"messages", "[]"}}}).find("has an option of its own"), std::string::npos);
  EXPECT_NE(refusal({.tools = "{}"}).find("[tools] is an object; expected an array"), std::string::npos)
      << refusal({.tools = "{}"});
  EXPECT_THROW(load().chat_text({}), TokenizerError);
  EXPECT_THROW(load().chat_text({{"user", "\xff"}}), TokenizerError);
  EXPECT_THROW(load().chat_text({{"user", "a", "[]"}}), TokenizerError);
}

TEST_F(ChatFiles, ATemplateCanBeGiven) {
  const auto tokenizer =
      load().with_chat_template("{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}");
  EXPECT_EQ(tokenizer.chat_text({{"system", "a"}, {"user", "b"}}), "system:a;user:b;");
  EXPECT_EQ(tokenizer.chat_template(), "chat template");
  EXPECT_EQ(tokenizer.to_chat_tokens({{"user", "<s>hi"}}).ids, (std::vector<std::int64_t>{1, 1, 0, 1, 1}));
}

}  // namespace
}  // namespace hooked::text::chat_test
