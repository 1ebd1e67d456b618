#include "tests/support/coverage.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace hooked::coverage_test {
namespace {

TEST(Coverage, EveryValueMeetsThePlainModel) {
  for (const ValueCoverage& row : option_coverage())
    EXPECT_GT(row.pairwise, 0u) << row.option << ": " << row.value;
}

TEST(Coverage, EveryValueMeetsAnOutsideOracleOrSaysWhyNot) {
  for (const ValueCoverage& row : option_coverage()) {
    EXPECT_NE(row.goldens.empty(), row.no_oracle.empty())
        << row.option << ": " << row.value << " has " << row.goldens.size()
        << " golden cases and the excuse \"" << row.no_oracle << '"';
  }
}

TEST(Coverage, ThePageIsUpToDate) {
  std::ifstream file(HOOKED_SOURCE_DIR "/docs/coverage.md", std::ios::binary);
  std::ostringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), coverage_document()) << "run hooked-coverage docs/coverage.md";
}

}  // namespace
}  // namespace hooked::coverage_test
