// hooked report: the page it writes, the commands inside it, and what is refused.
#include <set>
#include <string>

#include "hooked/io/file.h"
#include "tests/cli/cli_fixture.h"
#include "tests/support/page_data.h"
#include "tests/support/random_dictionaries.h"
#include "tests/support/run_program.h"

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

// Paths and texts have what means something to a shell. Each command reads the report's own tokens.
TEST_F(ReportCommand, ItsCommandsRunInBash) {
  const std::string sae = path("the 'sae' of $HOME"), named = path("a model; `id`");
  random_autoencoder("blocks.0.hook_resid_post", config().d_model).save(sae);
  fs::create_directory_symlink(model(), named);
  const auto result = succeed({"report",        named,
                               "--text",        "w2 $x 'w3'\nw4",
                               "--corrupted",   "w2 $x 'w5'\nw4",
                               "--answer",      " w5",
                               "--against",     " w6",
                               "--dictionary",  sae,
                               "--with-error",  "--no-processing",
                               "--prepend-bos", "yes",
                               "--neurons",     "--out",
                               path("r.html"),  "--json"});
  const Json json = result.json();
  EXPECT_EQ(json["complete"], true);
  EXPECT_EQ(json["out"], path("r.html"));
  EXPECT_EQ(json["bytes"], fs::file_size(path("r.html")));
  const auto data = data_of("r.html");
  ASSERT_EQ(data["sections"].size(), 8U);
  ASSERT_EQ(json["sections"].size(), 8U);
  int compared = 0;
  const std::set<std::string> names(json["sections"].begin(), json["sections"].end());
  EXPECT_EQ(names.size(), 8U) << "no two sections have the same name: " << json["sections"].dump();
  for (const auto& section : data["sections"]) {
    const auto line = section["code"]["shell"].get<std::string>();
    write("script",
          "exec 2>'" + path("errors") + "'\nhooked() { '" HOOKED_CLI "' \"$@\"; }\n" + line + " --json\n");
    const auto again = run_command("bash '" + path("script") + "'");
    ASSERT_EQ(again.status, 0) << line << '\n' << read("errors");
    const Json said = parse_json(again.output, {.bytes = std::size_t{1} << 26});
    if (!said.contains("tokens") || line.find("--corrupted") != std::string::npos) continue;
    EXPECT_EQ(said["tokens"], json["tokens"]) << line;
    ++compared;
  }
  EXPECT_GE(compared, 5);
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
