#include "hooked/hooks/selection.h"

#include "tests/hooks/watching.h"

namespace hooked::selection_test {
namespace {

using Names = std::vector<std::string>;

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
    const std::string text = text_thrown_by<HookError>([&] { picked(act::pattern(layer)); });
    EXPECT_NE(text.find("layer " + std::to_string(layer)), std::string::npos) << text;
    EXPECT_NE(text.find("-3 to 2"), std::string::npos) << text;
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
  EXPECT_TRUE(throws<HookError>([] { picked(Selection("blocks.1.attn.hook_patern")); },
                                "blocks.1.attn.hook_patern", {"'blocks.1.attn.hook_pattern'"}));
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
  const std::string text = text_thrown_by<HookError>([] { picked("patern"); });
  EXPECT_NE(text.find("did you mean 'pattern0' (blocks.0.attn.hook_pattern), or 'pattern' for every layer?"),
            std::string::npos)
      << text;
  EXPECT_THROW(picked("pattern7"), HookError);
}

TEST(Selection, GlobsWithoutADotMatchWords) {
  EXPECT_EQ(picked("z*"), picked(act::z));
  EXPECT_EQ(picked("pattern?"), picked(act::pattern));
  EXPECT_EQ(picked("resid_p*"), picked(act::resid_pre | act::resid_post));
  EXPECT_EQ(picked("*_post1"), picked(act::resid_post(1)));
  EXPECT_EQ(picked("hook_*"), picked(act::embed | act::pos_embed | act::tokens)) << "names come first";
  EXPECT_THROW(picked("nothing*"), HookError);
}

TEST(Selection, WhatWasMeantIsSaid) {
  const auto expect_meant = [](const char* text, const std::string& meant) {
    const std::string said = text_thrown_by<HookError>([&] { picked(text); });
    EXPECT_NE(said.find(meant), std::string::npos) << said;
  };
  const std::string every = "did you mean 'z0' (blocks.0.attn.hook_z), or 'z' for every layer?";
  expect_meant("hook_z", every);
  expect_meant("attn.hook_z", every);
  expect_meant("blocks.*.attn.z", every);
  const std::string one = "did you mean 'z1' (blocks.1.attn.hook_z)?";
  for (const char* text : {"z.1", "hook_z1", "1.hook_z", "blocks.1.z", "blocks.1.hook_z", "z_1", "z-1", "Z1"})
    expect_meant(text, one);
  expect_meant("resid_pos1", "did you mean 'resid_post1' (blocks.1.hook_resid_post)?");
  expect_meant("blocks.1.attn.hook_patern", "did you mean 'blocks.1.attn.hook_pattern'?");
  expect_meant("blocks.9.*", "its layers are 0 to 2");
  const std::string far = text_thrown_by<HookError>([] { picked("logits.softmax*"); });
  EXPECT_EQ(far.find("did you mean"), std::string::npos) << far;
}

/// Wherever names of whole activations are read; an edit, and a key of a cache, take an address.
TEST(Selection, NamesTakeNoIndices) {
  for (const auto& [text, name] : {std::pair{"z1[head=3]", "z1"},
                                   {"z[head=3]", "z"},
                                   {"z1[head=3,pos=0]", "z1"},
                                   {"blocks.1.attn.hook_z[head=3]", "blocks.1.attn.hook_z"},
                                   {"*hook_z[pos=last]", "*hook_z"},
                                   {"embed, z1[head=3", "z1"},
                                   {"embed,z1[head=3],k1", "z1"}}) {
    const std::string said = text_thrown_by<HookError>([&text = text] { Selection{text}; });
    EXPECT_NE(said.find(fmt::format("takes no indices; expected '{}'; index", name)), std::string::npos)
        << said;
    EXPECT_EQ(said.find("embed"), std::string::npos) << said;
  }
  EXPECT_TRUE(throws<HookError>([] { from_shorthand("z1[head=3]"); }, "z1[head=3]", {"expected 'z1'"}));
  EXPECT_TRUE(throws<HookError>([] { ActivationName::parse("blocks.1.attn.hook_z[head=3]"); },
                                "blocks.1.attn.hook_z[head=3]", {"expected 'blocks.1.attn.hook_z'"}));
  EXPECT_EQ(Address("z1[head=3]"), act::z(1).head(3));
  EXPECT_EQ(zero("z1[head=2]").target.indices, act::z(1).head(2).indices());
}

TEST(Selection, AQuestionEndsASentence) {
  for (const auto& said :
       {text_thrown_by<HookError>([] { picked("zz"); }),
        text_thrown_by<HookError>([] { picked("blocks.*.hook_resid_pst"); }),
        text_thrown_by<HookError>([] { ActivationName::parse("blocks.0.attn.hook_zz"); })}) {
    EXPECT_NE(said.find("? "), std::string::npos) << said;
    EXPECT_EQ(said.find("?;"), std::string::npos) << said;
  }
  EXPECT_NE(text_thrown_by<HookError>([] { from_shorthand("qqqqqqqqqqqq"); }).find("; see docs"),
            std::string::npos);
}

TEST(Selection, PredicateMayMatchNothing) {
  EXPECT_TRUE(picked(Selection::matching([](const ActivationName&) { return false; })).empty());
  EXPECT_EQ(picked(Selection::matching([](const ActivationName& name) { return name.layer == 1; })).size(),
            picked(Selection("blocks.1.*")).size());
}

TEST(Selection, AddressWithIndicesIsRefused) {
  EXPECT_TRUE(throws<HookError>([] { Selection(act::z(0).head(1)); }, "blocks.0.attn.hook_z[head=1]"));
}

TEST(Selection, AbsentSiteSaysWhenItExists) {
  const auto text_of = [](const Selection& selection) {
    return text_thrown_by<HookError>([&] { picked(selection); });
  };
  for (const Selection& selection :
       {Selection(act::rot_q), Selection(act::rot_q(1)), Selection("blocks.1.attn.hook_rot_q")}) {
    const std::string text = text_of(selection);
    EXPECT_NE(text.find("rotary positions"), std::string::npos) << text;
    EXPECT_NE(text.find(".attn.hook_rot_q"), std::string::npos) << text;
    EXPECT_NE(text.find("did you mean"), std::string::npos) << text;
  }
  EXPECT_NE(text_of(act::pre_linear).find("a gated MLP"), std::string::npos);
  EXPECT_NE(text_of(act::embed_ln_scale).find("post_embedding_norm"), std::string::npos);
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
  EXPECT_TRUE(throws<HookError>([&] { reached(act::resid_pre(-1)); }, "blocks.2.hook_resid_pre"));
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

TEST(PointIndex, NamesAreNumbered) {
  const PointIndex points(tiny_config());
  for (std::size_t i = 0; i < points.size(); ++i) EXPECT_EQ(points.require(points.name(i)), i);
}

}  // namespace
}  // namespace hooked::selection_test
