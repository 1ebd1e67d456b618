// The documents are true: code blocks are the examples, shown output is what the program prints, links
// lead somewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/docs/pages.h"
#include "tests/support/fetched_models.h"

namespace hooked::readme_test {
namespace {

TEST(Readme, CodeIsThatOfTheFilesItNames) {
  std::set<std::string> shown;
  for (const PageBlock& block : blocks_of(read("README.md"))) {
    if (block.language != "cpp" && block.language != "cmake") continue;
    ASSERT_FALSE(block.source.empty()) << "name the file above this block:\n" << joined(block.lines);
    EXPECT_EQ(joined(block.lines), joined(program_of(block.source)))
        << "README.md shows another " << block.source << "; copy that file without its first comment";
    shown.insert(block.source);
  }
  EXPECT_EQ(shown, (std::set<std::string>{"examples/first_steps.cc", "examples/readme_patching.cc",
                                          "tests/consumer/CMakeLists.txt"}));
}

// A block is a whole program, or under `<!-- part of FILE -->` lines of one, with less indentation.
TEST(Pages, CodeIsThatOfTheirPrograms) {
  constexpr std::string_view kPart = "part of ";
  for (const auto& [page, programs] :
       {std::pair<std::string, int>{"docs/analysis/attribution-patching.md", 1},
        {"docs/analysis/attribution.md", 2},
        {"docs/analysis/circuits.md", 2},
        {"docs/analysis/directions.md", 1},
        {"docs/analysis/grids.md", 1},
        {"docs/analysis/heads.md", 1},
        {"docs/analysis/logit-lens.md", 1},
        {"docs/analysis/metrics.md", 1},
        {"docs/analysis/patching.md", 1},
        {"docs/analysis/path-patching.md", 3},
        {"docs/analysis/positional-circuits.md", 1},
        {"docs/analysis/prompts.md", 1},
        {"docs/analysis/virtual-weights.md", 1},
        {"docs/analysis/weight-circuits.md", 1},
        {"docs/api.md", 1},
        {"docs/figures.md", 1},
        {"docs/guide.md", 6},
        {"docs/layernorm.md", 1},
        {"docs/threads.md", 1},
        {"docs/tokenizers.md", 1},
        {"docs/tour.md", 20}}) {
    int compared = 0;
    for (const PageBlock& block : blocks_of(read(page))) {
      if (block.source.empty()) continue;
      ++compared;
      if (block.source.starts_with(kPart)) {
        const std::string program = without_blanks(read(block.source.substr(kPart.size())));
        EXPECT_NE(program.find(without_blanks(joined(block.lines))), std::string::npos)
            << page << " shows a " << block.source << " that is not in it; copy its lines";
        continue;
      }
      EXPECT_EQ(joined(block.lines), joined(program_of(block.source)))
          << page << " shows another " << block.source << "; copy that file without its first comment";
    }
    EXPECT_EQ(compared, programs) << page;
  }
}

/// A row of a table whose first column is TransformerLens's.
struct CallRow {
  std::string source;  ///< the program that the comment above the table names
  std::vector<std::string> cells;
};

std::vector<CallRow> call_rows_of(const std::string& page) {
  std::vector<CallRow> rows;
  std::string source, above;
  bool inside = false;
  for (const std::string& line : lines_of(page)) {
    if (line.starts_with("| TransformerLens |")) {
      inside = true;
      source = above.starts_with("<!-- ") ? above.substr(5, above.size() - 9) : "";
    } else if (!line.starts_with("| ") && !line.starts_with("|---")) {
      inside = false;
    } else if (inside && line.starts_with("| ")) {
      rows.push_back({source, {}});
      std::string cell;
      for (std::size_t i = 2; i < line.size(); ++i) {
        const bool escaped = line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|';
        if (line[i] == '|') {
          rows.back().cells.push_back(cell);
          cell.clear();
        } else {
          cell += escaped ? line[++i] : line[i];
        }
      }
    }
    above = line;
  }
  return rows;
}

TEST(Pages, CallsForTransformerLensAreThoseOfTheProgram) {
  int rows = 0;
  for (const CallRow& row : call_rows_of(read("docs/from-transformerlens.md"))) {
    ASSERT_EQ(row.cells.size(), 3U) << row.cells.front();
    ASSERT_FALSE(row.source.empty()) << "name the program above the table of " << row.cells.front();
    const std::string program = without_blanks(read(row.source));
    const std::regex code("`([^`]*)`");
    const std::string& ours = row.cells[1];
    int calls = 0;
    for (std::sregex_iterator at(ours.begin(), ours.end(), code), end; at != end; ++at, ++calls) {
      EXPECT_NE(program.find(without_blanks((*at)[1])), std::string::npos)
          << (*at)[1] << " is not in " << row.source;
    }
    EXPECT_TRUE(calls > 0 || row.cells[2].starts_with(" none")) << row.cells.front() << " has no counterpart";
    ++rows;
  }
  EXPECT_GE(rows, 40);
}

TEST(Readme, CallsForTransformerLensAreThoseOfThePage) {
  std::set<std::string> known;
  for (const CallRow& row : call_rows_of(read("docs/from-transformerlens.md")))
    known.insert(row.cells[0] + "|" + row.cells[1]);
  const auto rows = call_rows_of(read("README.md"));
  EXPECT_GT(rows.size(), 10U);
  for (const CallRow& row : rows)
    EXPECT_TRUE(known.contains(row.cells[0] + "|" + row.cells[1])) << row.cells[0];
}

TEST(Readme, OptionsStandInTheOrderOfTheirDeclaration) {
  const std::string header = read("include/hooked/engine/run_options.h");
  const auto begin = header.find("struct RunOptions {");
  ASSERT_NE(begin, std::string::npos);
  const std::string fields = header.substr(begin, header.find("\n};", begin) - begin);
  const std::regex field(R"(\n  [A-Za-z][A-Za-z0-9_:<> ]* ([a-z_]+) = )");
  std::string order;
  for (std::sregex_iterator at(fields.begin(), fields.end(), field), end; at != end; ++at)
    order += (order.empty() ? "`" : ",`") + (*at)[1].str() + "`";
  EXPECT_NE(order.find("`capture`,`keep`"), std::string::npos) << order;
  EXPECT_NE(without_blanks(read("README.md")).find("Thatofarunis" + order + "."), std::string::npos) << order;
}

TEST(Readme, QuickStartIsTwoCommandsThatExist) {
  const auto blocks = blocks_of(read("README.md"));
  ASSERT_FALSE(blocks.empty());
  EXPECT_EQ(blocks.front().lines, (std::vector<std::string>{"bash scripts/demo.sh", "bash scripts/test.sh"}));
  for (const char* script : {"scripts/demo.sh", "scripts/test.sh"})
    EXPECT_TRUE(std::filesystem::exists(kRoot / script));
}

/// A command of README.md and what it prints.
struct Shown {
  std::string arguments;
  std::vector<std::string> output;

  bool of_fetched_model() const { return arguments.find("third_party/models/") != std::string::npos; }
};

std::vector<Shown> shown_commands() {
  constexpr std::string_view kPrompt = "$ hooked ";
  std::vector<Shown> all;
  for (const PageBlock& block : blocks_of(read("README.md"))) {
    if (block.language != "console") continue;
    std::string command;
    auto line = block.lines.begin();
    do {
      if (command.ends_with('\\')) command.pop_back();
      command += *line++;
    } while (command.ends_with('\\'));
    EXPECT_TRUE(command.starts_with(kPrompt)) << command;
    all.push_back({command.substr(kPrompt.size()), {line, block.lines.end()}});
  }
  return all;
}

TEST(Readme, OutputIsWhatTheProgramPrints) {
  if (!std::filesystem::exists(HOOKED_CLI)) GTEST_SKIP() << "the program is not built";
  int compared = 0;
  for (const Shown& shown : shown_commands()) {
    if (shown.of_fetched_model()) continue;
    EXPECT_EQ(joined(shown.output), joined(output_of("'" HOOKED_CLI "' " + shown.arguments)));
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

TEST(Readme, OutputOfATrainedModelIsWhatTheProgramPrints) {
  if (!std::filesystem::exists(HOOKED_CLI)) GTEST_SKIP() << "the program is not built";
  if (const auto why = why_absent(kSmolLM2); !why.empty()) GTEST_SKIP() << why;
  int compared = 0;
  for (const Shown& shown : shown_commands()) {
    if (!shown.of_fetched_model()) continue;
    expect_same_up_to_rounding(joined(shown.output),
                               joined(output_of("'" HOOKED_CLI "' " + shown.arguments)));
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

TEST(Architecture, RoomsAreThoseOfTheTable) {
  const std::string table = read("cmake/RoomTable.cmake");
  const std::string page = read("docs/architecture.md");
  std::smatch rooms;
  ASSERT_TRUE(std::regex_search(table, rooms, std::regex(R"(set\(HOOKED_ROOMS ([a-z ]+)\))")));
  std::istringstream names(rooms[1].str());
  std::size_t place = 0;
  for (std::string room; names >> room;) {
    std::smatch row;
    ASSERT_TRUE(std::regex_search(table, row,
                                  std::regex("HOOKED_ROOM_" + room + R"re(_MAY_INCLUDE "?([a-z ]*)"?\))re")));
    const std::string may = std::regex_replace(row[1].str(), std::regex(" "), ", ");
    const std::string start = "\n| " + room + " | ";
    const auto found = page.find(start, place);
    ASSERT_NE(found, std::string::npos) << room << " is missing or in another order";
    const std::string line = page.substr(found + 1, page.find('\n', found + 1) - found - 1);
    EXPECT_TRUE(line.ends_with(" | " + (may.empty() ? "–" : may) + " |")) << line << "\nexpected: " << may;
    place = found + 1;
  }
}

TEST(Documents, TheIndexNamesEveryPage) {
  EXPECT_NE(read("README.md").find("(docs/README.md)"), std::string::npos);
  const std::string index = read("docs/README.md");
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "docs")) {
    if (entry.path().extension() != ".md" || entry.path().filename() == "README.md") continue;
    const std::string link = "(" + entry.path().filename().string() + ")";
    EXPECT_NE(index.find(link), std::string::npos) << "docs/README.md does not link to " << link;
  }
}

TEST(Documents, ContentsOfAnalysisNameEveryPage) {
  const std::string contents = read("docs/analysis.md");
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "docs/analysis")) {
    const std::string link = "(analysis/" + entry.path().filename().string() + ")";
    EXPECT_NE(contents.find(link), std::string::npos) << "docs/analysis.md does not link to " << link;
  }
}

TEST(Documents, LinksLeadToFiles) {
  std::vector<std::filesystem::path> pages = {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kRoot / "docs")) {
    if (entry.path().extension() == ".md") pages.push_back(std::filesystem::relative(entry.path(), kRoot));
  }
  const std::regex link(R"(\]\(([^)# ]+)(#[^)]*)?\))");
  int links = 0;
  for (const auto& page : pages) {
    // A lambda in a block of code looks like a link.
    const std::string text = std::regex_replace(read(page), std::regex("```[^`]*```"), "");
    for (std::sregex_iterator at(text.begin(), text.end(), link), end; at != end; ++at) {
      const std::string target = (*at)[1];
      if (target.starts_with("http")) continue;
      EXPECT_TRUE(std::filesystem::exists(kRoot / page.parent_path() / target))
          << page << " links to " << target;
      ++links;
    }
  }
  EXPECT_GT(links, 5);
}

/// The files that a comment names, `// a.h, b.cc`; none for any other comment.
std::vector<std::filesystem::path> files_named(const std::string& comment) {
  std::vector<std::filesystem::path> files;
  std::istringstream stream(comment);
  for (std::string file; stream >> file;) {
    if (file.ends_with(',')) file.pop_back();
    if (!std::filesystem::is_regular_file(kRoot / file)) return {};
    files.emplace_back(file);
  }
  return files;
}

// "Add a point", "add a weight", "add an option": each line of these examples is in the file that it
// names.
TEST(Architecture, WorkedExamplesAreLinesOfTheirFiles) {
  std::size_t checked = 0;
  for (const PageBlock& block : blocks_of(read("docs/architecture.md"))) {
    std::vector<std::filesystem::path> files;
    for (const std::string& line : block.lines) {
      const auto slashes = line.find("//");
      const std::string code = without_blanks(line.substr(0, slashes));
      if (slashes != std::string::npos) {
        if (auto named = files_named(line.substr(slashes + 2)); !named.empty()) files = std::move(named);
      }
      if (code.empty() || files.empty()) continue;
      const bool found = std::any_of(files.begin(), files.end(), [&](const std::filesystem::path& file) {
        return without_blanks(read(file)).find(code) != std::string::npos;
      });
      EXPECT_TRUE(found) << line;
      ++checked;
    }
  }
  EXPECT_GE(checked, 12U);
}

}  // namespace
}  // namespace hooked::readme_test
