#include "hooked/hooks/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/hooks/point_index.h"
#include "tests/hooks/watching.h"
#include "tests/support/random_config.h"
#include "tests/support/thrown_by.h"

namespace hooked::selection_test {
namespace {

using Names = std::vector<std::string>;
using testing::AllOf, testing::HasSubstr, testing::StartsWith;

TEST(Selection, SiteIsEveryLayer) {
  EXPECT_EQ(picked(act::pattern), (Names{"blocks.0.attn.hook_pattern", "blocks.1.attn.hook_pattern",
                                         "blocks.2.attn.hook_pattern"}));
}

TEST(Selection, OneLayerMayCountFromTheEnd) {
  EXPECT_EQ(picked(act::pattern(-1)), (Names{"blocks.2.attn.hook_pattern"}));
  EXPECT_EQ(picked(act::pattern(-3)), (Names{"blocks.0.attn.hook_pattern"}));
}

TEST(Selection, LayerOutOfRangeNamesItAndTheRange) {
  for (const std::int32_t layer : {3, -4}) {
    EXPECT_THAT(text_thrown_by<HookError>([&] { picked(act::pattern(layer)); }),
                AllOf(HasSubstr("layer " + std::to_string(layer)), HasSubstr("-3 to 2")));
  }
}

TEST(Selection, UnionHoldsEachPointOnceInTheModelsOrder) {
  EXPECT_EQ(picked(act::resid_post(1) | act::embed | act::resid_post(1) | act::resid_post),
            (Names{"hook_embed", "blocks.0.hook_resid_post", "blocks.1.hook_resid_post",
                   "blocks.2.hook_resid_post"}));
  EXPECT_EQ(picked(act::z(0).name()), (Names{"blocks.0.attn.hook_z"}));
}

TEST(Selection, NothingSelectsNothing) {
  EXPECT_TRUE(Selection().empty());
  EXPECT_TRUE(picked(Selection()).empty());
}

TEST(Selection, EverythingIsDefaultsAndTheWidePoints) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const ModelConfig config = random_config(seed);
    const Names all = picked(act::everything, config), defaults = picked(act::defaults, config);
    EXPECT_EQ(all.size(), activation_names(config).size());
    std::set<std::string> wide(all.begin(), all.end());
    for (const std::string& name : defaults) wide.erase(name);
    for (const std::string& name : wide) EXPECT_TRUE(row(ActivationName::parse(name).site).wide) << name;
    for (const std::string& name : defaults) EXPECT_FALSE(row(ActivationName::parse(name).site).wide) << name;
    EXPECT_EQ(wide.contains("blocks.0.hook_attn_in"),
              config.attends(0) && !config.grouped_query() && !config.latent_attention());
    EXPECT_EQ(wide.contains("blocks.1.attn.hook_result"), config.attends(1));
  }
}

TEST(Selection, GlobsMatchNames) {
  EXPECT_EQ(picked(Selection("blocks.?.hook_resid_p*")).size(), 6u);
  EXPECT_EQ(picked(Selection("hook_embed,blocks.1.attn.hook_z")),
            (Names{"hook_embed", "blocks.1.attn.hook_z"}));
  EXPECT_EQ(picked(Selection("*")), picked(act::everything));
}

TEST(Selection, BlanksMayStandAroundTheNamesOfAList) {
  EXPECT_EQ(picked(Selection(" hook_embed , blocks.1.attn.hook_z ")),
            (Names{"hook_embed", "blocks.1.attn.hook_z"}));
  EXPECT_THROW(picked(Selection("hook_embed blocks.1.attn.hook_z")), HookError);
}

TEST(Selection, GlobThatMatchesNothingGetsTheNearestName) {
  EXPECT_THAT(text_thrown_by<HookError>([] { picked(Selection("blocks.1.attn.hook_patern")); }),
              AllOf(StartsWith("[blocks.1.attn.hook_patern]"), HasSubstr("'blocks.1.attn.hook_pattern'")));
  EXPECT_THROW(picked(Selection("blocks.*.hook_nothing*")), HookError);
  EXPECT_THROW(picked(Selection("*") | Selection("nothing*")), HookError);
}

TEST(Selection, EmptyPlacesInAListOfGlobsAreRefused) {
  for (const char* text : {"", " ", ",", "hook_embed, ", " ,hook_embed", "hook_embed, ,hook_pos_embed"}) {
    EXPECT_THROW(Selection{text}, HookError) << text;
  }
}

TEST(Selection, TextMayBeAWordOrShorthand) {
  EXPECT_EQ(picked("pattern"), picked(act::pattern));
  EXPECT_EQ(picked("pattern1"), picked(act::pattern(1)));
  EXPECT_EQ(picked("k2a,embed"), picked(act::k(2) | act::embed));
  EXPECT_EQ(picked("resid_post" | act::z(0)), picked(act::resid_post | act::z(0)));
  EXPECT_THAT(text_thrown_by<HookError>([] { picked("patern"); }), HasSubstr("nearest word is 'pattern'"));
  EXPECT_THROW(picked("pattern7"), HookError);
}

TEST(Selection, PredicateMayMatchNothing) {
  EXPECT_TRUE(picked(Selection::matching([](const ActivationName&) { return false; })).empty());
  EXPECT_EQ(picked(Selection::matching([](const ActivationName& name) { return name.layer == 1; })).size(),
            picked(Selection("blocks.1.*")).size());
}

TEST(Selection, AddressWithIndicesIsRefused) {
  EXPECT_THAT(text_thrown_by<HookError>([] { Selection(act::z(0).head(1)); }),
              StartsWith("[blocks.0.attn.hook_z[head=1]]"));
}

TEST(Selection, AbsentSiteSaysWhenItExists) {
  const auto text_of = [](const Selection& selection) {
    return text_thrown_by<HookError>([&] { picked(selection); });
  };
  for (const Selection& selection :
       {Selection(act::rot_q), Selection(act::rot_q(1)), Selection("blocks.1.attn.hook_rot_q")}) {
    EXPECT_THAT(text_of(selection),
                AllOf(HasSubstr("rotary positions"), HasSubstr(".attn.hook_rot_q"), HasSubstr("nearest")));
  }
  EXPECT_THAT(text_of(act::pre_linear), HasSubstr("a gated MLP"));
  EXPECT_THAT(text_of(act::embed_ln_scale), HasSubstr("post_embedding_norm"));
}

TEST(Selection, OtherStacksThanBlocksAreAbsent) {
  EXPECT_THROW(picked(ActivationName{Site::resid_pre, Stack::encoder, 0, -1}), HookError);
}

class ShortRun : public testing::Test {
 protected:
  Names reached(const Selection& selection) const {
    Names names;
    for (const std::size_t point : selection.resolve(points_, reach_))
      names.push_back(points_.name(point).to_string());
    return names;
  }

  PointIndex points_{tiny_config()};
  Reach reach_{.entry = false, .first_block = 1, .end_block = 2, .exit = false};
};

TEST_F(ShortRun, SetsKeepWhatIsReached) {
  EXPECT_EQ(reached(act::resid_pre), (Names{"blocks.1.hook_resid_pre"}));
  EXPECT_EQ(reached(Selection("*resid_pre")), (Names{"blocks.1.hook_resid_pre"}));
  for (const std::string& name : reached(act::everything)) EXPECT_TRUE(name.starts_with("blocks.1.")) << name;
}

TEST_F(ShortRun, SinglePointsOutOfReachAreRefused) {
  for (const Selection& selection :
       {Selection(act::resid_pre(0)), Selection(act::resid_pre(2)), Selection(act::resid_pre(-1)),
        Selection(act::embed), Selection(act::unembed_in), Selection("hook_*"),
        Selection(act::resid_pre) | Selection(act::tokens)}) {
    EXPECT_THROW(reached(selection), HookError);
  }
  const auto error = thrown_by<HookError>([&] { reached(act::resid_pre(-1)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), "blocks.2.hook_resid_pre");
}

TEST(GlobMatches, StarsAndQuestionMarks) {
  EXPECT_TRUE(glob_matches("", ""));
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("a*b*c", "a12b34c"));
  EXPECT_TRUE(glob_matches("a*b*c", "abbcbc"));
  EXPECT_TRUE(glob_matches("??", "ab"));
  EXPECT_FALSE(glob_matches("??", "a"));
  EXPECT_FALSE(glob_matches("a", ""));
  EXPECT_FALSE(glob_matches("", "a"));
  EXPECT_FALSE(glob_matches("a*b", "a1b2"));
  EXPECT_FALSE(glob_matches("blocks.1.*", "blocks.11.hook_q"));
}

TEST(GlobMatches, ManyStarsTakeNoExponentialTime) {
  const std::string text(20000, 'a');
  std::string pattern;
  for (int i = 0; i < 50; ++i) pattern += "*a";
  EXPECT_FALSE(glob_matches(pattern + "b", text));
}

TEST(PointIndex, NearestNameIsOneOfTheModels) {
  const PointIndex points(tiny_config());
  EXPECT_EQ(points.nearest_to("blocks.2.hook_resid_psot"), "blocks.2.hook_resid_post");
  for (std::size_t i = 0; i < points.size(); ++i) EXPECT_EQ(points.require(points.name(i)), i);
}

}  // namespace
}  // namespace hooked::selection_test
