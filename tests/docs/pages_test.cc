// What pages say of the program and of the headers: what is missing, what Ctrl-C ends, measured numbers,
// pictures.
#include "tests/docs/pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_folder.h"

namespace hooked::pages_test {
namespace {

std::vector<std::string> matches_of(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at)
    found.push_back((*at)[1]);
  return found;
}

std::string without_comments(const std::string& code) {
  return std::regex_replace(code, std::regex("//[^\n]*"), "");
}

std::string all_headers() {
  std::string text;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kRoot / "include/hooked")) {
    const auto ending = entry.path().extension();
    if (ending == ".h" || ending == ".inc")
      text += without_comments(read(std::filesystem::relative(entry.path(), kRoot)));
  }
  return text;
}

/// The commands of the program and what `--help` says of each.
std::vector<std::pair<std::string, std::string>> commands_of_the_program() {
  std::vector<std::pair<std::string, std::string>> commands;
  bool inside = false;
  for (const std::string& line : output_of("'" HOOKED_CLI "' --help")) {
    if (line == "Subcommands:") {
      inside = true;
    } else if (line.empty()) {
      inside = false;
    } else if (inside && line[2] != ' ') {
      const auto end = line.find(' ', 2);
      commands.emplace_back(line.substr(2, end - 2), line.substr(line.find_first_not_of(' ', end)));
    } else if (inside) {
      commands.back().second += " " + line.substr(line.find_first_not_of(' '));
    }
  }
  return commands;
}

/// The words in backticks of the pages' lists "Not there yet", before each item's colon, which says why.
std::set<std::string> said_to_be_missing() {
  std::set<std::string> words;
  std::vector<std::filesystem::path> pages{"README.md"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kRoot / "docs")) {
    if (entry.path().extension() == ".md") pages.push_back(std::filesystem::relative(entry.path(), kRoot));
  }
  for (const auto& page : pages) {
    bool inside = false, names = false;
    for (std::string line : lines_of(read(page))) {
      constexpr std::string_view kBegin = "Not there yet:";
      if (line.starts_with(kBegin)) {
        inside = names = true;
        line = line.substr(kBegin.size());
      } else if (inside && line.starts_with("- ")) {
        names = true;
      } else if (inside && !line.empty() && !line.starts_with("  ")) {
        inside = false;
      }
      if (!inside || !names) continue;
      const auto colon = line.find(": ");
      for (const std::string& word : matches_of(line.substr(0, colon), std::regex("`([^`]*)`")))
        words.insert(word);
      names = colon == std::string::npos;
    }
  }
  return words;
}

/// The model types that load, of the table in docs/families.md.
std::set<std::string> model_types() {
  const std::string page = read("docs/families.md");
  const auto begin = page.find("| `model_type` | cases |");
  EXPECT_NE(begin, std::string::npos);
  const auto types =
      matches_of(page.substr(begin, page.find("\n\n", begin) - begin), std::regex("\n\\| `([^`]+)` \\|"));
  return {types.begin(), types.end()};
}

// A change that adds what a list names has to take it off the list.
TEST(NotThereYet, NothingOfTheListsIsThere) {
  const std::string headers = all_headers();
  const auto types = model_types();
  std::set<std::string> commands;
  for (const auto& [name, summary] : commands_of_the_program()) commands.insert(name);
  EXPECT_GT(commands.size(), 10U);
  const auto words = said_to_be_missing();
  EXPECT_GT(words.size(), 8U);
  for (const std::string& word : words) {
    ASSERT_TRUE(std::regex_match(word, std::regex("[A-Za-z0-9_]+"))) << word;
    const std::regex declared("\\b" + word + R"(\s*\(|\b(?:struct|class)\s+)" + word + "\\b");
    EXPECT_FALSE(std::regex_search(headers, declared)) << word << " is declared in a public header";
    EXPECT_FALSE(commands.contains(word)) << "hooked " << word << " is a command";
    EXPECT_FALSE(types.contains(word)) << word << " is a model type that loads";
  }
}

// Of a call of TransformerLens's model whose row says "not yet", ours has no function of that name.
TEST(NotThereYet, CallsOfTransformerLensThatRowsSayAreMissing) {
  const std::string model = without_comments(read("include/hooked/engine/hooked_transformer.h"));
  int rows = 0;
  for (const std::string& line : lines_of(read("docs/from-transformerlens.md"))) {
    if (!line.starts_with("| `model.") || line.find("| not yet") == std::string::npos) continue;
    const std::string first = line.substr(0, line.find(" | "));
    for (const std::string& name : matches_of(first, std::regex(R"(model\.(\w+))"))) {
      EXPECT_FALSE(std::regex_search(model, std::regex("\\b" + name + R"(\s*\()"))) << name;
      ++rows;
    }
  }
  EXPECT_GT(rows, 3);
}

/// The names of a page's sentence "Ctrl-C ends A, B and C after the current step".
std::set<std::string> ended_early(std::string text) {
  std::erase(text, '`');
  text = std::regex_replace(text, std::regex("\\s+"), " ");
  std::smatch list;
  if (!std::regex_search(text, list, std::regex("Ctrl-C ends (.*?) after the current step"))) return {};
  std::set<std::string> names;
  for (const std::string& name : matches_of(list[1].str() + ",", std::regex(R"((\w+)(?: and|,))")))
    names.insert(name);
  return names;
}

// The table says it of those commands that guard their work, and README and help have it from the table.
// Those have an InterruptGuard called `guard`; `save` has one of another name, and keeps nothing.
TEST(CtrlC, IsSaidOfTheCommandsThatKeepWhatTheyComputed) {
  std::set<std::string> guarding;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "src/cli")) {
    const std::string code = without_comments(read(std::filesystem::relative(entry.path(), kRoot)));
    if (!std::regex_search(code, std::regex(R"(InterruptGuard>? guard)"))) continue;
    for (std::string name :
         matches_of(code, std::regex(R"(\nvoid perform\(const (\w+?)(?:Command)?Options&)"))) {
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
      guarding.insert(name);
    }
  }
  EXPECT_GT(guarding.size(), 5U);
  EXPECT_EQ(ended_early(joined(output_of("'" HOOKED_CLI "' --help"))), guarding);
  EXPECT_EQ(ended_early(read("README.md")), guarding);
}

TEST(Readme, CommandsAndFormsOfAModelAreThoseOfTheProgram) {
  const std::string page = read("README.md");
  const std::string help =
      std::regex_replace(joined(output_of("'" HOOKED_CLI "' --help")), std::regex("\\s+"), " ");
  std::smatch forms;
  ASSERT_TRUE(std::regex_search(help, forms, std::regex(R"(MODEL is (.*?)\. Nothing)"))) << help;
  EXPECT_NE(page.find("`MODEL` is " + forms[1].str() + " ("), std::string::npos) << forms[1];
  std::string table;
  for (const auto& [name, summary] : commands_of_the_program())
    table += "| `hooked " + name + "` | " + summary + " |\n";
  EXPECT_NE(page.find("|---|---|\n" + table + "\n"), std::string::npos) << "expected this table:\n" << table;
}

// Whatever is said about --force holds for all others that write a file.
TEST(CommandLine, CommandsWithoutForceAreNamed) {
  std::set<std::string> without;
  for (const auto& [name, summary] : commands_of_the_program()) {
    const std::string help = joined(output_of("'" HOOKED_CLI "' " + name + " --help"));
    if (help.find("\n  --out ") != std::string::npos && help.find("\n  --force") == std::string::npos)
      without.insert(name);
  }
  const std::string page = read("docs/command-line.md");
  std::smatch named;
  ASSERT_TRUE(std::regex_search(
      page, named, std::regex(R"(((?:`[a-z]+`(?: and )?)+) write folders and have no `--force`)")));
  const auto names = matches_of(named[1], std::regex("`([a-z]+)`"));
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()), without);
}

// | question | ratio | how to read it |: the number of GPT-2-small's shape in float32, the first of the row's
// numbers.
TEST(Readme, MeasuredNumbersAreThoseOfThePageOnSpeed) {
  const std::string page = read("README.md");
  const std::string speed = read("docs/speed.md");
  const std::regex row(R"(\n\| ([^|]+ ÷ [^|]+) \| ([0-9.]+) \| (time|memory); (more|less) than 1: hooked)");
  int rows = 0;
  for (std::sregex_iterator at(page.begin(), page.end(), row), end; at != end; ++at, ++rows) {
    const std::string begin = " | " + (*at)[1].str() + " | ";
    const auto found = speed.find(begin);
    ASSERT_NE(found, std::string::npos) << begin;
    const auto target_end = speed.find(" | ", found + begin.size() - 1);
    const std::string rest = speed.substr(target_end + 3, 40);
    EXPECT_TRUE(std::regex_search(rest, std::regex("^\\**" + (*at)[2].str() + "\\b"))) << rest;
    const bool more = (*at)[4] == "more";
    EXPECT_EQ(more, (*at)[1].str().find("÷ hooked") != std::string::npos)
        << "its divisor says what is better";
    EXPECT_EQ(more, std::stod((*at)[2].str()) > 1) << "what the row says is so";
    EXPECT_EQ((*at)[3] == "memory", (*at)[1].str().find("memory") != std::string::npos);
  }
  EXPECT_EQ(rows, 5);
}

// On the shipped model, which knows the words of the page's prompts.
TEST(Decisions, ANumberWithoutAPageIsNamed) {
  std::set<int> there, named;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "docs/decisions")) {
    const std::string name = entry.path().filename().string();
    if (name != "README.md") there.insert(std::stoi(name.substr(0, 4)));
  }
  for (const std::string& number : matches_of(read("docs/decisions/README.md"), std::regex("\\b([0-9]+)\\b")))
    named.insert(std::stoi(number));
  ASSERT_FALSE(there.empty());
  std::set<int> missing;
  for (int number = 1; number < *there.rbegin(); ++number) {
    if (!there.contains(number)) missing.insert(number);
  }
  EXPECT_EQ(named, missing);
}

/// The commands of a page as a script that runs them in a folder.
std::string script_of(const char* page, const std::filesystem::path& folder) {
  std::string script = "set -e\nhooked() { '" HOOKED_CLI "' \"$@\"; }\nHF_HOME='" + folder.string() +
                       "'\nexport HF_HOME\ncd \"$HF_HOME\"\n";
  for (const PageBlock& block : blocks_of(read(page))) {
    if (block.language == "bash") script += joined(block.lines);
  }
  return script;
}

void expect_runs(const std::string& script, const std::filesystem::path& folder,
                 const std::vector<const char*>& files) {
  std::ofstream(folder / "script") << script;
  EXPECT_GT(output_of("bash '" + (folder / "script").string() + "'").size(), 50U);
  for (const char* file : files) EXPECT_TRUE(std::filesystem::exists(folder / file)) << file;
}

TEST(Tour, EveryCommandRuns) {
  const TempFolder folder;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "examples"))
    std::filesystem::create_symlink(entry.path(), folder / entry.path().filename());
  expect_runs(script_of("docs/tour.md", folder.path()), folder.path(),
              {"run.safetensors", "attention.svg", "patching.svg", "graph.json"});
}

TEST(FirstHour, EveryCommandRuns) {
  const TempFolder folder;
  std::string script = script_of("docs/first-hour.md", folder.path());
  for (const auto& [theirs, ours] :
       {std::pair<std::string, std::string>{"hf download [^\n]*", "true"},
        {"openai-community/gpt2", "'" + (kRoot / "examples/toy_model").string() + "'"},
        {R"(blocks\.9\.attn\.hook_z\[head=9)", "blocks.1.attn.hook_z[head=3"}})
    script = std::regex_replace(script, std::regex(theirs), ours);
  EXPECT_EQ(script.find("gpt2"), std::string::npos);
  expect_runs(script, folder.path(), {"resid_pre.svg", "heads.svg", "run.safetensors"});
}

// The model is one that lies elsewhere, and the program is built.
TEST(Readme, APictureOfAModelTakesThreeCommands) {
  const TempFolder folder;
  const auto model = folder / "a model";
  std::filesystem::copy(kRoot / "examples/toy_model", model);
  const auto blocks = blocks_of(read("README.md"));
  const auto found = std::ranges::find_if(blocks, [](const PageBlock& block) {
    return joined(block.lines).find("path/to/model") != std::string::npos;
  });
  ASSERT_NE(found, blocks.end());
  ASSERT_EQ(found->lines.size(), 3U);
  std::string script = "set -e\ncd '" + folder.path().string() + "'\n" + joined(found->lines);
  for (const auto& [theirs, ours] :
       {std::pair<std::string, std::string>{"bash scripts/demo.sh", "true"},
        {"\\$PWD/build/release/bin", "'" + std::filesystem::path(HOOKED_CLI).parent_path().string() + "'"},
        {"path/to/model", "'" + model.string() + "'"}}) {
    EXPECT_TRUE(std::regex_search(script, std::regex(theirs))) << theirs;
    script = std::regex_replace(script, std::regex(theirs), ours);
  }
  std::ofstream(folder / "script") << script;
  EXPECT_GT(output_of("bash '" + (folder / "script").string() + "'").size(), 4U) << "sections are named";
  EXPECT_TRUE(std::filesystem::exists(folder / "report.html"));
}

TEST(Readme, NumberOfModelTypesIsThatOfTheTable) {
  const auto types = model_types();
  EXPECT_TRUE(types.contains("gpt2"));
  for (const char* page : {"README.md", "CHANGELOG.md"})
    EXPECT_NE(read(page).find(std::to_string(types.size()) + " model types"), std::string::npos)
        << page << ": " << types.size();
}

TEST(Readme, ShowsAPartOfTheDemo) {
  const std::string demo = HOOKED_BINARY_DIR "/bin/demo";
  if (!std::filesystem::exists(demo)) GTEST_SKIP() << "the demo is not built";
  const TempFolder folder;
  int parts = 0;
  for (const PageBlock& block : blocks_of(read("README.md"))) {
    if (block.source != "part of the output of build/release/bin/demo") continue;
    const auto printed = output_of("'" + demo + "' examples/toy_model '" + (folder / "out").string() + "'");
    const auto first = std::ranges::find(printed, block.lines.front());
    ASSERT_NE(first, printed.end()) << block.lines.front();
    const auto count = std::min<std::ptrdiff_t>(printed.end() - first, block.lines.size());
    expect_same_up_to_rounding(joined(block.lines), joined({first, first + count}));
    ++parts;
  }
  EXPECT_EQ(parts, 1);
}

// Numbers may differ in their last digit from one processor to another, and the colours with them.
void expect_same_picture(const std::string& shown, const std::string& drawn, const std::string& name) {
  const std::regex number(R"(#[0-9a-f]{6}|-?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?)");
  ASSERT_EQ(std::regex_replace(shown, number, "0"), std::regex_replace(drawn, number, "0"))
      << name << " is not what build/release/bin/figures draws";
  std::sregex_iterator theirs(shown.begin(), shown.end(), number), ours(drawn.begin(), drawn.end(), number);
  for (const std::sregex_iterator end; theirs != end && ours != end; ++theirs, ++ours) {
    if (theirs->str().front() == '#') continue;
    const double a = std::stod(theirs->str()), b = std::stod(ours->str());
    ASSERT_NEAR(a, b, 1e-5 + 0.002 * std::abs(a)) << name;
  }
}

TEST(Pictures, AreThoseThatTheProgramDraws) {
  const std::string figures = HOOKED_BINARY_DIR "/bin/figures";
  if (!std::filesystem::exists(figures)) GTEST_SKIP() << "the program is not built";
  const TempFolder folder;
  output_of("'" + figures + "' examples/toy_model '" + (folder / ".").string() + "'");
  int pictures = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / ".")) {
    const std::string name = entry.path().filename().string();
    expect_same_picture(read("docs/pictures/" + name), read(entry.path()), name);
    ++pictures;
  }
  EXPECT_EQ(pictures, 4);
}

}  // namespace
}  // namespace hooked::pages_test
