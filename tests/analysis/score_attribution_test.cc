#include "hooked/analysis/score_attribution.h"

#include "tests/support/tiny_model.h"

namespace hooked::score_attribution_test {
namespace {

constexpr double kTolerance = 1e-10;  // float64, scores of size 1

ModelConfig rotary_config() {
  auto config = two_layer_config();
  config.positions = RotaryPositions{.dim = 4};
  config.n_kv_heads = 2;
  config.qk_norm = QkNorm{};
  return config;
}

double sum(const Grid& grid) { return grid.values().sum().item<double>(); }

TEST(ScoreAttribution, NamesBothSides) {
  const auto model = random_model(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
  const auto grid = score_attribution(model, cache, {.scores = act::attn_scores(1).head(2), .keys = {0, 3}});
  ASSERT_EQ(grid.values().sizes(), at::IntArrayRef({1, 6, 6, 1, 2}));
  for (const char* axis : {"query_part", "key_part"})
    EXPECT_THAT(grid.axis(axis).labels,
                ElementsAre("embed", "pos_embed", "attn 0", "mlp 0", "bias", "remainder"));
  EXPECT_EQ(grid.axis("key_part").places[2], Address("blocks.0.hook_attn_out"));
  EXPECT_EQ(grid.axis("query").labels, std::vector<std::string>({"last"}));
  EXPECT_EQ(grid.axis("key").labels, std::vector<std::string>({"0", "3"}));
}

// By hand, with the matrices: (c(x) / s * w) W_Q of a part, and the contribution of the biases.
TEST(ScoreAttribution, IsTheBilinearFormOfTheMatrices) {
  auto config = two_layer_config();
  config.scale_by_inverse_layer = true;
  const auto model = random_model(config);
  const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
  const auto grid =
      score_attribution(model, cache, {.scores = act::attn_scores(1).head(2), .queries = {4}, .keys = {1}});
  const auto w = model.weights();
  const auto read = [&](const at::Tensor& x, std::int64_t pos, const at::Tensor& W) {
    const auto normed = (x - x.mean()) / cache[act::ln1_scale(1)][0][pos] * w.ln1(1).w;
    return normed.matmul(W);
  };
  const auto q = read(cache[act::attn_out(0)][0][4], 4, w.W_Q(1, 2));
  const auto k = read(cache[act::mlp_out(0)][0][1], 1, w.W_K(1, 2));
  const double divisor = std::sqrt(6.0) * 2;
  EXPECT_NEAR(grid.at({0, 2, 3, 0, 0}), q.dot(k).item<double>() / divisor, kTolerance);
  const auto q_bias = w.ln1(1).b.matmul(w.W_Q(1, 2)) + w.b_Q(1)[2];
  EXPECT_NEAR(grid.at({0, 4, 3, 0, 0}), q_bias.dot(k).item<double>() / divisor, kTolerance);
  EXPECT_NEAR(sum(grid), cache[act::attn_scores(1)][0][2][4][1].item<double>(), kTolerance);
}

TEST(ScoreAttribution, ThroughRotationSharedKeysAndTheirNorms) {
  const auto model = random_model(rotary_config());
  const auto mask = at::tensor({1, 1, 1, 1, 1, 0, 0, 1, 1, 1}, at::kLong).view({2, 5});
  const auto tokens = random_row(10, 11, 4).view({2, 5});
  const auto cache = model.run_with_cache({tokens, {.attention_mask = mask}}).cache;
  const auto grid = score_attribution(
      model, cache,
      {.scores = act::attn_scores(1).head(3), .grain = Grain::neuron, .queries = {4}, .keys = {}});
  const auto scores = cache[act::attn_scores(1).head(3)].select(1, 4);  // [row, key]
  const auto sums = grid.values().sum({1, 2}).squeeze(1);
  EXPECT_LT((sums[0] - scores[0]).abs().max().item<double>(), kTolerance);
  EXPECT_TRUE(sums[1].isnan().equal(mask[1].eq(0)));
  EXPECT_LT((sums[1] - scores[1]).slice(0, 2).abs().max().item<double>(), kTolerance);
  // A padded row equals its unpadded one.
  const auto alone = model.run_with_cache(tokens.narrow(0, 1, 1).narrow(1, 2, 3)).cache;
  const auto unpadded = score_attribution(
      model, alone,
      {.scores = act::attn_scores(1).head(3), .grain = Grain::neuron, .queries = {2}, .keys = {}});
  EXPECT_LT((unpadded.values()[0] - grid.values()[1].slice(3, 2)).abs().max().item<double>(), kTolerance);
}

TEST(ScoreAttribution, TheRemainderIsWhatAnEditPutThere) {
  const auto model = random_model(two_layer_config());
  const auto edited =
      model.run_with_cache(random_row(6, 11, 4), act::defaults, {.edits = {scale(act::q(1), 2.0)}}).cache;
  const auto grid = score_attribution(model, edited, {.scores = act::attn_scores(1).head(0), .keys = {2}});
  EXPECT_NEAR(sum(grid), edited[act::attn_scores(1)][0][0][5][2].item<double>(), kTolerance);
  EXPECT_NEAR(sum(grid.slice("query_part", "remainder")), sum(grid) / 2, kTolerance);
}

/// With two stacks, all numbers random.
HookedTransformer two_stack_model(Positions positions) {
  auto config = two_layer_config();
  config.encoder = Encoder{.n_layers = 2, .decoder_start_token = 1};
  config.norm_place = std::holds_alternative<RelativePositions>(positions) ? NormPlace::pre : NormPlace::post;
  if (config.norm_place == NormPlace::post) config.final_norm = NormKind::none;
  config.positions = std::move(positions);
  return random_model(config);
}

TEST(ScoreAttribution, NamesPartsOfAnEncoder) {
  const auto model = two_stack_model(RelativePositions{.buckets = 8, .max_distance = 10});
  const auto cache =
      model.run_with_cache({random_row(6, 11, 4), {.decoder = {.tokens = random_row(3, 11, 5)}}}).cache;
  const auto across = score_attribution(model, cache, {.scores = act::cross_attn_scores(1).head(2)});
  ASSERT_EQ(across.values().sizes(), at::IntArrayRef({1, 7, 7, 1, 6}));
  EXPECT_THAT(across.axis("query_part").labels,
              ElementsAre("embed", "attn 0", "cross attn 0", "mlp 0", "attn 1", "bias", "remainder"));
  EXPECT_THAT(across.axis("key_part").labels,
              ElementsAre("encoder embed", "encoder attn 0", "encoder mlp 0", "encoder attn 1",
                          "encoder mlp 1", "bias", "remainder"));
  EXPECT_EQ(across.axis("key_part").places[1], Address("encoder.0.hook_attn_out"));
  const auto within = score_attribution(model, cache, {.scores = act::attn_scores.encoder(1).head(2)});
  ASSERT_EQ(within.values().sizes(), at::IntArrayRef({1, 6, 6, 1, 6}));
  for (const char* axis : {"query_part", "key_part"}) {
    EXPECT_THAT(within.axis(axis).labels, ElementsAre("encoder embed", "encoder attn 0", "encoder mlp 0",
                                                      "bias", "position bias", "remainder"));
    EXPECT_EQ(within.axis(axis).places[4], Address("encoder.0.attn.rel_pos_hook[head=2]"));
  }
}

// By hand, with the matrices, through the norms on either side.
TEST(ScoreAttribution, OfCrossAttentionIsTheBilinearFormOfTheMatrices) {
  const auto model = two_stack_model(RelativePositions{.buckets = 8, .max_distance = 10});
  const auto cache =
      model.run_with_cache({random_row(6, 11, 4), {.decoder = {.tokens = random_row(3, 11, 5)}}}).cache;
  const auto grid = score_attribution(
      model, cache, {.scores = act::cross_attn_scores(1).head(2), .queries = {1}, .keys = {4}});
  const auto weights = model.weights();
  const auto w = weights.cross_attention();
  const auto normed = [&](const at::Tensor& x, const Address& scale, std::int64_t pos, const char* weight) {
    return (x - x.mean()) / cache[scale][0][pos] * weights[weight];
  };
  const auto q =
      normed(cache[act::attn_out(1)][0][1], act::ln2_scale(1), 1, "decoder.1.ln2.w").matmul(w.W_Q(1, 2));
  const auto k =
      normed(cache[act::mlp_out.encoder(1)][0][4], act::encoder_final_ln_scale, 4, "encoder_final_ln.w")
          .matmul(w.W_K(1, 2));
  EXPECT_NEAR(grid.at({0, 4, 4, 0, 0}), q.dot(k).item<double>() / std::sqrt(6.0), kTolerance);
  const auto k_bias = weights["encoder_final_ln.b"].matmul(w.W_K(1, 2)) + w.b_K(1)[2];
  EXPECT_NEAR(grid.at({0, 4, 5, 0, 0}), q.dot(k_bias).item<double>() / std::sqrt(6.0), kTolerance);
  EXPECT_NEAR(sum(grid), cache[act::cross_attn_scores(1)][0][2][1][4].item<double>(), kTolerance);
}

// The effect of an edit of a position bias is in that part, that of an edit of keys in their remainder.
TEST(ScoreAttribution, EditsAcrossStacksAreInTheirParts) {
  const auto relative = two_stack_model(RelativePositions{.buckets = 8, .max_distance = 10});
  const Input input{random_row(6, 11, 4), {.decoder = {.tokens = random_row(3, 11, 5)}}};
  const auto moved =
      relative.run_with_cache(input, act::defaults, {.edits = {add(act::relative_bias.encoder(0), 2.0)}})
          .cache;
  const auto scores = act::attn_scores.encoder(1).head(1);
  const auto within = score_attribution(relative, moved, {.scores = scores, .queries = {3}, .keys = {5}});
  EXPECT_NEAR(sum(within), moved[scores][0][3][5].item<double>(), kTolerance);
  EXPECT_GT(within.at({0, 4, 4, 0, 0}), 1.0);
  const auto post = two_stack_model(LearnedPositions{});
  const auto edited =
      post.run_with_cache(input, act::defaults, {.edits = {scale(act::cross_k(0), 2.0)}}).cache;
  const auto across =
      score_attribution(post, edited, {.scores = act::cross_attn_scores(0).head(1), .keys = {2}});
  EXPECT_NEAR(sum(across), edited[act::cross_attn_scores(0)][0][1][2][2].item<double>(), kTolerance);
  EXPECT_NEAR(sum(across.slice("key_part", "remainder")), sum(across) / 2, kTolerance);
}

// Hooks of the handle do not apply when the model carries a part.
TEST(ScoreAttribution, DoesNotRunTheHooksOfTheHandle) {
  auto model = random_model(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
  const auto hook = model.hook(act::q, [](const at::Tensor& q) { return q * 0.0; });
  const auto grid = score_attribution(model, cache, {.scores = act::attn_scores(1).head(0), .keys = {2}});
  EXPECT_NEAR(sum(grid), cache[act::attn_scores(1)][0][0][5][2].item<double>(), kTolerance);
  EXPECT_LT(grid.slice("query_part", "remainder").values().abs().max().item<double>(), kTolerance);
}

TEST(ScoreAttribution, SaysWhatItCannotTakeApart) {
  const auto model = random_model(two_layer_config());
  const auto tokens = random_row(6, 11, 4);
  const auto cache = model.run_with_cache(tokens).cache;
  const auto text_for = [&](const Address& scores) {
    return text_thrown_by<HookError>([&] { score_attribution(model, cache, {.scores = scores}); });
  };
  EXPECT_THAT(text_for(act::attn_scores(1)), HasSubstr("one head"));
  EXPECT_THAT(text_for(act::pattern(1).head(1)), HasSubstr("blocks.1.attn.hook_attn_scores[head=3]"));
  EXPECT_THAT(text_for(act::attn_scores(1).head(4)), HasSubstr("no head 4; expected -4 to 3"));
  auto clipped = two_layer_config();
  clipped.qkv_clip = 1;
  const auto clips = random_model(clipped);
  const auto of_clipped = clips.run_with_cache(tokens).cache;
  EXPECT_THAT(text_thrown_by<HookError>(
                  [&] { score_attribution(clips, of_clipped, {.scores = act::attn_scores(0).head(0)}); }),
              HasSubstr("clipping"));
  const auto prefix = model.run(tokens.narrow(1, 0, 2), {.keep_prefix = true}).prefix;
  const auto behind = model.run_with_cache({tokens.narrow(1, 2, 4), {.prefix = prefix}}).cache;
  EXPECT_THAT(text_thrown_by<HookError>(
                  [&] { score_attribution(model, behind, {.scores = act::attn_scores(0).head(0)}); }),
              HasSubstr("without a prefix"));
}

}  // namespace
}  // namespace hooked::score_attribution_test
