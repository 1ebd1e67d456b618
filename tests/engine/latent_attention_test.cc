// Latent attention in a run: what its points hold, what an edit affects, how processing changes it.
#include <ATen/ops/rsqrt.h>

#include "hooked/engine/prefix.h"
#include "tests/engine/continued_runs.h"

namespace hooked::latent_attention_test {
namespace {

constexpr double kTolerance = 1e-12;

ModelConfig latent_config(std::int64_t d_query, std::int64_t d_value) {
  ModelConfig config = small_config();
  config.norm = config.final_norm = NormKind::rms_norm;
  config.positions = RotaryPositions{.dim = 2, .adjacent_pairs = true, .at_end = true};
  config.latent = Latents{.d_kv = 5, .d_query = d_query, .d_shared_key = 2, .d_value = d_value, .eps = 1e-3};
  return config;
}

const ModelConfig kConfigs[] = {latent_config(7, 3), latent_config(0, 9), latent_config(3, 6)};

TEST(LatentAttention, HeadsAreMadeFromTheLatents) {
  for (const ModelConfig& c : kConfigs) {
    const HookedTransformer model = random_model(c);
    const auto cache = model.run_with_cache(random_tokens(c, {2, 7}), act::everything).cache;
    const WeightView view = model.weights();
    const auto by_head = [](const at::Tensor& x, const at::Tensor& W) {  // [batch, pos, head, out]
      return x.unsqueeze(2).unsqueeze(3).matmul(W).squeeze(3);
    };
    const at::Tensor latent = cache[act::kv_latent(1)];
    ASSERT_EQ(latent.sizes(), (at::IntArrayRef{2, 7, 5}));
    const at::Tensor own = by_head(latent, view.W_UK(1)), k = cache[act::k(1)];
    ASSERT_EQ(k.sizes(), (at::IntArrayRef{2, 7, 4, 6}));
    EXPECT_LT(relative_difference(k.narrow(-1, 0, 4), own), kTolerance);
    for (int head = 0; head < 4; ++head) {
      EXPECT_TRUE(at::equal(k.select(2, head).narrow(-1, 4, 2), cache[act::k_shared(1)]));
    }
    EXPECT_EQ(cache[act::v(1)].sizes(), (at::IntArrayRef{2, 7, 4, c.latent->d_value}));
    EXPECT_LT(relative_difference(cache[act::v(1)], by_head(latent, view.W_UV(1))), kTolerance);
    EXPECT_EQ(cache[act::z(1)].sizes(), (at::IntArrayRef{2, 7, 4, c.latent->d_value}));
    // Rotary leaves the dimensions that it does not rotate unchanged.
    EXPECT_TRUE(at::equal(cache[act::rot_k(1)].narrow(-1, 0, 4), k.narrow(-1, 0, 4)));
    EXPECT_GT((cache[act::rot_k(1)] - k).abs().max().item<double>(), 1e-3);
    EXPECT_EQ(c.query_latent(), row(Site::q_latent).exists(c, 1));
    if (c.latent->d_query == 0) continue;
    EXPECT_LT(relative_difference(cache[act::q(1)], by_head(cache[act::q_latent(1)], view.W_UQ(1))),
              kTolerance);
    const at::Tensor before = cache[act::q_latent_norm_normalized(1)] * cache[act::q_latent_norm_scale(1)];
    const at::Tensor mean_square = before.square().mean(-1, /*keepdim=*/true);
    EXPECT_LT(relative_difference(cache[act::q_latent_norm_scale(1)], (mean_square + 1e-3).sqrt()),
              kTolerance);
  }
}

TEST(LatentAttention, FusedAndExplicitPathsAgree) {
  for (ModelConfig c : kConfigs) {
    for (const auto dtype : {at::kDouble, at::kFloat}) {
      c.dtype = dtype;
      const HookedTransformer model = random_model(c);
      const at::Tensor tokens = random_tokens(c, {2, 9});
      at::Tensor mask = at::ones({2, 9}, at::kLong);
      mask[1].narrow(0, 0, 3).zero_();
      for (const at::Tensor& padding : {at::Tensor(), mask}) {
        const auto logits = [&](const Selection& capture) {  // of columns that are padding in no row
          return model.run({tokens, {.attention_mask = padding}}, {.capture = capture})
              .logits()
              .narrow(1, 3, 6);
        };
        EXPECT_LT(relative_difference(logits({}), logits(act::pattern)),
                  dtype == at::kDouble ? kTolerance : 1e-5);
      }
    }
  }
}

TEST(LatentAttention, AnEditReachesWhatIsMadeOfIt) {
  const ModelConfig c = latent_config(7, 3);
  const HookedTransformer model = random_model(c);
  const at::Tensor tokens = random_tokens(c, {1, 6});
  const auto before = model.run_with_cache(tokens).cache;
  const auto changed = [&](const Address& where) {
    const auto after = model.run(tokens, {.edits = {zero(where)}, .capture = act::defaults}).cache;
    std::string words;
    for (const act::BlockSite site : {act::q, act::k, act::v}) {
      if (!at::equal(before[site(1)], after[site(1)])) words += std::string(row(site.site).word) + " ";
    }
    return words;
  };
  EXPECT_EQ(changed(act::q_latent(1)), "q ");
  EXPECT_EQ(changed(act::q_latent_norm_normalized(1)), "q ");
  EXPECT_EQ(changed(act::kv_latent(1)), "k v ");
  EXPECT_EQ(changed(act::kv_latent_norm_normalized(1).at(Axis::kv_latent, 2)), "k v ");
  EXPECT_EQ(changed(act::k_shared(1)), "k ");
  const auto none = model.run(tokens, {.edits = {zero(act::kv_latent(1))}, .capture = act::defaults}).cache;
  EXPECT_EQ(none[act::z(1)].abs().max().item<double>(), 0.0);
  EXPECT_TRUE(at::equal(none[act::k(1)].narrow(-1, 4, 2), before[act::k(1)].narrow(-1, 4, 2)));
}

TEST(LatentAttention, HasNoSplitInputs) {
  const ModelConfig c = latent_config(7, 3);
  for (const Site site : {Site::attn_in, Site::q_input, Site::k_input, Site::v_input}) {
    EXPECT_FALSE(row(site).exists(c, 0));
  }
  EXPECT_THAT(text_thrown_by<HookError>([&] {
                random_model(c).run(random_tokens(c, {1, 3}), {.capture = act::q_input(0)});
              }),
              HasSubstr("without latents"));
}

TEST(LatentAttention, GenerationAndPrefixesGoOnAsOneRun) {
  for (const ModelConfig& c : kConfigs) {
    const HookedTransformer model = random_model(c);
    const at::Tensor tokens = random_tokens(c, {2, 9});
    const auto whole = model.run_with_cache(tokens, act::everything);
    const auto generated = model.generate(tokens.narrow(1, 0, 4), greedy(6));
    at::Tensor row = tokens.narrow(1, 0, 4);
    for (int step = 0; step < 6; ++step) {
      row =
          at::cat({row, model.run(row).logits().select(1, row.size(1) - 1).argmax(-1, /*keepdim=*/true)}, 1);
    }
    EXPECT_TRUE(generated.tokens.equal(row));
    const Prefix prefix = prefix_of(model, tokens.narrow(1, 0, 5));
    EXPECT_LT(relative_difference(model.run({tokens.narrow(1, 5, 4), {.prefix = prefix}}).logits(),
                                  whole.logits().narrow(1, 5, 4)),
              1e-10);
  }
}

TEST(LatentAttention, ProcessingKeepsLogProbabilities) {
  for (ModelConfig c : kConfigs) {
    for (const NormKind norm : {NormKind::rms_norm, NormKind::layer_norm}) {
      c.norm = c.final_norm = norm;
      c.qkv_bias = norm == NormKind::rms_norm;  // a LayerNorm's bias creates new biases
      const at::Tensor tokens = random_tokens(c, {2, 8});
      const at::Tensor raw = at::log_softmax(random_model(c).run(tokens).logits(), -1);
      const HookedTransformer model =
          HookedTransformer::from_state_dict(random_weights(c), c, {.dtype = at::kDouble});
      EXPECT_TRUE(model.config().norm_folded);
      EXPECT_LT((at::log_softmax(model.run(tokens).logits(), -1) - raw).abs().max().item<double>(), 1e-12);
      const StateDict dict = model.state_dict();
      EXPECT_TRUE(at::equal(dict.at("blocks.0.attn.kv_latent_norm.w"),
                            random_weights(c).at("blocks.0.attn.kv_latent_norm.w")))
          << "the latents' norms stay";
      const HookedTransformer again =
          HookedTransformer::from_state_dict(dict, model.config(), {.dtype = at::kDouble});
      EXPECT_TRUE(at::equal(again.run(tokens).logits(), model.run(tokens).logits()));
    }
  }
}

TEST(LatentAttention, StepsThatDoNotApplySayWhy) {
  const ModelConfig c = latent_config(7, 3);
  EXPECT_THAT(text_thrown_by<ConfigError>([&] {
                plan_processing(c, WeightProcessing::only({ProcessingStep::refactor_factored_attn_matrices}));
              }),
              HasSubstr("latent"));
  for (const StepReport& step : plan_processing(c)) {
    if (step.step != ProcessingStep::fold_value_biases) continue;
    EXPECT_NE(step.outcome.find("latent"), std::string::npos) << step.outcome;
  }
}

TEST(LatentAttention, ViewsOfProductsAreRefused) {
  const HookedTransformer both = random_model(latent_config(7, 3)), plain = random_model(latent_config(0, 9));
  using OfLayer = at::Tensor (WeightView::*)(std::int64_t) const;
  for (const auto& [view, word] : {std::pair<OfLayer, const char*>{&WeightView::b_Q, "W_UQ"},
                                   {&WeightView::b_K, "W_KR"},
                                   {&WeightView::b_V, "W_UV"}}) {
    EXPECT_THAT(text_thrown_by<ConfigError>([&, view = view] { (both.weights().*view)(0); }), HasSubstr(word))
        << word;
  }
  EXPECT_THROW(both.weights().W_Q(0), ConfigError);
  EXPECT_THROW(both.weights().W_V(0, 1), ConfigError);
  EXPECT_EQ(plain.weights().W_Q(0).sizes(), (at::IntArrayRef{4, 8, 6}));
  EXPECT_THROW(plain.weights().W_DQ(0), ConfigError);
  EXPECT_EQ(both.weights().W_DQ(-1).sizes(), (at::IntArrayRef{8, 7}));
  EXPECT_EQ(both.weights().W_KR(0).sizes(), (at::IntArrayRef{8, 2}));
  EXPECT_EQ(both.weights().W_O(0).sizes(), (at::IntArrayRef{4, 3, 8}));
}

}  // namespace
}  // namespace hooked::latent_attention_test
