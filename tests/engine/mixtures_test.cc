// Mixtures of experts in a run: what edits of the router's points do, which experts compute, how processing
// changes them.
#include <ATen/ops/gelu.h>

#include "tests/support/tiny_model.h"

namespace hooked::mixtures_test {
namespace {

constexpr RouterKind kRouters[] = {RouterKind::softmax_then_choose, RouterKind::sigmoid_then_choose,
                                   RouterKind::choose_then_softmax, RouterKind::sparse_mixer};

ModelConfig mixture_config(RouterKind router = RouterKind::softmax_then_choose) {
  ModelConfig config = small_config();
  config.mlp = MlpKind::gated;
  config.experts = Experts{.n_experts = 5, .per_token = 2, .d_expert = config.d_mlp, .router = router};
  if (router == RouterKind::sparse_mixer) config.experts->mixer_tolerance = 0.4;
  return config;
}

// Rows of `tokens` [batch, pos, d_model] that the indices [batch, pos, rank] send to an expert, by rank, then
// row and position.
at::Tensor rows_of(const at::Tensor& tokens, const at::Tensor& indices, std::int64_t expert) {
  const at::Tensor by_rank = indices.movedim(-1, 0) == expert;  // [rank, batch, pos]
  std::vector<at::Tensor> rows;
  for (std::int64_t rank = 0; rank < by_rank.size(0); ++rank) rows.push_back(tokens.index({by_rank[rank]}));
  return at::cat(rows);
}

TEST(Mixture, ExpertsSeeTheirTokensByRank) {
  for (const RouterKind router : kRouters) {
    const HookedTransformer model = random_model(mixture_config(router));
    const auto cache = model.run_with_cache(random_tokens(model.config(), {2, 7})).cache;
    const at::Tensor indices = cache[act::expert_indices(1)];
    ASSERT_EQ(indices.scalar_type(), at::kLong);
    const StateDict weights = model.state_dict();
    const at::Tensor normed =
        cache[act::ln2_normalized(1)] * weights.at("blocks.1.ln2.w") + weights.at("blocks.1.ln2.b");
    for (int e = 0; e < 5; ++e) {
      const at::Tensor expected =
          rows_of(normed, indices, e)
              .matmul(weights.at("blocks.1.mlp.experts." + std::to_string(e) + ".W_gate.weight").t());
      const at::Tensor gate = cache[act::expert_gate(1, e)];
      ASSERT_EQ(gate.sizes(), expected.sizes());
      EXPECT_LT((gate - expected).abs().sum().item<double>(), 1e-10);  // also if it is empty
    }
  }
}

TEST(Mixture, AnExpertWithoutTokensFiresWithNone) {
  const HookedTransformer model = random_model(mixture_config());
  const at::Tensor tokens = random_tokens(model.config(), {1, 4});
  const auto run = model.run(tokens, {.edits = {set(act::expert_indices(0), 3)},
                                      .capture = act::expert_gate | act::expert_pre | act::expert_post});
  for (int e = 0; e < 5; ++e) {
    EXPECT_EQ(run.cache[act::expert_post(0, e)].sizes(), (at::IntArrayRef{e == 3 ? 8 : 0, 12})) << e;
  }
}

TEST(Mixture, EditedWeightsChooseAnew) {
  for (const RouterKind router : kRouters) {
    const HookedTransformer model = random_model(mixture_config(router));
    const at::Tensor tokens = random_tokens(model.config(), {2, 6});
    for (std::int64_t expert = 0; expert < 5; ++expert) {
      const auto run =
          model.run(tokens, {.edits = {set(act::expert_weights(1).at(Axis::expert, expert), 2.0)},
                             .capture = act::expert_indices | act::mlp_out});
      EXPECT_TRUE((run.cache[act::expert_indices(1)].select(-1, 0) == expert).all().item<bool>());
    }
    const at::Tensor none = model.run(tokens, {.edits = {zero(act::expert_weights(1))}}).logits();
    EXPECT_TRUE(none.isfinite().all().item<bool>());
    const at::Tensor ablated = model.run(tokens, {.edits = {zero(act::mlp_out(1))}}).logits();
    EXPECT_LT(relative_difference(none, ablated), 1e-12);
  }
}

// An edit of the weights of one group's experts decides which groups may be chosen.
TEST(Mixture, EditedWeightsChooseAmongTheBestGroups) {
  for (const GroupScore score : {GroupScore::best, GroupScore::best_two}) {
    ModelConfig config = mixture_config(RouterKind::sigmoid_then_choose);
    config.experts->n_experts = 6;
    config.experts->n_groups = 3;
    config.experts->group_score = score;
    const HookedTransformer model = random_model(config);
    const at::Tensor tokens = random_tokens(config, {2, 6});
    for (std::int64_t group = 0; group < 3; ++group) {
      // 0.9 and 0.1 against 0.6 and 0.6: the best counts one way, the best two the other.
      const auto weight = [&](std::int64_t expert, double value) {
        return set(act::expert_weights(1).at(Axis::expert, (2 * group + expert) % 6), value);
      };
      const auto run = model.run(tokens, {.edits = {weight(0, 0.9), weight(1, 0.1), weight(2, 0.6),
                                                    weight(3, 0.6), weight(4, 0.0), weight(5, 0.0)},
                                          .capture = act::expert_indices});
      const std::int64_t open = (group + (score == GroupScore::best ? 0 : 1)) % 3;
      EXPECT_TRUE((run.cache[act::expert_indices(1)].div(2, "floor") == open).all().item<bool>());
    }
  }
}

TEST(Mixture, AnUnchangedValueChangesNothing) {
  for (const RouterKind router : kRouters) {
    const HookedTransformer model = random_model(mixture_config(router));
    const at::Tensor tokens = random_tokens(model.config(), {2, 6});
    const auto plain = model.run(tokens, {.capture = act::expert_indices});
    const Hook same{act::expert_weights | act::expert_indices, [](const at::Tensor& x) { return x.clone(); }};
    const auto hooked = model.run(tokens, {.hooks = {same}, .capture = act::expert_indices});
    EXPECT_TRUE(at::equal(plain.logits(), hooked.logits()));
    EXPECT_TRUE(at::equal(plain.cache[act::expert_indices(2)], hooked.cache[act::expert_indices(2)]));
  }
}

TEST(Mixture, EditedIndicesSendTokensElsewhereWithTheirWeights) {
  const HookedTransformer model = random_model(mixture_config());
  const at::Tensor tokens = random_tokens(model.config(), {1, 5});
  const auto before = model.run(tokens, {.capture = act::defaults}).cache;
  const auto after = model
                         .run(tokens, {.edits = {set(act::expert_indices(0).at(Axis::rank, 0), 4)},
                                       .capture = act::defaults})
                         .cache;
  const at::Tensor chosen = before[act::expert_indices(0)];
  const at::Tensor ranked = before[act::expert_weights(0)].gather(-1, chosen);
  const StateDict weights = model.state_dict();
  const at::Tensor normed =
      before[act::ln2_normalized(0)] * weights.at("blocks.0.ln2.w") + weights.at("blocks.0.ln2.b");
  const auto expert = [&](std::int64_t e, const at::Tensor& x) {
    const std::string name = "blocks.0.mlp.experts." + std::to_string(e) + ".W_";
    const auto times = [&](const char* which, const at::Tensor& y) {
      return y.matmul(weights.at(name + which + ".weight").t());
    };
    return times("out", at::gelu(times("gate", x)) * times("in", x));
  };
  for (std::int64_t pos = 0; pos < 5; ++pos) {
    const at::Tensor x = normed[0][pos];
    const at::Tensor expected = ranked[0][pos][0] * expert(4, x) +
                                ranked[0][pos][1] * expert(chosen[0][pos][1].item<std::int64_t>(), x);
    EXPECT_LT(relative_difference(after[act::mlp_out(0)][0][pos], expected), 1e-12);
  }
}

TEST(Mixture, WeightedInputsAreWhatExpertsRead) {
  ModelConfig config = mixture_config(RouterKind::sigmoid_then_choose);
  config.experts->weighted_inputs = true;
  const HookedTransformer model = random_model(config);
  const at::Tensor tokens = random_tokens(config, {2, 6});
  const auto run = model.run_with_cache(tokens);
  const StateDict weights = model.state_dict();
  const at::Tensor normed =
      run.cache[act::ln2_normalized(1)] * weights.at("blocks.1.ln2.w") + weights.at("blocks.1.ln2.b");
  const at::Tensor indices = run.cache[act::expert_indices(1)];
  const at::Tensor ranked = run.cache[act::expert_weights(1)].gather(-1, indices);
  for (int e = 0; e < 5; ++e) {
    std::vector<at::Tensor> by_rank;
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      const at::Tensor here = indices.select(-1, rank) == e;
      by_rank.push_back(normed.index({here}) * ranked.select(-1, rank).index({here}).unsqueeze(-1));
    }
    const at::Tensor read = run.cache[act::expert_in(1, e)], expected = at::cat(by_rank);
    ASSERT_EQ(read.sizes(), expected.sizes());
    EXPECT_LT((read - expected).abs().sum().item<double>(), 1e-10);
  }
  // An edit of an expert's input changes its output, and an expert without input writes nothing.
  const auto without =
      model.run(tokens, {.edits = {zero(act::expert_in(1, 0))}, .capture = act::expert_post});
  EXPECT_EQ(without.cache[act::expert_post(1, 0)].abs().sum().item<double>(), 0.0);
  EXPECT_THROW(random_model(mixture_config()).run_with_cache(tokens, act::expert_in), HookError);
}

ModelConfig normed_mixture_config() {
  ModelConfig config = mixture_config();
  config.norm = config.final_norm = NormKind::rms_norm;
  config.norm_place = NormPlace::both;
  config.mlp_bias = false;
  config.experts->d_shared = 6;
  config.experts->renormalised = config.experts->own_norms = config.experts->expert_scale = true;
  return config;
}

// Router and experts read the stream through their norms, and only the shared expert reads ln2's output.
TEST(Mixture, NormsOfItsOwnStandBesideThatOfTheBlock) {
  const HookedTransformer model = random_model(normed_mixture_config());
  const at::Tensor tokens = random_tokens(model.config(), {2, 6});
  const auto cache = model.run_with_cache(tokens, act::everything).cache;
  const StateDict weights = model.state_dict();
  const auto normed = [&](const at::Tensor& x, const char* weight) {
    const at::Tensor scale = (x.square().mean(-1, true) + model.config().eps).sqrt();
    return x / scale * weights.at(std::string("blocks.1.") + weight);
  };
  const at::Tensor stream = cache[act::resid_mid(1)];
  const at::Tensor logits =
      normed(stream, "mlp.router_ln.w").matmul(weights.at("blocks.1.mlp.W_gate.weight").t());
  const at::Tensor of_all = logits.softmax(-1), indices = cache[act::expert_indices(1)];
  EXPECT_LT(relative_difference(cache[act::expert_weights(1)], of_all), 1e-12);
  at::Tensor ranked = of_all.gather(-1, indices);
  ranked = ranked / ranked.sum(-1, true);
  ranked = ranked * weights.at("blocks.1.mlp.expert_scale").index({indices});
  const at::Tensor read = normed(stream, "mlp.experts_ln.w");
  at::Tensor sum = at::zeros_like(stream);
  for (std::int64_t e = 0; e < 5; ++e) {
    const std::string name = "blocks.1.mlp.experts." + std::to_string(e) + ".W_";
    const auto times = [&](const char* which, const at::Tensor& y) {
      return y.matmul(weights.at(name + which + ".weight").t());
    };
    const at::Tensor weight = (ranked * (indices == e)).sum(-1, true);
    sum = sum + weight * times("out", at::gelu(times("gate", read)) * times("in", read));
  }
  const at::Tensor by_all = normed(stream, "ln2.w");
  const auto shared = [&](const char* which) {
    return weights.at(std::string("blocks.1.mlp.shared_expert.W_") + which);
  };
  const at::Tensor beside =
      (at::gelu(by_all.matmul(shared("gate"))) * by_all.matmul(shared("in"))).matmul(shared("out"));
  const at::Tensor out = normed(
      normed(sum, "mlp.experts_ln_post.w") + normed(beside, "mlp.shared_expert.ln_post.w"), "ln2_post.w");
  EXPECT_LT(relative_difference(cache[act::mlp_out(1)], out), 1e-12);

  // Each of the three norms can be edited without the others.
  const auto out_with = [&](const Edit& edit) {
    return model.run(tokens, {.edits = {edit}, .capture = act::everything}).cache;
  };
  const auto of_shared = out_with(scale(act::ln2_normalized(1), 0.5));
  EXPECT_TRUE(at::equal(of_shared[act::expert_weights(1)], cache[act::expert_weights(1)]));
  EXPECT_TRUE(
      at::equal(of_shared[act::experts_ln_post_normalized(1)], cache[act::experts_ln_post_normalized(1)]));
  EXPECT_FALSE(at::equal(of_shared[act::shared_post(1)], cache[act::shared_post(1)]));
  const auto of_router = out_with(scale(act::router_ln_normalized(1), 0.5));
  EXPECT_TRUE(at::equal(of_router[act::shared_post(1)], cache[act::shared_post(1)]));
  EXPECT_FALSE(at::equal(of_router[act::expert_weights(1)], cache[act::expert_weights(1)]));
  // What the MLP reads is what all three read.
  const auto of_all_three = out_with(zero(act::mlp_in(1)));
  for (const auto& site :
       {act::ln2_normalized(1), act::router_ln_normalized(1), act::experts_ln_normalized(1)})
    EXPECT_EQ(of_all_three[site].abs().max().item<double>(), 0.0);
}

TEST(Mixture, IndicesAreIds) {
  const HookedTransformer model = random_model(mixture_config());
  const at::Tensor tokens = random_tokens(model.config(), {1, 5});
  const auto refused = [&](const Edit& edit) {
    EXPECT_TRUE(
        throws<HookError>([&] { model.run(tokens, {.edits = {edit}}); }, "blocks.0.mlp.hook_expert_indices"));
  };
  refused(set(act::expert_indices(0), 5));
  refused(set(act::expert_indices(0), -1));
  refused(set(act::expert_indices(0), 1.5));
  refused(scale(act::expert_indices(0), 2.0));
  const LogitMetric metric = [](const at::Tensor& logits) { return logits.sum(); };
  const auto run = model.run(tokens, {.gradients = GradientRequest{act::everything, metric}});
  EXPECT_FALSE(run.gradients.contains(act::expert_indices(0).name()));
  EXPECT_TRUE(run.gradients.contains(act::expert_weights(0).name()));
}

TEST(Mixture, PaddingGoesToNoExpert) {
  const HookedTransformer model = random_model(mixture_config());
  const at::Tensor tokens = random_tokens(model.config(), {2, 6});
  at::Tensor mask = at::ones({2, 6}, at::kLong);
  mask[1].narrow(0, 0, 2).zero_();
  const auto cache = model.run({tokens, {.attention_mask = mask}}, {.capture = act::expert_post}).cache;
  std::int64_t routed = 0;
  for (int e = 0; e < 5; ++e) routed += cache[act::expert_post(2, e)].size(0);
  EXPECT_EQ(routed, 2 * (6 + 4));
}

TEST(Mixture, NamesOfExperts) {
  const HookedTransformer model = random_model(mixture_config());
  const at::Tensor tokens = random_tokens(model.config(), {1, 3});
  EXPECT_EQ(act::expert_pre(-1, 2).to_string(), "blocks.-1.mlp.experts.2.hook_pre");
  EXPECT_THROW(model.run_with_cache(tokens, act::expert_pre(0, 5)), HookError);
  EXPECT_THROW(model.run_with_cache(tokens, act::pre), HookError);
  EXPECT_EQ(model.run_with_cache(tokens, act::expert_pre).cache.size(), 15u);
  EXPECT_THROW(from_shorthand("expert_gate", 1), HookError);
  EXPECT_EQ(from_shorthand("expert_weights", 1), act::expert_weights(1).name());
}

TEST(AttentionSinks, ValueBiasesStayWhereTheyAre) {
  ModelConfig config = small_config();
  config.attention_sinks = true;
  for (const StepReport& row : plan_processing(config)) {
    if (row.step != ProcessingStep::fold_value_biases) continue;
    EXPECT_NE(row.outcome.find("sinks"), std::string::npos) << row.outcome;
  }
  EXPECT_THROW(plan_processing(config, WeightProcessing::only({ProcessingStep::fold_value_biases})),
               ConfigError);
}

TEST(WeightView, GivesTheMatricesOfExperts) {
  ModelConfig config = mixture_config();
  config.experts->dense_layers = {false, true, false};
  config.experts->d_expert = 9;
  const HookedTransformer model = random_model(config);
  const WeightView view = model.weights();
  EXPECT_EQ(view.W_router(0).sizes(), (at::IntArrayRef{8, 5}));
  EXPECT_EQ(view.W_in(2, 4).sizes(), (at::IntArrayRef{8, 9}));
  EXPECT_EQ(view.W_gate(-1, -1).sizes(), (at::IntArrayRef{8, 9}));
  EXPECT_EQ(view.W_out(0, 0).sizes(), (at::IntArrayRef{9, 8}));
  EXPECT_EQ(view.W_in(1).sizes(), (at::IntArrayRef{8, 12}));
  EXPECT_THROW(view.W_in(0), ConfigError);
  EXPECT_THROW(view.b_in(0), ConfigError);
  EXPECT_THROW(view.W_in(1, 0), ConfigError);
  EXPECT_THROW(view.W_in(0, 5), ConfigError);
  EXPECT_THROW(view.W_router(1), ConfigError);
}

}  // namespace
}  // namespace hooked::mixtures_test
