// The table of bad input (tests/README.md) names tests that exist.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace hooked::bad_input_test {
namespace {

const std::filesystem::path kTests = HOOKED_SOURCE_DIR "/tests";

std::string read(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::set<std::string> all_matches(const std::string& text, const std::regex& pattern) {
  std::set<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match)
    found.insert((*match)[1].str() + "." + (*match)[2].str());
  return found;
}

// TEST_P's and typed tests' as well.
std::set<std::string> tests_of_all_rooms() {
  const std::regex definition(R"(\bTEST(?:_F|_P)?\((\w+),\s*(\w+)\))");
  std::set<std::string> tests;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kTests)) {
    if (entry.path().filename().native().ends_with("_test.cc"))
      tests.merge(all_matches(read(entry.path()), definition));
  }
  return tests;
}

TEST(BadInputTable, NamesTestsThatExist) {
  const std::set<std::string> named =
      all_matches(read(kTests / "README.md"), std::regex(R"(`(\w+)\.(\w+)`)"));
  const std::set<std::string> there = tests_of_all_rooms();
  EXPECT_GT(named.size(), 100U);
  for (const std::string& test : named) EXPECT_TRUE(there.contains(test)) << test;
}

// Every test that is named after a case is in the table.
TEST(BadInputTable, HasEveryTestThatIsNamedAfterACase) {
  const std::string table = read(kTests / "README.md");
  const std::regex numbered(R"(\w+\.[SICT]\d+\w*)");
  for (const std::string& test : tests_of_all_rooms()) {
    if (!std::regex_match(test, numbered)) continue;
    EXPECT_NE(table.find('`' + test + '`'), std::string::npos) << test;
  }
}

}  // namespace
}  // namespace hooked::bad_input_test
