#include "hooked/analysis/token_axis.h"

#include "hooked/analysis/attribution.h"
#include "hooked/analysis/logit_lens.h"
#include "hooked/analysis/score_attribution.h"
#include "hooked/analysis/sweep.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

namespace hooked::token_axis_test {
namespace {

using Labels = std::vector<std::string>;

const HookedTransformer& toy_model() {
  static const auto model = HookedTransformer::load(HOOKED_SOURCE_DIR "/examples/toy_model");
  return model;
}

constexpr const char* kPrompt = "When John and Mary went to the shop, John gave a bag to";

TEST(TokenAxis, HasAColumnAndATextForEachToken) {
  const auto ids = toy_model().to_tokens(kPrompt);
  const GridAxis axis = token_axis(toy_model(), ids);
  EXPECT_EQ(axis.name, "pos");
  ASSERT_EQ(axis.labels.size(), static_cast<std::size_t>(ids.size(1)));
  const auto texts = toy_model().to_str_tokens(ids);
  EXPECT_EQ(axis.labels[0], "0 " + texts[0]);
  EXPECT_EQ(axis.labels[4], "4 " + texts[4]);
  EXPECT_EQ(token_axis(toy_model(), ids[0], "key").labels, axis.labels);
  EXPECT_EQ(token_axis(random_model(), at::arange(2, at::kLong)).labels, Labels({"0", "1"}));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] {
                token_axis(toy_model(), ids.expand({2, -1}));
              }),
              HasSubstr("take one row"));
}

// Analyses of one prompt name its tokens; the column alone still finds a place.
TEST(TokenAxis, IsThatOfAnalysesOfOneRow) {
  const auto ids = toy_model().to_tokens(kPrompt);
  const auto run = toy_model().run_with_cache(ids);
  const Labels all = token_axis(toy_model(), ids).labels;
  const std::string last = toy_model().to_str_tokens(ids).back();
  const auto lens = logit_lens(toy_model(), run.cache, {.positions = {}, .tokens = {3}});
  EXPECT_EQ(lens.logits.axis("pos").labels, all);
  EXPECT_EQ(lens.top.back().token, last);
  const auto parts = direct_logit_attribution(toy_model(), run.cache, {.answer = " Mary"});
  EXPECT_EQ(parts.axis("pos").labels, Labels({"last " + last}));
  EXPECT_EQ(parts.slice("pos", "last").axes().size(), 2u);
  const auto sources = source_attribution(toy_model(), run.cache, {.answer = " Mary", .positions = {4, -1}});
  EXPECT_EQ(sources.axis("key").labels, all);
  EXPECT_EQ(sources.axis("pos").labels, Labels({all[4], "-1 " + last}));
  const auto scores = score_attribution(toy_model(), run.cache, {.scores = act::attn_scores(1).head(3)});
  EXPECT_EQ(scores.axis("key").labels, all);
  EXPECT_EQ(scores.axis("query").labels, Labels({"last " + last}));
  const auto swept = sweep(toy_model(), {.site = act::resid_pre,
                                         .over = {Axis::layer, Axis::pos},
                                         .from = PatchSource::zero(),
                                         .into = ids,
                                         .metric = logit(3)});
  EXPECT_EQ(swept.axis("pos").labels, all);
}

// Rows have different tokens, so the columns are all that they share.
TEST(TokenAxis, HasColumnsOnlyForSeveralRows) {
  const auto ids = toy_model().to_tokens(kPrompt);
  const auto cache = toy_model().run_with_cache(ids.expand({2, -1})).cache;
  const auto lens = logit_lens(toy_model(), cache, {.positions = {0, 2}, .tokens = {3}});
  EXPECT_EQ(lens.ranks.axis("pos").labels, Labels({"0", "2"}));
  EXPECT_EQ(lens.top.back().token, toy_model().to_str_tokens(ids)[2]) << "each row's own";
  EXPECT_EQ(logit_lens(toy_model(), cache.row(1), {.positions = {2}, .tokens = {3}}).ranks.axis("pos").labels,
            Labels({token_axis(toy_model(), ids).labels[2]}));
}

}  // namespace
}  // namespace hooked::token_axis_test
