#include "hooked/analysis/features.h"

#include "hooked/dictionaries/dictionary.h"
#include "tests/support/tiny_model.h"

namespace hooked::features_test {
namespace {

at::Tensor numbers(at::IntArrayRef sizes, std::uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kDouble).mul(0.5);
}

Dictionary dictionary_at(const std::string& place, std::int64_t width, std::int64_t features = 20) {
  DictionaryConfig c;
  c.d_in = c.d_out = width;
  c.features = features;
  c.dtype = at::kDouble;
  c.input = c.output = place;
  return {c,
          {.W_enc = numbers({width, features}, 1),
           .b_enc = numbers({features}, 2),
           .W_dec = numbers({features, width}, 3),
           .b_dec = numbers({width}, 4),
           .threshold = {},
           .W_skip = {},
           .b_gate = {},
           .b_mag = {},
           .r_mag = {}}};
}

const char* const kPlace = "blocks.1.hook_resid_post";
const Address kFeatures = act::sae_acts_post(act::resid_post(1));

HookedTransformer double_model() {
  ModelConfig config = two_layer_config();
  config.dtype = at::kDouble;
  return random_model(config);
}

Input padded_rows(const ModelConfig& config) {
  const auto tokens = random_tokens(config, {3, 7});
  auto mask = at::ones({3, 7}, at::kLong);
  mask[1].slice(0, 4).zero_();
  return {tokens, {.attention_mask = mask}};
}

TEST(Features, ThatFireAreListedByTheirLargestActivation) {
  const auto model = double_model();
  const auto spliced = model.with_dictionary(dictionary_at(kPlace, 16), {.with_error = true});
  const Input input = padded_rows(model.config());
  const auto run = spliced.run_with_cache(input, act::sae_acts_post);
  at::Tensor codes = run.cache[kFeatures].clone();
  codes[1].slice(0, 4).zero_();
  const auto all = firing_features(run.cache, kFeatures, {.count = 0});
  EXPECT_EQ(std::ssize(all), codes.flatten(0, 1).ne(0).any(0).sum().item<std::int64_t>());
  double before = std::numeric_limits<double>::infinity();
  for (const FiringFeature& each : all) {
    const at::Tensor own = codes.select(2, each.feature);
    EXPECT_DOUBLE_EQ(each.largest, own.max().item<double>());
    EXPECT_DOUBLE_EQ(own[each.row][each.column].item<double>(), each.largest);
    EXPECT_EQ(each.tokens, own.ne(0).sum().item<std::int64_t>());
    EXPECT_NEAR(each.mean, own.sum().item<double>() / static_cast<double>(each.tokens), 1e-12);
    EXPECT_LE(each.largest, before);
    before = each.largest;
  }
  EXPECT_EQ(firing_features(run.cache, kFeatures, {.count = 2}).size(), 2U);
  const auto last = firing_features(run.cache, kFeatures, {.positions = {Position::last()}, .count = 0});
  for (const FiringFeature& each : last) EXPECT_EQ(each.column, each.row == 1 ? 3 : 6);
  EXPECT_THROW(firing_features(run.cache, act::resid_post(1)), HookError);
}

// A step along a feature's direction at the end of the stream, with the final norm's scale held, moves the
// logits by the feature's logits over that scale.
TEST(Features, LogitsAreThoseOfAStepWithTheScaleHeld) {
  for (const bool processed : {false, true}) {
    ModelConfig config = two_layer_config();
    config.dtype = at::kDouble;
    const auto model = processed ? random_model(config, WeightProcessing()) : random_model(config);
    for (const char* place : {kPlace, "blocks.1.attn.hook_z", "blocks.1.hook_mlp_out"}) {
      const bool heads = std::string(place).ends_with("hook_z");
      Dictionary dictionary = dictionary_at(place, heads ? 24 : 16);
      DictionaryConfig fitted = dictionary.config();
      fitted.basis.centred_writes = fitted.basis.folded_value_biases = processed;
      dictionary = Dictionary(fitted, dictionary.weights());
      const auto spliced = model.with_dictionary(dictionary, {.with_error = true});
      const Address features = act::sae_acts_post(Address(place));
      const auto tokens = random_tokens(config, {1, 5});
      const auto plain = spliced.run_with_cache(tokens, "ln_final.hook_scale,mlp_out");
      std::vector<Edit> held = {replace(act::ln_final_scale, plain.cache)};
      if (heads) held.push_back(replace(act::mlp_out(1), plain.cache));
      std::vector<Edit> moved = held;
      moved.push_back(add(features.feature(3), 1.0));
      const auto change =
          spliced.run(tokens, {.edits = moved}).logits() - spliced.run(tokens, {.edits = held}).logits();
      const auto scale = plain.cache[act::ln_final_scale];
      const auto expected = feature_logits(spliced, features, {3})[0];
      EXPECT_LT(largest((change * scale)[0] - expected), 1e-10) << place;
    }
  }
  const auto model = double_model().with_dictionary(dictionary_at("blocks.1.mlp.hook_post", 20));
  EXPECT_THROW(feature_logits(model, act::sae_acts_post(act::post(1)), {0}), HookError);
  EXPECT_THROW(feature_logits(double_model(), kFeatures, {0}), HookError) << "no dictionary stands there";
}

TEST(Features, QualityIsThatOfTheTokensOneByOne) {
  const auto model = double_model();
  const Dictionary dictionary = dictionary_at(kPlace, 16, 300);
  const auto spliced = model.with_dictionary(dictionary);
  const Input input = padded_rows(model.config());
  const DictionaryQuality quality = dictionary_quality(spliced, kFeatures, input);
  double l0 = 0, losses[3] = {};
  std::int64_t tokens = 0, predictions = 0;
  std::vector<at::Tensor> activations, errors;
  for (std::int64_t row = 0; row < 3; ++row) {
    const at::Tensor ids = input.tokens[row].slice(0, 0, row == 1 ? 4 : 7).unsqueeze(0);
    const auto plain = model.run(ids, {.capture = kPlace});
    const at::Tensor x = plain.cache[kPlace][0];
    const at::Tensor codes = dictionary.encode(x);
    l0 += codes.ne(0).sum().item<double>();
    tokens += x.size(0);
    activations.push_back(x);
    errors.push_back(x - dictionary.decode(codes, x));
    const at::Tensor runs[] = {plain.logits(), spliced(ids),
                               model.run(ids, {.edits = zero(act::resid_post(1))}).logits()};
    for (int i = 0; i < 3; ++i) {
      for (std::int64_t p = 0; p + 1 < ids.size(1); ++p)
        losses[i] -= runs[i][0][p].log_softmax(0)[ids[0][p + 1].item<std::int64_t>()].item<double>();
    }
    predictions += ids.size(1) - 1;
  }
  const at::Tensor x = at::cat(activations), e = at::cat(errors);
  EXPECT_EQ(quality.tokens, tokens);
  EXPECT_NEAR(quality.l0, l0 / static_cast<double>(tokens), 1e-12);
  EXPECT_NEAR(quality.explained_variance,
              1 - e.square().sum().item<double>() / (x - x.mean(0)).square().sum().item<double>(), 1e-10);
  EXPECT_NEAR(quality.loss, losses[0] / static_cast<double>(predictions), 1e-12);
  EXPECT_NEAR(quality.spliced_loss, losses[1] / static_cast<double>(predictions), 1e-12);
  EXPECT_NEAR(quality.zero_loss, losses[2] / static_cast<double>(predictions), 1e-12);
  EXPECT_NEAR(quality.recovered, (losses[2] - losses[1]) / (losses[2] - losses[0]), 1e-10);
  EXPECT_EQ(quality.dead, quality.fired.eq(0).sum().item<std::int64_t>());
  EXPECT_TRUE(quality.complete);
  int calls = 0;
  const auto ended =
      dictionary_quality(spliced, kFeatures, input, [&](const SweepProgress&) { return ++calls < 1; });
  EXPECT_TRUE(ended.tokens <= tokens);
}

}  // namespace
}  // namespace hooked::features_test
