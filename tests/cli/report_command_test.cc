// hooked report: the page it writes, the commands inside it, and what is refused.
#include <set>
#include <string>

#include "hooked/io/file.h"
#include "tests/cli/cli_fixture.h"
#include "tests/support/page_data.h"
#include "tests/support/random_dictionaries.h"

namespace hooked::report_command_test {
namespace {

namespace fs = std::filesystem;

class ReportCommand : public CliTest {
 protected:
  ReportCommand() { write_tokenizer(); }

  nlohmann::json data_of(const std::string& file) const {
    return page_data(read_text_file(path(file), 1 << 24));
  }
};

/// The words of a command line of a page, whose texts have no quotes.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false;
  for (const char c : line + " ") {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      if (!word.empty()) words.push_back(word);
      word.clear();
    } else {
      word += c;
    }
  }
  words.erase(words.begin());  // `hooked`
  return words;
}

TEST_F(ReportCommand, ItsCommandsRun) {
  random_autoencoder("blocks.0.hook_resid_post", config().d_model).save(path("sae"));
  const auto result = succeed({"report", model(), "--text", "w2 w3 w4", "--corrupted", "w2 w5 w4", "--answer",
                               " w5", "--against", " w6", "--dictionary", path("sae"), "--with-error",
                               "--no-processing", "--neurons", "--out", path("r.html"), "--json"});
  const Json json = result.json();
  EXPECT_EQ(json["complete"], true);
  EXPECT_EQ(json["out"], path("r.html"));
  EXPECT_EQ(json["bytes"], fs::file_size(path("r.html")));
  const auto data = data_of("r.html");
  ASSERT_EQ(data["sections"].size(), 8U);
  ASSERT_EQ(json["sections"].size(), 8U);
  const std::set<std::string> names(json["sections"].begin(), json["sections"].end());
  EXPECT_EQ(names.size(), 8U) << "no two sections have the same name: " << json["sections"].dump();
  for (const auto& section : data["sections"]) {
    const auto line = section["code"]["shell"].get<std::string>();
    const auto again = hooked(words_of(line));
    EXPECT_EQ(again.exit_code, 0) << line << '\n' << again.error;
  }
}

TEST_F(ReportCommand, TokensAreGivenAgainAsTokens) {
  const auto result = succeed({"report", model(), "--tokens", "1,2,3", "--out", path("r.html")});
  EXPECT_THAT(result.out, HasSubstr("Logit lens"));
  EXPECT_THAT(data_of("r.html")["sections"][1]["code"]["shell"].get<std::string>(),
              HasSubstr("--tokens 1,2,3"));
}

TEST_F(ReportCommand, RefusesWhatItCannotDo) {
  const auto refusal = [&](std::vector<std::string> more, int exit_code) {
    std::vector<std::string> words{"report", model()};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = hooked(words);
    EXPECT_EQ(result.exit_code, exit_code) << result.error;
    return result.error;
  };
  EXPECT_THAT(refusal({"--tokens", "1,2"}, 2), HasSubstr("--out"));
  EXPECT_THAT(refusal({"--tokens", "1,2", "--out", path("r.txt")}, 2), HasSubstr(".html"));
  EXPECT_THAT(refusal({"--tokens", "1,2", "--corrupted-tokens", "1,3", "--out", path("r.html")}, 2),
              HasSubstr("expected --answer in addition"));
  EXPECT_THAT(refusal({"--tokens", "1,2", "--against-token", "3", "--out", path("r.html")}, 2),
              HasSubstr("expected --answer in addition"));
  EXPECT_THAT(refusal({"--tokens", "1,2", "--tokens", "1,3", "--out", path("r.html")}, 2),
              HasSubstr("expected one row, got 2"));
  EXPECT_FALSE(fs::exists(path("r.html")));
  write_file(path("mine.html"), "<p>mine");
  EXPECT_THAT(refusal({"--tokens", "1,2", "--out", path("mine.html")}, 1), HasSubstr("mine.html"));
}

}  // namespace
}  // namespace hooked::report_command_test
