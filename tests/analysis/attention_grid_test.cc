#include "hooked/analysis/attention_grid.h"

#include <limits>

#include "hooked/analysis/token_axis.h"
#include "tests/analysis/picture.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

namespace hooked::attention_grid_test {
namespace {

using Labels = std::vector<std::string>;

std::vector<std::string> names_of_axes(const Grid& grid) {
  std::vector<std::string> names;
  for (const GridAxis& axis : grid.axes()) names.push_back(axis.name);
  return names;
}

TEST(AttentionGrid, IsThePatternWithItsTokens) {
  const auto model = HookedTransformer::load(HOOKED_SOURCE_DIR "/examples/toy_model");
  const auto ids = model.to_tokens("When John and Mary went to the shop, John gave a bag to");
  const auto cache = model.run_with_cache(ids).cache;
  const Grid layer = attention_grid(model, cache, act::pattern(1));
  EXPECT_EQ(names_of_axes(layer), Labels({"head", "query", "key"}));
  EXPECT_TRUE(layer.values().equal(cache[act::pattern(1)][0].to(at::kDouble)));
  EXPECT_EQ(layer.axis("key").labels, token_axis(model, ids).labels);
  EXPECT_EQ(layer.axis("query").labels, token_axis(model, ids).labels);
  EXPECT_EQ(layer.title(), "Attention, layer 1");
  EXPECT_EQ(layer.cell({3, 5, 2}).place->to_string(), "blocks.1.attn.hook_pattern[head=3,query=5,key=2]");
  const Grid head = attention_grid(model, cache, act::pattern(-1).head(-1));
  EXPECT_EQ(names_of_axes(head), Labels({"query", "key"}));
  EXPECT_TRUE(head.values().equal(layer.values()[-1]));
  // The keys after each query stay empty.
  const auto tokens = ids.size(1);
  EXPECT_EQ(std::ssize(Picture(head).cells()), tokens * (tokens + 1) / 2);
}

TEST(AttentionGrid, LeavesOutTheRowsOwnPadding) {
  const auto model = random_model(two_layer_config());
  const auto tokens = random_tokens(model.config(), {2, 6});
  const auto mask = at::tensor({1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1}, at::kLong).view({2, 6});
  const auto cache =
      model.run_with_cache({tokens, {.attention_mask = mask}}, act::pattern | act::attn_scores).cache;
  const Grid second = attention_grid(model, cache, act::pattern(0).row(1));
  EXPECT_EQ(second.axis("key").labels, Labels({"2", "3", "4", "5"}));
  EXPECT_EQ(second.title(), "Attention, layer 0, row 1");
  EXPECT_TRUE(second.values().equal(cache[act::pattern(0)][1].slice(1, 2).slice(2, 2).to(at::kDouble)));
  EXPECT_TRUE(attention_grid(model, cache, act::pattern(0).row(-1)).values().equal(second.values()));
  const Grid both = attention_grid(model, cache, act::pattern(0).head(2));
  EXPECT_EQ(names_of_axes(both), Labels({"row", "query", "key"}));
  EXPECT_TRUE(std::isnan(both.at({1, 1, 3})));
  EXPECT_TRUE(std::isnan(both.at({1, 3, 1})));
  EXPECT_EQ(both.at({1, 3, 2}), second.at({2, 1, 0}));
  EXPECT_EQ(both.at({0, 5, 0}), cache[act::pattern(0)][0][2][5][0].item<double>());
  const Grid scores = attention_grid(model, cache, act::attn_scores(1).head(0).row(0));
  EXPECT_EQ(scores.title(), "Attention scores, layer 1, head 0, row 0");
  EXPECT_EQ(scores.at({0, 5}), -std::numeric_limits<double>::infinity());
}

TEST(AttentionGrid, ReadsBothStacksAndWhatIsBetween) {
  const auto model = random_model(two_stack_config());
  const auto run =
      model.run_with_cache({random_row(5, 11, 1), {.decoder = {.tokens = random_row(3, 11, 2)}}});
  const auto sizes = [&](const Address& attention) {
    return attention_grid(model, run.cache, attention).values().sizes().vec();
  };
  EXPECT_EQ(sizes(act::cross_pattern(1).head(0)), std::vector<std::int64_t>({3, 5}));
  EXPECT_EQ(sizes(act::pattern(1).head(0)), std::vector<std::int64_t>({3, 3}));
  EXPECT_EQ(sizes(act::pattern.encoder(1).head(0)), std::vector<std::int64_t>({5, 5}));
  EXPECT_EQ(attention_grid(model, run.cache, act::pattern.encoder(1).head(0)).title(),
            "Encoder attention, layer 1, head 0");
}

TEST(AttentionGrid, SaysWhatIsNotAPictureOfAttention) {
  const auto model = random_model(two_layer_config());
  const auto tokens = random_row(6, 11, 4);
  const auto cache = model.run_with_cache(tokens).cache;
  const auto text = [&](const Address& attention) {
    return text_thrown_by<HookError>([&] { attention_grid(model, cache, attention); });
  };
  EXPECT_THAT(text(act::z(0)), AllOf(HasSubstr("z is not attention"), HasSubstr("expected `pattern`")));
  EXPECT_THAT(text(act::pattern(0).pos(2)), HasSubstr("at most one row and one head"));
  const auto prefix = model.run(tokens.slice(1, 0, 2), {.keep_prefix = true}).prefix;
  const auto rest = model.run_with_cache({tokens.slice(1, 2), {.prefix = prefix}}).cache;
  EXPECT_THAT(text_thrown_by<HookError>([&] { attention_grid(model, rest, act::pattern(0)); }),
              HasSubstr("prefix"));
}

}  // namespace
}  // namespace hooked::attention_grid_test
