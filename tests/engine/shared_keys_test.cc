// KV sharing between layers, and per-layer embeddings: blocks that read tokens in addition to the stream.

#include "hooked/engine/prefix.h"
#include "tests/support/start_at_layer.h"
#include "tests/support/tiny_model.h"

namespace hooked::shared_keys_test {
namespace {

constexpr double kTolerance = 1e-12;

// Five layers: with a window, none, a window, and then one of each kind that shares.
ModelConfig shared_config() {
  ModelConfig config = small_config();
  config.n_layers = 5;
  config.norm = config.final_norm = NormKind::rms_norm;
  config.window = Window{.size = 3, .layers = {true, false, true, false, true}};
  config.shared_keys = SharedKeys{.layers = 2, .d_mlp = 15};
  return config;
}

ModelConfig with_layer_input() {
  ModelConfig config = shared_config();
  config.layer_input = LayerInput{.width = 3};
  return config;
}

TEST(SharedKeys, ALayerSharesThoseOfTheLastOfItsKind) {
  const ModelConfig config = shared_config();
  EXPECT_EQ(config.key_layer(3), 1);
  EXPECT_EQ(config.key_layer(4), 2);
  EXPECT_EQ(config.key_layer(0), 0);
  EXPECT_TRUE(config.lends_keys(1) && config.lends_keys(2));
  EXPECT_FALSE(config.lends_keys(0) || config.lends_keys(3));
  EXPECT_EQ(config.last_start(4, 5), 1) << "layer 3 runs, too";
  EXPECT_EQ(config.last_start(4, 4), 4) << "no later layer runs";
  EXPECT_EQ(config.last_start(2, 5), 1);
  EXPECT_EQ(config.last_start(5, 5), 5);
}

TEST(SharedKeys, AnEditOfTheKeysReachesAllThatShareThem) {
  const HookedTransformer model = random_model(shared_config());
  const at::Tensor tokens = random_tokens(model.config(), {2, 6});
  const auto plain = model.run_with_cache(tokens, act::everything);
  const at::Tensor other = plain.cache[act::v(1)] * 0.5 + 1.0;
  const auto edited = model.run_with_cache(tokens, act::everything, {.edits = {set(act::v(1), other)}});
  for (const int layer : {1, 3}) {
    const at::Tensor pattern = edited.cache[act::pattern(layer)];  // [batch, head, query, key]
    const at::Tensor z = pattern.matmul(other.transpose(1, 2)).transpose(1, 2);
    EXPECT_LT(relative_difference(edited.cache[act::z(layer)], z), kTolerance) << layer;
  }
  const at::Tensor windowed = edited.cache[act::pattern(4)].matmul(edited.cache[act::v(2)].transpose(1, 2));
  EXPECT_LT(relative_difference(edited.cache[act::z(4)], windowed.transpose(1, 2)), kTolerance);
}

TEST(SharedKeys, SuchALayerHasNoPointsAndNoWeightsOfItsOwn) {
  const HookedTransformer model = random_model(shared_config());
  const at::Tensor tokens = random_tokens(model.config(), {1, 4});
  for (const auto& site : {act::k, act::v, act::k_input, act::v_input}) {
    EXPECT_THROW(model.run_with_cache(tokens, site(3)), HookError);
  }
  EXPECT_THAT(text_thrown_by<ConfigError>([&] { model.weights().W_K(4); }), HasSubstr("of its own"));
  EXPECT_THROW(model.weights().W_V(), ConfigError);
  EXPECT_THROW(model.weights().W_in(), ConfigError) << "MLPs of two widths";
  EXPECT_EQ(model.weights().W_in(4).size(1), 15);
}

TEST(SharedKeys, NothingIsRememberedOfSuchALayer) {
  const HookedTransformer model = random_model(shared_config());
  const ModelConfig& config = model.config();
  const at::Tensor tokens = random_tokens(config, {1, 6});
  const Prefix prefix = *model.run(tokens, {.output = Output::none, .keep_prefix = true}).prefix;
  EXPECT_EQ(prefix.bytes(), 3 * 2 * 6 * config.n_kv_heads * config.d_head * 8);
  const at::Tensor next = random_tokens(config, {3, 4}, 5);
  const at::Tensor whole = model(at::cat({tokens.expand({3, -1}), next}, 1));
  EXPECT_LT(relative_difference(model.run({next, {.prefix = prefix}}).logits(), whole.slice(1, 6)),
            kTolerance);
}

TEST(SharedKeys, ARunBeginsWhereTheKeysThatItNeedsAreMade) {
  const HookedTransformer model = random_model(shared_config());
  const at::Tensor tokens = random_tokens(model.config(), {2, 5});
  const auto whole = model.run_with_cache(tokens, act::everything);
  for (const int layer : {0, 1}) {
    const auto run = model.run(Input::start_at_layer(layer, whole.cache[act::resid_pre(layer)]));
    EXPECT_TRUE(at::equal(run.logits(), whole.logits())) << layer;
  }
  const at::Tensor stream = whole.cache[act::resid_pre(2)];
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { model.run(Input::start_at_layer(2, stream)); }),
              AllOf(HasSubstr("start_at_layer"), HasSubstr("expected at most 1, or 5")));
  const auto piece = model.run(Input::start_at_layer(2, stream), {.stop_at_layer = 3});
  EXPECT_TRUE(at::equal(piece.residual(), whole.cache[act::resid_pre(3)]));
  EXPECT_TRUE(at::equal(model.run(Input::start_at_layer(5, whole.cache[act::resid_post(4)])).logits(),
                        whole.logits()));
}

TEST(LayerInput, ARunFromAResidualNeedsTheTokens) {
  const HookedTransformer model = random_model(with_layer_input());
  const ModelConfig& config = model.config();
  const at::Tensor tokens = random_tokens(config, {2, 5});
  const auto whole = model.run_with_cache(tokens, act::everything);
  const at::Tensor stream = whole.cache[act::resid_pre(1)];
  EXPECT_TRUE(at::equal(model.run(start_at_layer(config, 1, stream, tokens)).logits(), whole.logits()));
  const auto refused = [&](const HookedTransformer& of, const at::Tensor& given) {
    Input input = Input::start_at_layer(1, stream);
    input.start->tokens = given;
    return text_thrown_by<ShapeError>([&] { of.run(input); });
  };
  EXPECT_THAT(refused(model, {}), HasSubstr("expected those of the residual's columns"));
  EXPECT_THAT(refused(model, tokens.slice(1, 1)), HasSubstr("expected [2, 5], got [2, 4]"));
  EXPECT_THAT(refused(model, tokens + config.d_vocab), HasSubstr("start.tokens"));
  EXPECT_THAT(refused(random_model(shared_config()), tokens), HasSubstr("expected no tokens"));
}

// A block reads tokens and embedding as hooks have changed them.
TEST(LayerInput, EditsOfTheEmbeddingReachEveryBlock) {
  const HookedTransformer model = random_model(with_layer_input());
  const at::Tensor tokens = random_tokens(model.config(), {1, 4});
  const auto plain = model.run_with_cache(tokens, act::everything);
  const auto inputs_of = [&](const Edit& edit) {
    return model.run_with_cache(tokens, act::layer_input_in, {.edits = {edit}}).cache;
  };
  const auto embedded = inputs_of(set(act::embed, at::zeros_like(plain.cache[act::embed])));
  const auto replaced = inputs_of(set(act::tokens, at::zeros_like(tokens)));
  const auto streamed = inputs_of(set(act::resid_pre(0), at::zeros_like(plain.cache[act::embed])));
  for (int layer = 0; layer < 5; ++layer) {
    const Address in = act::layer_input_in(layer);
    EXPECT_FALSE(at::equal(embedded[in], plain.cache[in])) << layer;
    EXPECT_TRUE(at::equal(replaced[in][0][1], replaced[in][0][3])) << "the same token everywhere, " << layer;
    EXPECT_TRUE(at::equal(streamed[in], plain.cache[in])) << "the stream is not read, " << layer;
  }
}

// Norms of the branch are never folded, and keep their stored form.
TEST(LayerInput, ProcessingChangesNoPrediction) {
  ModelConfig config = with_layer_input();
  config.norm_offset = true;
  const at::Tensor tokens = random_tokens(config, {2, 6});
  const at::Tensor raw = random_model(config)(tokens);
  const HookedTransformer processed = random_model(config, WeightProcessing::all_that_apply());
  EXPECT_LT(relative_difference(processed(tokens).log_softmax(-1), raw.log_softmax(-1)), 1e-10);
}

}  // namespace
}  // namespace hooked::shared_keys_test
