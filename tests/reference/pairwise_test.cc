#include "tests/reference/pairwise.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hooked::reference::pairwise_test {
namespace {

TEST(OptionTable, AValueHoldsWhereItWasApplied) {
  for (std::size_t option = 0; option < option_table().size(); ++option) {
    for (std::size_t value = 0; value < option_table()[option].values.size(); ++value) {
      Choice choice(option_table().size(), 0);
      choice[option] = value;
      const OptionValue& applied = option_table()[option].values[value];
      EXPECT_TRUE(applied.holds(make_case(choice))) << option_table()[option].name << ": " << applied.name;
    }
  }
}

TEST(PairwiseCover, EveryCaseIsValid) {
  for (const Case& which : pairwise_cover().cases)
    EXPECT_NO_THROW(which.config.validate()) << describe(which);
}

TEST(PairwiseCover, EveryPairIsMetOrRefused) {
  const PairwiseCover& cover = pairwise_cover();
  const auto& table = option_table();
  for (std::size_t a = 0; a < table.size(); ++a) {
    for (std::size_t b = a + 1; b < table.size(); ++b) {
      for (const OptionValue& first : table[a].values) {
        for (const OptionValue& second : table[b].values) {
          const bool met = std::ranges::any_of(
              cover.cases, [&](const Case& which) { return first.holds(which) && second.holds(which); });
          const bool refused = std::ranges::any_of(cover.refused, [&](const RefusedPair& pair) {
            return pair.first == table[a].name + ": " + first.name &&
                   pair.second == table[b].name + ": " + second.name;
          });
          EXPECT_NE(met, refused) << table[a].name << ": " << first.name << " with " << table[b].name << ": "
                                  << second.name;
        }
      }
    }
  }
}

TEST(PairwiseCover, FewPairsAreRefused) {
  // docs/coverage.md lists what no config can have; a new refusal must be looked at.
  const auto of_two_stacks = [](const RefusedPair& pair) {
    return pair.second.starts_with("stacks: ") || pair.second.starts_with("decoder reads: ");
  };
  const auto& refused = pairwise_cover().refused;
  const auto two_stacks = std::ranges::count_if(refused, of_two_stacks);
  EXPECT_LE(static_cast<std::ptrdiff_t>(refused.size()) - two_stacks, 278);
  EXPECT_LE(two_stacks, 378) << "each value that an encoder excludes counts five times";
}

}  // namespace
}  // namespace hooked::reference::pairwise_test
