#include "hooked/analysis/residual.h"

#include "tests/support/tiny_model.h"

namespace hooked::residual_test {
namespace {

constexpr double kTolerance = 1e-10;  // float64, numbers of size 1

ModelConfig mixture_config() {
  auto config = two_layer_config();
  config.norm = config.final_norm = NormKind::rms_norm;
  config.mlp = MlpKind::gated;
  config.experts = Experts{
      .n_experts = 3, .per_token = 2, .d_expert = 20, .bias = true, .renormalised = true, .d_shared = 5};
  return config;
}

std::vector<std::string> labels_of(const ModelConfig& config, const ResidualOptions& options) {
  const auto model = random_model(config);
  const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
  return residual_parts(model, cache, options).axis("part").labels;
}

TEST(ResidualParts, NamesThemAndTheirActivations) {
  const auto model = random_model(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
  const auto grid = residual_parts(model, cache, {.grain = Grain::neuron});
  ASSERT_EQ(grid.values().sizes(), at::IntArrayRef({1, 2 + 2 * (4 + 1 + 20 + 1) + 1, 1, 16}));
  EXPECT_EQ(grid.axes()[2].labels, std::vector<std::string>({"last"}));
  EXPECT_EQ(grid.axes()[3].name, "d_model");
  const auto& parts = grid.axis("part");
  EXPECT_EQ(parts.labels[0], "embed");
  EXPECT_EQ(parts.labels[5], "head 0.3");
  EXPECT_EQ(parts.places[5], Address("blocks.0.attn.hook_result[head=3]"));
  EXPECT_EQ(parts.labels[6], "attn bias 0");
  EXPECT_EQ(parts.places[6], std::nullopt);
  EXPECT_EQ(parts.labels[7 + 17], "neuron 0.17");
  EXPECT_EQ(parts.places[7 + 17], Address("blocks.0.mlp.hook_post[d_mlp=17]"));
  EXPECT_EQ(parts.labels[7 + 20], "mlp bias 0");
  EXPECT_EQ(parts.labels.back(), "remainder");
  EXPECT_EQ(grid.title(), "Parts of blocks.1.hook_resid_post");
}

TEST(ResidualParts, EndWhereTheActivationStands) {
  const auto config = two_layer_config();
  EXPECT_THAT(labels_of(config, {.of = act::resid_pre(0)}), ElementsAre("embed", "pos_embed", "remainder"));
  EXPECT_THAT(labels_of(config, {.of = act::ln1_normalized(0)}),
              ElementsAre("embed", "pos_embed", "remainder"));
  EXPECT_THAT(labels_of(config, {.of = act::ln2_normalized(0)}),
              ElementsAre("embed", "pos_embed", "attn 0", "remainder"));
  EXPECT_THAT(labels_of(config, {.of = act::resid_post(-2)}),
              ElementsAre("embed", "pos_embed", "attn 0", "mlp 0", "remainder"));
  EXPECT_THAT(labels_of(config, {.of = act::mlp_out(1)}), ElementsAre("mlp 1", "remainder"));
  EXPECT_THAT(labels_of(config, {.of = act::attn_out(1), .grain = Grain::head}),
              ElementsAre("head 1.0", "head 1.1", "head 1.2", "head 1.3", "attn bias 1", "remainder"));
}

TEST(ResidualParts, NormsOnTheWayHaveTheirBiases) {
  auto output = two_layer_config();
  output.n_layers = 1;
  output.norm_place = NormPlace::output;
  EXPECT_THAT(labels_of(output, {}), ElementsAre("embed", "pos_embed", "attn 0", "mlp 0", "remainder"));
  EXPECT_THAT(labels_of(output, {.grain = Grain::head}),
              ElementsAre("embed", "pos_embed", "head 0.0", "head 0.1", "head 0.2", "head 0.3", "attn bias 0",
                          "attn norm bias 0", "mlp 0", "remainder"));
  auto post = two_layer_config();
  post.n_layers = 1;
  post.norm_place = NormPlace::post;
  post.final_norm = NormKind::none;
  post.embedding_sum_norm = true;
  post.token_types = 2;
  EXPECT_THAT(labels_of(post, {}), ElementsAre("embed", "pos_embed", "token_type_embed", "embed norm bias",
                                               "attn 0", "ln1 bias 0", "mlp 0", "ln2 bias 0", "remainder"));
}

TEST(ResidualParts, ExpertsAndTheirNeurons) {
  const auto model = random_model(mixture_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
  const auto experts =
      residual_parts(model, cache, {.of = act::mlp_out(1), .grain = Grain::expert, .positions = {}});
  EXPECT_THAT(experts.axis("part").labels,
              ElementsAre("expert 1.0", "expert 1.1", "expert 1.2", "shared expert 1", "remainder"));
  EXPECT_EQ(experts.axis("part").places[2], Address("blocks.1.mlp.experts.2.hook_post"));
  EXPECT_LT(largest(experts.slice("part", "remainder").values()), kTolerance);
  // A token's experts are those that the router chose.
  const auto chosen = cache[act::expert_indices(1)][0];  // [pos, rank]
  for (std::int64_t pos = 0; pos < 6; ++pos) {
    for (std::int64_t expert = 0; expert < 3; ++expert) {
      const bool wrote = largest(experts.values()[0][expert][pos]) > 0;
      EXPECT_EQ(wrote, chosen[pos].eq(expert).any().item<bool>());
    }
  }
  const auto neurons =
      residual_parts(model, cache, {.of = act::mlp_out(1), .grain = Grain::neuron, .positions = {}});
  const auto& labels = neurons.axis("part").labels;
  EXPECT_EQ(labels[0], "neuron 1.0.0");
  EXPECT_EQ(labels[60], "shared neuron 1.0");
  EXPECT_EQ(labels[65], "mlp bias 1");
  EXPECT_LT(largest(neurons.slice("part", "remainder").values()), kTolerance);
}

// Edits of the choice send tokens to other experts, while weights stay with their rank.
TEST(ResidualParts, ExpertsAreThoseThatTokensWereSentTo) {
  for (const RouterKind router :
       {RouterKind::softmax_then_choose, RouterKind::sigmoid_then_choose, RouterKind::choose_then_softmax}) {
    auto config = mixture_config();
    config.experts->router = router;
    config.experts->n_experts = 6;
    config.experts->renormalised = router != RouterKind::choose_then_softmax;
    if (router == RouterKind::sigmoid_then_choose) {
      config.experts->choice_bias = true;
      config.experts->n_groups = 3;
      config.experts->groups_per_token = 2;
    }
    const auto model = random_model(config);
    const auto tokens = random_row(6, 11, 4);
    const auto chosen = model.run_with_cache(tokens).cache[act::expert_indices(1)];
    const Edit elsewhere = set(act::expert_indices(1), (chosen + 1) % 6);
    const Edit swapped = set(act::expert_indices(1), chosen.flip(2));
    const Edit once = set(act::expert_indices(1).pos(2), at::tensor({5, 0}, at::kLong));
    for (const Edit& edit : {elsewhere, swapped, once}) {
      const auto cache = model.run_with_cache(tokens, act::defaults, {.edits = {edit}}).cache;
      for (const auto grain : {Grain::expert, Grain::neuron}) {
        const auto parts =
            residual_parts(model, cache, {.of = act::mlp_out(1), .grain = grain, .positions = {}});
        EXPECT_LT(largest(parts.slice("part", "remainder").values()), kTolerance);
        EXPECT_LT(largest(parts.values().sum(1) - cache[act::mlp_out(1)]), kTolerance);
      }
    }
  }
}

ModelConfig normed_mixture_config() {
  auto config = mixture_config();
  config.norm_place = NormPlace::both;
  config.mlp_bias = true;
  config.experts->own_norms = config.experts->expert_scale = true;
  return config;
}

// Experts and the shared expert each write through a norm, and their sum through the block's.
TEST(ResidualParts, ExpertsWriteThroughNormsOfTheirOwn) {
  for (const bool folded : {false, true}) {
    const auto model =
        folded ? random_model(normed_mixture_config(), WeightProcessing::only({ProcessingStep::fold_ln}))
               : random_model(normed_mixture_config());
    const auto tokens = random_row(6, 11, 4);
    const auto chosen = model.run_with_cache(tokens).cache[act::expert_indices(1)];
    for (const auto& edits :
         {std::vector<Edit>{}, std::vector<Edit>{set(act::expert_indices(1), (chosen + 1) % 3)}}) {
      const auto cache = model.run_with_cache(tokens, act::defaults, {.edits = edits}).cache;
      for (const auto grain : {Grain::expert, Grain::neuron}) {
        const auto parts =
            residual_parts(model, cache, {.of = act::resid_post(1), .grain = grain, .positions = {}});
        EXPECT_LT(largest(parts.slice("part", "remainder").values()), kTolerance);
        EXPECT_LT(largest(parts.values().sum(1) - cache[act::resid_post(1)]), kTolerance);
        const auto directions = at::stack({at::ones({16}, at::kDouble), at::arange(16, at::kDouble)});
        const auto along = residual_parts(
            model, cache, {.of = act::resid_post(1), .grain = grain, .along = directions, .positions = {}});
        EXPECT_LT(largest(along.values() - parts.values().matmul(directions.t())), 1e-8);
      }
    }
  }
}

// The inputs of the router and of the routed experts, in parts of the stream.
TEST(ResidualParts, EndWhatAMixtureReadsThroughItsNorms) {
  const auto model = random_model(normed_mixture_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
  for (const auto& of : {act::router_ln_normalized(1), act::experts_ln_normalized(1)}) {
    const auto parts = residual_parts(model, cache, {.of = of, .positions = {}});
    EXPECT_THAT(parts.axis("part").labels,
                ElementsAre("embed", "pos_embed", "attn 0", "mlp 0", "attn 1", "remainder"));
    EXPECT_LT(largest(parts.slice("part", "remainder").values()), kTolerance);
    EXPECT_LT(largest(parts.values().sum(1) - cache[of]), kTolerance);
  }
}

// A head's output is z times its rows of W_O: summed over heads, it is one product of the concatenated heads.
TEST(ResidualParts, HeadsAreRowsOfOneProduct) {
  const auto model = random_model(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 4), act::everything).cache;
  const auto grid =
      residual_parts(model, cache, {.of = act::attn_out(1), .grain = Grain::head, .positions = {}});
  const auto heads = grid.values()[0].narrow(0, 0, 4);  // [head, pos, d_model]
  EXPECT_LT(largest(heads.transpose(0, 1) - cache[act::result(1)][0]), kTolerance);
  const auto one_product = at::matmul(cache[act::z(1)][0].flatten(1), model.weights().W_O(1).flatten(0, 1));
  EXPECT_LT(largest(heads.sum(0) - one_product), kTolerance);
}

// The rows of a pattern sum to 1, so a value bias reaches a head's output whatever it attends to.
TEST(ResidualParts, ValueBiasesMayCountAsBias) {
  auto config = two_layer_config();
  config.n_kv_heads = 2;
  const auto model = random_model(config);
  const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
  const auto parts = [&](ValueBiases value_biases) {
    return residual_parts(model, cache,
                          {.of = act::attn_out(0), .grain = Grain::head, .value_biases = value_biases});
  };
  const auto in_heads = parts(ValueBiases::in_heads), in_bias = parts(ValueBiases::in_bias);
  const auto moved = in_heads.values() - in_bias.values();
  const auto weights = model.weights();
  const auto of_norm = at::einsum("m,hmd->hd", {weights.ln1(0).b, weights.W_V(0)});
  const auto b_V = (weights.b_V(0) + of_norm).repeat_interleave(2, 0);  // [head, d_head]
  const auto expected = at::einsum("hd,hdm->hm", {b_V, model.weights().W_O(0)});
  EXPECT_LT(largest(moved[0].narrow(0, 0, 4).squeeze(1) - expected), kTolerance);
  EXPECT_LT(largest(moved[0][4][0] + expected.sum(0)), kTolerance);
  EXPECT_LT(largest(in_bias.slice("part", "remainder").values()), kTolerance);
  // In folded weights value biases are in the bias already.
  const auto folded = random_model(
      config, WeightProcessing::only({ProcessingStep::fold_ln, ProcessingStep::fold_value_biases}));
  const auto of_folded = residual_parts(folded, folded.run_with_cache(random_row(6, 11, 4)).cache,
                                        {.of = act::attn_out(0), .grain = Grain::head});
  EXPECT_LT(largest(of_folded.values() - in_bias.values()), kTolerance);
}

TEST(ResidualParts, TheRemainderIsWhatAnEditPutThere) {
  const auto model = random_model(two_layer_config());
  const auto edited = model.run_with_cache(random_row(6, 11, 4), act::defaults,
                                           {.edits = {add(Address(act::resid_mid(0)), 2.0)}});
  const auto grid = residual_parts(model, edited.cache, {.grain = Grain::head, .positions = {}});
  EXPECT_LT(largest(grid.slice("part", "remainder").values() - 2.0), kTolerance);
  EXPECT_LT(largest(grid.values().sum(1) - edited.cache[act::resid_post(-1)]), kTolerance);
}

TEST(ResidualParts, PaddingIsNotANumber) {
  const auto model = random_model(two_layer_config());
  const auto mask = at::tensor({1, 1, 1, 0, 0, 1}, at::kLong).view({2, 3});
  const auto cache =
      model.run_with_cache({random_row(6, 11, 1).view({2, 3}), {.attention_mask = mask}}).cache;
  const auto grid = residual_parts(model, cache, {.positions = {}});
  EXPECT_TRUE(grid.values()[1][0].select(1, 3).isnan().equal(mask[1].eq(0)));
  EXPECT_FALSE(grid.values()[0].isnan().any().item<bool>());
}

TEST(ResidualParts, CountTheColumnsOfAPrefix) {
  const auto model = random_model(mixture_config());
  const auto tokens = random_row(6, 11, 1);
  const auto whole =
      residual_parts(model, model.run_with_cache(tokens).cache, {.grain = Grain::neuron, .positions = {4}});
  const auto prefix = model.run(tokens.narrow(1, 0, 2), {.keep_prefix = true}).prefix;
  const auto cache = model.run_with_cache({tokens.narrow(1, 2, 4), {.prefix = prefix}}).cache;
  const auto rest = residual_parts(model, cache, {.grain = Grain::neuron, .positions = {4}});
  EXPECT_LT(largest(whole.values() - rest.values()), kTolerance);
}

TEST(ResidualParts, RefusesWhatIsNoSum) {
  const auto model = random_model(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
  const auto text_for = [&](const ResidualOptions& options) {
    return text_thrown_by<HookError>([&] { residual_parts(model, cache, options); });
  };
  EXPECT_THAT(text_for({.of = act::pattern(0)}), HasSubstr("not made by adding up"));
  EXPECT_THAT(text_for({.of = act::resid_post(0).pos(2)}), HasSubstr("whole activation"));
  EXPECT_THAT(text_for({.of = act::resid_post(2)}), HasSubstr("2"));
  EXPECT_THAT(text_for({.of = act::ln3_normalized(0)}), HasSubstr("stack 'decoder'"));
  EXPECT_THAT(text_thrown_by<ShapeError>(
                  [&] { residual_parts(model, cache, {.along = at::ones({3}, at::kDouble)}); }),
              HasSubstr("[direction, 16]"));
  const auto slim = model.run_with_cache(random_row(6, 11, 4), act::resid_post).cache;
  EXPECT_THAT(text_thrown_by<HookError>([&] { residual_parts(model, slim); }), HasSubstr("hook_embed"));
  auto sinks = two_layer_config();
  sinks.attention_sinks = true;
  const auto with_sinks = random_model(sinks);
  const auto sunk = with_sinks.run_with_cache(random_row(6, 11, 4)).cache;
  EXPECT_THAT(text_thrown_by<HookError>([&] {
                residual_parts(with_sinks, sunk,
                               {.grain = Grain::head, .value_biases = ValueBiases::in_bias});
              }),
              HasSubstr("sinks"));
}

class PartsOfRandomConfig : public testing::TestWithParam<std::uint64_t> {};

TEST_P(PartsOfRandomConfig, AddUpToTheEndAndToItsNorm) {
  const auto config = random_double_config(GetParam());
  const auto model = random_model(config);
  const auto cache = model.run_with_cache(random_row(6, config.d_vocab, 4)).cache;
  std::vector<std::optional<Address>> ends{std::nullopt};
  if (config.final_norm != NormKind::none) ends.emplace_back(act::ln_final_normalized);
  for (const auto& of : ends) {
    for (const auto grain : {Grain::layer, Grain::head, Grain::expert, Grain::neuron}) {
      const auto grid = residual_parts(model, cache, {.of = of, .grain = grain, .positions = {}});
      EXPECT_LT(largest(grid.slice("part", "remainder").values()),
                kTolerance * largest(grid.values().sum(1)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PartsOfRandomConfig, testing::Range<std::uint64_t>(0, 60));

TEST(AccumulatedResidual, IsTheStreamAtEachPoint) {
  const auto model = random_model(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 4).view({2, 3})).cache;
  const auto grid = accumulated_residual(model, cache, {.mid = true, .positions = {}});
  EXPECT_THAT(grid.axis("point").labels,
              ElementsAre("resid_pre 0", "resid_mid 0", "resid_pre 1", "resid_mid 1", "resid_post 1"));
  EXPECT_EQ(grid.axis("point").places[4], Address("blocks.1.hook_resid_post"));
  EXPECT_LT(largest(grid.values().select(1, 3) - cache[act::resid_mid(1)]), kTolerance);
  const auto until = accumulated_residual(model, cache, {.until = act::resid_mid(0)});
  EXPECT_THAT(until.axis("point").labels, ElementsAre("resid_pre 0", "resid_mid 0"));
  EXPECT_EQ(until.axes()[2].labels, std::vector<std::string>({"last"}));
}

TEST(AccumulatedResidual, ReadsThroughANorm) {
  const auto model = random_model(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
  const auto read = [&](NormScale scale) {
    return accumulated_residual(model, cache,
                                {.norm = ReadingNorm{act::ln_final_scale, scale}, .positions = {}});
  };
  // The last point is what the norm read, so both scales are its own.
  for (const auto scale : {NormScale::of_run, NormScale::own}) {
    const auto last = read(scale).values()[0][-1];
    EXPECT_LT(largest(last - cache[act::ln_final_normalized][0]), kTolerance);
  }
  const auto x = cache[act::resid_pre(1)][0];
  const auto centred = x - x.mean(-1, true);
  const auto by_run = read(NormScale::of_run).slice("point", "resid_pre 1").values()[0];
  EXPECT_LT(largest(by_run - centred / cache[act::ln_final_scale][0]), kTolerance);
  const auto by_own = read(NormScale::own).slice("point", "resid_pre 1").values()[0];
  EXPECT_LT(largest(by_own - centred / (centred.square().mean(-1, true) + 1e-5).sqrt()), kTolerance);
  EXPECT_THAT(text_thrown_by<HookError>([&] {
                accumulated_residual(model, cache, {.norm = ReadingNorm{act::ln_final_normalized}});
              }),
              HasSubstr("not the scale of a norm"));
}

TEST(NormedStack, IsThePartsOfWhatTheNormMade) {
  const auto model = random_model(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
  const ResidualOptions options{.of = act::resid_mid(1), .grain = Grain::head, .positions = {1, 4}};
  auto normed = options;
  normed.of = act::ln2_normalized(1);
  const auto stack = residual_parts(model, cache, options);
  const auto by_hand = normed_stack(model, cache, stack, {.norm = {act::ln2_scale(1)}, .positions = {1, 4}});
  EXPECT_EQ(by_hand.axis("part"), stack.axis("part"));
  EXPECT_LT(largest(by_hand.values() - residual_parts(model, cache, normed).values()), kTolerance);
}

TEST(NormedStack, TakesStacksOfYourOwn) {
  const auto model = random_model(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
  const auto numbers = at::arange(2 * 3 * 16, at::kDouble).sin().view({2, 1, 3, 16});
  const auto axis = [](const char* name, std::vector<std::string> labels) {
    return GridAxis{.name = name, .labels = std::move(labels)};
  };
  std::vector<std::string> width;
  for (int i = 0; i < 16; ++i) width.push_back(std::to_string(i));
  const Grid stack(
      numbers,
      {axis("pos", {"1", "5"}), axis("row", {"0"}), axis("probe", {"a", "b", "c"}), axis("d_model", width)},
      {.title = "Probes", .unit = "activation"});
  const NormStackOptions options{.norm = {act::ln1_scale(1)}, .positions = {1, 5}};
  const auto normed = normed_stack(model, cache, stack, options);
  EXPECT_EQ(normed.axes(), stack.axes());
  const auto scale = cache[act::ln1_scale(1)][0];  // [pos, one]
  const auto expected = (numbers[1][0][2] - numbers[1][0][2].mean()) / scale[5];
  EXPECT_LT(largest(normed.values()[1][0][2] - expected), kTolerance);
  auto elsewhere = options;
  elsewhere.positions = {1, 4};
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { normed_stack(model, cache, stack, elsewhere); }),
              HasSubstr("[1, 4]"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { normed_stack(model, cache, stack.slice("row", 0), options); }),
              HasSubstr("`row`"));
}

}  // namespace
}  // namespace hooked::residual_test
