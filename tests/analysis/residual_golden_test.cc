// The parts of the stream, of logits and of scores add up in every family: over all golden checkpoints, raw
// and processed, in float64.

#include <map>
#include <numeric>

#include "hooked/analysis/attribution.h"
#include "hooked/analysis/norm_geometry.h"
#include "hooked/analysis/residual.h"
#include "hooked/analysis/score_attribution.h"
#include "tests/support/golden_model.h"

namespace hooked::residual_golden_test {
namespace {

constexpr double kTolerance = 1e-10;  // of the largest number

struct Loaded {
  HookedTransformer model;
  Input input;
  RunResult run;
};

Loaded load_and_run(const GoldenCase& golden, bool processed) {
  const auto recorded = read_golden(golden);
  auto model = load_golden(golden, processing_if(processed));
  const Input input{recorded.tokens,
                    {.attention_mask = recorded.attention_mask,
                     .token_types = recorded.token_types,
                     .decoder = {.tokens = recorded.decoder_tokens}}};
  auto run = model.run_with_cache(input, act::everything, {.output = Output::none});
  return {std::move(model), input, std::move(run)};
}

/// The golden prompts, run with every activation kept: once for all tests.
const Loaded& loaded(const GoldenCase& golden, bool processed) {
  static std::map<std::pair<std::string, bool>, Loaded> all;
  const std::pair key(golden.name, processed);
  if (!all.contains(key)) all.emplace(key, load_and_run(golden, processed));
  return all.at(key);
}

/// What is split into parts: points of the stream, outputs of its norms, what sublayers add.
std::vector<ActivationName> taken_apart(const HookedTransformer& model) {
  constexpr Site kSites[] = {Site::resid_pre,
                             Site::resid_mid,
                             Site::cross_attn_in,
                             Site::resid_mid_cross,
                             Site::resid_sum,
                             Site::resid_post,
                             Site::normalized_resid_post,
                             Site::full_embed,
                             Site::embed_ln_normalized,
                             Site::ln1_normalized,
                             Site::ln2_normalized,
                             Site::ln3_normalized,
                             Site::ln_final_normalized,
                             Site::encoder_final_ln_normalized,
                             Site::decoder_final_ln_normalized,
                             Site::attn_out,
                             Site::cross_attn_out,
                             Site::mlp_out};
  std::vector<ActivationName> names;
  for (const auto& name : model.names()) {
    // A norm of the embedding comes before its first part.
    if (name.site == Site::embed_ln_normalized && !model.config().embedding_sum_norm) continue;
    if (std::ranges::find(kSites, name.site) != std::end(kSites)) names.push_back(name);
  }
  return names;
}

/// Whether what is left over is negligible compared with the whole.
testing::AssertionResult adds_up(const Grid& parts) {
  const auto remainder = parts.slice("part", "remainder").values();
  const auto whole = parts.values().sum(1), missing = parts.values().isnan();
  // Padding has no number in any part; elsewhere every part has one.
  if (!missing.any(1).equal(missing.all(1))) {
    return testing::AssertionFailure() << parts.title() << ": some parts alone are not numbers";
  }
  if (largest_number(remainder) <= kTolerance * largest_number(whole)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << parts.title() << ": " << largest_number(remainder)
                                     << " is left over of " << largest_number(whole);
}

class StreamOfGolden : public testing::TestWithParam<GoldenCase> {};

TEST_P(StreamOfGolden, PartsAddUpToEveryPoint) {
  for (const bool processed : {false, true}) {
    const auto& [model, input, run] = loaded(GetParam(), processed);
    for (const auto& of : taken_apart(model)) {
      for (const auto grain : {Grain::layer, Grain::head, Grain::expert, Grain::neuron}) {
        const auto parts = residual_parts(model, run.cache, {.of = of, .grain = grain, .positions = {}});
        EXPECT_TRUE(adds_up(parts)) << (processed ? "processed" : "raw");
        EXPECT_GT(largest_number(parts.values()), 0);
      }
    }
  }
}

TEST_P(StreamOfGolden, PartsAlongDirectionsAreThoseOfTheirVectors) {
  for (const bool processed : {false, true}) {
    const auto& [model, input, run] = loaded(GetParam(), processed);
    const auto d_model = model.config().d_model;
    const auto along = at::arange(2 * d_model, at::kDouble).sin().view({2, d_model});
    for (const auto grain : {Grain::layer, Grain::expert, Grain::neuron}) {
      const auto vectors = residual_parts(model, run.cache, {.grain = grain, .positions = {}});
      const auto read = residual_parts(model, run.cache, {.grain = grain, .along = along, .positions = {}});
      ASSERT_EQ(read.axis("part"), vectors.axis("part"));
      const auto expected = vectors.values().matmul(along.t());  // [row, part, pos, direction]
      EXPECT_LE(largest_number(read.values() - expected),
                kTolerance * std::max(1.0, largest_number(expected)));
      const auto one = residual_parts(model, run.cache, {.grain = grain, .along = along[1], .positions = {}});
      EXPECT_LE(largest_number(one.values() - expected.select(3, 1)),
                kTolerance * std::max(1.0, largest_number(expected)));
    }
  }
}

TEST_P(StreamOfGolden, PaddedRowsAreTheirUnpaddedOnes) {
  const auto model = load_golden(GetParam());
  const auto recorded = read_golden(GetParam());
  constexpr std::int64_t kPadding = 2;
  const auto tokens = recorded.tokens.narrow(0, 0, 1);
  const auto length = tokens.size(1) - kPadding;
  const auto shorter = tokens.narrow(1, 0, length);
  const auto decoder =
      recorded.decoder_tokens.defined() ? recorded.decoder_tokens.narrow(0, 0, 1) : at::Tensor();
  const auto parts = [&](const at::Tensor& ids, const at::Tensor& mask) {
    const auto rows = ids.size(0);
    const auto run = model.run_with_cache(
        {ids,
         {.attention_mask = mask,
          .decoder = {.tokens = decoder.defined() ? decoder.expand({rows, -1}) : decoder}}},
        act::everything, {.output = Output::none});
    return residual_parts(model, run.cache, {.grain = Grain::neuron}).values();  // at each row's last token
  };
  const auto pad = at::full({1, kPadding}, padding_token(GetParam()).value_or(2), at::kLong);
  const auto none = at::zeros({1, kPadding}, at::kLong);
  const auto real = at::ones({1, length}, at::kLong);
  const auto alone = parts(shorter, {}), whole = parts(tokens, {});
  for (const bool left : {true, false}) {
    const auto row = left ? at::cat({pad, shorter}, 1) : at::cat({shorter, pad}, 1);
    const auto mask = left ? at::cat({none, real}, 1) : at::cat({real, none}, 1);
    const auto both = parts(at::cat({tokens, row}), at::cat({at::ones_like(mask), mask}));
    EXPECT_LE(largest_number(both[0] - whole[0]), kTolerance * std::max(1.0, largest_number(whole)));
    EXPECT_LE(largest_number(both[1] - alone[0]), kTolerance * std::max(1.0, largest_number(alone)));
  }
}

TEST_P(StreamOfGolden, PartsOfALogitAddUpToIt) {
  for (const bool processed : {false, true}) {
    const auto& [model, input, run] = loaded(GetParam(), processed);
    const auto& config = model.config();
    if (!config.has_unembedding() || config.has_mlm_head()) {
      EXPECT_THROW(direct_logit_attribution(model, run.cache, {.answer = 1}), HookError);
      continue;
    }
    const auto logits = run.cache[act::unembed_out].select(2, 1) - run.cache[act::unembed_out].select(2, 2);
    for (const auto grain : {Grain::layer, Grain::neuron}) {
      const auto parts = direct_logit_attribution(
          model, run.cache, {.answer = 1, .against = 2, .grain = grain, .positions = {}});
      EXPECT_TRUE(adds_up(parts));
      EXPECT_LE(largest_number(parts.values().sum(1) - logits),
                kTolerance * std::max(1.0, largest_number(logits)));
    }
  }
}

TEST_P(StreamOfGolden, SharesOfTheNormAndOfTheCosineAddUp) {
  for (const bool processed : {false, true}) {
    const auto& [model, input, run] = loaded(GetParam(), processed);
    const auto& config = model.config();
    const AttributionOptions options{.answer = 1, .against = 2, .grain = Grain::expert, .positions = {}};
    if (!config.has_unembedding() || config.has_mlm_head() || config.final_norm == NormKind::none) {
      EXPECT_THROW(norm_shares(model, run.cache, options), HookError);
      continue;
    }
    const auto shares = norm_shares(model, run.cache, options);
    EXPECT_LE(largest_number(shares.length.values().sum(1) - 1.0), kTolerance);
    const auto terms = normed_logit(model, run.cache, options).terms;
    const auto cosine = terms.slice("quantity", "cosine").values();
    EXPECT_LE(largest_number(shares.cosine.values().sum(1) - cosine), kTolerance);
    // And the logit by lengths and a cosine is the run's, before any cap.
    const auto logits = run.cache[act::unembed_out];
    const auto difference = logits.select(-1, 1) - logits.select(-1, 2);  // [row, pos]
    const double size = std::max(1.0, largest_number(difference));
    EXPECT_LE(largest_number(terms.slice("quantity", "logit").values() - difference), kTolerance * size);
    EXPECT_LE(largest_number(terms.slice("quantity", "remainder").values()), kTolerance * size);
  }
}

// With all parts as vectors, which leave_one_out does not compute.
TEST_P(StreamOfGolden, LeavingOneOutIsTheLogitOfTheOthers) {
  const auto& [model, input, run] = loaded(GetParam(), true);
  const auto& config = model.config();
  const AttributionOptions options{.answer = 1, .against = 2, .grain = Grain::neuron, .positions = {}};
  if (!config.has_unembedding() || config.has_mlm_head() || config.final_norm == NormKind::none) {
    EXPECT_THROW(leave_one_out(model, run.cache, options), HookError);
    return;
  }
  const auto probe = normed_logit(model, run.cache, options).probe.unsqueeze(1).unsqueeze(1);
  const auto logit = [&](const at::Tensor& x) {  // of [row, part, pos, d_model]
    const auto read = config.final_norm == NormKind::layer_norm ? x - x.mean(-1, true) : x;
    return (read * probe).sum(-1) / (read.square().mean(-1) + config.eps).sqrt();
  };
  const auto parts = residual_parts(model, run.cache, {.grain = Grain::neuron, .positions = {}});
  const auto whole = parts.values().sum(1, true);
  const auto expected = logit(whole - parts.values()) - logit(whole);
  const auto effects = leave_one_out(model, run.cache, options);
  ASSERT_EQ(effects.exact.axis("part"), parts.axis("part"));
  EXPECT_TRUE(effects.exact.values().isnan().equal(expected.isnan()));
  EXPECT_LE(largest_number(effects.exact.values() - expected),
            kTolerance * std::max(1.0, largest_number(logit(whole))));
  const auto attributed = direct_logit_attribution(model, run.cache, options);
  const auto frozen = attributed.values().narrow(1, 0, expected.size(1));  // after them are biases
  const auto but_remainder = expected.size(1) - 1;
  EXPECT_LE(largest_number((effects.frozen.values() + frozen).narrow(1, 0, but_remainder)),
            kTolerance * std::max(1.0, largest_number(frozen)));
}

TEST_P(StreamOfGolden, SourcesAddUpToTheirHeads) {
  for (const bool processed : {false, true}) {
    const auto& [model, input, run] = loaded(GetParam(), processed);
    if (!model.config().has_unembedding() || model.config().has_mlm_head())
      GTEST_SKIP() << "no linear logits";
    const auto heads =
        direct_logit_attribution(model, run.cache, {.answer = 1, .grain = Grain::head, .positions = {}});
    for (const auto& pattern : {act::pattern, act::cross_pattern}) {
      if (pattern.site == Site::cross_pattern && !model.config().has_encoder()) continue;
      const auto sources =
          source_attribution(model, run.cache, {.answer = 1, .pattern = pattern, .positions = {}});
      for (const auto& label : sources.axis("part").labels) {
        const auto sum = sources.slice("part", label).values().sum(-1);  // [row, pos]
        EXPECT_LE(largest_number(sum - heads.slice("part", label).values()),
                  kTolerance * std::max(1.0, largest_number(sum)))
            << label;
      }
    }
  }
}

/// Whether processing has done a step.
bool has_done(const HookedTransformer& model, ProcessingStep step) {
  const auto& done = model.config().processing;
  return std::ranges::find(done, processing_step_name(step)) != done.end();
}

/// The parts of a logit (difference) with the two final biases, between which folding moves constants, as
/// one.
std::map<std::string, at::Tensor> parts_of(const Loaded& loaded, const AttributionOptions& options) {
  const auto grid = direct_logit_attribution(loaded.model, loaded.run.cache, options);
  std::map<std::string, at::Tensor> parts;
  for (const auto& label : grid.axis("part").labels)
    parts[label] = grid.slice("part", label).values().nan_to_num(0.0);  // padding
  parts["unembed bias"] += parts.at("final norm bias");
  parts.erase("final norm bias");
  return parts;
}

/// Whether it is a head's part, or that of the biases of a layer's heads.
bool is_of_heads(const std::string& label) {
  return label.find("head ") != std::string::npos || label.find("attn bias ") != std::string::npos;
}

/// Whether neurons have a part that is the same for every token: the bias of their norm, or one that
/// is added to them.
bool neurons_have_constants(const ModelConfig& config) {
  return (config.mlp_norm && !config.norm_folded) || config.gated_bias_after_product;
}

/// How far apart parts of the same names are.
double apart(const std::map<std::string, at::Tensor>& some, const std::map<std::string, at::Tensor>& others) {
  EXPECT_EQ(some.size(), others.size());
  double most = 0;
  for (const auto& [label, values] : some) most = std::max(most, largest_number(values - others.at(label)));
  return most;
}

// Processing moves only constants: those of the final norm, and those of values, which fold_value_biases
// takes from heads to the attention's bias. There ValueBiases::in_bias has them with either weights.
TEST_P(StreamOfGolden, RawAndProcessedWeightsGiveTheSameParts) {
  const auto &raw = loaded(GetParam(), false), &processed = loaded(GetParam(), true);
  const auto& config = raw.model.config();
  if (!config.has_unembedding() || config.has_mlm_head()) GTEST_SKIP() << "no linear logits";
  const bool folds_values = has_done(processed.model, ProcessingStep::fold_value_biases);
  for (const auto grain : {Grain::layer, Grain::head, Grain::neuron}) {
    AttributionOptions options{.answer = 1, .against = 2, .grain = grain, .positions = {}};
    if (folds_values) options.value_biases = ValueBiases::in_bias;
    const auto of_processed = parts_of(processed, options);
    double size = 1.0;
    for (const auto& [label, values] : of_processed) size = std::max(size, largest_number(values));
    if (grain == Grain::neuron && neurons_have_constants(config) &&
        !neurons_have_constants(processed.model.config())) {
      EXPECT_GT(apart(parts_of(raw, options), of_processed), 1e-6);  // they are in the MLP's bias then
      continue;
    }
    EXPECT_LE(apart(parts_of(raw, options), of_processed), kTolerance * size);
    if (folds_values) {
      auto in_heads = options;
      in_heads.value_biases = ValueBiases::in_heads;
      // Folded weights have nothing constant left in their heads.
      const auto folded = parts_of(processed, in_heads);
      if (has_done(processed.model, ProcessingStep::fold_ln)) {
        EXPECT_LE(apart(folded, of_processed), kTolerance * size);
      }
      // Raw ones may have one: then heads and their attention's bias differ, which a layer has as one part.
      for (const auto& [label, values] : parts_of(raw, in_heads)) {
        if (is_of_heads(label)) continue;
        EXPECT_LE(largest_number(values - of_processed.at(label)), kTolerance * size) << label;
      }
    }
    // For a single logit center_unembed subtracts the mean over the vocabulary from every part.
    options.against = std::nullopt;
    const auto of_one_logit = parts_of(processed, options);
    if (has_done(processed.model, ProcessingStep::center_unembed) &&
        !has_done(raw.model, ProcessingStep::center_unembed)) {
      EXPECT_GT(apart(parts_of(raw, options), of_one_logit), 1e-6);
      std::vector<std::int64_t> vocabulary(static_cast<std::size_t>(config.d_vocab_out()));
      std::iota(vocabulary.begin(), vocabulary.end(), 0);
      options.against = Answers::any_of(vocabulary);
    }
    EXPECT_LE(apart(parts_of(raw, options), of_one_logit), kTolerance * size);
  }
}

/// Every head's scores, of every stack and between two.
std::vector<Address> scores_of_heads(const HookedTransformer& model) {
  std::vector<Address> scores;
  for (const auto& name : model.names()) {
    if (name.site != Site::attn_scores && name.site != Site::cross_attn_scores) continue;
    for (std::int64_t head = 0; head < model.config().n_heads; ++head)
      scores.push_back(Address(name).head(head));
  }
  return scores;
}

/// The run's values for the sums of the parts of a head's scores, [row, query, key], NaN for padding.
at::Tensor scores_of(const Grid& grid, const ModelConfig& config) {
  auto products = grid.values().sum({1, 2});
  const auto& parts = grid.axis("query_part").labels;
  at::Tensor bias;
  if (const auto part = std::ranges::find(parts, "position bias"); part != parts.end()) {
    bias = grid.values().select(1, part - parts.begin()).sum(1);
    products = products - bias;
  }
  if (const double cap = config.score_soft_cap; cap > 0) products = (products / cap).tanh() * cap;
  return bias.defined() ? products + bias : products;
}

TEST_P(StreamOfGolden, PartsOfAScoreAddUpToIt) {
  for (const bool processed : {false, true}) {
    const auto& [model, input, run] = loaded(GetParam(), processed);
    const auto& config = model.config();
    for (const auto& scores : scores_of_heads(model)) {
      // Parts by head for one of them: the sums of parts are checked elsewhere.
      const bool is_last = scores == Address(scores.name()).head(config.n_heads - 1);
      const ScoreAttributionOptions options{
          .scores = scores, .grain = is_last ? Grain::head : Grain::layer, .queries = {}, .keys = {}};
      const ActivationName& name = scores.name();
      if (config.qkv_clip > 0 || (name.stack != Stack::encoder && config.shares_keys(name.layer))) {
        EXPECT_THROW(score_attribution(model, run.cache, options), HookError);
        continue;
      }
      SCOPED_TRACE(scores.to_string() + (processed ? ", processed" : ", raw"));
      const auto grid = score_attribution(model, run.cache, options);
      EXPECT_LE(largest_number(grid.slice("query_part", "remainder").values()),
                kTolerance * largest_number(grid.values()));
      EXPECT_LE(largest_number(grid.slice("key_part", "remainder").values()),
                kTolerance * largest_number(grid.values()));
      const auto shown = run.cache[scores];  // [row, query, key]
      const auto sums = scores_of(grid, config);
      const auto seen = shown.isinf().logical_not().logical_and(sums.isnan().logical_not());
      EXPECT_GT(seen.sum().item<std::int64_t>(), 0);
      EXPECT_GT(largest_number(shown.masked_select(seen)), 1e-3);
      EXPECT_LE(largest_number((sums - shown).masked_select(seen)),
                kTolerance * largest_number(grid.values()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, StreamOfGolden, testing::ValuesIn(golden_cases()), golden_test_name);

}  // namespace
}  // namespace hooked::residual_golden_test
