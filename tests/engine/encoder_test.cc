// Encoders: token types, a masked-LM head, no unembedding, and refused losses of models that read both
// ways.
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>

#include "hooked/engine/trainable_transformer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hooked::encoder_test {
namespace {

constexpr double kTolerance = 1e-12;

ModelConfig encoder_config() {
  ModelConfig config = small_config();
  config.direction = AttentionDirection::bidirectional;
  config.norm_place = NormPlace::post;
  config.final_norm = NormKind::none;
  config.embedding_sum_norm = true;
  config.token_types = 3;
  config.unembedding->tied = true;
  config.unembedding->mlm_head = Activation::gelu;
  return config;
}

at::Tensor types() { return at::tensor({0, 0, 2, 1, 1, 1, 1, 0, 2, 2}, at::kLong).view({2, 5}); }

class EncoderTest : public testing::Test {
 protected:
  HookedTransformer model_ = random_model(encoder_config());
  HookedTransformer headless_ = random_model(without_unembedding(encoder_config()));
  at::Tensor tokens_ = random_tokens(encoder_config(), {2, 5});
};

TEST_F(EncoderTest, TheSumOfEmbeddingsIsNormed) {
  const auto cache = model_.run_with_cache({tokens_, {.token_types = types()}}, act::everything).cache;
  const StateDict weights = model_.state_dict();
  EXPECT_TRUE(at::equal(cache[act::token_embed], at::embedding(weights.at("embed.W_E"), tokens_)));
  EXPECT_TRUE(at::equal(cache[act::token_type_embed],
                        at::embedding(weights.at("embed.token_type_embed.W_token_type"), types())));
  EXPECT_TRUE(at::equal(cache[act::position_embed][1], weights.at("pos_embed.W_pos").narrow(0, 0, 5)));
  const at::Tensor sum = cache[act::token_embed] + cache[act::position_embed] + cache[act::token_type_embed];
  const at::Tensor normed = at::layer_norm(sum, {8}, weights.at("embed.ln.w"), weights.at("embed.ln.b"));
  EXPECT_LT(relative_difference(cache[act::full_embed], normed), kTolerance);
  EXPECT_TRUE(at::equal(cache[act::full_embed], cache[act::resid_pre(0)]));
}

TEST_F(EncoderTest, WithoutTypesEveryTokenHasTheFirst) {
  EXPECT_TRUE(
      at::equal(model_(tokens_), model_.run({tokens_, {.token_types = at::zeros_like(tokens_)}}).logits()));
  EXPECT_GT(relative_difference(model_.run({tokens_, {.token_types = types()}}).logits(), model_(tokens_)),
            1e-3);
}

TEST_F(EncoderTest, OneRowOfTokensTakesOneRowOfTypes) {
  const at::Tensor one = model_.run({tokens_[1], {.token_types = types()[1]}}).logits();
  EXPECT_LT(relative_difference(one[0], model_.run({tokens_, {.token_types = types()}}).logits()[1]),
            kTolerance);
}

TEST_F(EncoderTest, TheHeadStandsBetweenStreamAndUnembedding) {
  const auto run = model_.run_with_cache(tokens_, act::everything);
  const auto view = model_.weights();
  const StateDict weights = model_.state_dict();
  const at::Tensor hidden =
      at::gelu(run.cache[act::normalized_resid_post(-1)].matmul(view.W_mlm()) + view.b_mlm());
  const at::Tensor read =
      at::layer_norm(hidden, {8}, weights.at("mlm_head.ln.w"), weights.at("mlm_head.ln.b"));
  EXPECT_LT(relative_difference(run.cache[act::unembed_in], read), kTolerance);
  EXPECT_LT(relative_difference(run.logits(), read.matmul(view.W_E().t()) + view.b_U()), kTolerance);
  const at::Tensor normalized = run.cache[act::mlm_head_ln_normalized];
  EXPECT_LT(
      relative_difference(normalized * run.cache[act::mlm_head_ln_scale], hidden - hidden.mean(-1, true)),
      kTolerance);
  EXPECT_TRUE(view.W_token_type().equal(weights.at("embed.token_type_embed.W_token_type")));
}

TEST_F(EncoderTest, TheHeadIsComputedWhereLogitsAreAskedFor) {
  const auto all = model_.run_with_cache(tokens_, act::everything);
  const auto some =
      model_.run_with_cache(tokens_, act::everything, {.logit_positions = std::vector<std::int64_t>{3, 1}});
  EXPECT_LT(relative_difference(some.logits().select(1, 0), all.logits().select(1, 3)), kTolerance);
  EXPECT_EQ(some.cache[act::mlm_head_ln_scale].sizes(), (at::IntArrayRef{2, 2, 1}));
  EXPECT_LT(relative_difference(some.cache[act::mlm_head_ln_normalized].select(1, 1),
                                all.cache[act::mlm_head_ln_normalized].select(1, 1)),
            kTolerance);
}

// What an edit of a point changes, to first order, is its gradient.
TEST_F(EncoderTest, GradientsOfTheNewPointsEqualFiniteDifferences) {
  const LogitMetric metric = [](const at::Tensor& logits) { return logits.select(0, 1).square().sum(); };
  for (const auto& site : {act::token_embed, act::position_embed, act::token_type_embed, act::full_embed,
                           act::embed_ln_normalized, act::mlm_head_ln_scale, act::mlm_head_ln_normalized}) {
    const Address address = site;
    SCOPED_TRACE(address.to_string());
    const auto run = model_.run({tokens_, {.token_types = types()}},
                                {.gradients = GradientRequest{.of = address, .metric = metric}});
    const double got = run.gradients[address][1][2][0].item<double>();
    const auto moved = [&](double by) {
      const auto edits = std::vector<Edit>{
          add(Address(address).row(1).pos(2),
              at::cat({at::tensor({by}, at::kDouble), at::zeros_like(run.gradients[address][1][2].narrow(
                                                          0, 1, run.gradients[address].size(2) - 1))}))};
      return metric(model_.run({tokens_, {.token_types = types()}}, {.edits = edits}).logits())
          .item<double>();
    };
    const double expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
    EXPECT_NE(got, 0.0);
    EXPECT_NEAR(got, expected, 1e-6 * std::max(1.0, std::abs(expected)));
  }
}

TEST_F(EncoderTest, TypesAreCheckedAtTheDoor) {
  const auto refused = [&](const HookedTransformer& model, const at::Tensor& given, const std::string& words,
                           std::optional<std::int64_t> start = std::nullopt) {
    Input input(tokens_, {.token_types = given});
    if (start)
      input = Input::start_at_layer(*start, at::ones({2, 5, 8}, at::kDouble), {.token_types = given});
    EXPECT_TRUE(throws<ShapeError>([&] { model.run(input); }, "token_types", {words})) << words;
  };
  refused(model_, types().to(at::kInt), "expected int64, got int32");
  refused(model_, types().narrow(1, 0, 4), "expected [batch, pos] = [2, 5], got [2, 4]");
  refused(model_, types() + 1, "type 3 in row 0 at position 2 is not one of this model's; expected 0 to 2");
  refused(model_, types() - 1, "type -1 in row 0 at position 0");
  refused(model_, types(), "start_at_layer", 1);
  refused(random_model(), types(), "this model has no token types");
}

TEST_F(EncoderTest, PaddedRowsEqualTheRowsAlone) {
  const at::Tensor alone =
      model_.run({tokens_.narrow(0, 1, 1), {.token_types = types().narrow(0, 1, 1)}}).logits();
  const at::Tensor pad = at::ones({2, 2}, at::kLong);
  const at::Tensor real = at::ones_like(tokens_), none = at::zeros_like(pad);
  for (const bool left : {true, false}) {
    const auto joined = [&](const at::Tensor& padding, const at::Tensor& rest) {
      return left ? at::cat({padding, rest}, 1) : at::cat({rest, padding}, 1);
    };
    const at::Tensor logits =
        model_
            .run({joined(pad, tokens_),
                  {.attention_mask = joined(none, real), .token_types = joined(pad, types())}})
            .logits();
    EXPECT_LT(relative_difference(logits.narrow(0, 1, 1).narrow(1, left ? 2 : 0, 5), alone), kTolerance);
  }
}

TEST_F(EncoderTest, AModelWithoutUnembeddingGivesItsStream) {
  for (const ActivationName& name : headless_.names()) EXPECT_NE(row(name.site).scope, SiteScope::exit);
  const auto run = headless_.run_with_cache(tokens_, act::everything, {.output = Output::residual});
  EXPECT_TRUE(at::equal(run.residual(), run.cache[act::normalized_resid_post(-1)]));
  EXPECT_EQ(run.output(), Output::residual);
  const auto quiet = headless_.run_with_cache(tokens_, act::resid_mid(1), {.output = Output::none});
  EXPECT_LT(relative_difference(quiet.cache[act::resid_mid(1)], run.cache[act::resid_mid(1)]), kTolerance);
  EXPECT_LT(relative_difference(headless_.run(tokens_, {.stop_at_layer = 3}).residual(), run.residual()),
            kTolerance);
}

TEST_F(EncoderTest, AModelWithoutUnembeddingRefusesToGiveLogits) {
  const auto where_refused = [&](const RunOptions& options) {
    const auto error = thrown_by<HookError>([&] { headless_.run(tokens_, options); });
    EXPECT_TRUE(error && std::string(error->what()).find("no unembedding") != std::string::npos);
    return error ? error->where() : std::string();
  };
  EXPECT_EQ(where_refused({}), "output");
  EXPECT_EQ(where_refused({.output = Output::loss}), "output");
  EXPECT_EQ(where_refused({.output = Output::residual, .logit_positions = std::vector<std::int64_t>{0}}),
            "logit_positions");
  EXPECT_EQ(
      where_refused({.output = Output::none,
                     .gradients = GradientRequest{.of = act::z(0),
                                                  .metric = [](const at::Tensor& x) { return x.sum(); }}}),
      "gradients");
  EXPECT_THROW(headless_.weights().W_U(), ConfigError);
  EXPECT_THROW(TrainableTransformer::from(headless_).forward(tokens_), HookError);
}

TEST_F(EncoderTest, AModelThatReadsBothWaysHasNoNextTokenLoss) {
  EXPECT_THAT(text_thrown_by<HookError>([&] { model_.run(tokens_, {.output = Output::loss}); }),
              HasSubstr("both directions"));
  EXPECT_THROW(TrainableTransformer::from(model_).loss(tokens_), HookError);
}

TEST_F(EncoderTest, TrainingReachesEveryParameter) {
  const auto trainable = TrainableTransformer::from(model_);
  const at::Tensor mask = at::ones_like(tokens_);
  const at::Tensor logits = trainable.forward({tokens_, {.attention_mask = mask, .token_types = types()}});
  EXPECT_LT(relative_difference(logits.detach(), model_.run({tokens_, {.token_types = types()}}).logits()),
            kTolerance);
  logits.square().sum().backward();
  for (const auto& [name, parameter] : trainable.named_parameters()) {
    ASSERT_TRUE(parameter.grad().defined()) << name;
    EXPECT_GT(parameter.grad().abs().max().item<double>(), 0.0) << name;
  }
}

TEST_F(EncoderTest, SavingAndLoadingIsBitIdentical) {
  for (const HookedTransformer& model : {model_, headless_}) {
    const TempFolder folder;
    model.save(folder.path());
    const auto loaded =
        HookedTransformer::load(folder.path().string(), {.processing = WeightProcessing::none()});
    EXPECT_EQ(loaded.config(), model.config());
    const Input input(tokens_, {.token_types = types()});
    const RunOptions options{.output = Output::residual};
    EXPECT_TRUE(at::equal(loaded.run(input, options).residual(), model.run(input, options).residual()));
  }
}

TEST_F(EncoderTest, TheEncodersSpellingOfTransformerLensIsRead) {
  StateDict weights = random_weights(encoder_config());
  for (const char* name : {"embed.W_E", "pos_embed.W_pos"}) {
    auto node = weights.extract(name);
    node.key() = std::string("embed.") + name;
    weights.insert(std::move(node));
  }
  const auto model = model_of(std::move(weights), encoder_config());
  EXPECT_TRUE(at::equal(model(tokens_), model_(tokens_)));
}

TEST_F(EncoderTest, ProcessingFoldsWhatPostNormsAllow) {
  const auto processed =
      HookedTransformer::from_state_dict(random_weights(encoder_config()), encoder_config());
  EXPECT_EQ(processed.config().processing, (std::vector<std::string>{"center_unembed", "fold_value_biases"}));
  const auto bare =
      HookedTransformer::from_state_dict(random_weights(headless_.config()), headless_.config());
  EXPECT_EQ(bare.config().processing, (std::vector<std::string>{"fold_value_biases"}));
  EXPECT_EQ(bare.processing()[2].outcome, "the model has no unembedding");
  EXPECT_LT(relative_difference(bare.run(tokens_, {.output = Output::residual}).residual(),
                                headless_.run(tokens_, {.output = Output::residual}).residual()),
            kTolerance);
}

}  // namespace
}  // namespace hooked::encoder_test
