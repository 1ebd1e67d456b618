#include "core/nearest.h"

#include "tests/support/test.h"

namespace hooked::nearest_test {
namespace {

const std::vector<std::string> kNames = {"hook_pattern", "hook_z", "hook_q"};

TEST(Nearest, TakesTheFewestEdits) {
  EXPECT_EQ(nearest("hook_patern", kNames), "hook_pattern");
  EXPECT_EQ(nearest("hook_z", kNames), "hook_z");
  EXPECT_EQ(nearest("hokoz", kNames), "hook_z");
}

TEST(Nearest, EditsAreLettersPutInTakenOutOrChanged) {
  EXPECT_EQ(edit_distance("gpt2", "gpt2"), 0u);
  EXPECT_EQ(edit_distance("gtp2", "gpt2"), 2u);
  EXPECT_EQ(edit_distance("gpt", "gpt2"), 1u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
}

TEST(Nearest, TiesGoToTheFirst) { EXPECT_EQ(nearest("hook_k", kNames), "hook_z"); }

TEST(Nearest, WithoutCandidatesIsEmpty) { EXPECT_EQ(nearest("x", {}), ""); }

TEST(Nearest, EmptyTakesTheShortest) {
  const std::vector<std::string> names = {"abc", "ab", "abcd"};
  EXPECT_EQ(nearest("", names), "ab");
}

TEST(Nearest, AHostileLengthIsCut) {
  const std::string long_name(10'000'000, 'a');
  EXPECT_EQ(nearest(long_name, kNames).substr(0, 5), "hook_");
}

TEST(Nearest, ASuggestionIsNearOrIsNotMade) {
  const auto suggested = [](std::string_view wanted) { return nearest_text("; like '{}'", wanted, kNames); };
  EXPECT_EQ(suggested("hook_patern"), "; like 'hook_pattern'");
  EXPECT_EQ(suggested("hok_z"), "; like 'hook_z'");
  EXPECT_EQ(suggested("hook_pat"), "; like 'hook_pattern'") << "its beginning";
  EXPECT_EQ(suggested("logits"), "");
  EXPECT_EQ(suggested(""), "");
  EXPECT_EQ(nearest_text("'{}'", "x", {}), "");
  const std::vector<std::string> short_names = {"q", "to"};
  EXPECT_EQ(nearest_text("'{}'", "k", short_names), "'q'");
  EXPECT_EQ(nearest_text("'{}'", "tea", short_names), "") << "two of three letters";
  EXPECT_EQ(nearest_text("'{}'", std::string(10'000'000, 'a'), kNames), "");
}

TEST(Nearest, ABeginningSaysMoreThanSeveralSlips) {
  const std::vector<std::string> names{"clean", "zero", "mean_rows", "mean_rows_and_positions"};
  EXPECT_EQ(nearest_text(kDidYouMean, "mean", names),
            "; did you mean 'mean_rows' or 'mean_rows_and_positions'?");
  EXPECT_EQ(nearest_text(kDidYouMean, "cleam", names), "; did you mean 'clean'?");
}

}  // namespace
}  // namespace hooked::nearest_test
