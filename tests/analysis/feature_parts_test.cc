// Features as parts of the stream and of logits.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

#include "hooked/analysis/attribution.h"
#include "hooked/analysis/logit_lens.h"
#include "hooked/analysis/norm_geometry.h"
#include "hooked/analysis/residual.h"
#include "hooked/analysis/score_attribution.h"
#include "hooked/dictionaries/dictionary.h"
#include "hooked/dictionaries/dictionary_set.h"
#include "hooked/hooks/act.h"
#include "tests/support/random_dictionaries.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

namespace hooked::feature_parts_test {
namespace {

using testing::Contains;
using testing::ElementsAre;

constexpr double kTolerance = 1e-10;
const Selection kKept =
    act::defaults | act::sae_input | act::sae_acts_post | act::sae_error | act::sae_output;

at::Tensor numbers(at::IntArrayRef sizes, std::uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kDouble).mul(0.5);
}

ModelConfig double_config(ModelConfig config = two_layer_config()) {
  config.dtype = at::kDouble;
  return config;
}

DictionaryConfig config_at(const std::string& place, std::int64_t width) {
  DictionaryConfig c;
  c.d_in = c.d_out = width;
  c.features = 30;
  c.dtype = at::kDouble;
  c.input = c.output = place;
  return c;
}

Dictionary dictionary_of(const DictionaryConfig& c) {
  DictionaryWeights w{.W_enc = numbers({c.d_in, c.features}, 1),
                      .b_enc = numbers({c.features}, 2) - 0.5,
                      .W_dec = numbers({c.features, c.d_out}, 3),
                      .b_dec = numbers({c.d_out}, 4)};
  if (c.skips) w.W_skip = numbers({c.d_out, c.d_in}, 6);
  return {c, w};
}

/// A dictionary at a place of the two-layer model, and how its parts are called.
struct Case {
  std::string place;
  std::int64_t width;
  std::string module;  // its parts: `module feature 1.3`
  int layer;
  std::function<void(DictionaryConfig&)> change = nullptr;
  bool shows = false;  // a point of the stream

  DictionaryConfig config() const {
    DictionaryConfig c = config_at(place, width);
    if (change) change(c);
    return c;
  }
};

std::vector<Case> cases() {
  const auto transcodes = [](DictionaryConfig& c) {
    c.input = "blocks.1.mlp.hook_in";
    c.transcodes = c.skips = true;
  };
  return {{"blocks.1.hook_mlp_out", 16, "mlp", 1},
          {"blocks.0.hook_attn_out", 16, "attn", 0},
          {"blocks.1.hook_mlp_out", 16, "mlp", 1, transcodes},
          {"blocks.1.hook_mlp_out", 16, "mlp", 1,
           [](DictionaryConfig& c) { c.input_norm = InputNorm::layer_norm; }},
          {"blocks.0.hook_mlp_out", 16, "mlp", 0,
           [](DictionaryConfig& c) {
             c.input_norm = InputNorm::constant_norm;
             c.subtracts_decoder_bias = true;
           }},
          {"blocks.0.hook_mlp_out", 16, "mlp", 0,
           [](DictionaryConfig& c) {
             c.activation = CodeActivation::top_k;
             c.k = 3;
             c.decoder_norms = DecoderNorms::scaled;
           }},
          {"blocks.1.attn.hook_z", 24, "attn", 1},
          {"blocks.1.attn.hook_z", 24, "attn", 1, [](DictionaryConfig& c) { c.flattens_heads = true; }},
          {"blocks.1.attn.hook_z", 6, "attn", 1, [](DictionaryConfig& c) { c.head = 2; }},
          {"blocks.1.mlp.hook_post", 20, "mlp", 1},
          {"blocks.0.hook_resid_post", 16, "resid_post", 0, nullptr, true},
          {"blocks.1.hook_resid_post", 16, "resid_post", 1, nullptr, true},
          {"blocks.1.hook_resid_mid", 16, "resid_mid", 1, nullptr, true},
          // Fitted to a centred stream: it reads the raw one without its mean, and gives the mean back.
          {"blocks.0.hook_resid_post", 16, "resid_post", 0,
           [](DictionaryConfig& c) { c.basis.centred_writes = true; }, true},
          {"hook_embed", 16, "embed", -1}};
}

at::Tensor sum_of(const Grid& parts, const std::function<bool(const std::string&)>& chosen) {
  const auto& labels = parts.axis("part").labels;
  at::Tensor sum;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (!chosen(labels[i])) continue;
    const at::Tensor one = parts.values().select(1, static_cast<std::int64_t>(i));
    sum = sum.defined() ? sum + one : one;
  }
  return sum;
}

TEST(FeatureParts, AddUpToWhatGoesOnAndToTheLogit) {
  const auto model = random_model(double_config());
  const auto tokens = random_tokens(model.config(), {2, 6});
  for (const Case& each : cases()) {
    for (const bool with_error : {true, false}) {
      SCOPED_TRACE(fmt::format("{} {} error {}", each.place, each.module, with_error));
      const auto spliced = model.with_dictionary(dictionary_of(each.config()), {.with_error = with_error});
      const auto run = spliced.run_with_cache(tokens, kKept);
      AttributionOptions options{.answer = 1, .against = 2, .grain = Grain::feature, .positions = {}};
      const Grid parts = direct_logit_attribution(spliced, run.cache, options);
      const at::Tensor logits = spliced(tokens);
      EXPECT_LT(largest(parts.values().sum(1) - (logits.select(2, 1) - logits.select(2, 2))), kTolerance);
      const at::Tensor rest = parts.slice("part", "remainder").values();
      EXPECT_LT(largest(rest), kTolerance) << "what goes on is known";
      if (each.shows) continue;
      options.grain = Grain::layer;
      const Grid layers = direct_logit_attribution(spliced, run.cache, options);
      const std::string own = each.layer < 0 ? each.module : fmt::format("{} {}", each.module, each.layer);
      const at::Tensor of_module = sum_of(parts, [&](const std::string& label) {
        return label.starts_with(each.module + " ") &&
               (each.layer < 0 || label.ends_with(fmt::format(" {}", each.layer)) ||
                label.find(fmt::format(" {}.", each.layer)) != std::string::npos);
      });
      EXPECT_LT(largest(of_module - layers.slice("part", own).values()), kTolerance);
    }
  }
}

TEST(FeatureParts, AreCodesTimesDirections) {
  const auto model = random_model(double_config());
  const auto tokens = random_tokens(model.config(), {2, 6});
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.place);
    const Dictionary dictionary = dictionary_of(each.config());
    const auto spliced = model.with_dictionary(dictionary, {.with_error = true});
    const auto run = spliced.run_with_cache(tokens, kKept);
    // One position: only its features are listed.
    const Grid parts =
        residual_parts(spliced, run.cache, {.grain = Grain::feature, .positions = {Position(3)}});
    const Address host(each.place);
    const Address point = act::sae_acts_post(host);
    const at::Tensor codes = run.cache[point].select(1, 3);  // [row, feature]
    // What one more of a feature changes at the end of the stream if later layers stay: its direction.
    at::Tensor scale = at::ones({2, 1}, at::kDouble);
    const at::Tensor input = run.cache[act::sae_input(host)].select(1, 3);
    const DictionaryConfig c = dictionary.config();
    if (c.input_norm == InputNorm::layer_norm) scale = input.std(-1, /*unbiased=*/true, /*keepdim=*/true);
    if (c.input_norm == InputNorm::constant_norm)
      scale = input.norm(2, -1, /*keepdim=*/true) / std::sqrt(static_cast<double>(c.d_in));
    at::Tensor directions = dictionary.weights().W_dec;
    if (c.decoder_norms == DecoderNorms::scaled)
      directions = directions / dictionary.decoder_norms().unsqueeze(1);
    const auto weights = model.weights();
    if (each.place.ends_with("hook_z"))
      directions = directions.matmul(c.head ? weights.W_O(1).select(0, 2) : weights.W_O(1).flatten(0, 1));
    if (each.place.ends_with("hook_post")) directions = directions.matmul(weights.W_out(1));
    std::int64_t listed = 0;
    const GridAxis axis = parts.axis("part");
    for (std::size_t i = 0; i < axis.labels.size(); ++i) {
      const std::string& label = axis.labels[i];
      const at::Tensor own = parts.values().select(1, static_cast<std::int64_t>(i)).select(1, 0);
      if (label.find("feature ") != std::string::npos) {
        const auto cut = label.find_last_of(each.layer < 0 ? ' ' : '.');
        const std::int64_t feature = std::stoll(label.substr(cut + 1));
        EXPECT_EQ(label, each.layer < 0 ? fmt::format("embed feature {}", feature)
                                        : fmt::format("{} feature {}.{}", each.module, each.layer, feature));
        EXPECT_EQ(axis.places[i], point.feature(feature));
        const at::Tensor by_hand =
            codes.select(1, feature).unsqueeze(1) * scale * directions.select(0, feature);
        EXPECT_LT(largest(own - by_hand), kTolerance) << label;
        ++listed;
      } else if (label.find(" error") != std::string::npos) {
        at::Tensor error = run.cache[act::sae_error(host)].select(1, 3);
        if (each.place.ends_with("hook_z"))
          error = error.matmul(c.head ? weights.W_O(1).select(0, 2) : weights.W_O(1).flatten(0, 1));
        if (each.place.ends_with("hook_post")) error = error.matmul(weights.W_out(1));
        EXPECT_LT(largest(own - error), kTolerance);
        EXPECT_EQ(axis.places[i], Address(act::sae_error(host)));
      } else if (label.find("skip") != std::string::npos) {
        EXPECT_LT(largest(own - input.matmul(dictionary.weights().W_skip.t())), kTolerance);
      } else if (label.find("decoder bias") != std::string::npos && c.input_norm == InputNorm::none &&
                 !c.basis.centred_writes && each.place.ends_with("_out")) {
        EXPECT_LT(largest(own - dictionary.weights().b_dec), kTolerance);
      }
    }
    EXPECT_EQ(listed, codes.ne(0).any(0).sum().item<std::int64_t>());
  }
}

TEST(FeatureParts, OfTheStreamTakeThePlaceOfEarlierLayers) {
  const auto model = random_model(double_config());
  DictionaryConfig c = config_at("blocks.0.hook_resid_post", 16);
  c.activation = CodeActivation::top_k;
  c.k = 1;
  const auto spliced = model.with_dictionary(dictionary_of(c), {.with_error = true});
  const auto tokens = random_tokens(model.config(), {1, 5});
  const auto run = spliced.run_with_cache(tokens, kKept);
  const auto feature = run.cache[act::sae_acts_post(act::resid_post(0))][0][4].argmax().item<std::int64_t>();
  EXPECT_THAT(residual_parts(spliced, run.cache, {.grain = Grain::feature}).axis("part").labels,
              ElementsAre(fmt::format("resid_post feature 0.{}", feature), "resid_post decoder bias 0",
                          "resid_post error 0", "attn 1", "mlp 1", "remainder"));
  const LogitLens lens = logit_lens(spliced, run.cache, {.tokens = {1}, .parts = Grain::feature});
  for (const char* label : {"resid_post error 0", "attn 1", "mlp 1"})
    EXPECT_THAT(lens.logits.axis("point").labels, Contains(label));
}

TEST(FeatureParts, AreThoseOfScoresAndShares) {
  const auto model = random_model(double_config());
  const auto tokens = random_tokens(model.config(), {2, 5});
  for (const bool with_error : {true, false}) {
    const auto spliced = model.with_dictionary(dictionary_of(config_at("blocks.0.hook_resid_post", 16)),
                                               {.with_error = with_error});
    const auto run = spliced.run_with_cache(tokens, kKept);
    const Address scores = act::attn_scores(1).head(3);
    const Grid parts = score_attribution(
        spliced, run.cache, {.scores = scores, .grain = Grain::feature, .queries = {4}, .keys = {}});
    EXPECT_LT(largest(parts.values().sum({1, 2}).squeeze(1) - run.cache[scores].select(1, 4)), kTolerance);
    const AttributionOptions options{.answer = 1, .grain = Grain::feature};
    const NormShares shares = norm_shares(spliced, run.cache, options);
    EXPECT_LT(largest(shares.length.values().sum(1) - 1.0), kTolerance);
    std::vector<std::string> labels =
        direct_logit_attribution(spliced, run.cache, options).axis("part").labels;
    labels.resize(labels.size() - 2);  // the biases after the stream
    EXPECT_EQ(shares.length.axis("part").labels, labels);
  }
}

TEST(FeatureParts, PassTheNormOfTheOutput) {
  ModelConfig config = double_config();
  config.norm_place = NormPlace::both;
  const auto model = random_model(config);
  const auto tokens = random_tokens(config, {2, 5});
  for (const char* place : {"blocks.1.attn.hook_z", "blocks.1.hook_attn_out", "blocks.0.mlp.hook_post"}) {
    const bool heads = std::string(place).ends_with("hook_z"), post = std::string(place).ends_with("post");
    const auto spliced = model.with_dictionary(dictionary_of(config_at(place, heads ? 24 : post ? 20 : 16)));
    const auto run = spliced.run_with_cache(tokens, kKept);
    const Grid parts =
        direct_logit_attribution(spliced, run.cache, {.answer = 4, .grain = Grain::feature, .positions = {}});
    EXPECT_LT(largest(parts.values().sum(1) - spliced(tokens).select(2, 4)), kTolerance) << place;
    EXPECT_LT(largest(parts.slice("part", "remainder").values()), kTolerance) << place;
  }
}

TEST(FeatureParts, OfACrossLayerTranscoderSayWhichLayerReadThem) {
  const ModelConfig config = double_config();
  const auto model = random_model(config);
  const std::vector<Dictionary> members = random_transcoders(config, {.crosses = true});
  const auto tokens = random_tokens(config, {2, 5});
  for (const bool with_error : {true, false}) {
    const auto spliced = model.with_dictionaries(DictionarySet(members), with_error);
    const auto run = spliced.run_with_cache(tokens, kKept);
    const Grid parts =
        residual_parts(spliced, run.cache, {.grain = Grain::feature, .positions = {Position(2)}});
    EXPECT_LT(largest(parts.slice("part", "remainder").values()), kTolerance);
    const at::Tensor codes = run.cache[act::sae_acts_post(act::mlp_out(0))].select(1, 2);
    const auto feature = codes[0].argmax().item<std::int64_t>();
    const at::Tensor later =
        parts.slice("part", fmt::format("mlp feature 1.{} of layer 0", feature)).values().squeeze(1);
    EXPECT_LT(largest(later - codes.select(1, feature).unsqueeze(1) * members[0].weights().W_dec[feature][1]),
              kTolerance);
    if (!with_error) {
      EXPECT_LT(largest(parts.slice("part", "mlp error 1").values()), kTolerance);
    }
  }
}

TEST(FeatureParts, OfLeftOutTokensAreInTheError) {
  const auto model = random_model(double_config());
  DictionaryConfig c = config_at("blocks.0.hook_mlp_out", 16);
  c.excluded.ids = {4, 9};
  const auto tokens = at::tensor({4, 1, 2, 9, 3, 5}, at::kLong).view({1, 6});
  for (const bool with_error : {true, false}) {
    const auto spliced = model.with_dictionary(dictionary_of(c), {.with_error = with_error});
    const auto run = spliced.run_with_cache(tokens, kKept);
    const Grid parts =
        residual_parts(spliced, run.cache, {.of = act::mlp_out(0), .grain = Grain::feature, .positions = {}});
    const at::Tensor error = parts.slice("part", "mlp error 0").values()[0];
    for (const int pos : {0, 3}) EXPECT_LT(largest(error[pos] - run.cache[act::mlp_out(0)][0][pos]), 1e-15);
    const at::Tensor without_rest = parts.values().sum(1) - parts.slice("part", "remainder").values();
    EXPECT_LT(largest(without_rest - run.cache[act::sae_output(act::mlp_out(0))]), kTolerance);
    // Only left-out tokens: nothing is listed.
    const Grid first = residual_parts(
        spliced, run.cache, {.of = act::mlp_out(0), .grain = Grain::feature, .positions = {Position(0)}});
    EXPECT_THAT(first.axis("part").labels, ElementsAre("mlp decoder bias 0", "mlp error 0", "remainder"));
  }
}

TEST(FeatureParts, HaveWhatEditsMade) {
  const auto model = random_model(double_config());
  const auto spliced =
      model.with_dictionary(dictionary_of(config_at("blocks.0.hook_mlp_out", 16)), {.with_error = true});
  const auto tokens = random_tokens(model.config(), {1, 5});
  const Address features = act::sae_acts_post(act::mlp_out(0));
  const auto run = spliced.run_with_cache(tokens, kKept, {.edits = {set(features.feature(7), 3.0)}});
  const Grid parts = residual_parts(spliced, run.cache, {.grain = Grain::feature});
  EXPECT_LT(largest(parts.slice("part", "remainder").values()), kTolerance);
  EXPECT_LT(largest(parts.slice("part", "mlp feature 0.7").values()[0][0] -
                    3.0 * dictionary_of(config_at("blocks.0.hook_mlp_out", 16)).weights().W_dec[7]),
            kTolerance);
}

TEST(FeatureParts, AreNotListedForPadding) {
  const auto model = random_model(double_config());
  const auto spliced =
      model.with_dictionary(dictionary_of(config_at("blocks.0.hook_mlp_out", 16)), {.with_error = true});
  auto mask = at::ones({2, 6}, at::kLong);
  mask[1].slice(0, 4).zero_();
  const Input input{random_tokens(model.config(), {2, 6}), {.attention_mask = mask}};
  const auto run = spliced.run_with_cache(input, kKept);
  const Grid parts =
      residual_parts(spliced, run.cache, {.of = act::mlp_out(0), .grain = Grain::feature, .positions = {}});
  at::Tensor codes = run.cache[act::sae_acts_post(act::mlp_out(0))].clone();
  codes[1].slice(0, 4).zero_();
  EXPECT_EQ(std::ssize(parts.axis("part").labels) - 3,
            codes.flatten(0, 1).ne(0).any(0).sum().item<std::int64_t>());
}

TEST(FeatureParts, AreRefusedWithoutADictionaryOrItsCodes) {
  const auto model = random_model(double_config());
  const auto tokens = random_tokens(model.config(), {1, 5});
  const AttributionOptions options{.answer = 1, .grain = Grain::feature};
  EXPECT_THROW(direct_logit_attribution(model, model.run_with_cache(tokens).cache, options), HookError);
  const Dictionary dictionary = dictionary_of(config_at("blocks.1.hook_mlp_out", 16));
  const auto with_error = model.with_dictionary(dictionary, {.with_error = true});
  EXPECT_THROW(direct_logit_attribution(with_error, with_error.run_with_cache(tokens).cache, options),
               HookError)
      << "without codes";
  const Selection codes = act::defaults | act::sae_acts_post;
  EXPECT_NO_THROW(
      direct_logit_attribution(with_error, with_error.run_with_cache(tokens, codes).cache, options));
  const auto without = model.with_dictionary(dictionary);
  EXPECT_THROW(direct_logit_attribution(without, without.run_with_cache(tokens, codes).cache, options),
               HookError)
      << "what goes on is not known";
  EXPECT_THROW(residual_parts(with_error, with_error.run_with_cache(tokens, codes).cache,
                              {.of = act::resid_mid(1), .grain = Grain::feature}),
               HookError)
      << "the dictionary is later";
}

}  // namespace
}  // namespace hooked::feature_parts_test
