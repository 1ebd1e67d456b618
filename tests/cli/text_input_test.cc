// Texts as the input of commands, and models with more ids than their tokenizer has pieces.
#include <fstream>

#include "tests/cli/cli_fixture.h"

namespace hooked::text_input_test {
namespace {

class TextInput : public CliTest {
 protected:
  TextInput() { write_tokenizer(); }
};

TEST_F(TextInput, SeveralTextsAreARowEach) {
  const Json both = succeed({"run", model(), "--text", "w2 w3 w4", "--text", "w5", "--json"}).json();
  ASSERT_EQ(both["rows"].size(), 2U);
  EXPECT_EQ(both["rows"][0]["position"], 3);
  EXPECT_EQ(both["rows"][1]["position"], 1) << "the last real token, not the padding";
  const Json alone = succeed({"run", model(), "--text", "w5", "--json"}).json();
  EXPECT_EQ(alone["rows"][0]["next"][0]["id"], both["rows"][1]["next"][0]["id"]);
  EXPECT_NEAR(alone["rows"][0]["next"][0]["logit"], both["rows"][1]["next"][0]["logit"], 1e-5);
}

TEST_F(TextInput, AFileHasATextInEachLine) {
  write("texts.txt", "w2 w3 w4\nw5\n");
  const Json of_file = succeed({"run", model(), "--text-file", path("texts.txt"), "--json"}).json();
  const Json given = succeed({"run", model(), "--text", "w2 w3 w4", "--text", "w5", "--json"}).json();
  EXPECT_EQ(of_file, given);
  write("empty.txt", "");
  expect_failure({"run", model(), "--text-file", path("empty.txt")}, 2,
                 "is empty; expected a text in each line");
  expect_failure({"run", model(), "--text", "w2", "--text-file", path("texts.txt")}, 2, "--text-file");
}

TEST_F(TextInput, StandardInputIsATextOrALineEach) {
  write("texts.txt", "w2 w3 w4\nw5\n");
  const auto piped = [&](const std::string& arguments) {
    const std::string command =
        fmt::format("'{}' {} < '{}' > '{}' 2>&1", HOOKED_CLI, arguments, path("texts.txt"), path("stdout"));
    EXPECT_EQ(std::system(command.c_str()), 0) << read("stdout");
    return parse_json(read("stdout"), {.bytes = std::size_t{1} << 20});
  };
  const Json rows = piped(fmt::format("run '{}' --text-file - --json", model()));
  EXPECT_EQ(rows, succeed({"run", model(), "--text-file", path("texts.txt"), "--json"}).json());
  const Json encoded = piped(fmt::format("tokenize '{}' --text - --json", model()));
  EXPECT_EQ(encoded["rows"][0]["ids"], Json::parse("[0, 2, 3, 4, 5]"));
  expect_failure({"run", model(), "--text-file", "-"}, 2, "--text-file: standard input is empty");
}

// Rows are shown at their own tokens.
TEST_F(TextInput, AllPositionsAreThoseOfEachRow) {
  const Json json =
      succeed({"run", model(), "--text", "w2 w3 w4", "--text", "w5", "--positions", "all", "--json"}).json();
  std::vector<std::pair<int, int>> shown;
  for (const Json& row : json["rows"]) shown.emplace_back(row["row"].get<int>(), row["position"].get<int>());
  EXPECT_EQ(shown, (std::vector<std::pair<int, int>>{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 0}, {1, 1}}));
  expect_failure({"run", model(), "--text", "w2 w3 w4", "--text", "w5", "--positions", "2:"}, 1,
                 "column 2 is padding in row 1");
}

TEST_F(TextInput, ADashIsStandardInput) {
  expect_failure({"run", model(), "--text", "-", "--text", "-"}, 2, "at most once");
  // The fixture's standard input is empty: the BOS token alone is left.
  EXPECT_EQ(succeed({"run", model(), "--text", "-", "--json"}).json()["rows"][0]["position"], 0);
}

TEST_F(TextInput, AChatTemplateMakesThePrompt) {
  expect_failure({"run", model(), "--chat", "--text", "w2"}, 1, "has no chat template");
  write("model/chat_template.jinja",
        "{{ bos_token }}{% for m in messages %} {% if m.role == 'system' %}w9{% endif %} {{ m.content }}{% "
        "endfor %}"
        "{% if add_generation_prompt %} w10{% endif %}");
  const auto tokens = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"cache", model(), "--json", "--out", path("c.safetensors")});
    return succeed(options).json()["tokens"];
  };
  EXPECT_EQ(tokens({"--chat", "--text", "w2 w3"}), Json::parse("[[0, 2, 3, 10]]"));
  EXPECT_EQ(tokens({"--chat", "--system", "w4", "--text", "w2"}), Json::parse("[[0, 9, 4, 2, 10]]"));
  EXPECT_EQ(tokens({"--text", "w2"}), Json::parse("[[0, 2]]")) << "without --chat";
  write("texts.txt", "w2 w3\nw5\n");
  const Json batch = succeed({"run", model(), "--chat", "--text-file", path("texts.txt"), "--json"}).json();
  EXPECT_EQ(batch["rows"][0]["position"], 3);
  EXPECT_EQ(batch["rows"][1]["position"], 2);
  EXPECT_EQ(succeed({"generate", model(), "--chat", "--text", "w2", "--max-new-tokens", "1", "--json"})
                .json()["rows"][0]["prompt_ids"],
            Json::parse("[0, 2, 10]"));
  const Json shown =
      succeed({"tokenize", model(), "--chat", "--system", "w4", "--text", "w2", "--json"}).json();
  EXPECT_EQ(shown["rows"][0]["text"], "<bos> w9 w4  w2 w10");
  EXPECT_EQ(shown["rows"][0]["ids"], Json::parse("[0, 9, 4, 2, 10]"));
  succeed({"save", model(), "--out", path("saved")});
  EXPECT_EQ(read("saved/chat_template.jinja"), read("model/chat_template.jinja"));
  expect_failure({"run", model(), "--chat", "--tokens", "1,2"}, 2, "--chat");
  expect_failure({"run", model(), "--system", "w4", "--text", "w2"}, 2, "--chat");
  expect_failure({"run", model(), "--chat", "--prepend-bos", "yes", "--text", "w2"}, 2, "--chat");
  write("model/chat_template.jinja", "{{ raise_exception('only robots') }}");
  expect_failure({"run", model(), "--chat", "--text", "w2"}, 1,
                 "chat_template.jinja:1:4] the chat template refuses");
}

// A model without chats needs no template, and `save` leaves out a template that it could not read.
TEST_F(TextInput, ATemplateThatCannotBeReadStopsOnlyChats) {
  write_tokenizer();
  const auto file = path("model/chat_template.jinja");
  const auto damaged = [&](const std::string& reason) {
    SCOPED_TRACE(reason);
    succeed({"run", model(), "--text", "w2", "--json"});
    expect_failure({"run", model(), "--chat", "--text", "w2"}, 1, file + "] ");
    expect_failure({"run", model(), "--chat", "--text", "w2"}, 1, reason);
    const auto info = succeed({"info", model()}).out;
    for (const std::string& part :
         {std::string("11 pieces"), std::string("no chat template, which --chat needs"),
          "the chat template cannot be used: [" + file, reason}) {
      EXPECT_NE(info.find(part), std::string::npos) << part << " is not in " << info;
    }
    EXPECT_TRUE(succeed({"info", model(), "--json"}).json()["chat_template"].is_null());
    std::filesystem::remove_all(path("saved"));
    succeed({"save", model(), "--out", path("saved")});
    succeed({"run", path("saved"), "--text", "w2", "--json"});
  };
  std::filesystem::create_symlink("gone", file);
  damaged("'gone', which does not exist");
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  damaged("a folder");
  std::filesystem::remove(file);
  write("model/chat_template.jinja", "{{ \xff }}");
  damaged("byte 3 is not valid UTF-8");
  write("model/chat_template.jinja",
        "version https://git-lfs.github.com/spec/v1\noid sha256:01\nsize 4321\n");
  damaged("this is a Git LFS pointer of 4,321 bytes");
}

TEST_F(TextInput, IdsWithoutAPieceGoThroughEveryCommand) {
  write_tokenizer("model", 6);  // the model has 11 ids
  const std::string toks = "2,9,10";
  EXPECT_NE(succeed({"info", model()}).out.find("11"), std::string::npos);
  const Json run = succeed({"run", model(), "--tokens", toks, "--top-k", "11", "--json"}).json();
  EXPECT_EQ(run["rows"][0]["next"].size(), 11U);
  succeed({"cache", model(), "--tokens", toks, "--out", path("cache.safetensors")});
  const auto made = succeed({"generate", model(), "--tokens", toks, "--max-new-tokens", "4", "--greedy",
                             "--edit", "unembed.hook_out add 0", "--capture", "blocks.*.hook_resid_post",
                             "--out", path("made.safetensors"), "--json"})
                        .json()["rows"][0];
  EXPECT_EQ(made["ids"].size(), 4U);
  EXPECT_TRUE(made["text"].is_string());
  EXPECT_TRUE(std::filesystem::exists(path("made.safetensors")));
  succeed({"generate", model(), "--tokens", toks, "--max-new-tokens", "3"});
  EXPECT_EQ(hooked({"bench", model(), "--iterations", "1", "--length", "4"}).exit_code, 0);
  const auto decoded = succeed({"tokenize", model(), "--decode", "2,3"});
  EXPECT_NE(decoded.out.find("w2 w3"), std::string::npos) << decoded.out;
}

TEST_F(TextInput, BenchFitsAShortContext) {
  const Json json = succeed({"bench", model(), "--iterations", "1", "--json"}).json();
  EXPECT_EQ(json["length"], 4) << "of a context of 8: 4 decode steps stay free";
}

TEST_F(TextInput, DtypesHaveTheirUsualAbbreviations) {
  for (const char* dtype : {"bf16", "fp16", "fp32", "f64"})
    succeed({"run", model(), "--tokens", "2", "--dtype", dtype});
}

}  // namespace
}  // namespace hooked::text_input_test
