// docs/command-line.md has the form of every --json, and it is what the program prints.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "cli/actions.h"
#include "options/command.h"
#include "options/command_line.h"
#include "tests/cli/cli_fixture.h"
#include "tests/cli/json_forms.h"
#include "tests/support/golden_folder.h"
#include "tests/support/random_dictionaries.h"
#include "tests/support/scoped_environment.h"

namespace hooked::json_page_test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

std::string page() {
  std::ifstream file(fs::path(HOOKED_SOURCE_DIR) / "docs/command-line.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

JsonForms page_forms() { return JsonForms(page()); }

TEST(CommandLinePage, ListsEveryCommandInTheOrderOfHelp) {
  const std::string text = page();
  std::size_t at = 0;
  for (const auto& command : cli::commands()) {
    const auto row = text.find(fmt::format("\n| `{}", command.name), at);
    ASSERT_NE(row, std::string::npos) << command.name;
    at = row;
  }
}

TEST(JsonForms, SayWhatIsWrong) {
  JsonForms forms(R"(
```forms
// A comment.
Place = {row: int, name?: text | null}
found = {...Place, values: [[real]], kind: "a" | "b", by_name: {*: Place}}
```
)");
  const Json right = Json::parse(R"({"row": 1, "name": null, "values": [[1, 0.5, null, "inf"], []],
                                     "kind": "b", "by_name": {"x": {"row": 2}}})");
  EXPECT_EQ(forms.problems(right, "found"), Words{});
  EXPECT_EQ(forms.never_seen(), Words{});
  const auto wrong = [&](const char* change, const std::string& problem) {
    Json value = right;
    value.merge_patch(Json::parse(change));
    EXPECT_EQ(forms.problems(value, "found"), Words{problem});
  };
  wrong(R"({"more": 1})", "found.more: the page does not have this key");
  wrong(R"({"row": null})", "found.row: the key is missing");
  wrong(R"({"row": 1.5})", "found.row: expected int, got 1.5");
  wrong(R"({"name": 3})", "found.name: expected null, got 3");
  wrong(R"({"values": [["nan"]]})", "found.values[0][0]: expected real, got \"nan\"");
  wrong(R"({"kind": "c"})", "found.kind: expected \"b\", got \"c\"");
  wrong(R"({"by_name": {"x": {"rows": 2, "row": 1}}})",
        "found.by_name[x].rows: the page does not have this key");
}

TEST(JsonForms, KnowWhatWasNeverThere) {
  JsonForms forms("\n```forms\na = {x?: int, y?: {z: int}}\nB = int\n```\n");
  EXPECT_EQ(forms.problems(Json::parse(R"({"x": 1})"), "a"), Words{});
  EXPECT_EQ(forms.never_seen(), (Words{"B", "a.x?", "a.y", "a.y.z"}));
}

/// What the program prints for these arguments, in this process.
std::string printed(const Words& words) {
  std::vector<const char*> arguments{"hooked"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  std::string problem;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  try {
    const auto line = cli::read_command_line(static_cast<int>(arguments.size()), arguments.data());
    if (const auto* read = std::get_if<cli::CommandLine>(&line))
      std::visit([](const auto& options) { cli::perform(options); }, read->options);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  std::fflush(stdout);
  std::string out = testing::internal::GetCapturedStdout();
  EXPECT_EQ(testing::internal::GetCapturedStderr() + problem, "") << fmt::format("{}", fmt::join(words, " "));
  return out;
}

/// What can be asked for JSON: the commands with --json, and the program for its version.
std::set<std::string> with_json() {
  std::set<std::string> names{"version"};
  for (const auto& command : cli::commands()) {
    const std::string name(command.name);
    if (printed({name, "--help"}).find("\n  --json ") != std::string::npos) names.insert(name);
  }
  return names;
}

TEST(JsonForms, AreThereForEveryCommand) {
  std::set<std::string> forms;  // those of commands begin with a small letter
  for (const std::string& name : page_forms().names()) {
    if (std::islower(static_cast<unsigned char>(name.front())) != 0) forms.insert(name);
  }
  EXPECT_EQ(forms, with_json());
}

class JsonPage : public CliTest {
 protected:
  JsonPage() {
    ScopedEnvironment::set("HF_HUB_CACHE", path("cache"));
    const auto cached = folder_ / "cache/models--org--small";
    fs::create_directories(cached / "snapshots");
    fs::create_directories(cached / "refs");
    fs::copy(folder_ / "model", cached / "snapshots/c0ffee");
    std::ofstream(cached / "refs/main") << "c0ffee";
    write("pairs.jsonl", R"({"clean": "w2 w3", "corrupted": "w4 w3", "answers": " w5", "against": " w6"})"
                         "\n"
                         R"({"clean": [0, 1, 2, 3], "corrupted": [0, 1, 4, 3], "answers": 7, "against": 8})"
                         "\n");
    write("corpus.txt", "w2 w3\nw4 w5 w6\n");
    write("texts.json", R"(["w2", "w3 w4"])");
    random_autoencoder("blocks.0.hook_resid_post", config().d_model).save(path("sae"));
    const auto transcoders = random_transcoders(config(), {});
    for (std::size_t layer = 0; layer < transcoders.size(); ++layer)
      transcoders[layer].save(path(fmt::format("transcoders/{}", layer)));
  }

  static std::string golden(const char* name) { return golden_folder(name).string(); }

  /// Calls that have every key of every form, by command.
  std::vector<Words> calls() const;

  const ScopedEnvironment environment_{kHubSettings};
};

std::vector<Words> JsonPage::calls() const {
  const std::string m = model(), t5 = golden("cases/t5"), file = path("cache.safetensors");
  const Words pair{"--clean", "w2 w3", "--corrupted", "w4 w3", "--answer", " w5", "--against", " w6"};
  const Words pairs{"--pairs", path("pairs.jsonl")};
  const auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  return {
      {"--version"},
      {"list"},
      {"info", m},
      {"info", m, "--check-processing"},
      {"info", golden("adapters/llama_patterns")},
      {"info", golden("cases/gemma3_text_in_gemma3")},
      {"info", HOOKED_SOURCE_DIR "/tests/dictionaries/golden/published/circuit_tracer_clt"},
      {"names", m, "--tokens-length", "4"},
      {"names", m},
      {"tokenize", m, "--text", "w2 w3", "--add-special-tokens"},
      {"tokenize", m, "--texts-file", path("texts.json")},
      {"tokenize", m, "--decode", "2,3"},
      {"run", m, "--text", "w2 w3", "--text", "w4", "--answer", "w5"},
      {"run", t5, "--tokens", "1,2,3"},
      {"cache", m, "--text", "w2 w3", "--out", file, "--gradients", "--answer", "w5", "--against", "w6"},
      {"show", file},
      {"show", path("model/model.safetensors")},
      {"generate", m, "--text", "w2 w3", "--text", "w4", "--max-new-tokens", "2"},
      {"generate", t5, "--tokens", "1,2,3", "--max-new-tokens", "2"},
      {"lens", m, "--text", "w2 w3"},
      {"lens", m, "--tokens", "1,2", "--parts", "head", "--answer-token", "5"},
      {"attribute", m, "--text", "w2 w3", "--answer", "w5"},
      {"attribute", m, "--text", "w2 w3", "--answer", "w5", "--sources"},
      {"heads", m, "--text", "w2 w3"},
      {"heads", m, "--half", "2", "--rows", "2"},
      {"heads", m, "--text", "w2 w3", "--pattern", "0.1"},
      with({"patch", m, "--sweep", "resid_pre,attn_head_out_all_pos"}, pair),
      with(
          {"patch", m, "--sweep", "attn_head_out_all_pos", "--metric", "logit_difference,loss", "--per-pair"},
          pairs),
      with({"circuits", m}, pair),
      with({"circuits", m, "--check", "1", "--top", "2", "--judge", "1"}, pair),
      with({"circuits", m, "--edges", "--top", "2", "--greedy", "--save", path("circuit.json")}, pair),
      with({"circuits", m, "--circuit", path("circuit.json")}, pair),
      {"weights", m, "--composition", "q,k"},
      {"weights", m, "--copying", "--top-k", "2"},
      {"weights", m, "--singular", "ov_written", "--directions", "2"},
      {"sae", m, "--dictionary", path("sae"), "--text", "w2 w3", "--no-processing", "--quality"},
      {"sae", m, "--dictionary", path("sae"), "--text", "w2 w3", "--no-processing", "--ablate", "3",
       "--answer", "w5"},
      {"sae", m, "--dictionary", path("sae"), "--text", "w2", "--no-processing", "--features",
       "0,1,2,3,4,5,6,7"},
      {"graph", m, "--dictionary", path("transcoders"), "--text", "w2 w3 w4", "--no-processing", "--paths",
       "400", "--node-share", "1", "--edge-share", "1"},
      {"harvest", m, "--corpus", path("corpus.txt"), "--names", "resid_post", "--context", "3", "--out",
       path("acts")},
      {"harvest", m, "--corpus", path("corpus.txt"), "--names", "resid_post", "--context", "3", "--dry-run"},
      {"harvest", "--status", path("acts")},
      {"report", m, "--text", "w2 w3 w4", "--out", path("r.html")},
      {"save", m, "--out", path("saved")},
      {"bench", m, "--iterations", "1", "--length", "2"},
  };
}

TEST_F(JsonPage, IsWhatTheProgramPrints) {
  write_tokenizer();
  JsonForms forms = page_forms();
  std::set<std::string> called;
  for (Words words : calls()) {
    const std::string command = words.front() == "--version" ? "version" : words.front();
    words.emplace_back("--json");
    const std::string out = printed(words);
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1) << "one line\n" << out;
    for (const std::string& problem : forms.problems(parse_json(out, {.bytes = out.size()}), command))
      ADD_FAILURE() << fmt::format("{}", fmt::join(words, " ")) << '\n' << problem;
    called.insert(command);
  }
  EXPECT_EQ(called, with_json());
  // Only a metric of one's own in C++ fails at some places.
  EXPECT_EQ(forms.never_seen(), (Words{"Failed", "Failed.labels", "Failed.error"}));
}

}  // namespace
}  // namespace hooked::json_page_test
