#include "hooked/analysis/path_expansion.h"

#include "hooked/analysis/attribution.h"
#include "tests/support/golden_model.h"
#include "tests/support/tiny_model.h"

namespace hooked::path_expansion_test {
namespace {

constexpr double kTolerance = 1e-10;  // of the largest number

class PathsOfGolden : public testing::TestWithParam<GoldenCase> {};

TEST_P(PathsOfGolden, AddUpToTheLogits) {
  for (const bool processed : {false, true}) {
    const auto golden = golden_model(GetParam(), processed, GoldenPadding::padding);
    const auto& [model, cache, logits, tokens] = golden;
    const auto& config = model.config();
    const PathExpansionOptions options{.answer = 1, .against = 3, .order = config.n_layers, .positions = {}};
    if (!config.has_unembedding() || config.has_mlm_head() || config.qkv_clip > 0 || config.shared_keys) {
      EXPECT_THROW(path_expansion(model, cache, options), HookError);
      continue;
    }
    // Some models have too many chains for a test; their longer ones are one row.
    auto bounded = options;
    while (bounded.order > 1 && std::pow(config.n_heads, bounded.order) > 300) --bounded.order;
    const auto paths = path_expansion(model, cache, bounded);  // [row, source, path, pos]
    // Padding has no number on any path; elsewhere every path has one.
    const auto missing = paths.values().isnan().flatten(1, 2);  // [row, source and path, pos]
    EXPECT_TRUE(missing.any(1).equal(missing.all(1)));
    const auto before_cap = cache[act::unembed_out];
    const auto difference =
        (before_cap.select(-1, 1) - before_cap.select(-1, 3)).masked_fill(missing.all(1), 0.0);  // [row, pos]
    const double size = std::max({1.0, largest(difference), largest_number(paths.values())});
    EXPECT_LE(largest(paths.values().nan_to_num(0.0).sum({1, 2}) - difference), kTolerance * size);
    EXPECT_LE(largest_number(paths.slice("source", "remainder").values()), kTolerance * size);
    if (bounded.order == config.n_layers) {
      EXPECT_LE(largest_number(paths.slice("path", "remainder").values()), kTolerance * size);
    }
    // Paths make up every token's logit: nothing is left for the direct path's remainder.
    const auto every = path_logits(model, cache, {}).slice("source", "remainder").values();
    EXPECT_LE(largest_number(every), kTolerance * std::max(1.0, largest(before_cap)));
    if (config.final_norm == NormKind::none || config.has_encoder()) continue;
    // The direct path of a source is what the source wrote.
    const auto written = direct_logit_attribution(model, cache, {.answer = 1, .against = 3, .positions = {}});
    for (const std::string& label : paths.axis("source").labels) {
      if (label == "bias" || label == "remainder") continue;
      const auto direct = paths.slice("source", label).slice("path", "direct").values();
      EXPECT_LE(largest_number(direct - written.slice("part", label).values()), kTolerance * size) << label;
    }
    if (!config.attends(0)) continue;
    // And one head's path from everything is what the head wrote, where it reads no other head.
    const auto heads = direct_logit_attribution(
        model, cache, {.answer = 1, .against = 3, .grain = Grain::head, .positions = {}});
    const auto first = paths.slice("path", "0.0").values().sum(1);  // [row, pos]
    EXPECT_LE(largest_number(first - heads.slice("part", "head 0.0").values()), kTolerance * size);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, PathsOfGolden, testing::ValuesIn(golden_cases()), golden_test_name);

ModelConfig attention_only_config() {
  auto config = two_layer_config();
  config.mlp = MlpKind::none;
  config.d_mlp = 0;
  config.n_layers = 3;
  config.n_heads = 2;
  config.n_kv_heads = 1;
  return config;
}

// By whole matrices: A_later A_earlier (x W_V W_O / s) W_V W_O / s.
TEST(PathExpansion, AVirtualHeadIsTheProductOfTwo) {
  const auto model = random_model(attention_only_config());
  const auto tokens = random_row(5, 11, 4);
  const auto cache = model.run_with_cache(tokens, act::everything).cache;
  const auto w = model.weights();
  const auto grid = path_expansion(model, cache, {.answer = 2, .order = 3, .positions = {3}});
  ASSERT_EQ(grid.values().sizes(), at::IntArrayRef({1, 4, 1 + 6 + 12 + 8 + 1, 1}));
  EXPECT_THAT(grid.axis("source").labels, ElementsAre("embed", "pos_embed", "bias", "remainder"));
  EXPECT_EQ(grid.axis("path").labels[1], "0.0");
  EXPECT_EQ(grid.axis("path").labels[7], "0.0 > 1.0");
  EXPECT_EQ(grid.axis("path").labels.back(), "remainder");
  const auto through = [&](std::int64_t layer, std::int64_t head, const at::Tensor& x) {  // [pos, d_model]
    const auto normed = (x - x.mean(-1, true)) / cache[act::ln1_scale(layer)][0] * w.ln1(layer).w;
    return at::matmul(cache[act::pattern(layer)][0][head],
                      normed.matmul(w.W_V(layer, head)).matmul(w.W_O(layer, head)));
  };
  const auto logit = [&](const at::Tensor& x) {
    const auto at_pos = x[3];
    const auto normed = (at_pos - at_pos.mean()) / cache[act::ln_final_scale][0][3] * w.ln_final().w;
    return normed.matmul(w.W_U()).select(0, 2).item<double>();
  };
  const auto embed = cache[act::embed][0], positions = cache[act::pos_embed][0];
  const auto number = [&](const char* source, const char* path) {
    return grid.slice("source", source).slice("path", path).at({0, 0});
  };
  EXPECT_NEAR(number("embed", "0.1 > 2.0"), logit(through(2, 0, through(0, 1, embed))), kTolerance);
  EXPECT_NEAR(number("pos_embed", "0.1 > 1.1 > 2.0"),
              logit(through(2, 0, through(1, 1, through(0, 1, positions)))), kTolerance);
  EXPECT_NEAR(number("embed", "1.0"), logit(through(1, 0, embed)), kTolerance);
  // The constant part: b_O of the layer below and the constant of the first head's values.
  const auto ones = cache[act::embed][0].new_ones({5, 1});
  const auto own = at::matmul(cache[act::pattern(1)][0][0],
                              ones * (w.ln1(1).b.matmul(w.W_V(1, 0)) + w.b_V(1)[0]).matmul(w.W_O(1, 0)));
  const auto bias = logit(through(2, 1, own + through(1, 0, ones * w.b_O(0))));
  EXPECT_NEAR(number("bias", "1.0 > 2.1"), bias, kTolerance);
}

TEST(PathExpansion, LeavesLongerPathsToTheRemainder) {
  const auto model = random_model(attention_only_config());
  const auto tokens = random_row(10, 11, 5).view({2, 5});
  const auto mask = at::tensor({1, 1, 1, 1, 1, 0, 0, 1, 1, 1}, at::kLong).view({2, 5});
  const auto run = model.run_with_cache({tokens, {.attention_mask = mask}});
  const auto all = path_expansion(model, run.cache, {.answer = 2, .order = 3, .positions = {}});
  const auto some = path_expansion(model, run.cache, {.answer = 2, .order = 1, .positions = {}});
  EXPECT_THAT(some.axis("path").labels,
              ElementsAre("direct", "0.0", "0.1", "1.0", "1.1", "2.0", "2.1", "remainder"));
  const auto kept = [](const at::Tensor& x) { return x.nan_to_num(0); };
  EXPECT_LT(largest(kept(some.values().narrow(2, 0, 7) - all.values().narrow(2, 0, 7))), kTolerance);
  EXPECT_LT(largest(kept(some.values().sum({1, 2}) - all.values().sum({1, 2}))), kTolerance);
  EXPECT_GT(largest(kept(some.slice("path", "remainder").values())), 1e-3);
  // Padding has no number, and a padded row equals its unpadded one.
  EXPECT_TRUE(some.values()[1].select(-1, 1).isnan().all().item<bool>());
  const auto alone = model.run_with_cache(tokens.narrow(0, 1, 1).narrow(1, 2, 3)).cache;
  const auto unpadded = path_expansion(model, alone, {.answer = 2, .order = 3, .positions = {}});
  EXPECT_LT(largest(unpadded.values()[0] - all.values()[1].narrow(-1, 2, 3)), kTolerance);
  // In an edited stream the change is in the remainder.
  const auto edited =
      model.run_with_cache(tokens, act::defaults, {.edits = {scale(act::resid_pre(1), 2.0)}}).cache;
  const auto changed = path_expansion(model, edited, {.answer = 2, .order = 3, .positions = {}});
  EXPECT_GT(largest(changed.slice("source", "remainder").values()), 1e-3);
  const auto logits = model.run(tokens, {.edits = {scale(act::resid_pre(1), 2.0)}}).logits();
  EXPECT_LT(largest(changed.values().sum({1, 2}) - logits.select(-1, 2)), kTolerance);
}

TEST(PathExpansion, LogitsOfAPathAreItsNumbers) {
  for (const auto& config : {attention_only_config(), two_layer_config()}) {  // the second one has MLPs
    const auto model = random_model(config);
    const auto cache = model.run_with_cache(random_row(5, 11, 4)).cache;
    const auto grid = path_expansion(model, cache, {.answer = 6, .order = 2, .positions = {2, 4}});
    for (const auto& path : std::vector<std::vector<HeadPlace>>{{}, {{1, 1}}, {{0, 1}, {1, 0}}}) {
      const auto logits =
          path_logits(model, cache, path, {.positions = {2, 4}});  // [row, source, pos, vocab]
      const std::string name = path.empty() ? "direct" : path.size() == 1 ? "1.1" : "0.1 > 1.0";
      const auto numbers = grid.slice("path", name).values();  // [row, source, pos]
      const auto sources = logits.values().size(1);
      // Only the direct path has a remainder: the run's, which is that of all paths.
      ASSERT_EQ(sources, numbers.size(1) - (path.empty() ? 0 : 1));
      EXPECT_LT(largest(logits.values().select(-1, 6) - numbers.narrow(1, 0, sources)), kTolerance) << name;
    }
  }
  const auto model = random_model(two_layer_config());
  const auto cache = model.run_with_cache(random_row(5, 11, 4)).cache;
  EXPECT_THAT(text_thrown_by<ShapeError>([&] {
                path_logits(model, cache, {{1, 0}, {0, 0}});
              }),
              HasSubstr("1.0 > 0.0 is not a path"));
  EXPECT_THROW(path_logits(model, cache, {{0, 4}}), ShapeError);
}

// All paths of every order, and the direct path's remainder: the logits of an edited run.
TEST(PathExpansion, LogitsOfAllPathsAreTheRuns) {
  const auto model = random_model(two_layer_config());
  const auto tokens = random_row(5, 11, 4);
  std::vector<std::vector<HeadPlace>> paths{{}};
  const auto heads = model.config().n_heads;
  for (std::int64_t first = 0; first < heads; ++first) {
    paths.push_back({{0, first}});
    paths.push_back({{1, first}});
    for (std::int64_t second = 0; second < heads; ++second) paths.push_back({{0, first}, {1, second}});
  }
  const std::vector<std::vector<Edit>> edits{{},
                                             {add(act::ln_final_normalized, 0.25)},
                                             {scale(act::ln_final_scale, 1.5)},
                                             {scale(act::unembed_in, 0.5)},
                                             {add(act::unembed_out, 2.0)},
                                             {scale(act::resid_pre(1), 2.0), scale(act::unembed_in, 0.5)}};
  for (std::size_t which = 0; which < edits.size(); ++which) {
    const auto run = model.run_with_cache(tokens, act::everything, {.edits = edits[which]});
    auto sum = -run.logits().narrow(1, 2, 3);
    for (const auto& path : paths)
      sum = sum + path_logits(model, run.cache, path, {.positions = {2, 3, 4}}).values().sum(1);
    EXPECT_LT(largest(sum), kTolerance * 10);
    const auto remainder =
        path_logits(model, run.cache, {}, {.positions = {2}}).slice("source", "remainder").values();
    // Another scale of the final norm applies to every path.
    const bool on_paths = which == 0 || which == 2;
    EXPECT_EQ(largest(remainder) > 1e-3, !on_paths) << which;
  }
}

TEST(PathExpansion, SaysWhatItRefuses) {
  const auto model = random_model(two_layer_config());
  const auto tokens = random_row(5, 11, 4);
  const auto cache = model.run_with_cache(tokens).cache;
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { path_expansion(model, cache, {.order = -1}); }),
              HasSubstr("no order -1"));
  auto deep = two_layer_config();
  deep.n_layers = 24;
  const auto big = random_model(deep);
  const auto of_big = big.run_with_cache(tokens).cache;
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { path_expansion(big, of_big, {.order = 6}); }),
              HasSubstr("at most 1000000"));
  const auto some = model.run_with_cache(tokens, act::z | act::resid_post).cache;
  EXPECT_THROW(path_expansion(model, some, {}), HookError);
}

}  // namespace
}  // namespace hooked::path_expansion_test
