#include "hooked/engine/weight_view.h"

#include "tests/support/tiny_model.h"

namespace hooked::weight_view_test {
namespace {

TEST(WeightView, EqualsTheStateDictAtEveryName) {
  for_random_configs(80, [&](const ModelConfig& c) {
    const HookedTransformer model = random_model(c);
    const StateDict dict = model.state_dict();
    const WeightView view = model.weights();
    const auto expect = [&](const at::Tensor& got, const std::string& name, at::IntArrayRef sizes) {
      ASSERT_EQ(got.sizes(), sizes) << name;
      const auto found = dict.find(name);
      EXPECT_TRUE(found == dict.end() ? got.abs().sum().item<double>() == 0.0 : got.equal(found->second))
          << name;
    };
    expect(view.W_E(), "embed.W_E", {c.d_vocab, c.d_model});
    EXPECT_TRUE(view.W_U().equal(c.tied_unembedding() ? dict.at("embed.W_E").t() : dict.at("unembed.W_U")));
    expect(view.b_U(), "unembed.b_U", {c.d_vocab_out()});
    if (c.has_pos_embed()) {
      expect(view.W_pos(), "pos_embed.W_pos", {c.n_ctx, c.d_model});
    } else {
      EXPECT_THROW(view.W_pos(), ConfigError);
    }
    const std::string grouped = c.grouped_query() ? "_" : "";
    const auto expect_attention = [&](int layer, const std::string& attn) {
      if (!c.query_latent()) {
        expect(view.W_Q(layer), attn + "W_Q", {c.n_heads, c.d_model, c.head_width(layer)});
        expect(view.b_Q(layer), attn + "b_Q", {c.n_heads, c.head_width(layer)});
      } else {
        expect(view.W_DQ(layer), attn + "W_DQ", {c.d_model, c.latent->d_query});
        expect(view.W_UQ(layer), attn + "W_UQ", {c.n_heads, c.latent->d_query, c.head_width(layer)});
      }
      if (c.latent_attention()) {
        expect(view.W_DKV(layer), attn + "W_DKV", {c.d_model, c.latent->d_kv});
        expect(view.W_UK(layer), attn + "W_UK", {c.n_heads, c.latent->d_kv, c.own_key_dim()});
        expect(view.W_UV(layer), attn + "W_UV", {c.n_heads, c.latent->d_kv, c.latent->d_value});
        EXPECT_THROW(view.W_K(layer), ConfigError);
        EXPECT_THROW(view.b_V(layer), ConfigError);
      } else if (!c.makes_keys(layer)) {
        EXPECT_THROW(view.W_K(layer), ConfigError);
        EXPECT_THROW(view.b_V(layer), ConfigError);
      } else {
        expect(view.W_K(layer), attn + grouped + "W_K", {c.kv_heads(layer), c.d_model, c.head_width(layer)});
        expect(view.W_V(layer), attn + grouped + "W_V", {c.kv_heads(layer), c.d_model, c.head_width(layer)});
        expect(view.b_K(layer), attn + grouped + "b_K", {c.kv_heads(layer), c.head_width(layer)});
        expect(view.b_V(layer), attn + grouped + "b_V", {c.kv_heads(layer), c.head_width(layer)});
      }
      expect(view.W_O(layer), attn + "W_O", {c.n_heads, c.value_dim(layer), c.d_model});
      expect(view.b_O(layer), attn + "b_O", {c.d_model});
    };
    for (const int layer : {0, 1}) {
      const std::string attn = "blocks." + std::to_string(layer) + ".attn.",
                        mlp = "blocks." + std::to_string(layer) + ".mlp.";
      if (c.attends(layer)) {
        expect_attention(layer, attn);
      } else {
        EXPECT_THROW(view.W_Q(layer), ConfigError);
        EXPECT_THROW(view.b_V(layer), ConfigError);
        EXPECT_THROW(view.W_O(layer), ConfigError);
      }
      if (c.dense_mlp(layer)) {
        expect(view.W_in(layer), mlp + "W_in", {c.d_model, c.mlp_width(layer)});
        expect(view.W_out(layer), mlp + "W_out", {c.mlp_width(layer), c.d_model});
        expect(view.b_in(layer), mlp + "b_in", {c.mlp_width(layer)});
        expect(view.b_out(layer), mlp + "b_out", {c.d_model});
      } else {
        EXPECT_THROW(view.W_in(layer), ConfigError);
      }
      if (c.dense_mlp(layer) && c.mlp == MlpKind::gated) {
        expect(view.W_gate(layer), mlp + "W_gate", {c.d_model, c.mlp_width(layer)});
      } else {
        EXPECT_THROW(view.W_gate(layer), ConfigError);
      }
      if (!c.mixture(layer)) continue;
      for (int e = 0; e < c.n_experts(); ++e) {
        const std::string expert = mlp + "experts." + std::to_string(e) + ".";
        EXPECT_TRUE(view.W_in(layer, e).equal(dict.at(expert + "W_in.weight").t()));
        EXPECT_TRUE(view.W_gate(layer, e).equal(dict.at(expert + "W_gate.weight").t()));
        EXPECT_TRUE(view.W_out(layer, e).equal(dict.at(expert + "W_out.weight").t()));
      }
    }
  });
}

TEST(WeightView, HeadsShareTheirKeyValueHead) {
  ModelConfig config = small_config();
  config.n_kv_heads = 2;
  const HookedTransformer model = random_model(config);
  const WeightView view = model.weights();
  for (int head = 0; head < 4; ++head) {
    EXPECT_TRUE(at::equal(view.W_K(1, head), view.W_K(1).select(0, head / 2))) << head;
    EXPECT_TRUE(at::equal(view.W_V(1, head), view.W_V(1).select(0, head / 2))) << head;
    EXPECT_TRUE(at::equal(view.W_Q(1, head), view.W_Q(1).select(0, head))) << head;
    EXPECT_TRUE(at::equal(view.W_O(1, head), view.W_O(1).select(0, head))) << head;
  }
  EXPECT_TRUE(at::equal(view.W_K(-1, -1), view.W_K(2, 3)));
}

TEST(WeightView, ProductsOfViewsAreTheModels) {
  const HookedTransformer model = random_model();
  const auto run = model.run_with_cache(random_tokens(model.config(), {2, 6}), act::everything);
  const WeightView w = model.weights();
  const at::Tensor logits = run.cache[act::unembed_in].matmul(w.W_U()) + w.b_U();
  EXPECT_LT(relative_difference(run.logits(), logits), kDoubleTolerance);
  const at::Tensor result = run.cache[act::z(1).head(2)].matmul(w.W_O(1, 2));
  EXPECT_LT(relative_difference(run.cache[act::result(1).head(2)], result), kDoubleTolerance);
}

TEST(WeightView, SharesThePackedMemoryAndKeepsItAlive) {
  at::Tensor W_Q, copy;
  {
    const HookedTransformer model = random_model();
    W_Q = model.weights().W_Q(1);
    copy = W_Q.clone();
    EXPECT_TRUE(W_Q.is_alias_of(model.weights().W_K(1))) << "one packed parameter holds queries and keys";
    EXPECT_TRUE(W_Q.is_alias_of(model.weights().W_Q(1, 2)));
    EXPECT_FALSE(W_Q.requires_grad());
  }
  EXPECT_TRUE(at::equal(W_Q, copy));
}

TEST(WeightView, WithoutALayerAllLayersAreStacked) {
  const HookedTransformer model = random_model();
  const WeightView view = model.weights();
  EXPECT_EQ(view.W_Q().sizes(), (at::IntArrayRef{3, 4, 8, 6}));
  EXPECT_EQ(view.b_in().sizes(), (at::IntArrayRef{3, 12}));
  for (const int layer : {0, 1, 2}) {
    EXPECT_TRUE(at::equal(view.W_O()[layer], view.W_O(layer)));
    EXPECT_TRUE(at::equal(view.b_V()[layer], view.b_V(layer)));
    EXPECT_TRUE(at::equal(view.W_out()[layer], view.W_out(layer)));
  }
}

TEST(WeightView, HeadsOfSeveralSizesMakeNoOneTensor) {
  ModelConfig config = small_config();
  config.window = Window{.size = 2, .layers = {true, false, true}};
  config.full_heads = FullHeads{.d_head = config.d_head + 2, .n_kv_heads = 2};
  const HookedTransformer model = random_model(config);
  const WeightView view = model.weights();
  EXPECT_EQ(view.W_Q(0).size(2) + 2, view.W_Q(1).size(2));
  EXPECT_EQ(view.W_K(1).size(0), 2);
  EXPECT_TRUE(at::equal(view.W_K(1, 3), view.W_K(1)[1])) << "of a layer whose heads share keys";
  EXPECT_TRUE(at::equal(view.W_K(0, 3), view.W_K(0)[3])) << "of one whose heads do not";
  EXPECT_NE(text_thrown_by<ConfigError>([&] { view.W_Q(); }).find("full_heads"), std::string::npos);
  EXPECT_EQ(view.b_O().size(0), 3) << "of one size in all layers";
}

TEST(WeightView, NormsAreThereUntilTheyAreFolded) {
  const HookedTransformer raw = random_model();
  const StateDict dict = raw.state_dict();
  const WeightView view = raw.weights();
  EXPECT_TRUE(at::equal(view.ln1(2).w, dict.at("blocks.2.ln1.w")));
  EXPECT_TRUE(at::equal(view.ln2(-3).b, dict.at("blocks.0.ln2.b")));
  EXPECT_TRUE(at::equal(view.ln_final().w, dict.at("ln_final.w")));
  EXPECT_TRUE(at::equal(view["blocks.1.mlp.W_in"], view.W_in(1)));
  const HookedTransformer folded = HookedTransformer::from_state_dict(dict, raw.config());
  for (const auto& norm : {&WeightView::ln1, &WeightView::ln2}) {
    EXPECT_THROW((folded.weights().*norm)(0), ConfigError);
  }
  EXPECT_THROW(folded.weights().ln_final(), ConfigError);
  EXPECT_THROW(raw.weights().ln3(0), ConfigError);
}

TEST(WeightView, IndicesOutOfRangeNameTheRange) {
  const HookedTransformer model = random_model();
  const WeightView view = model.weights();
  EXPECT_TRUE(at::equal(view.W_Q(-1), view.W_Q(2)));
  for (const int layer : {3, -4}) {
    try {
      view.W_Q(layer);
      ADD_FAILURE() << layer;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("-3 to 2"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(view.W_K(0, 4), ConfigError);
  EXPECT_THROW(view.W_O(0, -5), ConfigError);
}

}  // namespace
}  // namespace hooked::weight_view_test
